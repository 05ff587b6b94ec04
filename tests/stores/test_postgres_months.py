"""The Postgres store keeps logs and blobs by the month in which their execution began, and removes months of which nothing is left."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Any

import asyncpg  # type: ignore[import-untyped]  # it has no types
import msgspec
import pytest

from perdure.async_client import AsyncClient
from perdure.core.paths import Key
from perdure.stores.month_removal import MONTH_REMOVAL, StoredMonth
from perdure.stores.postgres.store import PostgresStore
from perdure.stores.protocol import Commit, Committed
from perdure.testing.conformance import Clock, StoreWorld
from perdure.testing.conformance.store_world import key
from tests.stores.servers import DatabaseServer, postgres
from tests.stores.test_postgres_store import empty

pytestmark = pytest.mark.real

JANUARY_S, MARCH_S = (datetime(2026, month, 15, tzinfo=UTC).timestamp() for month in (1, 3))
BLOB = "b" * 64


@pytest.fixture(scope="module")
def server() -> Iterator[DatabaseServer]:
    with postgres() as server:
        yield server


@pytest.fixture
async def world(server: DatabaseServer) -> AsyncIterator[StoreWorld]:
    await empty(server)
    store = PostgresStore(server.url, clock := Clock())
    clock.now_s = JANUARY_S
    world = StoreWorld(store, clock, (await store.store_time()).epoch)
    await world.renew("one")
    yield world
    await store.close()


def ended(of: Key, epoch: int, *, row: bytes = b"all", **more: Any) -> Commit:
    """The commit of an execution that begins and ends."""
    return Commit(key=of, epoch=epoch, holder="one", version=0, program="order@1", root=of, creates=True, row=row, count=1, release=True, **more)


async def removed(world: StoreWorld, before_s: float) -> list[StoredMonth]:
    """Remove months."""
    removal = world.store.part(MONTH_REMOVAL)
    assert removal is not None
    return [msgspec.structs.replace(month, size_bytes=0) for month in await removal.remove_months(before_s)]


async def tables(server: DatabaseServer) -> list[str]:
    """The tables of months."""
    connection = await asyncpg.connect(server.url)
    names = await connection.fetch("SELECT relname FROM pg_class WHERE relkind = 'r' AND relname ~ '^(log|blobs)_[0-9]' ORDER BY relname")
    await connection.close()
    return [row[0] for row in names if (row[0] > "blobs_2026" and not row[0].startswith("log_20")) or row[0] > "log_2026"]


async def test_a_month_stays_while_anything_of_it_is_open(world: StoreWorld, server: DatabaseServer) -> None:
    (first, second) = await world.store.commit(
        [
            ended(key("done"), world.epoch, status="completed", ended_at_s=JANUARY_S),
            ended(key("open"), world.epoch, wake_at_s=MARCH_S),
        ]
    )
    assert isinstance(first, Committed) and isinstance(second, Committed)
    world.clock.now_s = MARCH_S
    assert await removed(world, MARCH_S) == [StoredMonth("2026-01", 0, executions=1, open=1)]
    assert {"log_2026_01", "blobs_2026_01"} <= {*await tables(server)}
    stored = await world.store.read(key("open"))
    assert stored is not None and stored.payloads == (b"all",)


async def test_a_month_of_which_nothing_is_left_is_removed_and_what_is_kept_can_still_be_read(world: StoreWorld, server: DatabaseServer) -> None:
    carried = ended(key("done"), world.epoch, row=b"tombstone", status="completed", ended_at_s=JANUARY_S, blobs=((BLOB, b"large"),))
    await world.store.commit([carried])
    world.clock.now_s = MARCH_S
    assert await removed(world, MARCH_S) == [StoredMonth("2026-01", 0, removed=True)]
    assert not {"log_2026_01", "blobs_2026_01"} & {*await tables(server)}
    stored = await world.store.read(key("done"))
    assert stored is not None and stored.payloads == (b"tombstone",)
    assert await world.store.blob(BLOB) == b"large"  # nothing has found that it is not needed
    # The id is still taken, the execution may go on, and a month that was removed can be needed again.
    (conflict,) = await world.store.commit([ended(key("done"), world.epoch)])
    assert not isinstance(conflict, Committed)
    again = msgspec.structs.replace(carried, creates=False, version=1, row=b"more", blobs=(("c" * 64, b"new"),), ended_at_s=None, status="running")
    (answer,) = await world.store.commit([again])
    assert isinstance(answer, Committed)
    stored = await world.store.read(key("done"))
    assert stored is not None and stored.payloads == (b"tombstone", b"more")
    (answer,) = await world.store.commit([ended(key("imported"), world.epoch, created_at_s=JANUARY_S)])
    assert isinstance(answer, Committed) and "log_2026_01" in await tables(server)


async def test_a_removal_that_was_interrupted_is_continued(world: StoreWorld, server: DatabaseServer) -> None:
    await world.store.commit([ended(key("done"), world.epoch, status="completed", ended_at_s=JANUARY_S)])
    world.clock.now_s = MARCH_S
    connection = await asyncpg.connect(server.url)
    await connection.execute("UPDATE perdure.log SET month = -1; UPDATE perdure.heads SET month = -1; DELETE FROM perdure.months WHERE name = '2026_01'")
    await connection.execute("ALTER TABLE perdure.log DETACH PARTITION perdure.log_2026_01 CONCURRENTLY")
    await connection.close()
    assert await removed(world, MARCH_S) == []
    assert not {"log_2026_01", "blobs_2026_01"} & {*await tables(server)}


async def test_executions_begin_and_go_on_while_months_are_removed(world: StoreWorld) -> None:
    for number in range(50):
        await world.store.commit([ended(key(f"old {number}"), world.epoch, status="completed", ended_at_s=JANUARY_S)])
    world.clock.now_s = MARCH_S
    begun = 0

    async def begin() -> None:
        nonlocal begun
        for number in range(100):
            (answer,) = await world.store.commit([ended(key(f"new {begun} {number}"), world.epoch, created_at_s=JANUARY_S if number % 5 == 0 else None)])
            assert isinstance(answer, Committed)
            begun += 1

    await asyncio.gather(begin(), *(removed(world, MARCH_S) for _ in range(1)))
    assert begun == 100
    assert await removed(world, MARCH_S) in ([StoredMonth("2026-01", 0, executions=20, open=20)], [])
    counted = [await world.store.read(key(f"new {number} {number}")) for number in range(100)]
    assert all(one is not None and one.payloads == (b"all",) for one in counted)


async def test_a_client_removes_months_for_all_tenants(world: StoreWorld) -> None:
    await world.store.commit([ended(Key("other", "order", "done"), world.epoch, status="completed", ended_at_s=JANUARY_S)])
    world.clock.now_s = MARCH_S
    async with AsyncClient(world.store) as client:
        assert [month.month for month in await client.upkeep.prune_months("10d") if month.removed] == ["2026-01"]
        assert await client.upkeep.prune_months("10d") == []
