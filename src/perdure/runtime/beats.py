"""Beats: how far a step is, told to its execution once a second at most. What is said meanwhile waits, and the latest counts."""

import asyncio
from collections.abc import Callable

BEAT_EVERY_S = 1.0


class Beats:
    """The heartbeats of one try, which may come from any thread; `tell` is called on the loop that they were made on."""

    __slots__ = ("_latest", "_loop", "_tell", "_timer", "_told_s")

    def __init__(self, tell: Callable[[bytes], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._tell = tell
        self._latest: bytes | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._told_s = -BEAT_EVERY_S

    def beat(self, progress: bytes) -> None:
        """Take what the step says."""
        self._latest = progress
        self._loop.call_soon_threadsafe(self._soon)

    def _soon(self) -> None:
        if self._timer is None and self._latest is not None:
            self._timer = self._loop.call_at(max(self._told_s + BEAT_EVERY_S, self._loop.time()), self.flush)

    def flush(self) -> None:
        """Tell what was not told yet."""
        latest = self.take()
        if latest is not None:
            self._told_s = self._loop.time()
            self._tell(latest)

    def take(self) -> bytes | None:
        """What was not told yet, and is not told later."""
        self.close()
        latest, self._latest = self._latest, None
        return latest

    def close(self) -> None:
        """Tell nothing more later."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
