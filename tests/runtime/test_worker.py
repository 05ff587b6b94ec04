"""Claims about workers: a queued call is done by one of them at a time, its answer counts once, and what nobody wants any more is not done."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from functools import wraps
from typing import Any

import pytest

from perdure import Context, Definition, Err, ExecutionCancelled, ExecutionFailed, Fatal, Key, NeedsAttention, Retry, Won, step, step_info, workflow
from perdure.code import retried_errors
from perdure.core import events as e
from perdure.core import limits, messages
from perdure.core.errors import BadValue, ErrorInfo
from perdure.core.operations import RetriedErrors
from perdure.core.paths import QueueAddress
from perdure.stores.memory import MemoryStore
from perdure.stores.protocol import Claim, Claimed, StoreTime
from perdure.testing.faults import NO_FAULTS, Faults
from perdure.testing.virtual_time import run
from tests.runtime.cluster import DOWN_AFTER, DOWN_BEFORE, NEVER_S, Cluster, ClusterProcess, cluster, now_s, settle, until

LEASE_S = 15.0
POLL_S = 1.0
GPU = QueueAddress("default", "gpu")

ABANDONED = ErrorInfo("abandoned", "the attempt was in flight when its result was no longer needed, and its outcome is not known")

begun: list[str] = []
done: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    begun.clear()
    done.clear()


def virtually(test: Callable[[Cluster], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Run a test in a cluster, in virtual time; callbacks without end are an error and not a hang."""

    @wraps(test)
    async def inside() -> None:
        async with cluster() as c:
            await test(c)

    def virtual() -> None:
        run(inside, handles_max=1_000_000)

    virtual.__name__, virtual.__doc__ = test.__name__, test.__doc__
    return virtual


@step
async def charge(name: str, takes_s: float = 1.0) -> str:
    begun.append(name)
    await asyncio.sleep(takes_s)
    done.append(name)
    return f"charged {name}"


@workflow
async def paying(ctx: Context, name: str, takes_s: float) -> str:
    return await ctx.step(charge.with_(queue="gpu"), name, takes_s)


@workflow
async def paying_many(ctx: Context, count: int) -> list[str]:
    return await ctx.map(lambda c, name: c.step(charge.with_(queue="gpu"), name), [str(number) for number in range(count)])


colour: ContextVar[str] = ContextVar("colour", default="none")


@step
async def paint(with_colour: str) -> str:
    before = colour.get()
    colour.set(with_colour)
    return before


@workflow
async def painting(ctx: Context) -> list[str]:
    return [await ctx.step(paint.with_(queue="gpu"), "red"), await ctx.step(paint.with_(queue="gpu"), "blue")]


@virtually
async def test_a_worker_s_step_sees_no_context_variables_of_its_process_or_of_another_step(c: Cluster) -> None:
    engine = await c.engine(painting)
    colour.set("green")
    await c.worker(paint)
    assert await c.start(engine, painting)
    assert await c.result(engine, painting) == ["none", "none"]


@virtually
async def test_a_queued_step_is_done_by_a_worker_and_at_once(c: Cluster) -> None:
    engine = await c.engine(paying, poll_s=NEVER_S)
    await c.worker(charge, poll_s=NEVER_S)
    began_s = now_s()
    assert await c.start(engine, paying, "x", 5.0)
    assert await c.result(engine, paying) == "charged x"
    assert now_s() - began_s == pytest.approx(5.0, abs=0.01)
    assert begun == ["x"] and await c.messages(GPU) == 0


@virtually
async def test_a_queued_step_waits_for_a_worker_and_takes_no_memory_meanwhile(c: Cluster) -> None:
    engine = await c.engine(paying, idle_s=10.0)
    assert await c.start(engine, paying, "x", 5.0)
    await asyncio.sleep(1000)
    assert (await c.fold(paying.key("e"))).status == "waiting" and len(engine.engine._residents) == 0
    await c.worker(charge)
    assert await c.result(engine, paying) == "charged x"


