"""Claims about endings: cancel wins and stays, cleanup is durable, eviction reaches every branch, a failure can be retried from what failed."""

import asyncio
import gc
import weakref
from collections import Counter
from typing import Any

import pytest

from perdure import ChildFailed, Context, DeadlineExceeded, ExecutionCancelled, ExecutionFailed, NeedsAttention, Retry, step, workflow
from perdure.core import events as e
from perdure.core import messages
from perdure.core.operations import Success
from perdure.core.paths import path_text
from tests.code.decision_driver import Hand
from tests.code.engines import cut, every_cut, resident, settle, virtually, world

ran: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


@step
async def mark(word: str) -> str:
    ran[word] += 1
    return word


@step
async def never() -> None:
    ran["never"] += 1
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        ran["ended"] += 1


@virtually
async def test_a_cancel_ends_the_step_in_mid_air_and_the_execution_stays_cancelled() -> None:
    @workflow
    async def stuck(ctx: Context) -> None:
        await ctx.step(never)

    ran.clear()
    async with world(stuck) as w:
        key = await w.start(stuck)
        await settle()
        await w.tell(key, messages.CancelMessage("no longer wanted"))
        with pytest.raises(ExecutionCancelled, match="no longer wanted"):
            await w.result(key)
        await settle()
        assert ran == {"never": 1, "ended": 1}
        rows = await w.rows(key)
        for late in (messages.RetryMessage(), messages.CancelMessage("again"), messages.TerminateMessage("again")):
            await w.tell(key, late)
            await settle()
        assert await w.rows(key) == rows, "what has been cancelled is final"


def test_cancel_wins_over_a_step_that_returns_later() -> None:
    async def stuck(ctx: Context) -> str:
        return await ctx.step(mark, "x")

    hand = Hand(stuck).start()
    hand.tell(messages.CancelMessage("no"))
    assert [pending.path for pending in hand.execution.opened.cancelled()] == [(("mark", 1),)]
    hand.tell(messages.SettleMessage((("mark", 1),), 1, Success()))
    assert hand.execution.status == "cancelled" and hand.execution.settled[(("mark", 1),)].outcome == Success()
    waiting = [e.OpenedEvent, e.OpenedEvent, e.SettledEvent]
    assert [type(event) for event in hand.log] == [e.StartedEvent, e.OpenedEvent, e.CancellingEvent, e.DroppedEvent, *waiting, e.SettledEvent, e.EndedEvent]


@virtually
async def test_a_workflow_that_swallows_its_cancellation_still_ends_as_cancelled() -> None:
    @workflow
    async def stubborn(ctx: Context) -> str:
        try:
            await ctx.sleep("10h")
        except asyncio.CancelledError:
            await ctx.step(mark, "cleanup")
        return "not cancelled"

    async with world(stubborn) as w:
        key = await w.start(stubborn)
        await settle()
        await w.tell(key, messages.CancelMessage("enough"))
        with pytest.raises(ExecutionCancelled):
            await w.result(key)
        assert "mark" in await w.opened(key)


@virtually
async def test_cleanup_in_finally_runs_its_verbs_on_cancel_and_is_durable() -> None:
    @workflow
    async def tidy(ctx: Context) -> None:
        try:
            await ctx.sleep("10h")
        finally:
            await ctx.step(mark, "first")
            await ctx.sleep(10)
            await ctx.step(mark, "second")

    ran.clear()
    async with world(tidy) as w:
        key = await w.start(tidy)
        await settle()
        await w.tell(key, messages.CancelMessage("enough"))
        await settle(5)
        await w.crash()
        with pytest.raises(ExecutionCancelled):
            await w.result(key)
        assert ran == {"first": 1, "second": 1}
        await w.replayed(key)


