"""Runs a command on many executions: on those of a filter in batches, after a confirmation, or on those of ids one by one.

A failure of one does not keep the command from the others; the first failure determines the exit code.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import click

from perdure.cli import exit_codes, plan_views, terminal_text
from perdure.cli.execution_lookup import ids_of
from perdure.cli.exit_codes import CommandExit, ExitCode
from perdure.cli.shared_options import GlobalOptions
from perdure.cli.terminal import progress_counter
from perdure.cli.terminal_text import error_message, execution_name
from perdure.core.attribute_filter import parse_filter
from perdure.core.errors import PerdureError
from perdure.core.paths import Key
from perdure.service import bulk_requests
from perdure.service.change_plans import ChangePlan
from perdure.service.dead_letter_groups import DeadLetterGroup
from perdure.sync_client import BulkResult, Client, Handle, Selection

T = TypeVar("T")

UNCONFIRMED_MAX = 10
"""More executions than these need a confirmation."""


class BulkAction(NamedTuple):
    """A command on executions.

    `verb` is its name, `do` performs it on one execution, `do_all` on a batch (None: one by one there, too), and `said` is what is printed of each in a batch.
    `plan` says what it would do to one (None: that is not known beforehand).
    """

    verb: str
    do: Callable[[Client, Handle[Any]], None]
    do_all: Callable[[Selection], BulkResult] | None
    said: str
    plan: Callable[[Handle[Any]], ChangePlan] | None = None


def run_on_executions(settings: GlobalOptions, given: Mapping[str, Any], action: BulkAction) -> None:
    """Runs a command on the executions of the ids, or with --all on those of a filter; without --status, on those on which it has an effect.

    Parents come before their children, except for commands that run something again, which begin with the newest executions.
    """
    check_filter(given)
    with settings.client() as client:
        found = filtered_keys(client, settings, given, bulk_requests.STATUSES_BY_OPERATION[action.verb])
        if found is None:
            one_by_one(ids_of(given["ids"]), _action_on(lambda text: client.get(client.find(text, tenant=settings.tenant)), client, given, action))
            return
        keys = found if action.verb in bulk_requests.NEWEST_FIRST else found[::-1]
        confirm(len(keys), action.verb, given)
        if action.do_all is None or given["dry_run"]:
            one_by_one(keys, _action_on(client.get, client, given, action), len(keys))
        else:
            in_batches(client, keys, action.do_all, action)


def _action_on(get: Callable[[T], Handle[Any]], client: Client, given: Mapping[str, Any], action: BulkAction) -> Callable[[T], None]:
    def act(thing: T) -> None:
        handle = get(thing)
        if given["dry_run"] and action.plan is not None:
            plan_views.print_plan(action.plan(handle), dry_run_text(action.verb))
        elif given["dry_run"]:
            click.echo(f"{execution_name(handle.key)} {dry_run_text(action.verb)}")
        else:
            action.do(client, handle)

    return act


def in_batches(client: Client, keys: Sequence[Key], do_all: Callable[[Selection], BulkResult], action: BulkAction) -> None:
    """Runs a command on all executions, one commit per batch; ends with the exit code of the first failure, if there is one.

    If it is interrupted, or loses the store, it prints how far it came.
    """
    failure, ended, accepted = ExitCode.OK, 0, 0
    try:
        with progress_counter(len(keys), between=True) as count:
            for first in range(0, len(keys), bulk_requests.BULK_BATCH):
                batch = keys[first : first + bulk_requests.BULK_BATCH]
                result = do_all(client.select(keys=batch))
                accepted += len(result.accepted)
                ended += len(result.ended)
                _print_result(result, action.said)
                failure = failure or next((exit_codes.exit_code_of_error(type(error)) for error in result.failed.values()), ExitCode.OK)
                count(len(batch))
    except (KeyboardInterrupt, PerdureError):
        so_far = f"{accepted:,} of {terminal_text.count(len(keys), 'execution')} {'was' if accepted == 1 else 'were'} asked to {action.verb}"
        click.echo(f"perdure: {so_far}, and the next {bulk_requests.BULK_BATCH} may have been\nrun the command again for the rest", err=True)
        raise
    if ended:
        click.echo(f"perdure: {terminal_text.count(ended, 'execution')} had ended before; {action.verb} has no effect there", err=True)
    if failure:
        raise CommandExit(failure)


def _print_result(result: BulkResult, said: str) -> None:
    if result.accepted:
        click.echo("\n".join(f"{execution_name(key)} {said}" for key in result.accepted))
    for error in result.failed.values():
        click.echo(f"perdure: {error_message(error)}", err=True)


def check_filter(given: Mapping[str, Any]) -> None:
    """Ends the command unless it is given either ids or a filter."""
    filters = [f"--{option.replace('_', '-')}" for option in ("workflow", "status", "prefix", "since", "where", "fingerprint") if given.get(option)]
    chosen = given["everything"] or given.get("fingerprint")
    if given["ids"] and (chosen or filters):
        raise click.UsageError(f"give ids, or {filters[0] if filters else '--all'}, not both")
    if given.get("fingerprint") and given.get("where"):
        raise click.UsageError("give --fingerprint or --where, not both")
    if filters and not chosen:
        raise click.UsageError(f"{filters[0]} needs --all")
    if not given["ids"] and not chosen:
        raise click.UsageError("Missing argument 'ID...', or --all.")


def filtered_keys(client: Client, settings: GlobalOptions, given: Mapping[str, Any], statuses: Sequence[str]) -> list[Key] | None:
    """The executions that the filter selects, newest first; None without a filter."""
    if given.get("fingerprint"):
        (group,) = client.dead_letters.groups(
            fingerprint=given["fingerprint"], workflow=given["workflow"], id_prefix=given["prefix"], since=given["since"], tenant=settings.tenant
        )
        warn_if_cut([group])
        return [one.key for one in group.dead_letters if not given["status"] or one.status in _split(given["status"])]
    if not given["everything"]:
        return None
    selection = client.select(
        workflow=given["workflow"],
        status=_split(given["status"]) or statuses,
        id_prefix=given["prefix"],
        since=given["since"],
        where=parse_filter(given["where"]),
        tenant=settings.tenant,
    )
    return selection.keys()


def warn_if_cut(groups: Sequence[DeadLetterGroup], limit: int | None = None) -> None:
    """Warns on standard error if there are more dead letters than were read."""
    if groups and not groups[0].complete:
        limited = "those" if limit is None else f"the newest {limit:,}"
        then = "repeat the command for the rest" if limit is None else "the counts are lower bounds; --limit reads more"
        click.echo(f"perdure: there are more dead letters than {limited} that were read; {then}", err=True)


def _split(statuses: str | None) -> list[str]:
    return [one.strip() for one in statuses.split(",")] if statuses else []


def confirm(count: int, verb: str, given: Mapping[str, Any], what: str = "execution") -> None:
    """Asks for a confirmation if there are many executions; ends the command unless it is given."""
    if not count:
        click.echo(f"perdure: no {what} fits; nothing was done", err=True)
    if given["dry_run"] or given["yes"] or count <= UNCONFIRMED_MAX:
        return
    counted = terminal_text.count(count, what)
    if not is_interactive():
        raise CommandExit(ExitCode.FLAGS, f"{counted} {dry_run_text(verb)}\n--yes goes ahead, --dry-run lists them")
    if not click.confirm(f"{counted} {dry_run_text(verb)}. Go ahead?", err=True):
        raise CommandExit(ExitCode.OK, "nothing was done")


def dry_run_text(verb: str) -> str:
    """Describes what the command would do to the selected executions."""
    done = {"approve": "approved", "reject": "rejected", "requeue": "requeued", "discard": "discarded"}.get(verb, f"asked to {verb}")
    return f"would be {done}"


def is_interactive() -> bool:
    """Whether a person can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def one_by_one(things: Iterable[T], do: Callable[[T], None], total: int | None = None, explain: Callable[[PerdureError], str] = error_message) -> None:
    """Runs `do` on each item, with a progress counter on a terminal; ends with the exit code of the first failure, if there is one."""
    failure = ExitCode.OK
    with progress_counter(total, between=True) as count:
        for thing in things:
            try:
                do(thing)
            except PerdureError as error:
                click.echo(f"perdure: {explain(error)}", err=True)
                failure = failure or exit_codes.exit_code_of_error(type(error))
            count(1)
    if failure:
        raise CommandExit(failure)
