"""Several stores share one Postgres database, each in a schema of its own: none sees what the others have, and every part of each works there."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import asyncpg  # type: ignore[import-untyped]  # it has no types
import pytest

from perdure.stores.postgres.store import PostgresStore
from perdure.stores.protocol import Committed, Post, Store
from perdure.stores.user_transactions import USER_TRANSACTIONS
from perdure.testing.conformance import Clock, StoreConformance, StoreWorld
from perdure.testing.conformance.store_world import key, start_message
from tests.stores.servers import DatabaseServer, postgres
from tests.stores.test_postgres_store import empty
from tests.stores.user_transaction_suite import guard, transact, writes

pytestmark = pytest.mark.real

SCHEMA = "shop_7"


@pytest.fixture(scope="module")
def server() -> Iterator[DatabaseServer]:
    with postgres() as server:
        yield server


async def without_schemas(server: DatabaseServer) -> None:
    """Leave nothing."""
    connection = await asyncpg.connect(server.url)
    await connection.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE; DROP SCHEMA IF EXISTS perdure CASCADE")
    await connection.close()


class TestPostgresStoreInAnotherSchema(StoreConformance):
    """The conformance suite."""

    @pytest.fixture(autouse=True)
    async def _server(self, server: DatabaseServer) -> AsyncIterator[None]:
        self.server = server
        self.connections: list[asyncpg.Connection] = []
        await empty(server, SCHEMA)
        yield
        for connection in self.connections:
            await connection.close()

    async def make(self, clock: Clock) -> Store:
        return PostgresStore(self.server.url, clock, schema=SCHEMA)

    async def user_connection(self) -> tuple[Any, Callable[[str], Awaitable[object]]]:
        connection = await asyncpg.connect(self.server.url)
        self.connections.append(connection)
        return connection, connection.execute


async def test_two_stores_in_one_database_know_nothing_of_each_other(server: DatabaseServer) -> None:
    await without_schemas(server)
    clock = Clock()
    one, other = [StoreWorld(store, clock, 1) for store in (PostgresStore(server.url, clock), PostgresStore(server.url, clock, schema=SCHEMA))]
    woken = list[str]()
    one.store.on_wake(lambda: woken.append("one"))
    other.store.on_wake(lambda: woken.append("other"))
    for world in (one, other):
        await world.renew("one")
    await other.open(key())
    await asyncio.sleep(0.3)
    assert "one" not in woken and "other" in woken
    assert await one.claimed("one") == []
    assert await other.claimed("one") == [key()]
    assert await one.store.read(key()) is None
    await one.store.raise_epoch()
    assert (await other.store.store_time()).epoch == 1
    for world in (one, other):
        await world.store.close()


async def test_steps_and_transactions_of_users_find_the_schema(server: DatabaseServer) -> None:
    await without_schemas(server)
    clock = Clock()
    world = StoreWorld(store := PostgresStore(server.url, clock, schema=SCHEMA), clock, 1)
    connection = await asyncpg.connect(server.url)
    await connection.execute("DROP TABLE IF EXISTS words; CREATE TABLE words (word text)")
    await world.renew("one")
    await world.open(key())
    assert await world.claimed("one") == [key()]
    assert isinstance(await transact(world, guard(), writes("a")), Committed)
    joins = store.part(USER_TRANSACTIONS)
    assert joins is not None
    await joins.meet()
    async with connection.transaction(), joins.join(connection) as within:
        (answer,) = await within.commit([Post(messages=(start_message(key("joined")),))])
        assert isinstance(answer, Committed) and answer.created == (key("joined"),)
    assert await store.read(key("joined")) is not None
    assert await connection.fetchval("SELECT to_regnamespace('perdure')") is None
    await store.close()
    await connection.close()
