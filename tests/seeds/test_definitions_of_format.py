"""The examples of the format's own description are definitions that compile."""

import pytest

from tests.seeds.definitions import ir
from tests.seeds.examples import Example
from tests.seeds.examples_of_format import EXAMPLES


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_each_example_compiles(example: Example) -> None:
    assert ir(example).dialect == ""
