"""Claims: what is ready, and handing it over. Whether there is anything can be asked on any connection; handing over changes the tables."""

from collections.abc import Sequence
from functools import cache
from math import inf
from typing import Any

from perdure.core.mail import Mail
from perdure.stores.base import Assignment, Claim
from perdure.stores.sqlite.file import Execute
from perdure.stores.sqlite.reading import HEAD_COLUMNS, MAIL_COLUMNS, head, json, mail, text

# Of each line (of one holder and one name) the first few that are due; or, if the holders are dead, due or not.
_LINES = """SELECT number, {at} FROM ({{holders}}) AS who CROSS JOIN ({{names}}) AS name CROSS JOIN {table} AS waiting WHERE waiting.number IN (
    SELECT number FROM {table} WHERE holder IS who.column1 AND {name} = name.column1 AND {due} ORDER BY {at}, number LIMIT ?)"""
AWAKE = _LINES.format(table="heads", name="program", at="ready_at_s", due="ready_at_s <= ?")
ORPHANED = _LINES.format(table="heads", name="program", at="ready_at_s", due="? IS NOT NULL")
DUE_WORK = _LINES.format(table="mail", name="queue", at="due_at_s", due="due_at_s <= ?")
ORPHANED_WORK = _LINES.format(table="mail", name="queue", at="due_at_s", due="? IS NOT NULL")

# The same for one family, which is named first.
AWAKE_IN_FAMILY = """SELECT number, ready_at_s FROM heads WHERE root = ? AND ifnull(holder IN ({holders}), 1) AND program IN ({names})
    AND ready_at_s <= ? ORDER BY ready_at_s, number LIMIT ?"""
ORPHANED_IN_FAMILY = """SELECT number, ready_at_s FROM heads WHERE +root = ? AND holder IN ({holders}) AND program IN ({names})
    AND ? IS NOT NULL ORDER BY ready_at_s, number LIMIT ?"""

# When the first of each line is due.
_NEXT = """SELECT min((SELECT min({at}) FROM {table} WHERE holder IS who.column1 AND {name} = name.column1))
    FROM ({{holders}}) AS who CROSS JOIN ({{names}}) AS name"""
NEXT = _NEXT.format(table="heads", name="program", at="ready_at_s")
NEXT_WORK = _NEXT.format(table="mail", name="queue", at="due_at_s")
NEXT_IN_FAMILY = "SELECT min(ready_at_s) FROM heads WHERE root = ? AND ifnull(holder IN ({holders}), 1) AND program IN ({names})"

_CHOSEN = "number IN (SELECT value FROM json_each(?))"
ASSIGN = f"""UPDATE heads SET holder = ?, wake_at_s = NULL,
    mail_at_s = (SELECT min(due_at_s) FROM mail WHERE mail.address = heads.address AND due_at_s > ?) WHERE {_CHOSEN} RETURNING number, {HEAD_COLUMNS}"""
DUE_MAIL = f"SELECT {MAIL_COLUMNS} FROM mail WHERE address IN (SELECT value FROM json_each(?)) AND due_at_s <= ? ORDER BY number"
LEASE = f"UPDATE mail SET holder = ?, deliveries = deliveries + 1 WHERE {_CHOSEN} RETURNING {MAIL_COLUMNS}"


def ready(execute: Execute, claim: Claim, dead: list[str], now_s: float) -> tuple[list[int], list[int]]:
    """The numbers of the executions and of the work that the claimer is to be handed."""
    names, limit = sorted(claim.programs), claim.limit
    family: tuple[Any, ...] = () if claim.root is None else (text(claim.root),)
    awake, orphaned = (AWAKE, ORPHANED) if claim.root is None else (AWAKE_IN_FAMILY, ORPHANED_IN_FAMILY)
    holders: list[str | None] = [None, claim.holder] if claim.root is None else [claim.holder]
    executions = [(sql, who, (*family, *who, *names, now_s, limit)) for sql, who in ((awake, holders), (orphaned, dead))]
    queues = sorted(claim.queues)
    nobody: list[str | None] = [None]
    work = [(sql, who, (*who, *queues, now_s, limit)) for sql, who in ((DUE_WORK, nobody), (ORPHANED_WORK, dead))]
    return _first(execute, executions, names, limit), _first(execute, work, queues, limit)


def next_at(execute: Execute, claim: Claim) -> float | None:
    """When the first of what the claimer could have is due."""
    times_s = []
    if claim.programs and claim.root is None:
        times_s += execute(_for(NEXT, 2, len(claim.programs)), (None, claim.holder, *claim.programs)).fetchone()
    elif claim.programs and claim.root is not None:
        times_s += execute(_for(NEXT_IN_FAMILY, 1, len(claim.programs)), (text(claim.root), claim.holder, *claim.programs)).fetchone()
    if claim.queues:
        times_s += execute(_for(NEXT_WORK, 1, len(claim.queues)), (None, *claim.queues)).fetchone()
    return min((at_s for at_s in times_s if at_s is not None), default=None)


def assign(execute: Execute, numbers: list[int], holder: str, now_s: float) -> tuple[Assignment, ...]:
    """Hand over executions, each with its due mail."""
    if not numbers:
        return ()
    heads = {number: (row[0], head(row)) for number, *row in execute(ASSIGN, (holder, now_s, json(numbers))).fetchall()}
    letters: dict[str, list[Mail]] = {address: [] for address, _ in heads.values()}
    for row in execute(DUE_MAIL, (json([*letters]), now_s)).fetchall():
        letters[row[1]].append(mail(row))
    return tuple(Assignment(of, tuple(letters[address])) for address, of in map(heads.__getitem__, numbers))


def lease(execute: Execute, numbers: list[int], holder: str) -> tuple[Mail, ...]:
    """Hand over work."""
    if not numbers:
        return ()
    leased = {row[0]: mail(row) for row in execute(LEASE, (holder, json(numbers))).fetchall()}
    return tuple(map(leased.__getitem__, numbers))


def _first(execute: Execute, lines: Sequence[tuple[str, Sequence[str | None], tuple[Any, ...]]], names: list[str], limit: int) -> list[int]:
    """The numbers of those that have waited longest in all of `lines`: statements, their holders and arguments."""
    found = []
    for sql, holders, arguments in lines:
        if holders and names:
            found += execute(_for(sql, len(holders), len(names)), arguments).fetchall()
    found.sort(key=lambda place: (-inf if place[1] is None else place[1], place[0]))
    return [number for number, _ in found[:limit]]


@cache
def _for(sql: str, holders: int, names: int) -> str:
    """The statement with room for so many holders and names. (They can't be passed as JSON: SQLite ends its strings at a NUL.)"""
    return sql.format(holders=_values(holders), names=_values(names))


def _values(count: int) -> str:
    return f"VALUES {', '.join(['(?)'] * count)}"
