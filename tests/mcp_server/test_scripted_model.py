"""A task done by a scripted model with the tools of Perdure alone, over standard input and output and over HTTP.

The model knows its task and what the tools answer; ids, hashes and lines it reads from answers. It makes a mistake in the document and one in the decision,
and corrects both by what the errors say.
"""

import json
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_ai")

from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelMessage, ModelResponse, RetryPromptPart, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from tests.cli.serve_process import environment, new_key, serving

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]  # warnings of the libraries are not ours

DRAFT = """\
perdure: 1
name: refund
input: {cents: {type: integer}}
vars: {text: ""}
steps:
  - {id: sure, aprove: {title: "Refund @{input.cents}?", assignees: [ada]}}
  - {id: note, set: {text: "refunded @{input.cents}"}, needs: [sure]}
output: "@vars.text"
"""


class ScriptedModel:
    """Calls one tool after the other, each with what the answers before it have said."""

    def __init__(self) -> None:
        self.document, self.seen = DRAFT, dict[str, Any]()
        self.tools, self.errors = list[str](), list[str]()

    def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        """The next call; in the end, the answer."""
        last = messages[-1].parts[-1]
        if isinstance(last, ToolReturnPart | RetryPromptPart):
            text = last.content if isinstance(last.content, str) else json.dumps(last.content)
            said: dict[str, Any] = json.loads(json.dumps(last.content)) if isinstance(last.content, dict) else {}
            if "decision_refused" in text:
                self.errors.append(text)
            return self._after(str(last.tool_name), said, text)
        assert {"search_tools", "start_workflow", "decide_approval"} <= {one.name for one in info.function_tools}
        assert "Perdure runs durable workflows" in (info.instructions or "")
        return self._call("search_tools", query="ask a person for approval", limit=3)

    def _after(self, tool: str, said: dict[str, Any], text: str) -> ModelResponse:
        match tool:
            case "search_tools":
                assert said["items"][0]["name"] == "approve"
                return self._call("validate_workflow", document=self.document)
            case "validate_workflow" if not said["valid"]:
                wrong = next(one for one in said["findings"] if one.get("suggestion"))
                assert wrong["line"] == 1 + DRAFT.splitlines().index(next(line for line in DRAFT.splitlines() if "aprove" in line))
                self.document = self.document.replace("aprove", wrong["suggestion"])
                return self._call("validate_workflow", document=self.document)
            case "validate_workflow":
                return self._call("create_workflow", document=self.document, note="made by a model")
            case "create_workflow":
                return self._call("start_workflow", workflow=said["slug"], input={"cents": 500}, requestId="refund-1")
            case "start_workflow":
                self.seen = said
                assert "decide_approval" in said["nextStep"]
                return self._call("get_approval", id=said["approvals"][0]["id"])
            case "get_approval":
                self.seen["approval"] = said
                return self._call("decide_approval", id=said["id"], decision="approve")
            case "decide_approval" if "decision_refused" in text:  # ada has said yes in the conversation
                (person,) = self.seen["approval"]["assignees"]
                return self._call("decide_approval", id=self.seen["approval"]["id"], decision="approve", by=person)
            case "decide_approval":
                return self._call(*re.findall(r"Then (\w+)", self.seen["nextStep"]), id=self.seen["id"], workflow=self.seen["workflow"])
            case "wait_for_execution":
                return ModelResponse(parts=[TextPart(f"{said['status']}: {said['result']}")])
        raise AssertionError(f"{tool}: {text}")

    def _call(self, tool: str, **arguments: Any) -> ModelResponse:
        self.tools.append(tool)
        return ModelResponse(parts=[ToolCallPart(tool, arguments, tool_call_id=f"call{len(self.tools)}")])


@asynccontextmanager
async def toolset(directory: Path, how: str) -> AsyncIterator[MCPToolset[None]]:
    """The tools of `perdure mcp`, or of ``/mcp`` of a `perdure serve`."""
    if how == "stdio":
        words = ["-m", "perdure.cli", "mcp"]
        yield MCPToolset(StdioTransport(sys.executable, words, environment(directory), str(directory), keep_alive=False, log_file=directory / "log"))
        return
    key = new_key(directory)
    with serving(directory) as server:
        yield MCPToolset(f"{server.url}/mcp", headers={"Authorization": f"Bearer {key}"})


@pytest.mark.parametrize("how", ["stdio", pytest.param("http", marks=pytest.mark.prove)])
async def test_a_scripted_model_publishes_starts_has_approved_and_reads_the_result(tmp_path: Path, how: str) -> None:
    model = ScriptedModel()
    async with toolset(tmp_path, how) as tools:
        tools.include_instructions = True
        agent = Agent(FunctionModel(model), toolsets=[tools], retries=3)
        done = await agent.run("Make a workflow that refunds after ada has agreed, and refund 500 cents. Ada agrees.")
    assert done.output == "completed: refunded 500"
    assert len(model.tools) == 9 and len(model.errors) == 1 and '"next"' in model.errors[0]
