"""Claims about a failover: with a synchronous standby nothing acknowledged is lost; without one, exactly what the standby had not received is."""

import random
from pathlib import Path

import pytest

from perdure.stores.postgres.store import PostgresStore
from tests.runtime.processes import ProcessDirectory, seeded
from tests.runtime.test_cluster_kill import undisturbed
from tests.stores.postgres.fault_rows import Verdict, in_prove, in_real, write_row
from tests.stores.postgres.lives import (
    STEPS_AFTER_GO,
    client_on,
    doubled,
    engine_on,
    insist,
    ledger,
    life,
    raise_epoch,
    result_of_life,
    tell_to_go,
    until_waiting,
)
from tests.stores.postgres.server_storm import ServerStorm, survive
from tests.stores.postgres_clusters import FailoverPair, failover_pair, make_synchronous, promote, rejoin, stop_streaming, wait_until_caught_up

FAILOVER_EVERY_S = 5.0
BEFORE, WITHIN = 10, 10
"""How many executions start before the standby lags, and how many while it does."""


class Failover:
    """Kills the primary again and again, has the standby take over, and the former primary follow."""

    def __init__(self, pair: FailoverPair) -> None:
        self.pair = pair

    def __call__(self, _: random.Random) -> None:
        self.pair.primary.kill()
        promote(self.pair.standby)
        rejoin(self.pair.primary, self.pair.standby)
        make_synchronous(self.pair.standby)
        self.pair = self.pair.turned


@pytest.mark.parametrize(("executions", "for_s", "pace"), [in_real(98, 35.0, 8.0), in_prove(1_000, 240.0, 10.0)])
def test_in_failovers_to_a_synchronous_standby_nothing_acknowledged_is_lost_and_no_settled_step_runs_twice(
    tmp_path: Path, executions: int, for_s: float, pace: float
) -> None:
    with failover_pair(synchronous=True, max_connections=60) as pair, ProcessDirectory(tmp_path / "killed", pair.url) as stage, seeded(13) as draw:
        storm = ServerStorm(stage, executions, pace, Failover(pair), FAILOVER_EVERY_S)
        outcome, _ = survive("failover, synchronous standby", storm, draw, for_s)
        assert storm.disturbed >= 2
    assert outcome == undisturbed(tmp_path / "undisturbed", executions)


@pytest.mark.real
async def test_in_a_failover_to_a_standby_that_lagged_what_it_had_not_received_is_lost_and_no_more() -> None:
    """Of those that started before, every second one ends while the standby lags: this is lost, as are the starts in that time."""
    ledger.clear()
    with failover_pair() as pair:
        async with engine_on(PostgresStore(pair.url), lease_s=3.0), client_on(pair.url) as client:
            before = [await client.start(life.with_(id=f"before {number}"), number) for number in range(BEFORE)]
            await until_waiting(client, BEFORE)
            wait_until_caught_up(pair)
            stop_streaming(pair.standby)
            for handle in before[::2]:
                await tell_to_go(handle)
            results = [await handle.result("30s") for handle in before[::2]]
            within = [await client.start(life.with_(id=f"within {number}"), number) for number in range(WITHIN)]
            await until_waiting(client, BEFORE - len(results) + WITHIN)
            pair.primary.kill()
            promote(pair.standby)
            assert "is in epoch 2; what was handed out or decided before is refused" in raise_epoch(pair.url)

            heads = {head.key: head for head in await insist(lambda: client.list(limit=1000))}
            lost = sum(handle.key not in heads for handle in within) + sum(heads[handle.key].ended_at_s is None for handle in before[::2])
            for handle in before:
                await tell_to_go(handle)
            again = [await insist(handle.result) for handle in before]
    assert again == [result_of_life(number) for number in range(BEFORE)] and results == again[::2]
    verdict = Verdict(lost, doubled())
    write_row("failover, standby lagged, epoch raised", 1, verdict, f"in the lag: {WITHIN} starts, {len(results)} ends after {STEPS_AFTER_GO} steps each")
    assert verdict == Verdict(lost=WITHIN + len(results), doubled=STEPS_AFTER_GO * len(results))