@virtually
async def test_a_worker_takes_only_from_its_queues(c: Cluster) -> None:
    engine = await c.engine(paying)
    await c.worker(charge, queues=["cpu"])
    assert await c.start(engine, paying, "x", 5.0)
    await asyncio.sleep(100)
    assert begun == [] and await c.messages(GPU) == 1


@virtually
async def test_several_workers_share_a_queue_each_within_its_limit(c: Cluster) -> None:
    engine = await c.engine(paying_many)
    for _ in range(3):
        await c.worker(charge, limit=2)
    began_s = now_s()
    assert await c.start(engine, paying_many, 24)
    assert await c.result(engine, paying_many) == [f"charged {number}" for number in range(24)]
    assert Counter(begun) == Counter(str(number) for number in range(24))
    assert now_s() - began_s == pytest.approx(4.0, abs=0.1)


@virtually
async def test_what_a_dead_worker_had_is_done_by_another_after_its_lease(c: Cluster) -> None:
    engine = await c.engine(paying)
    first = await c.worker(charge)
    assert await c.start(engine, paying, "x", 20.0)
    await asyncio.sleep(10)
    await c.worker(charge)
    await first.kill()
    killed_s = now_s()
    await until(lambda: asyncio.sleep(0, begun == ["x", "x"]))
    assert now_s() - killed_s <= LEASE_S + POLL_S + 0.1
    assert await c.result(engine, paying) == "charged x"
    assert done == ["x"] and await c.settled(paying.key("e")) == ["charge"]


@virtually
async def test_what_a_stopped_worker_had_is_done_by_another_at_once(c: Cluster) -> None:
    engine = await c.engine(paying)
    first = await c.worker(charge, poll_s=NEVER_S)
    assert await c.start(engine, paying, "x", 20.0)
    await asyncio.sleep(10)
    await c.worker(charge, poll_s=NEVER_S)
    await first.stop()
    await settle()
    assert begun == ["x", "x"]
    assert await c.result(engine, paying) == "charged x"


@virtually
async def test_a_worker_that_thaws_after_its_lease_answers_in_vain(c: Cluster) -> None:
    engine = await c.engine(paying)
    first = await c.worker(charge)
    assert await c.start(engine, paying, "x", 5.0)
    await asyncio.sleep(1)
    first.store.gate.freeze(60)
    await c.worker(charge)
    assert await c.result(engine, paying) == "charged x"
    before = await c.events(paying.key("e"))
    await asyncio.sleep(100)
    assert await c.events(paying.key("e")) == before
    assert begun == ["x", "x"] and await c.messages(GPU) == await c.messages(paying.key("e")) == 0


@virtually
async def test_what_is_not_idempotent_is_interrupted_when_its_worker_dies_and_not_run_again(c: Cluster) -> None:
    @workflow
    async def careful(ctx: Context) -> str:
        match await ctx.attempt(charge.with_(queue="gpu", idempotent=False), "x", 20.0):
            case Err(kind, _, error):
                return f"{kind}: {error.message}"
            case answer:
                return str(answer)

    engine = await c.engine(careful)
    first = await c.worker(charge)
    assert await c.start(engine, careful)
    await asyncio.sleep(10)
    await first.kill()
    await c.worker(charge)
    assert (await c.result(engine, careful)).startswith("interrupted: its worker is gone")
    await asyncio.sleep(100)
    assert (begun, done) == (["x"], [])


