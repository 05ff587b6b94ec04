"""The store's time: the wall clock, except that it never goes back.

A reading of both clocks, first the wall's and then the monotonic one, is an anchor. From there the store's time advances at no less than nine tenths of the
speed of the monotonic clock, and equals the wall clock wherever that is ahead. So a wall clock that was set back neither stops timers
nor makes them an hour late: they run a little slowly until it has caught up; a jump forward, or a suspended machine, is followed
at once. All processes share the latest anchor through the file, which is at most some seconds old, and so agree within half a second.

The order of the two readings matters. A process may be suspended between them: in this order its anchor is then behind the true time, which is
harmless. In the other order the anchor would be ahead, for all processes, and every timer early.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

SPEED = 0.9
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Anchor(NamedTuple):
    """The store's time, in seconds since 1970, at the moment when the monotonic clock of the boot `boot` showed `monotonic_s`."""

    time_s: float
    monotonic_s: float
    boot: str


def steady_time(anchor: Anchor, wall_s: float, monotonic_s: float) -> float:
    """Returns the store's time for readings of the two clocks. `anchor` must be of the same boot."""
    return max(wall_s, anchor.time_s + SPEED * (monotonic_s - anchor.monotonic_s))


def later_anchor(one: Anchor, other: Anchor) -> Anchor:
    """Returns the one of two anchors of one boot that gives the later time."""
    return one if one.time_s - SPEED * one.monotonic_s >= other.time_s - SPEED * other.monotonic_s else other


def boot_id() -> str:
    """Returns the id of this boot; "" where the system has none. A stale anchor is then harmless, since it gives a time that is too early."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


class SteadyClock:
    """The store's time in one process. Each reading sets a new anchor."""

    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic, boot: str | None = None) -> None:
        self._wall, self._monotonic = wall, monotonic
        wall_s, monotonic_s = wall(), monotonic()
        self.anchor = Anchor(wall_s, monotonic_s, boot_id() if boot is None else boot)

    def __call__(self) -> float:
        """Returns the time, in seconds since 1970."""
        wall_s, monotonic_s = self._wall(), self._monotonic()
        time_s = steady_time(self.anchor, wall_s, monotonic_s)
        self.anchor = Anchor(time_s, monotonic_s, self.anchor.boot)
        return time_s

    def follow(self, anchor: Anchor) -> None:
        """Takes over the anchor of another process if it gives a later time. An anchor of another boot is ignored."""
        if anchor.boot == self.anchor.boot:
            self.anchor = later_anchor(self.anchor, anchor)
