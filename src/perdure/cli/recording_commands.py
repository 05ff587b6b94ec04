"""The commands `recording …`: calls of tools that were recorded, and the definitions that are made of them. ``perdure mcp --record`` records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from perdure.cli.root_command import CliCommand, CliGroup
from perdure.cli.service_calls import with_service
from perdure.cli.shared_options import GlobalOptions, format_option, json_option

if TYPE_CHECKING:
    from perdure.operations.local_service import LocalService

ORDERS = ("recorded", "references")  # not imported, so that printing help is fast; a test compares them
id_argument = click.argument("id", metavar="ID")
ALL_CALLS = 10_000
"""How many calls are shown."""

LIKELY = "likely"
"""The word in place of a key that accepts all references that are likely."""


@click.group("recording", cls=CliGroup)
def recording() -> None:
    """Recordings: calls of tools that a client makes one by one, and the definitions that are made of them. perdure mcp --record records."""


@click.command("ls", cls=CliCommand)
@click.option("--open/--ended", "is_open", default=None, help="Only those that take calls, or only those that have ended.")
@click.option("--limit", default=100, show_default=True, type=click.IntRange(1), metavar="N", help="How many, newest first.")
@json_option
@format_option()
@click.pass_obj
def ls(settings: GlobalOptions, /, *, is_open: bool | None, limit: int, as_json: bool, format: str) -> None:
    """List recordings, newest first. An open one is idle while no call of it runs, and waits for as long as nobody ends it."""
    from perdure.async_recordings import AsyncRecordings
    from perdure.cli import output, recording_views

    async def listed(call: LocalService) -> Any:
        return await AsyncRecordings(call.access).list(open=is_open, limit=limit, tenant=settings.tenant)

    found = with_service(settings, listed)
    output.print_list("json" if as_json else format, (one.id for one in found), found, lambda: recording_views.recording_table(found))
    if not found and format == "table" and not as_json:
        click.echo("perdure: there are no such recordings\nperdure mcp --record --tools mcp.json makes one", err=True)


@click.command("show", cls=CliCommand)
@id_argument
@json_option
@click.pass_obj
def show(settings: GlobalOptions, /, *, id: str, as_json: bool) -> None:
    """Show a recording: its input, and its calls with what has become of them."""
    from perdure.async_recordings import AsyncRecordings
    from perdure.cli import output, recording_views
    from perdure.cli.terminal import screen
    from perdure.service.page_cursors import PAGE_MAX

    async def read(call: LocalService) -> Any:
        recordings = AsyncRecordings(call.access)
        found = await recordings.get(id, limit=PAGE_MAX, tenant=settings.tenant)
        while len(found.calls) < min(found.calls_in_all, ALL_CALLS):
            found.calls.extend((await recordings.get(id, after=len(found.calls), limit=PAGE_MAX, tenant=settings.tenant)).calls)
        return found

    found = with_service(settings, read)
    if as_json:
        click.echo(output.indented_json({**output.as_data(found), "calls": [output.as_data(one) for one in found.calls]}))
    else:
        output.show_lines(recording_views.recording_lines(found), screen())


@click.command("suggest", cls=CliCommand)
@id_argument
@click.option("--step", "steps", multiple=True, metavar="STEP", help="Only what is suggested for these calls.")
@click.option("--failed", is_flag=True, help="Also for the calls that have failed.")
@click.option("--weak", is_flag=True, help="Also those that are only possible.")
@json_option
@click.pass_obj
def suggest(settings: GlobalOptions, /, *, id: str, steps: tuple[str, ...], failed: bool, weak: bool, as_json: bool) -> None:
    """Show what literals in the arguments may have been: references to earlier results and to the input, and loops over lists.

    Each has a key, which perdure recording save --accept takes.
    """
    from perdure.async_recordings import AsyncRecordings
    from perdure.cli import output, recording_views
    from perdure.cli.terminal import screen

    async def read(call: LocalService) -> Any:
        recordings = AsyncRecordings(call.access)
        found = await recordings.suggestions(id, failed=failed, tenant=settings.tenant)
        if steps:
            found = recording_views.suggestions_for(found, steps)
            if not {*(one.call for one in found.references), *(step for one in found.loops for step in one.calls)}.issuperset(steps):
                # one of the steps may not be there, which is an error
                _ = await recordings.suggestions(id, steps=steps, failed=True, tenant=settings.tenant)
        return found

    found = with_service(settings, read)
    if as_json:
        click.echo(output.indented_json(output.as_data(found)))
    else:
        output.show_lines(recording_views.suggestion_lines(found, weak=weak), screen())


@click.command("save", cls=CliCommand)
@id_argument
@click.argument("slug", metavar="SLUG")
@click.option("--step", "steps", multiple=True, metavar="STEP", help="Only these calls; default: all that have a result.")
@click.option("--order", type=click.Choice(ORDERS), default="recorded", show_default=True, help="Steps follow each other, or wait only for what they refer to.")
@click.option("--failed", is_flag=True, help="Also the calls that have failed.")
@click.option("--accept", multiple=True, metavar="KEY", help="Put what is suggested under this key in place; likely: all references that are likely.")
@click.option("--draft", is_flag=True, help="Keep it as a draft, which is edited before it is published.")
@click.option("--print", "prints", is_flag=True, help="Print the definition, and save nothing.")
@click.option("--note", default="", metavar="TEXT", help="Why, for the history.")
@json_option
@click.pass_obj
def save(settings: GlobalOptions, /, *, id: str, slug: str, prints: bool, as_json: bool, **given: Any) -> None:
    """Save the calls of a recording as the definition SLUG: its first version, or the next one.

    References stay references, @input becomes the input, and everything else is as it was, but for what is accepted of the suggestions. It has no value of a
    preset or of the input.
    """
    from perdure.async_recordings import AsyncRecordings
    from perdure.cli import output

    if prints and (given["draft"] or given["note"]):
        raise click.UsageError("--print saves nothing: leave --draft and --note out")
    how: dict[str, Any] = {"steps": given["steps"], "order": given["order"], "failed": given["failed"], "tenant": settings.tenant}

    async def saved(call: LocalService) -> Any:
        recordings = AsyncRecordings(call.access)
        accept = [key for key in given["accept"] if key != LIKELY]
        if LIKELY in given["accept"]:
            suggested = await recordings.suggestions(id, steps=given["steps"], failed=given["failed"], tenant=settings.tenant)
            covered = {key for loop in suggested.loops if loop.key in accept for key in loop.covers}
            accept += [one.key for one in suggested.references if one.found and one.key not in (*accept, *covered)]
        if prints:
            return await recordings.definition(id, slug, accept=accept, **how)
        return await recordings.save(id, slug, accept=accept, draft=given["draft"], note=given["note"], **how)

    found = with_service(settings, saved)
    if prints:
        click.echo(found.text, nl=not found.text.endswith("\n"))
    elif as_json:
        click.echo(output.indented_json(output.as_data(found)))
    else:
        click.echo(f"{found.slug} has a draft" if given["draft"] else f"{found.slug} is at version {found.version} ({found.hash})")


@click.command("preset", cls=CliCommand)
@id_argument
@click.argument("value", metavar="VALUE")
@click.option("--step", default="", metavar="STEP", help="A step to come, or one that has failed.")
@click.option("--tool", default="", metavar="TOOL", help="The tool of a call that is recorded without being made, as server.tool.")
@click.option("--argument", "-a", "arguments", multiple=True, metavar="NAME=JSON", help="An argument of that call.")
@click.pass_obj
def preset(settings: GlobalOptions, /, *, id: str, value: str, step: str, tool: str, arguments: tuple[str, ...]) -> None:
    """Give the result VALUE, JSON or text, in place of a call. It is marked as preset, and never part of a definition."""
    from perdure.async_recordings import AsyncRecordings
    from perdure.cli import argument_values

    given, result = argument_values.parse_pairs(arguments, {}, "--argument"), argument_values.parse_value(value)

    async def done(call: LocalService) -> str:
        return await AsyncRecordings(call.access).preset(id, result, step=step, tool=tool, arguments=given, tenant=settings.tenant)

    click.echo(f"{with_service(settings, done)} has this result")


@click.command("end", cls=CliCommand)
@id_argument
@click.pass_obj
def end(settings: GlobalOptions, /, *, id: str) -> None:
    """End a recording, once its calls in flight have ended. It can be saved after that, too."""
    from perdure.async_recordings import AsyncRecordings

    async def done(call: LocalService) -> None:
        await AsyncRecordings(call.access).end(id, tenant=settings.tenant)

    with_service(settings, done)
    click.echo(f"the recording {id} has ended")


for command in (ls, show, suggest, save, preset, end):
    recording.add_command(command)
