"""Claims about engines: each execution goes on in one of them at a time, on time, whatever dies, is stopped or is out of reach."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from contextvars import ContextVar
from dataclasses import replace
from functools import partial, wraps
from random import Random
from typing import Any

import pytest

from perdure import Context, NeedsAttention, Retry, Workflow, step, workflow
from perdure.core import events as e
from perdure.core import log_format, messages, values
from perdure.core.envelopes import NewExecution, OutgoingMessage
from perdure.core.errors import StoreError, UnknownWorkflow
from perdure.core.messages import StartMessage, encode_message
from perdure.core.operations import Success
from perdure.core.paths import Key, path_text
from perdure.runtime.engine import CLAIM_MAX, Engine
from perdure.stores.memory import MemoryStore
from perdure.stores.protocol import Claim, Commit, HeadFilter, Post, StoredLog, StoreTime
from perdure.testing.faults import NO_FAULTS, Faults, FaultyStore
from perdure.testing.virtual_time import run
from tests.runtime.cluster import DOWN_AFTER, DOWN_BEFORE, NEVER_S, Cluster, cluster, now_s, settle, until

LEASE_S = 15.0
POLL_S = 1.0

Claimed = Callable[[Cluster], Coroutine[Any, Any, None]]

begun: list[str] = []
done: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    begun.clear()
    done.clear()


def virtually(test: Claimed) -> Callable[[], None]:
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
async def do(name: str, takes_s: float = 0.0) -> str:
    begun.append(name)
    await asyncio.sleep(takes_s)
    done.append(name)
    return name


@workflow
async def three(ctx: Context, takes_s: float) -> list[str]:
    return [await ctx.step(do, name, takes_s) for name in ("a", "b", "c")]


@workflow
async def one(ctx: Context, name: str, takes_s: float) -> str:
    return await ctx.step(do, name, takes_s)


@workflow
async def sleeper(ctx: Context, duration_s: float) -> str:
    await ctx.sleep(duration_s)
    return "awake"


@workflow
async def listener(ctx: Context) -> Any:
    return await ctx.listen("go")


@workflow
async def child(ctx: Context, name: str) -> str:
    return await ctx.step(do, name)


@workflow
async def parent(ctx: Context) -> list[str]:
    return [await ctx.call(child, "first"), await ctx.call(child, "second")]


def key(of: Workflow[..., Any], id: str = "e") -> Key:
    return of.key(id)


colour: ContextVar[str] = ContextVar("colour", default="none")


@step
async def paint(with_colour: str) -> str:
    before = colour.get()
    colour.set(with_colour)
    return before


@step
def look() -> str:
    return colour.get()


@workflow
async def painted(ctx: Context) -> list[str]:
    seen = [colour.get(), await ctx.step(paint, "red"), colour.get(), await ctx.step(paint, "blue"), await ctx.step(look)]
    await ctx.sleep(10)
    return [*seen, colour.get(), await ctx.step(look)]


@pytest.mark.parametrize("idle_s", [0.0, 60.0])
def test_what_a_step_or_a_starter_does_to_context_variables_stays_with_it(idle_s: float) -> None:
    async def world() -> None:
        async with cluster() as c:
            engine = await c.engine(painted, idle_s=idle_s)
            colour.set("green")
            assert await c.start(engine, painted)
            assert await c.result(engine, painted) == ["none"] * 7

    run(world)


# Starting.


@pytest.mark.parametrize("seed", range(20))
def test_an_unfinished_log_is_started_and_claimed_in_one_engine_without_spinning(seed: int) -> None:
    async def world() -> None:
        async with cluster() as c:
            first = await c.engine(three)
            assert await c.start(first, three, 10.0)
            await asyncio.sleep(15)
            await first.stop()
            second = await c.engine(three)
            assert not await c.start(second, three, 10.0)
            assert await c.result(second, three) == ["a", "b", "c"]
            assert Counter(done) == Counter("abc")

    run(world, seed=seed, handles_max=2000)


@virtually
async def test_a_start_says_whether_it_made_the_execution(c: Cluster) -> None:
    engine = await c.engine(one)
    assert await c.start(engine, one, "first", 5.0)
    assert not await c.start(engine, one, "again", 5.0)
    assert await c.result(engine, one) == "first"
    assert not await c.start(engine, one, "after its end", 5.0)
    assert await c.result(engine, one) == "first"
    assert done == ["first"]


@virtually
async def test_of_starts_at_the_same_moment_one_makes_the_execution(c: Cluster) -> None:
    engines = [await c.engine(one), await c.engine(one)]
    made = await asyncio.gather(*(c.start(engine, one, "x", 5.0) for engine in engines * 3))
    assert sorted(made) == [False] * 5 + [True]
    assert [await c.result(engine, one) for engine in engines] == ["x", "x"]
    assert begun == ["x"]


@virtually
async def test_a_start_of_what_another_engine_holds_changes_nothing(c: Cluster) -> None:
    first, second = await c.engine(one), await c.engine(one)
    assert await c.start(first, one, "x", 30.0)
    await asyncio.sleep(10)
    assert not await c.start(second, one, "y", 30.0)
    began_s = now_s()
    assert await c.result(second, one) == "x"
    assert begun == ["x"]
    assert now_s() - began_s < 20 + POLL_S + 0.1


@virtually
async def test_a_start_is_durable_when_it_answers_whoever_was_first(c: Cluster) -> None:
    engine = await c.engine(one, lease_s=NEVER_S, poll_s=NEVER_S)
    engine.store.faults = DOWN_BEFORE
    first = asyncio.create_task(c.start(engine, one, "x", 0.0))
    second = asyncio.create_task(c.start(engine, one, "x", 0.0))
    await asyncio.sleep(3)
    assert not first.done()
    assert not second.done(), "it was told that there is such an execution, and there is none"
    engine.store.faults = NO_FAULTS
    assert [await first, await second] == [True, False]


@virtually
async def test_a_claim_that_overtakes_the_refusal_of_a_start_is_not_forgotten(c: Cluster) -> None:
    """The store refuses a start; before its answer arrives, the execution is claimed by the same engine."""
    first = await c.engine(three)
    assert await c.start(first, three, 10.0)
    await asyncio.sleep(15)
    second = await c.engine(three)
    answers = second.store.inner

    class Late(FaultyStore):
        async def commit(self, changes: Any) -> Any:
            found = await answers.commit(changes)
            await asyncio.sleep(0.5)
            return found

    second.engine.store = Late(answers, Random(0), gate=second.store.gate)
    starting = asyncio.create_task(c.start(second, three, 10.0))
    await settle()
    await first.stop()
    assert not await starting
    second.engine.store = second.store
    async with asyncio.timeout(100):
        assert await c.result(second, three) == ["a", "b", "c"]


@virtually
async def test_a_workflow_that_an_engine_does_not_know_is_not_started_there(c: Cluster) -> None:
    engine = await c.engine(one)
    with pytest.raises(UnknownWorkflow, match="no engine here knows sleeper; known are: one"):
        await c.start(engine, sleeper, 1.0)
    assert await c.events(key(sleeper)) == []


# Several engines.


@pytest.mark.slow
@virtually
async def test_of_the_engines_on_one_store_one_performs_each_step_once(c: Cluster) -> None:
    engines = [await c.engine(one), await c.engine(one)]
    names = [str(number) for number in range(3 * CLAIM_MAX)]
    await c.post_all(one, [(name, (name, 5.0)) for name in names])
    await settle(20)
    assert Counter(done) == Counter(begun) == Counter(names)
    performed_by = {event.by for name in names for event in await c.events(key(one, name)) if isinstance(event, e.OpenedEvent)}
    assert performed_by <= {process.engine.holder for process in engines}


@virtually
async def test_after_the_lease_another_engine_takes_over_and_runs_again_only_what_was_in_flight(c: Cluster) -> None:
    first = await c.engine(three)
    assert await c.start(first, three, 10.0)
    await asyncio.sleep(15)
    second = await c.engine(three)
    assert (begun, done) == (["a", "b"], ["a"])
    await first.kill()
    killed_s = now_s()
    await until(lambda: asyncio.sleep(0, begun == ["a", "b", "b"]))
    assert LEASE_S * 2 / 3 - 0.1 <= now_s() - killed_s <= LEASE_S + POLL_S + 0.1
    assert await c.result(second, three) == ["a", "b", "c"]
    assert (begun, done) == (["a", "b", "b", "c"], ["a", "b", "c"])
    assert await c.settled(key(three)) == ["do", "do#2", "do#3"]


@virtually
async def test_a_frozen_engine_that_thaws_after_its_lease_does_no_harm(c: Cluster) -> None:
    first, second = await c.engine(three), await c.engine(three)
    assert await c.start(first, three, 10.0)
    await asyncio.sleep(15)
    first.store.gate.freeze(60)
    assert await c.result(second, three) == ["a", "b", "c"]
    await asyncio.sleep(60)
    assert Counter(await c.settled(key(three))) == Counter(["do", "do#2", "do#3"])
    assert await c.result(first, three) == ["a", "b", "c"]
    assert await c.start(first, three, 0.0, id="later") and await c.result(first, three, "later") == ["a", "b", "c"]


@virtually
async def test_a_stopped_engine_hands_over_at_once_and_no_try_is_counted(c: Cluster) -> None:
    @workflow
    async def once(ctx: Context) -> str:
        return await ctx.step(do.with_(retry=Retry(max=1)), "x", 10.0)

    engine = await c.engine(once)
    assert await c.start(engine, once)
    for _ in range(3):
        await asyncio.sleep(5)
        await engine.stop()
        engine = await c.engine(once)
        await settle(0.5)
    assert await c.result(engine, once) == "x"
    events = await c.events(key(once))
    assert not any(isinstance(event, e.RetryingEvent) for event in events)
    assert [event.attempt for event in events if isinstance(event, e.InterruptedEvent)] == [1, 2, 3]
    assert (begun, done) == (["x"] * 4, ["x"])


@pytest.mark.slow
@virtually
async def test_orderly_stops_never_make_an_execution_need_attention(c: Cluster) -> None:
    """design.md §3: an orderly stop is not counted; ten deploys during a long step are nobody's fault."""
    engine = await c.engine(one)
    assert await c.start(engine, one, "x", 1000.0)
    for stops in range(12):
        await asyncio.sleep(90 if stops else 1)  # by then the step runs again, however long an interrupted one waits
        assert (await c.fold(key(one))).parked is None, f"it needs attention after {stops} orderly stops"
        await engine.stop()
        engine = await c.engine(one)
    assert await c.result(engine, one) == "x"


