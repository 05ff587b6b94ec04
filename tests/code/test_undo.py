"""Claims about undo: what an execution has done is undone if it fails or is cancelled, last first, each once, whatever crashes meanwhile."""

import asyncio
import sys
from typing import Any

import pytest

from perdure import Context, DeadlineExceeded, ExecutionCancelled, ExecutionFailed, NeedsAttention, Retry, Rollback, StepFailed, step, workflow
from perdure.core import compaction, limits, messages
from perdure.core import events as e
from perdure.core.errors import BadName
from perdure.core.operations import Success
from perdure.core.paths import path_text
from perdure.runtime.worker import Worker
from tests.code.engines import cut, settle, virtually, world
from tests.crash_budgets import Budget, crash_budgets
from tests.proof.crash_search import Play, ScriptStage, crash_at_every_write
from tests.proof.disks import MemoryDisk
from tests.sampling import some

done: list[str] = []
broken: set[str] = set()


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    done.clear()
    broken.clear()


@step
async def do(name: str, takes_s: float = 0.0) -> str:
    await asyncio.sleep(takes_s)
    done.append(name)
    return f"<{name}>"


@do.undo
async def undo_do(result: str, name: str, takes_s: float = 0.0) -> None:
    if name in broken:
        raise OSError(f"{name} is broken")
    done.append(f"-{result}")


@step
async def plain(name: str) -> str:
    done.append(name)
    return name


@step(retry=Retry(max=1), timeout="10s")
async def risky(name: str, takes_s: float = 0.0) -> str:
    done.append(name)
    await asyncio.sleep(takes_s)
    raise ValueError(name)


@risky.undo(in_doubt=True)
async def undo_risky(result: str | None, name: str, takes_s: float = 0.0) -> None:
    done.append(f"-{name}?{result}")


def undone(words: list[str]) -> list[str]:
    return [word for word in words if word.startswith("-")]


@workflow
async def three(ctx: Context) -> None:
    for name in "abc":
        await ctx.step(do, name)
    raise Rollback("no")


@virtually
async def test_what_was_done_is_undone_in_reverse_order_of_its_completion() -> None:
    @workflow
    async def at_once(ctx: Context) -> None:
        await ctx.join(slow=lambda c: c.step(do, "slow", 2.0), quick=lambda c: c.step(do, "quick", 1.0))
        await ctx.step(plain, "plain")
        await ctx.step(do, "last")
        raise Rollback("no")

    async with world(at_once) as w:
        done.clear()
        error = await w.failure(at_once)
        assert (error.type, error.message) == ("rollback", "no")
        assert done == ["quick", "slow", "plain", "last", "-<last>", "-<slow>", "-<quick>"]


@virtually
async def test_it_reaches_every_depth() -> None:
    @workflow
    async def deep(ctx: Context) -> None:
        await ctx.race(won=lambda c: c.step(do, "won"), lost=lambda c: both(c))
        async for turn in ctx.loop("turns", state=0, keep=2, trim_every=1):
            await turn.step(do, f"turn {turn.number}")
            turn.state += 1
            if turn.number == 5:
                break
        await ctx.join(lambda c: c.join(lambda d: d.step(do, "deep")))
        await asyncio.gather(ctx.step(do, "gathered"))
        raise Rollback("no")

    async def both(c: Context) -> None:
        await c.step(do, "lost")
        await c.sleep(100)

    async with world(deep) as w:
        done.clear()
        await w.failure(deep)
        assert undone(done)[:2] == ["-<gathered>", "-<deep>"]
        assert {"-<won>", *(f"-<turn {number}>" for number in range(6))} <= set(done)
        assert done.count("-<lost>") <= done.count("lost")


@pytest.mark.parametrize("end", ["cancel", "cancel without undo", "terminate"])
def test_a_cancelled_execution_is_undone_unless_that_is_not_wanted(end: str) -> None:
    @workflow
    async def waits(ctx: Context) -> None:
        await ctx.step(do, "a")
        await ctx.listen("never")

    @virtually
    async def claim() -> None:
        async with world(waits) as w:
            done.clear()
            key = await w.start(waits)
            await settle(2)
            await w.tell(key, messages.TerminateMessage("no") if end == "terminate" else messages.CancelMessage("no", undo=end == "cancel"))
            with pytest.raises(ExecutionCancelled, match="no"):
                await w.result(key)
            assert done == (["a", "-<a>"] if end == "cancel" else ["a"])

    claim()


