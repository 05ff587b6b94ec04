"""Queues with limits in Postgres: finds what is ready in them by lane, and their state. `fairness` decides what is handed over.

A claim that finds something in such a queue locks the row of the queue until it ends, in order of name, so that no other claim counts what is held while
it adds to it. A change of limits runs alone, so the marks `limited` do not change during a transaction. A line holds everything of one queue, lane and
priority that was begun, or was not. Each line is found by one index lookup after the line before it, however much waits in each.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import astuple

from perdure.stores.fairness import LANE_MEMORY_S, Candidate, QueueRecord, QueueState, choose_candidates, next_start_at, room_under_limits, starts_allowed
from perdure.stores.postgres.store_rows import escape_nul, unescape_nul
from perdure.stores.protocol import UNLIMITED, QueueLimits, QueueStatus

WANTED = "program = ANY($2::text[]) AND ($3::bytea[] IS NULL OR root = ANY($3))"
TENANTS = "($5::text[] IS NULL OR tenant = ANY($5))"
ORPHANED = "(holder IS NOT NULL AND NOT EXISTS (SELECT 1 FROM holders WHERE name = holder AND until_s > $1))"

LIMIT = """INSERT INTO queues (name, concurrency, per_lane, interval_s, burst, declared) VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (name) DO UPDATE SET (concurrency, per_lane, interval_s, burst, declared) = ROW ($2, $3, $4, $5, $6)"""
FORGET, FORGET_LANES = "DELETE FROM queues WHERE name = $1", "DELETE FROM lanes WHERE queue = $1"
MARK, MARK_WORK = (
    f"UPDATE {table} SET limited = $2 WHERE queue = $1 AND {named} AND limited <> $2" for table, named in (("heads", "queue <> ''"), ("mail", "true"))
)
QUEUES = "SELECT name, concurrency, per_lane, interval_s, burst, declared FROM queues"
STANDS = """SELECT queue, count(until_s), count(*) FILTER (WHERE until_s IS NULL AND (holder IS NOT NULL OR ready_at_s <= $1))
    FROM heads LEFT JOIN holders ON name = holder AND until_s > $1 WHERE queue <> '' GROUP BY queue"""
WORK_STANDS = """SELECT queue, count(until_s), count(*) - count(until_s)
    FROM mail LEFT JOIN holders ON name = holder AND until_s > $1 WHERE queue IS NOT NULL GROUP BY queue"""

# One index holds what is free: each line is a range of it, in order of due time. These statements search in the order of that index.
_LINES = """WITH RECURSIVE lines(queue, lane, begun, priority) AS (SELECT first.* FROM unnest({queues}::text[]) AS name CROSS JOIN LATERAL (
        SELECT queue, lane, {begun}, priority FROM {table} WHERE {free} AND queue = name ORDER BY queue, lane, {begun}, priority LIMIT 1) AS first
    UNION ALL SELECT next.* FROM lines CROSS JOIN LATERAL (SELECT one.queue, one.lane, {begun}, one.priority FROM {table} AS one
        WHERE {free} AND one.queue = lines.queue AND (one.lane, {begun}, one.priority) > (lines.lane, lines.begun, lines.priority)
        ORDER BY one.queue, one.lane, {begun}, one.priority LIMIT 1) AS next)"""
_IN_LINE = """FROM {table} AS one WHERE {free} AND one.queue = lines.queue AND one.lane = lines.lane AND ({begun}) = lines.begun
    AND one.priority = lines.priority AND {wanted} AND {at}"""
_FIRST = f"""{_LINES} SELECT lines.queue, number, lines.lane, lines.priority, at_s, NOT begun, tenant FROM lines CROSS JOIN LATERAL (
        SELECT number, {{at}} AS at_s, tenant {_IN_LINE} <= $1 ORDER BY {{at}}, number LIMIT {{most}}) AS first"""
_HELD = """SELECT queue, lane, count(*) FROM {table} JOIN holders ON name = holder AND until_s > $1
    WHERE limited AND holder IS NOT NULL AND queue = ANY($2::text[]) GROUP BY queue, lane"""
_TAKE = "SELECT number FROM {table} WHERE number = ANY($2::bigint[]) AND limited AND holder IS NULL AND {at} <= $1 FOR UPDATE SKIP LOCKED"
_NEXT = f"""{_LINES}, times AS (SELECT lines.queue, (SELECT {{at}} {_IN_LINE} > $1 ORDER BY {{at}}, number LIMIT 1) AS at_s,
        NOT begun AND (SELECT number {_IN_LINE} <= $1 ORDER BY {{at}}, number LIMIT 1) IS NOT NULL AS waits FROM lines)
    SELECT concurrency, per_lane, interval_s, burst, {{free_at_s}}, min(at_s), bool_or(waits) FROM times JOIN queues ON name = queue GROUP BY name"""


class _Statements(NamedTuple):
    """The statements for executions, or for tasks."""

    is_work: bool
    held: str
    first: str
    take: str
    next: str


def _statements(is_work: bool, **words: str) -> _Statements:
    held, first, take = (sql.format(**words, work=is_work) for sql in (_HELD, _FIRST, _TAKE))
    return _Statements(is_work, held, first, take, _NEXT.format(**{**words, "wanted": TENANTS.replace("$5", "$3") if is_work else f"{WANTED} AND {TENANTS}"}))


_HEADS = {
    "table": "heads",
    "free": "limited AND holder IS NULL AND ready_at_s IS NOT NULL",
    "at": "ready_at_s",
    "begun": "version > 0",
    "free_at_s": "free_at_s",
}
_MAIL = {"table": "mail", "free": "limited AND holder IS NULL", "at": "due_at_s", "begun": "deliveries > 0", "free_at_s": "free_for_work_at_s"}
EXECUTION_STATEMENTS = _statements(False, wanted=f"{WANTED} AND {TENANTS.replace('$5', '$6')}", queues="$4", most="$5", **_HEADS)
WORK_STATEMENTS = _statements(True, wanted=TENANTS.replace("$5", "$4"), queues="$2", most="$3", **_MAIL)

LOCK = f"""SELECT name, concurrency, per_lane, interval_s, burst, turn, free_at_s, free_for_work_at_s FROM queues WHERE name = ANY($4::text[])
    OR $2::text[] <> '{{}}' AND ((SELECT number FROM heads WHERE {_HEADS["free"]} AND queue = name AND ready_at_s <= $1 AND {WANTED}
        ORDER BY queue, lane, (version > 0), priority LIMIT 1) IS NOT NULL)
    ORDER BY name FOR UPDATE"""
OWN = f"""SELECT number, ready_at_s, tenant FROM heads WHERE limited AND holder = $4 AND ready_at_s <= $1 AND {WANTED} AND {TENANTS}
    ORDER BY ready_at_s, number LIMIT $6 FOR UPDATE SKIP LOCKED"""
NEXT_OWN = "SELECT min(ready_at_s) FROM heads WHERE limited AND program = ANY($1::text[]) AND ($2::bytea[] IS NULL OR root = ANY($2)) AND holder = $3"
NAMES = "SELECT name FROM queues"
SERVED = "SELECT queue, lane, turn FROM lanes WHERE work = $1 AND queue = ANY($2::text[]) AND lane = ANY($3::text[])"
TURN = "UPDATE queues SET turn = $2, free_at_s = $3, free_for_work_at_s = $4 WHERE name = $1"
SERVE = """INSERT INTO lanes SELECT $1, $2, lane, turn FROM unnest($3::text[], $4::float8[]) AS served(lane, turn)
    ON CONFLICT (queue, work, lane) DO UPDATE SET turn = excluded.turn"""
FORGET_SERVED = """DELETE FROM lanes WHERE ctid = ANY(ARRAY(SELECT ctid FROM lanes WHERE queue = $1 AND work = $2 AND turn < $3
    ORDER BY turn LIMIT $4))"""

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
    """Something claimed: its number, since when it waits, its tenant, and its queue if the limits of that apply. The claimer may hold it already (`own`)."""

    number: int
    at_s: float
    tenant: str
    queue: str | None = None
    lane: str = ""
    fresh: bool = False
    own: bool = False


class LockedQueue(QueueRecord):
    """A queue with limits whose row is locked."""

    __slots__ = ("name",)

    def __init__(self, name: str, limits: QueueLimits, turn: float, *free_at_s: float) -> None:
        super().__init__(limits, turn, *free_at_s)
        self.name = name


async def lock_queues(fetch: Fetch, asked: ClaimArguments) -> dict[str, LockedQueue]:
    """Locks the queues that have something for the claim until it ends, so that no other claim takes from them."""
    rows = await fetch(LOCK, asked.now_s, asked.programs, asked.roots, asked.queues)
    return {name: LockedQueue(name, QueueLimits(*limits), *rest) for name, *limits, rest in ((*row[:5], row[5:]) for row in map(tuple, rows))}


async def choose_executions(fetch: Fetch, queues: dict[str, LockedQueue], asked: ClaimArguments) -> list[PostgresCandidate]:
    """Chooses and locks the executions that the claim gets: what its holder holds already, and as much as each queue allows."""
    own = [PostgresCandidate(number, at_s, tenant, own=True) for number, at_s, tenant in await fetch(OWN, *asked[:4], asked.tenants, asked.limit)]
    return own + await _choose_and_lock(fetch, EXECUTION_STATEMENTS, queues, asked) if asked.programs else own


async def choose_work(fetch: Fetch, queues: dict[str, LockedQueue], asked: ClaimArguments) -> list[PostgresCandidate]:
    """Chooses and locks the tasks that the claim gets: as much as each queue allows."""
    return await _choose_and_lock(fetch, WORK_STATEMENTS, {name: queue for name, queue in queues.items() if escape_nul(name) in asked.queues}, asked)


async def record_served(
    fetch: Fetch, queues: dict[str, LockedQueue], executions: Iterable[PostgresCandidate], work: Iterable[PostgresCandidate], now_s: float
) -> None:
    """Records in the queues what is handed over, in order."""
    for is_work, things in enumerate((executions, work)):
        for one in things:
            if one.queue is not None:
                queues[one.queue].serve(one.lane, is_work, one.fresh, now_s)
    for name, queue in queues.items():
        for is_work, lanes in enumerate(queue.lanes):
            if lanes:
                await fetch(SERVE, name, bool(is_work), [*map(escape_nul, lanes)], [*lanes.values()])
                await fetch(FORGET_SERVED, name, bool(is_work), now_s - LANE_MEMORY_S, 2 * len(lanes))
        if any(queue.lanes):
            await fetch(TURN, name, queue.turn, *queue.free_at_s)


async def next_times(fetch: Fetch, asked: ClaimArguments) -> list[float | None]:
    """Returns when the claimer could get more from queues with limits, as far as that depends on time."""
    times_s: list[float | None] = []
    found = [*await fetch(WORK_STATEMENTS.next, asked.now_s, asked.queues, asked.tenants)] if asked.queues else []
    if asked.programs:
        times_s += [row[0] for row in await fetch(NEXT_OWN, *asked[1:4])]
        names = [escape_nul(row[0]) for row in await fetch(NAMES)]
        found += await fetch(EXECUTION_STATEMENTS.next, *asked[:3], names, asked.tenants)
    for *fields, free_at_s, at_s, waits in map(tuple, found):
        limits = QueueLimits(*fields)
        times_s.append(at_s)
        if waits and starts_allowed(limits, free_at_s, asked.now_s) < 1:
            times_s.append(next_start_at(limits, free_at_s))
    return times_s


async def set_limits(fetch: Fetch, name: str, limits: QueueLimits | None) -> None:
    """See `Store.limit`. No other transaction may be running."""
    if limits is None:
        await fetch(FORGET, name)
        await fetch(FORGET_LANES, name)
    else:
        await fetch(LIMIT, name, *astuple(limits)[:-1], escape_nul(limits.declared))
    for sql in (MARK, MARK_WORK):
        await fetch(sql, name, limits is not None)


async def queue_statuses(fetch: Fetch, now_s: float) -> list[QueueStatus]:
    """See `Store.queues`."""
    limits = {name: msgspec.structs.replace(QueueLimits(*four), declared=unescape_nul(text)) for name, *four, text in map(tuple, await fetch(QUEUES))}
    executions, work = [{name: rest for name, *rest in map(tuple, await fetch(sql, now_s))} for sql in (STANDS, WORK_STANDS)]
    rows = ((name, *executions.get(name, (0, 0)), *work.get(name, (0, 0))) for name in sorted({*limits, *executions, *work}))
    return [QueueStatus(name, limits.get(name, UNLIMITED), held, leased, waiting, work_waiting) for name, held, waiting, leased, work_waiting in rows]


async def _choose_and_lock(fetch: Fetch, ask: _Statements, queues: dict[str, LockedQueue], asked: ClaimArguments) -> list[PostgresCandidate]:
    """Chooses what the queues allow, and locks it."""
    held = {name: Counter[str]() for name in queues}
    for name, lane, count in map(tuple, await fetch(ask.held, asked.now_s, [*map(escape_nul, queues)]) if queues else ()):
        held[name][lane] = count
    rooms = {name: room_under_limits(queue.limits, held[name], asked.limit) for name, queue in queues.items()}
    names = [name for name, room in rooms.items() if room > 0]
    if not names:
        return []
    within, most = [*map(escape_nul, names)], max(rooms.values())
    wanted = (within, most, asked.tenants) if ask.is_work else (asked.programs, asked.roots, within, most, asked.tenants)
    ready = await fetch(ask.first, asked.now_s, *wanted)
    candidates: dict[str, list[Candidate]] = {name: [] for name in names}
    turns: dict[str, dict[str, float]] = {name: {} for name in names}
    tenants = dict[int, str]()
    for name, *candidate, tenant in map(tuple, ready):
        candidates[name].append(Candidate(*candidate))
        tenants[candidate[0]] = tenant
    lanes = {one.lane for of in candidates.values() for one in of}
    for name, lane, turn in map(tuple, await fetch(SERVED, ask.is_work, [*map(escape_nul, names)], [*map(escape_nul, lanes)])):
        turns[name][lane] = turn
    states = {name: QueueState(queues[name].limits, held[name], turns[name], queues[name].free_at_s[ask.is_work]) for name in names}
    chosen = await _lock_chosen(fetch, ask.take, states, candidates, asked)
    return [one._replace(tenant=tenants[one.number]) for one in chosen]


async def _lock_chosen(
    fetch: Fetch, take: str, states: dict[str, QueueState], ready: dict[str, list[Candidate]], asked: ClaimArguments
) -> list[PostgresCandidate]:
    """Chooses candidates and locks them. A candidate that another transaction has locked is skipped for the next one."""
    while True:
        chosen = {name: choose_candidates(state, ready[name], asked.now_s, asked.limit) for name, state in states.items()}
        numbers = [one.number for of in chosen.values() for one in of]
        busy = {*numbers} - {row[0] for row in (await fetch(take, asked.now_s, numbers) if numbers else ())}
        if not busy:
            return [PostgresCandidate(one.number, one.at_s, "", name, one.lane, one.fresh) for name, of in chosen.items() for one in of]
        ready = {name: [one for one in of if one.number not in busy] for name, of in ready.items()}
