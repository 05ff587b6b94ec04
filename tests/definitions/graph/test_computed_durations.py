"""A duration may be what an expression in CEL comes to wherever it may be a reference; elsewhere the expression is refused with its place."""

from typing import Any

import pytest

from perdure import Definition
from perdure.core.errors import BadDefinition
from perdure.core.operations import ReceiveOperation, SleepOperation
from perdure.definitions.format.canonical_form import canonical_document
from perdure.definitions.format.definition_edits import with_renamed_steps
from perdure.definitions.format.definition_findings import value_at_pointer
from perdure.testing import World
from tests.definitions.graph.field_effects import log_of, say
from tests.definitions.graph.semantics.table import folded

FIVE: Any = {"expr": "first.seconds + 3"}
"""What comes to 5 s of what the step before has found."""


def document(second: dict[str, Any]) -> dict[str, Any]:
    return {"perdure": 1, "name": "it", "steps": [{"id": "first", "set": {"seconds": 2}}, {"id": "second", "needs": ["first"], **second}]}


PLACES: dict[str, Any] = {
    "/steps/1/sleep": lambda value: {"sleep": value},
    "/steps/1/listen/timeout": lambda value: {"listen": {"names": ["nothing"], "timeout": value}},
    "/steps/1/listen/gather": lambda value: {"listen": {"names": ["go"], "limit": 5, "gather": value}},
    "/steps/1/approve/timeout": lambda value: {"approve": {"title": "?", "timeout": value}},
    "/steps/1/approve/remind": lambda value: {"approve": {"title": "?", "remind": value}},
    "/steps/1/approve/escalate": lambda value: {"approve": {"title": "?", "escalate": value, "escalate_to": ["ada"]}},
    "/steps/1/repeat/delay": lambda value: {"set": {"x": 1}, "repeat": {"until": {"expr": "index == 2"}, "max": 9, "delay": value}},
}


@pytest.mark.parametrize("pointer", PLACES)
def test_a_duration_that_an_expression_makes_is_as_the_same_one_written_down(pointer: str) -> None:
    written, computed = (document(PLACES[pointer](value)) for value in (5, FIVE))
    assert log_of(computed).replace("Blob()", "") == log_of(written).replace("Blob()", "")
    assert value_at_pointer(canonical_document(computed), pointer) == FIVE
    assert value_at_pointer(canonical_document(with_renamed_steps(computed, {"first": "found"})), pointer) == {"expr": "found.seconds + 3"}


def test_an_expression_that_makes_no_duration_fails_its_step_by_name() -> None:
    definition = Definition.of(document({"sleep": {"expr": "'soon'"}}), tools={"SAY": say})
    with World() as world:
        run = world.start(definition)
        world.skip("1s")
        assert run.status == "failed" and "'soon' is not a duration" in str(folded(world, run).ended)


REFUSED: dict[str, Any] = {
    "/steps/1/timeout": {"tool": "SAY", "timeout": FIVE},
    "/steps/1/grace": {"tool": "SAY", "grace": FIVE},
    "/steps/1/retry/wait": {"tool": "SAY", "retry": {"wait": FIVE}},
    "/steps/1/retry/max_wait": {"tool": "SAY", "retry": {"max_wait": FIVE}},
    "/steps/1/undo/timeout": {"tool": "SAY", "undo": {"tool": "SAY", "timeout": FIVE}},
    "/steps/1/task/heartbeat": {"task": {"type": "work", "heartbeat": FIVE}},
    "/steps/1/agent/budget/wall": {"agent": {"prompt": "?", "budget": {"wall": FIVE}}},
}


@pytest.mark.parametrize("pointer", REFUSED)
def test_an_expression_where_no_reference_may_stand_is_refused_with_its_place(pointer: str) -> None:
    with pytest.raises(BadDefinition, match=r"no expression is allowed here.*write seconds, or text such as '30s'") as refused:
        Definition.of(document(REFUSED[pointer]), tools={"SAY": say})
    assert [(one.code, one.pointer) for one in refused.value.findings] == [("not_constant", pointer)]


def test_what_the_steps_wait_for_is_what_the_expression_came_to() -> None:
    for value, op in (({"sleep": FIVE}, SleepOperation(5.0)), ({"listen": {"names": ["go"], "timeout": FIVE}}, ReceiveOperation(("go",), 1, False, 5.0))):
        with World() as world:
            run = world.start(Definition.of(document(value)))
            world.skip("1s")
            assert [pending.op for pending in folded(world, run).open.values()] == [op]
