"""Claims about sync workflows: whatever holds of async ones holds of them, cancelled, evicted, replayed, misused. See also test_sync_equals_async.py."""

import asyncio
import contextvars
import gc
import subprocess
import sys
import threading
import weakref
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from perdure import (
    ChildFailed,
    Context,
    Err,
    ExecutionCancelled,
    ExecutionFailed,
    JoinFailed,
    Key,
    NeedsAttention,
    Retry,
    Signal,
    StepFailed,
    SyncContext,
    WrongVerb,
    step,
    workflow,
)
from perdure.code import branch_task
from perdure.code.deterministic_loop import CLEANUP_AWAITS_MAX
from perdure.core import messages
from perdure.runtime.engine import Engine
from perdure.stores.memory import MemoryStore
from perdure.workflow_function import Workflow
from tests.code.decision_driver import Hand
from tests.code.engines import MemoryEngine, every_cut, resident, settle, virtually, world

ROOT = Path(__file__).parents[2]

ran: Counter[str] = Counter()
approved = Signal("approved", bool)
colour: contextvars.ContextVar[str] = contextvars.ContextVar("colour", default="none")


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


@step
async def mark(word: str) -> str:
    ran[word] += 1
    return word


@step
def plain(word: str) -> str:
    ran[word] += 1
    return word


@step(retry=Retry(max=2, wait=1, jitter=0))
async def failing(word: str) -> None:
    ran[word] += 1
    raise ValueError(word)


@step
async def never() -> None:
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        ran["ended"] += 1


@workflow
async def child(ctx: Context, number: int) -> int:
    return number


# In an engine.


@step
async def takes(s: float) -> float:
    ran[f"takes {s:g}"] += 1
    await asyncio.sleep(s)
    return s


@workflow
def order(ctx: SyncContext, name: str) -> list[Any]:
    def paid(c: SyncContext) -> bool:
        return c.listen(approved)

    async def stock(c: Context) -> float:
        return await c.step(takes, 3.0)

    found: list[Any] = [ctx.step(plain, name), *ctx.join(stock, lambda c: c.step(takes, 2.0))]
    won = ctx.race(paid=paid, late=lambda c: c.sleep("3d"))
    found += [won.name, ctx.map(lambda c, word: c.step(mark, word), ["x", "y"], limit=1), ctx.call(child, 7)]
    for turn in ctx.loop("audit", state=0, keep=2):
        turn.state += len(turn.step(mark, "page"))
        turn.sleep(1)
        if turn.number == 5:
            break
    return [*found, turn.state, ctx.keep("draw", lambda: 4), ctx.random.random() == ctx.random.random()]


ORDERED = ["Ada", 3.0, 2.0, "paid", ["x", "y"], 7, 24, 4, False]


@pytest.mark.slow
@virtually
async def test_a_sync_workflow_resident_or_evicted_at_every_wait_executes_each_step_once() -> None:
    ran.clear()
    async with world(order, child) as w:
        key = await w.start(order, "Ada")
        await settle(10)
        await w.send(key, "approved", True)
        assert await w.result(key) == ORDERED
        assert ran == {"Ada": 1, "takes 3": 1, "takes 2": 1, "x": 1, "y": 1, "page": 6}
        await w.replayed(key)
        assert ran.total() == 11, "replay executes nothing"


@workflow
def straight(ctx: SyncContext, name: str) -> list[Any]:
    won = ctx.race(paid=lambda c: c.listen(approved), late=lambda c: c.sleep("3d"))
    total = sum(ctx.map(lambda c, s: c.step(takes, s), [1.0, 3.0, 2.0], limit=2))
    for turn in ctx.loop("audit", state=0, keep=2):
        turn.state += len(turn.step(mark, name))
        if turn.number == 5:
            break
    return [won.name, total, turn.state]


@pytest.mark.slow
@resident
async def test_from_every_cut_of_its_log_a_sync_workflow_ends_alike() -> None:
    async def say(w: MemoryEngine, key: Key) -> None:
        await w.send(key, "approved", True, once="a")

    assert await every_cut(straight, "Ada", say=say) == ["paid", 6.0, 18]


