"""The commands for those who write definitions: `validate`, `fmt`, `diff`, `compile`, `schema`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.exits import Exit, Outcome
from perdure.cli.places import blobs_option, contents
from perdure.cli.root import Command

if TYPE_CHECKING:
    from perdure.programs.format.finding import Finding
    from perdure.programs.format.reading import Definition

json_flag = click.option("--json", "as_json", is_flag=True, help="Say it as JSON.")
files_argument = click.argument("files", nargs=-1, required=True, metavar="FILE...")


@click.command("validate", cls=Command)
@files_argument
@blobs_option
@click.option("--strict", is_flag=True, help="Warnings count as errors.")
@json_flag
def validate(*, files: tuple[str, ...], blobs: str | None, strict: bool, as_json: bool) -> None:
    """Say what is wrong with definitions, and where; nothing is run. FILE is YAML or JSON, - is standard input."""
    from perdure.cli import documents, output, words

    each = [(file, *read(file, blobs)) for file in files]
    found = [one for _, _, findings in each for one in findings]
    if as_json:
        click.echo(output.document([_as_data(file, definition, findings) for file, definition, findings in each]))
    else:
        for file, definition, findings in each:
            for one in findings:
                click.echo(documents.line(file, one))
            if definition is not None:
                click.echo(f"{documents.name(file)}: {_named(definition)}")
        errors = sum(one.severity == "error" for one in found)
        said = f"{words.count(errors, 'error')}, {words.count(len(found) - errors, 'warning')}" if found else "nothing found"
        click.echo(f"{words.count(len(files), 'file')}: {said}")
    if any(strict or one.severity == "error" for one in found):
        raise Outcome(Exit.INPUT)


def read(file: str, blobs: str | None) -> tuple[Definition | None, list[Finding]]:
    """The definition in a file, if it is one, and all that is to be said of it."""
    from perdure.cli import documents
    from perdure.core.errors import BadDefinition
    from perdure.programs.format import finding
    from perdure.steps import checking

    try:
        definition = checking.read(documents.raw(file), documents.own_name(file), blobs=contents(blobs))
    except BadDefinition as error:
        return None, list(error.findings)
    except documents.Unreadable as why:
        return None, [finding.error("unreadable", "", f"it can't be read: {why}; name a file of YAML or JSON, or - for standard input")]
    return definition, list(definition.findings)


def valid(file: str, blobs: str | None) -> Definition:
    """The definition in a file; the command ends if there is none, or it is not valid."""
    from perdure.cli import documents
    from perdure.core.errors import BadDefinition
    from perdure.steps import checking

    try:
        return checking.read(documents.text(file), documents.own_name(file), blobs=contents(blobs))
    except BadDefinition as error:
        documents.refuse(file, error.findings)


def _named(definition: Definition) -> str:
    """What is said of a definition that is valid."""
    from perdure.cli import words

    about = definition.canonical
    shape = f", read from the shape of {definition.dialect}" if definition.dialect else ""
    return words.clean(f"{about['name']} {about.get('version', '1.0.0')}{shape}, {definition.hash}")


def _as_data(file: str, definition: Definition | None, findings: list[Finding]) -> dict[str, Any]:
    import msgspec

    about = {} if definition is None else definition.canonical
    own = {"name": about.get("name"), "version": about.get("version", "1.0.0"), "hash": definition.hash, "dialect": definition.dialect} if definition else {}
    return {"file": file, "valid": definition is not None, **own, "findings": [msgspec.to_builtins(one) for one in findings]}


@click.command("fmt", cls=Command)
@files_argument
@click.option("--check", is_flag=True, help="Change nothing, and list the files that would be written otherwise.")
@click.option("--stdout", is_flag=True, help="Print them instead of changing the files.")
def fmt(*, files: tuple[str, ...], check: bool, stdout: bool) -> None:
    """Write definitions in the one way: fields in their order, quotes where they are needed. What they say, and comments, stay.

    FILE is YAML or JSON; - is standard input, which is printed.
    """
    from perdure.cli import documents, words
    from perdure.core.errors import BadDefinition
    from perdure.programs.format.fmt import formatted

    if check and stdout:
        raise click.UsageError("give --check or --stdout, not both")
    changed = []
    for file in files:
        raw = documents.text(file)
        try:
            found = formatted(documents.decoded(file, raw)).encode()
        except BadDefinition as error:
            documents.refuse(file, error.findings, "it stays as it is")
        if check or (found != raw and not (stdout or file == "-")):
            changed += [file] if found != raw else []
        if stdout or (file == "-" and not check):
            click.echo(found, nl=False)
        elif found != raw and not check:
            _write(Path(file), found)
    for file in changed:
        click.echo(f"{documents.name(file)} {'would be written otherwise' if check else 'is written anew'}")
    if not check and not stdout:
        return
    if check and changed:
        raise Outcome(Exit.FINDINGS, f"{words.count(len(changed), 'file')} would be written otherwise\nperdure fmt writes them")


def _write(file: Path, raw: bytes) -> None:
    """Put other text into a file, in one go: whoever reads it finds the one or the other."""
    import os
    import tempfile

    from perdure.cli import words

    try:
        real = file.resolve()
        handle, name = tempfile.mkstemp(dir=real.parent, prefix=f".{real.name}.")
        try:
            with os.fdopen(handle, "wb") as writing:
                writing.write(raw)
            Path(name).chmod(real.stat().st_mode & 0o7777)
            Path(name).replace(real)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise Outcome(Exit.INPUT, f"{words.clean(str(file))} can't be written: {error.strerror}") from error


@click.command("diff", cls=Command)
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
@blobs_option
@json_flag
def diff(*, before: str, after: str, blobs: str | None, as_json: bool) -> None:
    """Say what is different in definition B, step by step; how they are written does not matter. A or B may be - for standard input."""
    from perdure.cli import output, words
    from perdure.programs.format import diff as comparing

    if before == after == "-":
        raise click.UsageError("only one of the two can come from standard input")
    changes = comparing.diff(valid(before, blobs).canonical, valid(after, blobs).canonical)
    if as_json:
        click.echo(output.document(changes))
    else:
        for one in comparing.rendered(changes).splitlines():
            click.echo(words.clean(one))
        if not changes:
            click.echo("perdure: they say the same", err=True)


@click.command("compile", cls=Command)
@click.argument("file", metavar="FILE")
@blobs_option
@click.option("--hash", "only_hash", is_flag=True, help="Print the hash of the definition, which names it, and nothing else.")
def compile_(*, file: str, blobs: str | None, only_hash: bool) -> None:
    """Print what a definition compiles to, as JSON: nodes, edges by port, regions. FILE is YAML or JSON, - is standard input."""
    from perdure.cli import output
    from perdure.programs.format.compile import compiled

    definition = valid(file, blobs)
    click.echo(definition.hash if only_hash else output.document(compiled(definition.canonical)))


@click.command("schema", cls=Command)
def schema() -> None:
    """Print the JSON Schema of definitions, for editors that complete and check while somebody writes."""
    from perdure.cli import output
    from perdure.programs.format.published import published

    click.echo(output.document(published()))
