"""Lives: one process after another on one disk, each killed at its appointed write, until one that is spared brings the world to its end.

A write is a call that changes the store: a commit, a claim that gets something, a renewal, a relay, a sweep. A process dies just
before one of its writes takes effect, or just after, when it has not heard of it yet. What it leaves is the store alone; the next
begins when the store takes it for dead.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from random import Random
from typing import Any, NamedTuple, TypeVar

from perdure.code.call_options import DEFAULT_TENANT
from perdure.code.step_environment import StepInfo
from perdure.core import messages, values
from perdure.core.envelopes import OutgoingMessage
from perdure.core.messages import ExecutionMessage
from perdure.core.operations import Outcome
from perdure.core.paths import Key
from perdure.runtime.engine import Engine
from perdure.runtime.step_runner import run_step
from perdure.stores.protocol import Committed, Post, Store
from perdure.testing.crash_points import CrashPoint
from perdure.testing.faults import FaultyStore, Gate, Killed
from perdure.testing.virtual_time import VirtualLoop
from perdure.workflow_function import Workflow
from tests.proof.audited_store import AuditedStore
from tests.proof.auditor import Auditor, CallKey, listening
from tests.proof.disks import Disk

T = TypeVar("T")

LEASE_S = 15.0
POLL_S = 60.0
LOOK_MIN_S, LOOK_MAX_S = 0.5, 50.0
"""How long to wait before looking whether all has come to its end: longer each time."""

LATENCY_S = 0.001
"""How long a call of the store is on its way, and its answer: time for everything else to happen."""

PATIENCE_S = 30 * 86_400.0
"""How long a world may take to come to its end."""


class ProcessWrite(NamedTuple):
    """A call that changed the store: its number among those of its process that might have, and its name."""

    number: int
    call: str


class ScriptStage:
    """What a script may do in a world, from outside: nothing of it is lost when the process dies that is there at the moment."""

    def __init__(self, world: "PlayWorld") -> None:
        self.world = world

    async def start(self, workflow: Workflow[..., Any], *args: Any, id: str = "1") -> Key:
        """Start an execution in the process that is there, and again in the next if that dies meanwhile."""
        key = Key(DEFAULT_TENANT, workflow.code.name, id)
        await self.world.start(key, workflow.code.codec.encode_args(args, {}, "the input"))
        return key

    async def send(self, key: Key, name: str, body: Any = None, once: str = "") -> None:
        """Send a message, under its own key or one of the script's."""
        await self.tell(key, messages.SignalMessage(name, values.encode(body, "the body"), once or self.world.next_key()))

    async def cancel(self, key: Key, reason: str = "") -> None:
        """Cancel an execution."""
        await self.tell(key, messages.CancelMessage(reason))

    async def retry(self, key: Key, reason: str = "") -> None:
        """Retry an execution."""
        await self.tell(key, messages.RetryMessage(reason))

    async def tell(self, key: Key, message: ExecutionMessage) -> None:
        """Send any message."""
        await self.world.store.commit([Post(messages=(OutgoingMessage(key, self.world.next_key(), messages.encode_message(message)),))])


class Play(NamedTuple):
    """Workflows, and a script of what happens to them from outside. `shown` leaves of a result what must be the same whenever things happen."""

    workflows: Sequence[Workflow[..., Any]]
    script: Callable[[ScriptStage], Coroutine[Any, Any, object]]
    shown: Callable[[Any], Any] = lambda result: result
    always_suspend: bool = False


