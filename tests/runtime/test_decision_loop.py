"""Advancing, where a thread has one current task, as from Python 3.14 on: loops are driven in callbacks, never in tasks."""

import asyncio

import pytest

from perdure import Context, step, workflow
from perdure.code import deterministic_loop
from perdure.core.paths import Key
from perdure.runtime.engine import Engine
from perdure.runtime.local_engine import wait_for_end
from perdure.stores.memory import MemoryStore
from perdure.testing.virtual_time import run


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
    monkeypatch.setattr(deterministic_loop, "ONE_TASK_PER_THREAD", True)

    async def world() -> bytes:
        engine = Engine(MemoryStore(asyncio.get_running_loop().time), [doubling.code], idle_s=idle_s)
        running = asyncio.create_task(engine.run())
        await engine.ready()
        key = Key("t", "doubling", "1")
        await engine.start(key, doubling.code.codec.encode_args((20,), {}, "the input"))
        result = await wait_for_end(engine, key)
        engine.stop()
        await running
        return result

    assert run(world) == bytes([82])