@virtually
async def test_an_engine_that_is_stopped_leaves_nothing_held(c: Cluster) -> None:
    engine = await c.engine(one, sleeper)
    assert await c.start(engine, one, "x", 100.0) and await c.start(engine, sleeper, 100.0)
    await settle()
    await engine.stop()
    taken = await c.store.claim(Claim(holder=await joined(c.store), epoch=1, programs=frozenset(["one@1", "sleeper@1"])))
    assert [assignment.head.key for assignment in taken.executions] == [key(one)]
    assert (await c.head(key(sleeper))).holder is None


async def joined(store: MemoryStore) -> str:
    await store.renew("test", 60)
    return "test"


# Epochs, and a store that is out of reach.


@pytest.mark.parametrize("after_s", [0.0, 5.0, 9.999, 12.0, 25.0])
def test_a_raised_epoch_makes_an_engine_begin_anew_and_lose_nothing(after_s: float) -> None:
    async def world() -> None:
        async with cluster() as c:
            engine = await c.engine(three, listener)
            before = engine.engine.holder
            assert await c.start(engine, listener)
            assert await c.start(engine, three, 10.0)
            await asyncio.sleep(after_s)
            await c.store.raise_epoch()
            assert await c.result(engine, three) == ["a", "b", "c"]
            await c.send(key(listener), "go", 1)
            assert await c.result(engine, listener) == 1
            assert Counter(await c.settled(key(three))) == Counter(["do", "do#2", "do#3"])
            assert engine.engine.holder != before

    run(world, handles_max=100_000)


