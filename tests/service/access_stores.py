"""The stores on which access control is tested: memory and a file for each run, Postgres for `make real`."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from perdure.stores.memory import MemoryStore
from perdure.stores.postgres.store import PostgresStore
from perdure.stores.protocol import Post, Store
from perdure.stores.sqlite.store import SqliteStore
from perdure.testing.conformance import Clock
from tests.stores.servers import postgres

STORES = ["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.real)]


@asynccontextmanager
async def opened_store(kind: str, directory: Path, clock: Clock) -> AsyncIterator[Store]:
    """A store of a kind, empty and in the time of `clock`."""
    for url in _servers(kind):
        store: Store = (
            MemoryStore(clock) if kind == "memory" else SqliteStore(directory / "access.db", clock) if kind == "sqlite" else PostgresStore(url, clock)
        )
        try:
            yield store
        finally:
            await store.close()


def _servers(kind: str) -> Iterator[str]:
    if kind != "postgres":
        yield ""
        return
    with postgres() as server:
        yield server.url


class CountedStore:
    """A store that counts the records that are read through it, and has the posts that were made."""

    def __init__(self, inner: Store) -> None:
        self.inner, self.reads, self.posts = inner, 0, list[Post]()

    def __getattr__(self, name: str) -> object:
        found = getattr(self.inner, name)
        if name == "record":
            self.reads += 1
        return found

    async def commit(self, changes: list[Post]) -> object:
        self.posts += changes
        return await self.inner.commit(changes)
