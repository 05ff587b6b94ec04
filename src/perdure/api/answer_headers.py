"""The headers that every answer has: those by which browsers are careful, and for pages of other origins only where these are named."""

from collections.abc import Collection, Iterable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from perdure.api.http_requests import ApiAnswer, ApiRequest, AsgiSend, Headers
from perdure.core.errors import BadValue

CAREFUL: Headers = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)
PREFLIGHT: Headers = (
    (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE"),
    (
        b"access-control-allow-headers",
        b"Authorization, Content-Type, Idempotency-Key, If-Match, Last-Event-ID, X-Perdure-Tenant, Mcp-Protocol-Version, Mcp-Method, Mcp-Name",
    ),
    (b"access-control-max-age", b"600"),
)
DEFAULT_PORTS = {"http": 80, "https": 443}
"""The ports that browsers leave out of an origin."""
EXPOSED: Headers = ((b"access-control-expose-headers", b"ETag, Location, Retry-After"),)


class AnswerHeaders:
    """Adds headers to answers. Pages of the `origins` may read answers; they have to send a key, since cookies of this server are not for them.

    Raises:
        BadValue: an origin is not of the form of one.
    """

    def __init__(self, origins: Iterable[str] = ()) -> None:
        self.origins = frozenset(map(_checked_origin, origins))
        self._always = [*CAREFUL, *([(b"vary", b"Origin")] if self.origins else ())]

    def preflight(self, request: ApiRequest) -> ApiAnswer | None:
        """Answers the question of a browser whether a page may send a request; None if it is no such question, or the page may not."""
        if request.method != "OPTIONS" or not request.header("access-control-request-method") or request.header("origin") not in self.origins:
            return None
        return ApiAnswer(204, headers=PREFLIGHT)

    def completed(self, headers: Collection[tuple[bytes, bytes]], origin: str) -> list[tuple[bytes, bytes]]:
        """The headers of an answer, and those that it does not have itself. `origin` is that of the page that asks, if one does."""
        own = dict(headers)
        more = self._always if origin not in self.origins else [*self._always, (b"access-control-allow-origin", origin.encode()), *EXPOSED]
        return [*headers, *[one for one in more if one[0] not in own]]

    def added_to(self, send: AsgiSend, origin: str) -> AsgiSend:
        """Returns a `send` that completes the headers of an answer."""

        async def sent(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = self.completed(message["headers"], origin)
            await send(message)

        return sent


def _checked_origin(text: str) -> str:
    try:
        parts = urlsplit(text)
        is_origin = parts.scheme in DEFAULT_PORTS and bool(parts.hostname) and text == f"{parts.scheme}://{parts.netloc}" and "@" not in text
        is_origin = is_origin and text.isascii() and text == text.lower() and parts.port != DEFAULT_PORTS[parts.scheme]
    except ValueError:
        is_origin = False
    if not is_origin:
        raise BadValue(
            "--cors", text, "the origin of pages, as browsers send it: https://console.example.com, in lower case, without a path or the default port"
        )
    return text
