"""Every example of the seeds and of the format is run, to the result that it states."""

import pytest

from perdure.testing import World
from tests.definitions.graph.semantics.table import check
from tests.seeds import cases_of_000, cases_of_001, cases_of_003, cases_of_004, cases_of_format
from tests.seeds.cases import ExampleCase, play
from tests.seeds.examples import EXAMPLES

CASES = [*cases_of_000.CASES, *cases_of_001.CASES, *cases_of_003.CASES, *cases_of_004.CASES, *cases_of_format.CASES]
NAMED = {example.name: example for example in [*EXAMPLES, *cases_of_003.EXAMPLES]}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.definition}: {case.claim}")
def test_an_example_comes_to_what_it_states(world: World, case: ExampleCase) -> None:
    check(world, case, play(world, case, NAMED[case.definition]))


@pytest.mark.prove
@pytest.mark.perdure(always_suspend=True)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.definition}: {case.claim}")
def test_it_comes_to_the_same_leaving_memory_at_each_wait(world: World, case: ExampleCase) -> None:
    check(world, case, play(world, case, NAMED[case.definition]))


@pytest.mark.prove
@pytest.mark.perdure(crash_at="every", crashes_max=100)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.definition}: {case.claim}")
def test_it_comes_to_the_same_wherever_its_process_is_killed(world: World, case: ExampleCase) -> None:
    check(world, case, play(world, case, NAMED[case.definition]), undisturbed=False)


def test_every_example_is_run() -> None:
    assert {case.definition for case in CASES} == set(NAMED)
