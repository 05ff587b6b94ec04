"""The command that compares the records of executions with each other: `verify`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perdure.cli.exits import Exit, Outcome
from perdure.cli.root import Command
from perdure.cli.settings import Settings, format_option, id_arguments, json_option

if TYPE_CHECKING:
    from perdure.service.verify import Finding


@click.command("verify", cls=Command)
@id_arguments
@json_option
@format_option()
@click.pass_obj
def verify(settings: Settings, /, *, ids: tuple[str, ...], as_json: bool, format: str) -> None:
    """Say whether the records of executions agree: logs, heads, mail, who holds them, large values, children. Without IDs, of all of all tenants.

    Damage keeps an execution from going on as it should; a note mends itself, or harms nobody. Nothing is changed.
    """
    import asyncio

    from perdure.cli import output, render_findings
    from perdure.cli.complaints import name

    count, found = asyncio.run(_verified(settings, ids))
    damaged = list(dict.fromkeys(name(one.key) for one in found if one.key is not None and one.level == "damage"))
    form = "json" if as_json else format
    if form == "table":
        render_findings.show(count, found)
    else:
        output.listing(form, damaged, found, output.no_table)
    if any(one.level == "damage" for one in found):
        raise Outcome(Exit.FINDINGS)


async def _verified(settings: Settings, ids: tuple[str, ...]) -> tuple[int, list[Finding]]:
    from perdure.cli.asking import keys
    from perdure.cli.progress import counting
    from perdure.service import verifying

    async with settings.look() as looking:
        names = set(await looking.blob_names()) if isinstance(looking, verifying.ListsBlobs) and not ids else set[str]()
        heads = await verifying.heads_of(looking, await keys(looking, settings, ids) if ids else None)
        found: list[Finding] = []
        with counting(len(heads)) as count:
            async for one in verifying.verified(looking, [head.key for head in heads]):
                found += one.findings
                names -= one.blobs
                count(1)
        return len(heads), found + verifying.unreferenced(names)
