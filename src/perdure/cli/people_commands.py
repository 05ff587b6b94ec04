"""The commands `people …`: when somebody is out of office and who stands in, where e-mail reaches them, and what they are not notified of."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import click

from perdure.cli.root_command import CliCommand, CliGroup
from perdure.cli.service_calls import with_service
from perdure.cli.shared_options import GlobalOptions, json_option

if TYPE_CHECKING:
    from perdure.async_people import AsyncPeople
    from perdure.operations.local_service import LocalService
    from perdure.service.people.person_records import PersonDetails

T = TypeVar("T")

KINDS = ("asked", "reminder", "escalated", "failure", "needs_attention", "breaker_open", "proposal_filed", "dead_letter_surge")
"""What people are notified of. It is not imported, so that printing help is fast; a test compares them."""

name_argument = click.argument("name", default="", metavar="[NAME]")


@click.group("people", cls=CliGroup)
def people() -> None:
    """People: who is out of office and who stands in, and what they are notified of."""


def with_people(settings: GlobalOptions, work: Callable[[AsyncPeople, str], Coroutine[Any, Any, T]], *, creates: bool = False) -> T:
    """Runs `work` with the people of the service, and with the name of the caller: that by which they have signed in to a server, else that of the user.

    The user of this machine is also the caller of its `perdure dev`.
    """
    from perdure.async_people import AsyncPeople
    from perdure.cli.approval_commands import current_user
    from perdure.operations import on_access
    from perdure.service.callers import LOCAL, SIGNED_IN

    async def done(call: LocalService) -> T:
        subject = LOCAL.subject if settings.server_url() is None else (await call(on_access.whoami, call.caller)).subject
        own = current_user() if subject == LOCAL.subject else subject.removeprefix(SIGNED_IN)
        return await work(AsyncPeople(call.access), own)

    return with_service(settings, done, creates=creates)


@click.command("show", cls=CliCommand)
@name_argument
@json_option
@click.pass_obj
def show(settings: GlobalOptions, /, *, name: str, as_json: bool) -> None:
    """Show what is known of a person, by default of yourself. Only admins see others."""
    _print(with_people(settings, lambda known, own: known.person(name or own, tenant=settings.tenant)), as_json)


@click.command("set", cls=CliCommand)
@name_argument
@click.option("--out-from", metavar="TIME", help="You are out of office from this time on, such as 2027-01-01T09:00:00Z.")
@click.option("--out-until", metavar="TIME", help="And until this time; without it, until --back.")
@click.option("--substitute", metavar="PERSON", help="Who may decide in your place while you are out.")
@click.option("--back", is_flag=True, help="You are not out of office any more, and nobody stands in.")
@click.option("--email", metavar="ADDRESS", help="Where notifications reach you; an empty one removes the address.")
@click.option("--unsubscribe", "unwanted", multiple=True, type=click.Choice(KINDS), help="Do not notify you of this. Several are possible.")
@click.option("--subscribe", "wanted", multiple=True, type=click.Choice(KINDS), help="Notify you of this again. Several are possible.")
@json_option
@click.pass_obj
def set_(settings: GlobalOptions, /, *, name: str, as_json: bool, **given: Any) -> None:
    """Change what is known of a person, by default of yourself. What no option names stays as it is. Only admins change others."""
    if given["back"] and (given["out_from"] or given["out_until"] or given["substitute"]):
        raise click.UsageError("--back is given without --out-from, --out-until and --substitute")

    async def changed(known: AsyncPeople, own: str) -> PersonDetails:
        before = await known.person(name or own, tenant=settings.tenant)
        return await known.save_person(before.name, **_changes(before, given), revision=before.version, tenant=settings.tenant)

    _print(with_people(settings, changed, creates=True), as_json)


def _changes(before: PersonDetails, given: dict[str, Any]) -> dict[str, Any]:
    """The fields of a person with what the options change."""
    from datetime import UTC, datetime

    from perdure.cli.argument_values import time_option

    def time(option: str, known_s: float | None) -> datetime | None:
        at_s = known_s if given[option] is None else time_option(given[option], f"--{option.replace('_', '-')}")
        return None if at_s is None or given["back"] else datetime.fromtimestamp(at_s, UTC)

    unsubscribed = [kind for kind in dict.fromkeys((*before.unsubscribed, *given["unwanted"])) if kind not in given["wanted"]]
    substitute = before.substitute if given["substitute"] is None else given["substitute"]
    return {
        "out_from": time("out_from", before.out_from_at_s),
        "out_until": time("out_until", before.out_until_at_s if given["out_from"] is None else None),
        "substitute": "" if given["back"] else substitute,
        "email": before.email if given["email"] is None else given["email"],
        "unsubscribed": unsubscribed,
    }


def _print(found: PersonDetails, as_json: bool) -> None:
    from perdure.cli import notification_views, output
    from perdure.cli.terminal import screen

    if as_json:
        click.echo(output.indented_json(output.as_data(found)))
    else:
        output.show_lines(notification_views.person_lines(found), screen())


people.section("Commands", (show, set_))
