"""The present time of the store as an interval.

A process never knows the time of the store exactly: it may be suspended for any length of time between reading the clock and using the time. Whether
something is due is therefore decided by the earliest time that it can be, and deadlines are counted from the latest. A timer may be late, by the width of
the interval at most, and is never early.
"""

from typing import Self

import msgspec


class TimeBounds(msgspec.Struct, frozen=True, gc=False):
    """The earliest and the latest time that it can be now, in seconds since 1970."""

    earliest_s: float
    latest_s: float

    @classmethod
    def exactly(cls, now_s: float) -> Self:
        """Returns the interval of a time that is known exactly."""
        return cls(now_s, now_s)

    def is_past(self, time_s: float) -> bool:
        """Whether it is surely that time or later."""
        return time_s <= self.earliest_s

    def not_before(self, time_s: float) -> "TimeBounds":
        """Returns bounds whose latest time is at least `time_s`. The earliest time, which decides what is due, stays."""
        return self if time_s <= self.latest_s else TimeBounds(self.earliest_s, time_s)
