"""The endpoint ``/mcp`` of a server: the protocol over streamable HTTP, without sessions.

Each request is complete in itself, so several processes behind a load balancer may answer the requests of one client, and a process that ends takes nothing
along. Who asks is found out as for any request of the API; each operation that a tool calls is then a request of its own, by the same caller.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from perdure.api.http_requests import AsgiSend
from perdure.api.problems import Refusal, missing_library
from perdure.core.header_values import body_encoding
from perdure.mcp_server.operation_requests import RequestsInProcess
from perdure.mcp_server.published_workflows import PublishedWorkflows

if TYPE_CHECKING:
    from perdure.api.api_app import ApiApp
    from perdure.api.http_requests import ApiRequest
    from perdure.recording_proxy.recording_endpoint import RecordingEndpoint
    from perdure.service.callers import Caller

BODY_BYTES_MAX = 16 * 1024 * 1024
"""The largest message."""


class McpEndpoint:
    """Answers the requests of MCP clients. `published` are the workflows that are tools of their own. The library is imported for the first request.

    With `lists_aliases`, the list has the tools under their further names as well. `recordings` answers below ``/mcp/record``.
    """

    def __init__(self, published: PublishedWorkflows | None = None, *, lists_aliases: bool = False, recordings: RecordingEndpoint | None = None) -> None:
        self._published, self._lists_aliases, self._recordings = published or PublishedWorkflows(), lists_aliases, recordings
        self._manager: asyncio.Task[Any] | None = None
        self._running: asyncio.Task[None] | None = None
        self._ending: asyncio.Event | None = None

    async def __call__(self, app: ApiApp, request: ApiRequest, caller: Caller, send: AsgiSend) -> None:
        """Answers a request of a caller.

        Raises:
            Refusal: it is no POST, nothing answers at this path, or the library is not installed.
            Forbidden, BadName: see `RecordingEndpoint`.
        """
        below = request.segments[1:]
        if below and (len(below) != 2 or below[0] != "record"):
            raise Refusal(404, "not_found", f"nothing answers at {request.path}", "ask /mcp, or /mcp/record/RECORDING")
        if below and self._recordings is None:
            raise Refusal(404, "not_found", "this server records no calls of tools", "start it with --tools mcp.json, a file of MCP servers")
        if request.method != "POST":
            message = f"{request.method} is not allowed here: there are no sessions, and the server sends nothing by itself"
            raise Refusal(405, "method_not_allowed", message, "send each message of the protocol by POST", ((b"allow", b"POST"),))
        if body_encoding(request.header("content-encoding")):
            await request.body()  # which refuses it
        if below and self._recordings is not None:
            await self._recordings(app, request, caller, below[1], send)
            return
        try:
            manager = await self._begun(app)
        except ImportError as missing:
            raise missing_library(missing) from None
        await manager.handle_request(request.scope, request.receive, send)

    async def _begun(self, app: ApiApp) -> Any:
        """Returns what handles requests, which is made for the first one, and again if that has failed."""
        if self._manager is None or (self._manager.done() and (self._manager.cancelled() or self._manager.exception() is not None)):
            self._manager = asyncio.create_task(self._make(app))
        return await asyncio.shield(self._manager)  # the other first requests wait for it, too

    async def _make(self, app: ApiApp) -> Any:
        from perdure.mcp_server.tool_service import ToolService

        service = ToolService(self._published, lists_aliases=self._lists_aliases)
        make = await asyncio.to_thread(_import_library)  # other requests are answered meanwhile
        manager = make(service, lambda http: RequestsInProcess(app, http.scope))
        started, self._ending = asyncio.Event(), asyncio.Event()
        self._running = asyncio.create_task(_run(manager, started, self._ending))
        _ = await started.wait()
        return manager

    async def aclose(self) -> None:
        """Ends what handles requests."""
        if self._ending is not None and self._running is not None:
            self._ending.set()
            with suppress(asyncio.CancelledError):
                await self._running
            self._manager, self._running, self._ending = None, None, None


def _import_library() -> Any:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from perdure.mcp_server.protocol_server import ProtocolServer

    def make(service: Any, requests_of: Any) -> Any:
        server = ProtocolServer(service, requests_of).server
        return StreamableHTTPSessionManager(server, json_response=True, stateless=True, max_request_body_size=BODY_BYTES_MAX)

    return make


async def _run(manager: Any, started: asyncio.Event, ending: asyncio.Event) -> None:
    async with manager.run():
        started.set()
        _ = await ending.wait()
