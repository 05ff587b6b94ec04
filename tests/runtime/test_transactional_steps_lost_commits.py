"""Claims about steps in a transaction in Postgres whose commit gets lost, is late, or is ended because of another: each is there once, and settles."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg  # type: ignore[import-untyped]  # it has no types
import pytest

from perdure import Context, ExecutionCancelled, Retry, Transaction, step, workflow
from perdure.runtime.engine import Engine
from perdure.runtime.worker import Worker
from perdure.stores.postgres.store import PostgresStore
from perdure.sync_client import AsyncClient
from tests.stores.postgres_proxy import Loss, Proxy, proxied
from tests.stores.servers import DatabaseServer, postgres
from tests.stores.test_postgres_store import empty

pytestmark = pytest.mark.slow

tries: list[str] = []


@step(transaction=True, retry=Retry(max=1))
async def pay(tx: Transaction, account: str) -> str:
    tries.append(account)
    await tx.execute("INSERT INTO payments VALUES ($1)", account)
    return account


@pay.undo(transaction=True)
async def pay_back(tx: Transaction, result: str, account: str) -> None:
    tries.append(f"{account} back")
    await tx.execute("DELETE FROM payments WHERE account = $1", account)


@workflow
async def pays(ctx: Context, account: str, waits: bool = False, place: str = "") -> str:
    paid = await ctx.step(pay.with_(queue=place) if place else pay, account)
    if waits:
        await ctx.listen("never")
    return paid


@step(transaction=True, retry=Retry(max=1))
async def swap(tx: Transaction, first: str, second: str) -> None:
    await tx.execute("UPDATE accounts SET cents = cents + 1 WHERE account = $1", first)
    tries.append(first)
    while len(tries) < 2:
        await asyncio.sleep(0.001)
    await tx.execute("UPDATE accounts SET cents = cents + 1 WHERE account = $1", second)


@workflow
async def swaps(ctx: Context, first: str, second: str) -> None:
    await ctx.step(swap, first, second)


@step(transaction=True, retry=Retry(max=1))
async def contended(tx: Transaction) -> int:
    tries.append("contended")
    await tx.execute("INSERT INTO payments VALUES ($1)", f"{len(tries)}")
    if len(tries) < 3:
        await tx.execute("DO $$ BEGIN RAISE EXCEPTION 'not now' USING ERRCODE = 'serialization_failure'; END $$")
    return len(tries)


@workflow
async def contends(ctx: Context) -> int:
    return await ctx.step(contended)


@pytest.fixture(scope="module")
def running_server() -> Iterator[DatabaseServer]:
    with postgres() as server:
        yield server


@pytest.fixture
async def server(running_server: DatabaseServer) -> DatabaseServer:
    tries.clear()
    store = PostgresStore(running_server.url)
    _ = await store.store_time()
    await store.close()
    await empty(running_server)
    other = await asyncpg.connect(running_server.url)
    await other.execute("DROP TABLE IF EXISTS payments, accounts; CREATE TABLE payments (account text); CREATE TABLE accounts (account text, cents int)")
    await other.execute("INSERT INTO accounts VALUES ('ada', 0), ('bob', 0)")
    await other.close()
    return running_server


@pytest.fixture
async def client(server: DatabaseServer) -> AsyncIterator[AsyncClient]:
    """It is not behind the proxy."""
    store = PostgresStore(server.url)
    async with AsyncClient(store) as client:
        yield client
    await store.close()


@pytest.fixture
async def proxy(server: DatabaseServer) -> AsyncIterator[Proxy]:
    async with proxied(server.url, b"INSERT INTO payments") as proxy:
        yield proxy


async def rows(server: DatabaseServer, sql: str = "SELECT account FROM payments ORDER BY account") -> list[Any]:
    other = await asyncpg.connect(server.url)
    found = [row[0] for row in await other.fetch(sql)]
    await other.close()
    return found


@asynccontextmanager
async def engine(url: str) -> AsyncIterator[Engine]:
    store = PostgresStore(url)
    running = Engine(store, [pays.code, swaps.code, contends.code])
    task = asyncio.create_task(running.run())
    await running.ready()
    try:
        yield running
    finally:
        running.stop()
        await task
        await store.close()


@pytest.mark.parametrize("losses", [["commit"], ["answer"], ["commit", "commit", "answer"]])
async def test_a_commit_that_was_lost_is_made_again_and_one_whose_answer_was_lost_is_not(
    server: DatabaseServer, client: AsyncClient, proxy: Proxy, losses: list[Loss], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with engine(proxy.url):
            proxy.losses += losses
            assert await (await client.start(pays, "ada")).result("10s") == "ada"
    assert proxy.lost == losses and await rows(server) == ["ada"]
    assert len(tries) == losses.count("commit") + 1, "one try, however often it was carried out"
    assert "the store is unavailable: Postgres: " in caplog.text


@pytest.mark.parametrize("loss", ["commit", "answer"])
async def test_so_it_is_for_a_worker(server: DatabaseServer, client: AsyncClient, proxy: Proxy, loss: Loss) -> None:
    async with engine(server.url):
        store = PostgresStore(proxy.url)
        worker = Worker(store, [pay], queues=["bank"])
        task = asyncio.create_task(worker.run())
        proxy.losses.append(loss)
        assert await (await client.start(pays, "ada", place="bank")).result("10s") == "ada"
        worker.stop()
        await task
        await store.close()
    assert proxy.lost == [loss] and await rows(server) == ["ada"] and len(tries) == (2 if loss == "commit" else 1)


async def test_an_engine_that_stops_while_it_commits_leaves_the_answer_to_the_next(server: DatabaseServer, client: AsyncClient, proxy: Proxy) -> None:
    async with engine(proxy.url) as stopping:
        proxy.losses.append("late")
        handle = await client.start(pays, "ada")
        await proxy.held.wait()
        stopping.stop(0)
    async with engine(server.url):
        await asyncio.sleep(0.2)
        assert tries == ["ada"], "the next does not begin before it is known what became of it"
        proxy.go.set()
        assert await handle.result("10s") == "ada"
    assert await rows(server) == ["ada"] and tries == ["ada"]


async def test_a_cancel_that_comes_while_it_commits_undoes_it(server: DatabaseServer, client: AsyncClient, proxy: Proxy) -> None:
    async with engine(proxy.url):
        proxy.losses.append("late")
        handle = await client.start(pays, "ada", waits=True)
        await proxy.held.wait()
        cancel = asyncio.create_task(handle.cancel())
        await asyncio.sleep(0.1)
        proxy.go.set()
        await cancel
        with pytest.raises(ExecutionCancelled):
            await handle.result("10s")
    assert await rows(server) == [] and tries == ["ada", "ada back"], "it was written, so it was undone"


async def test_of_two_steps_that_wait_for_each_other_both_settle_in_their_first_try(server: DatabaseServer, client: AsyncClient) -> None:
    async with engine(server.url):
        handles = [await client.start(swaps, *both) for both in (("ada", "bob"), ("bob", "ada"))]
        for handle in handles:
            await handle.result("20s")
    assert await rows(server, "SELECT cents FROM accounts") == [2, 2] and len(tries) == 3


async def test_a_step_that_could_not_be_serialized_is_carried_out_again_in_the_same_try(server: DatabaseServer, client: AsyncClient) -> None:
    async with engine(server.url):
        assert await (await client.start(contends)).result("10s") == 3
    assert await rows(server) == ["3"]
