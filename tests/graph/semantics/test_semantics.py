"""Every row of the table is run: plainly, leaving memory at each wait, and its process killed at each of its writes; its log is replayed each time."""

import pytest

from perdure.testing import World
from tests.graph.semantics import children, cycles, each, expressions, failures, joins, limits, listening, parallel, races, repeat, returns, rules, skips, undo
from tests.graph.semantics.table import Row, check, parameters, play

NOUNS = {module.__name__.rpartition(".")[2]: module.ROWS for module in (joins, skips, rules, cycles, each, repeat, parallel, races, returns, failures, undo, limits, expressions, children, listening)}
CRASHING = [pytest.param(row, marks=() if row.crashes else pytest.mark.prove, id=f"{noun}: {row.claim}") for noun, rows in NOUNS.items() for row in rows if not row.slow]


@pytest.mark.parametrize("row", list(parameters(NOUNS)))
def test_it_does_as_the_row_says(world: World, row: Row) -> None:
    check(world, row, play(world, row))


@pytest.mark.perdure(crash_at="every")
@pytest.mark.parametrize("row", CRASHING)
def test_it_does_the_same_wherever_its_process_is_killed(world: World, row: Row) -> None:
    check(world, row, play(world, row), undisturbed=False)
