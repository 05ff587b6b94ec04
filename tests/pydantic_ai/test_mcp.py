"""Claims about MCP servers of agents in workflows. They need a server library, which is no part of an extra: pip install "fastmcp-slim[client,server]"."""

from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

from perdure import Client, Context, workflow
from perdure.pydantic_ai import PerdureDurability

fastmcp: Any = pytest.importorskip("fastmcp", reason="the server library is not installed")

pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.slow]  # its warnings are not ours


def test_lists_instructions_and_calls_of_a_server_are_steps(tmp_path: Any) -> None:
    from pydantic_ai.mcp import MCPToolset  # imported late, because it needs the server library

    server = fastmcp.FastMCP("server", instructions="Add what you are given.")
    called = list[tuple[int, int]]()

    @server.tool  # type: ignore[untyped-decorator]  # the library may be missing, so nothing is known of it
    def add(a: int, b: int) -> int:
        called.append((a, b))
        return a + b + 5

    agent = Agent(TestModel(), name="clerk", toolsets=[MCPToolset(server, id="sums", include_instructions=True)], capabilities=[PerdureDurability()])

    @workflow
    async def count(ctx: Context) -> str:
        return (await agent.run("x")).output

    db = f"sqlite:///{tmp_path}/perdure.db"
    assert count.with_(id="1", db=db).run() == '{"add":5}' and called == [(0, 0)]
    with Client(db) as client:
        names = [one.path.removeprefix("agent:clerk/clerk__") for one in client.get("1", count).steps()]
    assert [name for name in names if not name.startswith("model.")] == [
        "mcp_server__sums.get_tools",
        "mcp_server__sums.get_instructions",
        "mcp_server__sums.call_tool",
        "mcp_server__sums.get_instructions#2",
    ]
