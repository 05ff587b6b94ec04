"""The app: the protocol over HTTP, as a bare ASGI application. What it says of itself is in ``openapi.json`` beside it.

Everything is a POST of JSON: so no page in a browser can speak to it without being asked, and where no token is needed, none can by another name of
this machine either.

The endpoint: the app on a port of its own, beside whatever else this process does. It keeps its lender running, and stops with it.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from importlib.resources import files
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

import msgspec

from perdure.core import error_codes, values
from perdure.core.errors import BadValue, MissingExtra, ProgrammingError, StoreError, TooLarge
from perdure.core.limits import BLOB_BYTES_MIN, VALUE_BYTES_MAX
from perdure.runtime.task_broker import LeaseEnd, LeaseEndKind, LeaseRequest, TaskBroker, TaskLease, TaskWorker
from perdure.tasks import worker_protocol
from perdure.tasks.worker_tokens import TOKEN_VARIABLE, TokenGrant, WorkerAccess, allowed_queues, is_loopback

AsgiReceive = Callable[[], Awaitable[MutableMapping[str, Any]]]
AsgiSend = Callable[[MutableMapping[str, Any]], Awaitable[None]]
AsgiScope = MutableMapping[str, Any]

BODY_BYTES_MAX = VALUE_BYTES_MAX + 64 * 1024
"""The largest body that is read: a value of the largest size, and what stands around it."""

ANSWER_BYTES_MAX = 2 * VALUE_BYTES_MAX
"""Of tasks that are lent together, those beyond so much are given back."""

BODY_S = 30.0
"""How long the body of a request may take to arrive."""

RETRY_AFTER_S = 5

LEASE_END_ERRORS: dict[LeaseEndKind, tuple[str, str]] = {
    "answered": (error_codes.HTTP_ALREADY_ANSWERED, "nothing: the first answer counts"),
    "ran_out": (error_codes.HTTP_LEASE_EXPIRED, "stop working on it, and lease another; send heartbeats more often than the lease runs out"),
    "timed_out": (error_codes.TIMEOUT, "stop working on it, and lease another"),
    "unwanted": (error_codes.HTTP_NOT_WANTED, "stop working on it, and lease another"),
    "given_back": (error_codes.HTTP_LEASE_LOST, "stop working on it, and lease another"),
    "lost": (error_codes.HTTP_LEASE_LOST, "stop working on it, and lease another"),
    "stopping": (error_codes.HTTP_LEASE_LOST, "stop working on it; lease another when there is somebody again"),
    "unknown": (error_codes.HTTP_LEASE_LOST, "stop working on it, and lease another"),
}
"""What a worker is told of a lease that is no longer one: the type of the error, and what to do."""


class TaskRequestRefused(Exception):  # what is wrong with a request, on its way to its answer
    """A request is refused: with which status, of which type the error is, what happened, and what to do next."""

    def __init__(self, status: int, type: str, message: str, next: str, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        super().__init__(message)
        self.status, self.type, self.message, self.next, self.headers = status, type, message, next, headers


class AuthorizedRequest(NamedTuple):
    """A request of somebody who may make it: their token's name, what it opens, and the body."""

    owner: str
    grant: TokenGrant
    body: bytes


class HttpAnswer(NamedTuple):
    """What is answered: the status, the body, and further headers."""

    status: int
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()


_decode_lease = msgspec.json.Decoder(worker_protocol.LeaseBody).decode
_decode_heartbeat = msgspec.json.Decoder(worker_protocol.HeartbeatBody).decode
_decode_complete = msgspec.json.Decoder(worker_protocol.CompleteBody).decode
_decode_fail = msgspec.json.Decoder(worker_protocol.FailBody).decode
_encode_json = msgspec.json.Encoder().encode


