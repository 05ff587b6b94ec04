"""The commands that export and import executions as files, and that replay such a file: `export`, `import`, `replay`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.exit_codes import CommandExit, ExitCode
from perdure.cli.root_command import CliCommand
from perdure.cli.shared_options import GlobalOptions, format_option, id_argument, json_option

if TYPE_CHECKING:
    from perdure.cli.targets import TargetCode
    from perdure.core.paths import Key
    from perdure.service.execution_bundles import Bundle
    from perdure.service.replay_checks import ReplayCheck

DEFAULT_TARGET = "app.py"


@click.command("export", cls=CliCommand)
@id_argument
@click.option("-o", "--output", "target", metavar="FILE", help="The new file; - is standard output. By default, it is named after the execution.")
@click.option("--children", is_flag=True, help="Include all descendants: its children, their children, and so on.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary of the file as JSON.")
@click.pass_obj
def export(settings: GlobalOptions, /, *, id: str, target: str | None, children: bool, as_json: bool) -> None:
    """Export an execution to a file: its log, its messages and its large values. Nothing is changed.

    The file is signed with PERDURE_SIGNING_SECRET, if that is set; by a server, with the secret that it has.
    """
    import asyncio

    from perdure.async_maintenance import secret_of
    from perdure.cli.terminal_text import execution_name
    from perdure.service.execution_bundles import decode_bundle, encode_bundle

    if settings.server_url() is None:
        key, bundle = asyncio.run(_exported(settings, id, children))
        raw = encode_bundle(bundle, secret_of(None))
        is_signed = bool(secret_of(None))
    else:
        key, raw = _exported_by_server(settings, id, children)
        found = decode_bundle(raw, b"")
        bundle, is_signed = found.bundle, found.has_signature
    if target == "-":
        sys.stdout.buffer.write(raw)
        return
    file = Path(_file_name(execution_name(key)) if target is None else target)
    _write_new(file, raw)
    _print_export(bundle, {"file": str(file), "size_bytes": len(raw), "signed": is_signed}, as_json)


async def _exported(settings: GlobalOptions, id: str, children: bool) -> tuple[Key, Bundle]:
    from perdure.cli.execution_lookup import execution_keys, single_id
    from perdure.service import execution_bundles

    chosen = single_id(id)
    async with settings.look() as store:
        (key,) = await execution_keys(store, settings, [chosen])
        return key, await execution_bundles.export_bundle(store, key, children)


def _exported_by_server(settings: GlobalOptions, id: str, children: bool) -> tuple[Key, bytes]:
    from perdure.cli.execution_lookup import handle_of

    with settings.client() as client:
        handle = handle_of(client, settings, id)
        return handle.key, client.upkeep.export(handle.key, children=children)


def _file_name(shown: str) -> str:
    return "".join(one if one.isalnum() or one in "._-@+" else "-" for one in shown).lstrip(".") + ".perdure"


def _write_new(file: Path, raw: bytes) -> None:
    try:
        with file.open("xb") as opened:
            opened.write(raw)
    except FileExistsError as error:
        raise CommandExit(ExitCode.INPUT, f"{file} exists already, and an export replaces no file\nname a new file with -o") from error
    except OSError as error:
        raise CommandExit(ExitCode.INPUT, f"{file} can't be written ({error.strerror})\nname another with -o") from error


def _print_export(bundle: Bundle, said: dict[str, Any], as_json: bool) -> None:
    from perdure.cli import output, terminal_text
    from perdure.cli.terminal_text import execution_name

    first, *others = bundle.executions
    if as_json:
        keys = [one.key._asdict() | {"status": one.status, "version": one.version} for one in bundle.executions]
        click.echo(output.indented_json({**said, "executions": keys, "blobs": len(bundle.blobs), "pruned_archives": len(bundle.removed)}))
        return
    parts = [terminal_text.count(first.version, "event"), terminal_text.count(len(first.messages), "message")]
    parts += [terminal_text.count(len(bundle.blobs), "blob")] if bundle.blobs else []
    parts += ["without its archives, which were pruned"] if bundle.removed else []
    below = f" and {terminal_text.count(len(others), 'execution')} below it" if others else ""
    signed = "signed" if said["signed"] else "not signed, for PERDURE_SIGNING_SECRET is not set"
    click.echo(
        f"{terminal_text.clean(said['file'])} has {execution_name(first.key)}{below}: {', '.join(parts)}, {terminal_text.size(said['size_bytes'])}, {signed}"
    )


@click.command("import", cls=CliCommand)
@click.argument("file", metavar="FILE")
@click.option("--id", metavar="NEW", help="Import it under another id.")
@click.option("--paused", is_flag=True, help="Import it paused: it does nothing until it is resumed.")
@click.option("--unsigned", is_flag=True, help="Accept a file that is not signed with the PERDURE_SIGNING_SECRET of this process.")
@json_option
@format_option(("table", "json", "jsonl", "ids"))
@click.pass_obj
def import_(settings: GlobalOptions, /, *, file: str, id: str | None, paused: bool, unsigned: bool, as_json: bool, format: str) -> None:
    """Import an exported execution, which continues here. FILE may be - for standard input.

    Attempts that were in flight at the export count as interrupted, and are made again. If the original continues as well, everything from there on happens
    twice: end it, or import --paused.
    """
    from perdure.cli import output
    from perdure.cli.terminal_text import execution_name
    from perdure.runtime.execution_results import ENDED_STATUSES

    raw = _read(file)
    with settings.client(creates=True) as client:
        found = client.upkeep.import_(raw, id=id, paused=paused, unsigned=unsigned)
    form = "json" if as_json else format
    if form == "table":
        for one in found:
            click.echo(f"{execution_name(one.key)} is imported, {one.status.replace('_', ' ')}")
    else:
        output.print_list(form, (execution_name(one.key) for one in found), found, output.no_table)
    if any(one.status not in ENDED_STATUSES | {"paused", "needs_attention"} for one in found):
        click.echo(
            "perdure: it continues here from where it was\nif the original continues as well, it runs twice: end that, or import with --paused", err=True
        )


def _read(file: str) -> bytes:
    from perdure.cli import definition_files

    try:
        return definition_files.read_source(file)
    except OSError as error:
        raise CommandExit(ExitCode.INPUT, f"{file} can't be read ({error.strerror})\nname a file that perdure export has written") from error


@click.command("replay", cls=CliCommand)
@click.argument("file", metavar="FILE")
@click.argument("places", nargs=-1, metavar="[TARGET]...")
@json_option
@format_option()
def replay(*, file: str, places: tuple[str, ...], as_json: bool, format: str) -> None:
    """Check whether code still replays the executions of an exported FILE, as check does, without a database.

    TARGET is FILE.py, FILE.py:workflow or module:workflow (default: app.py). No step is run. Executions that have ended are replayed, too.
    """
    import asyncio

    from perdure.cli import check_reports, targets
    from perdure.service.execution_bundles import decode_bundle

    if not places and not Path(DEFAULT_TARGET).is_file():
        raise click.UsageError(f"Missing argument 'TARGET', for there is no {DEFAULT_TARGET} here.")
    bundle = decode_bundle(_read(file), b"").bundle
    found = asyncio.run(_replayed(bundle, targets.load_code(places or (DEFAULT_TARGET,))))
    check_reports.show_replay_checks(found, "json" if as_json else format)
    if found[0].verdict == "unknown" or any(one.verdict not in ("fits", "unknown") for one in found):
        raise CommandExit(ExitCode.FINDINGS)


async def _replayed(bundle: Bundle, code: TargetCode) -> list[ReplayCheck]:
    from perdure.service import replay_checks
    from perdure.service.execution_bundles import import_bundle
    from perdure.stores.memory import MemoryStore
    from perdure.stores.protocol import HeadFilter

    store = MemoryStore()
    there = await import_bundle(store, bundle)
    heads = await store.heads(HeadFilter(keys=tuple(one.key for one in there), limit=len(there)))
    workflows = replay_checks.workflows_by_name(workflow.code for workflow in code.workflows)
    return [one async for one in replay_checks.check_executions(store, workflows, heads)]
