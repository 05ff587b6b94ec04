"""The state of an execution as a fold of its events. Only `apply` changes it, and the same events always give the same state.

Each event costs the same however long the history is: what is read later (the watchers, the next timer, the contents of an iteration) is kept in the
form in which it is read.
"""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Literal

import msgspec

from perdure.core import attempt_rules, limits
from perdure.core import events as e
from perdure.core.attributes import Attributes, decode_attribute_changes, merge_attributes
from perdure.core.carried import Carried
from perdure.core.deduplication import MessageDeduplication, SenderWatermark, same_parent
from perdure.core.events import ended_event_of
from perdure.core.loop_iterations import LoopIterations, is_in_trimmed_iteration
from perdure.core.mailbox import Mailbox, ReceivedMessage
from perdure.core.messages import Parent
from perdure.core.operation_state import PendingOperation, PendingOperations, PendingState, SettledOperation
from perdure.core.operations import (
    CallOperation,
    Failure,
    KeepOperation,
    OnCancel,
    Operation,
    Outcome,
    ReceiveOperation,
    SendOperation,
    SleepOperation,
    SpawnOperation,
    Success,
)
from perdure.core.paths import UNDO, Key, Path, Segment
from perdure.core.pinned_calls import PinnedCalls
from perdure.core.recalled import ForkData, RecalledResults
from perdure.core.undo_plan import UNDOABLE, is_commit_note, lies_within, operations_to_undo, released_by_commit, retained_for_undo
from perdure.core.values import Blob, Value

ExecutionStatus = Literal[
    "pending", "running", "waiting", "waiting_approval", "paused", "needs_attention", "ending", "undoing", "completed", "failed", "cancelled"
]


