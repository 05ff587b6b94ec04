"""The cache of resident executions: their state and program in memory, with the messages received and the attempts in flight.

A resident execution may be discarded at any time and rebuilt from the log; its undecided messages are then delivered again.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from perdure.code.step_environment import StepControl
from perdure.core.attributes import Attributes, IndexedAttributes
from perdure.core.decision import DecisionGenerator, ExecutionDecision
from perdure.core.envelopes import Ack, QueuedMessage
from perdure.core.execution import Execution
from perdure.core.messages import DivergeMessage, ExecutionMessage, StartMessage
from perdure.core.operations import CallOperation
from perdure.core.paths import Key, Path
from perdure.core.values import Blob
from perdure.runtime.store_clock import StoreClock
from perdure.runtime.workflow_programs import Workflow, WorkflowProgram
from perdure.stores.protocol import Commit


class UndecidedMessage(msgspec.Struct, frozen=True, gc=False):
    """A message to decide on. With `queued`, it came from the store and is acknowledged with the decision."""

    message: ExecutionMessage
    queued: QueuedMessage | None = None

    def acks(self) -> tuple[Ack, ...]:
        """Returns the acknowledgement, if the message came from the store."""
        return () if self.queued is None else (Ack(self.queued.to, self.queued.key),)


class InFlightAttempt(msgspec.Struct, gc=False):
    """An attempt in flight in this process: its number, the task in which it runs (None: it has not begun, or has been answered), and the control that the
    step sees."""

    attempt: int
    task: asyncio.Task[Any] | None = None
    control: StepControl | None = None
    is_cancelled: bool = False
    is_answered: bool = False

    def attach_control(self, control: StepControl) -> StepControl:
        """Attaches the control of a step that begins, so that the step learns of a cancellation, which may have come already."""
        control.over = self.is_cancelled
        self.control = control
        return control

    def cancel(self) -> None:
        """Marks the attempt as cancelled, which the step sees in its control."""
        self.is_cancelled = True
        if self.control is not None:
            self.control.over = True

    def answer(self) -> None:
        """Detaches the attempt from its task, which continues with other work and must not be cancelled with the attempt."""
        self.is_answered, self.task = True, None

    def end(self) -> bool:
        """Cancels the step, if it runs; returns whether it does."""
        self.cancel()
        return self.task is not None and self.task.cancel()


class PendingDecision:
    """A decision about one execution on its way to the store, and the messages that it handles.

    `deciding` is the decision on the last message, as long as it waits for a blob, and `payload` is that blob once it is loaded.
    """

    __slots__ = ("batch", "deciding", "decision", "payload", "resident")

    def __init__(self, resident: "ResidentExecution") -> None:
        self.resident = resident
        self.batch: list[UndecidedMessage] = []
        self.decision = ExecutionDecision()
        self.deciding: DecisionGenerator | None = None
        self.payload: bytes | None = None

    @property
    def is_complete(self) -> bool:
        """Whether nothing more may be decided in the same commit: a divergence parks alone, since the next message may be the one that can't be handled."""
        return not self.resident.undecided or (bool(self.batch) and isinstance(self.batch[-1].message, DivergeMessage))


