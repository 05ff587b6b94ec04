"""Workflows as tools of their own: each has the description and the input of the workflow, and a call starts it and waits for its result.

Which these are is a choice: none, some by their names, or all that are enabled. They are definitions of the catalog, or code that running engines declare.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

from perdure.api.json_forms import Schema
from perdure.mcp_server.composed_tools import standing
from perdure.mcp_server.model_tools import ModelAnswer, ToolHints
from perdure.mcp_server.operation_requests import OperationRequests, RequestRefused
from perdure.operations import on_catalog, on_executions, on_runs

ALL = "all"
PREFIX = "run_"
"""How the names of these tools begin, so that none has the name of another tool."""

NAME_MAX = 64
WORKFLOWS_MAX = 200
"""The most workflows that are tools. Models get lost among more, and many clients take fewer."""

WAIT_S = 25.0
KEPT_MAX = 1_000
FUNCTIONS = (on_runs.run_workflow, on_executions.read, on_executions.result)
_OTHER = re.compile(r"[^a-zA-Z0-9_-]")


def tool_name(workflow: str) -> str:
    """Returns the name of the tool of a workflow: a long one ends with a hash, so that no two are the same."""
    name = PREFIX + _OTHER.sub("_", workflow)
    if len(name) <= NAME_MAX and name == PREFIX + workflow:
        return name
    return f"{name[: NAME_MAX - 9]}_{sha256(workflow.encode()).hexdigest()[:8]}"


class WorkflowTool:
    """The tool of one workflow."""

    def __init__(self, workflow: str, title: str, says: str, schema: Schema | None) -> None:
        self.name, self.workflow, self.functions, self.read_by = tool_name(workflow), workflow, FUNCTIONS, "wait_for_execution"
        begins = f"{title}. {says}" if says else f"{title}."
        self.description = f"{begins}\n\nRuns the workflow {workflow}, and answers with its result, or after {WAIT_S:g} s with what to call next."
        self.input_schema: Schema = schema if schema is not None and schema.get("type") == "object" else {"type": "object"}
        self.hints = ToolHints(False, False)

    async def __call__(self, requests: OperationRequests, arguments: Mapping[str, Any]) -> ModelAnswer:
        """Starts the workflow with the arguments as its input, and waits. That it fails is an error of the tool."""
        started = await requests(on_runs.run_workflow, {"workflowId": self.workflow, "variables": dict(arguments)})
        answer = await standing(requests, {"workflow": started["workflow"], "id": started["id"]}, WAIT_S, stops_when_blocked=True)
        return answer._replace(is_error=answer.value["status"] in ("failed", "cancelled"))


class PublishedWorkflows:
    """The workflows that are tools: those of the `names`, or all if one of them is ``all``.

    The tool of a version is kept as long as the version is the current one.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.names = tuple(dict.fromkeys(name.strip() for one in names for name in one.split(",") if name.strip()))
        self._kept: dict[tuple[str, str, str], WorkflowTool] = {}

    def __bool__(self) -> bool:
        return bool(self.names)

    async def tools(self, requests: OperationRequests) -> list[WorkflowTool]:
        """Returns the tools that there are at present for the caller of the requests, in order of name."""
        if not self.names:
            return []
        definitions, code = await self._listed(requests)
        found = await asyncio.gather(*(self._tool(requests, one) for one in definitions))
        taken = {one.workflow for one in found}
        latest = {one["slug"]: one for one in code if one["slug"] not in taken}  # the last version of a name counts
        found += [WorkflowTool(name, name, "A workflow of code", one["inputSchema"]) for name, one in latest.items()]
        return sorted(found, key=lambda one: one.name)[:WORKFLOWS_MAX]

    async def _listed(self, requests: OperationRequests) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Returns the definitions, and the workflows of code, that are meant."""
        definitions, code, after = list[dict[str, Any]](), list[dict[str, Any]](), ""
        while len(definitions) < WORKFLOWS_MAX:
            page = await requests(on_catalog.page, {"limit": 500, "after": after})
            definitions += [one for one in page["items"] if one["version"] and one["enabled"] and self._is_meant(one["slug"])]
            code += [one for one in page.get("code", ()) if self._is_meant(one["slug"])]
            if not (after := page.get("next") or ""):
                break
        return definitions[:WORKFLOWS_MAX], code

    def _is_meant(self, name: str) -> bool:
        return ALL in self.names or name in self.names

    async def _tool(self, requests: OperationRequests, definition: Mapping[str, Any]) -> WorkflowTool:
        about = (definition["slug"], definition["hash"], f"{definition['name']}\0{definition['description']}")
        if (kept := self._kept.get(about)) is None:
            try:
                version = await requests(on_catalog.version, {"reference": f"{definition['slug']}@{definition['hash']}"})
                schema = version["inputSchema"]
            except RequestRefused:  # it was changed or deleted just now: the next list has it as it then is
                schema = None
            kept = WorkflowTool(definition["slug"], definition["name"] or definition["slug"], definition["description"], schema)
            if len(self._kept) >= KEPT_MAX:
                self._kept.clear()
            if schema is not None:
                self._kept[about] = kept
        return kept
