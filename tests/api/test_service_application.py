"""Claims about `perdure.api.app`: what opens and closes it, and what it says when it is not open."""

import asyncio
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

import perdure.api
from perdure import App
from perdure.api.http_requests import ApiRequest
from perdure.api.service_application import ServiceApplication
from perdure.core.errors import BadValue, StoreError, WrongVerb
from perdure.service.access_keys import KeyRequest, create_key, list_keys
from perdure.service.callers import LOCAL, Caller
from perdure.stores.memory import MemoryStore
from tests.api.api_setup import WORKFLOWS, Api


def caller_of(service: ServiceApplication) -> Api:
    """What sends requests to an application."""
    return Api(service)  # type: ignore[arg-type]  # it is called as an ApiApp is


async def local(_: ApiRequest) -> Caller:
    """Everybody is the developer."""
    return LOCAL


@asynccontextmanager
async def served_alone(service: ServiceApplication) -> AsyncIterator[list[MutableMapping[str, Any]]]:
    """What an ASGI server does that has nothing else to serve. Yields what the application has said."""
    said, inbox = list[MutableMapping[str, Any]](), asyncio.Queue[MutableMapping[str, Any]]()

    async def send(message: MutableMapping[str, Any]) -> None:
        said.append(message)

    running = asyncio.create_task(service({"type": "lifespan"}, inbox.get, send))
    inbox.put_nowait({"type": "lifespan.startup"})
    while not said and not running.done():
        await asyncio.sleep(0.001)
    try:
        yield said
    finally:
        inbox.put_nowait({"type": "lifespan.shutdown"})
        _ = await asyncio.gather(running, return_exceptions=True)


async def test_its_lifespan_opens_and_closes_the_app_whose_engine_begins_what_is_started(tmp_path: Path) -> None:
    app = App(WORKFLOWS, db=f"sqlite:///{tmp_path}/a.db")
    service = perdure.api.app(app, authenticate=local)
    send = caller_of(service)
    async with service.lifespan():
        assert app.is_open
        assert (await send("POST", "/api/executions", {"workflow": "calc", "id": "c", "input": [1]})).status == 201
        assert (await send("GET", "/api/executions/calc/c/result?waitSeconds=10")).json["value"] == 2
        with pytest.raises(WrongVerb, match="is open already"):
            async with service.lifespan():
                pass
    assert not app.is_open
    with pytest.raises(WrongVerb, match=r"FastAPI\(lifespan=service\.lifespan\)"):
        await send("GET", "/healthz")


async def test_an_app_that_is_open_stays_open(tmp_path: Path) -> None:
    async with App(WORKFLOWS, db=f"sqlite:///{tmp_path}/a.db") as app:
        async with perdure.api.app(app, authenticate=local).lifespan():
            pass
        assert app.is_open and await app.run(WORKFLOWS[0], 1) == 2


async def test_alone_under_a_server_it_opens_and_closes_itself(tmp_path: Path) -> None:
    service = perdure.api.app(f"sqlite:///{tmp_path}/a.db")
    async with served_alone(service) as said:
        assert said == [{"type": "lifespan.startup.complete"}]
        assert (await caller_of(service)("GET", "/readyz")).status == 200
        assert (await caller_of(service)("GET", "/api/executions")).status == 401
    assert said[-1] == {"type": "lifespan.shutdown.complete"}


async def test_a_database_that_can_not_be_opened_is_said_to_the_server(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_text("no database")
    async with served_alone(perdure.api.app(f"sqlite:///{tmp_path}/a.db")) as said:
        assert [one["type"] for one in said] == ["lifespan.startup.failed"] and "a.db" in said[0]["message"]
    with pytest.raises(StoreError):
        async with perdure.api.app(f"sqlite:///{tmp_path}/a.db").lifespan():
            pass


async def test_keys_of_the_store_are_for_it(tmp_path: Path) -> None:
    store = MemoryStore()
    made = await create_key(store, "default", KeyRequest(name="a", roles=("viewer",)), "test")
    service = perdure.api.app(store)
    async with service.lifespan():
        assert (await caller_of(service)("GET", "/api/whoami", authorization=f"Bearer {made.text}")).json["subject"] == f"key:{made.key.id}"
        assert (await list_keys(store, "default")).items[0].used_at_s is None
    assert (await list_keys(store, "default")).items[0].used_at_s is not None, "the last use is written when it ends"


async def test_origins_are_checked_when_it_is_opened() -> None:
    with pytest.raises(BadValue, match="without a path"):
        async with perdure.api.app(MemoryStore(), origins=["https://a.example/x"]).lifespan():
            pass


@pytest.mark.parametrize(("root", "servers"), [("", None), ("/flows", [{"url": "/flows"}]), ("/a b/ü", [{"url": "/a%20b/%C3%BC"}])])
async def test_its_document_has_the_path_below_which_it_is_mounted(root: str, servers: object) -> None:
    service = perdure.api.app(MemoryStore())
    async with service.lifespan(), httpx2.AsyncClient(transport=httpx2.ASGITransport(app=service, root_path=root), base_url="http://own.example.com") as http:
        assert (await http.get(f"{root}/openapi.json")).json().get("servers") == servers


async def test_a_websocket_is_refused_as_frameworks_refuse_it() -> None:
    service, said = perdure.api.app(MemoryStore()), list[MutableMapping[str, Any]]()

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        said.append(message)

    async with service.lifespan():
        await service({"type": "websocket", "path": "/api/events/stream", "headers": []}, receive, send)
    assert said == [{"type": "websocket.close"}]
