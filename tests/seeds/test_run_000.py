"""Seed 000, what it says of definitions at work."""

from typing import Any

import pytest

from perdure import Definition, ExecutionFailed, Step
from perdure.core.errors import BadDefinition
from perdure.testing import World
from tests.seeds.cases import given, made
from tests.seeds.definitions import definition
from tests.seeds.example import Example


def step(name: str, input: Any = None, tool: str = "ECHO", **more: Any) -> dict[str, Any]:
    """A step that calls a tool."""
    return {"name": name, "action": {"toolName": tool}, "input": {} if input is None else input, **more}


def workflow(*steps: dict[str, Any], **does: Any) -> Definition:
    """A workflow of these steps."""
    return made(definition(Example("", {"title": "some", "steps": list(steps)}, False, "")), does)


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ([step("a", {"x": "@b"}), step("b", {"x": "@a"})], "a -> b -> a is a cycle"),
        ([step("a", {"x": "@c"}), step("b", {"x": "@a"}), step("c", when={"ref": "@b.x"})], "is a cycle"),
        ([step("a", {"x": "@a"})], "'a' reads itself"),
    ],
)
def test_what_goes_round_in_references_is_refused(steps: list[dict[str, Any]], why: str) -> None:
    with pytest.raises(BadDefinition, match=why):
        Definition.of({"title": "x", "steps": steps})


def test_steps_begin_together_unless_one_refers_to_another(world: World) -> None:
    world.mock("ECHO", calls=given, takes="10s")
    run = world.start(workflow(step("last", {"x": "@second"}), step("first"), step("second", {"x": "@first"}), step("other")))
    assert [one.path for one in run.steps()] == ["first", "other"]
    world.skip("10s")
    assert [one.path for one in run.steps()] == ["first", "other", "second"]
    world.skip("20s")
    assert run.status == "completed"


def test_an_execution_keeps_the_steps_that_it_was_created_with(world: World) -> None:
    world.mock("ECHO", calls=given, takes="10s")
    run = world.start(workflow(step("a", {"v": 1}), step("b", {"v": "@a.v"})))
    world.restart(workflow(step("a", {"v": 1}), step("b", {"v": "@a.v"}), step("c", {"v": "@b.v"})))
    assert run.result() == {"v": 1}
    assert [one.path for one in run.steps()] == ["a", "b"]


def test_when_all_steps_are_done_it_has_succeeded(world: World) -> None:
    for seconds in (1, 2, 3):
        world.mock(f"step-{seconds}", calls=given, takes=seconds)
    run = world.start(workflow(*(step(f"step-{seconds}") for seconds in (3, 1, 2))))
    world.skip(2.5)
    assert run.status == "running"
    world.skip(0.5)
    assert run.status == "completed"


@pytest.mark.slow
@pytest.mark.perdure(crash_at="every", crashes_max=50)
def test_a_tool_is_called_and_its_result_made_over_by_code(world: World) -> None:
    source = "export default function (input) { return input.items.map(item => `${item}@@here`) }"

    def code(config: str, input: Any) -> Any:
        assert config == source
        return [f"{item}@@here" for item in input["items"]]

    made_over = step("a", {"items": ["x", "y"]}, action={"toolName": "ECHO", "transformCode": source})
    assert world.run(workflow(made_over, step("b", {"of": "@a[1]"}), ts=code)) == {"of": "y@@here"}


def test_the_schema_is_that_of_what_it_is_made_over_into(world: World) -> None:
    made_over = step("a", {"x": 1}, action={"toolName": "ECHO", "transformCode": "input => input.x"}, outputSchema={"type": "integer"})
    assert world.run(workflow(made_over, ts=lambda config, input: input["x"])) == 1
    wrong = made(definition(Example("", {"title": "wrong", "steps": [made_over]}, False, "")), {"ts": lambda config, input: input})
    with pytest.raises(ExecutionFailed, match="the result of a does not fit its schema"):
        world.run(wrong)


def test_code_that_can_not_make_it_over_is_an_error(world: World) -> None:
    document = {"title": "x", "steps": [step("a", action={"toolName": "ECHO", "transformCode": "export default () => x"})]}
    with pytest.raises(ExecutionFailed, match="ReferenceError: x is not defined"):
        world.run(Definition.of(document, tools={"ECHO": given}))


@pytest.mark.parametrize(
    "condition", ["@input.x > 0", "@input.x", True, {"ref": "@input.x", "eq": 1, "gt": 0}, {"eq": 1}, {"ref": "@input.x", "gt": "1"}, {"ref": "x"}]
)
def test_a_condition_of_another_shape_is_refused(condition: Any) -> None:
    with pytest.raises(BadDefinition, match="when"):
        Definition.of({"title": "x", "steps": [step("a", when=condition)]})


@pytest.mark.parametrize(("input", "ran"), [({"x": 0}, ["a"]), ({"x": None}, []), ({}, [])])
def test_exists_is_an_operator_too(world: World, input: dict[str, Any], ran: list[str]) -> None:
    run = world.start(workflow(step("a", when={"ref": "@input.x", "exists": True})), input)
    assert [one.path for one in run.steps() if one.kind == "call"] == ran


def test_a_skipped_step_is_null_and_told_of(world: World) -> None:
    run = world.start(workflow(step("a", when={"ref": "@input.no"}), step("b", {"a": "@a", "deep": "@a.x.y"})))
    assert run.result() == {"a": None, "deep": None}
    assert next((event.type, event.subject) for event in run.events() if event.type.startswith("step.")) == ("step.skipped", "a")


def test_a_workflow_may_call_itself_each_time_in_an_execution_of_its_own(world: World) -> None:
    work = [
        {"id": "do_work", "tool": "ADD", "with": {"n": "@input.n"}},
        {"id": "again", "when": {"ref": "@do_work", "lt": 3}, "call": "loop", "with": {"n": "@do_work"}},
        {"id": "done", "when": {"ref": "@do_work", "gte": 3}, "return": "@do_work"},
    ]
    document = {"perdure": 1, "name": "loop", "dialect": "ref_dag", "input": {"n": {"type": "integer"}}, "steps": work}
    run = world.start(made(document, {"ADD": lambda n: n + 1}), n=0)
    assert run.result() == {"again": {"again": 3}}
    assert [(one.key.workflow, one.status) for one in world.runs] == [("loop", "completed")] * 3


@pytest.mark.parametrize(("action", "bound"), [({"toolName": "T"}, 30), ({"code": "export default () => 1"}, 10)])
def test_a_tool_has_thirty_seconds_and_code_has_ten(world: World, action: dict[str, Any], bound: int) -> None:
    name = "T" if "toolName" in action else "ts"
    once = {"name": "a", "action": action, "config": {"maxAttempts": 1}}
    world.mock(name, calls=lambda **_: 1, takes=bound - 1)
    assert world.run(workflow(once)) == 1
    world.mock(name, calls=lambda **_: 1, takes=bound + 1)
    run = world.start(workflow(once))
    with pytest.raises(ExecutionFailed, match=f"no answer within {bound} s"):
        run.result()


def test_steps_may_be_steps_of_the_app(world: World) -> None:
    assert world.run(Definition.of({"title": "x", "steps": [step("a", {"x": 1}, tool="kept")]}, tools=[Step(given, name="kept")])) == {"x": 1}
