"""The commands that tell executions something: `send`, `cancel`, `terminate`, `undo`, `pause`, `resume`, `evict`, `retry`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from perdure.cli.root import Command
from perdure.cli.settings import F, Settings, choice_options, id_argument, id_arguments, status_option, value_format, where_option

if TYPE_CHECKING:
    from perdure.client import Client, Handle, Selection


@click.command("send", cls=Command)
@id_argument
@click.argument("signal")
@click.argument("body", required=False)
@click.option("--key", metavar="TEXT", help="Sent again with the same key within 24 hours, it arrives once.")
@click.option("--ask", is_flag=True, help="Wait for the reply of the workflow, and print it.")
@click.option("--timeout", metavar="TIME", help="How long to wait for it at most.")
@value_format
@click.pass_obj
def send(settings: Settings, /, *, id: str, signal: str, body: str | None, key: str | None, ask: bool, timeout: str | None, format: str) -> None:
    """Send an execution a message. BODY is JSON where it parses, else text.

    It is durable when the command returns, and waits until the workflow listens to it.
    """
    from perdure.cli import asking, output, values
    from perdure.core.errors import BadValue

    content = None if body is None else values.value(body)
    if ask and key is not None:
        raise BadValue("--key", key, "to be combined with --ask, which waits for a reply to a message of its own")
    with settings.client() as client:
        handle = asking.one(client, settings, id)
        if ask:
            output.value(handle.ask(signal, content, timeout=timeout), format)
        else:
            handle.send(signal, content, key=key)


def act_options(command: F) -> F:
    """Which executions, why, and whether to wait."""
    command = click.option("--timeout", metavar="TIME", help="How long to wait at most.")(command)
    command = click.option("--wait", is_flag=True, help="Wait until it has taken effect.")(command)
    command = click.option("--reason", default="", metavar="TEXT", help="Why; it is remembered.")(command)
    return id_arguments(choice_options(status_option(where_option("With --all: only those that are found")(command))))


def act(settings: Settings, given: dict[str, Any], done: str, **how: Any) -> None:
    """Have each execution that is meant do what the command is called, which is also the name of the method of a handle and of a selection."""
    from perdure.cli import many
    from perdure.cli.complaints import name

    verb = click.get_current_context().info_name or ""
    said = done if given["wait"] else f"is told to {verb}"

    def do_all(them: Handle[Any] | Selection) -> Any:
        return getattr(them, verb)(given["reason"], **how, wait=given["wait"], timeout=given["timeout"])

    def do(_: Client, handle: Handle[Any]) -> None:
        do_all(handle)
        click.echo(f"{name(handle.key)} {said}")

    many.tell(settings, given, many.Action(verb, do, do_all, said))


@click.command("cancel", cls=Command)
@act_options
@click.option("--no-undo", is_flag=True, help="Leave what they have done as it is.")
@click.pass_obj
def cancel(settings: Settings, /, *, no_undo: bool, **given: Any) -> None:
    """Have executions unwind, undo what they have done, and end as cancelled."""
    act(settings, given, "is cancelled", undo=not no_undo)


@click.command("terminate", cls=Command)
@act_options
@click.pass_obj
def terminate(settings: Settings, /, **given: Any) -> None:
    """End executions at once, as cancelled; the workflows get no say."""
    act(settings, given, "is terminated")


@click.command("undo", cls=Command)
@act_options
@click.pass_obj
def undo(settings: Settings, /, **given: Any) -> None:
    """Undo what completed executions have done; their results stay. Of failed and cancelled ones, what could not be undone when they ended."""
    act(settings, given, "is undone")


@click.command("pause", cls=Command)
@act_options
@click.pass_obj
def pause(settings: Settings, /, **given: Any) -> None:
    """Have executions begin nothing more until they are resumed."""
    act(settings, given, "is paused")


@click.command("evict", cls=Command)
@act_options
@click.pass_obj
def evict(settings: Settings, /, **given: Any) -> None:
    """Have executions leave the engine that has them, and go on from their logs.

    Async steps in progress there are cancelled and begun again, which is not counted; sync ones are finished first.
    """
    act(settings, given, "is evicted")


@click.command("resume", cls=Command)
@act_options
@click.option(
    "--decision",
    type=click.Choice(["approve", "reject", "deny"]),
    help="Answer the approval that they wait for, where deny is another word for reject; --reason is the comment.",
)
@click.option("--approval", metavar="STEP", help="With --decision: which one, where several are asked.")
@click.option("--as", "by", metavar="NAME", help="With --decision: who decides; else PERDURE_USER, else who is logged in.")
@click.pass_obj
def resume(settings: Settings, /, *, decision: str | None, approval: str | None, by: str | None, **given: Any) -> None:
    """Have executions go on that are paused, or that needed attention; or with --decision, that wait for an approval."""
    if decision is None:
        if approval is not None or by is not None:
            raise click.UsageError(f"--{'as' if approval is None else 'approval'} goes with --decision")
        act(settings, given, "goes on")
        return
    from perdure.cli.approving import answer

    if given["everything"]:
        raise click.UsageError("--decision is for ids: leave --all out, or use perdure approve --all")
    answer(settings, {**given, "by": by, "place": approval, "comment": given["reason"]}, decision == "approve")


@click.command("retry", cls=Command)
@act_options
@click.option("--from", "step", metavar="STEP", help="Do again what was done from this step on, as perdure show calls it.")
@click.pass_obj
def retry(settings: Settings, /, *, step: str | None, **given: Any) -> None:
    """Have executions go on that have failed, from what failed; what had succeeded is not done again.

    One that needs attention goes on from where it stands.
    """
    act(settings, given, "goes on", from_step=step)