@virtually
async def test_cleanup_of_every_branch_runs_on_cancel() -> None:
    @workflow
    async def branches(ctx: Context) -> None:
        async def branch(c: Context, name: str) -> None:
            try:
                await c.sleep("10h")
            finally:
                await c.step(mark, name)

        await ctx.map(branch, ["a", "b", "c"])

    ran.clear()
    async with world(branches) as w:
        key = await w.start(branches)
        await settle()
        await w.tell(key, messages.CancelMessage())
        with pytest.raises(ExecutionCancelled):
            await w.result(key)
        assert ran == {"a": 1, "b": 1, "c": 1}


@virtually
async def test_async_with_cleans_up_on_success_failure_and_cancel() -> None:
    class Lock:
        def __init__(self, ctx: Context, name: str) -> None:
            self.ctx, self.name = ctx, name

        async def __aenter__(self) -> None:
            await self.ctx.step(mark, f"lock {self.name}")

        async def __aexit__(self, *error: object) -> None:
            await self.ctx.step(mark, f"unlock {self.name}")

    @workflow
    async def locking(ctx: Context, how: str) -> None:
        async with Lock(ctx, how):
            if how == "fail":
                raise ValueError
            await ctx.sleep(10 if how == "succeed" else 1000)

    ran.clear()
    async with world(locking) as w:
        await w.run(locking, "succeed", id="1")
        await w.failure(locking, "fail", id="2")
        key = await w.start(locking, "cancel", id="3")
        await settle(1)
        await w.tell(key, messages.CancelMessage())
        await settle(1)
        assert (await w.fold(key)).status == "cancelled"
        assert ran == {f"{verb} {how}": 1 for verb in ("lock", "unlock") for how in ("succeed", "fail", "cancel")}


@virtually
async def test_terminate_ends_at_once_and_the_program_gets_no_say() -> None:
    @workflow
    async def tidy(ctx: Context) -> None:
        try:
            await ctx.step(never)
        finally:
            await ctx.step(mark, "cleanup")

    ran.clear()
    async with world(tidy) as w:
        key = await w.start(tidy)
        await settle()
        await w.tell(key, messages.TerminateMessage("now"))
        with pytest.raises(ExecutionCancelled, match="now"):
            await w.result(key)
        await settle()
        assert ran == {"never": 1, "ended": 1}


def test_a_cancel_that_comes_before_the_start_ends_it_and_a_later_start_runs_nothing() -> None:
    async def one(ctx: Context) -> str:
        return await ctx.step(mark, "ran")

    hand = Hand(one)
    hand.tell(messages.CancelMessage("early"))
    hand.start()
    assert hand.execution.status == "cancelled"
    assert [type(event) for event in hand.log] == [e.EndedEvent]


@virtually
async def test_a_deadline_fails_the_execution() -> None:
    @workflow(deadline="10s")
    async def slow(ctx: Context) -> None:
        await ctx.sleep("1h")

    async with world(slow) as w:
        key = await w.start(slow)
        with pytest.raises(DeadlineExceeded, match="the execution did not end within 10 s of its start"):
            await w.result(key)


# eviction


@pytest.mark.slow
def test_eviction_reaches_every_branch_and_leaves_nothing_behind() -> None:
    ended: list[str] = []

    class Resource:
        """Something that dies with the coroutine that holds it."""

    alive: weakref.WeakSet[Resource] = weakref.WeakSet()

    async def branching(ctx: Context) -> None:
        async def branch(c: Context, name: str) -> None:
            resource = Resource()
            alive.add(resource)
            try:
                await c.join(lambda d: d.sleep(10), lambda d: d.listen("m"))
            finally:
                ended.append(name)
                _ = c.step(mark, "recorded nowhere")

        await ctx.map(branch, ["a", "b", "c"])

    hand = Hand(branching).start()
    count = len(hand.log)
    assert len(alive) == 3
    hand.program.close()
    gc.collect()
    assert ended == ["a", "b", "c"]
    assert len(alive) == 0
    assert len(hand.log) == count, "what cleanup asks for during eviction is not recorded"
    assert not ran


