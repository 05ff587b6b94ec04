"""Claims about schedules while clocks are changed, and while the rules of that are: driven in virtual time."""

from datetime import datetime
from itertools import islice
from zoneinfo import ZoneInfo

import msgspec
import pytest

from perdure.service.record_kinds import post_records
from perdure.service.triggers import schedule_clock
from perdure.service.triggers.schedule_states import SCHEDULE_STATES, clock_messages, state_change
from perdure.service.triggers.schedule_times import ticks_after
from perdure.service.triggers.trigger_records import ScheduleConfig
from perdure.stores.protocol import Post
from tests.service.triggers.schedule_cluster import BEGIN_S, Schedules, T, scheduled, until
from tests.service.triggers.test_schedule_times import CHANGES

HOUR_S = 3_600.0


@pytest.mark.prove
@pytest.mark.parametrize(("zone", "moment_s", "by_s"), CHANGES)
def test_a_schedule_is_driven_through_a_change_of_the_clock(zone: str, moment_s: float, by_s: float) -> None:
    """Every tick around the change starts one execution, at its time."""

    @scheduled
    async def inside(s: Schedules) -> None:
        s.ahead_s = moment_s - 2.2 * HOUR_S - BEGIN_S
        _ = await s.engine()
        shown = datetime.fromtimestamp(moment_s - 60, ZoneInfo(zone))
        hours = ",".join(str((shown.hour + more) % 24) for more in range(3))
        crons = ("*/30 * * * *", "0 * * * *", f"{(shown.minute + 31) % 60} * * * *", f"15,45 {hours} * * *")
        made = {cron: await s.create(cron=cron, timezone=zone) for cron in crons}
        await until(4.5 * HOUR_S)
        first_s, last_s = moment_s - 2.2 * HOUR_S, moment_s + 2.3 * HOUR_S
        for cron, trigger in made.items():
            expected = [one for one in islice(ticks_after(ScheduleConfig(cron=cron, timezone=zone), 0.0, first_s), 50) if one <= last_s]
            assert [one + BEGIN_S for one in await s.seconds(trigger)] == expected, cron
            heads = {f"{head.created_at_s:.0f}" for head in await s.cluster.store.heads() if head.key.id.startswith(f"schedule:{trigger}:")}
            assert heads == {f"{one:.0f}" for one in expected}, "at its time"

    inside()


@scheduled
async def test_a_newer_zone_database_finds_the_next_ticks_anew_and_never_goes_back(s: Schedules) -> None:
    """As if another database had said that the schedules are due at another time: they are found anew when a process with this one wakes the clock."""
    _ = await s.engine()
    triggers = [await s.create(cron="0 * * * *", timezone="Europe/London", name=f"s{number}") for number in range(3)]
    utc = await s.create(cron="0 * * * *")
    await until(10)
    right = {trigger: await s.state(trigger) for trigger in (*triggers, utc)}
    for trigger in triggers:
        kept = await SCHEDULE_STATES.read(s.cluster.store, T, trigger)
        assert kept is not None and kept.value.zone_version
        wrong = msgspec.structs.replace(kept.value, tick_s=BEGIN_S + 40 * HOUR_S, due_at_s=BEGIN_S + 40 * HOUR_S, zone_version="1999a")
        await post_records(s.cluster.store, [state_change(T, trigger, kept.version, wrong)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schedule_clock, "zone_version", lambda: "2999z")
        _ = await s.cluster.store.commit([Post(messages=await clock_messages(s.cluster.store, T, "a new process"))])
        await until(20)
    for trigger in triggers:
        state = await s.state(trigger)
        assert (state.tick_s, state.after_s, state.zone_version) == (right[trigger].tick_s, right[trigger].after_s, "2999z")
    assert await s.state(utc) == right[utc], "what does not depend on the database stays as it is"
    version = (await SCHEDULE_STATES.read(s.cluster.store, T, triggers[0])).version  # type: ignore[union-attr]  # it was read above
    _ = await s.cluster.store.commit([Post(messages=await clock_messages(s.cluster.store, T, "an old process"))])
    await until(30)
    assert (await SCHEDULE_STATES.read(s.cluster.store, T, triggers[0])).version == version  # type: ignore[union-attr]  # an older database changes nothing
