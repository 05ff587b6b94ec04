"""Rules and choices stand for a success, beside the ways of other ports."""

from collections.abc import Callable
from typing import Any

import pytest

from perdure import Definition
from perdure.testing import World
from tests.sampling import some


def definition(success: Any, work: Callable[[], Any]) -> Definition:
    ends = [{"id": id, "tool": "SAY", "with": {"v": id}} for id in ("b", "c", "e")]
    first = {"id": "a", "tool": "WORK", "retry": {"max": 1}, "next": {"success": success, "error": "e"}}
    tools: dict[str, Any] = {"WORK": work, "SAY": lambda v: v}
    return Definition.of({"perdure": 1, "name": "it", "order": "ports", "steps": [first, *ends]}, tools=tools)


def broken() -> Any:
    raise ValueError("no")


@pytest.mark.parametrize(("work", "went"), [(lambda: 2, {"b": "b"}), (lambda: 1, {"c": "c"}), (broken, {"e": "e"})])
def test_rules_say_where_a_success_leads_and_a_failure_leads_elsewhere(world: World, work: Any, went: Any) -> None:
    assert world.run(definition([{"when": {"ref": "@self", "gt": 1}, "to": "b"}, {"to": "c"}], work)) == went


@pytest.mark.parametrize(("work", "went"), [(lambda: ["b"], {"b": "b"}), (lambda: None, {"c": "c"}), (broken, {"e": "e"})])
def test_so_does_what_a_success_may_choose_of(world: World, work: Any, went: Any) -> None:
    assert world.run(definition({"choose": ["b", "c"], "default": "c"}, work)) == went


@pytest.mark.slow
@pytest.mark.parametrize("always_suspend", some([False, True], 1))
@pytest.mark.parametrize(("result", "went"), [(999, {"b": "b"}), (-1, {"c": "c"})])
def test_of_a_thousand_rules_the_last_may_be_the_one_that_holds(always_suspend: bool, result: int, went: Any) -> None:
    rules = [{"when": {"ref": "@self", "eq": number}, "to": "b"} for number in range(1_000)]
    with World(always_suspend=always_suspend) as world:
        assert world.run(definition([*rules, {"to": "c"}], lambda: result)) == went
