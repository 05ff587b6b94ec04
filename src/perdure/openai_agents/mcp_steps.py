"""Requests to MCP servers as steps. A session with a server can't outlive a process, so a server is declared by how it is opened."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from agents import Agent, UserError
from agents.agent import AgentBase
from agents.mcp import MCPServer
from agents.mcp.server import RequireApprovalSetting
from agents.run_context import RunContextWrapper
from mcp.types import CallToolResult, GetPromptResult, ListPromptsResult, Tool
from pydantic import TypeAdapter

from perdure.agent_steps import INTERRUPTED
from perdure.code.context import current_context
from perdure.code.step_environment import Resource
from perdure.openai_agents.agent_run import current_run, run_step

T = TypeVar("T")

UNKNOWN_OUTCOME = {"content": [{"type": "text", "text": INTERRUPTED}], "isError": True}
_TOOLS, _CALLED = TypeAdapter(list[Tool]), TypeAdapter(CallToolResult)
_PROMPTS, _PROMPT = TypeAdapter(ListPromptsResult), TypeAdapter(GetPromptResult)


class DurableMCPServer(MCPServer):
    """An MCP server of an agent: ``Agent(..., mcp_servers=[DurableMCPServer("files", lambda: MCPServerStdio(params))])``.

    `opens` is a function that makes a server, which each request connects and cleans up; or a `Resource` of a connected server, which an engine opens once.
    In a workflow, each list of tools and each call is a step. There is nothing to connect beforehand.
    """

    def __init__(
        self,
        name: str,
        opens: Callable[[], MCPServer] | Resource[MCPServer],
        *,
        use_structured_content: bool = False,
        require_approval: RequireApprovalSetting = None,
    ) -> None:
        super().__init__(use_structured_content=use_structured_content, require_approval=require_approval)
        self._name, self._opens = name, opens

    @property
    def name(self) -> str:
        """The name of the server, which is part of the names of its steps."""
        return self._name

    async def connect(self) -> None:
        """Does nothing: each request opens what it needs."""

    async def cleanup(self) -> None:
        """Does nothing, as `connect`."""

    async def list_tools(self, run_context: RunContextWrapper[Any] | None = None, agent: AgentBase[Any] | None = None) -> list[Tool]:
        """Lists the tools of the server."""
        return await self._request("list_tools", _TOOLS, lambda server: server.list_tools(run_context, agent))

    async def call_tool(self, tool_name: str, arguments: dict[str, Any] | None, meta: dict[str, Any] | None = None) -> CallToolResult:
        """Calls a tool of the server."""
        further = {} if meta is None else {"meta": meta}
        return await self._request(f"call_tool:{tool_name}", _CALLED, lambda server: server.call_tool(tool_name, arguments, **further), UNKNOWN_OUTCOME)

    async def list_prompts(self) -> ListPromptsResult:
        """Lists the prompts of the server."""
        return await self._request("list_prompts", _PROMPTS, lambda server: server.list_prompts())

    async def get_prompt(self, name: str, arguments: dict[str, Any] | None = None) -> GetPromptResult:
        """Returns a prompt of the server."""
        return await self._request(f"get_prompt:{name}", _PROMPT, lambda server: server.get_prompt(name, arguments))

    async def _request(self, what: str, kind: TypeAdapter[T], ask: Callable[[MCPServer], Awaitable[T]], interrupted: Any = None) -> T:
        async def perform() -> Any:
            async with self._opened() as server:
                return kind.dump_python(await ask(server), mode="json", by_alias=True, exclude_none=True)

        if current_context() is None:
            return kind.validate_python(await perform())
        return kind.validate_python(await run_step(f"mcp:{self._name}.{what}", perform, current_run().settings.mcp, interrupted=interrupted))

    @asynccontextmanager
    async def _opened(self) -> AsyncGenerator[MCPServer]:
        if isinstance(self._opens, Resource):
            yield await self._opens
            return
        server = self._opens()
        await server.connect()  # type: ignore[no-untyped-call]  # the SDK has no types for it
        try:
            yield server
        finally:
            await server.cleanup()  # type: ignore[no-untyped-call]  # the same


def checked_server(server: MCPServer, agent: Agent[Any]) -> MCPServer:
    """Returns a server whose requests are steps.

    Raises:
        UserError: it is not declared by how it is opened.
    """
    if isinstance(server, DurableMCPServer):
        return server
    raise UserError(
        f"MCP server {server.name} of agent {agent.name} is connected by its program, which a workflow can't do. "
        f'Pass DurableMCPServer("{server.name}", lambda: ...) from perdure.openai_agents, with a function that makes the server'
    )
