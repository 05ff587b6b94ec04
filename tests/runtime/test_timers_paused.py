"""Claims about timers in a process that may stand still between any two instructions that touch time: some are late, none is early."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest

from perdure.core.envelopes import NewExecution, OutgoingMessage
from perdure.core.messages import StartMessage, encode_message
from perdure.core.paths import Key
from perdure.core.program import program_name
from perdure.stores.memory import MemoryStore
from perdure.stores.protocol import Post
from perdure.stores.sqlite.steady_clock import SteadyClock
from perdure.testing.virtual_time import VirtualLoop
from tests.runtime.cluster import Cluster, ClusterProcess
from tests.runtime.measured_timers import KINDS, QUEUE, WORKFLOWS, Lasted, begun, early, reads, stuck, timing_out, tries
from tests.runtime.processes import record

TIMERS = 120
"""How many a world has."""

LONGEST_S = 8.0
"""The longest of them."""

SPREAD_S = 400.0
"""Within which time they begin."""


class Pauses:
    """Draws how long a world stands still after a reading of its clock: mostly not at all. It does so more often where the store reads its clock."""

    def __init__(self, seed: int, loop: VirtualLoop) -> None:
        self._rng = Random(f"{seed}: pauses")
        self._loop = loop
        self.total = 0
        loop.pause = self._seldom

    def store_time(self) -> float:
        """The time, as one of the store's clocks tells it."""
        self._loop.pause = self._often
        try:
            return self._loop.time()
        finally:
            self._loop.pause = self._seldom

    def _seldom(self) -> float:
        return self._drawn(0.005)

    def _often(self) -> float:
        return self._drawn(0.03)

    def _drawn(self, likelihood: float) -> float:
        if self._rng.random() > likelihood:
            return 0.0
        self.total += 1
        return self._rng.choice((1e-3, 0.1, 1.0, 4.0)) * self._rng.random()


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    tries.clear()
    yield
    del reads[1:]


async def measured(cluster: Cluster, process: ClusterProcess, number: int, wanted_s: float) -> list[Lasted]:
    """Begin a workflow that measures a timer, here or by mail, and wait for it."""
    kind, id, on_queue = KINDS[number % len(KINDS)], str(number), (QUEUE,) * (number % 4 == 1)
    args = (wanted_s, *(on_queue if KINDS[number % len(KINDS)] is timing_out else ()))
    if number % 2:
        await cluster.start(process, kind, *args, id=id)
    else:
        await cluster.post(kind, *args, id=id)
    found: list[Lasted] = await cluster.result(process, kind, id=id)
    return found


async def delayed(cluster: Cluster, process: ClusterProcess, number: int, wanted_s: float) -> list[Lasted]:
    """Begin a workflow later, as a client does."""
    asked_s, id = reads[-1](), f"delayed {number}"
    due_at_s = (await cluster.store.store_time()).now_s + wanted_s
    key, start = Key("default", begun.code.name, id), StartMessage(0, begun.code.codec.encode_args((), {}, "input"), 7)
    opens = NewExecution(program_name(begun.code.name, 0), key)
    await cluster.store.commit([Post(messages=(OutgoingMessage(key, "start", encode_message(start), due_at_s=due_at_s, opens=opens),))])
    return [("delay", wanted_s, await cluster.result(process, begun, id=id) - asked_s)]


async def lasted(cluster: Cluster, process: ClusterProcess, rng: Random) -> list[Lasted]:
    """Begin timers of all kinds, here and there in time, and wait for all."""

    async def one(number: int) -> list[Lasted]:
        await asyncio.sleep(rng.uniform(0.0, SPREAD_S))
        measure = delayed if number % 6 == 5 else measured
        return await measure(cluster, process, number, rng.uniform(0.1, LONGEST_S))

    found = await asyncio.gather(*(one(number) for number in range(TIMERS)))
    return [one for several in found for one in several]


async def world(rng: Random, pauses: Pauses) -> list[Lasted]:
    """An engine and a worker on a store that tells the time as SQLite's does."""
    loop = asyncio.get_running_loop()
    cluster = Cluster()
    cluster.store = MemoryStore(SteadyClock(pauses.store_time, pauses.store_time, "boot"))
    reads.append(loop.time)
    process = await cluster.engine(*WORKFLOWS, holder="engine", seed=lambda: 7)
    await cluster.worker(stuck, queues=[QUEUE], holder="worker")
    found = await lasted(cluster, process, rng)
    await asyncio.sleep(10 * LONGEST_S)  # a try on a queue that began late has its whole time, though its execution has given it up before
    for each in cluster.processes:
        await each.kill()
    return found


def ran(seed: int) -> tuple[list[Lasted], int]:
    """All timers of the world of a seed, and how often it stood still."""
    loop = VirtualLoop(Random(seed), handles_max=10_000_000)
    pauses = Pauses(seed, loop)
    try:
        return loop.run_until_complete(world(Random(f"{seed}: timers"), pauses)), pauses.total
    finally:
        loop.pause = float
        loop.close()


@pytest.mark.slow
def test_no_timer_is_early_wherever_the_process_stands_still() -> None:
    for seed in range(3):
        found, pauses = ran(seed)
        kinds = Counter(kind for kind, _, _ in [*found, *tries])
        assert pauses > 50 and len(kinds) == 7 and min(kinds.values()) >= 5, (pauses, kinds)
        assert early([*found, *tries]) == [], f"seed {seed}"


@pytest.mark.prove
def test_no_timer_is_early_in_any_of_many_worlds_that_stand_still() -> None:
    total = 0
    for seed in range(1000, 1200):
        found, pauses = ran(seed)
        total += pauses
        assert early([*found, *tries]) == [], f"seed {seed}"
        tries.clear()
    record(f"{total} pauses, no timer early")
