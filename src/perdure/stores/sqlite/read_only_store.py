"""Reads from the file: a pool of connections, and a store that only reads.

A read never waits for writes and sees one snapshot. In the read-only store, SQLite refuses to write, and the process does not appear to the others.
"""

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from threading import Condition, Lock
from typing import TypeVar

from perdure.core.envelopes import QueuedMessage
from perdure.core.errors import StoreUnavailable
from perdure.core.paths import Address, Key
from perdure.stores.protocol import ALL_HEADS, Head, HeadFilter, HolderStatus, StoredLog, StoreTime
from perdure.stores.records import RecordFilter, RecordKey, StoredRecord
from perdure.stores.sqlite.database_file import DATABASE_ERRORS, DatabaseFile, Execute
from perdure.stores.sqlite.database_setup import read_only_file
from perdure.stores.sqlite.holders import OwnProcess, execution_leases
from perdure.stores.sqlite.record_rows import read_record, read_records
from perdure.stores.sqlite.statements import SQL
from perdure.stores.sqlite.steady_clock import Anchor, SteadyClock
from perdure.stores.sqlite.store_rows import read_blob, read_heads, read_log, read_messages, read_removed_at
from perdure.stores.store_parts import STORE_KIND, PartName, StoreParts

T = TypeVar("T")
IDLE_CONNECTIONS_MAX = 4


class ReadConnections:
    """A pool of connections to `file`, opened as needed. Any thread may read."""

    def __init__(self, file: DatabaseFile) -> None:
        self._file = file
        self._idle: list[sqlite3.Connection] = []
        self._reading = 0
        self._quiet = self._ended = False
        self._lock = Lock()
        self._free = Condition(self._lock)

    def read(self, read: Callable[[Execute], T], *, is_one_statement: bool = False) -> T:
        """Runs `read` in one transaction and returns its result. One statement that is read to its end needs none of its own.

        Raises:
            sqlite3.Error, StoreError: as they come. The next read gets another connection.
        """
        connection = self._take()
        try:
            self._file.check()
            if connection is None:
                connection = self._file.connect()
            if is_one_statement:
                found = read(connection.execute)
            else:
                connection.execute("BEGIN")
                found = read(connection.execute)
                connection.execute("COMMIT")
        except BaseException:
            if connection is not None:
                self._file.close(connection)
            self._give(None)
            raise
        self._give(connection)
        return found

    def pause(self) -> None:
        """Waits until no read is in progress, and lets none begin."""
        with self._free:
            self._quiet = True
            while self._reading:
                self._free.wait()

    def resume(self) -> None:
        """Lets reads begin again."""
        with self._free:
            self._quiet = False
            self._free.notify_all()

    def close(self) -> None:
        """Closes the connections. Later reads are refused."""
        self._ended = True
        while self._idle:
            self._file.close(self._idle.pop())

    def _take(self) -> sqlite3.Connection | None:
        with self._lock:
            while self._quiet:
                self._free.wait()
            if self._ended:
                raise StoreUnavailable(f"{self._file.path} has been closed; open a new store on it")
            self._reading += 1
            return self._idle.pop() if self._idle else None

    def _give(self, connection: sqlite3.Connection | None) -> None:
        with self._lock:
            self._reading -= 1
            if connection is not None and len(self._idle) < IDLE_CONNECTIONS_MAX:
                self._idle.append(connection)
                connection = None
            if self._quiet:
                self._free.notify_all()
        if connection is not None:
            self._file.close(connection)


class ReadOnlySqliteStore:
    """A `ReadOnlyStore` on the file at `path`, which others may use meanwhile. It does not create, upgrade or recover the file.

    Raises:
        StoreUnavailable: the file can't be read now.
        StoreError: it does not exist, or is not a store of this version.
    """

    def __init__(self, path: str | Path) -> None:
        self._file = read_only_file(Path(path).absolute())
        self._readers = ReadConnections(self._file)
        self._nobody = OwnProcess(self._file.processes, lambda _: None)
        self._clock = SteadyClock()

    async def read(self, key: Key, after: int = 0) -> StoredLog | None:
        """See `Store.read`."""
        return self._read(lambda execute: read_log(execute, key, after))

    async def heads(self, which: HeadFilter = ALL_HEADS) -> list[Head]:
        """See `Store.heads`."""
        return self._read(lambda execute: read_heads(execute, which))

    async def messages(self, to: Address) -> list[QueuedMessage]:
        """See `Store.messages`."""
        return self._read(lambda execute: read_messages(execute, to))

    async def record(self, key: RecordKey) -> StoredRecord | None:
        """See `Store.record`."""
        return self._read(lambda execute: read_record(execute, key, self._time(execute).now_s))

    async def records(self, which: RecordFilter) -> list[StoredRecord]:
        """See `Store.records`."""
        return self._read(lambda execute: read_records(execute, which, self._time(execute).now_s))

    async def blob(self, sha256: str) -> bytes | None:
        """See `Store.blob`."""
        return self._read(lambda execute: read_blob(execute, sha256))

    async def removed_at(self, sha256: str) -> float | None:
        """See `Store.removed_at`."""
        return self._read(lambda execute: read_removed_at(execute, sha256))

    async def blob_names(self) -> list[str]:
        """The names of all blobs."""
        return self._read(lambda execute: [name for (name,) in execute(SQL.blob_names)])

    async def leases(self) -> list[HolderStatus]:
        """See `Store.leases`."""
        return self._read(lambda execute: execution_leases(execute, self._nobody, time.monotonic()))

    async def store_time(self) -> StoreTime:
        """See `Store.store_time`."""
        return self._read(self._time)

    def part(self, name: PartName[T]) -> T | None:
        """See `Store.part`. There is its kind alone: every other part can change a store."""
        return StoreParts().having(STORE_KIND, "sqlite").get(name)

    async def close(self) -> None:
        """Closes the connections."""
        self._readers.close()

    def _time(self, execute: Execute) -> StoreTime:
        epoch, _, _, *anchor = execute(SQL.read_meta).fetchone()
        self._clock.follow(Anchor(*anchor))
        return StoreTime(self._clock(), epoch)

    def _read(self, read: Callable[[Execute], T]) -> T:
        try:
            return self._readers.read(read)
        except DATABASE_ERRORS as error:
            raise self._file.trouble(error) from error
