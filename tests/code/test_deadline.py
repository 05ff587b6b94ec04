"""Claims about deadlines: a workflow has its grace to clean up, and is ended where it stands when it has not ended by then."""

import asyncio
from typing import Any

import pytest

from perdure import Context, DeadlineExceeded, ExecutionCancelled, SyncContext, Workflow, step, workflow
from perdure.core import events as e
from perdure.core import messages
from perdure.core.paths import Key
from tests.code.engines import MemoryEngine, settle, virtually, world

pytestmark = pytest.mark.slow

done: list[str] = []
caught: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    done.clear()
    caught.clear()


@step
async def work(name: str, takes_s: float = 0.0) -> str:
    done.append(name)
    await asyncio.sleep(takes_s)
    return name


@work.undo(in_doubt=True)
async def unwork(result: str | None, name: str, takes_s: float = 0.0) -> None:
    done.append(f"undo {name} {result}")


async def took_s(w: MemoryEngine, key: Key) -> float:
    execution = await w.fold(key)
    assert execution.started is not None and execution.ended is not None
    return execution.ended.at_s - execution.started.at_s


@workflow(deadline="10s")
async def swallows_cancels(ctx: Context) -> None:
    await ctx.step(work, "a")
    while True:
        try:
            await ctx.sleep(1)
        except asyncio.CancelledError:
            done.append("swallowed")


@workflow(deadline="10s", grace="5s")
async def swallows_all(ctx: Context) -> None:
    await ctx.step(work, "a")
    while True:
        try:
            await ctx.sleep(1)
        except BaseException as error:
            caught.append(type(error).__name__)


@workflow(deadline="10s", grace="5s")
async def swallows_in_a_task(ctx: Context) -> str:
    await ctx.step(work, "a")

    async def aside() -> None:
        while True:
            try:
                await ctx.listen("never")
            except asyncio.CancelledError:
                done.append("swallowed")

    task = asyncio.create_task(aside())
    await ctx.sleep(1)
    return f"returned {task.done()}"


@workflow(deadline="10s", grace="5s")
async def cleans_up_for_ever(ctx: Context) -> None:
    try:
        await ctx.step(work, "a")
        await ctx.listen("never")
    finally:
        await ctx.step(work, "cleanup", 1000.0)


@workflow(deadline="10s", grace="5s")
def swallows_in_sync(ctx: SyncContext) -> None:
    ctx.step(work, "a")
    while True:
        try:
            ctx.sleep(1)
        except BaseException as error:
            caught.append(type(error).__name__)


STUBBORN: dict[str, tuple[Workflow[..., Any], float, list[str]]] = {
    "cancels": (swallows_cancels, 40.0, ["undo a a"]),
    "all": (swallows_all, 15.0, ["undo a a"]),
    "task": (swallows_in_a_task, 15.0, ["undo a a"]),
    "cleanup": (cleans_up_for_ever, 20.0, ["undo cleanup None", "undo a a"]),
    "sync": (swallows_in_sync, 15.0, ["undo a a"]),
}


@pytest.mark.parametrize("how", STUBBORN)
def test_a_workflow_that_does_not_end_within_its_grace_after_the_deadline_is_stopped_and_undone(how: str) -> None:
    stubborn, ends_s, undone = STUBBORN[how]

    @virtually
    async def claim() -> None:
        async with world(stubborn) as w:
            done.clear()
            key = await w.start(stubborn)
            with pytest.raises(DeadlineExceeded, match="the execution did not end within 10 s of its start"):
                await w.result(key)
            assert await took_s(w, key) == pytest.approx(ends_s, abs=0.1)
            assert [word for word in done if word.startswith("undo")] == undone
            assert (await w.fold(key)).open == {}

    claim()


@virtually
async def test_what_was_stopped_is_stopped_again_on_replay() -> None:
    async with world(swallows_cancels) as w:
        done.clear()
        key = await w.start(swallows_cancels)
        await settle(25)
        await w.crash()
        with pytest.raises(DeadlineExceeded):
            await w.result(key)
        assert done.count("undo a a") == 1 and done.count("a") == 1
        events = await w.events(key)
        (stopped,) = [number for number, event in enumerate(events) if isinstance(event, e.StoppedEvent)]
        assert [type(event).__name__ for event in events[stopped + 1 : stopped + 4]] == ["DroppedEvent", "OpenedEvent", "OpenedEvent"]


@virtually
async def test_a_workflow_with_nothing_to_undo_may_clean_up_after_its_deadline_as_well() -> None:
    @workflow(deadline="10s")
    async def tidy(ctx: Context) -> None:
        try:
            await ctx.listen("never")
        finally:
            await ctx.step(work, "cleanup")

    async with world(tidy) as w:
        done.clear()
        key = await w.start(tidy)
        with pytest.raises(DeadlineExceeded):
            await w.result(key)
        assert done == ["cleanup", "undo cleanup cleanup"] and await took_s(w, key) == pytest.approx(10.0, abs=0.1)


@virtually
async def test_one_that_was_cancelled_and_does_not_end_is_stopped_after_its_deadline_and_undone_all_the_same() -> None:
    async with world(swallows_cancels) as w:
        for at_s, ends_s in ((3.0, 33.0), (9.0, 39.0)):
            done.clear()
            key = await w.start(swallows_cancels, id=str(at_s))
            await settle(at_s)
            await w.tell(key, messages.CancelMessage("enough"))
            with pytest.raises(ExecutionCancelled, match="enough"):
                await w.result(key)
            assert await took_s(w, key) == pytest.approx(ends_s, abs=0.1)
            assert [*dict.fromkeys(done)] == ["a", "swallowed", "undo a a"]


@virtually
async def test_a_workflow_without_a_deadline_that_swallows_a_cancel_goes_on_until_it_is_terminated() -> None:
    @workflow
    async def stubborn(ctx: Context) -> None:
        while True:
            try:
                await ctx.sleep(1000)
            except asyncio.CancelledError:
                done.append("swallowed")

    async with world(stubborn) as w:
        done.clear()
        key = await w.start(stubborn)
        await settle(3)
        await w.tell(key, messages.CancelMessage("enough"))
        await settle(3600)
        assert (await w.fold(key)).ended is None and done.count("swallowed") >= 1
        await w.tell(key, messages.TerminateMessage("now"))
        with pytest.raises(ExecutionCancelled, match="now"):
            await w.result(key)


@virtually
async def test_a_workflow_that_swallows_everything_leaves_memory_all_the_same() -> None:
    @workflow
    async def stubborn(ctx: Context) -> str:
        while True:
            try:
                return str(await ctx.listen("go"))
            except BaseException as error:
                caught.append(type(error).__name__)

    async with world(stubborn) as w:
        key = await w.start(stubborn)
        await settle(3)
        await w.crash()
        await w.send(key, "go", "on")
        assert await w.result(key) == "on"
