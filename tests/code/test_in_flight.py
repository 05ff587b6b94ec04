"""Claims about steps in flight when their execution ends: they have a grace when it fails, is cancelled or late, and none of them is forgotten."""

import asyncio
from typing import Any

import pytest

from perdure import Context, DeadlineExceeded, ExecutionCancelled, ExecutionFailed, NeedsAttention, Retry, Rollback, Workflow, step, step_info, workflow
from perdure.core import events as e
from perdure.core import messages
from perdure.core.errors import BadValue
from perdure.core.operations import CallOperation, Failure
from perdure.core.paths import Key, QueueAddress, parse_path, path_text
from perdure.core.views import execution_summary, public_history, step_views
from tests.code.engines import MemoryEngine, settle, virtually, world

done: list[str] = []
broken: set[str] = set()


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    done.clear()
    broken.clear()


@step
async def work(name: str, takes_s: float) -> str:
    done.append(f"begin {name}")
    try:
        for _ in range(int(takes_s)):
            await asyncio.sleep(1)
            if step_info().cancelled:
                done.append(f"told {name}") if f"told {name}" not in done else None
    except asyncio.CancelledError:
        done.append(f"interrupt {name}")
        raise
    done.append(f"end {name}")
    return f"<{name}>"


@work.undo(in_doubt=True)
async def unwork(result: str | None, name: str, takes_s: float) -> None:
    if name in broken:
        raise OSError(f"{name} is broken")
    done.append(f"undo {name} {result}")


@step
async def short(name: str) -> str:
    return name


@workflow
async def long(ctx: Context, takes_s: float = 20.0) -> None:
    await ctx.step(work, "a", takes_s)


@workflow(deadline="60s")
async def late(ctx: Context, takes_s: float) -> None:
    await ctx.step(work, "a", takes_s)


@workflow
async def failing(ctx: Context, takes_s: float) -> None:
    other = asyncio.ensure_future(ctx.step(work, "a", takes_s))
    await ctx.sleep(10)
    if not other.done():
        raise Rollback("the other branch has failed")


async def told(w: MemoryEngine, key: Key) -> list[str]:
    """The public events of steps."""
    found = await w.store.read(key)
    assert found is not None
    rows = [[event] for event in await w.events(key)]
    return [f"{one.type.removeprefix('step.')} {one.subject}" for one in public_history(key, rows) if one.type.startswith("step.")]


async def states(w: MemoryEngine, key: Key) -> dict[str, str]:
    return {one.path: one.state for one in step_views(await w.fold(key)) if not one.path.startswith("~undo") and one.kind == "call"}


@pytest.mark.parametrize("how", ["cancel", "deadline", "failure"])
def test_what_settles_within_the_grace_is_recorded_and_undone(how: str) -> None:
    @virtually
    async def claim() -> None:
        kind: Workflow[..., Any] = {"cancel": long, "deadline": late, "failure": failing}[how]  # type: ignore[assignment]  # of three signatures
        async with world(kind) as w:
            done.clear()
            key = await w.start(kind, 70.0 if how == "deadline" else 20.0)
            await settle(9.5)
            if how == "cancel":
                await w.tell(key, messages.CancelMessage("enough"))
            await settle(52 if how == "deadline" else 2)
            execution = await w.fold(key)
            assert execution.status == "ending" and execution_summary(execution).why.startswith("ending: 1 in flight (")
            with pytest.raises((ExecutionCancelled, ExecutionFailed, DeadlineExceeded)):
                await w.result(key)
            assert done == ["begin a", "told a", "end a", "undo a <a>"]
            (path,) = await states(w, key)
            assert await told(w, key) == [f"started {path}", f"cancelled {path}", f"completed {path}", f"started ~undo/{path}", f"undone {path}"]

    claim()


