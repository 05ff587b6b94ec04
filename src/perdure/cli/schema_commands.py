"""The commands for the tables of the database: `db migrate`, `db status`, `db grants`, and what `db check` and `db init` do on Postgres.

Most is for Postgres, where tables are changed while engines work and roles have rights. A file of SQLite has one version, and an upgrade of its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from perdure.cli.exit_codes import CommandExit, ExitCode
from perdure.cli.root_command import CliCommand
from perdure.cli.shared_options import GlobalOptions, json_option

if TYPE_CHECKING:
    from perdure.cli.plain_text import TextTable
    from perdure.stores.postgres.grants import Purpose
    from perdure.stores.postgres.schema_maintenance import OpenSchema, SchemaStatus

T = TypeVar("T")
schema_option = click.option("--schema", metavar="NAME", help="Postgres: the schema; else that of the URL, else perdure.")


@click.command("migrate", cls=CliCommand)
@schema_option
@click.option("--sql", is_flag=True, help="Postgres: print the SQL for a person who runs it by hand, and change nothing.")
@click.option("--dry-run", is_flag=True, help="Postgres: say which scripts are missing, and change nothing.")
@click.option("--stopped", is_flag=True, help="Postgres: engines of the present schema have ended. Needed for a script that does not work with them.")
@click.pass_obj
def migrate(settings: GlobalOptions, /, *, schema: str | None, sql: bool, dry_run: bool, stopped: bool) -> None:
    """Create the tables, or upgrade them to this version of Perdure.

    On Postgres, numbered scripts are applied while engines work, each in one transaction. It may be killed and run again, and several may run at once.
    A role is needed that owns the schema, or may create it; engines need fewer rights afterwards (perdure db grants).
    """
    if not is_on_postgres(settings):
        _only_for_postgres(settings, {"--schema": schema, "--sql": sql, "--dry-run": dry_run, "--stopped": stopped})
        upgrade_file(settings)
        return

    async def carry_out(opened: OpenSchema) -> None:
        from perdure.cli import terminal_text

        state, scripts = await opened.to_apply(engines_are_stopped=stopped or dry_run)
        if sql:
            click.echo(f"-- {state.place}, from version {state.number} to {state.number + len(scripts)}. Run it with psql -v ON_ERROR_STOP=1.\n")
            click.echo(opened.migrations.script_for_hand(state), nl=False)
        elif dry_run:
            for script in scripts:
                click.echo(
                    f"{script.name}: works with engines that know version {script.works_from}{'' if script.in_transaction else ', outside of a transaction'}"
                )
            click.echo(f"{terminal_text.count(len(scripts), 'script')} would be applied to {state.place}, which has tables of version {state.number}", err=True)
        else:
            await opened.migrate(click.echo)
            now = await opened.state()
            click.echo(f"{now.place} has tables of version {now.number}; engines that know version {now.oldest_engine} may run")

    on_schema(settings, schema, carry_out)


@click.command("status", cls=CliCommand)
@schema_option
@json_option
@click.pass_obj
def status(settings: GlobalOptions, /, *, schema: str | None, as_json: bool) -> None:
    """Show the version of the tables, what was applied and what is missing, and which engines can use them.

    The exit code is 50 if this Perdure can't use the tables as they are.
    """
    from perdure.cli import output, terminal
    from perdure.cli.plain_text import TextCell

    if not is_on_postgres(settings):
        _only_for_postgres(settings, {"--schema": schema})
        _show_file(settings, as_json)
        return

    async def read(opened: OpenSchema) -> SchemaStatus:
        return await opened.status()

    found = on_schema(settings, schema, read)
    if as_json:
        click.echo(output.indented_json(found))
    else:
        engines = f"; engines that know version {found.oldest_engine} may run" if found.number else ""
        has = f"has tables of version {found.number}" if found.number else "has no tables of Perdure yet"
        click.echo(f"the schema {found.schema} of the database {found.database} {has}, and this Perdure knows version {found.known}{engines}")
        output.show_table(_history_table(found), terminal.screen())
        output.show_lines([[TextCell(f"{name} is missing", "warn")] for name in found.missing], terminal.screen())
    if not found.usable:
        raise CommandExit(ExitCode.STORE, found.reason)


def _history_table(found: SchemaStatus) -> TextTable:
    from perdure.cli.plain_text import TextCell, TextTable

    rows = ((one.name, f"{one.applied_at:%Y-%m-%d %H:%M:%S}Z", one.perdure_version, f"from {one.works_from} on", one.sha256[:12]) for one in found.history)
    return TextTable(("SCRIPT", "APPLIED", "BY PERDURE", "ENGINES", "SHA256"), tuple(tuple(map(TextCell, row)) for row in rows))


PURPOSES = ("engine", "client", "read", "transaction")


@click.command("grants", cls=CliCommand)
@click.argument("role", metavar="ROLE")
@click.option(
    "--for",
    "purpose",
    type=click.Choice(PURPOSES),
    required=True,
    help="engine: engines and workers. client: starts, sends and reads. read: reads. transaction: the role of an application that passes connection=.",
)
@schema_option
@click.option("--yes", is_flag=True, help="Carry the statements out, and print nothing else.")
@click.pass_obj
def grants(settings: GlobalOptions, /, *, role: str, purpose: Purpose, schema: str | None, yes: bool) -> None:
    """Print the statements that give a ROLE of Postgres the rights that it needs, and no others in the schema; or carry them out.

    Tables that later migrations add are included, as far as the purpose goes. Run it again after a migration for client and transaction.
    """
    if not is_on_postgres(settings):
        raise CommandExit(ExitCode.INPUT, f"{settings.file()} has permissions and no roles\nperdure db init --mode 660 makes a file for a group")

    async def carry_out(opened: OpenSchema) -> None:
        statements = await opened.grants(role, purpose)
        if yes:
            await opened.grant(statements)
            click.echo(f"the role {role} has the rights of {purpose} in the schema {opened.migrations.schema}")
        else:
            click.echo("\n".join(statements))

    on_schema(settings, schema, carry_out)


def check_schema(settings: GlobalOptions, schema: str | None) -> None:
    """Compares the tables of a Postgres database with what the migrations make, and prints each difference.

    Raises:
        CommandExit: there are differences.
    """

    async def compare(opened: OpenSchema) -> None:
        differences = await opened.differences()
        for one in differences:
            click.echo(str(one))
        state = await opened.state()
        if differences:
            raise CommandExit(ExitCode.STORE, f"{state.place} differs from what its migrations make; undo what was changed by hand")
        click.echo(f"{state.place} is as its migrations make it, up to version {state.number}")

    on_schema(settings, schema, compare)


def create_schema(settings: GlobalOptions, schema: str | None) -> None:
    """Creates the tables in a Postgres database that has none of Perdure's.

    Raises:
        CommandExit: it has older ones.
    """

    async def create(opened: OpenSchema) -> None:
        state, scripts = await opened.to_apply(engines_are_stopped=False)
        if state.number and scripts:
            raise CommandExit(ExitCode.INPUT, f"{state.place} has tables of version {state.number}\nperdure db migrate upgrades them")
        await opened.migrate(click.echo)
        click.echo(f"{state.place} has Perdure's tables")

    on_schema(settings, schema, create)


def is_on_postgres(settings: GlobalOptions) -> bool:
    """Is true if the database is one of Postgres."""
    from perdure.stores.configured_store import is_postgres

    return is_postgres(settings.url())


def on_schema(settings: GlobalOptions, schema: str | None, do: Callable[[OpenSchema], Awaitable[T]]) -> T:
    """Does something with the schema of the database, or the one that the command names."""
    import asyncio

    from perdure.stores.postgres.schema_maintenance import open_schema

    async def opened() -> T:
        async with open_schema(settings.url(), schema) as there:
            return await do(there)

    return asyncio.run(opened())


def _only_for_postgres(settings: GlobalOptions, options: dict[str, Any]) -> None:
    if given := [name for name, value in options.items() if value]:
        raise click.UsageError(f"{given[0]} is for Postgres, and {settings.file()} is a file.")


def upgrade_file(settings: GlobalOptions) -> None:
    """Upgrades the tables of a file, and prints what was done."""
    from perdure.stores.sqlite import database_setup

    for done in database_setup.upgrade_database(settings.existing_file()) or ["nothing to do: its tables are those of this version of Perdure"]:
        click.echo(done)


def _show_file(settings: GlobalOptions, as_json: bool) -> None:
    from perdure.cli import output
    from perdure.stores.sqlite.database_setup import tables_version
    from perdure.stores.sqlite.table_schema import SCHEMA_VERSION as known

    file = settings.existing_file()
    version = tables_version(file)
    if as_json:
        click.echo(output.indented_json({"file": str(file), "version": version, "known": known, "usable": version == known}))
    else:
        click.echo(f"{file} has tables of version {version}, and this Perdure has {known}")
    if version != known:
        raise CommandExit(ExitCode.STORE, "perdure db migrate upgrades them, while no other process has the file open")
