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
from perdure.stores.sqlite.file import DatabaseFile
from perdure.stores.sqlite.opening import existing, expect_version
from perdure.stores.sqlite.turns import Turns, begin_in_turn, emptied

PAGES = 250
"""How many pages are moved in a transaction: so few that nobody waits for long."""

REST_MAX_S = 0.1
"""How long it rests after a transaction at most; half of the disk's time is for others."""

WAIT_S = 30.0
INCREMENTAL = 2
"""How SQLite calls a file whose pages can be given back one after another."""


class Vacuumed(msgspec.Struct, frozen=True):
    """How large the file was and is, how much of it is still free, and whether the write-ahead log could be emptied, so that the file is that small already."""

    before_bytes: int
    after_bytes: int
    free_bytes: int
    emptied: bool


def free_bytes(path: Path) -> int:
    """How much of the file is free."""
    file = existing(path)
    with file.said_clearly(), closing(file.connect(wait_s=WAIT_S)) as connection:
        return _told(connection, "freelist_count") * _told(connection, "page_size")


def vacuum(path: Path) -> Vacuumed:
    """Give back what is free.

    Raises:
        StoreError: the file can't be used, its tables are of another version, it was not made for this, or others have it locked for too long.
    """
    file = existing(path)
    with file.said_clearly(), closing(file.connect(wait_s=WAIT_S)) as connection:
        expect_version(file, connection)
        if _told(connection, "auto_vacuum") != INCREMENTAL:
            raise StoreError(
                f"{file.path} was not made for giving pages back one after another, as the tables stand in another program's database; "
                "end all that use it, and run sqlite3 on it with PRAGMA auto_vacuum = 2; VACUUM;"
            )
        page_bytes, before = _told(connection, "page_size"), _told(connection, "page_count")
        turns = Turns(file.processes)
        try:
            _give_back(file, connection, turns)
            is_emptied = emptied(connection)
        finally:
            turns.close()
        after, free = _told(connection, "page_count"), _told(connection, "freelist_count")
    return Vacuumed(before * page_bytes, after * page_bytes, free * page_bytes, is_emptied)


def _give_back(file: DatabaseFile, connection: sqlite3.Connection, turns: Turns) -> None:
    """Give back what is free now; what becomes free meanwhile is for the next time."""
    left = _told(connection, "freelist_count")
    while left > 0:
        began_s = time.monotonic()
        begin_in_turn(connection, turns, WAIT_S)
        try:
            expect_version(file, connection)
            for _ in range(min(PAGES, left)):
                connection.execute("PRAGMA incremental_vacuum(1)")  # Python ends the statement after its first step, which is one page
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        left = min(left - PAGES, _told(connection, "freelist_count"))
        time.sleep(min(time.monotonic() - began_s, REST_MAX_S))


def _told(connection: sqlite3.Connection, name: str) -> int:
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(value)
