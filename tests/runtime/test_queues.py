"""Claims about queues: never above a limit, whoever dies; nobody starves; limits are changed while all runs."""

import asyncio
import threading
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from perdure import Context, Err, ExecutionFailed, Queue, Rate, Retry, step, workflow
from perdure.core.errors import BadValue
from perdure.runtime.engine import Engine
from perdure.stores.memory import MemoryStore
from perdure.stores.protocol import QueueLimits
from perdure.sync_client import AsyncClient
from tests.runtime.cluster import Cluster, now_s, settle
from tests.service.cluster_client import virtually

at_work: Counter[str] = Counter()
most: Counter[str] = Counter()
order: list[Any] = []
began_s: list[float] = []


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    for memory in (at_work, most):
        memory.clear()
    order.clear()
    began_s.clear()


async def work(name: str, lane: str, takes_s: float) -> str:
    began_s.append(now_s())
    order.append(name)
    for count in ("all", lane):
        at_work[count] += 1
        most[count] = max(most[count], at_work[count])
    try:
        await asyncio.sleep(takes_s)
    finally:
        for count in ("all", lane):
            at_work[count] -= 1
    return name


mails = Queue("mails", concurrency=3, per_key="lane", concurrency_per_key=2, priority=True)
slow = Queue("slow", rate=Rate(6, "1m"))


@step(queue=mails)
async def send(name: str, lane: str = "", takes_s: float = 10.0) -> str:
    return await work(name, lane, takes_s)


@step
async def here(name: str, lane: str = "", takes_s: float = 10.0) -> str:
    return await work(name, lane, takes_s)


@workflow(queue=mails)
async def queued(ctx: Context, name: str, lane: str = "", takes_s: float = 10.0) -> str:
    return await ctx.step(here, name, lane, takes_s)


@workflow
async def sends(ctx: Context, name: str, lane: str = "", takes_s: float = 10.0) -> str:
    return await ctx.step(send, name, lane, takes_s)


@virtually
async def test_no_more_executions_run_than_a_queue_allows_over_all_engines(c: Cluster, client: AsyncClient) -> None:
    for _ in range(3):
        await c.engine(queued)
    handles = [await client.start(queued, str(number), "ab"[number % 2]) for number in range(12)]
    assert sorted([await handle.result() for handle in handles]) == sorted(str(number) for number in range(12))
    assert most == {"all": 3, "a": 2, "b": 2}
    (stand,) = await client.queues()
    assert (stand.name, stand.limits.concurrency, stand.executions, stand.executions_waiting) == ("mails", 3, 0, 0)


@virtually
async def test_no_more_calls_are_done_than_a_queue_allows_over_all_workers_and_engines(c: Cluster, client: AsyncClient) -> None:
    await c.engine(sends, queues=["mails"])
    for _ in range(3):
        await c.worker(send, queues=["mails"])
    handles = [await client.start(sends, str(number), "ab"[number % 2]) for number in range(12)]
    assert sorted([await handle.result() for handle in handles]) == sorted(str(number) for number in range(12))
    assert most == {"all": 3, "a": 2, "b": 2}


few = Queue("few", worker_concurrency=2)
many = Queue("many", worker_concurrency=15, concurrency=25)


@step(queue=few)
async def render(name: str) -> str:
    return await work(name, "few", 10.0)


@step(queue=many)
async def fetch(name: str) -> str:
    return await work(name, "many", 10.0)


@step(queue="other")
async def other(name: str) -> str:
    return await work(name, "other", 10.0)


@workflow
async def mixed(ctx: Context, count: int) -> list[str]:
    async def branch(c: Context, number: int) -> str:
        return await c.step((render, fetch, other)[number % 3], str(number))

    return await ctx.map(branch, range(count))


@pytest.mark.slow
@virtually
async def test_one_worker_performs_no_more_calls_of_a_queue_than_it_declares_and_ten_of_all_others(c: Cluster, client: AsyncClient) -> None:
    await c.engine(mixed, queues=["few", "many"])
    await c.worker(render, fetch, other, queues=["few", "many", "other"])
    began = now_s()
    handle = await client.start(mixed, 120)
    assert await handle.result() == [str(number) for number in range(120)]
    assert (most["few"], most["many"], most["other"]) == (2, 15, 10)
    assert now_s() - began == pytest.approx(200.0, abs=1.0), "the queue with two at a time has 40 calls, and holds up no other"
    most.clear()
    await c.worker(render, fetch, other, queues=["few", "many", "other"], limit=3)
    assert await (await client.start(mixed, 120)).result() == [str(number) for number in range(120)]
    assert (most["few"], most["many"], most["other"]) == (4, 25, 13), "in two processes, and no more than the limit over all of them"
    assert [(stand.name, stand.limits.concurrency) for stand in await client.queues()] == [("few", None), ("many", 25)]


