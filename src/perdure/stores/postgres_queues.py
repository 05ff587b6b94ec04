"""Queues that have limits, in Postgres: what is ready in them, found by their lanes, and how they stand. What of it is handed over, `fairness` says.

A claim that finds anything for itself in such a queue locks the queue's row until it ends, rows in order of name: so nobody else counts what is
held while it adds to that. A change of limits is made alone, so what is marked as limited is so for as long as a transaction looks. A line holds what
has the same queue, lane and priority, and either was begun or was not; it is found behind the one before it, however much waits in each.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NamedTuple

from perdure.stores.base import UNLIMITED, Limits, QueueStand
from perdure.stores.fairness import Candidate, Stand, allowed, choose, next_free_at, used
from perdure.stores.postgres_text import escaped

WANTED = "program = ANY($2::text[]) AND ($3::bytea IS NULL OR root = $3)"
ORPHANED = "(holder IS NOT NULL AND NOT EXISTS (SELECT 1 FROM holders WHERE name = holder AND until_s > $1))"

LIMIT = """INSERT INTO queues (name, concurrency, per_lane, interval_s, burst) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (name) DO UPDATE SET (concurrency, per_lane, interval_s, burst) = ROW ($2, $3, $4, $5)"""
FORGET, FORGET_LANES = "DELETE FROM queues WHERE name = $1", "DELETE FROM lanes WHERE queue = $1"
MARK, MARK_WORK = (
    f"UPDATE {table} SET limited = $2 WHERE queue = $1 AND {named} AND limited <> $2" for table, named in (("heads", "queue <> ''"), ("mail", "true"))
)
QUEUES = "SELECT name, concurrency, per_lane, interval_s, burst FROM queues"
STANDS = """SELECT queue, count(until_s), count(*) FILTER (WHERE until_s IS NULL AND (holder IS NOT NULL OR ready_at_s <= $1))
    FROM heads LEFT JOIN holders ON name = holder AND until_s > $1 WHERE queue <> '' GROUP BY queue"""
WORK_STANDS = """SELECT queue, count(until_s), count(*) - count(until_s)
    FROM mail LEFT JOIN holders ON name = holder AND until_s > $1 WHERE queue IS NOT NULL GROUP BY queue"""

_READY = f"(holder IS NULL AND ready_at_s <= $1 OR {ORPHANED})"
LOCK = f"""SELECT name, concurrency, per_lane, interval_s, burst, turn, free_at_s, free_for_work_at_s FROM queues WHERE name = ANY($4::text[])
    OR EXISTS (SELECT 1 FROM heads WHERE limited AND queue = name AND {WANTED} AND {_READY}) ORDER BY name FOR UPDATE"""
OWN = f"""SELECT number, ready_at_s FROM heads WHERE limited AND holder = $4 AND ready_at_s <= $1 AND {WANTED}
    ORDER BY ready_at_s, number LIMIT $5 FOR UPDATE SKIP LOCKED"""
_HELD = """SELECT queue, lane, count(*) FROM {table} JOIN holders ON name = holder AND until_s > $1
    WHERE limited AND holder IS NOT NULL AND queue = ANY($2::text[]) GROUP BY queue, lane"""
_FIRST = """WITH RECURSIVE lines(queue, lane, begun, priority) AS (SELECT first.* FROM unnest({queues}::text[]) AS name CROSS JOIN LATERAL (
        SELECT queue, lane, {begun}, priority FROM {table} WHERE {free} AND queue = name ORDER BY queue, lane, {begun}, priority LIMIT 1) AS first
    UNION ALL SELECT next.* FROM lines CROSS JOIN LATERAL (SELECT one.queue, one.lane, {begun}, one.priority FROM {table} AS one
        WHERE {free} AND one.queue = lines.queue AND (one.lane, {begun}, one.priority) > (lines.lane, lines.begun, lines.priority)
        ORDER BY one.queue, one.lane, {begun}, one.priority LIMIT 1) AS next),
    ready AS (SELECT lines.queue, number, lines.lane, lines.priority, at_s, NOT begun AS fresh FROM lines CROSS JOIN LATERAL (
        SELECT number, {at} AS at_s FROM {table} AS one WHERE {free} AND one.queue = lines.queue AND one.lane = lines.lane AND ({begun}) = lines.begun
        AND one.priority = lines.priority AND {at} <= $1 AND {wanted} ORDER BY {at}, number LIMIT {most}) AS first
    UNION ALL SELECT queue, number, lane, priority, coalesce({at}, '-infinity'), NOT ({begun}) FROM {table}
        WHERE limited AND queue = ANY({queues}::text[]) AND {orphaned} AND {wanted})
    SELECT ready.*, turn FROM ready LEFT JOIN lanes ON lanes.queue = ready.queue AND lanes.lane = ready.lane AND work = {work}"""
_HEADS = {"table": "heads", "at": "ready_at_s", "begun": "version > 0", "wanted": WANTED, "queues": "$4", "most": "$5", "work": "false"}
_MAIL = {"table": "mail", "at": "due_at_s", "begun": "deliveries > 0", "wanted": "true", "queues": "$2", "most": "$3", "work": "true"}
_FREE = "limited AND holder IS NULL AND {at} IS NOT NULL"
FIRST, FIRST_WORK = (_FIRST.format(**of, free=_FREE.format(**of), orphaned=ORPHANED) for of in (_HEADS, _MAIL))
HELD, LEASED = (_HELD.format(**of) for of in (_HEADS, _MAIL))
TAKE, TAKE_WORK = (
    f"""SELECT number FROM {of["table"]} WHERE number = ANY($2::bigint[]) AND limited AND (holder IS NULL AND {of["at"]} <= $1 OR {ORPHANED})
    FOR UPDATE SKIP LOCKED"""
    for of in (_HEADS, _MAIL)
)
TURN = "UPDATE queues SET turn = $2, free_at_s = $3, free_for_work_at_s = $4 WHERE name = $1"
SERVE = """INSERT INTO lanes SELECT $1, $2, lane, turn FROM unnest($3::text[], $4::bigint[]) AS served(lane, turn)
    ON CONFLICT (queue, work, lane) DO UPDATE SET turn = excluded.turn"""

NEXT = f"""SELECT least((SELECT min(ready_at_s) FROM heads WHERE limited AND holder = $4 AND {WANTED}),
    (SELECT min(ready_at_s) FROM heads WHERE {_FREE.format(at="ready_at_s")} AND ready_at_s > $1 AND {WANTED}),
    (SELECT min(due_at_s) FROM mail WHERE {_FREE.format(at="due_at_s")} AND due_at_s > $1 AND queue = ANY($5::text[])))"""
RATES = f"""SELECT concurrency, per_lane, interval_s, burst, free_at_s, free_for_work_at_s,
    EXISTS (SELECT 1 FROM heads WHERE {_FREE.format(at="ready_at_s")} AND queue = name AND NOT (version > 0) AND ready_at_s <= $1 AND {WANTED}),
    name = ANY($4::text[]) AND EXISTS (SELECT 1 FROM mail WHERE {_FREE.format(at="due_at_s")} AND queue = name AND NOT (deliveries > 0) AND due_at_s <= $1)
    FROM queues WHERE interval_s > 0"""

Fetch = Callable[..., Awaitable[list[Any]]]


class Asked(NamedTuple):
    """What a claim asks for, as statements want it (arrays of names are escaped), and when."""

    now_s: float
    programs: list[str]
    root: bytes | None
    holder: str
    queues: list[str]
    limit: int


class Found(NamedTuple):
    """Something that a claim is to be given: its number, since when it waits, and where; no `queue` unless its limits have a say."""

    number: int
    at_s: float
    queue: str | None = None
    lane: str = ""
    fresh: bool = False


class Queue:
    """A queue that has limits, and whose row is locked: how far it has served its lanes, and until when the rates of executions and of work are used up."""

    def __init__(self, name: str, limits: Limits, turn: int, *free_at_s: float) -> None:
        self.name, self.limits, self.turn, self.free_at_s = name, limits, turn, [*free_at_s]


async def lock(fetch: Fetch, asked: Asked) -> dict[str, Queue]:
    """The queues that the claim could be given anything of, none of which anybody else hands anything over from until it ends."""
    rows = await fetch(LOCK, asked.now_s, asked.programs, asked.root, asked.queues)
    return {name: Queue(name, Limits(*limits), *rest) for name, *limits, rest in ((*row[:5], row[5:]) for row in map(tuple, rows))}


async def executions(fetch: Fetch, queues: dict[str, Queue], asked: Asked) -> list[Found]:
    """The executions that the claim is to be given, locked: what its holder holds already, and as much as each queue allows."""
    own = [Found(*row) for row in await fetch(OWN, *asked[:4], asked.limit)]
    names = [*map(escaped, queues)]
    if not queues or not asked.programs:
        return own
    held, ready = await fetch(HELD, asked.now_s, names), await fetch(FIRST, *asked[:3], names, asked.limit)
    return own + await _taken(fetch, TAKE, _stands(queues, held, ready, 0), ready, asked)


async def work(fetch: Fetch, queues: dict[str, Queue], asked: Asked) -> list[Found]:
    """The work that the claim is to be given, locked: as much as each queue allows."""
    asked_for = {name: queue for name, queue in queues.items() if escaped(name) in asked.queues}
    names = [*map(escaped, asked_for)]
    if not names:
        return []
    held, ready = await fetch(LEASED, asked.now_s, names), await fetch(FIRST_WORK, asked.now_s, names, asked.limit)
    return await _taken(fetch, TAKE_WORK, _stands(asked_for, held, ready, 1), ready, asked)


async def serve(fetch: Fetch, queues: dict[str, Queue], executions: Iterable[Found], work: Iterable[Found], now_s: float) -> None:
    """Note in the queues what is handed over, in its order."""
    served: dict[tuple[str, bool], dict[str, int]] = {}
    for is_work, things in enumerate((executions, work)):
        for one in things:
            if one.queue is not None:
                queue = queues[one.queue]
                queue.turn += 1
                queue.free_at_s[is_work] = used(queue.limits, queue.free_at_s[is_work], now_s, int(one.fresh))
                served.setdefault((one.queue, bool(is_work)), {})[one.lane] = queue.turn
    for (name, for_work), lanes in served.items():
        await fetch(SERVE, name, for_work, [*map(escaped, lanes)], [*lanes.values()])
    for name in {name for name, _ in served}:
        await fetch(TURN, name, queues[name].turn, *queues[name].free_at_s)


async def next_times(fetch: Fetch, asked: Asked) -> list[float | None]:
    """When the claimer could be given more of queues that have limits, as far as time decides that."""
    now_s = asked.now_s
    times_s: list[float | None] = [row[0] for row in await fetch(NEXT, *asked[:5])]
    for *fields, free_at_s, free_for_work_at_s, waits, work_waits in map(tuple, await fetch(RATES, *asked[:3], asked.queues)):
        limits = Limits(*fields)
        for at_s, anything in ((free_at_s, waits), (free_for_work_at_s, work_waits)):
            if anything and allowed(limits, at_s, now_s) < 1:
                times_s.append(next_free_at(limits, at_s))
    return times_s


async def limit(fetch: Fetch, name: str, limits: Limits | None) -> None:
    """See `Store.limit`; nothing else may be under way."""
    if limits is None:
        await fetch(FORGET, name)
        await fetch(FORGET_LANES, name)
    else:
        await fetch(LIMIT, name, limits.concurrency, limits.per_lane, limits.interval_s, limits.burst)
    for sql in (MARK, MARK_WORK):
        await fetch(sql, name, limits is not None)


async def stands(fetch: Fetch, now_s: float) -> list[QueueStand]:
    """See `Store.queues`."""
    limits = {name: Limits(*rest) for name, *rest in map(tuple, await fetch(QUEUES))}
    executions, work = [{name: rest for name, *rest in map(tuple, await fetch(sql, now_s))} for sql in (STANDS, WORK_STANDS)]
    rows = ((name, *executions.get(name, (0, 0)), *work.get(name, (0, 0))) for name in sorted({*limits, *executions, *work}))
    return [QueueStand(name, limits.get(name, UNLIMITED), held, leased, waiting, work_waiting) for name, held, waiting, leased, work_waiting in rows]


async def _taken(fetch: Fetch, take: str, stands: dict[str, Stand], ready: list[Any], asked: Asked) -> list[Found]:
    """Of what is ready, what the queues allow, locked. What somebody else has locked is passed over for what comes next."""
    candidates: dict[str, list[Candidate]] = {name: [] for name in stands}
    for queue, *candidate, _ in map(tuple, ready):
        candidates[queue].append(Candidate(*candidate))
    while True:
        chosen = {name: choose(stand, candidates[name], asked.now_s, asked.limit) for name, stand in stands.items()}
        numbers = [one.number for of in chosen.values() for one in of]
        busy = {*numbers} - {row[0] for row in (await fetch(take, asked.now_s, numbers) if numbers else ())}
        if not busy:
            return [Found(one.number, one.at_s, name, one.lane, one.fresh) for name, of in chosen.items() for one in of]
        candidates = {name: [one for one in of if one.number not in busy] for name, of in candidates.items()}


def _stands(queues: dict[str, Queue], held: list[Any], ready: list[Any], is_work: int) -> dict[str, Stand]:
    """How each queue stands, as fairness wants to know."""
    counts, turns = {name: Counter[str]() for name in queues}, {name: dict[str, int]() for name in queues}
    for queue, lane, count in map(tuple, held):
        counts[queue][lane] = count
    for queue, _, lane, *_, turn in map(tuple, ready):
        if turn is not None:
            turns[queue][lane] = turn
    return {name: Stand(queue.limits, counts[name], turns[name], queue.free_at_s[is_work]) for name, queue in queues.items()}
