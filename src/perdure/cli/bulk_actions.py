"""Many at once: executions that are meant by a filter in place of ids, asked about beforehand, and told in batches; those of ids one after the other.

What goes wrong with one does not keep the others from it; the first failure gives the exit code.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import click

from perdure.cli import exit_codes, terminal_text
from perdure.cli.execution_lookup import ids_of
from perdure.cli.exit_codes import CommandExit, ExitCode
from perdure.cli.shared_options import GlobalOptions
from perdure.cli.terminal import progress_counter
from perdure.cli.terminal_text import error_message, execution_name
from perdure.core.attribute_filter import parse_filter
from perdure.core.errors import PerdureError
from perdure.core.paths import Key
from perdure.service import bulk_requests
from perdure.service.dead_letter_groups import DeadLetterGroup
from perdure.sync_client import BulkResult, Client, Handle, Selection

T = TypeVar("T")

UNCONFIRMED_MAX = 10
"""More than these are not dealt with before somebody has said yes."""


class BulkAction(NamedTuple):
    """What executions are to do: the `verb` that a person types, what is done to the execution of an id, and to a batch of all that are meant (None: they are
    dealt with one after the other as well); and what is `said` of each in a batch."""

    verb: str
    do: Callable[[Client, Handle[Any]], None]
    do_all: Callable[[Selection], BulkResult] | None
    said: str


def run_on_executions(settings: GlobalOptions, given: Mapping[str, Any], action: BulkAction) -> None:
    """Have executions do something: those of the ids, or with --all those of a filter, which without --status means those on which it has an effect.

    Whoever has started others is older than they are, and hears of it first; what is to be done again is done by those first that were started.
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
    def doing(thing: T) -> None:
        handle = get(thing)
        if given["dry_run"]:
            click.echo(f"{execution_name(handle.key)} {dry_run_text(action.verb)}")
        else:
            action.do(client, handle)

    return doing


def in_batches(client: Client, keys: Sequence[Key], do_all: Callable[[Selection], BulkResult], action: BulkAction) -> None:
    """Do something to all, a batch in one commit after the other; end with the code of the first failure, if there is one.

    Who interrupts it is told how far it came, and so is whoever loses the store.
    """
    failure, ended, told = ExitCode.OK, 0, 0
    try:
        with progress_counter(len(keys), between=True) as count:
            for first in range(0, len(keys), bulk_requests.BULK_BATCH):
                batch = keys[first : first + bulk_requests.BULK_BATCH]
                result = do_all(client.select(keys=batch))
                told += len(result.accepted)
                ended += len(result.ended)
                _print_result(result, action.said)
                failure = failure or next((exit_codes.exit_code_of_error(type(error)) for error in result.failed.values()), ExitCode.OK)
                count(len(batch))
    except (KeyboardInterrupt, PerdureError):
        so_far = f"{told:,} of {terminal_text.count(len(keys), 'execution')} {'was' if told == 1 else 'were'} told to {action.verb}"
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
    """End the command unless it says in one way which are meant."""
    filters = [f"--{option.replace('_', '-')}" for option in ("workflow", "status", "prefix", "since", "where", "fingerprint") if given.get(option)]
    chosen = given["everything"] or given.get("fingerprint")
    if given["ids"] and (chosen or filters):
        raise click.UsageError(f"give ids, or {filters[0] if filters else '--all'}, not both")
    if given.get("fingerprint") and given.get("where"):
        raise click.UsageError("give --fingerprint or --where, not both")
    if filters and not chosen:
        raise click.UsageError(f"{filters[0]} chooses among all: add --all")
    if not given["ids"] and not chosen:
        raise click.UsageError("Missing argument 'ID...', or --all.")


def filtered_keys(client: Client, settings: GlobalOptions, given: Mapping[str, Any], statuses: Sequence[str]) -> list[Key] | None:
    """The executions that the filter means, the newest first; None without a filter."""
    if given.get("fingerprint"):
        (group,) = client.dead_letters.groups(
            fingerprint=given["fingerprint"], workflow=given["workflow"], id_prefix=given["prefix"], since=given["since"], tenant=settings.tenant
        )
        warn_if_cut([group])
        return [letter.key for letter in group.dead_letters if not given["status"] or letter.status in _split(given["status"])]
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
    """Say so, on standard error, if there are more dead letters than were looked at."""
    if groups and not groups[0].complete:
        looked_at = "those" if limit is None else f"the newest {limit:,}"
        then = "repeat the command for the rest" if limit is None else "the counts are at least these; --limit looks at more"
        click.echo(f"perdure: there are more dead letters than {looked_at} that were looked at; {then}", err=True)


def _split(statuses: str | None) -> list[str]:
    return [one.strip() for one in statuses.split(",")] if statuses else []


def confirm(count: int, verb: str, given: Mapping[str, Any], what: str = "execution") -> None:
    """Go on if these are few, or somebody says yes; else end the command."""
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
    """What would happen to those that are meant."""
    done = {"approve": "approved", "reject": "rejected", "requeue": "requeued", "discard": "discarded"}.get(verb, f"told to {verb}")
    return f"would be {done}"


def is_interactive() -> bool:
    """Whether there is somebody to be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def one_by_one(things: Iterable[T], do: Callable[[T], None], total: int | None = None, explain: Callable[[PerdureError], str] = error_message) -> None:
    """Do something to each, and count on a terminal how far that is; end with the code of the first failure, if there is one."""
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