@virtually
async def test_cleanup_that_runs_at_an_eviction_records_nothing_and_the_execution_goes_on() -> None:
    @workflow
    async def tidy(ctx: Context) -> list[str]:
        try:
            await ctx.sleep(10)
            return ["slept"]
        finally:
            await ctx.step(mark, "cleanup")

    ran.clear()
    async with world(tidy) as w:
        key = await w.start(tidy)
        await settle(1)
        await w.crash()
        await settle(1)
        await w.crash()
        assert await w.result(key) == ["slept"]
        assert ran == {"cleanup": 1}


# retry and resume


@step(retry=Retry(max=1))
async def unsure() -> str:
    ran["unsure"] += 1
    if ran["unsure"] < 3:
        raise ValueError("not yet")
    return "at last"


@workflow
async def reopened(ctx: Context) -> list[Any]:
    first = await ctx.step(mark, "first")
    kept = await ctx.keep("number", lambda: ran.total())
    moment, chance, name = ctx.now(), ctx.random.random(), ctx.uuid()
    both = await ctx.join(lambda c: c.step(mark, "left"), lambda c: c.step(unsure))
    heard = await ctx.listen("m")
    assert moment.tzinfo is not None
    return [first, kept, *both, heard, chance, str(name)]


@virtually
async def test_a_retry_of_a_failed_execution_runs_what_failed_and_nothing_that_had_succeeded() -> None:
    ran.clear()
    async with world(reopened) as w:
        key = await w.start(reopened)
        for _ in range(2):
            with pytest.raises(ExecutionFailed, match="1 of 2 branches"):
                await w.result(key)
            await w.tell(key, messages.RetryMessage("try again"))
            await settle(1)
        await w.send(key, "m", "heard")
        result = await w.result(key)
        assert result[:5] == ["first", 1, "left", "at last", "heard"]
        assert ran == {"first": 1, "left": 1, "unsure": 3}
        assert (await w.fold(key)).reopened == 2
        await w.replayed(key)


@virtually
async def test_a_loop_that_failed_goes_on_from_its_turn() -> None:
    @workflow
    async def looping(ctx: Context) -> int:
        async for turn in ctx.loop("l", state=0, keep=2):
            await turn.step(mark, f"turn {turn.number}")
            turn.state += 1
            if turn.number == 5:
                await turn.step(unsure)
                break
        return turn.state

    ran.clear()
    async with world(looping) as w:
        key = await w.start(looping)
        for _ in range(2):
            with pytest.raises(ExecutionFailed):
                await w.result(key)
            await w.tell(key, messages.RetryMessage())
            await settle(1)
        assert await w.result(key) == 6
        assert ran == {**{f"turn {number}": 1 for number in range(6)}, "unsure": 3}


@virtually
async def test_a_diverged_execution_is_parked_and_resumed_with_the_right_code() -> None:
    def version(word: str) -> Any:
        @workflow(name="changing")
        async def changing(ctx: Context) -> list[str]:
            first = await ctx.step(word, mark, "first")
            await ctx.sleep(10)
            return [first, await ctx.listen("m")]

        return changing

    ran.clear()
    old, new = version("old name"), version("new name")
    async with world(old) as w:
        key = await w.start(old)
        await settle(1)
    async with world(new, store=w.store) as w:
        await w.send(key, "m", "came while parked")
        await settle(2)
        with pytest.raises(NeedsAttention, match=r"old name.*new name"):
            await w.result(key)
        assert ran == {"first": 1}
        await w.tell(key, messages.RetryMessage("the code is still wrong"))
        await settle(2)
        assert (await w.fold(key)).status == "needs_attention"
    async with world(old, store=w.store) as w:
        await w.tell(key, messages.RetryMessage("restored"))
        await settle(2)
        assert await w.result(key) == ["first", "came while parked"]
        assert ran == {"first": 1}


