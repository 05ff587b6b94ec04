"""Finds, for several commands, which executions an argument names, which programs engines know, and how an execution ends."""

from __future__ import annotations

import sys
from collections.abc import Container, Iterable, Iterator
from typing import Any

import click

from perdure.async_client import AsyncClient
from perdure.cli import exit_codes, terminal_text
from perdure.cli.execution_views import claimed_program
from perdure.cli.exit_codes import CommandExit, ExitCode
from perdure.cli.shared_options import GlobalOptions
from perdure.cli.terminal_text import execution_name, safe_lines
from perdure.core.errors import BadValue, Timeout
from perdure.core.paths import Key
from perdure.core.program import program_text
from perdure.runtime.execution_results import ENDED_STATUSES
from perdure.stores.protocol import ReadOnlyStore
from perdure.sync_client import Client, ExecutionStatus, Handle, ListedExecution


def handle_of(client: Client, settings: GlobalOptions, text: str) -> Handle[Any]:
    """The handle of the execution that `text` names."""
    return client.get(client.find(single_id(text), tenant=settings.tenant))


async def execution_keys(store: ReadOnlyStore, settings: GlobalOptions, given: Iterable[str]) -> list[Key]:
    """The keys of the named executions, in a read-only store."""
    client = AsyncClient(store)  # type: ignore[arg-type]  # finding only reads
    return [await client.find(text, tenant=settings.tenant) for text in ids_of(given)]


def known_programs(client: Client) -> set[str]:
    """The programs that living engines know."""
    return {program for engine in client.engines() if engine.alive for program in engine.programs}


def unknown_program(one: ExecutionStatus | ListedExecution, programs: Container[str]) -> str | None:
    """The program of an execution that can't continue because `programs` does not contain it; None if it can."""
    program = claimed_program(one)
    return None if one.status in ENDED_STATUSES or program in programs else program_text(program)


def wait_for_result(handle: Handle[Any], timeout: str | None = None) -> Any:
    """The result of an execution after its end; after a timeout, the command ends with what the execution waits for."""
    try:
        return handle.result(timeout=timeout)
    except Timeout as late:
        raise not_ended(handle.status()) from late
    except KeyboardInterrupt:
        click.echo(
            f"perdure: {safe_lines(f'{execution_name(handle.key)} continues', f'perdure result --wait {execution_name(handle.key)} waits for it')}", err=True
        )
        raise


def not_ended(status: ExecutionStatus) -> CommandExit:
    """The exit of a command that asked for the result of an execution that has not ended."""
    shown = execution_name(status.key)
    if status.decided:
        return CommandExit(ExitCode.WAITS, safe_lines(f"{shown} has not ended: {status.why}", "perdure worker starts an engine"))
    what_to_do = _WHAT_TO_DO.get(status.status, "perdure result --wait {} waits for its end").format(shown)
    word = status.status.replace("_", " ")
    why = status.why if status.why.startswith(word) else f"{word}: {status.why}"
    return CommandExit(exit_codes.exit_code_of_status(status.status), safe_lines(f"{shown} is {why}", what_to_do))


_WHAT_TO_DO = {
    "pending": "an engine that has the workflow begins it: perdure worker FILE.py; perdure result --wait {} waits for its end",
    "paused": "perdure resume {} resumes it",
    "waiting_approval": "perdure approvals shows the question, perdure approve {0} or perdure reject {0} decides",
}


def single_id(text: str) -> str:
    """The given id, or the one on standard input in place of ``-``."""
    chosen = list(ids_of([text]))
    if len(chosen) != 1:
        raise BadValue("standard input", terminal_text.count(len(chosen), "id"), "one id; this command is about one execution")
    return chosen[0]


def ids_of(given: Iterable[str]) -> Iterator[str]:
    """The given ids; ``-`` stands for those on standard input."""
    for text in given:
        if text == "-":
            yield from (line.rstrip("\r\n") for line in sys.stdin if line.strip())
        else:
            yield text
