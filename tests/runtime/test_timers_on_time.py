"""Claims about time: what is due later is begun when it is due, by whoever is there then, though nobody polls and nothing rings."""

import asyncio

import pytest

from perdure import Context, Retry, step, workflow
from perdure.core import messages, values
from perdure.core.envelopes import OutgoingMessage
from perdure.core.messages import SignalMessage, TaskMessage
from perdure.core.paths import Key, QueueAddress
from perdure.stores.protocol import Post
from tests.runtime.cluster import NEVER_S, Cluster, now_s, settle
from tests.runtime.test_engine import begun, listener, sleeper, virtually
from tests.runtime.test_worker import GPU, charge


@pytest.fixture(autouse=True)
def fresh() -> None:
    begun.clear()


@virtually
async def test_a_timer_set_by_a_stopped_engine_fires_in_the_next_on_time(c: Cluster) -> None:
    first = await c.engine(sleeper)
    began_s = now_s()
    assert await c.start(first, sleeper, 10.3)
    await settle()
    await first.stop()
    second = await c.engine(sleeper, poll_s=NEVER_S)
    assert await c.result(second, sleeper) == "awake"
    assert now_s() - began_s == pytest.approx(10.3, abs=0.001)


@virtually
async def test_of_several_timers_that_an_engine_finds_each_fires_on_time(c: Cluster) -> None:
    first = await c.engine(sleeper)
    began_s = now_s()
    for duration_s in (30.1, 20.7, 40.2):
        assert await c.start(first, sleeper, duration_s, id=str(duration_s))
    await settle()
    await first.stop()
    second = await c.engine(sleeper, poll_s=NEVER_S)
    for duration_s in (20.7, 30.1, 40.2):
        assert await c.result(second, sleeper, id=str(duration_s)) == "awake"
        assert now_s() - began_s == pytest.approx(duration_s, abs=0.001)


@virtually
async def test_a_message_that_is_due_later_is_read_when_it_is_due(c: Cluster) -> None:
    first = await c.engine(listener)
    assert await c.start(first, listener)
    await settle()
    await first.stop()
    began_s = now_s()
    later = messages.encode_message(SignalMessage("go", values.encode("at last", "a body")))
    await c.store.commit([Post(messages=(OutgoingMessage(Key("default", "listener", "e"), "later", later, due_at_s=began_s + 33.3),))])
    second = await c.engine(listener, poll_s=NEVER_S)
    assert await c.result(second, listener) == "at last"
    assert now_s() - began_s == pytest.approx(33.3, abs=0.001)


@virtually
async def test_work_that_is_due_later_is_begun_when_it_is_due(c: Cluster) -> None:
    began_s = now_s()
    work = TaskMessage(Key("default", "paying", "e"), (("charge", 1),), 1, charge.name, "key", charge.codec.encode_args(("x", 0.0), {}, "arguments"))
    await c.store.commit([Post(messages=(OutgoingMessage(QueueAddress("default", "gpu"), "later", messages.encode_message(work), due_at_s=began_s + 12.5),))])
    await c.worker(charge, poll_s=NEVER_S)
    await asyncio.sleep(12.4)
    assert await c.messages(GPU) == 1
    await asyncio.sleep(0.2)
    assert await c.messages(GPU) == 0


@step
async def endless() -> None:
    """Never ends by itself."""
    await asyncio.Event().wait()


@step
async def quick() -> float:
    """The time."""
    return now_s()


@workflow
async def impatient(ctx: Context) -> list[float]:
    """How long each of several steps that never end was waited for, between steps that need no time."""
    lasted = []
    for timeout_s in (7.7, 3.3):
        began_s = await ctx.step(quick)
        await ctx.attempt(endless.with_(timeout=timeout_s, retry=Retry(max=1)))
        lasted.append(await ctx.step(quick) - began_s)
    return lasted


@virtually
async def test_a_step_that_takes_too_long_is_given_up_on_time(c: Cluster) -> None:
    engine = await c.engine(impatient, poll_s=NEVER_S)
    assert await c.start(engine, impatient)
    assert await c.result(engine, impatient) == [pytest.approx(7.7, abs=0.001), pytest.approx(3.3, abs=0.001)]