@virtually
async def test_poison_that_kills_every_worker_parks_its_execution(c: Cluster) -> None:
    workers: list[ClusterProcess] = []

    @step
    async def poison() -> None:
        begun.append("poison")
        await workers[-1].kill()
        await asyncio.sleep(NEVER_S)

    @workflow
    async def dying(ctx: Context) -> None:
        await ctx.step(poison.with_(queue="gpu"))

    engine = await c.engine(dying, paying)
    assert await c.start(engine, dying)
    for _ in range(limits.INTERRUPTIONS_MAX + 1):
        workers.append(await c.worker(poison, charge))
        await asyncio.sleep(LEASE_S + POLL_S + 1)
    with pytest.raises(NeedsAttention, match=r"dying/e needs attention \(interrupted\): poison was interrupted \d+ times in a row"):
        await c.result(engine, dying)
    assert len(begun) == limits.INTERRUPTIONS_MAX
    assert await c.messages(GPU) == 0
    assert not workers[-1].running.done()
    assert await c.start(engine, paying, "innocent", 1.0) and await c.result(engine, paying) == "charged innocent"


@virtually
async def test_poison_in_an_engine_parks_its_execution(c: Cluster) -> None:
    engines: list[ClusterProcess] = []

    @step
    async def poison() -> None:
        begun.append("poison")
        await engines[-1].kill()
        await asyncio.sleep(NEVER_S)

    @workflow
    async def dying(ctx: Context) -> None:
        await ctx.step(poison)

    await c.post(dying)
    for _ in range(limits.INTERRUPTIONS_MAX + 1):
        engines.append(await c.engine(dying))
        await asyncio.sleep(100)
    with pytest.raises(NeedsAttention, match=r"interrupted 10 times in a row"):
        await c.result(engines[-1], dying)
    assert len(begun) == limits.INTERRUPTIONS_MAX


@virtually
async def test_a_try_that_takes_too_long_is_a_failed_one(c: Cluster) -> None:
    @workflow
    async def hurried(ctx: Context) -> str:
        step = charge.with_(queue="gpu", timeout="5s", retry=Retry(max=2, wait="1s"))
        match await ctx.attempt(step, "x", 60.0):
            case Err(kind, attempts, _):
                return f"{kind} after {attempts}"
            case answer:
                return str(answer)

    engine = await c.engine(hurried)
    await c.worker(charge)
    began_s = now_s()
    assert await c.start(engine, hurried)
    assert await c.result(engine, hurried) == "timeout after 2"
    assert 10.9 <= now_s() - began_s <= 12
    await asyncio.sleep(100)
    assert (begun, done) == (["x", "x"], [])


@virtually
async def test_a_failed_try_is_tried_again_in_time_with_the_same_key(c: Cluster) -> None:
    keys: list[tuple[str, int]] = []

    @step(retry=Retry(max=3, wait="10s", factor=2, jitter=0), queue="gpu")
    async def unsteady() -> int:
        keys.append((step_info().key, step_info().attempt))
        if len(keys) < 3:
            raise ConnectionError("busy")
        return len(keys)

    @workflow
    async def insisting(ctx: Context) -> int:
        return await ctx.step(unsteady)

    engine = await c.engine(insisting)
    await c.worker(unsteady)
    began_s = now_s()
    assert await c.start(engine, insisting)
    assert await c.result(engine, insisting) == 3
    assert now_s() - began_s == pytest.approx(30, abs=0.1)
    assert keys == [("default/insisting/e:unsteady", attempt) for attempt in (1, 2, 3)]


@virtually
async def test_a_fatal_error_in_a_worker_is_not_tried_again(c: Cluster) -> None:
    @step(queue="gpu")
    def hopeless() -> None:
        begun.append("x")
        raise Fatal("no such card")

    @workflow
    async def trying(ctx: Context) -> None:
        await ctx.step(hopeless)

    engine = await c.engine(trying)
    await c.worker(hopeless)
    assert await c.start(engine, trying)
    with pytest.raises(ExecutionFailed, match=r"step hopeless failed \(fatal, 1 attempt\): fatal: no such card"):
        await c.result(engine, trying)
    assert begun == ["x"]


@virtually
async def test_a_step_that_a_worker_does_not_have_fails_and_says_what_to_do(c: Cluster) -> None:
    engine = await c.engine(paying)
    await c.worker()
    assert await c.start(engine, paying, "x", 1.0)
    with pytest.raises(ExecutionFailed, match=r"this worker has no step charge; start a worker on this queue that has it"):
        await c.result(engine, paying)


