"""Claims about lending: what is lent is with one borrower at a time, is answered once, and comes back when nothing is heard of it."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from math import inf
from typing import Any

import pytest

from perdure import Context, Err, ExecutionCancelled, ExecutionFailed, Fatal, NeedsAttention, Ok, Retry, step, workflow
from perdure.core import events as e
from perdure.core import limits, messages, values
from perdure.core.errors import ErrorInfo
from perdure.core.paths import QueueAddress, path_text
from perdure.runtime.holder import WANTED_POLL_S
from perdure.runtime.task_broker import PAST_LEASES_MAX, HeartbeatReply, LeaseEnd, LeaseRequest, TaskLease, TaskWorker
from perdure.runtime.task_broker import TASK_LEASE_S as LOAN_S
from perdure.stores.memory import MemoryStore
from perdure.stores.protocol import QueueLimits
from perdure.testing.virtual_time import run
from tests.runtime.cluster import DOWN_AFTER, DOWN_BEFORE, NEVER_S, Cluster, ClusterProcess, cluster, now_s, settle, until

LEASE_S = 15.0
GPU = QueueAddress("default", "gpu")
ADA, BOB = TaskWorker("", "ada"), TaskWorker("", "bob")


def virtually(test: Callable[[Cluster], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Run a test in a cluster, in virtual time; callbacks without end are an error and not a hang."""

    @wraps(test)
    async def inside() -> None:
        async with cluster() as c:
            await test(c)

    def virtual() -> None:
        run(inside, handles_max=200_000)

    virtual.__name__, virtual.__doc__ = test.__name__, test.__doc__
    return virtual


@step(queue="gpu", retry=Retry(max=2, wait="10s", jitter=0))
async def draw(what: str, **more: Any) -> Any: ...


@workflow
async def drawing(ctx: Context, what: str) -> Any:
    return await ctx.step(draw, what, size=3)


@workflow
async def careful(ctx: Context, what: str) -> str | None:
    match await ctx.attempt(draw.with_(idempotent=False, timeout="300s"), what):
        case Err(kind, _, error):
            return f"{kind}: {error.message}"
        case Ok(value):
            return str(value)
    return None


@workflow
async def hasty(ctx: Context, what: str) -> Any:
    return await ctx.step(draw.with_(idempotent=True, timeout="300s"), what)


@workflow
async def choosy(ctx: Context, what: str) -> Any:
    only = Retry(max=3, wait=1.0, only=(ConnectionError,), fatal=(BrokenPipeError,))
    return (await ctx.attempt(draw.with_(retry=only), what)).kind


@step(queue="gpu", retry=Retry(max=3, wait=1.0, only=(ConnectionError,), fatal=(BrokenPipeError,)))
def choosy_draw(what: str) -> str:
    raise NotImplementedError  # a worker in another language performs it


@workflow
async def declared_choosy(ctx: Context, what: str) -> Any:
    outcome: Any = await ctx.attempt(choosy_draw, what)
    return outcome.kind


@workflow
async def drawing_many(ctx: Context, count: int) -> list[Any]:
    return await ctx.map(lambda c, name: c.step(draw, name), [str(number) for number in range(count)])


async def leased(
    process: ClusterProcess, task_worker: TaskWorker = ADA, *, wait_s: float = 0.0, lease_s: float | None = LOAN_S, **wanted: Any
) -> list[TaskLease]:
    """What a borrower is lent."""
    task_leases = await process.broker.lease(
        task_worker, LeaseRequest(wanted.pop("queues", ["gpu"]), wanted.pop("tenants", None), wait_s=wait_s, lease_s=lease_s, **wanted)
    )
    assert isinstance(task_leases, list), task_leases
    return task_leases


async def one(process: ClusterProcess, task_worker: TaskWorker = ADA, **wanted: Any) -> TaskLease:
    """The one loan that a borrower gets in time."""
    (task_lease,) = await leased(process, task_worker, **{"wait_s": 30.0, **wanted})
    return task_lease


