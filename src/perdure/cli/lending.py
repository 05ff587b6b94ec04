"""Lending: the options by which a worker process gives the tasks of its queues to programs in any language, instead of doing them itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.settings import F

if TYPE_CHECKING:
    from perdure.runtime.lending import Lender
    from perdure.runtime.secrets import Secrets
    from perdure.runtime.serve import Member
    from perdure.stores.base import Store

WAYS = {"listen": "--listen", "exec_": "--exec", "each": "--each"}


def options(command: F) -> F:
    """How tasks are given to others."""
    said = "With --exec or --each: a variable that the program has, too (NAME: as it is here, NAME=VALUE)."
    command = click.option("--env", "env", multiple=True, metavar="NAME", help=said)(command)
    said = "With --each: how many at a time; else as many as there are processors."
    command = click.option("--concurrency", type=click.IntRange(1, 10_000), metavar="N", help=said)(command)
    said = "Do the tasks of the queues with a process for each: it reads PERDURE_TASK_FILE, and writes PERDURE_RESULT_FILE."
    command = click.option("--each", metavar="COMMAND", help=said)(command)
    said = "Have one program do the tasks of the queues, which speaks JSON lines on its input and output."
    command = click.option("--exec", "exec_", metavar="COMMAND", help=said)(command)
    said = "With --listen: one token, or the SHA-256 of several with what each opens; else PERDURE_WORKER_TOKEN."
    command = click.option("--token-file", metavar="FILE", help=said)(command)
    said = "Lend the tasks of the queues over HTTP, to workers in any language (127.0.0.1:7800)."
    return click.option("--listen", metavar="HOST:PORT", help=said)(command)


class Lending:
    """What lends the tasks of some queues in this process, once its store is open."""

    def __init__(self, make: Callable[[Lender], Member], queues: tuple[str, ...], to: str) -> None:
        self._make, self._queues, self._to = make, queues, to
        self._member: Member | None = None

    def __call__(self, store: Store, secrets: Secrets | None) -> Member:
        """It, on a store, with what finds secrets."""
        from perdure.runtime.lending import Lender

        self._member = self._make(Lender(store, self._queues, threaded=True, secrets=secrets))
        return self._member

    def __str__(self) -> str:
        """What it lends, and where or to whom."""
        to = self._to or f"at {getattr(self._member, 'address', '')}"
        return f"tasks of {', '.join(self._queues)} are lent {to}"


def lends(queues: tuple[str, ...], given: Mapping[str, Any]) -> Lending | None:
    """What the options say; None, if they say nothing of that.

    Raises:
        UsageError: they don't fit together.
        BadValue: one of them can't be understood.
    """
    named = [flag for name, flag in WAYS.items() if given[name] is not None]
    for name, flag, among in (("token_file", "--token-file", ("listen",)), ("concurrency", "--concurrency", ("each",)), ("env", "--env", ("exec_", "each"))):
        if given[name] and not any(given[one] for one in among):
            raise click.UsageError(f"{flag} says something of {' and '.join(WAYS[one] for one in among)}")
    if not named:
        return None
    if len(named) > 1:
        raise click.UsageError(f"{' and '.join(named)} are two ways; give each a process of its own")
    if not queues:
        raise click.UsageError(f"{named[0]} gives the tasks of queues to others: name them with --queue")
    return _lending(queues, given)


def _lending(queues: tuple[str, ...], given: Mapping[str, Any]) -> Lending:
    from perdure.tasks.access import access
    from perdure.tasks.children import environment, words
    from perdure.tasks.each import Each
    from perdure.tasks.endpoint import Endpoint, place
    from perdure.tasks.pipes import Piped

    if given["listen"] is not None:
        host, port = place(given["listen"])
        known = access(None if given["token_file"] is None else Path(given["token_file"]))
        return Lending(lambda lender: Endpoint(lender, known, host, port), queues, "")
    variables = environment(given["env"])
    if given["exec_"] is not None:
        command = words(given["exec_"], "--exec")
        return Lending(lambda lender: Piped(lender, command, variables), queues, f"to {given['exec_']}")
    command, concurrency = words(given["each"], "--each"), given["concurrency"] or os.cpu_count() or 1
    return Lending(lambda lender: Each(lender, command, variables, concurrency), queues, f"to {given['each']}, {concurrency} at a time")