def test_an_execution_that_is_started_while_the_epoch_is_raised_is_not_lost() -> None:
    async def world() -> None:
        async with cluster() as c:
            engine = await c.engine(one)
            await c.store.raise_epoch()
            assert await c.start(engine, one, "x", 1.0)
            assert await c.result(engine, one) == "x"

    run(world, handles_max=100_000)


def test_a_start_that_is_decided_on_while_the_engine_joins_a_new_epoch_has_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Joining enters the epoch before the answer to a commit of the former one comes: nothing of that decision may stay in memory."""

    async def world() -> None:
        async with cluster() as c:
            engine = await c.engine(one)
            commit = engine.engine.store.commit

            async def late(changes: Any) -> Any:
                if any(isinstance(change, Commit) and change.creates for change in changes) and not raised:
                    raised.append(await c.store.raise_epoch())
                    _ = await engine.engine._holder.join()
                return await commit(changes)

            raised = list[int]()
            monkeypatch.setattr(engine.engine.store, "commit", late)
            assert await c.start(engine, one, "x", 1.0)
            assert await c.result(engine, one) == "x" and len(raised) == 1

    run(world, handles_max=100_000)


@pytest.mark.parametrize("faults", [DOWN_BEFORE, DOWN_AFTER], ids=["unheard", "unanswered"])
@pytest.mark.parametrize("after_s", [0.0, 5.0, 15.0])
def test_a_store_that_is_down_for_a_minute_loses_nothing_and_work_goes_on(faults: Any, after_s: float) -> None:
    async def world() -> None:
        async with cluster() as c:
            engine = await c.engine(three, sleeper, listener)
            assert await c.start(engine, three, 10.0)
            assert await c.start(engine, sleeper, 30.0)
            assert await c.start(engine, listener)
            await asyncio.sleep(after_s)
            await c.send(key(listener), "go", "told before")
            await c.outage(faults, 60)
            assert await c.result(engine, three) == ["a", "b", "c"]
            assert await c.result(engine, sleeper) == "awake"
            assert await c.result(engine, listener) == "told before"
            assert now_s() - 1e9 < after_s + 60 + 30 + 3 * 5 + LEASE_S + 1
            assert Counter(await c.settled(key(three))) == Counter(["do", "do#2", "do#3"])

    run(world, handles_max=100_000)


@pytest.mark.parametrize("faults", [DOWN_BEFORE, DOWN_AFTER], ids=["unheard", "unanswered"])
def test_a_start_in_a_store_that_is_down_takes_effect_when_it_is_up_again(faults: Any) -> None:
    async def world() -> None:
        async with cluster() as c:
            engine = await c.engine(one)
            outage = asyncio.create_task(c.outage(faults, 60))
            await settle()
            assert await c.start(engine, one, "x", 1.0) or faults is DOWN_AFTER, "it says that there was such an execution already"
            await outage
            assert await c.result(engine, one) == "x"

    run(world, handles_max=100_000)


@virtually
async def test_an_engine_begun_while_the_store_is_down_joins_when_it_is_up_again(c: Cluster) -> None:
    store = FaultyStore(c.store, Random(0), DOWN_BEFORE)
    engine = Engine(store, [one.code])
    running = asyncio.create_task(engine.run())
    await asyncio.sleep(60)
    store.faults = NO_FAULTS
    await engine.ready()
    engine.stop()
    await running


# Rings and timers.


@pytest.mark.parametrize("idle_s", [0.0, 1e9], ids=["evicted", "warm"])
def test_a_message_wakes_an_engine_at_once_and_not_only_at_its_poll(idle_s: float) -> None:
    async def world() -> None:
        async with cluster() as c:
            engine = await c.engine(listener, poll_s=NEVER_S, idle_s=idle_s)
            assert await c.start(engine, listener)
            await asyncio.sleep(100)
            sent_s = now_s()
            await c.send(key(listener), "go", 1)
            assert await c.result(engine, listener) == 1
            assert now_s() == sent_s

    run(world)


@virtually
async def test_a_message_to_an_execution_with_a_step_in_flight_is_handled_at_once(c: Cluster) -> None:
    @workflow
    async def both(ctx: Context) -> tuple[str, Any]:
        return await ctx.join(lambda c: c.step(do, "x", 50.0), lambda c: c.listen("go"))

    engine = await c.engine(both, poll_s=NEVER_S)
    assert await c.start(engine, both)
    await asyncio.sleep(10)
    await c.send(key(both), "go", 1)
    await settle()
    assert any(isinstance(event, e.ReceivedEvent) for event in await c.events(key(both)))
    assert await c.result(engine, both) == ("x", 1)
    assert begun == ["x"]


@virtually
async def test_a_start_message_wakes_an_engine_at_once(c: Cluster) -> None:
    engine = await c.engine(one, poll_s=NEVER_S)
    await asyncio.sleep(100)
    began_s = now_s()
    await c.post(one, "x", 1.0)
    await settle()
    assert await c.result(engine, one) == "x"
    assert now_s() - began_s == pytest.approx(1.0, abs=0.01)


@virtually
async def test_an_execution_that_another_engine_gives_back_is_taken_up_at_once(c: Cluster) -> None:
    first, second = await c.engine(one, poll_s=NEVER_S), await c.engine(one, poll_s=NEVER_S)
    assert await c.start(first, one, "x", 100.0)
    await asyncio.sleep(10)
    await first.stop()
    await settle()
    assert begun == ["x", "x"]
    assert await c.result(second, one) == "x"


@pytest.mark.parametrize("idle_s", [0.0, 1e9], ids=["evicted", "warm"])
def test_the_timer_of_a_parked_execution_fires_on_time(idle_s: float) -> None:
    async def world() -> None:
        async with cluster() as c:
            engine = await c.engine(sleeper, poll_s=NEVER_S, idle_s=idle_s)
            began_s = now_s()
            assert await c.start(engine, sleeper, 10.3)
            assert await c.result(engine, sleeper) == "awake"
            assert now_s() - began_s == pytest.approx(10.3, abs=0.001)

    run(world)


@virtually
async def test_a_message_that_a_late_answer_to_a_claim_delivers_again_is_decided_on_once(c: Cluster) -> None:
    """A claim is carried out before the commit that acknowledges some mail, and answered after it."""

    @workflow
    async def busy(ctx: Context) -> str:
        return await ctx.step(do, "x", 50.0)

    engine = await c.engine(busy, lease_s=NEVER_S)
    assert await c.start(engine, busy)
    await asyncio.sleep(10)
    answers = engine.store.inner

    class Late(FaultyStore):
        async def claim(self, claim: Claim) -> Any:
            found = await answers.claim(claim)
            if sum(len(one.messages) for one in found.executions) == 2:
                await asyncio.sleep(5)
            return found

        async def commit(self, changes: Any) -> Any:
            await asyncio.sleep(2)
            return await answers.commit(changes)

    engine.engine.store = Late(answers, Random(0), gate=engine.store.gate)
    await c.send(key(busy), "first")
    await asyncio.sleep(1)
    await c.send(key(busy), "second")
    await asyncio.sleep(20)
    assert [event.name for event in await c.events(key(busy)) if isinstance(event, e.MessageArrivedEvent)] == ["first", "second"]
    assert await c.messages(key(busy)) == 0


@pytest.mark.slow
@virtually
async def test_an_engine_that_finds_more_than_it_can_claim_at_once_claims_the_rest_without_waiting(c: Cluster) -> None:
    first = await c.engine(one)
    for number in range(3 * CLAIM_MAX):
        assert await c.start(first, one, str(number), 30.0, id=str(number))
    second = await c.engine(one, poll_s=NEVER_S)
    await first.kill()
    await asyncio.sleep(LEASE_S + 1)
    begun.clear()
    second.engine._wake_up.set()
    await asyncio.sleep(0.1)
    assert len(begun) == 3 * CLAIM_MAX


@virtually
async def test_a_timer_set_by_a_stopped_engine_fires_in_the_next_at_most_a_poll_late(c: Cluster) -> None:
    first = await c.engine(sleeper)
    began_s = now_s()
    assert await c.start(first, sleeper, 10.3)
    await first.stop()
    second = await c.engine(sleeper)
    assert await c.result(second, sleeper) == "awake"
    assert 10.3 - 0.001 <= now_s() - began_s <= 10.3 + POLL_S


@pytest.mark.slow
def test_a_thousand_sleepers_wake_each_on_its_time_and_take_no_memory_meanwhile() -> None:
    async def world() -> None:
        async with cluster() as c:
            engine = await c.engine(sleeper, poll_s=50.0, idle_s=0.001)
            draw = Random(1)
            durations_s = [round(draw.uniform(100, 1000), 3) for _ in range(1000)]
            began_s = now_s()
            await c.post_all(sleeper, [(str(number), (duration_s,)) for number, duration_s in enumerate(durations_s)])
            await asyncio.sleep(99)
            assert len(engine.engine._residents) == 0
            await asyncio.sleep(1000)
            for number, duration_s in enumerate(durations_s):
                ended = (await c.fold(key(sleeper, str(number)))).ended
                assert ended is not None and ended.at_s - began_s == pytest.approx(duration_s, abs=0.002)

    run(world)


@virtually
async def test_an_execution_leaves_memory_when_it_has_been_idle_for_long_and_not_before(c: Cluster) -> None:
    engine = await c.engine(listener, one, idle_s=10.0)
    assert await c.start(engine, listener) and await c.start(engine, one, "x", 100.0)
    await asyncio.sleep(9)
    assert {resident.key for resident in engine.engine._residents} == {key(listener), key(one)}
    await asyncio.sleep(3)
    assert {resident.key for resident in engine.engine._residents} == {key(one)}
    await c.send(key(listener), "go", 1)
    assert await c.result(engine, listener) == 1
    assert await c.result(engine, one) == "x"
    assert begun == ["x"]


@virtually
async def test_what_has_ended_takes_no_memory(c: Cluster) -> None:
    engine = await c.engine(one)
    for number in range(50):
        await c.post(one, "x", 0.0, id=str(number))
    await settle()
    assert len(done) == 50
    assert len(engine.engine._residents) == 0 and len(engine.engine._tasks) == 1


# Families, programs and versions.


@virtually
async def test_a_child_is_called_across_engines(c: Cluster) -> None:
    first = await c.engine(parent, poll_s=NEVER_S)
    await c.engine(child, poll_s=NEVER_S)
    began_s = now_s()
    assert await c.start(first, parent)
    assert await c.result(first, parent) == ["first", "second"]
    assert now_s() - began_s < 0.1
    assert done == ["first", "second"]


@virtually
async def test_an_engine_with_a_root_claims_that_family_only(c: Cluster) -> None:
    stranger = await c.post(child, "stranger", id="stranger")
    await c.post(parent, id="other")
    engine = await c.engine(parent, child, roots=[key(parent)])
    assert await c.start(engine, parent)
    assert await c.result(engine, parent) == ["first", "second"]
    await asyncio.sleep(10)
    assert [head.key for head in await c.store.heads(HeadFilter(statuses=frozenset({"pending"})))] == [key(parent, "other"), stranger]
    assert done == ["first", "second"]


@virtually
async def test_a_workflow_that_nobody_here_knows_waits_for_an_engine_that_does(c: Cluster) -> None:
    await c.post(one, "x", 1.0)
    await c.engine(sleeper)
    await asyncio.sleep(100)
    assert (await c.head(key(one))).status == "pending" and (await c.head(key(one))).holder is None
    knowing = await c.engine(one)
    assert await c.result(knowing, one) == "x"


@virtually
async def test_a_version_that_an_engine_does_not_know_is_not_claimed(c: Cluster) -> None:
    async def body(ctx: Context, name: str) -> str:
        return await ctx.step(do, name)

    old, new = workflow(name="one")(body), workflow(name="one", version=9)(body)
    await c.post(one, "x", id="pinned", version=9)
    await c.engine(old)
    await asyncio.sleep(100)
    head = await c.head(key(one, "pinned"))
    assert (head.program, head.status, head.holder) == ("one@9", "pending", None)
    knowing = await c.engine(new)
    assert await c.result(knowing, new, "pinned") == "x"


@virtually
async def test_an_execution_of_an_old_version_is_gone_on_with_only_where_it_is_replayed(c: Cluster) -> None:
    async def body(ctx: Context) -> Any:
        return await ctx.listen("go")

    old, new, both = workflow(name="w")(body), workflow(name="w", version=2)(body), workflow(name="w", version=2, replays=[1])(body)
    first = await c.engine(old)
    assert await c.start(first, old)
    await first.stop()
    await c.engine(new)
    await c.send(key(old), "go", 1)
    await asyncio.sleep(10)
    assert (await c.head(key(old))).status == "waiting"
    knowing = await c.engine(both)
    assert await c.result(knowing, both) == 1


# What it carries and says.


@pytest.mark.parametrize("idle_s", [0.0, 1e9], ids=["evicted", "warm"])
def test_large_values_come_back_whole_also_in_another_engine(idle_s: float) -> None:
    @step
    async def double(text: str) -> str:
        return text * 2

    @workflow
    async def large(ctx: Context, text: str) -> tuple[int, str]:
        twice = await ctx.step(double, text)
        heard = await ctx.listen("go")
        return len(twice), await ctx.step(double, heard)

    async def world() -> None:
        async with cluster() as c:
            first = await c.engine(large, idle_s=idle_s)
            assert await c.start(first, large, "é" * 100_000)
            await settle()
            await first.kill()
            second = await c.engine(large, idle_s=idle_s)
            await c.send(key(large), "go", "x" * 300_000)
            assert await c.result(second, large) == (200_000, "x" * 600_000)
            assert all(len(row) < 5000 for row in (await logged(c, key(large))).payloads)

    run(world)


async def logged(c: Cluster, of: Key) -> StoredLog:
    found = await c.store.read(of)
    assert found is not None
    return found


@workflow
async def talkative(ctx: Context) -> None:
    ctx.log.info("before", n=1)
    await ctx.step(do, "x", 5.0)
    ctx.log.info("between")
    await ctx.sleep(20)
    ctx.log.warning("after")


class LogRecorder(logging.Handler):
    """Notes each line of a workflow together with the last event that the store had by then."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__()
        self._store = store
        self.said: list[tuple[str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        (*_, last) = log_format.decode_rows(row.payload for row in self._store._executions[key(talkative)].rows)
        self.said.append((record.getMessage(), type(last).__name__))


@pytest.mark.parametrize("idle_s", [0.0, 1e9], ids=["evicted", "warm"])
def test_lines_of_a_workflow_come_once_and_after_their_commit(idle_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = logging.getLogger("perdure.workflow")
    monkeypatch.setattr(lines, "level", logging.DEBUG)

    async def world() -> list[tuple[str, str]]:
        async with cluster() as c:
            witness = LogRecorder(c.store)
            monkeypatch.setattr(lines, "handlers", [witness])
            engine = await c.engine(talkative, idle_s=idle_s)
            assert await c.start(engine, talkative)
            await asyncio.sleep(4.9)
            await c.outage(DOWN_BEFORE, 10)  # the step's answer comes before the engine has noticed, and is decided on in vain
            await c.result(engine, talkative)
            return witness.said

    assert run(world) == [("before n=1", "OpenedEvent"), ("between", "OpenedEvent"), ("after", "EndedEvent")]


def test_a_defect_in_a_task_of_the_engine_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Defective(FaultyStore):
        async def read(self, key: Key, after: int = 0) -> StoredLog | None:
            raise ZeroDivisionError("planted")

    async def world() -> None:
        async with cluster() as c:
            await c.post(one, "x", 0.0)
            engine = Engine(Defective(c.store, Random(0)), [one.code])
            running = asyncio.create_task(engine.run())
            await asyncio.sleep(10)
            engine.stop()
            await running

    run(world)
    defects = [record for record in caplog.records if "This is a defect of Perdure" in record.getMessage()]
    assert defects and all(record.levelname == "ERROR" and record.exc_info and record.exc_info[0] is ZeroDivisionError for record in defects)


def test_what_an_engine_can_t_carry_on_is_parked_alone_and_goes_on_when_it_is_retried(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    plain, is_broken = log_format.encode_row, True

    def encoding(events: Sequence[e.Event]) -> bytes:
        if is_broken and any(isinstance(event, e.SettledEvent) and event.outcome == Success(values.encode("x", "a result")) for event in events):
            raise ZeroDivisionError("planted")
        return plain(events)

    async def world() -> None:
        nonlocal is_broken
        async with cluster() as c:
            engine = await c.engine(one)
            await c.post_all(one, [("broken", ("x", 0.0)), ("whole", ("y", 0.0))])
            assert await c.result(engine, one, "whole") == "y"
            await settle(60)
            broken = await c.fold(key(one, "broken"))
            assert broken.parked is not None and broken.parked.reason == "diverged" and "planted" in broken.parked.detail[0]
            is_broken = False
            await c.tell(key(one, "broken"), messages.RetryMessage())
            await settle(60)
            assert await c.result(engine, one, "broken") == "x"

    monkeypatch.setattr(log_format, "encode_row", encoding)
    run(world)
    assert "is parked" in caplog.text


# How it ends.


@virtually
async def test_waiting_for_what_needs_attention_says_so(c: Cluster) -> None:
    @workflow(name="changing")
    async def before(ctx: Context) -> None:
        await ctx.listen("go")

    @workflow(name="changing")
    async def after(ctx: Context) -> None:
        await ctx.sleep(1)

    first = await c.engine(before)
    assert await c.start(first, before)
    await first.stop()
    second = await c.engine(after)
    await c.send(key(before), "go")
    with pytest.raises(NeedsAttention, match=r"default/changing/e needs attention \(diverged\)"):
        await c.result(second, after)


@pytest.mark.slow
def test_many_kills_at_drawn_moments_lose_nothing_and_settle_each_step_once() -> None:
    async def world(seed: int) -> None:
        async with cluster() as c:
            draw = Random(seed)
            await c.post_all(three, [(str(number), (0.5,)) for number in range(10)])
            for _ in range(6):
                engine = await c.engine(three, lease_s=3.0)
                await asyncio.sleep(draw.uniform(0, 6))
                await engine.kill()
            engine = await c.engine(three, lease_s=3.0)
            for number in range(10):
                assert await c.result(engine, three, str(number)) == ["a", "b", "c"]
                paths = [path_text(event.path) for event in await c.events(key(three, str(number))) if isinstance(event, e.SettledEvent)]
                assert paths == ["do", "do#2", "do#3"]

    for seed in range(10):
        run(partial(world, seed), seed=seed)


@virtually
async def test_what_is_pinned_and_has_not_begun_stays_pinned_whatever_message_comes_before(c: Cluster) -> None:
    start = StartMessage(2, one.code.codec.encode_args(("x", 0.0), {}, "input"), 7)
    later = OutgoingMessage(key(one), "start", encode_message(start), now_s() + 100, NewExecution("one@2", key(one)))
    await c.store.commit([Post(messages=(later,))])
    newer: Workflow[..., str] = Workflow(replace(one.code, version=2), list)
    engine = await c.engine(newer)
    await c.send(key(one), "early")
    await settle(1)
    head = await c.head(key(one))
    assert (head.program, head.version, head.status) == ("one@2", 1, "pending")
    assert await c.result(engine, newer) == "x"


def test_claims_that_fail_while_all_else_works_are_tried_again_with_patience() -> None:
    async def world() -> None:
        async with cluster() as c:
            engine = await c.engine(one)
            failing = Faults(fail_before=1.0, failing=frozenset(["claim"]))
            outage = asyncio.create_task(c.outage(failing, 60.0))
            await c.post(one, "x", 1.0)
            await outage
            assert await c.result(engine, one) == "x"

    run(world, handles_max=5_000)


@virtually
async def test_an_engine_that_can_not_be_kept_alive_ends_and_says_why(c: Cluster) -> None:
    class Damaged(MemoryStore):
        renewals = 0

        async def renew(self, holder: str, lease_s: float, about: bytes = b"") -> StoreTime:
            self.renewals += 1
            if self.renewals > 2 and lease_s:
                raise StoreError("the file is damaged; restore it from a backup")
            return StoreTime((await super().renew(holder, lease_s, about)).now_s, self.renewals)

    engine = Engine(Damaged(now_s), [one.code])
    with pytest.raises(StoreError, match="damaged"):
        await engine.run()


@workflow
async def returns_its_input(ctx: Context, name: str) -> str:
    return name


@virtually
async def test_a_start_that_is_stored_wins_over_a_later_one_in_an_engine(c: Cluster) -> None:
    engine = await c.engine(returns_its_input)
    for id in "abcdefgh":
        await c.post(returns_its_input, "stored", id=id)
        assert not await c.start(engine, returns_its_input, "late", id=id)
        assert await c.result(engine, returns_its_input, id=id) == "stored"