class TaskApp:
    """The protocol for the tasks that `lender` lends, to whom `access` lets in."""

    def __init__(self, broker: TaskBroker, access: WorkerAccess) -> None:
        self.broker, self.access = broker, access

    async def __call__(self, scope: AsgiScope, receive: AsgiReceive, send: AsgiSend) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            raise RuntimeError(f"this app speaks HTTP, and no {scope['type']}")
        try:
            answered = await self._answered(scope, receive)
        except TaskRequestRefused as refused:
            told = {"error": {"type": refused.type, "message": refused.message, "next": refused.next}}
            answered = HttpAnswer(refused.status, _encode_json(told), refused.headers)
        if answered is None:  # whoever asked has gone
            return
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(answered.body)).encode()), *answered.headers]
        if answered.status != 200 and any(name == b"expect" for name, _ in scope["headers"]):
            headers.append((b"connection", b"close"))  # whether the body follows that waits to be asked for can't be known
        await send({"type": "http.response.start", "status": answered.status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else answered.body})

    async def _answered(self, scope: AsgiScope, receive: AsgiReceive) -> HttpAnswer | None:
        path, method = scope["path"], scope["method"]
        match path.strip("/").split("/"):
            case ["v1", "health"]:
                _check_method(method, "GET", "HEAD")
                return HttpAnswer(503 if self.broker.stopping else 200, _encode_json({"status": "stopping" if self.broker.stopping else "ok"}))
            case ["v1", "openapi.json"]:
                _check_method(method, "GET", "HEAD")
                return HttpAnswer(200, openapi_description())
            case ["v1", "tasks", "lease"]:
                return await self._lease(await self._asked(scope, receive), receive)
            case ["v1", "tasks", id, "heartbeat" | "complete" | "fail" as what]:
                return await self._said(await self._asked(scope, receive), id, what)
        raise TaskRequestRefused(404, error_codes.NOT_FOUND, f"there is no {path} here", "GET /v1/openapi.json says what there is")

    # Who asks, and what.

    async def _asked(self, scope: AsgiScope, receive: AsgiReceive) -> AuthorizedRequest:
        """The request, of somebody who may make it."""
        _check_method(scope["method"], "POST")
        headers: dict[bytes, bytes] = dict(scope["headers"])
        if not self.access and not is_loopback(_requested_host(headers)):
            raise TaskRequestRefused(
                403,
                error_codes.HTTP_WRONG_HOST,
                "without a token, this answers only those who call it by a name of this machine",
                "use http://127.0.0.1:PORT, or a token",
            )
        scheme, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        found = self.access.of(token.strip() if scheme.lower() == "bearer" else None)
        if found is None:
            raise TaskRequestRefused(
                401, error_codes.UNAUTHORIZED, "no token, or none that opens this", "send Authorization: Bearer TOKEN", ((b"www-authenticate", b"Bearer"),)
            )
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if kind != b"application/json":
            raise TaskRequestRefused(
                415, error_codes.HTTP_NOT_JSON, f"the body is {kind.decode('latin-1') or 'of no type'}", "send Content-Type: application/json"
            )
        return AuthorizedRequest(*found, await _read_body(headers, receive))

    # What they ask for.

    async def _lease(self, asked: AuthorizedRequest, receive: AsgiReceive) -> HttpAnswer | None:
        request = _decode_body(asked.body, _decode_lease, "a request for tasks")
        queues, others = allowed_queues(request.queues, self.broker.queues, asked.grant)
        if others or not queues:
            there = ", ".join(sorted(queues)) or "none"
            raise TaskRequestRefused(
                403, error_codes.HTTP_NOT_SERVED, f"tasks of {', '.join(sorted(others)) or 'no queue'} are not lent here to this worker", f"ask for {there}"
            )
        task_worker = TaskWorker(asked.owner, request.worker)
        wanted = LeaseRequest(queues, asked.grant.tenants, limit=request.limit, wait_s=request.wait_s, lease_s=request.lease_s)
        leasing = asyncio.create_task(self.broker.lease(task_worker, wanted))
        leaving = asyncio.create_task(_wait_for_disconnect(receive))
        try:
            _ = await asyncio.wait((leasing, leaving), return_when=asyncio.FIRST_COMPLETED)
            if not leasing.done():
                leasing.cancel()
                _ = await asyncio.wait((leasing,))
                return None
            task_leases = leasing.result()
            if isinstance(task_leases, LeaseEnd):
                headers = ((b"retry-after", str(RETRY_AFTER_S).encode()),)
                raise TaskRequestRefused(
                    503, error_codes.HTTP_STOPPING, "this process is about to stop, and lends nothing more", f"ask again in {RETRY_AFTER_S} s", headers
                )
            if leaving.done():
                self.broker.give_back(task_leases)
                return None
            return HttpAnswer(200, b'{"tasks":[%s]}' % b",".join(self._told(task_leases)))
        finally:
            leasing.cancel()
            leaving.cancel()

    def _told(self, task_leases: list[TaskLease]) -> list[bytes]:
        """What is told of each loan, as far as there is room; the rest is given back."""
        told, size_bytes = list[bytes](), 0
        for task_lease in task_leases:
            try:
                one = _encode_json(worker_protocol.leased_task(task_lease))
            except ProgrammingError as error:
                self.broker.refuse(task_lease, error)
                continue
            if told and size_bytes + len(one) > ANSWER_BYTES_MAX:
                self.broker.give_back([task_lease])
                continue
            told.append(one)
            size_bytes += len(one)
        return told

    async def _said(self, asked: AuthorizedRequest, id: str, what: str) -> HttpAnswer:
        """What is said of a loan."""
        try:
            match what:
                case "heartbeat":
                    return await self._heard(asked, id)
                case "complete":
                    done = _decode_body(asked.body, _decode_complete, "a result")
                    port = worker_protocol.checked_port(done.port)
                    gone = await self.broker.complete(TaskWorker(asked.owner, done.worker), id, values.encode(done.value, "the result of a task"), port)
                case _:
                    failed = _decode_body(asked.body, _decode_fail, "a failure")
                    error, task_worker = failed.error, TaskWorker(asked.owner, failed.worker)
                    gone = await self.broker.fail(task_worker, id, error, retry=failed.retry, after_s=failed.after_s)
        except TooLarge as error:
            raise TaskRequestRefused(413, error_codes.TOO_LARGE, str(error), "keep it elsewhere, and answer with where it is") from error
        except ProgrammingError as error:
            raise TaskRequestRefused(422, error_codes.error_code(type(error)), str(error), "answer with something else, or fail the task") from error
        except StoreError as error:
            raise TaskRequestRefused(503, error_codes.STORE_UNAVAILABLE, str(error), "send the same answer again", ((b"retry-after", b"1"),)) from error
        if gone is not None:
            raise _refused_as_late(gone)
        return HttpAnswer(200, b'{"accepted":true}')

    async def _heard(self, asked: AuthorizedRequest, id: str) -> HttpAnswer:
        beat = _decode_body(asked.body or b"{}", _decode_heartbeat, "a heartbeat")
        progress = None if beat.progress is msgspec.UNSET else values.encode(beat.progress, "the progress of a task")
        if progress is not None and len(progress) >= BLOB_BYTES_MIN:
            raise TooLarge("the progress of a task", len(progress), BLOB_BYTES_MIN)
        heard = await self.broker.heartbeat(TaskWorker(asked.owner, beat.worker), id, progress)
        if isinstance(heard, LeaseEnd):
            raise _refused_as_late(heard)
        return HttpAnswer(200, _encode_json({"wanted": True, "lease_s": heard.lease_s} if heard.wanted else {"wanted": False, "why": heard.why}))


