"""Claims about the ticks of schedules: what cron, intervals and lists mean, and what happens where clocks are changed."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.definitions.format.validator import cron_problem
from perdure.service.triggers.schedule_times import due_time, next_tick, passed_ticks, start_id, tick_text, ticks_after
from perdure.service.triggers.trigger_records import ScheduleConfig

VECTORS = Path(__file__).parents[4] / "shared/data/vectors/cron/cases.json"
needs_vectors = pytest.mark.skipif(not VECTORS.exists(), reason="the vectors are not at hand")

CHANGING_ZONES = ("Europe/London", "America/New_York", "America/Santiago", "Australia/Lord_Howe", "Africa/Casablanca")
HOUR_S, DAY_S = 3_600.0, 86_400.0


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def ticks(config: ScheduleConfig, after: str, count: int, began: str = "2020-01-01T00:00Z") -> list[str]:
    return [tick_text(one) for one in islice(ticks_after(config, at(began), at(after)), count)]


def in_zone(config: ScheduleConfig, after: str, count: int) -> list[str]:
    zone = ZoneInfo(config.timezone)
    return [datetime.fromtimestamp(one, zone).isoformat(timespec="minutes") for one in islice(ticks_after(config, 0.0, at(after)), count)]


def clock_changes(zone: str, year: int) -> list[tuple[float, float]]:
    """The moments of a year at which the clocks of a zone are changed, and by how much they are put forward."""
    found, offset = list[tuple[float, float]](), None
    for hour in range(int(at(f"{year}-01-01T00:00Z")), int(at(f"{year + 1}-01-01T00:00Z")), 900):
        now = datetime.fromtimestamp(hour, ZoneInfo(zone)).utcoffset()
        if offset is not None and now != offset:
            assert now is not None
            found.append((float(hour), (now - offset).total_seconds()))
        offset = now
    return found


CHANGES = [(zone, moment_s, by_s) for zone in CHANGING_ZONES for year in (2026, 2027) for moment_s, by_s in clock_changes(zone, year)]


def test_both_years_of_all_zones_have_changes_in_both_directions() -> None:
    for zone in CHANGING_ZONES:
        for year in (2026, 2027):
            assert {by_s > 0 for of, moment_s, by_s in CHANGES if of == zone and datetime.fromtimestamp(moment_s, UTC).year == year} == {True, False}


@pytest.mark.parametrize(("zone", "moment_s", "by_s"), CHANGES)
def test_a_time_of_the_day_is_due_once_on_each_day_whatever_its_clocks_do(zone: str, moment_s: float, by_s: float) -> None:
    info = ZoneInfo(zone)
    shown = datetime.fromtimestamp(moment_s - 60, info) + timedelta(minutes=1 + 10)  # ten minutes into the time that is skipped
    shown = shown if by_s > 0 else datetime.fromtimestamp(moment_s - 600, info)  # or ten minutes before the jump, which comes again
    config = ScheduleConfig(cron=f"{shown.minute} {shown.hour} * * *", timezone=zone)
    found = list(islice(ticks_after(config, 0.0, moment_s - 2.5 * DAY_S), 5))
    dates = [datetime.fromtimestamp(one, info).date() for one in found]
    assert [later - earlier for earlier, later in pairwise(dates)] == [timedelta(days=1)] * 4
    on_the_day = [one for one in found if abs(one - moment_s) < HOUR_S]
    assert on_the_day == [moment_s if by_s > 0 else moment_s - 600], "at the jump; or the first of the two times"


@pytest.mark.parametrize(("zone", "moment_s", "by_s"), CHANGES)
def test_what_follows_the_passing_time_is_due_at_equal_intervals_through_every_change(zone: str, moment_s: float, by_s: float) -> None:
    every_ten = ScheduleConfig(cron="*/10 * * * *", timezone=zone)
    found = list(islice(ticks_after(every_ten, 0.0, moment_s - HOUR_S), 24))
    assert [later - earlier for earlier, later in pairwise(found)] == [600.0] * 23
    interval = ScheduleConfig(every_s=600.0, timezone=zone)
    assert [later - earlier for earlier, later in pairwise(islice(ticks_after(interval, moment_s - DAY_S, moment_s - HOUR_S), 24))] == [600.0] * 23


@pytest.mark.parametrize(("zone", "moment_s", "by_s"), CHANGES)
@pytest.mark.parametrize("cron", ["* * * * *", "0 * * * *", "30 * * * *", "*/20 */2 * * *", "0,30 0-4 * * *", "15 1 * * *", "0 0 1-31/2 * *", "59 23 * * 0"])
def test_it_does_not_matter_from_where_the_next_tick_is_looked_for(cron: str, zone: str, moment_s: float, by_s: float) -> None:
    """A clock that looks at any time, after any crash, finds the same ticks."""
    config = ScheduleConfig(cron=cron, timezone=zone)
    first_s, last_s = moment_s - 4 * HOUR_S, moment_s + 4 * HOUR_S
    expected = [one for one in islice(ticks_after(config, 0.0, first_s), 500) if one <= last_s]
    assert expected == sorted(set(expected))
    for look_s in range(int(first_s), int(last_s), 420):
        later = [one for one in expected if one > look_s]
        if later:
            assert next_tick(config, 0.0, float(look_s)) == later[0], datetime.fromtimestamp(look_s, ZoneInfo(zone))


def test_the_table_of_the_guide() -> None:
    """The clocks of London: 01:00 to 02:00 is skipped on 2027-03-28, and comes twice on 2026-10-25."""
    fixed, wild = ScheduleConfig(cron="30 1 * * *", timezone="Europe/London"), ScheduleConfig(cron="30 * * * *", timezone="Europe/London")
    assert in_zone(fixed, "2027-03-27T12:00Z", 2) == ["2027-03-28T02:00+01:00", "2027-03-29T01:30+01:00"]
    assert in_zone(wild, "2027-03-28T00:00Z", 2) == ["2027-03-28T00:30+00:00", "2027-03-28T02:30+01:00"]
    assert in_zone(fixed, "2026-10-24T12:00Z", 2) == ["2026-10-25T01:30+01:00", "2026-10-26T01:30+00:00"]
    assert in_zone(wild, "2026-10-25T00:00Z", 3) == ["2026-10-25T01:30+01:00", "2026-10-25T01:30+00:00", "2026-10-25T02:30+00:00"]


def test_an_interval_is_counted_from_when_the_schedule_began_or_from_its_start_date() -> None:
    began = "2026-05-01T10:00:00.250Z"
    assert ticks(ScheduleConfig(every_s=90.0), began, 2, began) == ["2026-05-01T10:01:31Z", "2026-05-01T10:03:01Z"]
    dated = ScheduleConfig(every_s=90.0, starts_at_s=at("2026-05-01T12:00Z"))
    assert ticks(dated, began, 2, began) == ["2026-05-01T12:00:00Z", "2026-05-01T12:01:30Z"]
    assert ticks(ScheduleConfig(every_s=1.5), "2026-05-01T10:00Z", 2, "2026-05-01T10:00Z") == ["2026-05-01T10:00:01.500Z", "2026-05-01T10:00:03Z"]


def test_a_list_of_times_is_in_order_and_ends() -> None:
    once = ScheduleConfig(once=tuple(datetime.fromisoformat(f"2026-06-0{day}T00:00Z") for day in (2, 1, 1)))
    assert ticks(once, "2026-05-01T00:00Z", 5) == ["2026-06-01T00:00:00Z", "2026-06-02T00:00:00Z"]
    assert next_tick(once, 0.0, at("2026-06-02T00:00Z")) is None


def test_start_and_end_dates_bound_all_kinds() -> None:
    dates: dict[str, Any] = {"starts_at_s": at("2026-06-01T00:00Z"), "ends_at_s": at("2026-06-03T00:00Z")}
    expected = ["2026-06-01T00:00:00Z", "2026-06-02T00:00:00Z"]
    for config in (ScheduleConfig(cron="@daily", **dates), ScheduleConfig(every_s=DAY_S, **dates)):
        assert ticks(config, "2026-05-01T00:00Z", 5) == expected
    days = tuple(datetime.fromisoformat(f"2026-0{month}-0{day}T00:00Z") for month in (5, 6, 7) for day in (1, 2, 3))
    assert ticks(ScheduleConfig(once=days, **dates), "2026-04-01T00:00Z", 9) == expected


@given(st.floats(0, 86_400), st.text(max_size=20), st.integers(0, 4_000_000_000))
def test_jitter_delays_a_tick_always_by_the_same_and_never_by_more_than_it_may(jitter_s: float, trigger: str, tick_s: int) -> None:
    config = ScheduleConfig(every_s=60.0, jitter_s=jitter_s)
    due_s = due_time(config, trigger, float(tick_s))
    assert tick_s <= due_s <= tick_s + jitter_s and due_s == due_time(config, trigger, float(tick_s))


def test_jitter_spreads_the_schedules_of_one_time() -> None:
    config = ScheduleConfig(cron="@daily", jitter_s=60.0)
    drawn = [due_time(config, f"t{number}", 0.0) for number in range(200)]
    assert min(drawn) < 5 and max(drawn) > 55 and len(set(drawn)) == 200


@given(st.integers(0, 300_000), st.integers(0, 40_000), st.integers(0, 50), st.sampled_from(["*/2 * * * *", "*/7 3,4 * * *", "@daily", "0 0 * * 1"]))
@settings(max_examples=30, deadline=None)
def test_the_last_of_the_passed_ticks_are_those_that_a_walk_over_all_finds(from_s: int, span_s: int, last: int, cron: str) -> None:
    config = ScheduleConfig(cron=cron, timezone="America/New_York")
    start_s = at("2026-10-31T00:00Z") + from_s
    everything = [one for one in islice(ticks_after(config, 0.0, start_s), 1_000) if one <= start_s + span_s]
    assert passed_ticks(config, 0.0, start_s, start_s + span_s, last) == (len(everything), tuple(everything[-last:] if last else ()))


def test_passed_ticks_are_counted_up_to_a_bound() -> None:
    year = ScheduleConfig(cron="* * * * *")
    passed = passed_ticks(year, 0.0, at("2026-01-01T00:00Z"), at("2027-01-01T00:00Z"), 2)
    assert passed.many == 1_000 and [tick_text(one) for one in passed.last] == ["2026-12-31T23:59:00Z", "2027-01-01T00:00:00Z"]


def test_an_execution_is_named_by_the_tick_in_utc() -> None:
    assert start_id("nightly", at("2027-03-28T02:00+01:00")) == "schedule:nightly:2027-03-28T01:00:00Z"


# The vectors


def _cases(*path: str) -> Iterator[Any]:
    found = json.loads(VECTORS.read_text())
    for name in path:
        found = found[name]
    yield from found


@pytest.mark.real
@needs_vectors
def test_ticks_are_those_of_the_vectors_where_two_libraries_agree() -> None:
    count = 0
    for case in _cases("agreed_sample"):
        config = ScheduleConfig(cron=case["expr"], timezone=case["tz"])
        assert list(islice(ticks_after(config, 0.0, at(case["start"])), 5)) == [at(one) for one in case["next5"]], case
        count += 1
    assert count == 200


@pytest.mark.real
@needs_vectors
def test_ticks_are_those_of_the_vectors_of_clock_changes() -> None:
    count = 0
    for case in _cases("cronsim", "next"):
        if case["reverse"] or len(case["expr"].split()) != 5:
            continue
        config = ScheduleConfig(cron=case["expr"], timezone=case["tz"] or "UTC")
        assert list(islice(ticks_after(config, 0.0, at(case["start"])), len(case["next"]))) == [at(one) for one in case["next"]], case
        count += 1
    assert count > 100


@pytest.mark.real
@needs_vectors
def test_what_the_vectors_call_invalid_is_refused() -> None:
    for expression in _cases("cronsim", "invalid"):
        assert cron_problem(expression), expression


@pytest.mark.real
@needs_vectors
def test_a_moment_is_a_tick_or_none_as_the_vectors_say() -> None:
    for moment, expression, is_active in _cases("robfig_activation"):
        fields = expression.split()
        # Its own dialect: ? for any day, and */10 does not count as a day that begins with a star, as it does in Debian's cron and here.
        if cron_problem(expression) or (len(fields) == 5 and fields[2].startswith("*/") and fields[4] != "*"):
            continue
        moment_s = datetime.strptime(moment, "%a %b %d %H:%M %Y").replace(tzinfo=UTC).timestamp()
        assert (next_tick(ScheduleConfig(cron=expression), 0.0, moment_s - 1) == moment_s) == is_active, (moment, expression)
