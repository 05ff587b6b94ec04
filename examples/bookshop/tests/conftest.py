"""The fixture of the tests: the App is open in a world, and doubles stand for what is outside of it."""

from collections.abc import Iterator

import bookshop
import pytest
from outside import Outside

from perdure.testing import World


@pytest.fixture(name="outside")
def outside_fixture(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Outside]:
    double = Outside(world)
    monkeypatch.setattr(bookshop, "bank_transfer", double.transfer)
    monkeypatch.setattr(bookshop, "warehouse_reserve", double.reserve)
    monkeypatch.setattr(bookshop, "warehouse_release", double.release)
    with world.open(bookshop.app):
        yield double
