"""Transactions of users on SQLite do what they do on every store that has them."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from perdure.stores.sqlite.store import SqliteStore
from perdure.stores.sqlite.transactional_steps import PERDURE_TABLES
from perdure.testing.conformance import Clock, StoreWorld
from perdure.testing.conformance.store_world import key
from tests.stores.user_transaction_suite import TransactingStore


class TestSqliteTransactions(TransactingStore):
    """The suite."""

    @pytest.fixture
    async def world(self, file: Path) -> StoreWorld:
        clock, self.file = Clock(), file
        store = SqliteStore(file, clock, synchronous="OFF")
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("CREATE TABLE words (word TEXT UNIQUE)")
            connection.commit()
        it = StoreWorld(store, clock, (await store.store_time()).epoch)
        await it.renew("one", "two")
        await it.open(key())
        assert await it.claimed("one") == [key()]
        return it

    async def words(self) -> list[str]:
        with closing(sqlite3.connect(self.file)) as connection:
            return [word for (word,) in connection.execute("SELECT word FROM words ORDER BY word")]

    async def test_what_is_let_alone_are_all_tables_of_perdure_s(self, world: StoreWorld) -> None:
        with closing(sqlite3.connect(self.file)) as connection:
            found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            assert {name for (name,) in found} - {"words", "sqlite_sequence"} == PERDURE_TABLES
