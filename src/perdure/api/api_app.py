"""The ASGI application: finds the operation of a request, checks who asks, performs it, and writes its result or error.

Arguments and results are JSON (see `json_forms`), or MessagePack between Perdure's own client and server (see `operations.wire_codec`).
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Protocol
from urllib.parse import quote

import msgspec

from perdure.api import approval_link_page, problems, unsubscribe_page
from perdure.api.answer_headers import AnswerHeaders
from perdure.api.approval_link_page import ApprovalLinkPage
from perdure.api.argument_checks import WHOLE_NUMBER_MAX, check_arguments
from perdure.api.entity_tags import expect_version, is_known, stale_refusal, version_headers
from perdure.api.event_streams import SERVER_SENT, send_stream
from perdure.api.http_requests import ApiAnswer, ApiRequest, AsgiReceive, AsgiScope, AsgiSend, headers_of, headers_of_answer, send_answer
from perdure.api.idempotent_requests import GONE, expect_same_start, kept_answer, keyed_request, replayed_answer
from perdure.api.json_bodies import json_body
from perdure.api.json_forms import form_of
from perdure.api.openapi_document import NO_PATHS, openapi_document
from perdure.api.problems import Refusal, not_allowed
from perdure.api.record_answers import RecordAnswers
from perdure.api.request_arguments import RequestArguments
from perdure.api.request_log import AccompaniedRequest
from perdure.api.request_watch import until_over
from perdure.api.route_tree import Route, RouteTree
from perdure.api.task_routes import TaskRoutes
from perdure.api.unsubscribe_page import UnsubscribePage
from perdure.api.webhook_routes import WebhookRoutes
from perdure.core.error_text import SHOWN_CHARACTERS_MAX, shorten_text
from perdure.core.errors import BadValue, PerdureError, RequestUnderWay, StaleRecord, StoreError, StoreUnavailable
from perdure.core.header_values import whole_number_of
from perdure.observe.exposition import MetricsExposition
from perdure.observe.request_fields import RequestFields
from perdure.operations import on_access, on_execution_changes, on_executions, wire_codec
from perdure.operations.operation_table import BY_FUNCTION, OPERATIONS, Operation
from perdure.operations.route_aliases import ALIASES
from perdure.runtime.observer import Observer
from perdure.runtime.task_broker import TaskBroker
from perdure.service.active_limits import UNLIMITED_PEOPLE, ActiveLimits, limited_access
from perdure.service.audit import AuditedBy, audited_access
from perdure.service.callers import Caller
from perdure.service.idempotency import IdempotentRequests, KeptAnswer, KeyedRequest
from perdure.service.rate_limits import RateLimiter
from perdure.service.server_description import ServerDescription, package_version
from perdure.service.store_access import StoreAccess

logger = logging.getLogger("perdure.api")

Authenticate = Callable[[ApiRequest], Awaitable[Caller]]
"""Finds out who sends a request; raises Unauthenticated, or a Refusal. Of a long request, such as a stream, it is asked again every few seconds."""


class Pages(Protocol):
    """Answers requests that call no operation, such as those of the sign-in."""

    @property
    def documented(self) -> Mapping[str, Any]:
        """Their paths, as the OpenAPI document has them."""
        ...

    async def __call__(self, request: ApiRequest) -> ApiAnswer | None:
        """Answers a request; returns None if it is for none of them."""
        ...


class Endpoint(Protocol):
    """Answers all requests of one path, and below it, by itself. What it does is checked and audited as the operations of the API are."""

    async def __call__(self, app: ApiApp, request: ApiRequest, caller: Caller, send: AsgiSend) -> None:
        """Answers a request of a caller."""
        ...

    async def aclose(self) -> None:
        """Ends what it has begun."""
        ...


READY_S = 2.0
"""How long the database may take to answer before a process says that it is not ready: those who ask rarely wait for longer."""

OWN_ROUTES = frozenset((("healthz",), ("readyz",), ("openapi.json",), ("metrics",)))
"""The routes that are no operations, as segments."""

CALL_ROUTE = ("api", "call")
"""The beginning of the routes ``/api/call/{operation}``, to which all arguments of an operation are posted, those of its path among them."""

MCP_ROUTE = ("mcp",)
"""The beginning of the routes of the Model Context Protocol, as segments."""

PAGE_MAX = 1_000
"""The most things of a stream in one page of JSON."""

PLAN = BY_FUNCTION[on_execution_changes.plan]
"""The operation that a dry run calls in place of another."""

_encode_json = msgspec.json.Encoder().encode


ROUTES_OF_LINKS: dict[type, str] = {ApprovalLinkPage: approval_link_page.ROUTE, UnsubscribePage: unsubscribe_page.ROUTE}
"""The routes of pages whose paths have secrets, as logs and traces have them."""


class WaitOver(Exception):  # an expected outcome on its way to the answer
    """A request has waited until it was over, for the sake of this error, while its operation goes on or is not known to have ended."""

    def __init__(self, error: PerdureError) -> None:
        super().__init__()
        self.error = error


class ApiApp:
    """The API of a store, as an ASGI application. `secret` signs links and exports, `limiter` limits how often each caller may ask, and
    `active_limits` how many executions that people have started may be in progress.

    With a `broker`, workers in other languages lease the tasks of queues there; `webhooks` are received without a key, `console` answers for the web page, and
    `mcp` for the path ``/mcp``.

    What changes something is done through a store that adds an entry to the audit. `root_path` is the path below which a proxy publishes the application, and
    `public_url` the address at which people reach it, for links. `facts` are what it says of itself.
    """

    def __init__(
        self,
        access: StoreAccess,
        authenticate: Authenticate,
        *,
        secret: bytes = b"",
        operations: tuple[Operation, ...] = OPERATIONS,
        limiter: RateLimiter | None = None,
        active_limits: ActiveLimits = UNLIMITED_PEOPLE,
        pages: Pages | None = None,
        webhooks: WebhookRoutes | None = None,
        console: Pages | None = None,
        broker: TaskBroker | None = None,
        mcp: Endpoint | None = None,
        headers: AnswerHeaders | None = None,
        root_path: str = "",
        public_url: str = "",
        observer: Observer | None = None,
        metrics: MetricsExposition | None = None,
        facts: ServerDescription | None = None,
    ) -> None:
        self.access, self._authenticate, self._secret = access, authenticate, secret
        self._limiter, self._pages, self._headers, self._root_path = limiter, pages, headers or AnswerHeaders(), root_path
        self._active_limits = active_limits
        self._facts = facts or ServerDescription(version=package_version(), started_at_s=time.time())
        self._observer, self._metrics, self._webhooks, self.console, self._public_url = observer, metrics, webhooks, console, public_url
        self._links = ApprovalLinkPage(lambda: self.access, secret, limiter)
        self._unsubscribe = UnsubscribePage(lambda: self.access, secret, limiter)
        self._routes = RouteTree()
        self._by_name = {one.name: Route(one, RequestArguments(one)) for one in operations}
        self._aliases = [Route(one.operation, RequestArguments(one.operation, one)) for one in ALIASES if one.operation in operations]
        for route in (*self._by_name.values(), *self._aliases):
            self._routes.add(route)
        self._tasks = None if broker is None else TaskRoutes(broker, authenticate)
        self._mcp = mcp
        self._idempotent = IdempotentRequests(access)
        self._records, self._document = RecordAnswers(), b""
        self.is_stopping = False
        self._stopping: asyncio.Future[None] | None = None

    def begin_stop(self, grace_s: float = 0.0) -> asyncio.Task[None] | None:
        """Ends streams and waits that can be repeated, with an error that says so, and has `readyz` say that no more is taken on. Others end by themselves.

        Workers may answer what they have leased within `grace_s`. Returns what ends then; None if they have leased nothing.
        """
        self.is_stopping = True
        if self._stopping is not None and not self._stopping.done():
            self._stopping.set_result(None)
        if self._webhooks is not None:
            self._webhooks.stop()
        return None if self._tasks is None else self._tasks.stop(grace_s)

    async def aclose(self) -> None:
        """Gives back what workers have leased, and ends what the endpoint ``/mcp`` has begun."""
        if self._tasks is not None:
            await self._tasks.aclose()
        if self._mcp is not None:
            await self._mcp.aclose()

    def _stop_future(self) -> asyncio.Future[None]:
        if self._stopping is None:
            self._stopping = asyncio.get_running_loop().create_future()
            if self.is_stopping:
                self._stopping.set_result(None)
        return self._stopping

    async def __call__(self, scope: AsgiScope, receive: AsgiReceive, send: AsgiSend) -> None:
        """Answers one request."""
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        if scope["type"] == "websocket":
            await send({"type": "websocket.close"})  # before it is accepted: the server answers the handshake with 403
            return
        headers = headers_of(scope)
        origin = headers.get("origin", "")
        with AccompaniedRequest(scope["method"], headers, self._observer) as fields:
            answer = await self._answer_or_error(scope, receive, headers, self._headers.added_to(send, origin), fields)
            if answer is not None:
                fields.status = answer.status
                own = (*headers_of_answer(answer), (b"x-request-id", fields.id.encode()))
                await send_answer(send, answer, self._headers.completed(own, origin), scope["method"])

    async def _answer_or_error(
        self, scope: AsgiScope, receive: AsgiReceive, headers: dict[str, str], send: AsgiSend, fields: RequestFields
    ) -> ApiAnswer | None:
        try:
            request = ApiRequest(scope, receive, self._root_path, headers)
        except Refusal as refusal:
            return _refusal_answer(refusal)
        try:
            return await self._answer(request, fields, send)
        except Refusal as refusal:
            return _refusal_answer(refusal)
        except WaitOver as over:
            return _error_answer(over.error, request)
        except PerdureError as error:
            return _error_answer(error, request)

    async def _answer(self, request: ApiRequest, fields: RequestFields, send: AsgiSend) -> ApiAnswer | None:
        if (preflight := self._headers.preflight(request)) is not None:
            return preflight
        if request.segments in OWN_ROUTES:
            fields.route = f"/{request.segments[0]}"
            if request.method not in ("GET", "HEAD"):
                raise not_allowed(request.method, ("GET",))
            match request.segments:
                case ("healthz",):
                    return ApiAnswer(200, b'{"status":"ok"}')
                case ("readyz",):
                    return await self._readiness()
                case ("openapi.json",):
                    self._document = self._document or self._described()
                    return ApiAnswer(200, _with_server(self._document, request.root))
                case ("metrics",) if self._metrics is not None:
                    return await self._shown_metrics(self._metrics, request)
        for others in (self._links, self._unsubscribe, self._pages, self._webhooks, self._tasks, self.console):
            if others is not None and (other := await others(request)) is not None:
                fields.route = ROUTES_OF_LINKS.get(type(others), f"/{request.segments[0]}")
                return other
        if self._mcp is not None and request.segments[:1] == MCP_ROUTE:
            await self._answer_at_endpoint(self._mcp, request, fields, send)
            return None
        route, path = self._find(request)
        request.places = route.reader.places
        fields.route = f"/api/call/{route.operation.name}" if request.segments[:2] == CALL_ROUTE else route.operation.path
        caller = await self._expect_allowed(route.operation, request, fields)
        self._expect_within_rate(caller)
        arguments = await self._arguments(route, request, path, caller)
        if route.operation.has_plan and arguments.pop("dry_run", False):
            return await self._result_answer(self.access, PLAN, request, PLAN.arguments_of(route.operation, arguments), caller)
        if route.operation.is_stream:
            fields.status = 200
            return await self._stream(route, request, arguments, send)
        keyed = await keyed_request(route.operation, request, caller)
        if keyed is None:
            answer = await self._result_answer(self.access, route.operation, request, arguments, caller)
            if route.operation.is_start and answer.status == 200:
                await expect_same_start(self.access, route.operation, request, arguments)
            return answer
        return await self._answer_once(keyed, route.operation, request, arguments, caller)

    async def _answer_at_endpoint(self, endpoint: Endpoint, request: ApiRequest, fields: RequestFields, send: AsgiSend) -> None:
        """Has an endpoint answer a request of a known caller."""
        caller = await self._authenticate(request)
        fields.route, fields.tenant, fields.subject = "/mcp", caller.tenant, caller.subject
        self._expect_within_rate(caller)

        async def noted(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                fields.status = message["status"]
                message = {**message, "headers": [*message.get("headers", ()), (b"x-request-id", fields.id.encode())]}
            await send(message)

        await endpoint(self, request, caller, noted)

    async def _answer_once(self, keyed: KeyedRequest, operation: Operation, request: ApiRequest, arguments: dict[str, Any], caller: Caller) -> ApiAnswer:
        """Answers a request with an idempotency key; a second one with what the first was given."""
        made: list[tuple[KeptAnswer, ApiAnswer]] = []

        async def perform(access: StoreAccess) -> KeptAnswer:
            try:
                answer = await self._result_answer(access, operation, request, arguments, caller)
                kept = kept_answer(keyed, operation, answer)
            except WaitOver as over:
                answer, kept = _error_answer(over.error, request), kept_answer(keyed, operation, ApiAnswer(GONE))
            except PerdureError as error:
                answer = _error_answer(error, request)
                kept = kept_answer(keyed, operation, answer)
            made.append((kept, answer))
            return kept

        kept = await self._idempotent.perform(keyed, not operation.may_wait(arguments), perform)
        return next((answer for one, answer in made if one is kept), None) or replayed_answer(kept)

    async def _result_answer(self, access: StoreAccess, operation: Operation, request: ApiRequest, arguments: dict[str, Any], caller: Caller) -> ApiAnswer:
        keeps = operation.function is on_executions.read and arguments.get("at") is None and wire_codec.MEDIA_TYPE not in request.header("accept")
        if keeps and (kept := await self._records.answer(access, arguments["key"])) is not None:
            return _unless_known(request, kept)
        processes = await self._records.begin(access, arguments["key"]) if keeps else None
        arguments = await expect_version(self.access, operation, request, arguments)
        if operation.method != "GET":
            access = limited_access(audited_access(access, AuditedBy(caller, operation.name, request.address)), caller, self._active_limits)
        try:
            result = await self._perform(access, operation, request, arguments)
        except StaleRecord as stale:
            if request.header("if-match"):
                raise stale_refusal(stale) from None
            raise
        if isinstance(result, ApiAnswer):
            return result
        if wire_codec.MEDIA_TYPE in request.header("accept"):
            return ApiAnswer(200, wire_codec.encode(result), wire_codec.MEDIA_TYPE)
        answer = _json_answer(operation, result)._replace(headers=version_headers(operation, result))
        if keeps:
            await self._records.keep(access, processes, result, answer)
        return _unless_known(request, answer)

    async def _expect_allowed(self, operation: Operation, request: ApiRequest, fields: RequestFields | None = None) -> Caller:
        caller = await self._authenticate(request)
        if fields is not None:
            fields.tenant, fields.subject = caller.tenant, caller.subject
        operation.expect_allowed(caller)
        return caller

    def _expect_within_rate(self, caller: Caller) -> None:
        left_s = 0.0 if self._limiter is None else self._limiter.take(f"{caller.tenant}\0{caller.subject}", time.monotonic())
        if left_s:
            after = ((b"retry-after", str(math.ceil(left_s)).encode()),)
            raise Refusal(429, "too_many_requests", f"{caller.subject} asks more often than this server allows", f"ask again in {left_s:.2g} s", after)

    def _find(self, request: ApiRequest) -> tuple[Route, dict[str, str]]:
        if request.segments[:2] == CALL_ROUTE and len(request.segments) == 3 and request.method == "POST":
            called = self._by_name.get(request.segments[2])
            if called is None:
                raise Refusal(404, "not_found", f"there is no operation {request.segments[2]} here", "use a server of the client's version")
            return called, {}
        allowed: set[str] = set()
        for methods, given in self._routes.matches(request.segments):
            if (route := methods.get("GET" if request.method == "HEAD" else request.method)) is not None:
                return route, dict(zip(route.reader.in_path, given, strict=True))
            allowed |= methods.keys()
            if not any("execution" in one.reader.in_path for one in methods.values()):
                break  # only the id of an execution may be the same word as a command
        if allowed:
            raise not_allowed(request.method, sorted(allowed))
        raise Refusal(404, "not_found", f"there is no {request.path} here", "GET /openapi.json lists the paths")

    async def _arguments(self, route: Route, request: ApiRequest, path: dict[str, str], caller: Caller) -> dict[str, Any]:
        operation, kind = route.operation, request.header("content-type").partition(";")[0].strip().lower()
        if kind == wire_codec.MEDIA_TYPE:
            try:
                arguments = wire_codec.decode_arguments(operation, await request.body())
            except (msgspec.MsgspecError, RecursionError) as error:
                message, where = f"the body is not what {operation.name} takes: {shorten_text(str(error), SHOWN_CHARACTERS_MAX)}", _binary_place(error)
                raise Refusal(400, "bad_request", message, "use the client of the server's version", where=where) from None
        else:
            if "execution" in path:
                key = await on_executions.by_id(self.access, caller.tenant, path.pop("execution"))
                path |= {"workflow": key.workflow, "id": key.id}
            given = route.reader.from_query(request.query)
            if request.method not in ("GET", "HEAD"):
                in_body = await json_body(request, "" if route.reader.alias is None else route.reader.alias.body_as)
                _expect_one_place(given, in_body)
                given |= in_body
            if request.segments[:2] == CALL_ROUTE:
                path |= route.reader.named_in_body(given)
            if operation.is_stream:
                given |= {"after": _last_event_id(request, given.get("after", 0)), "follow": given.get("follow", False)}
            arguments = route.reader.read(path, given, caller.tenant, request.header("idempotency-key"))
        check_arguments(operation, arguments, caller.tenant)
        operation.expect_arguments_allowed(caller, arguments)
        return arguments | {name: self._filled_in(name, operation, caller) for name in operation.filled_in}

    def _filled_in(self, name: str, operation: Operation, caller: Caller) -> Any:
        """The value of an argument that the server fills in."""
        match name:
            case "tenant":
                return caller.tenant
            case "caller":
                return caller
            case "author":
                return caller.subject
            case "secret":
                return self._secret
            case "public_url":
                return self._public_url
            case "server":
                return self._facts
        return self._allowed(caller) if operation.function is on_access.whoami else ()

    def _allowed(self, caller: Caller) -> tuple[str, ...]:
        """The names of the operations that a caller may call here."""
        return tuple(name for name, route in self._by_name.items() if route.operation.is_allowed(caller))

    async def _perform(self, access: StoreAccess, operation: Operation, request: ApiRequest, arguments: dict[str, Any]) -> Any:
        """Performs an operation. One that may wait is cancelled when its client has gone, or may not have it any more."""
        performing = access.call(operation.function, **arguments)
        if not operation.may_wait(arguments):
            return await performing
        working, over = asyncio.ensure_future(performing), self._watched(operation, request, operation.is_repeatable)
        try:
            _ = await asyncio.wait((working, over), return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
            if (error := over.result()) is not None:
                raise WaitOver(error)
            return ApiAnswer(GONE)
        finally:
            working.cancel()
            over.cancel()
            _ = await asyncio.gather(working, over, return_exceptions=True)

    def _watched(self, operation: Operation, request: ApiRequest, may_stop: bool) -> asyncio.Task[PerdureError | None]:
        """Begins to watch a long request. With `may_stop`, it is also over when the process stops."""
        stopping = self._stop_future() if may_stop else None
        return asyncio.create_task(until_over(request, lambda: self._expect_allowed(operation, request), stopping))

    async def _stream(self, route: Route, request: ApiRequest, arguments: dict[str, Any], send: AsgiSend) -> ApiAnswer | None:
        accepted = request.header("accept")
        if SERVER_SENT in accepted or wire_codec.FRAMES in accepted:
            follow = {"follow": True} if SERVER_SENT in accepted else {}
            found = self.access.stream(route.operation.function, **{**arguments, **follow})
            await send_stream(request, send, route.operation, found, self._watched(route.operation, request, may_stop=True))
            return None
        found = self.access.stream(route.operation.function, **{**arguments, "follow": False})
        items: list[Any] = []
        async for one in found:
            if len(items) >= PAGE_MAX and wire_codec.number_of(one) != wire_codec.number_of(items[-1]):
                break
            items.append(one)
        await found.aclose()
        form = form_of(route.operation.result)
        last = wire_codec.number_of(items[-1]) if items else arguments.get("after", 0)
        return ApiAnswer(200, _encode_json({"items": [form.write(one) for one in items], "next": last}))

    def _described(self) -> bytes:
        operations, aliases = [route.operation for route in self._by_name.values()], [route.reader.alias for route in self._aliases]
        pages = dict(NO_PATHS)
        for others in (self._links, self._unsubscribe, self._pages, self._webhooks):
            pages |= {} if others is None else others.documented
        return _encode_json(openapi_document(operations, [one for one in aliases if one is not None], pages))

    async def _shown_metrics(self, metrics: MetricsExposition, request: ApiRequest) -> ApiAnswer:
        """Answers with the metrics of this process. They concern all tenants, so they are for viewers of the default one."""
        _ = await self._expect_allowed(METRICS, request)
        body, media_type = await metrics.text(request.header("accept"))
        return ApiAnswer(200, body, media_type)

    async def _readiness(self) -> ApiAnswer:
        if self.is_stopping:
            raise Refusal(503, "stopping", "this process is stopping", "send requests to another one", ((b"retry-after", b"1"),))
        try:
            async with asyncio.timeout(READY_S):
                moment = await self.access.store.store_time()
        except TimeoutError:
            raise StoreUnavailable(f"the database has not answered within {READY_S:g} s; check that it runs and can be reached") from None
        except StoreUnavailable:
            raise
        except StoreError as error:  # also one that does not pass by itself, such as a file that was replaced: requests belong to another process
            raise Refusal(503, error.code, f"the database of this process can't be used: {error}", "send requests to another one") from error
        return ApiAnswer(200, _encode_json({"status": "ok", "epoch": moment.epoch}))


METRICS = Operation(ApiApp._shown_metrics, "GET", "/metrics", "viewer", is_store_wide=True, name="metrics")
"""Says who may see the metrics. It is not in the table of operations, since its result is text for Prometheus."""


def _with_server(document: bytes, root: str) -> bytes:
    """The OpenAPI document, with the path below which the application is published. Without one, its paths are those of the host."""
    return b'{"servers":' + _encode_json([{"url": quote(root)}]) + b"," + document[1:] if root else document


async def _lifespan(receive: AsgiReceive, send: AsgiSend) -> None:
    while (message := await receive())["type"] != "lifespan.shutdown":
        await send({"type": f"{message['type']}.complete"})
    await send({"type": "lifespan.shutdown.complete"})


def _refusal_answer(refusal: Refusal) -> ApiAnswer:
    return ApiAnswer(refusal.status, _encode_json(problems.refusal_problem(refusal)), problems.MEDIA_TYPE, refusal.headers)


def _error_answer(error: PerdureError, request: ApiRequest) -> ApiAnswer:
    status = problems.status_of(type(error))
    if status >= 500:
        logger.warning("%s: %s", error.code, error)
    headers = (
        ((b"www-authenticate", b"Bearer"),)
        if status == 401
        else ((b"retry-after", b"1"),)
        if status in (429, 503) or isinstance(error, RequestUnderWay)
        else ()
    )
    if wire_codec.MEDIA_TYPE in request.header("accept"):
        return ApiAnswer(status, wire_codec.encode_error(error), wire_codec.MEDIA_TYPE, headers)
    return ApiAnswer(status, _encode_json(problems.problem_of(error, request.places)), problems.MEDIA_TYPE, headers)


def _unless_known(request: ApiRequest, answer: ApiAnswer) -> ApiAnswer:
    """The answer without its body, if the client has that."""
    return ApiAnswer(304, headers=answer.headers) if is_known(request, answer.headers) else answer


def _expect_one_place(in_query: Mapping[str, Any], in_body: Mapping[str, Any]) -> None:
    """Refuses a field that has one value in the query and another in the body: with `dryRun`, the wrong one would change something."""
    for name in in_query.keys() & in_body.keys():
        if in_query[name] != in_body[name]:
            message = f"/{name}: the query gives it as {in_query[name]!r}, and the body as {in_body[name]!r}; give it once"
            raise BadValue(f"/{name}", in_body[name], "what the query gives", message)


def _last_event_id(request: ApiRequest, otherwise: Any) -> Any:
    """Returns the number after which a reader of a stream goes on."""
    if not (last := request.header("last-event-id")):
        return otherwise
    if (number := whole_number_of(last, WHOLE_NUMBER_MAX)) is None:
        raise Refusal(400, "bad_request", "the header Last-Event-ID is no whole number", "send the id of the last event as it came", where="last-event-id")
    return number


def _binary_place(error: Exception) -> str:
    """Returns the place of the mistake in binary arguments as a JSON pointer; ``body`` if the error names none."""
    found = re.search(r"`\$\.?(.*)`$", str(error))
    return "/" + re.sub(r"[.\[]+", "/", found[1]).replace("]", "") if found else "body"


def _json_answer(operation: Operation, result: Any) -> ApiAnswer:
    if result is None:
        return ApiAnswer(204)
    if isinstance(result, bytes):
        return ApiAnswer(200, result, "application/octet-stream")
    written = form_of(operation.result).write(result)
    body = written if isinstance(written, dict) else {"items": written} if isinstance(written, list) else {"value": written}
    return ApiAnswer(201 if getattr(result, "created", False) else 200, _encode_json(body))