@pytest.mark.parametrize("how", ["cancel", "deadline", "failure"])
def test_what_does_not_settle_within_the_grace_is_abandoned_and_in_doubt(how: str) -> None:
    @virtually
    async def claim() -> None:
        kind: Workflow[..., Any] = {"cancel": long, "deadline": late, "failure": failing}[how]  # type: ignore[assignment]  # of three signatures
        async with world(kind) as w:
            done.clear()
            key = await w.start(kind, 1000.0)
            await settle(9.5)
            if how == "cancel":
                await w.tell(key, messages.CancelMessage("enough"))
            with pytest.raises((ExecutionCancelled, ExecutionFailed, DeadlineExceeded)):
                await w.result(key)
            ends_s = {"cancel": 39.5, "deadline": 90.0, "failure": 40.0}[how]
            ended = (await w.fold(key)).ended
            started = (await w.fold(key)).started
            assert started is not None and ended is not None and ended.at_s - started.at_s == pytest.approx(ends_s, abs=0.1)
            assert done == ["begin a", "told a", "interrupt a", "undo a None"]
            assert [*(await states(w, key)).values()] == ["abandoned"]
            assert [one.partition(" ")[0] for one in await told(w, key)] == ["started", "cancelled", "abandoned", "started", "undone"]

    claim()


@virtually
async def test_a_return_is_not_delayed_and_what_it_leaves_is_abandoned() -> None:
    @workflow
    async def returning(ctx: Context) -> str:
        aside = asyncio.ensure_future(ctx.step(work, "a", 1000.0))
        await ctx.sleep(1)
        return "done" if not aside.done() else "too late"

    async with world(returning) as w:
        done.clear()
        key = await w.start(returning)
        assert await w.result(key) == "done"
        ended = (await w.fold(key)).ended
        assert ended is not None and ended.at_s - (await w.events(key))[0].at_s < 2  # type: ignore[union-attr]  # it is the start
        await settle(1)
        assert done == ["begin a", "interrupt a"] and [*(await states(w, key)).values()] == ["abandoned"]
        await w.tell(key, messages.UndoMessage("after all"))
        await settle(1)
        assert done[-1] == "undo a None", "a completed execution that is undone undoes what is in doubt"


@virtually
async def test_the_winner_of_a_race_is_not_delayed_and_a_loser_is_shown_as_abandoned() -> None:
    @workflow
    async def racing(ctx: Context) -> str:
        won = await ctx.race(slow=lambda c: c.step(work, "a", 1000.0), fast=lambda c: c.sleep(1))
        await ctx.sleep(1)
        return won.name

    async with world(racing) as w:
        done.clear()
        key = await w.start(racing)
        await settle(1.5)
        assert done == ["begin a", "interrupt a"]
        assert await w.result(key) == "fast"
        assert [*(await states(w, key)).values()] == ["abandoned"]
        assert [one.partition(" ")[0] for one in await told(w, key)] == ["started", "cancelled", "abandoned"]


@virtually
async def test_a_loser_has_no_grace_also_if_the_execution_fails_right_then() -> None:
    @workflow
    async def racing(ctx: Context) -> None:
        await ctx.race(slow=lambda c: c.join(lambda d: d.step(work, "a", 1000.0)), fast=lambda c: c.sleep(1))
        raise Rollback("no")

    async with world(racing) as w:
        done.clear()
        key = await w.start(racing)
        await settle(1.5)
        assert (await w.fold(key)).status == "failed" and done == ["begin a", "interrupt a", "undo a None"]


@virtually
async def test_terminating_waits_for_nothing_also_within_the_grace() -> None:
    async with world(long) as w:
        for within in (False, True):
            done.clear()
            key = await w.start(long, 1000.0, id=str(within))
            await settle(5)
            if within:
                await w.tell(key, messages.CancelMessage("enough"))
                await settle(5)
            await w.tell(key, messages.TerminateMessage("at once"))
            with pytest.raises(ExecutionCancelled, match="at once"):
                await w.result(key)
            await settle(1)
            assert done[-1] == "interrupt a" and [*(await states(w, key)).values()] == ["abandoned"]


@virtually
async def test_the_grace_is_that_of_the_step_else_of_the_execution() -> None:
    @workflow(grace="5s")
    async def brief(ctx: Context, own: bool) -> None:
        await ctx.step(work.with_(grace="2s") if own else work, "a", 1000.0)

    async with world(brief) as w:
        for own, grace_s in ((False, 5.0), (True, 2.0)):
            key = await w.start(brief, own, id=str(own))
            await settle(1)
            await w.tell(key, messages.CancelMessage("enough"))
            await settle(0.1)
            (dropped,) = [event for event in await w.events(key) if isinstance(event, e.DroppedEvent)]
            assert dropped.until_s == (await w.fold(key)).cancelling.at_s + grace_s  # type: ignore[union-attr]  # it was cancelled
            with pytest.raises(ExecutionCancelled):
                await w.result(key)