@virtually
async def test_a_workflow_that_swallows_its_cancellation_is_undone_all_the_same() -> None:
    @workflow
    async def stubborn(ctx: Context) -> str:
        await ctx.step(do, "a")
        try:
            await ctx.listen("never")
        except asyncio.CancelledError:
            return "done all the same"
        return ""

    async with world(stubborn) as w:
        done.clear()
        key = await w.start(stubborn)
        await settle(2)
        await w.tell(key, messages.CancelMessage("no"))
        with pytest.raises(ExecutionCancelled):
            await w.result(key)
        assert done == ["a", "-<a>"]


@virtually
async def test_an_execution_is_undone_when_its_deadline_passes() -> None:
    @workflow(deadline="60s")
    async def late(ctx: Context) -> None:
        await ctx.step(do, "a")
        await ctx.step(do, "b", 1000.0)

    async with world(late) as w:
        done.clear()
        key = await w.start(late)
        with pytest.raises(DeadlineExceeded, match="the execution did not end within 60 s of its start"):
            await w.result(key)
        assert done == ["a", "-<a>"]


@virtually
async def test_a_handler_is_tried_again_and_then_parks_the_execution_until_it_succeeds() -> None:
    async with world(three) as w:
        done.clear()
        broken.add("b")
        key = await w.start(three)
        with pytest.raises(NeedsAttention, match="could not be undone: OSError: b is broken"):
            await w.result(key)
        assert undone(done) == ["-<c>"]
        assert (await w.fold(key)).status == "needs_attention"
        broken.clear()
        await w.tell(key, messages.ResumeMessage("mended"))
        await settle(10)
        with pytest.raises(ExecutionFailed, match="rollback: no"):
            await w.result(key)
        assert undone(done) == ["-<c>", "-<b>", "-<a>"]


@virtually
async def test_what_is_being_undone_says_so_and_is_not_cancelled() -> None:
    @step
    async def lasting() -> None:
        done.append("lasting")

    @lasting.undo
    async def slowly(_: None) -> None:
        await asyncio.sleep(50)
        done.append("-lasting")

    @workflow
    async def slow(ctx: Context) -> None:
        await ctx.step(lasting)
        raise Rollback("no")

    async with world(slow) as w:
        done.clear()
        key = await w.start(slow)
        await settle(10)
        assert (await w.fold(key)).status == "undoing"
        await w.tell(key, messages.CancelMessage("in a hurry"))
        with pytest.raises(ExecutionFailed, match="no"):
            await w.result(key)
        assert done == ["lasting", "-lasting"]


@virtually
async def test_what_was_undone_is_done_again_when_the_execution_is_retried_and_the_rest_is_not() -> None:
    @workflow
    async def fails_first(ctx: Context) -> list[str]:
        found = [await ctx.step(plain, "kept"), await ctx.step(do, "again")]
        if len(done) < 4:
            raise Rollback("no")
        return found

    async with world(fails_first) as w:
        done.clear()
        key = await w.start(fails_first)
        with pytest.raises(ExecutionFailed):
            await w.result(key)
        await w.tell(key, messages.RetryMessage("once more"))
        await settle(10)
        await w.tell(key, messages.RetryMessage("and once more"))
        assert await w.result(key) == ["kept", "<again>"]
        assert done == ["kept", "again", "-<again>", "again", *([] if len(done) == 4 else ["-<again>", "again"])]


@virtually
async def test_what_is_in_doubt_is_undone_where_that_is_declared() -> None:
    @workflow
    async def doubtful(ctx: Context) -> None:
        await ctx.attempt(risky, "failed")
        await ctx.attempt(risky, "timed out", 1000.0)
        await ctx.race(first=lambda c: c.sleep(5), second=lambda c: c.step(risky, "abandoned", 1000.0))
        raise Rollback("no")

    async with world(doubtful) as w:
        done.clear()
        await w.failure(doubtful)
        assert undone(done) == ["-abandoned?None", "-timed out?None", "-failed?None"]


