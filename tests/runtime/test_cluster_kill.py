"""Claims about kill -9 of many processes on one file: however often any of them dies, everything ends as if nobody had."""

import os
import sqlite3
from contextlib import closing
from math import ceil
from pathlib import Path

import pytest

from tests.corpus.make_files import newest_file
from tests.runtime.kill_storm import Outcome, Storm
from tests.runtime.processes import ProcessDirectory, record, seeded

FEW, FEW_RAGE_S, FEW_PACE = 98, 7.0, 2.0
MANY, MANY_RAGE_S, MANY_PACE = 1_000, 60.0, 8.0
"""The long proof: so many executions in flight, and so long a storm for each seed."""

MANY_TAKE_S = 90.0
"""How long one of them takes, with its end."""

PROVE_S = float(os.environ.get("PERDURE_KILL_S", "1500"))
"""How long `make prove` takes for all of them."""


def undisturbed(directory: Path, executions: int) -> Outcome:
    """What comes of so many executions if nobody is killed."""
    with ProcessDirectory(directory) as stage:
        outcome, _ = Storm(stage, executions, pace=0.05).subside()
    return outcome


def put_used(file: Path) -> None:
    """Have a file there that others have used, and that was emptied."""
    file.write_bytes(newest_file())
    with closing(sqlite3.connect(file, isolation_level=None)) as database:
        for table in ("heads", "attributes", "log", "mail", "blobs"):
            database.execute(f"DELETE FROM {table}")


def killed(directory: Path, executions: int, seed: int, *, for_s: float, pace: float) -> Outcome:
    """What comes of them in a storm of `for_s` seconds, which begins with a used file."""
    with ProcessDirectory(directory) as stage, seeded(seed) as draw:
        put_used(stage.file)
        storm = Storm(stage, executions, pace)
        storm.rage(draw, for_s)
        outcome, kills = storm.subside()
        record(f"seed {seed}: {executions} executions, {len(outcome.done)} steps; {kills}")
        assert kills.engines >= 3 and kills.interrupted >= 1
    return outcome


@pytest.mark.prove
def test_killed_all_the_time_every_execution_ends_as_if_undisturbed_and_no_settled_step_ran_again(tmp_path: Path) -> None:
    assert killed(tmp_path / "killed", FEW, 8, for_s=FEW_RAGE_S, pace=FEW_PACE) == undisturbed(tmp_path / "undisturbed", FEW)


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """What comes of a thousand executions if nobody is killed."""
    return undisturbed(tmp_path_factory.mktemp("undisturbed"), MANY)


@pytest.mark.prove
@pytest.mark.parametrize("seed", range(100, 100 + ceil(PROVE_S / MANY_TAKE_S)))
def test_of_a_thousand_executions_in_flight_each_ends_as_if_undisturbed(seed: int, tmp_path: Path, calm: Outcome) -> None:
    assert killed(tmp_path / "killed", MANY, seed, for_s=MANY_RAGE_S, pace=MANY_PACE) == calm
