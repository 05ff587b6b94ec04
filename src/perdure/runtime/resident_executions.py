"""A warm execution: its fold and its program in memory, with the messages in hand and the calls in flight.

It may be thrown away at any time and read again from the log; the messages in hand are then delivered again.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from perdure.code.step_environment import StepControl
from perdure.core.attributes import Attributes, IndexedAttributes
from perdure.core.envelopes import Ack, QueuedMessage
from perdure.core.execution import Execution
from perdure.core.messages import ExecutionMessage
from perdure.core.operations import CallOperation
from perdure.core.paths import Key, Path
from perdure.core.values import Blob
from perdure.runtime.store_clock import StoreClock
from perdure.runtime.workflow_programs import Workflow, WorkflowProgram


class InHandMessage(msgspec.Struct, frozen=True, gc=False):
    """A message to be decided on; with `mail`, it came from the store and is acknowledged with the decision."""

    message: ExecutionMessage
    mail: QueuedMessage | None = None

    def acks(self) -> tuple[Ack, ...]:
        """The acknowledgement of its mail, if it came by mail."""
        return () if self.mail is None else (Ack(self.mail.to, self.mail.key),)


class InFlightCall(msgspec.Struct, gc=False):
    """A try that this process makes: its number, the task that makes it (None: it has been answered), and what the step knows of its life."""

    attempt: int
    task: asyncio.Task[Any] | None = None
    life: StepControl | None = None
    is_cancelled: bool = False

    def live(self, life: StepControl) -> StepControl:
        """The step begins: from now on it can be told that nobody waits for it any more, perhaps at once."""
        life.over = self.is_cancelled
        self.life = life
        return life

    def cancel(self) -> None:
        """Tell the step that nobody waits for it any more."""
        self.is_cancelled = True
        if self.life is not None:
            self.life.over = True

    def end(self) -> None:
        """Interrupt the step, if it can be interrupted."""
        self.cancel()
        if self.task is not None:
            self.task.cancel()


class ResidentExecution:
    """What an engine knows of one execution. `execution` and `program` are None when it has been evicted or thrown away.

    `born` tells who started it here the seed of its durable start, or None if it was given up before. `taken` counts the claims that
    handed it over: what the store said of its holder before the last of them may be outdated. `pinned` is the program of its head as long as it has
    not begun. `compact_from` is how many events its log is to have before compacting it is tried again. `attributes` are those that its head has, and
    `indexed` those of the fold of which they were made, if they were made here. `leaving`: it is to be let go once it is not held any more. `postponing` is
    what the next commit postpones: mail that was handed over and can't be read. `workflow` is what runs it, `needs` the capabilities that it needs by its
    `definition`.
    `defect` is why its program can't go on here, though its log does not say so yet: it is parked for that.
    `lives` are those of tries in flight whose time is bounded.
    """

    __slots__ = (
        "attributes",
        "born",
        "busy",
        "compact_from",
        "created_at_s",
        "defect",
        "definition",
        "execution",
        "exists",
        "flights",
        "held",
        "in_hand",
        "indexed",
        "key",
        "leaving",
        "lives",
        "log_bytes",
        "needs",
        "pinned",
        "postponing",
        "program",
        "taken",
        "threads",
        "timer",
        "touched_s",
        "undecided",
        "version",
        "workflow",
    )

    def __init__(self, key: Key, exists: bool) -> None:
        self.key = key
        self.exists = exists
        self.born: asyncio.Future[int | None] | None = None
        self.execution: Execution | None = None
        self.program: WorkflowProgram | None = None
        self.version = 0
        self.pinned = ""
        self.attributes: IndexedAttributes = ()
        self.indexed: Attributes | None = None
        self.log_bytes = 0
        self.held = True
        self.busy = False
        self.undecided: deque[InHandMessage] = deque()
        self.in_hand: set[int] = set()
        self.postponing: list[Ack] = []
        self.flights: dict[Path, InFlightCall] = {}
        self.lives: dict[Path, StepControl] = {}
        self.threads: dict[Path, asyncio.Future[Any]] = {}
        self.timer: asyncio.TimerHandle | None = None
        self.touched_s = 0.0
        self.taken = 0
        self.compact_from = 0
        self.workflow: Workflow | None = None
        self.needs: frozenset[str] = frozenset()
        self.definition: Blob | None = None
        self.created_at_s = 0.0
        self.leaving = False
        self.defect = ""

    @property
    def parks(self) -> bool:
        """Whether the coming commit leaves nothing for this process to do for the execution, so that it is given back with it."""
        return self.execution is not None and not self.undecided and not self.threads and not self.execution.opened.performed

    def bear(self) -> None:
        """Tell who has started the execution that it is durable, and with which seed."""
        if self.born is not None and not self.born.done() and self.execution is not None and self.execution.started is not None:
            self.born.set_result(self.execution.started.seed)

    def put(self, item: InHandMessage) -> None:
        """Take a message in hand, unless it is already."""
        if item.mail is not None:
            if item.mail.number in self.in_hand:
                return
            self.in_hand.add(item.mail.number)
        self.undecided.append(item)

    def put_first(self, item: InHandMessage) -> None:
        """Take a message in hand before all others, also if it is among them."""
        self.undecided = deque(one for one in self.undecided if one.mail is None or item.mail is None or one.mail.number != item.mail.number)
        self.undecided.appendleft(item)
        if item.mail is not None:
            self.in_hand.add(item.mail.number)

    def put_back(self, items: list[InHandMessage]) -> None:
        """Put messages that were not decided on durably in front again."""
        self.undecided.extendleft(reversed(items))

    def drop_messages(self) -> None:
        """Leave what is in hand to whoever is handed it next."""
        self.undecided.clear()
        self.in_hand.clear()
        self.postponing.clear()

    def forget(self) -> None:
        """Let the fold and the program go; what is in flight goes on."""
        if self.program is not None:
            self.program.close()
        self.execution = self.program = self.definition = None
        self.log_bytes = 0

    def abandon(self) -> None:
        """Let everything go: somebody else has the execution, or nobody wants it any more."""
        self.forget()
        self.held = False
        if self.born is not None and not self.born.done():
            self.born.set_result(None)
        self.drop_messages()
        self.stop_timer()
        for flight in self.flights.values():
            flight.end()
        self.flights.clear()
        self.lives.clear()

    def young(self, now_s: float) -> dict[Path, float]:
        """The tries that began here so lately that their time, or that of their heartbeat, is not over at `now_s`, each with when it is.

        Their execution counts that time from when they were decided on. The process may have stood still between that and their beginning, and the
        commit in between may have taken long. Times are those of the monotonic clock.
        """
        opened = {} if self.execution is None else self.execution.open
        young = {}
        for path, life in self.lives.items():
            pending = opened.get(path)
            if pending is None or pending.state != "performing" or not isinstance(pending.op, CallOperation) or pending.due_s in (None, pending.grace_until_s):
                continue
            has_s = pending.op.timeout_s if pending.due_s == pending.until_s else pending.op.heartbeat_s
            if has_s is not None and life.began_s + has_s > now_s:
                young[path] = life.began_s + has_s
        return young

    def wake_at(self, clock: StoreClock, now_s: float) -> float | None:
        """When time alone will make it go on, by the store's clock, where the monotonic one says `now_s`; of tries that are young, when they are no more."""
        due_s = None if self.execution is None else self.execution.wake_at(self.threads.keys())
        if self.execution is None or due_s is None or clock.at(due_s) > now_s or not (young := self.young(now_s)):
            return due_s
        other_s = self.execution.wake_at(self.threads.keys(), young.keys())
        end_s = clock.surely_past(min(young.values()))
        return end_s if other_s is None else min(end_s, other_s)

    def stop_timer(self) -> None:
        """Wait for no time."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


MEMORY_PER_LOG_BYTE = 8
"""How much memory an execution takes for each byte of its log, by rule of thumb: events, settlements, the stack of its program."""

MEMORY_MIN_BYTES = 16_384


class ResidentCache:
    """The executions in memory. When all together take more than `memory_bytes_max`, those that have waited longest leave. `left` is told of each that does."""

    def __init__(self, memory_bytes_max: int, left: Callable[[Key], None]) -> None:
        self._memory_bytes_max = memory_bytes_max
        self._left = left
        self._residents: dict[Key, ResidentExecution] = {}
        self._weights: dict[Key, int] = {}
        self._memory_bytes = 0

    def __iter__(self) -> Iterator[ResidentExecution]:
        return iter(self._residents.values())

    def __len__(self) -> int:
        return len(self._residents)

    def get(self, key: Key) -> ResidentExecution | None:
        """The execution of this key, if it is here."""
        return self._residents.get(key)

    def add(self, resident: ResidentExecution) -> ResidentExecution:
        """Take in an execution that is not here yet."""
        self._residents[resident.key] = resident
        return resident

    def drop(self, resident: ResidentExecution) -> None:
        """Let an execution go, unless another has taken its place."""
        resident.abandon()
        if self._residents.get(resident.key) is resident:
            del self._residents[resident.key]
            self._memory_bytes -= self._weights.pop(resident.key, 0)
            self._left(resident.key)

    def clear(self) -> None:
        """Let all go."""
        for resident in list(self):
            self.drop(resident)

    def evict(self, now_s: float, idle_s: float) -> None:
        """Let go those that have waited for as long; what is to happen next to each, the store knows."""
        for resident in self._idle():
            if now_s - resident.touched_s >= idle_s:
                self.drop(resident)

    def weigh(self, resident: ResidentExecution) -> None:
        """Take note of what an execution has grown to, if it is here, and make room if it is too much."""
        if self._residents.get(resident.key) is not resident:
            return
        weight = MEMORY_MIN_BYTES + resident.log_bytes * MEMORY_PER_LOG_BYTE
        self._memory_bytes += weight - self._weights.get(resident.key, 0)
        self._weights[resident.key] = weight
        if self._memory_bytes > self._memory_bytes_max:
            for idle in sorted(self._idle(), key=lambda idle: idle.touched_s):
                self.drop(idle)
                if self._memory_bytes <= self._memory_bytes_max / 2:
                    return

    def _idle(self) -> list[ResidentExecution]:
        return [resident for resident in self if not (resident.busy or resident.held or resident.undecided)]
