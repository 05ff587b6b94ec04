"""Compacting, where it is not possible: what is tried in vain is not tried at every commit."""

import asyncio

from perdure import Context, step, workflow
from perdure.core.paths import Key
from perdure.runtime.engine import Engine
from perdure.runtime.host import finished
from perdure.stores.base import Log
from perdure.stores.memory import MemoryStore
from perdure.testing.virtual import run

TURNS = 300


class Counting(MemoryStore):
    """A memory store that counts how often a log is read."""

    reads = 0

    async def read(self, key: Key, after: int = 0) -> Log | None:
        self.reads += 1
        return await super().read(key, after)


@step
async def work() -> None: ...


@workflow
async def coupled(ctx: Context) -> int:
    bells = asyncio.Queue[int]()

    async def rings(c: Context) -> None:
        async for turn in c.loop("l", state=0, keep=1):
            await turn.step(work)
            bells.put_nowait(turn.number)
            if turn.number == TURNS:
                return

    async def hears(c: Context) -> int:
        while await bells.get() < TURNS:
            await c.step(work)
        return TURNS

    return (await ctx.join(rings, hears))[1]


def test_a_log_that_cannot_be_compacted_is_not_read_at_every_commit() -> None:
    async def world() -> int:
        store = Counting(asyncio.get_running_loop().time)
        engine = Engine(store, [coupled.code])
        running = asyncio.create_task(engine.run())
        await engine.ready()
        key = Key("t", "coupled", "1")
        await engine.start(key, coupled.code.codec.encode_args((), {}, "the input"))
        await finished(engine, key)
        engine.stop()
        await running
        return store.reads

    assert run(world) < 20
