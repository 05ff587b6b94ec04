"""Claims about steps in a transaction, on every store that has them: what they write is there exactly if they have settled, whoever dies or is late."""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]  # it has no types
import pytest

from perdure import Context, DeadlineExceeded, ExecutionCancelled, ExecutionFailed, Fatal, Retry, Transaction, step, workflow
from perdure.core.errors import BadValue
from perdure.core.messages import CancelMessage
from perdure.runtime.engine import Engine
from perdure.runtime.worker import Worker
from perdure.stores.memory import MemoryStore
from perdure.stores.postgres.store import PostgresStore
from perdure.stores.protocol import Commit
from perdure.stores.sqlite.store import SqliteStore
from perdure.sync_client import AsyncClient
from tests.stores.servers import DatabaseServer, postgres
from tests.stores.test_postgres_store import empty

pytestmark = pytest.mark.slow

tries: list[int] = []


@pytest.fixture(autouse=True)
def _nothing_tried() -> None:
    tries.clear()


@step(transaction=True, retry=Retry(max=4, wait=0.01))
async def pay(tx: Transaction, account: str, cents: int, fails: int = 0) -> int:
    tries.append(cents)
    await tx.execute("INSERT INTO payments VALUES ($1, $2)", account, cents)
    if len(tries) <= fails:
        raise OSError("not yet")
    total: int = await tx.fetchval("SELECT sum(cents) FROM payments WHERE account = $1", account)
    return total


@workflow
async def pays(ctx: Context, account: str, cents: int, fails: int = 0) -> int:
    return await ctx.step(pay, account, cents, fails)


@workflow
async def pays_on_queue(ctx: Context, account: str, cents: int) -> int:
    return await ctx.step(pay.with_(queue="bank"), account, cents)


class Bank:
    """A database with a table of payments, in which a store may be opened."""

    def __init__(self, file: Path, server: DatabaseServer | None) -> None:
        self.file, self._server = file, server

    def open(self) -> Any:
        """A store in it."""
        return SqliteStore(self.file, synchronous="OFF") if self._server is None else PostgresStore(self._server.url)

    async def make(self) -> None:
        """Make the table."""
        store = self.open()
        _ = await store.store_time()
        await store.close()
        if self._server is None:
            with closing(sqlite3.connect(self.file)) as connection:
                connection.execute("CREATE TABLE payments (account TEXT, cents INTEGER)")
                connection.commit()
        else:
            await empty(self._server)
            other = await asyncpg.connect(self._server.url)
            await other.execute("DROP TABLE IF EXISTS payments; CREATE TABLE payments (account text, cents int)")
            await other.close()

    async def rows(self) -> list[tuple[str, int]]:
        """All payments, the smallest first."""
        sql = "SELECT account, cents FROM payments ORDER BY cents"
        if self._server is None:
            with closing(sqlite3.connect(self.file)) as connection:
                return connection.execute(sql).fetchall()
        other = await asyncpg.connect(self._server.url)
        found = [tuple(row) for row in await other.fetch(sql)]
        await other.close()
        return found


@pytest.fixture(scope="module")
def server() -> Iterator[DatabaseServer]:
    with postgres() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgres"])
async def bank(request: pytest.FixtureRequest, tmp_path: Path) -> Bank:
    bank = Bank(tmp_path / "perdure.db", request.getfixturevalue("server") if request.param == "postgres" else None)
    await bank.make()
    return bank


@pytest.fixture
async def file_bank(tmp_path: Path) -> Bank:
    bank = Bank(tmp_path / "perdure.db", None)
    await bank.make()
    return bank


@asynccontextmanager
async def engine(bank: Bank, *workflows: Any, **options: Any) -> AsyncIterator[tuple[Any, Engine]]:
    """An engine on the bank's store."""
    store = bank.open()
    running = Engine(store, [one.code for one in workflows], **options)
    task = asyncio.create_task(running.run())
    await running.ready()
    try:
        yield store, running
    finally:
        running.stop()
        await task
        await store.close()


@pytest.mark.parametrize("idle_s", [60.0, 0.0])
async def test_what_a_step_writes_is_there_once_it_has_settled(bank: Bank, idle_s: float) -> None:
    async with engine(bank, pays, idle_s=idle_s) as (store, _), AsyncClient(store) as client:
        assert [await client.run(pays, "ada", cents) for cents in (1, 2, 4)] == [1, 3, 7]
    assert await bank.rows() == [("ada", 1), ("ada", 2), ("ada", 4)]


async def test_what_a_failed_try_wrote_is_gone(bank: Bank) -> None:
    async with engine(bank, pays) as (store, _), AsyncClient(store) as client:
        assert await client.run(pays, "ada", 5, 2) == 5
        with pytest.raises(ExecutionFailed, match="not yet"):
            await client.run(pays, "ada", 6, 99)
    assert await bank.rows() == [("ada", 5)] and tries == [5, 5, 5, 6, 6, 6, 6]