class Execution:
    """The state that a log folds to."""

    __slots__ = (
        "archive",
        "attributes",
        "backlog",
        "calls",
        "cancelling",
        "committed",
        "completed",
        "dead_events",
        "deadline_at_s",
        "definition",
        "emitted",
        "ended",
        "forked",
        "key",
        "let_go",
        "logged_events",
        "mailbox",
        "now_s",
        "open",
        "opened",
        "parked",
        "program",
        "recalled_results",
        "removed",
        "reopened",
        "resumes",
        "retained",
        "root",
        "seen",
        "sent",
        "settled",
        "started",
        "state",
        "trimmed",
        "turns",
        "undoing",
        "version",
        "watchers",
    )

    def __init__(self, key: Key, root: Key | None = None) -> None:
        self.key = key
        self.root = key if root is None else root
        self.version = 0
        self.now_s = 0.0
        self.started: e.StartedEvent | None = None
        self.definition: Blob | None = None
        self.program = ""
        self.calls: PinnedCalls = ()
        self.deadline_at_s: float | None = None
        self.ended: e.EndedEvent | None = None
        self.parked: e.ParkedEvent | None = None
        self.removed: e.RemovedEvent | None = None
        self.cancelling: e.CancellingEvent | None = None
        self.undoing = False
        self.completed: e.EndedEvent | None = None
        self.forked: ForkData | None = None
        self.reopened = 0
        self.watchers: list[Parent] = []
        self.let_go: OnCancel | None = None
        self.opened = PendingOperations()
        self.open = self.opened.open
        self.settled: dict[Path, SettledOperation] = {}
        self.retained: dict[Path, None] = {}
        self.committed: Path | None = None
        self.recalled_results = RecalledResults()
        self.backlog: list[e.Event] = []
        self.mailbox = Mailbox()
        self.state: dict[str, Value] = {}
        self.attributes: Attributes = ()
        self.emitted = 0
        self.seen = MessageDeduplication()
        self.sent: dict[Key, int] = {}
        self.trimmed: dict[Path, int] = {}
        self.resumes: dict[Path, int] = {}
        self.logged_events = 0
        self.dead_events = 0
        self.archive: str | None = None
        self.turns = LoopIterations()

    @property
    def may_be_told_to_unwind(self) -> bool:
        """Whether a cancel still changes how it ends: it has not ended, is not being cancelled yet, and has not begun its undo."""
        return self.ended is None and self.cancelling is None and not self.undoing

    @property
    def status(self) -> ExecutionStatus:
        """The status, as heads and clients show it."""
        if self.ended is not None:
            return self.ended.status
        if self.parked is not None:
            return "paused" if self.parked.reason == "paused" else "needs_attention"
        if self.started is None:
            return "pending"
        if self.opened.in_grace:
            return "ending"
        if self.undoing:
            return "undoing"
        if self.opened.performed or not self.open:
            return "running"
        return "waiting_approval" if self.opened.asked else "waiting"

    @property
    def depth(self) -> int:
        """The number of its ancestors, each started by the one before."""
        return 0 if self.started is None else self.started.depth

    @property
    def carried(self) -> Carried:
        """The values of the caller's context that the execution has carried since it was started."""
        return () if self.started is None else self.started.carried

    def grace_of(self, op: CallOperation) -> float:
        """Returns how long an attempt of `op` in flight may continue after the execution failed or was cancelled, in seconds."""
        return attempt_rules.attempt_grace_s(op, None if self.started is None else self.started.grace_s)

    @property
    def grace_s(self) -> float:
        """How long the program may take to unwind once its deadline is over, in seconds."""
        return limits.GRACE_S if self.started is None or self.started.grace_s is None else self.started.grace_s

    @property
    def is_in_flight(self) -> bool:
        """Whether the execution would wait for calls in flight if it failed or was cancelled now."""
        open_calls = ((pending, pending.op) for pending in self.open.values() if isinstance(pending.op, CallOperation))
        return any(pending.in_flight and (pending.grace_until_s is not None or self.grace_of(op) > 0) for pending, op in open_calls)

    @property
    def is_to_be_undone(self) -> bool:
        """Whether something would have to be undone if the execution failed or was cancelled now, open calls that would be in doubt included."""
        in_doubt = any(isinstance(pending.op, CallOperation) and pending.op.undo == "in_doubt" for pending in self.open.values())
        return in_doubt or bool(operations_to_undo(self.settled))

    def wake_at(self, busy: AbstractSet[Path] = frozenset(), young: AbstractSet[Path] = frozenset()) -> float | None:
        """Returns the earliest timer, retry, timeout or deadline, in seconds since 1970; None if the execution does not wait for time.

        `DecisionContext` explains `busy` and `young`.
        """
        if self.ended is not None or self.parked is not None or self.started is None:
            return None
        timer, deadline_s = self.opened.due_first(busy, young) if self.opened.timers else None, self.deadline_due_s
        if timer is None or timer.due_at_s is None:
            return deadline_s
        return timer.due_at_s if deadline_s is None else min(timer.due_at_s, deadline_s)

    @property
    def deadline_due_s(self) -> float | None:
        """The time at which the deadline acts. A program that unwinds has its grace first; an undo has no deadline."""
        if self.undoing or self.deadline_at_s is None or self.cancelling is None:
            return None if self.undoing else self.deadline_at_s
        return max(self.deadline_at_s, self.cancelling.at_s + self.grace_s)

    def apply(self, event: e.Event) -> None:
        """Folds one more event into the state."""
        self.version += 1
        self.logged_events += 1
        kind = type(event)
        _APPLIERS[kind](self, event)
        if self.parked is not None:
            if kind in e.PROGRAM_EVENTS:
                self.backlog.append(event)
        elif self.backlog and kind is not e.ResumedEvent:
            self.backlog = []

    def apply_all(self, events: Sequence[e.Event], begin: int, end: int) -> None:
        """Folds `events[begin:end]`, as `apply` does one by one.

        A call that settles directly behind its opening is folded in one step: most of a long log is such pairs.
        """
        position = begin
        while position < end:
            event = events[position]
            position += 1
            if type(event) is e.OpenedEvent and position < end and type(event.op) is CallOperation and self.parked is None:
                following = events[position]
                if type(following) is e.SettledEvent and following.path == event.path:
                    self._settle_first_attempt(event, event.op, following)
                    position += 1
                    continue
            self.apply(event)

    def _settle_first_attempt(self, opened: e.OpenedEvent, op: CallOperation, settled: e.SettledEvent) -> None:
        """Folds a call that is opened and settles at once: its pending state would be read by nothing."""
        path, outcome = opened.path, settled.outcome
        self.version += 2
        self.logged_events += 2
        self.opened.count += 1
        if len(path) > 1:  # a path of one segment lies in no iteration
            self.turns.add(path)
        begun = outcome.attempts if type(outcome) is Failure and outcome.kind == "cancelled" else 1
        self.settled[path] = SettledOperation(op, outcome, (), self.now_s, settled.at_s, begun, 2, self.opened.count)
        self.now_s = settled.at_s
        if self.backlog:
            self.backlog = []

    def _start(self, event: e.StartedEvent) -> None:
        self.started, self.attributes, self.definition = event, event.attributes, event.definition
        self.deadline_at_s, self.now_s = event.deadline_at_s, event.at_s
        if event.parent is not None:
            self.watchers = self.seen.watched(self.watchers, event.parent)

    def _host(self, event: e.HostedEvent) -> None:
        self.now_s, self.program, self.calls = event.at_s, event.hosting.program, event.hosting.calls

    def _fork(self, event: e.ForkedEvent) -> None:
        self.now_s = event.at_s
        self.forked = event.fork
        self.trimmed = dict(event.fork.trimmed)
        self.recalled_results.copy(event.fork)
        self._retain_all([path for path in self.recalled_results.known if is_in_trimmed_iteration(path, self.trimmed)], self.recalled_results.known)

    def _preset(self, event: e.PresetEvent) -> None:
        self.now_s = event.at_s
        self.recalled_results.given[event.path] = event.outcome

    def _watched(self, event: e.WatchedEvent) -> None:
        self.now_s = event.at_s
        self.watchers = self.seen.watched(self.watchers, event.parent)

    def _unwatch(self, event: e.UnwatchedEvent) -> None:
        self.now_s = event.at_s
        self.watchers = [one for one in self.watchers if not same_parent(one, event.parent)]
        if self.started is not None and self.started.parent is not None and same_parent(self.started.parent, event.parent):
            self.let_go = event.end

    def _arrive(self, event: e.MessageArrivedEvent) -> None:
        self._remember_message(event)
        self.mailbox.put(ReceivedMessage(event.number, event.name, event.body, event.at_s, event.key, event.sender))

    def _remember_message(self, event: e.MessageArrivedEvent | e.MessageRefusedEvent) -> None:
        self.now_s = event.at_s
        self.seen.add(event.sender, event.sent, event.key, event.at_s)

    def _open(self, event: e.OpenedEvent) -> None:
        path, op = event.path, event.op
        self.opened.count += 1
        if len(path) > 1:  # a path of one segment lies in no iteration
            self.turns.add(path)
        match op:
            case CallOperation():
                self.opened.add_call(path, op, self.now_s, event.by, event.number)
            case KeepOperation():
                self._keep(path, op)
            case SleepOperation(duration_s, until_s):
                self.opened.timers.set(self._promise(event), until_s if until_s is not None else self.now_s + (duration_s or 0.0))
            case ReceiveOperation():
                self.mailbox.wait(path, op)
                self.opened.timers.set(self._promise(event), None if op.timeout_s is None else self.now_s + op.timeout_s)
            case SendOperation():
                self.sent[op.to] = max(event.number, self.sent.get(op.to, 0))
                self._settle_at_once(path, op, Success())
            case SpawnOperation(awaited=True):
                self._promise(event)
            case SpawnOperation():
                self._settle_at_once(path, op, Success())

    def _promise(self, event: e.OpenedEvent) -> PendingOperation:
        return self.opened.add(event.path, event.op, self.now_s, event.by, event.number)

    def _settle_at_once(self, path: Path, op: Operation, outcome: Success) -> None:
        self.settled[path] = SettledOperation(op, outcome, (), self.now_s, self.now_s, 1, 1, self.opened.count)

    def _keep(self, path: Path, op: KeepOperation) -> None:
        self._settle_at_once(path, op, Success(op.value, op.port))
        if op.role == "reply" and path[:-1] in self.settled:
            received = self.settled[path[:-1]]
            self.settled[path[:-1]] = msgspec.structs.replace(received, completed=(*received.completed, int(op.label)))
        if op.role == "attributes":
            self.attributes = merge_attributes(self.attributes, decode_attribute_changes(op.value))
        if self.recalled_results and self.recalled_results.recalls(path, op):
            del self.recalled_results.known[path]
        elif op.role == "state":
            self.state[op.label] = op.value
        elif op.role == "stream":
            self.emitted += 1
        elif op.role == "undo":
            self.undoing = True
        if op.role == "commit":
            self._commit(path)

    def _wait_again(self, event: e.RetryingEvent | e.InterruptedEvent, state: PendingState) -> PendingOperation:
        pending = self.open[event.path]
        self.now_s = event.at_s
        self.opened.wait_again(pending, state, event.due_at_s)
        return pending

    def _retry(self, event: e.RetryingEvent) -> None:
        pending = self._wait_again(event, "retrying")
        pending.failures, pending.interruptions = pending.failures + 1, 0

    def _interrupt(self, event: e.InterruptedEvent) -> None:
        self._wait_again(event, "interrupted").interruptions += not event.given_back

    def _try(self, event: e.AttemptStartedEvent) -> None:
        pending = self.open[event.path]
        self.now_s, pending.attempt = event.at_s, event.attempt
        pending.events += 1
        self.opened.perform(pending, event.by, self.now_s)

    def _progress(self, event: e.ProgressedEvent) -> None:
        pending = self.open[event.path]
        self.now_s, pending.progress = event.at_s, event.body
        pending.events += 1
        self.opened.record_heartbeat(pending, event.at_s)

    def _close(self, path: Path) -> PendingOperation:
        pending = self.opened.remove(path)
        if type(pending.op) is ReceiveOperation:
            self.mailbox.leave(path, pending.op)
        return pending

    def _settle(self, event: e.SettledEvent) -> None:
        self.now_s = event.at_s
        pending = self._close(event.path)
        self._settle_as(pending, event.outcome, ())

    def _settle_as(self, pending: PendingOperation, outcome: Outcome | None, messages: tuple[ReceivedMessage, ...]) -> None:
        begun = pending.attempt if type(outcome) is Success else attempt_rules.attempts_begun(pending, outcome)
        self.settled[pending.path] = SettledOperation(pending.op, outcome, messages, pending.opened_at_s, self.now_s, begun, pending.events + 1, pending.number)

    def _receive(self, event: e.ReceivedEvent) -> None:
        self.now_s = event.at_s
        self._settle_as(self._close(event.path), None, self.mailbox.remove(event.numbers))

    def _recall(self, event: e.RecalledEvent) -> None:
        self.now_s = event.at_s
        pending = self._close(event.path)
        known = self.recalled_results.take(pending)
        if isinstance(known.op, SpawnOperation):
            pending.op = known.op  # in a fork, the child is still the one that the other execution had
        self._settle_as(pending, known.outcome, known.messages)

    def _drop(self, event: e.DroppedEvent) -> None:
        if event.path not in self.open:
            self._give_back(self.settled.pop(event.path))
        elif event.until_s is not None:
            self.opened.give_grace(self.open[event.path], event.until_s)
        else:
            self._abandon(event.path, event.begun)

    def _abandon(self, path: Path, begun: bool = True) -> None:
        """Closes an operation that is no longer needed. The record of a call stays, because an attempt of it may have begun."""
        pending = self._close(path)
        if isinstance(pending.op, CallOperation):
            self._settle_as(pending, attempt_rules.abandoned_outcome(pending, begun), ())

    def _give_back(self, settlement: SettledOperation) -> None:
        for message in settlement.messages:
            if message.number not in settlement.completed:
                self.mailbox.put(message)

    def _trim(self, event: e.TrimmedEvent) -> None:
        for turn in range(self.trimmed.get(event.path, 0), event.before):
            inside = list(self.turns.forget((*event.path, turn)))
            self._forget({path: self.settled[path] for path in inside if path in self.settled})
            for path in inside:
                if isinstance(path[-1], int):
                    self.trimmed.pop(path[:-1], None)
        self.trimmed[event.path] = event.before
        self.dead_events += 1
        if event.undo_before:
            depth = len(event.path)
            self._release([path for path in self.retained if path[:depth] == event.path and _iteration_number(path[depth]) < event.undo_before])

    def _forget(self, forgotten: dict[Path, SettledOperation]) -> None:
        """Forgets the contents of an iteration, except what may have to be undone."""
        kept = retained_for_undo(forgotten)
        blocks = {path[:-1] for path in kept if path[-1] == UNDOABLE}
        if blocks and self.retained:  # a block is undone as a whole, so what loops inside of it have retained is not needed
            self._release([path for path in self.retained if lies_within(path, blocks)])
        for path, known in forgotten.items():
            if path in kept or path == self.committed:
                self._retain(path, known)
            else:
                self.dead_events += self.settled.pop(path).events

    def _retain(self, path: Path, known: SettledOperation) -> None:
        self.settled[path] = SettledOperation(known.op, known.outcome, (), known.at_s, known.at_s, 1, 1, known.number)
        self.dead_events += known.events - 1
        self.retained[path] = None

    def _retain_all(self, paths: list[Path], known: dict[Path, SettledOperation]) -> None:
        for path in paths:
            self._retain(path, known.pop(path))

    def _release(self, paths: list[Path]) -> None:
        """Releases retained operations: they can no longer be undone."""
        for path in paths:
            del self.retained[path], self.settled[path]
            self.dead_events += 1

    def _commit(self, path: Path) -> None:
        """Applies the commit note at `path`: nothing done before it is undone any more."""
        for one, known in list(released_by_commit(self.settled, path)):
            self.settled[one] = known
        self._release([one for one in self.retained if one != path])
        self.committed = path

    def _retained(self, event: e.RetainedEvent) -> None:
        self.now_s = event.at_s
        self.settled[event.path] = SettledOperation(event.op, event.outcome, (), event.at_s, event.at_s, 1, 1, self.opened.count)
        self.retained[event.path] = None
        if is_commit_note(self.settled[event.path]):
            self._commit(event.path)

    def _cancel(self, event: e.CancellingEvent) -> None:
        self.now_s, self.cancelling = event.at_s, event

    def _stop(self, event: e.StoppedEvent) -> None:
        self.now_s, self.deadline_at_s = event.at_s, None

    def _undo(self, event: e.UndoingEvent) -> None:
        self.now_s = event.at_s
        self.completed, self.ended, self.undoing, self.deadline_at_s = self.ended, None, True, None
        self.watchers = [] if event.parent is None else [event.parent]

    def _park(self, event: e.ParkedEvent) -> None:
        self.now_s = event.at_s
        before, self.parked = self.parked, event
        if event.reason != "diverged" and before is None:  # directly behind a resume, that resume fed nothing, so the backlog stays
            self.backlog = []
        pending = self.open.get(event.path)
        if pending is not None:
            self.opened.park(pending)

    def _resume(self, event: e.ResumedEvent) -> None:
        self.now_s = event.at_s
        self.opened.unpark(event.at_s)
        self.parked = None

    def _reopen(self, event: e.ReopenedEvent) -> None:
        self.now_s = event.at_s
        self.ended, self.completed, self.parked, self.cancelling, self.undoing = None, None, None, None, False
        self.reopened += 1
        self.let_go = None
        if self.deadline_at_s is not None and self.deadline_at_s <= event.at_s:
            self.deadline_at_s = None  # it has been exceeded, and the reopening overrides it
        undone = {path[1:] for path, known in self.settled.items() if path[0] == UNDO and isinstance(known.outcome, Success)}
        kept = {path: self.settled[path] for path in self.retained if path not in undone and path[:-1] not in undone}
        self.recalled_results.learn(self.settled, event.before)
        for path in self.settled.keys() - self.recalled_results.known.keys():  # messages that the program will receive anew return to the mailbox
            self._give_back(self.settled[path])
        self.settled, self.retained = kept, dict.fromkeys(kept)
        for path in kept.keys() & self.recalled_results.known.keys():
            del self.recalled_results.known[path]
        self.opened.clear()
        self.backlog = []
        self.resumes = {}
        self.turns = LoopIterations()

    def _turn(self, event: e.IterationResumedEvent) -> None:
        self.now_s = event.at_s
        self.trimmed[event.path] = event.turn
        path = (*event.path, event.turn)
        self.recalled_results.known.pop(path, None)
        self.turns.add(path)
        self.settled[path] = SettledOperation(KeepOperation(event.value, "turn"), Success(event.value), (), self.now_s, self.now_s, 1, 1, self.opened.count)

    def _end(self, event: e.EndedEvent) -> None:
        self.now_s, self.ended, self.parked = event.at_s, event, None
        for path in list(self.open):
            self._abandon(path)

    def _attribute(self, event: e.AttributesSetEvent) -> None:
        self.now_s, self.attributes = event.at_s, event.attributes

    def _evict(self, event: e.EvictedEvent) -> None:
        self.now_s, self.dead_events = event.at_s, self.dead_events + 1

    def _patch(self, event: e.PatchedEvent) -> None:
        self.now_s = event.at_s
        if not event.refused:
            self.definition, self.calls = event.definition, (*self.calls, *event.calls)

    def _remove(self, event: e.RemovedEvent) -> None:
        self.now_s, self.removed, self.version, self.attributes = event.at_s, event, event.number, event.attributes
        self.started = None if event.started_at_s is None else e.StartedEvent(event.version, event.started_at_s, attributes=event.attributes)
        self.ended = ended_event_of(event)
        self.logged_events, self.dead_events = 1, 0

    def _refresh(self, event: e.SnapshotEvent) -> None:
        self.version, self.now_s = event.version, event.at_s
        self.state = dict(event.state)
        self.seen = MessageDeduplication(
            {key: SenderWatermark(all_to, set(beyond)) for key, all_to, beyond in event.watermarks}, dict(event.keys), self.seen.reopenings
        )
        self.sent = dict(event.sent)
        self.emitted, self.attributes, self.archive = event.emitted, event.attributes, event.archive
        self.logged_events, self.dead_events = event.event_count + 1, 0


