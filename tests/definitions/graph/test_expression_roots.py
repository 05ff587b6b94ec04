"""What stands at the beginning: the input, held against what the definition takes, and the variables."""

from typing import Any

import pytest

from perdure import Definition, ExecutionFailed
from perdure.testing import World


def definition(**more: Any) -> Definition:
    document = {"perdure": 1, "name": "it", "steps": [{"id": "say", "tool": "SAY", "with": {"v": "@vars.a"}}], **more}
    return Definition.of(document, tools={"SAY": lambda v: v})


@pytest.mark.parametrize(("given", "found"), [("@@all", "@all"), ("@input.x", 7), ("no. @{input.x}", "no. 7"), ([1, {"b": "@input.x"}], [1, {"b": 7}])])
def test_variables_may_refer_to_the_input(world: World, given: Any, found: Any) -> None:
    assert world.run(definition(vars={"a": given}, input={"x": {"type": "integer"}}), x=7) == found


def test_a_variable_that_can_t_be_made_fails_the_execution_and_says_why(world: World) -> None:
    run = world.start(definition(vars={"a": "@input.x.y"}, input={"x": {"type": "object"}}), x={})
    with pytest.raises(ExecutionFailed, match="y"):
        run.result()
