"""A claim: finds what is ready, on any connection, and assigns it to the claimer, which writes. The statements are in `claims.sql`.

What is free and due is read in order of time, a page of each program or queue. Only if more is ready than the claim may take are the tenants looked at one
after another, so that each gets its turn (see `perdure.stores.fairness`); at most `TENANTS_MAX` of them in one claim, and the next claim continues with the
tenants behind.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from math import ceil, inf
from typing import Any, NamedTuple

from perdure.core.envelopes import QueuedMessage
from perdure.stores.fairness import LANE_MEMORY_S, next_lane_turn, take_turns
from perdure.stores.protocol import ORPHANS_FREED_MIN, Claim, ClaimedExecution
from perdure.stores.sqlite import limited_queues
from perdure.stores.sqlite.database_file import Execute
from perdure.stores.sqlite.limited_queues import SqliteCandidate
from perdure.stores.sqlite.statements import SQL
from perdure.stores.sqlite.store_rows import head_of, json_text, message_of, roots_text

TENANTS_MAX = 128
"""How many tenants a claim looks at in each program or queue."""


class _Statements(NamedTuple):
    """The statements for what is free: executions, or tasks."""

    is_work: int
    lines: str
    of_tenants: str
    tenants: str
    next: str
    next_of_tenants: str


EXECUTIONS = _Statements(
    0, SQL.free_executions, SQL.free_executions_of_tenants, SQL.tenants_with_executions, SQL.next_free_execution, SQL.next_free_execution_of_tenants
)
WORK = _Statements(1, SQL.free_work, SQL.free_work_of_tenants, SQL.tenants_with_work, SQL.next_free_work, SQL.next_free_work_of_tenants)


class ReadyNumbers(NamedTuple):
    """The result of a claim: executions and tasks, longest waiting first; and the tenants whose turn it was, in order, if there was a choice."""

    executions: list[SqliteCandidate]
    work: list[SqliteCandidate]
    turns: tuple[list[str], list[str]]

    def __bool__(self) -> bool:
        return bool(self.executions or self.work)


class TenantCursors(dict[tuple[int, str], str]):
    """Behind which tenant the next claim looks, in each line that has more tenants than one claim looks at. Losing it costs nothing but a longer wait."""


def with_full_names(execute: Execute, claim: Claim) -> Claim:
    """Returns the claim with the full names of programs. See `Claim.of`."""
    return claim.of(name for (name,) in execute(SQL.known_programs))


def free_orphans(execute: Execute, dead: Iterable[str], limit: int, now_s: float) -> bool:
    """Frees some of what dead holders hold: enough for a claim of `limit`, and no more, however much they hold. Returns whether it has freed anything."""
    room = room_for_work = max(limit, ORPHANS_FREED_MIN)
    for holder in dead:
        executions = [number for (number,) in execute(SQL.orphaned_executions, (holder, room))] if room else []
        work = [number for (number,) in execute(SQL.orphaned_work, (holder, room_for_work))] if room_for_work else []
        if executions:
            execute(SQL.free_orphaned_executions, (now_s, json_text(executions)))
        if work:
            execute(SQL.free_orphaned_work, (json_text(work),))
        room, room_for_work = room - len(executions), room_for_work - len(work)
        if not room and not room_for_work:
            break
    return min(room, room_for_work) < max(limit, ORPHANS_FREED_MIN)


def find_ready(execute: Execute, claim: Claim, living: frozenset[str], now_s: float, cursors: TenantCursors) -> ReadyNumbers:
    """Finds the executions and tasks that the claimer gets."""
    names = sorted(claim.programs)
    limited = limited_queues.queues_of_claim(execute, claim)
    free_queues = limited_queues.queues_with_free_work(limited, claim)
    executions, work = list[SqliteCandidate](), list[SqliteCandidate]()
    if names:
        wanted, arguments = limited_queues.claim_condition(claim)
        own = execute(SQL.own_executions.format(wanted=wanted), (claim.holder, now_s, *arguments, claim.limit + 1))
        executions += [SqliteCandidate(number, at_s, tenant, own=True) for number, at_s, tenant in own]
        if claim.roots is None:
            executions += _first(execute, EXECUTIONS, claim, names, claim.limit + 1, now_s)
        else:
            for ready in (SQL.ready_roots, SQL.ready_below_roots):
                executions += _candidates(execute(ready.format(wanted=wanted), (roots_text(claim.roots), *arguments, now_s, claim.limit + 1)))
    if free_queues:
        work += _first(execute, WORK, claim, free_queues, claim.limit + 1, now_s)
    for queue in limited:
        if names:
            executions += limited_queues.choose_executions(execute, queue, claim, living, now_s)
        if queue.name in claim.queues:
            work += limited_queues.choose_work(execute, queue, claim, living, now_s)
    if len(executions) > claim.limit and claim.roots is None:
        executions += _of_each_tenant(execute, EXECUTIONS, claim, names, now_s, cursors)
    if len(work) > claim.limit:
        work += _of_each_tenant(execute, WORK, claim, free_queues, now_s, cursors)
    chosen, turns = _in_turns(execute, 0, executions, claim)
    tasks, work_turns = _in_turns(execute, 1, work, claim)
    return ReadyNumbers(chosen, tasks, (turns, work_turns))


def record_turns(execute: Execute, turns: Sequence[Sequence[str]], now_s: float) -> None:
    """Records the turns of tenants, and forgets some that are long past."""
    count = sum(map(len, turns))
    if not count:
        return
    turn = execute(SQL.last_tenant_turn).fetchone()[0] or 0.0
    for is_work, tenants in enumerate(turns):
        for tenant in tenants:
            turn = next_lane_turn(turn, now_s)
            execute(SQL.take_tenant_turn, (tenant, is_work, turn))
    execute(SQL.forget_tenant_turns, (now_s - LANE_MEMORY_S, 2 * count))


def next_ready_at(execute: Execute, claim: Claim, now_s: float) -> float | None:
    """Returns when the next execution or task that the claimer could get becomes ready."""
    times_s: list[float | None] = []
    if claim.programs:
        wanted, arguments = limited_queues.claim_condition(claim)
        times_s += execute(SQL.next_own_execution.format(wanted=wanted), (claim.holder, *arguments)).fetchone()
        if claim.roots is None:
            times_s.append(_next(execute, EXECUTIONS, claim, sorted(claim.programs)))
        else:
            for first in (SQL.next_root, SQL.next_below_roots):
                times_s += execute(first.format(wanted=wanted), (roots_text(claim.roots), *arguments)).fetchone()
    limited = limited_queues.queues_of_claim(execute, claim)
    for queue in limited:
        times_s += limited_queues.next_times(execute, queue, claim, now_s)
    if free := limited_queues.queues_with_free_work(limited, claim):
        times_s.append(_next(execute, WORK, claim, free))
    return min((at_s for at_s in times_s if at_s is not None), default=None)


def assign_executions(execute: Execute, chosen: Sequence[SqliteCandidate], holder: str, now_s: float) -> tuple[ClaimedExecution, ...]:
    """Assigns executions to a holder, and returns each with its due messages."""
    if not chosen:
        return ()
    numbers = [one.number for one in chosen]
    heads = {number: (row[0], head_of(row)) for number, *row in execute(SQL.assign_executions, (holder, now_s, json_text(numbers))).fetchall()}
    due: dict[str, list[QueuedMessage]] = {address: [] for address, _ in heads.values()}
    for row in execute(SQL.due_messages, (json_text([*due]), now_s)).fetchall():
        due[row[1]].append(message_of(row))
    return tuple(ClaimedExecution(of, tuple(due[address])) for address, of in map(heads.__getitem__, numbers))


def lease_work(execute: Execute, chosen: Sequence[SqliteCandidate], holder: str) -> tuple[QueuedMessage, ...]:
    """Leases tasks to a holder."""
    if not chosen:
        return ()
    numbers = [one.number for one in chosen]
    leased = {row[0]: message_of(row) for row in execute(SQL.lease_work, (holder, json_text(numbers))).fetchall()}
    return tuple(map(leased.__getitem__, numbers))


def _candidates(rows: Iterable[tuple[Any, ...]]) -> list[SqliteCandidate]:
    return [SqliteCandidate(number, -inf if at_s is None else at_s, tenant) for number, at_s, tenant in rows]


def _first(execute: Execute, ask: _Statements, claim: Claim, names: list[str], count: int, now_s: float) -> list[SqliteCandidate]:
    """Returns the first `count` that are free and due under each name, only of the tenants of the claim if it has any."""
    if claim.tenants is None:
        return _candidates(execute(_with_placeholders(ask.lines, 0, len(names)), (*names, now_s, count)))
    return _of_tenants(execute, ask, sorted(claim.tenants), names, count, now_s)


def _of_tenants(execute: Execute, ask: _Statements, tenants: list[str], names: list[str], count: int, now_s: float) -> list[SqliteCandidate]:
    if not tenants:
        return []
    return _candidates(execute(_with_placeholders(ask.of_tenants, len(tenants), len(names)), (*tenants, *names, now_s, count)))


def _of_each_tenant(execute: Execute, ask: _Statements, claim: Claim, names: list[str], now_s: float, cursors: TenantCursors) -> list[SqliteCandidate]:
    """Returns what the tenants in turn have, in each line: about as much as a claim may take, however many tenants there are and however much they have."""
    found = list[SqliteCandidate]()
    for name in names:
        tenants = sorted(claim.tenants) if claim.tenants is not None else _next_tenants(execute, ask, name, cursors)
        count = ceil(claim.limit / max(len(tenants), 1))
        while len(tenants) > 1:
            of_line = _of_tenants(execute, ask, tenants, [name], count, now_s)
            if len(of_line) > claim.limit or count > claim.limit or not _any_has(of_line, count):
                found += of_line
                break
            count *= 2
    return found


def _any_has(found: Iterable[SqliteCandidate], count: int) -> bool:
    """Whether any tenant may have more than the `count` that were read."""
    have: dict[str, int] = {}
    for one in found:
        have[one.tenant] = have.get(one.tenant, 0) + 1
    return any(many >= count for many in have.values())


def _next_tenants(execute: Execute, ask: _Statements, name: str, cursors: TenantCursors) -> list[str]:
    """Returns the tenants of a line that it is time to look at: all, or the next ones behind those that the last claim has looked at."""
    behind = cursors.pop((ask.is_work, name), None)
    tenants = [tenant for (tenant,) in execute(ask.tenants.format(behind=">=" if behind is None else ">"), (name, behind or "", TENANTS_MAX))]
    if behind is not None and len(tenants) < TENANTS_MAX:
        first = execute(ask.tenants.format(behind=">="), (name, "", TENANTS_MAX - len(tenants)))
        tenants += [tenant for (tenant,) in first if tenant <= behind]
    if len(tenants) == TENANTS_MAX:
        cursors[ask.is_work, name] = tenants[-1]
    return tenants


def _in_turns(execute: Execute, is_work: int, found: list[SqliteCandidate], claim: Claim) -> tuple[list[SqliteCandidate], list[str]]:
    """Returns the candidates to hand over, and the tenants whose turn it was if there was a choice between tenants."""
    candidates = {one.number: one for one in found}
    tenants = {one.tenant for one in candidates.values()}
    longest_waiting = sorted(candidates.values(), key=_waiting_time)
    if len(candidates) <= claim.limit or len(tenants) == 1 or claim.roots is not None:
        return longest_waiting[: claim.limit], []
    own = [one for one in longest_waiting if one.own][: claim.limit]
    served: Mapping[str, float] = dict(execute(SQL.tenant_turns.format(tenants=", ".join("?" * len(tenants))), (is_work, *tenants)).fetchall())
    others = ((one.at_s, one.number, one.tenant) for one in longest_waiting if not one.own)
    chosen = take_turns(others, served, claim.limit - len(own))
    turns = dict.fromkeys(tenant for _, _, tenant in reversed(chosen))
    return sorted([*own, *(candidates[number] for _, number, _ in chosen)], key=_waiting_time), [*reversed(turns)]


def _waiting_time(one: SqliteCandidate) -> tuple[float, int]:
    return one.at_s, one.number


def _next(execute: Execute, ask: _Statements, claim: Claim, names: list[str]) -> float | None:
    if claim.tenants is None:
        row = execute(_with_placeholders(ask.next, 0, len(names)), names).fetchone()
    elif claim.tenants:
        row = execute(_with_placeholders(ask.next_of_tenants, len(claim.tenants), len(names)), (*sorted(claim.tenants), *names)).fetchone()
    else:
        return None
    at_s: float | None = row[0]
    return at_s


@cache
def _with_placeholders(sql: str, tenants: int, names: int) -> str:
    """Returns the statement with placeholders for so many tenants and names. (They can't be passed as JSON: SQLite ends its strings at a NUL.)"""
    return sql.format(tenants=_values(tenants), names=_values(names))


def _values(count: int) -> str:
    return f"VALUES {', '.join(['(?)'] * count)}"
