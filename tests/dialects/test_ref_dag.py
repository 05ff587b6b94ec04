"""Seed 000: what its references mean, what is wrong in a document, and what is written again."""

from typing import Any

import pytest

from perdure.dialects.foreign_document import ForeignDefinition
from perdure.dialects.ref_dag import document_reader, document_writer


def made(*steps: dict[str, Any]) -> ForeignDefinition:
    """What steps are read as."""
    return document_reader.to_definition({"title": "x", "steps": list(steps)})


def tool(name: str, given: Any = None, **fields: Any) -> dict[str, Any]:
    """A step that calls a tool."""
    return {"name": name, "action": {"toolName": "T"}, **({} if given is None else {"input": given}), **fields}


def codes(found: ForeignDefinition) -> list[str]:
    """What is wrong."""
    return [one.code for one in found.findings]


@pytest.mark.parametrize(
    ("text", "template"),
    [
        ("@input", "@input"),
        ("@input.user.name", "@input.user.name"),
        ("@a.items[0][1]", "@a.items[0][1]"),
        ("@a.0.x", "@a[0].x"),
        ("@a.first-name", "@a.first-name"),
        ("@get-user.id", "@get-user.id"),
        ("@inputData.x", "@inputData.x"),
        ("@fetch user.x", '@steps["fetch user"].output.data.x'),
        ("@ctx.execution_id", "@execution.id"),
        ("Dear @input.name,", "Dear @{input.name},"),
        ("@input.first @input.last.", "@{input.first} @{input.last}."),
        ("@input.name's", "@{input.name}'s"),
        ("mail ops@example.com", "mail ops@example.com"),
        ("@nobody, hello", "@@nobody, hello"),
        ("a @{b} @@c", "a @@{b} @@@c"),
        ("id: @a.x@@input.y", "id: @{a.x}@@@{input.y}"),
        ("@item.x", "@item.x"),
    ],
)
def test_text_becomes_a_template(text: str, template: str) -> None:
    found = made(tool("a"), tool("get-user"), tool("inputData"), tool("fetch user"), tool("b", {"t": text}, forEach={"ref": "@input.x"}))
    assert found.document["steps"][-1]["with"] == {"t": template}
    assert codes(found) in ([], ["reference_in_word"])


@pytest.mark.parametrize("text", ["@item", "@item.email", "number @index"])
def test_an_item_outside_of_for_each_is_an_error(text: str) -> None:
    found = made(tool("a", {"x": text}))
    assert codes(found) == ["item_outside_each"]
    assert found.findings[0].pointer == "/steps/0/input/x"
    assert codes(made(tool("a", {"x": text}, forEach={"ref": "@input.all"}))) == []


@pytest.mark.parametrize(
    ("step", "code"),
    [
        (tool("a", when={"ref": "@input.x", "eq": 1, "gt": 0}), "one_operator"),
        (tool("a", when={"ref": "@input.x", "gt": "1"}), "wrong_type"),
        (tool("a", when={"eq": 1}), "missing_field"),
        (tool("a", when={"ref": "input.x"}), "bad_reference"),
        (tool("a", when="@input.x"), "wrong_type"),
        ({"name": "a", "action": {}}, "one_action"),
        ({"name": "a", "action": {"toolName": "T", "code": "c"}}, "one_action"),
        ({"name": "a", "action": {"return": False}}, "wrong_type"),
        ({"action": {"toolName": "T"}}, "missing_field"),
        (tool("a", config={"onError": "shrug"}), "unknown_value"),
        (tool("a", forEach={}), "missing_field"),
        (tool("a", {"x": "@ctx.user"}), "unknown_reference"),
    ],
)
def test_what_is_wrong_is_an_error(step: dict[str, Any], code: str) -> None:
    assert [one.code for one in made(step).findings if one.severity == "error"] == [code]


def test_a_step_called_as_a_root_gets_another_name_that_references_follow() -> None:
    found = made(tool("error"), tool("b", {"x": "@error.y", "t": "see @error.y"}))
    assert [step["id"] for step in found.document["steps"]] == ["error_", "b"]
    assert found.document["steps"][1]["with"] == {"x": "@error_.y", "t": "see @{error_.y}"}
    assert codes(found) == ["renamed_id"]


def test_two_steps_of_one_name_are_an_error_and_kept_apart() -> None:
    found = made(tool("a"), tool("a"))
    assert codes(found) == ["duplicate_id"]
    assert len({step["id"] for step in found.document["steps"]}) == 2


def test_input_that_is_not_required_is_null_when_it_is_left_out() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "number"}, "c": {"default": 1}}, "required": ["a", "d"]}
    found = document_reader.to_definition({"title": "x", "steps": [tool("a")], "input_schema": schema})
    assert found.document["input"] == {"a": {"type": "string"}, "b": {"type": "number", "default": None}, "c": {"default": 1}, "d": {}}


def test_what_the_seed_has_no_words_for_is_not_written() -> None:
    head = {"perdure": 1, "name": "x", "dialect": "ref_dag"}
    for step in (
        {"id": "a", "tool": "T", "timeout": 30, "repeat": {"until": {"ref": "@self.ok"}, "max": 3}},
        {"id": "a", "tool": "T"},
        {"id": "a", "tool": "T", "timeout": 30, "when": {"all": [{"ref": "@input.x"}]}},
        {"id": "a", "tool": "T", "timeout": 30, "with": {"x": "@vars.y"}},
        {"id": "a", "sleep": 3},
    ):
        found = document_writer.from_definition({**head, "steps": [step]})
        assert found.document is None
        assert found.findings


def test_a_definition_of_another_dialect_is_written_with_a_warning() -> None:
    found = document_writer.from_definition({"perdure": 1, "name": "x", "steps": [{"id": "a", "tool": "T", "timeout": 30, "with": {"x": "@input.y"}}]})
    assert found.document == {"title": "x", "steps": [{"name": "a", "action": {"toolName": "T"}, "input": {"x": "@input.y"}}]}
    assert [one.code for one in found.findings] == ["other_dialect"]
