"""The commands for approvals: `approvals`, `approve`, `reject`, and `decide`, which uses a signed link."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from perdure.cli.exit_codes import CommandExit, ExitCode
from perdure.cli.root_command import CliCommand
from perdure.cli.shared_options import F, GlobalOptions, filter_options, format_option, id_arguments, json_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.core.errors import PerdureError
    from perdure.core.paths import Key
    from perdure.sync_client import Approval, Client

APPROVALS_MAX = 10_000
"""How many approvals are read where all are wanted."""

NAMED_MAX = 1_000
"""How many waiting approvals are read to find those for which the id of their execution is enough."""


def _person_options(command: F) -> F:
    command = click.option("--group", "groups", multiple=True, metavar="G", help="A group of that person.")(command)
    return click.option("--as", "by", metavar="NAME", help="The person who decides; else PERDURE_USER, else the user who is logged in.")(command)


def _form_options(command: F) -> F:
    command = click.option("-i", "pairs", metavar="KEY=VALUE", multiple=True, help="A field of the form.")(command)
    return click.option("--value", metavar="JSON", help="The value of the form.")(command)


def _decision_options(command: F) -> F:
    command = click.option("--lifetime", default="7d", show_default=True, metavar="TIME", help="How long the link can be used.")(command)
    command = click.option("--link", is_flag=True, help="Decide nothing, but print a link whose bearer can decide (see PERDURE_SIGNING_SECRET).")(command)
    command = click.option("--timeout", metavar="TIME", help="How long to wait at most; the decision stays recorded.")(command)
    command = click.option("--no-wait", is_flag=True, help="Record the decision, and do not wait until an engine accepts it.")(command)
    command = click.option("--comment", default="", metavar="TEXT", help="A comment for the workflow.")(command)
    command = click.option("--path", metavar="P", help="The path of the approval, if an execution asks for several.")(command)
    return id_arguments(filter_options(_person_options(command)))


@click.command("approvals", cls=CliCommand)
@click.argument("id", required=False)
@click.option("--for", "by", metavar="NAME", help="Only those on which this person may still decide.")
@click.option("--mine", is_flag=True, help="Only those on which you may still decide: PERDURE_USER, else the user who is logged in.")
@click.option("--group", "groups", multiple=True, metavar="G", help="A group of that person; without a person, only those for this group.")
@click.option("--priority", type=click.Choice(("low", "normal", "high", "urgent")), help="Only those of this priority.")
@click.option("--resource", metavar="TYPE[/ID]", help="Only those about this, such as invoice/17.")
@click.option("--workflow", default="", metavar="W", help="Only those that executions of this workflow ask for.")
@click.option("--overdue", is_flag=True, help="Only those that were due before now.")
@click.option("--order", type=click.Choice(("newest", "due", "priority")), default="newest", show_default=True, help="What the list begins with.")
@click.option("--path", metavar="P", help="With an ID: the path of the approval, if an execution asks for several.")
@click.option("--limit", default=100, show_default=True, type=click.IntRange(1), help="The greatest number to list.")
@json_option
@format_option()
@click.pass_obj
def approvals(settings: GlobalOptions, /, *, id: str | None, path: str | None, limit: int, **given: Any) -> None:
    """List the approvals that wait, or show the one of ID, with its details and form."""
    import time

    from perdure.cli import bulk_actions, output, record_views

    if id is None and path is not None:
        raise click.UsageError("--path needs an ID")
    which = _inbox_conditions(given)
    if id is not None and which:
        raise click.UsageError("--for, --group and the other conditions filter the list; leave ID out")
    form = "json" if given["as_json"] else given["format"]
    with settings.client() as client:
        if id is not None:
            bulk_actions.one_by_one([id], lambda text: _show(client, settings, text, path, form), explain=_decision_error)
            return
        shown = client.approvals(**which, order=given["order"], limit=limit, tenant=settings.tenant)
        names = _names(client, settings, shown)
        output.print_list(form, (names.get(one.key, one.id) for one in shown), shown, lambda: record_views.approval_table(shown, names, time.time()))


def _inbox_conditions(given: dict[str, Any]) -> dict[str, Any]:
    """The conditions on a list of approvals, as arguments of a client; empty if there are none."""
    if given["mine"] and given["by"] is not None:
        raise click.UsageError("--mine is for you; leave --for out")
    found: dict[str, Any] = {name: given[name] for name in ("priority", "workflow", "overdue") if given[name]}
    if given["mine"] or given["by"] is not None or given["groups"]:
        found |= {"assignee": current_user() if given["mine"] else given["by"] or "", "groups": given["groups"]}
    if given["resource"]:
        type, _, id = given["resource"].partition("/")
        found["resource"] = (type, id)
    return found


def _names(client: Client, settings: GlobalOptions, shown: Sequence[Approval]) -> dict[Key, str]:
    """The names of approvals. If there are too many to know which executions ask for several, each has its own id."""
    from perdure.cli import record_views

    everything = shown if not shown else client.approvals(limit=NAMED_MAX + 1, tenant=settings.tenant)
    return {} if len(everything) > NAMED_MAX else record_views.approval_names(everything)


def _show(client: Client, settings: GlobalOptions, text: str, path: str | None, form: str) -> None:
    import time

    from perdure.cli import output, record_views
    from perdure.cli.terminal import screen

    one = client.approval(text, path=path, tenant=settings.tenant)
    if form == "table":
        names = record_views.approval_names(client.approvals(limit=NAMED_MAX, tenant=settings.tenant))
        output.show_lines(record_views.approval_details(one, names.get(one.key, ""), time.time()), screen())
    elif form == "ids":
        click.echo(one.id)
    else:
        click.echo(output.indented_json(output.as_data(one)) if form == "json" else output.compact_json(output.as_data(one)))


@click.command("approve", cls=CliCommand)
@_decision_options
@_form_options
@click.pass_obj
def approve(settings: GlobalOptions, /, **given: Any) -> None:
    """Approve approvals, each named by its ID in perdure approvals, or by the execution that asks.

    With --all: all approvals on which this person may decide, of executions of a --workflow, with a --prefix, --since a time.
    """
    _decide(settings, given, True)


@click.command("reject", cls=CliCommand)
@_decision_options
@click.pass_obj
def reject(settings: GlobalOptions, /, **given: Any) -> None:
    """Reject approvals. The arguments are those of perdure approve."""
    _decide(settings, {"value": None, "pairs": (), **given}, False)


@click.command("delegate", cls=CliCommand)
@click.argument("id")
@click.argument("to")
@_person_options
@click.option("--note", default="", metavar="TEXT", help="A note for the person who decides then.")
@click.option("--path", metavar="P", help="The path of the approval, if an execution asks for several.")
@click.option("--no-wait", is_flag=True, help="Record the delegation, and do not wait until an engine accepts it.")
@click.option("--timeout", metavar="TIME", help="How long to wait at most; the delegation stays recorded.")
@click.pass_obj
def delegate(settings: GlobalOptions, /, *, id: str, to: str, by: str | None, groups: tuple[str, ...], path: str | None, **given: Any) -> None:
    """Let the person TO decide on the approval of ID in your place."""
    from perdure.cli import bulk_actions, terminal_text

    def pass_on(text: str) -> None:
        one, who = client.approval(text, path=path, tenant=settings.tenant), by or current_user()
        client.people.delegate(one, to, by=who, groups=groups, note=given["note"], wait=not given["no_wait"], timeout=given["timeout"])
        click.echo(f"{_described(one)} is delegated by {terminal_text.clean(who)} to {terminal_text.clean(to)}")

    with settings.client() as client:
        bulk_actions.one_by_one([id], pass_on, explain=_decision_error)


@click.command("decide", cls=CliCommand)
@click.argument("link")
@click.option("--approve/--reject", "approve", default=None, help="The answer, if the link offers both.")
@_form_options
@click.option("--comment", default="", metavar="TEXT", help="A comment for the workflow.")
@click.option("--timeout", metavar="TIME", help="How long to wait at most; the decision stays recorded.")
@click.pass_obj
def decide(settings: GlobalOptions, /, *, link: str, value: str | None, pairs: tuple[str, ...], **given: Any) -> None:
    """Give the answer of a signed LINK; - reads it from standard input. The link must be signed with PERDURE_SIGNING_SECRET."""
    from perdure.cli import bulk_actions
    from perdure.cli.execution_lookup import ids_of

    def use(signed: str) -> None:
        client.decide_by_link(signed, value=_form_value(None, value, pairs), **given)
        click.echo("the answer of the link is accepted")

    with settings.client() as client:
        bulk_actions.one_by_one(ids_of([link]), use, explain=_decision_error)


def _decide(settings: GlobalOptions, given: dict[str, Any], yes: bool) -> None:
    from perdure.cli import bulk_actions, terminal_text
    from perdure.cli.execution_lookup import ids_of

    bulk_actions.check_filter(given)
    if given["path"] is not None and given["everything"]:
        raise click.UsageError("--path needs ids; leave --all out")
    by, verb = given["by"] or current_user(), "approve" if yes else "reject"

    def answer(one: Approval) -> None:
        if given["dry_run"]:
            click.echo(f"{_described(one)} {bulk_actions.dry_run_text(verb)}")
        elif given["link"]:
            click.echo(client.approval_link(one, by=by, approve=yes, lifetime=given["lifetime"], tenant=settings.tenant))
        else:
            if not given["no_wait"] and not any(engine.alive for engine in client.engines()):
                click.echo("perdure: no engine is running; the decision takes effect when one runs\n--no-wait does not wait for that", err=True)
            how = {
                "by": by,
                "comment": given["comment"],
                "groups": given["groups"],
                "wait": not given["no_wait"],
                "timeout": given["timeout"],
                "means": "command",
            }
            if yes:
                client.approve(one, value=_form_value(one.form, given["value"], given["pairs"]), **how)
            else:
                client.reject(one, **how)
            how_it_is = f"{'approved' if yes else 'rejected'} by {terminal_text.clean(by)}"
            click.echo(f"{_described(one)} is {how_it_is}{', which is recorded and takes effect when an engine runs' if given['no_wait'] else ''}")

    with settings.client() as client:
        if not given["everything"]:
            asked = ids_of(given["ids"])
            bulk_actions.one_by_one(asked, lambda text: answer(client.approval(text, path=given["path"], tenant=settings.tenant)), explain=_decision_error)
            return
        found = [one for one in client.approvals(by, groups=given["groups"], limit=APPROVALS_MAX, tenant=settings.tenant) if _matches_filter(one, given)]
        bulk_actions.confirm(len(found), verb, given, "approval")
        bulk_actions.one_by_one(found, answer, len(found), explain=_decision_error)


def decide_for_executions(settings: GlobalOptions, given: dict[str, Any], yes: bool) -> None:
    """Decides the approval of each execution; if one waits for several, `path` selects it. Without `wait`, an engine accepts the decision later."""
    from perdure.cli import bulk_actions, terminal_text
    from perdure.cli.execution_lookup import ids_of
    from perdure.cli.terminal_text import execution_name
    from perdure.core.errors import Ambiguous

    def decide_one(text: str) -> None:
        try:
            _ = client.approval(text, path=given["path"], tenant=settings.tenant)
        except Ambiguous:
            key = client.find(text, tenant=settings.tenant)
            places = [one.path for one in client.approvals(limit=APPROVALS_MAX, tenant=settings.tenant) if one.requested_by == key]
            raise CommandExit(
                ExitCode.INPUT, f"{execution_name(key)} waits for several approvals: {', '.join(map(terminal_text.clean, places))}\n--approval STEP chooses one"
            ) from None
        _decide(settings, {**_RESUME_DEFAULTS, **given, "ids": (text,), "no_wait": not given["wait"]}, yes)

    with settings.client() as client:
        bulk_actions.one_by_one(ids_of(given["ids"]), decide_one, explain=_decision_error)


_RESUME_DEFAULTS: dict[str, Any] = {"everything": False, "groups": (), "link": False, "lifetime": "7d", "value": None, "pairs": ()}
"""The options of a decision that `resume` does not have."""


def _matches_filter(one: Approval, given: dict[str, Any]) -> bool:
    """Whether the filter selects this approval, by the execution that asks and the time of the request."""
    import time

    from perdure.code.durations import duration_seconds

    asks = one.requested_by or one.key
    since_s = 0.0 if given["since"] is None else time.time() - duration_seconds(given["since"], "--since")
    return given["workflow"] in (None, asks.workflow) and asks.id.startswith(given["prefix"]) and one.requested_at_s >= since_s


def _form_value(form: dict[str, Any] | None, value: str | None, pairs: tuple[str, ...]) -> Any:
    """The value of the form: given as a whole, or field by field. A field of type text stays text."""
    from perdure.cli import argument_values, record_views
    from perdure.core.errors import BadValue

    if not pairs:
        return None if value is None else argument_values.parse_sent_value(value, "the value")
    if value is not None:
        raise BadValue("-i", pairs[0], "to be combined with --value; give one of the two")
    texts = {field.name for field in record_views.form_fields(form) if field.kind == "text"}
    return argument_values.parse_pairs(pairs, dict.fromkeys(texts, str))


def current_user() -> str:
    """The user who runs the command."""
    import getpass
    import os

    try:
        return os.environ.get("PERDURE_USER") or getpass.getuser()
    except (OSError, KeyError) as error:  # the user of the process has no name
        raise click.UsageError("the deciding person is not known: pass --as NAME, or set PERDURE_USER") from error


def _described(one: Approval) -> str:
    from perdure.cli import terminal_text
    from perdure.cli.terminal_text import execution_name

    return f"{execution_name(one.requested_by or one.key)} ({terminal_text.clean(terminal_text.first_line(one.title))})"


def _decision_error(error: PerdureError) -> str:
    """The text of a failed decision: what went wrong, and what to do."""
    from perdure.cli.terminal_text import error_message, safe_lines
    from perdure.core.errors import AlreadyDecided, Ambiguous, BadValue, DecisionRefused, HasEnded, NotFound, Timeout
    from perdure.core.paths import Key

    match error:
        case DecisionRefused(why=why):
            return safe_lines(
                f"the decision does not count: {why}", "--as NAME and --group NAME name the deciding person; perdure approvals ID shows who may decide"
            )
        case AlreadyDecided():
            return safe_lines(str(error).rpartition(". ")[0], "perdure approvals lists those that wait")
        case HasEnded(key=Key() as key, status=status):
            return safe_lines(f"{key.id} is decided: {status}", "perdure approvals lists those that wait")
        case Ambiguous(text=text):
            return safe_lines(f"{text} means several approvals", "perdure approvals lists them, each with an ID of its own; --path P chooses, too")
        case NotFound():
            return safe_lines(str(error).rpartition(". ")[0], "perdure approvals lists those that wait")
        case Timeout(timeout_s=timeout_s):
            return safe_lines(f"no engine has accepted the decision within {timeout_s:g} s", "it stays recorded, and the next engine that runs accepts it")
        case BadValue(what="/approve"):
            return safe_lines("the link offers both answers", "choose one with --approve or --reject")
        case BadValue(what="what was filled in"):
            return safe_lines(str(error), "perdure approvals ID shows the form; -i KEY=VALUE or --value JSON fills it in")
        case _:
            return error_message(error)
