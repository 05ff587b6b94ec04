"""Claims about many processes on one Postgres: whoever is killed, and however often the server is, everything ends as if nobody had been."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.runtime.processes import ProcessDirectory, seeded
from tests.runtime.test_cluster_kill import undisturbed
from tests.stores.postgres.fault_rows import in_prove, in_real
from tests.stores.postgres.server_storm import ServerStorm, survive
from tests.stores.servers import PostgresServer, postgres

FEW, FEW_RAGE_S, FEW_PACE = 98, 20.0, 2.0
RESTARTS, RESTARTS_RAGE_S, RESTARTS_PACE = 500, 45.0, 8.0
MANY, MANY_RAGE_S, MANY_PACE = 5_000, 300.0, 14.0
"""How many executions, for how long the storm rages, and by how much longer than usual they sleep, so that many are in flight all the time."""

RESTART_EVERY_S = 4.0


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with postgres(max_connections=60) as server:
        yield server


def restart(server: PostgresServer) -> Callable[[random.Random], None]:
    """Stop it in good order or kill it, and start it again."""

    def disturb(draw: random.Random) -> None:
        if draw.random() < 0.5:
            server.kill()
        else:
            server.stop()
        server.start()

    return disturb


@pytest.mark.parametrize(("executions", "for_s", "pace"), [in_real(FEW, FEW_RAGE_S, FEW_PACE), in_prove(1_000, 120.0, 8.0)])
def test_of_three_engines_that_are_killed_in_turns_every_execution_ends_as_if_undisturbed(
    server: PostgresServer, tmp_path: Path, executions: int, for_s: float, pace: float
) -> None:
    with ProcessDirectory(tmp_path / "killed", server.url) as stage, seeded(11) as draw:
        outcome, kills = survive("kill -9 of three engines under load", ServerStorm(stage, executions, pace, lambda _: None, for_s * 10), draw, for_s)
        assert kills.engines >= 3
    assert outcome == undisturbed(tmp_path / "undisturbed", executions)


@pytest.mark.parametrize(("executions", "for_s", "pace"), [in_real(RESTARTS, RESTARTS_RAGE_S, RESTARTS_PACE), in_prove(MANY, MANY_RAGE_S, MANY_PACE)])
def test_under_a_server_that_is_restarted_and_killed_every_few_seconds_every_execution_ends_as_if_undisturbed(
    server: PostgresServer, tmp_path: Path, executions: int, for_s: float, pace: float
) -> None:
    with ProcessDirectory(tmp_path / "killed", server.url) as stage, seeded(12) as draw:
        storm = ServerStorm(stage, executions, pace, restart(server), RESTART_EVERY_S)
        outcome, _ = survive("server restarted or killed every 4 s", storm, draw, for_s)
        assert storm.disturbed >= 3
    assert outcome == undisturbed(tmp_path / "undisturbed", executions)
