"""Claims about evictions: what is told to leaves the engine that has it, which loses nothing, counts nothing, and keeps nothing of it in memory."""

import asyncio
import threading

import pytest

from perdure import Context, HasEnded, NotFound, SyncContext, step, workflow
from perdure.core import events as e
from perdure.core.messages import EvictMessage, PauseMessage
from perdure.runtime.engine import Engine
from perdure.stores.memory import MemoryStore
from perdure.sync_client import AsyncClient
from tests.runtime.cluster import NEVER_S, Cluster, settle
from tests.runtime.test_engine import key, listener, sleeper
from tests.service.cluster_client import virtually

begun: list[str] = []
hangs: list[bool] = []
may_end = threading.Event()


@step
async def hang(name: str) -> str:
    begun.append(name)
    await asyncio.sleep(1e9 if hangs and hangs.pop() else 1.0)
    return name


@step
def in_thread() -> str:
    begun.append("thread")
    assert may_end.wait(20.0)
    return "thread"


@workflow
async def hanging(ctx: Context) -> list[str]:
    return list(await ctx.join(lambda c: c.step(hang, "a"), lambda c: c.step(hang, "b")))


@workflow
async def threading_too(ctx: Context) -> list[str]:
    return list(await ctx.join(lambda c: c.step(in_thread), lambda c: c.step(hang, "b")))


@workflow
def plain(ctx: SyncContext) -> str:
    return str(ctx.listen("go"))


@pytest.fixture(autouse=True)
def fresh() -> None:
    begun.clear()
    hangs.clear()
    may_end.clear()


@virtually
async def test_a_step_that_hangs_is_begun_again_and_nothing_is_counted(c: Cluster, client: AsyncClient) -> None:
    engine = await c.engine(hanging, poll_s=NEVER_S)
    hangs.append(True)
    handle = await client.start(hanging)
    await asyncio.sleep(10)
    assert sorted(begun) == ["a", "b"]
    await handle.evict("it hangs", wait=True)
    assert await handle.result() == ["a", "b"]
    assert sorted(begun) == ["a", "a", "b"]  # what had succeeded is not done again
    events = await c.events(handle.key)
    assert [event.reason for event in events if isinstance(event, e.EvictedEvent)] == ["it hangs"]
    assert [event.given_back for event in events if isinstance(event, e.InterruptedEvent)] == [True]
    assert "execution.evicted" in [event.type async for event in handle.events()]
    assert len(engine.engine._residents) == 0


@virtually
async def test_what_waits_leaves_memory_and_goes_on_when_what_it_waits_for_comes(c: Cluster, client: AsyncClient) -> None:
    engine = await c.engine(sleeper, listener, plain, poll_s=NEVER_S)
    asleep, listens, other = await client.start(sleeper, 100.0), await client.start(listener), await client.start(plain)
    await settle()
    assert len(engine.engine._residents) == 3
    for handle in (asleep, listens, other):
        await handle.evict(wait=True)
        await settle()
    assert len(engine.engine._residents) == 0
    await listens.send("go", "yes")
    await other.send("go", "gone")
    assert (await listens.result(), await other.result()) == ("yes", "gone")
    await asleep.result(timeout="200s")


@virtually
async def test_told_again_and_again_while_its_engine_stops_it_goes_on_elsewhere(c: Cluster, client: AsyncClient) -> None:
    hangs.append(True)
    first = await c.engine(hanging)
    handle = await client.start(hanging)
    await asyncio.sleep(10)
    first.inner.stop()  # what is left of it is given back as by an eviction
    second = await c.engine(hanging)
    for _ in range(5):
        await handle.evict()
    assert await handle.result() == ["a", "b"]
    await settle()
    assert (len(first.engine._residents), len(second.engine._residents)) == (0, 0)


@pytest.mark.slow
async def test_a_sync_step_is_finished_first_and_counts_as_done() -> None:
    engine = Engine(MemoryStore(), [threading_too.code])
    running = asyncio.create_task(engine.run())
    async with AsyncClient(engine.store) as client:
        handle = await client.start(threading_too)
        while "thread" not in begun:
            await asyncio.sleep(0.01)
        await handle.evict(wait=True)
        assert len(engine._residents) == 1
        may_end.set()
        assert await handle.result() == ["thread", "b"]
    engine.stop()
    await running
    assert sorted(begun) == ["b", "b", "thread"] and len(engine._residents) == 0


@virtually
async def test_what_is_paused_stays_paused_and_what_has_ended_or_never_was_is_refused(c: Cluster, client: AsyncClient) -> None:
    await c.engine(listener)
    handle = await client.start(listener)
    await c.tell(handle.key, PauseMessage("lunch"))
    await settle()
    await handle.evict(wait=True)
    await settle()
    assert (await handle.status()).status == "paused"
    await handle.resume(wait=True)
    await handle.send("go", 1)
    assert await handle.result() == 1
    with pytest.raises(HasEnded, match="evict"):
        await handle.evict()
    await c.tell(handle.key, EvictMessage())
    await settle()
    assert not any(isinstance(event, e.EvictedEvent) for event in (await c.events(handle.key))[-1:])
    with pytest.raises(NotFound):
        await (await client.get(key(sleeper), sleeper)).evict()