@virtually
async def test_a_limit_of_each_worker_declared_for_a_queue_that_is_named_by_its_steps_holds_too(c: Cluster, client: AsyncClient) -> None:
    await c.engine(mixed)
    await c.worker(render, fetch, other, queues=["few", "other"], declares=[Queue("other", worker_concurrency=1)])
    handle = await client.start(mixed, 3)
    await settle(15)
    assert most["other"] == 1 and (await handle.status()).status == "waiting"


def test_a_limit_of_each_worker_is_a_number_and_not_for_executions() -> None:
    for wrong in (0, -1, 1.5, "2"):
        with pytest.raises(BadValue, match="worker_concurrency"):
            Queue("q", worker_concurrency=wrong)  # type: ignore[arg-type]  # which is the point
    with pytest.raises(BadValue, match="limit them with concurrency=, or put the steps into a queue of their own"):
        workflow(queue=few)(mixed.code.fn)
    with pytest.raises(BadValue, match=r"Queue\(worker_concurrency\) of few"):
        mixed.with_(queue=few)


@virtually
async def test_what_a_killed_process_held_takes_no_place(c: Cluster, client: AsyncClient) -> None:
    first = await c.engine(queued, lease_s=15.0)
    await c.engine(queued, lease_s=15.0)
    handles = [await client.start(queued, str(number), str(number), 20.0) for number in range(8)]
    await settle(5.0)
    await first.kill()
    at_work.clear()
    for handle in handles:
        await handle.result()
    assert most["all"] <= 3 and Counter(order).most_common(1)[0][1] <= 2


@pytest.mark.slow
@virtually
async def test_an_execution_that_waits_takes_no_place_so_a_parent_waits_for_its_child_in_the_same_queue(c: Cluster, client: AsyncClient) -> None:
    one = Queue("one", concurrency=1)

    @workflow(queue=one)
    async def child(ctx: Context, name: str) -> str:
        return await ctx.step(here, name)

    @workflow(queue=one)
    async def parent(ctx: Context, name: str) -> str:
        await ctx.sleep(100)
        return await ctx.call(child, name)

    await c.engine(parent, child)
    handles = [await client.start(parent, str(number)) for number in range(5)]
    assert [await handle.result() for handle in handles] == ["0", "1", "2", "3", "4"]
    assert most["all"] == 1


@virtually
async def test_children_that_had_not_begun_when_their_parent_failed_begin_when_it_is_retried(c: Cluster, client: AsyncClient) -> None:
    one = Queue("one", concurrency=1)

    @workflow(queue=one)
    async def child(ctx: Context, name: str) -> str:
        return await ctx.step(here, name)

    @workflow(deadline="15s")
    async def parent(ctx: Context) -> list[str]:
        return await ctx.map(lambda c, number: c.call(child.with_(on_cancel="terminate" if number == 2 else "cancel"), str(number)), range(4))

    await c.engine(parent, child)
    handle = await client.start(parent)
    with pytest.raises(ExecutionFailed):
        await handle.result()
    await settle(60.0)
    assert Counter([one.status for one in await client.list(workflow="child")]) == {"completed": 1, "cancelled": 3}
    await handle.retry()
    assert await handle.result() == ["0", "1", "2", "3"]
    assert most["all"] == 1 and Counter(order)["0"] == 1


@virtually
async def test_lanes_are_served_in_turns_and_higher_priorities_first(c: Cluster, client: AsyncClient) -> None:
    busy = Queue("busy", concurrency=1, per_key="lane", priority=True)
    wanted = [("a0", "a", 0), ("a1", "a", 0), ("a2", "a", 0), ("b0", "b", 0), ("c0", "c", 5)]
    for name, lane, priority in wanted:
        await client.start(sends_to.with_(queue=busy, priority=priority), name, lane)
    await c.engine(sends_to)
    await asyncio.sleep(100)
    assert order == ["c0", "a0", "b0", "a1", "a2"]


@workflow
async def sends_to(ctx: Context, name: str, lane: str) -> str:
    return await ctx.step(here, name, lane)


@virtually
async def test_a_rate_lets_them_begin_one_after_the_other(c: Cluster, client: AsyncClient) -> None:
    @workflow(queue=slow)
    async def steady(ctx: Context, name: str) -> str:
        return await ctx.step(here, name, takes_s=0.0)

    await c.engine(steady)
    await c.engine(steady)
    for handle in [await client.start(steady, str(number)) for number in range(5)]:
        await handle.result()
    gaps = [later - earlier for earlier, later in pairwise(began_s)]
    assert all(10.0 <= gap < 10.5 for gap in gaps), gaps


