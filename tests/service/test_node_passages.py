"""Claims about the passages of one node: each time that it began, in order, with its turn, its state and its times."""

from typing import Any

import pytest

from perdure import Context, Definition, step, workflow
from perdure.core.errors import BadValue
from perdure.operations import on_executions
from perdure.service.node_passages import PassagePage
from perdure.testing import Run, World


@step
async def work(n: int) -> dict[str, int]:
    return {"n": n}


@workflow
async def turns(ctx: Context) -> None:
    async for turn in ctx.loop("laps", state=0, keep=50):
        turn.state += 1
        await turn.step("inside", work, turn.state)
        if turn.state == 5:
            break
    await ctx.step("after", work, 0)


DOCUMENT = {
    "perdure": 1,
    "name": "rounds",
    "order": "ports",
    "steps": [
        {"id": "count", "set": {"n": 0}, "next": "work"},
        {
            "id": "work",
            "tool": "work",
            "with": {"n": 1},
            "next": [{"when": {"ref": "@work.n", "gt": 5}, "to": "end"}, {"to": "work", "max": 3, "on_max": "end"}],
        },
        {"id": "end", "tool": "work", "with": {"n": 2}},
    ],
}


def passages(world: World, run: Run[Any], node: str, **options: Any) -> PassagePage:
    return world.call(on_executions.passages(world.access, run.key, node, **options))


def test_the_passages_of_code_are_those_of_all_turns(world: World) -> None:
    run = world.start(turns)
    run.result()
    found = passages(world, run, "laps/~2/inside")
    assert [(one.number, one.turns, one.state, one.attempts) for one in found.items] == [(n + 1, [n], "completed", 1) for n in range(5)]
    assert (found.total, found.next) == (5, None) and [one.path for one in found.items][3] == "laps/~3/inside"
    assert [one.path for one in passages(world, run, "after").items] == ["after"]
    second = passages(world, run, "laps/~2/inside", after=2, limit=2)
    assert ([one.number for one in second.items], second.next, second.total) == ([3, 4], 4, 5)
    assert passages(world, run, "laps/~0/inside", at=1).total == 1


def test_a_node_of_a_definition_has_each_of_its_passages(world: World) -> None:
    run = world.start(Definition.of(DOCUMENT, tools=[work]))
    run.result()
    found = passages(world, run, "work")
    assert found.total == len({one.path for one in found.items}) > 1 and {one.state for one in found.items} == {"completed"}
    graph = world.call(on_executions.graph(world.access, run.key))
    (node,) = [one for one in graph.nodes if one.id == "work"]
    assert (node.passages, node.path) == (found.total, found.items[-1].path)
    assert passages(world, run, "end").total == 1


def test_a_node_that_is_not_there_is_refused(world: World) -> None:
    code, definition = world.start(turns), world.start(Definition.of(DOCUMENT, tools=[work]))
    for run in (code, definition):
        for wrong in ("nowhere", "", "~"):
            with pytest.raises(BadValue, match="node"):
                passages(world, run, wrong)
