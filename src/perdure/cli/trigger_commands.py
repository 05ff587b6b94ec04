"""The commands `trigger …`: what starts executions at times, on requests, on events and by hand."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import click

from perdure.cli.root_command import CliCommand, CliGroup
from perdure.cli.service_calls import with_service
from perdure.cli.shared_options import GlobalOptions, format_option, json_option, refuse_options

if TYPE_CHECKING:
    from perdure.async_triggers import AsyncTriggers
    from perdure.operations.local_service import LocalService
    from perdure.service.triggers.trigger_directory import TriggerDetails
    from perdure.service.triggers.trigger_records import TriggerConfig

T = TypeVar("T")

KINDS = ("manual", "webhook", "schedule", "event")  # not imported, so that printing help is fast; a test compares them
OVERLAPS = ("allow", "skip", "queue", "cancel")
SCHEDULE_OPTIONS = (
    *("cron", "every", "once", "timezone", "jitter", "starts", "ends"),
    *("catch_up", "overlap", "queued_max", "break_after", "prompt"),
)
"""What makes the config of a schedule."""

id_argument = click.argument("id", metavar="ID")


@click.group("trigger", cls=CliGroup)
def trigger() -> None:
    """Triggers: what starts executions at times, on requests, on events, and by hand."""


def _with_triggers(settings: GlobalOptions, work: Callable[[AsyncTriggers], Coroutine[Any, Any, T]], *, creates: bool = False) -> T:
    from perdure.async_triggers import AsyncTriggers

    async def done(call: LocalService) -> T:
        return await work(AsyncTriggers(call.access))

    return with_service(settings, done, creates=creates)


@click.command("ls", cls=CliCommand)
@click.option("--kind", type=click.Choice(KINDS), help="Only those of this kind.")
@click.option("--workflow", default="", metavar="NAME", help="Only those that start this workflow.")
@click.option("--enabled/--disabled", "enabled", default=None, help="Only those that are enabled, or only the others.")
@click.option("--limit", default=100, show_default=True, type=click.IntRange(1), metavar="N", help="How many, in order of id.")
@json_option
@format_option()
@click.pass_obj
def ls(settings: GlobalOptions, /, *, kind: Any, workflow: str, enabled: bool | None, limit: int, as_json: bool, format: str) -> None:
    """List triggers: what each starts, when it is due next, and when it last ran."""
    from perdure.cli import output, trigger_views

    tenant = settings.tenant
    found = _with_triggers(settings, lambda triggers: triggers.list(kind=kind, workflow=workflow, enabled=enabled, limit=limit, tenant=tenant))
    output.print_list("json" if as_json else format, (one.id for one in found), found, lambda: trigger_views.trigger_table(found))
    if not found and format == "table" and not as_json:
        click.echo("perdure: there are no such triggers\nperdure trigger create NAME --workflow W --cron '0 9 * * *' makes one", err=True)


@click.command("show", cls=CliCommand)
@id_argument
@json_option
@click.pass_obj
def show(settings: GlobalOptions, /, *, id: str, as_json: bool) -> None:
    """Show a trigger: what it is, and how it has gone."""
    _print_one(_with_triggers(settings, lambda triggers: triggers.get(id, tenant=settings.tenant)), as_json)


@click.command("create", cls=CliCommand)
@click.argument("name", metavar="NAME")
@click.option("--workflow", default="", metavar="W", help="What it starts: the slug or a reference of a definition, or the name of code that an engine has.")
@click.option("--cron", default="", metavar="EXPR", help="When: five fields of cron, or @daily and the like.")
@click.option("--every", metavar="TIME", help="At intervals, such as 90s or 6h, counted from now or from --starts.")
@click.option("--once", multiple=True, metavar="TIME", help="At this time, such as 2027-01-01T09:00:00Z. Several are possible.")
@click.option("--timezone", default="UTC", show_default=True, metavar="ZONE", help="The zone of --cron, such as Europe/London.")
@click.option("--jitter", default="0s", metavar="TIME", help="An execution starts up to so much later, always as much for one time.")
@click.option("--starts", metavar="TIME", help="There are none before this time.")
@click.option("--ends", metavar="TIME", help="There are none from this time on.")
@click.option("--catch-up", default=0, show_default=True, type=click.IntRange(0), metavar="N", help="How many missed ones are started late.")
@click.option("--overlap", default="allow", show_default=True, type=click.Choice(OVERLAPS), help="What happens while an earlier one is in progress.")
@click.option("--queued-max", default=10, show_default=True, type=click.IntRange(1), metavar="N", help="With --overlap queue, how many may wait.")
@click.option("--break-after", default=0, show_default=True, type=click.IntRange(0), metavar="N", help="Pause after so many failures in a row; 0: never.")
@click.option("--prompt", default="", metavar="TEXT", help="Hand this to the prompt handler of the application, and start no workflow.")
@click.option("--config", metavar="FILE", help="Any kind: its config as the API takes it, in JSON; - reads standard input.")
@click.option("-i", "pairs", metavar="KEY=VALUE", multiple=True, help="A fixed input; a text may read @trigger, such as @trigger.about.tick.")
@click.option("--map", "paths", metavar="KEY=JSONPATH", multiple=True, help="An input from the payload.")
@click.option("--disabled", is_flag=True, help="It starts nothing until it is enabled.")
@json_option
@click.pass_obj
def create(settings: GlobalOptions, /, *, name: str, workflow: str, disabled: bool, as_json: bool, **given: Any) -> None:
    """Make a trigger: a schedule by --cron, --every or --once, or any by --config."""
    from perdure.cli.argument_values import parse_pairs

    config, fixed = _config_of(settings, given), parse_pairs(given["pairs"], {})
    mapping = parse_pairs(given["paths"], {one.partition("=")[0]: str for one in given["paths"]}, "--map")

    async def made(triggers: AsyncTriggers) -> TriggerDetails:
        return await triggers.create(name, config, workflow, mapping=mapping, input=fixed, enabled=not disabled, tenant=settings.tenant)

    found = _with_triggers(settings, made)
    _print_one(found, as_json, f"made {found.id}; perdure trigger show {found.id} shows it")


def _config_of(settings: GlobalOptions, given: dict[str, Any]) -> TriggerConfig:
    """The config that the options of `create` name."""
    if given["config"] is not None:
        refuse_options(SCHEDULE_OPTIONS, "--config holds the whole config")
        return _config_in_file(given["config"], settings.tenant)
    from datetime import UTC, datetime

    from perdure.cli.argument_values import time_option
    from perdure.code.durations import duration_seconds
    from perdure.service.triggers.trigger_records import ScheduleConfig

    if not (given["cron"] or given["every"] or given["once"]):
        raise click.UsageError("say when: --cron, --every or --once; or give a --config")
    return ScheduleConfig(
        cron=given["cron"],
        every_s=None if given["every"] is None else duration_seconds(given["every"], "--every"),
        once=tuple(datetime.fromtimestamp(time_option(one, "--once"), UTC) for one in given["once"]),
        timezone=given["timezone"],
        jitter_s=duration_seconds(given["jitter"], "--jitter"),
        starts_at_s=None if given["starts"] is None else time_option(given["starts"], "--starts"),
        ends_at_s=None if given["ends"] is None else time_option(given["ends"], "--ends"),
        catch_up=given["catch_up"],
        overlap=given["overlap"],
        queued_max=given["queued_max"],
        break_after=given["break_after"],
        target="orchestrator" if given["prompt"] else "workflow",
        prompt=given["prompt"],
    )


def _config_in_file(file: str, tenant: str) -> TriggerConfig:
    import json
    import sys
    from pathlib import Path

    from perdure.api.json_forms import form_of
    from perdure.service.triggers.trigger_records import TriggerConfig

    try:
        read = json.loads(sys.stdin.read() if file == "-" else Path(file).read_text())
    except (OSError, ValueError) as error:
        raise click.UsageError(f"--config {file} can't be read as JSON: {error}") from error
    config: TriggerConfig = form_of(TriggerConfig).read(read, "/config", tenant)
    return config


@click.command("pause", cls=CliCommand)
@id_argument
@click.option("--reason", default="", metavar="TEXT", help="Why, for those who find it paused.")
@json_option
@click.pass_obj
def pause(settings: GlobalOptions, /, *, id: str, reason: str, as_json: bool) -> None:
    """Pause a trigger: it starts nothing until it is resumed, and what it misses is not made up for."""
    _print_one(_with_triggers(settings, lambda triggers: triggers.pause(id, reason, tenant=settings.tenant)), as_json, f"{id} is paused")


@click.command("resume", cls=CliCommand)
@id_argument
@json_option
@click.pass_obj
def resume(settings: GlobalOptions, /, *, id: str, as_json: bool) -> None:
    """End a pause, also one that a schedule began by itself after failures in a row."""
    _print_one(_with_triggers(settings, lambda triggers: triggers.resume(id, tenant=settings.tenant)), as_json, f"{id} is resumed")


@click.command("enable", cls=CliCommand)
@id_argument
@json_option
@click.pass_obj
def enable(settings: GlobalOptions, /, *, id: str, as_json: bool) -> None:
    """Enable a trigger. A schedule goes on with its next time."""
    _print_one(_with_triggers(settings, lambda triggers: triggers.enable(id, tenant=settings.tenant)), as_json, f"{id} is enabled")


@click.command("disable", cls=CliCommand)
@id_argument
@json_option
@click.pass_obj
def disable(settings: GlobalOptions, /, *, id: str, as_json: bool) -> None:
    """Disable a trigger: it starts nothing."""
    _print_one(_with_triggers(settings, lambda triggers: triggers.disable(id, tenant=settings.tenant)), as_json, f"{id} is disabled")


@click.command("run", cls=CliCommand)
@id_argument
@click.option("--payload", default="null", metavar="JSON", help="What it would receive.")
@json_option
@click.pass_obj
def run(settings: GlobalOptions, /, *, id: str, payload: str, as_json: bool) -> None:
    """Start an execution by a trigger now, whether or not it is enabled."""
    from perdure.cli import output, terminal_text
    from perdure.cli.argument_values import parse_sent_value

    found = _with_triggers(settings, lambda triggers: triggers.run(id, parse_sent_value(payload, "the payload"), tenant=settings.tenant))
    click.echo(output.indented_json(output.as_data(found)) if as_json else terminal_text.execution_name(found.key))


@click.command("preview", cls=CliCommand)
@id_argument
@click.option("--count", default=10, show_default=True, type=click.IntRange(1, 1_000), metavar="N", help="How many.")
@json_option
@format_option(("table", "json"))
@click.pass_obj
def preview(settings: GlobalOptions, /, *, id: str, count: int, as_json: bool, format: str) -> None:
    """Show the next times of a schedule, and what is special about them where clocks are changed."""
    from perdure.cli import output, trigger_views

    found = _with_triggers(settings, lambda triggers: triggers.preview(id, count, tenant=settings.tenant))
    shown = "json" if as_json else format
    output.print_list(shown, (), found.ticks, lambda: trigger_views.preview_table(found))
    if not found.ticks and shown == "table":
        click.echo(f"perdure: {id} has no times any more", err=True)


@click.command("backfill", cls=CliCommand)
@id_argument
@click.option("--from", "since", required=True, metavar="TIME", help="The first time, such as 2027-01-01T00:00:00Z.")
@click.option("--until", required=True, metavar="TIME", help="Only times before this one.")
@click.option("--expect", type=click.IntRange(0), metavar="N", help="Start them: N is how many there are. Without it, they are counted.")
@json_option
@click.pass_obj
def backfill(settings: GlobalOptions, /, *, id: str, since: str, until: str, expect: int | None, as_json: bool) -> None:
    """Start executions for times of a schedule in the past. Without --expect, count them; what has run already is not started again."""
    from datetime import UTC, datetime

    from perdure.cli import output
    from perdure.cli.argument_values import time_option

    begin, end = (datetime.fromtimestamp(time_option(text, option), UTC) for text, option in ((since, "--from"), (until, "--until")))
    found = _with_triggers(settings, lambda triggers: triggers.backfill(id, begin, end, expect=expect, tenant=settings.tenant))
    if as_json:
        click.echo(output.indented_json(output.as_data(found)))
    elif found.dry_run:
        click.echo(f"{found.total} times, of which {found.existing} have run. Nothing was started; --expect {found.total} starts the others")
    else:
        click.echo(f"{found.started} executions were started; {found.existing} of {found.total} times had run before")


@click.command("rm", cls=CliCommand)
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.pass_obj
def rm(settings: GlobalOptions, /, *, ids: tuple[str, ...]) -> None:
    """Delete triggers. Executions that they have started go on."""

    async def removed(triggers: AsyncTriggers) -> None:
        for id in ids:
            await triggers.delete(id, tenant=settings.tenant)
            click.echo(f"deleted {id}")

    _with_triggers(settings, removed)


@click.command("prune", cls=CliCommand)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def prune(settings: GlobalOptions, /, *, yes: bool) -> None:
    """Delete the schedules of code that no engine declares any more, after a question."""

    async def undeclared(triggers: AsyncTriggers) -> list[TriggerDetails]:
        found = await triggers.list(kind="schedule", limit=10_000, tenant=settings.tenant)
        return [one for one in found if one.undeclared]

    found = _with_triggers(settings, undeclared)
    if not found:
        click.echo("perdure: every schedule of code is declared by an engine, or no engine runs that could say so", err=True)
        return
    for one in found:
        click.echo(f"{one.id}: no engine declares the schedule of {one.workflow_id}")
    if not yes and not click.confirm(f"Delete {len(found)} of them?" if len(found) > 1 else "Delete it?", err=True):
        return

    async def removed(triggers: AsyncTriggers) -> None:
        for one in found:
            await triggers.delete(one.id, revision=one.revision, tenant=settings.tenant)
            click.echo(f"deleted {one.id}")

    _with_triggers(settings, removed)


def _print_one(found: TriggerDetails, as_json: bool, said: str = "") -> None:
    """Prints a trigger: in JSON, as a line that says what was done, or in full."""
    from perdure.cli import output, trigger_views
    from perdure.cli.terminal import screen

    if as_json:
        click.echo(output.indented_json(output.as_data(found)))
    elif said:
        click.echo(said)
    else:
        output.show_lines(trigger_views.trigger_lines(found), screen())


trigger.section("Look", (ls, show, preview))
trigger.section("Change", (create, enable, disable, pause, resume, rm, prune))
trigger.section("Start", (run, backfill))
