"""Tests of the definition, with its tools, in virtual time."""

from pathlib import Path

import pytest
from perdure import Definition
from perdure.testing import World

from claim_tools import look, pay

claim = Definition.load(Path(__file__).with_name("claim.yaml"), tools=[look, pay])


@pytest.mark.perdure(crash_at="every")
def test_a_small_claim_is_paid_at_once_wherever_it_is_killed(world: World) -> None:
    assert world.run(claim, number="c1", cents=500) == "paid 500 cents for claim c1"


@pytest.mark.parametrize(("approves", "result"), [(True, "paid 500000 cents for claim c2"), (False, "claim c2 was refused")])
def test_a_large_claim_is_decided_by_ada(world: World, approves: bool, result: str) -> None:
    run = world.start(claim, number="c2", cents=500_000)
    (run.approve if approves else run.reject)(by="ada")
    assert run.result() == result


def test_a_claim_that_nobody_decides_on_is_refused(world: World) -> None:
    run = world.start(claim, number="c3", cents=500_000)
    world.skip("7d")
    assert run.result() == "claim c3 was refused"


def test_a_payment_that_fails_is_attempted_again(world: World) -> None:
    world.mock(pay, answers=[ConnectionError("the bank is away"), "paid"])
    run = world.start(claim, number="c4", cents=500)
    assert run.result() == "paid" and run.step("pay").attempts == 2
