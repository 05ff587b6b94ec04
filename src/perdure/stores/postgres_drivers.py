"""The drivers of users in Postgres: how the statements of the store are carried out on connections that asyncpg or psycopg made, however these are set up.

No driver is imported before there is a connection of it.
"""

import asyncio
from asyncio import AbstractEventLoop
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

from perdure.core.errors import BadValue
from perdure.stores.connections import KINDS, OPEN, driver_s, is_of
from perdure.stores.postgres_queues import Fetch
from perdure.stores.postgres_text import escaped, unescaped

BEGIN = "in a transaction, and it commits by itself; begin one on it first, and commit afterwards"
FAILED = "in a transaction that can go on: an earlier error of the database has ended it; roll it back, and repeat it from its beginning"
ABORTED = "25P02"
"""What Postgres says of every statement after the one that failed."""


async def fetching(given: Any, home: AbstractEventLoop | None) -> Fetch:
    """What carries out statements of the store in the transaction that is open on the connection that was `given`.

    On the loop that is the store's `home` no statement may keep others waiting, as it may be them that it waits for: one of a connection that belongs to
    no loop is carried out in another thread.

    Raises:
        BadValue: it is of no driver that is known, was closed, or no transaction is open on it.
    """
    connection = await driver_s(given)
    if is_of(connection, "asyncpg", "Connection", "PoolConnectionProxy"):
        if connection.is_closed():
            raise BadValue("connection=", given, OPEN)
        if not connection.is_in_transaction():
            raise BadValue("connection=", given, BEGIN)
        return by_asyncpg(connection)
    if is_of(connection, "psycopg", "Connection", "AsyncConnection"):
        psycopg = import_module("psycopg")
        if not hasattr(psycopg, "RawCursor"):
            raise BadValue("psycopg", psycopg.__version__, "3.2 or later, which the store's statements need")
        if connection.closed:
            raise BadValue("connection=", given, OPEN)
        if connection.autocommit and connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
            raise BadValue("connection=", given, BEGIN)
        if is_of(connection, "psycopg", "AsyncConnection"):
            return _by_async_psycopg(psycopg, connection)
        return _by_psycopg(psycopg, connection, aside=home is not None and _running_loop() is home)
    raise BadValue("connection=", given, f"a connection to a Postgres database that is understood here: give {KINDS}")


def by_asyncpg(connection: Any) -> Fetch:
    """Statements by way of a connection of asyncpg."""

    async def fetch(sql: str, *arguments: Any) -> list[Any]:
        return [_row(row) for row in await connection.fetch(sql, *map(_argument, arguments))]

    return fetch


def _by_psycopg(psycopg: Any, connection: Any, *, aside: bool) -> Fetch:
    def carry_out(sql: str, arguments: tuple[Any, ...]) -> list[Any]:
        with psycopg.RawCursor(connection, row_factory=psycopg.rows.tuple_row) as cursor:
            cursor.execute(sql, [*map(_argument, arguments)])
            return [*map(_row, cursor.fetchall())] if cursor.description else []

    async def fetch(sql: str, *arguments: Any) -> list[Any]:
        return await asyncio.to_thread(carry_out, sql, arguments) if aside else carry_out(sql, arguments)

    return fetch


def _by_async_psycopg(psycopg: Any, connection: Any) -> Fetch:
    async def fetch(sql: str, *arguments: Any) -> list[Any]:
        async with psycopg.AsyncRawCursor(connection, row_factory=psycopg.rows.tuple_row) as cursor:
            await cursor.execute(sql, [*map(_argument, arguments)])
            return [*map(_row, await cursor.fetchall())] if cursor.description else []

    return fetch


def _argument(value: Any) -> Any:
    """An argument as the store's own connections would send it; arrays of names are escaped already."""
    return escaped(value) if isinstance(value, str) else value


def _row(row: Any) -> tuple[Any, ...]:
    return tuple(unescaped(value) if isinstance(value, str) else value for value in row)


def _running_loop() -> AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


@asynccontextmanager
async def visiting(given: Any, fetch: Fetch) -> AsyncIterator[None]:
    """Within, names are those of the store's tables; what fails leaves nothing behind, and the transaction as it was.

    Raises:
        BadValue: the transaction has failed before.
    """
    try:
        await fetch("SAVEPOINT perdure")
    except Exception as error:
        if getattr(error, "sqlstate", None) == ABORTED:
            raise BadValue("connection=", given, FAILED) from error
        raise
    try:
        ((path, _),) = await fetch("SELECT current_setting('search_path'), set_config('search_path', 'perdure', true)")
        yield
        await fetch("SELECT set_config('search_path', $1, true)", path)
    except BaseException:
        await fetch("ROLLBACK TO SAVEPOINT perdure")
        await fetch("RELEASE SAVEPOINT perdure")
        raise
    await fetch("RELEASE SAVEPOINT perdure")