async def complete(process: ClusterProcess, task_lease: TaskLease, value: Any, task_worker: TaskWorker = ADA, port: str = "success") -> LeaseEnd | None:
    return await process.broker.complete(task_worker, task_lease.id, values.encode(value, "a result"), port)


async def fail(process: ClusterProcess, task_lease: TaskLease, **how: Any) -> LeaseEnd | None:
    return await process.broker.fail(ADA, task_lease.id, ErrorInfo("Broken", "no ink"), **how)


def ended(gone: Any) -> str:
    """How a loan has ended, as its borrower is told."""
    assert isinstance(gone, LeaseEnd)
    return gone.end


# Lending and answering.


@virtually
async def test_a_leased_task_is_performed_by_its_worker_and_settles_by_the_answer(c: Cluster) -> None:
    engine, process = await c.engine(drawing, poll_s=NEVER_S), await c.broker(poll_s=NEVER_S)
    assert await c.start(engine, drawing, "a cat")
    task_lease = await one(process)
    assert (task_lease.work.target, task_lease.work.attempt, task_lease.work.key, path_text(task_lease.work.path)) == (
        "draw",
        1,
        "default/drawing/e:draw",
        "draw",
    )
    assert task_lease.input == (["a cat"], {"size": 3}, None)
    assert await complete(process, task_lease, {"lines": 12}) is None
    assert await c.result(engine, drawing) == {"lines": 12}
    assert await c.messages(GPU) == 0 and await c.settled(drawing.key("e")) == ["draw"]


@virtually
async def test_a_waiting_worker_leases_a_new_task_at_once_and_none_when_its_time_is_over(c: Cluster) -> None:
    engine, process = await c.engine(drawing, poll_s=NEVER_S), await c.broker(poll_s=NEVER_S)
    began_s = now_s()
    assert await leased(process, wait_s=0.0) == [] and now_s() == began_s
    assert await leased(process, wait_s=12.5) == [] and now_s() - began_s == pytest.approx(12.5, abs=0.01)
    waiting = asyncio.create_task(leased(process, wait_s=30.0))
    await asyncio.sleep(20.0)
    began_s = now_s()
    assert await c.start(engine, drawing, "a cat")
    assert len(await waiting) == 1 and now_s() - began_s < 0.01


@virtually
async def test_workers_share_a_queue_and_no_task_is_leased_twice(c: Cluster) -> None:
    engine, process = await c.engine(drawing_many), await c.broker()
    assert await c.start(engine, drawing_many, 30)
    asked = [asyncio.create_task(leased(process, TaskWorker("", str(number)), limit=4, wait_s=5.0)) for number in range(6)]
    task_leases = [task_lease for ask in asked for task_lease in await ask]
    assert [len(await ask) for ask in asked] == [4] * 6
    task_leases += await leased(process, limit=100)
    assert sorted(int(task_lease.input.args[0]) for task_lease in task_leases) == list(range(30)) and len({task_lease.id for task_lease in task_leases}) == 30
    for task_lease in task_leases:
        assert await complete(process, task_lease, task_lease.input.args[0], task_lease.task_worker) is None
    assert await c.result(engine, drawing_many) == [str(number) for number in range(30)]


@virtually
async def test_a_worker_leases_tasks_of_its_queues_and_tenants_alone(c: Cluster) -> None:
    process = await c.broker(queues=["gpu", "cpu"])
    for tenant in ("acme", "default"):
        work = messages.TaskMessage(drawing.key("e")._replace(tenant=tenant), (("draw", 1),), 1, "draw", tenant, values.encode(((), {}), "args"))
        await c.store.commit([c.posted(QueueAddress(tenant, "gpu"), tenant, messages.encode_message(work))])
    assert await leased(process, queues=["cpu"]) == await leased(process, tenants=frozenset({"nobody"}), wait_s=5.0) == []
    assert [task_lease.queued.to for task_lease in await leased(process, tenants=frozenset({"acme"}), limit=9)] == [QueueAddress("acme", "gpu")]
    assert [task_lease.queued.to for task_lease in await leased(process, limit=9)] == [QueueAddress("default", "gpu")]


