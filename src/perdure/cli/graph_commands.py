"""The command `graph`, the command `patch` on executions of definitions, and the part of `show` behind `--tokens`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.exit_codes import CommandExit, ExitCode
from perdure.cli.root_command import CliCommand
from perdure.cli.shared_options import GlobalOptions, blobs_option, id_argument

if TYPE_CHECKING:
    from perdure.cli.execution_views import DefinitionCaptions
    from perdure.definition_workflow import Definition
    from perdure.definitions.graph.shown_graph import ShownGraph
    from perdure.operations.local_service import LocalService
    from perdure.service.definition_views import CurrentDefinition
    from perdure.service.execution_records import ExecutionRecord
    from perdure.sync_client import Client, ExecutionStatus
    from perdure.sync_handle import Handle


@click.command("graph", cls=CliCommand)
@click.argument("what", metavar="[FILE|APP|ID]", required=False)
@click.option("--definition", "reference", metavar="REFERENCE", help="Draw a version in the catalog: invoice, invoice@1.2.0, invoice@^1, invoice:production.")
@click.option("--format", "form", type=click.Choice(["text", "mermaid", "svg", "json"]), default="text", show_default=True, help="The format of the drawing.")
@click.option("--at", "number", type=click.IntRange(1), metavar="N", help="Of an execution: its state after event N of its log.")
@blobs_option
@click.option("-o", "--output", "target", metavar="FILE", help="The file to write; by default, the drawing is printed.")
@click.option("--json", "as_json", is_flag=True, help="The same as --format json: the graph as data.")
@click.pass_obj
def graph(settings: GlobalOptions, /, *, what: str | None, form: str, target: str | None, as_json: bool, **which: Any) -> None:
    """Draw a definition or an execution: of a definition, its plan and its progress in one picture; of code, its operations in the order in which they ran.

    FILE is YAML or JSON, - is standard input; APP is FILE.py:app or FILE.py:app:definition; an ID is that of an execution, in any form.
    """
    from perdure.cli import output, terminal_text
    from perdure.cli.terminal import screen
    from perdure.definitions.graph import graph_drawing

    chosen = _chosen_graph(settings, what, **which)
    form = "json" if as_json else form
    if form == "text":
        seen = screen()
        drawn = graph_drawing.text_drawing(chosen, seen.columns if seen.terminal and target is None else COLUMNS_WITHOUT_TERMINAL)
    elif form == "json":
        drawn = f"{output.indented_json(chosen)}\n"
    else:
        drawn = graph_drawing.mermaid_drawing(chosen) if form == "mermaid" else graph_drawing.svg_drawing_of(chosen)
    if target is None:
        click.echo("\n".join(map(terminal_text.clean, drawn.splitlines())) if form == "text" else drawn.rstrip("\n"))
        return
    try:
        Path(target).write_text(drawn, encoding="utf-8")
    except OSError as error:
        raise CommandExit(ExitCode.INPUT, f"{terminal_text.clean(target)} can't be written: {error.strerror}") from error


def _chosen_graph(settings: GlobalOptions, what: str | None, reference: str | None, number: int | None, blobs: str | None) -> ShownGraph:
    """The graph of a definition in a file, an App or the catalog, or of an execution."""
    from perdure.cli import definition_files
    from perdure.cli.definition_commands import valid_definition
    from perdure.definitions.format.compiler import compile_definition
    from perdure.definitions.graph.shown_graph import shown_graph

    if (what is None) == (reference is None):
        raise click.UsageError("give a FILE, an APP, an ID or --definition REFERENCE" + ("" if what is None else ", not several"))
    is_file = what is not None and definition_files.is_definition_file(what)
    is_plan = what is None or is_file or ".py:" in what
    if is_plan and number is not None:
        raise click.UsageError("--at is for an execution: a definition has not begun")
    if what is None or not is_plan:
        return _graph_of_service(settings, what, reference or "", number)
    return shown_graph(compile_definition(valid_definition(what, blobs).canonical) if is_file else _definition_of_app(what).ir)


def _graph_of_service(settings: GlobalOptions, id: str | None, reference: str, number: int | None) -> ShownGraph:
    from perdure.cli import execution_lookup
    from perdure.cli.service_calls import with_service
    from perdure.operations import on_catalog

    async def plan(call: LocalService) -> ShownGraph:
        return await call(on_catalog.graph, settings.tenant, reference)

    if id is None:
        return with_service(settings, plan)
    with settings.client() as client:
        return execution_lookup.handle_of(client, settings, id).graph(number)


def _definition_of_app(text: str) -> Definition:
    from perdure.cli import targets
    from perdure.definition_workflow import Definition

    app = targets.load_app(text)
    definitions = [] if app is None else [one for one in app.listed if isinstance(one, Definition)]
    wanted = text.rpartition(".py:")[2].partition(":")[2]
    found = [one for one in definitions if wanted in ("", one.code.name)]
    if len(found) == 1:
        return found[0]
    place = text.removesuffix(f":{wanted}") if wanted else text
    names = ", ".join(f"{place}:{one.code.name}" for one in definitions) or "it has none, and only definitions are drawn"
    raise targets.NoTarget("target", text, f"one definition of an App; choose: {names}")


COLUMNS_WITHOUT_TERMINAL = 160
"""The width of a drawing that is not printed on a terminal."""


def show_tokens(handle: Handle[Any], number: int | None, format: str) -> None:
    """Prints where the tokens of an execution are, or were after an event."""
    from perdure.cli import output
    from perdure.cli.terminal import screen
    from perdure.cli.token_views import token_lines

    found = handle.tokens(number)
    if format == "table":
        output.show_lines(token_lines(found), screen())
    else:
        click.echo(output.indented_json(found) if format == "json" else output.compact_json(found))


def captions_of(handle: Handle[Any], status: ExecutionStatus | ExecutionRecord, number: int | None = None) -> DefinitionCaptions:
    """Returns what a view shows besides the status and the steps: for a definition, its version and descriptions of its steps; for code, nothing."""
    from perdure.cli.execution_views import Caption, DefinitionCaptions

    if not status.definition:
        return DefinitionCaptions()
    from perdure.definitions.format.compiler import compile_definition
    from perdure.definitions.graph import step_texts

    present = handle.definition(number)
    nodes = compile_definition(present.document).nodes
    found = {
        node.id: Caption("; ".join([step_texts.step_detail(node), *step_texts.step_modifiers(node)]), "item" if node.each is not None else "turn")
        for node in nodes
    }
    return DefinitionCaptions(f"{present.version} ({short_hash(present.hash)})", found)


@click.command("patch", cls=CliCommand)
@id_argument
@click.argument("file", required=False, metavar="[FILE]")
@click.option(
    "--json-patch",
    "patch_file",
    metavar="FILE",
    help="Change its present definition by a JSON Patch (RFC 6902) of its canonical form or of its nodes and edges; - is standard input.",
)
@click.option("--edits", "edits_file", metavar="FILE", help="Change its present definition by operations that name steps by their ids; - is standard input.")
@click.option(
    "--set",
    "pairs",
    multiple=True,
    metavar="STEP.FIELD=VALUE",
    help="Set a field of a step of its present definition; .FIELD=VALUE sets a field of the definition.",
)
@blobs_option
@click.option("--base", default="", metavar="HASH", help="Patch only if this is still the hash of its present definition.")
@click.option("--reason", default="", metavar="TEXT", help="The reason, which is recorded.")
@click.option("--dry-run", is_flag=True, help="Print the differences, and whether an engine would refuse them; change nothing.")
@click.option("--timeout", metavar="TIME", help="How long to wait for an engine at most; the patch stays posted.")
@click.option("--no-wait", is_flag=True, help="Post the patch, and do not wait until an engine applies it.")
@click.option("--withdraw", is_flag=True, help="Withdraw the patches that no engine has decided on yet.")
@click.pass_obj
def patch(settings: GlobalOptions, /, *, id: str, file: str | None, base: str, reason: str, dry_run: bool, **changes: Any) -> None:
    """Patch the definition of an execution in progress: replace it by FILE, or change the present one.

    What has begun stays as it is; a patch that does not fit it is refused as a whole. An engine decides; if none is running, the patch waits for one.
    """
    from perdure.cli import execution_lookup, terminal_text
    from perdure.cli.terminal_text import execution_name
    from perdure.core.errors import PatchRefused
    from perdure.definitions.format import definition_diff

    with settings.client() as client:
        handle = execution_lookup.handle_of(client, settings, id)
        if changes["withdraw"]:
            _withdraw(handle, file, changes)
            return
        before = handle.definition()
        chosen, described = _patched_definition(before, file, changes)
        if base and not before.hash.removeprefix("sha256:").startswith(base.removeprefix("sha256:")):
            raise CommandExit(
                ExitCode.INPUT,
                f"{execution_name(handle.key)} uses the definition {before.hash} by now, not {terminal_text.clean(base)}\n"
                "check what has changed, and patch it again",
            )
        different = [
            terminal_text.clean(one)
            for one in definition_diff.render_changes(definition_diff.definition_changes(before.document, chosen.read.canonical)).splitlines()
        ]
        if not different:
            click.echo(f"perdure: {execution_name(handle.key)} uses this definition already; nothing was changed", err=True)
            return
        if dry_run:
            click.echo("\n".join(different))
            if refused := handle.plan("patch", change=chosen).refused:
                raise PatchRefused(handle.key, refused)
            return
        said = _send_patch(client, handle, chosen, {"base": before.hash, "reason": reason or described, **changes})
        click.echo("\n".join([*different, said]))


def _send_patch(client: Client, handle: Handle[Any], chosen: Definition, given: dict[str, Any]) -> str:
    """Posts a patch and, unless the options say otherwise, waits until an engine has decided on it; returns what to print."""
    from perdure.cli.terminal_text import execution_name
    from perdure.core.errors import Timeout

    called, waits = execution_name(handle.key), not given["no_wait"]
    kept = f"perdure patch {called} --withdraw withdraws it"
    if waits and not any(engine.alive for engine in client.engines()):
        click.echo(f"perdure: no engine is running; the patch waits until one applies it\n--no-wait does not wait for that, {kept}", err=True)
    try:
        number = handle.patch(chosen, base=given["base"], reason=given["reason"], wait=waits, timeout=given["timeout"])
    except Timeout as late:
        raise CommandExit(
            ExitCode.TIMEOUT, f"no engine has decided on the patch of {called} within {late.timeout_s:g} s; the next one that runs does\n{kept}"
        ) from late
    except KeyboardInterrupt:
        click.echo(f"perdure: the patch of {called} is posted, and the next engine that runs applies it\n{kept}", err=True)
        raise
    version = f"{chosen.read.canonical.get('version', '1.0.0')} ({short_hash(chosen.read.hash)})"
    return f"{called} will use {version} once an engine applies the patch" if number is None else f"{called} uses {version} from event {number} on"


def _withdraw(handle: Handle[Any], file: str | None, given: dict[str, Any]) -> None:
    from perdure.cli import terminal_text
    from perdure.cli.terminal_text import execution_name

    if file is not None or any(given[one] for one in ("patch_file", "edits_file", "pairs", "no_wait")):
        raise click.UsageError("--withdraw withdraws waiting patches and posts none; leave the other options out")
    if count := handle.withdraw_patches():
        click.echo(f"{terminal_text.count(count, 'patch', 'patches')} of {execution_name(handle.key)} {'is' if count == 1 else 'are'} withdrawn")
    else:
        click.echo(f"perdure: no patch of {execution_name(handle.key)} waits for an engine; nothing was changed", err=True)


def short_hash(hash: str) -> str:
    """A hash, shortened to what people need to tell it from others."""
    return hash.removeprefix("sha256:")[:12]


def _patched_definition(before: CurrentDefinition, file: str | None, changes: dict[str, Any]) -> tuple[Definition, str]:
    """The patched definition, and the description that the change gives of itself."""
    from perdure.cli import definition_files
    from perdure.core.errors import BadDefinition
    from perdure.definition_workflow import Definition
    from perdure.dialects import patched_definition

    ways = [one for one in (file, changes["patch_file"], changes["edits_file"], changes["pairs"] or None) if one is not None]
    if len(ways) != 1:
        raise click.UsageError("give one of FILE, --json-patch, --edits and --set" + (", not several" if ways else ""))
    if file is not None:
        return definition_files.load_definition(file, and_so="nothing was changed", blobs=changes["blobs"]), ""
    source = changes["patch_file"] or changes["edits_file"] or "--set"
    try:
        change = _set_operations(changes["pairs"]) if changes["pairs"] else _patch_document(source)
        return Definition.of(patched_definition.apply_patch(before.document, change)), patched_definition.patch_description(change)
    except BadDefinition as error:
        definition_files.refuse_definition(source, error.findings, "nothing was changed")


def _patch_document(file: str) -> Any:
    from perdure.cli import definition_files
    from perdure.definitions.format.document_parser import parse_document

    read = parse_document(definition_files.read_or_exit(file))
    if read.findings:
        definition_files.refuse_definition(file, read.findings, "nothing was changed")
    return read.document


def _set_operations(pairs: Sequence[str]) -> list[dict[str, Any]]:
    """Parses ``step.field=value`` as operations."""
    from perdure.cli import argument_values
    from perdure.core.errors import BadValue
    from perdure.definitions.format.definition_findings import joined_pointer

    found = []
    for pair in pairs:
        place, sign, text = pair.partition("=")
        id, dot, field = place.partition(".")
        if not sign or not dot or not field:
            raise BadValue("--set", pair, "of the form step.field=value, or .field=value for the definition itself")
        found.append({"op": "set", **({"id": id} if id else {}), "path": joined_pointer("", *field.split(".")), "value": argument_values.parse_value(text)})
    return found
