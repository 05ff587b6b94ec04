"""Claims about calls that mean something else than they seem to: each does what it says, or is refused with what to do."""

import asyncio
from typing import Any

import pytest

from perdure import BadDefinition, Client, Context, Definition, ExecutionFailed, Retry, step, workflow
from perdure.core.errors import BadValue, NeedsAttention, WrongVerb
from perdure.testing.world import World

kept: list[Context] = []


@step
def one() -> int:
    return 1


@step
def two() -> int:
    return 2


def test_a_first_wait_longer_than_a_minute_is_waited(world: World) -> None:
    assert Retry(wait="1h").rule().delay_s(1, "e") == pytest.approx(3600, rel=0.11)
    assert Retry(wait=5, factor=100).rule().max_wait_s == 60

    @step(retry=Retry(wait="1h", max=2, jitter=0))
    def flaky() -> None:
        raise OSError("down")

    @workflow
    async def patient(ctx: Context) -> None:
        await ctx.step(flaky)

    run = world.start(patient)
    world.skip("59m")
    assert run.step("flaky").attempts == 1
    world.skip("2m")
    assert run.step("flaky").attempts == 2


def test_a_longest_wait_below_the_first_is_refused_in_a_definition() -> None:
    steps = [{"id": "a", "tool": "one", "retry": {"wait": "1h", "max_wait": "1m"}}]
    with pytest.raises(BadDefinition, match="60 s is shorter than the first wait, 3600 s"):
        Definition.of({"perdure": 1, "name": "it", "steps": steps}, tools=[one])


def test_a_longest_wait_below_the_first_is_refused_where_it_is_written() -> None:
    with pytest.raises(BadValue, match=r"Retry\(max_wait\): '1s' is not at least the first wait, '1h'; raise max_wait=, or leave it out"):
        step(retry=Retry(wait="1h", max_wait="1s"))(one.fn)


def test_a_join_of_nothing_returns_nothing(world: World) -> None:
    @workflow
    async def joining(ctx: Context) -> list[Any]:
        branches: list[Any] = []
        return [*await ctx.join(*branches), *await ctx.map(lambda c, _: c.step(one), []), await ctx.step(two)]

    assert world.run(joining) == [2]


def test_a_race_of_nothing_is_refused_with_what_to_give(world: World) -> None:
    @workflow
    async def racing(ctx: Context) -> None:
        await ctx.race()

    with pytest.raises(ExecutionFailed, match=r"ctx\.race of nothing has no winner, so it would wait for ever. Give at least one branch"):
        world.run(racing)


def test_sqlites_own_name_for_memory_makes_no_file(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for url in ("sqlite:///:memory:", "sqlite:////tmp/:memory:"):
        with pytest.raises(BadValue, match="a store in memory is memory:, without sqlite"):
            Client(url)
    assert list(tmp_path.iterdir()) == []


def test_a_context_that_outlives_its_execution_is_refused_with_the_reason(world: World) -> None:
    @workflow
    async def leaking(ctx: Context) -> None:
        kept.append(ctx)
        await ctx.sleep(1)

    @workflow
    async def borrowing(ctx: Context) -> int:
        return await kept[-1].step(one)

    world.run(leaking)
    with pytest.raises(ExecutionFailed, match=r"ctx\.step was called on a context whose execution was evicted or has ended"):
        world.run(borrowing)


def test_a_context_that_outlives_its_execution_is_refused_outside_of_workflows_too(world: World) -> None:
    @workflow
    async def leaking(ctx: Context) -> None:
        kept.append(ctx)

    world.run(leaking)
    with pytest.raises(WrongVerb, match="context belongs to one run of its workflow"):
        kept[-1].emit(1)


@pytest.mark.perdure(replay=False)
def test_a_gate_that_was_removed_is_passed_by_those_that_remember_it(world: World) -> None:
    @workflow(name="gated")
    async def before(ctx: Context) -> int:
        way = await ctx.version("tax", 2)
        await ctx.listen("go")
        return way

    @workflow(name="gated")
    async def after(ctx: Context) -> int:
        await ctx.removed("version:tax", "version")
        await ctx.listen("go")
        return 3

    run = world.start(before)
    world.restart(after)
    run.send("go")
    assert run.result() == 3


@pytest.mark.perdure(replay=False)
def test_a_gate_that_leads_the_old_way_is_no_difference(world: World) -> None:
    @workflow(name="selling")
    async def before(ctx: Context) -> None:
        await ctx.step(one)
        await ctx.listen("go")

    @workflow(name="selling")
    async def after(ctx: Context) -> None:
        if await ctx.version("tax", 2) >= 2:
            await ctx.step(two)
        await ctx.step("three", two)
        await ctx.listen("go")

    run = world.start(before)
    world.restart(after)
    run.send("go")
    with pytest.raises(NeedsAttention) as parked:
        run.result()
    assert "three" in str(parked.value) and "version:tax" not in str(parked.value)


def test_a_second_event_loop_in_a_workflow_is_refused_with_what_to_do(world: World) -> None:
    elsewhere = asyncio.new_event_loop()
    lock, future = asyncio.Lock(), elsewhere.create_future()

    async def hold() -> None:
        await lock.acquire()
        waiting = asyncio.ensure_future(lock.acquire())  # the lock is bound to its loop once a second task waits for it
        await asyncio.sleep(0)
        waiting.cancel()

    elsewhere.run_until_complete(hold())

    @workflow
    async def runs(ctx: Context) -> None:
        verb = ctx.step(one)
        try:
            asyncio.run(verb)
        finally:
            await verb

    @workflow
    async def awaits(ctx: Context) -> None:
        await future

    @workflow
    async def locks(ctx: Context) -> None:
        await lock.acquire()

    wanted = {
        runs: r"cannot use asyncio.run\(\) or run_until_complete\(\).* Use await, and a step",
        awaits: "cannot use a future or task of another event loop.* Use a step",
        locks: "cannot use a lock, queue or event of another event loop.* Use one that is made in the workflow",
    }
    for misused, says in wanted.items():
        with pytest.raises(ExecutionFailed, match=says):
            world.run(misused)
    elsewhere.close()


def test_a_runtime_error_of_the_workflow_stays_what_it_is(world: World) -> None:
    @workflow
    async def raising(ctx: Context) -> None:
        raise RuntimeError("of the workflow")

    with pytest.raises(ExecutionFailed, match="RuntimeError: of the workflow"):
        world.run(raising)
