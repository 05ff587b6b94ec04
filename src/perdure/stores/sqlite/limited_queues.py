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
from perdure.stores.sqlite.store_rows import roots_text

LIMIT = """INSERT INTO queues (name, concurrency, per_lane, interval_s, burst, declared, turn, free_at_s, free_for_work_at_s)
    VALUES (?, ?, ?, ?, ?, ?, 0, 0, 0)
    ON CONFLICT (name) DO UPDATE
    SET concurrency = excluded.concurrency, per_lane = excluded.per_lane, interval_s = excluded.interval_s, burst = excluded.burst,
    declared = excluded.declared"""
FORGET = "DELETE FROM queues WHERE name = ?"
FORGET_LANES = "DELETE FROM lanes WHERE queue = ?"
MARK = "UPDATE heads SET limited = ? WHERE queue = ? AND queue <> ''"
QUEUES = "SELECT name, concurrency, per_lane, interval_s, burst, declared, turn, free_at_s, free_for_work_at_s FROM queues ORDER BY name"
SERVE = """INSERT INTO lanes (queue, lane, work, turn) VALUES (?, ?, ?, ?)
    ON CONFLICT (queue, lane, work) DO UPDATE SET turn = excluded.turn"""
FORGET_SERVED = """DELETE FROM lanes WHERE rowid IN
    (SELECT rowid FROM lanes INDEXED BY lanes_by_turn WHERE queue = ? AND turn < ? ORDER BY turn LIMIT ?)"""
TURN = "UPDATE queues SET turn = ?, free_at_s = ?, free_for_work_at_s = ? WHERE name = ?"

_IN_QUEUE = "FROM heads INDEXED BY heads_by_queue WHERE queue <> '' AND limited = 1 AND queue = ?1"
HELD_BY_LANE = f"SELECT lane, holder, count(*) {_IN_QUEUE} AND holder > '' GROUP BY lane, holder"
LEASED_BY_LANE = "SELECT lane, holder, count(*) FROM mail WHERE queue = ? AND holder > '' GROUP BY lane, holder"

# The first few in each line that are due and free. Each line is a range of the index, and is found by a lookup behind the line before it.
_LINES = """WITH RECURSIVE lines(head) AS (SELECT (SELECT number {line} ORDER BY lane, begun, priority LIMIT 1)
    UNION ALL SELECT coalesce((SELECT number {line} AND lane = at.lane AND begun = at.begun AND priority > at.priority ORDER BY priority LIMIT 1),
        (SELECT number {line} AND lane = at.lane AND begun > at.begun ORDER BY begun, priority LIMIT 1),
        (SELECT number {line} AND lane > at.lane ORDER BY lane, begun, priority LIMIT 1))
    FROM lines CROSS JOIN {table} AS at ON at.number = head)
    SELECT ready.number, ready.lane, ready.priority, ready.{time}, NOT ready.begun, {turn}, ready.tenant
    FROM lines CROSS JOIN {table} AS at ON at.number = head CROSS JOIN {table} AS ready ON ready.number IN (SELECT number {line}
    AND lane = at.lane AND begun = at.begun AND priority = at.priority AND {time} <= ?2 AND {{wanted}} ORDER BY {time}, number LIMIT ?3)"""
_TURN = "(SELECT turn FROM lanes WHERE lanes.queue = ?1 AND lanes.lane = {lane} AND work = {work})"
_LINE = "FROM heads INDEXED BY heads_in_line WHERE limited = 1 AND holder IS NULL AND ready_at_s IS NOT NULL AND queue = ?1"
READY = _LINES.format(table="heads", time="ready_at_s", line=_LINE, turn=_TURN.format(lane="ready.lane", work=0))
_WORK_LINE = "FROM mail INDEXED BY mail_in_line WHERE queue IS NOT NULL AND holder IS NULL AND queue = ?1"
READY_WORK = _LINES.format(table="mail", time="due_at_s", line=_WORK_LINE, turn=_TURN.format(lane="ready.lane", work=1))
OWN = f"SELECT number, ready_at_s, tenant {_IN_QUEUE} AND holder = ? AND ready_at_s <= ? AND {{wanted}}"

NEXT_OWN = f"SELECT min(ready_at_s) {_IN_QUEUE} AND holder = ? AND {{wanted}}"
NEXT = "SELECT min(ready_at_s) FROM heads WHERE limited = 1 AND holder IS NULL AND ready_at_s IS NOT NULL AND queue = ? AND ready_at_s > ? AND {wanted}"
WAITS = """SELECT EXISTS (SELECT 1 FROM heads WHERE limited = 1 AND holder IS NULL AND ready_at_s IS NOT NULL AND queue = ? AND ready_at_s <= ?
    AND version = 0 AND {wanted})"""
NEXT_WORK = "SELECT min(due_at_s) FROM mail WHERE queue = ? AND holder IS NULL AND due_at_s > ? AND {wanted}"
WORK_WAITS = "SELECT EXISTS (SELECT 1 FROM mail WHERE queue = ? AND holder IS NULL AND due_at_s <= ? AND deliveries = 0 AND {wanted})"

