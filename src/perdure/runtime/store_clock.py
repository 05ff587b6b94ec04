"""The store's clock, as a process sees it: bounds of the store's time, from what the store said and when it was asked.

A process may stand still at any instant (SIGSTOP, a paused machine, swapping), also between the store's reading of its time and the
process's hearing of it. So the monotonic clock is read before the store is asked and after it has answered: the store's time was what it
said at some instant in between. See `perdure.core.time_bounds` for what is decided by which bound.
"""

import asyncio
from collections.abc import Callable

import msgspec

from perdure.core.time_bounds import TimeBounds

READING_VALID_S = 10.0
"""How long bounds are narrowed by further readings before a new reading takes their place: clocks of two machines drift apart."""

READING_WIDTH_MAX_S = 0.5
"""A reading whose bounds are further apart says little: the process stood still, or the store did. It does not take the place of better bounds."""

ROUNDING_S = 1e-6
"""More than the distance of two times since 1970 that a float can tell apart."""


class ClockReading(msgspec.Struct, frozen=True, gc=False):
    """What the store said its time was, at some instant between two readings of the monotonic clock."""

    time_s: float
    before_s: float
    after_s: float


class StoreClock:
    """Bounds of the store's time, kept as distances from the monotonic clock."""

    __slots__ = ("_began_s", "_monotonic", "_offset_max_s", "_offset_min_s")

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._offset_min_s = self._offset_max_s = 0.0
        self._began_s = -READING_VALID_S

    def take_answer(self, time_s: float, asked_s: float) -> None:
        """Take in the time that the store has just said; it was asked at `asked_s` of the monotonic clock, or later."""
        self._take(time_s, asked_s, self._monotonic())

    def take(self, reading: ClockReading) -> None:
        """Take in a reading, unless it says nothing new."""
        self._take(reading.time_s, reading.before_s, reading.after_s)

    def _take(self, time_s: float, before_s: float, after_s: float) -> None:
        least_s, most_s = time_s - after_s, time_s - before_s
        was_set = most_s < self._offset_min_s or least_s > self._offset_max_s  # or goes on at another speed
        is_old = after_s - self._began_s > READING_VALID_S
        if was_set or (is_old and most_s - least_s <= READING_WIDTH_MAX_S):
            self._offset_min_s, self._offset_max_s, self._began_s = least_s, most_s, before_s
        else:
            self._offset_min_s, self._offset_max_s = max(least_s, self._offset_min_s), min(most_s, self._offset_max_s)

    def now(self) -> TimeBounds:
        """What the store's time is, in seconds since 1970."""
        monotonic_s = self._monotonic()
        return TimeBounds(monotonic_s + self._offset_min_s, monotonic_s + self._offset_max_s)

    def surely_past(self, when_s: float) -> float:
        """The store's time that comes after `when_s` of the monotonic clock, in seconds since 1970."""
        return when_s + self._offset_max_s + ROUNDING_S

    def at(self, when_s: float) -> float:
        """When it is surely that time of the store, on the monotonic clock."""
        at_s = when_s - self._offset_min_s
        return at_s if at_s + self._offset_min_s >= when_s else at_s + ROUNDING_S


class WakeUpTimer:
    """Sets `wake_up` at the earliest of the times of the store that it was told, once for all of them; to be made in an event loop."""

    __slots__ = ("_clock", "_next", "_wake_up")

    def __init__(self, clock: StoreClock, wake_up: asyncio.Event) -> None:
        self._clock = clock
        self._wake_up = wake_up
        self._next: tuple[float, asyncio.TimerHandle] | None = None

    def at(self, when_s: float | None) -> None:
        """Ring at this time too; None is no time."""
        if when_s is not None and (self._next is None or when_s < self._next[0]):
            self.cancel()
            self._next = (when_s, asyncio.get_running_loop().call_at(self._clock.at(when_s), self._fire))

    def cancel(self) -> None:
        """Ring at no time."""
        if self._next is not None:
            self._next[1].cancel()
            self._next = None

    def _fire(self) -> None:
        self._next = None
        self._wake_up.set()
