"""The commands for old data: `archives` lists archives, `prune` removes old executions and archives."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.exit_codes import CommandExit, ExitCode
from perdure.cli.root_command import CliCommand
from perdure.cli.shared_options import GlobalOptions, format_option, id_argument, json_option

if TYPE_CHECKING:
    from perdure.core.paths import Key
    from perdure.service.blob_collection import CollectedBlobs
    from perdure.service.execution_bundles import Bundle
    from perdure.service.retention import ArchiveWriter
    from perdure.stores.month_removal import StoredMonth
    from perdure.sync_client import Client


@click.command("archives", cls=CliCommand)
@id_argument
@json_option
@format_option()
@click.pass_obj
def archives(settings: GlobalOptions, /, *, id: str, as_json: bool, format: str) -> None:
    """List the archives of an execution, newest first: the iterations in them, how many events and bytes, and when they were made.

    Archives are kept if the workflow says so (archive=True, in a definition archive: true). perdure prune --archives removes them.
    """
    from perdure.cli import execution_lookup, output, record_views

    with settings.client() as client:
        key = execution_lookup.handle_of(client, settings, id).key
        found = client.upkeep.archives(key)
        form = "json" if as_json else format
        forgotten = form == "table" and not found and client.get(key).status().forgotten
    output.print_list(form, (one.name for one in found), found, lambda: record_views.archive_table(found))
    if form == "table" and not found:
        click.echo("no archives: " + ("what compaction replaced was dropped" if forgotten else "nothing of its log was replaced yet"))


@click.command("prune", cls=CliCommand)
@click.option("--older-than", metavar="TIME", required=True, help="Only executions that ended longer ago than this: 30d, 12h.")
@click.option("--archives", is_flag=True, help="Remove archives that were made longer ago instead, even of executions in progress.")
@click.option(
    "--status",
    metavar="STATUS,...",
    help="Only executions in one of these statuses [default: completed,cancelled; with --archives: any]; failed ones can't be retried afterwards.",
)
@click.option("--workflow", metavar="NAME", help="Only executions of this workflow.")
@click.option(
    "--archive", metavar="DIR", type=click.Path(path_type=Path, file_okay=False), help="Write each execution to a file in DIR first, as perdure export does."
)
@click.option("--forget-ids", is_flag=True, help="Also remove the ids, even of executions that were pruned before: the ids can run again.")
@click.option("--yes", is_flag=True, help="Do not ask for a confirmation of --forget-ids.")
@click.option("--dry-run", is_flag=True, help="Print what would be removed, and remove nothing.")
@json_option
@format_option()
@click.pass_obj
def prune(settings: GlobalOptions, /, **given: Any) -> None:
    """Remove the logs and messages of executions that ended long ago.

    Ids, statuses and times are kept, so that no id runs again, and so is a prefix of the SHA-256 of inputs and results. An execution is left if its parent has
    not ended, or would undo it. Engines may work at the same time; if the command is interrupted, run it again to continue. Then the large values of all
    tenants to which nothing refers are removed, for which all logs are read. The space becomes free within the file; perdure db vacuum returns it to the disk.

    On Postgres, a month in which executions began and of which nothing is left is then removed as a whole, which returns its space to the disk at once.

    With --archives, executions stay as they are, and the archives of their logs are removed. It stays known which iterations were in them.
    """
    if given["archives"] and given["forget_ids"]:
        raise click.UsageError("--archives leaves executions as they are: give it without --forget-ids")
    if given["forget_ids"] and not given["dry_run"] and not given["yes"]:
        click.confirm(FORGET_WARNING, abort=True, err=True)
    (_prune_archives if given["archives"] else _prune_executions)(settings, given)


def _prune_filter(settings: GlobalOptions, given: dict[str, Any]) -> dict[str, Any]:
    status, archive = given["status"], given["archive"]
    which = {} if status is None else {"status": [one.strip() for one in status.split(",")]}
    kept = None if archive is None else _archive_writer(archive)
    return {**which, "workflow": given["workflow"], "archive": kept, "dry_run": given["dry_run"], "tenant": settings.tenant}


def _prune_executions(settings: GlobalOptions, given: dict[str, Any]) -> None:
    from perdure.cli import output, terminal_text
    from perdure.cli.terminal_text import execution_name

    forget_ids, dry_run = given["forget_ids"], given["dry_run"]
    with settings.client() as client:
        found = client.upkeep.prune(given["older_than"], forget_ids=forget_ids, **_prune_filter(settings, given))
        values = None if dry_run else _pruned_values(client)
        months = [] if dry_run or values is None else _pruned_months(client, given["older_than"])
    form = "json" if given["as_json"] else given["format"]
    if form != "table":
        output.print_list(form, (execution_name(one.key) for one in found), found, output.no_table)
        return
    size = terminal_text.size(sum(one.size_bytes for one in found))
    done = "would be" if dry_run else "were" if len(found) != 1 else "was"
    click.echo(f"{terminal_text.count(len(found), 'execution')} {done} {'forgotten' if forget_ids else 'removed'}, {size} of logs and messages")
    if values is not None and values.values:
        done = "were" if values.values != 1 else "was"
        click.echo(f"{terminal_text.count(values.values, 'large value')} without references {done} removed, {terminal_text.size(values.size_bytes)}")
    for month in months:
        click.echo(_month_line(month))
    _print_free_space(settings, dry_run)


def _pruned_months(client: Client, older_than: str) -> list[StoredMonth]:
    """The months that ended before, of which those were removed in which nothing was left; none, with a warning, if the role may not remove them."""
    from perdure.core.errors import StoreError, StoreUnavailable

    try:
        return client.upkeep.prune_months(older_than)
    except StoreUnavailable:
        raise
    except StoreError as error:
        click.echo(f"perdure: months were not removed: {error}", err=True)
        return []


def _month_line(month: StoredMonth) -> str:
    from perdure.cli import terminal_text

    size = terminal_text.size(month.size_bytes)
    if month.removed:
        return f"the month {month.month} was removed, {size}"
    others = f"{month.open:,} of them in progress" if month.open else "all have ended: prune them, with --status if they have failed"
    return f"the month {month.month} stays, {size}: {terminal_text.count(month.executions, 'execution')} began then and still have a log; {others}"


def _pruned_values(client: Client) -> CollectedBlobs | None:
    """The removed large values; None, with a warning, if it is not known which are needed."""
    from perdure.core.errors import LogDamaged, SealedPayload

    try:
        return client.upkeep.prune_values()
    except (LogDamaged, SealedPayload) as error:
        click.echo(f"perdure: large values were not removed: {error}", err=True)
        return None


def _prune_archives(settings: GlobalOptions, given: dict[str, Any]) -> None:
    from perdure.cli import output, record_views

    with settings.client() as client:
        swept = client.upkeep.prune_archives(given["older_than"], **_prune_filter(settings, given))
    form = "json" if given["as_json"] else given["format"]
    if form == "json":
        click.echo(output.indented_json({**output.as_data(swept), "archives": [output.as_data(one) for one in swept.archives]}))
    elif form != "table":
        output.print_list(form, (one.name for one in swept.archives), swept.archives, output.no_table)
    else:
        click.echo(record_views.pruning_summary(swept, given["dry_run"]))
        _print_free_space(settings, given["dry_run"])


def _print_free_space(settings: GlobalOptions, dry_run: bool) -> None:
    from perdure.cli import terminal_text
    from perdure.stores.configured_store import database_file
    from perdure.stores.sqlite.vacuum import free_bytes

    file = None if settings.server_url() is not None else database_file(settings.url())
    if not dry_run and file is not None and (free := free_bytes(file)):
        click.echo(f"{terminal_text.size(free)} of the file are free now; perdure db vacuum returns them to the disk")


FORGET_WARNING = "The ids of these executions will be forgotten: an execution that is started under one of them runs again, with all its effects. Continue?"


def _archive_writer(directory: Path) -> ArchiveWriter:
    import os
    import secrets
    from hashlib import sha256

    from perdure.async_maintenance import secret_of
    from perdure.service.execution_bundles import encode_bundle
    from perdure.stores.sqlite.file_permissions import FILE_MODE, make_directories

    def keep(key: Key, bundle: Bundle) -> None:
        """The file is there when it is whole, and on the disk; one that is there already is of an attempt that was interrupted."""
        file = directory / f"{sha256(str(key).encode()).hexdigest()[:32]}.perdure"
        partial = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
        try:
            make_directories(directory)
            with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE), "wb") as opened:
                opened.write(encode_bundle(bundle, secret_of(None)))
                opened.flush()
                os.fsync(opened.fileno())
            partial.replace(file)
        except OSError as error:
            raise CommandExit(
                ExitCode.INPUT, f"{directory} can't be written ({error.strerror})\nnothing more was removed; name another with --archive"
            ) from error

    return keep
