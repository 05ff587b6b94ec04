"""The queries of a claim: they find what is ready, on any connection, and assign it to the claimer, which writes."""

from collections.abc import Sequence
from functools import cache
from math import inf
from typing import Any, NamedTuple

from perdure.core.envelopes import QueuedMessage
from perdure.stores.protocol import Claim, ClaimedExecution
from perdure.stores.sqlite import limited_queues
from perdure.stores.sqlite.database_file import Execute
from perdure.stores.sqlite.holders import HolderLiveness
from perdure.stores.sqlite.limited_queues import SqliteCandidate
from perdure.stores.sqlite.store_rows import HEAD_COLUMNS, MESSAGE_COLUMNS, address_text, head_of, json_text, message_of, roots_text

# The first few that are due in each line, i.e. of each holder and name; for dead holders, due or not.
_LINES = """SELECT number, {at} FROM ({{holders}}) AS who CROSS JOIN ({{names}}) AS name CROSS JOIN {table} AS waiting WHERE waiting.number IN (
    SELECT number FROM {table} WHERE holder IS who.column1 AND {name} = name.column1 AND {due} ORDER BY {at}, number LIMIT ?)"""
AWAKE = _LINES.format(table="heads", name="limited = 0 AND program", at="ready_at_s", due="ready_at_s <= ?")
DEAD_HELD = _LINES.format(table="heads", name="limited = 0 AND program", at="ready_at_s", due="? IS NOT NULL")
DUE_WORK = _LINES.format(table="mail", name="queue", at="due_at_s", due="due_at_s <= ?")
DEAD_HELD_WORK = _LINES.format(table="mail", name="queue", at="due_at_s", due="? IS NOT NULL")

# The same, only for the queues of some tenants.
_OF = "AND address IN (SELECT value FROM json_each(?))"
DUE_WORK_OF = _LINES.format(table="mail", name="queue", at="due_at_s", due=f"due_at_s <= ? {_OF}")
ORPHANED_WORK_OF = _LINES.format(table="mail", name="queue", at="due_at_s", due=f"? IS NOT NULL {_OF}")

# The same, only for executions of some roots, which are the first argument.
AWAKE_IN_FAMILIES = """SELECT number, ready_at_s FROM json_each(?) AS family CROSS JOIN heads AS waiting WHERE waiting.number IN (
    SELECT number FROM heads WHERE root = family.value AND ifnull(holder IN ({holders}), 1) AND program IN ({names}) AND limited = 0
    AND ready_at_s <= ? ORDER BY ready_at_s, number LIMIT ?)"""
ORPHANED_IN_FAMILIES = """SELECT number, ready_at_s FROM heads WHERE +root IN (SELECT value FROM json_each(?)) AND holder IN ({holders})
    AND program IN ({names}) AND limited = 0 AND ? IS NOT NULL ORDER BY ready_at_s, number LIMIT ?"""

# When the first of each line becomes due.
_NEXT = """SELECT min((SELECT min({at}) FROM {table} WHERE holder IS who.column1 AND {name} = name.column1))
    FROM ({{holders}}) AS who CROSS JOIN ({{names}}) AS name"""
NEXT = _NEXT.format(table="heads", name="limited = 0 AND program", at="ready_at_s")
NEXT_WORK = _NEXT.format(table="mail", name="queue", at="due_at_s")
NEXT_IN_FAMILIES = """WITH family AS (SELECT value FROM json_each(?)) SELECT min((SELECT min(ready_at_s) FROM heads
    WHERE root = family.value AND ifnull(holder IN ({holders}), 1) AND program IN ({names}) AND limited = 0)) FROM family"""

_CHOSEN = "number IN (SELECT value FROM json_each(?))"
ASSIGN = f"""UPDATE heads SET holder = ?, wake_at_s = NULL,
    mail_at_s = (SELECT min(due_at_s) FROM mail WHERE mail.address = heads.address AND due_at_s > ?) WHERE {_CHOSEN} RETURNING number, {HEAD_COLUMNS}"""
DUE_MAIL = f"SELECT {MESSAGE_COLUMNS} FROM mail WHERE address IN (SELECT value FROM json_each(?)) AND due_at_s <= ? ORDER BY number"
LEASE = f"UPDATE mail SET holder = ?, deliveries = deliveries + 1 WHERE {_CHOSEN} RETURNING {MESSAGE_COLUMNS}"


class ReadyNumbers(NamedTuple):
    """What the claimer gets: the numbers of executions and tasks, and the candidates among them that are in queues with limits."""

    executions: list[int]
    work: list[int]
    limited: list[SqliteCandidate]
    limited_work: list[SqliteCandidate]

    def __bool__(self) -> bool:
        return bool(self.executions or self.work)


def with_full_names(execute: Execute, claim: Claim) -> Claim:
    """Returns the claim with the full names of programs. See `Claim.of`."""
    return claim.of(name for (name,) in execute("SELECT name FROM programs"))


