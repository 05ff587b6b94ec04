"""Many at once: executions that are meant by a filter in place of ids, asked about beforehand, and dealt with one after the other.

What goes wrong with one does not keep the others from it; the first failure gives the exit code.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import click

from perdure.cli import exits, words
from perdure.cli.asking import texts
from perdure.cli.complaints import complaint, name
from perdure.cli.exits import Exit, Outcome
from perdure.cli.progress import counting
from perdure.cli.settings import Settings
from perdure.client import Client, Handle, Listed
from perdure.core.errors import PerdureError
from perdure.core.paths import Key
from perdure.core.where import parsed
from perdure.service.dead_letters import DeadLetters

T = TypeVar("T")

UNASKED_MAX = 10
"""More than these are not dealt with before somebody has said yes."""

PAGE = 500


def tell(settings: Settings, given: Mapping[str, Any], verb: str, statuses: Sequence[str], do: Callable[[Client, Handle[Any]], None]) -> None:
    """Do something to each execution that is meant: by its id, or with --all by a filter, which without --status means those that `statuses` has.

    Whoever has started others is older than they are, and hears of it first; what is to be done again is done by those first that were started.
    """
    check(given)
    with settings.client() as client:
        found = wanted(client, settings, given, statuses)
        if found is None:
            one_by_one(texts(given["ids"]), _doing(lambda text: client.get(client.find(text, tenant=settings.tenant)), client, given, verb, do))
        else:
            keys = found if verb in ("retry", "requeue") else found[::-1]
            confirm(len(keys), verb, given)
            one_by_one(keys, _doing(client.get, client, given, verb, do), len(keys))


def _doing(
    get: Callable[[T], Handle[Any]], client: Client, given: Mapping[str, Any], verb: str, do: Callable[[Client, Handle[Any]], None]
) -> Callable[[T], None]:
    def doing(thing: T) -> None:
        handle = get(thing)
        if given["dry_run"]:
            click.echo(f"{name(handle.key)} {would(verb)}")
        else:
            do(client, handle)

    return doing


def check(given: Mapping[str, Any]) -> None:
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


def wanted(client: Client, settings: Settings, given: Mapping[str, Any], statuses: Sequence[str]) -> list[Key] | None:
    """The executions that the filter means, the newest first; None without a filter."""
    if given.get("fingerprint"):
        (group,) = client.dead_letters.groups(
            fingerprint=given["fingerprint"], workflow=given["workflow"], id_prefix=given["prefix"], since=given["since"], tenant=settings.tenant
        )
        say_if_cut([group])
        return [letter.key for letter in group.letters if not given["status"] or letter.status in _split(given["status"])]
    if not given["everything"]:
        return None
    found: list[Listed] = []
    while not found or len(found) % PAGE == 0:
        page = client.list(
            workflow=given["workflow"],
            status=_split(given["status"]) or statuses,
            id_prefix=given["prefix"],
            since=given["since"],
            where=parsed(given["where"]),
            limit=PAGE,
            older_than=found[-1].key if found else None,
            tenant=settings.tenant,
        )
        found += page
        if not page:
            break
    return [one.key for one in found]


def say_if_cut(groups: Sequence[DeadLetters], limit: int | None = None) -> None:
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
    if given["dry_run"] or given["yes"] or count <= UNASKED_MAX:
        return
    counted = words.count(count, what)
    if not asks():
        raise Outcome(Exit.FLAGS, f"{counted} {would(verb)}\n--yes goes ahead, --dry-run lists them")
    if not click.confirm(f"{counted} {would(verb)}. Go ahead?", err=True):
        raise Outcome(Exit.OK, "nothing was done")


def would(verb: str) -> str:
    """What would happen to those that are meant."""
    done = {"approve": "approved", "reject": "rejected", "requeue": "requeued", "discard": "discarded"}.get(verb, f"told to {verb}")
    return f"would be {done}"


def asks() -> bool:
    """Whether there is somebody to be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def one_by_one(things: Iterable[T], do: Callable[[T], None], total: int | None = None, explain: Callable[[PerdureError], str] = complaint) -> None:
    """Do something to each, and count on a terminal how far that is; end with the code of the first failure, if there is one."""
    failure = Exit.OK
    with counting(total, between=True) as count:
        for thing in things:
            try:
                do(thing)
            except PerdureError as error:
                click.echo(f"perdure: {explain(error)}", err=True)
                failure = failure or exits.of_error(type(error))
            count()
    if failure:
        raise Outcome(failure)
