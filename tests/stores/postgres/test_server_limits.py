"""Claims about a Postgres that can't do what it is asked to: a full disk, a standby, no connection left, statements and sessions that it ends early.

The error names the cause, engines wait, and when there is room again everything ends as if nothing had been.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg  # type: ignore[import-untyped]  # it has no types
import pytest

from perdure.core.errors import StoreUnavailable
from perdure.core.paths import Key
from perdure.stores.postgres.store import PostgresStore
from perdure.sync_client import AsyncClient
from tests.stores.postgres.fault_rows import UNHARMED, write_row
from tests.stores.postgres.lives import client_on, engine_on, examine, lead, ledger, result_of_life, stored
from tests.stores.postgres_clusters import failover_pair, postgres_on_small_disk, promote
from tests.stores.servers import PostgresServer, postgres

pytestmark = pytest.mark.real

LIVES = 10
DISK_MB = 140
UNTIL_S = 60.0
LARGE_BYTES = 200_000


@pytest.fixture(autouse=True)
def _ledger() -> None:
    ledger.clear()


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with postgres(max_connections=20) as server:
        yield server


class Lives:
    """Executions that are led to their ends while something is wrong."""

    def __init__(self, client: AsyncClient) -> None:
        self._tasks = [asyncio.create_task(lead(client, str(number), number)) for number in range(LIVES)]

    async def results(self) -> list[Any]:
        """What they return."""
        async with asyncio.timeout(UNTIL_S):
            return await asyncio.gather(*self._tasks)

    async def end(self, fault: str, url: str, note: str = "") -> None:
        """Hold them to what they must come to, and write the row of the fault."""
        results = await self.results()
        verdict = await examine(url, [Key("default", "life", str(number)) for number in range(LIVES)])
        write_row(fault, 1, verdict, note or f"{LIVES} executions")
        assert verdict == UNHARMED and results == [result_of_life(number) for number in range(LIVES)]


@asynccontextmanager
async def lives_on(url: str) -> AsyncIterator[Lives]:
    """An engine, a client, and executions that have begun or wait until they can."""
    async with engine_on(PostgresStore(url)), client_on(url) as client:
        yield Lives(client)


async def until(holds: Callable[[], object]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(UNTIL_S):
        while not holds():
            await asyncio.sleep(0.02)


async def started_until_refused(client: AsyncClient) -> tuple[list[str], str]:
    """The ids of executions that were started, and the error of the first that could not be."""
    acknowledged: list[str] = []
    while True:
        id = f"{len(acknowledged)}"
        try:
            await client.start(stored.with_(id=id), os.urandom(LARGE_BYTES).hex())
        except StoreUnavailable as error:
            return acknowledged, str(error)
        acknowledged.append(id)


async def all_connections(server: PostgresServer) -> list[asyncpg.Connection]:
    """As many connections as the server still gives."""
    others = []
    while True:
        try:
            others.append(await asyncpg.connect(server.url))
        except asyncpg.TooManyConnectionsError:
            return others


@pytest.mark.parametrize("wal_apart", [True, False], ids=["tables", "write-ahead log"])
async def test_a_full_disk_is_named_and_when_there_is_room_everything_goes_on(wal_apart: bool) -> None:
    with postgres_on_small_disk(DISK_MB, wal_apart=wal_apart) as (server, disk):
        async with client_on(server.url) as client:
            await client.start(stored.with_(id="before"), "x")
            disk.fill()
            acknowledged, refused = await started_until_refused(client)
            if wal_apart:
                assert "No space left on device" in refused
            async with lives_on(server.url) as lives:
                await asyncio.sleep(0.5)
                disk.empty()
                if not wal_apart:  # Postgres gives up when it can't write its log; whoever makes room starts it again.
                    server.start()
                await lives.end(f"full disk: {'tables' if wal_apart else 'write-ahead log'}", server.url)
            there = {head.key.id for head in await client.list(workflow="stored", limit=10_000)}
            assert there >= {"before", *acknowledged}


async def test_on_a_standby_the_error_says_so_and_when_it_is_promoted_everything_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    with failover_pair() as pair, caplog.at_level(logging.WARNING):
        for _ in (0, 1):  # with and without Perdure's tables
            store = PostgresStore(pair.standby.url)
            with pytest.raises(StoreUnavailable, match=r"read-only|recovery|standby"):
                await store.renew("one", 60)
            await store.close()
            async with client_on(pair.primary.url) as client:
                await client.start(stored.with_(id="there"), "x")
        async with lives_on(pair.standby.url) as lives:
            await until(lambda: "the store is unavailable" in caplog.text)
            assert ledger == []
            pair.primary.kill()
            promote(pair.standby)
            await lives.end("read-only standby by mistake", pair.standby.url)


async def test_while_others_have_all_connections_the_error_says_so_and_then_everything_goes_on(
    server: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    others = await all_connections(server)
    with pytest.raises(StoreUnavailable, match=r"too many clients|connection slots"):
        await PostgresStore(server.url).store_time()
    with caplog.at_level(logging.WARNING):
        async with lives_on(server.url) as lives:
            await until(lambda: "the store is unavailable" in caplog.text)
            for other in others:
                await other.close()
            await lives.end("no connection left", server.url)


async def test_engines_that_have_connections_go_on_while_others_take_all_the_rest(server: PostgresServer) -> None:
    async with engine_on(PostgresStore(server.url)), client_on(server.url) as client:
        await lead(client, "first", 1)
        others = await all_connections(server)
        lives = Lives(client)
        await lives.results()
        for other in others:
            await other.close()
        await lives.end("others take all connections that are left", server.url)


async def test_statements_that_take_too_long_are_ended_and_repeated(server: PostgresServer, caplog: pytest.LogCaptureFixture) -> None:
    async with client_on(server.url) as client:
        await client.start(stored.with_(id="there"), "x")
    server.configure(statement_timeout="100ms")  # which Perdure's sessions replace by their own
    with caplog.at_level(logging.WARNING):
        async with lives_on(f"{server.url}&perdure_statement_timeout=0.3") as lives:
            blocker = await asyncpg.connect(server.url)
            for _ in range(3):
                async with blocker.transaction():
                    await blocker.execute("SET LOCAL statement_timeout = 0; LOCK TABLE perdure.heads")
                    await asyncio.sleep(1.0)
                await asyncio.sleep(0.1)
            await blocker.close()
            await lives.end("statement_timeout, tables locked for longer", server.url)
    assert "the store is unavailable" in caplog.text


@pytest.mark.parametrize("setting", ["idle_session_timeout", "idle_in_transaction_session_timeout", "lock_timeout"])
async def test_sessions_and_locks_that_the_server_ends_early_cost_nothing(server: PostgresServer, setting: str) -> None:
    server.configure(**{setting: "50ms"})
    async with lives_on(server.url) as lives:
        await asyncio.sleep(1.0)
        await lives.end(f"{setting} of 50 ms", server.url)
