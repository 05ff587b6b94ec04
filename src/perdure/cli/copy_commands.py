"""The commands that copy, move and compare databases: `db copy`, `db compare`."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

import click

from perdure.cli.exit_codes import CommandExit, ExitCode
from perdure.cli.root_command import CliCommand
from perdure.cli.shared_options import GlobalOptions, json_option

if TYPE_CHECKING:
    from perdure.service.store_comparison import ComparedCounts, StoreComparison, StoreDifference
    from perdure.service.store_moves import MovedStore, MoveReport

DRAIN_S = 60.0
"""How long engines of FROM may take to end what they have begun, by default."""

SHOWN_DIFFERENCES_MAX = 20


class _Request(NamedTuple):
    """What `db copy` is asked for."""

    how: str
    drain_s: float


@click.command("copy", cls=CliCommand)
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@click.option("--switch", "how", flag_value="switch", help="Move: stop engines of FROM, copy and verify the rest, and put TO into use in place of FROM.")
@click.option("--independent", "how", flag_value="independent", help="Put TO into use while FROM goes on: executions in progress go on in both.")
@click.option("--undo", "how", flag_value="undo", help="Take a move back that has not been completed: go on with FROM, and forget the copy's position.")
@click.option("--drain", "drain_s", metavar="SECONDS", type=click.FloatRange(min=0), default=DRAIN_S, help="How long engines of FROM may take to end (60).")
@json_option
@click.pass_obj
def copy(_: GlobalOptions, /, source: str, target: str, how: str | None, drain_s: float, *, as_json: bool) -> None:
    """Copy all that the database FROM has into the empty database TO, and move to it. Both are URLs, such as sqlite:///path/to/file.db.

    The store for Redis is experimental, and no other command opens it: redis://host:6379/0.

    Engines go on with FROM, and TO refuses work. Run it as often as you like: it copies what has changed since. Interrupted, it goes on where it was.

    Then run it with --switch. Engines and workers of FROM end what they have begun and stop, and nothing can change FROM any more. The rest is copied, and
    everything is verified: logs are folded, and all else is compared. TO is then in use, in a new epoch, and FROM names it to whoever still wants to change it.
    If anything differs, TO is not put into use, and FROM goes on.
    """
    import asyncio

    from perdure.cli import output

    report = asyncio.run(_copied(source, target, _Request(how or "copy", drain_s)))
    names = _names(source, target)
    if as_json and report is not None:
        fields = {name: value for name, value in output.as_data(report).items() if name != "copied"}
        click.echo(output.indented_json({**output.as_data(report.copied), **fields, "from": names[0], "to": names[1]}))
    elif report is None:
        click.echo(f"{names[0]} is in use, and {names[1]} is a copy that refuses work")
    else:
        _print_report(report, names, how or "copy")
    if report is not None and report.differences:
        raise CommandExit(ExitCode.FINDINGS, f"{names[1]} differs from {names[0]}, which goes on; delete what {names[1]} has, and copy again")


@click.command("compare", cls=CliCommand)
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@json_option
@click.pass_obj
def compare(_: GlobalOptions, /, first: str, second: str, *, as_json: bool) -> None:
    """Compare all that two databases have: logs, which are folded, messages, large values, records, limits of queues, secrets.

    Stop engines on both before: what they change meanwhile is shown as a difference. The exit code is 11 if anything differs.
    """
    import asyncio

    from perdure.cli import output

    found = asyncio.run(_compared(first, second))
    names = _names(first, second)
    if as_json:
        click.echo(output.indented_json({**output.as_data(found), "a": names[0], "b": names[1]}))
    else:
        click.echo(f"A is {names[0]}, B is {names[1]}")
        click.echo(f"compared {_compared_text(found.counts)} in {found.seconds:.1f} s")
        _print_differences(found.differences)
    if found.differences:
        raise CommandExit(ExitCode.FINDINGS)
    if not as_json:
        click.echo("both have the same")


def _names(*urls: str) -> list[str]:
    from perdure.stores.configured_store import database_file, shown_url

    return [f"sqlite:///{file}" if (file := database_file(url)) is not None else shown_url(url) for url in urls]


def _print_report(report: MoveReport, names: Sequence[str], how: str) -> None:
    from perdure.cli import terminal_text

    source, target = names
    done = report.copied
    parts = (
        *((done.executions, "execution"), (done.rows, "log row"), (done.messages, "message"), (done.blobs, "large value")),
        *((done.records, "record"), (done.secrets, "secret")),
    )
    click.echo(f"copied {', '.join(terminal_text.count(number, what) for number, what in parts)} from {source} to {target}")
    if abs(report.clock_ahead_s) >= 1:
        where = "ahead of" if report.clock_ahead_s > 0 else "behind"
        click.echo(f"the clock of TO is {abs(report.clock_ahead_s):.1f} s {where} that of FROM, and timers follow the clock of the database", err=True)
    if report.verified is not None:
        click.echo(f"verified {_compared_text(report.verified)}")
    if report.interrupted:
        click.echo(f"these had not ended, so what they had begun is attempted again: {', '.join(report.interrupted)}", err=True)
    _print_differences(report.differences)
    if report.differences:
        return
    if report.switched:
        click.echo(f"engines took {report.drained_s:.1f} s to end; for {report.closed_s:.2f} s nothing could change")
        click.echo(f"{target} is in use, in a new epoch; start engines and workers there. {source} refuses changes")
    elif how == "independent":
        click.echo(f"{target} is in use, in a new epoch; {source} goes on as well")
    else:
        click.echo(f"{target} refuses work until you move to it: perdure db copy FROM TO --switch")


def _compared_text(counts: ComparedCounts) -> str:
    from perdure.cli import terminal_text

    folded = f"{terminal_text.count(counts.executions, 'execution')} ({counts.folded:,} folded from {terminal_text.count(counts.events, 'event')}"
    folded += f", {counts.sealed:,} encrypted and compared as bytes" if counts.sealed else ""
    folded += f", {counts.unreadable:,} unreadable in both" if counts.unreadable else ""
    parts = ((counts.messages, "message"), (counts.blobs, "large value"), (counts.records, "record"))
    return ", ".join((f"{folded})", *(terminal_text.count(number, what) for number, what in parts)))


def _print_differences(found: Sequence[StoreDifference]) -> None:
    for one in found[:SHOWN_DIFFERENCES_MAX]:
        click.echo(f"{one.kind} {one.name}: {one.why}")
    if len(found) > SHOWN_DIFFERENCES_MAX:
        click.echo(f"and {len(found) - SHOWN_DIFFERENCES_MAX:,} more")


async def _copied(source: str, target: str, request: _Request) -> MoveReport | None:
    from perdure.cli import terminal
    from perdure.service.store_copies import copy_store
    from perdure.service.store_moves import MoveProgress, MoveReport, StoreMover
    from perdure.stores.configured_store import configured_codec
    from perdure.stores.move_mark import MOVE_MARK

    async with _both_opened(source, target, create=True) as (of, into):
        with terminal.progress_counter(sys.maxsize) as count:
            if request.how == "independent" and None in (of.store.part(MOVE_MARK), into.store.part(MOVE_MARK)):
                return MoveReport(await copy_store(of.store, into.store, of.name, count), False, 0.0)
            mover = StoreMover(of, into, configured_codec(), MoveProgress(count, lambda sentence: click.echo(sentence, err=True)))
            match request.how:
                case "switch":
                    return await mover.switch(request.drain_s)
                case "independent":
                    return await mover.clone()
                case "undo":
                    await mover.undo()
                    return None
                case _:
                    return await mover.copy()


async def _compared(first: str, second: str) -> StoreComparison:
    from perdure.cli import terminal
    from perdure.service.store_comparison import StoreComparer, compare_stores
    from perdure.stores.configured_store import configured_codec

    async with _both_opened(first, second, create=False) as (one, other):
        with terminal.progress_counter(sys.maxsize) as count:
            comparer = StoreComparer(one.store, other.store, ("A", "B"), configured_codec())
            return await compare_stores(comparer, one.store, other.store, count)


@asynccontextmanager
async def _both_opened(source: str, target: str, *, create: bool) -> AsyncIterator[tuple[MovedStore, MovedStore]]:
    """Opens two databases. The first one must be there, and with `create` the second one need not."""
    from perdure.service.store_moves import MovedStore
    from perdure.stores.configured_store import database_file, open_store_to_copy

    file, copy = database_file(source), database_file(target)
    for one in (file, None if create else copy):
        if one is not None and not one.exists():
            raise CommandExit(ExitCode.INPUT, f"there is no file {one}; name the database that is to be {'copied' if create else 'compared'}")
    if source == target or (file is not None and file == copy):
        raise CommandExit(ExitCode.INPUT, f"{source} and {target} are the same database; name another one")
    names = _names(source, target)
    opened = open_store_to_copy(source)
    try:
        into = open_store_to_copy(target)
        try:
            yield MovedStore(opened, names[0]), MovedStore(into, names[1])
        finally:
            await into.close()
    finally:
        await opened.close()
