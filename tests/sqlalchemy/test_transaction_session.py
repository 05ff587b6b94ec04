"""Claims about SQLAlchemy within transactional steps: its writes and the step's outcome are one commit, on SQLite and on Postgres."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]  # it has no types
import pytest
from sqlalchemy import JSON, insert, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from perdure import AsyncClient, Context, ExecutionFailed, Retry, Transaction, step, workflow
from perdure.core.errors import BadValue
from perdure.runtime.engine import Engine
from perdure.sqlalchemy import connection_on, session_on
from perdure.stores.postgres.store import PostgresStore
from perdure.stores.sqlite.database_setup import create_beside_application_tables
from perdure.stores.sqlite.store import SqliteStore
from tests.stores.postgres_clusters import pgbouncer
from tests.stores.servers import PostgresServer, postgres


class Base(DeclarativeBase):
    """The models of a user."""


class Order(Base):
    """An order."""

    __tablename__ = "orders"
    number: Mapped[int] = mapped_column(primary_key=True)
    data: Mapped[dict[str, Any]] = mapped_column(JSON)


TABLE = "CREATE TABLE orders (number INTEGER PRIMARY KEY, data JSON)"


@step(transaction=True, retry=Retry(max=1))
async def place(tx: Transaction, number: int, how: str) -> list[Any]:
    """Place an order, and return all orders."""
    async with session_on(tx) as session:
        session.add(Order(number=number, data={"lines": [number]}))
        if how == "commits by itself":
            await session.commit()
        await session.flush()
        found = [[one.number, one.data] for one in (await session.scalars(select(Order).order_by(Order.number))).all()]
        if how == "rolls back":
            await session.rollback()
        if how == "fails":
            raise ValueError("no")
    if how == "fails later":
        raise ValueError("no")
    return found


@step(transaction=True, retry=Retry(max=1))
async def place_twice(tx: Transaction) -> list[int]:
    """Go on after an error, by a savepoint."""
    async with session_on(tx) as session:
        await session.execute(insert(Order).values(number=1, data={}))
        try:
            async with session.begin_nested():
                await session.execute(insert(Order).values(number=1, data={}))
        except IntegrityError:
            await session.execute(insert(Order).values(number=2, data={}))
    async with connection_on(tx) as connection:
        return [int(one) for one in (await connection.scalars(select(Order.number).order_by(Order.number))).all()]


@step(transaction=True)
async def read_raw(tx: Transaction) -> list[Any]:
    """What the driver gives, after a session and without one."""
    return [type(await tx.fetchval("SELECT data FROM orders")).__name__]


@workflow
async def order(ctx: Context, number: int, how: str = "") -> list[Any]:
    return await ctx.step(place, number, how)


@workflow
async def order_twice(ctx: Context) -> list[int]:
    return await ctx.step(place_twice)


@workflow
async def order_and_read(ctx: Context) -> list[Any]:
    await ctx.step(place, 1, "")
    return await ctx.step(read_raw)


class Shop:
    """A store with the table of a user in its database."""

    def __init__(self, store: Any, rows: Any) -> None:
        self.store, self.rows = store, rows

    async def run(self, code: Any, *given: Any, id: str = "x") -> Any:
        """The result of one execution."""
        engine = Engine(self.store, [order.code, order_twice.code, order_and_read.code])
        running = asyncio.create_task(engine.run())
        try:
            async with AsyncClient(self.store) as client:
                return await client.run(code.with_(id=id), *given)
        finally:
            engine.stop()
            await running


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres() as server:
        yield server


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.real)])
async def shop(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Shop]:
    if request.param == "sqlite":
        file = tmp_path / "shop.db"
        with closing(sqlite3.connect(file)) as connection:
            connection.execute(TABLE)
        create_beside_application_tables(file)
        store: Any = SqliteStore(file)

        async def rows() -> list[int]:
            with closing(sqlite3.connect(file)) as connection:
                return [one for (one,) in connection.execute("SELECT number FROM orders ORDER BY number")]

        yield Shop(store, rows)
        await store.close()
        return
    server = request.getfixturevalue("server")
    other = await asyncpg.connect(server.url)
    await other.execute(f"DROP SCHEMA IF EXISTS perdure CASCADE; DROP TABLE IF EXISTS orders; {TABLE}")
    store = PostgresStore(server.url)

    async def numbers() -> list[int]:
        return [row[0] for row in await other.fetch("SELECT number FROM orders ORDER BY number")]

    yield Shop(store, numbers)
    await store.close()
    await other.close()


@pytest.mark.parametrize("how", ["", "commits by itself"])
async def test_what_a_session_writes_is_there_with_the_outcome(shop: Shop, how: str) -> None:
    assert await shop.run(order, 1, how, id="a") == [[1, {"lines": [1]}]]
    assert await shop.run(order, 1, how, id="a") == [[1, {"lines": [1]}]], "the outcome is recorded"
    assert await shop.rows() == [1]


@pytest.mark.parametrize("how", ["fails", "fails later"])
async def test_what_a_failed_step_wrote_is_gone_even_after_a_commit_of_the_session(shop: Shop, how: str) -> None:
    with pytest.raises(ExecutionFailed, match="no"):
        await shop.run(order, 1, how)
    assert await shop.rows() == []
    assert await shop.run(order, 2, id="y") == [[2, {"lines": [2]}]], "the connection can be used again"


async def test_a_session_that_is_rolled_back_leaves_nothing(shop: Shop) -> None:
    if isinstance(shop.store, SqliteStore):
        with pytest.raises(ExecutionFailed, match="which SQLite can't do for a part of the step"):
            await shop.run(order, 1, "rolls back")
    else:
        assert await shop.run(order, 1, "rolls back") == [[1, {"lines": [1]}]]
    assert await shop.rows() == []


async def test_savepoints_are_those_of_postgres(shop: Shop) -> None:
    if isinstance(shop.store, SqliteStore):
        with pytest.raises(ExecutionFailed, match="not authorized"):
            await shop.run(order_twice)
        assert await shop.rows() == []
    else:
        assert await shop.run(order_twice) == [1, 2] == await shop.rows()


async def test_other_steps_see_json_as_before(shop: Shop) -> None:
    assert await shop.run(order_and_read) == ["str"]


async def test_only_the_transaction_of_a_step_is_accepted() -> None:
    class Other:
        connection = object()

    with pytest.raises(BadValue, match="the transaction of a step with transaction=True"):
        async with session_on(Other()):  # type: ignore[arg-type]  # the mistake that is tested
            pass


@pytest.mark.real
async def test_by_a_pooler_in_transaction_mode_sessions_of_many_steps_do_not_meet(server: PostgresServer) -> None:
    other = await asyncpg.connect(server.url)
    await other.execute(f"DROP SCHEMA IF EXISTS perdure CASCADE; DROP TABLE IF EXISTS orders; {TABLE}")
    with pgbouncer(server, default_pool_size=2) as pooler:
        store = PostgresStore(pooler.url)
        engine = Engine(store, [order.code])
        running = asyncio.create_task(engine.run())
        async with AsyncClient(store) as client:
            await asyncio.gather(*(client.run(order.with_(id=str(number)), number) for number in range(12)))
        engine.stop()
        await running
        await store.close()
    assert await other.fetchval("SELECT count(*) FROM orders") == 12
    await other.close()
