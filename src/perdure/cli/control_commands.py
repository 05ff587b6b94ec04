"""The commands that control executions: `send`, `complete`, `cancel`, `terminate`, `undo`, `pause`, `resume`, `evict`, `retry`.

The commands that start a new execution from another, or supply the outcome of a step: `rerun`, `fork`, `preset`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from perdure.cli.root_command import CliCommand
from perdure.cli.run_commands import ARGUMENTS_HELP
from perdure.cli.shared_options import (
    F,
    GlobalOptions,
    filter_options,
    id_argument,
    id_arguments,
    input_options,
    json_option,
    replacement_input,
    status_option,
    value_format,
    where_option,
)

if TYPE_CHECKING:
    from perdure.service.change_plans import ChangePlan
    from perdure.sync_client import Client, Handle, Selection


@click.command("send", cls=CliCommand)
@id_argument
@click.argument("signal")
@click.argument("body", required=False)
@click.option("--key", metavar="TEXT", help="The idempotency key: sent again under it within 24 hours, the message arrives once.")
@click.option("--ask", is_flag=True, help="Wait for the reply of the workflow, and print it.")
@click.option("--timeout", metavar="TIME", help="How long to wait for it at most.")
@value_format
@click.pass_obj
def send(settings: GlobalOptions, /, *, id: str, signal: str, body: str | None, key: str | None, ask: bool, timeout: str | None, format: str) -> None:
    """Send an execution a message. BODY is JSON where it parses, else text.

    The message is durable when the command returns, and waits until the workflow receives it.
    """
    from perdure.cli import argument_values, execution_lookup, output
    from perdure.core.errors import BadValue

    content = None if body is None else argument_values.parse_sent_value(body, "the message")
    if ask and key is not None:
        raise BadValue("--key", key, "to be combined with --ask, which waits for a reply to a message of its own")
    with settings.client() as client:
        handle = execution_lookup.handle_of(client, settings, id)
        if ask:
            output.print_value(handle.ask(signal, content, timeout=timeout), format)
        else:
            handle.send(signal, content, key=key)


@click.command("complete", cls=CliCommand)
@click.argument("token")
@click.argument("value", required=False)
@click.option("--error", metavar="TEXT", help="Fail the attempt with this error, in place of a value.")
@click.option("--final", is_flag=True, help="With --error: there is no further attempt.")
@click.option("--heartbeat", is_flag=True, help="Only report that the work is alive.")
@click.pass_obj
def complete(settings: GlobalOptions, /, *, token: str, value: str | None, error: str | None, final: bool, heartbeat: bool) -> None:
    """Complete a step that waits for it (ctx.external) with a VALUE, or fail it. TOKEN is what the step was given.

    VALUE is JSON where it parses, else text; if it is left out, the result is None. The first completion counts.
    """
    from perdure.cli import argument_values

    if sum((value is not None, error is not None, heartbeat)) > 1:
        raise click.UsageError("give a VALUE, --error or --heartbeat, not several of them")
    if final and error is None:
        raise click.UsageError("--final goes with --error TEXT")
    with settings.client() as client:
        if heartbeat:
            client.heartbeat(token)
        elif error is not None:
            client.fail(token, error, final=final)
        else:
            client.complete(token, None if value is None else argument_values.parse_sent_value(value, "the result"))


def action_options(command: F) -> F:
    """Options that select executions, give a reason, and say whether to wait."""
    command = click.option("--timeout", metavar="TIME", help="How long to wait at most.")(command)
    command = click.option("--wait", is_flag=True, help="Wait until the command has taken effect.")(command)
    command = click.option("--reason", default="", metavar="TEXT", help="The reason, which is recorded.")(command)
    return id_arguments(filter_options(status_option(where_option("With --all: only executions with matching attributes")(command))))


def run_action(settings: GlobalOptions, given: dict[str, Any], done: str, **how: Any) -> None:
    """Runs the current command on each selected execution. Its name is also that of the method of a handle and of a selection."""
    from perdure.cli import bulk_actions
    from perdure.cli.terminal_text import execution_name

    verb = click.get_current_context().info_name or ""
    said = done if given["wait"] else f"has been asked to {verb}"

    def do_all(them: Handle[Any] | Selection) -> Any:
        return getattr(them, verb)(given["reason"], **how, wait=given["wait"], timeout=given["timeout"])

    def do(_: Client, handle: Handle[Any]) -> None:
        do_all(handle)
        click.echo(f"{execution_name(handle.key)} {said}")

    def plan(handle: Handle[Any]) -> ChangePlan:
        return handle.plan(verb, **how)  # type: ignore[arg-type]  # it is among the verbs

    has_plan = verb != "evict"  # which changes nothing that a plan names
    bulk_actions.run_on_executions(settings, given, bulk_actions.BulkAction(verb, do, do_all, said, plan if has_plan else None))


@click.command("cancel", cls=CliCommand)
@action_options
@click.option("--no-undo", is_flag=True, help="Do not undo completed steps.")
@click.pass_obj
def cancel(settings: GlobalOptions, /, *, no_undo: bool, **given: Any) -> None:
    """Cancel executions: they unwind, undo completed steps, and end as cancelled."""
    run_action(settings, given, "is cancelled", undo=not no_undo)


@click.command("terminate", cls=CliCommand)
@action_options
@click.pass_obj
def terminate(settings: GlobalOptions, /, **given: Any) -> None:
    """End executions as cancelled at once, without running their workflows any further."""
    run_action(settings, given, "is terminated")


@click.command("undo", cls=CliCommand)
@action_options
@click.pass_obj
def undo(settings: GlobalOptions, /, **given: Any) -> None:
    """Undo the steps of completed executions; their results stay. Of failed and cancelled ones, undo the steps whose undo failed."""
    run_action(settings, given, "is undone")


@click.command("pause", cls=CliCommand)
@action_options
@click.pass_obj
def pause(settings: GlobalOptions, /, **given: Any) -> None:
    """Pause executions: they begin nothing more until they are resumed."""
    run_action(settings, given, "is paused")


@click.command("evict", cls=CliCommand)
@action_options
@click.pass_obj
def evict(settings: GlobalOptions, /, **given: Any) -> None:
    """Evict executions from the engine that holds them; they continue from their logs.

    Async steps in flight are cancelled and begun again, which is not counted; sync steps finish first.
    """
    run_action(settings, given, "is evicted")


@click.command("resume", cls=CliCommand)
@action_options
@click.option(
    "--decision",
    type=click.Choice(["approve", "reject", "deny"]),
    help="Decide the approval that they wait for; deny is the same as reject, and --reason is the comment.",
)
@click.option("--approval", metavar="STEP", help="With --decision: the path of the approval, if they wait for several.")
@click.option("--as", "by", metavar="NAME", help="With --decision: the person who decides; else PERDURE_USER, else the user who is logged in.")
@click.pass_obj
def resume(settings: GlobalOptions, /, *, decision: str | None, approval: str | None, by: str | None, **given: Any) -> None:
    """Resume executions that are paused or need attention; with --decision, decide the approval that they wait for."""
    if decision is None:
        if approval is not None or by is not None:
            raise click.UsageError(f"--{'as' if approval is None else 'approval'} needs --decision")
        run_action(settings, given, "continues")
        return
    from perdure.cli.approval_commands import decide_for_executions

    if given["everything"]:
        raise click.UsageError("--decision needs ids; leave --all out, or use perdure approve --all")
    decide_for_executions(settings, {**given, "by": by, "path": approval, "comment": given["reason"]}, decision == "approve")


@click.command("retry", cls=CliCommand)
@action_options
@click.option("--from", "step", metavar="STEP", help="Repeat this step and everything after it; STEP is a path as in perdure show.")
@click.pass_obj
def retry(settings: GlobalOptions, /, *, step: str | None, **given: Any) -> None:
    """Retry failed executions from what failed; steps that have succeeded are not called again.

    An execution that needs attention continues where it is.
    """
    run_action(settings, given, "continues", from_step=step)


def _new_execution_options(command: F) -> F:
    """Options of commands that start a new execution: its id and version, and whether to wait for it."""
    command = click.option("--timeout", metavar="TIME", help="How long to wait at most.")(command)
    command = click.option("--wait", is_flag=True, help="Wait for its end, and print its result instead of its key.")(command)
    command = click.option("--version", type=click.IntRange(0), metavar="N", help="The version of the workflow; 0 is that of the engine.")(command)
    command = click.option("--dry-run", is_flag=True, help="Say what the new execution would take over and perform again, and start none.")(command)
    command = click.option("--id", "new", metavar="NEW", help="The id of the new execution.")(command)
    return value_format(json_option(command))


@click.command("rerun", cls=CliCommand)
@id_argument
@_new_execution_options
@click.pass_obj
def rerun(settings: GlobalOptions, /, *, id: str, new: str | None, version: int | None, **given: Any) -> None:
    """Start a new execution with the same input as another. Its key is printed."""
    from perdure.cli import execution_lookup

    with settings.client() as client:
        handle = execution_lookup.handle_of(client, settings, id)
        if given["dry_run"]:
            _print_plan_of_new(handle.plan("rerun"), given)
        else:
            _print_new_execution(client, handle.rerun(id=new, version=version), given)


@click.command("fork", cls=CliCommand, epilog=f"{ARGUMENTS_HELP} If there are any, they are the whole input, by position or by name.")
@id_argument
@input_options
@click.option("--from", "step", metavar="STEP", help="Copy only outcomes from before this step; STEP is a path as in perdure show.")
@_new_execution_options
@click.pass_obj
def fork(settings: GlobalOptions, /, *, id: str, step: str | None, new: str | None, version: int | None, **given: Any) -> None:
    """Start a new execution with the outcomes of another one.

    Arguments, if there are any, replace its input. The key of the new execution is printed.
    """
    from perdure.cli import execution_lookup

    wanted = replacement_input(given)
    with settings.client() as client:
        handle = execution_lookup.handle_of(client, settings, id)
        if given["dry_run"]:
            _print_plan_of_new(handle.plan("fork", from_step=step), given)
        else:
            _print_new_execution(client, handle.fork(step, input=wanted, id=new, version=version), given)


@click.command("preset", cls=CliCommand)
@id_argument
@click.argument("step")
@click.argument("value", required=False)
@click.option("--dry-run", is_flag=True, help="Say what would happen, and change nothing.")
@click.pass_obj
def preset(settings: GlobalOptions, /, *, id: str, step: str, value: str | None, dry_run: bool) -> None:
    """Supply the result of a STEP in place of performing it: of an open step, one that is still to come, or one that failed.

    VALUE is JSON where it parses, else text; if it is left out, the result is None. STEP is a path as in perdure show and perdure events.
    """
    from perdure.cli import argument_values, execution_lookup, plan_views, terminal_text
    from perdure.cli.terminal_text import execution_name

    with settings.client() as client:
        handle = execution_lookup.handle_of(client, settings, id)
        if dry_run:
            plan_views.print_plan(handle.plan("preset", step=step), f"would receive the result of {terminal_text.clean(step)}")
            return
        handle.preset(step, None if value is None else argument_values.parse_sent_value(value, "the result"))
        click.echo(f"{execution_name(handle.key)} receives the result of {terminal_text.clean(step)}")


def _print_plan_of_new(plan: ChangePlan, given: dict[str, Any]) -> None:
    from perdure.cli import plan_views

    plan_views.print_plan(plan, plan_views.NEW_EXECUTIONS[plan.verb], "json" if given["as_json"] else given["format"])


def _print_new_execution(client: Client, handle: Handle[Any], given: dict[str, Any]) -> None:
    """Prints the key of the new execution, or waits for its result."""
    from perdure.cli import output
    from perdure.cli.execution_lookup import known_programs, unknown_program, wait_for_result
    from perdure.cli.terminal_text import execution_name
    from perdure.core.program import near_programs

    form = "json" if given["as_json"] else given["format"]
    if not given["wait"]:
        output.print_value({**handle.key._asdict(), "created": handle.created} if form == "json" else execution_name(handle.key), form)
    if (program := unknown_program(handle.summary(), known := known_programs(client))) is not None:
        click.echo(f"perdure: no running engine knows {program}{near_programs(program, known)}, so it waits\nperdure worker FILE.py starts one", err=True)
    if given["wait"]:
        output.print_value(wait_for_result(handle, given["timeout"]), form)
