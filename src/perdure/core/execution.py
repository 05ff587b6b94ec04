"""The execution: what its events add up to. A fold; only `apply` changes it, and the same events always give the same state.

Each event costs the same however long the history is: what is needed later (who waits, what is due next, what a trimmed
turn held) is kept in the form in which it will be asked for.
"""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Any, Literal

import msgspec

from perdure.core import events as e
from perdure.core import limits, tries
from perdure.core.attributes import Attributes, decoded, merged
from perdure.core.copies import Fork
from perdure.core.mailbox import Letter, Mailbox
from perdure.core.memo import Memo
from perdure.core.messages import Parent
from perdure.core.opened import Opened
from perdure.core.ops import Call, Keep, Ok, OnCancel, Op, Outcome, Receive, Send, Sleep, Spawn
from perdure.core.paths import UNDO, Key, Path, Segment
from perdure.core.promise import Promise, Settlement, State
from perdure.core.removal import end_of
from perdure.core.seen import Seen, Watermark, same_parent
from perdure.core.turns import Turns, is_forgotten
from perdure.core.undo import UNDOABLE, committed, is_commit, lies_in, retained, undoable
from perdure.core.values import Blob, Value

Status = Literal["pending", "running", "waiting", "waiting_approval", "paused", "needs_attention", "ending", "undoing", "completed", "failed", "cancelled"]


