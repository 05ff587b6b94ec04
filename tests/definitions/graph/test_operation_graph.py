"""The graph of an execution of code: what followed what, what ran side by side, and what is inside of what."""

import asyncio
from itertools import pairwise

import pytest

from perdure import Context, Retry, StepFailed, step, workflow
from perdure.core.errors import BadValue, NotFound
from perdure.core.paths import Key
from perdure.definitions.graph import graph_drawing, operation_graph
from perdure.definitions.graph.operation_graph import OperationGraph
from perdure.definitions.graph.shown_graph import shown_graph
from perdure.service.past_states import read_past
from perdure.testing.runs import Run
from perdure.testing.world import World


@step(retry=Retry(max=2, wait="1s"))
async def work(name: str) -> str:
    if name == "bad":
        raise ValueError(name)
    return name


@workflow
async def in_sequence(ctx: Context) -> None:
    await ctx.step("one", work, "one")
    ctx.emit("note")
    ctx.set("phase", "two")
    await ctx.sleep("1h")
    await ctx.step("two", work, "two")


@workflow
async def side_by_side(ctx: Context) -> None:
    await ctx.step("before", work, "before")
    await asyncio.gather(*(ctx.step(name, work, name) for name in ("a", "b", "c")))
    await ctx.step("after", work, "after")


@workflow
async def in_blocks(ctx: Context) -> None:
    async def left(c: Context) -> None:
        await c.step("first", work, "first")
        await c.step("second", work, "second")

    async def right(c: Context) -> None:
        await c.listen("never")

    await ctx.join(left=left, right=right)


@workflow
async def fails(ctx: Context) -> None:
    try:
        await ctx.step("bad", work, "bad")
    except StepFailed:
        await ctx.approve("Continue?")


def graph_of(world: World, run: Run[None], number: int | None = None) -> OperationGraph:
    return operation_graph.operation_graph(world.call(read_past(world.access.store, run.key, number)).fold())


def follows(graph: OperationGraph) -> list[tuple[str, str]]:
    """The edges, by the paths of their ends."""
    return [(graph.ir.nodes[edge.source].id, graph.ir.nodes[edge.target].id) for edge in graph.ir.edges]


@pytest.fixture
def slow(world: World) -> World:
    """A world in which the step takes a second."""
    world.mock(work, calls=work.fn, takes="1s")
    return world


def test_each_operation_follows_the_one_before(slow: World) -> None:
    run = slow.start(in_sequence)
    slow.skip("2h")
    graph = graph_of(slow, run)
    paths = [node.id for node in graph.ir.nodes]
    assert paths[0] == "one" and paths[-1] == "two" and len(paths) == 5
    assert follows(graph) == list(pairwise(paths))
    assert set(graph.states.values()) == {"completed"} and graph.taken == frozenset(range(4))


def test_operations_that_overlap_stand_side_by_side(slow: World) -> None:
    run = slow.start(side_by_side)
    slow.skip("1m")
    around = [pair for name in "abc" for pair in (("before", name), (name, "after"))]
    assert sorted(follows(graph_of(slow, run))) == sorted(around)


def test_branches_are_blocks_with_the_state_of_what_is_open_in_them(slow: World) -> None:
    run = slow.start(in_blocks)
    slow.skip("1m")
    graph = graph_of(slow, run)
    inside = {node.id: [graph.ir.nodes[number].id for body in node.bodies for number in graph.ir.regions[body].nodes] for node in graph.ir.nodes}
    assert inside["join"] == ["join/left", "join/right"] and inside["join/left"] == ["join/left/first", "join/left/second"]
    assert follows(graph) == [("join/left/first", "join/left/second")]
    assert (graph.states["join/left"], graph.states["join/right"], graph.states["join"]) == ("completed", "waiting", "waiting")


def test_failures_attempts_and_approvals_are_seen_in_every_format(slow: World) -> None:
    run = slow.start(fails)
    slow.skip("1m")
    graph = graph_of(slow, run)
    assert list(graph.states.values()) == ["failed", "waiting_approval"]
    text = graph_drawing.text_drawing(shown_graph(graph.ir, graph.states, graph.taken))
    assert text.splitlines()[0] == f"fails/{run.id}  2 steps" and "2 attempts" in text and "(waiting for approval)" in text
    assert "==>" in graph_drawing.mermaid_drawing(shown_graph(graph.ir, graph.states, graph.taken))
    assert "2 attempts" in graph_drawing.svg_drawing_of(shown_graph(graph.ir, graph.states, graph.taken))


def test_at_an_event_it_is_as_it_was_then(slow: World) -> None:
    run = slow.start(in_sequence)
    slow.skip("2h")
    then = graph_of(slow, run, 2)
    assert then.states == {"one": "performing"} and follows(then) == []
    with pytest.raises(BadValue, match="one of its log, 1 to"):
        graph_of(slow, run, 1_000)
    with pytest.raises(NotFound):
        slow.call(read_past(slow.access.store, Key("default", "in_sequence", "none")))


def test_a_large_execution_is_drawn_in_time(slow: World) -> None:
    @workflow
    async def many(ctx: Context) -> None:
        for turn in range(4):
            await asyncio.gather(*(ctx.step(f"s{turn}_{number}", work, "x") for number in range(100)))

    run = slow.start(many)
    slow.skip("1h")
    graph = graph_of(slow, run)
    assert len(graph.ir.nodes) == 400 and len(graph.ir.edges) == 3 * 100 * operation_graph.EDGES_MAX
    assert "and 100 more" in graph_drawing.text_drawing(shown_graph(graph.ir, graph.states, graph.taken))
