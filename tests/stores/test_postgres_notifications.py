"""Claims about notifications between the stores on one Postgres, and about what a store does where none gets through."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import asyncpg  # type: ignore[import-untyped]  # it has no types
import pytest

from perdure.core.errors import StoreUnavailable
from perdure.stores.postgres import notifications
from perdure.stores.postgres.notifications import NotificationPoll
from perdure.stores.postgres.store import PostgresStore
from perdure.stores.postgres.store_tables import CHANGE_CHANNEL, WAKE_CHANNEL
from perdure.testing.conformance import Clock, StoreWorld
from perdure.testing.conformance.store_world import key, plain_message
from tests.stores.postgres_clusters import pgbouncer
from tests.stores.servers import PostgresServer, postgres
from tests.stores.test_postgres_store import empty

pytestmark = pytest.mark.real

SOON_S = 3.0
"""How long a wake-up by polling may take here."""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres() as server:
        yield server


@pytest.fixture(scope="module")
def pooler(server: PostgresServer) -> Iterator[str]:
    with pgbouncer(server, default_pool_size=3) as pooler:
        yield pooler.url


@pytest.fixture
async def other(server: PostgresServer) -> AsyncIterator[Any]:
    """A connection beside those of the stores."""
    await empty(server)
    connection = await asyncpg.connect(server.url)
    yield connection
    await connection.close()


class Rings:
    """How often a listener was called."""

    def __init__(self) -> None:
        self.count, self._changed = 0, asyncio.Event()

    def __call__(self) -> None:
        self.count += 1
        self._changed.set()

    async def more_than(self, count: int) -> None:
        """Waits until it was called more often than that."""
        async with asyncio.timeout(SOON_S + 10):
            while self.count <= count:
                self._changed.clear()
                await self._changed.wait()


@asynccontextmanager
async def two_stores(sending: str, receiving: str, **options: Any) -> AsyncIterator[tuple[StoreWorld, PostgresStore, Rings]]:
    """A store that sends, and one that receives with a listener."""
    stores = PostgresStore(sending), PostgresStore(receiving, **options)
    world, rings = StoreWorld(stores[0], Clock(), (await stores[0].store_time()).epoch), Rings()
    stores[1].on_wake(rings)
    await world.renew("one")
    await stores[1].store_time()
    yield world, stores[1], rings
    for store in stores:
        await store.close()


async def test_without_a_listener_no_connection_is_opened_for_notifications(server: PostgresServer, other: Any) -> None:
    store = PostgresStore(server.url)
    await store.store_time()
    assert await other.fetchval("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'") == 0
    store.on_wake(lambda: None)
    await store.store_time()
    assert await other.fetchval("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'") == 1
    assert (await store.about()).notifications == "listening"
    await store.close()


async def test_after_the_connection_was_cut_everybody_is_notified_once_and_of_all_that_comes(server: PostgresServer, other: Any) -> None:
    async with two_stores(server.url, server.url) as (world, store, rings):
        assert (await store.about()).notifications == "listening"
        before = rings.count
        await other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'")
        await rings.more_than(before)
        before = rings.count
        with suppress(StoreUnavailable):  # the first call may find its connection cut
            await world.open(key("lost"))
        await world.open(key())
        await rings.more_than(before)


async def test_many_commits_at_once_are_notified_together(server: PostgresServer, other: Any) -> None:
    count = 100
    async with two_stores(server.url, server.url) as (world, _, rings):
        before = await other.fetchval("SELECT last_value FROM perdure.wake_count")
        await asyncio.gather(*(world.open(key(str(number))) for number in range(count)))
        await rings.more_than(0)
        assert await other.fetchval("SELECT last_value FROM perdure.wake_count") - before < count


async def test_what_was_committed_just_before_a_store_is_closed_is_notified(server: PostgresServer, other: Any) -> None:
    async with two_stores(server.url, server.url) as (_, _, rings):
        for number in range(20):
            before, short = rings.count, PostgresStore(server.url)
            world = StoreWorld(short, Clock(), (await short.store_time()).epoch)
            await world.post(plain_message(key(), str(number)))
            await short.close()
            await rings.more_than(before)


async def test_a_commit_does_not_wait_for_its_notification(server: PostgresServer, other: Any) -> None:
    async with two_stores(server.url, server.url) as (world, _, rings):
        await world.open(key("first"))
        await rings.more_than(0)
        async with other.transaction():
            await other.execute("ALTER SEQUENCE perdure.wake_count OWNED BY NONE")  # until this ends, nothing can be counted
            before = rings.count
            async with asyncio.timeout(5):
                await world.open(key())
            assert rings.count == before
        await rings.more_than(before)


async def test_behind_a_pooler_a_store_polls(pooler: str, server: PostgresServer, other: Any) -> None:
    async with two_stores(pooler, pooler) as (world, store, rings):
        assert (await store.about()).notifications == "polling"
        for number in range(3):
            before = rings.count
            async with asyncio.timeout(SOON_S):
                await world.open(key(str(number)))
                await rings.more_than(before)


async def test_with_a_direct_url_past_the_pooler_a_store_listens(pooler: str, server: PostgresServer, other: Any) -> None:
    async with two_stores(pooler, pooler, direct_url=server.url) as (world, store, rings):
        assert (await store.about()).notifications == "listening"
        await world.open(key())
        await rings.more_than(0)


async def test_who_polls_notices_a_transaction_that_commits_long_after_it_has_notified(pooler: str, server: PostgresServer, other: Any) -> None:
    async with two_stores(server.url, pooler) as (_, store, rings):
        assert (await store.about()).notifications == "polling"
        async with other.transaction():
            await other.execute("INSERT INTO perdure.programs VALUES ('late')")
            await other.execute("SELECT nextval('perdure.wake_count')")
            await rings.more_than(0)
        before = rings.count
        async with asyncio.timeout(SOON_S):
            await rings.more_than(before)


async def test_where_a_proxy_swallows_notifications_a_store_polls(server: PostgresServer, other: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifications, "PROBE_S", 0.3)
    async with swallowing_proxy(server.url) as url, two_stores(server.url, url) as (world, store, rings):
        assert (await store.about()).notifications == "polling"
        before = rings.count
        async with asyncio.timeout(SOON_S):
            await world.open(key())
            await rings.more_than(before)


def test_a_poll_finds_what_was_counted_and_goes_on_until_the_transactions_of_then_have_ended() -> None:
    poll = NotificationPoll()

    def look(wakes: int, news: int, ended_before: int, begun_before: int) -> list[str]:
        return poll.changed({WAKE_CHANNEL: wakes, CHANGE_CHANNEL: news}, ended_before, begun_before)

    assert look(5, 5, 10, 10) == []
    assert look(5, 5, 12, 14) == []
    assert look(6, 5, 12, 14) == [WAKE_CHANNEL]
    assert look(6, 6, 12, 15) == [CHANGE_CHANNEL, WAKE_CHANNEL]
    assert look(6, 6, 14, 20) == [WAKE_CHANNEL, CHANGE_CHANNEL]
    assert look(6, 6, 20, 20) == [CHANGE_CHANNEL]
    assert look(6, 6, 20, 20) == []


@asynccontextmanager
async def swallowing_proxy(server_url: str) -> AsyncIterator[str]:
    """A proxy before a server that passes all messages on but notifications."""
    (there,) = parse_qs(urlsplit(server_url).query)["host"]
    tasks = set[asyncio.Task[None]]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        from_server, to_server = await asyncio.open_unix_connection(f"{there}/.s.PGSQL.5432")
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await asyncio.gather(_pass(reader, to_server), _pass_but_notifications(from_server, writer))
        for one in (writer, to_server):
            one.close()

    with tempfile.TemporaryDirectory(prefix="perdure-") as directory:
        async with await asyncio.start_unix_server(serve, Path(directory) / ".s.PGSQL.5432"):
            yield server_url.replace(there, directory)
            for task in tuple(tasks):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(2**16):
        writer.write(data)
    raise EOFError if writer.is_closing() else asyncio.IncompleteReadError(b"", None)


async def _pass_but_notifications(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        head = await reader.readexactly(5)
        body = await reader.readexactly(int.from_bytes(head[1:]) - 4)
        if head[:1] != b"A":
            writer.write(head + body)
