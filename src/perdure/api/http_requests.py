"""Requests as an ASGI server hands them over, and answers to them."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote, unquote

from perdure.api.problems import Refusal
from perdure.core import error_codes
from perdure.core.header_values import body_encoding, whole_number_of
from perdure.core.limits import VALUE_BYTES_MAX

AsgiReceive = Callable[[], Awaitable[MutableMapping[str, Any]]]
AsgiSend = Callable[[MutableMapping[str, Any]], Awaitable[None]]
AsgiScope = MutableMapping[str, Any]

BODY_BYTES_MAX = 2 * VALUE_BYTES_MAX
"""The largest body that is read: a value of the largest size, as base64, and what is around it."""

QUERY_FIELDS_MAX = 1_000

BODY_S = 30.0
"""How long the body of a request may take to arrive."""

Headers = tuple[tuple[bytes, bytes], ...]
NOT_KEPT: Headers = ((b"cache-control", b"no-store"),)


class ApiAnswer(NamedTuple):
    """An answer: its status, body, media type, and further headers."""

    status: int
    body: bytes = b""
    media_type: str = "application/json"
    headers: Headers = ()


class ApiRequest:
    """One request. `segments` are the decoded parts of its path; an encoded slash does not separate any.

    `root` is the path below which the application is mounted, or published by a proxy: links begin with it, and a path may. `headers` are those of the
    scope, if they have been decoded already.
    """

    def __init__(self, scope: AsgiScope, receive: AsgiReceive, root_path: str = "", headers: dict[str, str] | None = None) -> None:
        self.scope, self.receive = scope, receive
        self.method: str = scope["method"]
        self.headers = headers_of(scope) if headers is None else headers
        raw = scope.get("raw_path") or scope["path"].encode()
        self.root = (scope.get("root_path") or root_path).rstrip("/")
        root = quote(self.root).encode() if self.root else b""
        self.path = (raw.removeprefix(root) if root and (raw == root or raw.startswith(root + b"/")) else raw).decode("latin-1")
        parts = self.path.strip("/").split("/")
        self.segments = tuple(map(_decoded, parts)) if "%" in self.path else tuple(parts)
        self.places: Mapping[str, str] = {}
        """The places of the arguments of its operation by their names in Python, as JSON pointers: errors name them so. Empty until the route is known."""
        self._body: bytes | None = None

    @property
    def address(self) -> str:
        """The network address of the client; empty if it is not known."""
        client = self.scope.get("client")
        return str(client[0]) if client else ""

    @property
    def origin(self) -> str:
        """The origin of this server, as the client names it."""
        return f"{self.scope.get('scheme', 'http')}://{self.header('host')}"

    @property
    def query(self) -> dict[str, list[str]]:
        """The query, with all texts of each name.

        Raises:
            Refusal: it is not UTF-8, or has too many fields.
        """
        if not self.scope["query_string"]:
            return {}
        try:
            return parse_qs(self.scope["query_string"].decode("latin-1"), keep_blank_values=True, errors="strict", max_num_fields=QUERY_FIELDS_MAX)
        except UnicodeDecodeError:
            raise Refusal(400, "bad_request", "the query is not UTF-8", "encode the texts in it as UTF-8, then in percent", where="?") from None
        except ValueError:
            message = f"the query has more than {QUERY_FIELDS_MAX:,} fields"
            raise Refusal(400, "bad_request", message, "select less at a time", where="?") from None

    def header(self, name: str) -> str:
        """A header; empty if there is none."""
        return self.headers.get(name, "")

    async def body(self, bytes_max: int | None = None) -> bytes:
        """Reads the whole body, once, of up to `bytes_max` (None: as much as operations take).

        Raises:
            Refusal: it is compressed or too large, or does not arrive.
        """
        if encoding := body_encoding(self.header("content-encoding")):
            message = f"the content encoding of the body is {encoding[:100]}"  # a small one could become a large one
            raise Refusal(415, error_codes.HTTP_ENCODED, message, "send it without a Content-Encoding", where="content-encoding")
        if self._body is None:
            self._body = await self._read_body(BODY_BYTES_MAX if bytes_max is None else bytes_max)
        return self._body

    async def _read_body(self, bytes_max: int) -> bytes:
        announced = self.header("content-length").strip(" \t") or "0"
        if whole_number_of(announced, bytes_max) is None:
            raise _too_large(bytes_max)
        parts, size_bytes = list[bytes](), 0
        try:
            async with asyncio.timeout(BODY_S):
                while True:
                    message = await self.receive()
                    if message["type"] == "http.disconnect":
                        raise Refusal(400, "incomplete", "the connection was closed in the middle of a request", "send it again", where="body")
                    parts.append(message.get("body", b""))
                    size_bytes += len(parts[-1])
                    if size_bytes > bytes_max:
                        raise _too_large(bytes_max)
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            raise Refusal(408, "too_slow", f"the body did not arrive within {BODY_S:g} s", "send it again") from None

    async def disconnected(self) -> None:
        """Waits until the client has gone."""
        while (await self.receive())["type"] != "http.disconnect":
            pass


def _decoded(segment: str) -> str:
    try:
        return unquote(segment, errors="strict")
    except UnicodeDecodeError:
        raise Refusal(400, "bad_request", "the path is not UTF-8", "encode the names in it as UTF-8, then in percent", where="path") from None


def _too_large(bytes_max: int) -> Refusal:
    return Refusal(413, "too_large", f"a body may take {bytes_max:,} bytes at most", "keep it elsewhere, and send where it is")


def headers_of(scope: AsgiScope) -> dict[str, str]:
    """The headers of a request, of which names are in lower case. One that is repeated has its values as a list, which is what it means."""
    headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
    found = dict(headers)
    if len(found) < len(headers):
        for repeated in {name for name in found if sum(name == one for one, _ in headers) > 1}:
            found[repeated] = ("; " if repeated == "cookie" else ", ").join(value for name, value in headers if name == repeated)
    return found


def headers_of_answer(answer: ApiAnswer) -> Headers:
    """The headers that a whole answer has by itself. Unless it says otherwise, it is kept nowhere on its way."""
    typed = ((b"content-type", answer.media_type.encode()),) if answer.body else ()
    kept = () if b"cache-control" in dict(answer.headers) else NOT_KEPT
    return (*typed, (b"content-length", b"%d" % len(answer.body)), *answer.headers, *kept)


async def send_answer(send: AsgiSend, answer: ApiAnswer, headers: list[tuple[bytes, bytes]], method: str) -> None:
    """Sends a whole answer with these headers."""
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if method == "HEAD" else answer.body})
