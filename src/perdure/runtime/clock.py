"""The store's clock, as a process sees it: the time that the store last told, plus what has passed here since."""

import asyncio
from collections.abc import Callable


class StoreClock:
    """Never goes back, so that what is decided later is not earlier, whatever the clocks do."""

    __slots__ = ("_monotonic", "_offset_s", "_shown_s")

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._offset_s = 0.0
        self._shown_s = 0.0

    def told(self, now_s: float) -> None:
        """Take over the time that the store has just told."""
        self._offset_s = now_s - self._monotonic()

    def now_s(self) -> float:
        """The store's time, in seconds since 1970."""
        self._shown_s = max(self._shown_s, self._monotonic() + self._offset_s)
        return self._shown_s

    def at(self, when_s: float) -> float:
        """A point in the store's time, on the monotonic clock."""
        return when_s - self._offset_s


class Alarm:
    """Sets `ring` at the earliest of the times of the store that it was told, once for all of them; to be made in an event loop."""

    __slots__ = ("_clock", "_next", "_ring")

    def __init__(self, clock: StoreClock, ring: asyncio.Event) -> None:
        self._clock = clock
        self._ring = ring
        self._next: tuple[float, asyncio.TimerHandle] | None = None

    def at(self, when_s: float | None) -> None:
        """Ring at this time too; None is no time."""
        if when_s is not None and (self._next is None or when_s < self._next[0]):
            self.cancel()
            self._next = (when_s, asyncio.get_running_loop().call_at(self._clock.at(when_s), self._go_off))

    def cancel(self) -> None:
        """Ring at no time."""
        if self._next is not None:
            self._next[1].cancel()
            self._next = None

    def _go_off(self) -> None:
        self._next = None
        self._ring.set()