# What nobody wants any more.


@virtually
async def test_queued_work_of_a_cancelled_execution_is_taken_back(c: Cluster) -> None:
    engine = await c.engine(paying)
    assert await c.start(engine, paying, "x", 1.0)
    assert await c.messages(GPU) == 1
    began_s = asyncio.get_running_loop().time()
    await c.tell(paying.key("e"), messages.CancelMessage("no longer wanted"))
    with pytest.raises(ExecutionCancelled, match="no longer wanted"):
        await c.result(engine, paying)
    assert asyncio.get_running_loop().time() - began_s < 1, "nobody had begun it, so nothing was to be waited for"
    assert await c.messages(GPU) == 0
    await c.worker(charge)
    await asyncio.sleep(100)
    assert begun == []


@virtually
async def test_a_worker_is_told_of_a_cancel_and_its_answer_within_the_grace_counts(c: Cluster) -> None:
    seen: list[bool] = []

    @step(queue="gpu")
    async def patient(name: str) -> str:
        while not step_info().cancelled:
            await asyncio.sleep(0.5)
        seen.append(True)
        return f"stopped {name}"

    @workflow
    async def waiting(ctx: Context, name: str) -> str:
        return await ctx.step(patient, name)

    engine = await c.engine(waiting)
    await c.worker(patient)
    assert await c.start(engine, waiting, "x")
    await asyncio.sleep(10)
    await c.tell(waiting.key("e"), messages.CancelMessage("no longer wanted"))
    with pytest.raises(ExecutionCancelled):
        await c.result(engine, waiting)
    assert seen == [True] and [event for event in await c.events(waiting.key("e")) if isinstance(event, e.SettledEvent)][-1].path == (("patient", 1),)


@pytest.mark.slow
@virtually
async def test_a_worker_that_goes_on_past_the_grace_is_interrupted(c: Cluster) -> None:
    engine = await c.engine(paying)
    await c.worker(charge)
    assert await c.start(engine, paying, "x", 1000.0)
    await asyncio.sleep(10)
    await c.tell(paying.key("e"), messages.CancelMessage("no longer wanted"))
    with pytest.raises(ExecutionCancelled):
        await c.result(engine, paying)
    await asyncio.sleep(2000)
    assert begun == ["x"] and done == [], "it was interrupted, and not done again"
    assert (await c.fold(paying.key("e"))).settled[(("charge", 1),)].outcome == Err("abandoned", 1, ABANDONED)


@pytest.mark.slow
@virtually
async def test_a_worker_whose_step_has_lost_a_race_is_interrupted(c: Cluster) -> None:
    @workflow
    async def racing(ctx: Context) -> str:
        won: Won[Any] = await ctx.race(slow=lambda c: c.step(charge.with_(queue="gpu"), "x", 1000.0), fast=lambda c: c.sleep("5s"))
        await ctx.sleep(2000)
        return won.name

    engine = await c.engine(racing)
    await c.worker(charge)
    assert await c.start(engine, racing)
    assert await c.result(engine, racing) == "fast"
    assert begun == ["x"] and done == []


@virtually
async def test_queued_work_that_lost_a_race_is_taken_back(c: Cluster) -> None:
    @workflow
    async def racing(ctx: Context) -> str:
        won: Won[Any] = await ctx.race(slow=lambda c: c.step(charge.with_(queue="gpu"), "x"), fast=lambda c: c.sleep("5s"))
        return won.name

    engine = await c.engine(racing)
    assert await c.start(engine, racing)
    await asyncio.sleep(4)
    assert await c.messages(GPU) == 1
    assert await c.result(engine, racing) == "fast"
    assert await c.messages(GPU) == 0
    await c.worker(charge)
    await asyncio.sleep(100)
    assert begun == []