class ResidentExecution:
    """The state of one execution in an engine. `execution` and `program` are None when they were evicted or discarded.

    - `start_seed` gives a start in this process the seed of the durable start, or None if the start was given up before it was durable.
    - `claim_count` counts the claims that assigned the execution: an answer about its holder from before the last claim may be outdated. `claims_before` is
      this count when the store was last asked to commit or read it.
    - `pinned` is the program in the head as long as the execution has not begun.
    - `compact_from` is the number of logged events from which compaction is attempted again.
    - `attributes` are those in the head, and `indexed` those of the fold that they were made from, if they were made here.
    - `is_timeless` says that, as of the last commit made here, no time will wake it.
    - `has_cancelled_step` says that a step was cancelled in this turn of the event loop, and has not seen it yet.
    - `drop_when_released` marks an evicted execution. `postponing` has the unreadable messages that the next commit postpones.
    - `workflow` runs the execution; `needs` are the capabilities that it needs with its `definition`.
    - `claimed_at_s` is when the claim that is not decided on yet was answered, by the loop; 0 if there is none, or no observer asks.
    - `defect` is why its program can't be advanced here; the next decision parks it with this reason.
    - `pending` is the decision that is being made or committed. `retry_wait_s` is the last wait after an error of the store.
    - `weight_bytes` is the memory that it is estimated to take, as counted by its cache.
    - `step_controls` has the controls of attempts in flight that have a timeout. `received_numbers` has the numbers of undecided messages of the store.
    """

    __slots__ = (
        "attributes",
        "busy",
        "claim_count",
        "claimed_at_s",
        "claims_before",
        "compact_from",
        "created_at_s",
        "defect",
        "definition",
        "drop_when_released",
        "execution",
        "exists",
        "has_cancelled_step",
        "held",
        "in_flight",
        "indexed",
        "is_timeless",
        "key",
        "last_active_s",
        "log_bytes",
        "needs",
        "pending",
        "pinned",
        "postponing",
        "program",
        "received_numbers",
        "retry_wait_s",
        "start_seed",
        "step_controls",
        "threads",
        "timer",
        "undecided",
        "version",
        "weight_bytes",
        "workflow",
    )

    def __init__(self, key: Key, exists: bool) -> None:
        self.key = key
        self.exists = exists
        self.start_seed: asyncio.Future[int | None] | None = None
        self.execution: Execution | None = None
        self.program: WorkflowProgram | None = None
        self.version = 0
        self.pinned = ""
        self.attributes: IndexedAttributes = ()
        self.indexed: Attributes | None = None
        self.log_bytes = 0
        self.held = True
        self.busy = False
        self.undecided: deque[UndecidedMessage] = deque()
        self.received_numbers: set[int] = set()
        self.postponing: list[Ack] = []
        self.in_flight: dict[Path, InFlightAttempt] = {}
        self.step_controls: dict[Path, StepControl] = {}
        self.threads: dict[Path, asyncio.Future[Any]] = {}
        self.timer: asyncio.TimerHandle | None = None
        self.last_active_s = 0.0
        self.claim_count = self.claims_before = 0
        self.claimed_at_s = 0.0
        self.compact_from = 0
        self.workflow: Workflow | None = None
        self.needs: frozenset[str] = frozenset()
        self.definition: Blob | None = None
        self.created_at_s = 0.0
        self.drop_when_released = self.has_cancelled_step = self.is_timeless = False
        self.weight_bytes = 0
        self.defect = ""
        self.pending: PendingDecision | None = None
        self.retry_wait_s = 0.0

    @property
    def is_releasable(self) -> bool:
        """Whether nothing remains to be done here after the next commit, so that the commit may also release the execution."""
        return self.execution is not None and not self.undecided and not self.threads and not self.execution.opened.performed

    def resolve_start_seed(self) -> None:
        """Resolves `start_seed` with the seed of the start, which is now durable."""
        if self.start_seed is not None and not self.start_seed.done() and self.execution is not None and self.execution.started is not None:
            self.start_seed.set_result(self.execution.started.seed)

    def put(self, item: UndecidedMessage) -> None:
        """Adds a message, unless it was received already."""
        if item.queued is not None:
            if item.queued.number in self.received_numbers:
                return
            self.received_numbers.add(item.queued.number)
        self.undecided.append(item)

    def put_first(self, item: UndecidedMessage) -> None:
        """Adds a message before all others, or moves it there."""
        self.undecided = deque(one for one in self.undecided if one.queued is None or item.queued is None or one.queued.number != item.queued.number)
        self.undecided.appendleft(item)
        if item.queued is not None:
            self.received_numbers.add(item.queued.number)

    def put_back(self, items: list[UndecidedMessage]) -> None:
        """Returns messages whose decision was not committed to the front."""
        self.undecided.extendleft(reversed(items))

    def record_commit(self, commit: Commit, version: int) -> None:
        """Records that the store has accepted `commit`, after which the execution has this version."""
        self.version, self.exists, self.held = version, True, not commit.release
        if self.postponing:
            self.postponing = [ack for ack in self.postponing if ack not in commit.acks]
        self.log_bytes = len(commit.row) + (self.log_bytes if commit.compacted is None else len(commit.compacted))

    def drop_late_start(self) -> None:
        """Drops a start of this process if the store turns out to have the execution: the start that is stored there was acknowledged before."""
        self.undecided = deque(one for one in self.undecided if one.queued is not None or not isinstance(one.message, StartMessage))
        if self.start_seed is not None and not self.start_seed.done():
            self.start_seed.set_result(None)

    def drop_undecided(self) -> None:
        """Drops the undecided messages; the next claim delivers them again."""
        self.undecided.clear()
        self.received_numbers.clear()
        self.postponing.clear()

    def discard_state(self) -> None:
        """Discards the state and the program; attempts in flight continue."""
        if self.program is not None:
            self.program.close()
        self.execution = self.program = self.definition = None
        self.log_bytes, self.is_timeless = 0, False

    def discard(self) -> None:
        """Discards everything and ends the attempts in flight, because another engine holds the execution or it has left the cache."""
        self.discard_state()
        self.held = False
        if self.start_seed is not None and not self.start_seed.done():
            self.start_seed.set_result(None)
        self.drop_undecided()
        self.stop_timer()
        for running in self.in_flight.values():
            _ = running.end()
        self.in_flight.clear()
        self.step_controls.clear()

    def young(self, now_s: float) -> dict[Path, float]:
        """Returns the attempts that began here so recently that their timeout or heartbeat has not passed at `now_s`, each with the time at which it will.

        The execution counts their time from the decision to begin them. But the commit may have taken long, or the process may have been suspended, before
        they began. Times are those of the monotonic clock.
        """
        opened = {} if self.execution is None else self.execution.open
        young = {}
        for path, control in self.step_controls.items():
            pending = opened.get(path)
            if (
                pending is None
                or pending.state != "performing"
                or not isinstance(pending.op, CallOperation)
                or pending.due_at_s in (None, pending.grace_until_s)
            ):
                continue
            has_s = pending.op.timeout_s if pending.due_at_s == pending.until_s else pending.op.heartbeat_s
            if has_s is not None and control.began_s + has_s > now_s:
                young[path] = control.began_s + has_s
        return young

    def wake_at(self, clock: StoreClock, monotonic: Callable[[], float]) -> float | None:
        """Returns when the next timer is due, by the clock of the store; young attempts count from when they began, by the `monotonic` clock."""
        due_s = None if self.execution is None else self.execution.wake_at(self.threads.keys())
        if self.execution is None or due_s is None:
            return None
        now_s = monotonic()
        if clock.at(due_s) > now_s or not (young := self.young(now_s)):
            return due_s
        other_s = self.execution.wake_at(self.threads.keys(), young.keys())
        end_s = clock.surely_past(min(young.values()))
        return end_s if other_s is None else min(end_s, other_s)

    def stop_timer(self) -> None:
        """Cancels the wake-up timer."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


MEMORY_PER_LOG_BYTE = 8
"""An estimate of the memory that an execution takes for each byte of its log: events, outcomes, the stack of its program."""

MEMORY_MIN_BYTES = 16_384


class ResidentCache:
    """The executions in memory. When they take more than `memory_bytes_max`, the longest idle ones are evicted. `on_dropped` is called for each."""

    def __init__(self, memory_bytes_max: int, on_dropped: Callable[[Key], None]) -> None:
        self._memory_bytes_max = memory_bytes_max
        self._on_dropped = on_dropped
        self._residents: dict[Key, ResidentExecution] = {}
        self._memory_bytes = 0

    def __iter__(self) -> Iterator[ResidentExecution]:
        return iter(self._residents.values())

    def __len__(self) -> int:
        return len(self._residents)

    def get(self, key: Key) -> ResidentExecution | None:
        """Returns the execution of this key, if it is resident."""
        return self._residents.get(key)

    def add(self, resident: ResidentExecution) -> ResidentExecution:
        """Adds an execution that is not resident."""
        self._residents[resident.key] = resident
        return resident

    def drop(self, resident: ResidentExecution) -> None:
        """Removes an execution, unless another object has taken its place."""
        resident.discard()
        if self._residents.get(resident.key) is resident:
            del self._residents[resident.key]
            self._memory_bytes -= resident.weight_bytes
            resident.weight_bytes = 0
            self._on_dropped(resident.key)

    def clear(self) -> None:
        """Removes all executions."""
        for resident in list(self):
            self.drop(resident)

    def evict(self, now_s: float, idle_s: float) -> None:
        """Removes executions that have been idle for `idle_s`. Their heads say when to wake them."""
        for resident in self._idle():
            if now_s - resident.last_active_s >= idle_s:
                self.drop(resident)

    def weigh(self, resident: ResidentExecution) -> None:
        """Updates the estimated size of a resident execution, and evicts idle ones if the total is too large."""
        if self._residents.get(resident.key) is not resident:
            return
        weight_bytes = MEMORY_MIN_BYTES + resident.log_bytes * MEMORY_PER_LOG_BYTE
        self._memory_bytes += weight_bytes - resident.weight_bytes
        resident.weight_bytes = weight_bytes
        if self._memory_bytes > self._memory_bytes_max:
            for idle in sorted(self._idle(), key=lambda idle: idle.last_active_s):
                self.drop(idle)
                if self._memory_bytes <= self._memory_bytes_max / 2:
                    return

    def _idle(self) -> list[ResidentExecution]:
        return [resident for resident in self if not (resident.busy or resident.held or resident.undecided)]