@virtually
async def test_no_more_tasks_are_leased_than_the_limits_of_the_queue_allow(c: Cluster) -> None:
    engine, process = await c.engine(drawing_many), await c.broker()
    await c.store.limit("gpu", QueueLimits(concurrency=2))
    assert await c.start(engine, drawing_many, 3)
    first, second = await leased(process, limit=10, wait_s=1.0)
    assert await leased(process, limit=10, wait_s=5.0) == []
    waiting = asyncio.create_task(leased(process, wait_s=30.0))
    assert await complete(process, first, 1) is None
    (third,) = await waiting
    assert third.id != second.id


@virtually
async def test_an_answer_may_be_repeated_and_not_changed(c: Cluster) -> None:
    engine, process = await c.engine(drawing), await c.broker()
    assert await c.start(engine, drawing, "a cat")
    task_lease = await one(process)
    same = await asyncio.gather(complete(process, task_lease, 1), complete(process, task_lease, 1), complete(process, task_lease, 2), fail(process, task_lease))
    assert same[0] is same[1] is None and [ended(gone) for gone in same[2:]] == ["answered", "answered"]
    assert await c.result(engine, drawing) == 1
    assert await complete(process, task_lease, 1) is None
    assert ended(await complete(process, task_lease, 2)) == ended(await complete(process, task_lease, 1, port="other")) == "answered"
    assert ended(await process.broker.heartbeat(ADA, task_lease.id)) == "answered"


@virtually
async def test_a_lease_is_its_workers_and_nobody_elses(c: Cluster) -> None:
    engine, process = await c.engine(drawing), await c.broker()
    assert await c.start(engine, drawing, "a cat")
    mine = TaskWorker("token", "ada")
    task_lease = await one(process, mine)
    for other in (ADA, BOB, TaskWorker("other", "ada"), TaskWorker("token", "bob")):
        assert ended(await complete(process, task_lease, 0, other)) == ended(await process.broker.heartbeat(other, task_lease.id)) == "unknown"
    assert ended(await process.broker.complete(mine, task_lease.id[:-1], b"\x01")) == "unknown"
    assert len(task_lease.id) >= 32
    assert await complete(process, task_lease, 7, TaskWorker("token", "")) is None
    assert await c.result(engine, drawing) == 7
    assert ended(await complete(process, task_lease, 7, TaskWorker("other", ""))) == "unknown"


# Failing.


@virtually
async def test_a_failure_is_retried_by_the_retry_policy_or_when_the_worker_says(c: Cluster) -> None:
    engine, process = await c.engine(drawing), await c.broker()
    assert await c.start(engine, drawing, "a cat")
    assert await fail(process, await one(process)) is None
    began_s = now_s()
    again = await one(process)
    assert again.work.attempt == 2 and now_s() - began_s == pytest.approx(10.0, abs=0.1)
    assert again.work.key == "default/drawing/e:draw"
    assert await fail(process, again) is None
    with pytest.raises(ExecutionFailed, match=r"step draw failed \(exhausted, 2 attempts\): Broken: no ink"):
        await c.result(engine, drawing)
    assert await c.start(engine, drawing, "a dog", id="later")
    assert await fail(process, await one(process), after_s=25.0) is None
    began_s = now_s()
    assert await complete(process, await one(process), "woof") is None and now_s() - began_s == pytest.approx(25.0, abs=0.1)
    assert await c.result(engine, drawing, "later") == "woof"


@virtually
async def test_a_failure_that_is_not_to_be_retried_is_not(c: Cluster) -> None:
    engine, process = await c.engine(drawing), await c.broker()
    assert await c.start(engine, drawing, "a cat")
    assert await fail(process, await one(process), retry=False) is None
    with pytest.raises(ExecutionFailed, match=r"step draw failed \(fatal, 1 attempt\): Broken: no ink"):
        await c.result(engine, drawing)
    assert await c.messages(GPU) == 0


