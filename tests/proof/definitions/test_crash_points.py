"""Small definitions come to what is predicted whichever of their writes the process dies at, and if every message comes twice."""

import pytest

from tests.proof.definitions.comparison import differs
from tests.proof.definitions.runner import WorldRunner, crashed_everywhere, steady_case
from tests.sampling import some

SEEDS = some(range(4), 1)
PROVED = 400
PROVED_BATCH = 20


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_a_definition_whose_process_dies_at_any_write_comes_to_what_is_predicted(seed: int) -> None:
    report = crashed_everywhere(steady_case(seed, 4 + seed), always_suspend=seed % 2 == 1, twice=seed % 4 > 1)
    assert report.problems == () and report.worlds == 2 * report.writes > 0


@pytest.mark.slow
def test_a_definition_to_which_all_comes_twice_comes_to_what_is_predicted() -> None:
    again = 0
    for seed in range(30):
        case, runner = steady_case(seed, 6), WorldRunner(twice=True, always_suspend=seed % 3 == 0)
        assert differs(case.prediction, runner.run(case.definition, case.script)) == [], f"seed {seed}"
        again += runner.again
    assert again > 60


@pytest.mark.prove
@pytest.mark.parametrize("first", range(100, 100 + PROVED, PROVED_BATCH))
def test_hundreds_of_definitions_bear_a_crash_at_every_write(first: int) -> None:
    for seed in range(first, first + PROVED_BATCH):
        report = crashed_everywhere(steady_case(seed, 3 + seed % 9), always_suspend=seed % 2 == 1, twice=seed % 4 > 1)
        assert report.problems == (), f"seed {seed}"
