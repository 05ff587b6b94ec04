"""A claim about engines whose clocks are hours apart: the server's time is what counts, so that nobody notices."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runtime.cluster_member import RESULTS
from tests.runtime.kill_storm import is_sound, settled
from tests.runtime.processes import ProcessDirectory, until
from tests.runtime.shifted_clock import set_clock
from tests.runtime.test_cluster_kill import undisturbed
from tests.stores.postgres.fault_rows import UNHARMED, Verdict, write_row
from tests.stores.servers import PostgresServer, postgres

pytestmark = pytest.mark.real

EXECUTIONS, HOUR_S, LEASE_S, END_S = 70, 3600.0, 5.0, 120.0
OFFSETS_S = {"fast": HOUR_S, "slow": -HOUR_S, "right": 0.0}


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with postgres(max_connections=60) as server:
        yield server


def test_engines_whose_clocks_are_hours_apart_and_jump_end_everything_as_if_they_were_right(server: PostgresServer, tmp_path: Path) -> None:
    with (
        ProcessDirectory(tmp_path / "fast", server.url) as fast,
        ProcessDirectory(tmp_path / "slow", server.url) as slow,
        ProcessDirectory(tmp_path / "right", server.url) as right,
    ):
        stages = {"fast": fast, "slow": slow, "right": right}
        for name, stage in stages.items():
            set_clock(stage.directory, OFFSETS_S[name])
        engines = [stage.member("leased", shifted=True, lease_s=LEASE_S, worker=name == "fast") for name, stage in stages.items()]
        client = right.member("client", executions=EXECUTIONS, every_s=0.2)
        client.until_said("started")
        set_clock(fast.directory, -HOUR_S)
        set_clock(slow.directory, HOUR_S)
        until(lambda: (right.directory / RESULTS).exists(), f"all have ended; the client says {client.complained}", END_S)
        until(lambda: all(history.head.ended_at_s is not None for history in right.histories().values()), "detached children have ended", END_S)
        for engine in engines:
            engine.end()
        histories = right.histories()
        began = Counter((effect.key, effect.attempt) for stage in stages.values() for effect in stage.effects() if effect.event == "began")
        for history in histories.values():
            is_sound(history)
        doubled = sum(began.values()) - len(began) + sum(sum(settled(history).values()) - len(settled(history)) for history in histories.values())
        verdict = Verdict(doubled=doubled)
        write_row("clocks of engines ±1 h apart, jumping", 2, verdict, f"{EXECUTIONS} executions")
        results = json.loads((right.directory / RESULTS).read_text())
    assert verdict == UNHARMED and results == undisturbed(tmp_path / "undisturbed", EXECUTIONS).results
