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
    """Look after the file of the database: where it is, check, back up, upgrade."""


@click.command("path", cls=Command)
@click.pass_obj
def path(settings: Settings) -> None:
    """Print where the file is."""
    click.echo(_file(settings))


@click.command("check", cls=Command)
@click.pass_obj
def check(settings: Settings, /) -> None:
    """Read all of the file, and say whether it is whole."""
    from perdure.stores.sqlite import opening

    file = _existing(settings)
    if damage := opening.check(file).damage:
        raise Outcome(Exit.STORE, f"{file} is damaged: {damage[0]}\nrestore it from a backup")
    click.echo(f"{file} is whole")


@click.command("backup", cls=Command)
@click.argument("target", metavar="FILE", type=click.Path(path_type=Path))
@click.pass_obj
def backup(settings: Settings, /, target: Path) -> None:
    """Copy the database to a new FILE, while it is in use."""
    from perdure.cli import words
    from perdure.stores.sqlite.backup import backup as copy

    copy(_existing(settings), target)
    click.echo(f"{target} has a copy, {words.size(target.stat().st_size)}")


@click.command("upgrade", cls=Command)
@click.pass_obj
def upgrade(settings: Settings, /) -> None:
    """Bring the tables of an older file to those of this Perdure."""
    from perdure.stores.sqlite import opening

    for done in opening.upgrade(_existing(settings)) or ["nothing to do: its tables are those of this Perdure"]:
        click.echo(done)


db.section("Commands", (path, check, backup, upgrade))


def _file(settings: Settings) -> Path:
    from perdure.runtime.host import file_of

    file = file_of(settings.url())
    if file is None:
        raise Outcome(Exit.INPUT, f"{settings.url()} is no file\nname one: --db sqlite:///path/to/file.db")
    return file


def _existing(settings: Settings) -> Path:
    file = _file(settings)
    settings.expect(file)
    return file
