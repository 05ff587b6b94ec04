"""Transactions that the store and the user's code share.

There are two directions: a post joins a transaction that the user has open on the store's database (`JoinsUserTransactions`), and takes effect or is
rolled back with it; or a step receives a transaction of the store (`TransactionalStore`).

The functions here find the driver of a user's connection, whatever wraps it, and whether it belongs to an event loop. They import no driver: the
caller that passes a connection has imported its driver already.
"""

import sqlite3
from collections.abc import Awaitable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from inspect import isawaitable
from typing import Any, Protocol, TypeVar

from perdure.core.envelopes import QueuedMessage
from perdure.core.errors import BadValue, WrongVerb
from perdure.core.paths import Address, Key
from perdure.stores.protocol import ALL_HEADS, ChangeAnswer, Commit, Head, HeadFilter, Post, QueueStatus, Store, StoredLog, StoreTime
from perdure.stores.records import RecordFilter, RecordKey, StoredRecord
from perdure.stores.store_parts import PartName

CONNECTION_KINDS = "a sqlite3, aiosqlite, asyncpg or psycopg 3 connection, a Connection or Session of SQLAlchemy over one of these, or a connection of Django"
EXPECTED_OPEN = "open any more; connect again, and repeat your transaction from its beginning"


def is_instance_of(connection: object, package: str, *names: str) -> bool:
    """Whether the connection is an instance of a class of `package` that has one of these names."""
    return any(kind.__module__.partition(".")[0] == package and kind.__name__ in names for kind in type(connection).__mro__)


def is_async_connection(connection: object) -> bool:
    """Whether the connection belongs to an event loop, and so can be used in no other thread."""
    return (
        is_instance_of(connection, "asyncpg", "Connection", "PoolConnectionProxy")
        or is_instance_of(connection, "psycopg", "AsyncConnection")
        or is_instance_of(connection, "aiosqlite", "Connection")
        or is_instance_of(connection, "sqlalchemy", "AsyncConnection", "AsyncSession", "async_scoped_session")
    )


async def driver_connection(connection: Any) -> Any:
    """Returns the driver's connection below one of SQLAlchemy or Django; any other connection as it is. SQLAlchemy has begun its transaction by then.

    Raises:
        BadValue: a connection of Django is closed, or no transaction is open on it.
    """
    if is_instance_of(connection, "django", "ConnectionProxy", "BaseDatabaseWrapper"):
        if connection.autocommit:
            why = "in a transaction, and it commits by itself; open one with `with transaction.atomic():`, and let that commit afterwards"
            raise BadValue("connection=", connection, why)
        if connection.connection is None:
            raise BadValue("connection=", connection, EXPECTED_OPEN)
        return connection.connection
    if is_instance_of(connection, "sqlalchemy", "Session", "scoped_session", "AsyncSession", "async_scoped_session"):
        connection = await _await_if_needed(connection.connection())
    if is_instance_of(connection, "sqlalchemy", "AsyncConnection"):
        (await connection.exec_driver_sql("SELECT 1")).close()
        return (await connection.get_raw_connection()).driver_connection
    if is_instance_of(connection, "sqlalchemy", "Connection"):
        connection.exec_driver_sql("SELECT 1").close()
        return connection.connection.driver_connection
    return connection


def is_sqlite_connection(connection: object) -> bool:
    """Whether the connection is one of Python's `sqlite3`."""
    return isinstance(connection, sqlite3.Connection)


async def _await_if_needed(found: Any | Awaitable[Any]) -> Any:
    return await found if isawaitable(found) else found


T = TypeVar("T")


class UserTransactionStore(Protocol):
    """A store within a transaction of a user. It sees what the transaction has written; others see what it writes once the transaction commits.

    Its methods are those of `Store`.
    """

    async def commit(self, changes: Sequence[Commit | Post]) -> list[ChangeAnswer]:
        """See `Store.commit`. The changes are durable with the user's commit."""
        ...

    async def read(self, key: Key, after: int = 0) -> StoredLog | None:
        """See `Store.read`."""
        ...

    async def heads(self, which: HeadFilter = ALL_HEADS) -> list[Head]:
        """See `Store.heads`."""
        ...

    async def messages(self, to: Address) -> list[QueuedMessage]:
        """See `Store.messages`."""
        ...

    async def record(self, key: RecordKey) -> StoredRecord | None:
        """See `Store.record`."""
        ...

    async def records(self, which: RecordFilter) -> list[StoredRecord]:
        """See `Store.records`."""
        ...

    async def blob(self, sha256: str) -> bytes | None:
        """See `Store.blob`."""
        ...

    async def store_time(self) -> StoreTime:
        """See `Store.store_time`."""
        ...

    async def queues(self) -> list[QueueStatus]:
        """See `Store.queues`."""
        ...


class JoinsUserTransactions(Protocol):
    """The part `USER_TRANSACTIONS` of a store that is a database to which users may have connections of their own."""

    async def meet(self) -> None:
        """Read what identifies this database. Await it on the event loop of the store before the first `join`."""
        ...

    def join(self, connection: Any) -> AbstractAsyncContextManager[UserTransactionStore]:
        """Enter the transaction that is open on `connection`, and yield the store within it. If the block fails, its changes are rolled back.

        With a connection that does not belong to an event loop, nothing is awaited, so any thread may use this. Errors of the connection are raised as
        its driver raises them.

        Raises:
            BadValue: it is not a connection to this database, or no transaction is open on it.
        """
        ...


USER_TRANSACTIONS: PartName[JoinsUserTransactions] = PartName("user transactions")


def run_without_waiting(coroutine: Coroutine[Any, Any, T], wrong: WrongVerb) -> T:
    """Runs a coroutine to its end without an event loop. If it awaits something, `wrong` is raised in it."""
    try:
        coroutine.send(None)
        coroutine.throw(wrong)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        coroutine.close()
    raise wrong


def expect_user_transactions(store: Store) -> JoinsUserTransactions:
    """Returns the part of a store that joins transactions of users.

    Raises:
        BadValue: the store does not have it.
    """
    joins = store.part(USER_TRANSACTIONS)
    if joins is None:
        raise BadValue("connection=", type(store).__name__, "a store in a database of yours: use SQLite or Postgres")
    return joins
