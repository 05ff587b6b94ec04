"""Claims about starts and messages in a transaction of the user's in Postgres: what becomes of it when it gets lost, and who waits for whom meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg  # type: ignore[import-untyped]  # it has no types
import pytest

from perdure import Context, Queue, Signal, workflow
from perdure.core.errors import BadValue, WrongVerb
from perdure.core.paths import Key
from perdure.runtime.engine import Engine
from perdure.stores.postgres.schema_maintenance import open_schema
from perdure.stores.postgres.store import PostgresStore
from perdure.sync_client import AsyncClient, Client
from tests.runtime.transaction_drivers import TransactionDriver, caller, needed
from tests.stores.postgres_proxy import Loss, proxied
from tests.stores.servers import DatabaseServer, postgres
from tests.stores.test_postgres_store import empty

pytestmark = pytest.mark.real

approved = Signal("approved", bool)


@workflow
async def order(ctx: Context, name: str) -> str:
    await ctx.listen(approved)
    return f"{name} is sold"


@pytest.fixture(scope="module")
def running_server() -> Iterator[DatabaseServer]:
    with postgres() as server:
        yield server


@pytest.fixture
async def server(running_server: DatabaseServer) -> DatabaseServer:
    await empty(running_server)
    connection = await asyncpg.connect(running_server.url)
    await connection.execute("DROP TABLE IF EXISTS orders; CREATE TABLE orders (name text)")
    await connection.close()
    return running_server


@pytest.fixture
async def store(server: DatabaseServer) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(server.url)
    _ = await store.store_time()
    yield store
    await store.close()


@pytest.fixture
async def client(store: PostgresStore) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(store) as client:
        yield client


@pytest.fixture
async def user(server: DatabaseServer) -> AsyncIterator[TransactionDriver]:
    async with caller("asyncpg", server.url) as user:
        yield user


@pytest.fixture
async def second(server: DatabaseServer) -> AsyncIterator[TransactionDriver]:
    async with caller("asyncpg", server.url) as second:
        yield second


async def ids(client: AsyncClient) -> list[str]:
    return sorted(one.key.id for one in await client.list())


async def turns(task: "asyncio.Task[Any]") -> bool:
    """Whether others go on while this waits."""
    await asyncio.sleep(0.1)
    return not task.done()


@asynccontextmanager
async def engine(store: PostgresStore, **settings: Any) -> AsyncIterator[Engine]:
    running = Engine(store, [order.code], **settings)
    task = asyncio.create_task(running.run())
    await running.ready()
    try:
        yield running
    finally:
        running.stop()
        await task


# What becomes of a transaction that gets lost.


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg", "psycopg async", "sqlalchemy asyncpg session"])
@pytest.mark.parametrize("loss", ["commit", "answer"])
async def test_who_has_lost_a_commit_or_its_answer_makes_it_again_and_it_is_there_once(
    server: DatabaseServer, client: AsyncClient, loss: Loss, driver: str
) -> None:
    """As whoever buys does, who can't know which of the two was lost: the row has a key of its own, the execution its id, the message its key."""
    needed(driver)
    other = await asyncpg.connect(server.url)
    await other.execute("CREATE UNIQUE INDEX ON orders (name)")

    async def buys(url: str) -> bool:
        async with caller(driver, url) as user:
            await user.execute("INSERT INTO orders VALUES ('book') ON CONFLICT DO NOTHING")
            handle = await client.start(order.with_(id="book", connection=user.given), "book")
            await handle.send(approved, True, key="paid", connection=user.given)
            await user.commit()
            return handle.created

    async with proxied(server.url, b"INSERT INTO orders") as proxy:
        proxy.losses.append(loss)
        with pytest.raises(Exception, match=r"(?i)clos|lost|terminat|abort|unexpectedly|connection"):
            await buys(proxy.url)
        assert proxy.lost == [loss]
        assert await ids(client) == (["book"] if loss == "answer" else [])
        assert await buys(proxy.url) is (loss == "commit")
        assert await buys(server.url) is False
    assert await ids(client) == ["book"] and await other.fetchval("SELECT count(*) FROM orders") == 1
    assert [mail.key for mail in await client._access.on_store("a test").store.messages(Key("default", "order", "book"))] == ["start", "message:paid"]
    await other.close()


async def test_of_a_caller_who_is_cut_off_before_the_commit_nothing_is_left_and_nobody_waits(server: DatabaseServer, client: AsyncClient) -> None:
    async with caller("asyncpg", server.url) as user:
        await client.start(order.with_(id="o1", connection=user.given), "book")
        user.given.terminate()
    async with asyncio.timeout(5):
        assert (await client.start(order.with_(id="o1"), "pen")).created


