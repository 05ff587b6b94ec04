"""Claims about graphs as data and about the attempts of steps: of definitions and of code, now and as they were."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from perdure import Context, Retry, StepFailed, step, workflow
from perdure.core.errors import BadValue
from perdure.core.step_attempts import StepAttempt
from perdure.definition_workflow import Definition
from perdure.definitions.graph.shown_graph import ShownGraph, ShownNode
from perdure.service.execution_graphs import read_graph
from perdure.service.step_traces import StepTrace, read_steps
from perdure.testing.runs import Run
from perdure.testing.world import World


@step(retry=Retry(max=2, wait="1s", jitter=0))
async def work(name: str) -> str:
    if name == "bad":
        raise ValueError(name)
    return name


@workflow
async def racing(ctx: Context) -> None:
    with suppress(StepFailed):
        await ctx.step("bad", work, "bad")
    await ctx.race(fast=branch_of("fast"), never=waits)
    await ctx.step("end", work, name="end")


def branch_of(name: str) -> Any:
    async def inside(c: Context) -> None:
        await c.sleep("10s")

    return inside


async def waits(c: Context) -> None:
    await c.step("slow", slow)


@step
async def slow() -> None:
    await asyncio.sleep(3600)


DOCUMENT = {
    "perdure": 1,
    "name": "tale",
    "version": "1.2.0",
    "order": "ports",
    "input": {"cents": {"type": "integer"}},
    "steps": [
        {"id": "small", "test": {"ref": "@input.cents", "lt": 100}, "next": {"true": "pay", "false": "ask"}},
        {"id": "ask", "approve": {"title": "Pay?"}, "next": "pay"},
        {"id": "pay", "do": [{"id": "each", "each": {"in": ["a", "b"]}, "tool": "work", "with": {"name": "@item"}}]},
    ],
}


def graph_of(world: World, run: Run[Any], at: int | None = None) -> ShownGraph:
    return world.call(read_graph(world.access, run.key, at))


def steps_of(world: World, run: Run[Any], at: int | None = None) -> list[StepTrace]:
    return world.call(read_steps(world.access, run.key, at, 0, 100)).items


def nodes_by_id(graph: ShownGraph) -> dict[str, ShownNode]:
    return {node.id: node for node in graph.nodes}


def attempts_of(step: StepTrace) -> list[tuple[int, str, float | None]]:
    return [(one.number, one.state, None if one.ended_at_s is None else one.ended_at_s - one.started_at_s) for one in step.attempts]


def test_a_call_has_each_of_its_attempts_with_its_error(world: World) -> None:
    run = world.start(racing)
    run.result()
    found = {step.path: step for step in steps_of(world, run)}
    assert attempts_of(found["bad"]) == [(1, "failed", 0.0), (2, "failed", 0.0)]
    assert [one.error and one.error.message for one in found["bad"].attempts] == ["bad", "bad"]
    assert found["bad"].attempts[0].next_at_s == found["bad"].attempts[1].started_at_s == found["bad"].attempts[0].started_at_s + 1
    (dropped,) = [step for path, step in found.items() if path.endswith("slow")]
    assert (dropped.state, dropped.seed_status, [one.state for one in dropped.attempts]) == ("abandoned", "failed", ["abandoned"])
    assert found["end"].attempts == [StepAttempt(1, "completed", found["end"].started_at_s, found["end"].ended_at_s, found["end"].attempts[0].by)]


def test_the_graph_of_code_is_that_of_its_operations_as_of_any_event(world: World) -> None:
    run = world.start(racing)
    run.result()
    whole = graph_of(world, run)
    nodes = nodes_by_id(whole)
    assert whole.definition == "" and (nodes["bad"].attempts, nodes["bad"].state) == (2, "failed")
    assert nodes["end"].started_at_s == nodes["bad"].started_at_s + 11  # type: ignore[operator]  # it has begun
    assert all(node.block in nodes or node.block == "" for node in whole.nodes) and all(edge.is_taken for edge in whole.edges)
    last = whole.at
    sizes = [len(graph_of(world, run, at).nodes) for at in range(1, last + 1)]
    assert sizes == sorted(sizes) and sizes[-1] == len(whole.nodes)
    with pytest.raises(BadValue, match=f"1 to {last}"):
        graph_of(world, run, last + 1)


def test_the_graph_of_a_definition_is_its_plan_with_what_has_happened(world: World) -> None:
    run = world.start(Definition.of(DOCUMENT, tools=[work]), cents=500)
    run.approve(by="ada")
    run.result()
    whole = graph_of(world, run)
    nodes = nodes_by_id(whole)
    assert [(one.id, one.kind, one.block, one.state, one.attempts) for one in whole.nodes] == [
        ("small", "test", "", "completed", 0),
        ("ask", "approve", "", "completed", 0),
        ("pay", "do", "", "completed", 0),
        ("each", "tool", "pay", "completed", 2),
    ]
    taken = {(edge.source, edge.target): edge.is_taken for edge in whole.edges}
    assert taken == {("small", "pay"): False, ("small", "ask"): True, ("ask", "pay"): True}
    assert nodes["ask"].passages == 1 and nodes["ask"].detail == "approve Pay?" and whole.definition.startswith("sha256:")
    before = nodes_by_id(graph_of(world, run, 1))
    assert [before[name].state for name in ("ask", "pay", "each")] == ["waiting_approval", "not_reached", "not_reached"]
    assert [one.state for one in steps_of(world, run, 1)] == ["completed", "waiting_approval"]
