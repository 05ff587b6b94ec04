"""Claims about the table of tools: names, descriptions, schemas, hints, and which operations are no tools."""

import re
from typing import Any

import jsonschema_rs
import pytest

from perdure.mcp_server.bounded_results import json_text
from perdure.mcp_server.composed_tools import ComposedTool
from perdure.mcp_server.model_tools import ModelTool, SingleOperationTool
from perdure.mcp_server.published_workflows import NAME_MAX, PREFIX, tool_name
from perdure.mcp_server.tool_aliases import TOOL_ALIASES
from perdure.mcp_server.tool_service import INSTRUCTIONS, ToolService
from perdure.mcp_server.tool_table import TOOLS
from perdure.operations import on_access, on_execution_changes, on_proposals, on_secrets
from perdure.operations.operation_table import BY_FUNCTION

ALL = [*ToolService()._tools.values()]
CHARACTERS_MAX = 50_000
"""The longest list: about 12,000 tokens."""


@pytest.mark.parametrize("tool", ALL, ids=lambda one: one.name)
def test_a_tool_has_a_name_that_providers_take_and_a_short_description_with_an_example(tool: ModelTool) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9_]{0,63}", tool.name)
    assert not tool.name.startswith(PREFIX) or tool.name in ("run_document", "run_trigger")
    says, _, example = tool.description.partition("\n\nExample: ")
    assert 20 < len(says) <= 200 and says.endswith("."), says
    assert example.startswith("{")


@pytest.mark.parametrize("tool", ALL, ids=lambda one: one.name)
def test_every_argument_is_described_and_the_example_is_valid(tool: ModelTool) -> None:
    schema = tool.input_schema
    assert schema["type"] == "object" and schema["additionalProperties"] is False
    for name, one in schema["properties"].items():
        assert one.get("description"), f"{tool.name}: {name} has no description"
    assert set(schema.get("required", ())) <= set(schema["properties"])
    jsonschema_rs.validator_for(schema).validate(tool.example)  # type: ignore[attr-defined]  # all of these have one


def test_the_whole_list_is_short_enough_for_a_model() -> None:
    assert sum(len(json_text({"name": one.name, "description": one.description, "inputSchema": one.input_schema})) for one in ALL) < CHARACTERS_MAX


def test_names_are_unique_and_the_instructions_name_tools_that_exist() -> None:
    names = [one.name for one in ALL] + [one.name for one in TOOL_ALIASES]
    assert len(set(names)) == len(names)
    for name in re.findall(r"\b[a-z]+_[a-z_]+\b", INSTRUCTIONS):
        assert name in names, name


def test_a_tool_that_reads_is_one_of_an_operation_for_viewers_and_others_say_what_they_may_destroy() -> None:
    for tool in TOOLS:
        roles = {BY_FUNCTION[function].role for function in tool.functions}
        assert tool.hints.reads_only == (roles <= {"viewer", None}), tool.name
    by_name = {one.name: one for one in ALL}
    assert by_name["cancel_execution"].hints == (False, True, True)
    assert by_name["delete_workflow"].hints.is_destructive
    assert by_name["retry_execution"].hints == (False, False, False)
    assert by_name["list_executions"].hints == (True, True, False)


def test_models_have_no_tools_to_review_or_apply_proposals_nor_for_keys_and_secrets() -> None:
    functions = {function for tool in ALL for function in tool.functions}
    assert not functions & {on_proposals.review, on_proposals.apply, on_access.create_key, on_access.rotate_key, on_secrets.save, on_secrets.names}
    assert not functions & {on_execution_changes.terminate, on_execution_changes.bulk, on_execution_changes.start_bulk}


def test_parts_are_read_by_tools_that_only_read() -> None:
    by_name = {one.name: one for one in ALL}
    for tool in ALL:
        assert tool.hints.reads_only or not tool.read_by or by_name[tool.read_by].hints.reads_only, tool.name
        assert isinstance(tool, SingleOperationTool | ComposedTool)


def test_an_alias_names_a_tool_and_arguments_that_it_has() -> None:
    by_name = {one.name: one for one in ALL}
    for alias in TOOL_ALIASES:
        assert re.fullmatch(r"[A-Z_]{1,64}", alias.name)
        given = {name: fitting(schema) for name, schema in alias.input_schema["properties"].items()}
        assert set(alias.read(given)) <= set(by_name[alias.tool].input_schema["properties"]), alias.name
        needed = {name: given[name] for name in alias.input_schema.get("required", ())}
        assert set(by_name[alias.tool].input_schema.get("required", ())) <= set(alias.read(needed))


def fitting(schema: dict[str, Any]) -> Any:
    """A value of a type that a schema allows."""
    kinds = schema.get("type", "integer")
    return {"string": "text", "integer": 1, "number": 1, "object": {}}[kinds if isinstance(kinds, str) else kinds[0]]


@pytest.mark.parametrize("workflow", ["invoice", "a.b", "a b", "ä", "x" * 100, "x" * 60, "a_b"])
def test_the_tool_of_a_workflow_has_a_name_of_its_own(workflow: str) -> None:
    name = tool_name(workflow)
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) and len(name) <= NAME_MAX
    assert name != tool_name(workflow + "!")
    assert tool_name("a.b") != tool_name("a_b") != tool_name("a b")
