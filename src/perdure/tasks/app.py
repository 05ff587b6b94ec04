"""The app: the protocol over HTTP, as a bare ASGI application. What it says of itself is in ``openapi.json`` beside it.

Everything is a POST of JSON: so no page in a browser can speak to it without being asked, and where no token is needed, none can by another name of
this machine either.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from importlib.resources import files
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from perdure.core import values
from perdure.core.errors import BadValue, ProgrammingError, StoreError, TooLarge
from perdure.core.limits import BLOB_BYTES_MIN, VALUE_BYTES_MAX
from perdure.runtime.lending import Lender, Wanted
from perdure.runtime.loans import Borrower, End, Gone, Loan
from perdure.tasks import messages
from perdure.tasks.access import Access, Grant, allowed, is_loopback

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
SendAnswer = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Scope = MutableMapping[str, Any]

BODY_BYTES_MAX = VALUE_BYTES_MAX + 64 * 1024
"""The largest body that is read: a value of the largest size, and what stands around it."""

ANSWER_BYTES_MAX = 2 * VALUE_BYTES_MAX
"""Of tasks that are lent together, those beyond so much are given back."""

BODY_S = 30.0
"""How long the body of a request may take to arrive."""

RETRY_AFTER_S = 5

LATE: dict[End, tuple[str, str]] = {
    "answered": ("AlreadyAnswered", "nothing: the first answer counts"),
    "ran_out": ("LeaseRanOut", "stop working on it, and lease another; send heartbeats more often than the lease runs out"),
    "timed_out": ("TimedOut", "stop working on it, and lease another"),
    "unwanted": ("NotWanted", "stop working on it, and lease another"),
    "given_back": ("LeaseLost", "stop working on it, and lease another"),
    "lost": ("LeaseLost", "stop working on it, and lease another"),
    "stopping": ("LeaseLost", "stop working on it; lease another when there is somebody again"),
    "unknown": ("LeaseLost", "stop working on it, and lease another"),
}
"""What a worker is told of a lease that is no longer one: the type of the error, and what to do."""


class Refused(Exception):  # what is wrong with a request, on its way to its answer
    """A request is refused: with which status, of which type the error is, what happened, and what to do next."""

    def __init__(self, status: int, type: str, message: str, next: str, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        super().__init__(message)
        self.status, self.type, self.message, self.next, self.headers = status, type, message, next, headers


class Asked(NamedTuple):
    """A request of somebody who may make it: their token's name, what it opens, and the body."""

    owner: str
    grant: Grant
    body: bytes


class Answered(NamedTuple):
    """What is answered: the status, the body, and further headers."""

    status: int
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()


_lease = msgspec.json.Decoder(messages.Lease).decode
_heartbeat = msgspec.json.Decoder(messages.Heartbeat).decode
_complete = msgspec.json.Decoder(messages.Complete).decode
_fail = msgspec.json.Decoder(messages.Fail).decode
_encode = msgspec.json.Encoder().encode