@virtually
async def test_without_a_grace_what_is_in_flight_is_abandoned_and_undone_at_once() -> None:
    @workflow(grace=0)
    async def hasty(ctx: Context) -> None:
        await ctx.step(work, "a", 1000.0)

    async with world(hasty) as w:
        done.clear()
        key = await w.start(hasty)
        await settle(1.5)
        await w.tell(key, messages.CancelMessage("enough"))
        await settle(0.1)
        assert (await w.fold(key)).status == "cancelled" and done == ["begin a", "interrupt a", "undo a None"]


@virtually
async def test_a_step_that_fails_within_the_grace_is_not_tried_again_and_one_that_waits_for_its_next_try_is_not_waited_for() -> None:
    @step(retry=Retry(max=9, wait="1s"))
    async def flaky(fails_after_s: float) -> None:
        done.append("try")
        await asyncio.sleep(fails_after_s)
        raise ValueError("no")

    @workflow
    async def trying(ctx: Context, fails_after_s: float) -> None:
        await ctx.step(flaky, fails_after_s)

    async with world(trying) as w:
        for fails_after_s, kind in ((5.0, "exhausted"), (0.0, "cancelled")):
            done.clear()
            key = await w.start(trying, fails_after_s, id=str(fails_after_s))
            await settle(0.5)
            await w.tell(key, messages.CancelMessage("enough"))
            with pytest.raises(ExecutionCancelled):
                await w.result(key)
            await settle(20)
            outcome = (await w.fold(key)).settled[(("flaky", 1),)].outcome
            assert done == ["try"] and isinstance(outcome, Failure) and outcome.kind == kind


@virtually
async def test_a_second_cancel_and_the_deadline_change_nothing_once_the_ending_has_begun() -> None:
    async with world(late) as w:
        done.clear()
        key = await w.start(late, 1000.0)
        await settle(50)
        await w.tell(key, messages.CancelMessage("first"))
        await settle(1)
        await w.tell(key, messages.CancelMessage("second"))
        with pytest.raises(ExecutionCancelled, match="first"):
            await w.result(key)
        assert done == ["begin a", "told a", "interrupt a", "undo a None"]
        assert len([event for event in await w.events(key) if isinstance(event, e.CancellingEvent)]) == 1


@virtually
async def test_a_pause_holds_the_grace_and_answers_are_taken_meanwhile() -> None:
    async with world(long) as w:
        for takes_s, last in ((20.0, "undo a <a>"), (1000.0, "undo a None")):
            done.clear()
            key = await w.start(long, takes_s, id=str(takes_s))
            await settle(5)
            await w.tell(key, messages.CancelMessage("enough"))
            await settle(1)
            await w.tell(key, messages.PauseMessage("wait"))
            await settle(200)
            assert (await w.fold(key)).status == "paused" and not any(word.startswith("undo") for word in done)
            await w.tell(key, messages.ResumeMessage("go on"))
            with pytest.raises(ExecutionCancelled):
                await w.result(key)
            assert done[-1] == last


@virtually
async def test_an_engine_that_dies_within_the_grace_leaves_what_it_did_in_doubt_and_nothing_is_begun_again() -> None:
    async with world(long) as w:
        done.clear()
        key = await w.start(long, 1000.0)
        await settle(5)
        await w.tell(key, messages.CancelMessage("enough"))
        await settle(1)
        await w.crash()
        with pytest.raises(ExecutionCancelled):
            await w.result(key)
        assert [word for word in done if word.startswith(("begin", "undo"))] == ["begin a", "undo a None"]
        assert [*(await states(w, key)).values()] == ["abandoned"]


@virtually
async def test_an_engine_that_stops_in_good_order_within_the_grace_abandons_what_it_interrupts() -> None:
    async with world(long) as w:
        done.clear()
        key = await w.start(long, 1000.0)
        await settle(5)
        await w.tell(key, messages.CancelMessage("enough"))
        await settle(1)
        await w.end()
        assert "interrupt a" in done and [*(await states(w, key)).values()] == ["abandoned"]


@virtually
async def test_an_evicted_execution_keeps_what_is_in_its_grace() -> None:
    async with world(long) as w:
        done.clear()
        key = await w.start(long, 20.0)
        await settle(5)
        await w.tell(key, messages.CancelMessage("enough"))
        await settle(1)
        await w.tell(key, messages.EvictMessage("elsewhere"))
        with pytest.raises(ExecutionCancelled):
            await w.result(key)
        assert done == ["begin a", "told a", "end a", "undo a <a>"]


