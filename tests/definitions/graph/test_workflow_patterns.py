"""Each of the 43 control-flow patterns that a definition can have is had by one, and the page about them says what is true."""

import re
from pathlib import Path

import pytest

from perdure.testing import World
from tests.definitions.graph.semantics.table import check, play
from tests.definitions.graph.workflow_patterns import PATTERNS, Pattern

PAGE = Path(__file__).parents[3] / "docs/reference/patterns.md"

WANTED = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 19, 20, 21, 22, 24, 25, 26, 29, 30, 32, 33, 34, 37, 43}
"""The patterns that have to be there."""

HAD = [pytest.param(one, id=f"{one.number} {one.name}") for one in PATTERNS if one.row is not None]


@pytest.mark.parametrize("pattern", HAD)
def test_a_definition_has_the_pattern(world: World, pattern: Pattern) -> None:
    assert pattern.row is not None
    check(world, pattern.row, play(world, pattern.row))


@pytest.mark.perdure(always_suspend=True)
@pytest.mark.parametrize("pattern", HAD)
def test_it_has_it_leaving_memory_at_each_wait(world: World, pattern: Pattern) -> None:
    assert pattern.row is not None
    check(world, pattern.row, play(world, pattern.row))


@pytest.mark.prove
@pytest.mark.perdure(crash_at="every", crashes_max=100)
@pytest.mark.parametrize("pattern", HAD)
def test_it_has_it_wherever_its_process_is_killed(world: World, pattern: Pattern) -> None:
    assert pattern.row is not None
    check(world, pattern.row, play(world, pattern.row, undisturbed=False), undisturbed=False)


def test_all_that_have_to_be_there_are_there() -> None:
    assert [one.number for one in PATTERNS] == list(range(1, 44))
    assert {one.number for one in PATTERNS if one.row is not None} >= WANTED


def test_the_page_tells_of_each_whether_it_is_there() -> None:
    lines = re.findall(r"^\| (\d+) \| ([^|]+) \| (yes|in code|no) \| [^|]+ \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [(int(number), name) for number, name, _ in lines] == [(one.number, one.name) for one in PATTERNS]
    assert {int(number) for number, _, there in lines if there == "yes"} == {one.number for one in PATTERNS if one.row is not None}