@pytest.mark.slow
@virtually
async def test_an_attempt_that_takes_too_long_has_failed_though_its_worker_lives(c: Cluster) -> None:
    engine, process = await c.engine(hasty), await c.broker()
    assert await c.start(engine, hasty, "a cat")
    task_lease = await one(process, lease_s=3600.0)
    assert task_lease.until_store_s == pytest.approx(now_s() + 300.0, abs=0.1)
    while now_s() < (task_lease.until_store_s or 0.0) - 10.0:
        await asyncio.sleep(9.0)
        assert await process.broker.heartbeat(ADA, task_lease.id) == HeartbeatReply(True, lease_s=3600.0)
    await asyncio.sleep(15.0)
    beat = await process.broker.heartbeat(ADA, task_lease.id)
    assert isinstance(beat, HeartbeatReply) and not beat.wanted
    assert ended(await complete(process, task_lease, 1)) in ("timed_out", "unwanted")
    again = await one(process)
    assert again.work.attempt == 2 and await complete(process, again, "late") is None
    assert await c.result(engine, hasty) == "late"


@pytest.mark.slow
@virtually
async def test_an_attempt_that_takes_too_long_is_not_repeated_unless_it_is_idempotent(c: Cluster) -> None:
    engine, process = await c.engine(careful), await c.broker()
    assert await c.start(engine, careful, "a cat")
    await one(process, lease_s=3600.0)
    assert (await c.result(engine, careful)).startswith("timeout: ")
    assert await leased(process, wait_s=30.0) == []


# Silence and death.


@virtually
async def test_a_task_of_which_nothing_is_heard_is_leased_to_another_and_its_late_answer_does_not_count(c: Cluster) -> None:
    engine, process = await c.engine(drawing), await c.broker()
    assert await c.start(engine, drawing, "a cat")
    task_lease = await one(process)
    began_s = now_s()
    again = await one(process, BOB, wait_s=NEVER_S)
    assert now_s() - began_s == pytest.approx(LOAN_S, abs=0.1)
    assert (again.work.attempt, again.work.key) == (2, task_lease.work.key)
    assert ended(await complete(process, task_lease, "late")) == ended(await process.broker.heartbeat(ADA, task_lease.id)) == "ran_out"
    assert await complete(process, again, "in time", BOB) is None
    assert await c.result(engine, drawing) == "in time"
    events = await c.events(drawing.key("e"))
    assert sum(isinstance(event, e.InterruptedEvent) for event in events) == 1 and not any(isinstance(event, e.RetryingEvent) for event in events)


@virtually
async def test_heartbeats_renew_a_lease_and_their_progress_is_there_for_the_next_attempt(c: Cluster) -> None:
    engine, process = await c.engine(drawing), await c.broker()
    assert await c.start(engine, drawing, "a cat")
    task_lease = await one(process, lease_s=10.0)
    for line in range(20):
        await asyncio.sleep(9.0)
        beat = await process.broker.heartbeat(ADA, task_lease.id, values.encode({"line": line}, "progress"))
        assert beat == HeartbeatReply(True, lease_s=10.0)
    await settle()
    pending = (await c.fold(drawing.key("e"))).open[(("draw", 1),)]
    assert pending.progress == values.encode({"line": 19}, "progress")
    again = await one(process, BOB)
    assert again.work.attempt == 2 and again.input.progress == {"line": 19}


@virtually
async def test_the_last_progress_of_a_worker_comes_with_its_answer(c: Cluster) -> None:
    engine, process = await c.engine(drawing), await c.broker()
    assert await c.start(engine, drawing, "a cat")
    task_lease = await one(process)
    for line in range(3):
        _ = await process.broker.heartbeat(ADA, task_lease.id, values.encode(line, "progress"))
    assert await fail(process, task_lease) is None
    assert (await one(process)).input.progress == 2


