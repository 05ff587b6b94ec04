"""The commands on what is kept of the past: `archives` lists it, `prune` removes it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.exits import Exit, Outcome
from perdure.cli.root import Command
from perdure.cli.settings import Settings, format_option, id_argument, json_option

if TYPE_CHECKING:
    from perdure.client import Client
    from perdure.core.paths import Key
    from perdure.service.blob_sweep import Swept
    from perdure.service.bundle import Bundle
    from perdure.service.retention import Archive


@click.command("archives", cls=Command)
@id_argument
@json_option
@format_option()
@click.pass_obj
def archives(settings: Settings, /, *, id: str, as_json: bool, format: str) -> None:
    """List the archives of an execution, the newest first: which turns of loops are in them, how many events and bytes, and since when.

    Archives are kept if the workflow says so (archive=True, in a definition archive: true). perdure prune --archives removes them.
    """
    from perdure.cli import asking, output, render_archives

    with settings.client() as client:
        key = asking.one(client, settings, id).key
        found = client.upkeep.archives(key)
        form = "json" if as_json else format
        forgotten = form == "table" and not found and client.get(key).status().forgotten
    output.listing(form, (one.name for one in found), found, lambda: render_archives.table(found))
    if form == "table" and not found:
        click.echo("no archives: " + ("what compaction replaced was dropped" if forgotten else "nothing of its log was replaced yet"))


@click.command("prune", cls=Command)
@click.option("--older-than", metavar="TIME", required=True, help="Those that ended longer ago than this: 30d, 12h.")
@click.option("--archives", is_flag=True, help="Remove archives that were made longer ago instead, also of executions that go on.")
@click.option(
    "--status", metavar="STATUS,...", help="Those that ended so [default: completed,cancelled; with --archives: any]; failed ones can't be retried any more."
)
@click.option("--workflow", metavar="NAME", help="Only those of this workflow.")
@click.option("--archive", metavar="DIR", type=click.Path(path_type=Path, file_okay=False), help="Write each to a file there before, as perdure export does.")
@click.option("--forget-ids", is_flag=True, help="Keep nothing at all, of what was removed before neither: their ids may run again.")
@click.option("--yes", is_flag=True, help="Do not ask before ids are forgotten.")
@click.option("--dry-run", is_flag=True, help="Say what would be removed, and remove nothing.")
@json_option
@format_option()
@click.pass_obj
def prune(settings: Settings, /, **given: Any) -> None:
    """Remove what executions have done that ended long ago: their logs and mail.

    Their ids, statuses and times are kept, so that none is begun again under its id, and the beginning of the SHA-256 of inputs and results.
    What another has waited for that goes on, or that would be undone with it, is left as it is. Engines may be at work meanwhile; interrupted, it
    goes on when it is run again. Then the large values of all tenants go that nothing needs any more, for which all logs are read. The space
    becomes free within the file; perdure db vacuum gives it back to the disk.

    With --archives, executions stay as they are, and what compactions of their logs had archived is removed. Which turns those were stays known.
    """
    if given["archives"] and given["forget_ids"]:
        raise click.UsageError("--archives leaves executions as they are: give it without --forget-ids")
    if given["forget_ids"] and not given["dry_run"] and not given["yes"]:
        click.confirm(WARNING, abort=True, err=True)
    (_prune_archives if given["archives"] else _prune_executions)(settings, given)


def _which(settings: Settings, given: dict[str, Any]) -> dict[str, Any]:
    status, archive = given["status"], given["archive"]
    which = {} if status is None else {"status": [one.strip() for one in status.split(",")]}
    kept = None if archive is None else _archive(archive)
    return {**which, "workflow": given["workflow"], "archive": kept, "dry_run": given["dry_run"], "tenant": settings.tenant}


def _prune_executions(settings: Settings, given: dict[str, Any]) -> None:
    from perdure.cli import output, words
    from perdure.cli.complaints import name

    forget_ids, dry_run = given["forget_ids"], given["dry_run"]
    with settings.client() as client:
        found = client.upkeep.prune(given["older_than"], forget_ids=forget_ids, **_which(settings, given))
        values = None if dry_run else _pruned_values(client)
    form = "json" if given["as_json"] else given["format"]
    if form != "table":
        output.listing(form, (name(one.key) for one in found), found, output.no_table)
        return
    size = words.size(sum(one.size_bytes for one in found))
    done = "would be" if dry_run else "were" if len(found) != 1 else "was"
    click.echo(f"{words.count(len(found), 'execution')} {done} {'forgotten' if forget_ids else 'removed'}, {size} of logs and messages")
    if values is not None and values.values:
        done = "were" if values.values != 1 else "was"
        click.echo(f"{words.count(values.values, 'large value')} that nothing needs any more {done} removed, {words.size(values.size_bytes)}")
    _say_what_is_free(settings, dry_run)


def _pruned_values(client: Client) -> Swept | None:
    """What was removed of large values; None, with a warning, if it can't be told which are needed."""
    from perdure.core.errors import LogDamaged, SealedPayload

    try:
        return client.upkeep.prune_values()
    except (LogDamaged, SealedPayload) as error:
        click.echo(f"large values stay: {error}", err=True)
        return None


def _prune_archives(settings: Settings, given: dict[str, Any]) -> None:
    from perdure.cli import output, render_archives

    with settings.client() as client:
        swept = client.upkeep.prune_archives(given["older_than"], **_which(settings, given))
    form = "json" if given["as_json"] else given["format"]
    if form == "json":
        click.echo(output.document({**output.data(swept), "archives": [output.data(one) for one in swept.archives]}))
    elif form != "table":
        output.listing(form, (one.name for one in swept.archives), swept.archives, output.no_table)
    else:
        click.echo(render_archives.pruned(swept, given["dry_run"]))
        _say_what_is_free(settings, given["dry_run"])


def _say_what_is_free(settings: Settings, dry_run: bool) -> None:
    from perdure.cli import words
    from perdure.runtime.host import file_of
    from perdure.stores.sqlite.vacuum import free_bytes

    file = file_of(settings.url())
    if not dry_run and file is not None and (free := free_bytes(file)):
        click.echo(f"{words.size(free)} of the file are free now; perdure db vacuum gives them back to the disk")


WARNING = "The ids of these executions are forgotten: what is started again under one of them runs again, with all its effects. Go on?"


def _archive(directory: Path) -> Archive:
    import os
    import secrets
    from hashlib import sha256

    from perdure.async_upkeep import secret_of
    from perdure.service.bundle import written
    from perdure.stores.sqlite.modes import FILE, make_directories

    def keep(key: Key, bundle: Bundle) -> None:
        """The file is there when it is whole, and on the disk; one that is there already is of an attempt that was interrupted."""
        file = directory / f"{sha256(str(key).encode()).hexdigest()[:32]}.perdure"
        partial = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
        try:
            make_directories(directory)
            with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE), "wb") as opened:
                opened.write(written(bundle, secret_of(None)))
                opened.flush()
                os.fsync(opened.fileno())
            partial.replace(file)
        except OSError as error:
            raise Outcome(Exit.INPUT, f"{directory} can't be written ({error.strerror})\nnothing more was removed; name another with --archive") from error

    return keep
