"""The command `lint`, which checks workflows without running them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.exit_codes import CommandExit, ExitCode
from perdure.cli.root_command import CliCommand
from perdure.cli.shared_options import blobs_option, format_option

if TYPE_CHECKING:
    from perdure.lint import LintFinding, LintRule

DEFINITION = "definition"
"""The kind of all findings about definitions, which have codes of their own. A selection by codes leaves it out."""

UNREADABLE = "PD000"
"""The code that no selection leaves out, because nothing else is known of such a file."""


@click.command("lint", cls=CliCommand)
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--select", metavar="CODES", multiple=True, help="Only these codes; PD1 stands for all codes with this prefix.")
@click.option("--ignore", metavar="CODES", multiple=True, help="All codes but these.")
@blobs_option
@click.option("--strict", is_flag=True, help="Warnings count as errors.")
@click.option("--explain", metavar="CODE", help="Explain a rule, with a bad and a good example.")
@click.option("--list", "listed", is_flag=True, help="List the rules.")
@click.option("--json", "as_json", is_flag=True, help="The same as -o json.")
@format_option(("table", "json", "jsonl"))
def lint(*, paths: tuple[str, ...], explain: str | None, listed: bool, as_json: bool, format: str, strict: bool, **given: Any) -> None:
    """Find code that breaks replay in workflow functions, and errors in definitions, without running them.

    PATH is a file (Python, or a definition in YAML or JSON), a directory whose Python files are checked, or - for Python on standard input (default: here).
    """
    from perdure.lint import RULES

    form = "json" if as_json else format
    if explain is not None:
        _explain([RULES[code] for code in sorted(_codes([explain]))], form)
    elif listed:
        _list(list(RULES.values()), form)
    else:
        chosen = (_codes(given["select"]) | {UNREADABLE} if given["select"] else set(RULES)) - _codes(given["ignore"])
        count, found = _findings(paths or (".",), chosen if given["select"] else chosen | {DEFINITION}, given["blobs"])
        _show(found, count, form)
        if any(strict or one.severity == "error" for one in found):
            raise CommandExit(ExitCode.FINDINGS)


def _findings(paths: Iterable[str], codes: set[str], blobs: str | None) -> tuple[int, list[LintFinding]]:
    """How many files were checked, and the findings."""
    from perdure.cli import definition_files

    found: dict[str, list[LintFinding]] = {}
    try:
        for file in definition_files.python_files(paths):
            found[file] = _findings_in(file, blobs)
    except FileNotFoundError as error:
        raise CommandExit(ExitCode.INPUT, f"{error} does not exist\nname files or directories, or - for standard input") from error
    return len(found), [one for several in found.values() for one in several if one.code in codes or (one.kind == DEFINITION and DEFINITION in codes)]


def _findings_in(file: str, blobs: str | None) -> list[LintFinding]:
    from perdure.cli import definition_files
    from perdure.lint import lint, unreadable

    if file != definition_files.STDIN and definition_files.is_document(file):
        return _findings_in_definition(file, blobs)
    try:
        return lint(definition_files.read_source(file), file)
    except OSError as error:
        return [unreadable(file, error.strerror or str(error))]


def _findings_in_definition(file: str, blobs: str | None) -> list[LintFinding]:
    """The findings of `perdure validate` as findings of lint."""
    from perdure.cli.definition_commands import definition_findings
    from perdure.cli.definition_files import finding_message
    from perdure.lint import LintFinding

    found = definition_findings(file, blobs)[1]
    return [LintFinding(file, one.line, one.column, one.line, one.column, one.code, DEFINITION, one.severity, finding_message(one)) for one in found]


def _codes(given: Iterable[str]) -> set[str]:
    """The selected codes, given in full or by prefix."""
    from perdure.lint import RULES

    found: set[str] = set()
    for word in (word.strip().upper() for words in given for word in words.split(",")):
        meant = {code for code in RULES if word and code.startswith(word)}
        if not meant:
            raise CommandExit(ExitCode.INPUT, f"there is no rule {word or repr(word)}\nperdure lint --list lists the rules")
        found |= meant
    return found


def _show(found: list[LintFinding], count: int, form: str) -> None:
    from perdure.cli import terminal_text

    if form != "table":
        _show_data(found, form)
        return
    for one in found:
        click.echo(terminal_text.clean(f"{one.path}:{one.line}:{one.column}: {one.code} {one.message}"))
    errors = sum(one.severity == "error" for one in found)
    said = f"{terminal_text.count(errors, 'error')}, {terminal_text.count(len(found) - errors, 'warning')}" if found else "nothing found"
    click.echo(f"{terminal_text.count(count, 'file')}: {said}")


def _list(kinds: list[LintRule], form: str) -> None:
    from perdure.cli import output
    from perdure.cli.plain_text import TextCell, TextTable, cell

    styles = {"error": "bad", "warning": "warn"}
    rows = tuple((TextCell(one.code, "strong"), TextCell(one.severity, styles[one.severity]), cell(one.name), cell(one.title)) for one in kinds)
    output.print_list(form, (), kinds, lambda: TextTable(("CODE", "SEVERITY", "NAME", "WHAT"), rows))


def _explain(kinds: list[LintRule], form: str) -> None:
    if form != "table":
        _show_data(kinds, form)
        return
    for one in kinds:
        click.echo(f"{one.code} {one.name} ({one.severity}): {one.title}\n\n{one.why}\nWhat to do: {one.fix}.\n")
        click.echo(f"Bad:\n{_indented(one.bad)}\nGood:\n{_indented(one.good)}")


def _indented(snippet: str) -> str:
    return "".join(f"    {line}\n" if line else "\n" for line in snippet.strip("\n").split("\n"))


def _show_data(things: Sequence[LintFinding] | Sequence[LintRule], form: str) -> None:
    from perdure.cli import output

    data = [output.as_data(one) for one in things]
    for one in [output.indented_json(data)] if form == "json" else map(output.compact_json, data):
        click.echo(one)
