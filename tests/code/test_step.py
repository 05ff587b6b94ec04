"""Claims about steps: what they came to is remembered, whatever that is, and never executed again."""

import asyncio
import threading
from collections import Counter
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from perdure import Context, Err, Fatal, Ok, Retry, StepFailed, step, step_info, workflow
from perdure.core import events as e
from perdure.core import limits, messages
from perdure.core.errors import NeedsAttention
from perdure.core.paths import path_text
from perdure.runtime.engine import Engine
from perdure.stores.memory import MemoryStore
from tests.code.engines import MemoryEngine, every_cut, resident, settle, virtually, world

ran: Counter[str] = Counter()


class Declined(Exception):
    """A user's own error."""


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


@step
async def nothing() -> None:
    ran["nothing"] += 1


@step(retry=Retry(max=2, wait=1, jitter=0))
async def failing() -> None:
    ran["failing"] += 1
    raise ValueError("always")


@step
async def fatal() -> None:
    ran["fatal"] += 1
    raise Fatal("no use")


@step(timeout=5, retry=Retry(max=2, wait=1, jitter=0))
async def hanging() -> None:
    ran["hanging"] += 1
    await asyncio.get_running_loop().create_future()


@step(raises=(Declined,), retry=Retry(max=1))
async def declining() -> None:
    ran["declining"] += 1
    raise Declined("card", 402)


@workflow
async def all_outcomes(ctx: Context) -> list[Any]:
    found: list[Any] = [await ctx.step(nothing)]
    for one in (failing, fatal, hanging):
        try:
            await ctx.step(one)
        except StepFailed as error:
            found.append([error.kind, error.attempts, error.error.type])
    try:
        await ctx.step(declining)
    except Declined as error:
        found.append(list(error.args))
    await ctx.sleep("1h")
    outcome = await ctx.attempt(failing)
    assert isinstance(outcome, Err)
    found.append([outcome.kind, outcome.attempts])
    await ctx.sleep("1h")
    found.append(await ctx.attempt(nothing) == Ok(None))
    return found


OUTCOMES = [None, ["exhausted", 2, "ValueError"], ["fatal", 1, "fatal"], ["timeout", 2, "timeout"], ["card", 402], ["exhausted", 2], True]
TRIES = {"nothing": 2, "failing": 4, "fatal": 1, "hanging": 2, "declining": 1}


@pytest.mark.slow
@virtually
async def test_none_failures_timeouts_and_fatal_errors_are_remembered_and_never_executed_again() -> None:
    ran.clear()
    async with world(all_outcomes) as w:
        assert await w.run(all_outcomes) == OUTCOMES
        assert ran == TRIES
        await w.replayed(w.key(all_outcomes))
        assert ran == TRIES, "replay executes nothing"


@pytest.mark.slow
@resident
async def test_from_every_cut_every_step_settles_as_it_would_have() -> None:
    assert await every_cut(all_outcomes) == OUTCOMES


@pytest.mark.slow
@virtually
async def test_a_completed_execution_started_again_returns_its_stored_result_and_executes_nothing() -> None:
    ran.clear()
    async with world(all_outcomes) as w:
        key = await w.start(all_outcomes)
        first = await w.result(key)
        rows = await w.rows(key)
        await w.engine.start(key, b"\x93another input")
        assert await w.result(key) == first
        assert await w.rows(key) == rows
    async with world(all_outcomes, store=w.store) as again:
        await again.engine.start(key, b"\x93another input")
        assert await again.result(key) == first
        assert await again.rows(key) == rows
        assert ran == TRIES


@virtually
async def test_an_error_that_is_not_declared_carries_its_type_message_and_traceback() -> None:
    @workflow
    async def failed(ctx: Context) -> list[str]:
        outcome = await ctx.attempt(failing)
        assert isinstance(outcome, Err)
        return [outcome.error.type, outcome.error.message, outcome.error.traceback]

    async with world(failed) as w:
        kind, message, trace = await w.run(failed)
        assert (kind, message) == ("ValueError", "always")
        assert 'raise ValueError("always")' in trace


@virtually
async def test_waits_between_tries_grow_and_only_declared_errors_are_tried_again() -> None:
    at: list[float] = []

    @step(retry=Retry(max=4, wait=1, factor=3, max_wait=5, jitter=0))
    async def growing() -> None:
        at.append(asyncio.get_running_loop().time())
        raise ValueError

    @step(retry=Retry(max=4, only=(KeyError,)))
    async def only_keys() -> None:
        ran["only"] += 1
        raise ValueError

    @step(retry=Retry(max=4, fatal=(ValueError,)))
    async def not_values() -> None:
        ran["not"] += 1
        raise ValueError

    @workflow
    async def trying(ctx: Context) -> list[str]:
        return [outcome.kind for outcome in [await ctx.attempt(one) for one in (growing, only_keys, not_values)] if isinstance(outcome, Err)]

    ran.clear()
    at.clear()
    async with world(trying) as w:
        assert await w.run(trying) == ["exhausted", "fatal", "fatal"]
        assert [round(b - a, 3) for a, b in pairwise(at)] == [1, 3, 5]
        assert ran == {"only": 1, "not": 1}


