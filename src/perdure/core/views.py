"""Views: what people read, derived from the log: public events, a summary, a trace of steps. Another fold, and no second truth.

Public events have the shape of CloudEvents; their id is the number of the event in its log, so a stream can be resumed.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec

from perdure.core import events as e
from perdure.core import tries, values
from perdure.core.errors import ErrorInfo
from perdure.core.execution import Execution, Status
from perdure.core.ops import APPROVAL, Call, Err, Keep, Ok, Op, Outcome, Spawn, asks_a_person, kind, target
from perdure.core.paths import UNDO, Key, Path, text
from perdure.core.promise import Promise, Settlement
from perdure.core.removal import end_of


class PublicEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that happened to an execution, for those outside of it.

    `id` is the number of the event in the log (several may share one), `type` one of the catalogue (``step.completed``), `subject` the path of
    the operation it is about, `time_s` the store's time.
    """

    id: int
    type: str
    source: Key
    time_s: float
    subject: str = ""
    data: dict[str, str | int | float] = {}


StepState = Literal[
    "waiting", "waiting_approval", "performing", "retrying", "interrupted", "parked", "ending", "completed", "skipped", "failed", "abandoned", "cancelled"
]


class StepView(msgspec.Struct, frozen=True, omit_defaults=True):
    """One operation, as people look at it: where, what, how it stands, how long it took, what went wrong.

    In the states ``waiting``, ``waiting_approval``, ``performing``, ``retrying``, ``interrupted``, ``parked`` and ``ending`` (in flight, though nothing waits
    for it any more) it is open; else it is ``completed``, ``skipped``, ``failed``, ``cancelled`` (given up, and nothing of it was in flight) or ``abandoned``
    (it was in flight, and its outcome is not known). `due_s` is when time will make it go on; `port` the one by which a graph went on from it, where that is
    not the usual one.
    """

    path: str
    kind: str
    target: str
    state: StepState
    attempt: int
    opened_at_s: float
    settled_at_s: float | None = None
    due_s: float | None = None
    error: ErrorInfo | None = None
    port: str = ""


class Summary(msgspec.Struct, frozen=True, omit_defaults=True):
    """One execution in a line of a list."""

    key: Key
    status: Status
    version: int
    workflow_version: int
    started_at_s: float | None
    ended_at_s: float | None
    open: int
    settled: int
    why: str


WAITING = ("waiting", "waiting_approval")
"""The states in which an execution goes on when something has come about."""


def history(key: Key, rows: Iterable[Sequence[e.Event]]) -> Iterator[PublicEvent]:
    """The public events of a log, given as the events of each commit."""
    execution = Execution(key)
    for row in rows:
        before = execution.status
        for event in row:
            yield from public(execution, event)
            execution.apply(event)
        if execution.status in WAITING and execution.status != before:
            yield PublicEvent(execution.version, "execution.waiting", key, execution.now_s, data={"why": why(execution)})


def public(execution: Execution, event: e.Event) -> Iterator[PublicEvent]:
    """The public events of one event, about to be folded into `execution`."""
    for name, path, data in _public(execution, event):
        at_s: float = getattr(event, "at_s", execution.now_s)
        yield PublicEvent(execution.version + 1, name, execution.key, at_s, text(path), data)


Named = tuple[str, Path, dict[str, str | int | float]]


