"""The commands that look at executions and change nothing: `ls`, `show`, `events`, `logs`, `result`, `query`, `stream`, `engines`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.exits import Exit, Outcome
from perdure.cli.root import Command
from perdure.cli.settings import Settings, format_option, id_argument, json_option, value_format, where_option

if TYPE_CHECKING:
    from perdure.client import Client, Emitted, Handle, Listed, PublicEvent
    from perdure.core.errors import ErrorInfo

ENDED_S = 5.0
"""How long it may take to read the error of an execution that has failed."""

follow_option = click.option("--follow", "-f", is_flag=True, help="Go on with what comes, until it has ended.")
after_option = click.option("--after", default=0, metavar="N", help="Only what comes after this number.")


@click.command("ls", cls=Command)
@click.option("--workflow", metavar="NAME", help="Only those of this workflow.")
@click.option(
    "--status",
    metavar="STATUS,...",
    help="Only those in one of these: pending, running, waiting, waiting_approval, paused, needs_attention, ending, undoing, completed, failed, cancelled.",
)
@click.option("--prefix", default="", metavar="TEXT", help="Only those whose id begins like this.")
@click.option("--since", metavar="TIME", help="Only those created in the last 30s, 1h, 2d.")
@where_option("Only those that are found")
@click.option("--limit", default=100, show_default=True, type=click.IntRange(1), help="How many at most, the newest.")
@click.option("--all", "internal", is_flag=True, help="Also Perdure's own, such as those of approvals.")
@click.option("-q", "--quiet", is_flag=True, help="Only ids: as -o ids.")
@click.option("--watch", is_flag=True, help="Go on showing them as they change.")
@format_option()
@click.pass_obj
def ls(settings: Settings, /, *, quiet: bool, watch: bool, format: str, **which: Any) -> None:
    """List executions, the newest first."""
    from perdure.cli import output, render_lists, watching
    from perdure.cli.asking import known
    from perdure.cli.complaints import name

    format = "ids" if quiet else format
    with settings.client() as client:

        def ask() -> list[Listed]:
            return _listed(client, settings, which)

        if watch:
            watching.executions(client, ask, format)
        listed = ask()
        output.listing(
            format,
            (name(one.key) for one in listed),
            listed,
            lambda: render_lists.executions(listed, known(client), time.time()),
        )


def _listed(client: Client, settings: Settings, which: Mapping[str, Any]) -> list[Listed]:
    from perdure.core.where import parsed

    statuses = None if which["status"] is None else [name.strip() for name in which["status"].split(",")]
    return client.list(
        workflow=which["workflow"],
        status=statuses,
        id_prefix=which["prefix"],
        since=which["since"],
        where=parsed(which["where"]),
        internal=which["internal"],
        limit=which["limit"],
        tenant=settings.tenant,
    )


@click.command("show", cls=Command)
@id_argument
@click.option("--watch", is_flag=True, help="Go on showing it as it goes on, until it has ended.")
@click.option("--tokens", is_flag=True, help="Of a definition: the counter, open steps, joins that wait, applied keys, outputs.")
@click.option("--at", "number", type=click.IntRange(1), metavar="N", help="With --tokens: as they were after event N of its log.")
@json_option
@format_option()
@click.pass_obj
def show(settings: Settings, /, *, id: str, watch: bool, tokens: bool, number: int | None, as_json: bool, format: str) -> None:
    """Show how an execution stands, why it waits, and its steps as a tree."""
    import threading

    from perdure.cli import asking, graphing, output, render_lists, render_steps, watching
    from perdure.cli.complaints import name
    from perdure.cli.screen import screen

    format = "json" if as_json else format
    if (number is not None and not tokens) or (tokens and watch):
        raise click.UsageError("--at goes with --tokens, and --watch without")
    with settings.client() as client:
        handle = asking.one(client, settings, id)
        if tokens:
            graphing.show_tokens(settings, handle.key, number, format)
            return
        if watch:
            watching.execution(client, handle, threading.Event(), partial(graphing.told_of, settings), format)
            return
        seen, status, now_s = screen(), handle.status(), time.time()
        if format == "table":
            told = graphing.told_of(settings, status)
            output.show_lines(render_lists.head(status, asking.known(client), now_s, told.definition), seen)
            output.show_tree(render_steps.nodes(handle.steps(), now_s, seen.unicode, told.captions), seen)
        elif format == "ids":
            click.echo(name(status.key))
        else:
            whole = {**output.data(status), "steps": [output.data(step) for step in handle.steps()]}
            click.echo(output.document(whole) if format == "json" else output.compact(whole))


@click.command("events", cls=Command)
@id_argument
@follow_option
@after_option
@format_option()
@click.pass_obj
def events(settings: Settings, /, *, id: str, follow: bool, after: int, format: str) -> None:
    """Print what has happened to an execution, an event a line."""
    from perdure.cli import asking, output, render_events

    with settings.client() as client:
        found = asking.one(client, settings, id).events(after=after, follow=follow)
        output.growing(format, found, output.printer(format, lambda event: event.id, lambda event: [render_events.cells(event)]), follow)


@click.command("logs", cls=Command)
@id_argument
@follow_option
@format_option()
@click.pass_obj
def logs(settings: Settings, /, *, id: str, follow: bool, format: str) -> None:
    """Tell the story of an execution: its events, with the errors and tracebacks of what failed.

    What a workflow says with ctx.log is not in here: it goes to the log of the process that runs it (perdure worker writes that to standard error).
    """
    from perdure.cli import asking, output, render_events

    with settings.client() as client:
        handle = asking.one(client, settings, id)
        errors = _errors_of(handle)
        print_one: Callable[[PublicEvent], None] = output.printer(format, lambda event: event.id, lambda event: render_events.story(event, errors))
        output.growing(format, handle.events(follow=follow), print_one, follow)


def _errors_of(handle: Handle[Any]) -> Callable[[str], ErrorInfo | None]:
    """What went wrong, by path (the execution's own error: the empty path); asked for when something unknown is looked up."""
    from perdure.core.errors import ExecutionFailed, Timeout

    known: dict[str, ErrorInfo] = {}

    def look_up(path: str) -> ErrorInfo | None:
        if path not in known:
            known.update((step.path, step.error) for step in handle.steps() if step.error is not None)
        if path == "" and path not in known:
            try:
                handle.result(timeout=ENDED_S)
            except ExecutionFailed as failed:
                known[path] = failed.error
            except Timeout:  # it has been reopened since
                return None
        return known.get(path)

    return look_up


@click.command("result", cls=Command)
@id_argument
@click.option("--wait", is_flag=True, help="Wait for its end.")
@click.option("--timeout", metavar="TIME", help="How long to wait at most.")
@value_format
@click.pass_obj
def result(settings: Settings, /, *, id: str, wait: bool, timeout: str | None, format: str) -> None:
    """Print what an execution has returned.

    If it has not ended, or not well, the exit code says how it stands.
    """
    from perdure.cli import asking, exits, output

    with settings.client() as client:
        handle = asking.one(client, settings, id)
        waits, looks = (Exit.WAITS, Exit.APPROVAL), not wait and timeout is None
        if looks and exits.of_status(handle.summary().status) in waits and exits.of_status((status := handle.status()).status) in waits:
            raise asking.not_ended(status)
        output.value(asking.waited(handle, timeout), format)


@click.command("query", cls=Command)
@id_argument
@click.argument("key", required=False)
@value_format
@click.pass_obj
def query(settings: Settings, /, *, id: str, key: str | None, format: str) -> None:
    """Print what a workflow has set with ctx.set: the value of KEY, or all of it."""
    from perdure.cli import asking, output
    from perdure.cli.complaints import name

    nothing = object()
    with settings.client() as client:
        handle = asking.one(client, settings, id)
        found = handle.query(key, nothing)
        if found is nothing:
            raise Outcome(Exit.INPUT, f"it has set nothing called {key}\nperdure query {name(handle.key)} shows what it has set")
        output.value(found, format)


@click.command("stream", cls=Command)
@id_argument
@follow_option
@after_option
@format_option()
@click.pass_obj
def stream(settings: Settings, /, *, id: str, follow: bool, after: int, format: str) -> None:
    """Print the values that a workflow emits with ctx.emit, one a line."""
    from perdure.cli import asking, output
    from perdure.cli.render import Cell, cell

    def text(value: Any) -> str:
        return value if isinstance(value, str) else output.compact(value)

    with settings.client() as client:
        found = asking.one(client, settings, id).stream(after=after, follow=follow)
        print_one: Callable[[Emitted], None] = output.printer(
            format, lambda one: one.number, lambda one: [(Cell(f"{one.number:>5}", "dim"), cell(text(one.value)))]
        )
        output.growing(format, found, print_one, follow)


@click.command("engines", cls=Command)
@format_option()
@click.pass_obj
def engines(settings: Settings, /, *, format: str) -> None:
    """List the engines and workers of this database, and what they know."""
    from perdure.cli import output, render_lists

    with settings.client() as client:
        found = client.engines()
        output.listing(format, (one.name for one in found), found, lambda: render_lists.engines(found, time.time()))
        if not found and format == "table":
            click.echo("perdure: nobody works on this database\nperdure worker FILE.py starts an engine", err=True)
