"""Tests of the application: it answers in the virtual time of a `world`, and so does its engine."""

from typing import Any

import httpx2
import pytest
from perdure.testing import World

from flows import app, charge, order
from web import web


def ask(world: World, method: str, path: str) -> tuple[int, Any]:
    """The status and the body of an answer of the application."""

    async def asked() -> httpx2.Response:
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(web), base_url="http://shop") as client:
            return await client.request(method, path)

    response = world.call(asked())
    return response.status_code, response.json()


@pytest.mark.perdure(crash_at="every")
def test_a_confirmed_order_is_paid_wherever_the_process_is_killed(world: World) -> None:
    run = world.start(order.with_(id="o1"), "o1", 4900)
    run.send("confirmed", True)
    assert run.result() == "paid"


def test_an_order_waits_for_its_confirmation(world: World) -> None:
    world.mock(charge, answers=[TimeoutError(), "payment"])
    with world.open(app):
        assert ask(world, "POST", "/orders/o1?cents=4900") == (202, {"order": "o1", "created": True})
        assert ask(world, "POST", "/orders/o1?cents=4900") == (202, {"order": "o1", "created": False})
        assert ask(world, "POST", "/orders/o1?cents=1")[0] == 409
        assert ask(world, "GET", "/orders/o1")[1]["status"] == "waiting"
        assert ask(world, "POST", "/orders/o1/confirm")[0] == 202
        world.skip("1m")
        assert ask(world, "GET", "/orders/o1")[1]["result"] == "paid"
        assert world.get("o1", order).step("charge").attempts == 2


def test_an_order_that_nobody_confirms_is_cancelled_after_a_week(world: World) -> None:
    with world.open(app):
        ask(world, "POST", "/orders/o1?cents=4900")
        world.skip("7d")
        assert ask(world, "GET", "/orders/o1")[1]["result"] == "cancelled"
        assert ask(world, "POST", "/orders/o1/confirm")[0] == 409


def test_an_order_that_does_not_exist_is_not_found(world: World) -> None:
    with world.open(app):
        assert ask(world, "GET", "/orders/none")[0] == 404