@virtually
async def test_queued_work_that_has_timed_out_is_taken_back(c: Cluster) -> None:
    """Nobody waits for the answer: a worker that begins late must not charge the card for nothing."""

    @workflow
    async def hurried(ctx: Context) -> str:
        match await ctx.attempt(charge.with_(queue="gpu", timeout="5s", retry=Retry(max=3, wait="1s")), "x"):
            case Err(kind):
                return kind
            case answer:
                return str(answer)

    engine = await c.engine(hurried)
    assert await c.start(engine, hurried)
    assert await c.result(engine, hurried) == "timeout"
    await c.worker(charge)
    await asyncio.sleep(100)
    assert begun == []
    assert await c.messages(GPU) == 0


@virtually
async def test_an_answer_that_comes_after_the_end_changes_nothing(c: Cluster) -> None:
    engine = await c.engine(paying)
    await c.worker(charge)
    assert await c.start(engine, paying, "x", 20.0)
    await asyncio.sleep(10)
    await c.tell(paying.key("e"), messages.TerminateMessage())
    await settle()
    before = await c.events(paying.key("e"))
    assert isinstance(before[-1], e.EndedEvent)
    await asyncio.sleep(100)
    assert await c.events(paying.key("e")) == before
    assert await c.messages(paying.key("e")) == await c.messages(GPU) == 0


# Large values, epochs, and a store that is out of reach.


@virtually
async def test_large_arguments_and_results_pass_whole(c: Cluster) -> None:
    @step(queue="gpu")
    def double(text: str) -> str:
        return text * 2

    @workflow
    async def large(ctx: Context, size: int) -> int:
        return len(await ctx.step(double, "é" * size))

    engine = await c.engine(large)
    await c.worker(double)
    assert await c.start(engine, large, 200_000)
    assert await c.result(engine, large) == 400_000
    found = await c.store.read(large.key("e"))
    assert found is not None and all(len(row) < 5000 for row in found.payloads)


@pytest.mark.parametrize("after_s", [0.5, 9.999, 15.0, 19.999])
def test_an_epoch_that_is_raised_while_a_worker_works_loses_nothing(after_s: float) -> None:
    async def world() -> None:
        async with cluster() as c:
            engine = await c.engine(paying)
            await c.worker(charge)
            assert await c.start(engine, paying, "x", 20.0)
            await asyncio.sleep(after_s)
            await c.store.raise_epoch()
            assert await c.result(engine, paying) == "charged x"
            assert await c.settled(paying.key("e")) == ["charge"]
            assert await c.messages(GPU) == 0
            assert await c.start(engine, paying, "y", 1.0, id="later") and await c.result(engine, paying, "later") == "charged y"
            assert begun.count("y") == 1

    run(world, handles_max=100_000)


@pytest.mark.parametrize("faults", [DOWN_BEFORE, DOWN_AFTER], ids=["unheard", "unanswered"])
@pytest.mark.parametrize("after_s", [0.5, 15.0])
def test_an_answer_survives_a_minute_in_which_the_store_is_down(faults: Any, after_s: float) -> None:
    async def world() -> None:
        async with cluster() as c:
            engine = await c.engine(paying)
            await c.worker(charge)
            assert await c.start(engine, paying, "x", 20.0)
            await asyncio.sleep(after_s)
            await c.outage(faults, 60)
            assert await c.result(engine, paying) == "charged x"
            assert await c.settled(paying.key("e")) == ["charge"]
            await asyncio.sleep(100)
            assert await c.messages(GPU) == 0

    run(world, handles_max=100_000)


@virtually
async def test_work_that_is_leased_while_the_store_goes_down_is_done_when_it_is_up(c: Cluster) -> None:
    """The store has leased the work, and the worker was not told: it must not wait in that worker's name for ever."""
    engine = await c.engine(paying)
    worker = await c.worker(charge)
    await settle()
    worker.store.faults = DOWN_AFTER
    assert await c.start(engine, paying, "x", 1.0)
    await asyncio.sleep(3)
    worker.store.faults = type(DOWN_AFTER)()
    async with asyncio.timeout(100):
        assert await c.result(engine, paying) == "charged x"


