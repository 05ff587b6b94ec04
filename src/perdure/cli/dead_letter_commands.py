"""The commands about dead letters, which are executions that have failed or need attention: `dead-letters`, `requeue`, `discard`."""

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
@click.option("--workflow", metavar="NAME", help="Only those of this workflow.")
@click.option("--prefix", default="", metavar="TEXT", help="Only those whose id begins like this.")
@click.option("--since", metavar="TIME", help="Only those created in the last 30s, 1h, 2d.")
@click.option("--limit", default=10_000, show_default=True, type=click.IntRange(1), help="How many executions are looked at, the newest.")
@json_option
@format_option()
@click.pass_obj
def dead_letters(settings: GlobalOptions, /, *, fingerprint: str | None, limit: int, as_json: bool, format: str, **which: Any) -> None:
    """List what has failed or needs attention, those that failed alike as one; of a FINGERPRINT, the executions.

    Alike are failures of one workflow at one step, with one error, but for numbers, ids and quoted text.
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
        letters = [letter for group in found for letter in group.dead_letters]
        output.print_list(form, (execution_name(one.key) for one in letters), letters, lambda: record_views.dead_letter_table(letters, time.time()))
    else:
        groups = [record_views.DeadLetterSummary.of(one) for one in found]
        output.print_list(form, (one.fingerprint for one in groups), groups, lambda: record_views.dead_letter_groups_table(groups, time.time()))


def _dead_letter_options(command: F) -> F:
    return click.option("--fingerprint", metavar="F", help="In place of ids: all that failed alike, as perdure dead-letters shows it.")(action_options(command))


@click.command("requeue", cls=CliCommand)
@_dead_letter_options
@click.option("-i", "pairs", metavar="KEY=VALUE", multiple=True, help="Begin anew with this argument; KEY is its name, or the number of its position.")
@click.option("--target", metavar="TARGET", help="The workflow's code, as FILE.py:workflow, to know its positions by name and to check the input.")
@click.pass_obj
def requeue(settings: GlobalOptions, /, *, pairs: tuple[str, ...], target: str | None, **given: Any) -> None:
    """Run dead letters again, from what failed.

    With -i, each begins anew as another execution with the edited input, and the one that failed is discarded.
    """
    from perdure.cli import argument_values, bulk_actions, targets
    from perdure.cli.terminal_text import execution_name

    workflow = None if target is None else targets.load_workflow(target)
    hints = {} if workflow is None else {one.name: one.annotation for one in argument_values.workflow_parameters(workflow.code.fn)}
    edits = argument_values.parse_pairs(pairs, hints)

    goes_on = "goes on" if given["wait"] else "is told to go on"

    def do(client: Client, handle: Handle[Any]) -> None:
        follows = client.dead_letters.requeue(
            handle.key, given["reason"], edits=edits, workflow=workflow, wait=given["wait"], timeout=given["timeout"], tenant=settings.tenant
        )
        click.echo(f"{execution_name(follows.key)} {goes_on if follows.key == handle.key else f'is begun in place of {execution_name(handle.key)}'}")

    def do_all(letters: Selection) -> BulkResult:
        return letters.requeue(given["reason"], wait=given["wait"], timeout=given["timeout"])

    bulk_actions.run_on_executions(settings, given, bulk_actions.BulkAction("requeue", do, None if edits else do_all, goes_on))


@click.command("discard", cls=CliCommand)
@_dead_letter_options
@click.pass_obj
def discard(settings: GlobalOptions, /, **given: Any) -> None:
    """Take dead letters off the list, and run nothing: they are cancelled as they stand."""
    from perdure.cli import bulk_actions
    from perdure.cli.terminal_text import execution_name

    said = f"is {'' if given['wait'] else 'told to be '}discarded"

    def do(client: Client, handle: Handle[Any]) -> None:
        client.dead_letters.discard(handle.key, given["reason"], wait=given["wait"], timeout=given["timeout"], tenant=settings.tenant)
        click.echo(f"{execution_name(handle.key)} {said}")

    def do_all(letters: Selection) -> BulkResult:
        return letters.discard(given["reason"], wait=given["wait"], timeout=given["timeout"])

    bulk_actions.run_on_executions(settings, given, bulk_actions.BulkAction("discard", do, do_all, said))


@click.command("reprocess", cls=CliCommand)
@click.option("--run-id", "id", required=True, metavar="ID", help="The execution.")
@click.option("--node-id", "step", default="", metavar="STEP", help="The step at which it has failed; if it is another, nothing is done.")
@click.option("--reason", default="", metavar="TEXT", help="Why; it is remembered.")
@click.pass_obj
def reprocess(settings: GlobalOptions, /, *, id: str, step: str, reason: str) -> None:
    """Run one dead letter again, from the step that failed: as perdure requeue ID does."""
    from perdure.cli import execution_lookup
    from perdure.cli.exit_codes import CommandExit, ExitCode
    from perdure.cli.terminal_text import clean, execution_name
    from perdure.service.dead_letter_groups import step_name

    with settings.client() as client:
        handle = execution_lookup.handle_of(client, settings, id)
        found = client.dead_letters.groups(workflow=handle.key.workflow, id_prefix=handle.key.id, tenant=settings.tenant)
        failed_at = next((letter.path for group in found for letter in group.dead_letters if letter.key == handle.key), None)
        if step and failed_at is not None and step not in (failed_at, step_name(failed_at)):
            where = f"at {clean(failed_at)}" if failed_at else "at no step"
            raise CommandExit(
                ExitCode.INPUT, f"{execution_name(handle.key)} has failed {where}, not at {clean(step)}; nothing was done\nperdure dead-letters shows where"
            )
        client.dead_letters.requeue(handle.key, reason, tenant=settings.tenant)
        click.echo(f"{execution_name(handle.key)} is told to go on")


@click.group("dlq", cls=CliGroup)
def dead_letter_queue() -> None:
    """The same commands in one group, as other systems call it."""


dead_letter_queue.section("Dead letters", ())
for _name, _command in (("ls", dead_letters), ("requeue", requeue), ("reprocess", reprocess), ("discard", discard)):
    dead_letter_queue.add_command(_command, _name)
    dead_letter_queue.sections["Dead letters"].append(_name)