def openapi_description() -> bytes:
    """The OpenAPI description of the protocol."""
    return files("perdure.tasks").joinpath("openapi.json").read_bytes()


def _decode_body(raw: bytes, decode: Callable[[bytes], worker_protocol.T], what: str) -> worker_protocol.T:
    try:
        return worker_protocol.decode_body(raw, decode, what)
    except BadValue as error:
        raise TaskRequestRefused(400, error_codes.HTTP_BAD_REQUEST, str(error), "GET /v1/openapi.json says what is expected") from error


def _refused_as_late(gone: LeaseEnd) -> TaskRequestRefused:
    type, next = LEASE_END_ERRORS[gone.end]
    return TaskRequestRefused(409, type, gone.why, next)


def _check_method(method: str, *methods: str) -> None:
    if method not in methods:
        raise TaskRequestRefused(
            405,
            error_codes.HTTP_METHOD_NOT_ALLOWED,
            f"{method} is not what this is asked with",
            f"use {methods[0]}",
            ((b"allow", ", ".join(methods).encode()),),
        )


def _requested_host(headers: dict[bytes, bytes]) -> str:
    try:
        return urlsplit(f"//{headers.get(b'host', b'').decode('latin-1')}").hostname or ""
    except ValueError:
        return ""


async def _read_body(headers: dict[bytes, bytes], receive: AsgiReceive) -> bytes:
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
                    raise TaskRequestRefused(400, error_codes.HTTP_INCOMPLETE, "the connection was closed in the middle of a request", "send it again")
                parts.append(message.get("body", b""))
                size_bytes += len(parts[-1])
                if size_bytes > BODY_BYTES_MAX:
                    raise _too_large()
                if not message.get("more_body", False):
                    return b"".join(parts)
    except TimeoutError:
        raise TaskRequestRefused(408, error_codes.HTTP_TOO_SLOW, f"the body did not arrive within {BODY_S:g} s", "send it again") from None


