"""Claims about timers in real processes that are stopped and continued (SIGSTOP, SIGCONT) again and again: some are late, none is early."""

import asyncio
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest

from perdure.sync_client import AsyncClient
from tests.runtime.measured_timers import KINDS, QUEUE, Lasted, early, timing_out
from tests.runtime.processes import ProcessDirectory, RealProcess, record, seeded


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[ProcessDirectory]:
    with ProcessDirectory(tmp_path) as stage:
        yield stage


class Stopper:
    """Stops and continues processes, each for a moment, until it is told to end, and so many times at least."""

    def __init__(self, processes: list[RealProcess], rng: random.Random, least: int) -> None:
        self._processes, self._rng, self._least = processes, rng, least
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.stops = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    @property
    def is_done(self) -> bool:
        """Whether it has stopped them often enough."""
        return self.stops >= self._least

    def _run(self) -> None:
        while not self._ending.wait(self._rng.uniform(0.0, 0.15)):
            process = self._rng.choice(self._processes)
            os.kill(process.pid, signal.SIGSTOP)
            try:
                time.sleep(self._rng.choice((0.01, 0.1, 0.4)) * self._rng.random())
            finally:
                os.kill(process.pid, signal.SIGCONT)
            self.stops += 1


async def measured(url: str, stopper: Stopper, rng: random.Random, at_a_time: int) -> list[Lasted]:
    """Begin timers of all kinds again and again, until processes have been stopped often enough."""

    async def again(client: AsyncClient, lane: int) -> list[Lasted]:
        found: list[Lasted] = []
        number = 0
        while number == 0 or not stopper.is_done:
            kind = KINDS[(lane + number) % len(KINDS)]
            queue = (QUEUE,) if kind is timing_out and (lane + number) % 2 else ()
            handle = await client.start(kind.with_(id=f"{lane}.{number}"), rng.uniform(0.1, 2.5), *queue)
            found += await handle.result(timeout="120s")
            number += 1
        return found

    async with AsyncClient(url) as client:
        several = await asyncio.gather(*(again(client, lane) for lane in range(at_a_time)))
    return [one for found in several for one in found]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "stops", "at_a_time"),
    [pytest.param(1, 20, 20, id="a few"), pytest.param(2, 1000, 60, id="a thousand stops", marks=pytest.mark.prove)],
)
def test_no_timer_is_early_in_a_worker_that_is_stopped_and_continued(stage: ProcessDirectory, seed: int, stops: int, at_a_time: int) -> None:
    with seeded(seed) as rng:
        members = [stage.member("timing"), stage.member("timing")]
        for member in members:
            member.until_said("ready")
        with Stopper(members, rng, stops) as stopper:
            found = asyncio.run(measured(stage.url, stopper, rng, at_a_time))
        late_s = sorted(lasted_s - wanted_s for _, wanted_s, lasted_s in found)
        kinds = ", ".join(f"{count} × {kind}" for kind, count in sorted(Counter(kind for kind, _, _ in found).items()))
        record(f"{stopper.stops} stops, {kinds}; the median {late_s[len(late_s) // 2]:.3f} s late, the latest {late_s[-1]:.3f} s")
        assert early(found) == []
        assert all(history.head.status == "completed" for key, history in stage.histories().items() if key.workflow != "endless")
