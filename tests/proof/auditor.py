"""The auditor: told of every change of a store and of every effect in the world, it says what should not be, whatever crashes.

Beside each execution it keeps a fold of its own, made row by row, of what was really written. Nothing is raised where it is
found, because the engine under test would take that for trouble of its store; it goes into `problems`.
"""

import logging
import sys
from collections import Counter
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from hashlib import sha256

from perdure.code.step_environment import StepInfo, current_step
from perdure.core import events as e
from perdure.core import log_format, messages
from perdure.core.envelopes import QueuedMessage
from perdure.core.execution import Execution, execution_facts
from perdure.core.operations import CallOperation, Failure, Operation, Outcome, ReceiveOperation
from perdure.core.operations import SendOperation as SendOp
from perdure.core.paths import UNDO, Key, Path, path_text
from perdure.core.replay import fold_events
from perdure.core.undo_plan import undo_subject
from perdure.stores.protocol import Commit, Head
from perdure.testing.faults import Killed
from tests.proof.queue_audit import Leases, StepAudit, TryKey, life

CallKey = tuple[Key, Path]
"""Which call: of which execution, at which path."""

acting_for: ContextVar[Callable[[], str]] = ContextVar("perdure_acting_for", default=lambda: "")
"""The holder in whose name the present task acts."""


@dataclass
class AuditedExecution:
    """What the auditor remembers of one execution beside its fold."""

    shadow: Execution
    arrived: set[tuple[Key | None, int, str]] = field(default_factory=set)
    taken: set[int] = field(default_factory=set)
    settled: set[tuple[int, Path]] = field(default_factory=set)
    handed: tuple[str, tuple[QueuedMessage, ...]] | None = None
    ledger: StepAudit = field(default_factory=StepAudit)