class App:
    """The protocol for the tasks that `lender` lends, to whom `access` lets in."""

    def __init__(self, lender: Lender, access: Access) -> None:
        self.lender, self.access = lender, access

    async def __call__(self, scope: Scope, receive: Receive, send: SendAnswer) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            raise RuntimeError(f"this app speaks HTTP, and no {scope['type']}")
        try:
            answered = await self._answered(scope, receive)
        except Refused as refused:
            told = {"error": {"type": refused.type, "message": refused.message, "next": refused.next}}
            answered = Answered(refused.status, _encode(told), refused.headers)
        if answered is None:  # whoever asked has gone
            return
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(answered.body)).encode()), *answered.headers]
        if answered.status != 200 and any(name == b"expect" for name, _ in scope["headers"]):
            headers.append((b"connection", b"close"))  # whether the body follows that waits to be asked for can't be known
        await send({"type": "http.response.start", "status": answered.status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else answered.body})

    async def _answered(self, scope: Scope, receive: Receive) -> Answered | None:
        path, method = scope["path"], scope["method"]
        match path.strip("/").split("/"):
            case ["v1", "health"]:
                _only(method, "GET", "HEAD")
                return Answered(503 if self.lender.stopping else 200, _encode({"status": "stopping" if self.lender.stopping else "ok"}))
            case ["v1", "openapi.json"]:
                _only(method, "GET", "HEAD")
                return Answered(200, description())
            case ["v1", "tasks", "lease"]:
                return await self._lease(await self._asked(scope, receive), receive)
            case ["v1", "tasks", id, "heartbeat" | "complete" | "fail" as what]:
                return await self._said(await self._asked(scope, receive), id, what)
        raise Refused(404, "NotFound", f"there is no {path} here", "GET /v1/openapi.json says what there is")

    # Who asks, and what.

    async def _asked(self, scope: Scope, receive: Receive) -> Asked:
        """The request, of somebody who may make it."""
        _only(scope["method"], "POST")
        headers: dict[bytes, bytes] = dict(scope["headers"])
        if not self.access and not is_loopback(_host(headers)):
            raise Refused(
                403, "WrongHost", "without a token, this answers only those who call it by a name of this machine", "use http://127.0.0.1:PORT, or a token"
            )
        scheme, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        found = self.access.of(token.strip() if scheme.lower() == "bearer" else None)
        if found is None:
            raise Refused(401, "Unauthorized", "no token, or none that opens this", "send Authorization: Bearer TOKEN", ((b"www-authenticate", b"Bearer"),))
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if kind != b"application/json":
            raise Refused(415, "NotJson", f"the body is {kind.decode('latin-1') or 'of no type'}", "send Content-Type: application/json")
        return Asked(*found, await _body(headers, receive))

    # What they ask for.

    async def _lease(self, asked: Asked, receive: Receive) -> Answered | None:
        request = _read(asked.body, _lease, "a request for tasks")
        queues, others = allowed(request.queues, self.lender.queues, asked.grant)
        if others or not queues:
            there = ", ".join(sorted(queues)) or "none"
            raise Refused(403, "NotServed", f"tasks of {', '.join(sorted(others)) or 'no queue'} are not lent here to this worker", f"ask for {there}")
        borrower = Borrower(asked.owner, request.worker)
        wanted = Wanted(queues, asked.grant.tenants, limit=request.limit, wait_s=request.wait_s, lease_s=request.lease_s)
        leasing = asyncio.create_task(self.lender.lease(borrower, wanted))
        leaving = asyncio.create_task(_left(receive))
        try:
            _ = await asyncio.wait((leasing, leaving), return_when=asyncio.FIRST_COMPLETED)
            if not leasing.done():
                leasing.cancel()
                _ = await asyncio.wait((leasing,))
                return None
            loans = leasing.result()
            if isinstance(loans, Gone):
                headers = ((b"retry-after", str(RETRY_AFTER_S).encode()),)
                raise Refused(503, "Stopping", "this process is about to stop, and lends nothing more", f"ask again in {RETRY_AFTER_S} s", headers)
            if leaving.done():
                self.lender.give_back(loans)
                return None
            return Answered(200, b'{"tasks":[%s]}' % b",".join(self._told(loans)))
        finally:
            leasing.cancel()
            leaving.cancel()

    def _told(self, loans: list[Loan]) -> list[bytes]:
        """What is told of each loan, as far as there is room; the rest is given back."""
        told, size_bytes = list[bytes](), 0
        for loan in loans:
            try:
                one = _encode(messages.task(loan))
            except ProgrammingError as error:
                self.lender.refuse(loan, error)
                continue
            if told and size_bytes + len(one) > ANSWER_BYTES_MAX:
                self.lender.give_back([loan])
                continue
            told.append(one)
            size_bytes += len(one)
        return told

    async def _said(self, asked: Asked, id: str, what: str) -> Answered:
        """What is said of a loan."""
        try:
            match what:
                case "heartbeat":
                    return await self._heard(asked, id)
                case "complete":
                    done = _read(asked.body, _complete, "a result")
                    port = messages.port(done.port)
                    gone = await self.lender.complete(Borrower(asked.owner, done.worker), id, values.encode(done.value, "the result of a task"), port)
                case _:
                    failed = _read(asked.body, _fail, "a failure")
                    error, borrower = failed.error, Borrower(asked.owner, failed.worker)
                    gone = await self.lender.fail(borrower, id, error, retry=failed.retry, after_s=failed.after_s)
        except TooLarge as error:
            raise Refused(413, "TooLarge", str(error), "keep it elsewhere, and answer with where it is") from error
        except ProgrammingError as error:
            raise Refused(422, type(error).__name__, str(error), "answer with something else, or fail the task") from error
        except StoreError as error:
            raise Refused(503, "StoreUnavailable", str(error), "send the same answer again", ((b"retry-after", b"1"),)) from error
        if gone is not None:
            raise _late(gone)
        return Answered(200, b'{"accepted":true}')

    async def _heard(self, asked: Asked, id: str) -> Answered:
        beat = _read(asked.body or b"{}", _heartbeat, "a heartbeat")
        progress = None if beat.progress is msgspec.UNSET else values.encode(beat.progress, "the progress of a task")
        if progress is not None and len(progress) >= BLOB_BYTES_MIN:
            raise TooLarge("the progress of a task", len(progress), BLOB_BYTES_MIN)
        heard = await self.lender.heartbeat(Borrower(asked.owner, beat.worker), id, progress)
        if isinstance(heard, Gone):
            raise _late(heard)
        return Answered(200, _encode({"wanted": True, "lease_s": heard.lease_s} if heard.wanted else {"wanted": False, "why": heard.why}))


