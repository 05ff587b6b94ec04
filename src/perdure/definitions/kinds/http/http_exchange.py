"""Sends a request and follows its redirects, until there is a result, or an error that says whether a retry is safe.

The last request decides whether a retry is safe: a redirect to another origin loses the idempotency key, and with it the right to repeat.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import aclosing
from email.utils import parsedate_to_datetime
from functools import cache
from hashlib import sha256
from http import HTTPStatus
from importlib.metadata import PackageNotFoundError, version
from time import time
from typing import Any

import httpcore2
import httpx2

from perdure.definitions.kinds.http import http_response
from perdure.definitions.kinds.http.guarded_network import close_response
from perdure.definitions.kinds.http.http_errors import InDoubt, NoResponse, RequestError, ResponseRefused, StatusDelayed, StatusRefused, StatusTransient
from perdure.definitions.kinds.http.http_request import REPEATABLE, HttpRequest, RequestBody
from perdure.definitions.kinds.http.http_targets import UrlError, displayed_url, parse_target, url_origin
from perdure.definitions.kinds.http.trace_headers import trace_headers

TRANSIENT = frozenset((408, 425, 429, 500, 502, 503, 504))
"""The statuses after which a retry may succeed."""

REACHED = frozenset((500, 502, 504))
"""Those of them after which the server may have carried out the request."""

REDIRECTS = frozenset((301, 302, 303, 307, 308))
RETRY_AFTER_MAX_S = 3600.0
"""The longest Retry-After that is followed."""

KEY = "idempotency-key"
KEY_LENGTH_MAX = 255
KEPT = frozenset(("accept", "accept-encoding", "accept-language", "content-type", "user-agent"))
"""The headers that a redirect to another origin keeps. All others may be confidential to the first origin."""

OF_A_BODY = frozenset(("content-encoding", "content-language", "content-location", "content-type", KEY))
PARSED = frozenset(("csv", "lines", "xml"))
"""The size from which a body is parsed in a thread, so that it does not delay other steps."""

EXCERPT_BYTES, EXCERPT_WAIT_S = 16 * 1024, 2.0
CUT_OFF_MAX = 10_000
_cut_off: dict[str, bool] = {}
"""The keys of attempts that were cancelled after a request was sent that may not be sent twice; a retry of such a step is refused."""

_DOUBT = "it may have been carried out, and has no idempotency key; find out, or have it sent with one, then retry the execution"
_ENCODED = frozenset(("gzip", "x-gzip", "deflate", "br", "zstd"))
_LOST = (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException, OSError)


class HttpExchange:
    """A request in progress. `method`, `url`, `headers` and `content` belong to the current request; `sent` says whether some of it may have arrived."""

    def __init__(self, pool: httpcore2.AsyncConnectionPool, wanted: HttpRequest, key: str) -> None:
        self._pool, self._wanted, self._key = pool, wanted, key
        self.method, self.url, self.content = wanted.method, wanted.url, wanted.content
        self.headers = _headers(wanted, key)
        self.redirects = 0
        self.sent = False

    async def result(self, limit_s: float) -> dict[str, Any]:
        """Sends the request and returns the response as data. `limit_s` bounds everything from the DNS lookup to the last byte, redirects included.

        Raises:
            Unanswered, StatusTransient: it may be tried again.
            InDoubt, StatusRefused, AnswerRefused, AddressRefused: it may not.
        """
        if not self._repeatable and _cut_off.pop(self._key, False):
            raise InDoubt(f"{self._what}: the attempt before ended after the request was sent; {_DOUBT}")
        try:
            async with asyncio.timeout(limit_s):
                while True:
                    if (found := await self._one()) is not None:
                        return found
        except TimeoutError:
            raise self._lost(f"no whole answer within {limit_s:g} s") from None
        except asyncio.CancelledError:
            if self.sent and not self._repeatable:
                _cut_off[self._key] = True
                while len(_cut_off) > CUT_OFF_MAX:
                    del _cut_off[next(iter(_cut_off))]
            raise

    @property
    def _repeatable(self) -> bool:
        return self.method in REPEATABLE or any(name.lower() == KEY for name, _ in self.headers)

    @property
    def _what(self) -> str:
        return f"{self.method} {self._shown(self.url)}"

    def _shown(self, url: httpx2.URL) -> str:
        return displayed_url(url, whole=self._wanted.secret != "url")

    def _lost(self, why: str) -> NoResponse | InDoubt:
        if self._repeatable or not self.sent:
            return NoResponse(f"{self._what}: {why}")
        return InDoubt(f"{self._what}: {why}; {_DOUBT}")

    async def _one(self) -> dict[str, Any] | None:
        """Sends the current request; returns the response as data, or None for a redirect."""
        answer = await self._answered()
        try:
            found = http_response.response_headers(answer.headers)
            if answer.status in REDIRECTS and "location" in found and self._wanted.redirects:
                self._redirect(answer.status, str(found["location"]))
                return None
            if answer.status < 200:
                raise ResponseRefused(f"{self._what}: it answered {answer.status}, which the request did not ask for")
            accept = self._wanted.accept
            if answer.status >= 400 and accept is not None and answer.status not in accept:
                raise await self._refused(answer, found)
            return await self._read_as_data(answer, found)
        finally:
            await close_response(answer)

    async def _answered(self) -> httpcore2.Response:
        """Returns the status and the headers of the response."""
        url = self.url
        to = httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        headers = [("Host", url.netloc.decode("ascii")), *self.headers]
        if self.content.content or self.method in ("POST", "PUT", "PATCH"):
            headers.append(("Content-Length", str(len(self.content.content))))
        extensions = {} if self._repeatable else {"trace": self._trace}
        request = httpcore2.Request(self.method, to, headers=headers, content=self.content.content, extensions=extensions)
        self.sent = False
        try:
            return await self._pool.handle_async_request(request)
        except (httpcore2.ConnectError, httpcore2.ConnectTimeout, httpcore2.PoolTimeout) as error:
            if isinstance(root := _root(error), ssl.SSLCertVerificationError):
                raise ResponseRefused(f"{self._what}: its certificate is not trusted: {root.verify_message}") from error
            raise NoResponse(f"{self._what}: no connection: {_said(error)}") from error
        except httpcore2.LocalProtocolError:
            raise RequestError("", "the request can't be encoded") from None  # its text may have what was to be sent
        except _LOST as error:
            raise self._lost(f"no answer: {_said(error)}") from error

    async def _trace(self, event: str, _: dict[str, Any]) -> None:
        self.sent = self.sent or event.endswith("send_request_headers.started")

    def _redirect(self, status: int, location: str) -> None:
        """Makes the target of a redirect the current request.

        Raises:
            ResponseRefused: the redirect is not followed.
        """
        if self.redirects >= self._wanted.redirects:
            raise ResponseRefused(f"{self._what}: more than {self.redirects} redirects")
        try:
            url = parse_target(location, self.url)
        except UrlError as error:
            raise ResponseRefused(f"{self._what}: it redirects to an invalid address: {error}") from None
        if self.url.scheme == "https" and url.scheme != "https":
            raise ResponseRefused(f"{self._what}: it redirects to {self._shown(url)}, without encryption, which the request asks for")
        if (status in (301, 302) and self.method == "POST") or (status == 303 and self.method != "HEAD"):
            self.method, self.content = "GET", RequestBody()
            self.headers = [one for one in self.headers if one[0].lower() not in OF_A_BODY]
        if url_origin(url) != url_origin(self.url) and self.content.content and self._wanted.secret_body:
            why = "the body of the request holds a secret, which is for the origin that the step names"
            raise ResponseRefused(f"{self._what}: it redirects to {self._shown(url)}, and {why}; send the request there in the first place, if it may have it")
        if url_origin(url) != url_origin(self.url):
            self.headers = [one for one in self.headers if one[0].lower() in KEPT]
        self.url = url
        self.redirects += 1

    async def _read_as_data(self, answer: httpcore2.Response, headers: dict[str, Any]) -> dict[str, Any]:
        wanted, bodiless = self._wanted, self.method == "HEAD" or answer.status in (204, 304)
        raw = await self._read(answer, headers, wanted.max_bytes)
        if len(raw) > wanted.max_bytes:
            raise ResponseRefused(f"{self._what}: its answer has more than {wanted.max_bytes:,} bytes; raise max_bytes if that is wanted")
        try:
            given = raw, str(headers.get("content-type", "")), wanted.taken_as, bodiless
            body = await asyncio.to_thread(http_response.decode_body, *given) if wanted.taken_as in PARSED else http_response.decode_body(*given)
        except ResponseRefused as error:
            raise ResponseRefused(f"{self._what}: it answered {answer.status}, but {error}") from None
        url = self._shown(self.url) if wanted.secret else str(self.url)
        return {"status": answer.status, "headers": headers, "body": body, "url": url, "redirects": self.redirects}

    async def _read(self, answer: httpcore2.Response, headers: dict[str, Any], most_bytes: int) -> bytes:
        """Returns the decompressed body; stops reading when it exceeds `most_bytes`."""
        encodings = [one.strip().lower() for one in str(headers.get("content-encoding", "")).split(",")]
        if sum(one in _ENCODED for one in encodings) > 1:
            raise ResponseRefused(f"{self._what}: its answer is compressed more than once")
        parts, size = list[bytes](), 0
        response = httpx2.Response(answer.status, headers=answer.headers, stream=_Parts(answer))
        try:
            async with aclosing(response.aiter_bytes()) as unpacked:
                async for part in unpacked:
                    parts.append(part)
                    size += len(part)
                    if max(size, response.num_bytes_downloaded) > most_bytes:
                        break
        except httpx2.DecodingError as error:
            raise ResponseRefused(f"{self._what}: its answer can't be decompressed: {error}") from error
        except _LOST as error:
            raise self._lost(f"the answer broke off: {_said(error)}") from error
        return b"".join(parts)

    async def _refused(self, answer: httpcore2.Response, headers: dict[str, Any]) -> Exception:
        """The error for the status of a response."""
        status, about = answer.status, ""
        try:
            async with asyncio.timeout(EXCERPT_WAIT_S):
                about = http_response.body_excerpt(await self._read(answer, headers, EXCERPT_BYTES), str(headers.get("content-type", "")))
        except (TimeoutError, ResponseRefused, NoResponse, InDoubt):
            about = ""  # the status is what counts
        phrase = HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else ""
        text = f"{self._what}: it answered {status} {phrase}".rstrip() + (f": {about}" if about else "")
        if status not in TRANSIENT:
            return StatusRefused(status, text)
        if status in REACHED and not self._repeatable:
            return self._lost(text.removeprefix(f"{self._what}: "))
        after_s = retry_after_s(str(headers.get("retry-after", "")), time())
        return StatusTransient(status, text) if after_s is None else StatusDelayed(status, text, after_s)


def retry_after_s(said: str, now_s: float) -> float | None:
    """Returns the Retry-After of a response in seconds, at most an hour; None if it has none."""
    said = said.strip()
    if said.isascii() and said.isdecimal():
        wait_s = float(said[:12])
    else:
        try:
            wait_s = parsedate_to_datetime(said).timestamp() - now_s
        except (ValueError, OverflowError, TypeError):
            return None
    return min(max(wait_s, 0.0), RETRY_AFTER_MAX_S)


def idempotency_key_text(key: str) -> str:
    """Returns an idempotency key in the form that is sent: unchanged, or its hash if it is too long or has characters that headers can't have."""
    return key if len(key) <= KEY_LENGTH_MAX and key.isascii() and key.isprintable() else sha256(key.encode("utf-8")).hexdigest()


