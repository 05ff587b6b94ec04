"""The commands for keys of the service: `keys create`, `keys ls`, `keys revoke`, `keys rotate`.

A user who can open the database is an admin of every tenant. With a server, the key of the request has to be that of an admin, and the keys are of its
tenant.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from perdure.cli.root_command import CliCommand, CliGroup
from perdure.cli.service_calls import with_service
from perdure.cli.shared_options import GlobalOptions, format_option, json_option

if TYPE_CHECKING:
    from perdure.operations.local_service import LocalService
    from perdure.service.access_keys import CreatedKey, KeyDetails
    from perdure.service.callers import Role

ROLES: tuple[Role, ...] = ("viewer", "operator", "approver", "author", "admin")  # not imported, so that printing help is fast; a test compares them


@click.group("keys", cls=CliGroup)
def keys() -> None:
    """Make and revoke the keys by which programs and people use the service."""


@click.command("create", cls=CliCommand)
@click.argument("name")
@click.option("--admin", is_flag=True, help="All roles: the same as --role admin.")
@click.option("--role", "roles", type=click.Choice(ROLES), multiple=True, help="What the key may do; several add up.")
@click.option("--queue", "queues", metavar="NAME", multiple=True, help="Only tasks of this queue, for a key of workers. Several are possible.")
@click.option("--expires", metavar="TIME", help="After this time the key is no longer valid: 12h, 90d. Without it, until it is revoked.")
@json_option
@click.pass_obj
def create(settings: GlobalOptions, /, *, name: str, admin: bool, roles: tuple[Role, ...], queues: tuple[str, ...], expires: str | None, as_json: bool) -> None:
    """Make a key for a tenant. It is printed on standard output, this once; the database has only its hash."""
    from perdure.code.durations import duration_seconds
    from perdure.operations import on_access
    from perdure.service.access_keys import KeyRequest

    if not admin and not roles:
        raise click.UsageError(f"a key needs a role: pass --admin, or --role with one of {', '.join(ROLES)}")
    valid_s = None if expires is None else duration_seconds(expires, "--expires")
    request = KeyRequest(name=name, roles=(*roles, "admin") if admin else roles, queues=queues or None, valid_s=valid_s)

    async def made(call: LocalService) -> CreatedKey:
        return await call(on_access.create_key, call.caller, request)

    _print_new(with_service(settings, made, creates=True), as_json)


@click.command("ls", cls=CliCommand)
@json_option
@format_option()
@click.pass_obj
def ls(settings: GlobalOptions, /, *, as_json: bool, format: str) -> None:
    """List the keys of a tenant, without their secrets. Revoked and expired ones are listed for 90 days."""
    from perdure.async_administration import AsyncAdministration
    from perdure.cli import output, record_views

    async def listed(call: LocalService) -> list[KeyDetails]:
        return await AsyncAdministration(call.access).keys(tenant=settings.tenant)

    found = with_service(settings, listed)
    output.print_list("json" if as_json else format, (one.id for one in found), found, lambda: record_views.key_table(found, time.time()))
    if not found and format == "table" and not as_json:
        click.echo(f"perdure: the tenant {settings.tenant} has no keys\nperdure keys create NAME --admin makes one", err=True)


@click.command("revoke", cls=CliCommand)
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@json_option
@click.pass_obj
def revoke(settings: GlobalOptions, /, *, ids: tuple[str, ...], as_json: bool) -> None:
    """Revoke keys. Within 5 seconds no process accepts them, nor the sessions that they have opened."""
    from perdure.cli import output, terminal_text
    from perdure.operations import on_access

    async def revoked(call: LocalService) -> list[KeyDetails]:
        return [await call(on_access.revoke_key, call.caller, id) for id in ids]

    found = with_service(settings, revoked)
    if as_json:
        click.echo(output.indented_json([output.as_data(one) for one in found]))
    else:
        click.echo("\n".join(f"{one.id} ({terminal_text.clean(one.name)}) is revoked" for one in found))


@click.command("rotate", cls=CliCommand)
@click.argument("id", metavar="ID")
@click.option("--overlap", default="1d", show_default=True, metavar="TIME", help="How long the present secret stays valid beside the new one; 0: not at all.")
@json_option
@click.pass_obj
def rotate(settings: GlobalOptions, /, *, id: str, overlap: str, as_json: bool) -> None:
    """Give a key a new secret, which is printed on standard output, this once."""
    from perdure.code.durations import duration_seconds
    from perdure.operations import on_access

    overlap_s = 0.0 if overlap == "0" else duration_seconds(overlap, "--overlap")

    async def rotated(call: LocalService) -> CreatedKey:
        return await call(on_access.rotate_key, settings.tenant, id, overlap_s)

    _print_new(with_service(settings, rotated), as_json)


def _print_new(made: CreatedKey, as_json: bool) -> None:
    from perdure.cli import output, terminal_text

    if as_json:
        click.echo(output.indented_json({**output.as_data(made.key), "text": made.text}))
        return
    click.echo(made.text)
    key = made.key
    roles, queues = ", ".join(key.roles), "" if key.queues is None else f", queues {', '.join(map(terminal_text.clean, key.queues))}"
    until = "until it is revoked" if key.expires_at_s is None else f"until {terminal_text.utc_time(key.expires_at_s)} UTC"
    said = f"the key {key.id} of the tenant {terminal_text.clean(key.tenant)} ({roles}{queues}) is valid {until}"
    click.echo(f"perdure: {said}\nkeep it now: it is not shown again", err=True)


keys.section("Commands", (create, ls, revoke, rotate))
