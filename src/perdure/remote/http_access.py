"""Calls operations on a server. See `ServiceAccess`.

A request is sent again when the server can't be reached or is stopping, for up to `RETRY_S`. How long it has waited at a server before, for a result or in a
stream, does not count. One for an operation that is not repeatable (see `Operation`) has an idempotency key, so that it takes effect once.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import urlsplit
from uuid import uuid4

import msgspec

from perdure.core.errors import MissingExtra, PerdureError, RequestUnderWay, StoreError, StoreUnavailable, WrongVerb
from perdure.core.header_values import may_use_proxy, whole_number_of
from perdure.core.paths import Key
from perdure.operations import on_executions, wire_codec
from perdure.operations.operation_table import BY_FUNCTION, Operation
from perdure.remote.server_client import CONNECT_S, server_client
from perdure.service.execution_operations import StartRequest

if TYPE_CHECKING:
    from perdure.runtime.execution_results import Ending
    from perdure.service.store_access import StoreAccess

logger = logging.getLogger("perdure.remote")

P = ParamSpec("P")
T = TypeVar("T")

ANSWER_S = 30.0
"""How long an answer may take. A call that waits some seconds may take these too; one that waits for an answer, or can't be repeated, has no limit but that
of its caller."""
SILENCE_S = 60.0
"""How long a stream may bring nothing, although a server shows every 15 seconds that it is there. After that, the server or its machine is gone."""

RETRY_AFTER_MAX_S = 3_600
"""A longer pause that a server asks for is none."""

RETRY_S, RETRY_MIN_S, RETRY_MAX_S = 20.0, 0.05, 2.0
"""For how long a request is repeated, and the first and the longest pause between two."""

PROBLEM = "application/problem+json"
"""The media type of the answer to a request that reached no operation."""

RESULT_WAIT_S = 25.0
"""How long one request waits for a result. Proxies end connections that are silent for longer, often after 60 s."""

WARN_AFTER_S, WARN_EVERY_S = 2.0, 60.0
"""When a wait for a result first says what the execution lacks, and how often."""


class HttpAccess:
    """The operations of the server at a URL, with a key as `token`.

    Raises:
        MissingExtra: httpx2 is not installed.
        BadValue: the URL is not one of a server, the token has a character that no key has, or a variable of the environment is not usable.
    """

    def __init__(self, url: str, token: str | None = None, *, transport: Any = None) -> None:
        try:
            import httpx2
        except ImportError:
            raise MissingExtra("a client of a server", "httpx2", "http") from None
        self._httpx, self.url = httpx2, url.rstrip("/")
        headers = {"accept": wire_codec.MEDIA_TYPE, "content-type": wire_codec.MEDIA_TYPE}
        self._client = server_client("client URL", url, token, headers=headers, answer_s=ANSWER_S, transport=transport)
        self._uses_proxy = transport is None and may_use_proxy(url) and _has_proxy(url)

    def __repr__(self) -> str:
        return f"<the server {self.url}>"

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._client.aclose()

    def on_store(self, what: str) -> StoreAccess:
        """Refuses: the store is behind the server. See `ServiceAccess`."""
        raise WrongVerb(f"{what} needs the database, and this client has the server {self.url}", "use a client on the database's own URL")

    async def call(self, operation: Callable[Concatenate[StoreAccess, P], Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Performs an operation on the server. See `ServiceAccess`."""
        known = _known(operation)
        given = known.bound(*args, **kwargs)
        answer = await self._send(known, given)
        try:
            result: T = wire_codec.decode_result(known, answer)
        except msgspec.MsgspecError as error:
            raise self._no_server(error) from error
        return result

    async def stream(
        self, operation: Callable[Concatenate[StoreAccess, P], AsyncGenerator[T, None]], /, *args: P.args, **kwargs: P.kwargs
    ) -> AsyncGenerator[T, None]:
        """Yields what an operation finds. If the connection breaks, it goes on behind what was yielded last. See `ServiceAccess`."""
        known = _known(operation)
        given = known.bound(*args, **kwargs)
        began_s, number, seen = time.monotonic(), -1, 0
        while True:
            skipped, sent_s = seen, time.monotonic()
            try:
                async for one in self._frames(known, given):
                    began_s, its_number = time.monotonic(), wire_codec.number_of(one)
                    if its_number == number and skipped:
                        skipped -= 1
                        continue
                    number, seen = its_number, seen + 1 if its_number == number else 1
                    given["after"] = number - 1  # several things may have one number: those that were yielded are skipped
                    yield one
                return
            except msgspec.MsgspecError as error:
                raise self._no_server(error) from error
            except (self._httpx.TransportError, StoreUnavailable) as error:
                if self._was_reached(error):
                    began_s += time.monotonic() - max(sent_s, began_s)
                if time.monotonic() - began_s > RETRY_S or _is_lasting(error):
                    raise self._unreachable(error) from error
                await asyncio.sleep(RETRY_MIN_S * 4)

    async def result(self, key: Key, after: int = 0, ending: Ending | None = None) -> bytes:
        """Waits for the end of an execution. See `ServiceAccess`."""
        began_s, warned_s = time.monotonic(), -WARN_EVERY_S
        wait_s = WARN_AFTER_S
        while True:
            found = await self.call(on_executions.result, key, after, wait_s)
            if found.is_there:
                return found.value
            now_s = time.monotonic()
            if now_s - warned_s >= WARN_EVERY_S and now_s - began_s >= WARN_AFTER_S and found.missing:
                logger.warning("waiting for the result of %s: %s", key, found.missing)
                warned_s = now_s
            wait_s = RESULT_WAIT_S

    async def _send(self, operation: Operation, given: dict[str, Any]) -> bytes:
        waits = operation.may_wait(given)
        has_limit = operation.is_repeatable and not waits
        read_s = given["wait_s"] + ANSWER_S if given.get("wait_s") else None
        timeout = self._httpx.USE_CLIENT_DEFAULT if has_limit else self._httpx.Timeout(None, connect=CONNECT_S, read=read_s)
        keyed = {} if operation.is_repeatable else {"idempotency-key": uuid4().hex}
        began_s, pause_s, warned = time.monotonic(), RETRY_MIN_S, False
        while True:
            content, headers = wire_codec.encode(given), {**keyed, **_trace_headers()}
            request = self._client.build_request("POST", f"/api/call/{operation.name}", content=content, headers=headers, timeout=timeout)
            sent_s, was_reached = time.monotonic(), True
            is_late = sent_s - began_s > RETRY_S
            try:
                answer = await self._client.send(request)
            except self._httpx.TransportError as error:
                if is_late or _is_lasting(error):
                    raise self._unreachable(error) from error
                if not warned and time.monotonic() - began_s >= WARN_AFTER_S:
                    logger.warning("%s. Trying again for %.0f s", self._unreachable(error), RETRY_S)
                    warned = True
                was_reached = self._was_reached(error)
            else:
                if answer.is_success:
                    found: bytes = answer.content
                    return found
                refused = self._error(answer)
                is_early = answer.status_code == 429 and answer.headers.get("content-type") == PROBLEM  # more often than allowed: nothing was done
                if is_late or not (is_early or answer.status_code == 503 or isinstance(refused, RequestUnderWay)):
                    raise refused
                pause_s = max(pause_s, _retry_after_s(answer)) if is_early else pause_s
            if was_reached and waits:
                began_s += time.monotonic() - sent_s
            if isinstance(given.get("request"), StartRequest):  # the first one may have created it
                given["request"] = msgspec.structs.replace(given["request"], is_new=False)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, RETRY_MAX_S)

    async def _frames(self, operation: Operation, given: dict[str, Any]) -> AsyncGenerator[Any, None]:
        limit = self._httpx.Timeout(None, connect=CONNECT_S, read=SILENCE_S)
        content, headers, reader = wire_codec.encode(given), {"accept": wire_codec.FRAMES, **_trace_headers()}, wire_codec.FrameReader(operation)
        async with self._client.stream("POST", f"/api/call/{operation.name}", content=content, headers=headers, timeout=limit) as answer:
            if not answer.is_success:
                await answer.aread()
                raise self._error(answer)
            if answer.headers.get("content-type", wire_codec.FRAMES) != wire_codec.FRAMES:
                raise self._no_server(f"a stream of {answer.headers['content-type']}")
            async for part in answer.aiter_bytes():
                for one in reader.read(part):
                    yield one

    def _was_reached(self, error: Exception) -> bool:
        return not isinstance(error, self._httpx.ConnectError | self._httpx.ConnectTimeout)

    def _error(self, answer: Any) -> PerdureError:
        """Returns the error of an answer: that of the operation or, from something in between, one that says what it was."""
        try:
            return wire_codec.decode_error(answer.content)
        except msgspec.MsgspecError:
            pass
        if answer.is_redirect:
            return StoreError(
                f"the server {self.url} redirects to {answer.headers.get('location')}. Give the client the URL at which the server itself answers"
            )
        try:
            said = str(msgspec.json.decode(answer.content)["detail"])
        except (msgspec.MsgspecError, KeyError, TypeError):
            said = answer.text[:200]
        return StoreError(f"the server {self.url} answered {answer.status_code}: {said}")

    def _unreachable(self, error: Exception) -> StoreUnavailable:
        """Returns the error for a server that does not answer, with what to look at."""
        advice = "Check that it runs, and the URL"
        match _tls_error(error):
            case ssl.SSLCertVerificationError():
                advice = "Its certificate is not trusted here: SSL_CERT_FILE names the file of another authority"
            case ssl.SSLError():
                advice = "Check the URL: it may be one of http, and not https"
            case None if self._uses_proxy:
                name = urlsplit(self.url).hostname
                advice = f"The request went through a proxy of HTTP_PROXY, HTTPS_PROXY or ALL_PROXY; NO_PROXY={name} does without"
            case None if self.url.startswith("http:") and isinstance(error, self._httpx.RemoteProtocolError | self._httpx.ReadError):
                advice = "Check that it runs, and the URL: it may be one of https"
        return StoreUnavailable(f"the server {self.url} can't be reached: {_text(error).rstrip('.')}. {advice}")

    def _no_server(self, error: object) -> StoreError:
        return StoreError(f"what answers at {self.url} is no server of Perdure, or one of another version: {error}. Check the URL, and its path behind a proxy")


