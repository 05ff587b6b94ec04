"""The machine of a world: one process with its engines, which can be killed and replaced, and a store that outlives it.

The engines are real ones in virtual time. Notifications and timers wake them for everything that is due, so they need not poll. A killed process counts as
dead at once: between two moments of virtual time, everything comes to rest by itself.
"""

import asyncio
import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random
from typing import Any, NamedTuple

from perdure.code.step_environment import StepInfo
from perdure.core import log_format
from perdure.core.event_trace import EventTracer, TraceLine
from perdure.core.operations import Outcome
from perdure.core.paths import Key
from perdure.core.values import Blob, Value
from perdure.runtime.engine import Engine
from perdure.runtime.step_runner import StepRunner
from perdure.runtime.workflow_programs import Workflow
from perdure.stores.memory import MemoryStore
from perdure.stores.protocol import ChangeAnswer, Commit, Committed, Head, HeadFilter, Post, StoredLog
from perdure.testing.crash_points import CrashPoint
from perdure.testing.faults import FaultyStore, Gate, Killed
from perdure.testing.immediate_calls import run_immediately
from perdure.testing.virtual_time import VirtualLoop

DAY_S = 86_400.0
POLL_S, LEASE_S = DAY_S, 10 * DAY_S
"""An idle engine reads the store once per day of virtual time."""

IDLE_S = 60.0
ENDED = frozenset(("completed", "failed", "cancelled"))
EVERYTHING = HeadFilter(limit=sys.maxsize)


class DurableWrite(NamedTuple):
    """A durable write of an engine: its number in the world, from 1, the execution, and a description."""

    number: int
    key: Key
    said: str

    def __str__(self) -> str:
        return f"write {self.number} ({self.key}: {self.said})"


class EveryQueue(frozenset[str]):
    """A set that contains every queue name, so that steps on any queue are performed here."""

    __slots__ = ()

    def __contains__(self, _: object) -> bool:
        return True


class WitnessedStore(FaultyStore):
    """The store as a process sees it. It counts durable writes, and kills the process at the crash point."""

    def __init__(self, machine: "Machine", gate: Gate) -> None:
        super().__init__(machine.store, Random(0), gate=gate)
        self._machine = machine

    async def commit(self, changes: Sequence[Commit | Post]) -> list[ChangeAnswer]:
        """See `Store.commit`."""
        await self.gate.passed()
        write = self._machine.next_write(changes)
        self._may_die(write, after=False)
        answers = await self.inner.commit(changes)
        if all(isinstance(answer, Committed) for answer in answers):
            self._machine.writes.append(write)
            self._may_die(write, after=True)
        return answers

    def _may_die(self, write: DurableWrite, after: bool) -> None:
        if self._machine.crash_at == CrashPoint(write.number, after):
            self._machine.crashed_at = write
            self._die()


class MachineProcess:
    """One process of the machine: engines on its store, until they are stopped or killed."""

    def __init__(self, machine: "Machine", number: int) -> None:
        self.number = number
        self.gate = Gate(machine.died)
        self.store = WitnessedStore(machine, self.gate)
        self.engines: list[Engine] = []
        self.tasks: list[asyncio.Task[None]] = []
        self._machine = machine

    def start_engine(self, codes: Iterable[Workflow]) -> None:
        """Starts one more engine for these workflows."""
        idle_s = 0.0 if self._machine.always_suspend else IDLE_S
        holder = f"process{self.number}.{len(self.engines) + 1}"
        engine = Engine(self.store, codes, holder=holder, lease_s=LEASE_S, poll_s=POLL_S, idle_s=idle_s, seed=lambda: 7)
        engine.queues = EveryQueue()
        engine.runner.choose = self._machine.loop.choose
        engine.perform = self._perform
        self.engines.append(engine)
        self.tasks.append(self._machine.loop.create_task(engine.run(), name=holder))

    async def _perform(self, fn: Any, args: Value, info: StepInfo, *others: Any) -> Outcome:
        await self.gate.passed()  # a killed process begins no attempt
        return await self._machine.perform(fn, args, info, *others)

    async def remove(self) -> None:
        """Ends the tasks of a killed process, and expires its leases in the store."""
        while left := [task for task in (*self.tasks, *(task for engine in self.engines for task in engine._tasks)) if not task.done()]:
            await self._machine.loop.kill(left)
        for engine in self.engines:
            await self._machine.store.renew(engine.holder, 0)

    def has_attempts_in_flight(self) -> bool:
        """Whether attempts are in flight."""
        return any(not running.is_answered for engine in self.engines for resident in engine._residents for running in resident.in_flight.values())

    def timers_s(self) -> Iterator[float]:
        """The due times of the timers of resident executions."""
        return (
            resident.timer.when() for engine in self.engines for resident in engine._residents if resident.timer is not None and not resident.timer.cancelled()
        )


