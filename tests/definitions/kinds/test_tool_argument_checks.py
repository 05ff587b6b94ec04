"""Claims about what steps give to tools, held against what these take before anything runs."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from perdure.code.declarations import Step
from perdure.definition_workflow import tool_steps
from perdure.definitions.format.definition_findings import DefinitionFinding
from perdure.definitions.kinds.config_checks import read_checked
from perdure.definitions.kinds.tool_argument_checks import argument_findings


@dataclass
class Person:
    name: str


def charge(cents: int, to: str = "x", who: list[Person] | None = None) -> int:
    return cents


def note(text: str, **more: Any) -> None: ...


TOOLS: dict[str, Step[Any, Any, Any]] = tool_steps([charge, note])


def found(step: dict[str, Any]) -> list[DefinitionFinding]:
    document = {"perdure": 1, "name": "d", "input": {"n": {"type": "integer"}}, "steps": [{"id": "a", **step}]}
    return [one for one in read_checked(document, tools=TOOLS, more=partial(argument_findings, tools=TOOLS)).findings if one.severity == "warning"]


@pytest.mark.parametrize(
    ("step", "code", "pointer", "said"),
    [
        ({"tool": "charge", "with": {"cents": "5"}}, "bad_argument", "/steps/0/with/cents", '"5" is not of type "integer"'),
        ({"tool": "charge", "with": {"cents": 5, "who": [{"nam": "Ada"}]}}, "bad_argument", "/steps/0/with/who", "'who' of charge"),
        ({"tool": "charge", "with": {"cents": 5, "too": "y"}}, "unknown_argument", "/steps/0/with/too", "did you mean 'to'?"),
        ({"tool": "charge", "with": {"to": "y"}}, "missing_argument", "/steps/0/with", "charge needs 'cents'"),
        ({"tool": "charge"}, "missing_argument", "/steps/0/with", "charge needs 'cents'"),
        ({"tool": "chrge", "with": {"cents": 5}}, "unknown_tool", "/steps/0/tool", "did you mean 'charge'?"),
        ({"tool": "\u202eегрно"}, "unknown_tool", "/steps/0/tool", "there are charge, note"),
    ],
)
def test_what_does_not_fit_is_a_warning_with_its_place(step: dict[str, Any], code: str, pointer: str, said: str) -> None:
    (one,) = found(step)
    assert (one.code, one.pointer) == (code, pointer) and said in one.message


@pytest.mark.parametrize(
    "step",
    [
        {"tool": "charge", "with": {"cents": 5, "who": [{"name": "Ada"}]}},
        {"tool": "charge", "with": {"cents": "@input.n", "who": [{"name": "@{input.n}"}]}},
        {"tool": "charge", "with": "@input"},
        {"tool": "note", "with": {"text": "t", "anything": 5}},
        {"set": {"x": 1}},
    ],
)
def test_what_fits_or_is_known_only_at_run_is_none(step: dict[str, Any]) -> None:
    assert found(step) == []


def test_a_tool_that_describes_itself_by_what_is_no_schema_is_not_held_against_it() -> None:
    class Odd(Step[..., Any, Any]):
        @property
        def codec(self) -> Any:
            return self

        def schema(self) -> dict[str, Any]:
            return {"type": "object", "properties": {"a": {"type": "no type"}, "b": 5}}

    tools = {"odd": Odd(note, name="odd")}
    document = {"perdure": 1, "name": "d", "steps": [{"id": "a", "tool": "odd", "with": {"a": 1, "b": 2}}]}
    assert [one for one in read_checked(document, tools=tools, more=partial(argument_findings, tools=tools)).findings if one.code != "unused"] == []
