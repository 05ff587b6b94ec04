"""Deciding: what happens to an execution because of one message. All rules about that stand here, and only here.

`decide` is a generator: should the program need a value that is kept as a blob, it yields `Load` and is sent the payload; the
rest it returns. Late and repeated messages yield no event.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from perdure.core import events as e
from perdure.core import limits, mail, messages, tries
from perdure.core.decision import Decision, Host
from perdure.core.effects import effects
from perdure.core.errors import Diverged, ErrorInfo
from perdure.core.execution import Execution
from perdure.core.facts import turn_holds_open
from perdure.core.messages import Message
from perdure.core.ops import Call, Err, Keep, Ok, Op, Outcome, Receive, Send, Sleep, Spawn, kind
from perdure.core.paths import Path
from perdure.core.program import Command, Drop, Finish, Open, Program, Say, Trim
from perdure.core.promise import Promise
from perdure.core.rebuild import Load, blobs_of, fed
from perdure.core.seen import same_parent
from perdure.core.time_bounds import TimeBounds
from perdure.core.undo import not_undone
from perdure.core.values import kept, offload

Deciding = Generator[Load, bytes, Decision]


def decide(execution: Execution, message: Message, program: Program, now: TimeBounds, host: Host, number: int = 0) -> Deciding:
    """Fold one message into `execution`, run `program` until it has nothing left to do, and return what happened.

    Events are stamped, and deadlines counted, at the latest time that it can be `now`, and not before the last event; what is due is decided by the
    earliest. `number` is the message's in the store's mail (0: it did not come by mail). Execution and program are ahead of the store until the
    decision is committed; if that fails they must be thrown away.
    """
    draft = _Draft(execution, program, now.not_before(execution.now_s), host)
    draft.number = number
    if execution.removed is not None and not isinstance(message, messages.Start | messages.Undo):
        return draft.decision  # there is nothing left to go on from; who comes to wait is told so
    for event in _REACTIONS[type(message)](draft, message):
        yield from draft.happen(event)
    return draft.decision


TOO_MUCH_TO_UNDO = (
    f"more than {limits.UNDO_ENTRIES_MAX:,} operations of forgotten turns are to be undone, should the execution fail. Say how many turns are undone at most "
    "(code: ctx.loop(undo_keep=N), definitions: repeat: {undo: {keep: N}}), or from where on nothing done before is undone (ctx.commit(), commit: true); "
    "then resume the execution"
)
"""Why an execution parks whose loop has done more than is kept to be undone."""

_LARGE: Mapping[type[Op], str] = {Call: "args", Keep: "value", Spawn: "input", Send: "body"}
"""The fields of operations that may be large."""


class _Draft:
    """A decision in the making."""

    __slots__ = ("begins", "commands", "decision", "execution", "host", "is_ending", "now", "now_s", "number", "program", "ready")

    def __init__(self, execution: Execution, program: Program, now: TimeBounds, host: Host) -> None:
        self.execution = execution
        self.program = program
        self.now, self.now_s = now, now.latest_s
        self.host = host
        self.decision = Decision()
        self.number = 0
        self.commands: Sequence[Command] = ()
        self.is_ending: bool | None = None  # found out where something is dropped
        self.begins: set[Path] = set()
        self.ready: deque[Path] = deque()

    def happen(self, event: e.Event) -> Generator[Load, bytes, None]:
        """Record a given event, and everything that follows from it at once."""
        yield from self._feed(event)
        while self.ready and self.execution.ended is None:
            if len(self.decision.events) >= limits.EVENTS_PER_DECISION_MAX:
                why = f"{len(self.decision.events):,} events came of one message, each operation settling at once; let the loop wait in each turn"
                self._record(e.Ended("failed", Err("failed", 1, ErrorInfo("EndlessDecision", why)), self.now_s))
                return
            if (following := self._at_once(self.ready.popleft())) is not None:
                yield from self._feed(following)

    def _feed(self, event: e.Event) -> Generator[Load, bytes, None]:
        self._record(event)
        if isinstance(event, e.Arrived):
            self.ready.extend(self.execution.mailbox.receivers(event.name))
        if isinstance(event, e.Resumed):
            self.ready.extend(self.execution.open)
        for one in fed(self.execution, event):
            values = {}
            for blob in blobs_of(self.execution, one):
                raw = self.decision.blobs.get(blob.sha256)
                values[blob.sha256] = raw if raw is not None else (yield Load(blob))
            try:
                commands = self.program.feed(self.execution, one, None, values)
            except Diverged as error:
                self._record(e.Parked("diverged", self.now_s, error.diff))
                return
            self.commands, self.is_ending = commands, None
            for command in commands:
                if self.execution.ended is None or isinstance(command, Say):
                    self._carry_out(command)
            if len(self.execution.retained) > limits.UNDO_ENTRIES_MAX and any(isinstance(command, Trim) for command in commands):
                self._park_for_too_much_to_undo()

    def _record(self, event: e.Event) -> None:
        for effect in effects(self.execution, event):
            if isinstance(effect, mail.Send):
                self.decision.sends.append(effect)
            else:
                self.decision.acks.append(effect)
        self.decision.events.append(event)
        if type(event) is e.Opened or type(event) is e.Tried:
            self.begins.add(event.path)
        self.execution.apply(event)

    def _carry_out(self, command: Command) -> None:
        match command:
            case Open():
                self._open(command)
            case Drop(path, lost):
                letters = () if path in self.execution.open else self.execution.settled[path].letters
                self._record(self._dropped(path, lost))
                for letter in letters:
                    self.ready.extend(self.execution.mailbox.receivers(letter.name))
            case Trim():
                self._trim(command)
            case Finish(status, outcome, path):
                self._finish(status, outcome, path)
            case Say():
                self.decision.lines.append(command)

    def _dropped(self, path: Path, lost: bool) -> e.Dropped:
        """That an operation is dropped: a call in flight may still be answered, if that is because the execution fails or is cancelled."""
        promise = self.execution.open.get(path)
        if promise is None or not isinstance(promise.op, Call) or not promise.in_flight:
            return e.Dropped(path)
        if path in self.begins:
            return e.Dropped(path, begun=False)
        if self.is_ending is None:
            self.is_ending = self.execution.cancelling is not None or any(map(_begins_ending, self.commands))
        grace_s = self.execution.grace_of(promise.op) if self.is_ending and not lost else 0.0
        return e.Dropped(path, self.now_s + grace_s if grace_s > 0 else None)

    def _open(self, command: Open) -> None:
        path, op, number, by = command.path, self._light(command.op), 0, None
        self.decision.blobs.update(command.blobs)
        match op:
            case Call():
                by = self.host.takes(op)
            case Send(to) if not self.execution.memo.recalls(path, op):
                number = self.execution.sent.get(to, 0) + 1
            case Spawn() if not self.execution.memo.recalls(path, op):
                number = 1
            case Receive() | Sleep():
                self.ready.append(path)
        self._record(e.Opened(path, op, by, number))
        if path in self.execution.open and self.execution.memo.recalls(path, op):
            self.ready.append(path)

    def _light(self, op: Op) -> Op:
        """The operation with its large value put among the blobs."""
        name = _LARGE.get(type(op))
        if name is None:
            return op
        light = offload(value := getattr(op, name), self.decision.blobs)
        return op if light is value else msgspec.structs.replace(op, **{name: light})

    def _trim(self, command: Trim) -> None:
        path, before = command.path, command.before
        first = self.execution.trimmed.get(path, 0)
        end = next((turn for turn in range(first, before) if turn_holds_open(self.execution, (*path, turn))), before)
        while end > first and (*path, end) not in self.execution.settled:
            end -= 1
        if end > first:
            self._record(e.Trimmed(path, end, command.undo_before))

    def _park_for_too_much_to_undo(self) -> None:
        execution = self.execution
        if execution.parked is None and execution.ended is None and not execution.undoing:
            self._record(e.Parked("undo", self.now_s, (TOO_MUCH_TO_UNDO,)))

    def _finish(self, status: str, outcome: Outcome, path: Path) -> None:
        cancelling, completed = self.execution.cancelling, self.execution.completed
        if completed is not None:
            self._record(e.Ended(completed.status, completed.outcome, self.now_s, completed.path))
        elif cancelling is not None:
            self._record(self._deadline_exceeded(cancelling.reason) if cancelling.deadline else self._cancelled(cancelling.reason))
        else:
            self._record(e.Ended(status, self._light_outcome(outcome), self.now_s, path))  # type: ignore[arg-type]  # Finish has the same three words

    def _at_once(self, path: Path) -> e.Event | None:
        """The event by which an open operation settles without waiting, if it does."""
        promise = self.execution.open.get(path)
        if promise is None or self.execution.parked is not None:
            return None
        if self.execution.memo.recalls(path, promise.op):
            return e.Recalled(path, self.now_s)
        if isinstance(promise.op, Sleep):
            is_over = promise.op.duration_s == 0 or (promise.due_s is not None and self.now.is_past(promise.due_s))
            return e.Settled(path, Ok(), self.now_s) if is_over else None
        if isinstance(promise.op, Receive):
            numbers = self.execution.mailbox.matching(promise.op)
            enough = len(numbers) >= (promise.op.limit if promise.op.gather else 1)
            return e.Received(path, numbers, self.now_s) if enough else None
        return None

    # reactions: a message in, given events out; each is folded before the next is asked for

    def start(self, message: messages.Start) -> Iterator[e.Event]:
        """Begin, or note that somebody else waits for the end too."""
        execution = self.execution
        if execution.started is not None or execution.ended is not None:
            if message.parent is None or (execution.ended is None and message.parent in execution.watchers):
                return
            if self._goes_on_with(message.parent):
                yield e.Reopened(self.now_s, f"its parent {message.parent.key} was retried")
            if execution.started is not None or execution.ended is not None:
                yield e.Watched(message.parent, self.now_s)
                return
        if message.expires_at_s is not None and self.now.earliest_s > message.expires_at_s:
            yield e.Ended("cancelled", Err("cancelled", 1, ErrorInfo("Expired", "it had not begun when its time to begin was over")), self.now_s)
            return
        deadline_at_s = None if message.deadline_s is None else self.now_s + message.deadline_s
        value = offload(message.input, self.decision.blobs)
        definition = None if message.definition is None else kept(message.definition, self.decision.blobs)
        version = message.version or self.host.versions.get(execution.key.workflow, 1)
        if message.fork is not None:
            yield e.Forked(message.fork, self.now_s)
        given = (message.parent, deadline_at_s, message.origin, message.depth, message.attributes, definition, message.grace_s)
        yield e.Started(version, self.now_s, value, message.seed, *given, rules=e.RULES, archive=execution.key.workflow in self.host.archives)

    def _goes_on_with(self, parent: messages.Parent) -> bool:
        """Whether this has failed, was undone or no longer wanted, and is to be done for a parent that was reopened since."""
        execution = self.execution
        unwanted = execution.cancelling is not None and execution.cancelling.unwanted
        was_undone = execution.completed is not None and execution.completed.status == "completed"
        in_vain = execution.ended is not None and (execution.ended.status == "failed" or was_undone or unwanted)
        return in_vain and execution.removed is None and execution.seen.wants_more(parent)

    def settle(self, message: messages.Settle) -> Iterator[e.Event]:
        """Take an answer, if the operation is open and on this attempt."""
        promise = self.execution.open.get(message.path)
        if promise is None or promise.attempt != message.attempt or promise.state not in ("waiting", "performing"):
            return
        if isinstance(message.outcome, Err) and isinstance(promise.op, Call):
            yield tries.failed(self.execution.key, promise, promise.op, message.outcome, self.now_s)
        else:
            yield e.Settled(promise.path, self._light_outcome(message.outcome), self.now_s)

    def _light_outcome(self, outcome: Outcome) -> Outcome:
        return Ok(offload(outcome.value, self.decision.blobs), outcome.port) if isinstance(outcome, Ok) else outcome

    def lost(self, message: messages.Lost) -> Iterator[e.Event]:
        """A try will never answer."""
        promise = self.execution.open.get(message.path)
        if promise is None or promise.attempt != message.attempt or promise.state not in ("waiting", "performing") or not isinstance(promise.op, Call):
            return
        if not message.begun and promise.grace_until_s is not None:
            yield e.Settled(promise.path, tries.abandoned(promise, begun=False), self.now_s)
            return
        yield (event := tries.lost(self.execution.key, promise, promise.op, message.times, self.now_s))
        begins_at_once = isinstance(event, e.Interrupted) and not event.given_back and event.due_s == self.now_s
        if begins_at_once and self.execution.parked is None and message.path not in self.host.busy:
            yield self._due(promise)  # this one alone: others that are due may be lost as well, and nobody has said so yet

    def progress(self, message: messages.Progress) -> Iterator[e.Event]:
        """Note how far the present try is."""
        promise = self.execution.open.get(message.path)
        if promise is not None and promise.attempt == message.attempt and promise.state in ("waiting", "performing"):
            yield e.Progressed(promise.path, promise.attempt, message.body, self.now_s)

    def signal(self, message: messages.Signal) -> Iterator[e.Event]:
        """Put a message into the mailbox, once."""
        execution = self.execution
        if execution.ended is not None or execution.seen.knows(message.sender, message.sent, message.key, self.now.earliest_s):
            return
        if len(execution.mailbox) >= limits.MAILBOX_MESSAGES_MAX:
            yield e.Refused(self.number, message.name, self.now_s, message.key, message.sender, message.sent)
            return
        body = offload(message.body, self.decision.blobs)
        yield e.Arrived(self.number, message.name, self.now_s, body, message.key, message.sender, message.sent)

    def cancel(self, message: messages.Cancel) -> Iterator[e.Event]:
        """Tell the program to unwind; what can't be told so ends at once."""
        yield from self._cancel(message.reason, message.undo)

    def _cancel(self, reason: str, undo: bool, unwanted: bool = False) -> Iterator[e.Event]:
        execution = self.execution
        if execution.ended is not None or (execution.parked is None and not execution.may_be_told_to_unwind):
            return
        if execution.started is None or (execution.parked is not None and execution.parked.reason != "paused"):
            yield from self._end(reason, unwanted)
            return
        if execution.parked is not None:
            yield e.Resumed(self.now_s, reason)
        if execution.may_be_told_to_unwind:  # what was due while it was paused may have ended it, or begun its undo
            yield e.Cancelling(self.now_s, reason, undo=undo, unwanted=unwanted)

    def terminate(self, message: messages.Terminate) -> Iterator[e.Event]:
        """End at once."""
        if self.execution.ended is None:
            yield from self._end(message.reason)

    def leave(self, message: messages.Leave) -> Iterator[e.Event]:
        """Wait for the end on behalf of one less; end as who created this wants, once that one has left as well and nobody else waits."""
        execution = self.execution
        if execution.ended is not None or not any(same_parent(one, message.parent) for one in execution.watchers):
            return
        yield e.Unwatched(message.parent, self.now_s, message.end)
        if execution.watchers or execution.let_go in (None, "detach"):
            return
        why = f"its parent {message.parent.key} no longer waits for it"
        yield from self._cancel(why, undo=True, unwanted=True) if execution.let_go == "cancel" else self._end(why, unwanted=True)

    def _end(self, reason: str, unwanted: bool = False) -> Iterator[e.Event]:
        if unwanted:
            yield e.Cancelling(self.now_s, reason, undo=False, unwanted=True)
        yield self._cancelled(reason)

    def discard(self, message: messages.Discard) -> Iterator[e.Event]:
        """End as cancelled what nobody will mend; behind a failure too, of which whoever waited was told."""
        if self.execution.status in ("failed", "needs_attention"):
            yield self._cancelled(message.reason)

    def _deadline_exceeded(self, why: str) -> e.Event:
        return e.Ended("failed", Err("deadline_exceeded", 1, ErrorInfo("DeadlineExceeded", why)), self.now_s)

    def _cancelled(self, reason: str) -> e.Event:
        return e.Ended("cancelled", Err("cancelled", 1, ErrorInfo("Cancelled", reason)), self.now_s)

    def undo(self, message: messages.Undo) -> Iterator[e.Event]:
        """Undo what has completed, once, or what could not be undone; whoever waits for that is told when it is over, or that there is nothing to undo."""
        ended, is_left = self.execution.ended, bool(not_undone(self.execution.settled))
        may_be_undone = ended is not None and ((ended.status == "completed" and self.execution.completed is None) or is_left)
        if may_be_undone and self.execution.removed is None:
            yield e.Undoing(self.now_s, message.reason, message.parent)
        elif message.parent is not None and (ended is not None or message.parent not in self.execution.watchers):
            yield e.Watched(message.parent, self.now_s)

    def retry(self, message: messages.Retry) -> Iterator[e.Event]:
        """Resume what is parked, reopen what has failed."""
        parked = self.execution.parked
        if message.parked and (parked is None or parked.reason != message.parked):
            return
        if parked is not None:
            yield from self.resume(message)
        elif self.execution.ended is not None and self.execution.ended.status == "failed":
            yield e.Reopened(self.now_s, message.reason, message.before if message.before in self.execution.settled else ())

    def preset(self, message: messages.Preset) -> Iterator[e.Event]:
        """Settle an open operation, or remember the outcome for when it is opened; what has settled stays as it is, but for what failed with the execution."""
        path, ended = message.path, self.execution.ended
        promise, settled = self.execution.open.get(path), self.execution.settled.get(path)
        if promise is not None and isinstance(promise.op, Call | Sleep | Spawn):
            yield e.Settled(path, self._light_outcome(message.outcome), self.now_s)
        elif settled is None or (isinstance(settled.outcome, Err) and ended is not None and ended.status == "failed"):
            yield e.Preset(path, self._light_outcome(message.outcome), self.now_s)

    def pause(self, message: messages.Pause) -> Iterator[e.Event]:
        """Park until resumed."""
        if self.execution.ended is None and self.execution.parked is None:
            yield e.Parked("paused", self.now_s, (message.reason,) if message.reason else ())

    def patch(self, message: messages.Patch) -> Iterator[e.Event]:
        """Go on by another definition, or note why not."""
        execution = self.execution
        if execution.ended is not None or execution.started is None:
            return
        definition, base = kept(message.definition, self.decision.blobs), execution.definition
        refused: tuple[str, ...] = ()
        if message.base and (base is None or base.sha256 != message.base):
            refused = ("somebody else has patched it meanwhile; look at it as it is now, and patch that",)
        yield e.Patched(definition, self.now_s, message.reason, refused or self.program.unfit(message.definition))

    def evict(self, message: messages.Evict) -> Iterator[e.Event]:
        """Have it on record that it leaves; the engine does the rest."""
        if self.execution.started is not None and self.execution.ended is None:
            yield e.Evicted(self.now_s, message.reason)

    def resume(self, message: messages.Resume | messages.Retry) -> Iterator[e.Event]:
        """Go on from where it was parked. What has become due meanwhile is done at the next tick, behind the messages that came with this one."""
        if self.execution.parked is not None:
            yield e.Resumed(self.now_s, message.reason)

    def diverge(self, message: messages.Diverge) -> Iterator[e.Event]:
        """Park, with what differs."""
        if self.execution.ended is None and self.execution.parked is None:
            yield e.Parked("diverged", self.now_s, message.diff)

    def tick(self, _: messages.Tick) -> Iterator[e.Event]:
        """Do what is due by now, the earliest first."""
        execution = self.execution
        held = self.host.busy, self.host.young
        while (wake_at_s := execution.wake_at(*held)) is not None and self.now.is_past(wake_at_s):
            promise = execution.opened.due_first(*held)
            if promise is not None and promise.due_s == wake_at_s:
                yield self._due(promise)
            elif execution.started is not None:
                after_s = round(wake_at_s - execution.started.at_s, 5)  # a time of today has no more digits than these
                why = f"not ended {after_s:.12g} s after its start"
                yield e.Cancelling(self.now_s, why, deadline=True) if execution.cancelling is None else e.Stopped(self.now_s)

    def _due(self, promise: Promise) -> e.Event:
        match promise.op:
            case Call() as op if promise.state in ("retrying", "interrupted"):
                return e.Tried(promise.path, promise.attempt + 1, self.now_s, self.host.takes(op))
            case Call() if promise.grace_until_s is not None and self.now.is_past(promise.grace_until_s):
                return e.Settled(promise.path, tries.abandoned(promise), self.now_s)
            case Call() as op:
                why = ErrorInfo("Timeout", tries.overdue(promise, op))
                return tries.failed(self.execution.key, promise, op, Err("timeout", 1, why), self.now_s)
            case Receive(gather=True) as op:
                return e.Received(promise.path, self.execution.mailbox.matching(op), self.now_s)
            case Receive() as op:
                why = ErrorInfo("Timeout", f"no message within {op.timeout_s:g} s")
                return e.Settled(promise.path, Err("timeout", 1, why), self.now_s)
            case Sleep():
                return e.Settled(promise.path, Ok(), self.now_s)
        raise TypeError(f"a {kind(promise.op)} has no timer")


def _begins_ending(command: Command) -> bool:
    """Whether the program remembers how the execution will end, and has something to wait for, or to undo, before."""
    return isinstance(command, Open) and isinstance(command.op, Keep) and command.op.role == "undo"


_REACTIONS: dict[type, Callable[[_Draft, Any], Iterator[e.Event]]] = {
    messages.Start: _Draft.start,
    messages.Settle: _Draft.settle,
    messages.Lost: _Draft.lost,
    messages.Progress: _Draft.progress,
    messages.Signal: _Draft.signal,
    messages.Cancel: _Draft.cancel,
    messages.Terminate: _Draft.terminate,
    messages.Leave: _Draft.leave,
    messages.Undo: _Draft.undo,
    messages.Retry: _Draft.retry,
    messages.Preset: _Draft.preset,
    messages.Pause: _Draft.pause,
    messages.Resume: _Draft.resume,
    messages.Evict: _Draft.evict,
    messages.Discard: _Draft.discard,
    messages.Diverge: _Draft.diverge,
    messages.Tick: _Draft.tick,
    messages.Patch: _Draft.patch,
}
