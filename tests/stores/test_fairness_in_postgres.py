"""The fairness rule in PL/pgSQL chooses what the one in Python chooses, for seeded random queues on a real Postgres."""

import random
from collections import Counter
from collections.abc import Iterator
from math import inf

import asyncpg  # type: ignore[import-untyped]  # it has no types
import pytest

from perdure.stores.fairness import choose_candidates, room_under_limits, starts_allowed
from perdure.stores.postgres.store import PostgresStore
from perdure.stores.postgres.store_rows import escape_nul
from tests.stores.fairness_cases import NOW_S, some_candidates, some_state
from tests.stores.servers import DatabaseServer, postgres

pytestmark = pytest.mark.real

STARTS = "SELECT perdure.starts_allowed_1($1, $2, $3, $4)"
CHOOSE = """
SELECT one.number FROM unnest(perdure.choose_by_limits_1(ARRAY(
    SELECT ROW(number, at_s, '', false, 0, 1, lane, priority, fresh, held, served_s)::perdure.candidate
    FROM unnest($1::bigint[], $2::float8[], $3::text[], $4::bigint[], $5::boolean[], $6::bigint[], $7::float8[])
        AS given(number, at_s, lane, priority, fresh, held, served_s)), $8, $9, $10)) WITH ORDINALITY AS one ORDER BY one.ordinality
"""


@pytest.fixture(scope="module")
def server() -> Iterator[DatabaseServer]:
    with postgres() as server:
        yield server


@pytest.mark.parametrize("seed", range(4))
async def test_it_chooses_what_the_rule_in_python_chooses(seed: int, server: DatabaseServer) -> None:
    store = PostgresStore(server.url)
    await store.store_time()
    await store.close()
    connection = await asyncpg.connect(server.url)
    chance, sizes = random.Random(seed), set()
    for case in range(3_000):
        state, ready, most = some_state(chance), some_candidates(chance), chance.choice([0, 1, 3, 10, 100])
        chosen = [one.number for one in choose_candidates(state, ready, NOW_S, most)]
        sizes.add(len(chosen))
        limits, starts = state.limits, starts_allowed(state.limits, state.free_at_s, NOW_S)
        assert await connection.fetchval(STARTS, limits.interval_s, limits.burst, state.free_at_s, NOW_S) == starts
        columns = (
            [one.number for one in ready],
            [one.at_s for one in ready],
            [escape_nul(one.lane) for one in ready],
            [one.priority for one in ready],
            [one.fresh for one in ready],
            [state.held.get(one.lane, 0) for one in ready],
            [state.served.get(one.lane, -inf) for one in ready],
        )
        room = max(room_under_limits(limits, Counter(state.held), most), 0)
        rows = await connection.fetch(CHOOSE, *columns, room, limits.per_lane, starts)
        assert [number for (number,) in rows] == chosen, f"seed {seed}, case {case}: {state}, {ready}, {most}"
    await connection.close()
    assert len(sizes) > 20, "the cases are too much alike"
