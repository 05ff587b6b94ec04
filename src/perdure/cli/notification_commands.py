"""The commands `notifications …`: the rules by which people are told what happens, and a trial of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from perdure.cli.exit_codes import CommandExit, ExitCode
from perdure.cli.people_commands import KINDS, with_people
from perdure.cli.root_command import CliCommand, CliGroup
from perdure.cli.shared_options import GlobalOptions, format_option, json_option

if TYPE_CHECKING:
    from perdure.async_people import AsyncPeople
    from perdure.service.notifications.notification_rules import NotificationRule, RuleDetails
    from perdure.service.notifications.rule_trials import RuleTrial

CHANNELS = ("webhook", "smtp", "app")  # not imported, so that printing help is fast; a test compares them
name_argument = click.argument("name", metavar="NAME")


@click.group("notifications", cls=CliGroup)
def notifications() -> None:
    """Notifications: the rules by which people are told of approvals, failures and more."""


@click.command("ls", cls=CliCommand)
@json_option
@format_option()
@click.pass_obj
def ls(settings: GlobalOptions, /, *, as_json: bool, format: str) -> None:
    """List the rules."""
    from perdure.cli import notification_views, output

    found = with_people(settings, lambda people, _: people.notification_rules(tenant=settings.tenant))
    output.print_list("json" if as_json else format, (one.name for one in found), found, lambda: notification_views.rule_table(found))
    if not found and format == "table" and not as_json:
        click.echo("perdure: there are no rules\nperdure notifications set NAME --kind failure --channel webhook --target URL --secret S makes one", err=True)


@click.command("show", cls=CliCommand)
@name_argument
@json_option
@click.pass_obj
def show(settings: GlobalOptions, /, *, name: str, as_json: bool) -> None:
    """Show a rule."""
    _print(with_people(settings, lambda people, _: people.notification_rule(name, tenant=settings.tenant)), as_json)


@click.command("set", cls=CliCommand)
@name_argument
@click.option("--file", "-f", "file", metavar="FILE", help="The rule in YAML or JSON, with the names of the API; - reads standard input.")
@click.option("--kind", "kinds", multiple=True, type=click.Choice(KINDS), help="What it is for. Several are possible.")
@click.option("--channel", type=click.Choice(CHANNELS), help="How people are told.")
@click.option("--target", metavar="TEXT", help="The URL of a webhook, or addresses of e-mail; without any, the assignees of an approval get e-mails.")
@click.option("--workflow", metavar="NAME", help="Only what concerns this workflow.")
@click.option("--secret", metavar="NAME", help="The secret that signs requests, which perdure secret set keeps.")
@click.option("--title", metavar="TEXT", help="The title, a template.")
@click.option("--body", metavar="TEXT", help="The text, a template.")
@click.option("--group", metavar="TIME", help="What happens within this time goes together, such as 10m.")
@click.option("--hourly-max", type=click.IntRange(0), metavar="N", help="No more than so many in an hour; 0: any number.")
@click.option("--quiet", metavar="FROM-UNTIL", help="Nothing is sent in these hours, such as 22:00-07:00; an empty text ends that.")
@click.option("--zone", metavar="ZONE", help="The time zone of --quiet, such as Europe/London.")
@click.option("--surge-above", type=click.IntRange(0), metavar="N", help="More dead letters than this are a surge.")
@click.option("--surge-within", metavar="TIME", help="If they have failed within this time.")
@click.option("--enabled/--disabled", "enabled", default=None, help="Whether it sends anything.")
@json_option
@click.pass_obj
def set_(settings: GlobalOptions, /, *, name: str, file: str | None, as_json: bool, **given: Any) -> None:
    """Make a rule, or change one: by a file, which replaces it, and by options, which change what they name."""
    from perdure.core.errors import NotFound

    from_file = None if file is None else _rule_in_file(file, settings.tenant)

    async def saved(people: AsyncPeople, _: str) -> RuleDetails:
        known, revision = from_file, None
        if known is None:
            try:
                before = await people.notification_rule(name, tenant=settings.tenant)
                known, revision = before.rule, before.version
            except NotFound:
                revision = 0
        return await people.save_notification_rule(name, _changed(known, given), revision=revision, tenant=settings.tenant)

    _print(with_people(settings, saved, creates=True), as_json)


def _rule_in_file(file: str, tenant: str) -> NotificationRule:
    from perdure.api.json_forms import form_of
    from perdure.cli import definition_files
    from perdure.definitions.format.document_parser import read_yaml
    from perdure.service.notifications.notification_rules import NotificationRule

    try:
        read, _, findings = read_yaml(definition_files.read_source(file).decode())
    except (OSError, ValueError) as error:
        raise click.UsageError(f"--file {file} can't be read: {error}") from error
    if findings:
        raise CommandExit(ExitCode.INPUT, f"{file} is not valid: {findings[0].message}\nnothing was saved")
    rule: NotificationRule = form_of(NotificationRule).read(read, "", tenant)
    return rule


def _changed(known: NotificationRule | None, given: dict[str, Any]) -> NotificationRule:
    """A rule with what the options change; a new one if there is none."""
    from msgspec.structs import replace

    from perdure.code.durations import duration_seconds
    from perdure.service.notifications.notification_rules import NotificationRule

    fields = {name: given[name] for name in ("channel", "target", "workflow", "secret", "title", "body", "hourly_max", "zone", "surge_above", "enabled")}
    fields |= {"kinds": given["kinds"] or None}
    for option, field in (("group", "group_s"), ("surge_within", "surge_s")):
        fields[field] = None if given[option] is None else duration_seconds(given[option], f"--{option.replace('_', '-')}")
    if given["quiet"] is not None:
        fields["quiet_from"], _, fields["quiet_until"] = given["quiet"].partition("-")
    changes = {name: value for name, value in fields.items() if value is not None}
    if known is not None:
        return replace(known, **changes)
    if not {"kinds", "channel"} <= changes.keys():
        raise click.UsageError("there is no such rule: --kind and --channel make one, or a --file")
    return NotificationRule(**changes)


@click.command("rm", cls=CliCommand)
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.pass_obj
def rm(settings: GlobalOptions, /, *, names: tuple[str, ...]) -> None:
    """Remove rules. What they have not sent yet is not sent any more."""
    from perdure.cli import terminal_text

    async def removed(people: AsyncPeople, _: str) -> None:
        for name in names:
            await people.remove_notification_rule(name, tenant=settings.tenant)
            click.echo(f"removed {terminal_text.clean(name)}")

    with_people(settings, removed)


@click.command("test", cls=CliCommand)
@name_argument
@click.option("--to", default="", metavar="PERSON", help="Who gets it if the rule has no target; by default you.")
@click.option("--no-wait", is_flag=True, help="Do not wait until it is sent.")
@click.option("--timeout", default="60s", show_default=True, metavar="TIME", help="How long to wait.")
@json_option
@click.pass_obj
def test(settings: GlobalOptions, /, *, name: str, to: str, no_wait: bool, timeout: str, as_json: bool) -> None:
    """Send a sample by a rule, at once and also if it is disabled. An engine sends it."""
    from perdure.cli import output, terminal_text

    async def begun(people: AsyncPeople, own: str) -> RuleTrial:
        return await people.try_notification_rule(name, to=to or own, tenant=settings.tenant)

    found = with_people(settings, begun)
    sent_to = None if no_wait else _sent_to(settings, found, timeout)
    is_sent = sent_to is not None and not sent_to.startswith("nobody: ")
    if as_json:
        click.echo(output.indented_json({"execution_id": found.execution_id, "sent_to": sent_to}))
    elif sent_to is None:
        click.echo(found.execution_id)
    elif is_sent:
        click.echo(f"sent to {terminal_text.clean(sent_to)}")
    if sent_to is not None and not is_sent:
        then = f"perdure people set NAME --email ADDRESS gives a person an address; perdure notifications show {name} shows the rule"
        raise CommandExit(ExitCode.FAILED, f"the sample was sent to {sent_to}\n{then}")


def _sent_to(settings: GlobalOptions, trial: RuleTrial, timeout: str) -> str:
    """To whom a sample was sent, when it was."""
    with settings.client() as client:
        return str(client.get(trial.key).result(timeout))


def _print(found: RuleDetails, as_json: bool) -> None:
    from perdure.cli import notification_views, output
    from perdure.cli.terminal import screen

    if as_json:
        click.echo(output.indented_json(output.as_data(found)))
    else:
        output.show_lines(notification_views.rule_lines(found), screen())


notifications.section("Commands", (ls, show, set_, rm, test))
