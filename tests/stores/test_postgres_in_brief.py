"""What each run of the tests has of the Postgres store: its commits, and a walk beside the memory store. `test_postgres_store` has all, for `make real`."""

from collections.abc import Iterator
from pathlib import Path

import asyncpg  # type: ignore[import-untyped]  # it has no types
import pytest

from perdure.stores.postgres.store import PostgresStore
from perdure.stores.protocol import Store
from perdure.testing.conformance import Clock, StoreConformance
from perdure.testing.conformance.commit_suite import CommitSuite
from tests.stores import test_differential as walk
from tests.stores.servers import PostgresServer, postgres
from tests.stores.test_differential_servers import PostgresTwin
from tests.stores.test_postgres_store import empty

pytestmark = pytest.mark.slow

OPERATIONS = 80
"""Not so many that each kind of operation has happened: that is for `make real`."""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres() as server:
        yield server


class TestPostgresCommits(CommitSuite):
    """One of the suites."""

    world = StoreConformance.world

    @pytest.fixture(autouse=True)
    async def _server(self, server: PostgresServer) -> None:
        self.server = server
        await empty(server)

    async def make(self, clock: Clock) -> Store:
        return PostgresStore(self.server.url, clock)


async def test_postgres_does_what_memory_does_for_a_while(server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = await asyncpg.connect(server.url)
    await connection.execute("DROP SCHEMA IF EXISTS perdure CASCADE")
    await connection.close()
    monkeypatch.setattr(walk, "SqliteStore", lambda _file, clock, **_settings: PostgresTwin(server.url, clock))
    monkeypatch.setattr(walk.Twins, "missing", "")
    await walk.compare_stores(7, Path(), OPERATIONS)
