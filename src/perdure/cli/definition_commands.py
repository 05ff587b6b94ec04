"""The commands for authors of definitions: `validate`, `fmt`, `diff`, `compile`, `schema`; and `kinds` and `tools`, which list what definitions may use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.exit_codes import CommandExit, ExitCode
from perdure.cli.root_command import CliCommand
from perdure.cli.shared_options import blobs_option, format_option

if TYPE_CHECKING:
    from perdure.code.declarations import Step
    from perdure.definitions.format.definition_findings import DefinitionFinding
    from perdure.dialects.definition_reader import ReadDefinition
if TYPE_CHECKING:
    from perdure.core.errors import BadValue
    from perdure.definitions.kinds.kind_descriptions import KindDescription, ToolDescription
    from perdure.definitions.kinds.kind_registry import KindRegistry


json_flag = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
files_argument = click.argument("files", nargs=-1, required=True, metavar="FILE...")


@click.command("validate", cls=CliCommand)
@files_argument
@blobs_option
@click.option(
    "--tools", multiple=True, metavar="PLACE", help="Check what steps give to these tools: those of FILE.py, a module, or the MCP servers in FILE.json."
)
@click.option("--strict", is_flag=True, help="Warnings count as errors.")
@json_flag
def validate(*, files: tuple[str, ...], blobs: str | None, tools: tuple[str, ...], strict: bool, as_json: bool) -> None:
    """Validate definitions, and print each problem with its place; nothing is run. FILE is YAML or JSON, - is standard input."""
    from perdure.cli import definition_files, output, targets, terminal_text
    from perdure.definition_workflow import tool_steps

    known = tool_steps(targets.load_tools(tools).steps) if tools else None
    each = [(file, *definition_findings(file, blobs, known)) for file in files]
    found = [one for _, _, findings in each for one in findings]
    if as_json:
        click.echo(output.indented_json([_as_data(file, definition, findings) for file, definition, findings in each]))
    else:
        for file, definition, findings in each:
            for one in findings:
                click.echo(definition_files.finding_line(file, one))
            if definition is not None:
                click.echo(f"{definition_files.source_name(file)}: {_named(definition)}")
        errors = sum(one.severity == "error" for one in found)
        said = f"{terminal_text.count(errors, 'error')}, {terminal_text.count(len(found) - errors, 'warning')}" if found else "nothing found"
        click.echo(f"{terminal_text.count(len(files), 'file')}: {said}")
    if any(strict or one.severity == "error" for one in found):
        raise CommandExit(ExitCode.INPUT)


def definition_findings(
    file: str, blobs: str | None, tools: Mapping[str, Step[Any, Any, Any]] | None = None
) -> tuple[ReadDefinition | None, list[DefinitionFinding]]:
    """The definition in a file, if it is valid, and all findings. With `tools`, the arguments of its steps are held against what these take."""
    from perdure.cli import definition_files
    from perdure.core.errors import BadDefinition
    from perdure.definitions.format import definition_findings
    from perdure.definitions.kinds import config_checks
    from perdure.definitions.kinds.tool_argument_checks import argument_findings

    try:
        document, name, contents = definition_files.read_nonempty(file), definition_files.default_name(file), definition_files.blob_contents(blobs)
        more = None if tools is None else partial(argument_findings, tools=tools)
        definition = config_checks.read_checked(document, name, blobs=contents, tools=tools or config_checks.NO_TOOLS, more=more)
    except BadDefinition as error:
        return None, list(error.findings)
    except definition_files.UnreadableFile as why:
        return None, [definition_findings.error_finding("unreadable", "", f"it can't be read: {why}; name a file of YAML or JSON, or - for standard input")]
    return definition, list(definition.findings)


def valid_definition(file: str, blobs: str | None) -> ReadDefinition:
    """The definition in a file; the command ends if it is not valid."""
    from perdure.cli import definition_files
    from perdure.core.errors import BadDefinition
    from perdure.definitions.kinds import config_checks

    try:
        return config_checks.read_checked(definition_files.read_or_exit(file), definition_files.default_name(file), blobs=definition_files.blob_contents(blobs))
    except BadDefinition as error:
        definition_files.refuse_definition(file, error.findings)


def _named(definition: ReadDefinition) -> str:
    """The summary of a valid definition."""
    from perdure.cli import terminal_text

    about = definition.canonical
    shape = f", read from dialect {definition.dialect}" if definition.dialect else ""
    return terminal_text.clean(f"{about['name']} {about.get('version', '1.0.0')}{shape}, {definition.hash}")


def _as_data(file: str, definition: ReadDefinition | None, findings: list[DefinitionFinding]) -> dict[str, Any]:
    import msgspec

    about = {} if definition is None else definition.canonical
    own = {"name": about.get("name"), "version": about.get("version", "1.0.0"), "hash": definition.hash, "dialect": definition.dialect} if definition else {}
    return {"file": file, "valid": definition is not None, **own, "findings": [msgspec.to_builtins(one) for one in findings]}


@click.command("fmt", cls=CliCommand)
@files_argument
@click.option("--check", is_flag=True, help="Change nothing, and list the files that would be changed.")
@click.option("--stdout", is_flag=True, help="Print the result instead of changing the files.")
def fmt(*, files: tuple[str, ...], check: bool, stdout: bool) -> None:
    """Format definitions: fields in the standard order, quotes only where they are needed. The meaning and comments stay.

    FILE is YAML or JSON; - is standard input, which is printed.
    """
    from perdure.cli import definition_files, terminal_text
    from perdure.core.errors import BadDefinition
    from perdure.definitions.format.formatter import format_document

    if check and stdout:
        raise click.UsageError("give --check or --stdout, not both")
    changed = []
    for file in files:
        raw = definition_files.read_or_exit(file)
        try:
            found = format_document(definition_files.decode_or_exit(file, raw)).encode()
        except BadDefinition as error:
            definition_files.refuse_definition(file, error.findings, "it stays as it is")
        if check or (found != raw and not (stdout or file == "-")):
            changed += [file] if found != raw else []
        if stdout or (file == "-" and not check):
            click.echo(found, nl=False)
        elif found != raw and not check:
            _write(Path(file), found)
    for file in changed:
        click.echo(f"{definition_files.source_name(file)} {'would be changed' if check else 'was changed'}")
    if not check and not stdout:
        return
    if check and changed:
        raise CommandExit(ExitCode.FINDINGS, f"{terminal_text.count(len(changed), 'file')} would be changed\nperdure fmt changes them")


def _write(file: Path, raw: bytes) -> None:
    """Replaces the content of a file atomically: a reader sees the old content or the new."""
    import os
    import tempfile

    from perdure.cli import terminal_text

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
        raise CommandExit(ExitCode.INPUT, f"{terminal_text.clean(str(file))} can't be written: {error.strerror}") from error


@click.command("diff", cls=CliCommand)
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
@blobs_option
@json_flag
def diff(*, before: str, after: str, blobs: str | None, as_json: bool) -> None:
    """Print the differences of definition B from A, step by step; formatting is ignored. A or B may be - for standard input."""
    from perdure.cli import output, terminal_text
    from perdure.definitions.format import definition_diff

    if before == after == "-":
        raise click.UsageError("only one of the two can come from standard input")
    changes = definition_diff.definition_changes(valid_definition(before, blobs).canonical, valid_definition(after, blobs).canonical)
    if as_json:
        click.echo(output.indented_json(changes))
    else:
        for one in definition_diff.render_changes(changes).splitlines():
            click.echo(terminal_text.clean(one))
        if not changes:
            click.echo("perdure: the definitions are equal", err=True)


@click.command("compile", cls=CliCommand)
@click.argument("file", metavar="FILE")
@blobs_option
@click.option("--hash", "only_hash", is_flag=True, help="Print only the hash of the definition.")
def compile_(*, file: str, blobs: str | None, only_hash: bool) -> None:
    """Print the intermediate form of a definition as JSON: nodes, edges by port, regions. FILE is YAML or JSON, - is standard input."""
    from perdure.cli import output
    from perdure.definitions.format.compiler import compile_definition

    definition = valid_definition(file, blobs)
    click.echo(definition.hash if only_hash else output.indented_json(compile_definition(definition.canonical)))


@click.command("schema", cls=CliCommand)
def schema() -> None:
    """Print the JSON Schema of definitions, for editors that complete and validate."""
    from perdure.cli import output
    from perdure.definitions.format.format_schema import format_schema

    click.echo(output.indented_json(format_schema()))


@click.command("kinds", cls=CliCommand)
@click.argument("name", required=False)
@format_option()
def kinds(*, name: str | None, format: str) -> None:
    """List the kinds that are available here, Perdure's own and those of packages; with NAME, describe one."""
    from perdure.cli import output
    from perdure.definitions.kinds import kind_descriptions
    from perdure.definitions.kinds.kind_descriptions import built_in_verbs
    from perdure.definitions.kinds.kind_registry import KindRegistry

    registry, verbs = KindRegistry(), built_in_verbs()
    if name is None:
        found, broken = _all_kinds(registry)
        found = sorted([*found, *verbs.values()], key=lambda one: one.name)
        output.print_list(format, (one.name for one in found), found, lambda: _kinds(found))
        for error in broken:
            click.echo(f"perdure: {error}", err=True)
        return
    if name not in registry and name not in verbs:
        there = ", ".join(sorted({*registry, *verbs}))
        raise CommandExit(ExitCode.NOT_FOUND, f"there is no kind {name!r} here; there are {there}\ninstall the package that provides it")
    shown = verbs[name] if name in verbs else kind_descriptions.describe_kind(registry[name])
    if format == "table":
        _show(shown)
    else:
        output.print_list(format, (shown.name,), [shown], output.no_table)