def _headers(wanted: HttpRequest, key: str) -> list[tuple[str, str]]:
    """The headers of the step, with the defaults that it does not set."""
    said = {name.lower() for name, _ in wanted.headers}
    ours = [("Accept", "*/*"), ("Accept-Encoding", "gzip, deflate"), ("User-Agent", _agent())]
    if wanted.content.type:
        ours.append(("Content-Type", wanted.content.type))
    if wanted.keyed:
        ours.append(("Idempotency-Key", idempotency_key_text(key)))
    ours += trace_headers()
    return [*(one for one in ours if one[0].lower() not in said), *wanted.headers]


def _root(error: BaseException) -> BaseException:
    """The root cause of an error of the library. The error then drops its cause."""
    while (inner := error.__cause__ or next(iter(error.args), None)) is not None and isinstance(inner, BaseException):
        error = inner
    return error


def _said(error: BaseException) -> str:
    """Returns the cause of a network error as text."""
    root = _root(error)
    return (isinstance(root, OSError) and root.strerror) or str(root) or type(root).__name__


@cache
def _agent() -> str:
    try:
        return f"perdure/{version('perdure')}"
    except PackageNotFoundError:
        return "perdure"


class _Parts(httpx2.AsyncByteStream):
    """Yields the body of a response in parts."""

    def __init__(self, answer: httpcore2.Response) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._answer.aiter_stream():
            yield part

    async def aclose(self) -> None:
        await close_response(self._answer)