@virtually
async def test_a_task_with_a_short_heartbeat_timeout_is_leased_for_shorter(c: Cluster) -> None:
    @step(queue="gpu", heartbeat="3s")
    async def beating() -> Any: ...

    @workflow
    async def alive(ctx: Context) -> Any:
        return await ctx.step(beating)

    engine, process = await c.engine(alive), await c.broker()
    assert await c.start(engine, alive)
    for lease_s in (LOAN_S, None):
        task_lease = await one(process, lease_s=lease_s)
        assert task_lease.lease_s == 3.0
        await asyncio.sleep(3.1)
        assert ended(await complete(process, task_lease, 1)) == "ran_out"
    assert await complete(process, await one(process, lease_s=1.0), "done") is None
    assert await c.result(engine, alive) == "done"


@pytest.mark.slow
@virtually
async def test_without_a_lease_time_a_lease_lasts_as_long_as_its_worker_is_there(c: Cluster) -> None:
    engine, process = await c.engine(drawing), await c.broker()
    assert await c.start(engine, drawing, "a cat")
    task_lease = await one(process, lease_s=None)
    assert task_lease.due_s == inf
    await asyncio.sleep(10_000)
    process.broker.interrupt([task_lease])
    assert (await task_lease.ended).end == "ran_out"
    again = await one(process)
    assert again.work.attempt == 2


@virtually
async def test_what_may_not_be_done_twice_is_interrupted_when_nothing_is_heard_of_it(c: Cluster) -> None:
    engine, process = await c.engine(careful), await c.broker()
    assert await c.start(engine, careful, "a cat")
    task_lease = await one(process)
    assert (await c.result(engine, careful)).startswith("interrupted: the process that ran the step is gone")
    assert ended(await complete(process, task_lease, 1)) == "ran_out" and await c.messages(GPU) == 0


@virtually
async def test_a_task_that_kills_each_worker_parks_its_execution(c: Cluster) -> None:
    engine, process = await c.engine(drawing), await c.broker()
    assert await c.start(engine, drawing, "poison")
    for attempt in range(1, limits.INTERRUPTIONS_MAX + 1):
        task_lease = await one(process, wait_s=NEVER_S)
        assert task_lease.work.attempt == attempt
        process.broker.interrupt([task_lease])
    with pytest.raises(NeedsAttention, match=r"draw was interrupted 10 times in a row"):
        await c.result(engine, drawing)


@virtually
async def test_when_the_broker_dies_the_next_leases_its_tasks_anew_and_the_old_leases_are_unknown(c: Cluster) -> None:
    engine, process = await c.engine(drawing), await c.broker()
    assert await c.start(engine, drawing, "a cat")
    task_lease = await one(process)
    await process.kill()
    other = await c.broker()
    began_s = now_s()
    again = await one(other, wait_s=30.0)
    assert now_s() - began_s <= LEASE_S + 1.1
    assert (again.work.attempt, again.queued.deliveries) == (1, 2)
    assert ended(await complete(other, task_lease, "old")) == ended(await other.broker.heartbeat(ADA, task_lease.id)) == "unknown"
    assert await complete(other, again, "new") is None
    assert await c.result(engine, drawing) == "new"


@virtually
async def test_when_the_lender_dies_what_may_not_be_done_twice_is_interrupted(c: Cluster) -> None:
    engine, process = await c.engine(careful), await c.broker()
    assert await c.start(engine, careful, "a cat")
    _ = await one(process)
    await process.kill()
    assert await leased(await c.broker(), wait_s=30.0) == []
    assert (await c.result(engine, careful)).startswith("interrupted: its worker is gone")


@virtually
async def test_a_broker_that_is_stopped_beyond_its_lease_answers_in_vain(c: Cluster) -> None:
    engine, process = await c.engine(drawing), await c.broker()
    assert await c.start(engine, drawing, "a cat")
    task_lease = await one(process, lease_s=3600.0)
    process.store.gate.freeze(60)
    other = await c.broker()
    again = await one(other)
    assert await complete(other, again, "new") is None
    assert await c.result(engine, drawing) == "new"
    before = await c.events(drawing.key("e"))
    _ = await complete(process, task_lease, "old")
    await asyncio.sleep(100)
    assert await c.events(drawing.key("e")) == before and await c.messages(drawing.key("e")) == 0


