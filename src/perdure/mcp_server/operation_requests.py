"""Requests for operations as a model's tools make them: by name, with all arguments as one object of JSON, to ``/api/call/{operation}``.

Such a request goes through the HTTP API, in this process or on a server. Access, checks, limits, idempotency and the audit are therefore those of the API.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

import msgspec

from perdure.core.errors import MissingExtra
from perdure.operations.operation_table import BY_FUNCTION
from perdure.remote.server_client import server_client

if TYPE_CHECKING:
    from perdure.api.api_app import ApiApp
    from perdure.api.http_requests import AsgiScope


def is_carried(name: bytes) -> bool:
    """Is true of a header of a request of the protocol that the requests for operations have as well.

    An application that has mounted the API decides by any header who asks. Not carried are those that describe this one message, its answer or its connection.
    """
    return name not in _OF_ONE_MESSAGE and not name.startswith((b"accept", b"content-", b"if-", b"mcp-"))


_OF_ONE_MESSAGE = frozenset(
    (*(b"connection", b"expect", b"idempotency-key", b"keep-alive", b"last-event-id"), *(b"range", b"te", b"trailer", b"transfer-encoding", b"upgrade"))
)

ANSWER_S = 90.0
"""How long an answer of a server may take: longer than any tool waits."""

RETRY_S, RETRY_MIN_S, RETRY_MAX_S = 20.0, 0.1, 2.0
"""For how long a request to a server that can't be reached is repeated, and the first and the longest pause between two."""

UNREACHABLE = {
    "status": 503,
    "code": "store_unavailable",
    "next": "Call the tool again in a few seconds; if that does not help, the person who runs the server has to look at it.",
}


class RequestRefused(Exception):  # an expected outcome on its way to the answer
    """An operation was refused or failed: `problem` says why, as RFC 9457 has it."""

    def __init__(self, problem: Mapping[str, Any]) -> None:
        super().__init__(str(problem.get("detail") or problem.get("code")))
        self.problem = problem

    @property
    def code(self) -> str:
        """The code of the error."""
        return str(self.problem.get("code", ""))


class OperationRequests(Protocol):
    """Requests for operations on behalf of one caller."""

    async def __call__(self, function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
        """Performs an operation, once, and returns its result in its JSON form.

        Raises:
            RequestRefused: it was refused, or failed.
        """
        ...


def _answered(status: int, body: bytes) -> Any:
    try:
        content = msgspec.json.decode(body) if body else None
    except msgspec.MsgspecError:
        content = body.decode(errors="replace")
    if status < 400:
        return content
    if not isinstance(content, dict) or "code" not in content:
        raise RequestRefused({"status": status, "code": "bad_answer", "detail": f"the server answered {status}: {str(content)[:200]}"})
    raise RequestRefused(content)


def _encoded(arguments: Mapping[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(arguments)
    except UnicodeEncodeError:
        why = "a text has a character that has no encoding in UTF-8: half of a pair of surrogates"
    except (ValueError, OverflowError, TypeError, RecursionError) as error:
        why = f"the arguments have no form in JSON: {error}"
    raise RequestRefused({"status": 422, "code": "bad_value", "detail": why, "next": "Correct the arguments, and call again."})


class RequestsInProcess:
    """Requests to the API in this process. They have all that says who asks of the request `on_behalf` of which they are made: its headers, its address, and
    what applications around the API have added to its scope, such as a session.
    """

    def __init__(self, app: ApiApp, on_behalf: AsgiScope | None = None) -> None:
        self._app = app
        self._scope: dict[str, Any] = {"scheme": "http", "client": None, **(on_behalf or {}), "type": "http", "root_path": ""}
        self._headers = [(name, value) for name, value in self._scope.get("headers", ()) if is_carried(name)]

    async def __call__(self, function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
        """Performs an operation. See `OperationRequests`."""
        body, path = _encoded(arguments), f"/api/call/{BY_FUNCTION[function].name}"
        headers = [*self._headers, (b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), (b"accept", b"application/json")]
        scope = {**self._scope, "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b"", "headers": headers}
        status, parts, left = 0, list[bytes](), [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> MutableMapping[str, Any]:
            return left.pop() if left else await asyncio.get_running_loop().create_future()

        async def send(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            status = message.get("status", status)
            parts.append(message.get("body", b""))

        await self._app(scope, receive, send)
        return _answered(status, b"".join(parts))


class RequestsToServer:
    """Requests to the server at a URL, with a key as `token`, in the `tenant` of the key (None: it has only one).

    Raises:
        MissingExtra: httpx2 is not installed.
        BadValue: the URL is not one of a server, the token has a character that no key has, or a variable of the environment is not usable.
    """

    def __init__(self, url: str, token: str | None = None, tenant: str | None = None, *, transport: Any = None) -> None:
        try:
            import httpx2
        except ImportError:
            raise MissingExtra("tools of a server", "httpx2", "http") from None
        headers = {"accept": "application/json", "content-type": "application/json"}
        headers |= {"x-perdure-tenant": tenant} if tenant is not None else {}
        self._errors = httpx2.TransportError
        self._url = url.rstrip("/")
        self._client = server_client("--server", url, token, headers=headers, answer_s=ANSWER_S, transport=transport)

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._client.aclose()

    async def __call__(self, function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
        """Performs an operation. While the server can't be reached, the request is repeated, with a key by which it takes effect once.

        See `OperationRequests`.
        """
        operation = BY_FUNCTION[function]
        headers = {} if operation.is_repeatable else {"idempotency-key": uuid4().hex}
        content, began_s, pause_s = _encoded(arguments), time.monotonic(), RETRY_MIN_S
        while True:
            is_late = time.monotonic() - began_s > RETRY_S
            try:
                answer = await self._client.post(f"/api/call/{operation.name}", content=content, headers=headers)
            except self._errors as error:
                if is_late:
                    why = f"the server {self._url} can't be reached: {str(error) or type(error).__name__}"
                    raise RequestRefused({**UNREACHABLE, "detail": why}) from error
            else:
                if answer.status_code != 503 or is_late:
                    return _answered(answer.status_code, answer.content)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, RETRY_MAX_S)
