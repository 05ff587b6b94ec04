"""Queues with limits: finds what is ready in them by lane, and their state. `fairness` decides what is handed over.

Executions in such a queue are marked as `limited`, which puts them into the indexes of queues and out of those where other claims would have to skip
them. A line holds everything of one lane and priority that was begun, or was not. Each line is found by one index lookup after the line before it,
however much waits in each.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from msgspec.structs import astuple

from perdure.stores.fairness import LANE_MEMORY_S, Candidate, QueueRecord, QueueState, choose_candidates, next_start_at, room_under_limits, starts_allowed
from perdure.stores.protocol import UNLIMITED, Claim, QueueLimits, QueueStatus
from perdure.stores.sqlite.database_file import Execute
from perdure.stores.sqlite.statements import SQL
from perdure.stores.sqlite.store_rows import roots_text

# The first few in each line that are due and free. Each line is a range of the index, and is found by a lookup behind the line before it.


class LimitedQueue(NamedTuple):
    """A queue with limits, as its row in the table."""

    name: str
    limits: QueueLimits
    turn: float
    free_at_s: float
    free_for_work_at_s: float


class SqliteCandidate(NamedTuple):
    """Something claimed: its number, since when it waits, its tenant, and its queue if that has limits. What the claimer holds already has no `queue`."""

    number: int
    at_s: float
    tenant: str
    queue: LimitedQueue | None = None
    lane: str = ""
    fresh: bool = False
    own: bool = False


def limited_queues(execute: Execute) -> list[LimitedQueue]:
    """Returns the queues with limits."""
    return [LimitedQueue(row[0], QueueLimits(*row[1:6]), *row[6:]) for row in execute(SQL.limited_queues).fetchall()]


def set_limits(execute: Execute, name: str, limits: QueueLimits | None) -> None:
    """See `Store.limit`."""
    if limits is None:
        execute(SQL.remove_limits, (name,))
        execute(SQL.remove_lanes, (name,))
    else:
        execute(SQL.set_limits, (name, *astuple(limits)))
    execute(SQL.mark_limited, (int(limits is not None), name))


def choose_executions(execute: Execute, queue: LimitedQueue, claim: Claim, living: frozenset[str], now_s: float) -> list[SqliteCandidate]:
    """Chooses the executions of a queue that the claimer gets."""
    wanted, arguments = claim_condition(claim)
    own = execute(SQL.own_in_queue.format(wanted=wanted), (queue.name, claim.holder, now_s, *arguments)).fetchall()
    found = [SqliteCandidate(number, at_s, tenant, own=True) for number, at_s, tenant in own]
    held = _count(execute(SQL.held_by_lane, (queue.name,)).fetchall(), living)
    if (room := room_under_limits(queue.limits, held, claim.limit)) <= 0:
        return found
    ready: list[tuple[Any, ...]] = execute(_numbered(SQL.ready_in_lines, wanted), (queue.name, now_s, room, *arguments)).fetchall()
    return found + _choose(queue, QueueState(queue.limits, held, _turns(ready), queue.free_at_s), ready, now_s, claim.limit)


def choose_work(execute: Execute, queue: LimitedQueue, claim: Claim, living: frozenset[str], now_s: float) -> list[SqliteCandidate]:
    """Chooses the tasks of a queue that the claimer gets."""
    held = _count(execute(SQL.leased_by_lane, (queue.name,)).fetchall(), living)
    if (room := room_under_limits(queue.limits, held, claim.limit)) <= 0:
        return []
    wanted, arguments = _of_tenants(claim)
    ready: list[tuple[Any, ...]] = execute(_numbered(SQL.ready_work_in_lines, wanted), (queue.name, now_s, room, *arguments)).fetchall()
    return _choose(queue, QueueState(queue.limits, held, _turns(ready), queue.free_for_work_at_s), ready, now_s, claim.limit)


def record_served(execute: Execute, executions: Iterable[SqliteCandidate], work: Iterable[SqliteCandidate], now_s: float) -> None:
    """Records in the queues what is handed over, in order."""
    servings = {queue.name: QueueRecord(queue.limits, queue.turn, queue.free_at_s, queue.free_for_work_at_s) for queue in limited_queues(execute)}
    for is_work, things in enumerate((executions, work)):
        for one in things:
            if one.queue is not None:
                servings[one.queue.name].serve(one.lane, is_work, one.fresh, now_s)
    for name, serving in servings.items():
        if not any(serving.lanes):
            continue
        execute(SQL.set_queue_turn, (serving.turn, *serving.free_at_s, name))
        for is_work, lanes in enumerate(serving.lanes):
            for lane, turn in lanes.items():
                execute(SQL.serve_lane, (name, lane, is_work, turn))
        execute(SQL.forget_lane_turns, (name, now_s - LANE_MEMORY_S, 2 * sum(map(len, serving.lanes))))


def next_times(execute: Execute, queue: LimitedQueue, claim: Claim, now_s: float) -> Iterator[float | None]:
    """Yields when the claimer could get more of a queue, as far as that depends on time."""
    if claim.programs:
        wanted, arguments = claim_condition(claim)
        yield execute(SQL.next_own_in_queue.format(wanted=wanted), (queue.name, claim.holder, *arguments)).fetchone()[0]
        yield execute(SQL.next_in_queue.format(wanted=wanted), (queue.name, now_s, *arguments)).fetchone()[0]
        if (
            starts_allowed(queue.limits, queue.free_at_s, now_s) < 1
            and execute(SQL.new_execution_waits.format(wanted=wanted), (queue.name, now_s, *arguments)).fetchone()[0]
        ):
            yield next_start_at(queue.limits, queue.free_at_s)
    if queue.name in claim.queues:
        wanted, arguments = _of_tenants(claim)
        given = (queue.name, now_s, *arguments)
        yield execute(SQL.next_work_in_queue.format(wanted=wanted), given).fetchone()[0]
        if starts_allowed(queue.limits, queue.free_for_work_at_s, now_s) < 1 and execute(SQL.new_work_waits.format(wanted=wanted), given).fetchone()[0]:
            yield next_start_at(queue.limits, queue.free_for_work_at_s)


def queue_statuses(execute: Execute, living: frozenset[str], now_s: float) -> list[QueueStatus]:
    """See `Store.queues`."""
    known = {queue.name: queue.limits for queue in limited_queues(execute)}
    names = sorted({*known, *(name for (name,) in execute(SQL.queue_names).fetchall())})
    return [_queue_status(execute, name, known.get(name, UNLIMITED), living, now_s) for name in names]


def _queue_status(execute: Execute, name: str, limits: QueueLimits, living: frozenset[str], now_s: float) -> QueueStatus:
    held, leased = execute(SQL.held_in_queue, (name,)).fetchall(), execute(SQL.work_in_queue, (name,)).fetchall()
    ((waiting,),) = execute(SQL.waiting_in_queue, (name, now_s)).fetchall()
    mine, my_work = (sum(count for holder, count in rows if holder in living) for rows in (held, leased))
    waiting += sum(count for holder, count in held if holder not in living)
    return QueueStatus(name, limits, mine, my_work, waiting, sum(count for _, count in leased) - my_work)


def claim_condition(claim: Claim) -> tuple[str, tuple[str, ...]]:
    """Returns the condition that a claim puts on executions (programs, tenants and roots), as SQL and arguments."""
    tenants, arguments = _of_tenants(claim)
    condition = f"+program IN ({_marks(claim.programs)}) AND {tenants}"
    if claim.roots is None:
        return condition, (*claim.programs, *arguments)
    return f"{condition} AND coalesce(root, address) IN (SELECT value FROM json_each(?))", (*claim.programs, *arguments, roots_text(claim.roots))


def _of_tenants(claim: Claim) -> tuple[str, tuple[str, ...]]:
    """Returns the condition that a claim puts on tenants, as SQL and arguments."""
    return ("1", ()) if claim.tenants is None else (f"tenant IN ({_marks(claim.tenants)})", (*claim.tenants,))


def _numbered(sql: str, wanted: str) -> str:
    """Inserts a condition into a statement whose first three arguments are numbered. The arguments of the condition follow them."""
    parts = wanted.split("?")
    return sql.format(wanted="".join(f"{part}?{number}" for number, part in enumerate(parts[:-1], 4)) + parts[-1])


def _marks(names: Iterable[str]) -> str:
    return ", ".join("?" for _ in names)


def _count(rows: Iterable[tuple[str, str, int]], living: frozenset[str]) -> Counter[str]:
    held: Counter[str] = Counter()
    for lane, holder, count in rows:
        held[lane] += count if holder in living else 0
    return held


def _turns(ready: Iterable[tuple[Any, ...]]) -> dict[str, float]:
    return {lane: turn for _, lane, *_, turn, _ in ready if turn is not None}


def _choose(queue: LimitedQueue, state: QueueState, ready: list[tuple[Any, ...]], now_s: float, most: int) -> list[SqliteCandidate]:
    tenants = {number: tenant for number, *_, tenant in ready}
    candidates = (Candidate(number, lane, priority, at_s, bool(fresh)) for number, lane, priority, at_s, fresh, *_ in ready)
    return [SqliteCandidate(one.number, one.at_s, tenants[one.number], queue, one.lane, one.fresh) for one in choose_candidates(state, candidates, now_s, most)]