def _iteration_number(segment: Segment) -> int:
    return segment if isinstance(segment, int) else 0


_APPLIERS: dict[type, Callable[[Any, Any], None]] = {
    e.StartedEvent: Execution._start,
    e.ForkedEvent: Execution._fork,
    e.HostedEvent: Execution._host,
    e.PresetEvent: Execution._preset,
    e.WatchedEvent: Execution._watched,
    e.UnwatchedEvent: Execution._unwatch,
    e.MessageArrivedEvent: Execution._arrive,
    e.MessageRefusedEvent: Execution._remember_message,
    e.ReceivedEvent: Execution._receive,
    e.SettledEvent: Execution._settle,
    e.RecalledEvent: Execution._recall,
    e.RetryingEvent: Execution._retry,
    e.InterruptedEvent: Execution._interrupt,
    e.AttemptStartedEvent: Execution._try,
    e.ProgressedEvent: Execution._progress,
    e.CancellingEvent: Execution._cancel,
    e.StoppedEvent: Execution._stop,
    e.UndoingEvent: Execution._undo,
    e.ParkedEvent: Execution._park,
    e.ResumedEvent: Execution._resume,
    e.ReopenedEvent: Execution._reopen,
    e.EvictedEvent: Execution._evict,
    e.IterationResumedEvent: Execution._turn,
    e.OpenedEvent: Execution._open,
    e.DroppedEvent: Execution._drop,
    e.TrimmedEvent: Execution._trim,
    e.EndedEvent: Execution._end,
    e.AttributesSetEvent: Execution._attribute,
    e.RetainedEvent: Execution._retained,
    e.RemovedEvent: Execution._remove,
    e.PatchedEvent: Execution._patch,
    e.SnapshotEvent: Execution._refresh,
}


