"""SQLAlchemy within a transactional step: an `AsyncSession` or `AsyncConnection` on the step's own transaction.

Its commit ends a savepoint, or does nothing where there are none: what it has written is durable with the commit of the step, together with the step's outcome.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any, Self

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.pool import NullPool

from perdure.core.errors import BadValue, WrongVerb
from perdure.stores.user_transactions import is_instance_of

if TYPE_CHECKING:
    from perdure.code.step_environment import Transaction

_current: ContextVar[Any] = ContextVar("perdure_sqlalchemy_connection")
_JSON_TYPES = ("json", "jsonb")


@asynccontextmanager
async def session_on(transaction: Transaction, **options: Any) -> AsyncIterator[AsyncSession]:
    """Yields an `AsyncSession` on the transaction of a step; `options` are those of the session.

    What is pending is flushed and kept at the end of the block, and rolled back if an error leaves it. On Postgres, `commit` and `rollback` of the session act
    on a savepoint. On SQLite there is none: after a `rollback` the step has to fail.

    Raises:
        BadValue: the transaction is not that of a transactional step.
        WrongVerb: on SQLite, the session was rolled back, and the block ended without an error.
    """
    async with connection_on(transaction) as connection:
        session = AsyncSession(connection, **{"expire_on_commit": False, **options})
        try:
            yield session
            await session.commit()
        finally:
            await session.close()  # not by `async with`, which does it in another task, and on SQLite nothing may wait


@asynccontextmanager
async def connection_on(transaction: Transaction) -> AsyncIterator[AsyncConnection]:
    """Yields an `AsyncConnection` on the transaction of a step. See `session_on`."""
    driver = transaction.connection
    if isinstance(driver, sqlite3.Connection):
        kept: Any = _KeptSqlite(driver)
        engine = await _sqlite_engine()
    elif is_instance_of(driver, "asyncpg", "Connection", "PoolConnectionProxy"):
        kept, engine = _KeptAsyncpg(driver), _engine("postgresql+asyncpg://")
    else:
        raise BadValue("session_on", transaction, "the transaction of a step with transaction=True")
    token = _current.set(kept)
    try:
        connection = await engine.connect()
        try:
            yield connection
            if connection.in_transaction():
                await connection.commit()
        finally:
            await connection.close()
        await kept.end()
    finally:
        _current.reset(token)
        await kept.restore()


@cache
def _engine(url: str) -> AsyncEngine:
    """The engine for a driver. It keeps no connection, so any event loop may use it."""

    async def creator() -> Any:
        return _current.get()

    # A pooler in transaction mode needs statements without names, and none that is kept.
    unnamed = {"prepared_statement_cache_size": 0, "prepared_statement_name_func": str} if url.startswith("postgresql") else {}
    return create_async_engine(url, async_creator=creator, poolclass=NullPool, connect_args=unnamed)


async def _sqlite_engine() -> AsyncEngine:
    """The engine for SQLite. Its first connection is to no file: SQLAlchemy reads settings there, which the statements of a step may not."""
    engine = _engine("sqlite+aiosqlite://")
    if engine not in _initialized:
        engine.sync_engine.dialect.has_terminate = False  # which would wait; closing does not
        with closing(sqlite3.connect(":memory:")) as memory:
            token = _current.set(_KeptSqlite(memory))
            try:
                await (await engine.connect()).close()
            finally:
                _current.reset(token)
        _initialized.add(engine)
    return engine


_initialized: set[AsyncEngine] = set()


class _KeptAsyncpg:
    """A connection of asyncpg that SQLAlchemy does not close. Its transactions there are savepoints, since one is open already."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def close(self, timeout: float | None = None) -> None:
        """Leaves it open."""

    def terminate(self) -> None:
        """Leaves it open."""

    async def end(self) -> None:
        """Needs nothing: savepoints were ended or rolled back."""

    async def restore(self) -> None:
        """Removes what SQLAlchemy has set for the types of JSON, which other steps do not expect."""
        if not self._connection.is_closed():
            for name in _JSON_TYPES:
                await self._connection.reset_type_codec(name, schema="pg_catalog")


class _KeptSqlite:
    """A connection of `sqlite3` as SQLAlchemy expects one of aiosqlite, whose coroutines end without waiting."""

    isolation_level = None

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._conn = self._connection = connection
        self._is_changed = self._is_rolled_back = False

    def cursor(self) -> _KeptCursor:
        """A cursor."""
        return _KeptCursor(self._connection.cursor(), self._began)

    def _began(self) -> None:
        self._is_changed = True

    async def create_function(self, *given: Any, **options: Any) -> None:
        """Declares a function of SQL."""
        self._connection.create_function(*given, **options)

    async def commit(self) -> None:
        """Notes that what was executed may stay: the step commits it."""
        self._is_changed = False

    async def rollback(self) -> None:
        """Notes that what was executed has to be undone, which only the step can do."""
        self._is_rolled_back |= self._is_changed

    async def close(self) -> None:
        """Leaves it open."""

    def stop(self) -> None:
        """Leaves it open."""

    async def end(self) -> None:
        """Checks that nothing was rolled back.

        Raises:
            WrongVerb: something was.
        """
        if self._is_rolled_back:
            raise WrongVerb(
                "a session of a step was rolled back, which SQLite can't do for a part of the step", "let the error leave the step, which rolls all of it back"
            )

    async def restore(self) -> None:
        """Needs nothing."""


class _KeptCursor:
    """A cursor whose coroutines end without waiting."""

    def __init__(self, cursor: sqlite3.Cursor, began: Callable[[], None]) -> None:
        self._cursor, self._began_with = cursor, began
        cursor.row_factory = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)

    async def __aenter__(self) -> Self:
        return self

    async def execute(self, sql: str, arguments: Any = ()) -> _KeptCursor:
        """Runs a statement."""
        self._began_with()
        self._cursor.execute(sql, arguments)
        return self

    async def executemany(self, sql: str, arguments: Any) -> _KeptCursor:
        """Runs a statement for each of the arguments."""
        self._began_with()
        self._cursor.executemany(sql, arguments)
        return self

    async def fetchall(self) -> list[Any]:
        """All rows that are left."""
        return self._cursor.fetchall()

    async def fetchmany(self, size: int) -> list[Any]:
        """The next rows."""
        return self._cursor.fetchmany(size)

    async def fetchone(self) -> Any:
        """The next row."""
        return self._cursor.fetchone()

    async def close(self) -> None:
        """Closes it."""
        self._cursor.close()