@virtually
async def test_in_a_new_epoch_leased_tasks_are_lost_and_leased_anew(c: Cluster) -> None:
    engine, process = await c.engine(drawing), await c.broker()
    assert await c.start(engine, drawing, "a cat")
    task_lease = await one(process, lease_s=3600.0)
    await c.store.raise_epoch()
    assert ended(await complete(process, task_lease, "old")) == "lost"
    again = await one(process, lease_s=3600.0)
    await c.store.raise_epoch()
    await asyncio.sleep(LEASE_S)
    assert (await again.ended).end == "lost"
    assert await complete(process, await one(process), "new") is None
    assert await c.result(engine, drawing) == "new"


@pytest.mark.parametrize("faults", [DOWN_BEFORE, DOWN_AFTER], ids=["unheard", "unanswered"])
def test_an_answer_survives_a_minute_in_which_the_store_is_down(faults: Any) -> None:
    async def world() -> None:
        async with cluster() as c:
            engine, process = await c.engine(drawing), await c.broker()
            assert await c.start(engine, drawing, "a cat")
            task_lease = await one(process, lease_s=3600.0)
            down = asyncio.create_task(c.outage(faults, 60))
            await settle()
            assert await complete(process, task_lease, "kept") is None
            await down
            assert await c.result(engine, drawing) == "kept"
            await asyncio.sleep(100)
            assert await c.messages(GPU) == 0

    run(world, handles_max=100_000)


@virtually
async def test_a_claim_whose_answer_is_lost_keeps_no_task_from_being_leased(c: Cluster) -> None:
    engine, process = await c.engine(drawing), await c.broker()
    waiting = asyncio.create_task(one(process))
    await settle()
    process.store.faults = DOWN_AFTER
    assert await c.start(engine, drawing, "a cat")
    await asyncio.sleep(3)
    process.store.faults = type(DOWN_AFTER)()
    assert await complete(process, await waiting, "found") is None
    assert await c.result(engine, drawing) == "found"


@pytest.mark.parametrize("jump_s", [-3600.0, 3600.0, 1e8, -1e8])
def test_a_jump_of_the_store_s_clock_ends_no_lease(jump_s: float) -> None:
    async def world() -> None:
        async with cluster() as c:
            jumped_s = 0.0
            c.store = MemoryStore(lambda: asyncio.get_running_loop().time() + jumped_s)
            engine, process = await c.engine(drawing), await c.broker()
            assert await c.start(engine, drawing, "a cat")
            task_lease = await one(process)
            await asyncio.sleep(20.0)
            jumped_s = jump_s
            await asyncio.sleep(20.0)
            assert await process.broker.heartbeat(ADA, task_lease.id) == HeartbeatReply(True, lease_s=LOAN_S)
            await asyncio.sleep(LOAN_S - 1.0)
            assert await complete(process, task_lease, "kept") is None
            assert await c.result(engine, drawing) == "kept"
            assert not any(isinstance(event, e.InterruptedEvent) for event in await c.events(drawing.key("e")))

    run(world, handles_max=100_000)


# What nobody wants any more.


@virtually
async def test_a_worker_learns_that_its_answer_is_no_longer_needed(c: Cluster) -> None:
    engine, process = await c.engine(drawing), await c.broker()
    assert await c.start(engine, drawing, "a cat")
    task_lease = await one(process)
    assert await process.broker.heartbeat(ADA, task_lease.id) == HeartbeatReply(True, lease_s=LOAN_S)
    await c.tell(drawing.key("e"), messages.CancelMessage("no longer wanted"))
    await asyncio.sleep(WANTED_POLL_S + 0.1)
    beat = await process.broker.heartbeat(ADA, task_lease.id)
    assert isinstance(beat, HeartbeatReply) and not beat.wanted and "cancelled" in beat.why
    assert task_lease.cancelled.done() and not task_lease.ended.done()
    assert (await task_lease.ended).end == ended(await complete(process, task_lease, 1)) == ended(await fail(process, task_lease)) == "unwanted"
    assert await c.messages(GPU) == 0 and await c.messages(drawing.key("e")) == 0


