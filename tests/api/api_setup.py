"""An API over an engine, and requests to it: as ASGI calls in the process, or on a port."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from perdure import App, Context, Retry, Signal, Workflow, step, workflow
from perdure.api.api_app import ApiApp
from perdure.api.api_server import ApiServer, listening_socket, url_of
from perdure.api.http_requests import ApiRequest
from perdure.api.webhook_routes import WebhookRoutes
from perdure.service.callers import LOCAL, Caller
from perdure.service.store_access import StoreAccess

named = Signal("named", str)
added: list[int] = []


@step
async def add(a: int, b: int) -> int:
    """A step with an effect."""
    added.append(a)
    return a + b


@workflow
async def calc(ctx: Context, a: int, b: int = 1) -> int:
    """Adds; negative numbers are a mistake."""
    ctx.set("seen", a)
    ctx.emit({"a": a})
    total = await ctx.step(add, a, b)
    if a < 0:
        raise ValueError("negative")
    return total


@workflow
async def greet(ctx: Context) -> str:
    """Waits for a name."""
    name: str = await ctx.listen(named)
    return f"Hello {name}"


@workflow
async def trip(ctx: Context, city: str) -> str:
    """Asks a person."""
    approved = await ctx.approve(f"go to {city}?")
    return f"to {city}: {approved.approved}"


attempts: list[int] = []


@step(retry=Retry(max=3, wait=0.01, jitter=0))
async def unsteady(fails: int) -> int:
    """A step that fails so many times."""
    attempts.append(fails)
    if len(attempts) <= fails:
        raise OSError(f"failed {len(attempts)}")
    return len(attempts)


@workflow
async def shaky(ctx: Context, fails: int) -> int:
    """Calls a step that fails so many times."""
    attempts.clear()
    return await ctx.step(unsteady, fails)


WORKFLOWS: list[Workflow[..., Any]] = [calc, greet, trip, shaky]


class Answer(NamedTuple):
    """An answer: its status, headers and body."""

    status: int
    headers: dict[str, str]
    body: bytes
    cookies: tuple[str, ...] = ()

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


class Api:
    """An API, called in this process. `caller` is who asks. The clients of all requests leave at the event `left`."""

    def __init__(self, app: ApiApp) -> None:
        self.app = app
        self.caller: Caller = LOCAL
        self.left = asyncio.Event()

    async def authenticate(self, _: ApiRequest) -> Caller:
        """Whoever is set."""
        return self.caller

    async def __call__(self, method: str, path: str, body: Any = None, *, raw: bytes | str | None = None, **headers: str) -> Answer:
        """Sends a request, with a body of JSON, or with a raw one."""
        content = raw.encode() if isinstance(raw, str) else raw if raw is not None else b"" if body is None else json.dumps(body).encode()
        given = {
            "host": "127.0.0.1",
            **({"content-type": "application/json"} if content else {}),
            **{name.replace("_", "-"): one for name, one in headers.items()},
        }
        where, _, query = path.partition("?")
        scope = {
            "type": "http",
            "method": method,
            "path": where,
            "raw_path": where.encode(),
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in given.items()],
            "client": ("192.0.2.7", 5000),
            "scheme": "https",
        }
        sent: list[Mapping[str, Any]] = []
        unread = [{"type": "http.request", "body": content, "more_body": False}]

        async def receive() -> Any:
            if unread:
                return unread.pop()
            await self.left.wait()
            return {"type": "http.disconnect"}

        async def send(message: Mapping[str, Any]) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        cookies = tuple(value.decode() for name, value in sent[0]["headers"] if name == b"set-cookie")
        return Answer(sent[0]["status"], found, b"".join(part.get("body", b"") for part in sent[1:]), cookies)


@asynccontextmanager
async def api_in_process(directory: Path) -> AsyncIterator[Api]:
    """An engine with an API, in this process."""
    async with App(WORKFLOWS, db=f"sqlite:///{directory}/api.db") as app:
        access = app.client._access.on_store("a test")
        api = Api(ApiApp(access, lambda request: api.authenticate(request), secret=b"a secret of the tests"))
        yield api


@asynccontextmanager
async def api_on_a_port(access: StoreAccess, port: int = 0) -> AsyncIterator[str]:
    """The URL of an API on a store."""

    async def anybody(_: ApiRequest) -> Caller:
        return LOCAL

    listening = listening_socket("127.0.0.1", port)
    server = ApiServer(ApiApp(access, anybody, secret=b"a secret of the tests", webhooks=WebhookRoutes(access)), listening)
    running = asyncio.create_task(server.run())
    await server.ready()
    try:
        yield url_of(listening)
    finally:
        server.stop()
        await running
