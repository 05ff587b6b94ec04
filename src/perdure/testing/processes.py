"""The processes of a simulated world: each runs one engine after another, on the store through a gate of its own."""

import asyncio
from contextvars import copy_context
from random import Random
from typing import TYPE_CHECKING

from perdure.core.paths import Key
from perdure.runtime.engine import Engine
from perdure.testing.audit import acting_for
from perdure.testing.faults import FaultyStore, Gate

if TYPE_CHECKING:
    from perdure.testing.simulation import Simulation

LEASE_S = 5.0
POLL_S = 1.0


class Process:
    """One engine after another, each on the store through a gate of its own, and with the code of the latest deploy that has come here."""

    def __init__(self, simulation: "Simulation", name: str) -> None:
        self.name = name
        self.engine: Engine | None = None
        self.gate = Gate()
        self.store: FaultyStore | None = None
        self.ended = asyncio.Event()
        self.task: asyncio.Task[None] | None = None
        self.starts: list[asyncio.Task[bool]] = []
        self.deploy = 0
        self._simulation = simulation
        self._lives = 0
        self._context = copy_context()
        self._context.run(acting_for.set, lambda: self.engine.holder if self.engine is not None else "")

    async def live(self) -> None:
        """Run engines for ever, a new one whenever the last has ended."""
        simulation = self._simulation
        while True:
            self._begin()
            await self.ended.wait()
            await self._bury()
            down_s = simulation.down_until_s - simulation.loop.now_s
            await asyncio.sleep(max(down_s, simulation.rng.uniform(0.0, simulation.options.down_max_s) if simulation.troubled else 0.0))

    def _begin(self) -> None:
        simulation = self._simulation
        self._lives += 1
        self.ended = ended = asyncio.Event()
        self.gate = Gate(ended.set)
        self.store = FaultyStore(simulation.store, simulation.rng, simulation.faults, gate=self.gate, counts=simulation.counts)
        idle_s = 0.0 if simulation.options.always_suspend else simulation.rng.choice((0.5, 3.0, 60.0))
        holder, seeds = f"{self.name}.{self._lives}", Random(f"{self.name}.{self._lives}")
        simulation.deploys[holder] = self.deploy
        self.engine = Engine(
            self.store, simulation.workflows(self.deploy), holder=holder, lease_s=LEASE_S, poll_s=POLL_S, idle_s=idle_s, seed=lambda: seeds.getrandbits(62)
        )
        self.task = simulation.loop.create_task(self.engine.run(), name=holder, context=self._context.copy())
        self.task.add_done_callback(lambda _: ended.set())

    async def _bury(self) -> None:
        """End what a dead engine still does."""
        engine, task = self.engine, self.task
        if engine is None or task is None:
            return
        if not self.gate.dead and not task.cancelled() and (error := task.exception()) is not None:
            self._simulation.auditor.complain(f"{engine.holder} failed: {error!r}")
        self.gate.kill()
        while left := [one for one in (task, *engine._tasks, *self.starts) if not one.done()]:
            await self._simulation.loop.kill(left)
        self.starts.clear()
        self.engine = None

    def start(self, key: Key, value: bytes) -> None:
        """Have the present engine start an execution; that may fail, as everything may."""
        engine = self.engine
        if engine is not None and engine.joined:
            self.starts.append(self._simulation.loop.create_task(engine.start(key, value), context=self._context.copy()))

    def upgrade(self, deploy: int) -> None:
        """Newer code has come: the present engine is stopped for it, or dies of it."""
        self.deploy = deploy
        if self.engine is None or self.gate.dead:
            return
        if self._simulation.troubled and self._simulation.rng.random() < 0.5:
            self._simulation.counts["killed at a time"] += 1
            self.gate.kill()
        else:
            self.engine.stop()

    def warm_is_the_same(self) -> None:
        """Compare what the engine has in memory with what was written, where it is at the same version."""
        simulation, engine = self._simulation, self.engine
        for warm in () if engine is None else engine._warm:
            head, known = simulation.store.head(warm.key), simulation.auditor.known.get(warm.key)
            if head is not None and known is not None and warm.execution is not None and not warm.busy and warm.execution.version == head.version:
                simulation.auditor.same(f"the fold in the memory of {self.name}", warm.execution, known.shadow)
                simulation.counts["warm folds compared"] += 1
