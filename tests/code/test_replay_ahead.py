"""Claims about replay that is ahead: a task goes on without being suspended exactly where no other code of the workflow could notice."""

import asyncio
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from perdure import Context, step
from perdure.code.deterministic_loop import DeterministicLoop
from tests.code.decision_driver import Hand


@step
def count(number: int = 0) -> int:
    return number + 1


@step
def other() -> None:
    """Another step."""


def test_tasks_that_are_ready_run_before_a_step_that_settles_next() -> None:
    seen: list[str] = []

    async def workflow(ctx: Context) -> list[str]:
        seen.clear()

        async def note() -> None:
            seen.append("noted")

        noting = asyncio.create_task(note())
        await ctx.step(count)
        seen.append("stepped")
        await noting
        await ctx.step(count)
        return seen

    hand = Hand(workflow).start().run()
    assert hand.result == ["noted", "stepped"]
    seen.clear()
    _, instance, diverged = hand.rebuilt()
    instance.close()
    assert (seen, diverged) == ([], None), "what has ended is not run again"
    waiting = Hand(workflow).start()
    waiting.perform()
    waiting.restart()
    assert seen == ["noted", "stepped"]
    waiting.close()


def test_a_task_that_has_cancelled_itself_is_not_led_past_its_next_await() -> None:
    async def before(ctx: Context) -> None:
        await ctx.step(count)
        await ctx.step(other)

    async def after(ctx: Context) -> None:
        current: Any = asyncio.current_task()
        current.cancel()
        await ctx.step(count)
        await ctx.step(other)

    hand = Hand(before).start()
    hand.perform()
    _, instance, diverged = hand.rebuilt(after)
    instance.close()
    assert diverged is not None and "count dropped" in diverged.diff[0]


def test_a_replay_of_steps_in_a_row_drives_the_loop_once() -> None:
    steps = 50

    async def workflow(ctx: Context) -> int:
        number = 0
        for _ in range(steps):
            number = await ctx.step(count, number)
        await ctx.step(other)
        return number

    hand = Hand(workflow).start()
    live = drives_during(lambda: [hand.perform() for _ in range(steps)])
    assert (live, drives_during(hand.restart)) == (steps, 1)
    assert hand.run().result == steps


def drives_during(act: Callable[[], object]) -> int:
    """How often a loop is driven while `act` runs."""
    driven: list[object] = []
    code = DeterministicLoop.drive.__code__

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is code:
            driven.append(frame)

    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
    return len(driven)


def test_an_argument_is_not_encoded_again_where_the_log_has_the_call() -> None:
    given: list[Any] = [1]

    async def workflow(ctx: Context) -> int:
        number = await ctx.step(count, given[0])
        await ctx.step(other)
        return number

    hand = Hand(workflow).start()
    hand.perform()
    given[0] = 5
    assert hand.restart().run().result == 2


def test_attributes_and_messages_are_the_same_ahead_as_live() -> None:
    seen: list[Any] = []

    async def workflow(ctx: Context) -> None:
        seen.clear()
        for number in range(3):
            ctx.set_attributes({"number": number})
            await ctx.step(count)
            seen.append((ctx.execution.attributes, ctx.now()))
        await ctx.step(other)

    hand = Hand(workflow).start()
    for _ in range(3):
        hand.now_s += 10
        hand.perform()
    live = list(seen)
    hand.restart()
    assert seen == live and len(live) == 3
    hand.close()
