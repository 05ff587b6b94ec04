"""The queries of a claim in Postgres: they find what is free and ready, choose, and lock what is chosen.

As on SQLite, a page of each program or queue is read in order of time, and only if more is ready than the claim may take, the tenants are looked at one after
another: at most `TENANTS_MAX` in each line, beginning behind the tenant whose turn was last.
"""

from collections.abc import Sequence
from typing import NamedTuple

from perdure.stores.fairness import LANE_MEMORY_S, next_lane_turn, take_turns
from perdure.stores.postgres.limited_queues import ORPHANED, TENANTS, WANTED, ClaimArguments, Fetch, PostgresCandidate
from perdure.stores.postgres.store_rows import escape_nul

TENANTS_MAX = 128
"""How many tenants a claim looks at in each program or queue."""

_HOLDERS = """WITH RECURSIVE names(name) AS (SELECT (SELECT min(holder) FROM {table} WHERE holder IS NOT NULL)
    UNION ALL SELECT (SELECT min(holder) FROM {table} WHERE holder > names.name) FROM names WHERE name IS NOT NULL)"""
_DEAD = "name IS NOT NULL AND NOT EXISTS (SELECT 1 FROM holders WHERE holders.name = names.name AND until_s > $1)"
ORPHANS = (
    _HOLDERS
    + f""" SELECT number FROM names CROSS JOIN LATERAL (SELECT number FROM {{table}} WHERE holder = names.name ORDER BY number LIMIT $2) AS held
    WHERE {_DEAD} LIMIT $2"""
)
HAS_ORPHANS = _HOLDERS + f" SELECT 1 FROM names WHERE {_DEAD} LIMIT 1"
_STILL = f"SELECT number FROM {{table}} WHERE number = ANY($2::bigint[]) AND {ORPHANED} FOR UPDATE SKIP LOCKED"
FREE = f"""UPDATE heads SET holder = NULL, wake_at_s = least(coalesce(wake_at_s, created_at_s), $1)
    WHERE number IN ({_STILL.format(table="heads")}) RETURNING number"""
FREE_WORK = f"UPDATE mail SET holder = NULL WHERE number IN ({_STILL.format(table='mail')}) RETURNING number"

OWN = f"""SELECT number, coalesce(ready_at_s, '-infinity'), tenant FROM heads WHERE limited = 0 AND holder = $4 AND ready_at_s <= $1 AND {WANTED} AND {TENANTS}
    ORDER BY ready_at_s, number LIMIT $6"""
_FREE_HEADS = "limited = 0 AND holder IS NULL AND ready_at_s IS NOT NULL AND program"
_FREE_MAIL = "limited = 0 AND holder IS NULL AND queue"
_PAGE = f"""SELECT first.* FROM unnest($2::text[]) AS name CROSS JOIN LATERAL (SELECT number, {{at}}, tenant FROM {{table}}
    WHERE {{free}} = name AND {{at}} <= $1 AND {TENANTS.replace("$5", "$3")} {{more}} ORDER BY {{at}}, number LIMIT $4) AS first"""
_TENANTS = """WITH RECURSIVE found(tenant, count) AS (SELECT (SELECT min(tenant) FROM {table} WHERE {free} = $1 AND tenant {{behind}} $2), 1
    UNION ALL SELECT (SELECT min(tenant) FROM {table} WHERE {free} = $1 AND tenant > found.tenant), count + 1 FROM found
        WHERE found.tenant IS NOT NULL AND count < $3)
    SELECT tenant FROM found WHERE tenant IS NOT NULL"""
_OF_TENANTS = """SELECT first.* FROM unnest($3::text[]) AS whose CROSS JOIN LATERAL (SELECT number, {at}, tenant FROM {table}
    WHERE {free} = $2 AND tenant = whose AND {at} <= $1 ORDER BY {at}, number LIMIT $4) AS first"""
_TAKE = "SELECT number FROM {table} WHERE number = ANY($2::bigint[]) AND {mine} AND {at} <= $1 FOR UPDATE SKIP LOCKED"

TURNS = "SELECT tenant, turn FROM tenant_turns WHERE work = $1 AND tenant = ANY($2::text[])"
LAST_TURN = "SELECT tenant, turn FROM tenant_turns ORDER BY turn DESC LIMIT 1"
TAKE_TURNS = """INSERT INTO tenant_turns SELECT tenant, $1, turn FROM unnest($2::text[], $3::float8[]) AS given(tenant, turn)
    ON CONFLICT (tenant, work) DO UPDATE SET turn = excluded.turn"""
FORGET_TURNS = "DELETE FROM tenant_turns WHERE ctid = ANY(ARRAY(SELECT ctid FROM tenant_turns WHERE turn < $1 ORDER BY turn LIMIT $2))"


class _Statements(NamedTuple):
    """The statements for what is free: executions, or tasks."""

    is_work: bool
    page: str
    tenants: str
    of_tenants: str
    take: str


def _statements(is_work: bool, **words: str) -> _Statements:
    return _Statements(is_work, *(sql.format(**words) for sql in (_PAGE, _TENANTS, _OF_TENANTS, _TAKE)))


_IN_FAMILY = "AND ($5::bytea[] IS NULL OR root = ANY($5))"
EXECUTIONS = _statements(False, table="heads", free=_FREE_HEADS, at="ready_at_s", more=_IN_FAMILY, mine="(holder IS NULL OR holder = $3)")
WORK = _statements(True, table="mail", free=_FREE_MAIL, at="due_at_s", more="AND $5::bytea[] IS NULL", mine="(holder IS NULL OR holder = $3)")


