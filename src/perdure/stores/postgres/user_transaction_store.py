"""Posts within a transaction that a user has open on the database, on the user's own connection.

The statements are those of the store (`store_tables`), including its locks: until the user's transaction ends, no other process changes or sends to
the executions that it has posted to. Postgres delivers the notifications with the user's commit.

The connection may be of asyncpg or psycopg, with any settings. No driver is imported before a connection of it is given.
"""

import asyncio
from asyncio import AbstractEventLoop
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

from perdure.core.envelopes import QueuedMessage
from perdure.core.errors import BadValue
from perdure.core.paths import Address, Key
from perdure.stores.postgres import limited_queues as queues
from perdure.stores.postgres import store_tables as tables
from perdure.stores.postgres.head_lists import read_heads
from perdure.stores.postgres.limited_queues import Fetch
from perdure.stores.postgres.record_rows import read_record, read_records
from perdure.stores.postgres.statements import SQL, in_schema
from perdure.stores.postgres.store_rows import escaped_arguments, unescaped_row
from perdure.stores.protocol import ALL_HEADS, ChangeAnswer, Commit, Head, HeadFilter, Post, QueueStatus, StoredLog, StoreTime, check_changes
from perdure.stores.records import RecordFilter, RecordKey, StoredRecord
from perdure.stores.user_transactions import CONNECTION_KINDS, EXPECTED_OPEN, driver_connection, is_instance_of

NO_TRANSACTION = "in a transaction, and it commits by itself; begin one on it first, and commit afterwards"
TRANSACTION_FAILED = "in a transaction that can continue: an earlier database error has aborted it; roll it back, and repeat it from its beginning"
ABORTED_SQLSTATE = "25P02"
"""The SQLSTATE of every statement after the one that failed."""


async def fetch_on_user_connection(given: Any, home: AbstractEventLoop | None) -> Fetch:
    """Returns a function that executes statements of the store in the transaction that is open on the connection `given`.

    On `home`, the loop of the store, no statement may block: it may wait for a lock of another task of that loop. Statements of a connection that belongs
    to no loop therefore run in another thread.

    Raises:
        BadValue: the driver is unknown, the connection is closed, or no transaction is open on it.
    """
    connection = await driver_connection(given)
    if is_instance_of(connection, "asyncpg", "Connection", "PoolConnectionProxy"):
        if connection.is_closed():
            raise BadValue("connection=", given, EXPECTED_OPEN)
        if not connection.is_in_transaction():
            raise BadValue("connection=", given, NO_TRANSACTION)
        return fetch_with_asyncpg(connection)
    if is_instance_of(connection, "psycopg", "Connection", "AsyncConnection"):
        psycopg = import_module("psycopg")
        if not hasattr(psycopg, "RawCursor"):
            raise BadValue("psycopg", psycopg.__version__, "3.2 or later, which the store's statements need")
        if connection.closed:
            raise BadValue("connection=", given, EXPECTED_OPEN)
        if connection.autocommit and connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
            raise BadValue("connection=", given, NO_TRANSACTION)
        if is_instance_of(connection, "psycopg", "AsyncConnection"):
            return _fetch_with_async_psycopg(psycopg, connection)
        return _fetch_with_psycopg(psycopg, connection, aside=home is not None and _running_loop() is home)
    raise BadValue("connection=", given, f"a connection to a Postgres database that is understood here: give {CONNECTION_KINDS}")


def fetch_in_schema(fetch: Fetch, schema: str) -> Fetch:
    """Returns a function that executes the statements of the store in its schema."""

    async def fetch_there(sql: str, *arguments: Any) -> list[Any]:
        return await fetch(in_schema(sql, schema), *arguments)

    return fetch_there


def fetch_with_asyncpg(connection: Any) -> Fetch:
    """Returns a function that executes statements on a connection of asyncpg."""

    async def fetch(sql: str, *arguments: Any) -> list[Any]:
        return [unescaped_row(row) for row in await connection.fetch(sql, *escaped_arguments(arguments))]

    return fetch


def _fetch_with_psycopg(psycopg: Any, connection: Any, *, aside: bool) -> Fetch:
    def carry_out(sql: str, arguments: tuple[Any, ...]) -> list[Any]:
        with psycopg.RawCursor(connection, row_factory=psycopg.rows.tuple_row) as cursor:
            cursor.execute(sql, escaped_arguments(arguments))
            return [*map(unescaped_row, cursor.fetchall())] if cursor.description else []

    async def fetch(sql: str, *arguments: Any) -> list[Any]:
        return await asyncio.to_thread(carry_out, sql, arguments) if aside else carry_out(sql, arguments)

    return fetch


