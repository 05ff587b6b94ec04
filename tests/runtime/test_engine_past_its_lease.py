"""An engine that was stopped past its lease comes back, and finds that another has gone on."""

import asyncio
from collections.abc import Sequence

from perdure import Context, step, workflow
from perdure.core import log_format
from perdure.core.events import InterruptedEvent, OpenedEvent
from perdure.core.paths import Key
from perdure.runtime.engine import Engine
from perdure.stores.memory import MemoryStore
from perdure.stores.protocol import ChangeAnswer, Commit, Post, StoreTime
from perdure.testing.virtual_time import run

FROZEN_S = 20.0


def opens(change: Commit) -> bool:
    """Whether it says that an operation begins."""
    return any(isinstance(event, OpenedEvent) for event in log_format.decode_row(change.row))


class Freezing(MemoryStore):
    """A memory store of which the engine `zombie` hears nothing for a while, once it has committed that a step begins."""

    until_s = 0.0

    async def commit(self, changes: Sequence[Commit | Post]) -> list[ChangeAnswer]:
        answers = await super().commit(changes)
        loop = asyncio.get_running_loop()
        for change in changes:
            if isinstance(change, Commit) and change.holder == "zombie" and not self.until_s and opens(change):
                self.until_s = loop.time() + FROZEN_S
        await self.thaw("zombie" if any(isinstance(change, Commit) and change.holder == "zombie" for change in changes) else "")
        return answers

    async def renew(self, holder: str, lease_s: float, about: bytes = b"") -> StoreTime:
        await self.thaw(holder)
        return await super().renew(holder, lease_s, about)

    async def thaw(self, holder: str) -> None:
        """Keep the zombie waiting until its time is over."""
        if holder == "zombie":
            await asyncio.sleep(max(0.0, self.until_s - asyncio.get_running_loop().time()))


def test_an_engine_that_comes_back_interrupts_nothing_that_another_has_begun() -> None:
    begun: list[float] = []

    @step
    async def long() -> str:
        begun.append(asyncio.get_running_loop().time())
        await asyncio.sleep(60)
        return "done"

    @workflow
    async def waiting(ctx: Context) -> str:
        return await ctx.step(long)

    async def world() -> list[InterruptedEvent]:
        key = Key("t", "waiting", "1")
        store = Freezing(asyncio.get_running_loop().time)
        zombie, heir = (Engine(store, [waiting.code], holder=name, lease_s=5.0) for name in ("zombie", "heir"))
        tasks = [asyncio.create_task(zombie.run())]
        await zombie.ready()
        starting = asyncio.create_task(zombie.start(key, waiting.code.codec.encode_args((), {}, "the input")))
        await asyncio.sleep(1)
        tasks.append(asyncio.create_task(heir.run()))
        await heir.ready()
        await heir.ending(key)
        for engine in (zombie, heir):
            engine.stop()
        await asyncio.gather(*tasks)
        assert await starting
        found = await store.read(key)
        assert found is not None and found.head.status == "completed"
        return [event for event in log_format.decode_rows(found.payloads) if isinstance(event, InterruptedEvent)]

    interrupted = run(world)
    assert len(interrupted) == 1 and len(begun) == 1, "the zombie's try, which it never began"
