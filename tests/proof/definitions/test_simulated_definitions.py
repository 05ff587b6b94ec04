"""Claims about simulated worlds of definitions: whatever dies, freezes, is sent twice, patched or cancelled, each comes to what is predicted of it."""

from collections import Counter

import pytest

from tests.proof.definitions.simulated_definitions import drawn_definitions, simulate_definitions
from tests.proof.simulator import SimulationReport, main
from tests.proof.world_options import Kind
from tests.sampling import some

SEEDS_OF_ALL_FAULTS = (0, 2, 8, 9)
PROVED = 2_000
PROVED_IN_FILES = 300
PROVED_BATCH = 50

HAPPENS = """
killed before, killed after, killed at a time, frozen before, resend, zombies, evictions, pauses, stray answers, stopped, cancelled, patched, refused, Retrying
""".replace("\n", " ")


def world(seed: int, *, faults: bool = True, always_suspend: bool = False, store: Kind = "memory") -> SimulationReport:
    """Run the world of `seed`; it must have no problems."""
    plans, options = drawn_definitions(seed, faults=faults, always_suspend=always_suspend, store=store)
    report = simulate_definitions(plans, seed, options)
    assert not report.problems, "\n".join((*report.problems, f"see it again: {report.command}"))
    return report


@pytest.mark.slow
def test_definitions_in_a_world_full_of_faults_come_to_what_is_predicted() -> None:
    assert world(SEEDS_OF_ALL_FAULTS[1], always_suspend=True).counts["kills"] > 4


@pytest.mark.prove
def test_every_kind_of_fault_happens_to_definitions() -> None:
    happened: Counter[str] = Counter()
    for seed in SEEDS_OF_ALL_FAULTS:
        happened.update(world(seed, always_suspend=seed % 3 == 2).counts)
    assert {one for one in map(str.strip, HAPPENS.split(",")) if not happened[one]} == set()
    assert happened["definitions"] > 2 * len(SEEDS_OF_ALL_FAULTS) and happened["kills"] > 40


@pytest.mark.prove
@pytest.mark.parametrize("seed", range(2))
def test_definitions_in_a_file_come_to_what_is_predicted(seed: int) -> None:
    world(seed, store="sqlite", always_suspend=seed == 1)


@pytest.mark.slow
def test_where_nothing_fails_no_step_runs_again() -> None:
    for seed in range(100, 103):
        report = world(seed, faults=False)
        assert report.counts["kills"] == report.counts["interruptions"] == 0, report.command  # a step that nobody waits for may go on for its grace


@pytest.mark.slow
def test_a_seed_is_the_same_world_again() -> None:
    assert world(1) == world(1)


FOUND = {24: False, 19: False, 39: False, 79: False, 30067: True, 50061: False}
"""Worlds in which something was found, and whether they always suspend."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", some(FOUND, 1))
def test_what_was_found_once_does_not_come_back(seed: int) -> None:
    world(seed, always_suspend=FOUND[seed])


@pytest.mark.slow
def test_the_command_runs_worlds_of_definitions(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--definitions", "--seed", "1", "--worlds", "2", "--no-faults"]) == 0
    assert "2 worlds from seed 1 as predicted" in capsys.readouterr().out
    assert main(["--definitions", "--seed", "2", "--always-suspend"]) == 0
    assert "python -m tests.proof.simulator --definitions --seed 2 --always-suspend" in capsys.readouterr().out


@pytest.mark.prove
@pytest.mark.parametrize("always_suspend", [False, True], ids=["warm", "always suspend"])
@pytest.mark.parametrize("first", range(1000, 1000 + PROVED // 2, PROVED_BATCH))
def test_thousands_of_worlds_of_definitions_end_as_predicted(first: int, always_suspend: bool) -> None:
    for seed in range(first, first + PROVED_BATCH):
        world(seed, always_suspend=always_suspend)


@pytest.mark.prove
@pytest.mark.parametrize("first", range(100_000, 100_000 + PROVED_IN_FILES, PROVED_BATCH))
def test_hundreds_of_worlds_of_definitions_in_files_end_as_predicted(first: int) -> None:
    for seed in range(first, first + PROVED_BATCH):
        world(seed, always_suspend=seed % 2 == 1, store="sqlite")
