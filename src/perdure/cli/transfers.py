"""The commands that carry executions elsewhere as files, and that replay such a file: `export`, `import`, `replay`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.exits import Exit, Outcome
from perdure.cli.root import Command
from perdure.cli.settings import Settings, format_option, id_argument, json_option

if TYPE_CHECKING:
    from perdure.cli.targets import Code
    from perdure.core.paths import Key
    from perdure.service.bundle import Bundle
    from perdure.service.checking import Checked

DEFAULT_TARGET = "app.py"


@click.command("export", cls=Command)
@id_argument
@click.option("-o", "--output", "target", metavar="FILE", help="The new file; - is standard output. Else it is called like the execution.")
@click.option("--children", is_flag=True, help="With all executions that it has started, that they have started, and so on.")
@click.option("--json", "as_json", is_flag=True, help="Say as JSON what the file has.")
@click.pass_obj
def export(settings: Settings, /, *, id: str, target: str | None, children: bool, as_json: bool) -> None:
    """Write an execution to a file: its log, its mail and its large values. Nothing is changed.

    The file is signed with PERDURE_SECRET, if that is set.
    """
    import asyncio

    from perdure.async_upkeep import secret_of
    from perdure.cli.complaints import name
    from perdure.service.bundle import written

    key, bundle = asyncio.run(_exported(settings, id, children))
    raw = written(bundle, secret_of(None))
    if target == "-":
        sys.stdout.buffer.write(raw)
        return
    file = Path(_file_name(name(key)) if target is None else target)
    _write_new(file, raw)
    _tell(bundle, {"file": str(file), "size_bytes": len(raw), "signed": bool(secret_of(None))}, as_json)


async def _exported(settings: Settings, id: str, children: bool) -> tuple[Key, Bundle]:
    from perdure.cli.asking import keys, only
    from perdure.service import exporting

    chosen = only(id)
    async with settings.look() as looking:
        (key,) = await keys(looking, settings, [chosen])
        return key, await exporting.export(looking, key, children)


def _file_name(shown: str) -> str:
    return "".join(one if one.isalnum() or one in "._-@+" else "-" for one in shown).lstrip(".") + ".perdure"


def _write_new(file: Path, raw: bytes) -> None:
    try:
        with file.open("xb") as opened:
            opened.write(raw)
    except FileExistsError as error:
        raise Outcome(Exit.INPUT, f"{file} is there already, and an export replaces nothing\nname a new file with -o") from error
    except OSError as error:
        raise Outcome(Exit.INPUT, f"{file} can't be written ({error.strerror})\nname another with -o") from error


def _tell(bundle: Bundle, said: dict[str, Any], as_json: bool) -> None:
    from perdure.cli import output, words
    from perdure.cli.complaints import name

    first, *others = bundle.executions
    if as_json:
        keys = [one.key._asdict() | {"status": one.status, "version": one.version} for one in bundle.executions]
        click.echo(output.document({**said, "executions": keys, "blobs": len(bundle.blobs), "pruned_archives": len(bundle.removed)}))
        return
    parts = [words.count(first.version, "event"), words.count(len(first.mail), "message")]
    parts += [words.count(len(bundle.blobs), "blob")] if bundle.blobs else []
    parts += ["without its archives, which were pruned"] if bundle.removed else []
    below = f" and {words.count(len(others), 'execution')} below it" if others else ""
    signed = "signed" if said["signed"] else "not signed, for PERDURE_SECRET is not set"
    click.echo(f"{words.clean(said['file'])} has {name(first.key)}{below}: {', '.join(parts)}, {words.size(said['size_bytes'])}, {signed}")


@click.command("import", cls=Command)
@click.argument("file", metavar="FILE")
@click.option("--id", metavar="NEW", help="Under another id.")
@click.option("--paused", is_flag=True, help="It does nothing until it is resumed.")
@click.option("--unsigned", is_flag=True, help="Take it though it was not signed with the PERDURE_SECRET that is set here.")
@json_option
@format_option(("table", "json", "jsonl", "ids"))
@click.pass_obj
def import_(settings: Settings, /, *, file: str, id: str | None, paused: bool, unsigned: bool, as_json: bool, format: str) -> None:
    """Have an execution that was exported go on here, from where it stood. FILE may be - for standard input.

    What was being done when it was exported counts as interrupted, and is done again. If the original goes on as well, everything from there on happens twice:
    end it, or import --paused.
    """
    from perdure.cli import output
    from perdure.cli.complaints import name
    from perdure.runtime.endings import ENDED

    raw = _read(file)
    with settings.client(creates=True) as client:
        found = client.upkeep.import_(raw, id=id, paused=paused, unsigned=unsigned)
    form = "json" if as_json else format
    if form == "table":
        for one in found:
            click.echo(f"{name(one.key)} is here, {one.status.replace('_', ' ')}")
    else:
        output.listing(form, (name(one.key) for one in found), found, output.no_table)
    if any(one.status not in ENDED | {"paused", "needs_attention"} for one in found):
        click.echo("perdure: it goes on here from where it stood\nif the original goes on as well, it runs twice: end that, or import with --paused", err=True)


def _read(file: str) -> bytes:
    from perdure.cli import sources

    try:
        return sources.read(file)
    except OSError as error:
        raise Outcome(Exit.INPUT, f"{file} can't be read ({error.strerror})\nname a file that perdure export has written") from error


@click.command("replay", cls=Command)
@click.argument("file", metavar="FILE")
@click.argument("places", nargs=-1, metavar="[TARGET]...")
@json_option
@format_option()
def replay(*, file: str, places: tuple[str, ...], as_json: bool, format: str) -> None:
    """Say whether code still fits the executions of an exported FILE, as check does, without a database.

    TARGET is FILE.py, FILE.py:workflow or module:workflow (default: app.py). No step is run. Those that have ended are replayed as well.
    """
    import asyncio

    from perdure.cli import render_checks, targets
    from perdure.service.bundle import read

    if not places and not Path(DEFAULT_TARGET).is_file():
        raise click.UsageError(f"Missing argument 'TARGET', for there is no {DEFAULT_TARGET} here.")
    bundle = read(_read(file), b"").bundle
    found = asyncio.run(_replayed(bundle, targets.code(places or (DEFAULT_TARGET,))))
    render_checks.show(found, "json" if as_json else format)
    if found[0].verdict == "unknown" or any(one.verdict not in ("fits", "unknown") for one in found):
        raise Outcome(Exit.FINDINGS)


async def _replayed(bundle: Bundle, code: Code) -> list[Checked]:
    from perdure.service import checking
    from perdure.service.importing import import_
    from perdure.stores.base import Filter
    from perdure.stores.memory import MemoryStore

    store = MemoryStore()
    there = await import_(store, bundle)
    heads = await store.heads(Filter(keys=tuple(one.key for one in there), limit=len(there)))
    workflows = checking.known(workflow.code for workflow in code.workflows)
    return [one async for one in checking.check(store, workflows, heads)]
