"""The commands that maintain the database: `doctor`, `db`. Those that copy it are in `copy_commands`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from perdure.cli import schema_commands
from perdure.cli.copy_commands import compare, copy
from perdure.cli.epoch_command import raise_epoch
from perdure.cli.exit_codes import CommandExit, ExitCode
from perdure.cli.root_command import CliCommand, CliGroup
from perdure.cli.schema_commands import schema_option
from perdure.cli.shared_options import GlobalOptions, format_option

if TYPE_CHECKING:
    from perdure.cli.doctor_findings import DoctorFinding


@click.command("doctor", cls=CliCommand)
@format_option(("table", "json", "jsonl"))
@click.pass_obj
def doctor(settings: GlobalOptions, /, *, format: str) -> None:
    """Examine the database and the processes that work on it, and advise what to do."""
    from perdure.cli import doctor_report, output
    from perdure.cli.doctor_report import examine

    found: list[DoctorFinding] = examine(settings.url(), settings.tenant)
    output.print_list(format, (), found, lambda: doctor_report.doctor_table(found))
    if any(one.mark == "bad" for one in found):
        raise CommandExit(ExitCode.STORE)


@click.group("db", cls=CliGroup)
def db() -> None:
    """Maintain the database: locate, create, check, back up, restore, vacuum, migrate, grant rights, move, encrypt."""


@click.command("path", cls=CliCommand)
@click.pass_obj
def path(settings: GlobalOptions) -> None:
    """Print the path of the file."""
    click.echo(settings.file())


@click.command("check", cls=CliCommand)
@schema_option
@click.pass_obj
def check(settings: GlobalOptions, /, *, schema: str | None) -> None:
    """Check that the database is as it should be: that a file is intact, or that the tables of Postgres are those that its migrations make."""
    from perdure.stores.sqlite import database_setup

    if schema_commands.is_on_postgres(settings):
        schema_commands.check_schema(settings, schema)
        return
    file = settings.existing_file()
    if damage := database_setup.check_database(file).damage:
        raise CommandExit(ExitCode.STORE, f"{file} is damaged: {damage[0]}\nperdure db restore FILE --replace puts a backup in its place")
    click.echo(f"{file} is intact")


MODES = ("600", "660", "664", "666", "0600", "0660", "0664", "0666")
"""The permissions that a database may have: each user who may read it must be able to write, too."""


@click.command("init", cls=CliCommand)
@click.option("--mode", metavar="OCTAL", help="Create a new file with these permissions, such as 660 for a group; by default, only its owner may read it.")
@schema_option
@click.pass_obj
def init(settings: GlobalOptions, /, mode: str | None, schema: str | None) -> None:
    """Create Perdure's tables beside those of an existing application database; or, with --mode, a new file.

    A new file gets the tables by itself when it is first used, readable by its owner only (600, in a directory of 700). In Postgres, they get a schema of
    their own; an engine creates it by itself if its role may.
    """
    from perdure.stores.sqlite import database_setup
    from perdure.stores.sqlite.database_file import DatabaseFile
    from perdure.stores.sqlite.file_permissions import make_database_file

    if schema_commands.is_on_postgres(settings):
        if mode is not None:
            raise click.UsageError("--mode is for a file, and this database is one of Postgres; perdure db grants gives roles their rights.")
        schema_commands.create_schema(settings, schema)
        return
    if mode is not None:
        file = settings.file()
        if mode not in MODES:
            raise click.UsageError(f"--mode {mode} is not one of {', '.join(MODES)}.")
        if file.exists():
            raise CommandExit(ExitCode.INPUT, f"{file} exists already\n--mode is for a new file; chmod changes the permissions of this one")
        make_database_file(file, int(mode, 8))
        database_setup.open_database(DatabaseFile(file.absolute())).close()
    else:
        file = settings.existing_file()
        database_setup.create_beside_application_tables(file)
    click.echo(f"{file} has Perdure's tables")


@click.command("backup", cls=CliCommand)
@click.argument("target", metavar="FILE", type=click.Path(path_type=Path))
@click.pass_obj
def backup(settings: GlobalOptions, /, target: Path) -> None:
    """Copy the database to a new FILE while it is in use."""
    from perdure.cli import terminal_text
    from perdure.stores.sqlite.backup import back_up

    back_up(settings.existing_file(), target)
    click.echo(f"{target} has a copy, {terminal_text.size(target.stat().st_size)}")


@click.command("restore", cls=CliCommand)
@click.argument("backup", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--replace", is_flag=True, help="Replace the existing database; its content is lost.")
@click.pass_obj
def restore(settings: GlobalOptions, /, backup: Path, *, replace: bool) -> None:
    """Replace the database by a copy of the backup FILE.

    The backup is checked first. All files of the old database are removed, including its write-ahead log, and the copy gets a new epoch, so that decisions of
    engines from after the backup are refused. No process may use the database at the same time. If it is interrupted, the old database or the new one is there;
    run it again.
    """
    from perdure.cli import terminal_text
    from perdure.stores.sqlite.backup import restore as put_back

    file = settings.file()
    done = put_back(backup, file, replace=replace)
    click.echo(f"{file} was restored: {terminal_text.count(done.executions, 'execution')}, {terminal_text.size(done.size_bytes)}, in a new epoch")
    if done.unreadable:
        has = "has one row" if done.unreadable == 1 else f"has {done.unreadable:,} rows"
        click.echo(f"the backup {has} that can't be read; perdure verify names the executions", err=True)


@click.command("vacuum", cls=CliCommand)
@click.pass_obj
def vacuum(settings: GlobalOptions, /) -> None:
    """Return free space in the file to the disk, a little at a time, while engines work. If it is interrupted, run it again to continue."""
    from perdure.cli import terminal_text
    from perdure.stores.sqlite.vacuum import vacuum as give_back

    file = settings.existing_file()
    done = give_back(file)
    before, after, free = (terminal_text.size(size_bytes) for size_bytes in (done.before_bytes, done.after_bytes, done.free_bytes))
    click.echo(f"{file} had {before} and has {after}, of which {free} free")
    if not done.emptied:
        click.echo("the file shrinks when no process reads its old content any more; end processes that have been reading for long", err=True)


@click.command("upgrade", cls=CliCommand)
@click.pass_obj
def upgrade(settings: GlobalOptions, /) -> None:
    """Upgrade the tables of an older file to this version of Perdure."""
    schema_commands.upgrade_file(settings)


@click.command("keys", cls=CliCommand)
@format_option(("table", "json", "jsonl", "ids"))
@click.pass_obj
def keys(settings: GlobalOptions, /, *, format: str) -> None:
    """List the ids of the keys that encrypt payloads, and how many payloads each encrypts."""
    from perdure.cli import database_rekey, output
    from perdure.stores.sqlite.rekey import key_uses

    found = key_uses(settings.existing_file())
    output.print_list(format, (use.key_id for use in found if use.key_id is not None), found, lambda: database_rekey.key_table(found))


@click.command("rekey", cls=CliCommand)
@click.option("--vacuum", is_flag=True, help="Then rewrite the file without deleted data; no process can write meanwhile.")
@click.pass_obj
def rekey(settings: GlobalOptions, /, *, vacuum: bool) -> None:
    """Encrypt all payloads with the first key of PERDURE_ENCRYPTION_KEYS, while engines work."""
    from perdure.cli import database_rekey

    click.echo(database_rekey.reencrypt(settings.existing_file(), vacuum))


@click.group("key", cls=CliGroup)
def key() -> None:
    """Create keys."""


@click.command("new", cls=CliCommand)
def new() -> None:
    """Print a fresh key. It is stored nowhere; if it is lost, so is everything that it encrypts."""
    from perdure.stores.encryption import new_key

    click.echo(new_key())


key.section("Commands", (new,))
db.section("Commands", (path, init, check, backup, restore, raise_epoch, vacuum, upgrade))
db.section("Moving", (copy, compare))
db.section("Tables", (schema_commands.migrate, schema_commands.status, schema_commands.grants))
db.section("Keys", (keys, rekey, key))
