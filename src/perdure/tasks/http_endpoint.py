"""Serves the worker protocol over HTTP: `TaskApp` is a plain ASGI application, described by ``openapi.json``, and `TaskEndpoint` serves it on a port.

Every request is a POST of JSON, which a page in a browser can't send to another origin without asking the server first. Without tokens, the app also
refuses requests for other host names than those of this machine, which prevents DNS rebinding.

The endpoint runs the task broker and stops with it.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from functools import partial
from importlib.resources import files
from typing import Any, NamedTuple, cast

import msgspec

from perdure.core import error_codes, values
from perdure.core.errors import BadValue, MissingExtra, ProgrammingError, StoreError, TooLarge
from perdure.core.header_values import body_charset, body_encoding, host_of, is_loopback, whole_number_of
from perdure.core.limits import BLOB_BYTES_MIN, VALUE_BYTES_MAX
from perdure.runtime.task_broker import LeaseEnd, LeaseEndKind, LeaseRequest, TaskBroker, TaskLease, TaskWorker
from perdure.tasks import worker_protocol
from perdure.tasks.worker_tokens import TOKEN_VARIABLE, TokenGrant, WorkerAccess, allowed_queues

AsgiReceive = Callable[[], Awaitable[MutableMapping[str, Any]]]
AsgiSend = Callable[[MutableMapping[str, Any]], Awaitable[None]]
AsgiScope = MutableMapping[str, Any]

BODY_BYTES_MAX = VALUE_BYTES_MAX + 64 * 1024
"""The largest body that is read: a value of the largest size, and the JSON around it."""

ANSWER_BYTES_MAX = 2 * VALUE_BYTES_MAX
"""The largest answer with several tasks. Tasks that do not fit are given back."""

THREAD_BYTES_MIN = 256 * 1024
"""Larger bodies are decoded in a thread, so that other requests are answered meanwhile."""

BODY_S = 30.0
"""How long the body of a request may take to arrive."""

RETRY_AFTER_S = 5

LEASE_END_ERRORS: dict[LeaseEndKind, tuple[str, str]] = {
    "answered": (error_codes.HTTP_ALREADY_ANSWERED, "nothing: the first answer counts"),
    "ran_out": (error_codes.HTTP_LEASE_EXPIRED, "stop working on it, and lease another; send heartbeats before the lease expires"),
    "timed_out": (error_codes.TIMEOUT, "stop working on it, and lease another"),
    "unwanted": (error_codes.HTTP_NOT_WANTED, "stop working on it, and lease another"),
    "given_back": (error_codes.HTTP_LEASE_LOST, "stop working on it, and lease another"),
    "lost": (error_codes.HTTP_LEASE_LOST, "stop working on it, and lease another"),
    "stopping": (error_codes.HTTP_LEASE_LOST, "stop working on it; lease another when a process serves tasks again"),
    "unknown": (error_codes.HTTP_LEASE_LOST, "stop working on it, and lease another"),
}
"""The type of the error and the advice for a request about a lease that has ended."""


class TaskRequestRefused(Exception):  # an expected outcome on its way to the answer
    """A refused request: the status of the answer, the type of the error, what happened, and what to do next."""

    def __init__(self, status: int, type: str, message: str, next: str, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        super().__init__(message)
        self.status, self.type, self.message, self.next, self.headers = status, type, message, next, headers


class AuthorizedRequest(NamedTuple):
    """A request that passed the check of its token: the identity and the grant of the token, and the body."""

    owner: str
    grant: TokenGrant
    body: bytes


class HttpAnswer(NamedTuple):
    """An answer: its status, body and further headers."""

    status: int
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()


_encode_json = msgspec.json.Encoder().encode


Authorize = Callable[[dict[bytes, bytes]], Awaitable[tuple[str, TokenGrant]]]
"""Returns the identity of the worker that sends a request with these headers, and what it may lease; raises TaskRequestRefused."""


class TaskApp:
    """An ASGI application that leases the tasks of `broker` to the workers that `authorize` admits."""

    def __init__(self, broker: TaskBroker, authorize: Authorize) -> None:
        self.broker, self._authorize = broker, authorize

    async def __call__(self, scope: AsgiScope, receive: AsgiReceive, send: AsgiSend) -> None:
        """Answers one request."""
        if scope["type"] != "http":
            raise RuntimeError(f"this app serves HTTP only, not {scope['type']}; mount it without lifespan and WebSockets")
        answer = await self.answer(scope, scope["path"].strip("/").split("/"), receive)
        if answer is None:  # the client has disconnected
            return
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(answer.body)).encode()), *answer.headers]
        if answer.status != 200 and any(name == b"expect" for name, _ in scope["headers"]):
            headers.append((b"connection", b"close"))  # a client that expected 100-continue may or may not send its body now
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else answer.body})

    async def answer(self, scope: AsgiScope, path: Sequence[str], receive: AsgiReceive) -> HttpAnswer | None:
        """Returns the answer to a request for a path of the protocol; None if the client has disconnected."""
        try:
            return await self._route(scope, path, receive)
        except TaskRequestRefused as refused:
            body = {"error": {"type": refused.type, "message": refused.message, "next": refused.next}}
            return HttpAnswer(refused.status, _encode_json(body), refused.headers)

    async def _route(self, scope: AsgiScope, path: Sequence[str], receive: AsgiReceive) -> HttpAnswer | None:
        method = scope["method"]
        match path:
            case ["v1", "health"]:
                _check_method(method, "GET", "HEAD")
                return HttpAnswer(503 if self.broker.stopping else 200, _encode_json({"status": "stopping" if self.broker.stopping else "ok"}))
            case ["v1", "openapi.json"]:
                _check_method(method, "GET", "HEAD")
                return HttpAnswer(200, openapi_description())
            case ["v1", "tasks", "lease"]:
                return await self._lease(await self._authorized(scope, receive), receive)
            case ["v1", "tasks", id, "heartbeat" | "complete" | "fail" as what]:
                return await self._update(await self._authorized(scope, receive), id, what)
        raise TaskRequestRefused(404, error_codes.NOT_FOUND, f"there is no {scope['path'][:200]} here", "GET /v1/openapi.json lists the paths")

    # Authorization.

    async def _authorized(self, scope: AsgiScope, receive: AsgiReceive) -> AuthorizedRequest:
        """Checks who sends a request and the content type, and reads its body."""
        _check_method(scope["method"], "POST")
        headers: dict[bytes, bytes] = dict(scope["headers"])
        owner, grant = await self._authorize(headers)
        content_type = headers.get(b"content-type", b"").decode("latin-1")
        kind = content_type.partition(";")[0].strip().lower()
        if kind != "application/json":
            raise TaskRequestRefused(
                415, error_codes.HTTP_NOT_JSON, f"the content type of the body is {kind or 'missing'}", "send Content-Type: application/json"
            )
        if charset := body_charset(content_type):
            raise TaskRequestRefused(415, error_codes.HTTP_NOT_JSON, f"the charset of the body is {charset[:100]}", "send JSON in UTF-8")
        if encoding := body_encoding(headers.get(b"content-encoding", b"").decode("latin-1")):
            raise TaskRequestRefused(
                415, error_codes.HTTP_ENCODED, f"the content encoding of the body is {encoding[:100]}", "send it without a Content-Encoding"
            )
        return AuthorizedRequest(owner, grant, await _read_body(headers, receive))

    # Requests.

    async def _lease(self, asked: AuthorizedRequest, receive: AsgiReceive) -> HttpAnswer | None:
        request = await _decode_body(asked.body, worker_protocol.LeaseBody, "a request for tasks")
        queues, others = allowed_queues(request.queues, self.broker.queues, asked.grant)
        if self.broker.queues is None and request.queues is None and asked.grant.queues is None:
            raise TaskRequestRefused(400, error_codes.HTTP_BAD_REQUEST, "the request names no queues", 'name them: {"queues": ["images"]}')
        if others or not queues:
            mine, _ = allowed_queues(None, self.broker.queues, asked.grant)
            there = ", ".join(sorted(queues or mine))
            raise TaskRequestRefused(
                403,
                error_codes.HTTP_NOT_SERVED,
                f"tasks of {', '.join(sorted(others)) or 'no queue'} are not available to this worker here",
                f"ask for {there}" if there else "use a key or a token for queues that are leased here",
            )
        if self.broker.queues is None:
            self.broker.serve(queues)
        task_worker = TaskWorker(asked.owner, request.worker)
        wanted = LeaseRequest(queues, asked.grant.tenants, limit=request.limit, wait_s=request.wait_s, lease_s=request.lease_s)
        leasing = asyncio.create_task(self.broker.lease(task_worker, wanted))
        disconnecting = asyncio.create_task(_wait_for_disconnect(receive))
        try:
            _ = await asyncio.wait((leasing, disconnecting), return_when=asyncio.FIRST_COMPLETED)
            if not leasing.done():
                leasing.cancel()
                _ = await asyncio.wait((leasing,))
                return None
            task_leases = leasing.result()
            if isinstance(task_leases, LeaseEnd):
                headers = ((b"retry-after", str(RETRY_AFTER_S).encode()),)
                raise TaskRequestRefused(
                    503, error_codes.HTTP_STOPPING, "this process is stopping and leases no more tasks", f"ask again in {RETRY_AFTER_S} s", headers
                )
            if disconnecting.done():
                self.broker.give_back(task_leases)
                return None
            return HttpAnswer(200, b'{"tasks":[%s]}' % b",".join(self._encoded_tasks(task_leases)))
        finally:
            leasing.cancel()
            disconnecting.cancel()

    def _encoded_tasks(self, task_leases: list[TaskLease]) -> list[bytes]:
        """Returns the leased tasks as JSON, as many as fit into one answer; gives the rest back."""
        encoded, size_bytes = list[bytes](), 0
        for task_lease in task_leases:
            try:
                one = _encode_json(worker_protocol.leased_task(task_lease))
            except ProgrammingError as error:
                self.broker.refuse(task_lease, error)
                continue
            if encoded and size_bytes + len(one) > ANSWER_BYTES_MAX:
                self.broker.give_back([task_lease])
                continue
            encoded.append(one)
            size_bytes += len(one)
        return encoded

    async def _update(self, asked: AuthorizedRequest, id: str, what: str) -> HttpAnswer:
        """Handles a heartbeat, a result or a failure of a leased task."""
        try:
            match what:
                case "heartbeat":
                    return await self._heartbeat(asked, id)
                case "complete":
                    done = await _decode_body(asked.body, worker_protocol.CompleteBody, "a result")
                    port = worker_protocol.checked_port(done.port)
                    gone = await self.broker.complete(TaskWorker(asked.owner, done.worker), id, values.encode(done.value, "the result of a task"), port)
                case _:
                    failed = await _decode_body(asked.body, worker_protocol.FailBody, "a failure")
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

    async def _heartbeat(self, asked: AuthorizedRequest, id: str) -> HttpAnswer:
        heartbeat = await _decode_body(asked.body or b"{}", worker_protocol.HeartbeatBody, "a heartbeat")
        progress = None if heartbeat.progress is msgspec.UNSET else values.encode(heartbeat.progress, "the progress of a task")
        if progress is not None and len(progress) >= BLOB_BYTES_MIN:
            raise TooLarge("the progress of a task", len(progress), BLOB_BYTES_MIN)
        reply = await self.broker.heartbeat(TaskWorker(asked.owner, heartbeat.worker), id, progress)
        if isinstance(reply, LeaseEnd):
            raise _refused_as_late(reply)
        return HttpAnswer(200, _encode_json({"wanted": True, "lease_s": reply.lease_s} if reply.wanted else {"wanted": False, "why": reply.why}))


def token_authorization(access: WorkerAccess) -> Authorize:
    """Returns a check of the tokens of workers. Without any token, only requests for a host name of this machine are admitted."""

    async def authorize(headers: dict[bytes, bytes]) -> tuple[str, TokenGrant]:
        if not access and not is_loopback(host_of(headers.get(b"host", b"").decode("latin-1"))):
            raise TaskRequestRefused(
                403,
                error_codes.HTTP_WRONG_HOST,
                "without a token, this server answers only requests for a host name of this machine",
                "use http://127.0.0.1:PORT, or a token",
            )
        scheme, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        found = access.of(token.strip() if scheme.lower() == "bearer" else None)
        if found is None:
            raise TaskRequestRefused(
                401,
                error_codes.UNAUTHORIZED,
                "the request has no token, or one that grants nothing",
                "send Authorization: Bearer TOKEN",
                ((b"www-authenticate", b"Bearer"),),
            )
        return found

    return authorize


def openapi_description() -> bytes:
    """Returns the OpenAPI description of the protocol."""
    return files("perdure.tasks").joinpath("openapi.json").read_bytes()


async def _decode_body(raw: bytes, form: type[worker_protocol.T], what: str) -> worker_protocol.T:
    try:
        if len(raw) < THREAD_BYTES_MIN:
            return worker_protocol.decode_body(raw, form, what)
        return await asyncio.to_thread(worker_protocol.decode_body, raw, form, what)
    except BadValue as error:
        raise TaskRequestRefused(400, error_codes.HTTP_BAD_REQUEST, str(error), "send a body as GET /v1/openapi.json describes it") from error


def _refused_as_late(gone: LeaseEnd) -> TaskRequestRefused:
    type, next = LEASE_END_ERRORS[gone.end]
    return TaskRequestRefused(409, type, gone.why, next)


def _check_method(method: str, *methods: str) -> None:
    if method not in methods:
        raise TaskRequestRefused(
            405,
            error_codes.HTTP_METHOD_NOT_ALLOWED,
            f"{method} is not allowed here",
            f"use {methods[0]}",
            ((b"allow", ", ".join(methods).encode()),),
        )


async def _read_body(headers: dict[bytes, bytes], receive: AsgiReceive) -> bytes:
    """Reads the whole body of a request."""
    announced = headers.get(b"content-length", b"0").decode("latin-1").strip(" \t")
    if whole_number_of(announced, BODY_BYTES_MAX) is None:
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
    """Waits until the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass


