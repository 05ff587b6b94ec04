"""What several commands ask the client: which executions are meant, who knows a program, how one ends."""

from __future__ import annotations

import sys
from collections.abc import Container, Iterable, Iterator
from typing import Any

import click

from perdure.async_client import AsyncClient
from perdure.cli import exits, words
from perdure.cli.complaints import complaint_lines, name
from perdure.cli.exits import Exit, Outcome
from perdure.cli.settings import Settings
from perdure.client import Client, Handle, Listed, Status
from perdure.core.errors import BadValue, Timeout
from perdure.core.paths import Key
from perdure.core.program import program_name, shown
from perdure.runtime.endings import ENDED
from perdure.stores.looking import Looking


def one(client: Client, settings: Settings, text: str) -> Handle[Any]:
    """The execution that `text` means."""
    return client.get(client.find(only(text), tenant=settings.tenant))


async def keys(looking: Looking, settings: Settings, given: Iterable[str]) -> list[Key]:
    """The executions that are meant, in a store that is only looked at."""
    client = AsyncClient(looking)  # type: ignore[arg-type]  # finding only looks
    return [await client.find(text, tenant=settings.tenant) for text in texts(given)]


def known(client: Client) -> set[str]:
    """The programs that living engines know."""
    return {program for engine in client.engines() if engine.alive for program in engine.programs}


def unknown(one: Status | Listed, programs: Container[str]) -> str | None:
    """The program of an execution that will not go on, because none of `programs` is its own."""
    program = program_name(one.key.workflow, one.workflow_version)
    return None if one.status in ENDED or program in programs else shown(program)


def waited(handle: Handle[Any], timeout: str | None = None) -> Any:
    """The result of an execution, once it has ended; if it has not by then, the command ends with why it waits."""
    try:
        return handle.result(timeout=timeout)
    except Timeout as late:
        raise not_ended(handle.status()) from late
    except KeyboardInterrupt:
        click.echo(f"perdure: {complaint_lines(f'{name(handle.key)} goes on', f'perdure result --wait {name(handle.key)} waits for it')}", err=True)
        raise


def not_ended(status: Status) -> Outcome:
    """What is said of an execution whose result was asked for, and is not there."""
    shown = name(status.key)
    if status.decided:
        return Outcome(Exit.WAITS, complaint_lines(f"{shown} has not ended: {status.why}", "perdure worker starts an engine"))
    what_to_do = _WHAT_TO_DO.get(status.status, "perdure result --wait {} waits for its end").format(shown)
    word = status.status.replace("_", " ")
    why = status.why if status.why.startswith(word) else f"{word}: {status.why}"
    return Outcome(exits.of_status(status.status), complaint_lines(f"{shown} is {why}", what_to_do))


_WHAT_TO_DO = {
    "paused": "perdure resume {} lets it go on",
    "waiting_approval": "perdure approvals lists what is asked, perdure approve {0} or perdure reject {0} decides",
}


def only(text: str) -> str:
    """The id that is given, or that standard input has in place of ``-``."""
    chosen = list(texts([text]))
    if len(chosen) != 1:
        raise BadValue("standard input", words.count(len(chosen), "id"), "one id; this command is about one execution")
    return chosen[0]


def texts(given: Iterable[str]) -> Iterator[str]:
    """The ids that are given, those from standard input in place of ``-``."""
    for text in given:
        if text == "-":
            yield from (line.rstrip("\r\n") for line in sys.stdin if line.strip())
        else:
            yield text