async def free_orphans(fetch: Fetch, now_s: float, count: int) -> bool:
    """Frees up to `count` executions and as many tasks of dead holders. Returns whether it has freed anything."""
    freed = False
    for table, free in (("heads", FREE), ("mail", FREE_WORK)):
        if numbers := [row[0] for row in await fetch(ORPHANS.format(table=table), now_s, count)]:
            freed |= bool(await fetch(free, now_s, numbers))
    return freed


async def has_orphans(fetch: Fetch, now_s: float) -> bool:
    """Whether dead holders hold anything."""
    return any([await fetch(HAS_ORPHANS.format(table=table), now_s) for table in ("heads", "mail")])


async def ready_executions(fetch: Fetch, asked: ClaimArguments, limited: list[PostgresCandidate]) -> list[PostgresCandidate]:
    """Returns and locks the executions that the claim gets, longest waiting first. `limited` are those that queues with limits let it have."""
    if not asked.programs:
        return limited[: asked.limit]
    own = [PostgresCandidate(number, at_s, tenant, own=True) for number, at_s, tenant in await fetch(OWN, *asked[:4], asked.tenants, asked.limit + 1)]
    return await _ready(fetch, EXECUTIONS, asked, asked.programs, own + limited)


async def ready_work(fetch: Fetch, asked: ClaimArguments, limited: list[PostgresCandidate]) -> list[PostgresCandidate]:
    """Returns and locks the tasks that the claim gets, longest waiting first. `limited` are those that queues with limits let it have."""
    return await _ready(fetch, WORK, asked, asked.queues, limited) if asked.queues else []


async def _ready(fetch: Fetch, ask: _Statements, asked: ClaimArguments, names: list[str], others: list[PostgresCandidate]) -> list[PostgresCandidate]:
    roots = None if ask.is_work else asked.roots
    page = await fetch(ask.page, asked.now_s, names, asked.tenants, asked.limit + 1, roots)
    found = others + [PostgresCandidate(*row) for row in page]
    contended = len(found) > asked.limit and asked.roots is None
    if contended:
        for name in names:
            found += await _of_each_tenant(fetch, ask, asked, name)
    candidates = {one.number: one for one in found}
    longest = sorted(candidates.values(), key=lambda one: (one.at_s, one.number))
    tenants = {one.tenant for one in longest}
    if len(longest) <= asked.limit or not contended or len(tenants) == 1:
        return await _locked(fetch, ask, asked, longest[: asked.limit])
    own = [one for one in longest if one.own][: asked.limit]
    served = dict(map(tuple, await fetch(TURNS, ask.is_work, [*map(escape_nul, tenants)])))
    waiting = ((one.at_s, one.number, one.tenant) for one in longest if not one.own)
    chosen = take_turns(waiting, served, asked.limit - len(own))
    await _record_turns(fetch, ask.is_work, [*reversed(dict.fromkeys(tenant for *_, tenant in reversed(chosen)))], asked.now_s)
    handed = {one.number for one in own} | {number for _, number, _ in chosen}
    return await _locked(fetch, ask, asked, [one for one in longest if one.number in handed])


async def _of_each_tenant(fetch: Fetch, ask: _Statements, asked: ClaimArguments, name: str) -> list[PostgresCandidate]:
    """Returns what the tenants of a line have, in turns: about as much as the claim may take."""
    tenants = asked.tenants if asked.tenants is not None else await _next_tenants(fetch, ask, name)
    count, found = -(-asked.limit // max(len(tenants), 1)), list[PostgresCandidate]()
    while len(tenants) > 1:
        found = [PostgresCandidate(*row) for row in await fetch(ask.of_tenants, asked.now_s, name, tenants, count)]
        have: dict[str, int] = {}
        for one in found:
            have[one.tenant] = have.get(one.tenant, 0) + 1
        if len(found) > asked.limit or count > asked.limit or all(many < count for many in have.values()):
            break
        count *= 2
    return found


async def _next_tenants(fetch: Fetch, ask: _Statements, name: str) -> list[str]:
    """Returns the tenants of a line that it is time to look at: all, or those behind the one whose turn was last."""
    behind = next((escape_nul(row[0]) for row in await fetch(LAST_TURN)), "")
    tenants = [row[0] for row in await fetch(ask.tenants.format(behind=">"), name, behind, TENANTS_MAX)]
    if len(tenants) < TENANTS_MAX:
        first = await fetch(ask.tenants.format(behind=">="), name, "", TENANTS_MAX - len(tenants))
        tenants = [*dict.fromkeys([*tenants, *(row[0] for row in first)])]
    return [*map(escape_nul, tenants)]


async def _record_turns(fetch: Fetch, is_work: bool, tenants: Sequence[str], now_s: float) -> None:
    """Records the turns of tenants, and forgets some that are long past."""
    turn = next((row[1] for row in await fetch(LAST_TURN)), 0.0)
    turns = list[float]()
    for _ in tenants:
        turn = next_lane_turn(turn, now_s)
        turns.append(turn)
    await fetch(TAKE_TURNS, is_work, [*map(escape_nul, tenants)], turns)
    await fetch(FORGET_TURNS, now_s - LANE_MEMORY_S, 2 * len(tenants))


async def _locked(fetch: Fetch, ask: _Statements, asked: ClaimArguments, chosen: list[PostgresCandidate]) -> list[PostgresCandidate]:
    """Locks what was chosen, and returns it without what another transaction has locked. (What comes from a queue with limits is locked already.)"""
    free = [one.number for one in chosen if one.queue is None]
    if not free:
        return chosen
    locked = {row[0] for row in await fetch(ask.take, asked.now_s, free, asked.holder)}
    return [one for one in chosen if one.queue is not None or one.number in locked]
