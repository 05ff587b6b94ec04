"""Claims about keeping schedule clocks going: whatever ends a clock, its schedules go on."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from perdure.core.messages import TerminateMessage
from perdure.core.operations import SCHEDULE_WORKFLOW
from perdure.core.paths import Key
from perdure.service.triggers.clock_watch import ClockWatch
from perdure.stores.protocol import HeadFilter
from tests.service.triggers.schedule_cluster import BEGIN_S, Schedules, T, scheduled, until

CLOCK_KEY = Key(T, SCHEDULE_WORKFLOW, "clock")


@asynccontextmanager
async def kept(s: Schedules) -> AsyncIterator[None]:
    watch = ClockWatch(s.cluster.store)
    running = asyncio.create_task(watch.run())
    await watch.ready()
    yield
    watch.stop()
    await running


@scheduled
async def test_a_clock_that_was_ended_is_followed_by_another_within_a_minute(s: Schedules) -> None:
    _ = await s.engine()
    trigger = await s.create(every_s=60.0)
    async with kept(s):
        await until(70)
        await s.cluster.tell(CLOCK_KEY, TerminateMessage("by mistake"))
        await until(310)
        assert await s.seconds(trigger) == [60, 120, 180, 240, 300]
    assert len(await s.cluster.store.heads(HeadFilter(workflow=SCHEDULE_WORKFLOW))) == 2


@scheduled
async def test_an_engine_that_begins_brings_back_a_clock_that_was_ended(s: Schedules) -> None:
    engine = await s.engine()
    trigger = await s.create(every_s=60.0)
    await until(70)
    await s.cluster.tell(CLOCK_KEY, TerminateMessage("by mistake"))
    await until(80)
    await engine.stop()
    _ = await s.engine()
    async with kept(s):
        await until(130)
        assert await s.seconds(trigger) == [60, 120]


@scheduled
async def test_without_an_active_schedule_no_clock_is_started_again(s: Schedules) -> None:
    _ = await s.engine()
    trigger = await s.create(once=(datetime.fromtimestamp(BEGIN_S + 10, UTC),))
    await until(20)
    assert await s.seconds(trigger) == [10]
    await s.cluster.tell(CLOCK_KEY, TerminateMessage("on purpose"))
    async with kept(s):
        await until(200)
    assert len(await s.cluster.store.heads(HeadFilter(workflow=SCHEDULE_WORKFLOW))) == 1


@scheduled
async def test_an_engine_that_begins_has_the_clock_notice_that_time_was_set_back(s: Schedules) -> None:
    """A store whose time was a day ahead for a while; nothing that was started is started again, and nothing waits until tomorrow."""
    engine = await s.engine()
    trigger = await s.create(every_s=60.0)
    await until(130)
    s.ahead_s = 86_400.0
    await until(200)
    tomorrow = [86_400.0 + 60 * number for number in range(-2, 4)]
    assert await s.seconds(trigger) == [60, 120, *tomorrow]
    await engine.stop()
    s.ahead_s = 0.0
    _ = await s.engine()
    async with kept(s):
        await until(310)
        assert await s.seconds(trigger) == [60, 120, 240, 300, *tomorrow]