@resident
async def test_a_step_in_doubt_runs_again_after_a_crash_with_the_same_key_and_the_next_attempt() -> None:
    seen: list[tuple[str, int]] = []

    @step
    async def doubtful() -> str:
        seen.append((step_info().key, step_info().attempt))
        await asyncio.sleep(10)
        return "done"

    @workflow
    async def crashing(ctx: Context) -> str:
        return await ctx.step(doubtful)

    async with world(crashing) as w:
        key = await w.start(crashing)
        await settle(1)
        await w.crash()
        assert await w.result(key) == "done"
        assert seen == [("default/crashing/e:doubtful", 1), ("default/crashing/e:doubtful", 2)]


@resident
async def test_a_step_that_is_not_idempotent_is_not_run_again_after_a_crash() -> None:
    @step(idempotent=False)
    async def once() -> None:
        ran["once"] += 1
        await asyncio.sleep(10)

    @workflow
    async def crashing(ctx: Context) -> str:
        outcome = await ctx.attempt(once)
        assert isinstance(outcome, Err)
        return outcome.kind

    async with world(crashing) as w:
        key = await w.start(crashing)
        await settle(1)
        await w.crash()
        assert await w.result(key) == "interrupted"
        assert ran["once"] == 1


@pytest.mark.slow
@resident
async def test_a_step_that_kills_its_host_ten_times_parks_the_execution_and_a_retry_resumes_it() -> None:
    deadly = True

    @step
    async def poison() -> str:
        ran["poison"] += 1
        if deadly:
            await asyncio.sleep(10_000)
        return "healed"

    @workflow
    async def dying(ctx: Context) -> str:
        return await ctx.step(poison)

    async with world(dying) as w:
        key = await w.start(dying)
        for _ in range(limits.INTERRUPTIONS_MAX):
            await settle(100)
            await w.crash()
        await settle(100)
        with pytest.raises(NeedsAttention, match="poison was interrupted 10 times in a row"):
            await w.result(key)
        assert ran["poison"] == limits.INTERRUPTIONS_MAX
        deadly = False
        await w.tell(key, messages.RetryMessage())
        await settle(1)
        assert await w.result(key) == "healed"


@virtually
async def test_names_of_equal_steps_are_numbered_and_their_idempotency_keys_differ() -> None:
    @step
    async def key_of() -> str:
        return step_info().key

    @workflow
    async def naming(ctx: Context) -> list[str]:
        return [await ctx.step(key_of), await ctx.step(key_of), await ctx.step("mine", key_of), await ctx.step(key_of.with_(name="key_of#2"))]

    async with world(naming) as w:
        found = await w.run(naming)
        assert found == [f"default/naming/e:{name}" for name in ("key_of", "key_of#2", "mine", "key_of%232")]


@virtually
async def test_a_plain_function_a_lambda_a_sync_step_and_a_callable_object_are_steps_too() -> None:
    def plain(n: int) -> int:
        return n + 1

    class Adder:
        def __call__(self, n: int) -> int:
            return n + 3

    @workflow
    async def calling(ctx: Context) -> list[int]:
        return [await ctx.step(plain, 1), await ctx.step(lambda n: n + 2, 1), await ctx.step(Adder(), 1), await ctx.step("named", plain, n=4)]

    async with world(calling) as w:
        assert await w.run(calling) == [2, 3, 4, 5]
        assert await w.opened(w.key(calling)) == ["plain", "step", "step#2", "named"]


@virtually
async def test_calling_the_function_instead_of_passing_it_says_what_to_write() -> None:
    @workflow
    async def wrong(ctx: Context) -> None:
        await ctx.step(3)  # type: ignore[call-overload]  # the mistake under test

    async with world(wrong) as w:
        error = await w.failure(wrong)
        assert error.type == "wrong_verb" and "Pass a function and its arguments" in error.message