@virtually
async def test_a_rollback_in_a_step_fails_the_execution_and_undoes_it() -> None:
    @step
    async def gives_up() -> None:
        raise Rollback("nothing left")

    @workflow
    async def rolled_back(ctx: Context) -> None:
        await ctx.step(do, "a")
        await ctx.step(gives_up)

    async with world(rolled_back) as w:
        done.clear()
        error = await w.failure(rolled_back)
        assert (error.type, error.message) == ("rollback", "nothing left")
        assert done == ["a", "-<a>"]


@virtually
async def test_large_results_and_arguments_come_to_the_handler_whole() -> None:
    large = "x" * 200_000
    sizes: list[tuple[int, int]] = []

    @step
    async def double(word: str) -> str:
        return 2 * word

    @double.undo
    async def halve(result: str, word: str) -> None:
        sizes.append((len(result), len(word)))

    @workflow
    async def fails(ctx: Context) -> None:
        await ctx.step(double, large)
        raise Rollback("no")

    async with world(fails) as w:
        await w.failure(fails)
        assert sizes == [(400_000, 200_000)]


@virtually
async def test_code_that_has_lost_a_handler_parks_and_goes_on_with_it() -> None:
    @step(name="act")
    async def act() -> str:
        done.append("act")
        return "acted"

    @workflow(name="flow")
    async def without(ctx: Context) -> None:
        await ctx.step(act)
        await ctx.listen("go")
        raise Rollback("no")

    @step(name="act")
    async def with_handler() -> str:
        return "acted"

    @with_handler.undo
    async def react(result: str) -> None:
        done.append(f"-{result}")

    @workflow(name="flow")
    async def with_it(ctx: Context) -> None:
        await ctx.step(with_handler)
        await ctx.listen("go")
        raise Rollback("no")

    async with world(with_it) as first:
        done.clear()
        key = await first.start(with_it)
        await settle(2)
        store = first.store
    async with world(without, store=store) as second:
        await second.send(key, "go")
        with pytest.raises(NeedsAttention, match="no undo handler for step act"):
            await second.result(key)
    async with world(with_it, store=store) as third:
        await third.tell(key, messages.ResumeMessage("mended"))
        await settle(10)
        with pytest.raises(ExecutionFailed):
            await third.result(key)
    assert done == ["-acted"]


@pytest.mark.slow
def test_from_every_cut_all_is_undone_once_or_again_if_it_was_under_way() -> None:
    @virtually
    async def claim() -> None:
        async with world(three) as w:
            done.clear()
            key = await w.start(three)
            with pytest.raises(ExecutionFailed):
                await w.result(key)
            rows, blobs = await w.rows(key), w.store._blobs
        for row in range(1, len(rows)):
            done.clear()
            store = await cut(key, rows[:row], dict(blobs))
            async with world(three, store=store) as again:
                with pytest.raises(ExecutionFailed, match="no"):
                    await again.result(key)
                settled = (await again.fold(key)).settled
                assert [path_text(path) for path in settled if path_text(path).startswith("~undo/do")] == ["~undo/do#3", "~undo/do#2", "~undo/do"]
                assert all(isinstance(known.outcome, Success) for known in settled.values())

    claim()


@virtually
async def test_an_execution_that_completes_is_not_undone() -> None:
    @workflow
    async def catches(ctx: Context) -> str:
        try:
            await ctx.step(do, "a")
            await ctx.step(risky, "b")
        except StepFailed:
            return "all the same"
        return ""

    async with world(catches) as w:
        done.clear()
        assert await w.run(catches) == "all the same"
        assert done == ["a", "b"]


def test_a_step_is_undone_by_one_function() -> None:
    @step
    def once() -> None: ...

    @once.undo
    def first(_: Any) -> None: ...

    with pytest.raises(BadName, match="already has undo:once"):
        once.undo(first)
    assert once.with_(timeout="1s").undo_when == "done"