def _too_large() -> TaskRequestRefused:
    why = f"a body may take {BODY_BYTES_MAX:,} bytes at most"
    return TaskRequestRefused(413, error_codes.TOO_LARGE, why, "keep it elsewhere, and answer with where it is")


async def _wait_for_disconnect(receive: AsgiReceive) -> None:
    """Wait until whoever asked has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


logger = logging.getLogger("perdure.tasks")

BACKLOG = 2048
"""How many connections may wait to be accepted."""

ACCEPTS_MAX = 16
"""How many connections are accepted in one turn of the event loop: those beyond the limit hold their descriptors for a few turns, until they are closed."""

SHUTDOWN_S = 5
"""How long requests that are being answered may take, once all loans have ended."""


def parse_listen_address(text: str) -> tuple[str, int]:
    """The host and the port of ``HOST:PORT``, ``[HOST]:PORT`` or ``PORT``, which is one of this machine alone.

    Raises:
        BadValue: it is none.
    """
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) < 65536) or (":" in host and not (host.startswith("[") and host.endswith("]"))):
        raise BadValue("--listen", text, "HOST:PORT, such as 127.0.0.1:7800")
    return host.strip("[]") or "127.0.0.1", int(port)


def _listening_socket(host: str, port: int) -> socket.socket:
    """A socket that listens. It says that it speaks TCP: else asyncio lets its small packets wait for one another, 40 ms each time."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_PASSIVE)[0]
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
    except OSError:
        listening.close()
        raise
    return listening


class TaskEndpoint:
    """Serves the tasks of `lender` on a host and a port (0: any that is free) until stopped.

    Raises:
        BadValue: others than this machine could reach it, and no token is needed; or nobody can listen there.
        MissingExtra: uvicorn is not installed.
    """

    def __init__(self, broker: TaskBroker, access: WorkerAccess, host: str, port: int) -> None:
        try:
            import uvicorn

            from perdure.tasks.http_connections import Admission, Connection, connections_max
        except ImportError as missing:
            raise MissingExtra("serving tasks over HTTP", missing.name or "uvicorn", "serve") from missing
        if not access and not is_loopback(host):
            raise BadValue(
                "--listen", f"{host}:{port}", f"an address of this machine alone, such as 127.0.0.1, as long as no token is needed; {TOKEN_VARIABLE} sets one"
            )
        self.broker = broker
        try:
            self._socket = _listening_socket(host, port)
        except OSError as error:
            raise BadValue("--listen", f"{host}:{port}", f"an address on which this process can listen: {error}") from error
        self._server = uvicorn.Server(
            uvicorn.Config(
                TaskApp(broker, access),
                http=cast(Any, partial(Connection, Admission(connections_max()))),
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=SHUTDOWN_S,
                backlog=ACCEPTS_MAX,
            )
        )

    @property
    def address(self) -> str:
        """Where it answers, as a URL."""
        host, port = self._socket.getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def ready(self) -> None:
        """Wait until it answers."""
        await self.broker.joined.wait()
        while not self._server.started:  # noqa: ASYNC110  # the server has nothing to wait for
            await asyncio.sleep(0.005)

    async def run(self) -> None:
        """Serve until cancelled or stopped."""
        lending = asyncio.create_task(self.broker.run())
        serving = asyncio.create_task(self._serve())
        try:
            _ = await asyncio.wait((lending, serving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._server.should_exit = True
            lending.cancel()
            ended = await asyncio.gather(lending, serving, return_exceptions=True)
        for error in ended:
            if isinstance(error, Exception):
                raise error

    def stop(self, grace_s: float = 0.0) -> None:
        """Make `run` return: who waits for tasks is told so at once, and what is lent may be answered within `grace_s`."""
        self.broker.stop(grace_s)

    async def _serve(self) -> None:
        self._server.config.load()
        self._server.lifespan = self._server.config.lifespan_class(self._server.config)
        await self._server.startup(sockets=[self._socket])
        self._socket.listen(BACKLOG)  # which asyncio has set to what it accepts in one turn
        try:
            await self._server.main_loop()
        finally:
            await self._server.shutdown(sockets=[self._socket])
