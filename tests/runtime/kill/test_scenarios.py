"""Claims about each capability under kill -9: what has settled was done, nothing settles twice, every rule of it holds, and nothing is left over.

Each leg is a module beside this one. To see one again: ``pytest tests/runtime/kill -k "children and 1"``.
"""

import importlib
from pathlib import Path

import pytest

from tests.runtime.kill.scenario import Scenario
from tests.runtime.kill.scenario_run import ScenarioRun
from tests.runtime.processes import record, seeded

LEGS = ("children", "undo", "approvals", "queues", "versions", "repairs", "loops", "steps_in_progress", "payloads", "exports", "definitions", "endings")
OFTEN = ("children", "endings")
"""Those that run with every change; the others with the long proofs."""
SEED, SEEDS = 1, range(100, 103)


def killed(directory: Path, name: str, seed: int, *, long: bool) -> None:
    """Run a leg, and hold it to its claims."""
    leg: Scenario = importlib.import_module(f"tests.runtime.kill.{name}").LEG
    size = leg.long if long else leg.short
    with seeded(seed), ScenarioRun(directory, name, leg, size, seed) as run:
        leg.drive(run)
        histories = run.finish()
        figures = leg.check(run, histories)
        kills, clerks = len(run.killed), run.clerks_killed
        record(f"{name}, seed {seed}: {kills} engines and {clerks} clerks killed, {len(histories)} executions; {figures}")
    assert kills >= min(3, size.kills), "it was over before anybody was killed"


@pytest.mark.slow
@pytest.mark.parametrize("name", OFTEN)
def test_killed_again_and_again_a_capability_keeps_its_promises(name: str, tmp_path: Path) -> None:
    killed(tmp_path, name, SEED, long=False)


@pytest.mark.prove
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", LEGS)
def test_killed_by_many_seeds_a_capability_keeps_its_promises(name: str, seed: int, tmp_path: Path) -> None:
    killed(tmp_path, name, seed, long=True)
