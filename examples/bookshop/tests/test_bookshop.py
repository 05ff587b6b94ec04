"""The bookshop, tested as an application: through what its pages call, in virtual time, and killed before and after each write."""

from datetime import timedelta

import pytest
from bookshop import Bookshop, Receipt, sale
from outside import Outside

from perdure import ExecutionFailed
from perdure.testing import World

shop = Bookshop()


@pytest.mark.perdure(crash_at="every")
def test_a_sale_is_paid_and_delivered_once(world: World, outside: Outside) -> None:
    shop.sell("o1", ["Emma", "Persuasion"], 2_000)
    assert shop.receipt("o1") == Receipt("payment 1", ["Emma", "Persuasion"])
    assert list(outside.transfers.values()) == [2_000]
    assert outside.stock == {"Emma": 1, "Persuasion": 0}


@pytest.mark.perdure(crash_at="every")
def test_what_can_not_be_sold_goes_back_to_the_shelf(world: World, outside: Outside) -> None:
    shop.sell("o1", ["Emma", "Ulysses"], 2_000)
    with pytest.raises(ExecutionFailed, match="Ulysses"):
        shop.receipt("o1")
    assert outside.stock == {"Emma": 2, "Persuasion": 1} and not outside.transfers


def test_the_bank_may_be_closed_for_a_while(world: World, outside: Outside) -> None:
    outside.failures = [ConnectionError(), ConnectionError()]
    shop.sell("o1", ["Emma"], 2_000)
    assert shop.receipt("o1").payment == "payment 1"
    assert world.get("o1", sale).step("pay").attempts == 3


@pytest.mark.perdure(crash_at="every")
def test_a_large_sale_waits_for_the_manager(world: World, outside: Outside) -> None:
    assert shop.sell("o1", ["Emma"], 90_000) in ("running", "waiting_approval")
    world.skip("1d")
    assert not outside.transfers
    assert shop.decide("o1", agreed=True) == "thank you"
    assert shop.receipt("o1") == Receipt("payment 1", ["Emma"])


def test_a_manager_who_is_away_sells_nothing(world: World, outside: Outside) -> None:
    begun = world.now
    shop.sell("o1", ["Emma"], 90_000)
    with pytest.raises(ExecutionFailed, match="the manager has not agreed"):
        shop.receipt("o1")
    assert world.now - begun == timedelta(days=3) and outside.stock["Emma"] == 2


def test_an_order_is_placed_twice_and_sold_once(world: World, outside: Outside) -> None:
    shop.sell("o1", ["Emma"], 2_000)
    shop.sell("o1", ["Emma"], 2_000)
    assert shop.receipt("o1").payment == "payment 1" and len(outside.transfers) == 1
