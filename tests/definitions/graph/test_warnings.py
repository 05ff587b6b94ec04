"""What an execution of a definition warns of is a public event of it, the same after a replay."""

import pytest

from perdure import Definition
from perdure.core.paths import Key
from perdure.testing import World

DOCUMENT = {
    "perdure": 1,
    "name": "it",
    "dialect": "token_graph",
    "order": "ports",
    "steps": [
        {
            "id": "a",
            "tool": "SAY",
            "next": [{"when": {"all": [{"ref": "@a.n", "eq": 1}, {"ref": "@self.m.deep", "eq": 5}]}, "to": "b"}, {"when": {"ref": "@a.n", "eq": 1}, "to": "c"}],
        },
        {"id": "b", "sleep": 1},
        {"id": "c", "sleep": 1},
    ],
}


@pytest.mark.parametrize("suspends", [False, True])
def test_a_path_that_is_missing_in_a_condition_of_dialect_004_is_a_warning_event(suspends: bool, caplog: pytest.LogCaptureFixture) -> None:
    with World(always_suspend=suspends) as world:
        run = world.start(Definition.of(DOCUMENT, tools={"SAY": lambda: {"n": 1}}))
        world.skip("1h")
        assert run.status == "completed"
        (warning,) = [event for event in run.events() if event.type == "step.warning"]
        assert warning.subject == "a/~rule"
        assert warning.data == {"warning": "the condition counts as false, because values are missing: @self.m.deep: there is no 'm' among n"}
        assert [line for line in caplog.messages if "counts as false" in line]


def test_a_definition_that_was_started_by_its_name_alone_is_the_one_that_the_engine_has(world: World) -> None:
    caller = Definition.of({"perdure": 1, "name": "caller", "steps": [{"id": "c", "call": "it", "wait": False}]})
    world.use(Definition.of({"perdure": 1, "name": "it", "limits": {"deadline": "30s"}, "steps": [{"id": "s", "sleep": "1m"}]}))
    started = world.run(caller)
    run = world.run_of(Key("default", started["workflow"], started["id"]))
    world.skip("1m")
    assert run.status == "failed" and "deadline" in run.why


def test_a_definition_that_was_started_by_its_name_alone_fails_by_an_input_that_it_does_not_take(world: World) -> None:
    caller = Definition.of({"perdure": 1, "name": "caller", "steps": [{"id": "c", "call": "it", "wait": False}]})
    world.use(Definition.of({"perdure": 1, "name": "it", "input": {"n": {"type": "integer"}}, "steps": [{"id": "s", "sleep": 1}]}))
    started = world.run(caller)
    run = world.run_of(Key("default", started["workflow"], started["id"]))
    assert run.status == "failed" and "bad_input: the input lacks n" in run.why
