"""Every row of the table is run: plainly, leaving memory at each wait, and its process killed at each of its writes; its log is replayed each time."""

from collections.abc import Callable
from typing import Any

import pytest

from perdure.testing import World
from tests.definitions.graph.semantics import (
    children,
    cycles,
    each,
    expressions,
    failures,
    joins,
    limits,
    messages_and_waits,
    parallel,
    races,
    repeat,
    returns,
    rules,
    skips,
    undo,
)
from tests.definitions.graph.semantics.table import Row, check, play

NOUNS = (joins, skips, rules, cycles, each, repeat, parallel, races, returns, failures, undo, limits, expressions, children, messages_and_waits)


def rows(*, slow: bool = False, for_prove: Callable[[Row], bool] = lambda row: row.slow) -> list[Any]:
    """Each row for pytest, by its noun and claim, the slow ones only if they are asked for."""
    named = [(f"{module.__name__.rpartition('.')[2]}: {row.claim}", row) for module in NOUNS for row in module.ROWS]
    assert len({name for name, _ in named}) == len(named), "two claims are the same"
    return [pytest.param(row, marks=[pytest.mark.prove] if for_prove(row) else [], id=name) for name, row in named if slow or not row.slow]


@pytest.mark.slow
@pytest.mark.parametrize("row", rows(slow=True))
def test_a_definition_does_as_the_row_says(world: World, row: Row) -> None:
    check(world, row, play(world, row))


@pytest.mark.slow
@pytest.mark.perdure(always_suspend=True)
@pytest.mark.parametrize("row", rows())
def test_it_does_the_same_leaving_memory_at_each_wait(world: World, row: Row) -> None:
    check(world, row, play(world, row))


@pytest.mark.slow
@pytest.mark.perdure(crash_at="every", crashes_max=100)
@pytest.mark.parametrize("row", [row for row in rows(for_prove=lambda row: not row.crashes) if not row.values[0].if_killed])
def test_it_does_the_same_wherever_its_process_is_killed(world: World, row: Row) -> None:
    check(world, row, play(world, row, undisturbed=False), undisturbed=False)
