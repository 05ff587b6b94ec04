"""Seed 001, what `requirements.md` says there of crashes, repeats and states: each claim here as a test, or the name of the test that shows it.

The others are about triggers, approvals, proposals and definitions, later stages.

claim   where
11      test_each_try_is_remembered_with_its_number_and_nothing_of_it_is_overwritten below
16      test_from_a_terminal_state_nothing_leads_away below; waiting_approval with approvals, a later stage
51      who runs an execution, since when: heads and leases; cli/test_golden: `show`, `engines`
53      runtime/test_engine: test_a_store_that_is_down_for_a_minute_loses_nothing_and_work_goes_on
95      test_what_goes_on_after_a_wait_replays_results_and_runs_nothing_again below; earlier decisions come from the log like all else
128     cli/test_exits: test_every_code_is_explained, and the codes in every golden file
134     test_an_id_starts_one_execution_however_many_ask below
141     test_steps_can_be_watched_while_it_runs below
"""

import asyncio

import pytest

from perdure import AsyncClient, Context, ExecutionFailed, Retry, step, workflow
from perdure.core import events as e
from perdure.core import messages
from tests.runtime.cluster import Cluster, settle
from tests.runtime.test_engine import virtually

begun: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_begun() -> None:
    begun.clear()


@step(retry=Retry(max=3, wait="1s", jitter=0))
async def unsteady(fails: int) -> int:
    begun.append("unsteady")
    if len(begun) <= fails:
        raise OSError(f"failed {len(begun)}")
    return len(begun)


@workflow
async def trying(ctx: Context, fails: int) -> int:
    return await ctx.step(unsteady, fails)


@workflow
async def gated(ctx: Context) -> list[int]:
    before = await ctx.step(unsteady, 0)
    await ctx.listen("go")
    return [before, await ctx.step("after", unsteady, 0)]


@virtually
async def test_each_try_is_remembered_with_its_number_and_nothing_of_it_is_overwritten(c: Cluster) -> None:
    engine = await c.engine(trying)
    assert await c.start(engine, trying, 2)
    assert await c.result(engine, trying) == 3
    events = await c.events(trying.key("e"))
    failed = [(event.attempt, event.error.message) for event in events if isinstance(event, e.Retrying)]
    assert failed == [(1, "failed 1"), (2, "failed 2")]
    assert [event.attempt for event in events if isinstance(event, e.Tried)] == [2, 3]


@virtually
async def test_from_a_terminal_state_nothing_leads_away(c: Cluster) -> None:
    engine = await c.engine(trying)
    assert await c.start(engine, trying, 0)
    assert await c.result(engine, trying) == 1
    before = await c.events(trying.key("e"))
    for message in (messages.Cancel("no"), messages.Pause("no"), messages.Resume("no"), messages.Terminate("no"), messages.Retry("no")):
        await c.tell(trying.key("e"), message)
    await settle(1)
    assert await c.events(trying.key("e")) == before
    assert await c.result(engine, trying) == 1


@virtually
async def test_what_goes_on_after_a_wait_replays_results_and_runs_nothing_again(c: Cluster) -> None:
    first = await c.engine(gated)
    assert await c.start(first, gated)
    await settle(1)
    await first.kill()
    second = await c.engine(gated)
    await c.send(gated.key("e"), "go")
    assert await c.result(second, gated) == [1, 2]
    assert begun == ["unsteady", "unsteady"]


@virtually
async def test_an_id_starts_one_execution_however_many_ask(c: Cluster) -> None:
    engines = [await c.engine(trying), await c.engine(trying)]
    created = await asyncio.gather(*(c.start(engines[number % 2], trying, 0) for number in range(10)))
    assert sum(created) == 1
    assert await c.result(engines[0], trying) == 1
    assert begun == ["unsteady"]


@virtually
async def test_steps_can_be_watched_while_it_runs(c: Cluster) -> None:
    _ = await c.engine(gated, trying)
    async with AsyncClient(c.store) as client:
        handle = await client.start(gated, id="k")
        seen: list[str] = []
        async for event in handle.events(follow=True):
            seen.append(event.type)
            if event.type == "execution.waiting":
                assert "completed" in [one.state for one in await handle.steps()]
                await handle.send("go")
        assert await handle.result() == [1, 2]
        failing = await client.start(trying, 9, id="f")
        with pytest.raises(ExecutionFailed):
            await failing.result()
    assert seen.index("step.completed") < seen.index("execution.waiting") < seen.index("execution.completed")
