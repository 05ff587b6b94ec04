"""The connections of an HTTP server: their number, their idle time, the time and size of the head of a request, and what is refused as no HTTP.

A connection that sends nothing, or half of a head, costs its peer nothing and this process a file descriptor. The engine needs descriptors for its database
and its sandboxes. So a part of the process's limit is kept for it, every wait for a peer has an end, and when all connections are taken an idle one makes
room for a new one, first of all the oldest that has never sent the head of a request: silent peers displace one another, and no client in a request.

A request that two servers could read in two ways is refused, and its connection ends: what follows it may be what the sender has hidden there. The parser
(llhttp) refuses most of them, such as those with two lengths; what it leaves to the server is checked here.
"""

import asyncio
import logging
import re
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import httptools
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

CONNECTIONS_MAX = 16_384
"""The most connections at a time, where the process may have many files open."""

LINGER_S = 1.0
"""How long a connection is still read, and its data dropped, after its last answer. Closing at once could make the network drop the answer as well."""

RESERVE = 512
"""How many file descriptors are reserved for other purposes than connections; half of them if the process has fewer than twice as many."""

WARNING_S = 60.0
"""The shortest time between two warnings that all connections are taken."""

PIPELINED_MAX = 64
"""How many requests of one connection may wait for the answers to those before them."""

DEAD_PEER_S = 75
"""After this time a peer that acknowledges nothing is taken for dead: its machine is gone, and will not say so."""

GIVEN_ONCE = frozenset((b"host", b"authorization", b"content-type", b"content-encoding", b"idempotency-key", b"last-event-id"))
"""Headers that say different things to different readers when they are repeated. Of lengths, the parser knows that."""

_HOST = re.compile(rb"[A-Za-z0-9._~!$&'()*+,;=%-]+(?::[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](?::[0-9]{1,5})?")
_ABSOLUTE = re.compile(rb"(?i:https?)://([^/?#]*)")


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


class HttpError(NamedTuple):
    """Why a connection ends: the status and its phrase, the code, what happened, what to do next, and a further header."""

    status: str
    code: str
    message: str
    next: str
    header: str = ""


ErrorForm = Callable[[HttpError], tuple[str, bytes]]
"""Returns an error in the form that the clients of a server know: its media type, and the body."""


def worker_error(error: HttpError) -> tuple[str, bytes]:
    """Returns an error in the form of the workers' protocol."""
    return "application/json", msgspec.json.encode({"error": {"type": error.code, "message": error.message, "next": error.next}})


def detect_dead_peers(listening: socket.socket) -> None:
    """Makes the connections that a socket accepts end when their peer is gone without a word, where the system can do that."""
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", DEAD_PEER_S // 3), ("TCP_KEEPINTVL", DEAD_PEER_S // 6), ("TCP_KEEPCNT", 4), ("TCP_USER_TIMEOUT", DEAD_PEER_S * 1000)):
        if (option := getattr(socket, name, None)) is not None:
            listening.setsockopt(socket.IPPROTO_TCP, option, value)


class Admission:
    """Decides which connections are kept; shared by the connections of one server. `form` is that of its errors."""

    def __init__(self, limit: int, form: ErrorForm = worker_error) -> None:
        self.limit, self.form = limit, form
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
                "all %d connections are taken: idle ones are closed, and new ones refused. Run fewer clients, or raise the limit of open files (ulimit -n)",
                self.limit,
            )


class _Refused(Exception):  # an expected outcome on its way through the parser
    """A request that is refused with `error`."""

    def __init__(self, error: HttpError) -> None:
        super().__init__(error.message)
        self.error = error


def _bad_request(why: str) -> HttpError:
    return HttpError("400 Bad Request", error_codes.HTTP_BAD_REQUEST, f"this is no request of HTTP/1.1: {why}", "send requests with a library for HTTP")


HEAD_TOO_LARGE = HttpError(
    "431 Request Header Fields Too Large",
    error_codes.HTTP_HEADERS_TOO_LARGE,
    f"the head of a request may take {HEAD_BYTES_MAX:,} bytes at most",
    "send fewer or shorter headers",
)


