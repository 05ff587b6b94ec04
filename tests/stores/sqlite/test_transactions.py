"""Transactions of users on SQLite do what they do on every store that has them."""

import asyncio
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from perdure.stores.protocol import Committed, Post, TransactionRaised
from perdure.stores.sqlite.store import SqliteStore
from perdure.stores.sqlite.transactional_steps import PERDURE_TABLES
from perdure.testing.conformance import Clock, StoreWorld
from perdure.testing.conformance.store_world import key
from tests.stores.user_transaction_suite import TransactingStore, guard, transact, writes


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

    async def test_a_step_whose_statement_rolls_everything_back_fails_alone(self, world: StoreWorld) -> None:
        """SQLite then ends the transaction, in which there are changes of others."""
        sql = "INSERT OR ROLLBACK INTO words VALUES ('bad')"
        answers = await asyncio.gather(*(transact(world, guard(), writes(word, sql=sql if word == "bad" else "")) for word in ("a", "bad", "c")))
        assert [type(answer) for answer in answers] == [Committed, TransactionRaised, Committed]
        assert isinstance(answers[1].error, sqlite3.IntegrityError)
        assert await self.words() == ["a", "c"] and sorted(await world.keys(key())) == ["answer a", "answer c", "start"]

    async def test_a_step_can_not_go_on_after_its_transaction_was_rolled_back(self, world: StoreWorld) -> None:
        async def goes_on(transaction: Any) -> Post:
            with suppress(sqlite3.IntegrityError):
                await transaction.execute("INSERT OR ROLLBACK INTO words VALUES ('a'), ('a')")
            await transaction.execute("INSERT INTO words VALUES ('alone')")
            return Post()

        answer = await transact(world, guard(), goes_on)
        assert isinstance(answer, TransactionRaised) and "had rolled its transaction back" in str(answer.error)
        assert await self.words() == []
        assert isinstance(await transact(world, guard(), writes("b")), Committed)

    @pytest.mark.parametrize(
        "sql",
        [
            "CREATE TRIGGER t AFTER INSERT ON heads BEGIN DELETE FROM mail; END",
            "CREATE TEMP TRIGGER t AFTER INSERT ON main.heads BEGIN DELETE FROM words; END",
            "ALTER TABLE heads ADD COLUMN x",
            "ALTER TABLE log RENAME TO other",
            "CREATE INDEX i ON log (execution)",
            "DROP TABLE mail",
        ],
    )
    async def test_a_step_changes_no_schema_of_perdure_s_tables(self, world: StoreWorld, sql: str) -> None:
        answer = await transact(world, guard(), writes("a", sql=sql))
        assert isinstance(answer, TransactionRaised) and "not authorized" in str(answer.error), answer
        assert await self.words() == []
