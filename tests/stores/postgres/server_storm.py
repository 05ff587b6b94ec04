"""A storm on Postgres: three engines and a client in processes of their own, killed at random, on a server that is restarted and killed as well."""

import asyncio
import random
import time
from collections.abc import Callable, Mapping

from perdure.core.paths import Address, Key, QueueAddress
from perdure.stores.postgres.store import PostgresStore
from tests.runtime.flows import PRESS, kind
from tests.runtime.kill_storm import Kills, Outcome, Storm, settled
from tests.runtime.processes import History, ProcessDirectory, RealProcess
from tests.stores.postgres.fault_rows import UNHARMED, Verdict, write_row

LEASE_S = 3.0
"""After so long, others take over what a killed engine held."""

REST_S = 10.0
"""How much longer a lease may last on a slow machine."""


class ServerStorm(Storm):
    """A storm whose processes use a server; each `disturb_every_s` seconds, `disturb` does something to the server."""

    kill_every_s = 0.5, 1.5

    def __init__(self, stage: ProcessDirectory, executions: int, pace: float, disturb: Callable[[random.Random], object], disturb_every_s: float) -> None:
        self._disturb, self._disturb_every_s = disturb, disturb_every_s
        self.disturbed = 0
        super().__init__(stage, executions, pace)
        self._next_s = time.monotonic() + disturb_every_s

    def _kill_engine(self, draw: random.Random) -> None:
        super()._kill_engine(draw)
        if time.monotonic() > self._next_s:
            self._disturb(draw)
            self.disturbed += 1
            self._next_s = time.monotonic() + self._disturb_every_s

    def _new_engine(self, place: int) -> RealProcess:
        return self.stage.member("leased", lease_s=LEASE_S, worker=place == 0, pace=self._pace)

    def _nothing_is_left(self) -> None:
        asyncio.run(self._look_for_rest(self._witness.look()))

    async def _look_for_rest(self, heads: Mapping[Key, History]) -> None:
        """Those who were killed last count as alive until their leases end."""
        addresses: list[Address] = [*heads, QueueAddress("default", PRESS)]
        store = PostgresStore(self.stage.url)
        try:
            for address in addresses:
                assert await store.messages(address) == [], f"messages are left at {address}"
            async with asyncio.timeout(LEASE_S + REST_S):
                while any(lease.alive for lease in await store.leases()):
                    await asyncio.sleep(0.05)
        finally:
            await store.close()
        assert [key for key, history in heads.items() if history.head.holder is not None] == []

    def verdict(self) -> Verdict:
        """What came of it, however it ended."""
        histories = self._witness.look()
        started = [Key("default", kind(number).code.name, str(number)) for number in range(self._executions)] if "started" in self._client.said else []
        twice = sum(times - 1 for history in histories.values() for times in settled(history).values())
        return Verdict(
            lost=sum(key not in histories for key in started),
            doubled=len(self._witness.ran_again()) + twice,
            stuck=sum(history.head.ended_at_s is None for history in histories.values()),
        )

    @property
    def kills(self) -> int:
        """How many processes have been killed."""
        return sum(self._killed[what] for what in ("engine", "client"))

    @property
    def executions(self) -> int:
        """How many the client starts."""
        return self._executions


def survive(fault: str, storm: ServerStorm, draw: random.Random, for_s: float) -> tuple[Outcome, Kills]:
    """Let a storm rage and end, and write its row: of the faults of the server if it has any, else of the kills."""
    try:
        storm.rage(draw, for_s)
        outcome, kills = storm.subside()
    finally:
        disturbed = storm.disturbed
        write_row(fault, disturbed or storm.kills, storm.verdict(), f"{storm.executions} executions" + f", {storm.kills} processes killed" * bool(disturbed))
    assert storm.verdict() == UNHARMED
    return outcome, kills
