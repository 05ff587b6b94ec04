"""Decides what one message does to an execution: every rule about that is here.

`decide` performs no I/O. It is a generator: when the program needs a value that is stored as a blob, it yields `LoadBlob` and is sent the payload; at
the end it returns an `ExecutionDecision`. Late and repeated messages yield no event.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from perdure.core import attempt_rules, envelopes, error_codes, limits, messages
from perdure.core import events as e
from perdure.core.deduplication import same_parent
from perdure.core.effects import effects_of
from perdure.core.errors import Diverged, ErrorInfo
from perdure.core.execution import Execution, iteration_holds_open
from perdure.core.failure_causes import DEAD_STATUSES
from perdure.core.messages import ExecutionMessage
from perdure.core.operation_state import PendingOperation
from perdure.core.operations import (
    CallOperation,
    Failure,
    KeepOperation,
    Operation,
    Outcome,
    ReceiveOperation,
    SendOperation,
    SleepOperation,
    SpawnOperation,
    Success,
    operation_kind,
)
from perdure.core.paths import Path
from perdure.core.program import DropCommand, FinishCommand, LogCommand, OpenCommand, Program, ProgramCommand, TrimCommand
from perdure.core.replay import LoadBlob, blobs_read, events_fed
from perdure.core.time_bounds import TimeBounds
from perdure.core.undo_plan import failed_undos
from perdure.core.values import Value, offload_if_large, put_blob


class DecisionContext(msgspec.Struct, frozen=True):
    """The engine that makes the decision, as far as the rules depend on it.

    The `holder` performs calls on `queues` itself, from the commit that opens them. `versions` are the versions of workflows that are started without a
    pinned one. At the `busy` paths an earlier attempt still runs in a thread, so no further one may begin there. The attempts at the `young` paths began so
    lately that their time is not over, although their execution, which counts from the decision, expects it. Compaction keeps what it replaces for
    executions of the workflows in `archives`.
    """

    holder: str
    queues: frozenset[str] = frozenset(("",))
    versions: Mapping[str, int] = msgspec.field(default_factory=dict)
    busy: frozenset[Path] = frozenset()
    archives: frozenset[str] = frozenset()
    young: frozenset[Path] = frozenset()

    def takes(self, op: CallOperation) -> str | None:
        """Returns the holder if it performs the call itself."""
        return self.holder if op.queue in self.queues and not op.limited else None


_ROUTINE_EVENTS = frozenset((e.StartedEvent, e.OpenedEvent, e.SettledEvent, e.AttemptStartedEvent, e.RetryingEvent))


class ExecutionDecision(msgspec.Struct, gc=False):
    """The result of deciding: events to append, messages to send, acknowledgements, blobs to store, and log lines to write once all is durable.

    `is_routine` says that the events only begin, open and settle operations and keep no value: nothing that anyone outside could be waiting for.
    """

    events: list[e.Event] = msgspec.field(default_factory=list)
    messages: list[envelopes.OutgoingMessage] = msgspec.field(default_factory=list)
    acks: list[envelopes.Ack] = msgspec.field(default_factory=list)
    blobs: dict[str, bytes] = msgspec.field(default_factory=dict)
    lines: list[LogCommand] = msgspec.field(default_factory=list)
    is_routine: bool = True

    def add(self, later: "ExecutionDecision") -> None:
        """Adds what was decided on a later message in the same commit."""
        self.events += later.events
        self.messages += later.messages
        self.acks += later.acks
        self.lines += later.lines
        self.blobs.update(later.blobs)
        self.is_routine &= later.is_routine

    def without_unsent_work(self) -> tuple[tuple[envelopes.OutgoingMessage, ...], tuple[envelopes.Ack, ...]]:
        """Returns the messages and acknowledgements to commit, without work that is both sent and taken back: no worker has leased it."""
        if not self.messages:
            return (), tuple(self.acks)
        sends, acks = {(send.to, send.key): send for send in self.messages}, list[envelopes.Ack]()
        for ack in self.acks:
            if sends.pop((ack.to, ack.key), None) is None:
                acks.append(ack)
            elif ack.unleased is not None:
                sends[ack.unleased.to, ack.unleased.key] = ack.unleased
        return tuple(sends.values()), tuple(acks)


DecisionGenerator = Generator[LoadBlob, bytes, ExecutionDecision]


def decide(execution: Execution, message: ExecutionMessage, program: Program, now: TimeBounds, host: DecisionContext, number: int = 0) -> DecisionGenerator:
    """Folds one message into `execution`, run `program` until it waits, and returns the decision.

    Events are stamped, and deadlines counted, at the latest time that `now` can be, and not before the last event; the earliest decides what is due.
    `number` is that of the message in the store (0: it is not stored). Execution and program are ahead of the store until the decision is committed; if the
    commit fails, both must be discarded.
    """
    draft = _DecisionDraft(execution, program, now.not_before(execution.now_s), host)
    draft.number = number
    if execution.removed is not None and not isinstance(message, messages.StartMessage | messages.UndoMessage):
        return draft.decision  # its log was removed, so no message has an effect; an execution that would wait for this one receives the failure
    for event in _MESSAGE_HANDLERS[type(message)](draft, message):
        happens: e.Event | None = event
        while happens is not None:
            for fed in draft.take(happens):
                values: dict[str, bytes] = {}
                for blob in blobs_read(execution, fed):
                    raw = draft.decision.blobs.get(blob.sha256)
                    values[blob.sha256] = raw if raw is not None else (yield LoadBlob(blob))
                if not draft.feed(fed, values):
                    break
            happens = draft.follows_at_once()
    return draft.decision


TOO_MUCH_TO_UNDO = (
    f"more than {limits.UNDO_ENTRIES_MAX:,} operations of forgotten iterations would have to be undone if the execution failed. "
    "Limit how many iterations are undone (code: ctx.loop(undo_keep=N), definitions: repeat: {undo: {keep: N}}), or mark where nothing before is "
    "undone any more (ctx.commit(), commit: true); then resume the execution"
)
"""The reason with which an execution parks when its loops hold more operations to undo than the limit."""

_LARGE_FIELDS: Mapping[type[Operation], str] = {CallOperation: "args", KeepOperation: "value", SpawnOperation: "input", SendOperation: "body"}
"""The field of each kind of operation that may be large enough for a blob."""


class _DecisionDraft:
    """One decision while it is made. `ready` holds the open operations that may settle without waiting; `begins` the calls that this decision begins."""

    __slots__ = ("begins", "commands", "decision", "execution", "host", "is_ending", "now", "now_s", "number", "program", "ready")

    def __init__(self, execution: Execution, program: Program, now: TimeBounds, host: DecisionContext) -> None:
        self.execution = execution
        self.program = program
        self.now, self.now_s = now, now.latest_s
        self.host = host
        self.decision = ExecutionDecision()
        self.number = 0
        self.commands: Sequence[ProgramCommand] = ()
        self.is_ending: bool | None = None  # computed when an operation is dropped
        self.begins: set[Path] = set()
        self.ready: deque[Path] = deque()

    def take(self, event: e.Event) -> Sequence[e.Event]:
        """Records an external event; returns the events that the program is fed because of it."""
        self._record(event)
        if type(event) is e.MessageArrivedEvent:
            self.ready.extend(self.execution.mailbox.receivers(event.name))
        elif type(event) is e.ResumedEvent:
            self.ready.extend(self.execution.open)
        return events_fed(self.execution, event)

    def feed(self, event: e.Event, values: Mapping[str, bytes]) -> bool:
        """Feeds one event to the program, with the blobs that it reads, and carries out its commands. Returns false if the program diverged."""
        try:
            commands = self.program.feed(self.execution, event, None, values)
        except Diverged as error:
            self._record(e.ParkedEvent("diverged", self.now_s, error.diff))
            return False
        self.commands, self.is_ending = commands, None
        for command in commands:
            if self.execution.ended is None or isinstance(command, LogCommand):
                self._carry_out(command)
        if len(self.execution.retained) > limits.UNDO_ENTRIES_MAX and any(isinstance(command, TrimCommand) for command in commands):
            self._park_for_too_much_to_undo()
        return True

    def follows_at_once(self) -> e.Event | None:
        """Returns the next event that follows from those before without waiting, or None."""
        while self.ready and self.execution.ended is None:
            if len(self.decision.events) >= limits.EVENTS_PER_DECISION_MAX:
                why = f"{len(self.decision.events):,} events followed from one message: no operation had to wait. Let the loop wait in each iteration"
                self._record(e.EndedEvent("failed", Failure("failed", 1, ErrorInfo(error_codes.ENDLESS_DECISION, why)), self.now_s))
                return None
            if (following := self._at_once(self.ready.popleft())) is not None:
                return following
        return None

    def _record(self, event: e.Event) -> None:
        for effect in effects_of(self.execution, event):
            if isinstance(effect, envelopes.OutgoingMessage):
                self.decision.messages.append(effect)
            else:
                self.decision.acks.append(effect)
        self.decision.events.append(event)
        if type(event) is e.OpenedEvent:
            self.begins.add(event.path)
            if type(event.op) is KeepOperation:
                self.decision.is_routine = False
        elif type(event) is e.AttemptStartedEvent:
            self.begins.add(event.path)
        elif type(event) not in _ROUTINE_EVENTS:
            self.decision.is_routine = False
        self.execution.apply(event)

    def _carry_out(self, command: ProgramCommand) -> None:
        match command:
            case OpenCommand():
                self._open(command)
            case DropCommand(path, lost):
                received = () if path in self.execution.open else self.execution.settled[path].messages
                self._record(self._dropped(path, lost))
                for message in received:
                    self.ready.extend(self.execution.mailbox.receivers(message.name))
            case TrimCommand():
                self._trim(command)
            case FinishCommand(status, outcome, path):
                self._finish(status, outcome, path)
            case LogCommand():
                self.decision.lines.append(command)

    def _dropped(self, path: Path, lost: bool) -> e.DroppedEvent:
        """Returns the event that drops an operation. If the execution fails or is cancelled, a call in flight has a grace in which it may be answered."""
        pending = self.execution.open.get(path)
        if pending is None or not isinstance(pending.op, CallOperation) or not pending.in_flight:
            return e.DroppedEvent(path)
        if path in self.begins:
            return e.DroppedEvent(path, begun=False)
        if self.is_ending is None:
            self.is_ending = self.execution.cancelling is not None or any(map(_begins_ending, self.commands))
        grace_s = self.execution.grace_of(pending.op) if self.is_ending and not lost else 0.0
        return e.DroppedEvent(path, self.now_s + grace_s if grace_s > 0 else None)

    def _open(self, command: OpenCommand) -> None:
        path, op, number, by = command.path, self._light(command.op), 0, None
        if command.blobs:
            self.decision.blobs.update(command.blobs)
        match op:
            case CallOperation():
                by = self.host.takes(op)
            case SendOperation(to) if not self.execution.recalled_results.recalls(path, op):
                number = self.execution.sent.get(to, 0) + 1
            case SpawnOperation() if not self.execution.recalled_results.recalls(path, op):
                number = 1
            case ReceiveOperation() | SleepOperation():
                self.ready.append(path)
        self._record(e.OpenedEvent(path, op, by, number))
        if self.execution.recalled_results.recalls(path, op) and path in self.execution.open:
            self.ready.append(path)

    def _light(self, op: Operation) -> Operation:
        """Returns the operation with its large value moved to a blob."""
        name = _LARGE_FIELDS.get(type(op))
        if name is None:
            return op
        value: Value = getattr(op, name)
        if type(value) is bytes and len(value) < limits.BLOB_BYTES_MIN:
            return op
        light = offload_if_large(value, self.decision.blobs)
        return op if light is value else msgspec.structs.replace(op, **{name: light})

    def _trim(self, command: TrimCommand) -> None:
        path, before = command.path, command.before
        first = self.execution.trimmed.get(path, 0)
        end = next((turn for turn in range(first, before) if iteration_holds_open(self.execution, (*path, turn))), before)
        while end > first and (*path, end) not in self.execution.settled:
            end -= 1
        if end > first:
            self._record(e.TrimmedEvent(path, end, command.undo_before))

    def _park_for_too_much_to_undo(self) -> None:
        execution = self.execution
        if execution.parked is None and execution.ended is None and not execution.undoing:
            self._record(e.ParkedEvent("undo", self.now_s, (TOO_MUCH_TO_UNDO,)))

    def _finish(self, status: str, outcome: Outcome, path: Path) -> None:
        cancelling, completed = self.execution.cancelling, self.execution.completed
        if completed is not None:
            self._record(e.EndedEvent(completed.status, completed.outcome, self.now_s, completed.path))
        elif cancelling is not None:
            self._record(self._deadline_exceeded(cancelling.reason) if cancelling.deadline else self._cancelled(cancelling.reason))
        else:
            self._record(e.EndedEvent(status, self._light_outcome(outcome), self.now_s, path))  # type: ignore[arg-type]  # Finish has the same three words

    def _at_once(self, path: Path) -> e.Event | None:
        """Returns the event with which an open operation settles without waiting, or None."""
        pending = self.execution.open.get(path)
        if pending is None or self.execution.parked is not None:
            return None
        if self.execution.recalled_results.recalls(path, pending.op):
            return e.RecalledEvent(path, self.now_s)
        if isinstance(pending.op, SleepOperation):
            is_over = pending.op.duration_s == 0 or (pending.due_at_s is not None and self.now.is_past(pending.due_at_s))
            return e.SettledEvent(path, Success(), self.now_s) if is_over else None
        if isinstance(pending.op, ReceiveOperation):
            numbers = self.execution.mailbox.matching(pending.op)
            enough = len(numbers) >= (pending.op.limit if pending.op.gather else 1)
            return e.ReceivedEvent(path, numbers, self.now_s) if enough else None
        return None

    # The handlers below take a message and yield or return external events. The caller folds each event before it asks for the next, so one that yields sees
    # their effects.

    def start(self, message: messages.StartMessage) -> Iterator[e.Event]:
        """Begins the execution, or records a further parent that waits for its end."""
        execution = self.execution
        if execution.started is not None or execution.ended is not None:
            if message.parent is None or (execution.ended is None and message.parent in execution.watchers):
                return
            if self._goes_on_with(message.parent):
                yield e.ReopenedEvent(self.now_s, f"its parent {message.parent.key} was retried")
            if execution.started is not None or execution.ended is not None:
                yield e.WatchedEvent(message.parent, self.now_s)
                return
        if message.expires_at_s is not None and self.now.earliest_s > message.expires_at_s:
            yield e.EndedEvent("cancelled", Failure("cancelled", 1, ErrorInfo(error_codes.EXPIRED, "it did not begin before it expired")), self.now_s)
            return
        deadline_at_s = None if message.deadline_s is None else self.now_s + message.deadline_s
        value = offload_if_large(message.input, self.decision.blobs)
        definition = None if message.definition is None else put_blob(message.definition, self.decision.blobs)
        version = message.version or self.host.versions.get(execution.key.workflow, 1)
        if message.hosting is not None:
            yield e.HostedEvent(message.hosting, self.now_s)
        if message.fork is not None:
            yield e.ForkedEvent(message.fork, self.now_s)
        rules, archive = e.EVENT_RULES_VERSION, execution.key.workflow in self.host.archives
        given = (message.parent, deadline_at_s, message.origin, message.depth, message.attributes, definition, message.grace_s)
        yield e.StartedEvent(version, self.now_s, value, message.seed, *given, rules, archive, message.carried)

    def _goes_on_with(self, parent: messages.Parent) -> bool:
        """Returns whether an execution that failed, was undone or is no longer needed has to run again: `parent` was reopened since it waited last."""
        execution = self.execution
        unwanted = execution.cancelling is not None and execution.cancelling.unwanted
        was_undone = execution.completed is not None and execution.completed.status == "completed"
        in_vain = execution.ended is not None and (execution.ended.status == "failed" or was_undone or unwanted)
        return in_vain and execution.removed is None and execution.seen.wants_more(parent)

    def settle(self, message: messages.SettleMessage) -> Sequence[e.Event]:
        """Records an outcome, if the operation is open and on this attempt."""
        pending = self.execution.open.get(message.path)
        if pending is None or pending.attempt != message.attempt or pending.state not in ("waiting", "performing"):
            return ()
        if isinstance(message.outcome, Failure) and isinstance(pending.op, CallOperation):
            return (attempt_rules.event_after_failure(self.execution.key, pending, pending.op, message.outcome, self.now_s),)
        return (e.SettledEvent(pending.path, self._light_outcome(message.outcome), self.now_s),)

    def _light_outcome(self, outcome: Outcome) -> Outcome:
        if not isinstance(outcome, Success):
            return outcome
        light = offload_if_large(outcome.value, self.decision.blobs)
        return outcome if light is outcome.value else Success(light, outcome.port)

    def lost(self, message: messages.LostMessage) -> Iterator[e.Event]:
        """Records that an attempt will never be answered."""
        pending = self.execution.open.get(message.path)
        if pending is None or pending.attempt != message.attempt or pending.state not in ("waiting", "performing") or not isinstance(pending.op, CallOperation):
            return
        yield (event := attempt_rules.event_after_loss(self.execution.key, pending, pending.op, message.times, message.begun, self.now_s))
        begins_at_once = isinstance(event, e.InterruptedEvent) and not event.given_back and event.due_at_s == self.now_s
        if begins_at_once and self.execution.parked is None and message.path not in self.host.busy:
            yield self._due(pending)  # this one alone: others that are due may be lost as well, and their messages are still to come

    def progress(self, message: messages.ProgressMessage) -> Iterator[e.Event]:
        """Records the progress of the present attempt."""
        pending = self.execution.open.get(message.path)
        if pending is not None and pending.attempt == message.attempt and pending.state in ("waiting", "performing"):
            yield e.ProgressedEvent(pending.path, pending.attempt, message.body, self.now_s)

    def signal(self, message: messages.SignalMessage) -> Iterator[e.Event]:
        """Puts a message into the mailbox, once."""
        execution = self.execution
        if execution.ended is not None or execution.seen.knows(message.sender, message.sent, message.key, self.now.earliest_s):
            return
        if len(execution.mailbox) >= limits.MAILBOX_MESSAGES_MAX:
            yield e.MessageRefusedEvent(self.number, message.name, self.now_s, message.key, message.sender, message.sent)
            return
        body = offload_if_large(message.body, self.decision.blobs)
        yield e.MessageArrivedEvent(self.number, message.name, self.now_s, body, message.key, message.sender, message.sent)

    def cancel(self, message: messages.CancelMessage) -> Iterator[e.Event]:
        """Tells the program to unwind; an execution without a running program ends at once."""
        yield from self._cancel(message.reason, message.undo)

    def _cancel(self, reason: str, undo: bool, unwanted: bool = False) -> Iterator[e.Event]:
        execution = self.execution
        if execution.ended is not None or (execution.parked is None and not execution.may_be_told_to_unwind):
            return
        if execution.started is None or (execution.parked is not None and execution.parked.reason != "paused"):
            yield from self._end(reason, unwanted)
            return
        if execution.parked is not None:
            yield e.ResumedEvent(self.now_s, reason)
        if execution.may_be_told_to_unwind:  # what was due while it was paused may have ended it, or begun its undo
            yield e.CancellingEvent(self.now_s, reason, undo=undo, unwanted=unwanted)

    def terminate(self, message: messages.TerminateMessage) -> Iterator[e.Event]:
        """Ends the execution at once."""
        if self.execution.ended is None:
            yield from self._end(message.reason)

    def unwatch(self, message: messages.UnwatchMessage) -> Iterator[e.Event]:
        """Removes a parent that waits. Once the creator has left and no parent waits, the execution ends as the creator asked."""
        execution = self.execution
        if execution.ended is not None or not any(same_parent(one, message.parent) for one in execution.watchers):
            return
        yield e.UnwatchedEvent(message.parent, self.now_s, message.end)
        if execution.watchers or execution.let_go in (None, "detach"):
            return
        why = f"its parent {message.parent.key} no longer waits for it"
        yield from self._cancel(why, undo=True, unwanted=True) if execution.let_go == "cancel" else self._end(why, unwanted=True)

    def _end(self, reason: str, unwanted: bool = False) -> Iterator[e.Event]:
        if unwanted:
            yield e.CancellingEvent(self.now_s, reason, undo=False, unwanted=True)
        yield self._cancelled(reason)

    def discard(self, message: messages.DiscardMessage) -> Iterator[e.Event]:
        """Cancels a failed or parked execution. Parents that waited for a failed one have its failure already."""
        if self.execution.status in DEAD_STATUSES:
            yield self._cancelled(message.reason)

    def _deadline_exceeded(self, why: str) -> e.Event:
        return e.EndedEvent("failed", Failure("deadline_exceeded", 1, ErrorInfo(error_codes.DEADLINE_EXCEEDED, why)), self.now_s)

    def _cancelled(self, reason: str) -> e.Event:
        return e.EndedEvent("cancelled", Failure("cancelled", 1, ErrorInfo(error_codes.CANCELLED, reason)), self.now_s)

    def undo(self, message: messages.UndoMessage) -> Iterator[e.Event]:
        """Undoes a completed execution once, or retries failed undo handlers. The parent that waits is answered in any case."""
        ended, is_left = self.execution.ended, bool(failed_undos(self.execution.settled))
        may_be_undone = ended is not None and ((ended.status == "completed" and self.execution.completed is None) or is_left)
        if may_be_undone and self.execution.removed is None:
            yield e.UndoingEvent(self.now_s, message.reason, message.parent)
        elif message.parent is not None and (ended is not None or message.parent not in self.execution.watchers):
            yield e.WatchedEvent(message.parent, self.now_s)

    def retry(self, message: messages.RetryMessage) -> Iterator[e.Event]:
        """Resumes a parked execution, reopens a failed one."""
        parked = self.execution.parked
        if message.parked and (parked is None or parked.reason != message.parked):
            return
        if parked is not None:
            yield from self.resume(message)
        elif self.execution.ended is not None and self.execution.ended.status == "failed":
            yield e.ReopenedEvent(self.now_s, message.reason, message.before if message.before in self.execution.settled else ())

    def preset(self, message: messages.PresetMessage) -> Iterator[e.Event]:
        """Settles an open operation, or records the outcome for when it is opened. Of settled operations, only those that failed with the execution change."""
        path, ended = message.path, self.execution.ended
        pending, settled = self.execution.open.get(path), self.execution.settled.get(path)
        if pending is not None and isinstance(pending.op, CallOperation | SleepOperation | SpawnOperation):
            yield e.SettledEvent(path, self._light_outcome(message.outcome), self.now_s)
        elif settled is None or (isinstance(settled.outcome, Failure) and ended is not None and ended.status == "failed"):
            yield e.PresetEvent(path, self._light_outcome(message.outcome), self.now_s)

    def pause(self, message: messages.PauseMessage) -> Iterator[e.Event]:
        """Parks the execution until it is resumed."""
        if self.execution.ended is None and self.execution.parked is None:
            yield e.ParkedEvent("paused", self.now_s, (message.reason,) if message.reason else ())

    def patch(self, message: messages.PatchMessage) -> Iterator[e.Event]:
        """Replaces the definition, or records why it can't be replaced."""
        execution = self.execution
        if execution.ended is not None or execution.started is None:
            return
        definition, base = put_blob(message.definition, self.decision.blobs), execution.definition
        refused: tuple[str, ...] = ()
        if message.base and (base is None or base.sha256 != message.base):
            refused = ("the execution was patched in the meantime; read its present definition and patch that",)
        yield e.PatchedEvent(definition, self.now_s, message.reason, refused or self.program.unfit(message.definition), message.calls)

    def evict(self, message: messages.EvictMessage) -> Iterator[e.Event]:
        """Records the eviction; the engine reacts to the event."""
        if self.execution.started is not None and self.execution.ended is None:
            yield e.EvictedEvent(self.now_s, message.reason)

    def resume(self, message: messages.ResumeMessage | messages.RetryMessage) -> Iterator[e.Event]:
        """Resumes a parked execution. What has become due is decided at the next tick, after the messages that arrived with this one."""
        if self.execution.parked is not None:
            yield e.ResumedEvent(self.now_s, message.reason)

    def diverge(self, message: messages.DivergeMessage) -> Iterator[e.Event]:
        """Parks the execution with the differences that replay found."""
        if self.execution.ended is None and self.execution.parked is None:
            yield e.ParkedEvent("diverged", self.now_s, message.diff)

    def tick(self, _: messages.TickMessage) -> Iterator[e.Event]:
        """Decides everything that is due, the earliest first."""
        execution = self.execution
        held = self.host.busy, self.host.young
        while (wake_at_s := execution.wake_at(*held)) is not None and self.now.is_past(wake_at_s):
            pending = execution.opened.due_first(*held)
            if pending is not None and pending.due_at_s == wake_at_s:
                yield self._due(pending)
            elif execution.started is not None:
                after_s = round(wake_at_s - execution.started.at_s, 5)  # a float of seconds since 1970 has no more digits than these
                why = f"the execution did not end within {after_s:.12g} s of its start"
                yield e.CancellingEvent(self.now_s, why, deadline=True) if execution.cancelling is None else e.StoppedEvent(self.now_s)

    def _due(self, pending: PendingOperation) -> e.Event:
        match pending.op:
            case CallOperation() as op if pending.state in ("retrying", "interrupted"):
                return e.AttemptStartedEvent(pending.path, pending.attempt + 1, self.now_s, self.host.takes(op))
            case CallOperation() if pending.grace_until_s is not None and self.now.is_past(pending.grace_until_s):
                return e.SettledEvent(pending.path, attempt_rules.abandoned_outcome(pending), self.now_s)
            case CallOperation() as op:
                why = ErrorInfo(error_codes.TIMEOUT, attempt_rules.overdue_text(pending, op))
                return attempt_rules.event_after_failure(self.execution.key, pending, op, Failure("timeout", 1, why), self.now_s)
            case ReceiveOperation(gather=True) as op:
                return e.ReceivedEvent(pending.path, self.execution.mailbox.matching(op), self.now_s)
            case ReceiveOperation() as op:
                why = ErrorInfo(error_codes.TIMEOUT, f"no message within {op.timeout_s:g} s")
                return e.SettledEvent(pending.path, Failure("timeout", 1, why), self.now_s)
            case SleepOperation():
                return e.SettledEvent(pending.path, Success(), self.now_s)
        raise TypeError(f"a {operation_kind(pending.op)} has no timer")