@pytest.mark.slow
@virtually
async def test_many_executions_take_turns_and_keep_to_themselves() -> None:
    @workflow
    def counting(ctx: SyncContext, name: str) -> list[str]:
        found: list[str] = []
        for _ in range(3):
            ctx.sleep(1)
            found += ctx.join(lambda c: c.step(mark, name), lambda c: c.step(plain, name))
        return found

    async with world(counting) as w:
        keys = [await w.start(counting, str(number), id=str(number)) for number in range(20)]
        assert [await w.result(key) for key in keys] == [[str(number)] * 6 for number in range(20)]


@virtually
async def test_sync_and_async_workflows_call_each_other() -> None:
    @workflow
    def inner(ctx: SyncContext, number: int) -> int:
        if number == 0:
            raise ValueError("zero")
        return ctx.call(child, number) + 1

    @workflow
    async def outer(ctx: Context) -> list[Any]:
        found: list[Any] = [await ctx.call(inner, 1)]
        try:
            await ctx.call(inner, 0)
        except ChildFailed as failed:
            found.append(failed.error.message)
        return found

    async with world(outer, inner, child) as w:
        assert await w.run(outer) == [2, "zero"]


@virtually
async def test_a_cancel_is_raised_at_the_verb_and_finally_runs_durably() -> None:
    @workflow
    def tidy(ctx: SyncContext) -> None:
        try:
            ctx.step(never)
        except asyncio.CancelledError:
            ctx.step(mark, "told")
            raise
        finally:
            ctx.step(mark, "first")
            ctx.sleep(10)
            ctx.step(mark, "second")

    ran.clear()
    async with world(tidy) as w:
        key = await w.start(tidy)
        await settle()
        await w.tell(key, messages.CancelMessage("enough"))
        await settle(5)
        await w.crash()
        with pytest.raises(ExecutionCancelled, match="enough"):
            await w.result(key)
        assert ran == {"ended": 1, "told": 1, "first": 1, "second": 1}
        await w.replayed(key)


@virtually
async def test_the_losers_of_a_race_are_cancelled_in_mid_step() -> None:
    @workflow
    def racing(ctx: SyncContext) -> str:
        def loser(c: SyncContext) -> None:
            try:
                c.step(never)
            finally:
                c.step(mark, "cleanup")

        won = ctx.race(slow=loser, fast=lambda c: c.sleep(5))
        ctx.sleep(5)
        return won.name

    ran.clear()
    async with world(racing) as w:
        assert await w.run(racing) == "fast"
        assert ran == {"ended": 1, "cleanup": 1}


@virtually
async def test_a_changed_sync_workflow_is_parked_with_what_differs_and_goes_on_with_the_right_code() -> None:
    def version(word: str) -> Any:
        @workflow(name="changing")
        def changing(ctx: SyncContext) -> list[str]:
            first = ctx.step(word, mark, "first")
            ctx.sleep(10)
            return [first, ctx.listen("m")]

        return changing

    ran.clear()
    old, new = version("old name"), version("new name")
    async with world(old) as w:
        key = await w.start(old)
        await settle(1)
    async with world(new, store=w.store) as w:
        await w.send(key, "m", "came while parked")
        await settle(2)
        with pytest.raises(NeedsAttention, match=r"renamed: old name \(call mark\) is now new name"):
            await w.result(key)
        assert ran == {"first": 1}
    async with world(old, store=w.store) as w:
        await w.tell(key, messages.RetryMessage("restored"))
        await settle(2)
        assert await w.result(key) == ["first", "came while parked"]
        assert ran == {"first": 1}


@virtually
async def test_a_failed_sync_workflow_is_retried_from_what_failed() -> None:
    @step(retry=Retry(max=1))
    def unsure() -> str:
        ran["unsure"] += 1
        if ran["unsure"] == 1:
            raise ValueError("not yet")
        return "at last"

    @workflow
    def retried(ctx: SyncContext) -> list[str]:
        return [ctx.step(mark, "first"), *ctx.join(lambda c: c.step(mark, "left"), lambda c: c.step(unsure))]

    ran.clear()
    async with world(retried) as w:
        key = await w.start(retried)
        with pytest.raises(ExecutionFailed, match="1 of 2 branches"):
            await w.result(key)
        await w.tell(key, messages.RetryMessage())
        await settle(1)
        assert await w.result(key) == ["first", "left", "at last"]
        assert ran == {"first": 1, "left": 1, "unsure": 2}


