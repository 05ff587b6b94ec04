"""The command that replays executions against code, before that is deployed: `check`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perdure.cli.exits import Exit, Outcome
from perdure.cli.root import Command
from perdure.cli.settings import Settings, format_option, json_option

if TYPE_CHECKING:
    from perdure.cli.targets import Code
    from perdure.service.checking import Checked, Which


@click.command("check", cls=Command)
@click.argument("places", nargs=-1, required=True, metavar="TARGET...")
@click.option("--against", metavar="URL", help="The database whose executions are replayed; else the one that --db names.")
@click.option("--workflow", metavar="NAME", help="Only those of this workflow.")
@click.option("--failed", is_flag=True, help="Those that have failed as well.")
@click.option("--limit", type=click.IntRange(1), help="So many at most, the newest.")
@click.option("--strict", is_flag=True, help="A pinned version that the code does not replay counts as well.")
@json_option
@format_option()
@click.pass_obj
def check(
    settings: Settings, /, *, places: tuple[str, ...], against: str | None, limit: int | None, strict: bool, as_json: bool, format: str, **which: str | bool
) -> None:
    """Say which open executions would diverge with this code, where and how, and what can be done.

    TARGET is FILE.py, FILE.py:workflow or module:workflow. Each log is replayed; no step is run, and nothing is written.
    """
    import asyncio

    from perdure.cli import render_checks, targets
    from perdure.service.checking import Which

    code = targets.code(places)
    meant = Which(tenant=settings.tenant, workflow=which["workflow"] or None, failed=bool(which["failed"]), limit=limit)  # type: ignore[arg-type]  # an option of text
    found = asyncio.run(_checked(settings, against, code, meant))
    render_checks.show(found, "json" if as_json else format)
    wrong = {"diverges", "unreadable"} | ({"unadvertised"} if strict else set())
    if any(one.verdict in wrong for one in found):
        raise Outcome(Exit.FINDINGS)


async def _checked(settings: Settings, against: str | None, code: Code, which: Which) -> list[Checked]:
    from perdure.cli.progress import counting
    from perdure.service import checking

    found: list[Checked] = []
    async with settings.look(against) as looking:
        heads = await checking.meant(looking, which)
        with counting(len(heads)) as count:
            async for one in checking.check(looking, checking.known(workflow.code for workflow in code.workflows), heads):
                found.append(one)
                count(1)
    return found
