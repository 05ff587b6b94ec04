"""Claims about what code is likely to do next: it is drawn from earlier executions alone, only where all of them agree, and says from how many."""

from typing import Any

from perdure import Context, step, workflow
from perdure.definitions.graph.shown_graph import LeftWay, ShownGraph
from perdure.service.execution_graphs import read_graph
from perdure.testing import Run, World


@step
async def work(name: str) -> str:
    return name


@workflow
async def steady(ctx: Context) -> None:
    await ctx.step("first", work, "a")
    await ctx.listen("go", name="go")
    ctx.set("seen", True)
    await ctx.join(a=inside, b=inside, name="both")
    await ctx.step("last", work, "b")


@workflow
async def unsteady(ctx: Context) -> None:
    way: str = await ctx.listen("go", name="go")
    await ctx.step(way, work, "a")
    await ctx.listen("end", name="end")
    await ctx.step("last", work, "b")


@workflow
async def repeated(ctx: Context, times: int) -> None:
    for _ in range(times):
        await ctx.step(work, "a")


async def inside(c: Context) -> None:
    await c.step(work, "c")


def graph(world: World, run: Run[Any], at: int | None = None) -> ShownGraph:
    return world.call(read_graph(world.access, run.key, at))


def ghosts(shown: ShownGraph) -> list[str]:
    return [node.id for node in shown.nodes if node.state == "not_reached"]


def completed(world: World, flow: Any, *bodies: str) -> None:
    for body in bodies:
        run = world.start(flow)
        run.send("go", body)
        if flow is unsteady:
            run.send("end")
        run.result()


def test_steps_that_all_earlier_executions_did_are_shown_as_not_reached(world: World) -> None:
    completed(world, steady, "x", "x", "x")
    run = world.start(steady)
    shown = graph(world, run)
    assert ghosts(shown) == ["both", "last"] and shown.drawn_from == 3
    assert [(edge.source, edge.target) for edge in shown.edges if not edge.is_taken] == [("go", "both"), ("both", "last")]
    assert ghosts(graph(world, run, 1)) == [], "of a past, only what had happened is shown"
    run.send("go", "x")
    run.result()
    over = graph(world, run)
    assert (ghosts(over), over.drawn_from) == ([], 0)


def test_where_too_little_is_known_nothing_is_shown(world: World) -> None:
    completed(world, steady, "x", "x")
    shown = graph(world, world.start(steady))
    assert (ghosts(shown), shown.drawn_from) == ([], 0)


def test_only_what_all_agree_on_is_shown(world: World) -> None:
    completed(world, unsteady, "left", "right", "left")
    assert ghosts(graph(world, world.start(unsteady))) == ["end", "last"]


def test_an_execution_that_goes_another_way_than_all_before_has_no_plan_and_says_where_it_left_theirs(world: World) -> None:
    completed(world, unsteady, "left", "left", "right", "left")
    run = world.start(unsteady)
    assert ghosts(graph(world, run)) == ["end", "last"] and graph(world, run).left_way is None
    run.send("go", "middle")
    shown = graph(world, run)
    assert run.status == "waiting" and ghosts(shown) == []
    assert shown.left_way == LeftWay(node="middle", examples=4, instead={"left": 3, "right": 1})
    assert graph(world, run, 1).left_way is None, "of a past, only what had happened is shown"
    run.send("end")
    run.result()
    assert graph(world, run).left_way == shown.left_way, "one that has ended is no example for itself"


def test_a_step_that_is_repeated_more_often_is_no_other_way(world: World) -> None:
    for times in (1, 1, 1):
        world.start(repeated, times).result()
    run = world.start(repeated, 3)
    run.result()
    assert graph(world, run).left_way is None


def test_of_too_few_executions_none_has_a_way_that_could_be_left(world: World) -> None:
    completed(world, unsteady, "left", "left")
    run = world.start(unsteady)
    run.send("go", "middle")
    assert graph(world, run).left_way is None
