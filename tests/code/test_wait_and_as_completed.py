"""Claims about `ctx.wait` and `ctx.as_completed`: as asyncio's, in an order that replay repeats, with limits that last."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from perdure import Context, Fatal, StepFailed, WrongVerb, step, workflow
from perdure.core.errors import BadValue
from tests.code.engines import every_cut, virtually, world


@step
async def double(n: int) -> int:
    return n * 2


@step
async def takes(n: int) -> int:
    await asyncio.sleep(n)
    return n


@step
async def fails() -> int:
    raise Fatal("no")


@virtually
async def test_all_are_waited_for_and_stand_in_the_order_given_also_when_one_fails() -> None:
    @workflow
    async def waiting(ctx: Context) -> list[Any]:
        done, pending = await ctx.wait(ctx.step(takes, 3), ctx.step(fails), ctx.step(takes, 1), ctx.sleep(2))
        assert not pending
        return ["no" if task.exception() else task.result() for task in done]

    assert await every_cut(waiting) == [3, "no", 1, None]


@virtually
async def test_what_is_not_done_in_time_goes_on_and_is_waited_for_again() -> None:
    @workflow
    async def waiting(ctx: Context) -> list[Any]:
        begun = ctx.now()
        done, pending = await ctx.wait(ctx.sleep(1), ctx.step(takes, 50), ctx.listen("m"), timeout="10s")
        after_s = (ctx.now() - begun).total_seconds()
        again, never = await ctx.wait(*pending, timeout="1h", return_when=asyncio.FIRST_COMPLETED)
        return [len(done), len(pending), after_s, again[0].result(), len(never), (ctx.now() - begun).total_seconds()]

    async with world(waiting) as w:
        assert await w.run(waiting) == [1, 2, 10, 50, 1, 50]


@virtually
async def test_the_timer_of_a_wait_that_is_over_holds_nothing_open() -> None:
    @workflow
    async def waiting(ctx: Context) -> int:
        done, _ = await ctx.wait(ctx.step(double, 2), timeout="30d")
        await ctx.listen("go on")
        return done[0].result()

    async def say(w: Any, key: Any) -> None:
        await w.send(key, "go on", None, once="k")

    async with world(waiting) as w:
        key = await w.start(waiting)
        await asyncio.sleep(1)
        assert [type(pending.op).__name__ for pending in (await w.fold(key)).open.values()] == ["ReceiveOperation"]
        await say(w, key)
        assert await w.result(key) == 4
    assert await every_cut(waiting, say=say) == 4


@virtually
@pytest.mark.parametrize(("when", "ended"), [(asyncio.FIRST_COMPLETED, 1), (asyncio.FIRST_EXCEPTION, 2), (asyncio.ALL_COMPLETED, 3)])
async def test_it_returns_when_it_is_told_to(when: str, ended: int) -> None:
    @workflow
    async def waiting(ctx: Context) -> list[int]:
        async def late() -> None:
            await ctx.sleep(2)
            raise ValueError("late")

        done, pending = await ctx.wait(ctx.sleep(1), late(), ctx.sleep(3), return_when=when)
        return [len([task.exception() for task in done]), len(pending)]

    assert await every_cut(waiting) == [ended, 3 - ended]


@virtually
async def test_as_completed_has_each_as_it_ends_failures_too() -> None:
    @workflow
    async def first_come(ctx: Context) -> list[Any]:
        seen: list[Any] = []
        async for task in ctx.as_completed(ctx.sleep(3), ctx.step(takes, 2), ctx.step(fails), ctx.step(takes, 1)):
            try:
                seen.append(await task)
            except StepFailed as error:
                seen.append(error.kind)
        return seen

    async with world(first_come) as w:
        assert await w.run(first_come) == ["fatal", 1, 2, None]


@virtually
async def test_the_order_of_what_was_completed_is_that_of_the_log() -> None:
    @workflow
    async def first_come(ctx: Context) -> list[Any]:
        tasks = {asyncio.create_task(ctx.sleep(n)): n for n in (3, 1, 2, 2)}
        return [tasks[task] async for task in ctx.as_completed(*tasks)]

    assert await every_cut(first_come) == [1, 2, 2, 3]


@virtually
async def test_as_completed_may_be_left_and_what_is_left_goes_on() -> None:
    @workflow
    async def first_come(ctx: Context) -> list[Any]:
        slow = asyncio.create_task(ctx.step(takes, 9))
        async for task in ctx.as_completed(slow, ctx.step(takes, 1), slow):
            first = await task
            break
        await ctx.sleep(1)
        return [first, slow.done(), await slow]

    assert await every_cut(first_come) == [1, False, 9]


@virtually
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda ctx: ctx.wait(), "ctx.wait was called without an awaitable"),
        (lambda ctx: ctx.as_completed(ctx.step(double, 1), 7), "ctx.as_completed was given an object of type int"),
        (lambda ctx: ctx.wait(asyncio.create_task(ctx.step(double, 1)), return_when="SOON"), "asyncio.ALL_COMPLETED"),
        (lambda ctx: ctx.wait(asyncio.create_task(ctx.sleep(1)), timeout="soon"), "soon"),
    ],
)
async def test_what_cannot_be_waited_for_is_refused(wrong: Callable[[Context], Any], said: str) -> None:
    @workflow
    async def waiting(ctx: Context) -> str:
        with pytest.raises((WrongVerb, BadValue)) as error:
            wrong(ctx)
        await ctx.sleep(2)  # what was begun for it comes to its end
        return str(error.value)

    async with world(waiting) as w:
        assert said in await w.run(waiting)
