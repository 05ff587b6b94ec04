"""Claims about starts and messages in a transaction of the user's, by each driver on each database: there with its commit, gone with its rollback, and once."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]  # it has no types
import pytest

from perdure import Context, InputDiffers, Signal, workflow
from perdure.core.errors import BadValue
from perdure.core.limits import BLOB_BYTES_MIN
from perdure.runtime.engine import Engine
from perdure.stores.payload_codec import Compressed
from perdure.stores.postgres.store import PostgresStore
from perdure.stores.sqlite.store import SqliteStore
from perdure.sync_client import AsyncClient
from tests.runtime.transaction_drivers import ON_POSTGRES, ON_SQLITE, TransactionDriver, caller, needed
from tests.stores.servers import DatabaseServer, postgres
from tests.stores.test_postgres_store import empty

pytestmark = pytest.mark.slow

approved = Signal("approved", bool)
TABLE = "CREATE TABLE orders (name TEXT)"
INSERT = "INSERT INTO orders VALUES ('book')"


@workflow
async def order(ctx: Context, name: str) -> str:
    await ctx.listen(approved)
    return f"{name} is sold"


@pytest.fixture(scope="module")
def server() -> Iterator[DatabaseServer]:
    with postgres() as server:
        yield server


class OrderDatabase:
    """A database with a table of orders, at `place`: a file, or the URL of a server."""

    def __init__(self, place: str) -> None:
        self.place = place

    def open(self) -> Any:
        """A store in it."""
        return PostgresStore(self.place) if self.place.startswith("postgresql:") else SqliteStore(Path(self.place))

    async def make(self) -> None:
        """Make the table."""
        store = self.open()
        _ = await store.store_time()
        await store.close()
        if self.place.startswith("postgresql:"):
            other = await asyncpg.connect(self.place)
            await other.execute(f"DROP TABLE IF EXISTS orders; {TABLE}")
            await other.close()
        else:
            with closing(sqlite3.connect(self.place)) as connection:
                connection.execute(TABLE)
                connection.commit()

    async def other(self, directory: Path) -> str:
        """The place of an empty database which is not this one."""
        if not self.place.startswith("postgresql:"):
            return str(directory / "other.db")
        connection = await asyncpg.connect(self.place)
        await connection.execute("DROP DATABASE IF EXISTS other")
        await connection.execute("CREATE DATABASE other")
        await connection.close()
        return self.place.replace("/postgres?", "/other?")

    async def sold(self) -> int:
        """How many orders there are."""
        sql = "SELECT count(*) FROM orders"
        if self.place.startswith("postgresql:"):
            other = await asyncpg.connect(self.place)
            found: int = await other.fetchval(sql)
            await other.close()
            return found
        with closing(sqlite3.connect(self.place)) as connection:
            (found,) = connection.execute(sql).fetchone()
            return found


DRIVERS = (*ON_SQLITE, *ON_POSTGRES)


@pytest.fixture
async def shop(driver: str, request: pytest.FixtureRequest, tmp_path: Path) -> OrderDatabase:
    needed(driver)
    if driver in ON_SQLITE:
        shop = OrderDatabase(str(tmp_path / "shop.db"))
    else:
        server: DatabaseServer = request.getfixturevalue("server")
        await empty(server)
        shop = OrderDatabase(server.url)
    await shop.make()
    return shop


@pytest.fixture
async def client(shop: OrderDatabase) -> AsyncIterator[AsyncClient]:
    async with opened(shop) as store, AsyncClient(store) as client:
        yield client


@pytest.fixture
async def user(shop: OrderDatabase, driver: str) -> AsyncIterator[TransactionDriver]:
    async with caller(driver, shop.place) as user:
        yield user


@asynccontextmanager
async def opened(shop: OrderDatabase) -> AsyncIterator[Any]:
    """A store in the shop."""
    store = shop.open()
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def running(store: Any, **settings: Any) -> AsyncIterator[Engine]:
    """An engine that does orders."""
    engine = Engine(store, [order.code], **settings)
    task = asyncio.create_task(engine.run())
    await engine.ready()
    try:
        yield engine
    finally:
        engine.stop()
        await task


async def ids(client: AsyncClient) -> list[str]:
    return sorted(one.key.id for one in await client.list())


@pytest.mark.parametrize("driver", DRIVERS)
class TestEveryDriver:
    """What holds by each of them."""

    async def test_what_is_started_and_sent_is_there_with_the_commit_and_gone_with_the_rollback(
        self, client: AsyncClient, user: TransactionDriver, shop: OrderDatabase
    ) -> None:
        for ends in (user.rollback, user.commit):
            await user.execute(INSERT)
            handle = await client.start(order.with_(id="o1", connection=user.given), "book")
            await handle.send(approved, True, connection=user.given)
            assert handle.created and await ids(client) == [], "nobody else sees it yet"
            await ends()
            if ends == user.rollback:
                assert await ids(client) == [] and await shop.sold() == 0
                await user.begin()
        assert await ids(client) == ["o1"] and await shop.sold() == 1
        async with running(client._access.on_store("a test").store):
            assert await (await client.get("o1", order)).result("10s") == "book is sold"

    async def test_what_is_started_and_sent_twice_counts_once(self, client: AsyncClient, user: TransactionDriver) -> None:
        """In one transaction, and in the next: as after a commit whose answer was lost."""
        for number in range(2):
            for again in range(2):
                handle = await client.start(order.with_(id="o1", connection=user.given), "book")
                assert handle.created is (number == again == 0)
                await handle.send(approved, True, key="k", connection=user.given)
            await user.commit()
            await user.begin()
        assert await ids(client) == ["o1"]
        assert [mail.key for mail in await client._access.on_store("a test").store.messages(handle.key)] == ["start", "message:k"]

    async def test_what_fails_leaves_nothing_and_the_transaction_as_it_was(self, client: AsyncClient, user: TransactionDriver, shop: OrderDatabase) -> None:
        await user.execute(INSERT)
        await client.start(order.with_(id="o1", strict=True, connection=user.given), "book")
        with pytest.raises(InputDiffers):
            await client.start(order.with_(id="o1", strict=True, connection=user.given), "pen")
        await user.execute(INSERT)
        await user.commit()
        assert await ids(client) == ["o1"] and await shop.sold() == 2

    async def test_names_and_payloads_of_any_kind_go_the_same_way(self, shop: OrderDatabase, user: TransactionDriver) -> None:
        async with opened(shop) as store, AsyncClient(store, codec=Compressed()) as client:
            names = {"a\\b\0c": "x", "ä\n$1%s?:p": "y" * (2 * BLOB_BYTES_MIN), "'\"": "\0"}
            for id, name in names.items():
                await client.start(order.with_(id=id, attributes={"name": id, "of": 5}, connection=user.given), name)
            await user.commit()
            await user.begin()
            assert await ids(client) == sorted(names)
            assert {one.attributes["name"]: one.attributes["of"] for one in await client.list()} == dict.fromkeys(names, 5)
            for id, name in names.items():
                assert not (await client.start(order.with_(id=id, strict=True, connection=user.given), name)).created, "what was kept is what was given"
            await user.commit()

    async def test_others_begin_soon_after_the_commit(self, client: AsyncClient, shop: OrderDatabase, user: TransactionDriver) -> None:
        """They look once in a minute only, so they must have been rung."""
        async with opened(shop) as store, running(store, poll_s=60.0):
            await asyncio.sleep(0.05)
            handle = await client.start(order.with_(connection=user.given), "book")
            await handle.send(approved, True, connection=user.given)
            await asyncio.sleep(0.1)
            await user.commit()
            assert await handle.result("5s") == "book is sold"

    async def test_a_connection_that_commits_by_itself_is_refused(self, client: AsyncClient, shop: OrderDatabase, driver: str) -> None:
        async with caller(driver, shop.place, autocommit=True) as user:
            with pytest.raises(BadValue, match=r"commits by itself; .*commit afterwards"):
                await client.start(order.with_(id="o1", connection=user.given), "a")
        assert await ids(client) == []

    async def test_a_closed_connection_is_refused(self, client: AsyncClient, user: TransactionDriver, driver: str) -> None:
        if "session" in driver:
            pytest.skip("a closed session of SQLAlchemy begins anew")
        await user.close()
        with pytest.raises(Exception, match=r"is not open any more; connect again|closed|released") as refused:
            await client.start(order.with_(id="o1", connection=user.given), "a")
        assert isinstance(refused.value, BadValue) or driver == "asyncpg pool" or driver.startswith("sqlalchemy"), "these say so themselves"

    async def test_a_connection_to_another_database_is_refused(self, client: AsyncClient, shop: OrderDatabase, driver: str, tmp_path: Path) -> None:
        other = await shop.other(tmp_path)
        async with caller(driver, other) as user:
            await user.execute(TABLE)
            await user.execute(INSERT)
            with pytest.raises(BadValue, match=r"connection=: .*is not .*this client"):
                await client.start(order.with_(id="o1", connection=user.given), "a")
            await user.execute(INSERT)
            await user.commit()
        assert await ids(client) == []
        assert await OrderDatabase(other).sold() == 2, "its transaction goes on"

    async def test_a_database_that_is_not_the_store_s_kind_is_refused(self, client: AsyncClient, driver: str, tmp_path: Path, request: Any) -> None:
        wrong = ("asyncpg", request.getfixturevalue("server").url) if driver in ON_SQLITE else ("sqlite3", str(tmp_path / "other.db"))
        async with caller(*wrong) as user:
            for given in (user.given, object(), "postgresql://", 1):
                with pytest.raises(BadValue, match=r"connection=: .* is not a connection to .*: give a sqlite3, .*SQLAlchemy over one"):
                    await client.start(order.with_(connection=given), "a")
