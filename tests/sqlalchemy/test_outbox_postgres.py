"""The outbox on Postgres: relays share the rows instead of posting each several times, with sync and async drivers."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy", reason="SQLAlchemy is not installed")
pytest.importorskip("psycopg", reason="psycopg is not installed")

from sqlalchemy import Engine, MetaData, create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from perdure import App, Context, Signal, workflow
from perdure.core.errors import BadValue
from perdure.sqlalchemy import SqlalchemyOutbox
from tests.stores.servers import DatabaseServer, postgres

pytestmark = pytest.mark.real
packed = Signal("packed", str)


@workflow
async def order(ctx: Context, number: int) -> str:
    box = await ctx.listen(packed)
    return f"{number} in {box}"


@pytest.fixture(scope="module")
def server() -> Iterator[DatabaseServer]:
    with postgres() as server:
        yield server


@pytest.fixture
def outbox(server: DatabaseServer) -> Iterator[SqlalchemyOutbox]:
    engine = create_engine(f"postgresql+psycopg://perdure@/postgres?host={server.directory}")
    metadata = MetaData()
    outbox = SqlalchemyOutbox(engine, metadata)
    metadata.drop_all(engine)
    metadata.create_all(engine)
    yield outbox
    engine.dispose()


def test_orders_are_started_with_their_messages(tmp_path: Path, outbox: SqlalchemyOutbox) -> None:
    assert isinstance(outbox.engine, Engine)
    with App([order], db=f"sqlite:///{tmp_path}/perdure.db", outbox=outbox) as shop:
        with Session(outbox.engine) as session, session.begin():
            handles = [shop.start(order.with_(id=f"o{number}", connection=session), number) for number in range(250)]
            for handle in handles:
                handle.send(packed, "a box", connection=session)
        assert [handle.result(timeout="30s") for handle in handles] == [f"{number} in a box" for number in range(250)]
        with Session(outbox.engine) as session:
            never = shop.start(order.with_(id="never", connection=session), 1)
            session.rollback()
        with outbox.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection, pytest.raises(BadValue, match="commits by itself"):
            shop.start(order.with_(connection=connection), 1)
        assert not shop.client.list(id_prefix=never.id)


async def test_an_async_engine_relays(tmp_path: Path, server: DatabaseServer, outbox: SqlalchemyOutbox) -> None:
    engine = create_async_engine(f"postgresql+asyncpg://perdure@/postgres?host={server.directory}")
    async with App([order], db=f"sqlite:///{tmp_path}/perdure.db", outbox=SqlalchemyOutbox(engine)) as app:
        async with AsyncSession(engine) as session, session.begin():
            handle = await app.start(order.with_(id="o1", connection=session), 1)
            await handle.send(packed, "a box", connection=session)
        assert await handle.result(timeout="30s") == "1 in a box"
    await engine.dispose()


async def test_relays_skip_the_rows_that_another_one_has(tmp_path: Path, outbox: SqlalchemyOutbox) -> None:
    assert isinstance(outbox.engine, Engine)
    with App([order], db=f"sqlite:///{tmp_path}/perdure.db", outbox=outbox, engine=False) as shop, Session(outbox.engine) as session, session.begin():
        for number in range(150):
            shop.start(order.with_(id=f"o{number}", connection=session), number)
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        with pytest.raises(asyncio.CancelledError):
            async with outbox.batch(one):
                raise asyncio.CancelledError
        async with outbox.batch(one) as first, outbox.batch(other) as second:
            assert [len(first.rows), len(second.rows)] == [100, 50], "a batch that was cancelled has given its rows back"
            assert not {row.number for row in first.rows} & {row.number for row in second.rows}
        async with outbox.batch(one) as rest:
            assert rest.rows == []
