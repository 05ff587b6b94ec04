"""The Postgres store does what every store must, on a real server."""

import sys
from collections.abc import Iterator

import asyncpg  # type: ignore[import-untyped]  # it has no types
import pytest

from perdure.core.errors import ProgrammingError, StoreUnavailable
from perdure.stores.base import Committed, Post, Store
from perdure.stores.postgres import PostgresStore
from perdure.testing.conformance import Clock, StoreConformance
from perdure.testing.conformance.world import key, opening
from tests.stores.servers import Server, postgres
from tests.stores.shared import SharedStore


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with postgres() as server:
        yield server


class TestPostgresStore(StoreConformance, SharedStore):
    """Both suites."""

    @pytest.fixture(autouse=True)
    async def _server(self, server: Server) -> None:
        self.server = server
        await empty(server)

    async def make(self, clock: Clock) -> Store:
        return PostgresStore(self.server.url, clock)

    def open(self) -> Store:
        return PostgresStore(self.server.url)


async def empty(server: Server) -> None:
    """Leave nothing in the tables. (Deleting the little there is takes a tenth of the time of making them anew.)"""
    connection = await asyncpg.connect(server.url)
    if await connection.fetchval("SELECT to_regclass('perdure.meta')"):
        for table in ("heads", "log", "mail", "holders", "blobs", "queues", "lanes"):
            await connection.execute(f"DELETE FROM perdure.{table}")
        await connection.execute("UPDATE perdure.meta SET epoch = 1")
    await connection.close()


async def test_a_database_that_is_not_there_is_said_to_be_so(server: Server) -> None:
    with pytest.raises(StoreUnavailable, match='database "other" does not exist; look whether'):
        await PostgresStore(server.url.replace("/postgres?", "/other?")).moment()


@pytest.mark.real
async def test_a_commit_may_open_more_executions_than_postgres_has_locks(server: Server) -> None:
    await empty(server)
    store = PostgresStore(server.url)
    (answer,) = await store.commit([Post(sends=tuple(opening(key(str(number))) for number in range(10_000)))])
    assert isinstance(answer, Committed) and len(answer.created) == 10_000
    await store.close()


def test_without_asyncpg_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(ProgrammingError, match=r'pip install "perdure\[postgres\]"'):
        PostgresStore("postgresql://nowhere")