@virtually
async def test_a_worker_that_is_stopped_before_it_has_joined_ends(c: Cluster) -> None:
    worker = await c.worker(charge)
    await settle()
    worker.inner.stop()
    async with asyncio.timeout(5):
        await worker.running


class LateStore(MemoryStore):
    """A store that has given work to the worker "late" before it answers it; and that answers its letting go when it is let."""

    def __init__(self) -> None:
        super().__init__(asyncio.get_running_loop().time)
        self.answers, self.lets_go = asyncio.Event(), asyncio.Event()
        self.answers.set()
        self.lets_go.set()

    async def claim(self, claim: Claim) -> Claimed:
        claimed = await super().claim(claim)
        if claim.holder == "late":
            await self.answers.wait()
        return claimed

    async def renew(self, holder: str, lease_s: float, about: bytes = b"") -> StoreTime:
        if holder == "late" and lease_s <= 0:
            await self.lets_go.wait()
        return await super().renew(holder, lease_s, about)


@virtually
async def test_work_that_comes_after_its_worker_has_taken_another_name_is_not_begun(c: Cluster) -> None:
    c.store = store = LateStore()
    engine = await c.engine(paying)
    await c.worker(charge, holder="late")
    await settle()
    store.answers.clear()
    assert await c.start(engine, paying, "x", 60.0)
    await settle()
    await c.worker(charge)
    await store.raise_epoch()
    await asyncio.sleep(2 * LEASE_S)
    assert begun == ["x"]
    store.answers.set()
    assert await c.result(engine, paying) == "charged x"
    assert begun == ["x"]


@virtually
async def test_work_that_comes_while_its_worker_takes_another_name_is_not_begun(c: Cluster) -> None:
    c.store = store = LateStore()
    engine = await c.engine(paying)
    await c.worker(charge, holder="late")
    await settle()
    store.answers.clear()
    store.lets_go.clear()
    assert await c.start(engine, paying, "x", 60.0)
    await settle()
    await store.raise_epoch()
    await asyncio.sleep(LEASE_S / 2)
    store.answers.set()
    await asyncio.sleep(1)
    assert begun == []
    store.lets_go.set()
    assert await c.result(engine, paying) == "charged x"
    assert begun == ["x"]


@virtually
async def test_work_that_comes_after_the_lease_of_its_worker_is_not_begun(c: Cluster) -> None:
    c.store = store = LateStore()
    engine = await c.engine(paying)
    late = await c.worker(charge, holder="late")
    await settle()
    store.answers.clear()
    assert await c.start(engine, paying, "x", 60.0)
    await settle()
    late.store.faults = Faults(fail_before=1.0, failing=frozenset({"renew"}))
    await c.worker(charge)
    await asyncio.sleep(2 * LEASE_S)
    assert begun == ["x"]
    store.answers.set()
    await asyncio.sleep(1)
    late.store.faults = NO_FAULTS
    assert await c.result(engine, paying) == "charged x"
    assert begun == ["x"]


# Which errors a call retries.


class Busy(Exception):
    pass


class VeryBusy(Busy):
    pass


RAISED: dict[str, type[BaseException]] = {"busy": Busy, "very": VeryBusy, "value": ValueError, "key": KeyError, "lookup": LookupError}


@step(retry=Retry(max=3, wait=1.0, fatal=(LookupError,)))
async def fragile(what: str) -> None:
    begun.append(what)
    raise RAISED[what](what)


async def _failed(ctx: Context, retry: Retry | None, queue: str, what: str) -> list[Any]:
    outcome = await ctx.attempt(fragile.with_(queue=queue, retry=retry), what)
    assert isinstance(outcome, Err)
    return [outcome.kind, outcome.attempts]


POLICIES: dict[str, Retry | None] = {
    "declared": None,
    "only": Retry(max=2, wait=1.0, only=(Busy,)),
    "fatal": Retry(max=2, wait=1.0, fatal=(Busy, ValueError)),
    "both": Retry(max=2, wait=1.0, only=(Busy, ValueError), fatal=(VeryBusy,)),
    "all": Retry(max=4, wait=1.0),
}


