"""Returns free pages of the file to the disk while engines run.

Each transaction moves a few pages from the end of the file into free ones, and others write in between. The file becomes shorter once a checkpoint has
copied the write-ahead log. An interrupted vacuum has returned some pages; the next run continues.
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
"""How many pages one transaction moves: few enough that other writers do not wait for long."""

PAUSE_MAX_S = 0.1
"""The longest pause after a transaction. Pauses leave half of the disk's time to others."""

WAIT_S = 30.0
INCREMENTAL = 2
"""SQLite's value of `auto_vacuum` for a file whose pages can be returned one after another."""


class VacuumResult(msgspec.Struct, frozen=True):
    """The size of the file before and after, how much of it is still free, and whether the write-ahead log was emptied (until then the file is not shorter)."""

    before_bytes: int
    after_bytes: int
    free_bytes: int
    emptied: bool


def free_bytes(path: Path) -> int:
    """Returns how many bytes of the file are free."""
    file = existing_file(path)
    with file.translated_errors(), closing(file.connect(wait_s=WAIT_S)) as connection:
        return _pragma_value(connection, "freelist_count") * _pragma_value(connection, "page_size")


def vacuum(path: Path) -> VacuumResult:
    """Returns the free pages of a file to the disk.

    Raises:
        StoreError: the file can't be used, has tables of another version, was not created with incremental vacuum, or others lock it for too long.
    """
    file = existing_file(path)
    with file.translated_errors(), closing(file.connect(wait_s=WAIT_S)) as connection:
        expect_schema_version(file, connection)
        if _pragma_value(connection, "auto_vacuum") != INCREMENTAL:
            raise StoreError(
                f"{file.path} was not created with incremental vacuum, since the tables are in another program's database; "
                "end all processes that use it, and run sqlite3 on it with PRAGMA auto_vacuum = 2; VACUUM;"
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
    """Returns the pages that are free now. Pages that become free meanwhile are left for the next run."""
    left = _pragma_value(connection, "freelist_count")
    while left > 0:
        began_s = time.monotonic()
        begin_write(connection, turns, WAIT_S)
        try:
            expect_schema_version(file, connection)
            for _ in range(min(PAGES_PER_TRANSACTION, left)):
                connection.execute("PRAGMA incremental_vacuum(1)")  # Python ends the statement after its first step, which moves one page
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
