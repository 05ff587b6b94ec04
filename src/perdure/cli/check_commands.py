"""The commands that check executions: `check` replays them over code that is not deployed yet; `verify` compares their records with each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perdure.cli.exit_codes import CommandExit, ExitCode
from perdure.cli.root_command import CliCommand
from perdure.cli.shared_options import GlobalOptions, format_option, id_arguments, json_option

if TYPE_CHECKING:
    from perdure.cli.targets import TargetCode
    from perdure.service.replay_checks import ReplayCheck, ReplayFilter
    from perdure.service.verification import VerificationFinding


@click.command("check", cls=CliCommand)
@click.argument("places", nargs=-1, required=True, metavar="TARGET...")
@click.option("--against", metavar="URL", help="The database whose executions are replayed; else the one of --db.")
@click.option("--workflow", metavar="NAME", help="Only executions of this workflow.")
@click.option("--failed", is_flag=True, help="Include executions that have failed.")
@click.option("--limit", type=click.IntRange(1), help="The greatest number to check, newest first.")
@click.option("--strict", is_flag=True, help="A pinned version that the code does not replay counts as a finding, too.")
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
    """Check which open executions would diverge with this code, where and how, and what can be done.

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
    async with settings.look(against) as store:
        heads = await replay_checks.choose_heads(store, which)
        with progress_counter(len(heads)) as count:
            async for one in replay_checks.check_executions(store, replay_checks.workflows_by_name(workflow.code for workflow in code.workflows), heads):
                found.append(one)
                count(1)
    return found


@click.command("verify", cls=CliCommand)
@id_arguments
@json_option
@format_option()
@click.pass_obj
def verify(settings: GlobalOptions, /, *, ids: tuple[str, ...], as_json: bool, format: str) -> None:
    """Verify that the records of executions agree: logs, heads, messages, holders, large values, children. Without IDs: of all executions of all tenants.

    Damage keeps an execution from continuing correctly; a note repairs itself, or does no harm. Nothing is changed.
    """
    import asyncio

    from perdure.cli import check_reports, output
    from perdure.cli.terminal_text import execution_name

    count, found = asyncio.run(_verified(settings, ids)) if settings.server_url() is None else _verified_by_server(settings, ids)
    damaged = list(dict.fromkeys(execution_name(one.key) for one in found if one.key is not None and one.level == "damage"))
    form = "json" if as_json else format
    if form == "table":
        check_reports.show_verification(count, found)
    else:
        output.print_list(form, damaged, found, output.no_table)
    if any(one.level == "damage" for one in found):
        raise CommandExit(ExitCode.FINDINGS)


def _verified_by_server(settings: GlobalOptions, ids: tuple[str, ...]) -> tuple[int | None, list[VerificationFinding]]:
    from perdure.cli.execution_lookup import ids_of

    with settings.client() as client:
        keys = [client.find(text, tenant=settings.tenant) for text in ids_of(ids)]
        return len(keys) or None, client.upkeep.verify(*keys)


async def _verified(settings: GlobalOptions, ids: tuple[str, ...]) -> tuple[int, list[VerificationFinding]]:
    from perdure.cli.execution_lookup import execution_keys
    from perdure.cli.terminal import progress_counter
    from perdure.service import verification

    async with settings.look() as store:
        names = set(await store.blob_names()) if isinstance(store, verification.ListsBlobs) and not ids else set[str]()
        heads = await verification.heads_to_verify(store, await execution_keys(store, settings, ids) if ids else None)
        found: list[VerificationFinding] = []
        with progress_counter(len(heads)) as count:
            async for one in verification.verify_executions(store, [head.key for head in heads]):
                found += one.findings
                names -= one.blobs
                count(1)
        return len(heads), found + verification.unreferenced_blob_findings(names)
