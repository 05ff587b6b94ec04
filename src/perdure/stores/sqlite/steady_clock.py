"""The store's time: the wall clock, except that it never goes back.

A reading of both clocks, first the wall's and then the monotonic one, is an anchor. From there the store's time goes on at nine tenths of the speed of
the monotonic clock at least, and is the wall's wherever that is ahead. So a wall clock that was set back neither stops timers
nor makes them an hour late: they run a little slowly until it has caught up; a jump forward, or a suspended machine, is followed
at once. All processes share the latest anchor through the file, which is at most some seconds old, and so agree within half a second.

The order of the two readings matters. A process may stand still between them: read in this order, its anchor is behind the true time for
it, which costs nothing. In the other order the anchor would be ahead, for all processes, and every timer early.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

SPEED = 0.9
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Anchor(NamedTuple):
    """What time it was, in seconds since 1970, when the monotonic clock of the boot `boot` said `monotonic_s`."""

    time_s: float
    monotonic_s: float
    boot: str


def steady_time(anchor: Anchor, wall_s: float, monotonic_s: float) -> float:
    """What time it is by these two clocks, `anchor` being of the same boot."""
    return max(wall_s, anchor.time_s + SPEED * (monotonic_s - anchor.monotonic_s))


def later_anchor(one: Anchor, other: Anchor) -> Anchor:
    """Of two anchors of one boot, the one by which it is later."""
    return one if one.time_s - SPEED * one.monotonic_s >= other.time_s - SPEED * other.monotonic_s else other


def boot_id() -> str:
    """Which boot of the machine this is; empty where the system does not tell. A stale anchor is then harmless: by it, it is too early."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


class SteadyClock:
    """The store's time in one process, which anchors it anew at each reading."""

    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic, boot: str | None = None) -> None:
        self._wall, self._monotonic = wall, monotonic
        wall_s, monotonic_s = wall(), monotonic()
        self.anchor = Anchor(wall_s, monotonic_s, boot_id() if boot is None else boot)

    def __call__(self) -> float:
        """What time it is, in seconds since 1970."""
        wall_s, monotonic_s = self._wall(), self._monotonic()
        time_s = steady_time(self.anchor, wall_s, monotonic_s)
        self.anchor = Anchor(time_s, monotonic_s, self.anchor.boot)
        return time_s

    def follow(self, anchor: Anchor) -> None:
        """Take over what time it was for another process; one of another boot is of no use."""
        if anchor.boot == self.anchor.boot:
            self.anchor = later_anchor(self.anchor, anchor)
