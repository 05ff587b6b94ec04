"""Readers: a few connections that read, lent to one reading at a time. Reading never waits for writing, and each reading sees one moment."""

import sqlite3
from collections.abc import Callable
from threading import Condition
from typing import TypeVar

from perdure.core.errors import StoreUnavailable
from perdure.stores.sqlite.file import DatabaseFile, Execute

T = TypeVar("T")
IDLE_MAX = 4


class Readers:
    """Connections to `file`, made as they are needed; any thread may read."""

    def __init__(self, file: DatabaseFile) -> None:
        self._file = file
        self._idle: list[sqlite3.Connection] = []
        self._reading = 0
        self._quiet = self._ended = False
        self._free = Condition()

    def read(self, read: Callable[[Execute], T]) -> T:
        """What `read` finds in one transaction.

        Raises:
            sqlite3.Error, StoreError: as they come; the next reading has another connection.
        """
        connection = self._take()
        try:
            self._file.check()
            if connection is None:
                connection = self._file.connect()
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

    def quiet(self) -> None:
        """Wait until nobody reads, and let nobody begin."""
        with self._free:
            self._quiet = True
            while self._reading:
                self._free.wait()

    def go_on(self) -> None:
        """Reading may begin again."""
        with self._free:
            self._quiet = False
            self._free.notify_all()

    def close(self) -> None:
        """Close the connections; there are readings no more."""
        self._ended = True
        while self._idle:
            self._file.close(self._idle.pop())

    def _take(self) -> sqlite3.Connection | None:
        with self._free:
            while self._quiet:
                self._free.wait()
            if self._ended:
                raise StoreUnavailable(f"{self._file.path} has been closed; open a new store on it")
            self._reading += 1
            return self._idle.pop() if self._idle else None

    def _give(self, connection: sqlite3.Connection | None) -> None:
        with self._free:
            self._reading -= 1
            if connection is not None and len(self._idle) < IDLE_MAX:
                self._idle.append(connection)
                connection = None
            if self._quiet:
                self._free.notify_all()
        if connection is not None:
            self._file.close(connection)
