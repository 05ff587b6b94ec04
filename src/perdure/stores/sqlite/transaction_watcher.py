"""Heralds: nobody tells of the commit of a user's transaction, so whoever posted in it looks for it, for a while, and then rings those that wait.

A ring only saves time. What commits later is found by those that wait at their next look.
"""

import time
from collections.abc import Callable
from threading import Condition, Thread

from perdure.core.errors import StoreError
from perdure.stores.sqlite.database_file import DATABASE_ERRORS, Execute
from perdure.stores.sqlite.forks_and_threads import start_daemon_thread
from perdure.stores.sqlite.read_only_store import ReadConnections
from perdure.stores.sqlite.store_rows import is_queued
from perdure.stores.sqlite.store_tables import SqliteTables

FIRST_POLL_S, POLL_S = 0.002, 0.02
"""The shortest and the longest wait between two looks."""
WATCH_MAX_S = 10.0
"""How long a commit is looked for."""


class _ExpectedMessage:
    """Mail that somebody's commit will make seen, until when it is looked for, and whom it concerns."""

    def __init__(self, posted: tuple[str, str], tables: SqliteTables) -> None:
        self.posted, self.tables = posted, tables
        self.until_s = time.monotonic() + WATCH_MAX_S


class TransactionWatcher:
    """Looks with `readers` for what is expected, in a thread that is there while anything is, and calls `seen` with the tables that posted it."""

    def __init__(self, readers: ReadConnections, seen: Callable[[SqliteTables], None]) -> None:
        self._readers, self._seen = readers, seen
        self._expected: list[_ExpectedMessage] = []
        self._changed = Condition()
        self._thread: Thread | None = None
        self._ended = False

    def expect(self, posted: tuple[str, str], tables: SqliteTables) -> None:
        """Look for this mail from now on."""
        with self._changed:
            self._expected.append(_ExpectedMessage(posted, tables))
            if self._thread is None and not self._ended:
                self._thread = start_daemon_thread(self._work, "perdure-heralds")
            self._changed.notify()

    def close(self) -> None:
        """Look for nothing any more."""
        with self._changed:
            self._ended, thread = True, self._thread
            self._changed.notify()
        if thread is not None:
            thread.join()

    def _work(self) -> None:
        pause_s = FIRST_POLL_S
        while True:
            with self._changed:
                if self._changed.wait(pause_s):
                    pause_s = FIRST_POLL_S
                if self._ended or not self._expected:
                    self._thread = None
                    return
                expected = tuple(self._expected)
            there = self._look(expected)
            for one in there:
                self._seen(one.tables)
            now_s = time.monotonic()
            with self._changed:
                self._expected = [one for one in self._expected if one not in there and now_s < one.until_s]
            pause_s = min(2 * pause_s, POLL_S)

    def _look(self, expected: tuple[_ExpectedMessage, ...]) -> list[_ExpectedMessage]:
        def look(execute: Execute) -> list[_ExpectedMessage]:
            return [one for one in expected if is_queued(execute, *one.posted)]

        try:
            return self._readers.read(look)
        except (*DATABASE_ERRORS, StoreError):  # whatever it is, who reads or writes next is told
            return []