@virtually
async def test_a_step_that_raises_keyboard_interrupt_or_cancels_itself_fails_and_ends_nothing_else() -> None:
    @step
    async def interrupts() -> None:
        raise KeyboardInterrupt

    @step(retry=Retry(max=1))
    async def cancels() -> None:
        raise asyncio.CancelledError

    @workflow
    async def surviving(ctx: Context) -> list[str]:
        return [f"{outcome.kind} {outcome.error.type}" for outcome in [await ctx.attempt(interrupts), await ctx.attempt(cancels)] if isinstance(outcome, Err)]

    async with world(surviving) as w:
        assert await w.run(surviving) == ["fatal KeyboardInterrupt", "exhausted CancelledError"]


@virtually
async def test_a_timeout_bounds_each_try_and_the_task_of_the_try_is_cancelled() -> None:
    ended: list[float] = []

    @step(timeout=timedelta(seconds=5), retry=Retry(max=2, wait=1, jitter=0))
    async def hangs() -> None:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            ended.append(asyncio.get_running_loop().time())
            raise

    @workflow
    async def timing(ctx: Context) -> Any:
        outcome = await ctx.attempt(hangs)
        assert isinstance(outcome, Err)
        return [outcome.kind, outcome.attempts]

    async with world(timing) as w:
        begun = asyncio.get_running_loop().time()
        assert await w.run(timing) == ["timeout", 2]
        await settle()
        assert [round(at - begun) for at in ended] == [5, 11]


@virtually
async def test_each_step_costs_one_commit() -> None:
    @workflow
    async def stepping(ctx: Context) -> None:
        for _ in range(5):
            await ctx.step(nothing)

    async with world(stepping) as w:
        await w.run(stepping)
        assert len(await w.rows(w.key(stepping))) == 6


# threads; these run in real time


async def _real(*workflows: Any, then: Any) -> Any:
    it = MemoryEngine(workflows, MemoryStore())
    it.engine = Engine(it.store, [one.code for one in workflows], lease_s=60, poll_s=60)
    await it.begin()
    try:
        return await then(it)
    finally:
        await it.end()


async def test_sync_steps_run_in_threads_several_at_once() -> None:
    together = threading.Barrier(3, timeout=10)

    @step
    def meets(n: int) -> str:
        together.wait()
        return threading.current_thread().name

    @workflow
    async def meeting(ctx: Context) -> list[str]:
        return await ctx.map(lambda c, n: c.step(meets, n), range(3))

    async def then(it: MemoryEngine) -> None:
        threads = await it.run(meeting)
        assert len(set(threads)) == 3
        assert threading.main_thread().name not in threads

    await _real(meeting, then=then)


@pytest.mark.slow
async def test_a_sync_step_that_timed_out_is_tried_again_only_when_its_thread_has_ended() -> None:
    release = threading.Event()
    running, most = 0, 0

    @step(timeout=0.02, retry=Retry(max=2, wait=0.01))
    def stuck() -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if step_info().attempt == 1:
            release.wait(10)
        running -= 1
        return f"try {step_info().attempt}"

    @workflow
    async def sticking(ctx: Context) -> str:
        return await ctx.step(stuck)

    async def then(it: MemoryEngine) -> None:
        key = await it.start(sticking)
        while not any(isinstance(event, e.RetryingEvent) for event in await it.events(key)):
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.1)
        assert not any(isinstance(event, e.AttemptStartedEvent) for event in await it.events(key)), "its thread still runs"
        release.set()
        assert await it.result(key) == "try 2"
        assert most == 1

    await _real(sticking, then=then)


async def test_verbs_in_a_step_or_in_its_thread_say_that_a_step_cannot_use_them() -> None:
    @workflow
    async def nesting(ctx: Context) -> list[str]:
        async def inside() -> None:
            await ctx.sleep(1)

        def in_thread() -> None:
            _ = ctx.sleep(1)

        def sends() -> None:
            ctx.emit(1)

        found = []
        for fn in (inside, in_thread, sends):
            outcome = await ctx.attempt(fn)
            assert isinstance(outcome, Err)
            found.append(f"{outcome.kind}: {outcome.error.message}")
        return found

    async def then(it: MemoryEngine) -> None:
        for line in await it.run(nesting):
            assert line.startswith("fatal: ctx.") and "A step can't use verbs: return its result" in line

    await _real(nesting, then=then)


@virtually
async def test_the_path_of_a_step_reads_like_the_program() -> None:
    @workflow
    async def deep(ctx: Context) -> None:
        async def branch(c: Context) -> None:
            async for turn in c.loop("outer", state=0):
                await turn.step("inner", nothing)
                if turn.number:
                    break

        await ctx.join(x=branch)

    async with world(deep) as w:
        await w.run(deep)
        shown = [path_text(event.path) for event in await w.events(w.key(deep)) if isinstance(event, e.OpenedEvent)]
        assert shown == ["join", "join/x/outer/~0", "join/x/outer/~0/inner", "join/x/outer/~1", "join/x/outer/~1/inner"]
