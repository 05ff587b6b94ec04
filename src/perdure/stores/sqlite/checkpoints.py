"""Checkpoints: what was written ahead is carried over into the database by a thread of its own, so that no commit waits for it.

A passive checkpoint lets everybody write meanwhile, and so never gets to the end of a log that is being written: now and then
the writers are held up for the little that is left, so that the log begins anew. A reader that stays keeps it from that for as long.
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
"""By how much the log grows between two checkpoints, about."""
RESTART_BYTES = 3 * 2**20
"""From which size it is begun anew, though writers wait for that. A log that is written over is also much faster than one that grows."""
TRUNCATE_BYTES = 64 * 2**20
"""From which size the file is then made smaller too."""
RESTART_ATTEMPTS = 20
"""How often that is tried, each millisecond, while others write or read."""
CHANGES_MIN, CHANGES_MAX = 50, 20_000


class Checkpoints:
    """The checkpoints of one writer of `file`, which stands still within `alone`; there is no thread until it has written much."""

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
        """So many changes were committed. How many are worth a checkpoint is found out by and by."""
        self._changes += changes
        if self._changes >= self._changes_max and not self._asked.is_set():
            if self._thread is None:
                self._changes = 0
                self._thread = start_daemon_thread(self._work, "perdure-checkpoints")
            self._asked.set()

    def pause(self) -> None:
        """Wait until there is no checkpoint, and let none begin."""
        self._lock.acquire()

    def resume(self) -> None:
        """Checkpoints may be made again."""
        self._lock.release()

    def close(self) -> None:
        """There are no more."""
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
                    continue  # whatever is wrong, writing tells it; the log is there still, for the next
            self._changes_max = min(max(changes * PASSIVE_BYTES // max(grown_bytes, 1), CHANGES_MIN), CHANGES_MAX)

    def _checkpoint(self) -> int:
        """Carry over what can be, and begin the log anew if it is long; return by how much it had grown."""
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
                if self._begin_anew(connection, mode):
                    self._log_bytes = 0
            return grown_bytes
        finally:
            connection.close()

    def _begin_anew(self, connection: sqlite3.Connection, mode: str) -> bool:
        """Carry over the rest while nobody writes, so that the log begins anew; False if others have kept it from that."""
        with self._alone():
            for _ in range(RESTART_ATTEMPTS):
                (busy, _, _) = connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
                if not busy:
                    return True
                sleep(LOCK_RETRY_S)
        return False
