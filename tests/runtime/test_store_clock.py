"""Claims about the bounds of the store's time: the truth is always within them, however long the process stands still, and they are close."""

from random import Random

import pytest

from perdure.core.time_bounds import TimeBounds
from perdure.runtime.store_clock import READING_VALID_S, READING_WIDTH_MAX_S, ClockReading, StoreClock
from perdure.stores.sqlite.steady_clock import SteadyClock

AHEAD_S = 1.7e9
"""How far the store's time is ahead of the monotonic clock."""

ROUNDED_S = 1e-6


class Host:
    """A process with a monotonic clock, and a store whose time is so far `ahead_s` of that."""

    def __init__(self) -> None:
        self.monotonic_s, self.ahead_s = 1000.0, AHEAD_S
        self.clock = StoreClock(lambda: self.monotonic_s)

    @property
    def store_s(self) -> float:
        return self.monotonic_s + self.ahead_s

    def ask(self, before_s: float = 0.0, after_s: float = 0.0) -> None:
        """Ask the store for its time, with such pauses before it reads its clock and behind that."""
        asked_s = self.monotonic_s
        self.monotonic_s += before_s
        said_s = self.store_s
        self.monotonic_s += after_s
        self.clock.take_answer(said_s, asked_s)

    def now(self) -> TimeBounds:
        """The bounds, which hold the truth."""
        now = self.clock.now()
        assert now.earliest_s - ROUNDED_S <= self.store_s <= now.latest_s + ROUNDED_S
        return now

    def width_s(self) -> float:
        now = self.now()
        return now.latest_s - now.earliest_s


@pytest.mark.parametrize("seed", range(20))
def test_the_truth_is_within_the_bounds_wherever_the_process_stands_still(seed: int) -> None:
    host, rng = Host(), Random(seed)
    for _ in range(500):
        host.ask(*(rng.choice((0.0, 1e-4, 0.01, 3.0, 60.0)) * rng.random() for _ in range(2)))
        host.now()
        host.monotonic_s += rng.choice((0.0, 0.1, 1.0, 100.0)) * rng.random()
        host.now()


def test_a_pause_on_either_side_of_the_stores_reading_widens_bounds_by_its_length_until_the_next_reading() -> None:
    for before_s, after_s in ((3.0, 0.0), (0.0, 3.0)):
        host = Host()
        host.ask(before_s, after_s)
        assert host.width_s() == pytest.approx(3.0)
        host.ask(0.001, 0.001)
        assert host.width_s() <= 0.002 + ROUNDED_S


def test_a_wide_reading_takes_nothing_away_from_close_bounds_even_from_old_ones() -> None:
    host = Host()
    host.ask(0.001, 0.001)
    host.monotonic_s += 2 * READING_VALID_S
    host.ask(READING_WIDTH_MAX_S, 1.0)
    assert host.width_s() <= 0.002 + ROUNDED_S


def test_a_reading_that_is_close_takes_the_place_of_old_bounds_as_clocks_of_two_machines_drift_apart() -> None:
    host = Host()
    for _ in range(1000):
        host.ask(0.002, 0.003)
        host.monotonic_s += 1.0
        host.ahead_s += 1e-4
        now = host.clock.now()
        assert now.earliest_s - READING_VALID_S * 2e-4 <= host.store_s <= now.latest_s + READING_VALID_S * 2e-4


@pytest.mark.parametrize("by_s", [-3600.0, -0.3, 0.3, 3600.0])
def test_a_time_that_was_set_is_followed_at_the_next_reading(by_s: float) -> None:
    host = Host()
    host.ask(0.001, 0.001)
    host.ahead_s += by_s
    host.ask(0.001, 0.001)
    assert host.width_s() == pytest.approx(0.002, abs=1e-5)


def test_what_the_store_says_is_past_is_past_once_it_has_said_so() -> None:
    rng, host = Random(7), Host()
    for _ in range(1000):
        asked_s = host.monotonic_s
        host.monotonic_s += rng.random() ** 8
        said_s = host.store_s
        host.monotonic_s += rng.random() ** 8
        host.clock.take(ClockReading(said_s, asked_s, host.monotonic_s))
        assert host.clock.now().earliest_s >= said_s - ROUNDED_S


def test_a_timer_fires_when_its_time_is_surely_over_and_not_a_rounding_before() -> None:
    rng, host = Random(8), Host()
    host.ask(0.001, 0.002)
    for _ in range(1000):
        due_s = host.store_s + 100 * rng.random()
        host.monotonic_s = host.clock.at(due_s)
        assert host.clock.now().is_past(due_s) and host.store_s >= due_s - ROUNDED_S


@pytest.mark.parametrize("seed", range(10))
def test_the_steady_clock_of_a_process_that_stands_still_between_its_readings_is_never_ahead_for_any_process(seed: int) -> None:
    rng, now_s = Random(seed), [1000.0]

    def reading(ahead_s: float) -> float:
        read_s = now_s[0] + ahead_s
        now_s[0] += rng.choice((0.0, 0.0, 0.0, 5.0)) * rng.random()
        return read_s

    clocks = [SteadyClock(lambda: reading(AHEAD_S), lambda: reading(0.0), "boot") for _ in range(3)]
    for _ in range(1000):
        one, other = rng.sample(clocks, 2)
        said_s = one()
        assert said_s <= now_s[0] + AHEAD_S + ROUNDED_S, "a process is told a time that has not come"
        other.follow(one.anchor)
        now_s[0] += rng.random()