@virtually
async def test_a_worker_may_answer_within_the_grace_of_a_cancelled_execution(c: Cluster) -> None:
    engine, process = await c.engine(drawing), await c.broker()
    assert await c.start(engine, drawing, "a cat")
    task_lease = await one(process)
    await c.tell(drawing.key("e"), messages.CancelMessage())
    await asyncio.sleep(WANTED_POLL_S + 5)
    assert not task_lease.is_wanted and await complete(process, task_lease, 1) is None
    with pytest.raises(ExecutionCancelled):
        await c.result(engine, drawing)
    (settled,) = [event for event in await c.events(drawing.key("e")) if isinstance(event, e.SettledEvent) and event.path == task_lease.work.path]
    assert getattr(settled.outcome, "value", None) == values.encode(1, "one")


@virtually
async def test_an_answer_that_comes_after_the_end_changes_nothing(c: Cluster) -> None:
    engine, process = await c.engine(drawing), await c.broker()
    assert await c.start(engine, drawing, "a cat")
    task_lease = await one(process)
    await c.tell(drawing.key("e"), messages.TerminateMessage())
    await settle()
    before = await c.events(drawing.key("e"))
    assert await complete(process, task_lease, 1) is None
    await asyncio.sleep(100)
    assert await c.events(drawing.key("e")) == before and await c.messages(GPU) == 0


@virtually
async def test_work_that_comes_for_who_has_hung_up_is_for_the_next(c: Cluster) -> None:
    engine, process = await c.engine(careful), await c.broker()
    gone = [asyncio.create_task(leased(process, wait_s=30.0)) for _ in range(3)]
    await settle()
    gone[0].cancel()
    await settle()
    assert await c.start(engine, careful, "a cat")
    for task in gone:
        task.cancel()
    await asyncio.gather(*gone, return_exceptions=True)
    task_lease = await one(process, BOB)
    assert await complete(process, task_lease, "done", BOB) is None
    assert await c.result(engine, careful) == "done"
    assert not process.broker.task_leases.open


@virtually
async def test_a_task_that_is_given_back_is_leased_again_and_is_no_interruption(c: Cluster) -> None:
    engine, process = await c.engine(careful), await c.broker()
    assert await c.start(engine, careful, "a cat")
    for _ in range(limits.INTERRUPTIONS_MAX + 2):
        task_lease = await one(process)
        process.broker.give_back([task_lease])
        assert ended(await complete(process, task_lease, 1)) == "given_back"
    assert await complete(process, await one(process), "done") is None
    assert await c.result(engine, careful) == "done"


# Stopping.


@virtually
async def test_a_waiting_worker_learns_of_a_stop_at_once_and_leased_tasks_may_be_answered_within_the_grace(c: Cluster) -> None:
    engine, process = await c.engine(drawing_many), await c.broker()
    assert await c.start(engine, drawing_many, 2)
    first, second = await leased(process, limit=2, wait_s=1.0)
    waiting = asyncio.create_task(process.broker.lease(ADA, LeaseRequest(["gpu"], wait_s=30.0, lease_s=LOAN_S)))
    await settle()
    began_s = now_s()
    process.broker.stop(20.0)
    assert ended(await waiting) == ended(await process.broker.lease(ADA, LeaseRequest(["gpu"], lease_s=LOAN_S))) == "stopping"
    assert now_s() == began_s
    await asyncio.sleep(10.0)
    assert await process.broker.heartbeat(ADA, first.id) == HeartbeatReply(True, lease_s=LOAN_S)
    assert await complete(process, first, 0) is None
    await process.running
    assert now_s() - began_s == pytest.approx(20.0, abs=0.1)
    assert ended(await complete(process, second, 1)) == "stopping"
    other = await c.broker()
    assert await complete(other, await one(other), 1) is None
    assert await c.result(engine, drawing_many) == [0, 1]


