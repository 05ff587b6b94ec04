"""The server of the protocol, by the library of the protocol. Importing this module takes one to two seconds, so it is imported when the first client comes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import mcp_types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError

from perdure.mcp_server.model_tools import ModelTool
from perdure.mcp_server.operation_requests import OperationRequests, RequestRefused
from perdure.mcp_server.tool_service import INSTRUCTIONS, ToolService
from perdure.service.server_description import package_version

logger = logging.getLogger("perdure.mcp_server")

RequestsOf = Callable[[Any], OperationRequests]
"""Makes the requests for operations on behalf of a request of the protocol: of what the transport knows of it."""

DESCRIBED_MAX = 2_000


class ProtocolServer:
    """A server of the protocol over a service of tools. With `tells_changes`, on a connection that stays, the client is told when the list has changed."""

    def __init__(self, service: ToolService, requests_of: RequestsOf, *, tells_changes: bool = False) -> None:
        self.service, self._requests_of, self._tells_changes = service, requests_of, tells_changes
        self._described: dict[int, tuple[ModelTool, mcp_types.Tool]] = {}
        self._bus = InMemorySubscriptionBus()
        self._session: ServerSession | None = None
        listen: dict[str, Any] = {"on_subscriptions_listen": ListenHandler(self._bus)} if tells_changes else {}
        self.server: Server[Any] = Server(
            "perdure",
            version=package_version(),
            title="Perdure",
            description="Durable workflows: start, watch, decide, repair and write them.",
            instructions=INSTRUCTIONS,
            get_tool_input_schema=lambda _: None,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            **listen,
        )

    @property
    def options(self) -> InitializationOptions:
        """What a client is told when a connection begins."""
        return self.server.create_initialization_options(NotificationOptions(tools_changed=self._tells_changes))

    async def tell_change(self) -> None:
        """Tells the client that the list of tools has changed, if it has asked for the list before."""
        await self._bus.publish(ToolsListChanged())
        if self._session is not None:
            await self._session.send_tool_list_changed()

    async def _list_tools(self, context: ServerRequestContext[Any], params: mcp_types.PaginatedRequestParams | None) -> mcp_types.ListToolsResult:
        self._session = context.session if self._tells_changes else None
        try:
            tools = await self.service.tools(self._requests_of(context.request))
        except RequestRefused as refused:
            raise MCPError(mcp_types.INTERNAL_ERROR, str(refused)) from refused
        return mcp_types.ListToolsResult(tools=[self._shown(one) for one in tools])

    def _shown(self, tool: ModelTool) -> mcp_types.Tool:
        if (kept := self._described.get(id(tool))) is not None and kept[0] is tool:
            return kept[1]
        hints = tool.hints
        about = mcp_types.ToolAnnotations(
            read_only_hint=hints.reads_only,
            destructive_hint=None if hints.reads_only else hints.is_destructive,
            idempotent_hint=None if hints.reads_only else hints.is_repeatable,
            open_world_hint=False,
        )
        found = mcp_types.Tool(name=tool.name, description=tool.description, input_schema=tool.input_schema, annotations=about)
        if len(self._described) >= DESCRIBED_MAX:
            self._described.clear()
        self._described[id(tool)] = tool, found
        return found

    async def _call_tool(self, context: ServerRequestContext[Any], params: mcp_types.CallToolRequestParams) -> mcp_types.CallToolResult:
        outcome = await self.service.call(self._requests_of(context.request), params.name, params.arguments or {})
        content = mcp_types.TextContent(type="text", text=outcome.text)
        return mcp_types.CallToolResult(content=[content], structured_content=outcome.value, is_error=outcome.is_error)