class Execution:
    """A log, folded."""

    __slots__ = (
        "archive",
        "attributes",
        "backlog",
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
        "memo",
        "now_s",
        "open",
        "opened",
        "parked",
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
        self.started: e.Started | None = None
        self.definition: Blob | None = None
        self.deadline_at_s: float | None = None
        self.ended: e.Ended | None = None
        self.parked: e.Parked | None = None
        self.removed: e.Removed | None = None
        self.cancelling: e.Cancelling | None = None
        self.undoing = False
        self.completed: e.Ended | None = None
        self.forked: Fork | None = None
        self.reopened = 0
        self.watchers: list[Parent] = []
        self.let_go: OnCancel | None = None
        self.opened = Opened()
        self.open = self.opened.open
        self.settled: dict[Path, Settlement] = {}
        self.retained: dict[Path, None] = {}
        self.committed: Path | None = None
        self.memo = Memo()
        self.backlog: list[e.Event] = []
        self.mailbox = Mailbox()
        self.state: dict[str, Value] = {}
        self.attributes: Attributes = ()
        self.emitted = 0
        self.seen = Seen()
        self.sent: dict[Key, int] = {}
        self.trimmed: dict[Path, int] = {}
        self.resumes: dict[Path, int] = {}
        self.logged_events = 0
        self.dead_events = 0
        self.archive: str | None = None
        self.turns = Turns()

    # what it says of itself

    @property
    def may_be_told_to_unwind(self) -> bool:
        """Whether a cancel still changes how it ends: it has not ended, is not being cancelled yet, and has not begun its undo."""
        return self.ended is None and self.cancelling is None and not self.undoing

    @property
    def status(self) -> Status:
        """Where it is in its life."""
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
        """How many executions stand above it, each started by the one before."""
        return 0 if self.started is None else self.started.depth

    def grace_of(self, op: Call) -> float:
        """How long a try of `op` that is in flight may go on when the execution fails or is cancelled, in seconds."""
        return tries.grace_s(op, None if self.started is None else self.started.grace_s)

    @property
    def grace_s(self) -> float:
        """How long the program may take to unwind once its deadline is over, in seconds."""
        return limits.GRACE_S if self.started is None or self.started.grace_s is None else self.started.grace_s

    @property
    def is_in_flight(self) -> bool:
        """Whether, should it fail or be cancelled now, something would be waited for."""
        open_calls = ((promise, promise.op) for promise in self.open.values() if isinstance(promise.op, Call))
        return any(promise.in_flight and (promise.grace_until_s is not None or self.grace_of(op) > 0) for promise, op in open_calls)

    @property
    def is_to_be_undone(self) -> bool:
        """Whether, should it fail or be cancelled now, something would have to be undone: of what is open, that which is then in doubt."""
        in_doubt = any(isinstance(promise.op, Call) and promise.op.undo == "in_doubt" for promise in self.open.values())
        return in_doubt or bool(undoable(self.settled))

    def wake_at(self, busy: AbstractSet[Path] = frozenset(), young: AbstractSet[Path] = frozenset()) -> float | None:
        """When time alone will make it go on: the earliest timer, retry, timeout or deadline, in seconds since 1970.

        For what is `busy` or `young`, see `Host`.
        """
        if self.ended is not None or self.parked is not None or self.started is None:
            return None
        timer, deadline_s = self.opened.due_first(busy, young), self.deadline_due_s
        if timer is None or timer.due_s is None:
            return deadline_s
        return timer.due_s if deadline_s is None else min(timer.due_s, deadline_s)

    @property
    def deadline_due_s(self) -> float | None:
        """When it must have ended: one that unwinds has its grace for that; one that is ending already, or being undone, has all the time that takes."""
        if self.undoing or self.deadline_at_s is None or self.cancelling is None:
            return None if self.undoing else self.deadline_at_s
        return max(self.deadline_at_s, self.cancelling.at_s + self.grace_s)

    # how it changes

    def apply(self, event: e.Event) -> None:
        """Fold one more event into the state."""
        self.version += 1
        self.logged_events += 1
        kind = type(event)
        _APPLY[kind](self, event)
        if self.parked is not None:
            if kind in e.FED:
                self.backlog.append(event)
        elif self.backlog and kind is not e.Resumed:
            self.backlog = []

    def _start(self, event: e.Started) -> None:
        self.started, self.attributes, self.definition = event, event.attributes, event.definition
        self.deadline_at_s, self.now_s = event.deadline_at_s, event.at_s
        if event.parent is not None:
            self.watchers = self.seen.watched(self.watchers, event.parent)

    def _fork(self, event: e.Forked) -> None:
        self.now_s = event.at_s
        self.forked = event.fork
        self.trimmed = dict(event.fork.trimmed)
        self.memo.copy(event.fork)
        self._retain_all([path for path in self.memo.known if is_forgotten(path, self.trimmed)], self.memo.known)

    def _preset(self, event: e.Preset) -> None:
        self.now_s = event.at_s
        self.memo.given[event.path] = event.outcome

    def _watched(self, event: e.Watched) -> None:
        self.now_s = event.at_s
        self.watchers = self.seen.watched(self.watchers, event.parent)

    def _unwatch(self, event: e.Unwatched) -> None:
        self.now_s = event.at_s
        self.watchers = [one for one in self.watchers if not same_parent(one, event.parent)]
        if self.started is not None and self.started.parent is not None and same_parent(self.started.parent, event.parent):
            self.let_go = event.end

    def _arrive(self, event: e.Arrived) -> None:
        self._remember_message(event)
        self.mailbox.put(Letter(event.number, event.name, event.body, event.at_s, event.key, event.sender))

    def _remember_message(self, event: e.Arrived | e.Refused) -> None:
        self.now_s = event.at_s
        self.seen.add(event.sender, event.sent, event.key, event.at_s)

    def _open(self, event: e.Opened) -> None:
        path, op = event.path, event.op
        self.opened.count += 1
        self.turns.add(path)
        match op:
            case Call():
                self.opened.perform(self._promise(event), event.by, self.now_s)
            case Keep():
                self._keep(path, op)
            case Sleep(duration_s, until_s):
                self.opened.timers.set(self._promise(event), until_s if until_s is not None else self.now_s + (duration_s or 0.0))
            case Receive():
                self.mailbox.wait(path, op)
                self.opened.timers.set(self._promise(event), None if op.timeout_s is None else self.now_s + op.timeout_s)
            case Send():
                self.sent[op.to] = max(event.number, self.sent.get(op.to, 0))
                self._settle_at_once(path, op, Ok())
            case Spawn(awaited=True):
                self._promise(event)
            case Spawn():
                self._settle_at_once(path, op, Ok())

    def _promise(self, event: e.Opened) -> Promise:
        return self.opened.add(event.path, event.op, self.now_s, event.by, event.number)

    def _settle_at_once(self, path: Path, op: Op, outcome: Ok) -> None:
        self.settled[path] = Settlement(op, outcome, (), self.now_s, self.now_s, 1, 1, self.opened.count)

    def _keep(self, path: Path, op: Keep) -> None:
        self._settle_at_once(path, op, Ok(op.value, op.port))
        if op.role == "reply" and path[:-1] in self.settled:
            received = self.settled[path[:-1]]
            self.settled[path[:-1]] = msgspec.structs.replace(received, completed=(*received.completed, int(op.label)))
        if op.role == "attributes":
            self.attributes = merged(self.attributes, decoded(op.value))
        if self.memo and self.memo.recalls(path, op):
            del self.memo.known[path]
        elif op.role == "state":
            self.state[op.label] = op.value
        elif op.role == "stream":
            self.emitted += 1
        elif op.role == "undo":
            self.undoing = True
        if op.role == "commit":
            self._commit(path)

    def _wait_again(self, event: e.Retrying | e.Interrupted, state: State) -> Promise:
        promise = self.open[event.path]
        self.now_s = event.at_s
        self.opened.wait_again(promise, state, event.due_s)
        return promise

    def _retry(self, event: e.Retrying) -> None:
        promise = self._wait_again(event, "retrying")
        promise.failures, promise.interruptions = promise.failures + 1, 0

    def _interrupt(self, event: e.Interrupted) -> None:
        self._wait_again(event, "interrupted").interruptions += not event.given_back

    def _try(self, event: e.Tried) -> None:
        promise = self.open[event.path]
        self.now_s, promise.attempt = event.at_s, event.attempt
        promise.events += 1
        self.opened.perform(promise, event.by, self.now_s)

    def _progress(self, event: e.Progressed) -> None:
        promise = self.open[event.path]
        self.now_s, promise.progress = event.at_s, event.body
        promise.events += 1
        self.opened.beat(promise, event.at_s)

    def _close(self, path: Path) -> Promise:
        promise = self.opened.remove(path)
        if type(promise.op) is Receive:
            self.mailbox.leave(path, promise.op)
        return promise

    def _settle(self, event: e.Settled) -> None:
        self.now_s = event.at_s
        promise = self._close(event.path)
        self._settle_as(promise, event.outcome, ())

    def _settle_as(self, promise: Promise, outcome: Outcome | None, letters: tuple[Letter, ...]) -> None:
        opened_at_s, taken, begun = promise.opened_at_s, promise.events + 1, tries.begun(promise, outcome)
        self.settled[promise.path] = Settlement(promise.op, outcome, letters, opened_at_s, self.now_s, begun, taken, promise.number)

    def _receive(self, event: e.Received) -> None:
        self.now_s = event.at_s
        self._settle_as(self._close(event.path), None, self.mailbox.remove(event.numbers))

    def _recall(self, event: e.Recalled) -> None:
        self.now_s = event.at_s
        promise = self._close(event.path)
        known = self.memo.take(promise)
        if isinstance(known.op, Spawn):
            promise.op = known.op  # in a fork, the child is still the one that the other execution had
        self._settle_as(promise, known.outcome, known.letters)

    def _drop(self, event: e.Dropped) -> None:
        if event.path not in self.open:
            self._give_back(self.settled.pop(event.path))
        elif event.until_s is not None:
            self.opened.give_grace(self.open[event.path], event.until_s)
        else:
            self._abandon(event.path, event.begun)

    def _abandon(self, path: Path, begun: bool = True) -> None:
        """Nobody waits for an operation any more; that a try of it was made is not forgotten."""
        promise = self._close(path)
        if isinstance(promise.op, Call):
            self._settle_as(promise, tries.abandoned(promise, begun), ())

    def _give_back(self, settlement: Settlement) -> None:
        for letter in settlement.letters:
            if letter.number not in settlement.completed:
                self.mailbox.put(letter)

    def _trim(self, event: e.Trimmed) -> None:
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
            self._release([path for path in self.retained if path[:depth] == event.path and _number(path[depth]) < event.undo_before])

    def _forget(self, forgotten: dict[Path, Settlement]) -> None:
        """Forget what lay in a turn, but for what is to be undone."""
        kept = retained(forgotten)
        blocks = {path[:-1] for path in kept if path[-1] == UNDOABLE}
        if blocks and self.retained:  # these are undone as a whole, and so not by what loops in them have left
            self._release([path for path in self.retained if lies_in(path, blocks)])
        for path, known in forgotten.items():
            if path in kept or path == self.committed:
                self._retain(path, known)
            else:
                self.dead_events += self.settled.pop(path).events

    def _retain(self, path: Path, known: Settlement) -> None:
        self.settled[path] = Settlement(known.op, known.outcome, (), known.at_s, known.at_s, 1, 1, known.number)
        self.dead_events += known.events - 1
        self.retained[path] = None

    def _retain_all(self, paths: list[Path], known: dict[Path, Settlement]) -> None:
        for path in paths:
            self._retain(path, known.pop(path))

    def _release(self, paths: list[Path]) -> None:
        """Undo these no longer: nothing of them is left."""
        for path in paths:
            del self.retained[path], self.settled[path]
            self.dead_events += 1

    def _commit(self, path: Path) -> None:
        """Nothing that was done before the note at `path` is to be undone any more."""
        for one, known in list(committed(self.settled, path)):
            self.settled[one] = known
        self._release([one for one in self.retained if one != path])
        self.committed = path

    def _retained(self, event: e.Retained) -> None:
        self.now_s = event.at_s
        self.settled[event.path] = Settlement(event.op, event.outcome, (), event.at_s, event.at_s, 1, 1, self.opened.count)
        self.retained[event.path] = None
        if is_commit(self.settled[event.path]):
            self._commit(event.path)

    def _cancel(self, event: e.Cancelling) -> None:
        self.now_s, self.cancelling = event.at_s, event

    def _stop(self, event: e.Stopped) -> None:
        self.now_s, self.deadline_at_s = event.at_s, None

    def _undo(self, event: e.Undoing) -> None:
        self.now_s = event.at_s
        self.completed, self.ended, self.undoing, self.deadline_at_s = self.ended, None, True, None
        self.watchers = [] if event.parent is None else [event.parent]

    def _park(self, event: e.Parked) -> None:
        self.now_s = event.at_s
        before, self.parked = self.parked, event
        if event.reason != "diverged" and before is None:  # directly behind a Resumed, it was in vain: what came before is still to be fed
            self.backlog = []
        promise = self.open.get(event.path)
        if promise is not None:
            self.opened.park(promise)

    def _resume(self, event: e.Resumed) -> None:
        self.now_s = event.at_s
        self.opened.unpark(event.at_s)
        self.parked = None

    def _reopen(self, event: e.Reopened) -> None:
        self.now_s = event.at_s
        self.ended, self.completed, self.parked, self.cancelling, self.undoing = None, None, None, None, False
        self.reopened += 1
        self.let_go = None
        if self.deadline_at_s is not None and self.deadline_at_s <= event.at_s:
            self.deadline_at_s = None  # it has been exceeded, and somebody wants the execution to go on all the same
        undone = {path[1:] for path, known in self.settled.items() if path[0] == UNDO and isinstance(known.outcome, Ok)}
        kept = {path: self.settled[path] for path in self.retained if path not in undone and path[:-1] not in undone}
        self.memo.learn(self.settled, event.before)
        for path in self.settled.keys() - self.memo.known.keys():  # what is to be received anew is back in its place
            self._give_back(self.settled[path])
        self.settled, self.retained = kept, dict.fromkeys(kept)
        for path in kept.keys() & self.memo.known.keys():
            del self.memo.known[path]
        self.opened.clear()
        self.backlog = []
        self.resumes = {}
        self.turns = Turns()

    def _turn(self, event: e.Turned) -> None:
        self.now_s = event.at_s
        self.trimmed[event.path] = event.turn
        path = (*event.path, event.turn)
        self.memo.known.pop(path, None)
        self.turns.add(path)
        self.settled[path] = Settlement(Keep(event.value, "turn"), Ok(event.value), (), self.now_s, self.now_s, 1, 1, self.opened.count)

    def _end(self, event: e.Ended) -> None:
        self.now_s, self.ended, self.parked = event.at_s, event, None
        for path in list(self.open):
            self._abandon(path)

    def _attribute(self, event: e.Attributed) -> None:
        self.now_s, self.attributes = event.at_s, event.attributes

    def _evict(self, event: e.Evicted) -> None:
        self.now_s, self.dead_events = event.at_s, self.dead_events + 1

    def _patch(self, event: e.Patched) -> None:
        self.now_s, self.definition = event.at_s, self.definition if event.refused else event.definition

    def _remove(self, event: e.Removed) -> None:
        self.now_s, self.removed, self.version, self.attributes = event.at_s, event, event.number, event.attributes
        self.started = None if event.started_at_s is None else e.Started(event.version, event.started_at_s, attributes=event.attributes)
        self.ended = end_of(event)
        self.logged_events, self.dead_events = 1, 0

    def _refresh(self, event: e.Snapshot) -> None:
        self.version, self.now_s = event.version, event.at_s
        self.state = dict(event.state)
        self.seen = Seen({key: Watermark(all_to, set(beyond)) for key, all_to, beyond in event.watermarks}, dict(event.keys), self.seen.lives)
        self.sent = dict(event.sent)
        self.emitted, self.attributes, self.archive = event.emitted, event.attributes, event.archive
        self.logged_events, self.dead_events = event.kept + 1, 0


def _number(segment: Segment) -> int:
    return segment if isinstance(segment, int) else 0


_APPLY: dict[type, Callable[[Any, Any], None]] = {
    e.Started: Execution._start,
    e.Forked: Execution._fork,
    e.Preset: Execution._preset,
    e.Watched: Execution._watched,
    e.Unwatched: Execution._unwatch,
    e.Arrived: Execution._arrive,
    e.Refused: Execution._remember_message,
    e.Received: Execution._receive,
    e.Settled: Execution._settle,
    e.Recalled: Execution._recall,
    e.Retrying: Execution._retry,
    e.Interrupted: Execution._interrupt,
    e.Tried: Execution._try,
    e.Progressed: Execution._progress,
    e.Cancelling: Execution._cancel,
    e.Stopped: Execution._stop,
    e.Undoing: Execution._undo,
    e.Parked: Execution._park,
    e.Resumed: Execution._resume,
    e.Reopened: Execution._reopen,
    e.Evicted: Execution._evict,
    e.Turned: Execution._turn,
    e.Opened: Execution._open,
    e.Dropped: Execution._drop,
    e.Trimmed: Execution._trim,
    e.Ended: Execution._end,
    e.Attributed: Execution._attribute,
    e.Retained: Execution._retained,
    e.Removed: Execution._remove,
    e.Patched: Execution._patch,
    e.Snapshot: Execution._refresh,
}