NAMES = "SELECT DISTINCT queue FROM heads INDEXED BY heads_by_queue WHERE queue <> '' UNION SELECT DISTINCT queue FROM mail WHERE queue IS NOT NULL"
ALL_HELD = "SELECT holder, count(*) FROM heads INDEXED BY heads_by_queue WHERE queue = ? AND queue <> '' AND holder > '' GROUP BY holder"
ALL_WAITING = "SELECT count(*) FROM heads INDEXED BY heads_by_queue WHERE queue = ? AND queue <> '' AND holder IS NULL AND ready_at_s <= ?"
ALL_WORK = "SELECT holder, count(*) FROM mail WHERE queue = ? GROUP BY holder"


class LimitedQueue(NamedTuple):
    """A queue with limits, as its row in the table."""

    name: str
    limits: QueueLimits
    turn: float
    free_at_s: float
    free_for_work_at_s: float


class SqliteCandidate(NamedTuple):
    """What a claim gets: its number, since when it waits, its tenant, and its queue if that has limits. What the claimer holds already has no `queue`."""

    number: int
    at_s: float
    tenant: str
    queue: LimitedQueue | None = None
    lane: str = ""
    fresh: bool = False
    own: bool = False


def limited_queues(execute: Execute) -> list[LimitedQueue]:
    """Returns the queues with limits."""
    return [LimitedQueue(row[0], QueueLimits(*row[1:6]), *row[6:]) for row in execute(QUEUES).fetchall()]


def set_limits(execute: Execute, name: str, limits: QueueLimits | None) -> None:
    """See `Store.limit`."""
    if limits is None:
        execute(FORGET, (name,))
        execute(FORGET_LANES, (name,))
    else:
        execute(LIMIT, (name, *astuple(limits)))
    execute(MARK, (int(limits is not None), name))


def choose_executions(execute: Execute, queue: LimitedQueue, claim: Claim, living: frozenset[str], now_s: float) -> list[SqliteCandidate]:
    """Chooses the executions of a queue that the claimer gets."""
    wanted, arguments = claim_condition(claim)
    own = execute(OWN.format(wanted=wanted), (queue.name, claim.holder, now_s, *arguments)).fetchall()
    found = [SqliteCandidate(number, at_s, tenant, own=True) for number, at_s, tenant in own]
    held = _count(execute(HELD_BY_LANE, (queue.name,)).fetchall(), living)
    if (room := room_under_limits(queue.limits, held, claim.limit)) <= 0:
        return found
    ready: list[tuple[Any, ...]] = execute(_numbered(READY, wanted), (queue.name, now_s, room, *arguments)).fetchall()
    return found + _choose(queue, QueueState(queue.limits, held, _turns(ready), queue.free_at_s), ready, now_s, claim.limit)


def choose_work(execute: Execute, queue: LimitedQueue, claim: Claim, living: frozenset[str], now_s: float) -> list[SqliteCandidate]:
    """Chooses the tasks of a queue that the claimer gets."""
    held = _count(execute(LEASED_BY_LANE, (queue.name,)).fetchall(), living)
    if (room := room_under_limits(queue.limits, held, claim.limit)) <= 0:
        return []
    wanted, arguments = _of_tenants(claim)
    ready: list[tuple[Any, ...]] = execute(_numbered(READY_WORK, wanted), (queue.name, now_s, room, *arguments)).fetchall()
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
        execute(TURN, (serving.turn, *serving.free_at_s, name))
        for is_work, lanes in enumerate(serving.lanes):
            for lane, turn in lanes.items():
                execute(SERVE, (name, lane, is_work, turn))
        execute(FORGET_SERVED, (name, now_s - LANE_MEMORY_S, 2 * sum(map(len, serving.lanes))))


def next_times(execute: Execute, queue: LimitedQueue, claim: Claim, now_s: float) -> Iterator[float | None]:
    """Yields when the claimer could get more of a queue, as far as that depends on time."""
    if claim.programs:
        wanted, arguments = claim_condition(claim)
        yield execute(NEXT_OWN.format(wanted=wanted), (queue.name, claim.holder, *arguments)).fetchone()[0]
        yield execute(NEXT.format(wanted=wanted), (queue.name, now_s, *arguments)).fetchone()[0]
        if starts_allowed(queue.limits, queue.free_at_s, now_s) < 1 and execute(WAITS.format(wanted=wanted), (queue.name, now_s, *arguments)).fetchone()[0]:
            yield next_start_at(queue.limits, queue.free_at_s)
    if queue.name in claim.queues:
        wanted, arguments = _of_tenants(claim)
        given = (queue.name, now_s, *arguments)
        yield execute(NEXT_WORK.format(wanted=wanted), given).fetchone()[0]
        if starts_allowed(queue.limits, queue.free_for_work_at_s, now_s) < 1 and execute(WORK_WAITS.format(wanted=wanted), given).fetchone()[0]:
            yield next_start_at(queue.limits, queue.free_for_work_at_s)


def queue_statuses(execute: Execute, living: frozenset[str], now_s: float) -> list[QueueStatus]:
    """See `Store.queues`."""
    known = {queue.name: queue.limits for queue in limited_queues(execute)}
    names = sorted({*known, *(name for (name,) in execute(NAMES).fetchall())})
    return [_queue_status(execute, name, known.get(name, UNLIMITED), living, now_s) for name in names]


def _queue_status(execute: Execute, name: str, limits: QueueLimits, living: frozenset[str], now_s: float) -> QueueStatus:
    held, leased = execute(ALL_HELD, (name,)).fetchall(), execute(ALL_WORK, (name,)).fetchall()
    ((waiting,),) = execute(ALL_WAITING, (name, now_s)).fetchall()
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
