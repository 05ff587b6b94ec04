"""The command that makes void what engines and workers hold, after commits may have been lost: `db raise-epoch`."""

from __future__ import annotations

import click

from perdure.cli.root_command import CliCommand
from perdure.cli.shared_options import GlobalOptions


@click.command("raise-epoch", cls=CliCommand)
@click.pass_obj
def raise_epoch(settings: GlobalOptions, /) -> None:
    """Make void what engines and workers hold, and refuse what they decided before.

    Run it once when a database on a server has lost commits: after it was restored from a backup, or after a failover to a standby that lagged behind. Engines
    may run; they continue with what the database has. A step whose outcome was lost runs again. perdure db restore does this by itself.
    """
    import asyncio

    from perdure.stores.configured_store import database_file, open_store_to_copy, shown_url

    url = settings.url()
    if (file := database_file(url)) is not None:
        settings.expect(file)

    async def raised() -> int:
        store = open_store_to_copy(url)
        try:
            return await store.raise_epoch()
        finally:
            await store.close()

    epoch = asyncio.run(raised())
    click.echo(f"{file or shown_url(url)} is in epoch {epoch}; what was handed out or decided before is refused")
