"""Tests of the workflow in virtual time, and of the views on a real database with a real engine."""

import time
from typing import Any

import pytest
from perdure.testing import World


@pytest.mark.perdure(crash_at="every")
def test_a_confirmed_order_is_paid_wherever_the_process_is_killed(world: World) -> None:
    from shop.flows import charge, mark_as_paid, order

    world.mock(charge, answers=[TimeoutError(), "payment"])
    world.mock(mark_as_paid, returns=None)
    run = world.start(order.with_(id="o1"), "o1", 4900)
    run.send("confirmed", True)
    assert run.result() == "paid"


def test_an_order_that_nobody_confirms_is_cancelled_after_a_week(world: World) -> None:
    from shop.flows import order

    run = world.start(order.with_(id="o1"), "o1", 4900)
    world.skip("7d")
    assert run.result() == "cancelled"


def ask(method: str, path: str) -> tuple[int, Any]:
    """The status and the body of an answer."""
    from django.test import Client

    response = Client().generic(method, path)
    return response.status_code, response.json()


def test_an_order_is_placed_confirmed_and_paid() -> None:
    assert ask("POST", "/orders/o1?cents=4900") == (202, {"order": "o1", "created": True})
    assert ask("POST", "/orders/o1?cents=4900") == (202, {"order": "o1", "created": False})
    assert ask("POST", "/orders/o1?cents=1")[0] == 409
    assert ask("POST", "/orders/o1/confirm")[0] == 202
    until_s = time.monotonic() + 10
    while (shown := ask("GET", "/orders/o1")[1])["status"] != "completed":
        assert time.monotonic() < until_s, shown
        time.sleep(0.05)
    assert shown["paid"]
    assert ask("GET", "/orders/none")[0] == 404
