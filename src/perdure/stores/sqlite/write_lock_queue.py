"""Fair turns at SQLite's write lock between processes.

SQLite gives the lock to the process that asks at the right moment, so a process that writes without pause would starve the others. A process that has to wait
shows it by a shared lock on a file of its own purpose, which the kernel releases if the process dies. A process that has been writing for some
milliseconds without a pause gives way until no process waits, so each gets a turn before any gets its next. If a waiting process does not write, for
example because it is stopped, the others give way for `WAITER_GRACE_S` and then ignore it for `WAITER_IGNORED_S`.
"""

import fcntl
import os
import sqlite3
import time
from pathlib import Path

from perdure.stores.sqlite.database_file import is_busy
from perdure.stores.sqlite.file_permissions import database_of_processes, directory_mode, make_directories, neighbour_mode, open_neighbour

WRITE_SLICE_S = 0.004
LOCK_RETRY_S = 0.001
WAITER_GRACE_S, WAITER_IGNORED_S = 0.05, 0.5
EMPTY_WAL_MAX_S = 5.0
"""How long to attempt to empty the write-ahead log while others use the file."""


def begin_write(connection: sqlite3.Connection, turns: "WriteLockQueue", wait_s: float) -> None:
    """Begins a write transaction when it is this process's turn. By SQLite's own waiting alone, engines would starve this process.

    Raises:
        sqlite3.OperationalError: others have had the file locked for `wait_s`.
    """
    ends_s = time.monotonic() + wait_s
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        while True:
            try:
                connection.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                if not is_busy(error) or time.monotonic() > ends_s:
                    raise
            turns.wait()
            time.sleep(LOCK_RETRY_S)
    finally:
        turns.go()
        connection.execute(f"PRAGMA busy_timeout = {round(wait_s * 1000)}")


def empty_write_ahead_log(connection: sqlite3.Connection) -> bool:
    """Empties the write-ahead log, in attempts so short that no writer has to wait; returns False if readers prevented it all the time."""
    connection.execute("PRAGMA busy_timeout = 20")
    ends_s = time.monotonic() + EMPTY_WAL_MAX_S
    while True:
        blocked, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if not blocked or time.monotonic() > ends_s:
            return not blocked
        time.sleep(0.05)


class WriteLockQueue:
    """The turns of this process. One thread uses it at a time. `directory` need not exist yet."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._descriptor: int | None = None
        self._shown = False
        self._since_s = self._ended_s = self._impatient_until_s = 0.0
        self._giving_way_s: float | None = None

    def gives_way(self, now_s: float) -> bool:
        """Whether this process has had its turn and another one waits. The caller then asks again after `LOCK_RETRY_S`."""
        if self._shown:
            return False
        if self._giving_way_s is None:
            has_paused, has_had_its_turn = now_s - self._ended_s >= WRITE_SLICE_S, now_s - self._since_s >= WRITE_SLICE_S
            if has_had_its_turn and not has_paused and now_s >= self._impatient_until_s and self._somebody_waits():
                self._giving_way_s = now_s
                return True
            if has_had_its_turn:
                self._since_s = now_s
            return False
        if now_s - self._giving_way_s >= WAITER_GRACE_S:
            self._impatient_until_s = now_s + WAITER_IGNORED_S
        elif self._somebody_waits():
            return True
        self._giving_way_s, self._since_s = None, now_s
        return False

    def ended(self, now_s: float) -> None:
        """Records the end of a transaction."""
        self._ended_s = now_s

    def wait(self) -> None:
        """Shows the others that this process waits."""
        if not self._shown and self._open(os.O_CREAT) is not None:
            self._shown = self._lock(fcntl.LOCK_SH)

    def go(self) -> None:
        """Shows the others that this process no longer waits."""
        if self._shown:
            self._unlock()
            self._shown = False

    def close(self) -> None:
        """Closes the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor, self._shown = None, False

    def _somebody_waits(self) -> bool:
        if self._open() is None or self._descriptor is None:
            return False
        if not self._lock(fcntl.LOCK_EX):
            return True
        self._unlock()
        return False

    def _open(self, flags: int = 0) -> int | None:
        if self._descriptor is None:
            try:
                waiting = self._directory / "waiting"
                if flags & os.O_CREAT:
                    database = database_of_processes(self._directory)
                    make_directories(self._directory, directory_mode(neighbour_mode(database)))
                    self._descriptor = open_neighbour(waiting, os.O_RDWR, database)
                else:
                    self._descriptor = os.open(waiting, os.O_RDWR | flags)
            except OSError:  # Without the file no process is seen to wait. Writing reports any other cause.
                return None
        return self._descriptor

    def _unlock(self) -> None:
        if not self._lock(fcntl.LOCK_UN):
            self.close()

    def _lock(self, kind: int) -> bool:
        try:
            fcntl.flock(self._descriptor or 0, kind | fcntl.LOCK_NB)
        except OSError:
            return False
        return True
