"""The Postgres store does what every store must, on a real server."""

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import asyncpg  # type: ignore[import-untyped]  # it has no types
import pytest

from perdure.core.errors import MissingExtra, StoreUnavailable
from perdure.stores.postgres.store import PostgresStore
from perdure.stores.protocol import Committed, Post, Store
from perdure.testing.conformance import Clock, StoreConformance, StoreWorld
from perdure.testing.conformance.feed_suite import feed_of
from perdure.testing.conformance.store_world import key, start_message
from tests.stores.forgotten_lanes import SINCE, serve_lanes
from tests.stores.server_store_suite import SharedStore
from tests.stores.servers import DatabaseServer, postgres

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def server() -> Iterator[DatabaseServer]:
    with postgres() as server:
        yield server


class TestPostgresStore(StoreConformance, SharedStore):
    """Both suites."""

    @pytest.fixture(autouse=True)
    async def _server(self, server: DatabaseServer) -> None:
        self.server = server
        await empty(server)

    async def make(self, clock: Clock) -> Store:
        return PostgresStore(self.server.url, clock)

    @pytest.fixture(autouse=True)
    async def _connections(self) -> AsyncIterator[None]:
        self.connections: list[asyncpg.Connection] = []
        yield
        for connection in self.connections:
            await connection.close()

    async def user_connection(self) -> tuple[Any, Callable[[str], Awaitable[object]]]:
        connection = await asyncpg.connect(self.server.url)
        self.connections.append(connection)
        return connection, connection.execute

    def open(self) -> Store:
        return PostgresStore(self.server.url)


TABLES = (
    *("heads", "log", "mail", "holders", "blobs", "queues", "lanes", "tenant_turns", "attributes", "vault", "records", "record_attributes", "removed_blobs"),
    "restored_rows",
)


async def empty(server: DatabaseServer, schema: str = "perdure") -> None:
    """Leave nothing in the tables. (Deleting the little there is takes a tenth of the time of making them anew.)"""
    connection = await asyncpg.connect(server.url)
    if await connection.fetchval("SELECT to_regclass($1)", f"{schema}.meta"):
        store = PostgresStore(server.url, schema=schema)
        await feed_of(store).end_feed()
        await store.close()
        await connection.execute("; ".join((*(f"DELETE FROM {schema}.{table}" for table in TABLES), f"UPDATE {schema}.meta SET epoch = 1")))
    await connection.close()


async def test_a_database_that_is_not_there_is_said_to_be_so(server: DatabaseServer) -> None:
    with pytest.raises(StoreUnavailable, match='database "other" does not exist; check that it runs'):
        await PostgresStore(server.url.replace("/postgres?", "/other?")).store_time()


async def test_lanes_that_were_served_long_ago_are_forgotten(server: DatabaseServer) -> None:
    await empty(server)
    store = PostgresStore(server.url, clock := Clock())
    await serve_lanes(StoreWorld(store, clock, (await store.store_time()).epoch))
    await store.close()
    connection = await asyncpg.connect(server.url)
    counts = await connection.fetch(
        "SELECT name, count(*), bool_or(lane = 'again') FROM perdure.lanes JOIN perdure.queues ON number = queue GROUP BY name ORDER BY name"
    )
    await connection.close()
    assert [tuple(row) for row in counts] == [("mails", SINCE + 1, True), ("pay", SINCE + 1, True)]


@pytest.mark.real
async def test_a_commit_may_open_more_executions_than_postgres_has_locks(server: DatabaseServer) -> None:
    await empty(server)
    store = PostgresStore(server.url)
    (answer,) = await store.commit([Post(messages=tuple(start_message(key(str(number))) for number in range(10_000)))])
    assert isinstance(answer, Committed) and len(answer.created) == 10_000
    await store.close()


def test_without_asyncpg_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(MissingExtra, match=r'pip install "perdure\[postgres\]"'):
        PostgresStore("postgresql://nowhere")