async def test_sync_steps_of_a_sync_workflow_run_in_threads_several_at_once() -> None:
    together = threading.Barrier(3, timeout=10)

    @step
    def meets(_: int) -> str:
        together.wait()
        return threading.current_thread().name

    @workflow
    def meeting(ctx: SyncContext) -> list[str]:
        return ctx.map(lambda c, n: c.step(meets, n), range(3))

    async with in_real_time(meeting) as w:
        names = await w.run(meeting)
        assert len(set(names)) == 3 and threading.current_thread().name not in names


@asynccontextmanager
async def in_real_time(workflow: Workflow[..., Any]) -> AsyncIterator[MemoryEngine]:
    """A world whose threads take their time."""
    it = MemoryEngine([workflow], MemoryStore())
    it.engine = Engine(it.store, [workflow.code], lease_s=60, poll_s=60)
    await it.begin()
    try:
        yield it
    finally:
        await it.end()


# Leaving memory.


class Resource:
    """Something that dies with the function that holds it."""


def test_eviction_reaches_every_branch_and_leaves_nothing_behind() -> None:
    ended: list[str] = []
    alive: weakref.WeakSet[Resource] = weakref.WeakSet()

    def branching(ctx: SyncContext) -> None:
        def branch(c: SyncContext, name: str) -> None:
            resource = Resource()
            alive.add(resource)
            try:
                c.join(lambda d: d.sleep(10), lambda d: d.listen("m"))
            except Exception:
                ended.append("no exception")
            finally:
                ended.append(name)
                c.step(mark, "recorded nowhere")

        ctx.map(branch, ["a", "b", "c"])

    hand = Hand(workflow(branching).code).start()
    count = len(hand.log)
    assert len(alive) == 3
    hand.close()
    gc.collect()
    assert ended == ["a", "b", "c"]
    assert len(alive) == 0
    assert len(hand.log) == count, "what cleanup asks for during eviction is not recorded"


@pytest.mark.slow
def test_a_thousand_evicted_branches_leave_no_greenlet_behind() -> None:
    greenlet = pytest.importorskip("greenlet").greenlet

    def wide(ctx: SyncContext) -> None:
        ctx.map(lambda c, _: c.sleep(10), range(1000))

    def living() -> int:
        return len([one for one in gc.get_objects() if type(one) is greenlet and one])

    before = living()
    hand = Hand(workflow(wide).code).start()
    assert living() == before + 1001
    hand.close()
    assert living() == before


def test_a_function_that_refuses_to_end_is_left_where_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[object] = []
    monkeypatch.setattr(branch_task, "_unending", left)

    def stubborn(ctx: SyncContext) -> None:
        while True:
            try:
                ctx.sleep(1)
            except BaseException as error:
                ran[type(error).__name__] += 1

    hand = Hand(workflow(stubborn).code).start()
    hand.close()
    assert len(left) == 1
    assert ran["Evicted"] == CLEANUP_AWAITS_MAX + 1
    monkeypatch.undo()
    branch_task._unending.extend(left)  # as before, nobody may free it


def test_a_function_that_swallows_its_eviction_ends_without_a_trace() -> None:
    def deaf(ctx: SyncContext) -> str:
        try:
            ctx.sleep(1)
        except BaseException as error:
            ran[type(error).__name__] += 1
        return "as if nothing had been"

    hand = Hand(workflow(deaf).code).start()
    count = len(hand.log)
    hand.close()
    assert ran == {"Evicted": 1} and len(hand.log) == count
    assert hand.rebuilt()[2] is None


