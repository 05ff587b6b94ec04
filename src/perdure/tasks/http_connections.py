"""Limits the connections of the endpoint: their number, their idle time, and the time and size of the head of a request.

A connection that sends nothing, or half of a head, costs its peer nothing and this process a file descriptor. The engine needs descriptors for its database
and its sandboxes. So a part of the process's limit is kept for it, every wait for a peer has an end, and when all connections are taken an idle one makes
room for a new one, first of all the oldest that has never sent the head of a request: silent peers displace one another, and no worker in a request.
"""

import asyncio
import logging
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from perdure.core import error_codes

logger = logging.getLogger("perdure.tasks")

KEEP_ALIVE_S = 75.0
"""How long a connection may be idle between two requests."""

HEAD_S = 20.0
"""How long the head of a request may take to arrive, counted from its first byte; the first one from the connection's beginning."""

HEAD_BYTES_MAX = 64 * 1024
"""The largest head of a request that is read."""

CONNECTIONS_MAX = 4096
"""The most connections at a time, where the process may have many files open."""

LINGER_S = 1.0
"""How long a connection is still read, and its data dropped, after its last answer. Closing at once could make the network drop the answer as well."""

RESERVE = 512
"""How many file descriptors are reserved for other purposes than connections; half of them if the process has fewer than twice as many."""

WARNING_S = 60.0
"""The shortest time between two warnings that all connections are taken."""


