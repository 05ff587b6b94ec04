"""Queues with limits: finds what is ready in them by lane, and their state. `fairness` decides what is handed over.

Limits apply to the queue of one tenant, or of all that have no limits of their own in it. Executions and tasks under limits are marked by `limited`, the
number of these limits, which puts them into indexes of their own and out of those where other claims would have to skip them. A line holds everything of
one lane and priority that was begun, or was not. Each line is found by one index lookup after the line before it, however much waits in each.
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
    """A queue with limits, as its row in the table. `tenant` is the one that the limits are for; empty: all that have none of their own."""

    number: int
    name: str
    tenant: str
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
    return [LimitedQueue(row[0], row[1], row[2], QueueLimits(*row[3:8]), *row[8:]) for row in execute(SQL.limited_queues).fetchall()]


def set_limits(execute: Execute, name: str, limits: QueueLimits | None, tenant: str | None) -> None:
    """See `Store.limit`."""
    if limits is None:
        execute(SQL.remove_lanes, (name, tenant or ""))
        execute(SQL.remove_limits, (name, tenant or ""))
    else:
        execute(SQL.set_limits, (name, tenant or "", *astuple(limits)))
    execute(SQL.mark_executions, (name,))
    execute(SQL.mark_tasks, (name,))


def limits_that_apply(execute: Execute, queue: str, tenant: str) -> int:
    """Returns the number of the limits that apply to a tenant in a queue, or 0."""
    found = execute(SQL.limits_that_apply, (queue, tenant)).fetchone()
    return 0 if found is None else int(found[0])


def queues_of_claim(execute: Execute, claim: Claim) -> list[LimitedQueue]:
    """Returns the queues with limits of which a claim may get something, as far as its tenants say."""
    return [queue for queue in limited_queues(execute) if claim.tenants is None or not queue.tenant or queue.tenant in claim.tenants]


def queues_with_free_work(limited: Iterable[LimitedQueue], claim: Claim) -> list[str]:
    """Returns the queues of a claim in which tasks may be that no limits apply to, in order."""
    return sorted(claim.queues - {queue.name for queue in limited if not queue.tenant})


def choose_executions(execute: Execute, queue: LimitedQueue, claim: Claim, living: frozenset[str], now_s: float) -> list[SqliteCandidate]:
    """Chooses the executions of a queue that the claimer gets."""
    wanted, arguments = claim_condition(claim)
    own = execute(SQL.own_in_queue.format(wanted=wanted), (queue.number, claim.holder, now_s, *arguments)).fetchall()
    found = [SqliteCandidate(number, at_s, tenant, own=True) for number, at_s, tenant in own]
    held = _count(execute(SQL.held_by_lane, (queue.number,)).fetchall(), living)
    if (room := room_under_limits(queue.limits, held, claim.limit)) <= 0:
        return found
    ready: list[tuple[Any, ...]] = execute(_numbered(SQL.ready_in_lines, wanted), (queue.number, now_s, room, *arguments)).fetchall()
    return found + _choose(queue, QueueState(queue.limits, held, _turns(ready), queue.free_at_s), ready, now_s, claim.limit)


def choose_work(execute: Execute, queue: LimitedQueue, claim: Claim, living: frozenset[str], now_s: float) -> list[SqliteCandidate]:
    """Chooses the tasks of a queue that the claimer gets."""
    held = _count(execute(SQL.leased_by_lane, (queue.number,)).fetchall(), living)
    if (room := room_under_limits(queue.limits, held, claim.limit)) <= 0:
        return []
    wanted, arguments = _of_tenants(claim)
    ready: list[tuple[Any, ...]] = execute(_numbered(SQL.ready_work_in_lines, wanted), (queue.number, now_s, room, *arguments)).fetchall()
    return _choose(queue, QueueState(queue.limits, held, _turns(ready), queue.free_for_work_at_s), ready, now_s, claim.limit)


def record_served(execute: Execute, executions: Iterable[SqliteCandidate], work: Iterable[SqliteCandidate], now_s: float) -> None:
    """Records in the queues what is handed over, in order."""
    servings = {queue.number: QueueRecord(queue.limits, queue.turn, queue.free_at_s, queue.free_for_work_at_s) for queue in limited_queues(execute)}
    for is_work, things in enumerate((executions, work)):
        for one in things:
            if one.queue is not None:
                servings[one.queue.number].serve(one.lane, is_work, one.fresh, now_s)
    for number, serving in servings.items():
        if not any(serving.lanes):
            continue
        execute(SQL.set_queue_turn, (serving.turn, *serving.free_at_s, number))
        for is_work, lanes in enumerate(serving.lanes):
            for lane, turn in lanes.items():
                execute(SQL.serve_lane, (number, lane, is_work, turn))
        execute(SQL.forget_lane_turns, (number, now_s - LANE_MEMORY_S, 2 * sum(map(len, serving.lanes))))


def next_times(execute: Execute, queue: LimitedQueue, claim: Claim, now_s: float) -> Iterator[float | None]:
    """Yields when the claimer could get more of a queue, as far as that depends on time."""
    if claim.programs:
        wanted, arguments = claim_condition(claim)
        yield execute(SQL.next_own_in_queue.format(wanted=wanted), (queue.number, claim.holder, *arguments)).fetchone()[0]
        yield execute(SQL.next_in_queue.format(wanted=wanted), (queue.number, now_s, *arguments)).fetchone()[0]
        if (
            starts_allowed(queue.limits, queue.free_at_s, now_s) < 1
            and execute(SQL.new_execution_waits.format(wanted=wanted), (queue.number, now_s, *arguments)).fetchone()[0]
        ):
            yield next_start_at(queue.limits, queue.free_at_s)
    if queue.name in claim.queues:
        wanted, arguments = _of_tenants(claim)
        given = (queue.number, now_s, *arguments)
        yield execute(SQL.next_work_in_queue.format(wanted=wanted), given).fetchone()[0]
        if starts_allowed(queue.limits, queue.free_for_work_at_s, now_s) < 1 and execute(SQL.new_work_waits.format(wanted=wanted), given).fetchone()[0]:
            yield next_start_at(queue.limits, queue.free_for_work_at_s)


def queue_statuses(execute: Execute, living: frozenset[str], now_s: float) -> list[QueueStatus]:
    """See `Store.queues`."""
    known: dict[str, list[LimitedQueue]] = {}
    for queue in limited_queues(execute):
        known.setdefault(queue.name, []).append(queue)
    names = sorted({*known, *(name for (name,) in execute(SQL.queue_names).fetchall())})
    return [status for name in names for status in _queue_statuses(execute, name, known.get(name, []), living, now_s)]


def _queue_statuses(execute: Execute, name: str, limited: list[LimitedQueue], living: frozenset[str], now_s: float) -> Iterator[QueueStatus]:
    mine, waiting, my_work, work_waiting = Counter[int](), Counter[int](), Counter[int](), Counter[int]()
    for number, holder, count in execute(SQL.held_in_queue, (name,)).fetchall():
        (mine if holder in living else waiting)[number] += count
    for number, count in execute(SQL.waiting_in_queue, (name, now_s)).fetchall():
        waiting[number] += count
    for number, holder, count in execute(SQL.work_in_queue, (name,)).fetchall():
        (my_work if holder in living else work_waiting)[number] += count
    if not limited or limited[0].tenant:
        ((oldest_at_s,),) = execute(SQL.oldest_free_task, (name, now_s)).fetchall()
        yield QueueStatus(name, UNLIMITED, mine[0], my_work[0], waiting[0], work_waiting[0], None, oldest_at_s)
    for queue in limited:
        at = queue.number
        ((oldest_at_s,),) = execute(SQL.oldest_limited_task, (at, now_s)).fetchall()
        yield QueueStatus(name, queue.limits, mine[at], my_work[at], waiting[at], work_waiting[at], queue.tenant or None, oldest_at_s)


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
