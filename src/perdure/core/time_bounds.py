"""What time it is, as far as it is known: between two bounds.

Nobody knows the store's time exactly: between its reading and its use, a process may stand still for any length of time. Two rules
follow. *Is it due?* is decided by the earliest time that it can be. *A deadline* is counted from the latest. So a timer
may be late, by the distance of the bounds at most, and is never early.
"""

from typing import Self

import msgspec


class TimeBounds(msgspec.Struct, frozen=True, gc=False):
    """The earliest and the latest time that it can be now, in seconds since 1970."""

    earliest_s: float
    latest_s: float

    @classmethod
    def exactly(cls, now_s: float) -> Self:
        """The bounds of a time that is known."""
        return cls(now_s, now_s)

    def is_past(self, time_s: float) -> bool:
        """Whether it is surely that time, or later."""
        return time_s <= self.earliest_s

    def not_before(self, time_s: float) -> "TimeBounds":
        """The same, except that deadlines and events are stamped at `time_s` at the earliest; whether something is due does not depend on it."""
        return self if time_s <= self.latest_s else TimeBounds(self.earliest_s, time_s)
