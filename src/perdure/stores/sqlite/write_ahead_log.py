"""Checks whether a write-ahead log belongs to the database next to it, before SQLite opens the two together.

SQLite applies whatever log it finds. If a backup is copied over a database whose process was killed, SQLite mixes the backup with what that process
wrote, page by page. Therefore every database has a random name (`meta.file`) and a count of its transactions (`meta.writes`), and every transaction that
changes anything writes both. A log belongs to a database if it has its name, begins no later than the transaction after the database's last one, and
does not end before that last one.

The log is read as a plain file, since SQLite has no locks on it. The database is read only through SQLite, with `immutable`, which ignores log and locks.
"""

import os
import sqlite3
from array import array
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from struct import unpack
from sys import byteorder
from time import sleep
from typing import NamedTuple
from urllib.parse import quote

from perdure.stores.sqlite.statements import SQL

HEADER_BYTES, FRAME_HEADER_BYTES = 32, 24
MAGIC, BIG_ENDIAN = 0x377F0682, 1
LEAF_OF_TABLE = 0x0D
CHECKED_FRAMES_MAX = 1_000
"""How many frames may precede the first one with the stamp. Only transactions of other programs do."""

ATTEMPTS_MAX, RETRY_S = 8, 0.02
"""How often a mismatch is checked again: a checkpoint between the two reads causes one as well."""

COLUMNS, FILE, WRITES = 9, 7, 8
"""How many columns the table `meta` has, and the positions of the two that form the stamp."""


class DatabaseStamp(NamedTuple):
    """The name of a database, and its count of transactions."""

    file: str
    writes: int


class _StampSpan(NamedTuple):
    """The first and the last stamp in a log. The `salts` change whenever SQLite restarts the log."""

    first: DatabaseStamp
    last: DatabaseStamp
    salts: bytes


def log_mismatch(path: Path, wal: Path) -> str:
    """Returns why the log does not belong to the database; "" if it does, if it is empty, or if that can't be determined."""
    why = ""
    for attempt in range(ATTEMPTS_MAX):
        if not _size(wal):
            return ""
        before = _stamp(path)
        span = None if before is None else _span(wal, before[1], thorough=attempt > 0)
        after = None if span is None else _stamp(path)
        if before is None or span is None or after is None:
            return ""
        why = _difference(before[0], span, after[0])
        if not why:
            return ""
        sleep(RETRY_S)
    return why


def _difference(before: DatabaseStamp, span: _StampSpan, after: DatabaseStamp) -> str:
    """Returns why the stamps do not match. `before` and `after` are the database's stamps before and after the log was read."""
    if {span.first.file, span.last.file} != {before.file} or before.file != after.file:
        return "it was written for another database"
    if after.writes < span.first.writes - 1:
        return f"it continues after transaction {span.first.writes - 1:,}, and the database is at transaction {after.writes:,}"
    if before.writes > span.last.writes:
        return f"it ends at transaction {span.last.writes:,}, and the database is at transaction {before.writes:,}"
    return ""


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


# The database.


def _stamp(path: Path) -> tuple[DatabaseStamp, int] | None:
    """Reads the stamp in the database without its log, and the page that holds it; None if there is none. Opening the database reports other errors."""
    try:
        with closing(sqlite3.connect(f"file:{quote(bytes(path))}?mode=ro&immutable=1", uri=True)) as connection:
            row = connection.execute(SQL.database_stamp).fetchone()
    except (sqlite3.Error, MemoryError):
        return None
    return None if row is None or row[2] is None else (DatabaseStamp(str(row[0]), int(row[1])), int(row[2]))


# The log: a header, and frames, each of which has a header and a page. See https://www.sqlite.org/fileformat2.html#walformat.


def _span(wal: Path, page: int, thorough: bool) -> _StampSpan | None:
    """Reads the first and last stamp on this page in the log; None if it has none.

    The last one is searched from the end, or with `thorough` among all: frames of a rolled-back transaction may be left at the end.
    """
    try:
        descriptor = os.open(wal, os.O_RDONLY)
    except OSError:
        return None
    try:
        log = _LogReader(descriptor)
        first = log.first(page) if log.is_whole else None
        if first is None:
            return None
        last = max(log.stamps(page), key=lambda one: one.writes, default=first) if thorough else next(log.backwards(page), first)
        return _StampSpan(first, last, log.salts)
    finally:
        os.close(descriptor)