@virtually
async def test_cleanup_goes_on_beside_what_is_in_flight() -> None:
    @workflow
    async def tidy(ctx: Context) -> None:
        try:
            await ctx.step(work, "a", 20.0)
        finally:
            await ctx.step(short, "cleanup")

    async with world(tidy) as w:
        done.clear()
        key = await w.start(tidy)
        await settle(5)
        await w.tell(key, messages.CancelMessage("enough"))
        with pytest.raises(ExecutionCancelled):
            await w.result(key)
        settled = [path_text(event.path) for event in await w.events(key) if isinstance(event, e.SettledEvent)]
        assert settled == ["short", "~undo/~begin", "work", "~undo/work"]


@virtually
async def test_a_retried_execution_does_again_what_was_abandoned() -> None:
    @workflow
    async def once(ctx: Context) -> None:
        aside = asyncio.ensure_future(ctx.step(work, "a", 1000.0))
        await ctx.sleep(1)
        if "fail" in broken:
            raise Rollback("no")
        await aside

    async with world(once) as w:
        done.clear()
        broken.add("fail")
        key = await w.start(once)
        with pytest.raises(ExecutionFailed):
            await w.result(key)
        broken.clear()
        await w.tell(key, messages.RetryMessage("again"))
        await settle(1)
        assert done == ["begin a", "told a", "interrupt a", "undo a None", "begin a"] and (await w.fold(key)).status == "running"
        await w.tell(key, messages.TerminateMessage())
        await settle(1)


@pytest.mark.parametrize("queue", ["", "gpu"])
def test_a_step_that_is_dropped_in_the_commit_that_opened_it_is_never_begun_and_not_in_doubt(queue: str) -> None:
    @workflow
    async def hasty(ctx: Context) -> None:
        aside = asyncio.ensure_future(ctx.step(work.with_(queue=queue), "a", 5.0))
        await asyncio.sleep(0)
        raise Rollback(f"no {aside.done()}")

    @virtually
    async def claim() -> None:
        async with world(hasty) as w:
            done.clear()
            key = await w.start(hasty)
            with pytest.raises(ExecutionFailed):
                await w.result(key)
            assert done == [] and [*(await states(w, key)).values()] == ["cancelled"]
            assert not await w.store.messages(QueueAddress("default", "gpu"))

    claim()


