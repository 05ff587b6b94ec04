"""The processes of a simulated world: each runs one engine after another, or one worker, on the store through a gate of its own."""

import asyncio
from contextvars import copy_context
from random import Random
from typing import TYPE_CHECKING

from perdure.core.paths import Key
from perdure.runtime.engine import Engine
from perdure.runtime.worker import Worker
from perdure.testing.audit import acting_for
from perdure.testing.faults import FaultyStore, Gate

if TYPE_CHECKING:
    from perdure.testing.simulation import Simulation


class Process:
    """One engine after another, or one worker, each on the store through a gate of its own, and with the code of the latest deploy that has come here."""

    def __init__(self, simulation: "Simulation", name: str, *, works: bool = False) -> None:
        self.name = name
        self.works = works
        self.runs: Engine | Worker | None = None
        self.gate = Gate()
        self.store: FaultyStore | None = None
        self.ended = asyncio.Event()
        self.task: asyncio.Task[None] | None = None
        self.starts: list[asyncio.Task[bool]] = []
        self.deploy = 0
        self._simulation = simulation
        self._lives = 0
        self._context = copy_context()
        self._context.run(acting_for.set, lambda: self.holder)

    @property
    def holder(self) -> str:
        """The name under which the present engine or worker holds anything."""
        return self.runs._membership.name if self.runs is not None else ""

    async def live(self) -> None:
        """Run engines or workers for ever, a new one whenever the last has ended."""
        simulation = self._simulation
        while True:
            self._begin()
            await self.ended.wait()
            await self._bury()
            if simulation.options.at_once and simulation.kills >= simulation.options.kills_max:
                simulation.calm()  # at this moment, as many more would die before anybody looks
            down_s = simulation.down_until_s - simulation.loop.now_s
            await asyncio.sleep(max(down_s, simulation.rng.uniform(0.0, simulation.options.down_max_s) if simulation.troubled else 0.0))

    def _begin(self) -> None:
        simulation = self._simulation
        self._lives += 1
        self.ended = ended = asyncio.Event()
        self.gate = Gate(ended.set, self._stands_still)
        self.store = store = FaultyStore(simulation.store, simulation.rng, simulation.faults, gate=self.gate, counts=simulation.counts)
        holder = f"{self.name}.{self._lives}"
        self.runs = runs = self._worker(store, holder) if self.works else self._engine(store, holder)
        runs.variables.run(acting_for.set, lambda: self.holder)
        self.task = simulation.loop.create_task(runs.run(), name=holder, context=self._context.copy())
        self.task.add_done_callback(lambda _: ended.set())

    def _engine(self, store: FaultyStore, holder: str) -> Engine:
        simulation, seeds = self._simulation, Random(holder)
        idle_s = 0.0 if simulation.options.always_suspend else simulation.rng.choice((0.5, 3.0, 60.0))
        simulation.deploys[holder] = self.deploy
        return Engine(
            store,
            simulation.workflows(self.deploy),
            queues=simulation.served if self.name == "engine0" else (),
            declares=simulation.queues.values(),
            holder=holder,
            lease_s=simulation.options.lease_s,
            poll_s=simulation.options.poll_s,
            idle_s=idle_s,
            seed=lambda: seeds.getrandbits(62),
        )

    def _worker(self, store: FaultyStore, holder: str) -> Worker:
        simulation = self._simulation
        lease_s, poll_s = simulation.options.lease_s, simulation.options.poll_s
        return Worker(store, simulation.steps, queues=simulation.queues, limit=simulation.rng.choice((1, 3, 10)), holder=holder, lease_s=lease_s, poll_s=poll_s)

    async def _bury(self) -> None:
        """End what the dead still do."""
        runs, task = self.runs, self.task
        if runs is None or task is None:
            return
        if not self.gate.dead and not task.cancelled() and (error := task.exception()) is not None:
            self._simulation.auditor.complain(f"{self.holder} failed: {error!r}")
        self.gate.kill()
        while left := [one for one in (task, *_tasks(runs), *self.starts) if not one.done()]:
            await self._simulation.loop.kill(left)
        self.starts.clear()
        if self._simulation.options.at_once:
            await self._simulation.store.renew(self.holder, 0)
        self.runs = None

    def _stands_still(self, duration_s: float) -> None:
        if self._simulation.options.at_once:
            self._simulation.at_once(self._taken_for_dead(self.gate, self.holder, duration_s))

    async def _taken_for_dead(self, gate: Gate, holder: str, duration_s: float) -> None:
        """Others take over what a process has that stands still; it comes back, does what it was about to do, and dies."""
        await self._simulation.store.renew(holder, 0)
        await asyncio.sleep(2 * duration_s)
        gate.kill()

    @property
    def engine(self) -> Engine | None:
        """The present engine, if there is one."""
        return self.runs if isinstance(self.runs, Engine) else None

    def start(self, key: Key, value: bytes) -> None:
        """Have the present engine start an execution; that may fail, as everything may."""
        engine = self.engine
        if engine is not None and engine.joined:
            self.starts.append(self._simulation.loop.create_task(engine.start(key, value), context=self._context.copy()))

    def kill(self) -> None:
        """Kill whatever runs."""
        self._simulation.counts["killed at a time"] += not self.gate.dead
        self.gate.kill()

    def stop(self) -> None:
        """Stop whatever runs, in good order."""
        if self.runs is not None and (not isinstance(self.runs, Engine) or self.runs.joined):
            self._simulation.counts["stopped"] += 1
            self.runs.stop()

    def upgrade(self, deploy: int) -> None:
        """Code has come: if it is newer, the present engine is stopped for it, or dies of it."""
        if deploy <= self.deploy:
            return
        self.deploy = deploy
        if self.runs is None or self.gate.dead:
            return
        if self._simulation.troubled and self._simulation.rng.random() < 0.5:
            self.kill()
        else:
            self.runs.stop()

    def warm_is_the_same(self) -> None:
        """Compare what the engine has in memory with what was written, where it is at the same version."""
        simulation, engine = self._simulation, self.engine
        for warm in () if engine is None else engine._warm:
            head, known = simulation.store.head(warm.key), simulation.auditor.known.get(warm.key)
            if head is not None and known is not None and warm.execution is not None and not warm.busy and warm.execution.version == head.version:
                simulation.auditor.same(f"the fold in the memory of {self.name}", warm.execution, known.shadow)
                simulation.counts["warm folds compared"] += 1


def _tasks(runs: Engine | Worker) -> list["asyncio.Task[None]"]:
    return list(runs._tasks) if isinstance(runs, Engine) else [*runs._at_work.values(), *runs._telling]