def connections_max() -> int:
    """Returns how many connections this process can afford: its limit of open files without the reserve."""
    try:
        import resource
    except ImportError:  # Windows: handles are not limited
        return CONNECTIONS_MAX
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return CONNECTIONS_MAX
    return max(1, min(CONNECTIONS_MAX, files - min(RESERVE, files // 2)))


def _last_response(status: str, type: str, message: str, next: str, header: str = "") -> bytes:
    """Returns a complete answer that is the last one of its connection."""
    body = msgspec.json.encode({"error": {"type": type, "message": message, "next": next}})
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n{header}\r\n"
    return head.encode() + body


class Admission:
    """Decides which connections are kept; shared by the connections of one server."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.open: set[Connection] = set()
        self.newcomers: dict[Connection, None] = {}
        """Connections that have not sent the head of a request yet, the oldest first."""
        self.idle: dict[Connection, None] = {}
        """Connections between two requests, the longest idle one first."""
        self._warned_s = -WARNING_S

    def admit(self, connection: "Connection") -> bool:
        """Admits a new connection. If all are taken, closes one that is in no request; returns False if there is none."""
        if len(self.open) >= self.limit:
            self._warn(connection.loop.time())
            oldest = next(iter(self.newcomers), None) or next(iter(self.idle), None)
            if oldest is None:
                return False
            self.leave(oldest)
            oldest.transport.abort()
        self.open.add(connection)
        self.newcomers[connection] = None
        return True

    def leave(self, connection: "Connection") -> None:
        """Removes a connection that has ended."""
        self.open.discard(connection)
        self.begin(connection)

    def begin(self, connection: "Connection") -> None:
        """Marks a connection as in a request."""
        _ = self.newcomers.pop(connection, None)
        _ = self.idle.pop(connection, None)

    def end(self, connection: "Connection") -> None:
        """Marks a connection as idle."""
        if connection in self.open:
            self.idle[connection] = None

    def _warn(self, now_s: float) -> None:
        if now_s - self._warned_s >= WARNING_S:
            self._warned_s = now_s
            logger.warning(
                "all %d connections are taken: idle ones are closed, and new ones refused. Run fewer workers, or raise the limit of open files (ulimit -n)",
                self.limit,
            )


class Connection(HttpToolsProtocol):
    """A connection with a deadline: for the head of a request, and for the next request after an answer."""

    def __init__(self, admission: Admission, **given: Any) -> None:
        super().__init__(**given)
        self._admission = admission
        self._deadline: asyncio.TimerHandle | None = None
        self._receiving = False
        """Whether bytes have arrived since the connection became idle; the deadline is then that of a head."""
        self._in_head = self._ending = False
        self._head_bytes = 0
        self._unsent_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in the base
        """Admits the connection, or answers at once that there are too many."""
        super().connection_made(transport)
        if not self._admission.admit(self):
            next = "connect again in 5 s; keep one connection, and use it for all requests"
            transport.write(
                _last_response(
                    "503 Service Unavailable", error_codes.HTTP_TOO_MANY_CONNECTIONS, "this process has no more connections", next, "retry-after: 5\r\n"
                )
            )
            transport.close()
            return
        self._end_within(HEAD_S)

    def connection_lost(self, exc: Exception | None) -> None:
        """Removes the connection."""
        self._admission.leave(self)
        self._set_deadline(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Reads data, as long as the head of the request is within its limits."""
        if self._ending or self.transport.is_closing():
            return
        if self._idle and not self._receiving:
            self._receiving = True
            self._end_within(HEAD_S)
        super().data_received(data)
        if not self._in_head:
            self._head_bytes = 0
            return
        self._head_bytes += len(data)
        if self._head_bytes > HEAD_BYTES_MAX:
            why = f"the head of a request may take {HEAD_BYTES_MAX:,} bytes at most"
            self._end(_last_response("431 Request Header Fields Too Large", error_codes.HTTP_HEADERS_TOO_LARGE, why, "send fewer or shorter headers"))

    def on_message_begin(self) -> None:
        """Handles the beginning of the head of a request."""
        self._in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Handles the end of the head: the request is answered from now on. The app limits how long its body may take."""
        self._in_head = False
        self._admission.begin(self)
        self._await_peer()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Handles the end of the body. If the request was answered before, the connection is now idle."""
        super().on_message_complete()
        self._begin_idle()

    def on_response_complete(self) -> None:
        """Handles the end of an answer."""
        super().on_response_complete()
        self._unset_keepalive_if_required()  # the base class sets a deadline of its own, which the next bytes would cancel for ever
        self._begin_idle()

    def pause_writing(self) -> None:
        """Handles a full write buffer: sets a deadline by which the peer must have read more."""
        super().pause_writing()
        self._await_peer()

    def resume_writing(self) -> None:
        """Handles a write buffer that the peer has mostly read."""
        super().resume_writing()
        if not self._idle:
            self._await_peer()

    @property
    def _idle(self) -> bool:
        """Whether no request is being answered."""
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request, which the type of the base class does not say
        return cycle is None or cycle.response_complete

    def _begin_idle(self) -> None:
        if self._idle:
            self._receiving = self._in_head  # the head of the next request may have arrived already
            self._admission.end(self)
            self._end_within(HEAD_S if self._in_head else KEEP_ALIVE_S)

    def _await_peer(self) -> None:
        """Sets a deadline during a request only if the answer waits for the peer to read."""
        if self.flow.write_paused:
            self._end_within(KEEP_ALIVE_S)
        else:
            self._set_deadline(None)

    def _end_within(self, wait_s: float) -> None:
        self._unsent_bytes = self.transport.get_write_buffer_size()
        self._set_deadline(self.loop.call_later(wait_s, self._late, wait_s))

    def _set_deadline(self, deadline: asyncio.TimerHandle | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = deadline

    def _late(self, wait_s: float) -> None:
        """Ends a connection whose peer is late, unless the peer is still reading an answer."""
        unsent_bytes = self.transport.get_write_buffer_size()
        if 0 < unsent_bytes < self._unsent_bytes:
            self._end_within(wait_s)
        elif unsent_bytes or self._ending:
            self.transport.abort()  # closing would wait for a peer that reads nothing
        elif self._in_head:
            self._end(
                _last_response("408 Request Timeout", error_codes.HTTP_TOO_SLOW, f"the head of the request did not arrive within {wait_s:g} s", "send it again")
            )
        else:
            self.transport.close()

    def _end(self, answer: bytes) -> None:
        """Sends the last answer. The connection closes when the peer has read it."""
        self._ending = True
        self.transport.write(answer)
        self.transport.write_eof()
        self._end_within(LINGER_S)
