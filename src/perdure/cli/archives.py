"""The command that lists what compactions of a log have replaced: `archives`."""

from __future__ import annotations

import click

from perdure.cli.root import Command
from perdure.cli.settings import Settings, format_option, id_argument, json_option


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
        forgotten = client.get(key).status().forgotten
    form = "json" if as_json else format
    output.listing(form, (one.name for one in found), found, lambda: render_archives.table(found))
    if form == "table" and not found:
        click.echo("no archives: " + ("what compaction replaced was dropped" if forgotten else "nothing of its log was replaced yet"))