def description() -> bytes:
    """The OpenAPI description of the protocol."""
    return files("perdure.tasks").joinpath("openapi.json").read_bytes()


def _read(raw: bytes, decode: Callable[[bytes], messages.T], what: str) -> messages.T:
    try:
        return messages.read(raw, decode, what)
    except BadValue as error:
        raise Refused(400, "BadRequest", str(error), "GET /v1/openapi.json says what is expected") from error


def _late(gone: Gone) -> Refused:
    type, next = LATE[gone.end]
    return Refused(409, type, gone.why, next)


def _only(method: str, *methods: str) -> None:
    if method not in methods:
        raise Refused(405, "WrongMethod", f"{method} is not what this is asked with", f"use {methods[0]}", ((b"allow", ", ".join(methods).encode()),))


def _host(headers: dict[bytes, bytes]) -> str:
    try:
        return urlsplit(f"//{headers.get(b'host', b'').decode('latin-1')}").hostname or ""
    except ValueError:
        return ""


async def _body(headers: dict[bytes, bytes], receive: Receive) -> bytes:
    """The whole body of a request."""
    size = headers.get(b"content-length", b"0")
    if not size.isdigit() or int(size) > BODY_BYTES_MAX:
        raise _too_large()
    parts, size_bytes = list[bytes](), 0
    try:
        async with asyncio.timeout(BODY_S):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Refused(400, "Incomplete", "the connection was closed in the middle of a request", "send it again")
                parts.append(message.get("body", b""))
                size_bytes += len(parts[-1])
                if size_bytes > BODY_BYTES_MAX:
                    raise _too_large()
                if not message.get("more_body", False):
                    return b"".join(parts)
    except TimeoutError:
        raise Refused(408, "TooSlow", f"the body did not arrive within {BODY_S:g} s", "send it again") from None


def _too_large() -> Refused:
    why = f"a body may take {BODY_BYTES_MAX:,} bytes at most"
    return Refused(413, "TooLarge", why, "keep it elsewhere, and answer with where it is")


async def _left(receive: Receive) -> None:
    """Wait until whoever asked has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
