"""The command that replays executions against code, before that is deployed: `check`.

The command that compares the records of executions with each other: `verify`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perdure.cli.exit_codes import CommandExit, ExitCode
from perdure.cli.root_command import CliCommand
from perdure.cli.shared_options import GlobalOptions, format_option, id_arguments, json_option

if TYPE_CHECKING:
    from perdure.cli.targets import TargetCode
    from perdure.service.replay_checks import ReplayCheck, ReplayFilter
if TYPE_CHECKING:
    from perdure.service.verification import VerificationFinding


@click.command("check", cls=CliCommand)
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
    settings: GlobalOptions,
    /,
    *,
    places: tuple[str, ...],
    against: str | None,
    limit: int | None,
    strict: bool,
    as_json: bool,
    format: str,
    **which: str | bool,
) -> None:
    """Say which open executions would diverge with this code, where and how, and what can be done.

    TARGET is FILE.py, FILE.py:workflow, module:workflow, or module:app of an App. Each log is replayed; no step is run, and nothing is written.
    """
    import asyncio

    from perdure.cli import check_reports, targets
    from perdure.service.replay_checks import ReplayFilter

    code = targets.load_code(places)
    if against is None:
        targets.use_database_of(settings, places)
    meant = ReplayFilter(tenant=settings.tenant, workflow=which["workflow"] or None, failed=bool(which["failed"]), limit=limit)  # type: ignore[arg-type]  # an option of text
    found = asyncio.run(_checked(settings, against, code, meant))
    check_reports.show_replay_checks(found, "json" if as_json else format)
    wrong = {"diverges", "unreadable"} | ({"unadvertised"} if strict else set())
    if any(one.verdict in wrong for one in found):
        raise CommandExit(ExitCode.FINDINGS)


async def _checked(settings: GlobalOptions, against: str | None, code: TargetCode, which: ReplayFilter) -> list[ReplayCheck]:
    from perdure.cli.terminal import progress_counter
    from perdure.service import replay_checks

    found: list[ReplayCheck] = []
    async with settings.look(against) as looking:
        heads = await replay_checks.choose_heads(looking, which)
        with progress_counter(len(heads)) as count:
            async for one in replay_checks.check_executions(looking, replay_checks.workflows_by_name(workflow.code for workflow in code.workflows), heads):
                found.append(one)
                count(1)
    return found


@click.command("verify", cls=CliCommand)
@id_arguments
@json_option
@format_option()
@click.pass_obj
def verify(settings: GlobalOptions, /, *, ids: tuple[str, ...], as_json: bool, format: str) -> None:
    """Say whether the records of executions agree: logs, heads, mail, who holds them, large values, children. Without IDs, of all of all tenants.

    Damage keeps an execution from going on as it should; a note mends itself, or harms nobody. Nothing is changed.
    """
    import asyncio

    from perdure.cli import check_reports, output
    from perdure.cli.terminal_text import execution_name

    count, found = asyncio.run(_verified(settings, ids))
    damaged = list(dict.fromkeys(execution_name(one.key) for one in found if one.key is not None and one.level == "damage"))
    form = "json" if as_json else format
    if form == "table":
        check_reports.show_verification(count, found)
    else:
        output.print_list(form, damaged, found, output.no_table)
    if any(one.level == "damage" for one in found):
        raise CommandExit(ExitCode.FINDINGS)


async def _verified(settings: GlobalOptions, ids: tuple[str, ...]) -> tuple[int, list[VerificationFinding]]:
    from perdure.cli.execution_lookup import execution_keys
    from perdure.cli.terminal import progress_counter
    from perdure.service import verification

    async with settings.look() as looking:
        names = set(await looking.blob_names()) if isinstance(looking, verification.ListsBlobs) and not ids else set[str]()
        heads = await verification.heads_to_verify(looking, await execution_keys(looking, settings, ids) if ids else None)
        found: list[VerificationFinding] = []
        with progress_counter(len(heads)) as count:
            async for one in verification.verify_executions(looking, [head.key for head in heads]):
                found += one.findings
                names -= one.blobs
                count(1)
        return len(heads), found + verification.unreferenced_blob_findings(names)
