"""Posts within a transaction that a user has open on the file, on the user's own connection.

The statements are those of every other transaction (`SqliteTables`). A savepoint makes each post atomic, and the connection's row and text factories are
replaced meanwhile. If the transaction has not read or written yet, the first statement here is a write, so that SQLite waits for the lock as long as the
connection's timeout says. After a read, it would refuse the write at once.

The file counts its transactions (see `write_ahead_log`). Several posts may lie in one transaction of the user, which counts once. A connection of its own
reads the count before it, since that sees only what is committed.
"""

import os
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, closing
from typing import Any, TypeVar

from perdure.core.envelopes import QueuedMessage
from perdure.core.errors import BadValue
from perdure.core.paths import Address, Key
from perdure.stores.protocol import ALL_HEADS, ChangeAnswer, Commit, Head, HeadFilter, Post, QueueStatus, StoredLog, StoreTime, check_changes
from perdure.stores.records import RecordFilter, RecordKey, StoredRecord
from perdure.stores.sqlite.database_file import DatabaseFile
from perdure.stores.sqlite.limited_queues import queue_statuses
from perdure.stores.sqlite.record_rows import read_record, read_records
from perdure.stores.sqlite.statements import SQL
from perdure.stores.sqlite.store_rows import address_text, read_blob, read_heads, read_log, read_messages
from perdure.stores.sqlite.store_tables import SqliteTables
from perdure.stores.user_transactions import CONNECTION_KINDS, EXPECTED_OPEN, driver_connection, is_instance_of, is_sqlite_connection

T = TypeVar("T")

STALE_SNAPSHOT = "the transaction had read before another one wrote, so SQLite no longer lets it write: roll it back and begin it with BEGIN IMMEDIATE"


class SqliteUserTransactionStore:
    """The store within the transaction that is open on `connection`. See `UserTransactionStore`. `posted` is the address and key of the first message."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        elsewhere: Any,
        file: DatabaseFile,
        make_tables: Callable[[sqlite3.Connection], SqliteTables],
        clock: Callable[[], float],
    ) -> None:
        self.tables = make_tables(connection)
        self._file = file
        self.posted: tuple[str, str] | None = None
        self._connection, self._elsewhere, self._clock = connection, elsewhere, clock
        self._began = False

    async def commit(self, changes: Sequence[Commit | Post]) -> list[ChangeAnswer]:
        """See `Store.commit`."""
        asked = tuple(changes)
        check_changes(asked)
        sends = [send for change in asked for send in change.messages]
        if sends and self.posted is None:
            self.posted = address_text(sends[0].to), sends[0].key
        return await self._do(lambda: self.tables.change(asked))

    async def read(self, key: Key, after: int = 0) -> StoredLog | None:
        """See `Store.read`."""
        return await self._do(lambda: read_log(self._connection.execute, key, after))

    async def heads(self, which: HeadFilter = ALL_HEADS) -> list[Head]:
        """See `Store.heads`."""
        return await self._do(lambda: read_heads(self._connection.execute, which))

    async def messages(self, to: Address) -> list[QueuedMessage]:
        """See `Store.messages`."""
        return await self._do(lambda: read_messages(self._connection.execute, to))

    async def record(self, key: RecordKey) -> StoredRecord | None:
        """See `Store.record`."""
        return await self._do(lambda: read_record(self._connection.execute, key, self._clock()))

    async def records(self, which: RecordFilter) -> list[StoredRecord]:
        """See `Store.records`."""
        return await self._do(lambda: read_records(self._connection.execute, which, self._clock()))

    async def blob(self, sha256: str) -> bytes | None:
        """See `Store.blob`."""
        return await self._do(lambda: read_blob(self._connection.execute, sha256))

    async def store_time(self) -> StoreTime:
        """See `Store.store_time`."""
        return StoreTime(self._clock(), self.tables.epoch)

    async def queues(self) -> list[QueueStatus]:
        """See `Store.queues`. Holders are not checked here, so everything counts as waiting."""
        return await self._do(lambda: queue_statuses(self._connection.execute, frozenset(), self._clock()))

    # The transaction.

    async def enter(self) -> None:
        """Begins a savepoint within the user's transaction."""
        await self._do(self._enter)

    async def leave(self, keeps: bool) -> None:
        """Ends the savepoint: keeps its changes in the user's transaction, or rolls them back."""
        await self._do(lambda: self._leave(keeps))

    def _enter(self) -> None:
        connection = self._connection
        if not connection.in_transaction:
            if connection.isolation_level is None or getattr(connection, "autocommit", -1) is True:
                raise BadValue("connection=", connection, "in a transaction, and it commits by itself; execute BEGIN first, commit afterwards")
            connection.execute("BEGIN IMMEDIATE")  # as the driver would before its first write
            self._began = True
        try:
            connection.execute("SAVEPOINT perdure")
            connection.execute(SQL.take_write_lock)
            self.tables.begin()
        except BaseException as error:
            if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_BUSY_SNAPSHOT:
                error.add_note(STALE_SNAPSHOT)
            self._leave(False)
            raise

    def _leave(self, keeps: bool) -> None:
        connection = self._connection
        if not connection.in_transaction:  # after some errors SQLite has rolled the whole transaction back
            return
        if keeps:
            self.tables.end(self._counted() if self.tables.has_changed and not self._began else None)
        else:
            connection.execute("ROLLBACK TO perdure")
        connection.execute("RELEASE perdure")
        if self._began and not keeps:
            connection.execute("ROLLBACK")

    def _counted(self) -> int | None:
        """Returns how many transactions changed the file before this one; None if it can't be read, as in a file without a write-ahead log."""
        try:
            with closing(self._file.connect()) as connection:
                (count,) = connection.execute(SQL.transaction_count).fetchone()
        except sqlite3.OperationalError:
            return None
        return int(count)

    async def _do(self, do: Callable[[], T]) -> T:
        """Runs `do` on the connection, in its thread, with the default row and text factories."""
        if self._elsewhere is None:
            return self._plainly(do)
        there: Awaitable[T] = self._elsewhere(self._plainly, do)
        return await there

    def _plainly(self, do: Callable[[], T]) -> T:
        connection = self._connection
        rows, texts = connection.row_factory, connection.text_factory
        connection.row_factory, connection.text_factory = None, str
        try:
            return do()
        finally:
            connection.row_factory, connection.text_factory = rows, texts