def find_ready(execute: Execute, claim: Claim, liveness: HolderLiveness, now_s: float) -> ReadyNumbers:
    """Finds the executions and tasks that the claimer gets."""
    names, limit, dead = sorted(claim.programs), claim.limit, liveness.dead
    families: tuple[Any, ...] = () if claim.roots is None else (roots_text(claim.roots),)
    awake, orphaned = (AWAKE, DEAD_HELD) if claim.roots is None else (AWAKE_IN_FAMILIES, ORPHANED_IN_FAMILIES)
    holders: list[str | None] = [None, claim.holder] if claim.roots is None else [claim.holder]
    lines = [(sql, who, (*families, *who, *names, now_s, limit)) for sql, who in ((awake, holders), (orphaned, dead))]
    limited = limited_queues.limited_queues(execute)
    free = sorted(claim.queues - {queue.name for queue in limited})
    nobody: list[str | None] = [None]
    addresses = claim.addresses
    due, orphans = (DUE_WORK, DEAD_HELD_WORK) if addresses is None else (DUE_WORK_OF, ORPHANED_WORK_OF)
    of: tuple[str, ...] = () if addresses is None else (json_text([address_text(address) for address in addresses]),)
    work_lines = [(sql, who, (*who, *free, now_s, *of, limit)) for sql, who in ((due, nobody), (orphans, dead))]
    executions, work = _longest_waiting(execute, lines, names, limit), _longest_waiting(execute, work_lines, free, limit)
    for queue in limited:
        if names:
            executions += limited_queues.choose_executions(execute, queue, claim, liveness.living, dead, now_s)
        if queue.name in claim.queues:
            work += limited_queues.choose_work(execute, queue, claim, liveness.living, dead, now_s)
    if limited:
        executions, work = (sorted(found, key=lambda one: (one.at_s, one.number))[:limit] for found in (executions, work))
    return ReadyNumbers([one.number for one in executions], [one.number for one in work], executions, work)


def next_ready_at(execute: Execute, claim: Claim, now_s: float) -> float | None:
    """Returns when the next execution or task that the claimer could get becomes ready."""
    times_s: list[float | None] = []
    if claim.programs and claim.roots is None:
        times_s += execute(_with_placeholders(NEXT, 2, len(claim.programs)), (None, claim.holder, *claim.programs)).fetchone()
    elif claim.programs and claim.roots is not None:
        times_s += execute(_with_placeholders(NEXT_IN_FAMILIES, 1, len(claim.programs)), (roots_text(claim.roots), claim.holder, *claim.programs)).fetchone()
    limited = limited_queues.limited_queues(execute)
    for queue in limited:
        times_s += limited_queues.next_times(execute, queue, claim, now_s)
    if free := claim.queues - {queue.name for queue in limited}:
        times_s += execute(_with_placeholders(NEXT_WORK, 1, len(free)), (None, *free)).fetchone()
    return min((at_s for at_s in times_s if at_s is not None), default=None)


def assign_executions(execute: Execute, numbers: list[int], holder: str, now_s: float) -> tuple[ClaimedExecution, ...]:
    """Assigns executions to a holder, and returns each with its due messages."""
    if not numbers:
        return ()
    heads = {number: (row[0], head_of(row)) for number, *row in execute(ASSIGN, (holder, now_s, json_text(numbers))).fetchall()}
    due: dict[str, list[QueuedMessage]] = {address: [] for address, _ in heads.values()}
    for row in execute(DUE_MAIL, (json_text([*due]), now_s)).fetchall():
        due[row[1]].append(message_of(row))
    return tuple(ClaimedExecution(of, tuple(due[address])) for address, of in map(heads.__getitem__, numbers))


def lease_work(execute: Execute, numbers: list[int], holder: str) -> tuple[QueuedMessage, ...]:
    """Leases tasks to a holder."""
    if not numbers:
        return ()
    leased = {row[0]: message_of(row) for row in execute(LEASE, (holder, json_text(numbers))).fetchall()}
    return tuple(map(leased.__getitem__, numbers))


def _longest_waiting(
    execute: Execute, lines: Sequence[tuple[str, Sequence[str | None], tuple[Any, ...]]], names: list[str], limit: int
) -> list[SqliteCandidate]:
    """Returns the candidates that have waited longest in all of `lines`: statements with their holders and arguments."""
    found = []
    for sql, holders, arguments in lines:
        if holders and names:
            found += execute(_with_placeholders(sql, len(holders), len(names)), arguments).fetchall()
    places = sorted((-inf if at_s is None else at_s, number) for number, at_s in found)
    return [SqliteCandidate(number, at_s) for at_s, number in places[:limit]]


@cache
def _with_placeholders(sql: str, holders: int, names: int) -> str:
    """Returns the statement with placeholders for so many holders and names. (They can't be passed as JSON: SQLite ends its strings at a NUL.)"""
    return sql.format(holders=_values(holders), names=_values(names))


def _values(count: int) -> str:
    return f"VALUES {', '.join(['(?)'] * count)}"
