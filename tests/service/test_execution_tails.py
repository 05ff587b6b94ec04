"""Claims about tails: what they show of an execution is what a reading of its whole log shows, whatever has happened since the last look."""

from collections.abc import Callable
from typing import Any

import pytest

from perdure import Context, Definition, Retry, step, workflow
from perdure.core.errors import ExecutionFailed, NotFound, StepFailed
from perdure.core.paths import Key
from perdure.service import execution_tails
from perdure.service.execution_graphs import read_graph
from perdure.service.step_traces import read_steps
from perdure.service.store_access import StoreAccess
from perdure.testing import Run, World

broken: list[str] = []


@step(retry=Retry(max=2, wait="1s", jitter=0))
async def work(name: str) -> str:
    if name in broken:
        raise ValueError(name)
    return name


@workflow
async def turns(ctx: Context) -> None:
    """Works in a loop, and forgets what is complete."""
    async for turn in ctx.loop("laps", state=0, keep=2):
        turn.state += 1
        await turn.step("a", work, "a")
        await turn.sleep("9m")
        if turn.state == 8:
            break
    await ctx.step("last", work, "last")


DOCUMENT = {
    "perdure": 1,
    "name": "tail",
    "order": "ports",
    "steps": [
        {"id": "first", "tool": "work", "with": {"name": "first"}, "next": "pause"},
        {"id": "pause", "sleep": "1h", "next": "many"},
        {"id": "many", "do": [{"id": "each", "each": {"in": ["a", "b", "c"]}, "tool": "work", "with": {"name": "@item"}}], "next": "end"},
        {"id": "end", "tool": "work", "with": {"name": "last"}},
    ],
}


def compared(world: World, run: Run[Any]) -> None:
    """What the tail shows is what somebody sees who reads the log anew, and as of its last event."""
    seen = world.call(read_graph(world.access, run.key)), world.call(read_steps(world.access, run.key, None, 0, 100))
    fresh = StoreAccess(world.machine.store)
    assert seen == (world.call(read_graph(fresh, run.key)), world.call(read_steps(fresh, run.key, None, 0, 100)))
    at = seen[0].at
    assert seen == (world.call(read_graph(fresh, run.key, at)), world.call(read_steps(fresh, run.key, at, 0, 100)))


def begun(kind: str) -> Callable[[World], Run[Any]]:
    return {"code": lambda world: world.start(turns), "definition": lambda world: world.start(Definition.of(DOCUMENT, tools=[work]))}[kind]


@pytest.mark.parametrize("kind", ["code", "definition"])
def test_a_tail_shows_what_the_whole_log_does_after_every_step_a_failure_and_a_retry(world: World, kind: str) -> None:
    broken[:] = ["last"]
    run = begun(kind)(world)
    compared(world, run)
    for _ in range(10):
        world.skip("10m")
        compared(world, run)
    with pytest.raises((ExecutionFailed, StepFailed)):
        run.result()
    compared(world, run)
    broken.clear()
    run.retry()
    compared(world, run)
    run.result()
    compared(world, run)


@pytest.mark.parametrize("kind", ["code", "definition"])
def test_what_has_not_changed_is_read_once(world: World, kind: str) -> None:
    run = begun(kind)(world)
    first = world.call(read_graph(world.access, run.key))
    assert world.call(read_graph(world.access, run.key)) is first
    world.skip("2h")
    assert world.call(read_graph(world.access, run.key)) is not first


def test_an_execution_that_is_not_there_leaves_no_tail(world: World) -> None:
    with pytest.raises(NotFound):
        world.call(read_graph(world.access, Key("default", "turns", "none")))
    assert not world.access.tails._kept


def test_the_tails_that_are_kept_are_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution_tails, "KEPT_TAILS_MAX", 2)
    runs = [world.start(turns) for _ in range(4)]
    for run in runs:
        compared(world, run)
    assert [key.id for key in world.access.tails._kept] == [run.key.id for run in runs[-2:]]
    compared(world, runs[0])
