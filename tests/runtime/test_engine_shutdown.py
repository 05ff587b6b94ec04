"""Claims about stopping: in good order within a bound, at once if told again, and nothing of it counts against a step."""

import asyncio
from typing import Any

import pytest

from perdure import Context, step, workflow
from perdure.core import events as e
from perdure.core.paths import Key
from perdure.runtime.resident_executions import InFlightAttempt, ResidentExecution
from tests.runtime.cluster import Cluster, now_s, settle
from tests.runtime.test_engine import begun, do, done, one, virtually


@workflow
async def two(ctx: Context, takes_s: float) -> list[str]:
    return [await ctx.step(do, name, takes_s) for name in ("a", "b")]


@workflow
async def side_by_side(ctx: Context) -> Any:
    return await ctx.join(lambda c: c.step(do, "short", 3.0), lambda c: c.step(do, "long", 50.0))


@step(queue="gpu")
async def pay(takes_s: float) -> str:
    begun.append("pay")
    await asyncio.sleep(takes_s)
    done.append("pay")
    return "paid"


@workflow
async def paying(ctx: Context, takes_s: float) -> str:
    return await ctx.step(pay, takes_s)


@pytest.fixture(autouse=True)
def fresh() -> None:
    begun.clear()
    done.clear()


def key(of: Any) -> Key:
    found: Key = of.key("e")
    return found


@virtually
async def test_within_the_grace_what_is_in_flight_ends_and_nothing_new_begins(c: Cluster) -> None:
    engine = await c.engine(two)
    assert await c.start(engine, two, 10.0)
    await asyncio.sleep(5)
    stopped_s = now_s()
    engine.engine.stop(grace_s=30.0)
    await engine.running
    assert now_s() - stopped_s == pytest.approx(5.0, abs=0.1)
    assert (begun, done) == (["a"], ["a"]) and await c.settled(key(two)) == ["do"]
    other = await c.engine(two)
    assert await c.result(other, two) == ["a", "b"]
    assert begun == ["a", "b"]
    assert [event.given_back for event in await c.events(key(two)) if isinstance(event, e.InterruptedEvent)] == [True]


@virtually
async def test_what_takes_longer_than_the_grace_goes_on_elsewhere_uncounted(c: Cluster) -> None:
    engine = await c.engine(side_by_side)
    assert await c.start(engine, side_by_side)
    await asyncio.sleep(1)
    stopped_s = now_s()
    engine.engine.stop(grace_s=10.0)
    await engine.running
    assert now_s() - stopped_s == pytest.approx(10.0, abs=0.2)
    assert done == ["short"]
    other = await c.engine(side_by_side)
    assert await c.result(other, side_by_side) == ["short", "long"]
    assert begun == ["short", "long", "long"]
    assert all(event.given_back for event in await c.events(key(side_by_side)) if isinstance(event, e.InterruptedEvent))


@virtually
async def test_told_again_an_engine_stops_at_once(c: Cluster) -> None:
    engine = await c.engine(one)
    assert await c.start(engine, one, "x", 1000.0)
    await asyncio.sleep(1)
    engine.engine.stop(grace_s=500.0)
    await asyncio.sleep(10)
    assert not engine.running.done()
    told_s = now_s()
    engine.engine.stop()
    await engine.running
    assert now_s() - told_s < 0.2


@virtually
async def test_an_engine_that_stops_with_grace_hands_over_what_waits_at_once(c: Cluster) -> None:
    engine = await c.engine(one, two)
    assert await c.start(engine, one, "x", 100.0)
    await asyncio.sleep(1)
    engine.engine.stop(grace_s=50.0)
    other = await c.engine(one, two)
    await c.post(two, 1.0)
    assert await c.result(other, two) == ["a", "b"]
    assert not engine.running.done()
    await engine.running


@virtually
async def test_a_worker_ends_what_it_does_within_the_grace_and_leases_nothing_more(c: Cluster) -> None:
    engine, worker = await c.engine(paying), await c.worker(pay)
    assert await c.start(engine, paying, 20.0)
    await asyncio.sleep(1)
    worker.inner.stop(grace_s=60.0)
    await c.post(paying, 20.0, id="later")
    await worker.running
    await settle(1)
    assert (begun, done) == (["pay"], ["pay"])
    assert await c.result(engine, paying) == "paid"
    await c.worker(pay)
    assert await c.result(engine, paying, id="later") == "paid"


@virtually
async def test_a_worker_told_again_stops_at_once_and_its_call_is_done_elsewhere(c: Cluster) -> None:
    engine, worker = await c.engine(paying), await c.worker(pay)
    assert await c.start(engine, paying, 100.0)
    await asyncio.sleep(1)
    worker.inner.stop(grace_s=50.0)
    await asyncio.sleep(1)
    told_s = now_s()
    worker.inner.stop()
    await worker.running
    assert now_s() - told_s < 0.2
    await c.worker(pay)
    assert await c.result(engine, paying) == "paid"
    assert begun == ["pay", "pay"] and done == ["pay"]


@pytest.mark.parametrize("grace_s", [0.0, 1.0])
def test_an_engine_whose_tasks_have_all_been_cancelled_stops_in_good_order(grace_s: float) -> None:
    """As when the event loop of its process is being closed."""

    @virtually
    async def world(c: Cluster) -> None:
        engine = await c.engine(two)
        engine.engine._residents.add(ResidentExecution(key(two), exists=True)).in_flight[("do", 1),] = InFlightAttempt(1)
        engine.engine.stop(grace_s)
        for task in tuple(engine.engine._tasks):
            task.cancel()
        await engine.running

    world()