@workflow
async def failing(ctx: Context, policy: str, queue: str) -> dict[str, list[Any]]:
    return {what: await _failed(ctx, POLICIES[policy], queue, what) for what in RAISED}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_worker_retries_the_errors_that_the_call_says_as_an_engine_does(policy: str) -> None:
    @virtually
    async def same(c: Cluster) -> None:
        engine = await c.engine(failing)
        await c.worker(fragile)
        assert await c.start(engine, failing, policy, "", id="here")
        assert await c.start(engine, failing, policy, "gpu", id="there")
        here = await c.result(engine, failing, id="here")
        assert await c.result(engine, failing, id="there") == here
        retried = {what for what, (kind, _) in here.items() if kind == "exhausted"}
        assert (
            retried
            == {
                "declared": {"busy", "very", "value"},
                "only": {"busy", "very"},
                "fatal": {"key", "lookup"},
                "both": {"busy", "value"},
                "all": {*RAISED},
            }[policy]
        )

    same()


def test_a_class_of_a_script_is_known_in_the_process_that_imports_it() -> None:
    step_ = retried_errors.step_of_task(fragile, RetriedErrors(fatal=("__main__.VeryBusy",)))
    assert step_.retry.again(Busy()) and not step_.retry.again(VeryBusy())
    again = retried_errors.step_of_task(fragile, RetriedErrors(only=("tests.elsewhere.Busy",)))
    assert not again.retry.again(Busy()), "another class of this name"
    both = retried_errors.step_of_task(fragile, RetriedErrors(fatal=("Busy", "bad_value"), adds=True))
    assert not any(both.retry.again(error) for error in (Busy(), VeryBusy(), KeyError(), BadValue("a", 1, "b"))) and both.retry.again(ValueError())


@workflow
async def deciding(ctx: Context, queue: str) -> list[Any]:
    return await _failed(ctx, Retry(max=2, wait=1.0, should_retry=lambda error: False), queue, "busy")


@virtually
async def test_a_function_given_to_a_call_decides_here_and_is_refused_for_a_queue(c: Cluster) -> None:
    engine = await c.engine(deciding)
    await c.worker(fragile)
    assert await c.start(engine, deciding, "", id="here")
    assert await c.result(engine, deciding, id="here") == ["fatal", 1]
    assert await c.start(engine, deciding, "gpu", id="there")
    with pytest.raises(ExecutionFailed, match="is not accepted in queue gpu, since no worker could call it; give only= or fatal="):
        await c.result(engine, deciding, id="there")


def test_the_policy_of_a_child_takes_no_classes_of_errors() -> None:
    for retry in (Retry(only=(Busy,)), Retry(fatal=(Busy,)), Retry(should_retry=lambda _: True)):
        with pytest.raises(BadValue, match="is not a policy that retries every failure of a child"):
            paying.with_(retry=retry)


CHOOSING = "{perdure: 1, name: choosing, steps: [{id: a, tool: fragile, with: {what: '@input.what'}, retry: {max: 2, wait: 1s, only: [Busy, LookupError]}}]}"


@virtually
async def test_a_node_of_a_definition_says_which_errors_of_its_tool_a_worker_retries_in_addition(c: Cluster) -> None:
    choosing = Definition.of(CHOOSING, tools=[fragile.with_(queue="gpu")])
    engine = await c.engine(choosing)
    await c.worker(fragile)
    for what, attempts in (("very", 2), ("value", 1), ("key", 1)):
        key = Key("default", "choosing", what)
        assert await engine.engine.start(key, choosing.code.codec.encode_args((), {"what": what}, "input"))
        await until(lambda: asyncio.sleep(0, begun.count(what) == attempts))  # noqa: B023  # it is called at once
        await settle(10)
        assert begun.count(what) == attempts and (await c.fold(key)).status == "failed"
