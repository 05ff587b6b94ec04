"""The store's clock, as a process sees it: the time that the store last told, plus what has passed here since."""

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