async def test_many_at_once_each_count_once(bank: Bank) -> None:
    async with engine(bank, pays) as (store, _), AsyncClient(store) as client:
        results = await asyncio.gather(*(client.run(pays, "ada", 1) for _ in range(50)))
    assert len(results) == len(await bank.rows()) == 50
    if bank.file.exists():  # there, one after the other
        assert sorted(results) == list(range(1, 51))


async def test_a_worker_answers_in_the_transaction_of_the_step(bank: Bank) -> None:
    async with engine(bank, pays_on_queue) as (store, _), AsyncClient(store) as client:
        worker = Worker(store, [pay], queues=["bank"])
        task = asyncio.create_task(worker.run())
        assert [await client.run(pays_on_queue, "ada", cents) for cents in (1, 2)] == [1, 3]
        worker.stop()
        await task
    assert await bank.rows() == [("ada", 1), ("ada", 2)]


@pytest.mark.parametrize(
    "sql",
    [
        "COMMIT",
        "ROLLBACK",
        "SAVEPOINT x",
        "DELETE FROM mail",
        "UPDATE heads SET version = 0",
        "DROP TABLE log",
        "PRAGMA foreign_keys = ON",
        "INSERT INTO Meta SELECT * FROM meta",
    ],
)
async def test_the_end_of_the_transaction_and_perdure_s_tables_are_not_the_user_s(file_bank: Bank, sql: str) -> None:
    @step(transaction=True, retry=Retry(max=1))
    async def breaks_out(tx: Transaction) -> None:
        await tx.execute("INSERT INTO payments VALUES ('eve', 1)")
        await tx.execute(sql)

    @workflow
    async def breaks(ctx: Context) -> None:
        await ctx.step(breaks_out)

    async with engine(file_bank, breaks) as (store, _), AsyncClient(store) as client:
        with pytest.raises(ExecutionFailed, match=r"not authorized|prohibited"):
            await client.run(breaks)
        assert await client.list(status="failed")
    assert await file_bank.rows() == []


async def test_a_query_sees_what_was_written_before_it_and_perdure_s_own_tables(file_bank: Bank) -> None:
    @step(transaction=True)
    async def looks(tx: Transaction) -> list[Any]:
        await tx.executemany("INSERT INTO payments VALUES ($1, $2)", [("a", 1), ("b", 2)])
        found = await tx.fetch("SELECT account, cents FROM payments ORDER BY cents")
        row = await tx.fetchrow("SELECT count(*) AS n FROM heads")
        return [[one["account"] for one in found], row["n"], await tx.fetchrow("SELECT 1 WHERE 0"), await tx.fetchval("SELECT 1 WHERE 0")]

    @workflow
    async def look(ctx: Context) -> list[Any]:
        return await ctx.step(looks)

    async with engine(file_bank, look) as (store, _), AsyncClient(store) as client:
        assert await client.run(look) == [["a", "b"], 1, None, None]


async def test_a_step_that_waits_for_something_else_in_its_transaction_fails_and_says_why(file_bank: Bank) -> None:
    @step(transaction=True)
    async def waits(tx: Transaction) -> None:
        await tx.execute("INSERT INTO payments VALUES ('eve', 1)")
        await asyncio.sleep(1)

    @workflow
    async def wait(ctx: Context) -> None:
        await ctx.step(waits)

    async with engine(file_bank, wait) as (store, _), AsyncClient(store) as client:
        with pytest.raises(ExecutionFailed, match="awaited something other than its transaction"):
            await client.run(wait)
    assert await file_bank.rows() == []


async def test_a_store_without_transactions_says_so() -> None:
    store = MemoryStore()
    running = Engine(store, [pays.code])
    task = asyncio.create_task(running.run())
    await running.ready()
    async with AsyncClient(store) as client:
        with pytest.raises(ExecutionFailed, match="which this store does not offer to steps"):
            await client.run(pays, "ada", 1)
    running.stop()
    await task


def test_only_an_async_function_is_given_a_transaction() -> None:
    with pytest.raises(BadValue, match="make it async, with the transaction first"):

        @step(transaction=True)  # type: ignore[arg-type]  # that is the claim
        def plain(tx: Transaction) -> None:
            """It could not be awaited."""


async def test_a_fatal_error_is_not_tried_again(bank: Bank) -> None:
    @step(transaction=True)
    async def refuses(tx: Transaction) -> None:
        await tx.execute("INSERT INTO payments VALUES ('eve', 1)")
        raise Fatal("never")

    @workflow
    async def refuse(ctx: Context) -> str:
        outcome = await ctx.attempt(refuses)
        return f"{getattr(outcome, 'kind', '')} {getattr(outcome, 'attempts', 0)}"

    async with engine(bank, refuse) as (store, _), AsyncClient(store) as client:
        assert await client.run(refuse) == "fatal 1"
    assert await bank.rows() == []