logger = logging.getLogger("perdure.tasks")

BACKLOG = 2048
"""How many connections may wait to be accepted."""

ACCEPTS_MAX = 16
"""How many connections are accepted in one turn of the event loop: those beyond the limit hold their descriptors for a few turns, until they are closed."""

SHUTDOWN_S = 5
"""How long the last answers may take once all leases have ended."""


def parse_listen_address(text: str) -> tuple[str, int]:
    """Parses ``HOST:PORT``, ``[HOST]:PORT`` or ``PORT``, which means the loopback interface.

    Raises:
        BadValue: it is none of these.
    """
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) < 65536) or (":" in host and not (host.startswith("[") and host.endswith("]"))):
        raise BadValue("--listen", text, "HOST:PORT, such as 127.0.0.1:7800")
    return host.strip("[]") or "127.0.0.1", int(port)


def _listening_socket(host: str, port: int) -> socket.socket:
    """Opens a listening socket. Its protocol is set to TCP explicitly: otherwise asyncio does not disable Nagle's algorithm, which costs 40 ms a request."""
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
    """Serves the tasks of `broker` on a host and a port (0: any that is free) until stopped.

    Raises:
        BadValue: other machines could reach it without a token, or this process can't listen there.
        MissingExtra: uvicorn is not installed.
    """

    def __init__(self, broker: TaskBroker, access: WorkerAccess, host: str, port: int) -> None:
        try:
            import uvicorn

            from perdure.tasks.http_connections import Admission, Connection, connections_max, detect_dead_peers
        except ImportError as missing:
            raise MissingExtra("server_task tasks over HTTP", missing.name or "uvicorn", "serve") from missing
        if not access and not is_loopback(host):
            raise BadValue(
                "--listen", f"{host}:{port}", f"an address of this machine alone, such as 127.0.0.1, as long as no token is needed; {TOKEN_VARIABLE} sets one"
            )
        self.broker = broker
        try:
            self._socket = _listening_socket(host, port)
        except OSError as error:
            raise BadValue("--listen", f"{host}:{port}", f"an address on which this process can listen: {error}") from error
        detect_dead_peers(self._socket)
        self._server = uvicorn.Server(
            uvicorn.Config(
                TaskApp(broker, token_authorization(access)),
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
        """The URL of the endpoint."""
        host, port = self._socket.getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def ready(self) -> None:
        """Waits until the endpoint answers requests."""
        await self.broker.joined.wait()
        while not self._server.started:  # noqa: ASYNC110  # the server offers nothing to wait for
            await asyncio.sleep(0.005)

    async def run(self) -> None:
        """Serves until cancelled or stopped."""
        broker_task = asyncio.create_task(self.broker.run())
        server_task = asyncio.create_task(self._serve())
        try:
            _ = await asyncio.wait((broker_task, server_task), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._server.should_exit = True
            broker_task.cancel()
            ended = await asyncio.gather(broker_task, server_task, return_exceptions=True)
        for error in ended:
            if isinstance(error, Exception):
                raise error

    def stop(self, grace_s: float = 0.0) -> None:
        """Makes `run` return. Waiting requests are refused at once; leased tasks may be answered within `grace_s`."""
        self.broker.stop(grace_s)

    async def _serve(self) -> None:
        self._server.config.load()
        self._server.lifespan = self._server.config.lifespan_class(self._server.config)
        await self._server.startup(sockets=[self._socket])
        self._socket.listen(BACKLOG)  # asyncio has set it to the number of connections that it accepts at once
        try:
            await self._server.main_loop()
        finally:
            await self._server.shutdown(sockets=[self._socket])