@virtually
async def test_limits_are_changed_while_all_runs_and_stay_until_the_code_says_otherwise(c: Cluster, client: AsyncClient) -> None:
    process = await c.engine(queued)
    handles = [await client.start(queued, str(number), str(number), 30.0) for number in range(12)]
    await settle(5.0)
    assert most["all"] == 3
    stand = await client.limit("mails", concurrency=6)
    assert (stand.limits.concurrency, stand.limits.per_lane) == (6, 2)
    await settle(5.0)
    assert most["all"] == 6
    await process.stop()
    await c.engine(queued)
    assert (await client.queues())[0].limits.concurrency == 6, "the code says what it said before"
    await client.limit("mails", concurrency=None, concurrency_per_key=None)
    for handle in handles:
        await handle.result()
    with pytest.raises(BadValue):
        await client.limit("mails", concurrency=-1)


@virtually
async def test_a_queue_that_is_given_limits_while_an_engine_serves_it_itself_is_handed_out_by_the_store_from_then_on(c: Cluster, client: AsyncClient) -> None:
    @workflow
    async def plain(ctx: Context, name: str) -> str:
        return await ctx.step(here.with_(queue="later"), name)

    await c.engine(plain, queues=["later"])
    await c.worker(here, queues=["later"])
    await c.store.limit("later", QueueLimits(1))
    await asyncio.sleep(5)
    for handle in [await client.start(plain, str(number)) for number in range(4)]:
        await handle.result()
    assert most["all"] == 1


@virtually
async def test_children_begin_in_a_queue_as_their_parents_say(c: Cluster, client: AsyncClient) -> None:
    one = Queue("one", concurrency=1, per_key="lane")

    @workflow
    async def many(ctx: Context) -> list[str]:
        return await ctx.map(lambda d, name: d.call(sends_to.with_(queue=one), name, name[0]), ["a0", "a1", "b0", "b1"])

    await c.engine(many, sends_to, declares=[one])
    assert await client.run(many) == ["a0", "a1", "b0", "b1"]
    assert most["all"] == 1 and order == ["a0", "b0", "a1", "b1"]


def test_a_queue_that_means_nothing_is_refused_where_it_is_declared() -> None:
    for wrong in (
        lambda: Queue(""),
        lambda: Queue("q", concurrency=0),
        lambda: Queue("q", concurrency_per_key=1),
        lambda: Queue("q", rate=Rate(0)),
        lambda: Queue("q", rate=Rate(1, "0s")),
        lambda: Queue("q", rate=Rate(1, burst=0)),
        lambda: here.with_(queue=Queue("q"), priority=3),
        lambda: sends.with_(queue=Queue("q"), priority=3),
    ):
        with pytest.raises(BadValue):
            wrong()


@virtually
async def test_a_key_that_the_workflow_does_not_have_is_an_error_where_it_is_started(c: Cluster, client: AsyncClient) -> None:
    with pytest.raises(BadValue, match="customer"):
        await client.start(queued.with_(queue=Queue("q", per_key="customer")), "a")
    handle = await client.start(queued.with_(queue=Queue("q", per_key="tenant")).with_(tenant="acme", id="x"), "a")
    (head,) = [head for head in await c.store.heads() if head.key == handle.key]
    assert (head.queue, head.lane, head.priority) == ("q", "acme", 0)


may_end = threading.Event()


@step(timeout=0.05, retry=Retry(max=1))
def in_thread() -> None:
    assert may_end.wait(20.0)


@workflow(queue=Queue("one", concurrency=1))
async def first(ctx: Context) -> str:
    outcome = await ctx.attempt(in_thread)
    return outcome.kind if isinstance(outcome, Err) else ""


@workflow(queue=Queue("one", concurrency=1))
async def second(ctx: Context) -> str:
    return "second"


@pytest.mark.slow
async def test_an_execution_that_ends_before_its_thread_keeps_its_place_until_that_has_ended_too() -> None:
    store = MemoryStore()
    engine = Engine(store, [first.code, second.code], poll_s=0.05)
    running = asyncio.create_task(engine.run())
    async with AsyncClient(store) as client:
        assert await client.run(first) == "timeout"
        handle = await client.start(second)
        await asyncio.sleep(0.3)
        assert (await handle.status()).status == "pending"
        may_end.set()
        assert await handle.result(timeout=10.0) == "second"
    engine.stop()
    await running
