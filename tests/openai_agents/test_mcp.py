"""Claims about MCP servers of agents of the OpenAI Agents SDK in workflows. One of them has a real server, in a process of its own."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, ModelResponse, RunConfig, Usage
from agents.mcp import MCPServer, MCPServerStdio
from agents.testing import ScriptedModel, assistant_message, function_call
from mcp.types import CallToolResult, GetPromptResult, ListPromptsResult, Tool

from perdure import App, Context, ExecutionFailed, Resource, workflow
from perdure.openai_agents import DurableMCPServer, PerdureRunner, current_context
from perdure.testing import World

SERVER = """
import os, sys
from mcp.server import MCPServer

server = MCPServer("sums")

@server.tool()
def add(a: int, b: int) -> str:
    with open(sys.argv[1], "a") as file:
        file.write(f"{os.getpid()} {a}+{b}\\n")
    return str(a + b)

server.run("stdio")
"""


def started(directory: Path) -> MCPServerStdio:
    """The server, not yet connected. It notes each call in a file."""
    file = directory / "server.py"
    file.write_text(SERVER)
    return MCPServerStdio({"command": sys.executable, "args": [str(file), str(directory / "calls")]}, name="sums", client_session_timeout_seconds=30)


class Sums(MCPServer):
    """A server in this process. It notes its sessions and calls."""

    def __init__(self, events: list[str], delay_s: float = 0) -> None:
        super().__init__()
        self.events, self.delay_s, self.connected = events, delay_s, False

    @property
    def name(self) -> str:
        return "sums"

    async def connect(self) -> None:
        self.connected = True

    async def cleanup(self) -> None:
        self.connected = False
        self.events.append("closed")

    async def list_tools(self, *about: Any) -> list[Tool]:
        assert self.connected and current_context() is None
        numbers = {"a": {"type": "integer"}, "b": {"type": "integer"}}
        return [Tool.model_validate({"name": "add", "inputSchema": {"type": "object", "properties": numbers}})]

    async def call_tool(self, tool_name: str, arguments: dict[str, Any] | None, meta: dict[str, Any] | None = None) -> CallToolResult:
        assert self.connected and arguments is not None and current_context() is None
        self.events.append(f"{arguments['a']}+{arguments['b']}")
        await asyncio.sleep(self.delay_s)
        return CallToolResult.model_validate({"content": [{"type": "text", "text": str(arguments["a"] + arguments["b"])}]})

    async def list_prompts(self) -> ListPromptsResult:
        return ListPromptsResult(prompts=[])

    async def get_prompt(self, name: str, arguments: dict[str, Any] | None = None) -> GetPromptResult:
        return GetPromptResult(messages=[])


def clerk(server: MCPServer) -> Agent[Any]:
    usage = Usage()
    answers = [
        ModelResponse([function_call("add", {"a": 1, "b": 2}, call_id="1"), function_call("add", {"a": 3, "b": 4}, call_id="2")], usage, None),
        ModelResponse([assistant_message("done")], usage, None),
    ]
    return Agent(name="clerk", model=ScriptedModel(answers), mcp_servers=[server])


@pytest.mark.perdure(always_suspend=True)
def test_lists_and_calls_of_a_server_are_steps_with_a_session_each(world: World) -> None:
    events = list[str]()
    agent = clerk(DurableMCPServer("sums", lambda: Sums(events)))

    @workflow
    async def sums(ctx: Context) -> list[Any]:
        result = await PerdureRunner().run(agent, "x")
        return [item.output for item in result.new_items if item.type == "tool_call_output_item"]

    run = world.start(sums)
    assert run.result() == [{"type": "text", "text": "3"}, {"type": "text", "text": "7"}]
    names = [step.path.removeprefix("agent:clerk/") for step in run.steps()]
    assert [name for name in names if name.startswith("mcp:")] == [
        "mcp:sums.list_tools",
        "mcp:sums.call_tool:add",
        "mcp:sums.call_tool:add#2",
        "mcp:sums.list_tools#2",
    ]
    assert sorted(events) == ["1+2", "3+4", "closed", "closed", "closed", "closed"]


def test_a_call_that_must_not_run_twice_is_reported_as_interrupted(world: World) -> None:
    events = list[str]()
    agent = clerk(DurableMCPServer("sums", lambda: Sums(events, delay_s=10)))

    @workflow
    async def sums(ctx: Context) -> str:
        result = await PerdureRunner(mcp={"idempotent": False}).run(agent, "x")
        return str([item.output for item in result.new_items if item.type == "tool_call_output_item"])

    run = world.start(sums)
    world.skip("5s")
    world.crash()
    assert run.result().count("not known whether it had an effect") == 2 and [event for event in events if "+" in event] == ["1+2", "3+4"]


async def test_outside_of_a_workflow_the_server_is_opened_for_each_request_too() -> None:
    events = list[str]()
    agent = clerk(DurableMCPServer("sums", lambda: Sums(events)))
    result = await PerdureRunner().run(agent, "x", run_config=RunConfig(tracing_disabled=True))
    assert result.final_output == "done" and events.count("closed") == 4


def test_a_server_that_its_program_connects_is_refused_with_what_to_pass(world: World) -> None:
    agent = clerk(Sums([]))

    @workflow
    async def refused(ctx: Context) -> None:
        await PerdureRunner().run(agent, "x")

    with pytest.raises(ExecutionFailed, match=r'MCP server sums of agent clerk .* Pass DurableMCPServer\("sums", lambda: \.\.\.\)'):
        world.run(refused)


@pytest.mark.filterwarnings("default")  # the warnings of the server library are not ours
@pytest.mark.slow
def test_a_resource_is_one_connection_for_all_requests_of_an_engine(tmp_path: Path) -> None:
    resource: Resource[MCPServer] = Resource("sums", lambda: started(tmp_path))
    agent = clerk(DurableMCPServer("sums", resource))

    @workflow
    async def sums_of_resource(ctx: Context) -> str:
        return str((await PerdureRunner().run(agent, "x")).final_output)

    with App([sums_of_resource], db=f"sqlite:///{tmp_path}/perdure.db") as app:
        assert app.run(sums_of_resource.with_(id="1")) == "done"
    assert len({line.split()[0] for line in (tmp_path / "calls").read_text().splitlines()}) == 1