@virtually
async def test_a_parked_execution_can_be_cancelled() -> None:
    def version(name: str) -> Any:
        @workflow(name="changing")
        async def changing(ctx: Context) -> None:
            await ctx.sleep(10, name=name)

        return changing

    async with world(version("a")) as w:
        key = await w.start(version("a"))
        await settle(1)
    async with world(version("b"), store=w.store) as w:
        await w.tell(key, messages.TickMessage())
        await settle(20)
        assert (await w.fold(key)).status == "needs_attention"
        await w.tell(key, messages.CancelMessage("give up"))
        await settle(2)
        with pytest.raises(ExecutionCancelled, match="give up"):
            await w.result(key)


# children


@workflow
async def child(ctx: Context, word: str) -> str:
    if word == "fail":
        raise ValueError("the child's own")
    if word == "wait":
        await ctx.sleep("10h")
    return await ctx.step(mark, word[:10])


@virtually
async def test_a_child_returns_its_result_or_its_failure_and_large_input_comes_as_a_blob() -> None:
    @workflow
    async def parent(ctx: Context) -> list[Any]:
        found: list[Any] = [await ctx.call(child, "x" * 100_000)]
        try:
            await ctx.call(child, "fail")
        except ChildFailed as error:
            found.append([error.kind, error.error.type, error.error.message])
        return found

    ran.clear()
    async with world(parent, child) as w:
        assert await w.run(parent) == ["x" * 10, ["failed", "ValueError", "the child's own"]]
        assert ran == {"x" * 10: 1}
        await w.replayed(w.key(parent))


@virtually
async def test_cancelling_a_parent_cancels_the_children_it_waits_for_and_not_the_detached() -> None:
    @workflow
    async def parent(ctx: Context) -> None:
        await ctx.start(child, "wait")
        await ctx.call(child, "wait")

    async with world(parent, child) as w:
        key = await w.start(parent)
        await settle(1)
        await w.tell(key, messages.CancelMessage())
        await settle(3)
        heads = {head.key.id: head.status for head in await w.store.heads() if head.key.workflow == "child"}
        assert sorted(heads.values()) == ["cancelled", "waiting"]
        assert (await w.fold(key)).status == "cancelled"


@virtually
async def test_a_child_of_a_losing_branch_is_cancelled() -> None:
    @workflow
    async def parent(ctx: Context) -> str:
        won = await ctx.race(child=lambda c: c.call(child, "wait"), timer=lambda c: c.sleep(5))
        await ctx.sleep(5)
        return won.name

    async with world(parent, child) as w:
        assert await w.run(parent) == "timer"
        await settle(3)
        (head,) = [head for head in await w.store.heads() if head.key.workflow == "child"]
        assert head.status == "cancelled"


@virtually
async def test_children_of_different_parents_and_places_draw_different_numbers() -> None:
    @workflow
    async def drawing(ctx: Context) -> list[Any]:
        return [ctx.random.random(), str(ctx.uuid())]

    @workflow
    async def parent(ctx: Context) -> list[Any]:
        return [await ctx.call(drawing), await ctx.call(drawing), *await ctx.join(lambda c: c.call(drawing), lambda c: c.call(drawing))]

    async with world(parent, drawing) as w:
        first, second = await w.run(parent, id="one"), await w.run(parent, id="two")
        draws = [draw[0] for draw in [*first, *second]]
        assert len(set(draws)) == len(draws)


@virtually
async def test_a_retried_parent_is_told_once_and_does_not_start_its_children_again() -> None:
    @workflow
    async def parent(ctx: Context) -> list[str]:
        found = await ctx.call(child, "once")
        return [found, await ctx.step(unsure)]

    ran.clear()
    async with world(parent, child) as w:
        key = await w.start(parent)
        for _ in range(2):
            with pytest.raises(ExecutionFailed):
                await w.result(key)
            await w.tell(key, messages.RetryMessage())
            await settle(1)
        assert await w.result(key) == ["once", "at last"]
        assert ran == {"once": 1, "unsure": 3}


