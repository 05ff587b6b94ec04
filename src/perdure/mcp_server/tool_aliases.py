"""Further names of tools, under which the documents and clients of other systems know them, with the arguments that they give.

They can always be called. Lists have them only if that is wanted, since a model would not know which of two names to use.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from perdure.api.json_forms import Schema
from perdure.mcp_server.model_tools import ModelAnswer, ModelTool
from perdure.mcp_server.operation_requests import OperationRequests
from perdure.mcp_server.tool_arguments import TEXT, object_schema, read_arguments


class AliasArgument(NamedTuple):
    """An argument of an alias: the argument of the tool that it is, its schema, and what its numbers are divided by."""

    name: str
    schema: Schema = TEXT
    divided_by: int = 1


class ToolAlias:
    """A further name of a tool. `arguments` are those of the alias by name; the `required` ones must be given."""

    def __init__(self, name: str, tool: str, arguments: Mapping[str, AliasArgument], required: tuple[str, ...] = ()) -> None:
        self.name, self.tool, self._arguments = name, tool, arguments
        self.input_schema = object_schema({one: about.schema for one, about in arguments.items()}, required)

    def read(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the arguments of the tool.

        Raises:
            RequestRefused: an argument is missing or unknown.
        """
        found: dict[str, Any] = {}
        for name, value in read_arguments(self.input_schema, given).items():
            about = self._arguments[name]
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            found[about.name] = value / about.divided_by if about.divided_by != 1 and is_number else value
        return found


class AliasedTool:
    """A tool under an alias."""

    def __init__(self, alias: ToolAlias, tool: ModelTool) -> None:
        self._alias, self._tool = alias, tool
        self.name, self.input_schema, self.functions, self.hints = alias.name, alias.input_schema, tool.functions, tool.hints
        self.read_by = tool.read_by if tool.read_by != tool.name else alias.name
        self.description = f"The same as {tool.name}: {tool.description.partition('Example:')[0].strip()}"

    async def __call__(self, requests: OperationRequests, arguments: Mapping[str, Any]) -> ModelAnswer:
        """Does what the tool does. See `ModelTool`."""
        return await self._tool(requests, self._alias.read(arguments))


_ID, _WORKFLOW = AliasArgument("id"), AliasArgument("workflow")
_PAGE = {"limit": AliasArgument("limit", {"type": "integer"}), "cursor": AliasArgument("after")}
_DOCUMENT = AliasArgument("document", {"type": ["object", "string"]})
_INPUT = AliasArgument("input", {"type": "object"})

TOOL_ALIASES: tuple[ToolAlias, ...] = (
    ToolAlias("COLLECTION_WORKFLOW_LIST", "list_workflows", {"text": AliasArgument("text"), **_PAGE}),
    ToolAlias("COLLECTION_WORKFLOW_GET", "get_workflow", {"id": _WORKFLOW}, ("id",)),
    ToolAlias("COLLECTION_WORKFLOW_CREATE", "create_workflow", {"data": _DOCUMENT, "id": AliasArgument("slug")}, ("data",)),
    ToolAlias("COLLECTION_WORKFLOW_UPDATE", "update_workflow", {"id": _WORKFLOW, "data": _DOCUMENT}, ("id", "data")),
    ToolAlias("COLLECTION_WORKFLOW_DELETE", "delete_workflow", {"id": _WORKFLOW}, ("id",)),
    ToolAlias(
        "COLLECTION_WORKFLOW_EXECUTION_CREATE",
        "start_workflow",
        {
            "workflow_collection_id": _WORKFLOW,
            "input": _INPUT,
            "timeoutMs": AliasArgument("deadlineSeconds", {"type": "number"}, divided_by=1000),
            "request_id": AliasArgument("requestId"),
        },
        ("workflow_collection_id",),
    ),
    ToolAlias("COLLECTION_WORKFLOW_EXECUTION_LIST", "list_executions", {"workflow_collection_id": _WORKFLOW, **_PAGE}),
    ToolAlias("COLLECTION_WORKFLOW_EXECUTION_GET", "get_execution", {"id": _ID}, ("id",)),
    ToolAlias("CANCEL_EXECUTION", "cancel_execution", {"executionId": _ID, "reason": AliasArgument("reason")}, ("executionId",)),
    ToolAlias("RESUME_EXECUTION", "resume_execution", {"executionId": _ID}, ("executionId",)),
    ToolAlias(
        "PRESET_STEP_RESULT",
        "preset_result",
        {"executionId": _ID, "stepId": AliasArgument("step"), "output": AliasArgument("value", {})},
        ("executionId", "stepId"),
    ),
)
"""The aliases: the collection of workflows, that of their executions, and the management of executions."""
