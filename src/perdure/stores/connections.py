"""The connections of users: of which driver they are, whatever they are wrapped in, and whether they belong to an event loop.

No driver is imported here. Who has a connection of it has imported it.
"""

import sqlite3
from collections.abc import Awaitable
from inspect import isawaitable
from typing import Any

KINDS = "a sqlite3, aiosqlite, asyncpg or psycopg 3 connection, or a Connection or Session of SQLAlchemy over one of these"
OPEN = "open any more; connect again, and repeat your transaction from its beginning"


def is_of(connection: object, package: str, *names: str) -> bool:
    """Whether it is an instance of a class of `package` that has one of these names."""
    return any(kind.__module__.partition(".")[0] == package and kind.__name__ in names for kind in type(connection).__mro__)


def is_asynchronous(connection: object) -> bool:
    """Whether it belongs to an event loop, and can be used on no other thread."""
    return (
        is_of(connection, "asyncpg", "Connection", "PoolConnectionProxy")
        or is_of(connection, "psycopg", "AsyncConnection")
        or is_of(connection, "aiosqlite", "Connection")
        or is_of(connection, "sqlalchemy", "AsyncConnection", "AsyncSession", "async_scoped_session")
    )


async def driver_s(connection: Any) -> Any:
    """The connection of the driver below; SQLAlchemy knows then that its transaction has begun."""
    if is_of(connection, "sqlalchemy", "Session", "scoped_session", "AsyncSession", "async_scoped_session"):
        connection = await _awaited(connection.connection())
    if is_of(connection, "sqlalchemy", "AsyncConnection"):
        (await connection.exec_driver_sql("SELECT 1")).close()
        return (await connection.get_raw_connection()).driver_connection
    if is_of(connection, "sqlalchemy", "Connection"):
        connection.exec_driver_sql("SELECT 1").close()
        return connection.connection.driver_connection
    return connection


def is_sqlite(connection: object) -> bool:
    """Whether it is one of Python's own driver for SQLite."""
    return isinstance(connection, sqlite3.Connection)


async def _awaited(found: Any | Awaitable[Any]) -> Any:
    return await found if isawaitable(found) else found