_NOT_FACTS = ("opened", "turns", "mailbox", "logged_events", "dead_events", "resumes")
"""Fields that follow from the others, or do not affect behaviour."""


def execution_facts(execution: Execution) -> dict[str, Any]:
    """Returns the state as plain comparable data: two executions with equal facts behave the same from here on."""
    known = {name: getattr(execution, name) for name in execution.__slots__ if name not in _NOT_FACTS}
    known["backlog"] = execution.backlog if execution.parked else []
    known["mailbox"] = sorted(execution.mailbox.messages.items())
    known["turns"] = execution.turns.inside()
    known["given"], known["recalled_results"] = execution.recalled_results.given, execution.recalled_results.known
    for name in ("open", "settled", "recalled_results"):
        known[name] = {path: msgspec.structs.replace(one, number=0) for path, one in known[name].items()}
    return known


def needs_holder(execution: Execution) -> bool:
    """Whether the execution needs a holder: it performs something or is about to decide, and nothing in the store would wake it."""
    if execution.started is None or execution.ended is not None or execution.parked is not None:
        return False
    return execution.opened.performed > 0 or not execution.open


def iteration_holds_open(execution: Execution, scope: Path) -> bool:
    """Whether the iteration at the path `scope` holds an open operation, or a message that is not completed yet."""

    def holds(path: Path) -> bool:
        settlement = execution.settled.get(path)
        owed = settlement is not None and isinstance(settlement.op, ReceiveOperation) and settlement.op.completable
        return path in execution.open or (owed and settlement is not None and len(settlement.completed) < len(settlement.messages))

    return execution.turns.any(scope, holds)
