"""The queries of a claim in Postgres: they find what is free and ready, choose, and lock what is chosen.

As on SQLite, a page of each program or queue is read in order of time, and only if more is ready than the claim may take, the tenants are looked at one after
another: at most `TENANTS_MAX` in each line, beginning behind the tenant whose turn was last.
"""

from collections.abc import Sequence
from typing import NamedTuple

from perdure.stores.fairness import LANE_MEMORY_S, next_lane_turn, take_turns
from perdure.stores.postgres.limited_queues import ClaimArguments, Fetch, PostgresCandidate
from perdure.stores.postgres.statements import SQL
from perdure.stores.postgres.store_rows import escape_nul

TENANTS_MAX = 128
"""How many tenants a claim looks at in each program or queue."""


class _Statements(NamedTuple):
    """The statements for what is free: executions, or tasks."""

    is_work: bool
    page: str
    tenants: str
    of_tenants: str
    take: str


EXECUTIONS = _Statements(False, SQL.first_executions, SQL.tenants_of_program, SQL.executions_of_tenants, SQL.lock_free_executions)
WORK = _Statements(True, SQL.first_tasks, SQL.tenants_of_queue, SQL.tasks_of_tenants, SQL.lock_free_tasks)


async def free_orphans(fetch: Fetch, now_s: float, count: int) -> bool:
    """Frees up to `count` executions and as many tasks of dead holders. Returns whether it has freed anything."""
    freed = False
    for table, free in (("heads", SQL.free_executions_of_dead), ("mail", SQL.free_tasks_of_dead)):
        if numbers := [row[0] for row in await fetch(SQL.orphans.format(table=table), now_s, count)]:
            freed |= bool(await fetch(free, now_s, numbers))
    return freed


async def has_orphans(fetch: Fetch, now_s: float) -> bool:
    """Whether dead holders hold anything."""
    return any([await fetch(SQL.has_orphans.format(table=table), now_s) for table in ("heads", "mail")])


async def ready_executions(fetch: Fetch, asked: ClaimArguments, limited: list[PostgresCandidate]) -> list[PostgresCandidate]:
    """Returns and locks the executions that the claim gets, longest waiting first. `limited` are those that queues with limits let it have."""
    if not asked.programs:
        return limited[: asked.limit]
    own = [
        PostgresCandidate(number, at_s, tenant, own=True)
        for number, at_s, tenant in await fetch(SQL.own_executions, *asked[:4], asked.tenants, asked.limit + 1)
    ]
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
    served = dict(map(tuple, await fetch(SQL.turns_of_tenants, ask.is_work, [*map(escape_nul, tenants)])))
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
    behind = next((escape_nul(row[0]) for row in await fetch(SQL.last_turn)), "")
    tenants = [row[0] for row in await fetch(ask.tenants.format(behind=">"), name, behind, TENANTS_MAX)]
    if len(tenants) < TENANTS_MAX:
        first = await fetch(ask.tenants.format(behind=">="), name, "", TENANTS_MAX - len(tenants))
        tenants = [*dict.fromkeys([*tenants, *(row[0] for row in first)])]
    return [*map(escape_nul, tenants)]


async def _record_turns(fetch: Fetch, is_work: bool, tenants: Sequence[str], now_s: float) -> None:
    """Records the turns of tenants, and forgets some that are long past."""
    turn = next((row[1] for row in await fetch(SQL.last_turn)), 0.0)
    turns = list[float]()
    for _ in tenants:
        turn = next_lane_turn(turn, now_s)
        turns.append(turn)
    await fetch(SQL.take_turns, is_work, [*map(escape_nul, tenants)], turns)
    await fetch(SQL.forget_turns, now_s - LANE_MEMORY_S, 2 * len(tenants))


async def _locked(fetch: Fetch, ask: _Statements, asked: ClaimArguments, chosen: list[PostgresCandidate]) -> list[PostgresCandidate]:
    """Locks what was chosen, and returns it without what another transaction has locked. (What comes from a queue with limits is locked already.)"""
    free = [one.number for one in chosen if one.queue is None]
    if not free:
        return chosen
    locked = {row[0] for row in await fetch(ask.take, asked.now_s, free, asked.holder)}
    return [one for one in chosen if one.queue is not None or one.number in locked]
