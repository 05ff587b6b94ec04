"""Claims about what an execution showed at an event of its log: its state, what it had emitted, and the messages that nothing had received."""

from typing import Any

import pytest

from perdure import Context, step, workflow
from perdure.core import values
from perdure.core.errors import BadValue
from perdure.operations import on_executions
from perdure.service.execution_records import ExecutionRecord
from perdure.testing import Run, World


@step
async def weigh(item: str) -> int:
    return len(item)


@workflow
async def baking(ctx: Context) -> str:
    ctx.set("phase", "mixing")
    ctx.emit("flour")
    await ctx.sleep("1h")
    ctx.set("phase", "resting")
    ctx.emit("water")
    await ctx.listen("go")
    ctx.set("phase", "baked")
    ctx.emit("heat")
    return "bread"


@workflow
async def rounds(ctx: Context) -> None:
    async for turn in ctx.loop("round", state=0, keep=2):
        turn.state += 1
        turn.emit(turn.state)
        await turn.sleep("1m")
        if turn.state == 60:
            break


def baked(world: World) -> tuple[Run[str], int, int]:
    """An execution, and the numbers of its last events when it had rested and when a message had arrived that it did not wait for."""
    run = world.start(baking)
    world.skip("1h")
    rested = len(run._log())
    run.send("weather", "rain")
    rained = len(run._log())
    run.send("go")
    run.result()
    return run, rested, rained


def state(world: World, run: Run[Any], at: int | None) -> dict[str, Any]:
    found = world.call(on_executions.state(world.access, run.key, None, at))
    return {name: values.decode(raw, Any, name) for name, raw in found.items()}


def emitted(world: World, run: Run[Any], at: int | None, after: int = 0) -> list[Any]:
    async def listed() -> list[Any]:
        return [(one.number, one.value, one.dropped) async for one in on_executions.stream(world.access, run.key, after, True, at)]

    return world.call(listed())


def record(world: World, run: Run[Any], at: int | None) -> ExecutionRecord:
    return world.call(on_executions.read(world.access, run.key, at))


def test_the_state_and_the_stream_are_those_of_the_event(world: World) -> None:
    run, rested, rained = baked(world)
    assert [state(world, run, at) for at in (1, rested, rained, None)] == [{"phase": one} for one in ("mixing", "resting", "resting", "baked")]
    assert [len(emitted(world, run, at)) for at in (1, rested, rained, None)] == [1, 2, 2, 3]
    assert emitted(world, run, rested, after=1) == [(2, "water", 0)]
    for wrong in (0, 99):
        for look in (state, emitted):
            with pytest.raises(BadValue, match="of its log"):
                look(world, run, wrong)


def test_messages_that_nothing_had_received_are_those_of_the_event(world: World) -> None:
    run, rested, rained = baked(world)
    assert [record(world, run, at).unread for at in (rested, rained, None)] == [{}, {"weather": 1}, {"weather": 1}]
    assert record(world, run, rained).decoded_result() is None and record(world, run, None).decoded_result() == "bread"
    assert record(world, run, rained).runtime_state.executor.worker_origin is None, "who holds it now says nothing of then"


def test_a_stream_of_the_past_has_what_a_compaction_has_left(world: World) -> None:
    run = world.start(rounds)
    run.result()
    first = world.call(on_executions.log(world.access, run.key)).first
    assert first > 1, "its log was compacted"
    then, now = emitted(world, run, first), emitted(world, run, None)
    assert then == now[: len(then)] and len(then) < len(now) and then[0][2] == then[0][0] - 1
