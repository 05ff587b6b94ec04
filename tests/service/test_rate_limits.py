"""A token bucket for each key: a burst, then a rate; never more than both allow."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import BadValue
from perdure.service.rate_limits import BUCKETS_MAX, RateLimiter


def test_a_burst_is_allowed_and_then_the_rate() -> None:
    limiter = RateLimiter(per_s=2, burst=3)
    assert [limiter.take("a", 10.0) for _ in range(5)] == [0, 0, 0, 0.5, 0.5]
    assert limiter.take("a", 10.4) == pytest.approx(0.1)
    assert [limiter.take("a", 10.5), limiter.take("a", 10.5)] == [0, 0.5]
    assert [limiter.take("a", 100.0) for _ in range(4)] == [0, 0, 0, 0.5]


def test_each_key_has_its_own_bucket() -> None:
    limiter = RateLimiter(per_s=1, burst=1)
    assert [limiter.take(key, 0.0) for key in ("a", "a", "b", "b")] == [0, 1, 0, 1]


@given(st.lists(st.floats(0, 5, allow_nan=False), min_size=1, max_size=60), st.floats(0.1, 50), st.integers(1, 20))
def test_no_stretch_of_time_has_more_than_the_burst_and_the_rate(waits: list[float], per_s: float, burst: int) -> None:
    limiter, now_s, allowed = RateLimiter(per_s, burst), 0.0, list[float]()
    for wait_s in waits:
        now_s += wait_s
        if not (after_s := limiter.take("a", now_s)):
            allowed.append(now_s)
        else:
            assert 0 < after_s <= 1 / per_s + 1e-6
    for first, begin_s in enumerate(allowed):
        for last in range(first, len(allowed)):
            assert last - first + 1 <= burst + (allowed[last] - begin_s) * per_s + 1e-6


def test_who_waits_as_long_as_is_said_is_allowed() -> None:
    limiter, now_s = RateLimiter(per_s=0.3, burst=1), 0.1
    assert limiter.take("a", now_s) == 0
    for _ in range(1000):
        now_s += (after_s := limiter.take("a", now_s))
        assert after_s == pytest.approx(1 / 0.3) and limiter.take("a", now_s) == 0


def test_a_clock_that_goes_back_gives_nothing() -> None:
    limiter = RateLimiter(per_s=1, burst=1)
    assert [limiter.take("a", 10.0), limiter.take("a", 5.0), limiter.take("a", 5.5), limiter.take("a", 10.5)] == [0, 1, 1, 0.5]


def test_a_flood_of_names_takes_no_more_memory() -> None:
    limiter = RateLimiter(per_s=1, burst=1)
    for number in range(BUCKETS_MAX * 2):
        limiter.take(f"{number}", 0.0)
    assert len(limiter._buckets) == BUCKETS_MAX


@pytest.mark.parametrize(("per_s", "burst"), [(0, 1), (-1, 1), (float("nan"), 1), (1, 0)])
def test_a_limit_that_allows_nothing_is_refused(per_s: float, burst: int) -> None:
    with pytest.raises(BadValue, match="rate limit"):
        RateLimiter(per_s, burst)
