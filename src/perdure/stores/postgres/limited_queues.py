"""Queues with limits in Postgres: finds what is ready in them by lane, and their state. `fairness` decides what is handed over.

Limits apply to the queue of one tenant, or of all that have no limits of their own in it. Executions and tasks under limits are marked by `limited`, the
number of these limits. A claim that finds something in such a queue locks the row of the limits until it ends, in order of number, so that no other claim
counts what is held while it adds to it. A change of limits runs alone, so the marks do not change during a transaction. A line holds everything of one
queue, lane and priority that was begun, or was not. Each line is found by one index lookup after the line before it, however much waits in each.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import astuple

from perdure.stores.fairness import LANE_MEMORY_S, Candidate, QueueRecord, QueueState, choose_candidates, next_start_at, room_under_limits, starts_allowed
from perdure.stores.postgres.statements import SQL
from perdure.stores.postgres.store_rows import escape_nul, unescape_nul
from perdure.stores.protocol import UNLIMITED, QueueLimits, QueueStatus


class _Statements(NamedTuple):
    """The statements for executions, or for tasks."""

    is_work: bool
    held: str
    ready: str
    lock: str
    next: str


EXECUTIONS = _Statements(
    False,
    SQL.held_by_lane,
    SQL.ready_in_lines.format(queues="$4", tenants="$6"),
    SQL.lock_executions,
    SQL.next_in_lines.format(queues="$4", tenants="$5"),
)
WORK = _Statements(
    True,
    SQL.leased_by_lane,
    SQL.ready_work_in_lines.format(queues="$2", tenants="$4"),
    SQL.lock_tasks,
    SQL.next_work_in_lines.format(queues="$2", tenants="$3"),
)

Fetch = Callable[..., Awaitable[list[Any]]]


class ClaimArguments(NamedTuple):
    """The arguments of a claim in the form of SQL arguments (arrays of names are escaped), and its time."""

    now_s: float
    programs: list[str]
    roots: list[bytes] | None
    holder: str
    queues: list[str]
    limit: int
    tenants: list[str] | None


class PostgresCandidate(NamedTuple):
    """Something claimed: its number, since when it waits, its tenant, and the number of the limits that apply to it, if any.

    The claimer may hold it already (`own`).
    """

    number: int
    at_s: float
    tenant: str
    queue: int | None = None
    lane: str = ""
    fresh: bool = False
    own: bool = False


class LockedQueue(QueueRecord):
    """A queue with limits whose row is locked."""

    __slots__ = ("name",)

    def __init__(self, name: str, limits: QueueLimits, turn: float, *free_at_s: float) -> None:
        super().__init__(limits, turn, *free_at_s)
        self.name = name


async def lock_queues(fetch: Fetch, asked: ClaimArguments) -> dict[int, LockedQueue]:
    """Locks the queues that have something for the claim until it ends, so that no other claim takes from them. Returns them by number."""
    rows = map(tuple, await fetch(SQL.lock_queues, asked.now_s, asked.programs, asked.roots, asked.queues, asked.tenants))
    return {row[0]: LockedQueue(row[1], QueueLimits(*row[2:6]), *row[6:]) for row in rows}


async def choose_executions(fetch: Fetch, queues: dict[int, LockedQueue], asked: ClaimArguments) -> list[PostgresCandidate]:
    """Chooses and locks the executions that the claim gets: what its holder holds already, and as much as each queue allows."""
    own = [PostgresCandidate(number, at_s, tenant, own=True) for number, at_s, tenant in await fetch(SQL.own_in_queues, *asked[:4], asked.tenants, asked.limit)]
    return own + await _choose_and_lock(fetch, EXECUTIONS, queues, asked) if asked.programs else own


async def choose_work(fetch: Fetch, queues: dict[int, LockedQueue], asked: ClaimArguments) -> list[PostgresCandidate]:
    """Chooses and locks the tasks that the claim gets: as much as each queue allows."""
    return await _choose_and_lock(fetch, WORK, {number: queue for number, queue in queues.items() if escape_nul(queue.name) in asked.queues}, asked)


async def record_served(
    fetch: Fetch, queues: dict[int, LockedQueue], executions: Iterable[PostgresCandidate], work: Iterable[PostgresCandidate], now_s: float
) -> None:
    """Records in the queues what is handed over, in order."""
    for is_work, things in enumerate((executions, work)):
        for one in things:
            if one.queue is not None:
                queues[one.queue].serve(one.lane, is_work, one.fresh, now_s)
    for number, queue in queues.items():
        for is_work, lanes in enumerate(queue.lanes):
            if lanes:
                await fetch(SQL.serve_lanes, number, bool(is_work), [*map(escape_nul, lanes)], [*lanes.values()])
                await fetch(SQL.forget_lane_turns, number, bool(is_work), now_s - LANE_MEMORY_S, 2 * len(lanes))
        if any(queue.lanes):
            await fetch(SQL.set_queue_turn, number, queue.turn, *queue.free_at_s)


async def next_times(fetch: Fetch, asked: ClaimArguments) -> list[float | None]:
    """Returns when the claimer could get more from queues with limits, as far as that depends on time."""
    times_s: list[float | None] = []
    numbers = {row[0]: escape_nul(row[1]) for row in await fetch(SQL.queues_of_tenants, asked.tenants)}
    with_work = [number for number, name in numbers.items() if name in asked.queues]
    found = [*await fetch(WORK.next, asked.now_s, with_work, asked.tenants)] if with_work else []
    if asked.programs:
        times_s += [row[0] for row in await fetch(SQL.next_own_in_queues, *asked[1:4])]
        found += await fetch(EXECUTIONS.next, *asked[:3], [*numbers], asked.tenants)
    for *fields, free_at_s, at_s, waits in map(tuple, found):
        limits = QueueLimits(*fields)
        times_s.append(at_s)
        if waits and starts_allowed(limits, free_at_s, asked.now_s) < 1:
            times_s.append(next_start_at(limits, free_at_s))
    return times_s


async def set_limits(fetch: Fetch, name: str, limits: QueueLimits | None, tenant: str | None) -> None:
    """See `Store.limit`. No other transaction may be running."""
    if limits is None:
        await fetch(SQL.remove_lanes, name, tenant or "")
        await fetch(SQL.remove_limits, name, tenant or "")
    else:
        await fetch(SQL.set_limits, name, tenant or "", *astuple(limits)[:-1], escape_nul(limits.declared))
    await fetch(SQL.mark_executions, name)
    await fetch(SQL.mark_tasks, name)


async def queue_statuses(fetch: Fetch, now_s: float) -> list[QueueStatus]:
    """See `Store.queues`."""
    limits: dict[str, list[tuple[str, int, QueueLimits]]] = {}
    for number, name, tenant, *four, declared in map(tuple, await fetch(SQL.all_limits)):
        limits.setdefault(name, []).append((tenant, number, msgspec.structs.replace(QueueLimits(*four), declared=unescape_nul(declared))))
    executions, work = [
        {(name, number): counts for name, number, *counts in map(tuple, await fetch(sql, now_s))} for sql in (SQL.executions_in_queues, SQL.tasks_in_queues)
    ]
    names = sorted({*limits, *(name for name, _ in (*executions, *work))})

    def status(name: str, number: int, its: QueueLimits, tenant: str) -> QueueStatus:
        (held, waiting), (leased, work_waiting) = executions.get((name, number), (0, 0)), work.get((name, number), (0, 0))
        return QueueStatus(name, its, held, leased, waiting, work_waiting, tenant or None)

    def statuses(name: str) -> Iterator[QueueStatus]:
        known = sorted(limits.get(name, []), key=lambda one: one[0])
        if not known or known[0][0]:
            yield status(name, 0, UNLIMITED, "")
        for tenant, number, its in known:
            yield status(name, number, its, tenant)

    return [one for name in names for one in statuses(name)]


async def _choose_and_lock(fetch: Fetch, ask: _Statements, queues: dict[int, LockedQueue], asked: ClaimArguments) -> list[PostgresCandidate]:
    """Chooses what the queues allow, and locks it."""
    held = {number: Counter[str]() for number in queues}
    for number, lane, count in map(tuple, await fetch(ask.held, asked.now_s, [*queues]) if queues else ()):
        held[number][lane] = count
    rooms = {number: room_under_limits(queue.limits, held[number], asked.limit) for number, queue in queues.items()}
    within = [number for number, room in rooms.items() if room > 0]
    if not within:
        return []
    most = max(rooms.values())
    wanted = (within, most, asked.tenants) if ask.is_work else (asked.programs, asked.roots, within, most, asked.tenants)
    ready = await fetch(ask.ready, asked.now_s, *wanted)
    candidates: dict[int, list[Candidate]] = {number: [] for number in within}
    turns: dict[int, dict[str, float]] = {number: {} for number in within}
    tenants = dict[int, str]()
    for number, *candidate, tenant in map(tuple, ready):
        candidates[number].append(Candidate(*candidate))
        tenants[candidate[0]] = tenant
    lanes = {one.lane for of in candidates.values() for one in of}
    for number, lane, turn in map(tuple, await fetch(SQL.lane_turns, ask.is_work, within, [*map(escape_nul, lanes)])):
        turns[number][lane] = turn
    states = {number: QueueState(queues[number].limits, held[number], turns[number], queues[number].free_at_s[ask.is_work]) for number in within}
    chosen = await _lock_chosen(fetch, ask.lock, states, candidates, asked)
    return [one._replace(tenant=tenants[one.number]) for one in chosen]


async def _lock_chosen(
    fetch: Fetch, lock: str, states: dict[int, QueueState], ready: dict[int, list[Candidate]], asked: ClaimArguments
) -> list[PostgresCandidate]:
    """Chooses candidates and locks them. A candidate that another transaction has locked is skipped for the next one."""
    while True:
        chosen = {queue: choose_candidates(state, ready[queue], asked.now_s, asked.limit) for queue, state in states.items()}
        numbers = [one.number for of in chosen.values() for one in of]
        busy = {*numbers} - {row[0] for row in (await fetch(lock, asked.now_s, numbers) if numbers else ())}
        if not busy:
            return [PostgresCandidate(one.number, one.at_s, "", queue, one.lane, one.fresh) for queue, of in chosen.items() for one in of]
        ready = {queue: [one for one in of if one.number not in busy] for queue, of in ready.items()}
