"""Claims about looks at schedules on every store: of several at once, each tick is started by one; and what is not admitted is skipped."""

import asyncio
from datetime import UTC, datetime
from typing import Any

from perdure.core.operations import SCHEDULE_WORKFLOW
from perdure.core.paths import Key
from perdure.service.record_kinds import post_records
from perdure.service.store_access import StoreAccess
from perdure.service.triggers.schedule_clock import ClockState, look_at_schedules
from perdure.service.triggers.schedule_states import SCHEDULE_STATES, ScheduleState, state_change
from perdure.service.triggers.trigger_records import ScheduleConfig, TriggerRecord, trigger_change
from perdure.stores.protocol import HeadFilter

T = "acme"
CLOCK = Key(T, SCHEDULE_WORKFLOW, "clock")


async def make(access: StoreAccess, id: str, **config: Any) -> None:
    """Makes a schedule that was due at each of the last two seconds."""
    now_s = float(int((await access.store.store_time()).now_s))
    times = ScheduleConfig(once=tuple(datetime.fromtimestamp(now_s + ahead_s, UTC) for ahead_s in (-2, -1, 1e6)), **config)
    by: dict[str, Any] = {"created_by": "me", "created_at_s": now_s, "updated_by": "me", "updated_at_s": now_s, "resumed_at_s": now_s - 10}
    record = TriggerRecord(id=id, name=id, config=times, workflow="report", is_code=True, **by)
    await post_records(access.store, [trigger_change(T, 0, record), state_change(T, id, 0, ScheduleState(now_s - 10, now_s - 10))])


async def test_looks_at_once_start_each_tick_once(access: StoreAccess) -> None:
    for number in range(5):
        await make(access, f"s{number}")
    looks = await asyncio.gather(*(look_at_schedules(access, CLOCK, ClockState()) for _ in range(4)))
    heads = await access.store.heads(HeadFilter(tenant=T, workflow="report"))
    assert len(heads) == sum(look.started for look in looks) == 10
    states = [one.value async for one in SCHEDULE_STATES.all(access.store, T)]
    assert [(one.number, one.due_at_s is not None) for one in states] == [(2, True)] * 5
    again = await look_at_schedules(access, CLOCK, ClockState())
    assert again.started == again.seen == 0 and again.wait_s is not None and 9e5 < again.wait_s <= 1e6


async def test_a_start_that_is_not_admitted_moves_the_schedule_on(access: StoreAccess) -> None:
    await make(access, "skips", overlap="skip")
    await make(access, "queues", overlap="queue")
    _ = await look_at_schedules(access, CLOCK, ClockState())
    skips, queues = [await SCHEDULE_STATES.read(access.store, T, id) for id in ("skips", "queues")]
    assert skips is not None and (skips.value.number, [one.kind for one in skips.value.incidents]) == (1, ["skipped"])
    assert queues is not None and (queues.value.number, len(queues.value.waiting), queues.value.incidents) == (1, 1, ())
