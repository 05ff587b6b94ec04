"""Claims of the Postgres store read no more because more is in it, whatever its planner knows of the tables.

A claim is a function of the database. What its statements read is counted by the server: blocks, rows and sequential scans. So these tests hold for plans that
`EXPLAIN` doesn't show.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager

import asyncpg  # type: ignore[import-untyped]  # it has no types
import pytest

from perdure.core.paths import Key
from perdure.stores.postgres.claim_queries import EXECUTION, KnownPrograms, claim_arguments
from perdure.stores.postgres.statements import SQL
from perdure.stores.postgres.store import PostgresStore
from perdure.stores.protocol import Claim, QueueLimits
from tests.stores.postgres_rows import PROGRAM, Cost, add_heads, add_messages, cost
from tests.stores.servers import DatabaseServer, postgres

NOW_S = 1_000_000.0
LIMIT = 100
SMALL, LARGE = (20_000, 2_000), (1_000_000, 100_000)
"""How many executions are parked, and how many wait for their start."""

CLAIMS: dict[str, Claim] = {
    "executions": Claim(holder="one", epoch=1, programs=frozenset((PROGRAM,)), limit=LIMIT),
    "executions and tasks": Claim(holder="one", epoch=1, programs=frozenset((PROGRAM,)), queues=frozenset(("pay", "other")), limit=LIMIT),
    "tasks": Claim(holder="one", epoch=1, queues=frozenset(("pay",)), limit=LIMIT),
    "nothing": Claim(holder="one", epoch=1, programs=frozenset(("unknown",)), queues=frozenset(("unknown",)), limit=LIMIT),
    "a tenant's": Claim(holder="one", epoch=1, programs=frozenset((PROGRAM,)), tenants=frozenset(("tenant 7", "nobody")), limit=LIMIT),
    "a tenant's that has nothing": Claim(holder="one", epoch=1, programs=frozenset((PROGRAM,)), tenants=frozenset(("nobody",)), limit=LIMIT),
    "a family's": Claim(holder="one", epoch=1, programs=frozenset((PROGRAM,)), roots=frozenset((Key("tenant 1", "order", "start 1"),)), limit=LIMIT),
    "a family's that has nothing": Claim(holder="one", epoch=1, programs=frozenset((PROGRAM,)), roots=frozenset((Key("a", "b", "c"),)), limit=LIMIT),
    "by one that holds much": Claim(holder="busy", epoch=1, programs=frozenset((PROGRAM,)), limit=LIMIT),
}

BLOCKS_MAX = 150 * LIMIT
"""How many blocks a claim may read: it moves each execution that it hands over in all indexes, which are up to four blocks deep."""

ROWS_MAX = 30 * LIMIT
"""How many rows of a table a claim may read: several times what it hands over, a page of each program, some of each tenant, and one for each of 128 tenants."""


@pytest.fixture(scope="module")
def server() -> Iterator[DatabaseServer]:
    with postgres(autovacuum="off", shared_buffers="128MB") as server:
        yield server


@asynccontextmanager
async def another(server: DatabaseServer) -> AsyncIterator[asyncpg.Connection]:
    """One more connection."""
    connection = await asyncpg.connect(server.url)
    try:
        yield connection
    finally:
        await connection.close()


STATISTICS = pytest.mark.parametrize("analysed", ["filled", "nearly empty", "never"])
"""When the planner has got its statistics. Without any, it knows nothing of tables but their size."""


@asynccontextmanager
async def filled(server: DatabaseServer, size: tuple[int, int], analysed: str) -> AsyncIterator[asyncpg.Connection]:
    """A database with this much in it."""
    connection = await asyncpg.connect(server.url)
    await connection.execute("DROP SCHEMA IF EXISTS perdure CASCADE")
    store = PostgresStore(server.url, lambda: NOW_S)
    for holder in ("one", "busy"):
        await store.renew(holder, 60)
    await store.close()
    parked, starts = size
    if analysed == "nearly empty":
        await add_heads(connection, "first ", 3)
        await add_messages(connection, "first ", 3, NOW_S + 1_000, queue="pay")
        await connection.execute("VACUUM ANALYZE")
    await add_heads(connection, "parked ", parked, wake_at_s=2 * NOW_S)
    await add_heads(connection, "start ", starts, tenants=300, version=0, message_at_s=NOW_S - 100)
    await add_messages(connection, "start ", starts, NOW_S - 100, tenants=300)
    await add_heads(connection, "held ", parked // 10, holder="busy", wake_at_s=2 * NOW_S)
    await add_messages(connection, "task ", starts, NOW_S - 100, tenants=300, queue="pay")
    if analysed == "filled":
        await connection.execute("ANALYZE")
    try:
        yield connection
    finally:
        await connection.close()


def too_much(found: Cost) -> list[str]:
    """What a claim may not read."""
    wrong = [f"sequential scans of {name}" for name in found.scans if name in ("heads", "mail", "attributes", "holders")]
    wrong += [f"{found.blocks} blocks"] if found.blocks > BLOCKS_MAX else []
    return wrong + [f"{rows} rows of {name}" for name, rows in found.rows.items() if rows > ROWS_MAX]


async def claims_that_read_too_much(connection: asyncpg.Connection, claims: Mapping[str, Claim] = CLAIMS) -> dict[str, list[str]]:
    """The claims that do, each made as the first of a session and as a later one, whose plans are there."""
    costs = {}
    for name, claim in claims.items():
        for _ in range(2):
            found = await cost(connection, SQL.claim, NOW_S, *claim_arguments(claim, KnownPrograms()))
            if wrong := too_much(found):
                costs[name] = wrong
    return costs


@pytest.mark.real
@STATISTICS
async def test_a_claim_reads_only_what_it_hands_over_and_what_it_chooses_from(analysed: str, server: DatabaseServer) -> None:
    async with filled(server, SMALL, analysed) as connection:
        assert await claims_that_read_too_much(connection) == {}


@pytest.mark.real
@STATISTICS
async def test_a_claim_from_a_queue_with_limits_reads_its_lines_and_not_what_waits_in_them(analysed: str, server: DatabaseServer) -> None:
    async with filled(server, (0, 0), analysed) as connection:
        store = PostgresStore(server.url, lambda: NOW_S)
        await store.limit("slow", QueueLimits(50, 20, 0.001, 1_000))
        await store.close()
        number = await connection.fetchval("SELECT number FROM perdure.queues")
        await add_heads(connection, "queued ", SMALL[0], version=0, message_at_s=NOW_S - 100, queue="slow", limited=number)
        if analysed == "filled":
            await connection.execute("ANALYZE")
        assert await claims_that_read_too_much(connection, {"executions": CLAIMS["executions"], "nothing": CLAIMS["nothing"]}) == {}
        claimed = await connection.fetch(SQL.claim, NOW_S, *claim_arguments(CLAIMS["executions"], KnownPrograms()))
        assert [row for row in claimed if row[0] == EXECUTION]


@pytest.mark.real
@STATISTICS
async def test_a_dead_holder_of_twenty_thousand_is_freed_in_pieces_that_cost_no_more_than_a_claim(analysed: str, server: DatabaseServer) -> None:
    """The pieces are committed, so that each comes behind those that were freed and claimed before it."""
    async with filled(server, (0, 0), analysed) as connection:
        await add_heads(connection, "orphan ", 20_000, holder="dead")
        if analysed == "filled":
            await connection.execute("ANALYZE")
        left, blocks = 20_000, list[int]()
        while left:
            arguments = claim_arguments(CLAIMS["executions"], KnownPrograms())
            if left % 2_000 == 0:
                found = await cost(connection, SQL.claim, NOW_S, *arguments)
                blocks.append(found.blocks)
                assert too_much(found) == []
            claimed = await connection.fetch(SQL.claim, NOW_S, *arguments)
            left -= len([row for row in claimed if row[0] == EXECUTION])
        assert max(blocks) < 3 * min(blocks), f"pieces cost more and more: {blocks}"


@pytest.mark.real
async def test_claims_at_the_same_time_are_handed_different_executions_and_do_not_wait(server: DatabaseServer) -> None:
    """The first has not been committed when the others are made, so that what it was handed still seems free to them."""
    async with filled(server, (0, 1_000), "never") as first, another(server) as second, another(server) as third:
        found = list[int]()
        arguments = claim_arguments(CLAIMS["executions"], KnownPrograms())
        for connection in (first, second, third):
            await connection.execute("BEGIN")
            await connection.execute("SET LOCAL lock_timeout = '5s'")
            found += [row["execution"] for row in await connection.fetch(SQL.claim, NOW_S, *arguments) if row["kind"] == EXECUTION]
        assert len(found) == len(set(found)) == 3 * LIMIT


@pytest.mark.real
async def test_a_renewal_waits_neither_for_a_claim_nor_for_what_runs_alone_and_a_release_waits_for_the_claim(server: DatabaseServer) -> None:
    async with filled(server, (0, 1_000), "never") as claiming, another(server) as alone, another(server) as renewing:
        await claiming.execute("BEGIN")
        await claiming.fetch(SQL.claim, NOW_S, *claim_arguments(CLAIMS["executions"], KnownPrograms()))
        await renewing.execute("SET lock_timeout = '1s'")
        waiting = asyncio.ensure_future(alone.fetch("SELECT pg_advisory_xact_lock(hashtextextended('perdure.epoch', 0))"))
        while not await renewing.fetchval("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"):
            assert not waiting.done()
        assert [tuple(row) for row in await renewing.fetch(SQL.renew, NOW_S, "one", 60.0, b"")] == [(NOW_S, 1, False)]
        with pytest.raises(asyncpg.LockNotAvailableError):
            await renewing.fetch(SQL.renew, NOW_S, "one", 0.0, b"")
        await claiming.execute("COMMIT")
        await waiting
        await renewing.fetch(SQL.renew, NOW_S, "one", 0.0, b"")


@pytest.mark.real
async def test_a_claim_of_executions_alone_does_not_wait_for_the_disk(server: DatabaseServer) -> None:
    """One that hands over tasks, or anything from a queue with limits, does; and nothing else of the session is less durable."""
    async with filled(server, (0, 1_000), "never") as connection:
        for name, expected in (("executions", "off"), ("executions and tasks", "on"), ("tasks", "on"), ("nothing", "off")):
            await connection.execute("BEGIN")
            await connection.fetch(SQL.claim, NOW_S, *claim_arguments(CLAIMS[name], KnownPrograms()))
            assert await connection.fetchval("SHOW synchronous_commit") == expected, name
            await connection.execute("COMMIT")
            assert await connection.fetchval("SHOW synchronous_commit") == "on"


@pytest.mark.real
async def test_lists_and_counts_use_indexes(server: DatabaseServer) -> None:
    async with filled(server, SMALL, "filled") as connection:
        await connection.execute("VACUUM perdure.heads")
        await connection.execute("SET enable_seqscan = off")  # small tables are cheaper to read as a whole
        for sql, arguments in ((SQL.leases, (NOW_S,)), (SQL.executions_in_queues, (NOW_S,)), (SQL.tasks_in_queues, (NOW_S,))):
            found = await cost(connection, sql, *arguments)
            assert not {"heads", "mail"} & found.scans.keys() and found.nodes("Index Only Scan"), sql


@pytest.mark.prove
@STATISTICS
async def test_a_claim_reads_no_more_among_a_million_parked_executions(analysed: str, server: DatabaseServer) -> None:
    async with filled(server, LARGE, analysed) as connection:
        assert await claims_that_read_too_much(connection) == {}
