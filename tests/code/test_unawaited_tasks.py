"""Claims about tasks that a workflow leaves behind: their failure is its own, and a verb that can't ever be done is one that was not awaited."""

import asyncio
import gc
from contextlib import suppress

import pytest

from perdure import Context, step, workflow
from tests.code.engines import virtually, world

done: list[str] = []


@step
async def audit(what: str) -> str:
    done.append(what)
    return what


async def fails(ctx: Context) -> None:
    await ctx.sleep(1)
    raise LookupError("in the background")


@pytest.mark.slow
@virtually
async def test_the_failure_of_a_task_that_nobody_awaits_fails_the_execution() -> None:
    @workflow
    async def leaves(ctx: Context) -> str:
        _ = asyncio.create_task(fails(ctx))  # noqa: RUF006  # the mistake under test
        gc.collect()
        await ctx.sleep(2)
        return "well"

    async with world(leaves) as w:
        key = await w.start(leaves)
        error = await w.error(key)
        assert (error.type, error.message) == ("LookupError", "in the background") and "fails" in error.traceback
        await w.replayed(key)


@virtually
async def test_a_failure_that_somebody_awaits_or_looks_at_is_theirs() -> None:
    @workflow
    async def hears(ctx: Context) -> list[str]:
        tasks = [asyncio.create_task(fails(ctx), name=str(number)) for number in range(3)]
        with suppress(LookupError):
            await tasks[0]
        done, _ = await ctx.wait(*tasks)
        await asyncio.gather(*tasks, return_exceptions=True)
        return [repr(task.exception()) for task in done]

    async with world(hears) as w:
        assert await w.run(hears) == ["LookupError('in the background')"] * 3


@virtually
async def test_a_verb_in_a_task_that_can_not_begin_any_more_is_one_that_was_not_awaited() -> None:
    @workflow
    async def forgets(ctx: Context) -> str:
        await ctx.sleep(1)
        _ = asyncio.create_task(ctx.step(audit, "x"))  # noqa: RUF006  # the mistake under test
        return "well"

    done.clear()
    async with world(forgets) as w:
        key = await w.start(forgets)
        error = await w.error(key)
        assert error.type == "not_awaited" and "audit" in error.message and not done
        await w.replayed(key)


@virtually
async def test_a_task_that_was_at_work_before_the_workflow_returns_is_cancelled_as_ever() -> None:
    @workflow
    async def ticks(ctx: Context) -> str:
        async def tick() -> None:
            while True:
                await ctx.sleep("1m")

        _ = asyncio.create_task(tick())  # noqa: RUF006  # it is for as long as the workflow runs
        await ctx.step(audit, "y")
        won = await ctx.race(fast=lambda c: c.sleep(1), slow=lambda c: c.sleep("1h"))
        return won.name

    async with world(ticks) as w:
        key = await w.start(ticks)
        assert await w.result(key) == "fast"
        await w.replayed(key)