def _public(execution: Execution, event: e.Event) -> Iterator[Named]:
    match event:
        case e.Started(version):
            by: dict[str, str | int | float] = {"version": version, **({} if event.definition is None else {"definition": event.definition.sha256[:12]})}
            yield "execution.created", (), by
            yield "execution.started", (), by
        case e.Removed(version=version):
            if event.started_at_s is not None:
                yield "execution.created", (), {"version": version}
                yield "execution.started", (), {"version": version}
            yield from _public_life(end_of(event))
        case e.Opened(path, Keep(port="skipped")):
            yield "step.skipped", path, {}
        case e.Opened(path, Keep(role="warning", value=bytes() as raw)):
            yield "step.warning", path[:-1], {"warning": str(values.decode(raw, str, "a warning"))}
        case e.Opened(path, op) if asks_a_person(op):
            yield "approval.required", path, {}
        case e.Opened(path, Call() as op) if not execution.memo.recalls(path, op):
            yield "step.started", path, {"target": target(op), "attempt": 1}
        case e.Recalled(path) if isinstance(execution.open[path].op, Call):
            yield "step.recalled", path, {}
        case e.Tried(path, attempt):
            yield "step.started", path, {"target": target(execution.open[path].op), "attempt": attempt}
        case e.Retrying(path, attempt, _, error, due_s):
            yield "step.retrying", path, {"attempt": attempt, "error": f"{error.type}: {error.message}", "due_s": due_s}
        case e.Interrupted(path, attempt, due_s):
            yield "step.retrying", path, {"attempt": attempt, "error": "interrupted", "due_s": due_s}
        case e.Parked(reason, _, _, path) if path in execution.open:
            yield "step.parked", path, {"attempt": execution.open[path].attempt, "reason": reason}
            yield from _public_life(event)
        case e.Settled(path, outcome):
            yield from _public_settled(execution.open[path], outcome)
        case e.Dropped(path, until_s, begun) if path in execution.open and isinstance(execution.open[path].op, Call):
            yield "step.cancelled", path, {} if until_s is None else {"until_s": until_s}
            if until_s is None and begun:
                yield from _abandoned(execution.open[path])
        case e.Ended():
            for promise in execution.open.values():
                yield from _abandoned(promise)
            yield from _public_life(event)
        case e.Arrived(number, name):
            yield "message.received", (), {"number": number, "name": name}
        case _:
            yield from _public_life(event)


def _public_settled(promise: Promise, outcome: Outcome) -> Iterator[Named]:
    """The public events of an operation that settles: a step, its undo, or an approval."""
    path, op = promise.path, promise.op
    match outcome:
        case _ if path[0] == UNDO and isinstance(op, Call):
            name = "step.undo_failed" if isinstance(outcome, Err) else "step.undone"
            yield name, path[1:], {"attempt": promise.attempt, **_error(outcome)}
        case Err("abandoned" | "cancelled") if promise.grace_until_s is not None:
            yield from _abandoned(promise, outcome)
        case _ if isinstance(op, Call):
            name = "step.failed" if isinstance(outcome, Err) else "step.completed"
            yield name, path, {"attempt": promise.attempt, **_error(outcome)}
        case Ok(port="approved" | "rejected" as decision) if asks_a_person(op):
            yield f"approval.{decision}", path, {}
        case Ok(port="timeout") if asks_a_person(op):
            yield "approval.expired", path, {}


def _abandoned(promise: Promise, outcome: Outcome | None = None) -> Iterator[Named]:
    """That a try was in flight, and its outcome is not known."""
    found = (tries.abandoned(promise) if outcome is None else outcome) if isinstance(promise.op, Call) else None
    if isinstance(found, Err) and found.kind == "abandoned":
        yield "step.abandoned", promise.path, {"attempt": promise.attempt}


def _error(outcome: Outcome) -> dict[str, str | int | float]:
    return {"error": f"{outcome.error.type}: {outcome.error.message}"} if isinstance(outcome, Err) else {}


def _public_life(event: e.Event) -> Iterator[Named]:
    match event:
        case e.Parked():
            yield "execution.waiting", (), {"why": _parked(event)}
        case e.Resumed(_, reason):
            yield "execution.resumed", (), {"reason": reason}
        case e.Evicted(_, reason):
            yield "execution.evicted", (), {"reason": reason}
        case e.Stopped():
            yield "execution.stopped", (), {}
        case e.Undoing(_, reason):
            yield "execution.undoing", (), {"reason": reason}
        case e.Reopened(_, reason):
            yield "execution.reopened", (), {"reason": reason}
        case e.Patched(definition, _, reason, ()):
            yield "execution.patched", (), {"definition": definition.sha256[:12], "reason": reason}
        case e.Trimmed(path, before):
            yield "execution.trimmed", path, {"before": before}
        case e.Ended("cancelled", Err(_, _, ErrorInfo(_, reason))):
            yield "execution.cancelled", (), {"reason": reason}
        case e.Ended(status, outcome):
            yield f"execution.{status}", (), _error(outcome)


