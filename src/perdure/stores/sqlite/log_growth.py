"""Grows the file of the write-ahead log ahead of its use.

A commit that makes the file longer waits for the disk about twice as long as one that overwrites what is there, because the file system has to make the new
size durable as well. So a process that goes on writing makes the file longer in two pieces, each at the cost of one slow commit. A short script, which would
pay more than it gains, ends before the first.

SQLite ignores what follows the last valid frame of the log: the zeros have neither its checksum nor the salt of a frame. They are written by a process that
has begun a write transaction, so no other process appends to the log or truncates it meanwhile. SQLite holds no locks on this file (they are on ``-shm``), so
closing a descriptor of it drops none.
"""

import os
from contextlib import suppress
from pathlib import Path

COMMITS_MIN = 16
"""After how many commits of a process its log is grown."""
FIRST_BYTES = 2**20
"""The size of the first piece. The second fills the log up."""
GROWN_BYTES = 4 * 2**20
"""The size up to which the log is grown: that from which checkpoints restart it, and something for the frames that are written meanwhile."""


class LogGrowth:
    """Grows the log at `wal`, once for each process. Call `grow` only within a write transaction."""

    def __init__(self, wal: Path) -> None:
        self._name = str(wal)
        self._commits = 0
        self._grown_bytes = 0

    def grow(self) -> None:
        """Adds a piece if the log has been filled since the last one, and has not its full size yet."""
        self._commits += 1
        if self._commits < COMMITS_MIN or self._grown_bytes >= GROWN_BYTES:
            return
        with suppress(OSError):  # no room on the disk: the commit says so, if it needs any
            size_bytes = os.stat(self._name).st_size  # noqa: PTH116  # takes half the time of Path.stat, and runs in each transaction
            if size_bytes > self._grown_bytes or not size_bytes:
                target_bytes = GROWN_BYTES if self._grown_bytes else min(size_bytes + FIRST_BYTES, GROWN_BYTES)
                self._grown_bytes = max(size_bytes, self._add(size_bytes, target_bytes - size_bytes))

    def _add(self, size_bytes: int, count: int) -> int:
        """Adds `count` bytes at the end of the log, and returns its new size."""
        if count <= 0:
            return size_bytes
        descriptor = os.open(self._name, os.O_WRONLY)
        try:
            return size_bytes + os.pwrite(descriptor, bytes(count), size_bytes)
        finally:
            os.close(descriptor)
