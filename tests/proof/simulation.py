"""The processes of a simulated world: each runs one engine after another, or one worker, on the store through a gate of its own.

A simulated world: engines on one store through gates of their own, what befalls them, and what is compared at the end.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextvars import copy_context
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from perdure.code.declarations import Step
from perdure.core import log_format, messages, values
from perdure.core.envelopes import OutgoingMessage
from perdure.core.errors import StoreUnavailable
from perdure.core.operations import CallOperation, Success
from perdure.core.paths import Key, Path
from perdure.core.replay import fold_events
from perdure.core.values import Blob, Value
from perdure.runtime.engine import Engine
from perdure.runtime.worker import Worker
from perdure.runtime.workflow_programs import Workflow
from perdure.stores.protocol import Post
from perdure.testing.faults import NO_FAULTS, FaultyStore, Gate
from perdure.testing.virtual_time import VirtualLoop
from tests.proof import attempt_checks
from tests.proof.audited_store import AuditedStore, AuditedWorld
from tests.proof.auditor import Auditor, acting_for
from tests.proof.disks import Disk
from tests.proof.feed_follower import FeedFollower
from tests.proof.program_interpreter import as_queue
from tests.proof.world_options import Options

if TYPE_CHECKING:
    pass


class SimulatedProcess:
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
        return self.runs._holder.name if self.runs is not None else ""

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
        engine = Engine(
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
        engine.runner.choose = simulation.loop.choose
        return engine

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

    def resident_equals_restored(self) -> None:
        """Compare what the engine has in memory with what was written, where it is at the same version."""
        simulation, engine = self._simulation, self.engine
        for resident in () if engine is None else engine._residents:
            head, known = simulation.store.head(resident.key), simulation.auditor.known.get(resident.key)
            if head is not None and known is not None and resident.execution is not None and not resident.busy and resident.execution.version == head.version:
                simulation.auditor.same(f"the fold in the memory of {self.name}", resident.execution, known.shadow)
                simulation.counts["warm folds compared"] += 1


def _tasks(runs: Engine | Worker) -> list["asyncio.Task[None]"]:
    return list(runs._tasks) if isinstance(runs, Engine) else [*runs._running.values(), *runs._progress_posts]


SETTLE_S = 3000.0
"""How long a world without faults may take to come to its end."""


class SimulationCase(Protocol):
    """What runs in a world, and what must come of it: the execution `key`, whose effects happen in `world`; from outside it is told nothing after `last_s`."""

    key: Key
    world: AuditedWorld
    last_s: float

    def workflows(self, deploy: int) -> Sequence[Workflow]:
        """All that an engine must know of it, in the code of a deploy."""
        ...

    @property
    def steps(self) -> Sequence[Step[Any, Any, Any]]:
        """What workers do of it."""
        ...

    @property
    def undoes(self) -> bool:
        """Whether what it has done is undone when it fails."""
        ...

    async def send(self) -> None:
        """Start it, and tell it from outside what it is told, in time."""
        ...

    def judge(self) -> None:
        """Compare what came of it with what was predicted."""
        ...


class Simulation:
    """A world: cases, engines, a store, and what befalls them. The cases are made by `made`, when all else is there."""

    def __init__(self, made: "Callable[[Simulation], Sequence[SimulationCase]]", seed: int, options: Options, loop: VirtualLoop, disk: Disk) -> None:
        self.options = options
        self.loop = loop
        self.rng = Random(f"{seed}: faults")
        self.auditor = Auditor()
        self.store = AuditedStore(self.auditor, disk.opened(loop.time), loop.time, disk.at_once)
        self.store.interrupts = self._interrupts
        self.faults = options.faults
        self.counts: Counter[str] = Counter()
        self.troubled = options.troubled
        self.down_until_s = 0.0
        self.processes: list[SimulatedProcess] = []
        self.queues = {line.name: as_queue(line) for line in options.lines}
        self.served = [line.name for line in options.lines if options.an_engine_serves and not line.is_limited]
        self.follower = FeedFollower(self.auditor, self.store, loop.time, Random(f"{seed}: feed")) if options.follows_feed else None
        self.deploys: dict[str, int] = {}
        self._tasks: list[asyncio.Task[Any]] = []
        self._began_s = loop.now_s
        self.cases = made(self)
        self.steps = [step for case in self.cases for step in case.steps]
        self.auditor.permits(self._deploy_of, self._needs)

    def workflows(self, deploy: int) -> list[Workflow]:
        """All workflows, in the code of a deploy."""
        return [workflow for case in self.cases for workflow in case.workflows(deploy)]

    def _deploy_of(self, holder: str) -> int:
        """Whose code a process runs that holds something under this name."""
        return self.deploys[holder.partition("~")[0]]

    def _needs(self, key: Key) -> int:
        """Whose code an execution needs at least, because of the way that it went."""
        return max(case.world.needs.get(key, 0) for case in self.cases)

    async def run(self) -> None:
        """All of it: trouble, then quiet, then what must be true at the end."""
        self.processes = [SimulatedProcess(self, f"engine{number}") for number in range(self.options.engines)]
        self.processes += [SimulatedProcess(self, f"worker{number}", works=True) for number in range(self.options.workers)]
        for work in (*(process.live() for process in self.processes), self._relay(), self._look_after(), *(case.send() for case in self.cases)):
            self.at_once(work)
        for number, at_s in enumerate(self.options.deploys_at_s):
            self.at_once(self._deploy(number + 1, at_s))
        if self.follower is not None:
            self.at_once(self.follower.follow())
        trouble = [asyncio.create_task(work) for work in self._troubles()] if self.troubled else []
        await self._until_quiet()
        self.calm()
        for task in trouble:
            task.cancel()
        await self._until_over()
        for process in self.processes:
            process.resident_equals_restored()
        if self.follower is not None and not self.auditor.problems:
            self.follower.catch_up()
            self.counts += self.follower.counts
        failed = [error for task in (*self._tasks, *trouble) if task.done() and not task.cancelled() and (error := task.exception())]
        self.auditor.problems += [f"the simulator failed: {error!r}" for error in failed]
        for process in self.processes:
            process.gate.kill()
        self._judge()

    def calm(self) -> None:
        """From now on nothing bad happens."""
        self.troubled, self.faults, self.down_until_s = False, NO_FAULTS, 0.0
        for process in self.processes:
            process.gate.thaw()
            if process.store is not None:
                process.store.faults = NO_FAULTS

    # what happens in it

    async def post(self, store: FaultyStore, send: OutgoingMessage) -> None:
        """Send this, however often that fails."""
        while True:
            store.faults = NO_FAULTS if not self.troubled else store.faults
            try:
                await store.commit([Post(messages=(send,))])
            except StoreUnavailable:
                await asyncio.sleep(0.2)
                continue
            return

    async def _deploy(self, deploy: int, at_s: float) -> None:
        """Newer code comes to one process after the other; until it has, that may begin again with what it had."""
        await asyncio.sleep(at_s)
        self.counts["deploys"] += 1
        for process in self.rng.sample(self.processes, len(self.processes)):
            process.upgrade(deploy)
            await asyncio.sleep(self.rng.uniform(0.0, self.options.rollout_s))

    async def _relay(self) -> None:
        """Carry over what leaves its reach: late, out of the order of reaches, and now and then again."""
        while True:
            outboxes = [number for number, outbox in enumerate(self.store.outboxes) if outbox]
            if not outboxes:
                await asyncio.sleep(0.1 if self.options.reaches > 1 else 10.0)
                continue
            origin = self.rng.choice(outboxes)
            self.store.arrive(origin)
            if not self._interrupts():
                self.store.forget(origin)
            await asyncio.sleep(self.rng.choice((0.0, 0.0, 0.01, 0.5)) if self.troubled else 0.0)

    def _interrupts(self) -> bool:
        """Whether who carries something over dies behind its arrival, so that it arrives again."""
        interrupts = self.troubled and self.rng.random() < 0.15
        self.counts["arrived twice"] += interrupts
        return interrupts

    async def _look_after(self) -> None:
        """What a person does about an execution that was parked because its step was interrupted too often, or came to older code than it needs."""
        seen: set[tuple[Key, int]] = set()
        while True:
            await asyncio.sleep(2.0)
            for key, known in list(self.auditor.known.items()):
                parked = known.shadow.parked
                if parked is not None and parked.reason in ("interrupted", "diverged") and (key, known.shadow.version) not in seen:
                    seen.add((key, known.shadow.version))
                    self.counts["resumed"] += 1
                    await self.store.commit(
                        [Post(messages=(OutgoingMessage(key, f"retry:{known.shadow.version}", messages.encode_message(messages.RetryMessage())),))]
                    )

    def _troubles(self) -> Iterator[Coroutine[Any, Any, None]]:
        options = self.options
        for every_s, do in (
            (options.kill_every_s, self._kill_one),
            (options.stop_every_s, self._stop_one),
            (options.epoch_every_s, self._raise_epoch),
            (options.stray_every_s, self._stray),
            (options.pause_every_s, self._pause_one),
            (options.evict_every_s, self._evict_one),
        ):
            if every_s:
                yield self._every(every_s, do)
        yield from (self._black_out(at_s) for at_s in options.blackouts_at_s)

    async def _every(self, every_s: float, do: Callable[[], None]) -> None:
        while True:
            await asyncio.sleep(self.rng.expovariate(1 / every_s))
            do()

    def _kill_one(self) -> None:
        process = self.rng.choice(self.processes)
        if process.runs is not None:
            process.resident_equals_restored()
            process.kill()

    def _stop_one(self) -> None:
        self.rng.choice(self.processes).stop()

    async def _black_out(self, at_s: float) -> None:
        await asyncio.sleep(at_s)
        self.counts["blackouts"] += 1
        self.down_until_s = self.loop.now_s + self.options.blackout_s
        for process in self.processes:
            process.kill()

    def _raise_epoch(self) -> None:
        self.counts["epochs"] += 1
        self.at_once(self.store.raise_epoch())

    def _stray(self) -> None:
        """An answer that is late: to an earlier try, to one that has failed or was given up, or to what has settled."""
        candidates: list[tuple[Key, Path, int]] = []
        for key, known in self.auditor.known.items():
            candidates += [
                (key, one.path, one.attempt - (one.state in ("waiting", "performing")))
                for one in known.shadow.open.values()
                if isinstance(one.op, CallOperation)
            ]
            candidates += [(key, path, one.attempt) for path, one in list(known.shadow.settled.items())[-5:] if isinstance(one.op, CallOperation)]
        candidates = [one for one in candidates if one[2] > 0]
        if candidates:
            key, path, attempt = self.rng.choice(candidates)
            self.counts["stray answers"] += 1
            body = messages.encode_message(messages.SettleMessage(path, attempt, Success(values.encode("stray", "a stray"))))
            self.at_once(self.store.commit([Post(messages=(OutgoingMessage(key, f"stray:{self.counts['stray answers']}", body),))]))

    def _pause_one(self) -> None:
        """Somebody pauses an execution, begun or not, and soon has it go on."""
        if going := self._going():
            self.counts["pauses"] += 1
            self.at_once(self._pause(self.rng.choice(going), self.counts["pauses"], self.rng.uniform(0.0, self.options.pause_max_s)))

    async def _pause(self, key: Key, number: int, duration_s: float) -> None:
        await self.store.commit([Post(messages=(OutgoingMessage(key, f"pause:{number}", messages.encode_message(messages.PauseMessage())),))])
        await asyncio.sleep(duration_s)
        await self.store.commit([Post(messages=(OutgoingMessage(key, f"resume:{number}", messages.encode_message(messages.ResumeMessage())),))])

    def _evict_one(self) -> None:
        """Somebody has an execution leave the engine that has it."""
        if going := self._going():
            self.counts["evictions"] += 1
            body = messages.encode_message(messages.EvictMessage())
            self.at_once(self.store.commit([Post(messages=(OutgoingMessage(self.rng.choice(going), f"evict:{self.counts['evictions']}", body),))]))

    def _going(self) -> list[Key]:
        known = self.auditor.known
        return [key for key in self.store.keys if key not in known or known[key].shadow.ended is None]

    def at_once(self, work: Coroutine[Any, Any, object]) -> None:
        """Have this done beside all else."""
        task = asyncio.create_task(work)
        self._tasks.append(task)

    # its end

    async def _until_quiet(self) -> None:
        options, end_s = self.options, self.loop.now_s + self.options.trouble_s
        while self.loop.now_s < end_s and self.kills < options.kills_max:
            if not self.troubled or self.auditor.problems or self._over():
                return
            await asyncio.sleep(0.5)

    @property
    def kills(self) -> int:
        """How many engines were killed."""
        return sum(self.counts[how] for how in ("killed before", "killed after", "killed at a time"))

    def _over(self) -> bool:
        known = self.auditor.known
        ended = all(case.key in known for case in self.cases) and all(key in known and known[key].shadow.ended is not None for key in self.store.keys)
        last_s = max((case.last_s for case in self.cases), default=0.0)
        return ended and not self.store.left and self.loop.now_s > self._began_s + max(last_s, self.options.cancel_after_s or 0.0) + 5.0

    async def _until_over(self) -> None:
        end_s = self.loop.now_s + SETTLE_S
        while not self._over() and not self.auditor.problems:
            await asyncio.sleep(1.0)
            if self.loop.now_s > end_s:
                going = {
                    str(key): self.store.head(key) for key in self.store.keys if key not in self.auditor.known or self.auditor.known[key].shadow.ended is None
                }
                self.auditor.complain(f"it has not ended {SETTLE_S} s after the last fault: {f'{going}; left: {self.store.left}':.1500}")

    def _judge(self) -> None:
        """Compare what came of all of it with what was predicted."""
        auditor = self.auditor
        for key in self.store.keys if not auditor.problems else ():
            whole = fold_events(key, log_format.decode_rows(self.store.rows(key)), auditor.known[key].shadow.root)
            auditor.same("the whole log", whole, auditor.known[key].shadow)
            auditor.problems += [f"{key}: {problem}" for problem in self._hidden(key)]
            auditor.agrees(key, all(case.key != key or case.undoes for case in self.cases), self.store.lines.strays)
        for case in self.cases if not auditor.problems else ():
            case.judge()

    def _hidden(self, key: Key) -> list[str]:
        """Which attempts of an execution are missing from what people are shown of it; work that the world sent again runs without its knowledge."""
        rows = [log_format.decode_row(row) for row in self.store.rows(key)]
        runs = {run for run, times in self.auditor.runs.items() if run[0] == key and times} - self.store.lines.strays
        ran = {(path, attempt) for _, path, attempt in runs}
        return attempt_checks.problems(key, rows, self._payload, ran)

    def _payload(self, value: Value) -> bytes:
        return (self.store.payload(value.sha256) or b"") if isinstance(value, Blob) else value