# what is remembered


@virtually
async def test_now_random_and_uuid_are_the_same_on_replay_and_differ_between_branches_and_turns() -> None:
    @workflow
    async def drawing(ctx: Context) -> list[Any]:
        async def branch(c: Context) -> list[Any]:
            return [c.random.random(), str(c.uuid())]

        mine = await branch(ctx)
        before = ctx.now().timestamp()
        await ctx.sleep(10)
        found = [mine, *await ctx.join(branch, branch), before, ctx.now().timestamp()]
        async for turn in ctx.loop("l", state=0):
            found.append(await branch(turn))
            if turn.number:
                break
        await ctx.sleep(10)
        return found

    async with world(drawing) as w:
        key = await w.start(drawing)
        found = await w.result(key)
        pairs = [pair for pair in found if isinstance(pair, list)]
        assert len({pair[0] for pair in pairs}) == len({pair[1] for pair in pairs}) == 5
        rows = await w.rows(key)
        again = await w.run(drawing, id="f")
        assert again[0] == found[0], "the seed is the same here, so is the draw"
    for end in range(1, len(rows)):
        async with world(drawing, store=await cut(key, rows[:end], {})) as w:
            resumed = await w.result(key)
            assert [pair for pair in resumed if isinstance(pair, list)] == pairs


@virtually
async def test_a_kept_value_is_made_once() -> None:
    made: list[int] = []

    @workflow
    async def keeping(ctx: Context) -> list[int]:
        def make() -> int:
            made.append(1)
            return len(made)

        first = await ctx.keep("k", make)
        await ctx.sleep(10)
        return [first, await ctx.keep("other", make)]

    made.clear()
    async with world(keeping) as w:
        assert await w.run(keeping) == [1, 2]
        await w.replayed(w.key(keeping))
        assert len(made) == 2


@resident
async def test_the_log_is_silent_on_replay_and_speaks_after_the_commit(caplog: pytest.LogCaptureFixture) -> None:
    @workflow
    async def speaking(ctx: Context) -> None:
        ctx.log.info("begun", order=7)
        await ctx.sleep(10)
        ctx.log.warning("slept")
        await ctx.sleep(10)

    caplog.set_level("INFO", "perdure.workflow")
    async with world(speaking) as w:
        key = await w.start(speaking)
        await settle(5)
        await w.crash()
        await w.result(key)
        await w.replayed(key)
        lines = [record.getMessage() for record in caplog.records if record.name == "perdure.workflow"]
        assert lines == ["begun order=7", "slept"]


@virtually
async def test_state_that_is_set_can_be_seen_while_it_runs_and_the_stream_counts() -> None:
    @workflow
    async def showing(ctx: Context) -> None:
        ctx.set("phase", "one")
        ctx.emit({"n": 1})
        await ctx.sleep(10)
        ctx.set("phase", "two")
        ctx.emit({"n": 2})

    async with world(showing) as w:
        key = await w.start(showing)
        await settle(1)
        during = await w.fold(key)
        assert during.state == {"phase": b"\xa3one"} and during.emitted == 1
        await w.result(key)
        after = await w.fold(key)
        assert after.state == {"phase": b"\xa3two"} and after.emitted == 2
    assert await every_cut(showing) is None


def test_a_late_or_repeated_answer_yields_no_event() -> None:
    async def one(ctx: Context) -> str:
        return await ctx.step(mark, "x")

    hand = Hand(one).start()
    path = next(iter(hand.execution.open))
    hand.settle(path, "x")
    count = len(hand.log)
    hand.tell(messages.SettleMessage(path, 1, Success()))
    hand.tell(messages.TickMessage())
    hand.tell(messages.LostMessage(path, 1))
    assert len(hand.log) == count and path_text(path) == "mark"
