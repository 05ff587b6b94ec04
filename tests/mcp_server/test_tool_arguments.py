"""Claims about the arguments of tools: a value of another type is refused before anything is asked of the API, with the name of the argument."""

from collections.abc import Mapping
from typing import Any

import pytest

from perdure.mcp_server.operation_requests import RequestRefused
from perdure.mcp_server.tool_arguments import object_schema, read_arguments
from perdure.mcp_server.tool_service import ToolService

VALUES: Mapping[str, Any] = {"string": "text that is no JSON", "integer": 5, "number": 0.5, "boolean": True, "object": {"a": 1}, "array": [1], "null": None}
TOOLS = ToolService()


def types_of(schema: Mapping[str, Any]) -> set[str]:
    """The types that a schema allows; none if it says nothing of types."""
    kinds = schema.get("type", ())
    return {kinds} if isinstance(kinds, str) else set(kinds)


def is_other(kind: str, allowed: set[str]) -> bool:
    """Whether a type is none that is allowed; a null is an argument that is left out."""
    return bool(allowed) and kind not in (*allowed, "null") and not (kind == "integer" and "number" in allowed)


@pytest.mark.parametrize("tool", [*TOOLS._tools.values()], ids=lambda tool: tool.name)
async def test_a_value_of_another_type_is_refused_with_the_name_of_its_argument(tool: Any) -> None:
    async def requests(function: Any, arguments: Mapping[str, Any]) -> Any:
        raise AssertionError("nothing may be asked of the API")

    for name, schema in tool.input_schema["properties"].items():
        for value in (value for kind, value in VALUES.items() if is_other(kind, types_of(schema))):
            outcome = await TOOLS.call(requests, tool.name, {**tool.example, name: value})
            assert outcome.is_error and outcome.value["code"] == "bad_value" and outcome.value["where"] == f"/{name}"
            assert outcome.value["detail"].startswith(f"/{name}: it is ") and "and must be " in outcome.value["detail"]


def test_a_list_for_a_name_is_no_text() -> None:
    schema = object_schema({"name": {"type": "string"}, "wait": {"type": "number"}, "any": {}}, ["name"])
    with pytest.raises(RequestRefused, match="/name: it is a list, and must be text"):
        read_arguments(schema, {"name": []})
    with pytest.raises(RequestRefused, match="/name: it is null, and must be text"):
        read_arguments(schema, {"name": None})
    with pytest.raises(RequestRefused, match="/wait: it is true or false, and must be a number"):
        read_arguments(schema, {"name": "a", "wait": True})
    assert read_arguments(schema, {"name": "a", "wait": 5, "any": []}) == {"name": "a", "wait": 5, "any": []}
