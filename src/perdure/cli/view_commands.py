"""The commands that show executions and change nothing: `ls`, `show`, `steps`, `events`, `logs`, `result`, `query`, `stream`, `engines`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.exit_codes import CommandExit, ExitCode
from perdure.cli.root_command import CliCommand
from perdure.cli.shared_options import GlobalOptions, format_option, id_argument, json_option, value_format, where_option

if TYPE_CHECKING:
    from perdure.core.errors import ErrorInfo
    from perdure.core.views import StepView
    from perdure.service.live_text import LiveText
    from perdure.sync_client import Client, EmittedValue, Handle, ListedExecution, PublicEvent

ERROR_TIMEOUT_S = 5.0
"""The time limit for reading the error of a failed execution."""

follow_option = click.option("--follow", "-f", is_flag=True, help="Follow new events until the execution has ended.")
at_option = click.option("--at", "number", type=click.IntRange(1), metavar="N", help="As it was after event N of its log.")
after_option = click.option("--after", default=0, metavar="N", help="Only items after this number.")


@click.command("ls", cls=CliCommand)
@click.option("--workflow", metavar="NAME", help="Only executions of this workflow.")
@click.option(
    "--status",
    metavar="STATUS,...",
    help="Only executions in one of these statuses: pending, running, waiting, waiting_approval, paused, needs_attention, ending, undoing, completed, "
    "failed, cancelled.",
)
@click.option("--prefix", default="", metavar="TEXT", help="Only executions whose id has this prefix.")
@click.option("--since", metavar="TIME", help="Only executions created in the last 30s, 1h, 2d.")
@click.option("--error-type", default="", metavar="TYPE", help="Only executions that failed by this type of error, or need attention for this reason.")
@click.option(
    "--fingerprint", default="", metavar="FINGERPRINT", help="Only executions that failed alike: of one group of perdure dead-letters. Its beginning is enough."
)
@click.option("--text", default="", metavar="TEXT", help="Only executions with this text in their workflow, id, attributes or type of error.")
@where_option("Only executions with matching attributes")
@click.option("--order-by", metavar="NAME", help="List executions with this attribute, in its order, the least first.")
@click.option("--desc", "descending", is_flag=True, help="With --order-by: list the greatest first.")
@click.option("--limit", default=100, show_default=True, type=click.IntRange(1), help="The greatest number to list: the newest, or the first of --order-by.")
@click.option("--all", "internal", is_flag=True, help="Include Perdure's own executions, such as those of approvals.")
@click.option("-q", "--quiet", is_flag=True, help="Print only ids, as -o ids.")
@click.option("--watch", is_flag=True, help="Keep showing changes.")
@format_option()
@click.pass_obj
def ls(settings: GlobalOptions, /, *, quiet: bool, watch: bool, format: str, **which: Any) -> None:
    """List executions, newest first, or in order of an attribute."""
    from perdure.cli import execution_views, live_view, output
    from perdure.cli.execution_lookup import known_programs
    from perdure.cli.terminal_text import execution_name

    format = "ids" if quiet else format
    with settings.client() as client:

        def ask() -> list[ListedExecution]:
            return _listed(client, settings, which)

        if watch:
            live_view.watch_executions(client, ask, format)
        listed = ask()
        output.print_list(
            format,
            (execution_name(one.key) for one in listed),
            listed,
            lambda: execution_views.execution_table(listed, known_programs(client), time.time()),
        )


def _listed(client: Client, settings: GlobalOptions, which: Mapping[str, Any]) -> list[ListedExecution]:
    from perdure.core.attribute_filter import parse_filter

    if which["descending"] and which["order_by"] is None:
        raise click.UsageError("--desc goes with --order-by NAME")
    statuses = None if which["status"] is None else [name.strip() for name in which["status"].split(",")]
    return client.list(
        workflow=which["workflow"],
        status=statuses,
        id_prefix=which["prefix"],
        since=which["since"],
        error_type=which["error_type"],
        fingerprint=which["fingerprint"],
        text=which["text"],
        where=parse_filter(which["where"]),
        order_by=which["order_by"],
        descending=which["descending"],
        internal=which["internal"],
        limit=which["limit"],
        tenant=settings.tenant,
    )


@click.command("show", cls=CliCommand)
@id_argument
@click.option("--watch", is_flag=True, help="Keep showing its progress until it has ended.")
@click.option("--tokens", is_flag=True, help="Of a definition: the event counter, open steps, waiting joins, applied keys, outputs.")
@at_option
@json_option
@format_option()
@click.pass_obj
def show(settings: GlobalOptions, /, *, id: str, watch: bool, tokens: bool, number: int | None, as_json: bool, format: str) -> None:
    """Show the status of an execution, what it waits for, and its steps as a tree."""
    import threading

    from perdure.cli import execution_lookup, execution_views, graph_commands, live_view, output, step_views
    from perdure.cli.terminal import screen
    from perdure.cli.terminal_text import execution_name

    format = "json" if as_json else format
    if watch and (tokens or number is not None):
        raise click.UsageError(f"--watch shows what happens now; leave {'--tokens' if tokens else '--at'} out")
    with settings.client() as client:
        handle = execution_lookup.handle_of(client, settings, id)
        if tokens:
            graph_commands.show_tokens(handle, number, format)
            return
        if watch:
            live_view.watch_execution(client, handle, threading.Event(), partial(graph_commands.captions_of, handle), format)
            return
        seen, status, steps, programs, now_s = screen(), handle.status(), list["StepView"](), set[str](), time.time()
        if number is not None:
            record, traces = handle.record(number), handle.attempts(number)
            status, steps, now_s = (
                execution_views.past_status(status, record),
                list(map(step_views.view_of_trace, traces)),
                step_views.last_moment(record, traces),
            )
            programs = {execution_views.claimed_program(status)}  # whether one runs it now says nothing of then
        elif format != "ids":
            steps = handle.steps()
        if format == "table":
            captions = graph_commands.captions_of(handle, status, number)
            programs = programs or execution_lookup.known_programs(client)
            output.show_lines(execution_views.execution_head(status, programs, now_s, captions.definition), seen)
            output.show_tree(execution_views.step_tree(steps, now_s, seen.unicode, captions.captions), seen)
        elif format == "ids":
            click.echo(execution_name(status.key))
        else:
            whole = {**output.as_data(status), "steps": [output.as_data(step) for step in steps]}
            click.echo(output.indented_json(whole) if format == "json" else output.compact_json(whole))


@click.command("steps", cls=CliCommand)
@id_argument
@at_option
@json_option
@format_option()
@click.pass_obj
def steps(settings: GlobalOptions, /, *, id: str, number: int | None, as_json: bool, format: str) -> None:
    """List the steps of an execution in the order of opening, each with all its attempts; in JSON also with its input and output."""
    from perdure.cli import execution_lookup, output, step_views
    from perdure.cli.terminal import screen

    with settings.client() as client:
        handle = execution_lookup.handle_of(client, settings, id)
        found = handle.attempts(number)
        now_s = time.time() if number is None else step_views.last_moment(handle.record(number), found)
    if as_json or format == "json":
        click.echo(output.indented_json(list(map(step_views.step_data, found))))
    elif format == "jsonl":
        click.echo("\n".join(output.compact_json(step_views.step_data(one)) for one in found), nl=bool(found))
    elif format == "ids":
        click.echo("\n".join(one.path for one in found), nl=bool(found))
    else:
        output.show_table(step_views.step_table(found, now_s), screen())


@click.command("events", cls=CliCommand)
@id_argument
@follow_option
@after_option
@format_option()
@click.pass_obj
def events(settings: GlobalOptions, /, *, id: str, follow: bool, after: int, format: str) -> None:
    """Print the events of an execution, one a line."""
    from perdure.cli import execution_lookup, execution_views, output

    with settings.client() as client:
        found = execution_lookup.handle_of(client, settings, id).events(after=after, follow=follow)
        output.print_stream(format, found, output.item_printer(format, lambda event: event.id, lambda event: [execution_views.event_cells(event)]), follow)


@click.command("logs", cls=CliCommand)
@id_argument
@follow_option
@format_option()
@click.pass_obj
def logs(settings: GlobalOptions, /, *, id: str, follow: bool, format: str) -> None:
    """Print the events of an execution, with the errors and tracebacks of what failed.

    Text that a workflow logs with ctx.log is not included: it goes to the log of the process that runs it (perdure worker writes that to standard error).
    """
    from perdure.cli import execution_lookup, execution_views, output

    with settings.client() as client:
        handle = execution_lookup.handle_of(client, settings, id)
        errors = _errors_of(handle)
        print_one: Callable[[PublicEvent], None] = output.item_printer(format, lambda event: event.id, lambda event: execution_views.event_story(event, errors))
        output.print_stream(format, handle.events(follow=follow), print_one, follow)


def _errors_of(handle: Handle[Any]) -> Callable[[str], ErrorInfo | None]:
    """Finds errors by path (the execution's own error: the empty path). They are read when one is first needed."""
    from perdure.core.errors import ExecutionFailed, Timeout

    known: dict[str, ErrorInfo] = {}

    def look_up(path: str) -> ErrorInfo | None:
        if path not in known:
            known.update((step.path, step.error) for step in handle.steps() if step.error is not None)
        if path == "" and path not in known:
            try:
                handle.result(timeout=ERROR_TIMEOUT_S)
            except ExecutionFailed as failed:
                known[path] = failed.error
            except Timeout:  # it has been reopened in the meantime
                return None
        return known.get(path)

    return look_up


@click.command("result", cls=CliCommand)
@id_argument
@click.option("--wait", is_flag=True, help="Wait until it has ended.")
@click.option("--timeout", metavar="TIME", help="How long to wait at most.")
@value_format
@click.pass_obj
def result(settings: GlobalOptions, /, *, id: str, wait: bool, timeout: str | None, format: str) -> None:
    """Print the result of an execution.

    If it has no result, the exit code says why.
    """
    from perdure.cli import execution_lookup, exit_codes, output

    with settings.client() as client:
        handle = execution_lookup.handle_of(client, settings, id)
        waits, looks = (ExitCode.WAITS, ExitCode.APPROVAL), not wait and timeout is None
        if (
            looks
            and exit_codes.exit_code_of_status(handle.summary().status) in waits
            and exit_codes.exit_code_of_status((status := handle.status()).status) in waits
        ):
            raise execution_lookup.not_ended(status)
        output.print_value(execution_lookup.wait_for_result(handle, timeout), format)


@click.command("query", cls=CliCommand)
@id_argument
@click.argument("key", required=False)
@at_option
@value_format
@click.pass_obj
def query(settings: GlobalOptions, /, *, id: str, key: str | None, number: int | None, format: str) -> None:
    """Print the value that a workflow has set under KEY with ctx.set, or all values."""
    from perdure.cli import execution_lookup, output
    from perdure.cli.terminal_text import execution_name

    nothing = object()
    with settings.client() as client:
        handle = execution_lookup.handle_of(client, settings, id)
        found = handle.query(key, nothing, at=number)
        if found is nothing:
            raise CommandExit(ExitCode.INPUT, f"the workflow has set no value {key}\nperdure query {execution_name(handle.key)} shows all values")
        output.print_value(found, format)


@click.command("stream", cls=CliCommand)
@id_argument
@follow_option
@after_option
@at_option
@click.option("--live-text", "is_live", is_flag=True, help="Print what steps are writing, such as the answers of models, in place of the values.")
@format_option()
@click.pass_obj
def stream(settings: GlobalOptions, /, *, id: str, follow: bool, after: int, number: int | None, is_live: bool, format: str) -> None:
    """Print the values that a workflow emits with ctx.emit, one a line."""
    from perdure.cli import execution_lookup, output
    from perdure.cli.plain_text import TextCell, cell

    if is_live:
        if number is not None:
            raise click.UsageError("live text is what steps write now; leave --at out")
        if after:
            raise click.UsageError("live text is printed from its beginning; leave --after out")
        _print_live_text(settings, id, follow, format)
        return
    if follow and number is not None:
        raise click.UsageError("--follow shows what happens now; leave --at out")

    def text(value: Any) -> str:
        return value if isinstance(value, str) else output.compact_json(value)

    with settings.client() as client:
        found = execution_lookup.handle_of(client, settings, id).stream(after=after, follow=follow, at=number)
        print_one: Callable[[EmittedValue], None] = output.item_printer(
            format, lambda one: one.number, lambda one: [(TextCell(f"{one.number:>5}", "dim"), cell(text(one.value)))]
        )
        output.print_stream(format, found, print_one, follow)


def _print_live_text(settings: GlobalOptions, id: str, follow: bool, format: str) -> None:
    """Prints the texts of steps as they grow, each below the name of its step; a text that begins anew gets its name again."""
    from perdure.cli import execution_lookup, output, terminal_text

    shown, is_in_line = "", False
    with settings.client() as client:
        found = execution_lookup.handle_of(client, settings, id).live_text(follow=follow)
        if format != "table":
            print_one: Callable[[LiveText], None] = output.item_printer(format, lambda one: one.number, lambda one: [])
            output.print_stream(format, found, print_one, follow)
            return
        for one in found:
            if one.path != shown or not one.offset:
                begun = "" if one.attempt == 1 else f", attempt {one.attempt}"
                click.echo(("\n" if is_in_line else "") + f"{one.path}{begun}:")
            shown, is_in_line = one.path, not (one.is_complete or one.text.endswith("\n"))
            click.echo("\n".join(map(terminal_text.clean, one.text.split("\n"))), nl=one.is_complete)
        if is_in_line:
            click.echo()


@click.command("engines", cls=CliCommand)
@format_option()
@click.pass_obj
def engines(settings: GlobalOptions, /, *, format: str) -> None:
    """List the engines and workers of this database, and the workflows and queues that they serve."""
    from perdure.cli import execution_views, output

    with settings.client() as client:
        found = client.engines()
        output.print_list(format, (one.name for one in found), found, lambda: execution_views.engine_table(found, time.time()))
        if not found and format == "table":
            click.echo("perdure: no process works on this database\nperdure worker FILE.py starts an engine", err=True)
