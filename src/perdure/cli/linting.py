"""The command that reads workflows without running them: `lint`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.exits import Exit, Outcome
from perdure.cli.places import blobs_option
from perdure.cli.root import Command
from perdure.cli.settings import format_option

if TYPE_CHECKING:
    from perdure.lint import Finding, Kind

DEFINITION = "definition"
"""The kind of what is wrong with a definition, of which each thing has a code of its own; a selection of kinds leaves it out."""

UNREADABLE = "PD000"
"""The kind that is never left out by a selection, for of such a file nothing else is known."""


@click.command("lint", cls=Command)
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--select", metavar="CODES", multiple=True, help="Only these kinds; PD1 stands for all that begin with it.")
@click.option("--ignore", metavar="CODES", multiple=True, help="All but these kinds.")
@blobs_option
@click.option("--strict", is_flag=True, help="Warnings count as errors.")
@click.option("--explain", metavar="CODE", help="Say why a kind is one, with an example of what is bad and what is good.")
@click.option("--list", "listed", is_flag=True, help="List the kinds.")
@click.option("--json", "as_json", is_flag=True, help="The same as -o json.")
@format_option(("table", "json", "jsonl"))
def lint(*, paths: tuple[str, ...], explain: str | None, listed: bool, as_json: bool, format: str, strict: bool, **given: Any) -> None:
    """Find what breaks replay in workflow functions, and what is wrong with definitions, without running them.

    PATH is a file, of Python or a definition (YAML, JSON), a directory, whose Python files are meant, or - for Python on standard input (default: here).
    """
    from perdure.lint import KINDS

    form = "json" if as_json else format
    if explain is not None:
        _explain([KINDS[code] for code in sorted(_codes([explain]))], form)
    elif listed:
        _list(list(KINDS.values()), form)
    else:
        chosen = (_codes(given["select"]) | {UNREADABLE} if given["select"] else set(KINDS)) - _codes(given["ignore"])
        count, found = _findings(paths or (".",), chosen if given["select"] else chosen | {DEFINITION}, given["blobs"])
        _show(found, count, form)
        if any(strict or one.severity == "error" for one in found):
            raise Outcome(Exit.FINDINGS)


def _findings(paths: Iterable[str], codes: set[str], blobs: str | None) -> tuple[int, list[Finding]]:
    """How many files were looked into, and what was found."""
    from perdure.cli import sources

    found: dict[str, list[Finding]] = {}
    try:
        for file in sources.files(paths):
            found[file] = _findings_in(file, blobs)
    except FileNotFoundError as error:
        raise Outcome(Exit.INPUT, f"there is no {error}\nname files or directories, or - for standard input") from error
    return len(found), [one for several in found.values() for one in several if one.code in codes or (one.kind == DEFINITION and DEFINITION in codes)]


def _findings_in(file: str, blobs: str | None) -> list[Finding]:
    from perdure.cli import documents, sources
    from perdure.lint import lint, unreadable

    if file != sources.STDIN and documents.is_document(file):
        return _findings_in_definition(file, blobs)
    try:
        return lint(sources.read(file), file)
    except OSError as error:
        return [unreadable(file, error.strerror or str(error))]


def _findings_in_definition(file: str, blobs: str | None) -> list[Finding]:
    """What `perdure validate` finds, as findings of lint."""
    from perdure.cli.defining import read
    from perdure.cli.documents import message
    from perdure.lint import Finding

    found = read(file, blobs)[1]
    return [Finding(file, one.line, one.column, one.line, one.column, one.code, DEFINITION, one.severity, message(one)) for one in found]


def _codes(given: Iterable[str]) -> set[str]:
    """The codes that are meant, by themselves or by how they begin."""
    from perdure.lint import KINDS

    found: set[str] = set()
    for word in (word.strip().upper() for words in given for word in words.split(",")):
        meant = {code for code in KINDS if word and code.startswith(word)}
        if not meant:
            raise Outcome(Exit.INPUT, f"there is no kind {word or repr(word)}\nperdure lint --list shows those that there are")
        found |= meant
    return found


def _show(found: list[Finding], count: int, form: str) -> None:
    from perdure.cli import words

    if form != "table":
        _show_data(found, form)
        return
    for one in found:
        click.echo(words.clean(f"{one.path}:{one.line}:{one.column}: {one.code} {one.message}"))
    errors = sum(one.severity == "error" for one in found)
    said = f"{words.count(errors, 'error')}, {words.count(len(found) - errors, 'warning')}" if found else "nothing found"
    click.echo(f"{words.count(count, 'file')}: {said}")


def _list(kinds: list[Kind], form: str) -> None:
    from perdure.cli import output
    from perdure.cli.render import Cell, Table, cell

    styles = {"error": "bad", "warning": "warn"}
    rows = tuple((Cell(one.code, "strong"), Cell(one.severity, styles[one.severity]), cell(one.name), cell(one.title)) for one in kinds)
    output.listing(form, (), kinds, lambda: Table(("CODE", "SEVERITY", "NAME", "WHAT"), rows))


def _explain(kinds: list[Kind], form: str) -> None:
    if form != "table":
        _show_data(kinds, form)
        return
    for one in kinds:
        click.echo(f"{one.code} {one.name} ({one.severity}): {one.title}\n\n{one.why}\nWhat to do: {one.fix}.\n")
        click.echo(f"Bad:\n{_indented(one.bad)}\nGood:\n{_indented(one.good)}")


def _indented(snippet: str) -> str:
    return "".join(f"    {line}\n" if line else "\n" for line in snippet.strip("\n").split("\n"))


def _show_data(things: Sequence[Finding] | Sequence[Kind], form: str) -> None:
    from perdure.cli import output

    data = [output.data(one) for one in things]
    for one in [output.document(data)] if form == "json" else map(output.compact, data):
        click.echo(one)
