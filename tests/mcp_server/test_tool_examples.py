"""Runs the example in the description of every tool over a real engine: each does what it says."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from perdure.mcp_server.model_tools import ModelTool
from perdure.mcp_server.tool_service import ToolService
from perdure.service.people.inbox import InboxFilter
from tests.mcp_server.mcp_setup import INVOICE, Tools, mcp_service, tools_of
from tests.recording.recorder import recorder

pytestmark = pytest.mark.slow

TOOLS = [*ToolService()._tools.values()]
SALE = """
perdure: 1
name: sale
vars: {n: 0}
steps:
  - {id: charge, tool: add, with: {a: 1, b: 2}}
  - {id: wait, listen: [paid], needs: [charge]}
output: "@charge"
"""
ASKS = {"perdure": 1, "name": "asks", "steps": [{"id": "sure", "approve": {"title": "Sure?", "assignees": ["ada"]}}], "output": "@sure"}
COUNTS = {"perdure": 1, "name": "counts", "vars": {"n": 0}, "steps": [{"id": "set", "set": {"n": 1}}, {"id": "wait", "listen": ["go"]}], "output": "@vars.n"}
PRESET = """
perdure: 1
name: sale
steps:
  - {id: go, listen: [go]}
  - {id: charge, tool: add, with: {a: 1, b: 2}, needs: [go]}
output: "@charge.receipt"
"""
TRIGGERED = {**INVOICE, "triggers": [{"schedule": {"cron": "0 0 1 1 *"}}]}


@pytest.fixture
async def tools(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Tools]:
    async with mcp_service(tmp_path) as service, AsyncExitStack() as opened:
        if "recording" in request.node.callspec.id:
            _ = await opened.enter_async_context(recorder(service.store))
        yield await tools_of(service, "admin")


async def prepared(tools: Tools, name: str) -> dict[str, Any]:
    """Makes what the example of a tool is about, and returns the arguments that have to be others than in the example, since ids and hashes are random."""
    if name in ("create_workflow", "validate_workflow", "run_document", "search_tools", "get_step_kind", "get_definition_format", "count_executions", "whoami"):
        return {}
    if "recording" in name:
        return await a_recording(tools, name)
    if name == "propose_from_words":
        return {}
    if name == "get_proposal_agent":
        return {"agent": (await tools("propose_from_words", words="Greet", new=True))["id"]}
    _ = await tools("create_workflow", document=TRIGGERED if "trigger" in name else INVOICE)
    match name:
        case "compare_workflow_versions" | "roll_back_workflow":
            _ = await tools("update_workflow", workflow="invoice", document={**INVOICE, "output": 2}, note="other")
        case "propose_workflow_change":
            return {"baseWorkflowHash": (await tools("get_workflow", workflow="invoice"))["hash"]}
        case "try_workflow_change" | "list_executions" | "find_execution":
            _ = await tools("start_workflow", workflow="invoice")
        case "get_proposal":
            hash = (await tools("get_workflow", workflow="invoice"))["hash"]
            made = await tools("propose_workflow_change", workflow="invoice", document={**INVOICE, "output": 2}, baseWorkflowHash=hash)
            return {"proposal": made["id"]}
        case "run_trigger" | "pause_trigger" | "resume_trigger":
            trigger = (await tools("list_triggers", workflow="invoice"))["items"][0]["id"]
            if name == "resume_trigger":
                _ = await tools("pause_trigger", trigger=trigger)
            return {"trigger": trigger}
        case "get_approval" | "decide_approval" | "delegate_approval":
            _ = await tools("create_workflow", document=ASKS)
            return {"id": (await tools("start_workflow", workflow="asks"))["approvals"][0]["id"]}
        case _:
            return await an_execution(tools, name)
    return {}


async def a_recording(tools: Tools, name: str) -> dict[str, Any]:
    """Begins the recording that an example is about, with a call."""
    if name not in ("start_recording", "list_recordings"):
        _ = await tools("start_recording", recording="s2", input={"user": 42})
        if name != "call_in_recording":
            _ = await tools("call_in_recording", recording="s2", tool="shop.get_user", arguments={"id": "@input.user"})
        return {"recording": "s2"}
    return {}


async def an_execution(tools: Tools, name: str) -> dict[str, Any]:
    """Starts the execution that an example is about, in the state that it needs."""
    if name in ("requeue_failure", "discard_failure", "retry_execution"):
        failed = await tools("start_workflow", workflow="calc", input={"a": -1})
        assert failed["status"] == "failed"
        return {"id": failed["id"], **({"edits": {"a": 1}} if name == "requeue_failure" else {})}
    if "id" not in next(one for one in TOOLS if one.name == name).input_schema["properties"] and name != "read_part":
        return {}
    if name == "get_execution_state":
        return {"id": (await tools("start_workflow", workflow="calc", input={"a": 1}))["id"]}
    document, workflow = (COUNTS, "counts") if name == "patch_execution" else (SALE, "sale")
    _ = await tools("create_workflow", document=document)
    id = (await tools("start_workflow", workflow=workflow))["id"]
    if name == "resume_execution":
        _ = await tools("pause_execution", id=id)
    if name in ("wait_for_execution", "rerun_execution", "fork_execution"):
        _ = await tools("send_message", id=id, name="paid", body=1)
        if name != "wait_for_execution":
            _ = await tools("wait_for_execution", id=id)
    return {"arguments": {"id": id}} if name == "read_part" else {"id": id}


@pytest.mark.parametrize("tool", TOOLS, ids=lambda one: one.name)
async def test_the_example_of_a_tool_does_what_it_says(tools: Tools, tool: ModelTool) -> None:
    example = json.loads(tool.description.partition("\n\nExample: ")[2])
    if tool.name == "preset_result":
        _ = await tools("create_workflow", document=PRESET)
        other = {"id": (await tools("start_workflow", workflow="sale"))["id"]}
    else:
        other = await prepared(tools, tool.name)
    found = await tools(tool.name, {**example, **other})
    assert found
    if tool.name == "preset_result":
        _ = await tools("send_message", id=other["id"], name="go")
        assert (await tools("wait_for_execution", id=other["id"]))["result"] == "r1"


def test_the_filter_of_the_inbox_is_that_of_list_approvals() -> None:
    shown = next(one for one in TOOLS if one.name == "list_approvals").input_schema["properties"]
    assert {"assignee", "group", "workflow", "execution", "overdue"} <= set(shown) & set(InboxFilter.__struct_fields__)