class MortalProcess:
    """An engine that lives until it is killed, at `crash` if at no other time."""

    def __init__(self, world: "PlayWorld", number: int, crash: CrashPoint | None) -> None:
        self.crash = crash
        self.died = asyncio.Event()
        self.gate = Gate(self._killed)
        self.store = _MortalStore(world.store, self.gate, crash)
        self.starts: list[asyncio.Task[Any]] = []
        self.engine = Engine(
            self.store,
            [one.code for one in world.play.workflows],
            holder=f"process{number}",
            lease_s=LEASE_S,
            poll_s=1.0 if world.play.always_suspend else POLL_S,
            idle_s=0.0 if world.play.always_suspend else POLL_S,
            seed=lambda: 7,
        )
        self.engine.perform = self._perform
        self._world = world
        self.running = self.spawn(self.engine.run())
        self.running.add_done_callback(lambda _: self.died.set())

    def spawn(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Run `work` as a task of this process."""
        return asyncio.get_running_loop().create_task(work)

    async def bury(self) -> None:
        """End what a dead process still does."""
        while left := [task for task in (self.running, *self.engine._tasks, *self.starts) if not task.done()]:
            await self._world.loop.kill(left)

    async def _perform(self, fn: Any, args: values.Value, info: StepInfo, *others: Any) -> Outcome:
        """Have the world told of each try that begins; the dead begin none."""
        await self.gate.passed()
        self._world.performs(info)
        return await run_step(fn, args, info, *others)

    def _killed(self) -> None:
        self._world.killed()
        self.died.set()


class PlayWorld:
    """A play on a disk: what runs, and what came of it so far.

    Of each call: how often it was `performed`, how often it was `in_flight` at a crash, whether it is `owed` to run again since.
    """

    def __init__(self, play: Play, plan: Sequence[CrashPoint], disk: Disk, loop: VirtualLoop) -> None:
        self.play = play
        self.loop = loop
        self.auditor = Auditor()
        self.store = AuditedStore(self.auditor, disk.opened(loop.time), loop.time, disk.at_once)
        self.lives: list[Sequence[ProcessWrite]] = []
        self.performed: Counter[CallKey] = Counter()
        self.in_flight: Counter[CallKey] = Counter()
        self.owed: set[CallKey] = set()
        self.began_s = loop.now_s
        self.over = False
        self._plan = plan
        self._disk = disk
        self._process: MortalProcess | None = None
        self._keys = 0

    async def run(self) -> None:
        """All of it."""
        living, script = asyncio.create_task(self._live()), asyncio.create_task(self.play.script(ScriptStage(self)))
        wait_s = LOOK_MIN_S
        while not (living.done() or (script.done() and self._has_ended())):
            await asyncio.sleep(wait_s)
            wait_s = min(wait_s * 1.5, LOOK_MAX_S)
        self.over = True
        if self._process is not None:
            self._process.gate.kill()
            await self._process.bury()
        living.cancel()
        if script.done():
            script.result()

    async def _live(self) -> None:
        """One process after the other."""
        for number, crash in enumerate((*self._plan, None), 1):
            process = self._process = MortalProcess(self, number, crash)
            self.lives.append(process.store.writes)
            await process.died.wait()
            if not process.gate.dead:
                self.auditor.complain(f"process {number} ended by itself: {process.running}")
                return
            await process.bury()
            while any(lease.alive for lease in await self.store.leases()):  # nothing tells of it but asking
                await asyncio.sleep(1.0)

    def _has_ended(self) -> bool:
        return len(self.lives) > len(self._plan) and not self.store.left and all(head.ended_at_s is not None for head in self.store.heads_now())

    # what happens in it

    async def start(self, key: Key, value: bytes) -> None:
        """Start an execution in the first process that lives for long enough."""
        while True:
            process = self._process
            if process is None or process.gate.dead or not process.engine.joined:
                await asyncio.sleep(0.05)
                continue
            starting, died = process.spawn(process.engine.start(key, value)), asyncio.create_task(process.died.wait())
            process.starts.append(starting)
            _ = await asyncio.wait((starting, died), return_when=asyncio.FIRST_COMPLETED)
            died.cancel()
            if not process.gate.dead:
                _ = starting.result()
                return

    def next_key(self) -> str:
        """A key for what the script sends, the same in every world of the play."""
        self._keys += 1
        return f"script:{self._keys}"

    def killed(self) -> None:
        """The present process dies, now."""
        if self.over:
            return
        for known in self.auditor.known.values():
            for pending in known.shadow.opened.performing():
                self.in_flight[known.shadow.key, pending.path] += 1
                self.owed.add((known.shadow.key, pending.path))
        self._disk.crash()
        self.store.becomes(self._disk.opened(self.loop.time))

    def performs(self, step: StepInfo) -> None:
        """A try of a step begins, now."""
        self.auditor.performed(step)
        self.performed[step.execution, step.path] += 1
        self.owed.discard((step.execution, step.path))


class _MortalStore(FaultyStore):
    """The store as a process sees it that is to die at a given write. `writes` has those that took effect."""

    def __init__(self, inner: Store, gate: Gate, crash: CrashPoint | None) -> None:
        super().__init__(inner, Random(0), gate=gate)
        self.writes: list[ProcessWrite] = []
        self._crash = crash
        self._asked = 0

    async def _call(self, name: str, ask: Callable[[], Awaitable[T]], *_: object) -> T:
        await self._travel()
        self._asked += name in _WRITES
        number = self._asked
        if name in _WRITES:
            self._die_at(CrashPoint(number, after=False))
        answer = await ask()
        if name in _WRITES:
            if _WRITES[name](answer):
                self.writes.append(ProcessWrite(number, name))
            self._die_at(CrashPoint(number, after=True))
        await self._travel()
        return answer

    async def _travel(self) -> None:
        await self.gate.passed()
        await asyncio.sleep(LATENCY_S)
        await self.gate.passed()

    def _die_at(self, moment: CrashPoint) -> None:
        if moment == self._crash:
            self._die()


_WRITES: dict[str, Callable[[Any], bool]] = {
    "commit": lambda answers: any(isinstance(answer, Committed) for answer in answers),
    "claim": lambda claimed: bool(claimed.executions or claimed.work),
    "renew": lambda _: True,
    "relay": bool,
    "sweep": bool,
    "raise_epoch": lambda _: True,
}
"""The calls that may change the store, and whether one did, by its answer."""


def played(play: Play, plan: Sequence[CrashPoint], disk: Disk, limit_s: float = PATIENCE_S) -> PlayWorld:
    """The world of a play after its end, its processes having been killed as planned. `auditor.problems` says what should not be."""
    loop = VirtualLoop(limit_s=limit_s)
    world = PlayWorld(play, plan, disk, loop)
    problems = world.auditor.problems
    with listening(problems):
        try:
            loop.run_until_complete(world.run())
        except RuntimeError as error:
            problems.append(f"the world stopped: {error}")
        try:
            loop.close()
        except BaseExceptionGroup as others:
            problems += [f"nobody received {error!r}" for error in others.exceptions if not isinstance(error, Killed)]
    return world