class Machine:
    """Keeps a process alive on a store: when one was killed, the next begins at the same moment.

    The process is killed at `crash`, if given, and `crashed_at` is then the write. `between` is called between two processes.
    """

    def __init__(self, loop: VirtualLoop, perform: StepRunner, *, always_suspend: bool = False, crash: CrashPoint | None = None) -> None:
        self.loop = loop
        self.perform = perform
        self.always_suspend = always_suspend
        self.store = MemoryStore(loop.time)
        self.codes: dict[str, Workflow] = {}
        self.writes: list[DurableWrite] = []
        self.notes: list[TraceLine] = []
        self.crash_at = crash
        self.crashed_at: DurableWrite | None = None
        self.between: Callable[[], None] = lambda: None
        self._asked = 0
        self._over = False
        self._tracers: dict[Key, EventTracer] = {}
        self._quiet = _Quiet()
        logging.getLogger("perdure.engine").addFilter(self._quiet)
        self.process = MachineProcess(self, 1)

    # Running

    def install(self, codes: Iterable[Workflow]) -> None:
        """Registers more workflows."""
        fresh = {code.name: code for code in codes if code.name not in self.codes}
        self.codes |= fresh
        if fresh:
            self.process.start_engine(fresh.values())

    def settle(self, until_s: float, handles_max: int) -> None:
        """Runs everything that happens by itself, with time passing up to `until_s`.

        Raises:
            TooLong: it took more than `handles_max` callbacks.
        """
        self.loop.settle(until_s, handles_max)
        for task in self.process.tasks:
            if task.done() and not self.process.gate.dead and not task.cancelled():
                task.result()

    def next_s(self) -> float | None:
        """The next time at which something happens by itself; None if nothing ever does."""
        now_s = self.loop.now_s
        due_s = [at_s for head in self.heads() for at_s in (head.wake_at_s, head.message_at_s) if head.status not in ENDED and at_s is not None]
        due_s += self.process.timers_s()
        if self.process.has_attempts_in_flight():
            due_s.append(self.loop.next_s())
        return min((at_s for at_s in due_s if at_s > now_s), default=None)

    # Processes

    def kill(self) -> None:
        """Kills the process at once; another takes over at the same moment."""
        self.process.gate.kill()

    def died(self) -> None:
        """Records the kill and starts the next process. The gate of the process calls it."""
        if not self._over:
            at = "" if self.crashed_at is None or self.crash_at is None else f" {'after' if self.crash_at.after else 'before'} {self.crashed_at}"
            self.note(f"the process was killed{at}; another takes over")
            self.loop.call_soon(lambda: self.loop.create_task(self._take_over(), name="take over"))

    async def _take_over(self) -> None:
        await self.process.remove()
        self.begin_next_process()

    async def stop(self) -> None:
        """Stops the process in an orderly way: attempts in flight are given back."""
        for engine in self.process.engines:
            engine.stop()
        _ = await asyncio.wait(self.process.tasks)

    def begin_next_process(self) -> None:
        """Begins the next process with all registered workflows."""
        self.between()
        self.process = MachineProcess(self, self.process.number + 1)
        self.process.start_engine(self.codes.values())

    def close(self) -> list[BaseException]:
        """Ends the machine; returns the errors that were not handled."""
        self._over = True
        self.process.gate.kill()
        try:
            self.loop.close()
        except BaseExceptionGroup as others:
            return [error for error in others.exceptions if not isinstance(error, Killed)]
        finally:
            logging.getLogger("perdure.engine").removeFilter(self._quiet)
        return []

    # Observations

    def note(self, said: str) -> None:
        """Adds a line to the trace."""
        self.notes.append(TraceLine(self.loop.now_s, "", said))

    def next_write(self, changes: Sequence[Commit | Post]) -> DurableWrite:
        """The write that an engine, or one of Perdure's own steps, is about to make."""
        self._asked += 1
        commits = [change for change in changes if isinstance(change, Commit)]
        lines = [line for commit in commits if commit.row for line in self._tracer(commit.key).describe(log_format.decode_row(commit.row))]
        sent = [send for change in changes if isinstance(change, Post) for send in change.messages if isinstance(send.to, Key)]
        if not commits and sent:
            return DurableWrite(self._asked, sent[0].to, f"is sent {sent[0].key}")  # type: ignore[arg-type]  # the filter above admits keys only
        records = [one.key for change in changes if isinstance(change, Post) for one in change.records]
        if not commits and records:
            return DurableWrite(self._asked, Key(*records[0]), "is a record that is kept")
        said = "; ".join(f"{line.subject} {line.said}".strip() for line in lines) or "its head alone"
        return DurableWrite(self._asked, commits[0].key, said)

    def _tracer(self, key: Key) -> EventTracer:
        if key not in self._tracers:
            self._tracers[key] = EventTracer()
        return self._tracers[key]

    def heads(self) -> list[Head]:
        """All executions, the earliest created first."""
        return run_immediately(self.store.heads(EVERYTHING))[::-1]

    def head(self, key: Key) -> Head | None:
        """The head of an execution."""
        found = run_immediately(self.store.read(key, sys.maxsize))
        return None if found is None else found.head

    def read(self, key: Key) -> StoredLog | None:
        """The log of an execution."""
        return run_immediately(self.store.read(key))

    def payload(self, value: Value) -> bytes:
        """The bytes of a value, from its blob if it is large."""
        if not isinstance(value, Blob):
            return value
        return run_immediately(self.store.blob(value.sha256)) or b"\xc0"


class _Quiet(logging.Filter):
    """Drops the log records of killed processes."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], Killed))
