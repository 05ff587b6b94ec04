"""Tools over a service in this process, and MCP clients of real processes."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from perdure import App
from perdure.api.service_api import DEFAULTS, ServiceApi, ServiceSettings
from perdure.mcp_server.mcp_endpoint import McpEndpoint
from perdure.mcp_server.operation_requests import RequestsInProcess
from perdure.mcp_server.tool_service import CallOutcome, ToolService
from perdure.service.callers import Role
from tests.api.api_setup import WORKFLOWS, add
from tests.api.service_setup import Service
from tests.definitions.kinds.agents.scripted_model import ModelScript, deployed

INVOICE = {"perdure": 1, "name": "invoice", "allow": {"self_edit": True}, "vars": {"n": 0}, "steps": [{"id": "note", "set": {"n": 1}}], "output": "@vars.n"}


@asynccontextmanager
async def mcp_service(directory: Path, settings: ServiceSettings = DEFAULTS, *, mcp: McpEndpoint | None = None) -> AsyncIterator[Service]:
    """A service in this process over an engine that runs definitions of the catalog, which may use the steps of the tests. Its model writes nothing."""
    writer = ModelScript([("give_up", {"reason": "these are tests"})])
    async with App(WORKFLOWS, tools=[add], db=f"sqlite:///{directory}/service.db", deployment=deployed(default=writer)) as app:
        service = ServiceApi(app.client.access, settings, mcp=mcp)
        running = asyncio.create_task(service.run())
        try:
            yield Service(service)
        finally:
            running.cancel()
            _ = await asyncio.gather(running, return_exceptions=True)


class Tools:
    """The tools of a service, called with a key."""

    def __init__(self, service: Service, key: str, tools: ToolService) -> None:
        scope = {"headers": [(b"authorization", f"Bearer {key}".encode()), (b"host", b"perdure.example.com")], "client": ("192.0.2.7", 5000)}
        self.requests, self._tools = RequestsInProcess(service.app, scope), tools

    async def __call__(self, tool: str, given: Mapping[str, Any] | None = None, /, **arguments: Any) -> Any:
        """What a call brings that succeeds."""
        outcome = await self.outcome(tool, given, **arguments)
        assert not outcome.is_error, (tool, outcome.text)
        return outcome.value

    async def outcome(self, tool: str, given: Mapping[str, Any] | None = None, /, **arguments: Any) -> CallOutcome:
        """What a call brings."""
        return await self._tools.call(self.requests, tool, {**(given or {}), **arguments})

    async def refused(self, tool: str, given: Mapping[str, Any] | None = None, /, **arguments: Any) -> dict[str, Any]:
        """The problem that a call brings; it has a sentence, and says what to do next."""
        outcome = await self.outcome(tool, given, **arguments)
        assert outcome.is_error, (tool, outcome.text)
        assert outcome.value["code"], outcome
        assert outcome.value["detail"], outcome
        assert outcome.value["next"] and f"\nNext: {outcome.value['next']}" in outcome.text, outcome
        return outcome.value

    async def names(self) -> list[str]:
        """The names of the tools in the list."""
        return [one.name for one in await self._tools.tools(self.requests)]


async def tools_of(service: Service, *roles: Role, tools: ToolService | None = None, tenant: str = "default") -> Tools:
    """The tools of a new key."""
    return Tools(service, await service.key(*roles, tenant=tenant), tools or ToolService())


@asynccontextmanager
async def stdio(directory: Path, *words: str, mode: str = "auto", message_handler: Any = None, **environment: str) -> AsyncIterator[Client]:
    """A client of `perdure mcp`, which is a process of its own on the database of a directory. `mode` is that of the client: auto, or legacy."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")}
    given = {**kept, "PERDURE_DB": f"sqlite:///{directory}/mcp.db", "PYTHONWARNINGS": "", "NOISE": "1", **environment}
    given = {name: value for name, value in given.items() if value}
    process = StdioServerParameters(command=sys.executable, args=["-m", "perdure.cli", "mcp", *words], cwd=str(directory), env=given)
    with (directory / "mcp.log").open("a") as log:
        async with Client(stdio_client(process, errlog=log), mode=mode, message_handler=message_handler) as client:
            yield client


async def called(client: Client, tool: str, **arguments: Any) -> Any:
    """What a call of a client brings that succeeds."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, (tool, result.content)
    return result.structured_content
