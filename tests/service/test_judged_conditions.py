"""Claims about the conditions that a step has judged: their rows with the values of then, whichever rule was taken, in each turn and item."""

from typing import Any

import pytest

from perdure import Context, Definition, step, workflow
from perdure.core.errors import BadValue
from perdure.operations import on_executions
from perdure.service.judged_conditions import SHOWN_MAX, ConditionList
from perdure.testing import Run, World


@step
async def add(n: int = 0, by: int = 1) -> dict[str, int]:
    return {"n": n + by}


@workflow
async def code(ctx: Context) -> int:
    return (await ctx.step("work", add, 1))["n"]


def conditions(world: World, run: Run[Any], path: str, at: int | None = None) -> ConditionList:
    return world.call(on_executions.conditions(world.access, run.key, path, at))


def started(world: World, steps: list[dict[str, Any]], order: str = "listed", **input: Any) -> Run[Any]:
    run = world.start(
        Definition.of({"perdure": 1, "name": "checked", "order": order, "input": {"n": {"type": "integer", "default": 0}}, "steps": steps}, tools=[add]),
        **input,
    )
    run.result()
    return run


def test_a_when_has_the_values_that_it_compared(world: World) -> None:
    big = {"all": [{"ref": "@first.n", "gt": 100_000}, {"ref": "@input.n", "lt": 5}]}
    run = started(world, [{"id": "first", "tool": "add", "with": {"n": 81_999}}, {"id": "big", "when": big, "tool": "add", "with": {}}])
    (found,) = conditions(world, run, "big").items
    assert (found.role, found.path, found.holds, found.text) == ("when", "big", False, "@first.n > 100000 and @input.n < 5")
    assert [(one.left, one.operator, one.right, one.holds) for one in found.rows] == [(82_000, "gt", 100_000, False), (None, "", None, None)]
    assert conditions(world, run, "first") == ConditionList(items=[], total=0)


def test_a_test_and_its_when_are_told_apart(world: World) -> None:
    run = started(world, [{"id": "one", "tool": "add", "with": {}}, {"id": "check", "when": {"ref": "@one.n", "eq": 1}, "test": {"ref": "@one.n", "gt": 5}}])
    assert [(one.role, one.holds, one.rows[0].right) for one in conditions(world, run, "check").items] == [("when", True, 1), ("port", False, 5)]


def test_an_if_does_not_have_the_conditions_of_its_steps(world: World) -> None:
    inner = {"id": "inner", "when": {"ref": "@input.n", "eq": 3}, "tool": "add", "with": {}}
    run = started(world, [{"id": "gate", "if": {"ref": "@input.n", "gte": 3}, "then": [inner]}], n=3)
    assert [(one.role, one.holds) for one in conditions(world, run, "gate").items] == [("port", True)]
    assert [(one.role, one.rows[0].left) for one in conditions(world, run, "gate/inner").items] == [("when", 3)]


def test_rules_say_which_one_was_taken(world: World) -> None:
    rules = [{"when": {"ref": "@self.n", "gt": 5}, "to": "end"}, {"when": {"ref": "@self.n", "gt": 0}, "to": "end"}, {"to": "other"}]
    steps: list[dict[str, Any]] = [
        {"id": "work", "tool": "add", "with": {"n": 1}, "next": rules},
        {"id": "end", "tool": "add", "with": {}},
        {"id": "other", "tool": "add", "with": {}},
    ]
    run = started(world, steps, "ports")
    found = conditions(world, run, "work").items
    assert [(one.role, one.number, one.holds, one.is_taken, one.rows[0].left) for one in found] == [("rule", 1, False, False, 2), ("rule", 2, True, True, 2)]


def test_a_loop_has_its_condition_in_each_turn(world: World) -> None:
    again: dict[str, Any] = {"while": {"ref": "@self.n", "lt": 4}, "max": 200}
    run = started(world, [{"id": "count", "tool": "add", "with": {"n": "@loop.index"}, "repeat": again}])
    found = conditions(world, run, "count")
    assert [(one.role, one.rows[0].left, one.holds) for one in found.items] == [("again", n, n < 4) for n in range(1, 5)]
    assert [one.rows[0].left for one in conditions(world, run, "count/~2").items] == [3]


def test_of_many_turns_the_last_are_listed(world: World) -> None:
    again: dict[str, Any] = {"while": {"ref": "@self.n", "lt": 120}, "max": 500}
    run = started(world, [{"id": "count", "tool": "add", "with": {"n": "@loop.index"}, "repeat": again}])
    found = conditions(world, run, "count")
    assert (found.total, len(found.items), found.items[-1].rows[0].left) == (120, SHOWN_MAX, 120)


def test_what_is_judged_in_a_turn_has_the_values_of_that_turn(world: World) -> None:
    steps = [{"id": "each", "each": {"in": [1, 20, 3]}, "do": [{"id": "big", "when": {"ref": "@item", "gt": 5}, "tool": "add", "with": {"n": "@item"}}]}]
    run = started(world, steps)
    paths = [one.path for one in world.call(on_executions.passages(world.access, run.key, "big")).items]
    assert [conditions(world, run, path).items[0].rows[0].left for path in paths] == [1, 20, 3]


def test_before_its_moment_there_is_none(world: World) -> None:
    run = started(world, [{"id": "first", "tool": "add", "with": {}}, {"id": "second", "when": {"ref": "@first.n", "eq": 1}, "tool": "add", "with": {}}])
    with pytest.raises(BadValue, match="has begun by then"):
        conditions(world, run, "second", at=1)
    assert conditions(world, run, "second").total == 1


@pytest.mark.parametrize("path", ["nowhere", "", "~"])
def test_a_step_that_is_not_there_is_refused(world: World, path: str) -> None:
    with pytest.raises(BadValue, match="path"):
        conditions(world, started(world, [{"id": "first", "tool": "add", "with": {}}]), path)


def test_code_has_no_conditions(world: World) -> None:
    run = world.start(code)
    run.result()
    with pytest.raises(BadValue, match="definition"):
        conditions(world, run, "work")