@pytest.mark.slow
@pytest.mark.parametrize("when", ["suspended", "stubborn"])
def test_a_process_may_end_with_functions_that_still_wait(when: str) -> None:
    script = f"""
from perdure import SyncContext, workflow
from tests.code.decision_driver import Hand

@workflow
def waiting(ctx: SyncContext) -> None:
    while True:
        try:
            ctx.join(lambda c: c.sleep(10), lambda c: c.sleep(20))
        except BaseException:
            if {when == "suspended"}:
                print("ended")
                raise

hand = Hand(waiting.code).start()
if {when == "stubborn"}:
    hand.close()
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# As for an async function.


def test_context_variables_are_those_of_the_task() -> None:
    def sync(ctx: SyncContext) -> list[str]:
        def branch(c: SyncContext) -> str:
            seen = colour.get()
            colour.set("the branch's")
            c.sleep(1)
            return f"{seen}, {colour.get()}"

        token = colour.set("green")
        ctx.sleep(1)
        found = [colour.get(), *ctx.join(branch, branch), colour.get()]
        ctx.sleep(1)
        colour.reset(token)
        return [*found, colour.get()]

    colour.set("the caller's")
    hand = Hand(workflow(sync).code).start()
    assert colour.get() == "the caller's"
    assert hand.run().result == ["green", *["green, the branch's"] * 2, "green", "the caller's"]
    colour.set("none")


def test_an_exception_that_is_being_handled_is_the_functions_own_while_others_run() -> None:
    seen: list[object] = []

    def sync(ctx: SyncContext) -> None:
        def handling(c: SyncContext) -> None:
            try:
                raise KeyError("mine")
            except KeyError as error:
                c.sleep(5)
                seen.append(sys.exc_info()[1] is error)
                c.attempt(failing, "x")
                raise

        def other(c: SyncContext) -> None:
            c.sleep(1)
            seen.append(sys.exc_info()[1])
            raise LookupError("other")

        try:
            ctx.join(handling=handling, other=other)
        except JoinFailed as failed:
            seen.extend([repr(failed.errors["handling"]), repr(failed.errors["other"]), failed.errors["other"].__context__])

    Hand(workflow(sync).code).start().run()
    assert seen == [None, True, "KeyError('mine')", "LookupError('other')", None]


def test_a_traceback_names_the_lines_of_the_function() -> None:
    def deeper(ctx: SyncContext) -> None:
        ctx.step(failing, "x")  # the line that waits

    def sync(ctx: SyncContext) -> None:
        try:
            deeper(ctx)
        except StepFailed:
            raise LookupError("no such order")  # noqa: B904  # so that the one is seen behind the other

    ended = Hand(workflow(sync).code).start().run().execution.ended
    assert ended is not None and isinstance(ended.outcome, Err)
    trace = ended.outcome.error.traceback
    assert ended.outcome.error.type == "LookupError"
    for line in ("deeper(ctx)\n", 'ctx.step(failing, "x")  # the line that waits', "During handling of the above", 'raise LookupError("no such order")'):
        assert line in trace, trace


def test_functions_may_wait_deep_in_a_recursion_and_too_deep_a_one_fails_alone() -> None:
    def sync(ctx: SyncContext) -> list[Any]:
        def down(c: SyncContext, depth: int) -> int:
            if depth == 0:
                c.sleep(1)
                return 0
            return 1 + down(c, depth - 1)

        def endless(c: SyncContext) -> None:
            endless(c)

        found: list[Any] = list(ctx.map(down, [100, 200, 300]))
        try:
            ctx.join(endless=endless, fine=lambda c: c.step(mark, "fine"))
        except JoinFailed as failed:
            found += [type(failed.errors["endless"]).__name__, failed.outputs["fine"]]
        return found

    assert Hand(workflow(sync).code).start().run().result == [100, 200, 300, "RecursionError", "fine"]


def test_whoever_drives_may_stand_on_another_greenlet_each_time() -> None:
    greenlet = pytest.importorskip("greenlet").greenlet

    def sync(ctx: SyncContext) -> list[str]:
        return [ctx.step(mark, word) for word in "abcd"]

    hand = greenlet(Hand(workflow(sync).code).start).switch()
    while hand.execution.ended is None:
        assert greenlet(hand.perform).switch()
    assert hand.result == ["a", "b", "c", "d"]


# Misuse.


async def test_verbs_in_a_step_or_in_its_thread_say_that_a_step_cannot_use_them() -> None:
    @workflow
    def nesting(ctx: SyncContext) -> list[str]:
        async def inside() -> None:
            ctx.sleep(1)

        def in_thread() -> None:
            ctx.step(mark, "x")

        def sends() -> None:
            ctx.emit(1)

        def turns() -> None:
            next(iter(ctx.loop("l", state=0)))

        outcomes = [ctx.attempt(fn) for fn in (inside, in_thread, sends, turns)]
        return [f"{outcome.kind}: {outcome.error.message}" for outcome in outcomes if isinstance(outcome, Err)]

    async with in_real_time(nesting) as w:
        lines = await w.run(nesting)
        assert len(lines) == 4
        for line in lines:
            assert line.startswith("fatal: ctx.") and "step can't use verbs: return its result" in line


def test_the_context_of_another_branch_and_one_whose_function_has_ended_are_refused() -> None:
    ended: list[SyncContext] = []

    def sync(ctx: SyncContext) -> list[str]:
        found: list[str] = []

        def nosy(c: SyncContext) -> None:
            ended.append(c)
            for verb in (lambda: ctx.sleep(1), lambda: ctx.emit(1), lambda: ctx.random, lambda: ctx.keep("k", int), lambda: next(loop)):
                try:
                    verb()
                except WrongVerb as wrong:
                    found.append(wrong.what)

        loop = iter(ctx.loop("l", state=0))
        ctx.join(nosy)
        return found

    found = Hand(workflow(sync).code).start().run().result
    assert len(found) == 5 and all("outside the function that its context was given to" in what for what in found)
    with pytest.raises(WrongVerb, match=r"ctx.sleep was called outside .* branch has a context of its own"):
        ended[0].sleep(1)


def test_a_verb_in_a_turn_is_the_turns_own_and_the_outer_ones_are_back_after_it() -> None:
    def sync(ctx: SyncContext) -> str:
        for turn in ctx.loop("l", state=0):
            try:
                ctx.step(mark, "outer")
            except WrongVerb as wrong:
                turn.emit(wrong.what)
            break
        return ctx.step(mark, "outer")

    hand = Hand(workflow(sync).code).start().run()
    assert hand.result == "outer" and hand.execution.emitted == 1


def test_a_verb_in_the_function_of_a_keep_is_refused_the_same_live_and_on_replay() -> None:
    def sync(ctx: SyncContext) -> list[str]:
        found = [str(ctx.keep("fine", lambda: ctx.now().year))]

        def shows() -> str:
            ctx.emit(1)
            return "shown"

        for name, fn in (("step", lambda: ctx.step(mark, "x")), ("emit", shows)):
            try:
                found.append(ctx.keep(name, fn))
            except StepFailed as failed:
                found.append(failed.error.message)
        return [*found, ctx.step(mark, "after")]

    hand = Hand(workflow(sync).code).start().run().restart()
    year, step_refused, emit_refused, after = hand.result
    assert (year, after) == ("1970", "after")
    assert "ctx.step was called in the function of ctx.keep" in step_refused and "ctx.emit was called in the function of ctx.keep" in emit_refused
    assert hand.performed == ["mark"]


def test_an_async_function_behind_a_plain_one_is_named() -> None:
    async def hidden(c: Context) -> None:
        await c.sleep(1)

    def sync(ctx: SyncContext) -> Any:
        try:
            ctx.join(behind=lambda c: hidden(c))
        except JoinFailed as failed:
            return str(failed.errors["behind"])

    result = Hand(workflow(sync).code).start().run().result
    assert result.startswith("a function was given a SyncContext and returned a coroutine. Pass the async function itself")


def test_clocks_threads_and_loops_are_refused_as_in_an_async_workflow() -> None:
    def sync(ctx: SyncContext) -> list[str]:
        found = []
        for use in (lambda: asyncio.get_running_loop().time(), lambda: greeting.run()):
            try:
                use()
            except WrongVerb as refused:
                found.append(str(refused))
        return found

    @workflow
    def greeting(ctx: SyncContext) -> None: ...

    clock, nested = Hand(workflow(sync).code).start().run().result
    assert "ctx.sleep" in clock and "inside a workflow" in nested and "ctx.call" in nested
