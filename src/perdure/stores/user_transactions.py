"""The connections of users: of which driver they are, whatever they are wrapped in, and whether they belong to an event loop.

No driver is imported here. Who has a connection of it has imported it.

Joining: what is posted takes part in a transaction that a user has open on the store's database. It is there with its commit, and gone with its rollback.

Two faces of it: a user's transaction that posts join (`JoinsUserTransactions`), and one of the store's that a user's step is given (`TransactionalStore`).
"""

import sqlite3
from collections.abc import Awaitable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from inspect import isawaitable
from typing import Any, Protocol, TypeVar

from perdure.core.envelopes import QueuedMessage
from perdure.core.errors import BadValue, WrongVerb
from perdure.core.paths import Address, Key
from perdure.stores.protocol import ALL_HEADS, ChangeAnswer, Commit, Head, HeadFilter, Post, QueueStatus, StoredLog, StoreTime, TransactionalStore

CONNECTION_KINDS = "a sqlite3, aiosqlite, asyncpg or psycopg 3 connection, or a Connection or Session of SQLAlchemy over one of these"
EXPECTED_OPEN = "open any more; connect again, and repeat your transaction from its beginning"


def is_instance_of(connection: object, package: str, *names: str) -> bool:
    """Whether it is an instance of a class of `package` that has one of these names."""
    return any(kind.__module__.partition(".")[0] == package and kind.__name__ in names for kind in type(connection).__mro__)


def is_async_connection(connection: object) -> bool:
    """Whether it belongs to an event loop, and can be used on no other thread."""
    return (
        is_instance_of(connection, "asyncpg", "Connection", "PoolConnectionProxy")
        or is_instance_of(connection, "psycopg", "AsyncConnection")
        or is_instance_of(connection, "aiosqlite", "Connection")
        or is_instance_of(connection, "sqlalchemy", "AsyncConnection", "AsyncSession", "async_scoped_session")
    )


async def driver_connection(connection: Any) -> Any:
    """The connection of the driver below; SQLAlchemy knows then that its transaction has begun."""
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
    """Whether it is one of Python's own driver for SQLite."""
    return isinstance(connection, sqlite3.Connection)


async def _await_if_needed(found: Any | Awaitable[Any]) -> Any:
    return await found if isawaitable(found) else found


T = TypeVar("T")


class UserTransactionStore(Protocol):
    """A store as it is within a transaction of a user: what that has done is seen, and what is done here is seen by others once it commits.

    Each method is that of a `Store`.
    """

    async def commit(self, changes: Sequence[Commit | Post]) -> list[ChangeAnswer]:
        """See `Store.commit`; durable is it with the user's commit."""
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
    """What a store can do besides, if it is a database to which users may have connections of their own."""

    async def meet(self) -> None:
        """Find out by what connections to this database are known; to be awaited on the loop of the store, before anything joins."""
        ...

    def join(self, connection: Any) -> AbstractAsyncContextManager[UserTransactionStore]:
        """Within, the store as it is in the transaction that is open on `connection`; what fails there leaves nothing in it.

        With a connection that does not belong to an event loop, nothing is awaited: then this may be used in any thread. What goes wrong on the
        connection is raised as its driver raises it.

        Raises:
            BadValue: it is no connection to this database, or no transaction is open on it.
        """
        ...


def run_without_waiting(coroutine: Coroutine[Any, Any, T], wrong: WrongVerb) -> T:
    """Run a coroutine to its end, here and now; `wrong` is raised in it if it has to wait for something."""
    try:
        coroutine.send(None)
        coroutine.throw(wrong)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        coroutine.close()
    raise wrong


def expect_user_transactions(store: Any) -> JoinsUserTransactions:
    """The store, if users may have connections to its database.

    Raises:
        BadValue: it is no database.
    """
    if not _has_method(store, "join"):
        raise BadValue("connection=", _store_name(store), "a store in a database of yours: use SQLite or Postgres")
    joins: JoinsUserTransactions = store
    return joins


def transactional_store_of(store: Any) -> TransactionalStore | None:
    """The store, if steps may be given transactions of its database."""
    transacts: TransactionalStore = store
    return transacts if _has_method(store, "transact") else None


def _has_method(store: Any, method: str) -> bool:
    """Whether a store can do this, and the one below too if it is one around another."""
    return hasattr(store, method) and hasattr(getattr(store, "inner", store), method)


def _store_name(store: Any) -> str:
    return type(getattr(store, "inner", store)).__name__
