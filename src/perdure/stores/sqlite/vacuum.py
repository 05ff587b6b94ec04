"""Giving pages that are free back to the disk, while engines go on.

A few pages are moved from the end of the file into free ones in each transaction, and in between others write. The file becomes shorter when the
write-ahead log was carried over. Whatever interrupts this has given back some; it goes on when it is begun again.
"""

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import msgspec

from perdure.core.errors import StoreError
from perdure.stores.sqlite.database_file import DatabaseFile
from perdure.stores.sqlite.database_setup import existing_file, expect_schema_version
from perdure.stores.sqlite.write_lock_queue import WriteLockQueue, begin_write, empty_write_ahead_log

PAGES_PER_TRANSACTION = 250
"""How many pages are moved in a transaction: so few that nobody waits for long."""

PAUSE_MAX_S = 0.1
"""How long it rests after a transaction at most; half of the disk's time is for others."""

WAIT_S = 30.0
INCREMENTAL = 2
"""How SQLite calls a file whose pages can be given back one after another."""


class VacuumResult(msgspec.Struct, frozen=True):
    """How large the file was and is, how much of it is still free, and whether the write-ahead log could be emptied, so that the file is that small already."""

    before_bytes: int
    after_bytes: int
    free_bytes: int
    emptied: bool


def free_bytes(path: Path) -> int:
    """How much of the file is free."""
    file = existing_file(path)
    with file.translated_errors(), closing(file.connect(wait_s=WAIT_S)) as connection:
        return _pragma_value(connection, "freelist_count") * _pragma_value(connection, "page_size")


def vacuum(path: Path) -> VacuumResult:
    """Give back what is free.

    Raises:
        StoreError: the file can't be used, its tables are of another version, it was not made for this, or others have it locked for too long.
    """
    file = existing_file(path)
    with file.translated_errors(), closing(file.connect(wait_s=WAIT_S)) as connection:
        expect_schema_version(file, connection)
        if _pragma_value(connection, "auto_vacuum") != INCREMENTAL:
            raise StoreError(
                f"{file.path} was not made for giving pages back one after another, as the tables stand in another program's database; "
                "end all that use it, and run sqlite3 on it with PRAGMA auto_vacuum = 2; VACUUM;"
            )
        page_bytes, before = _pragma_value(connection, "page_size"), _pragma_value(connection, "page_count")
        turns = WriteLockQueue(file.processes)
        try:
            _give_back(file, connection, turns)
            is_emptied = empty_write_ahead_log(connection)
        finally:
            turns.close()
        after, free = _pragma_value(connection, "page_count"), _pragma_value(connection, "freelist_count")
    return VacuumResult(before * page_bytes, after * page_bytes, free * page_bytes, is_emptied)


def _give_back(file: DatabaseFile, connection: sqlite3.Connection, turns: WriteLockQueue) -> None:
    """Give back what is free now; what becomes free meanwhile is for the next time."""
    left = _pragma_value(connection, "freelist_count")
    while left > 0:
        began_s = time.monotonic()
        begin_write(connection, turns, WAIT_S)
        try:
            expect_schema_version(file, connection)
            for _ in range(min(PAGES_PER_TRANSACTION, left)):
                connection.execute("PRAGMA incremental_vacuum(1)")  # Python ends the statement after its first step, which is one page
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        left = min(left - PAGES_PER_TRANSACTION, _pragma_value(connection, "freelist_count"))
        time.sleep(min(time.monotonic() - began_s, PAUSE_MAX_S))


def _pragma_value(connection: sqlite3.Connection, name: str) -> int:
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(value)
