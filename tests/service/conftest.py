"""The stores that tests of what is kept in records run on."""

from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from perdure.service.store_access import StoreAccess
from perdure.stores.memory import MemoryStore
from perdure.stores.postgres.store import PostgresStore
from perdure.stores.protocol import Store
from perdure.stores.sqlite.store import SqliteStore
from tests.stores.servers import postgres


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.real)])
async def access(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[StoreAccess]:
    """A new store of each kind."""
    with ExitStack() as servers:
        store: Store
        match request.param:
            case "memory":
                store = MemoryStore()
            case "sqlite":
                store = SqliteStore(tmp_path / "catalog.db")
            case _:
                store = PostgresStore(servers.enter_context(postgres()).url)
        found = StoreAccess(store)
        yield found
        await found.aclose()
        await store.close()
