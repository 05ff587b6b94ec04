"""Lists and calls tools on behalf of a caller. It knows no protocol."""

from __future__ import annotations

import asyncio
import difflib
import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

from perdure.mcp_server.bounded_results import bounded, cut_sentences, json_text
from perdure.mcp_server.composed_tools import read_part_tool
from perdure.mcp_server.model_tools import ModelTool, SingleOperationTool
from perdure.mcp_server.operation_requests import OperationRequests, RequestRefused
from perdure.mcp_server.published_workflows import PREFIX, PublishedWorkflows
from perdure.mcp_server.tool_aliases import TOOL_ALIASES, AliasedTool
from perdure.mcp_server.tool_problems import problem_for_model, problem_text
from perdure.mcp_server.tool_table import TOOLS
from perdure.operations import on_access
from perdure.operations.operation_table import BY_FUNCTION

logger = logging.getLogger("perdure.mcp_server")

CALL_S = 55.0
"""How long a call may last. Clients often give up after 60 s."""

INSTRUCTIONS = """\
Perdure runs durable workflows: an execution survives crashes, waits for people and messages, and every step of it is recorded.

- To do something: list_workflows, then start_workflow. It answers with the result, or with what to call next. wait_for_execution waits on.
- To see what happened: get_execution, list_steps, get_execution_events.
- When something failed: list_steps, then retry_execution (goes on from the failure), preset_result, fork_execution or rerun_execution.
- To make a workflow: search_tools finds kinds of steps and tools, validate_workflow checks a document, create_workflow publishes it.
  By doing: start_recording, call_in_recording for each call, then save_recording.
  To change one: get_workflow, then propose_workflow_change; a person applies it.

A definition in YAML:

perdure: 1
name: order
input: {cents: {type: integer}}
steps:
  - {id: ask, approve: {title: "Charge @{input.cents}?", assignees: [ada]}}
  - {id: pay, tool: charge, with: {cents: "@input.cents"}, needs: [ask]}
output: "@pay"

`@input.x` is an input, `@step.field` a result; a step runs when the steps that it refers to, or `needs`, have ended.
Every error has a line that begins with "Next:". Long results are cut, and say how to read on."""
"""What a model is told of this server."""


class CallOutcome(NamedTuple):
    """What a call has brought: an object, the same as text with what to do next, and whether it is an error."""

    value: dict[str, Any]
    text: str
    is_error: bool


class ToolService:
    """The tools of Perdure, and those of `published` workflows. With `lists_aliases`, lists have the further names of tools as well."""

    def __init__(self, published: PublishedWorkflows | None = None, *, lists_aliases: bool = False) -> None:
        self.published, self._lists_aliases = published or PublishedWorkflows(), lists_aliases
        tools: list[ModelTool] = [*TOOLS]
        self._tools: dict[str, ModelTool] = {one.name: one for one in (*tools, read_part_tool(self._found))}
        self._aliases: dict[str, ModelTool] = {alias.name: AliasedTool(alias, self._tools[alias.tool]) for alias in TOOL_ALIASES}

    def _found(self, name: str) -> ModelTool | None:
        return self._tools.get(name) or self._aliases.get(name)

    async def tools(self, requests: OperationRequests) -> list[ModelTool]:
        """Returns the tools that the caller of the requests may call, in the order of the list.

        Raises:
            RequestRefused: it can't be found out who they are.
        """
        caller, published = await asyncio.gather(requests(on_access.whoami, {}), self._published(requests))
        allowed = None if caller.get("operations") is None else frozenset(caller["operations"])
        fixed = [*self._tools.values(), *(self._aliases.values() if self._lists_aliases else ())]
        return [one for one in (*fixed, *published) if allowed is None or all(BY_FUNCTION[function].name in allowed for function in one.functions)]

    async def _published(self, requests: OperationRequests) -> list[ModelTool]:
        try:
            return [*await self.published.tools(requests)]
        except RequestRefused as refused:
            if refused.code not in ("forbidden", "too_many_requests"):
                raise
            logger.warning("the workflows are no tools of this list: %s", refused)
            return []

    async def call(self, requests: OperationRequests, name: str, arguments: Mapping[str, Any]) -> CallOutcome:
        """Calls a tool. Whatever goes wrong is an outcome that says what to do next."""
        tool: ModelTool | None = None
        try:
            tool = await self._tool(requests, name)
            async with asyncio.timeout(CALL_S):
                answer = await tool(requests, arguments)
        except RequestRefused as refused:
            names = tool.names if isinstance(tool, SingleOperationTool) else {}
            return _failure(problem_for_model(refused.problem, names))
        except TimeoutError:
            detail = f"{name} has had no answer for {CALL_S:g} s. What it asks for may still take effect, as soon as an engine runs"
            return _failure(problem_for_model({"code": "timeout", "detail": detail}, {}))
        value = answer.value if isinstance(answer.value, dict) else {"value": answer.value}
        shown = bounded(value)
        steps = [*cut_sentences(shown.cuts, tool.read_by or "get_execution"), *([answer.next_step] if answer.next_step else [])]
        whole = {**shown.value, "nextStep": " ".join(steps)} if steps else shown.value
        if any(cut.pointer == "/items" for cut in shown.cuts):
            _ = whole.pop("next", None)  # it would lead behind entries that are not shown
        return CallOutcome(whole, json_text(whole) + (f"\nNext: {answer.next_step}" if answer.is_error else ""), answer.is_error)

    async def _tool(self, requests: OperationRequests, name: str) -> ModelTool:
        if (found := self._found(name)) is not None:
            return found
        names = [*self._tools]
        if self.published and name.startswith(PREFIX):
            published = {one.name: one for one in await self.published.tools(requests)}
            if name in published:
                return published[name]
            names += published
        near = difflib.get_close_matches(name, names, 3)
        meant = f"; similar ones are {', '.join(near)}" if near else ""
        detail = f"there is no tool {name[:200]}{meant}"
        raise RequestRefused({"status": 404, "code": "no_such_tool", "detail": detail, "next": "List the tools, and call one of them."})


def _failure(problem: dict[str, Any]) -> CallOutcome:
    return CallOutcome(problem, problem_text(problem), True)
