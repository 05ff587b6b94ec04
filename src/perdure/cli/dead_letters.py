"""The commands about dead letters, which are executions that have failed or need attention: `dead-letters`, `requeue`, `discard`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from perdure.cli.acting import act_options
from perdure.cli.root import Command, Group
from perdure.cli.settings import F, Settings, format_option, json_option

if TYPE_CHECKING:
    from perdure.client import Client, Handle, Selection, Told


@click.command("dead-letters", cls=Command)
@click.argument("fingerprint", required=False)
@click.option("--workflow", metavar="NAME", help="Only those of this workflow.")
@click.option("--prefix", default="", metavar="TEXT", help="Only those whose id begins like this.")
@click.option("--since", metavar="TIME", help="Only those created in the last 30s, 1h, 2d.")
@click.option("--limit", default=10_000, show_default=True, type=click.IntRange(1), help="How many executions are looked at, the newest.")
@json_option
@format_option()
@click.pass_obj
def dead_letters(settings: Settings, /, *, fingerprint: str | None, limit: int, as_json: bool, format: str, **which: Any) -> None:
    """List what has failed or needs attention, those that failed alike as one; of a FINGERPRINT, the executions.

    Alike are failures of one workflow at one step, with one error, but for numbers, ids and quoted text.
    """
    import time

    from perdure.cli import many, output, render_dead_letters
    from perdure.cli.complaints import name

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
    many.say_if_cut(found, limit)
    if fingerprint:
        letters = [letter for group in found for letter in group.letters]
        output.listing(form, (name(one.key) for one in letters), letters, lambda: render_dead_letters.letters(letters, time.time()))
    else:
        groups = [render_dead_letters.Group.of(one) for one in found]
        output.listing(form, (one.fingerprint for one in groups), groups, lambda: render_dead_letters.groups(groups, time.time()))


def _options(command: F) -> F:
    return click.option("--fingerprint", metavar="F", help="In place of ids: all that failed alike, as perdure dead-letters shows it.")(act_options(command))


@click.command("requeue", cls=Command)
@_options
@click.option("-i", "pairs", metavar="KEY=VALUE", multiple=True, help="Begin anew with this argument; KEY is its name, or the number of its position.")
@click.option("--target", metavar="TARGET", help="The workflow's code, as FILE.py:workflow, to know its positions by name and to check the input.")
@click.pass_obj
def requeue(settings: Settings, /, *, pairs: tuple[str, ...], target: str | None, **given: Any) -> None:
    """Run dead letters again, from what failed.

    With -i, each begins anew as another execution with the edited input, and the one that failed is discarded.
    """
    from perdure.cli import many, targets, values
    from perdure.cli.complaints import name

    workflow = None if target is None else targets.workflow(target)
    hints = {} if workflow is None else {one.name: one.annotation for one in values.parameters(workflow.code.fn)}
    edits = values.named(pairs, hints)

    goes_on = "goes on" if given["wait"] else "is told to go on"

    def do(client: Client, handle: Handle[Any]) -> None:
        follows = client.dead_letters.requeue(
            handle.key, given["reason"], edits=edits, workflow=workflow, wait=given["wait"], timeout=given["timeout"], tenant=settings.tenant
        )
        click.echo(f"{name(follows.key)} {goes_on if follows.key == handle.key else f'is begun in place of {name(handle.key)}'}")

    def do_all(letters: Selection) -> Told:
        return letters.requeue(given["reason"], wait=given["wait"], timeout=given["timeout"])

    many.tell(settings, given, many.Action("requeue", do, None if edits else do_all, goes_on))


@click.command("discard", cls=Command)
@_options
@click.pass_obj
def discard(settings: Settings, /, **given: Any) -> None:
    """Take dead letters off the list, and run nothing: they are cancelled as they stand."""
    from perdure.cli import many
    from perdure.cli.complaints import name

    said = f"is {'' if given['wait'] else 'told to be '}discarded"

    def do(client: Client, handle: Handle[Any]) -> None:
        client.dead_letters.discard(handle.key, given["reason"], wait=given["wait"], timeout=given["timeout"], tenant=settings.tenant)
        click.echo(f"{name(handle.key)} {said}")

    def do_all(letters: Selection) -> Told:
        return letters.discard(given["reason"], wait=given["wait"], timeout=given["timeout"])

    many.tell(settings, given, many.Action("discard", do, do_all, said))


@click.command("reprocess", cls=Command)
@click.option("--run-id", "id", required=True, metavar="ID", help="The execution.")
@click.option("--node-id", "step", default="", metavar="STEP", help="The step at which it has failed; if it is another, nothing is done.")
@click.option("--reason", default="", metavar="TEXT", help="Why; it is remembered.")
@click.pass_obj
def reprocess(settings: Settings, /, *, id: str, step: str, reason: str) -> None:
    """Run one dead letter again, from the step that failed: as perdure requeue ID does."""
    from perdure.cli import asking
    from perdure.cli.complaints import name
    from perdure.cli.exits import Exit, Outcome
    from perdure.cli.words import clean
    from perdure.service.dead_letters import step_of

    with settings.client() as client:
        handle = asking.one(client, settings, id)
        found = client.dead_letters.groups(workflow=handle.key.workflow, id_prefix=handle.key.id, tenant=settings.tenant)
        failed_at = next((letter.path for group in found for letter in group.letters if letter.key == handle.key), None)
        if step and failed_at is not None and step not in (failed_at, step_of(failed_at)):
            where = f"at {clean(failed_at)}" if failed_at else "at no step"
            raise Outcome(Exit.INPUT, f"{name(handle.key)} has failed {where}, not at {clean(step)}; nothing was done\nperdure dead-letters shows where")
        client.dead_letters.requeue(handle.key, reason, tenant=settings.tenant)
        click.echo(f"{name(handle.key)} is told to go on")


@click.group("dlq", cls=Group)
def dead_letter_queue() -> None:
    """The same commands in one group, as other systems call it."""


dead_letter_queue.section("Dead letters", ())
for _name, _command in (("ls", dead_letters), ("requeue", requeue), ("reprocess", reprocess), ("discard", discard)):
    dead_letter_queue.add_command(_command, _name)
    dead_letter_queue.sections["Dead letters"].append(_name)