@click.command("tools", cls=CliCommand)
@click.argument("places", nargs=-1, required=True, metavar="PLACE...")
@click.option("--search", metavar="WORDS", help="Only those that match these words, best match first.")
@click.option("--sign-in", metavar="SERVER", help="Sign in to this MCP server of FILE.json in your browser first, as its OAuth asks for.")
@format_option()
def tools(*, places: tuple[str, ...], search: str | None, sign_in: str | None, format: str) -> None:
    """List the tools of FILE.py, a module or the MCP servers in FILE.json that definitions may use, with their parameters and retry policy."""
    from perdure.cli import output, targets
    from perdure.definition_workflow import tool_steps
    from perdure.definitions.kinds import kind_descriptions

    if sign_in is not None:
        targets.sign_in_to_server(places, sign_in)
    found = [kind_descriptions.describe_tool(name, step) for name, step in tool_steps(targets.load_tools(places).steps).items()]
    if search is not None:
        found = [one for one in kind_descriptions.search_descriptions(search, found, len(found)) if isinstance(one, kind_descriptions.ToolDescription)]
    output.print_list(format, (one.name for one in found), found, lambda: _tools(found))


def _all_kinds(registry: KindRegistry) -> tuple[list[KindDescription], list[BadValue]]:
    """All kinds, and the errors of those that can't be described."""
    from perdure.core.errors import BadValue
    from perdure.definitions.kinds import kind_descriptions

    found, broken = list[kind_descriptions.KindDescription](), list[BadValue]()
    for name in sorted(registry):
        try:
            found.append(kind_descriptions.describe_kind(registry[name]))
        except BadValue as error:
            broken.append(error)
    return found, broken


