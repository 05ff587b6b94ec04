"""Checkpoints: a thread of its own copies the write-ahead log into the database, so that no commit waits for it.

A passive checkpoint lets others write meanwhile, and so never reaches the end of a log that is being written. Now and then the thread therefore stops the
writers for the small rest, so that SQLite restarts the log. A long-running reader prevents that for as long as it reads.
"""

import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager
from threading import Event, Lock, Thread
from time import sleep

from perdure.core.errors import StoreError
from perdure.stores.sqlite.database_file import DATABASE_ERRORS, DatabaseFile
from perdure.stores.sqlite.forks_and_threads import start_daemon_thread
from perdure.stores.sqlite.write_lock_queue import LOCK_RETRY_S

PASSIVE_BYTES = 4 * 2**20
"""By about how much the log grows between two checkpoints."""
RESTART_BYTES = 3 * 2**20
"""The size from which the log is restarted although writers wait for that. Overwriting a log is also much faster than growing it."""
TRUNCATE_BYTES = 64 * 2**20
"""The size from which the file is truncated as well."""
RESTART_ATTEMPTS = 20
"""How often a restart is attempted, once a millisecond, while others write or read."""
CHANGES_MIN, CHANGES_MAX = 50, 20_000


class Checkpoints:
    """The checkpoints of one writer of `file`, which pauses within `alone`. The thread starts once there is enough to copy."""

    def __init__(self, file: DatabaseFile, alone: Callable[[], AbstractContextManager[None]]) -> None:
        self._file, self._alone = file, alone
        self._changes = 0
        self._changes_max = 300
        self._log_bytes = 0
        self._asked = Event()
        self._thread: Thread | None = None
        self._ended = False
        self._lock = Lock()

    def wrote(self, changes: int) -> None:
        """Counts committed changes and requests a checkpoint after enough of them. How many are enough adapts to the growth of the log."""
        self._changes += changes
        if self._changes >= self._changes_max and not self._asked.is_set():
            if self._thread is None:
                self._changes = 0
                self._thread = start_daemon_thread(self._work, "perdure-checkpoints")
            self._asked.set()

    def pause(self) -> None:
        """Waits until no checkpoint is in progress, and lets none begin."""
        self._lock.acquire()

    def resume(self) -> None:
        """Lets checkpoints begin again."""
        self._lock.release()

    def close(self) -> None:
        """Ends the thread."""
        self._ended = True
        if self._thread is not None:
            self._asked.set()
            self._thread.join()

    def _work(self) -> None:
        while True:
            self._asked.wait()
            if self._ended:
                return
            changes, self._changes = self._changes, 0
            self._asked.clear()
            with self._lock:
                try:
                    grown_bytes = self._checkpoint()
                except (*DATABASE_ERRORS, StoreError):
                    continue  # the next write reports the cause; the log stays for the next checkpoint
            self._changes_max = min(max(changes * PASSIVE_BYTES // max(grown_bytes, 1), CHANGES_MIN), CHANGES_MAX)

    def _checkpoint(self) -> int:
        """Copies what it can, and restarts the log if it is long; returns by how much the log had grown."""
        self._file.check()
        self._file.check_log()
        connection = self._file.connect()
        try:
            (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
            _, frames, carried = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            before, self._log_bytes = self._log_bytes, frames * page_bytes
            grown_bytes = self._log_bytes - before if self._log_bytes >= before else self._log_bytes
            if self._log_bytes >= RESTART_BYTES and (frames - carried) * page_bytes <= PASSIVE_BYTES:
                mode = "TRUNCATE" if self._file.wal.stat().st_size >= TRUNCATE_BYTES else "RESTART"
                if self._restart_log(connection, mode):
                    self._log_bytes = 0
            return grown_bytes
        finally:
            connection.close()

    def _restart_log(self, connection: sqlite3.Connection, mode: str) -> bool:
        """Copies the rest while this process does not write, so that SQLite restarts the log; returns False if others prevented it."""
        with self._alone():
            for _ in range(RESTART_ATTEMPTS):
                (busy, _, _) = connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
                if not busy:
                    return True
                sleep(LOCK_RETRY_S)
        return False