@pytest.mark.parametrize("how", ["cancelled", "abandoned", "timeout"])
def test_a_sync_step_that_waits_for_a_thread_when_nobody_waits_for_it_any_more_is_not_called(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    @step(grace="2s" if how == "abandoned" else "30s", timeout="8s" if how == "timeout" else None, retry=Retry(max=1))
    def plain() -> None:
        done.append("called")

    @plain.undo(in_doubt=True)
    def undo(result: None) -> None:
        done.append("undone")

    @workflow
    async def one(ctx: Context) -> None:
        await ctx.step(plain)

    @virtually
    async def claim() -> None:
        loop = asyncio.get_running_loop()
        at_once = loop.run_in_executor

        async def in_a_thread_that_is_free_after_10_s(*call: Any) -> Any:
            await asyncio.sleep(10.0 if not done else 0.0)
            return await at_once(None, *call)

        monkeypatch.setattr(loop, "run_in_executor", lambda _, *call: loop.create_task(in_a_thread_that_is_free_after_10_s(*call)))
        done.clear()
        async with world(one) as w:
            key = await w.start(one)
            await settle(5)
            if how != "timeout":
                await w.tell(key, messages.CancelMessage("enough"))
            await settle(50)
            execution = await w.fold(key)
            outcome = execution.settled[(("plain", 1),)].outcome
            assert execution.ended is not None and isinstance(outcome, Failure) and outcome.kind == how
            assert done == ([] if how == "cancelled" else ["undone"])

    claim()


@virtually
async def test_someone_may_give_the_outcome_of_what_is_in_its_grace() -> None:
    async with world(long) as w:
        done.clear()
        key = await w.start(long, 1000.0)
        await settle(5)
        await w.tell(key, messages.CancelMessage("enough"))
        await settle(1)
        await w.tell(key, messages.PresetMessage(parse_path("work"), Failure("failed", 1, await _error())))
        with pytest.raises(ExecutionCancelled):
            await w.result(key)
        assert done[-1] == "undo a None" and [*(await states(w, key)).values()] == ["failed"]


async def _error() -> Any:
    from perdure.core.errors import ErrorInfo

    return ErrorInfo("Error", "it did nothing")


@pytest.mark.slow
@virtually
async def test_every_try_that_was_begun_is_open_or_settled() -> None:
    @workflow
    async def many(ctx: Context, how: str) -> None:
        aside = asyncio.ensure_future(ctx.step(work, "aside", 5.0))
        aside_too = asyncio.ensure_future(ctx.step(work, "long", 500.0))
        await ctx.race(a=lambda c: c.step(work, "loser", 500.0), b=lambda c: c.sleep(1))
        if how == "fail":
            raise Rollback(f"no {aside.done()} {aside_too.done()}")
        await (ctx.sleep(3) if how == "return" else ctx.sleep(1000))

    async with world(many) as w:
        for how in ("fail", "return", "cancel", "terminate"):
            key = await w.start(many, how, id=how)
            await settle(2)
            if how in ("cancel", "terminate"):
                await w.tell(key, messages.CancelMessage("no") if how == "cancel" else messages.TerminateMessage("no"))
            await settle(100)
            events, execution = await w.events(key), await w.fold(key)
            begun = {event.path for event in events if isinstance(event, e.OpenedEvent) and isinstance(event.op, CallOperation)}
            assert execution.ended is not None and begun == {path for path, known in execution.settled.items() if isinstance(known.op, CallOperation)}
            assert {path_text(path) for path in begun} == {one.path for one in step_views(execution) if one.kind == "call"}


# what can't be undone


@pytest.mark.parametrize("how", ["park", "continue"])
def test_what_fails_to_be_undone_parks_the_execution_or_is_left_for_later(how: Any, caplog: pytest.LogCaptureFixture) -> None:
    @step
    async def do(name: str) -> str:
        return name

    @do.undo(on_error=how, retry=Retry(max=1))
    async def undo(result: str, name: str) -> None:
        if name in broken:
            raise OSError(f"{name} is broken")
        done.append(f"undo {name}")

    @workflow
    async def three(ctx: Context) -> None:
        for name in "abc":
            await ctx.step(do, name)
        raise Rollback("no")

    @virtually
    async def claim() -> None:
        async with world(three) as w:
            done.clear()
            broken.add("b")
            key = await w.start(three)
            with pytest.raises(NeedsAttention if how == "park" else ExecutionFailed):
                await w.result(key)
            assert done == (["undo c"] if how == "park" else ["undo c", "undo a"])
            if how == "park":
                return
            assert "undo_failed do#2" in await told(w, key) and "do#2 could not be undone: OSError: b is broken" in caplog.text
            broken.clear()
            await w.tell(key, messages.UndoMessage("mended"))
            await settle(1)
            assert done == ["undo c", "undo a", "undo b"]
            assert (await w.fold(key)).status == "failed"
            await w.tell(key, messages.UndoMessage("once more"))
            await settle(1)
            assert len(done) == 3, "all is undone, once"

    claim()


def test_what_a_failed_undo_comes_to_is_one_of_two_words() -> None:
    with pytest.raises(BadValue, match="park, continue"):
        step(name="x")(lambda: None).undo(on_error="ignore")  # type: ignore[call-overload]  # that is the point


@virtually
async def test_a_step_that_could_not_be_undone_still_counts_as_done_when_the_execution_is_retried() -> None:
    @step
    async def do(name: str) -> str:
        done.append(name)
        return name

    @do.undo(on_error="continue", retry=Retry(max=1))
    async def undo(result: str, name: str) -> None:
        raise OSError("broken")

    @workflow
    async def once(ctx: Context) -> str:
        value = await ctx.step(do, "a")
        if "fail" in broken:
            raise Rollback("no")
        return value

    async with world(once) as w:
        done.clear()
        broken.add("fail")
        key = await w.start(once)
        with pytest.raises(ExecutionFailed):
            await w.result(key)
        broken.clear()
        await w.tell(key, messages.RetryMessage("again"))
        await asyncio.sleep(0.1)
        assert await w.result(key) == "a" and done == ["a"]
