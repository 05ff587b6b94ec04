"""The commands that look after the database: `doctor`, `db`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from perdure.cli.exits import Exit, Outcome
from perdure.cli.root import Command, Group
from perdure.cli.settings import Settings, format_option

if TYPE_CHECKING:
    from perdure.cli.examination import Finding


@click.command("doctor", cls=Command)
@format_option(("table", "json", "jsonl"))
@click.pass_obj
def doctor(settings: Settings, /, *, format: str) -> None:
    """Examine the database and who works on it, and say what to do."""
    from perdure.cli import output, render_doctor
    from perdure.cli.examination import examine

    found: list[Finding] = examine(settings.url(), settings.tenant)
    output.listing(format, (), found, lambda: render_doctor.findings(found))
    if any(one.mark == "bad" for one in found):
        raise Outcome(Exit.STORE)


@click.group("db", cls=Group)
def db() -> None:
    """Look after the file of the database: where it is, its tables, check, back up, restore, vacuum, upgrade, encrypt."""


@click.command("path", cls=Command)
@click.pass_obj
def path(settings: Settings) -> None:
    """Print where the file is."""
    click.echo(settings.file())


@click.command("check", cls=Command)
@click.pass_obj
def check(settings: Settings, /) -> None:
    """Read all of the file, and say whether it is whole."""
    from perdure.stores.sqlite import opening

    file = settings.existing_file()
    if damage := opening.check(file).damage:
        raise Outcome(Exit.STORE, f"{file} is damaged: {damage[0]}\nperdure db restore FILE --replace puts a backup in its place")
    click.echo(f"{file} is whole")


MODES = ("600", "660", "664", "666", "0600", "0660", "0664", "0666")
"""The permissions that a database may be given: its owner, and whoever else may use it, has to write as well."""


@click.command("init", cls=Command)
@click.option("--mode", metavar="OCTAL", help="Make a new file with these permissions, such as 660 for a group; without this, only its owner may read it.")
@click.pass_obj
def init(settings: Settings, /, mode: str | None) -> None:
    """Make Perdure's tables beside those of a program whose database is there already; or, with --mode, a new file.

    A new file gets them by itself when it is first used, and is then its owner's alone (600, in a directory of 700).
    """
    from perdure.stores.sqlite import opening
    from perdure.stores.sqlite.file import DatabaseFile
    from perdure.stores.sqlite.modes import make_database_file

    if mode is not None:
        file = settings.file()
        if mode not in MODES:
            raise click.UsageError(f"--mode {mode} is none of {', '.join(MODES)}.")
        if file.exists():
            raise Outcome(Exit.INPUT, f"{file} is there already\n--mode is for a new file; chmod changes the permissions of this one")
        make_database_file(file, int(mode, 8))
        opening.open_database(DatabaseFile(file.absolute())).close()
    else:
        file = settings.existing_file()
        opening.make_beside(file)
    click.echo(f"{file} has Perdure's tables")


@click.command("backup", cls=Command)
@click.argument("target", metavar="FILE", type=click.Path(path_type=Path))
@click.pass_obj
def backup(settings: Settings, /, target: Path) -> None:
    """Copy the database to a new FILE, while it is in use."""
    from perdure.cli import words
    from perdure.stores.sqlite.backup import backup as copy

    copy(settings.existing_file(), target)
    click.echo(f"{target} has a copy, {words.size(target.stat().st_size)}")


@click.command("restore", cls=Command)
@click.argument("backup", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--replace", is_flag=True, help="Replace the database that is there; what it has is lost then.")
@click.pass_obj
def restore(settings: Settings, /, backup: Path, *, replace: bool) -> None:
    """Put a copy of the backup FILE in the place of the database.

    The backup is checked first. What belongs to the old database goes with it, the write-ahead log too, and the copy gets a new epoch: what engines decided
    after the backup was made does not count. Nobody may use the database meanwhile. Interrupted, it leaves the old database or the new one; run it again.
    """
    from perdure.cli import words
    from perdure.stores.sqlite.restore import restore as put_back

    file = settings.file()
    done = put_back(backup, file, replace=replace)
    click.echo(f"{file} was restored: {words.count(done.executions, 'execution')}, {words.size(done.size_bytes)}, in a new epoch")
    if done.unreadable:
        has = "has one row" if done.unreadable == 1 else f"has {done.unreadable:,} rows"
        click.echo(f"the backup {has} that can't be read; perdure verify names the executions", err=True)


@click.command("vacuum", cls=Command)
@click.pass_obj
def vacuum(settings: Settings, /) -> None:
    """Give what is free in the file back to the disk, a little at a time, while engines go on. Interrupted, it goes on when it is run again."""
    from perdure.cli import words
    from perdure.stores.sqlite.vacuum import vacuum as give_back

    file = settings.existing_file()
    done = give_back(file)
    click.echo(f"{file} had {words.size(done.before_bytes)} and has {words.size(done.after_bytes)}, of which {words.size(done.free_bytes)} free")
    if not done.emptied:
        click.echo("the file becomes that small once nobody reads what was there before; end what has been reading for long", err=True)


@click.command("upgrade", cls=Command)
@click.pass_obj
def upgrade(settings: Settings, /) -> None:
    """Bring the tables of an older file to those of this Perdure."""
    from perdure.stores.sqlite import opening

    for done in opening.upgrade(settings.existing_file()) or ["nothing to do: its tables are those of this Perdure"]:
        click.echo(done)


@click.command("keys", cls=Command)
@format_option(("table", "json", "jsonl", "ids"))
@click.pass_obj
def keys(settings: Settings, /, *, format: str) -> None:
    """List the keys that payloads are encrypted with, by their ids, and how many."""
    from perdure.cli import output, rekeying
    from perdure.stores.sqlite.rekey import key_uses

    found = key_uses(settings.existing_file())
    output.listing(format, (use.key_id for use in found if use.key_id is not None), found, lambda: rekeying.table(found))


@click.command("rekey", cls=Command)
@click.option("--vacuum", is_flag=True, help="Then make the file anew, without what was deleted before; nobody can write meanwhile.")
@click.pass_obj
def rekey(settings: Settings, /, *, vacuum: bool) -> None:
    """Encrypt everything under the first key of PERDURE_KEYS, while engines go on."""
    from perdure.cli import rekeying

    click.echo(rekeying.encrypt_anew(settings.existing_file(), vacuum))


@click.group("key", cls=Group)
def key() -> None:
    """Make keys."""


@click.command("new", cls=Command)
def new() -> None:
    """Print a fresh key. It is kept nowhere; what is encrypted with a key that is lost is lost."""
    from perdure.stores.encryption import new_key

    click.echo(new_key())


key.section("Commands", (new,))
db.section("Commands", (path, init, check, backup, restore, vacuum, upgrade))
db.section("Keys", (keys, rekey, key))