@workflow
async def undone_in_between(ctx: Context) -> None:
    """Undone twice, once after a retry, with a handler that fails at first."""
    await ctx.step(plain, "kept")
    await ctx.join(lambda c: c.step(do, "x"), lambda c: c.attempt(risky, "y"))
    await ctx.step(do, "z")
    raise Rollback("no")


@pytest.mark.slow
@crash_budgets
@pytest.mark.parametrize("always_suspend", [False, True])
def test_killed_at_any_write_and_again_in_the_recovery_the_same_is_undone(always_suspend: bool, budget: Budget) -> None:
    async def script(stage: ScriptStage) -> None:
        key = await stage.start(undone_in_between)
        await asyncio.sleep(30)
        await stage.retry(key, "once more")

    play = Play([undone_in_between], script, always_suspend=always_suspend)
    report = crash_at_every_write(play, MemoryDisk, **budget)
    assert not report.problems, "\n".join(report.problems)
    assert report.moments > 20
    assert any("~undo" in key for key in report.repeated)


# turns that are forgotten


CHARGES = 20


def plainly(number: int) -> Any:
    """A branch in which a step is done that nothing undoes."""
    return lambda c: c.step(plain, f"plain {number}")


@workflow
async def charging(ctx: Context, fails: bool = True) -> None:
    await ctx.step(do, "first")
    async for turn in ctx.loop("turns", state=0, keep=1):
        await turn.step(do, f"charge {turn.number}")
        await turn.attempt(risky, f"risk {turn.number}")
        await turn.join(plainly(turn.number))
        if turn.number == CHARGES - 1:
            break
    if fails:
        raise Rollback("no")


WANTED = ["-<first>", *(word for number in range(CHARGES) for word in (f"-<charge {number}>", f"-risk {number}?None"))][::-1]


@pytest.mark.slow
@virtually
async def test_what_was_done_in_forgotten_turns_is_undone_last_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "DEAD_EVENTS_MIN", 8)
    done.clear()
    async with world(charging) as w:
        key = await w.start(charging)
        await settle(1000)
        assert undone(done) == WANTED
        assert any(isinstance(event, e.RetainedEvent) for event in await w.events(key)), "the log was compacted"
        await w.replayed(key)


@pytest.mark.slow
@crash_budgets
@pytest.mark.parametrize("always_suspend", some([False, True], 1))
def test_killed_at_any_write_what_was_done_in_forgotten_turns_is_undone(always_suspend: bool, budget: Budget, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "DEAD_EVENTS_MIN", 8)
    monkeypatch.setattr(sys.modules[__name__], "CHARGES", 6)

    async def script(stage: ScriptStage) -> None:
        await stage.start(charging)

    report = crash_at_every_write(Play([charging], script, always_suspend=always_suspend), MemoryDisk, **budget)
    assert not report.problems, "\n".join(report.problems)
    assert report.moments > 20


@pytest.mark.slow
@virtually
async def test_a_process_that_never_opened_a_step_finds_what_undoes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    @workflow
    async def changing(ctx: Context) -> None:
        async for turn in ctx.loop("turns", state=0, keep=1):
            await turn.step(do if turn.number < 5 else plain, f"turn {turn.number}")
            if turn.number == 30:
                break
        await ctx.sleep("1h")
        raise Rollback("no")

    monkeypatch.setattr(compaction, "DEAD_EVENTS_MIN", 8)
    done.clear()
    async with world(changing) as w:
        await w.start(changing)
        await settle(100)
        changing.code.handlers.clear()  # as a process that begins now has none
        await w.crash()
        await settle(3700)
        assert undone(done) == [f"-<turn {number}>" for number in range(4, -1, -1)]


