"""The commands about executions of definitions: `graph`, `patch`, and what `show --tokens` shows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.exits import Exit, Outcome
from perdure.cli.places import blobs_option
from perdure.cli.root import Command
from perdure.cli.settings import Settings, id_argument

if TYPE_CHECKING:
    from perdure.cli.render_steps import Told
    from perdure.client import Client, Status
    from perdure.core.paths import Key
    from perdure.definition import Definition
    from perdure.handle import Handle
    from perdure.programs.graph.view import View
    from perdure.service.graphs import Present


@click.command("graph", cls=Command)
@click.argument("what", metavar="FILE|ID")
@click.option("--format", "form", type=click.Choice(["text", "mermaid", "svg"]), default="text", show_default=True, help="As what it is drawn.")
@click.option("--at", "number", type=click.IntRange(1), metavar="N", help="Of an execution: as it stood after event N of its log.")
@blobs_option
@click.option("-o", "--output", "target", metavar="FILE", help="The file that it is written to; else it is printed.")
@click.pass_obj
def graph(settings: Settings, /, *, what: str, form: str, number: int | None, blobs: str | None, target: str | None) -> None:
    """Draw a definition, or an execution of one: its plan, and what has come of it, in one picture.

    FILE is YAML or JSON, - is standard input; an ID is that of an execution, in any form.
    """
    import asyncio

    from perdure.cli import documents, words
    from perdure.cli.defining import valid
    from perdure.cli.screen import screen
    from perdure.programs.format.compile import compiled
    from perdure.programs.graph import draw

    if documents.is_there(what):
        if number is not None:
            raise click.UsageError("--at is for an execution: a definition has not begun")
        ir, states, taken = compiled(valid(what, blobs).canonical), None, frozenset[int]()
    else:
        found = asyncio.run(_view(settings, what, number))
        ir, states, taken = found.ir, found.states, found.taken
    if form == "text":
        seen = screen()
        drawn = draw.text(ir, states, taken, columns=seen.columns if seen.terminal and target is None else WIDE)
    else:
        drawn = draw.mermaid(ir, states, taken) if form == "mermaid" else draw.svg(ir, states, taken)
    if target is None:
        click.echo("\n".join(map(words.clean, drawn.splitlines())) if form == "text" else drawn.rstrip("\n"))
        return
    try:
        Path(target).write_text(drawn, encoding="utf-8")
    except OSError as error:
        raise Outcome(Exit.INPUT, f"{words.clean(target)} can't be written: {error.strerror}") from error


WIDE = 160
"""How many columns a picture takes that nobody looks at."""


async def _view(settings: Settings, text: str, number: int | None) -> View:
    from perdure.cli.asking import keys

    async with settings.look() as looking:
        (key,) = await keys(looking, settings, [text])
    return await _view_of(settings, key, number)


async def _view_of(settings: Settings, key: Key, number: int | None) -> View:
    from perdure.core.errors import BadValue
    from perdure.service import graphs

    async with settings.look() as looking:
        found = await graphs.view_of(looking, key, number)
    if found is None:
        raise BadValue("event", number, "one behind its beginning")
    return found


def show_tokens(settings: Settings, key: Key, number: int | None, format: str) -> None:
    """Print where the tokens of an execution are, or were after an event."""
    import asyncio

    from perdure.cli import output
    from perdure.cli.render_tokens import lines
    from perdure.cli.screen import screen

    found = asyncio.run(_view_of(settings, key, number)).tokens
    if format == "table":
        output.show_lines(lines(found), screen())
    else:
        click.echo(output.document(found) if format == "json" else output.compact(found))


def told_of(settings: Settings, status: Status) -> Told:
    """What is told of an execution beside its status and its steps: of a definition, its version, and what its steps are; of code, nothing."""
    import asyncio

    from perdure.cli.render_steps import Caption, Told

    if not status.definition:
        return Told()
    from perdure.programs.format.compile import compiled
    from perdure.programs.graph import captions

    present = asyncio.run(_present(settings, status.key))
    nodes = compiled(present.document).nodes
    found = {node.id: Caption("; ".join([captions.detail(node), *captions.marks(node)]), "item" if node.each is not None else "turn") for node in nodes}
    return Told(f"{present.version} ({short(present.hash)})", found)


@click.command("patch", cls=Command)
@id_argument
@click.argument("file", required=False, metavar="[FILE]")
@click.option(
    "--json-patch",
    "patch_file",
    metavar="FILE",
    help="Change its present definition by a JSON Patch (RFC 6902), of its canonical form or of its nodes and edges; - is standard input.",
)
@click.option("--edits", "edits_file", metavar="FILE", help="Change its present definition by operations that name steps by their ids; - is standard input.")
@click.option("--set", "pairs", multiple=True, metavar="STEP.FIELD=VALUE", help="Set a field of a step of its present definition; of itself, as .FIELD=VALUE.")
@blobs_option
@click.option("--base", default="", metavar="HASH", help="Only if that is still the hash of the definition by which it goes on.")
@click.option("--reason", default="", metavar="TEXT", help="Why; it is remembered.")
@click.option("--dry-run", is_flag=True, help="Say what would be different, and change nothing.")
@click.option("--timeout", metavar="TIME", help="How long to wait for an engine at most; the patch is kept.")
@click.option("--no-wait", is_flag=True, help="Leave the patch for an engine to carry out, and don't wait for that.")
@click.option("--withdraw", is_flag=True, help="Take back the patches that no engine has judged yet.")
@click.pass_obj
def patch(settings: Settings, /, *, id: str, file: str | None, base: str, reason: str, dry_run: bool, **changes: Any) -> None:
    """Have a live execution of a definition go on by another: the one in FILE, or its present one with changes.

    What has begun stays as it is. What does not fit that is refused whole. An engine judges it; where none is running, it is kept until one does.
    """
    import asyncio

    from perdure.cli import asking, words
    from perdure.cli.complaints import name
    from perdure.programs.format import diff

    with settings.client() as client:
        handle = asking.one(client, settings, id)
        if changes["withdraw"]:
            _withdraw(handle, file, changes)
            return
        before = asyncio.run(_present(settings, handle.key))
        chosen, described = _chosen(before, file, changes)
        if base and not before.hash.removeprefix("sha256:").startswith(base.removeprefix("sha256:")):
            raise Outcome(
                Exit.INPUT, f"{name(handle.key)} goes on by {before.hash} by now, not by {words.clean(base)}\nsee what has changed, and patch it again"
            )
        different = [words.clean(one) for one in diff.rendered(diff.diff(before.document, chosen.read.canonical)).splitlines()]
        if not different:
            click.echo(f"perdure: {name(handle.key)} goes on by just this already; nothing was changed", err=True)
            return
        said = "" if dry_run else _carried_out(client, handle, chosen, {"base": before.hash, "reason": reason or described, **changes})
        click.echo("\n".join([*different, *([said] if said else [])]))


def _carried_out(client: Client, handle: Handle[Any], chosen: Definition, given: dict[str, Any]) -> str:
    """Post a patch, and wait until an engine has judged it, unless that is not wanted; what is said of it."""
    from perdure.cli.complaints import name
    from perdure.core.errors import Timeout

    called, waits = name(handle.key), not given["no_wait"]
    kept = f"perdure patch {called} --withdraw takes it back"
    if waits and not any(engine.alive for engine in client.engines()):
        click.echo(f"perdure: no engine is running; the patch is kept until one carries it out\n--no-wait does not wait for that, {kept}", err=True)
    try:
        number = handle.patch(chosen, base=given["base"], reason=given["reason"], wait=waits, timeout=given["timeout"])
    except Timeout as late:
        raise Outcome(Exit.TIMEOUT, f"no engine has judged the patch of {called} within {late.timeout_s:g} s; the next one that runs does\n{kept}") from late
    except KeyboardInterrupt:
        click.echo(f"perdure: the patch of {called} is kept, and the next engine that runs carries it out\n{kept}", err=True)
        raise
    version = f"{chosen.read.canonical.get('version', '1.0.0')} ({short(chosen.read.hash)})"
    return (
        f"{called} will go on by {version} once an engine carries the patch out" if number is None else f"{called} goes on by {version} from event {number} on"
    )


def _withdraw(handle: Handle[Any], file: str | None, given: dict[str, Any]) -> None:
    from perdure.cli import words
    from perdure.cli.complaints import name

    if file is not None or any(given[one] for one in ("patch_file", "edits_file", "pairs", "no_wait")):
        raise click.UsageError("--withdraw takes back patches that wait, and makes no other; leave the rest out")
    if count := handle.withdraw_patches():
        click.echo(f"{words.count(count, 'patch', 'patches')} of {name(handle.key)} {'is' if count == 1 else 'are'} withdrawn")
    else:
        click.echo(f"perdure: no patch of {name(handle.key)} waits for an engine; nothing was changed", err=True)


def short(hash: str) -> str:
    """A hash, as short as people can still tell it from others."""
    return hash.removeprefix("sha256:")[:12]


async def _present(settings: Settings, key: Key) -> Present:
    from perdure.core.errors import BadValue
    from perdure.service import graphs

    async with settings.look() as looking:
        found = await graphs.present(looking, key)
    if found is None:
        raise BadValue("execution", str(key), "one of a definition that has begun; it is code, or has not begun")
    return found


def _chosen(before: Present, file: str | None, changes: dict[str, Any]) -> tuple[Definition, str]:
    """The definition by which it is to go on, and what the change says of itself."""
    from perdure.cli import documents
    from perdure.core.errors import BadDefinition
    from perdure.definition import Definition
    from perdure.programs.format import patches

    ways = [one for one in (file, changes["patch_file"], changes["edits_file"], changes["pairs"] or None) if one is not None]
    if len(ways) != 1:
        raise click.UsageError("give one of FILE, --json-patch, --edits and --set" + (", not several" if ways else ""))
    if file is not None:
        return documents.definition(file, and_so="nothing was changed", blobs=changes["blobs"]), ""
    source = changes["patch_file"] or changes["edits_file"] or "--set"
    try:
        change = _settings(changes["pairs"]) if changes["pairs"] else _plain(source)
        return Definition.of(patches.changed(before.document, change)), patches.description(change)
    except BadDefinition as error:
        documents.refuse(source, error.findings, "nothing was changed")


def _plain(file: str) -> Any:
    from perdure.cli import documents
    from perdure.programs.format.parse import parsed

    read = parsed(documents.text(file))
    if read.findings:
        documents.refuse(file, read.findings, "nothing was changed")
    return read.document


def _settings(pairs: Sequence[str]) -> list[dict[str, Any]]:
    """What ``step.field=value`` says, as operations."""
    from perdure.cli import values
    from perdure.core.errors import BadValue
    from perdure.programs.format.finding import joined

    found = []
    for pair in pairs:
        place, sign, text = pair.partition("=")
        id, dot, field = place.partition(".")
        if not sign or not dot or not field:
            raise BadValue("--set", pair, "of the form step.field=value, or .field=value for the definition itself")
        found.append({"op": "set", **({"id": id} if id else {}), "path": joined("", *field.split(".")), "value": values.value(text)})
    return found
