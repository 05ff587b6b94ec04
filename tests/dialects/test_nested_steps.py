"""Seed 001: what its names mean, and what is written again."""

from typing import Any

import pytest

from perdure.dialects.foreign_document import ForeignDefinition
from perdure.dialects.nested_steps import document_reader, document_writer


def made(*steps: dict[str, Any], **fields: Any) -> ForeignDefinition:
    """What steps are read as."""
    return document_reader.to_definition({"name": "x", "steps": list(steps), **fields})


def tool(**fields: Any) -> dict[str, Any]:
    """A step that calls a tool."""
    return {"type": "tool", "tool": "T", **fields}


@pytest.mark.parametrize(
    ("condition", "row"),
    [
        (True, True),
        ("true", True),
        ({"variable": "v", "equals": "on"}, {"ref": "@input.v?", "eq": "on"}),
        ({"variable": "v.x[0]", "notEquals": None}, {"ref": "@input.v.x[0]?", "neq": None}),
        ({"variable": "v"}, {"ref": "@input.v?"}),
        ({"variable": "r.code", "gt": 1, "lt": 5}, {"all": [{"ref": "@first.code?", "gt": 1}, {"ref": "@first.code?", "lt": 5}]}),
        ({"and": [{"variable": "v"}, {"not": {"variable": "r"}}]}, {"all": [{"ref": "@input.v?"}, {"not": {"ref": "@first?"}}]}),
        ("v", {"ref": "@input.v?"}),
        ("!v", {"not": {"ref": "@input.v?"}}),
        ("{{r.ok}}", {"ref": "@first.ok?"}),
        ("outputs.r.ok", {"ref": "@first.ok?"}),
        ("steps.first.output.ok", {"ref": "@first.ok?"}),
        ("r.code == 0 && v != 'x'", {"all": [{"ref": "@first.code?", "eq": 0}, {"ref": "@input.v?", "neq": "x"}]}),
        ("size(r.files) > 2", {"expr": "size(first.files) > 2", "source": "size(r.files) > 2"}),
        ("r.files.exists(f, f == v)", {"expr": "first.files.exists(f, f == input.v)", "source": "r.files.exists(f, f == v)"}),
        ("unheard", {"ref": "@input.unheard?"}),
    ],
)
def test_conditions_look_at_variables_and_outputs(condition: Any, row: Any) -> None:
    found = made(tool(id="first", outputVariable="r"), {"type": "conditional", "condition": condition, "then": []}, variables={"v": "on"})
    assert found.document["steps"][1]["if"] == row
    assert not found.findings


def test_a_name_that_nobody_declares_is_an_input_that_may_be_left_out() -> None:
    found = made({"type": "conditional", "condition": {"variable": "dry_run", "equals": True}, "then": []})
    assert found.document["input"] == {"dry_run": {"default": None}}


def test_text_in_braces_is_filled_in_where_the_name_is_known() -> None:
    found = made(tool(arguments={"a": "{{v}}", "b": "x {{ v.y }} z", "c": "{{nobody}}", "d": "@channel {{v}}", "e": "{{variables.new}}"}), variables={"v": {}})
    assert found.document["steps"][0]["with"] == {
        "a": "@input.v",
        "b": "x @{input.v.y} z",
        "c": "{{nobody}}",
        "d": "@@channel @{input.v}",
        "e": "@input.new",
    }


def test_nothing_is_filled_in_in_a_command() -> None:
    found = made({"type": "bash", "command": "echo {{v}} @{upstream}", "env": {"V": "{{v}}"}}, variables={"v": 1})
    assert found.document["steps"][0] == {"id": "step[0]", "bash": "echo {{v}} @{upstream}", "timeout": 120, "env": {"V": "@input.v"}}
    assert [one.code for one in found.findings] == ["not_filled_in"]


def test_what_is_stored_under_the_name_of_a_variable_begins_with_that() -> None:
    found = made(tool(outputVariable="v"), tool(arguments={"x": "{{v}}"}), variables={"v": 1})
    assert found.document["steps"] == [
        {"id": "variables", "set": {"v": "@input.v"}},
        {"id": "step[0]", "tool": "T"},
        {"id": "step[0]_set", "set": {"v": '@steps["step[0]"].output.data'}},
        {"id": "step[1]", "tool": "T", "with": {"x": "@vars.v"}},
    ]


def test_a_branch_that_stores_a_variable_is_one_step_of_the_parallel() -> None:
    found = made(tool(outputVariable="v"), {"type": "parallel", "steps": [tool(outputVariable="v"), tool()]})
    branches = found.document["steps"][2]["parallel"]
    assert [branch["id"] for branch in branches] == ["step[1].steps[0]_all", "step[1].steps[1]"]
    assert [step["id"] for step in branches[0]["do"]] == ["step[1].steps[0]", "step[1].steps[0]_set"]


def test_a_secret_in_a_trigger_is_not_kept() -> None:
    found = made(tool(), triggers=[{"type": "webhook", "config": {"path": "a/b", "secret": "hush"}}])
    assert found.document["triggers"] == [{"webhook": {"path": "a/b", "verify": {"scheme": "generic", "secret": "@secrets.A_B_SECRET"}}}]
    assert "hush" not in repr(found)


@pytest.mark.parametrize(
    ("step", "code"),
    [
        ({"type": "loop", "steps": [tool()]}, "one_of"),
        ({"type": "loop", "count": -1, "steps": [tool()]}, "wrong_type"),
        ({"type": "loop", "items": "not a name", "steps": [tool()]}, "bad_reference"),
        ({"type": "loop", "count": 2, "steps": []}, "missing_field"),
        ({"type": "loop", "count": 5, "max": 3, "steps": [tool()]}, "over_max"),
        ({"type": "parallel"}, "missing_field"),
        ({"type": "conditional", "then": []}, "missing_field"),
        ({"type": "conditional", "condition": "1 +", "then": []}, "bad_expression"),
        ({"type": "subworkflow"}, "bad_workflow"),
        ({"type": "approval", "defaultAction": "shrug"}, "unknown_value"),
        (tool(onError="shrug"), "unknown_value"),
        (tool(arguments={"x": "{{steps.nobody.x}}"}), "unknown_reference"),
    ],
)
def test_what_is_wrong_is_an_error(step: dict[str, Any], code: str) -> None:
    assert [one.code for one in made(step).findings if one.severity == "error"] == [code]


def test_what_the_seed_has_no_words_for_is_not_written() -> None:
    head = {"perdure": 1, "name": "x", "dialect": "nested_steps", "order": "listed", "limits": {"max_steps": 50}}
    for step in ({"id": "a", "sleep": 3}, {"id": "a", "tool": "T", "with": {"x": "@trigger.y"}}, {"id": "a", "do": [{"id": "b", "tool": "T"}]}):
        found = document_writer.from_definition({**head, "steps": [step]})
        assert found.document is None
        assert found.findings


def test_a_row_that_is_disabled_says_that_its_definition_is_not() -> None:
    for enabled, said in ((True, []), (False, [("/enabled", "warning")])):
        found = document_reader.to_definition({"slug": "one", "enabled": enabled, "steps": [tool()]})
        assert [(one.pointer, one.severity) for one in found.findings] == said
