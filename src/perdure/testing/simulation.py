"""A simulated world: engines on one store through gates of their own, what befalls them, and what is compared at the end."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from random import Random
from typing import Any, Protocol

from perdure.core import log, messages, values
from perdure.core.errors import StoreUnavailable
from perdure.core.folding import fold
from perdure.core.mail import Send
from perdure.core.ops import Call, Ok
from perdure.core.paths import Key, Path
from perdure.core.values import Blob, Value
from perdure.programs.code.declare import Step
from perdure.programs.workflows import Workflow
from perdure.stores.base import Post
from perdure.testing import attempt_checks
from perdure.testing.audit import Auditor
from perdure.testing.audited import AuditedStore, AuditedWorld
from perdure.testing.disks import Disk
from perdure.testing.faults import NO_FAULTS, FaultyStore
from perdure.testing.interpreter import as_queue
from perdure.testing.options import Options
from perdure.testing.processes import Process
from perdure.testing.virtual import VirtualLoop

SETTLE_S = 3000.0
"""How long a world without faults may take to come to its end."""


class Case(Protocol):
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

    def __init__(self, made: "Callable[[Simulation], Sequence[Case]]", seed: int, options: Options, loop: VirtualLoop, disk: Disk) -> None:
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
        self.processes: list[Process] = []
        self.queues = {line.name: as_queue(line) for line in options.lines}
        self.served = [line.name for line in options.lines if options.an_engine_serves and not line.is_limited]
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
        self.processes = [Process(self, f"engine{number}") for number in range(self.options.engines)]
        self.processes += [Process(self, f"worker{number}", works=True) for number in range(self.options.workers)]
        for work in (*(process.live() for process in self.processes), self._relay(), self._look_after(), *(case.send() for case in self.cases)):
            self.at_once(work)
        for number, at_s in enumerate(self.options.deploys_at_s):
            self.at_once(self._deploy(number + 1, at_s))
        trouble = [asyncio.create_task(work) for work in self._troubles()] if self.troubled else []
        await self._until_quiet()
        self.calm()
        for task in trouble:
            task.cancel()
        await self._until_over()
        for process in self.processes:
            process.warm_is_the_same()
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

    async def post(self, store: FaultyStore, send: Send) -> None:
        """Send this, however often that fails."""
        while True:
            store.faults = NO_FAULTS if not self.troubled else store.faults
            try:
                await store.commit([Post(sends=(send,))])
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
                    await self.store.commit([Post(sends=(Send(key, f"retry:{known.shadow.version}", messages.encode(messages.Retry())),))])

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
            process.warm_is_the_same()
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
                (key, one.path, one.attempt - (one.state in ("waiting", "performing"))) for one in known.shadow.open.values() if isinstance(one.op, Call)
            ]
            candidates += [(key, path, one.attempt) for path, one in list(known.shadow.settled.items())[-5:] if isinstance(one.op, Call)]
        candidates = [one for one in candidates if one[2] > 0]
        if candidates:
            key, path, attempt = self.rng.choice(candidates)
            self.counts["stray answers"] += 1
            body = messages.encode(messages.Settle(path, attempt, Ok(values.encode("stray", "a stray"))))
            self.at_once(self.store.commit([Post(sends=(Send(key, f"stray:{self.counts['stray answers']}", body),))]))

    def _pause_one(self) -> None:
        """Somebody pauses an execution, begun or not, and soon has it go on."""
        if going := self._going():
            self.counts["pauses"] += 1
            self.at_once(self._pause(self.rng.choice(going), self.counts["pauses"], self.rng.uniform(0.0, self.options.pause_max_s)))

    async def _pause(self, key: Key, number: int, duration_s: float) -> None:
        await self.store.commit([Post(sends=(Send(key, f"pause:{number}", messages.encode(messages.Pause())),))])
        await asyncio.sleep(duration_s)
        await self.store.commit([Post(sends=(Send(key, f"resume:{number}", messages.encode(messages.Resume())),))])

    def _evict_one(self) -> None:
        """Somebody has an execution leave the engine that has it."""
        if going := self._going():
            self.counts["evictions"] += 1
            body = messages.encode(messages.Evict())
            self.at_once(self.store.commit([Post(sends=(Send(self.rng.choice(going), f"evict:{self.counts['evictions']}", body),))]))

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
            whole = fold(key, log.decode_all(self.store.rows(key)), auditor.known[key].shadow.root)
            auditor.same("the whole log", whole, auditor.known[key].shadow)
            auditor.problems += [f"{key}: {problem}" for problem in self._hidden(key)]
            auditor.agrees(key, all(case.key != key or case.undoes for case in self.cases), self.store.lines.strays)
        for case in self.cases if not auditor.problems else ():
            case.judge()

    def _hidden(self, key: Key) -> list[str]:
        """Which attempts of an execution are missing from what people are shown of it; work that the world sent again runs without its knowledge."""
        rows = [log.decode(row) for row in self.store.rows(key)]
        runs = {run for run, times in self.auditor.runs.items() if run[0] == key and times} - self.store.lines.strays
        ran = {(path, attempt) for _, path, attempt in runs}
        return attempt_checks.problems(key, rows, self._payload, ran)

    def _payload(self, value: Value) -> bytes:
        return (self.store.payload(value.sha256) or b"") if isinstance(value, Blob) else value
