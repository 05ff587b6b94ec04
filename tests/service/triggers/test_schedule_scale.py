"""Claims about many schedules: those that are due at once all start, in pieces, and those that are not due cost nothing."""

from datetime import UTC, datetime
from typing import Any

import pytest

from perdure.core.operations import SCHEDULE_WORKFLOW
from perdure.core.paths import Key
from perdure.service.record_kinds import post_records
from perdure.service.triggers import schedule_clock
from perdure.service.triggers.schedule_clock import ClockState
from perdure.service.triggers.schedule_states import ScheduleState, clock_messages, state_change
from perdure.service.triggers.trigger_records import ScheduleConfig, TriggerRecord, trigger_change
from perdure.service.triggers.zone_database import zone_version
from perdure.stores.protocol import HeadFilter, Post
from tests.service.triggers.schedule_cluster import BEGIN_S, Schedules, T, scheduled, until


async def make(s: Schedules, count: int, due_at_s: float) -> None:
    """Makes schedules that are due once, and wakes the clock."""
    for first in range(0, count, 100):
        changes = []
        for number in range(first, min(first + 100, count)):
            id, config = f"s{due_at_s:.0f}-{number}", ScheduleConfig(once=(datetime.fromtimestamp(due_at_s, UTC),))
            by: dict[str, Any] = {"created_by": "me", "created_at_s": BEGIN_S, "updated_by": "me", "updated_at_s": BEGIN_S}
            record = TriggerRecord(id=id, name=id, config=config, workflow="report", is_code=True, **by)
            changes += [trigger_change(T, 0, record), state_change(T, id, 0, ScheduleState(BEGIN_S, due_at_s, due_at_s))]
        await post_records(s.cluster.store, changes)
    _ = await s.cluster.store.commit([Post(messages=await clock_messages(s.cluster.store, T, f"{due_at_s}"))])


async def started(s: Schedules) -> int:
    return len(await s.cluster.store.heads(HeadFilter(tenant=T, workflow="report", limit=100_000)))


@pytest.mark.prove
@scheduled
async def test_thousands_that_are_due_at_once_start_once_each_and_the_idle_ones_do_not(s: Schedules) -> None:
    _ = await s.engine()
    await make(s, 3_000, BEGIN_S + 60)
    await make(s, 3_000, BEGIN_S + 1e6)
    await until(58)
    assert await started(s) == 0
    await until(90)
    assert await started(s) == 3_000


@scheduled
async def test_schedules_are_dealt_with_in_pages_and_one_step_does_not_go_on_for_ever(s: Schedules) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schedule_clock, "PAGE", 10)
        patch.setattr(schedule_clock, "STEP_S", 0.0)
        await make(s, 45, BEGIN_S + 60)
        await until(70)
        look = await schedule_clock.look_at_schedules(s.access, Key(T, SCHEDULE_WORKFLOW, "c"), ClockState(zone_version=zone_version()))
        assert (look.seen, look.started, look.wait_s, await started(s)) == (10, 10, 0.0, 10), "one page, and the next look is at once"
        _ = await s.engine()
        await until(90)
        assert await started(s) == 45
