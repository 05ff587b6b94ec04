"""Tests of the workflow. Time is virtual in a `world`; everything else is real."""

import pytest
from perdure import ExecutionFailed
from perdure.testing import World

from orders import charge, order


def test_a_payment_that_times_out_is_attempted_again(world: World) -> None:
    world.mock(charge, answers=[TimeoutError(), TimeoutError(), "payment of 4900"])
    run = world.start(order, "o1", 4900)
    assert run.result() == "o1 is on its way"
    assert run.step("charge").attempts == 3


def test_an_order_without_a_price_fails_at_once(world: World) -> None:
    run = world.start(order, "o1", 0)
    with pytest.raises(ExecutionFailed, match="0 cents can't be charged"):
        run.result()
    assert run.step("charge").attempts == 1


@pytest.mark.perdure(crash_at="every")
def test_an_order_arrives_wherever_its_process_is_killed(world: World) -> None:
    assert world.run(order, "o1", 4900) == "o1 is on its way"
