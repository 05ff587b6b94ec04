"""Claims about servers that are killed under load: each start that was acknowledged has taken effect, once, however often it was sent."""

from pathlib import Path

import pytest

from tests.api.killed_servers import is_intact, storm
from tests.stores.servers import postgres

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the children of a process in /proc")


@pytest.mark.prove
async def test_a_start_that_is_repeated_takes_effect_once_though_its_server_is_killed(tmp_path: Path) -> None:
    outcome = await storm(tmp_path, f"sqlite:///{tmp_path}/one.db", servers=1, starts=30, kills=1, seed=1)
    assert outcome.kills == 1 and outcome.asked > 30
    assert outcome.statuses["completed"] >= 15  # the others were in the middle of a step that may not run twice
    assert is_intact(tmp_path / "one.db")


@pytest.mark.prove
@pytest.mark.parametrize("servers", [1, 2])
async def test_of_servers_on_one_file_that_are_killed_over_and_over_each_start_takes_effect_once(tmp_path: Path, servers: int) -> None:
    outcome = await storm(tmp_path, f"sqlite:///{tmp_path}/many.db", servers=servers, starts=2_000, kills=20, seed=servers)
    assert outcome.kills == 20 and outcome.asked > 2_000
    assert is_intact(tmp_path / "many.db")


@pytest.mark.real
async def test_of_servers_on_postgres_that_are_killed_each_start_takes_effect_once(tmp_path: Path) -> None:
    with postgres() as server:
        outcome = await storm(tmp_path, server.url, servers=2, starts=300, kills=4, seed=3)
    assert outcome.kills == 4 and outcome.asked > 300