@pytest.mark.slow
@virtually
async def test_a_loop_may_say_how_many_turns_back_are_undone() -> None:
    @workflow
    async def bounded(ctx: Context) -> None:
        async for turn in ctx.loop("turns", state=0, keep=2, undo_keep=5):
            await turn.step(do, f"turn {turn.number}")
            async for inner in turn.loop("inner", state=0, keep=1):
                await inner.step(do, f"inner {turn.number}.{inner.number}")
                if inner.number == 3:
                    break
            if turn.number == 19:
                break
        raise Rollback("no")

    done.clear()
    async with world(bounded) as w:
        error = await w.failure(bounded)
        assert error.type == "rollback"
        wanted = [f"-<inner {turn}.{number}>" if number >= 0 else f"-<turn {turn}>" for turn in range(14, 20) for number in range(-1, 4)]
        assert undone(done) == wanted[::-1]


@virtually
async def test_what_was_done_before_a_commit_is_not_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    @workflow
    async def committing(ctx: Context) -> None:
        await ctx.step(do, "before")
        async for turn in ctx.loop("turns", state=0, keep=1):
            await turn.step(do, f"a {turn.number}")
            if turn.number in (3, 12):
                turn.commit()
            await turn.step(do, f"b {turn.number}")
            if turn.number == 19:
                break
        await ctx.sleep(1)
        raise Rollback("no")

    monkeypatch.setattr(compaction, "DEAD_EVENTS_MIN", 8)
    done.clear()
    async with world(committing) as w:
        key = await w.start(committing)
        await settle(100)
        wanted = ["-<b 12>", *(f"-<{name} {number}>" for number in range(13, 20) for name in "ab")]
        assert undone(done) == wanted[::-1]
        assert (await w.fold(key)).ended is not None
        await w.replayed(key)


@virtually
async def test_more_than_is_kept_to_be_undone_parks_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    @workflow
    async def unbounded(ctx: Context) -> None:
        async for turn in ctx.loop("turns", state=0, keep=1):
            await turn.step(do, f"turn {turn.number}")
            if turn.number == 30:
                break

    monkeypatch.setattr(limits, "UNDO_ENTRIES_MAX", 7)
    done.clear()
    async with world(unbounded) as w:
        key = await w.start(unbounded)
        await settle(100)
        folded = await w.fold(key)
        assert folded.status == "needs_attention" and folded.parked is not None
        assert "undo_keep" in folded.parked.detail[0] and len(folded.retained) == 8
        await w.tell(key, messages.CancelMessage("enough"))
        await settle(100)


@virtually
async def test_what_was_done_in_forgotten_turns_is_undone_after_a_retry_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "DEAD_EVENTS_MIN", 8)

    @workflow
    async def retried(ctx: Context) -> None:
        async for turn in ctx.loop("turns", state=0, keep=1):
            await turn.step(do, f"turn {turn.number}")
            if turn.number == 9:
                break
        await ctx.step(risky_once, "x")
        await ctx.step(do, "after")
        raise Rollback("again")

    @step(retry=Retry(max=1))
    async def risky_once(name: str) -> None:
        if "retried" not in done:
            raise ValueError(name)

    done.clear()
    async with world(retried) as w:
        key = await w.start(retried)
        await settle(100)
        first = undone(done)
        assert first == [f"-<turn {number}>" for number in range(9, -1, -1)]
        done.clear()
        done.append("retried")
        await w.tell(key, messages.RetryMessage())
        await settle(100)
        assert undone(done) == ["-<after>", *(f"-<turn {number}>" for number in (9, 8))], "what was undone already is not undone again"


@virtually
async def test_a_step_that_a_worker_did_is_undone_by_a_worker() -> None:
    @step(queue="press")
    async def pressed(word: str) -> str:
        done.append(word)
        return f"<{word}>"

    @pressed.undo(retry=Retry(max=2, wait=1.0))
    async def unpressed(result: str, word: str) -> None:
        if "-failed" not in done:
            done.append("-failed")
            raise OSError("once")
        done.append(f"-{result} {word}")

    @workflow
    async def prints(ctx: Context) -> None:
        await ctx.step(pressed, "a")
        raise Rollback("no")

    async with world(prints) as w:
        done.clear()
        worker = Worker(w.store, [pressed], queues=["press"])
        working = asyncio.create_task(worker.run())
        error = await w.failure(prints)
        worker.stop()
        await working
        assert error.type == "rollback"
        assert done == ["a", "-failed", "-<a> a"]


