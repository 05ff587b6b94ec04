"""Claims about the context that a library finds: the one whose verbs the code that runs may use."""

import asyncio

import pytest

from perdure import Context, WrongVerb, step, workflow
from perdure.code.context import current_context, shared_context
from perdure.testing import World


@step
async def found_in_a_step() -> bool:
    return current_context() is not None


def test_it_is_that_of_the_branch_or_of_the_iteration_and_none_in_a_step(world: World) -> None:
    @workflow
    async def several(ctx: Context) -> list[bool]:
        async def branch(c: Context) -> bool:
            return current_context() is c

        async def task() -> bool:
            return current_context() is ctx

        seen = [current_context() is ctx, await asyncio.create_task(task()), *await ctx.join(branch, branch), not await ctx.step(found_in_a_step)]
        async for outer in ctx.loop("outer", state=0):
            seen.append(current_context() is outer)
            async for inner in outer.loop("inner", state=0):
                seen.append(current_context() is inner)
                break
            seen.append(current_context() is outer)
            if outer.number == 1:
                break
        return [*seen, current_context() is ctx]

    assert world.run(several) == [True] * 12
    assert current_context() is None


@pytest.mark.perdure(always_suspend=True)
def test_tasks_share_the_names_of_a_shared_context(world: World) -> None:
    @workflow
    async def shared(ctx: Context) -> list[bool]:
        async def one() -> bool:
            context = current_context()
            assert context is not None and context is not ctx
            return await context.step(found_in_a_step)

        with shared_context("library"):
            found = await asyncio.gather(one(), asyncio.create_task(one(), name="a task"), one())
        return [*found, current_context() is ctx]

    run = world.start(shared)
    assert run.result() == [False, False, False, True]
    assert [one.path for one in run.steps()] == ["library/found_in_a_step", "library/found_in_a_step#2", "library/found_in_a_step#3"]


def test_outside_of_a_workflow_there_is_nothing_to_share() -> None:
    with pytest.raises(WrongVerb, match="library was begun outside of a workflow"), shared_context("library"):
        pass