def _known(function: Any) -> Operation:
    operation = BY_FUNCTION.get(function)
    assert operation is not None, f"{function} is in the table of operations"
    return operation


def _retry_after_s(answer: Any) -> float:
    return float(whole_number_of(answer.headers.get("retry-after", ""), RETRY_AFTER_MAX_S) or 0)


def _trace_headers() -> dict[str, str]:
    """Returns the headers by which a request belongs to the present trace, if the program uses OpenTelemetry."""
    headers: dict[str, str] = {}
    if "opentelemetry" in sys.modules:
        from opentelemetry import propagate

        propagate.inject(headers)
    return headers


def _has_proxy(url: str) -> bool:
    """Whether the environment names a proxy for requests to a URL."""
    from urllib.request import getproxies, proxy_bypass

    found, parts = getproxies(), urlsplit(url)
    return (parts.scheme in found or "all" in found) and not proxy_bypass(parts.hostname or "")


def _tls_error(error: BaseException | None) -> ssl.SSLError | None:
    """Returns the error of TLS that has caused another, if one has."""
    while error is not None and not isinstance(error, ssl.SSLError):
        error = error.__cause__ or error.__context__
    return error


def _is_lasting(error: Exception) -> bool:
    """Whether connecting fails again: there is no TLS at that port, or with a certificate that is not trusted. Nothing was sent."""
    found = _tls_error(error)
    return isinstance(found, ssl.SSLCertVerificationError) or (found is not None and found.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"))


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__
