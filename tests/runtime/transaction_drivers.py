"""Callers: who has a transaction open on the store's database, by each driver that is understood. What they may do is said once, so that claims are for all.

A driver that is not installed is skipped, by its name. Those that belong to no event loop are asked in other threads, as anybody would on a loop.
"""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import pytest

ON_SQLITE = (
    "sqlite3",
    "aiosqlite",
    "sqlalchemy sqlite3",
    "sqlalchemy sqlite3 session",
    "sqlalchemy aiosqlite",
    "sqlalchemy aiosqlite session",
    "django sqlite3",
)
ON_POSTGRES = (
    "asyncpg",
    "asyncpg pool",
    "psycopg",
    "psycopg async",
    "sqlalchemy asyncpg",
    "sqlalchemy asyncpg session",
    "sqlalchemy psycopg",
    "sqlalchemy psycopg session",
    "sqlalchemy psycopg_async",
    "sqlalchemy psycopg_async session",
    "django psycopg",
)

Do = Callable[..., Awaitable[Any]]


class TransactionDriver(NamedTuple):
    """What somebody does with a connection, of which `given` is told to Perdure. Whoever has to begin has begun."""

    given: Any
    execute: Do
    begin: Do
    commit: Do
    rollback: Do
    close: Do


def needed(driver: str) -> Any:
    """The package of a driver; the test is skipped if that, or what it stands on, is not installed."""
    package, _, of = driver.partition(" ")
    below = of.partition(" ")[0] if package == "sqlalchemy" else ""
    for name in filter(None, ("psycopg" if "psycopg" in below else below, package)):
        module = pytest.importorskip(name, reason=f"{name} is not installed")
    return module


@asynccontextmanager
async def caller(driver: str, place: str, *, autocommit: bool = False) -> AsyncIterator[TransactionDriver]:
    """A caller by this driver, to the file or the server's URL `place`."""
    package, _, of = driver.partition(" ")
    module = needed(driver)
    makers = {"sqlite3": _sqlite3, "aiosqlite": _aiosqlite, "asyncpg": _asyncpg, "psycopg": _psycopg, "sqlalchemy": _sqlalchemy, "django": _django}
    async with AsyncExitStack() as until:
        found = await makers[package](until, module, of, place, autocommit)
        if not autocommit:
            await found.begin()
        yield found


async def _nothing() -> None:
    """It begins by itself."""


def _aside(do: Callable[..., Any]) -> Do:
    async def aside(*arguments: Any) -> Any:
        return await asyncio.to_thread(do, *arguments)

    return aside


def _here(do: Callable[..., Any]) -> Do:
    async def here(*arguments: Any) -> Any:
        found = do(*arguments)
        return await found if inspect.isawaitable(found) else found

    return here


async def _sqlite3(until: AsyncExitStack, module: Any, _: str, place: str, autocommit: bool) -> TransactionDriver:
    connection = module.connect(place, isolation_level=None if autocommit else "")
    until.callback(connection.close)
    return TransactionDriver(connection, _here(connection.execute), _nothing, _here(connection.commit), _here(connection.rollback), _here(connection.close))


async def _aiosqlite(until: AsyncExitStack, module: Any, _: str, place: str, autocommit: bool) -> TransactionDriver:
    connection = await module.connect(place, isolation_level=None if autocommit else "")
    until.push_async_callback(connection.close)
    return TransactionDriver(connection, connection.execute, _nothing, connection.commit, connection.rollback, connection.close)


async def _asyncpg(until: AsyncExitStack, module: Any, of: str, place: str, autocommit: bool) -> TransactionDriver:
    if of:
        pool = await module.create_pool(place, min_size=0, max_size=1)
        until.callback(pool.terminate)
        connection = await pool.acquire()
    else:
        connection = await module.connect(place)
        until.callback(connection.terminate)
    execute = connection.execute
    return TransactionDriver(connection, execute, lambda: execute("BEGIN"), lambda: execute("COMMIT"), lambda: execute("ROLLBACK"), connection.close)


async def _psycopg(until: AsyncExitStack, module: Any, of: str, place: str, autocommit: bool) -> TransactionDriver:
    rows = module.rows.dict_row  # not what the store's statements expect
    if of:
        connection = await module.AsyncConnection.connect(place, autocommit=autocommit, row_factory=rows)
        until.push_async_callback(connection.close)
        return TransactionDriver(connection, connection.execute, _nothing, connection.commit, connection.rollback, connection.close)
    connection = await asyncio.to_thread(module.connect, place, autocommit=autocommit, row_factory=rows)
    until.callback(connection.close)
    return TransactionDriver(connection, *map(_aside, (connection.execute, lambda: None, connection.commit, connection.rollback, connection.close)))


async def _sqlalchemy(until: AsyncExitStack, module: Any, of: str, place: str, autocommit: bool) -> TransactionDriver:
    driver, _, session = of.partition(" ")
    url = (
        place.replace("postgresql:", f"postgresql+{driver}:")
        if place.startswith("postgresql:")
        else f"sqlite+{driver.replace('sqlite3', 'pysqlite')}:///{place}"
    )
    options = {"isolation_level": "AUTOCOMMIT"} if autocommit else {}

    def text(execute: Do) -> Do:
        async def executes(sql: str) -> Any:
            return await execute(module.text(sql))

        return executes

    if driver in ("aiosqlite", "asyncpg", "psycopg_async"):
        extension = pytest.importorskip("sqlalchemy.ext.asyncio")
        engine = extension.create_async_engine(url, **options)
        until.push_async_callback(engine.dispose)
        connection = extension.AsyncSession(engine) if session else await engine.connect()
        until.push_async_callback(connection.close)
        return TransactionDriver(connection, text(connection.execute), _nothing, connection.commit, connection.rollback, connection.close)
    engine = module.create_engine(url, **options)
    until.callback(engine.dispose)
    way = _here if driver == "sqlite3" else _aside
    connection = pytest.importorskip("sqlalchemy.orm").Session(engine) if session else await way(engine.connect)()
    until.callback(connection.close)
    return TransactionDriver(connection, text(way(connection.execute)), _nothing, *map(way, (connection.commit, connection.rollback, connection.close)))


async def _django(until: AsyncExitStack, module: Any, of: str, place: str, autocommit: bool) -> TransactionDriver:
    from django.conf import settings
    from django.db.utils import ConnectionHandler

    if not settings.configured:
        settings.configure(USE_TZ=True)
        module.setup()
    if of == "psycopg":
        pytest.importorskip("psycopg", reason="psycopg is not installed")
        url = urlsplit(place)
        host = parse_qs(url.query).get("host", [url.hostname])[0]
        database = {"ENGINE": "postgresql", "NAME": url.path[1:], "USER": url.username, "PASSWORD": url.password or "", "HOST": host, "PORT": url.port or ""}
    else:
        database = {"ENGINE": "sqlite3", "NAME": place}
    connection = ConnectionHandler({"default": {**database, "ENGINE": f"django.db.backends.{database['ENGINE']}"}})["default"]
    connection.inc_thread_sharing()
    way = _aside

    def execute(sql: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(sql)

    def begin() -> None:
        connection.set_autocommit(autocommit)

    await asyncio.to_thread(begin)
    until.push_async_callback(asyncio.to_thread, connection.close)
    return TransactionDriver(connection, way(execute), _nothing, *map(way, (connection.commit, connection.rollback, connection.close)))