class Auditor:
    """What is known to be true of a world so far. `problems` has what should not be. `tell` is told of each event that was written."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.known: dict[Key, AuditedExecution] = {}
        self.digest = sha256()
        self.counts: Counter[str] = Counter()
        self.tries: dict[CallKey, int] = {}
        self.interruptions: Counter[CallKey] = Counter()
        self.runs: Counter[TryKey] = Counter()
        self.effects: dict[tuple[str, str], set[CallKey]] = {}
        self.zombies: Counter[CallKey] = Counter()
        self.done_by: Counter[tuple[TryKey, str]] = Counter()
        self.acknowledged: set[int] = set()
        self.tell: Callable[[Key, e.Event], None] = lambda _, __: None
        self._deploy_of: Callable[[str], int] = lambda _: sys.maxsize
        self._needs: Callable[[Key], int] = lambda _: 0

    def permits(self, deploy_of: Callable[[str], int], needs: Callable[[Key], int]) -> None:
        """From now on a holder may find that an execution differs from its code, if that is of an older deploy than what the execution needs."""
        self._deploy_of, self._needs = deploy_of, needs

    def complain(self, problem: str) -> None:
        """Note something that should not be."""
        if len(self.problems) < 20:
            self.problems.append(problem)

    def expect(self, fact: bool, problem: Callable[[], str]) -> None:
        """Note a problem unless `fact`."""
        if not fact:
            self.complain(problem())

    def committed(self, commit: Commit, before: Head | None, version: int) -> None:
        """Check a commit that took effect, and fold it."""
        self.counts["commits"] += 1
        at = before.version if before else 0
        self.expect(
            commit.creates == (before is None) and (commit.version == at or before is None),
            lambda: f"{commit.key}: decided at {commit.version}, written at {at}",
        )
        self.expect(version == commit.version + commit.count, lambda: f"{commit.key}: {commit.count} events took it from {commit.version} to {version}")
        known = self.known.get(commit.key)
        if known is None:
            known = self.known[commit.key] = AuditedExecution(Execution(commit.key, commit.root))
        if commit.compacted:
            self._compacted(known, commit.compacted)
        events = log_format.decode_row(commit.row) if commit.count else []
        self.expect(len(events) == commit.count, lambda: f"{commit.key}: a row of {len(events)} events was written as {commit.count}")
        self._timeouts(known, commit, events)
        for event in events:
            self._before(known, event)
            self._of_its_code(known, event, commit.holder)
            known.shadow.apply(event)
            self._after(known, event)
            self.tell(commit.key, event)
        shadow = known.shadow
        self.expect(shadow.version == version, lambda: f"{commit.key}: the fold is at {shadow.version}, the head at {version}")
        self.expect(shadow.status == commit.status, lambda: f"{commit.key}: {commit.status} in the head, {shadow.status} by the log")
        self.digest.update(commit.compacted or b"")
        self.digest.update(commit.row)

    def _compacted(self, known: AuditedExecution, raw: bytes) -> None:
        self.counts["compactions"] += 1
        events = log_format.decode_row(raw)
        snapshot = events[-1]
        self.expect(isinstance(snapshot, e.SnapshotEvent), lambda: f"{known.shadow.key}: a compacted log ends with {snapshot}")
        known.shadow.apply(snapshot)
        whole = fold_events(known.shadow.key, events, known.shadow.root)
        self.same("the compacted log", whole, known.shadow)

    def same(self, what: str, found: Execution, expected: Execution) -> None:
        """Note a problem unless the two know the same."""
        one, other = execution_facts(found), execution_facts(expected)
        if one != other:
            different = [f"{name}: {one[name]!r:.300} but {other[name]!r:.300}" for name in one if one[name] != other[name]]
            self.complain(f"{expected.key}: {what} differs from the fold: {'; '.join(different)}")

    def _before(self, known: AuditedExecution, event: e.Event) -> None:
        """Check an event against the state that it comes into."""
        shadow, where = known.shadow, f"{known.shadow.key} at {known.shadow.version + 1}"
        self.counts[type(event).__name__.removesuffix("Event")] += 1
        self.expect(getattr(event, "at_s", shadow.now_s) >= shadow.now_s, lambda: f"{where}: time went back to {event}")
        after_the_end = shadow.ended is not None and isinstance(
            event, e.OpenedEvent | e.AttemptStartedEvent | e.SettledEvent | e.ReceivedEvent | e.MessageArrivedEvent | e.EndedEvent
        )
        discarded = isinstance(event, e.EndedEvent) and event.status == "cancelled" and shadow.status == "failed"
        self.expect(not after_the_end or discarded, lambda: f"{where}: {event} after the end")
        while_parked = shadow.parked is not None and isinstance(
            event, e.OpenedEvent | e.DroppedEvent | e.TrimmedEvent | e.AttemptStartedEvent | e.ReceivedEvent | e.RecalledEvent
        )
        self.expect(not while_parked, lambda: f"{where}: {event} while parked")
        match event:
            case e.OpenedEvent(path, SendOp(to), _, number) if path not in shadow.recalled_results.known:
                self.expect(number == shadow.sent.get(to, 0) + 1, lambda: f"{where}: message {number} to {to} after {shadow.sent.get(to, 0)}")
            case e.OpenedEvent(path, op):
                self.expect(path not in shadow.open and path not in shadow.settled, lambda: f"{where}: {path_text(path)} is opened twice")
                self.expect(not _undoes(path, op) or not _in_flight(shadow), lambda: f"{where}: {path_text(path)} is opened beside {_in_flight(shadow)}")
            case e.SettledEvent(path) | e.ReceivedEvent(path) | e.RecalledEvent(path):
                self._settles(known, path, where)
            case e.AttemptStartedEvent(path, attempt):
                pending = shadow.open.get(path)
                self.expect(
                    pending is not None and attempt == pending.attempt + 1 and pending.state in ("retrying", "interrupted"),
                    lambda: f"{where}: {event} of {pending}",
                )
            case e.RetryingEvent(path, attempt) | e.InterruptedEvent(path, attempt):
                pending = shadow.open.get(path)
                self.expect(
                    pending is not None and attempt == pending.attempt and pending.state in ("waiting", "performing"), lambda: f"{where}: {event} of {pending}"
                )
            case e.MessageArrivedEvent(_, _, _, _, key, sender, sent):
                once = (sender, sent, key)
                self.expect(once not in known.arrived, lambda: f"{where}: {event} has come before")
                known.arrived.add(once)
            case e.EndedEvent(status) if shadow.cancelling is not None:
                self.expect(status == ("failed" if shadow.cancelling.deadline else "cancelled"), lambda: f"{where}: it was cancelled, and ended as {status}")
        if isinstance(event, e.SettledEvent):
            self._settled(shadow, event, where)
        if isinstance(event, e.ReceivedEvent):
            self._received(known, event, where)

    def _of_its_code(self, known: AuditedExecution, event: e.Event, holder: str) -> None:
        """Code goes on with what it is meant for, and with nothing else."""
        shadow, where = known.shadow, f"{known.shadow.key} at {known.shadow.version + 1}"
        if isinstance(event, e.ParkedEvent) and event.reason == "diverged":
            deploy, needs = self._deploy_of(holder), self._needs(shadow.key)
            self.expect(deploy < needs, lambda: f"{where}: diverged on code of deploy {deploy}, and needs {needs}: {event.detail}")
            self.counts["diverged"] += 1
        version = event.version if isinstance(event, e.StartedEvent) else 0 if shadow.started is None else shadow.started.version
        self.expect(version <= self._deploy_of(holder) + 1, lambda: f"{where}: version {version} came to code of deploy {self._deploy_of(holder)}")

    def _settles(self, known: AuditedExecution, path: Path, where: str) -> None:
        once = (known.shadow.reopened, path)
        self.expect(path in known.shadow.open and once not in known.settled, lambda: f"{where}: {path_text(path)} settles, and is not open")
        known.settled.add(once)

    def _settled(self, shadow: Execution, event: e.SettledEvent, where: str) -> None:
        pending = shadow.open.get(event.path)
        if pending is None:
            return
        if pending.grace_until_s is not None:
            self.counts["abandoned after the grace" if _is(event.outcome, "abandoned") else "settled in the grace"] += 1
            self.counts["never begun"] += _is(event.outcome, "cancelled")
        match pending.op, event.outcome:
            case ReceiveOperation() as receive, Failure():
                self.expect(not shadow.mailbox.matching(receive), lambda: f"{where}: {path_text(event.path)} timed out, and its message was there")
            case CallOperation(retry=retry), Failure(kind, attempts, _) if kind in ("exhausted", "timeout"):
                told = f"{where}: {path_text(event.path)} failed {attempts} times, {pending.failures + 1} by the log, of {retry.max}"
                is_last = pending.grace_until_s is not None or attempts == retry.max or (kind == "timeout" and not pending.op.idempotent)
                self.expect(attempts == pending.failures + 1 and is_last, lambda: told)
            case CallOperation(), _:
                self.expect(pending.state in ("waiting", "performing"), lambda: f"{where}: {path_text(event.path)} was answered while {pending.state}")

    def _received(self, known: AuditedExecution, event: e.ReceivedEvent, where: str) -> None:
        pending = known.shadow.open.get(event.path)
        if pending is None or not isinstance(pending.op, ReceiveOperation):
            return
        names = pending.op.names
        first = sorted(number for number, letter in known.shadow.mailbox.messages.items() if letter.name in names)
        self.expect(list(event.numbers) == first[: len(event.numbers)], lambda: f"{where}: {event.numbers} were received before {first}")
        self.expect(not known.taken & set(event.numbers), lambda: f"{where}: {event.numbers} were received before")
        known.taken.update(event.numbers)

    def _timeouts(self, known: AuditedExecution, commit: Commit, events: list[e.Event]) -> None:
        """What was handed over with an execution comes before the passing of time: its messages are there when it times out."""
        handed, known.handed = known.handed, None
        if handed is None or handed[0] != commit.holder:
            return
        arrived: set[int] = set()
        for event in events:
            if isinstance(event, e.MessageArrivedEvent):
                arrived.add(event.number)
            if not isinstance(event, e.SettledEvent) or (pending := known.shadow.open.get(event.path)) is None or not isinstance(pending.op, ReceiveOperation):
                continue
            for message in handed[1]:
                signal = messages.decode_message_or_task(message.body)
                if isinstance(signal, messages.SignalMessage) and signal.name in pending.op.names and message.number not in arrived:
                    unknown = (signal.sender, signal.sent, signal.key) not in known.arrived
                    read = f"timed out before message {message.number}, which was there, was read"
                    self.expect(not unknown, lambda: f"{commit.key}: {path_text(event.path)} {read}")  # noqa: B023  # called at once

    def _after(self, known: AuditedExecution, event: e.Event) -> None:
        """Note what an event says, for later."""
        key = known.shadow.key
        known.ledger.note(known.shadow, event)
        match event:
            case e.OpenedEvent(path, CallOperation()):
                self.tries[key, path] = 1
                self.counts["undone"] += path[0] == UNDO
                self.counts["undone in doubt"] += path[0] == UNDO and isinstance(undo_subject(known.shadow.settled, path[1:]).outcome, Failure)
            case e.AttemptStartedEvent(path, attempt):
                self.tries[key, path] = attempt
            case e.InterruptedEvent(path, given_back=given_back):
                self.interruptions[key, path] += 1
                self.counts["given back"] += given_back
            case e.ParkedEvent("interrupted", _, _, path):
                self.interruptions[key, path] += 1
            case e.ReopenedEvent():
                self.runs = Counter({run: times for run, times in self.runs.items() if run[0] != key})  # tries are counted anew
            case e.DroppedEvent():
                known.taken &= known.taken - known.shadow.mailbox.messages.keys()

    def ran(self, world: str, effect: str, head: Callable[[Key], Head | None], is_dead: Callable[[str], bool], leases: Leases) -> None:
        """An effect happens in the world, now."""
        info, holder = current_step.get(None), acting_for.get()()
        if info is None:
            return
        call, this = (info.execution, info.path), (info.execution, info.path, info.attempt)
        self.effects.setdefault((world, effect), set()).add(call)
        if leases.handed[this]:
            at = life(holder)
            self.done_by[this, at] += 1
            where = f"{info.execution}: {path_text(info.path)}, try {info.attempt}"
            self.expect(self.done_by[this, at] <= leases.handed_to[this, at], lambda: f"{where} ran oftener at {at} than it was handed over to it")
            self.performed(info, this in leases.strays or leases.holds(this, holder), leases.handed[this], this in leases.strays)
            return
        held = head(info.execution)
        self.performed(info, held is not None and held.holder == holder and not is_dead(holder))

    def performed(self, info: StepInfo, holding: bool = True, times: int = 1, stray: bool = False) -> None:
        """A try of a step begins, now; `holding` says whether in the process that holds its execution, or has leased it. It was handed over so
        many times; what is `stray` may be over."""
        call, where = (info.execution, info.path), f"{info.execution}: {path_text(info.path)}, try {info.attempt}"
        self.runs[(*call, info.attempt)] += 1
        self.expect(self.runs[(*call, info.attempt)] <= times, lambda: f"{where} ran twice")
        known = self.known.get(info.execution)
        self.expect(known is not None and self.tries.get(call, 0) >= info.attempt, lambda: f"{where} ran before that was durable")
        if known is None or not holding:
            self.zombies[call] += 1
            return
        pending = known.shadow.open.get(info.path)
        settled = (known.shadow.reopened, info.path) in known.settled
        self.expect(stray or (not settled and (pending is None or pending.attempt == info.attempt)), lambda: f"{where} ran when it was over: {pending}")
        too_late = pending is not None and pending.grace_until_s is not None and pending.by is not None
        self.expect(not too_late, lambda: f"{where} ran when nobody waited for it any more: {pending}")

    def agrees(self, key: Key, undoes: bool, strays: Container[TryKey] = ()) -> None:
        """The log of an execution that has ended agrees with what its steps, and what undoes them, did in the world. Tries that are `strays` may begin late."""
        known = self.known[key]

        def began(path: Path) -> list[TryKey]:
            tries = ((key, path, attempt) for attempt in range(1, self.tries.get((key, path), 0) + 1))
            return [one for one in tries if self.runs[one]]

        def loose(path: Path) -> int:
            return sum(one in strays for one in began(path))

        for problem in known.ledger.differs(known.shadow, undoes, lambda path: len(began(path)), loose):
            self.complain(f"{key}: {problem}")


def _is(outcome: Outcome, kind: str) -> bool:
    return isinstance(outcome, Failure) and outcome.kind == kind


def _undoes(path: Path, op: Operation) -> bool:
    """Whether an operation undoes a step."""
    return path[0] == UNDO and isinstance(op, CallOperation)


def _in_flight(execution: Execution) -> list[str]:
    """The steps that somebody may be doing."""
    return [path_text(path) for path, pending in execution.open.items() if path[0] != UNDO and isinstance(pending.op, CallOperation)]


@contextmanager
def listening(problems: list[str]) -> Iterator[None]:
    """Take what engines report as defects for problems, and the rest of what they log for noise."""

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            error = record.exc_info[1] if record.exc_info else None
            if not isinstance(error, Killed) and len(problems) < 20:
                problems.append(f"{record.getMessage()}: {error!r}")

    logger, listener = logging.getLogger("perdure"), Listener(logging.ERROR)
    level, propagate = logger.level, logger.propagate
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    logger.addHandler(listener)
    try:
        yield
    finally:
        logger.removeHandler(listener)
        logger.setLevel(level)
        logger.propagate = propagate
