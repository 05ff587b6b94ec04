"""Watches for the commit of a user's transaction that a post has joined, and then notifies those that wait.

SQLite does not report commits of other connections, so the process that posted polls for its message for a while. A notification only saves time: after a
later commit, engines find the message at their next poll.
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
"""The shortest and the longest wait between two polls."""
WATCH_MAX_S = 10.0
"""How long the watcher waits for a commit."""


class _ExpectedMessage:
    """A message that becomes visible with the user's commit, until when to poll for it, and the tables that know whom to notify."""

    def __init__(self, posted: tuple[str, str], tables: SqliteTables) -> None:
        self.posted, self.tables = posted, tables
        self.until_s = time.monotonic() + WATCH_MAX_S


class TransactionWatcher:
    """Polls with `readers` for expected messages, and calls `seen` with the tables that posted each. Its thread lives while any message is expected."""

    def __init__(self, readers: ReadConnections, seen: Callable[[SqliteTables], None]) -> None:
        self._readers, self._seen = readers, seen
        self._expected: list[_ExpectedMessage] = []
        self._changed = Condition()
        self._thread: Thread | None = None
        self._ended = False

    def expect(self, posted: tuple[str, str], tables: SqliteTables) -> None:
        """Polls for this message from now on."""
        with self._changed:
            self._expected.append(_ExpectedMessage(posted, tables))
            if self._thread is None and not self._ended:
                self._thread = start_daemon_thread(self._work, "perdure-commits")
            self._changed.notify()

    def close(self) -> None:
        """Ends the polling."""
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
        except (*DATABASE_ERRORS, StoreError):  # the next read or write of the store raises it
            return []
