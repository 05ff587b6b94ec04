"""Limits how often each caller may ask, by a token bucket for each key. The counts are of this process: several processes allow as many times as much.

Pure: the time is an argument.
"""

from collections import OrderedDict
from typing import NamedTuple

from perdure.core.errors import BadValue

BUCKETS_MAX = 10_000


class _Bucket(NamedTuple):
    """What was left at a time."""

    left: float
    at_s: float


class RateLimiter:
    """Allows each key `burst` requests at once, and `per_s` a second from then on.

    At most `BUCKETS_MAX` keys are remembered; beyond that, those that have asked longest ago begin anew, so that a flood of names takes no more memory.
    """

    def __init__(self, per_s: float, burst: int) -> None:
        if not 0 < per_s < 1e9 or burst < 1:
            raise BadValue("rate limit", (per_s, burst), "a rate greater than 0 and a burst of at least 1")
        self.per_s, self.burst = per_s, burst
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def take(self, key: str, now_s: float) -> float:
        """Counts a request at `now_s` of a monotonic clock. Returns 0 if it is allowed, else after how many seconds one would be."""
        before = self._buckets.pop(key, _Bucket(float(self.burst), now_s))
        left = min(before.left + max(now_s - before.at_s, 0.0) * self.per_s, float(self.burst))
        is_allowed = left >= 1 - 1e-9
        self._buckets[key] = _Bucket(left - 1 if is_allowed else left, max(now_s, before.at_s))
        if len(self._buckets) > BUCKETS_MAX:
            self._buckets.popitem(last=False)
        return 0.0 if is_allowed else (1 - left) / self.per_s