async def test_a_transaction_that_has_failed_is_refused_until_it_is_rolled_back(client: AsyncClient, user: TransactionDriver) -> None:
    with pytest.raises(asyncpg.PostgresError):
        await user.execute("SELECT 1 / 0")
    with pytest.raises(BadValue, match="an earlier database error has aborted it; roll it back, and repeat it"):
        await client.start(order.with_(id="o1", connection=user.given), "a")
    await user.rollback()
    await user.begin()
    await client.start(order.with_(id="o1", connection=user.given), "a")
    await user.commit()
    assert await ids(client) == ["o1"]


async def test_one_that_may_only_read_is_told_so_by_postgres(client: AsyncClient, user: TransactionDriver) -> None:
    await user.execute("SET TRANSACTION READ ONLY")
    with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
        await client.start(order.with_(id="o1", connection=user.given), "a")
    await user.rollback()
    assert await ids(client) == []


async def test_a_role_that_may_not_use_perdure_s_tables_is_told_what_it_needs(server: DatabaseServer, client: AsyncClient) -> None:
    other = await asyncpg.connect(server.url)
    await other.execute("CREATE ROLE web LOGIN")
    async with caller("asyncpg", server.url.replace("perdure@", "web@")) as user:
        with pytest.raises(BadValue, match=r"the role web' is not allowed to use Perdure's tables; .*perdure db grants ROLE --for transaction"):
            await client.start(order.with_(id="o1", connection=user.given), "a")
        async with open_schema(server.url) as opened:
            await opened.grant(await opened.grants("web", "transaction"))
        await user.rollback()
        await user.begin()
        handle = await client.start(order.with_(id="o1", connection=user.given), "a")
        await handle.send(approved, True, connection=user.given)
        await user.commit()
    assert await ids(client) == ["o1"]
    await other.execute("DROP OWNED BY web; DROP ROLE web")
    await other.close()


# How it is set up.


async def test_what_the_session_has_set_stays_whether_it_succeeds_or_not(client: AsyncClient, user: TransactionDriver) -> None:
    await user.execute("CREATE TABLE IF NOT EXISTS public.heads (number text)")  # called like one of the store's
    await user.execute("SET search_path = pg_temp, public")
    await client.start(order.with_(id="o1", strict=True, connection=user.given), "book")
    with pytest.raises(Exception, match="o1"):
        await client.start(order.with_(id="o1", strict=True, connection=user.given), "pen")
    assert await user.given.fetchval("SELECT current_setting('search_path')") == "pg_temp, public"
    assert await user.given.fetchval("SELECT count(*) FROM heads") == 0, "the user's own"
    await user.commit()
    assert await user.given.fetchval("SELECT current_setting('search_path')") == "pg_temp, public" and await ids(client) == ["o1"]
    await user.execute("DROP TABLE public.heads")


async def test_what_a_savepoint_takes_back_takes_the_start_with_it(client: AsyncClient, user: TransactionDriver) -> None:
    await user.execute("SAVEPOINT one")
    await client.start(order.with_(id="o1", connection=user.given), "book")
    await user.execute("ROLLBACK TO SAVEPOINT one")
    assert (await client.start(order.with_(id="o2", connection=user.given), "pen")).created
    await user.commit()
    assert await ids(client) == ["o2"]


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
async def test_one_that_does_not_see_what_others_have_done_is_refused_by_postgres_and_may_be_repeated(
    client: AsyncClient, user: TransactionDriver, level: str
) -> None:
    for again in range(2):
        await user.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
        await user.execute("SELECT count(*) FROM orders")  # from here on it sees nothing of others
        if not again:
            await client.start(order.with_(id="o1"), "book")
            with pytest.raises(asyncpg.SerializationError):
                await client.start(order.with_(id="o1", connection=user.given), "pen")
            await user.rollback()
            await user.begin()
    assert not (await client.start(order.with_(id="o1", connection=user.given), "pen")).created
    await user.commit()


async def test_a_queue_whose_limits_the_store_does_not_know_yet_is_refused(client: AsyncClient, user: TransactionDriver) -> None:
    narrow = Queue("narrow", concurrency=1)
    with pytest.raises(BadValue, match=r"declared in the store with these limits yet.*without connection="):
        await client.start(order.with_(queue=narrow, connection=user.given), "a")
    await user.rollback()
    await client.start(order.with_(id="o1", queue=narrow), "a")
    await user.begin()
    await client.start(order.with_(id="o2", queue=narrow, connection=user.given), "b")
    await user.commit()
    assert [(one.name, one.executions_waiting) for one in await client.queues()] == [("narrow", 2)]


# Who waits for whom.