class Connection(HttpToolsProtocol):
    """A connection with a deadline: for the head of a request, and for the next request after an answer."""

    def __init__(self, admission: Admission, **given: Any) -> None:
        super().__init__(**given)
        self._admission = admission
        self._deadline: asyncio.TimerHandle | None = None
        self._receiving = False
        """Whether bytes have arrived since the connection became idle; the deadline is then that of a head."""
        self._in_head = self._in_body = self._ending = False
        self._framing_bytes = 0
        """How many bytes have arrived that are no body: since the head of a request began, or since the last byte of its body."""
        self._unsent_bytes = 0
        self._unanswered: deque[RequestResponseCycle] = deque()
        """The requests whose heads have arrived and that are not answered, the oldest first."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in the base
        """Admits the connection, or answers at once that there are too many."""
        super().connection_made(transport)
        if not self._admission.admit(self):
            next = "connect again in 5 s; keep one connection, and use it for all requests"
            why = "this process has no more connections"
            transport.write(self._written(HttpError("503 Service Unavailable", error_codes.HTTP_TOO_MANY_CONNECTIONS, why, next, "retry-after: 5\r\n")))
            transport.close()
            return
        self._end_within(HEAD_S)

    def connection_lost(self, exc: Exception | None) -> None:
        """Removes the connection."""
        self._admission.leave(self)
        self._set_deadline(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Reads data, as long as the head of the request is within its limits, and so is what is around the chunks of its body."""
        if self._ending or self.transport.is_closing():
            return
        if self._idle and not self._receiving:
            self._receiving = True
            self._end_within(HEAD_S)
        self._unset_keepalive_if_required()
        self._framing_bytes += len(data)
        self._parse(data)
        if not (self._in_head or self._in_body):
            self._framing_bytes = 0
        elif self._framing_bytes > HEAD_BYTES_MAX and not self._ending:
            self._refuse(HEAD_TOO_LARGE)

    def _parse(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._parse_without_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            cause = error.__context__
            self._refuse(cause.error if isinstance(cause, _Refused) else _bad_request(str(error)))

    def _parse_without_upgrade(self, rest: bytes) -> None:
        """Reads a request that offers another protocol as if it did not. The parser would take its body for that protocol."""
        kept = [(name, value) for name, value in self.headers if name not in (b"upgrade", b"connection", b"http2-settings")]
        closes = any(name == b"connection" and b"close" in value.lower() for name, value in self.headers)
        head = [b"%s %s HTTP/1.1" % (self.parser.get_method(), self.url), *(b"%s: %s" % header for header in kept), *([b"connection: close"] * closes)]
        self.parser = httptools.HttpRequestParser(self)
        self._parse(b"\r\n".join([*head, b"", b""]) + rest)

    def on_message_begin(self) -> None:
        """Handles the beginning of the head of a request."""
        self._in_head = True
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keeps a header of the head. Those behind a body in chunks are dropped: they come too late to say who sends the request, and what it is."""
        if self._in_head:
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        """Handles a part of the body."""
        self._framing_bytes = 0
        super().on_body(body)

    def on_headers_complete(self) -> None:
        """Handles the end of the head: the request is answered from now on. The app limits how long its body may take.

        Raises:
            _Refused: two servers could read the request in two ways, or it is none for this one.
        """
        self._in_head, self._framing_bytes = False, 0
        self._check_head()
        if self.parser.should_upgrade():
            return
        self._admission.begin(self)
        self._await_peer()
        self._in_body = True
        super().on_headers_complete()
        self._unanswered.append(self.cycle)

    def _check_head(self) -> None:
        """Checks what the parser leaves to the server."""
        version, seen, size_bytes = self.parser.get_http_version(), set[bytes](), len(self.url)
        for name, value in self.headers:
            size_bytes += len(name) + len(value) + 4
            if name in GIVEN_ONCE:
                if name in seen:
                    raise _Refused(_bad_request(f"the header {name.decode()} is given twice"))
                seen.add(name)
                if name == b"host" and _HOST.fullmatch(value) is None:
                    raise _Refused(_bad_request("the header host is no name of a host"))
            elif name == b"transfer-encoding" and (value.lower() != b"chunked" or version == "1.0"):
                raise _Refused(_bad_request("the only transfer-encoding is chunked"))
        if size_bytes > HEAD_BYTES_MAX:
            raise _Refused(HEAD_TOO_LARGE)
        if version not in ("1.1", "1.0"):
            raise _Refused(HttpError("505 HTTP Version Not Supported", error_codes.HTTP_BAD_REQUEST, f"this is HTTP/{version}", "use HTTP/1.1"))
        if version == "1.1" and b"host" not in seen:
            raise _Refused(_bad_request("the header host is missing"))
        if len(self._unanswered) > PIPELINED_MAX:
            raise _Refused(_bad_request("it is one of too many at a time"))
        if (absolute := _ABSOLUTE.match(self.url)) is not None:  # its host counts, and not that of the header
            if _HOST.fullmatch(absolute[1]) is None:
                raise _Refused(_bad_request("its address names no host"))
            self.headers[:] = [(b"host", absolute[1]), *(header for header in self.headers if header[0] != b"host")]
        elif not self.url.startswith(b"/") or b"#" in self.url:
            raise _Refused(_bad_request("its address is no path"))

    def on_message_complete(self) -> None:
        """Handles the end of the body. If the request was answered before, the connection is now idle."""
        if self.parser.should_upgrade():
            return
        self._in_body = False
        super().on_message_complete()
        self._begin_idle()

    def on_response_complete(self) -> None:
        """Handles the end of an answer."""
        if self._unanswered:
            _ = self._unanswered.popleft()
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
        if self._idle and not self._ending:
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
            why = f"the head of the request did not arrive within {wait_s:g} s"
            self._refuse(HttpError("408 Request Timeout", error_codes.HTTP_TOO_SLOW, why, "send it again"))
        else:
            self.transport.close()

    def _refuse(self, error: HttpError) -> None:
        """Reads no more. Requests that have arrived whole are answered; without any, sends `error`. Then the connection ends, when the peer has read that."""
        self._ending = True
        has_begun = self._in_body and self._idle
        while self._unanswered and self._unanswered[-1].more_body:
            cycle = self._unanswered.pop()
            has_begun |= cycle.response_started
            cycle.disconnected = True
            cycle.message_event.set()
            if self.pipeline and self.pipeline[0][0] is cycle:
                _ = self.pipeline.popleft()
        if self._unanswered:
            self._unanswered[-1].keep_alive = False
            return
        if not has_begun:
            self.transport.write(self._written(error))
        if self.transport.can_write_eof():  # TLS has no half of a connection
            self.transport.write_eof()
        self._end_within(LINGER_S)

    def _written(self, error: HttpError) -> bytes:
        """Returns a complete answer that is the last one of its connection."""
        kind, body = self._admission.form(error)
        head = f"HTTP/1.1 {error.status}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n{error.header}\r\n"
        return head.encode() + body
