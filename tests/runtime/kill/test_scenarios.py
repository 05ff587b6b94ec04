"""Claims about each capability under kill -9: what has settled was done, nothing settles twice, every rule of it holds, and nothing is left over.

Each scenario is a module beside this one. To see one again: ``pytest tests/runtime/kill -k "children and 1"``.
"""

import importlib
from pathlib import Path

import pytest

from tests.runtime.kill.scenario import Scenario
from tests.runtime.kill.scenario_run import ScenarioRun
from tests.runtime.processes import record, seeded

SCENARIOS = ("children", "undo", "approvals", "queues", "versions", "repairs", "loops", "steps_in_progress", "payloads", "exports", "definitions", "endings")
OFTEN = ("children",)
"""Those that run with every change; the others with the long proofs."""
SEED, SEEDS = 1, range(100, 103)


def killed(directory: Path, name: str, seed: int, *, long: bool) -> None:
    """Run a scenario, and hold it to its claims."""
    scenario: Scenario = importlib.import_module(f"tests.runtime.kill.{name}").SCENARIO
    size = scenario.long if long else scenario.short
    with seeded(seed), ScenarioRun(directory, name, scenario, size, seed) as run:
        scenario.drive(run)
        histories = run.finish()
        figures = scenario.check(run, histories)
        kills, operators = len(run.killed), run.operators_killed
        record(f"{name}, seed {seed}: {kills} engines and {operators} operators killed, {len(histories)} executions; {figures}")
    assert kills >= min(3, size.kills), "it was over before anybody was killed"


@pytest.mark.slow
@pytest.mark.parametrize("name", OFTEN)
def test_killed_again_and_again_a_capability_keeps_its_promises(name: str, tmp_path: Path) -> None:
    killed(tmp_path, name, SEED, long=False)


@pytest.mark.prove
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", SCENARIOS)
def test_killed_by_many_seeds_a_capability_keeps_its_promises(name: str, seed: int, tmp_path: Path) -> None:
    killed(tmp_path, name, seed, long=True)
