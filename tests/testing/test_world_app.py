"""Applications around an App, tested in a world: Flask and FastAPI answer in virtual time."""

import json
from datetime import timedelta
from typing import Any

import pytest

from perdure import App, Context, Signal, WrongVerb, step, workflow
from perdure.testing.verdicts import Stuck
from perdure.testing.world import World

paid = Signal("paid", bool)


@step
async def charge(cents: int) -> str:
    return f"charged {cents}"


@workflow
async def order(ctx: Context, cents: int) -> str:
    await ctx.sleep("1h")
    return await ctx.step(charge, cents)


@workflow
async def waiting(ctx: Context) -> bool:
    return await ctx.listen(paid)


app = App([order, waiting], db="sqlite:///of-production.db")


def flask() -> Any:
    from flask import Flask

    web = Flask("shop")

    @web.post("/<int:cents>")
    def place(cents: int) -> dict[str, str]:
        return {"id": app.background().start(order, cents).id}

    @web.get("/<id>")
    def result(id: str) -> dict[str, str]:
        return {"result": app.background().handle(id, order).result()}

    return web


async def get(web: Any, path: str) -> Any:
    """The decoded body of an answer of an ASGI application."""
    body = b""

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        nonlocal body
        body += message.get("body", b"")

    scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http", "path": path, "raw_path": path.encode()}
    await web({**scope, "query_string": b"", "root_path": "", "headers": [], "client": ("c", 1), "server": ("s", 80), "state": {}}, receive, send)
    return json.loads(body)


def test_a_sync_application_answers_in_virtual_time(world: World) -> None:
    world.mock(charge, answers=[TimeoutError(), "mocked"])
    with world.open(app):
        client = flask().test_client()
        assert client.post("/500").get_json() == {"id": "1"}
        began = world.now
        assert client.get("/1").get_json() == {"result": "mocked"}
        assert timedelta(hours=1) <= world.now - began < timedelta(hours=2)
        assert world.get("1", order).step("charge").attempts == 2


def test_an_async_application_answers_in_virtual_time(world: World) -> None:
    from fastapi import FastAPI

    web = FastAPI()

    @web.get("/{cents}")
    async def place(cents: int) -> str:
        return await app.run(order, cents)

    with world.open(app):
        assert world.call(get(web, "/700")) == "charged 700"


def test_the_face_of_the_block_has_the_verbs_of_the_app(world: World) -> None:
    with world.open(app) as shop:
        handle = shop.start(waiting.with_(id="w"))
        assert [one.key.id for one in shop.client.list()] == ["w"]
        handle.send(paid, True)
        assert handle.result() is True


def test_a_wait_for_what_cannot_happen_says_so(world: World) -> None:
    with world.open(app) as shop:
        with pytest.raises(Stuck, match="waits for listen:paid"):
            shop.run(waiting.with_(id="w"))
        world.get("w", waiting).send(paid, False)


@pytest.mark.prove
@pytest.mark.perdure(crash_at="every")
def test_a_request_survives_a_crash_at_every_write(world: World) -> None:
    with world.open(app):
        client = flask().test_client()
        assert client.post("/500").get_json() == {"id": "1"}
        assert client.get("/1").get_json() == {"result": "charged 500"}


def test_after_the_block_the_app_is_closed(world: World) -> None:
    with world.open(app), pytest.raises(WrongVerb, match="open already"), world.open(app):
        pass
    with pytest.raises(WrongVerb, match="after the App was closed"):
        world.call(app.start(order, 1))
