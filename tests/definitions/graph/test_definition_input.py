"""Claims about the input of a definition: what it does not take is refused before there is an execution, and fails one that was started all the same."""

from typing import Any

import pytest

from perdure import Definition, ExecutionFailed
from perdure.core import values
from perdure.core.errors import BadValue
from perdure.core.paths import Key
from perdure.service import execution_operations
from perdure.service.execution_operations import StartRequest
from perdure.testing.immediate_calls import run_immediately
from perdure.testing.world import World

DOCUMENT = {
    "perdure": 1,
    "name": "echo",
    "input": {"who": {"type": "string"}, "n": {"type": "integer", "default": 1}},
    "steps": [{"id": "a", "set": {"b": "@input.who"}}],
    "output": "@a.b",
}

WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "the input lacks who; echo takes n, who"),
    ({"who": 5}, "input who:"),
    ({"who": "ada", "n": "five"}, "input n:"),
]


@pytest.mark.parametrize(("given", "why"), [*WRONG, ({"who": "ada", "hwo": 1}, "there is no input 'hwo', did you mean 'who'")])
def test_what_a_definition_does_not_take_is_refused_before_there_is_an_execution(world: World, given: dict[str, Any], why: str) -> None:
    echo = Definition.of(DOCUMENT)
    with pytest.raises(BadValue, match=why):
        world.start(echo, **given)
    with pytest.raises(BadValue, match=why):
        echo.with_(db="memory:").run(**given)
    assert world.runs == []


@pytest.mark.parametrize(("given", "why"), WRONG)
def test_what_was_started_without_its_definition_at_hand_fails_before_anything_is_done(world: World, given: dict[str, Any], why: str) -> None:
    echo = Definition.of(DOCUMENT)
    world.use(echo)
    start = StartRequest(
        key=Key("default", "echo", "1"), input=values.encode(((), given), "the input"), version=echo.graph.version, definition=echo.graph.definition
    )
    run_immediately(execution_operations.start_execution(world.access, start))
    run = world.run_of(start.key)
    with pytest.raises(ExecutionFailed, match=f"bad_input: ({why})"):
        run.result()
    assert [step.path for step in run.steps()] == ["~input"]


def test_defaults_and_one_mapping_are_taken(world: World) -> None:
    echo = Definition.of(DOCUMENT)
    assert world.run(echo, {"who": "ada"}) == world.run(echo, who="ada", n=2) == "ada"