def _kinds(found: Sequence[KindDescription]) -> Any:
    from perdure.cli.plain_text import TextCell, TextTable, cell

    rows = tuple((cell(one.name, "strong"), cell(one.title), TextCell(", ".join(one.ports)), cell(one.by), _state(one)) for one in found)
    return TextTable(("KIND", "TITLE", "PORTS", "PACKAGE", "STATE"), rows)


def _state(one: KindDescription) -> Any:
    from perdure.cli.plain_text import TextCell

    return TextCell("ready") if one.ready else TextCell(f"needs perdure[{one.extra}]", "warn")


def _show(one: KindDescription) -> None:
    from perdure.cli import output, terminal_text

    said = [f"{one.name} {one.version}: {one.title}", one.summary, f"Ports: {', '.join(one.ports)}.", f"Repeated after an interruption: {one.idempotency}"]
    for limit in one.limits:
        most = "" if limit["most"] is None else f", at most {limit['most']}"
        said.append(f"Limit: {limit['name']} {limit['default']}{most}; {limit['then']}")
    if one.capabilities:
        said.append(f"Capabilities: {', '.join(f'{name} {value}' for name, value in one.capabilities.items())}")
    click.echo("\n".join(terminal_text.clean(line) for line in said if line))
    click.echo(f"Config:\n{output.indented_json(one.config)}")
    if one.example:
        click.echo(f"Example:\n{one.example.strip()}")


def _tools(found: Sequence[ToolDescription]) -> Any:
    from perdure.cli.plain_text import TextCell, TextTable, cell

    rows = tuple(
        (
            cell(one.name, "strong"),
            cell(", ".join(one.schema.get("properties", {}))),
            TextCell(str(one.attempts_max)),
            TextCell("yes" if one.idempotent else "no"),
            cell(one.summary),
        )
        for one in found
    )
    return TextTable(("TOOL", "PARAMETERS", "ATTEMPTS", "IDEMPOTENT", "DESCRIPTION"), rows)