@virtually
async def test_a_broker_without_leased_tasks_stops_at_once(c: Cluster) -> None:
    process = await c.broker()
    began_s = now_s()
    process.broker.stop(30.0)
    await process.running
    assert now_s() == began_s


# What is given.


@virtually
async def test_large_arguments_and_results_pass_whole(c: Cluster) -> None:
    engine, process = await c.engine(drawing), await c.broker()
    assert await c.start(engine, drawing, "é" * 200_000)
    task_lease = await one(process)
    assert task_lease.input.args == ["é" * 200_000]
    assert await complete(process, task_lease, task_lease.input.args[0] * 2) is None
    assert len(await c.result(engine, drawing)) == 400_000
    found = await c.store.read(drawing.key("e"))
    assert found is not None and all(len(row) < 5000 for row in found.payloads)


@virtually
async def test_what_undoes_a_step_is_given_its_result_and_its_arguments(c: Cluster) -> None:
    @step(queue="gpu")
    async def book(room: str, *, nights: int) -> Any: ...

    @book.undo
    async def leave(booking: Any, room: str, *, nights: int) -> None: ...

    @workflow
    async def trip(ctx: Context) -> None:
        await ctx.step(book, "suite", nights=2)
        raise Fatal("no flight")

    engine, process = await c.engine(trip), await c.broker()
    assert await c.start(engine, trip)
    assert await complete(process, await one(process), {"number": 7}) is None
    undoing = await one(process)
    assert (undoing.work.target, undoing.input) == ("undo:book", ([{"number": 7}, "suite"], {"nights": 2}, None))
    assert await complete(process, undoing, None) is None
    with pytest.raises(ExecutionFailed, match="no flight"):
        await c.result(engine, trip)


@virtually
async def test_a_task_that_can_not_be_read_fails_for_good_and_is_never_leased(c: Cluster) -> None:
    engine, process = await c.engine(drawing), await c.broker()
    assert await c.start(engine, drawing, "x" * 200_000)
    await until(lambda: asyncio.sleep(0, len(c.store._blobs) == 2))
    c.store._blobs.clear()
    assert await leased(process, wait_s=5.0) == []
    await settle()
    assert await c.messages(GPU) == 0 and not process.broker.task_leases.open


@pytest.mark.slow
@virtually
async def test_of_ended_leases_only_the_last_are_remembered(c: Cluster) -> None:
    process = await c.broker()
    task_leases = process.broker.task_leases
    work = messages.TaskMessage(drawing.key("e"), (("draw", 1),), 1, "draw", "k", values.encode(((), {}), "args"))
    await c.store.commit([c.posted(GPU, "k", messages.encode_message(work))])
    mail = (await c.store.messages(GPU))[0]
    for number in range(PAST_LEASES_MAX + 10):
        task_lease = TaskLease(str(number), ADA, mail, work, None)
        task_leases.open[task_lease.id] = task_lease
        task_leases.end(task_lease, "answered")
    assert task_leases.find(ADA, "9") is None and task_leases.find(ADA, "10") is not None and not task_leases.open


@pytest.mark.parametrize("by", [choosy, declared_choosy], ids=["call", "step"])
def test_a_failure_is_final_if_the_call_or_the_step_does_not_retry_errors_of_its_type(by: Any) -> None:
    virtually(lambda c: _classified(c, by))()


async def _classified(c: Cluster, by: Any) -> None:
    engine, process = await c.engine(by), await c.broker()
    for number, (types, kind) in enumerate(
        [(["ConnectionError"] * 3, "exhausted"), (["ConnectionError", "BrokenPipeError"], "fatal"), (["Broken"], "fatal"), (["OtherConnectionError"], "fatal")]
    ):
        assert await c.start(engine, by, "a cat", id=str(number))
        for type in types:
            task_lease = await one(process)
            for _ in range(2):
                assert await process.broker.fail(ADA, task_lease.id, ErrorInfo(type, "no ink")) is None, "the same answer again is accepted"
        assert await c.result(engine, by, id=str(number)) == kind
