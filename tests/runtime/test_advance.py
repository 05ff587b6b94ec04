"""Advancing, where a thread has one current task, as from Python 3.14 on: loops are driven in callbacks, never in tasks."""

import asyncio

import pytest

from perdure import Context, step, workflow
from perdure.core.paths import Key
from perdure.programs.code import scheduler
from perdure.runtime import driving
from perdure.runtime.engine import Engine
from perdure.runtime.host import finished
from perdure.stores.memory import MemoryStore
from perdure.testing.virtual import run


@step
async def double(number: int) -> int:
    return 2 * number


@workflow
async def doubling(ctx: Context, number: int) -> int:
    await ctx.sleep(1)
    both = await asyncio.gather(ctx.step(double, number), ctx.step(double, number + 1))
    return sum(both)


@pytest.mark.parametrize("idle_s", [60.0, 0.0], ids=["warm", "always suspend"])
def test_no_loop_is_driven_inside_of_a_task_where_a_thread_has_only_one(monkeypatch: pytest.MonkeyPatch, idle_s: float) -> None:
    monkeypatch.setattr(scheduler, "ONE_TASK_PER_THREAD", True)
    monkeypatch.setattr(driving, "ONE_TASK_PER_THREAD", True)

    async def world() -> bytes:
        engine = Engine(MemoryStore(asyncio.get_running_loop().time), [doubling.code], idle_s=idle_s)
        running = asyncio.create_task(engine.run())
        await engine.ready()
        key = Key("t", "doubling", "1")
        await engine.start(key, doubling.code.codec.encode_args((20,), {}, "the input"))
        result = await finished(engine, key)
        engine.stop()
        await running
        return result

    assert run(world) == bytes([82])