class _LogReader:
    """A write-ahead log that is open for reading."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        header = os.pread(descriptor, HEADER_BYTES, 0)
        self.is_whole = len(header) == HEADER_BYTES and int.from_bytes(header[:4]) & ~BIG_ENDIAN == MAGIC
        if self.is_whole:
            magic, _, self._page_bytes, _ = unpack(">4I", header[:16])
            self.salts = header[16:24]
            self._sum: Callable[[bytes, tuple[int, int]], tuple[int, int]] = _checksum_of("big" if magic & BIG_ENDIAN else "little")
            self._began = self._sum(header[:24], (0, 0))
            self.is_whole = self._began == unpack(">2I", header[24:])

    def first(self, page: int) -> DatabaseStamp | None:
        """Returns the first stamp in frames with correct checksums."""
        sums = self._began
        for number in range(CHECKED_FRAMES_MAX):
            frame = self._read(number, FRAME_HEADER_BYTES + self._page_bytes)
            content = frame[FRAME_HEADER_BYTES:]
            if len(content) < self._page_bytes or frame[8:16] != self.salts:
                return None
            sums = self._sum(content, self._sum(frame[:8], sums))
            if sums != unpack(">2I", frame[16:24]):
                return None
            if int.from_bytes(frame[:4]) == page and (stamp := _stamp_of(content)) is not None:
                return stamp
        return None

    def stamps(self, page: int) -> Iterator[DatabaseStamp]:
        """Yields all stamps, including those of unfinished transactions."""
        number = 0
        while self._is_of_this_log(number):
            if (stamp := self._stamp(number, page)) is not None:
                yield stamp
            number += 1

    def backwards(self, page: int) -> Iterator[DatabaseStamp]:
        """Yields the stamps from the last written to the first."""
        behind = 1
        while self._is_of_this_log(behind - 1):
            behind *= 2
        within = behind // 2
        while within < behind:  # frames of this log come before those that an earlier log has left
            middle = (within + behind) // 2
            within, behind = (middle + 1, behind) if self._is_of_this_log(middle) else (within, middle)
        for number in range(within - 1, -1, -1):
            if (stamp := self._stamp(number, page)) is not None:
                yield stamp

    def _is_of_this_log(self, number: int) -> bool:
        return self._read(number, FRAME_HEADER_BYTES)[8:16] == self.salts

    def _stamp(self, number: int, page: int) -> DatabaseStamp | None:
        """Returns the stamp in a frame of this page; None for another page."""
        if int.from_bytes(self._read(number, 4)) != page:
            return None
        return _stamp_of(self._read(number, FRAME_HEADER_BYTES + self._page_bytes)[FRAME_HEADER_BYTES:])

    def _read(self, number: int, count: int) -> bytes:
        return os.pread(self._descriptor, count, HEADER_BYTES + number * (FRAME_HEADER_BYTES + self._page_bytes))


def _checksum_of(order: str) -> Callable[[bytes, tuple[int, int]], tuple[int, int]]:
    """Returns the checksum function for words in this byte order."""

    def add(content: bytes, sums: tuple[int, int]) -> tuple[int, int]:
        words = array("I", content)
        if order != byteorder:
            words.byteswap()
        one, other = sums
        for index in range(0, len(words), 2):
            one = (one + words[index] + other) & 0xFFFFFFFF
            other = (other + words[index + 1] + one) & 0xFFFFFFFF
        return one, other

    return add


# A page of a table that has one row. See https://www.sqlite.org/fileformat2.html#b_tree_pages.


def _stamp_of(page: bytes) -> DatabaseStamp | None:
    """Returns the stamp in the row of the table `meta`; None if the page is not of that table."""
    if len(page) < 10 or page[0] != LEAF_OF_TABLE or int.from_bytes(page[3:5]) != 1:
        return None
    try:
        return _stamp_of_row(page, int.from_bytes(page[8:10]))
    except (IndexError, UnicodeDecodeError):
        return None


def _stamp_of_row(page: bytes, at: int) -> DatabaseStamp | None:
    for _ in range(2):  # the length of the row, and its number
        _, at = _varint(page, at)
    length, position = _varint(page, at)
    kinds, ends = list[int](), at + length
    while position < ends:
        kind, position = _varint(page, position)
        kinds.append(kind)
    starts = ends + sum(map(_width, kinds[:FILE]))
    if len(kinds) != COLUMNS or kinds[FILE] < 13 or not kinds[FILE] % 2:
        return None
    file = page[starts : starts + _width(kinds[FILE])].decode()
    starts += _width(kinds[FILE])
    writes = kinds[WRITES] - 8 if kinds[WRITES] in (8, 9) else int.from_bytes(page[starts : starts + _width(kinds[WRITES])], signed=True)
    return DatabaseStamp(file, writes)


def _varint(page: bytes, at: int) -> tuple[int, int]:
    """Reads a number of variable length; returns it and the position after it."""
    value = 0
    for index in range(9):
        byte = page[at + index]
        if index == 8:
            return value << 8 | byte, at + 9
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + index + 1
    raise IndexError


def _width(kind: int) -> int:
    """Returns the size in bytes of a value of this serial type."""
    return (kind - 12) // 2 if kind >= 12 else (0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0)[kind]