async def test_who_takes_over_finds_the_answer_of_a_transaction_before_anything_else(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    async with engine(bank, pays, lease_s=60.0) as (store, first), AsyncClient(store) as client:
        claim = first._claim

        async def claim_until_begun() -> None:
            """Claims nothing once the step has begun, so the engine never hears of the answer."""
            await (asyncio.sleep(0.01) if tries else claim())

        monkeypatch.setattr(first, "_claim", claim_until_begun)
        handle = await client.start(pays, "ada", 5)
        while not await bank.rows():
            await asyncio.sleep(0.01)
        await store.renew(first.holder, 0)  # it is taken for dead
        second = Engine(store, [pays.code])
        running = asyncio.create_task(second.run())
        assert await handle.result("10s") == 5
        second.stop()
        await running
    assert await bank.rows() == [("ada", 5)] and tries == [5]


async def test_neither_a_deadline_nor_a_cancel_comes_between_a_transaction_and_its_answer(bank: Bank) -> None:
    @step(transaction=True, retry=Retry(max=3, wait=0.01))
    async def slow(tx: Transaction, number: int) -> None:
        await tx.execute("INSERT INTO payments VALUES ('ada', $1)", number)
        tries.append(number)
        time.sleep(0.05)  # noqa: ASYNC251  # it holds up everything, as it does for real

    @slow.undo(transaction=True)
    async def back(tx: Transaction, result: None, number: int) -> None:
        await tx.execute("DELETE FROM payments WHERE cents = $1", number)

    @workflow
    async def slowly(ctx: Context, number: int) -> None:
        await ctx.step(slow, number)
        await ctx.listen("never")

    async with engine(bank, slowly) as (store, _), AsyncClient(store) as client:
        handles = [await client.start(slowly.with_(id=str(number), deadline=0.02), number) for number in range(5)]
        handles += [await client.start(slowly.with_(id=str(number)), number) for number in range(5, 10)]
        await asyncio.sleep(0.01)
        for handle in handles[5:]:
            await handle.cancel()
        for handle in handles:
            with pytest.raises((DeadlineExceeded, ExecutionCancelled)):
                await handle.result("10s")
    assert await bank.rows() == [] and len(set(tries)) == len(tries), "what was written was undone, and nothing was written twice"


async def test_a_cancel_that_a_worker_s_transaction_has_overtaken_comes_after_it(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    @step(transaction=True, queue="bank")
    async def book(tx: Transaction, cents: int) -> int:
        await tx.execute("INSERT INTO payments VALUES ('ada', $1)", cents)
        tries.append(cents)
        return cents

    @book.undo(transaction=True)
    async def back(tx: Transaction, result: int, cents: int) -> None:
        await tx.execute("DELETE FROM payments WHERE cents = $1", result)
        tries.append(-cents)

    @workflow
    async def books(ctx: Context) -> None:
        await ctx.step(book, 5)
        await ctx.listen("never")

    async with engine(bank, books) as (store, _), AsyncClient(store) as client:
        commit, worker = store.commit, Worker(store, [book], queues=["bank"])
        working: list[asyncio.Task[None]] = []

        async def is_overtaken(changes: Any) -> Any:
            if not working and any(isinstance(change, Commit) and any(ack.answer for ack in change.acks) for change in changes):
                working.append(asyncio.create_task(worker.run()))
                while not await bank.rows():
                    await asyncio.sleep(0.01)
            return await commit(changes)

        monkeypatch.setattr(store, "commit", is_overtaken)
        try:
            handle = await client.start(books)
            while (await handle.status()).status != "waiting":
                await asyncio.sleep(0.01)
            await handle.cancel()
            with pytest.raises(ExecutionCancelled):
                await handle.result("5s")
        finally:
            worker.stop()
            await asyncio.gather(*working)
    assert await bank.rows() == [] and tries == [5, -5]


async def test_what_comes_while_its_answer_is_decided_on_is_done_next(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    @workflow
    async def pays_and_waits(ctx: Context) -> None:
        await ctx.step(pay, "ada", 5)
        await ctx.listen("never")

    async with engine(bank, pays_and_waits) as (store, running), AsyncClient(store) as client:
        commit = store.commit

        async def is_overtaken(changes: Any) -> Any:
            answers = await commit(changes)
            if tries and any(isinstance(change, Commit) for change in changes):  # it has settled, but the engine does not know it yet
                monkeypatch.setattr(store, "commit", commit)
                await handle.cancel()
                while not any(isinstance(item.message, CancelMessage) for resident in running._residents for item in resident.undecided):
                    await asyncio.sleep(0.001)
            return answers

        monkeypatch.setattr(store, "commit", is_overtaken)
        handle = await client.start(pays_and_waits)
        with pytest.raises(ExecutionCancelled):
            await handle.result("5s")


@pytest.mark.parametrize("options", [{"timeout": "1s"}, {"heartbeat": "1s"}])
def test_a_transaction_has_no_timeout_and_says_so(options: dict[str, Any]) -> None:
    with pytest.raises(BadValue, match="keep it short"):

        @step(transaction=True, **options)
        async def slow(tx: Transaction) -> None:
            """It would be left half done."""