@pytest.mark.parametrize("ends", ["commit", "rollback"])
async def test_who_starts_the_same_id_waits_until_it_is_known_what_became_of_it(
    client: AsyncClient, user: TransactionDriver, second: TransactionDriver, ends: str
) -> None:
    await client.start(order.with_(id="o1", connection=user.given), "book")
    waits = asyncio.create_task(client.start(order.with_(id="o1", connection=second.given), "pen"))
    assert await turns(waits)
    await getattr(user, ends)()
    assert (await waits).created is (ends == "rollback")
    await second.commit()
    assert await ids(client) == ["o1"]


@pytest.mark.parametrize("driver", ["psycopg", "sqlalchemy psycopg", "sqlalchemy psycopg session"])
async def test_who_waits_on_a_connection_without_a_loop_keeps_the_store_s_loop_turning(
    client: AsyncClient, user: TransactionDriver, server: DatabaseServer, driver: str
) -> None:
    """Else it would wait for ever: what it waits for is on this loop."""
    await client.start(order.with_(id="o1", connection=user.given), "book")
    async with caller(driver, server.url) as second:
        waits = asyncio.create_task(client.start(order.with_(id="o1", connection=second.given), "pen"))
        assert await turns(waits)
        await user.commit()
        assert not (await waits).created
        await second.rollback()


async def test_an_engine_goes_on_with_all_others_while_a_transaction_is_open(
    server: DatabaseServer, store: PostgresStore, client: AsyncClient, user: TransactionDriver
) -> None:
    async with engine(store):
        first, other = await client.start(order.with_(id="o1"), "book"), await client.start(order.with_(id="o2"), "pen")
        while (await first.status()).status != "waiting":
            await asyncio.sleep(0.01)
        await first.send(approved, True, connection=user.given)
        await other.send(approved, True)
        assert await other.result("5s") == "pen is sold"
        assert (await first.status()).status == "waiting"
        await user.commit()
        assert await first.result("5s") == "book is sold"


async def test_of_two_that_wait_for_each_other_postgres_ends_one_which_may_be_repeated(
    client: AsyncClient, user: TransactionDriver, second: TransactionDriver
) -> None:
    users = {"o1": user, "o2": second}
    for id, one in users.items():
        await client.start(order.with_(id=id, connection=one.given), "book")
    crossing = [client.start(order.with_(id=other, connection=users[id].given), "pen") for id, other in (("o1", "o2"), ("o2", "o1"))]
    tasks = [asyncio.create_task(one) for one in crossing]
    done, waits = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    assert {type(task.exception()) for task in done} == {asyncpg.DeadlockDetectedError} and len(waits) == 1
    loser, winner = (user, second) if tasks[0] in done else (second, user)
    await loser.rollback()
    assert (await waits.pop()).created
    await winner.commit()
    await loser.begin()
    assert not (await client.start(order.with_(id="o1", connection=loser.given), "book")).created
    await loser.commit()
    assert await ids(client) == ["o1", "o2"]


# Sync clients.


@pytest.fixture
def sync_client(server: DatabaseServer) -> Iterator[Client]:
    store = PostgresStore(server.url)
    with Client(store) as client:
        yield client
        client._thread.call(store.close())


def test_a_sync_client_uses_a_connection_in_the_caller_s_thread(server: DatabaseServer, sync_client: Client) -> None:
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
    with psycopg.connect(server.url) as connection:
        handle = sync_client.start(order.with_(id="o1", connection=connection), "book")
        handle.send(approved, True, connection=connection)
        assert sync_client.list() == []
        connection.commit()
        assert [one.key.id for one in sync_client.list()] == ["o1"]


async def test_a_sync_client_may_be_used_on_a_loop_that_is_not_the_store_s(server: DatabaseServer, sync_client: Client) -> None:
    """As in a notebook."""
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
    with psycopg.connect(server.url) as connection:
        sync_client.start(order.with_(id="o1", connection=connection), "book")
        connection.commit()
        assert [one.key.id for one in sync_client.list()] == ["o1"]


async def test_a_sync_client_refuses_a_connection_that_belongs_to_a_loop(sync_client: Client, user: TransactionDriver) -> None:
    with pytest.raises(WrongVerb, match=r"belongs to an event loop\. Use an AsyncClient there"):
        sync_client.start(order.with_(connection=user.given), "book")


async def test_a_change_of_all_waits_for_the_transaction_and_nobody_is_lost(store: PostgresStore, client: AsyncClient, user: TransactionDriver) -> None:
    """An epoch begins when nothing is under way."""
    await client.start(order.with_(id="o1", connection=user.given), "book")
    raising = asyncio.create_task(store.raise_epoch())
    assert await turns(raising)
    await user.commit()
    assert await raising == 2 and await ids(client) == ["o1"]
