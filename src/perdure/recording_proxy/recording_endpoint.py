"""The endpoint ``/mcp/record/{recording}`` of a server: the proxy of a recording over streamable HTTP, without sessions.

Whoever may call tools in recordings has the tools of the servers there; the id of a recording opens nothing. Each operation is checked and audited as over the
API. What a server asks becomes an approval, since nothing can be asked of a client between two requests.

A client ends a call by closing its request, or, in versions of the protocol before 2026, by a message that names the request. That message is a request of its
own. It finds the call if it reaches the same process, and no other open request of this caller in this recording has the same id.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, MutableMapping
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.api.problems import Refusal, missing_library
from perdure.code.declarations import checked_name
from perdure.core.errors import NotFound
from perdure.core.paths import Key
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
    from perdure.api.http_requests import ApiRequest, AsgiReceive, AsgiSend
    from perdure.recording_proxy.recording_server import RecordingServer, RequestId

logger = logging.getLogger("perdure.mcp")

BODY_BYTES_MAX = 16 * 1024 * 1024
"""The largest message."""

CANCELLED = "notifications/cancelled"
"""The method of the message by which a client ends a request."""


class RecordingEndpoint:
    """Answers the requests of MCP clients that record calls of the tools of these servers."""

    def __init__(self, recorded: RecordedServers) -> None:
        self._recorded = recorded
        self._open: defaultdict[tuple[Key, str], list[RecordingServer]] = defaultdict(list)

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
        body = await request.body(BODY_BYTES_MAX) if request.method == "POST" else b""
        key = recording_key(caller.tenant, id)
        try:
            _ = await starting.head(key)  # a read, as for nearly all requests the recording is there
        except NotFound:
            _ = await on_recordings.start(starting, caller.tenant, id, author=caller.subject)
        connected = ConnectedServers(self._recorded.servers, self._recorded.lists, engine, caller.tenant)
        if (cancelled := cancelled_request(body)) is not None:
            self._cancel(key, caller, cancelled)
        server = server_class(calling, key, connected, self._recorded.channels, caller.subject, access_for=access_for, takes_questions=False)
        manager = manager_class(server.server, stateless=True, max_request_body_size=BODY_BYTES_MAX)
        self._open[key, caller.subject].append(server)
        try:
            async with manager.run():
                await manager.handle_request(request.scope, _read_again(body, request.receive), send)
        finally:
            self._open[key, caller.subject].remove(server)
            if not self._open[key, caller.subject]:
                del self._open[key, caller.subject]

    def _cancel(self, key: Key, caller: Caller, id: RequestId) -> None:
        found = [server for server in self._open.get((key, caller.subject), ()) if server.is_open(id)]
        if len(found) == 1:
            found[0].cancel(id)
        else:
            logger.info("%s cancels the request %r of the recording %s, of which %d are open here; nothing ends", caller.subject, id, key.id, len(found))


def cancelled_request(body: bytes) -> RequestId | None:
    """Returns the id of the request that a message cancels; None if it is another message."""
    if b"cancelled" not in body:  # it is decoded by the library as well, and nearly none is such a message
        return None
    try:
        message = msgspec.json.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):  # the library answers that it can't be read
        return None
    params = message.get("params") if isinstance(message, dict) and message.get("method") == CANCELLED else None
    id = params.get("requestId") if isinstance(params, dict) else None
    return id if isinstance(id, str | int) and not isinstance(id, bool) else None


def _read_again(body: bytes, receive: AsgiReceive) -> AsgiReceive:
    """Returns a `receive` that gives a body which was read already, and then what comes after it."""
    given = False

    async def received() -> MutableMapping[str, Any]:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return received


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
