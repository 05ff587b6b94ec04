"""The commands for dead letters, executions that have failed or need attention: `dead-letters`, `requeue`, `discard`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from perdure.cli.control_commands import action_options
from perdure.cli.root_command import CliCommand, CliGroup
from perdure.cli.shared_options import F, GlobalOptions, format_option, json_option

if TYPE_CHECKING:
    from perdure.sync_client import BulkResult, Client, Handle, Selection


@click.command("dead-letters", cls=CliCommand)
@click.argument("fingerprint", required=False)
@click.option("--workflow", metavar="NAME", help="Only executions of this workflow.")
@click.option("--prefix", default="", metavar="TEXT", help="Only executions whose id has this prefix.")
@click.option("--since", metavar="TIME", help="Only executions created in the last 30s, 1h, 2d.")
@click.option("--limit", default=10_000, show_default=True, type=click.IntRange(1), help="The greatest number of executions to read, newest first.")
@json_option
@format_option()
@click.pass_obj
def dead_letters(settings: GlobalOptions, /, *, fingerprint: str | None, limit: int, as_json: bool, format: str, **which: Any) -> None:
    """List dead letters in groups that failed alike; with a FINGERPRINT, list the executions of one group.

    Failures are alike if the workflow, the step and the error are the same, apart from numbers, ids and quoted text.
    """
    import time

    from perdure.cli import bulk_actions, output, record_views
    from perdure.cli.terminal_text import execution_name

    form = "json" if as_json else format
    with settings.client() as client:
        found = client.dead_letters.groups(
            workflow=which["workflow"],
            id_prefix=which["prefix"],
            since=which["since"],
            fingerprint=fingerprint or "",
            limit=limit,
            tenant=settings.tenant,
        )
    bulk_actions.warn_if_cut(found, limit)
    if fingerprint:
        listed = [one for group in found for one in group.dead_letters]
        output.print_list(form, (execution_name(one.key) for one in listed), listed, lambda: record_views.dead_letter_table(listed, time.time()))
    else:
        groups = [record_views.DeadLetterSummary.of(one) for one in found]
        output.print_list(form, (one.fingerprint for one in groups), groups, lambda: record_views.dead_letter_groups_table(groups, time.time()))


def _dead_letter_options(command: F) -> F:
    return click.option("--fingerprint", metavar="F", help="In place of ids: the group with this fingerprint, as in perdure dead-letters.")(
        action_options(command)
    )


@click.command("requeue", cls=CliCommand)
@_dead_letter_options
@click.option(
    "-i", "pairs", metavar="KEY=VALUE", multiple=True, help="Start a new execution with this argument; KEY is its name, or the number of its position."
)
@click.option("--target", metavar="TARGET", help="The workflow's code, as FILE.py:workflow, to name positional arguments and to check the input.")
@click.pass_obj
def requeue(settings: GlobalOptions, /, *, pairs: tuple[str, ...], target: str | None, **given: Any) -> None:
    """Run dead letters again from what failed.

    With -i, each is started as a new execution with the edited input, and the failed one is discarded.
    """
    from perdure.cli import argument_values, bulk_actions, targets
    from perdure.cli.terminal_text import execution_name

    workflow = None if target is None else targets.load_workflow(target)
    hints = {} if workflow is None else {one.name: one.annotation for one in argument_values.workflow_parameters(workflow.code.fn)}
    edits = argument_values.parse_pairs(pairs, hints)

    continues = "continues" if given["wait"] else "has been asked to continue"

    def do(client: Client, handle: Handle[Any]) -> None:
        follows = client.dead_letters.requeue(
            handle.key, given["reason"], edits=edits, workflow=workflow, wait=given["wait"], timeout=given["timeout"], tenant=settings.tenant
        )
        click.echo(f"{execution_name(follows.key)} {continues if follows.key == handle.key else f'is started in place of {execution_name(handle.key)}'}")

    def do_all(selection: Selection) -> BulkResult:
        return selection.requeue(given["reason"], wait=given["wait"], timeout=given["timeout"])

    bulk_actions.run_on_executions(settings, given, bulk_actions.BulkAction("requeue", do, None if edits else do_all, continues))


@click.command("discard", cls=CliCommand)
@_dead_letter_options
@click.pass_obj
def discard(settings: GlobalOptions, /, **given: Any) -> None:
    """Cancel dead letters without running anything, which takes them off the list."""
    from perdure.cli import bulk_actions
    from perdure.cli.terminal_text import execution_name

    said = "is discarded" if given["wait"] else "will be discarded"

    def do(client: Client, handle: Handle[Any]) -> None:
        client.dead_letters.discard(handle.key, given["reason"], wait=given["wait"], timeout=given["timeout"], tenant=settings.tenant)
        click.echo(f"{execution_name(handle.key)} {said}")

    def do_all(selection: Selection) -> BulkResult:
        return selection.discard(given["reason"], wait=given["wait"], timeout=given["timeout"])

    bulk_actions.run_on_executions(settings, given, bulk_actions.BulkAction("discard", do, do_all, said))


@click.command("reprocess", cls=CliCommand)
@click.option("--run-id", "id", required=True, metavar="ID", help="The execution.")
@click.option("--node-id", "step", default="", metavar="STEP", help="The step that failed; if another one did, nothing is changed.")
@click.option("--reason", default="", metavar="TEXT", help="Why; it is remembered.")
@click.pass_obj
def reprocess(settings: GlobalOptions, /, *, id: str, step: str, reason: str) -> None:
    """Run one dead letter again from the step that failed, as perdure requeue ID does."""
    from perdure.cli import execution_lookup
    from perdure.cli.exit_codes import CommandExit, ExitCode
    from perdure.cli.terminal_text import clean, execution_name
    from perdure.service.dead_letter_groups import step_name

    with settings.client() as client:
        handle = execution_lookup.handle_of(client, settings, id)
        found = client.dead_letters.groups(workflow=handle.key.workflow, id_prefix=handle.key.id, tenant=settings.tenant)
        failed_at = next((one.path for group in found for one in group.dead_letters if one.key == handle.key), None)
        if step and failed_at is not None and step not in (failed_at, step_name(failed_at)):
            where = f"at {clean(failed_at)}" if failed_at else "at no step"
            raise CommandExit(
                ExitCode.INPUT, f"{execution_name(handle.key)} has failed {where}, not at {clean(step)}; nothing was changed\nperdure dead-letters shows where"
            )
        client.dead_letters.requeue(handle.key, reason, tenant=settings.tenant)
        click.echo(f"{execution_name(handle.key)} has been asked to continue")


@click.group("dlq", cls=CliGroup)
def dead_letter_queue() -> None:
    """The commands for dead letters in one group, under the name that other systems use."""


dead_letter_queue.section("Dead letters", ())
for _name, _command in (("ls", dead_letters), ("requeue", requeue), ("reprocess", reprocess), ("discard", discard)):
    dead_letter_queue.add_command(_command, _name)
    dead_letter_queue.sections["Dead letters"].append(_name)