def _fetch_with_async_psycopg(psycopg: Any, connection: Any) -> Fetch:
    async def fetch(sql: str, *arguments: Any) -> list[Any]:
        async with psycopg.AsyncRawCursor(connection, row_factory=psycopg.rows.tuple_row) as cursor:
            await cursor.execute(sql, escaped_arguments(arguments))
            return [*map(unescaped_row, await cursor.fetchall())] if cursor.description else []

    return fetch


def _running_loop() -> AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


@asynccontextmanager
async def perdure_savepoint(given: Any, fetch: Fetch) -> AsyncIterator[None]:
    """Sets a savepoint within the block. A failed block is rolled back, and the user's transaction stays usable.

    Raises:
        BadValue: the transaction had failed before.
    """
    try:
        await fetch(SQL.begin_savepoint)
    except Exception as error:
        if getattr(error, "sqlstate", None) == ABORTED_SQLSTATE:
            raise BadValue("connection=", given, TRANSACTION_FAILED) from error
        raise
    try:
        yield
    except BaseException:
        await fetch(SQL.undo_savepoint)
        await fetch(SQL.end_savepoint)
        raise
    await fetch(SQL.end_savepoint)


GRANTS = "allowed to use Perdure's tables; their owner grants it what it needs: perdure db grants ROLE --for transaction --yes"


class PostgresUserTransactionStore:
    """The store within the transaction in which `fetch` executes statements. See `UserTransactionStore`."""

    def __init__(self, fetch: Fetch, clock: Callable[[], float] | None) -> None:
        self._fetch, self._clock = fetch, clock

    async def commit(self, changes: Sequence[Commit | Post]) -> list[ChangeAnswer]:
        """See `Store.commit`."""
        check_changes(changes)
        here = await self._begun()
        answers = await here.change(changes) if changes else []
        for channel in here.channels_to_notify:
            await self._fetch(SQL.notify, channel, "")
        return answers

    async def read(self, key: Key, after: int = 0) -> StoredLog | None:
        """See `Store.read`."""
        return await tables.read_log(self._fetch, key, after)

    async def heads(self, which: HeadFilter = ALL_HEADS) -> list[Head]:
        """See `Store.heads`."""
        return await read_heads(self._fetch, which)

    async def messages(self, to: Address) -> list[QueuedMessage]:
        """See `Store.messages`."""
        return await tables.read_messages(self._fetch, to)

    async def record(self, key: RecordKey) -> StoredRecord | None:
        """See `Store.record`."""
        return await read_record(self._fetch, key, (await self._begun()).moment.now_s)

    async def records(self, which: RecordFilter) -> list[StoredRecord]:
        """See `Store.records`."""
        return await read_records(self._fetch, which, (await self._begun()).moment.now_s)

    async def blob(self, sha256: str) -> bytes | None:
        """See `Store.blob`."""
        return await tables.read_blob(self._fetch, sha256)

    async def store_time(self) -> StoreTime:
        """See `Store.store_time`."""
        return (await self._begun()).moment

    async def queues(self) -> list[QueueStatus]:
        """See `Store.queues`."""
        return await queues.queue_statuses(self._fetch, (await self._begun()).moment.now_s)

    async def _begun(self) -> tables.PostgresTables:
        return await tables.begin_transaction(self._fetch, self._clock and self._clock())


@asynccontextmanager
async def join_user_transaction(
    given: Any, place: tuple[Any, ...], clock: Callable[[], float] | None, home: AbstractEventLoop | None, schema: str
) -> AsyncIterator[PostgresUserTransactionStore]:
    """Yields the store in a schema within the transaction on the connection `given`, which must be to the database `place`. `home` is the loop of the store."""
    fetch = fetch_in_schema(await fetch_on_user_connection(given, home), schema)
    async with perdure_savepoint(given, fetch):
        ((*found, may, role),) = await fetch(SQL.user_connection_identity)
        if tuple(found) != place:
            raise BadValue("connection=", f"a connection to {found[0]} (cluster {found[1]})", f"to this client's database, {place[0]} (cluster {place[1]})")
        if not may:
            raise BadValue("connection=", f"a connection of the role {role}", GRANTS)
        yield PostgresUserTransactionStore(fetch, clock)
