"""Claims about simulated worlds and crashes on Postgres: each ends as predicted, and writes what it writes in memory, byte for byte."""

import os
from collections.abc import Iterator
from random import Random

import pytest

from tests.corpus.workflows import CANONICAL
from tests.proof.crash_search import crash_at_every_write
from tests.proof.definitions.test_simulated_definitions import world as world_of_definitions
from tests.proof.disks import PostgresDisk
from tests.proof.program_generator import generate
from tests.proof.simulator import POSTGRES, Options, main, simulate
from tests.proof.test_crashes import Budget, good, play
from tests.proof.test_simulator import WEATHERS, twins
from tests.stores.servers import PostgresServer, postgres

ALWAYS_SUSPEND = pytest.mark.parametrize("always_suspend", [False, True], ids=["warm", "always suspend"])
SMALL = 3
"""The seed of a world that is over soon."""

PROVED, PROVED_BATCH = 100, 5


@pytest.fixture(scope="module", autouse=True)
def server() -> Iterator[PostgresServer]:
    with postgres() as server, pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, POSTGRES, server.url)
        yield server


@pytest.mark.slow
def test_a_small_world_is_the_same_on_postgres_as_in_memory_byte_for_byte() -> None:
    twins(SMALL, False, "postgres")


@pytest.mark.real
@ALWAYS_SUSPEND
@pytest.mark.parametrize("seed", range(3))
def test_a_seed_is_the_same_world_on_postgres_as_in_memory_byte_for_byte(seed: int, always_suspend: bool) -> None:
    twins(seed, always_suspend, "postgres")


@pytest.mark.prove
@ALWAYS_SUSPEND
@pytest.mark.parametrize("first", range(200_000, 200_000 + PROVED // 2, PROVED_BATCH))
def test_a_hundred_worlds_on_postgres_end_as_predicted_and_are_those_in_memory(first: int, always_suspend: bool) -> None:
    for seed in range(first, first + PROVED_BATCH):
        twins(seed, always_suspend, "postgres")


@pytest.mark.real
@pytest.mark.parametrize("weather", WEATHERS)
def test_on_postgres_engines_that_live_on_weather(weather: str) -> None:
    programs = [generate(Random(1), 12), generate(Random(-2), 6)]
    report = simulate(programs, 1, Options(store="postgres", faults=WEATHERS[weather], kills_max=1, trouble_s=60.0))
    assert not report.problems, "\n".join(report.problems)


@pytest.mark.parametrize("seed", [pytest.param(0, marks=pytest.mark.real), *(pytest.param(seed, marks=pytest.mark.prove) for seed in range(1, 10))])
def test_definitions_on_postgres_come_to_what_is_predicted(seed: int) -> None:
    world_of_definitions(seed, store="postgres", always_suspend=seed % 2 == 1)


def crashed_everywhere(server: PostgresServer, name: str, budget: Budget) -> None:
    """Play a canonical workflow, its process killed at its writes."""
    good(crash_at_every_write(play(name), lambda: PostgresDisk(server.url), once_max=budget.once, again_max=budget.again))


@pytest.mark.slow
def test_killed_at_a_write_a_workflow_on_postgres_ends_as_if_undisturbed(server: PostgresServer) -> None:
    crashed_everywhere(server, "joined", Budget(2, 0))


@pytest.mark.real
@pytest.mark.parametrize("name", CANONICAL)
def test_killed_at_a_write_and_again_in_the_recovery_a_workflow_on_postgres_ends_as_if_undisturbed(server: PostgresServer, name: str) -> None:
    crashed_everywhere(server, name, Budget(6, 3))


@pytest.mark.prove
@pytest.mark.parametrize("name", CANONICAL)
def test_killed_at_every_write_a_workflow_on_postgres_ends_as_if_undisturbed(server: PostgresServer, name: str) -> None:
    crashed_everywhere(server, name, Budget(None, 20))


@pytest.mark.real
def test_the_command_runs_worlds_on_postgres(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", str(SMALL), "--store", "postgres"]) == 0
    assert f"python -m tests.proof.simulator --seed {SMALL} --store postgres" in capsys.readouterr().out
