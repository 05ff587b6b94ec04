"""The store's time: never goes back, follows a jump forward at once, and is the same for all processes within half a second."""

import asyncio
from pathlib import Path

import pytest

from perdure.stores.sqlite import steady_clock as sqlite_time
from perdure.stores.sqlite.steady_clock import Anchor, SteadyClock, boot_id, later_anchor, steady_time
from perdure.stores.sqlite.store import SqliteStore


class Clocks:
    """A wall clock that can be set, and a monotonic one."""

    def __init__(self) -> None:
        self.wall_s, self.monotonic_s = 1e9, 500.0

    def process(self, boot: str = "boot") -> SteadyClock:
        """The clock of another process."""
        return SteadyClock(lambda: self.wall_s, lambda: self.monotonic_s, boot)

    def advance(self, seconds: float) -> None:
        self.wall_s += seconds
        self.monotonic_s += seconds


def test_time_is_the_wall_clocks_as_long_as_that_goes_on() -> None:
    clocks = Clocks()
    clock = clocks.process()
    for _ in range(10):
        clocks.advance(3.7)
        assert clock() == clocks.wall_s


@pytest.mark.parametrize("back_s", [0.5, 3600.0, 86_400.0])
def test_a_wall_clock_that_is_set_back_neither_stops_time_nor_turns_it_back(back_s: float) -> None:
    clocks = Clocks()
    clock = clocks.process()
    last_s = clock()
    clocks.wall_s -= back_s
    assert clock() == last_s
    for _ in range(100):
        clocks.advance(1.0)
        passed_s = clock() - last_s
        assert passed_s >= 0.9 - 1e-6
        last_s += passed_s
    assert last_s == pytest.approx(max(1e9 + 90, clocks.wall_s))


def test_a_timer_set_before_the_wall_clock_was_set_back_an_hour_is_a_ninth_late_and_not_an_hour() -> None:
    clocks = Clocks()
    clock = clocks.process()
    due_s = clock() + 90
    clocks.wall_s -= 3600
    clocks.advance(99.9)
    assert clock() < due_s
    clocks.advance(0.2)
    assert clock() >= due_s


def test_time_is_the_wall_clocks_again_when_that_has_caught_up() -> None:
    clocks = Clocks()
    clock = clocks.process()
    clock()
    clocks.wall_s -= 60
    clocks.advance(599)
    assert clock() > clocks.wall_s
    clocks.advance(2)
    assert clock() == clocks.wall_s


def test_a_jump_forward_is_followed_at_once() -> None:
    clocks = Clocks()
    clock = clocks.process()
    clocks.wall_s += 3600.0  # the machine was suspended, and the monotonic clock with it
    assert clock() == clocks.wall_s


def test_processes_agree_within_half_a_second_when_they_share_an_anchor_of_five_seconds_ago() -> None:
    clocks = Clocks()
    one, two = clocks.process(), clocks.process()
    two.follow(one.anchor)
    clocks.advance(5.0)
    ahead_s = one()
    clocks.wall_s -= 3600
    assert 0 <= ahead_s - two() <= 0.5 + 1e-6
    assert one() == ahead_s
    two.follow(one.anchor)
    assert two() == ahead_s


def test_a_process_that_begins_after_the_clock_was_set_back_goes_on_from_the_anchor() -> None:
    clocks = Clocks()
    anchor = clocks.process().anchor
    clocks.wall_s -= 3600
    clocks.advance(10)
    clock = clocks.process()
    clock.follow(anchor)
    assert clock() == pytest.approx(1e9 + 9)


def test_an_anchor_of_another_boot_is_of_no_use() -> None:
    clocks = Clocks()
    clock = clocks.process()
    clock.follow(Anchor(2e9, 0.0, "another"))
    assert clock() == 1e9


def test_where_boots_have_no_names_an_anchor_of_an_earlier_one_is_never_ahead() -> None:
    before = Anchor(1e9, 400.0, "")
    for up_s in (1.0, 399.0, 401.0, 1e6):  # It is at least so long ago.
        assert steady_time(before, 0.0, up_s) <= 1e9 + up_s


def test_an_older_anchor_turns_nothing_back() -> None:
    older, newer = Anchor(1e9, 500.0, "boot"), Anchor(1e9 + 10, 510.0, "boot")
    assert later_anchor(older, newer) == later_anchor(newer, older) == newer
    clocks = Clocks()
    clock = clocks.process()
    clocks.advance(100)
    now_s = clock()
    clock.follow(older)
    assert clock() == now_s


def test_the_boot_has_a_name_here_and_none_where_the_system_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    assert boot_id() == boot_id() != ""
    monkeypatch.setattr(sqlite_time, "_BOOT_ID", Path("/nowhere"))
    assert boot_id() == ""


def test_stores_of_different_processes_share_the_anchor_through_the_file(tmp_path: Path) -> None:
    clocks = Clocks()

    def store() -> SqliteStore:
        return SqliteStore(tmp_path / "perdure.db", clocks.process(), lambda: clocks.monotonic_s, "OFF")

    async def main() -> None:
        one, two = store(), store()
        assert (await one.renew("one", 60)).now_s == 1e9
        clocks.wall_s -= 3600
        clocks.advance(10)
        three = store()
        for late in (one, two, three):
            assert (await late.store_time()).now_s == pytest.approx(1e9 + 9)
        assert (await two.renew("two", 60)).now_s == pytest.approx(1e9 + 9)
        for each in (one, two, three):
            await each.close()

    asyncio.run(main())