@asynccontextmanager
async def join_user_transaction(
    given: Any, file: DatabaseFile, make_tables: Callable[[sqlite3.Connection], SqliteTables], clock: Callable[[], float]
) -> AsyncIterator[SqliteUserTransactionStore]:
    """Yields the store within the transaction on the connection `given`. See `JoinsUserTransactions.join`."""
    connection, elsewhere = await driver_connection(given), None
    if is_instance_of(connection, "aiosqlite", "Connection"):
        if connection._connection is None:
            raise BadValue("connection=", given, EXPECTED_OPEN)
        elsewhere, connection = connection._execute, connection._conn  # aiosqlite has no public way to run a function in its thread
    if not is_sqlite_connection(connection):
        raise BadValue("connection=", given, f"a connection to {file.path}: give {CONNECTION_KINDS}, on that file")
    within = SqliteUserTransactionStore(connection, elsewhere, file, make_tables, clock)
    await within._do(lambda: _must_be_to(connection, given, file))
    await within.enter()
    try:
        yield within
    except BaseException:
        await within.leave(False)
        raise
    await within.leave(True)


def _must_be_to(connection: sqlite3.Connection, given: Any, file: DatabaseFile) -> None:
    try:
        found = next((path for _, name, path in connection.execute("PRAGMA database_list") if name == "main"), "")
    except sqlite3.ProgrammingError as error:
        if "closed database" in str(error):
            raise BadValue("connection=", given, EXPECTED_OPEN) from error
        raise
    if not found or not _same(found, file):
        raise BadValue("connection=", found or ":memory:", f"the database of this client, {file.path}; connect to that file")


def is_connection_to(connection: Any, file: DatabaseFile) -> bool:
    """Whether a connection is one of `sqlite3` to this file."""
    if not is_sqlite_connection(connection):
        return False
    found = next((path for _, name, path in connection.execute("PRAGMA database_list") if name == "main"), "")
    return bool(found) and _same(found, file)


def _same(path: str, file: DatabaseFile) -> bool:
    try:
        return os.path.samefile(path, file.path)  # noqa: PTH121  # a stat, which opens nothing
    except FileNotFoundError:
        return False
