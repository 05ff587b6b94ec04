"""Claims about letting go: what an engine no longer holds it does not go on with, and giving back in good order costs a step nothing, however often."""

import asyncio
from collections.abc import Sequence

import pytest

from perdure import Context, Err, step, workflow
from perdure.core import events as e
from perdure.core import limits
from perdure.core.errors import StoreUnavailable
from perdure.core.paths import Key
from perdure.stores.memory import MemoryStore
from perdure.stores.protocol import ChangeAnswer, Claim, Claimed, Commit, Post, StoredLog
from tests.runtime.cluster import NEVER_S, Cluster, settle
from tests.runtime.test_engine import begun, done, key, listener, one, virtually


@step(idempotent=False)
async def once(name: str, takes_s: float) -> str:
    begun.append(name)
    await asyncio.sleep(takes_s)
    return name


@workflow
async def careful(ctx: Context, name: str, takes_s: float) -> str:
    tried = await ctx.attempt(once, name, takes_s)
    return tried.kind if isinstance(tried, Err) else tried.value


class Sluggish(MemoryStore):
    """A store that answers readers when it is let, and refuses claims when it is told to."""

    def __init__(self) -> None:
        super().__init__(asyncio.get_running_loop().time)
        self.answers = asyncio.Event()
        self.answers.set()
        self.refuses = False

    async def read(self, key: Key, after: int = 0) -> StoredLog | None:
        found = await super().read(key, after)
        await self.answers.wait()
        return found

    async def claim(self, claim: Claim) -> Claimed:
        if self.refuses:
            raise StoreUnavailable("planted: no claims now")
        return await super().claim(claim)


@pytest.fixture(autouse=True)
def fresh() -> None:
    begun.clear()
    done.clear()


@virtually
async def test_what_is_let_go_while_it_is_being_read_does_not_come_back_to_life(c: Cluster) -> None:
    c.store = store = Sluggish()
    first = await c.engine(one)
    assert await c.start(first, one, "x", 10.0)
    await asyncio.sleep(1)
    await first.kill()
    second = await c.engine(one)
    store.answers.clear()
    await asyncio.sleep(20)
    store.refuses = True
    await asyncio.sleep(3)
    store.refuses = False
    store.answers.set()
    assert await c.result(second, one) == "x"
    assert (begun, done) == (["x", "x"], ["x"])
    assert sum(isinstance(event, e.InterruptedEvent) for event in await c.events(key(one))) == 1


@virtually
async def test_however_often_a_step_was_given_back_its_first_interruption_does_not_park_it(c: Cluster) -> None:
    engine = await c.engine(one)
    assert await c.start(engine, one, "x", 10.0)
    for _ in range(limits.INTERRUPTIONS_MAX):
        await asyncio.sleep(5)
        await engine.stop()
        engine = await c.engine(one)
    await asyncio.sleep(5)
    await engine.kill()
    assert await c.result(await c.engine(one), one) == "x"
    assert len(begun) == limits.INTERRUPTIONS_MAX + 2 and done == ["x"]


@virtually
async def test_a_step_that_is_not_idempotent_and_has_begun_is_not_given_back(c: Cluster) -> None:
    engine = await c.engine(careful)
    assert await c.start(engine, careful, "x", 10.0)
    await asyncio.sleep(5)
    await engine.stop()
    assert await c.result(await c.engine(careful), careful) == "interrupted"
    assert begun == ["x"] and not any(isinstance(event, e.InterruptedEvent) for event in await c.events(key(careful)))


@virtually
async def test_what_a_stop_gives_back_is_uncounted_also_where_the_execution_has_left_memory(c: Cluster) -> None:
    engine = await c.engine(one, idle_s=0.0)
    assert await c.start(engine, one, "x", 10.0)
    await asyncio.sleep(5)
    await engine.stop()
    assert await c.result(await c.engine(one), one) == "x"
    assert [event.given_back for event in await c.events(key(one)) if isinstance(event, e.InterruptedEvent)] == [True]


class Crossing(MemoryStore):
    """A store that carries out releases, and answers readers, when it is let; claims it answers at once."""

    def __init__(self) -> None:
        super().__init__(asyncio.get_running_loop().time)
        self.releases, self.answers = asyncio.Event(), asyncio.Event()
        self.releases.set()
        self.answers.set()

    async def commit(self, changes: Sequence[Commit | Post]) -> list[ChangeAnswer]:
        if any(isinstance(change, Commit) and change.release for change in changes):
            await self.releases.wait()
        return await super().commit(changes)

    async def read(self, key: Key, after: int = 0) -> StoredLog | None:
        found = await super().read(key, after)
        await self.answers.wait()
        return found


@virtually
async def test_what_is_claimed_again_while_its_release_is_being_looked_at_goes_on(c: Cluster) -> None:
    c.store = store = Crossing()
    engine = await c.engine(listener, poll_s=NEVER_S)
    assert await c.start(engine, listener)
    await settle()
    store.releases.clear()
    await c.send(key(listener), "something else")
    await settle()
    await c.send(key(listener), "go", 1)  # claimed before the release takes effect
    await settle()
    store.answers.clear()
    store.releases.set()  # it is let go, and that is read; then it is claimed again, and then only the reader is answered
    await settle()
    store.answers.set()
    assert await asyncio.wait_for(c.result(engine, listener), 5.0) == 1
