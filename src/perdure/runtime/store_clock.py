"""Estimates the time of the store as an interval, from the times that the store reports.

A process may be suspended at any instant (SIGSTOP, a paused machine, swapping), also after the store has read its clock and before the process has the
answer. So the monotonic clock is read before the call and after the answer: the reported time was right at some instant in between. See
`perdure.core.time_bounds` for what is decided by which bound.
"""

import asyncio
from collections.abc import Callable

import msgspec

from perdure.core.time_bounds import TimeBounds

READING_VALID_S = 10.0
"""How long further readings narrow the bounds before a new reading replaces them. The clocks of two machines drift apart, so old bounds become wrong."""

READING_WIDTH_MAX_S = 0.5
"""A reading whose bounds are further apart, because the process or the store was suspended, does not replace better bounds."""

ROUNDING_S = 1e-6
"""More than the rounding error of a time since 1970 in a float."""


class ClockReading(msgspec.Struct, frozen=True, gc=False):
    """The time that the store reported at some instant between two readings of the monotonic clock."""

    time_s: float
    before_s: float
    after_s: float


class StoreClock:
    """Bounds of the time of the store, kept as offsets from the monotonic clock."""

    __slots__ = ("_began_s", "_monotonic", "_offset_max_s", "_offset_min_s")

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._offset_min_s = self._offset_max_s = 0.0
        self._began_s = -READING_VALID_S

    def take_answer(self, time_s: float, asked_s: float) -> None:
        """Takes a time that the store has just reported. The call began at the monotonic time `asked_s` or later."""
        self._take(time_s, asked_s, self._monotonic())

    def take(self, reading: ClockReading) -> None:
        """Takes a reading: narrows the bounds by it, or replaces them if they are old or the clock was set."""
        self._take(reading.time_s, reading.before_s, reading.after_s)

    def _take(self, time_s: float, before_s: float, after_s: float) -> None:
        least_s, most_s = time_s - after_s, time_s - before_s
        was_set = most_s < self._offset_min_s or least_s > self._offset_max_s  # or its speed has changed
        is_old = after_s - self._began_s > READING_VALID_S
        if was_set or (is_old and most_s - least_s <= READING_WIDTH_MAX_S):
            self._offset_min_s, self._offset_max_s, self._began_s = least_s, most_s, before_s
        else:
            self._offset_min_s, self._offset_max_s = max(least_s, self._offset_min_s), min(most_s, self._offset_max_s)

    def now(self) -> TimeBounds:
        """Returns the bounds of the present time of the store, in seconds since 1970."""
        monotonic_s = self._monotonic()
        return TimeBounds(monotonic_s + self._offset_min_s, monotonic_s + self._offset_max_s)

    def surely_past(self, when_s: float) -> float:
        """Returns a time of the store, in seconds since 1970, that is surely later than the monotonic time `when_s`."""
        return when_s + self._offset_max_s + ROUNDING_S

    def at(self, when_s: float) -> float:
        """Returns the monotonic time at which the store has surely reached the time `when_s`."""
        at_s = when_s - self._offset_min_s
        return at_s if at_s + self._offset_min_s >= when_s else at_s + ROUNDING_S


class WakeUpTimer:
    """Sets the event `wake_up` at the earliest of the times given to `at`, once for all of them. It must be created in an event loop."""

    __slots__ = ("_clock", "_next", "_wake_up")

    def __init__(self, clock: StoreClock, wake_up: asyncio.Event) -> None:
        self._clock = clock
        self._wake_up = wake_up
        self._next: tuple[float, asyncio.TimerHandle] | None = None

    def at(self, when_s: float | None) -> None:
        """Sets the timer to this time of the store, unless it is set to an earlier one. None has no effect."""
        if when_s is not None and (self._next is None or when_s < self._next[0]):
            self.cancel()
            self._next = (when_s, asyncio.get_running_loop().call_at(self._clock.at(when_s), self._fire))

    def cancel(self) -> None:
        """Cancels the timer."""
        if self._next is not None:
            self._next[1].cancel()
            self._next = None

    def _fire(self) -> None:
        self._next = None
        self._wake_up.set()
