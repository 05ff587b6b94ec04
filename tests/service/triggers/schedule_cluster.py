"""Schedules on a cluster in virtual time, and what tests want to do and know about them."""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import datetime
from functools import wraps
from types import SimpleNamespace
from typing import Any, cast

from perdure import Context, Retry, Signal, Workflow, step, workflow
from perdure.core.paths import Key
from perdure.service.store_access import StoreAccess
from perdure.service.triggers import trigger_directory
from perdure.service.triggers.schedule_clock import SCHEDULE_CODE
from perdure.service.triggers.schedule_states import SCHEDULE_STATES, ScheduleState
from perdure.service.triggers.schedule_times import start_id
from perdure.service.triggers.trigger_directory import TriggerFields
from perdure.service.triggers.trigger_records import ScheduleConfig
from perdure.stores.protocol import HeadFilter
from perdure.testing.virtual_time import run
from tests.runtime.cluster import Cluster, cluster, now_s

CLOCK = cast("Workflow[..., Any]", SimpleNamespace(code=SCHEDULE_CODE))
T = "default"
BEGIN_S = 1e9
"""When virtual time begins."""

go = Signal("go", str)


@workflow
async def report(ctx: Context, day: str = "") -> str:
    """Ends at once."""
    return day


@workflow
async def long(ctx: Context) -> None:
    """Waits for a word."""
    await ctx.listen(go)


@step(retry=Retry(max=1))
def breaks() -> None:
    raise ValueError("broken")


@workflow
async def failing(ctx: Context) -> None:
    await ctx.step(breaks)


class Schedules:
    """A cluster with an engine, and what tests want to do and know about schedules there. Times are counted from the begin of the test."""

    def __init__(self, c: Cluster) -> None:
        self.cluster, self.access = c, StoreAccess(c.store)
        self.ahead_s = 0.0  # by how much the time of the store is ahead
        c.store._clock = lambda: now_s() + self.ahead_s

    async def engine(self) -> Any:
        return await self.cluster.engine(CLOCK, report, long, failing)

    async def create(self, workflow: str = "report", name: str = "s", input: dict[str, Any] | None = None, **config: Any) -> str:
        fields = TriggerFields(name=name, config=ScheduleConfig(**config), workflow_id=workflow, input=input or {})
        return (await trigger_directory.create_trigger(self.access, T, "me", fields)).id

    async def edit(self, trigger: str, **config: Any) -> None:
        _ = await trigger_directory.update_trigger(self.access, T, trigger, "me", TriggerFields(config=ScheduleConfig(**config)))

    async def ids(self, trigger: str, **conditions: Any) -> list[str]:
        """The ticks for which executions were started, without what they all begin with, in order."""
        found = await self.cluster.store.heads(HeadFilter(tenant=T, id_prefix=f"schedule:{trigger}:", limit=1_000, **conditions))
        return sorted(head.key.id.removeprefix(f"schedule:{trigger}:") for head in found)

    async def seconds(self, trigger: str, **conditions: Any) -> list[float]:
        return [datetime.fromisoformat(one).timestamp() - BEGIN_S for one in await self.ids(trigger, **conditions)]

    async def state(self, trigger: str) -> ScheduleState:
        found = await SCHEDULE_STATES.read(self.cluster.store, T, trigger)
        assert found is not None
        return found.value

    async def incidents(self, trigger: str) -> list[tuple[str, float]]:
        return [(one.kind, one.tick_at_s - BEGIN_S) for one in (await self.state(trigger)).incidents]


def scheduled(test: Callable[[Schedules], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Runs a test with schedules on a cluster, in virtual time."""

    @wraps(test)
    async def inside() -> None:
        async with cluster() as c:
            await test(Schedules(c))

    def virtual() -> None:
        run(inside, handles_max=2_000_000)

    virtual.__name__, virtual.__doc__ = test.__name__, test.__doc__
    return virtual


def elapsed_s() -> float:
    return now_s() - BEGIN_S


def key_of(workflow: str, trigger: str, tick_s: float) -> Key:
    return Key(T, workflow, start_id(trigger, BEGIN_S + tick_s))


async def until(moment_s: float) -> None:
    await asyncio.sleep(moment_s - elapsed_s())
