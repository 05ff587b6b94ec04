"""The Postgres store does what every store must, on a real server."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import asyncpg  # type: ignore[import-untyped]  # it has no types
import pytest

from perdure.core.errors import ProgrammingError, StoreUnavailable
from perdure.stores.postgres.store import PostgresStore
from perdure.stores.protocol import Committed, Post, QueueLimits, Store
from perdure.testing.conformance import Clock, StoreConformance, StoreWorld
from perdure.testing.conformance.feed_suite import feed_of
from perdure.testing.conformance.store_world import key, plain_message, queue, start_message
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

    keeps_limits_of_tenants = False

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


async def empty(server: DatabaseServer) -> None:
    """Leave nothing in the tables. (Deleting the little there is takes a tenth of the time of making them anew.)"""
    connection = await asyncpg.connect(server.url)
    if await connection.fetchval("SELECT to_regclass('perdure.meta')"):
        store = PostgresStore(server.url)
        await feed_of(store).end_feed()
        await store.close()
        for table in (
            "heads",
            "log",
            "mail",
            "holders",
            "blobs",
            "queues",
            "lanes",
            "tenant_turns",
            "attributes",
            "vault",
            "records",
            "record_attributes",
            "removed_blobs",
            "restored_rows",
        ):
            await connection.execute(f"DELETE FROM perdure.{table}")
        await connection.execute("UPDATE perdure.meta SET epoch = 1")
    await connection.close()


async def test_a_database_that_is_not_there_is_said_to_be_so(server: DatabaseServer) -> None:
    with pytest.raises(StoreUnavailable, match='database "other" does not exist; check that it runs'):
        await PostgresStore(server.url.replace("/postgres?", "/other?")).store_time()


EARLIER = """DROP TABLE perdure.queues, perdure.lanes, perdure.attributes, perdure.vault, perdure.records,
        perdure.record_attributes, perdure.feed, perdure.feed_changes, perdure.feed_scans, perdure.restored_rows;
    DROP TRIGGER IF EXISTS note_feed_change ON perdure.heads; DROP TRIGGER IF EXISTS note_feed_change ON perdure.mail;
    ALTER TABLE perdure.heads DROP COLUMN queue, DROP COLUMN lane, DROP COLUMN priority, DROP COLUMN limited;
    ALTER TABLE perdure.mail DROP COLUMN lane, DROP COLUMN priority, DROP COLUMN limited;
    CREATE INDEX heads_ready ON perdure.heads (program, ready_at_s); CREATE INDEX mail_due ON perdure.mail (queue, due_at_s)"""
"""Makes the tables what they were before queues had limits."""


async def test_what_was_kept_before_queues_had_limits_is_handed_over_within_them(server: DatabaseServer) -> None:
    await empty(server)
    store = PostgresStore(server.url)
    await store.commit([Post(messages=(start_message(key()), plain_message(queue(), "a"), plain_message(queue(), "b")))])
    await store.close()
    connection = await asyncpg.connect(server.url)
    await connection.execute(EARLIER)
    await connection.close()
    stores = [PostgresStore(server.url) for _ in range(2)]
    await asyncio.gather(*(store.limit("pay", QueueLimits(1)) for store in stores))
    world = StoreWorld(stores[0], Clock(), (await stores[0].store_time()).epoch)
    await world.renew("one")
    claimed = await world.claim(queues=["pay"])
    assert ([one.head.key for one in claimed.executions], [message.key for message in claimed.work]) == ([key()], ["a"])
    for store in stores:
        await store.close()


async def test_lanes_that_were_served_long_ago_are_forgotten(server: DatabaseServer) -> None:
    await empty(server)
    store = PostgresStore(server.url, clock := Clock())
    await serve_lanes(StoreWorld(store, clock, (await store.store_time()).epoch))
    await store.close()
    connection = await asyncpg.connect(server.url)
    counts = await connection.fetch("SELECT queue, count(*), bool_or(lane = 'again') FROM perdure.lanes GROUP BY queue ORDER BY queue")
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
    with pytest.raises(ProgrammingError, match=r'pip install "perdure\[postgres\]"'):
        PostgresStore("postgresql://nowhere")
