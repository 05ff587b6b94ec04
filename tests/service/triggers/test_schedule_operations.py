"""Claims about previews and backfills: what is shown is what will be started, and what was started is not started again."""

import pytest

from perdure.core.errors import BadValue, NotFound
from perdure.service.triggers import trigger_directory
from perdure.service.triggers.schedule_operations import backfill, preview_config, preview_trigger
from perdure.service.triggers.schedule_times import clock_note
from perdure.service.triggers.trigger_directory import TriggerFields
from perdure.service.triggers.trigger_input import facts_of
from perdure.service.triggers.trigger_records import ManualConfig, ScheduleConfig
from tests.service.triggers.schedule_cluster import BEGIN_S, Schedules, T, key_of, scheduled, until
from tests.service.triggers.test_schedule_times import at


@scheduled
async def test_a_preview_shows_the_ticks_that_then_start(s: Schedules) -> None:
    _ = await s.engine()
    trigger = await s.create(every_s=60.0, jitter_s=10.0)
    await until(70)
    shown = await preview_trigger(s.access, T, trigger, 3)
    assert [one.tick_at_s - BEGIN_S for one in shown.ticks] == [120, 180, 240]
    await until(255)
    assert await s.seconds(trigger) == [60, 120, 180, 240]
    state = await s.state(trigger)
    (following,) = (await preview_trigger(s.access, T, trigger, 1)).ticks
    assert state.due_at_s == following.due_at_s and following.tick_at_s <= following.due_at_s <= following.tick_at_s + 10


@scheduled
async def test_a_config_is_previewed_before_it_is_saved(s: Schedules) -> None:
    shown = await preview_config(s.access, ScheduleConfig(cron="30 9 * * 1", timezone="Asia/Tokyo"), 2)
    assert [one.local for one in shown.ticks] == ["2001-09-10T09:30:00+09:00", "2001-09-17T09:30:00+09:00"]
    with pytest.raises(BadValue, match="a cron expression"):
        await preview_config(s.access, ScheduleConfig(cron="* *"), 2)
    with pytest.raises(BadValue, match="1 to 1,000"):
        await preview_config(s.access, ScheduleConfig(every_s=60.0), 0)
    assert 700 < len((await preview_config(s.access, ScheduleConfig(every_s=10 * 366 * 86_400.0), 1_000)).ticks) < 900, "up to the end of the calendar"


@pytest.mark.parametrize(
    ("cron", "moment", "note"),
    [
        ("30 1 * * *", "2027-03-28T01:00Z", "moved"),
        ("0 2 * * *", "2027-03-28T01:00Z", ""),
        ("*/30 * * * *", "2027-03-28T01:00Z", ""),
        ("30 1 * * *", "2026-10-25T00:30Z", "first"),
        ("30 * * * *", "2026-10-25T01:30Z", "second"),
        ("@daily", "2026-10-25T23:00Z", ""),
    ],
)
def test_a_preview_says_what_is_special_where_clocks_are_changed(cron: str, moment: str, note: str) -> None:
    assert clock_note(ScheduleConfig(cron=cron, timezone="Europe/London"), at(moment)) == note
    assert clock_note(ScheduleConfig(cron=cron), at(moment)) == "", "no clock is changed in UTC"


@scheduled
async def test_a_backfill_counts_first_and_starts_what_has_not_run(s: Schedules) -> None:
    _ = await s.engine()
    trigger = await s.create(cron="* * * * *", input={"day": "@trigger.about.tick"})
    await until(100)  # at 01:47 and 01:48, the schedule has started two
    range_s = (BEGIN_S - 200, BEGIN_S + 100)
    counted = await backfill(s.access, T, trigger, "me", *range_s)
    assert (counted.total, counted.existing, counted.started, counted.dry_run) == (5, 2, 0, True)
    assert len(await s.ids(trigger)) == 2
    with pytest.raises(BadValue, match="Look at the dry run"):
        await backfill(s.access, T, trigger, "me", *range_s, expect=4)
    done = await backfill(s.access, T, trigger, "me", *range_s, expect=5)
    assert (done.existing, done.started, done.dry_run) == (2, 3, False)
    again = await backfill(s.access, T, trigger, "me", *range_s, expect=5)
    assert (again.existing, again.started) == (5, 0)
    await until(101)
    facts = facts_of((await s.cluster.fold(key_of("report", trigger, -100))).carried)
    assert facts is not None and facts.about == {"tick": "2001-09-09T01:45:00Z", "number": 0, "by": "me"}


@scheduled
async def test_a_backfill_is_bounded_and_for_schedules_only(s: Schedules) -> None:
    _ = await s.engine()
    trigger = await s.create(cron="* * * * *")
    with pytest.raises(BadValue, match="more than 1,000 times, of which the last is 2001-09-09T18:26:00Z"):
        await backfill(s.access, T, trigger, "me", BEGIN_S, BEGIN_S + 86_400 * 7)
    with pytest.raises(BadValue, match="after fromAt"):
        await backfill(s.access, T, trigger, "me", BEGIN_S, BEGIN_S)
    by_hand = await trigger_directory.create_trigger(s.access, T, "me", TriggerFields(name="m", config=ManualConfig(), workflow_id="report"))
    with pytest.raises(BadValue, match="a schedule; it is of the type manual"):
        await backfill(s.access, T, by_hand.id, "me", BEGIN_S, BEGIN_S + 1)
    with pytest.raises(NotFound):
        await preview_trigger(s.access, T, "nothing", 1)
