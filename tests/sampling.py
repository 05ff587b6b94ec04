"""Which parameters of a test belong to each run of the tests, where trying all of them takes long."""

from collections.abc import Iterable
from typing import Any

import pytest


def some(values: Iterable[Any], count: int) -> list[Any]:
    """All values as parameters of a test: the first `count` for each run, the rest for `make prove`."""
    return [pytest.param(value, marks=() if number < count else pytest.mark.prove) for number, value in enumerate(values)]