def _begins_ending(command: ProgramCommand) -> bool:
    """Returns whether the program keeps how the execution will end; something has to be awaited or undone first."""
    return isinstance(command, OpenCommand) and isinstance(command.op, KeepOperation) and command.op.role == "undo"


_MESSAGE_HANDLERS: dict[type, Callable[[_DecisionDraft, Any], Iterable[e.Event]]] = {
    messages.StartMessage: _DecisionDraft.start,
    messages.SettleMessage: _DecisionDraft.settle,
    messages.LostMessage: _DecisionDraft.lost,
    messages.ProgressMessage: _DecisionDraft.progress,
    messages.SignalMessage: _DecisionDraft.signal,
    messages.CancelMessage: _DecisionDraft.cancel,
    messages.TerminateMessage: _DecisionDraft.terminate,
    messages.UnwatchMessage: _DecisionDraft.unwatch,
    messages.UndoMessage: _DecisionDraft.undo,
    messages.RetryMessage: _DecisionDraft.retry,
    messages.PresetMessage: _DecisionDraft.preset,
    messages.PauseMessage: _DecisionDraft.pause,
    messages.ResumeMessage: _DecisionDraft.resume,
    messages.EvictMessage: _DecisionDraft.evict,
    messages.DiscardMessage: _DecisionDraft.discard,
    messages.DivergeMessage: _DecisionDraft.diverge,
    messages.TickMessage: _DecisionDraft.tick,
    messages.PatchMessage: _DecisionDraft.patch,
}