def steps(execution: Execution) -> list[StepView]:
    """Every operation that the execution knows, settled and open, in the order in which they were opened."""
    known: list[tuple[Path, Promise | Settlement]] = [*execution.settled.items(), *execution.open.items()]
    return [step(path, one) for path, one in sorted(known, key=lambda pair: pair[1].number)]


def step(path: Path, known: Promise | Settlement) -> StepView:
    """One operation, as people look at it."""
    shown, op = text(path), known.op
    if isinstance(known, Promise):
        return StepView(shown, kind(op), target(op), open_state(known), known.attempt, known.opened_at_s, None, known.due_s)
    port = op.port if isinstance(op, Keep) else known.outcome.port if isinstance(known.outcome, Ok) else "success"
    error = known.outcome.error if isinstance(known.outcome, Err) else None
    state = "skipped" if error is None and port == "skipped" else settled_state(known)
    shown_port = "" if port in ("success", "skipped") else port
    return StepView(shown, kind(op), target(op), state, known.attempt, known.opened_at_s, known.at_s, None, error, shown_port)


def open_state(promise: Promise) -> StepState:
    """How an operation stands that is open."""
    if promise.grace_until_s is not None:
        return "ending"
    return "waiting_approval" if promise.state == "waiting" and asks_a_person(promise.op) else promise.state


def settled_state(known: Settlement) -> StepState:
    """How an operation has settled."""
    if not isinstance(known.outcome, Err):
        return "completed"
    return "abandoned" if known.outcome.kind == "abandoned" else "cancelled" if known.outcome.kind == "cancelled" else "failed"


def summary(execution: Execution) -> Summary:
    """The execution in a line."""
    started, ended = execution.started, execution.ended
    return Summary(
        execution.key,
        execution.status,
        execution.version,
        0 if started is None else started.version,
        None if started is None else started.at_s,
        None if ended is None else ended.at_s,
        len(execution.open),
        len(execution.settled),
        why(execution),
    )


def why(execution: Execution) -> str:
    """In a sentence, what the execution waits for, or how it ended."""
    if execution.ended is not None:
        outcome = execution.ended.outcome
        return f"{outcome.error.type}: {outcome.error.message}" if isinstance(outcome, Err) else "it has completed"
    if execution.parked is not None:
        return _parked(execution.parked)
    if execution.started is None:
        return "it has not started"
    if cancelled := execution.opened.cancelled():
        return f"ending: {len(cancelled)} in flight ({', '.join(text(promise.path) for promise in cancelled[:3])}{', ...' if len(cancelled) > 3 else ''})"
    first = next(iter(execution.open.values()), None)
    if first is None:
        return "it is being decided"
    if first.path[0] == UNDO and first.state == "performing":
        return f"undoes {text(first.path[1:])}"
    more = f", and {len(execution.open) - 1} more" if len(execution.open) > 1 else ""
    return f"{_WAITS.get(first.state, first.state)} {text(first.path)} ({_aim(first.op)}){more}"


def _parked(event: e.Parked) -> str:
    detail = f": {'; '.join(event.detail)}" if event.detail else ""
    return f"paused{detail}; resume it" if event.reason == "paused" else f"needs attention ({event.reason}){detail}"


_WAITS = {"waiting": "waits for", "performing": "runs", "retrying": "will try again", "interrupted": "was interrupted at", "parked": "is parked at"}


def _aim(op: Op) -> str:
    if isinstance(op, Spawn) and op.workflow == APPROVAL:
        return "approval"
    return f"{kind(op)} {target(op)}".strip()
