"""How an execution ends when its function has returned, or never can."""

import asyncio
from typing import Any

from perdure import Context, step
from perdure.core.operations import Failure, Success
from tests.code.decision_driver import Hand


@step
async def release() -> str:
    return "released"


async def test_a_task_that_the_workflow_left_behind_and_that_refuses_to_end_holds_up_nothing() -> None:
    async def stubborn() -> None:
        task: Any = asyncio.current_task()
        while True:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                task.uncancel()

    async def workflow(ctx: Context) -> str:
        left = asyncio.create_task(stubborn())
        await asyncio.sleep(0)
        return f"done, {left.done()}"

    hand = Hand(workflow)
    hand.start()
    assert hand.execution.status == "completed" and hand.result == "done, False"


async def test_a_task_that_swallows_its_cancellation_holds_up_nothing() -> None:
    async def deaf() -> None:
        while True:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                continue

    async def workflow(ctx: Context) -> int:
        left = asyncio.create_task(deaf())
        await asyncio.sleep(0)
        return int(not left.done())

    hand = Hand(workflow)
    hand.start()
    assert hand.execution.status == "completed"


async def test_the_cleanup_of_a_task_left_behind_is_waited_for() -> None:
    async def careful(ctx: Context) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await ctx.step(release)

    async def workflow(ctx: Context) -> int:
        left = asyncio.create_task(careful(ctx))
        await asyncio.sleep(0)
        return int(not left.done())

    hand = Hand(workflow)
    hand.start()
    assert hand.execution.ended is None
    hand.perform()
    assert hand.execution.status == "completed" and hand.performed == ["release"]


async def test_a_workflow_that_waits_for_what_nobody_will_do_fails_and_says_so() -> None:
    async def workflow(ctx: Context) -> None:
        await asyncio.get_running_loop().create_future()

    hand = Hand(workflow)
    hand.start()
    assert hand.execution.ended is not None
    match hand.execution.ended.outcome:
        case Failure(_, _, error):
            assert error.type == "wrong_verb" and "can never happen" in error.message
        case Success():
            raise AssertionError("it completed")