@workflow
async def child(ctx: Context, name: str) -> str:
    return await ctx.step(do, name)


@virtually
async def test_a_completed_child_is_undone_with_its_parent_where_that_is_wanted() -> None:
    @workflow
    async def parent(ctx: Context) -> None:
        await ctx.step(do, "first")
        await ctx.call(child.with_(undo=True), "wanted")
        await ctx.call(child, "unwanted")
        await ctx.step(do, "last")
        raise Rollback("no")

    async with world(parent, child) as w:
        done.clear()
        await w.failure(parent)
        assert undone(done) == ["-<last>", "-<wanted>", "-<first>"]
        children = [key for key in {head.key for head in await w.store.heads()} if key.workflow == "child"]
        assert {(await w.fold(key)).status for key in children} == {"completed"}
        assert sorted([(await w.fold(key)).completed is not None for key in children]) == [False, True]


@virtually
async def test_a_grandchild_is_undone_through_its_parent() -> None:
    @workflow
    async def middle(ctx: Context) -> str:
        await ctx.step(do, "middle")
        return await ctx.call(child.with_(undo=True), "deepest")

    @workflow
    async def top(ctx: Context) -> None:
        await ctx.call(middle.with_(undo=True))
        raise Rollback("no")

    async with world(top, middle, child) as w:
        done.clear()
        await w.failure(top)
        assert done == ["middle", "deepest", "-<deepest>", "-<middle>"]


@virtually
async def test_a_completed_execution_is_undone_by_hand_once() -> None:
    async with world(child) as w:
        done.clear()
        key = await w.start(child, "a")
        assert await w.result(key) == "<a>"
        for _ in range(2):
            await w.tell(key, messages.UndoMessage("it was wrong"))
            await settle(5)
        assert await w.result(key) == "<a>"
        assert done == ["a", "-<a>"]
        assert (await w.fold(key)).status == "completed"


@virtually
async def test_what_did_not_complete_is_not_undone_by_hand() -> None:
    async with world(three) as w:
        done.clear()
        key = await w.start(three)
        with pytest.raises(ExecutionFailed):
            await w.result(key)
        rows = await w.rows(key)
        await w.tell(key, messages.UndoMessage("again"))
        await settle(5)
        assert await w.rows(key) == rows


@pytest.mark.slow
@crash_budgets
@pytest.mark.parametrize("always_suspend", [False, True])
def test_killed_at_any_write_a_child_is_undone_all_the_same(always_suspend: bool, budget: Budget) -> None:
    async def script(stage: ScriptStage) -> None:
        await stage.start(family)

    play = Play([family, child], script, always_suspend=always_suspend)
    report = crash_at_every_write(play, MemoryDisk, **budget)
    assert not report.problems, "\n".join(report.problems)
    assert budget["once_max"] is not None or any("~undo" in key for key in report.repeated)  # a sample may kill nothing while it is undone


@workflow
async def family(ctx: Context) -> None:
    await ctx.step(do, "first")
    await ctx.call(child.with_(undo=True), "child")
    raise Rollback("no")


@workflow
async def fails_later(ctx: Context) -> None:
    await ctx.step(do, "first")
    await ctx.sleep("10s")
    raise Rollback("no")


@virtually
async def test_what_fails_in_the_moment_in_which_it_is_cancelled_is_undone_once() -> None:
    """The sleep is over while the execution is paused. Cancelling resumes it, so it fails and begins its undo before it could be told to unwind."""
    async with world(fails_later) as w:
        done.clear()
        key = await w.start(fails_later)
        await asyncio.sleep(5)
        await w.tell(key, messages.PauseMessage("lunch"))
        await asyncio.sleep(20)
        await w.tell(key, messages.CancelMessage("enough"))
        with pytest.raises(ExecutionFailed, match="no"):
            await w.result(key)
        assert done == ["first", "-<first>"]
        assert not any(isinstance(event, e.CancellingEvent) for event in await w.events(key))
