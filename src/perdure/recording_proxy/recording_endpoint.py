"""The endpoint ``/mcp/record/{recording}`` of a server: the proxy of a recording over streamable HTTP, without sessions.

Whoever may call tools in recordings has the tools of the servers there; the id of a recording opens nothing. Each operation is checked and audited as over the
API. What a server asks becomes an approval, since nothing can be asked of a client between two requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from perdure.api.problems import Refusal, missing_library
from perdure.code.declarations import checked_name
from perdure.core.errors import NotFound
from perdure.operations import on_recordings
from perdure.operations.operation_table import BY_FUNCTION
from perdure.recording.recording_requests import recording_key
from perdure.recording_proxy.connected_servers import ConnectedServers
from perdure.recording_proxy.recorded_servers import RecordedServers
from perdure.service.audit import AuditedBy, audited_access
from perdure.service.callers import Caller
from perdure.service.store_access import StoreAccess

if TYPE_CHECKING:
    from perdure.api.api_app import ApiApp
    from perdure.api.http_requests import ApiRequest, AsgiSend

BODY_BYTES_MAX = 16 * 1024 * 1024
"""The largest message."""


class RecordingEndpoint:
    """Answers the requests of MCP clients that record calls of the tools of these servers."""

    def __init__(self, recorded: RecordedServers) -> None:
        self._recorded = recorded

    async def __call__(self, app: ApiApp, request: ApiRequest, caller: Caller, recording: str, send: AsgiSend) -> None:
        """Answers a request. The recording is begun unless it is there.

        Raises:
            Forbidden: the caller may not call tools in recordings.
            BadName: the recording has no valid id.
            Refusal: no engine runs here, or the library is not installed.
        """
        id, engine = checked_name(recording, "recording"), app.access.engine
        access_for = _checked_access(app.access, caller, request.address)
        calling, starting = access_for(on_recordings.call), access_for(on_recordings.start)
        if engine is None:
            raise Refusal(409, "no_engine", "this process has no engine, which would call the tools", "ask a process that has the role engine")
        try:
            server_class, manager_class = await asyncio.to_thread(_import_library)  # other requests are answered meanwhile
        except ImportError as missing:
            raise missing_library(missing) from None
        key = recording_key(caller.tenant, id)
        try:
            _ = await starting.head(key)  # a read, as for nearly all requests the recording is there
        except NotFound:
            _ = await on_recordings.start(starting, caller.tenant, id, author=caller.subject)
        connected = ConnectedServers(self._recorded.servers, self._recorded.lists, engine, caller.tenant)
        server = server_class(calling, key, connected, self._recorded.channels, caller.subject, access_for=access_for, takes_questions=False).server
        manager = manager_class(server, stateless=True, max_request_body_size=BODY_BYTES_MAX)
        async with manager.run():
            await manager.handle_request(request.scope, request.receive, send)


def _checked_access(access: StoreAccess, caller: Caller, address: str) -> Callable[[Callable[..., Any]], StoreAccess]:
    def access_for(function: Callable[..., Any]) -> StoreAccess:
        operation = BY_FUNCTION[function]
        operation.expect_allowed(caller)
        return audited_access(access, AuditedBy(caller, operation.name, address))

    return access_for


def _import_library() -> tuple[Any, Any]:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from perdure.recording_proxy.recording_server import RecordingServer

    return RecordingServer, StreamableHTTPSessionManager
