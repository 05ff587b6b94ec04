"""Tools that need several operations: start a workflow and wait, wait for an execution, read its events since a number, and read a part of a long result."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from perdure.api.json_forms import Schema
from perdure.mcp_server.bounded_results import part_of
from perdure.mcp_server.model_tools import ARGUMENTS, ModelAnswer, ToolHints, described, key_of
from perdure.mcp_server.operation_requests import OperationRequests, RequestRefused
from perdure.mcp_server.tool_arguments import TEXT, WAIT_S_MAX, count_of, object_schema, read_arguments, refused_argument, seconds_of
from perdure.operations import on_executions, on_runs

START_WAIT_S, WAIT_S = 10.0, 25.0
"""How long a start, and a wait, last unless the model says otherwise."""

FIRST_LOOK_S, LOOK_S_MAX = 0.5, 5.0
"""The time after which a wait first looks whether the execution waits for somebody, and the longest time between two looks."""

EVENTS_MAX = 200
ENDED = frozenset(("completed", "failed", "cancelled"))
BLOCKED = frozenset(("waiting_approval", "needs_attention", "paused"))
"""Statuses in which an execution does not go on by itself."""

KEY: Mapping[str, Schema] = {
    "id": {**TEXT, "description": ARGUMENTS["id"]},
    "workflow": {**TEXT, "description": ARGUMENTS["workflow"]},
}

Work = Callable[[OperationRequests, Mapping[str, Any]], Awaitable[ModelAnswer]]


class ComposedTool:
    """A tool whose `work` calls several operations. `read_by` is the tool that reads again what it returns (empty: itself)."""

    def __init__(
        self,
        name: str,
        work: Work,
        says: str,
        example: Mapping[str, Any],
        *,
        functions: tuple[Callable[..., Any], ...],
        schema: Schema,
        hints: ToolHints,
        read_by: str = "",
    ) -> None:
        self.name, self.functions, self.example, self.input_schema, self.hints = name, functions, example, schema, hints
        self.read_by = read_by or name
        self.description = described(says, example)
        self._work = work

    async def __call__(self, requests: OperationRequests, arguments: Mapping[str, Any]) -> ModelAnswer:
        """Does its work. See `ModelTool`."""
        return await self._work(requests, read_arguments(self.input_schema, arguments))


# Start and wait


async def _start(requests: OperationRequests, given: Mapping[str, Any]) -> ModelAnswer:
    wait_s = seconds_of("waitSeconds", given.get("waitSeconds"), START_WAIT_S)
    names = {"workflow": "workflowId", "input": "variables", "requestId": "clientRequestId", "deadlineSeconds": "deadlineSeconds"}
    started = await requests(on_runs.run_workflow, {theirs: given[ours] for ours, theirs in names.items() if ours in given})
    answer = await standing(requests, {"workflow": started["workflow"], "id": started["id"]}, wait_s, stops_when_blocked=True)
    return answer._replace(value={**answer.value, "created": started["created"]})


async def _wait(requests: OperationRequests, given: Mapping[str, Any]) -> ModelAnswer:
    wait_s = seconds_of("waitSeconds", given.get("waitSeconds"), WAIT_S)
    return await standing(requests, await key_of(requests, given), wait_s, stops_when_blocked=False)


async def standing(requests: OperationRequests, key: Mapping[str, Any], wait_s: float, *, stops_when_blocked: bool) -> ModelAnswer:
    """Returns how an execution stands, after up to `wait_s` in which it may end, or as soon as it needs somebody to go on.

    One that has needed somebody from the beginning is waited for, unless `stops_when_blocked`. That an execution has failed is no error of the tool.
    """
    end_s, look_s = time.monotonic() + wait_s, FIRST_LOOK_S
    record = await requests(on_executions.read, key)
    was_blocked = _is_blocked(record) and not stops_when_blocked
    while record["status"] not in ENDED and (was_blocked or not _is_blocked(record)) and (left_s := end_s - time.monotonic()) > 0:
        missing = await _missing(requests, key, min(look_s, left_s))
        look_s = min(2 * look_s, LOOK_S_MAX)
        record = await requests(on_executions.read, key)
        was_blocked = was_blocked and _is_blocked(record)
        if missing and stops_when_blocked and record["status"] not in ENDED:
            return ModelAnswer({**_shown(record).value, "missing": missing}, f"It can't go on: {missing}")
    return _shown(record)


async def _missing(requests: OperationRequests, key: Mapping[str, Any], wait_s: float) -> str:
    """Waits until an execution has a result, or it is known that it has none. Returns what it lacks to go on, such as an engine; empty if it lacks nothing."""
    began_s = time.monotonic()
    try:
        return str((await requests(on_executions.result, {**key, "waitSeconds": wait_s})).get("missing", ""))
    except RequestRefused as refused:
        if refused.problem.get("status") != 409:  # that it has failed, was cancelled or needs attention is what reading it says
            raise
    await asyncio.sleep(max(0.0, min(wait_s, 1.0) - (time.monotonic() - began_s)))
    return ""


def _is_blocked(record: Mapping[str, Any]) -> bool:
    return record["status"] in BLOCKED or bool(record.get("awaits"))


def _shown(record: Mapping[str, Any]) -> ModelAnswer:
    """Returns what a model needs of an execution, and what to do next."""
    shown: dict[str, Any] = {name: record[name] for name in ("workflow", "id", "status", "why")}
    id, workflow = record["id"], record["workflow"]
    key = f'{{"workflow": "{workflow}", "id": "{id}"}}'
    match record["status"]:
        case "completed":
            return ModelAnswer({**shown, "result": record.get("outputs")}, "It has ended; `result` is its result.")
        case "failed" | "cancelled":
            shown["error"] = record.get("error")
            return ModelAnswer(shown, f"list_steps {key} shows what failed. retry_execution continues it from there, rerun_execution begins anew.")
        case "waiting_approval":
            shown["approvals"] = [{"id": one["id"], "path": one["path"]} for one in record.get("approvals", ())]
            return ModelAnswer(
                shown, f"A person has to decide: get_approval shows the question, decide_approval gives their answer. Then wait_for_execution {key}."
            )
        case "needs_attention":
            shown["error"] = record.get("error")
            return ModelAnswer(shown, f"list_steps {key} shows what failed. Then retry_execution, preset_result for the step, or cancel_execution.")
        case "paused":
            return ModelAnswer(shown, f"It was paused: resume_execution {key} continues it.")
    if record.get("awaits"):
        shown["awaits"] = record["awaits"]
        return ModelAnswer(shown, f"It waits for a message: send_message with one of the names in `awaits`. Then wait_for_execution {key}.")
    remedy = str(record.get("reason", {}).get("remedy") or "")
    return ModelAnswer(shown, f"{remedy + '. ' if remedy else ''}It has not ended: call wait_for_execution {key}, as often as needed.")


# Events


async def _events(requests: OperationRequests, given: Mapping[str, Any]) -> ModelAnswer:
    after, limit = count_of("after", given.get("after"), 0, 2**53), count_of("limit", given.get("limit"), 50, EVENTS_MAX) or 1
    end_s, pause_s = time.monotonic() + seconds_of("waitSeconds", given.get("waitSeconds"), 0.0), 0.2
    key = await key_of(requests, given)
    while True:
        found = await requests(on_executions.events, {**key, "after": after})
        if found["items"] or time.monotonic() >= end_s:
            break
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, 2.0)
    items, last = _first_events(found["items"], limit), found["next"]
    if len(items) < len(found["items"]):
        last = items[-1]["id"]
    more = "There are more: call again" if len(items) < len(found["items"]) else "For what happens later, call again"
    shown = [{name: value for name, value in one.items() if name != "source" and value not in ("", {})} for one in items]
    return ModelAnswer({"items": shown, "next": last}, f"{more} with after: {last}.")


def _first_events(events: list[Any], limit: int) -> list[Any]:
    """Returns the first events, and with the last of them all that have its number."""
    end = limit
    while 0 < end < len(events) and events[end]["id"] == events[end - 1]["id"]:
        end += 1
    return events[:end]


START_WORKFLOW = ComposedTool(
    "start_workflow",
    _start,
    "Starts a workflow of list_workflows and waits for a short time. Answers with the result, or with what it waits for and what to call next.",
    {"workflow": "invoice", "input": {}, "requestId": "order-4711"},
    functions=(on_runs.run_workflow, on_executions.read, on_executions.result),
    schema=object_schema(
        {
            "workflow": {**TEXT, "description": "Its slug, a version of it (invoice@^1), or the name of code."},
            "input": {"type": ["object", "array"], "description": "Its input: an object of values by name."},
            "requestId": {**TEXT, "description": "Any text: a repetition with the same one finds the execution of the first, and starts nothing."},
            "waitSeconds": {"type": "number", "default": START_WAIT_S, "description": f"How long to wait, 0 to {WAIT_S_MAX:g}."},
            "deadlineSeconds": {"type": "number", "description": "Cancel it after this time."},
        },
        ["workflow"],
    ),
    hints=ToolHints(False, False),
    read_by="wait_for_execution",
)

WAIT_FOR_EXECUTION = ComposedTool(
    "wait_for_execution",
    _wait,
    "Waits until an execution ends, or newly waits for a person or a message. Answers with its result, or with what to call next. Call it again to wait on.",
    {"id": "o1", "waitSeconds": 25},
    functions=(on_executions.read, on_executions.result, on_executions.by_id),
    schema=object_schema({**KEY, "waitSeconds": {"type": "number", "default": WAIT_S, "description": f"How long to wait, 0 to {WAIT_S_MAX:g}."}}, ["id"]),
    hints=ToolHints(True, True),
)

GET_EXECUTION_EVENTS = ComposedTool(
    "get_execution_events",
    _events,
    "Reads what has happened in an execution since an event: steps, attempts, messages, approvals. `next` is the `after` of the next call.",
    {"id": "o1", "after": 0},
    functions=(on_executions.events, on_executions.by_id),
    schema=object_schema(
        {
            **KEY,
            "after": {"type": "integer", "default": 0, "description": "The `next` of the call before; 0 to begin."},
            "limit": {"type": "integer", "default": 50, "description": f"The most events, up to {EVENTS_MAX}."},
            "waitSeconds": {"type": "number", "default": 0, "description": f"How long to wait if there is none yet, 0 to {WAIT_S_MAX:g}."},
        },
        ["id"],
    ),
    hints=ToolHints(True, True),
)

READ_PART = "read_part"
"""The name of the tool that reads a part of what another one returns; see `read_part_tool`."""


def read_part_tool(tools: Callable[[str], Any]) -> ComposedTool:
    """Returns the tool that calls another one, which only reads, and returns a part of its result. `tools` finds a tool by its name (None: there is none)."""

    async def read(requests: OperationRequests, given: Mapping[str, Any]) -> ModelAnswer:
        name, offset = given["tool"], count_of("offset", given.get("offset"), 0, 2**53)
        found = tools(name) if name != READ_PART else None
        if found is None or not found.hints.reads_only:
            raise refused_argument("tool", "it is not the name of a tool that only reads; for what was started, use get_execution")
        answer = await found(requests, given.get("arguments", {}))
        try:
            return ModelAnswer(part_of(answer.value, given["pointer"], offset))
        except LookupError as error:
            raise refused_argument("pointer", str(error)) from None

    return ComposedTool(
        READ_PART,
        read,
        "Reads on where the result of another tool was cut: calls that tool again and returns the part at a JSON pointer, from an offset on.",
        {"tool": "get_execution", "arguments": {"id": "o1"}, "pointer": "/outputs", "offset": 0},
        functions=(),
        schema=object_schema(
            {
                "tool": {**TEXT, "description": "The name of the tool, which only reads."},
                "arguments": {"type": "object", "description": "Its arguments, the same as before."},
                "pointer": {**TEXT, "description": "The place in its result, such as /outputs/text; empty for all of it."},
                "offset": {"type": "integer", "default": 0, "description": "The first character or entry."},
            },
            ["tool", "pointer"],
        ),
        hints=ToolHints(True, True),
    )


COMPOSED_TOOLS = (START_WORKFLOW, WAIT_FOR_EXECUTION, GET_EXECUTION_EVENTS)
