"""Views for people, derived from the log: public events, a summary, and the states of steps. They hold no state of their own.

Public events have the shape of CloudEvents; their id is the number of the event in its log, so a stream can be resumed.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec

from perdure.core import attempt_rules, values
from perdure.core import events as e
from perdure.core.errors import ErrorInfo
from perdure.core.events import ended_event_of
from perdure.core.execution import Execution, ExecutionStatus
from perdure.core.operation_state import PendingOperation, SettledOperation
from perdure.core.operations import (
    APPROVAL_WORKFLOW,
    CallOperation,
    Failure,
    KeepOperation,
    Operation,
    Outcome,
    SpawnOperation,
    Success,
    awaits_approval,
    operation_kind,
    operation_target,
)
from perdure.core.paths import UNDO, Key, Path, path_text


class PublicEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """An event of an execution as clients see it.

    `id` is the number of the event in the log (several may share one), `type` is from the catalogue (``step.completed``), `subject` is the path of the
    operation, `time_s` the time of the store.
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
    """One operation as people see it: its place, its target, its state, its times and its error.

    An open operation is ``waiting``, ``waiting_approval``, ``performing``, ``retrying``, ``interrupted``, ``parked`` or ``ending`` (in flight, though
    nothing waits for it any more). A settled one is ``completed``, ``skipped``, ``failed``, ``cancelled`` (dropped, with no attempt in flight) or
    ``abandoned`` (dropped in flight, so its outcome is not known). `due_at_s` is the time of its timer; `port` is the one by which a definition continued
    from it, if that is not the default.
    """

    path: str
    kind: str
    target: str
    state: StepState
    attempt: int
    opened_at_s: float
    settled_at_s: float | None = None
    due_at_s: float | None = None
    error: ErrorInfo | None = None
    port: str = ""


class ExecutionSummary(msgspec.Struct, frozen=True, omit_defaults=True):
    """One execution in a list."""

    key: Key
    status: ExecutionStatus
    version: int
    workflow_version: int
    started_at_s: float | None
    ended_at_s: float | None
    open: int
    settled: int
    why: str


WAITING_STATUSES = ("waiting", "waiting_approval")
"""The statuses of an execution that waits for a message, a time, a child or a person."""


def public_history(key: Key, rows: Iterable[Sequence[e.Event]]) -> Iterator[PublicEvent]:
    """Yields the public events of a log, given as the events of each commit."""
    execution = Execution(key)
    for row in rows:
        before = execution.status
        for event in row:
            yield from public_events(execution, event)
            execution.apply(event)
        if execution.status in WAITING_STATUSES and execution.status != before:
            yield PublicEvent(execution.version, "execution.waiting", key, execution.now_s, data={"why": status_reason(execution)})


def public_events(execution: Execution, event: e.Event) -> Iterator[PublicEvent]:
    """Yields the public events of one event that is about to be folded into `execution`."""
    for name, path, data in _named_events(execution, event):
        at_s: float = getattr(event, "at_s", execution.now_s)
        yield PublicEvent(execution.version + 1, name, execution.key, at_s, path_text(path), data)


_NamedEvent = tuple[str, Path, dict[str, str | int | float]]


def _named_events(execution: Execution, event: e.Event) -> Iterator[_NamedEvent]:
    match event:
        case e.StartedEvent(version):
            by: dict[str, str | int | float] = {"version": version, **({} if event.definition is None else {"definition": event.definition.sha256[:12]})}
            yield "execution.created", (), by
            yield "execution.started", (), by
        case e.RemovedEvent(version=version):
            if event.started_at_s is not None:
                yield "execution.created", (), {"version": version}
                yield "execution.started", (), {"version": version}
            yield from _lifecycle_events(ended_event_of(event))
        case e.OpenedEvent(path, KeepOperation(port="skipped")):
            yield "step.skipped", path, {}
        case e.OpenedEvent(path, KeepOperation(role="warning", value=bytes() as raw)):
            yield "step.warning", path[:-1], {"warning": str(values.decode(raw, str, "a warning"))}
        case e.OpenedEvent(path, op) if awaits_approval(op):
            yield "approval.required", path, {}
        case e.OpenedEvent(path, CallOperation() as op) if not execution.recalled_results.recalls(path, op):
            yield "step.started", path, {"target": operation_target(op), "attempt": 1}
        case e.RecalledEvent(path) if isinstance(execution.open[path].op, CallOperation):
            yield "step.recalled", path, {}
        case e.AttemptStartedEvent(path, attempt):
            yield "step.started", path, {"target": operation_target(execution.open[path].op), "attempt": attempt}
        case e.RetryingEvent(path, attempt, _, error, due_at_s):
            yield "step.retrying", path, {"attempt": attempt, "error": error.line, "due_at_s": due_at_s}
        case e.InterruptedEvent(path, attempt, due_at_s):
            yield "step.retrying", path, {"attempt": attempt, "error": "interrupted", "due_at_s": due_at_s}
        case e.ParkedEvent(reason, _, _, path) if path in execution.open:
            yield "step.parked", path, {"attempt": execution.open[path].attempt, "reason": reason}
            yield from _lifecycle_events(event)
        case e.SettledEvent(path, outcome):
            yield from _settled_events(execution.open[path], outcome)
        case e.DroppedEvent(path, until_s, begun) if path in execution.open and isinstance(execution.open[path].op, CallOperation):
            yield "step.cancelled", path, {} if until_s is None else {"until_s": until_s}
            if until_s is None and begun:
                yield from _abandoned_events(execution.open[path])
        case e.EndedEvent():
            for pending in execution.open.values():
                yield from _abandoned_events(pending)
            yield from _lifecycle_events(event)
        case e.MessageArrivedEvent(number, name):
            yield "message.received", (), {"number": number, "name": name}
        case _:
            yield from _lifecycle_events(event)


def _settled_events(pending: PendingOperation, outcome: Outcome) -> Iterator[_NamedEvent]:
    """Yields the public events of an operation that settles: a step, its undo, or an approval."""
    path, op = pending.path, pending.op
    match outcome:
        case _ if path[0] == UNDO and isinstance(op, CallOperation):
            name = "step.undo_failed" if isinstance(outcome, Failure) else "step.undone"
            yield name, path[1:], {"attempt": pending.attempt, **_error_data(outcome)}
        case Failure("abandoned" | "cancelled") if pending.grace_until_s is not None:
            yield from _abandoned_events(pending, outcome)
        case _ if isinstance(op, CallOperation):
            name = "step.failed" if isinstance(outcome, Failure) else "step.completed"
            yield name, path, {"attempt": pending.attempt, **_error_data(outcome)}
        case Success(port="approved" | "rejected" as decision) if awaits_approval(op):
            yield f"approval.{decision}", path, {}
        case Success(port="timeout") if awaits_approval(op):
            yield "approval.expired", path, {}


def _abandoned_events(pending: PendingOperation, outcome: Outcome | None = None) -> Iterator[_NamedEvent]:
    """Yields the event that an attempt was in flight and its outcome is not known."""
    found = (attempt_rules.abandoned_outcome(pending) if outcome is None else outcome) if isinstance(pending.op, CallOperation) else None
    if isinstance(found, Failure) and found.kind == "abandoned":
        yield "step.abandoned", pending.path, {"attempt": pending.attempt}


def _error_data(outcome: Outcome) -> dict[str, str | int | float]:
    return {"error": outcome.error.line} if isinstance(outcome, Failure) else {}


def _lifecycle_events(event: e.Event) -> Iterator[_NamedEvent]:
    match event:
        case e.ParkedEvent():
            yield "execution.waiting", (), {"why": _parked_reason(event)}
        case e.ResumedEvent(_, reason):
            yield "execution.resumed", (), {"reason": reason}
        case e.EvictedEvent(_, reason):
            yield "execution.evicted", (), {"reason": reason}
        case e.StoppedEvent():
            yield "execution.stopped", (), {}
        case e.UndoingEvent(_, reason):
            yield "execution.undoing", (), {"reason": reason}
        case e.ReopenedEvent(_, reason):
            yield "execution.reopened", (), {"reason": reason}
        case e.PatchedEvent(definition, _, reason, ()):
            yield "execution.patched", (), {"definition": definition.sha256[:12], "reason": reason}
        case e.TrimmedEvent(path, before):
            yield "execution.trimmed", path, {"before": before}
        case e.EndedEvent("cancelled", Failure(_, _, ErrorInfo(_, reason))):
            yield "execution.cancelled", (), {"reason": reason}
        case e.EndedEvent(status, outcome):
            yield f"execution.{status}", (), _error_data(outcome)


def step_views(execution: Execution) -> list[StepView]:
    """Returns every settled and open operation, in the order in which they were opened."""
    known: list[tuple[Path, PendingOperation | SettledOperation]] = [*execution.settled.items(), *execution.open.items()]
    return [step_view(path, one) for path, one in sorted(known, key=lambda pair: pair[1].number)]


def step_view(path: Path, known: PendingOperation | SettledOperation) -> StepView:
    """Returns the view of one operation."""
    shown, op = path_text(path), known.op
    if isinstance(known, PendingOperation):
        return StepView(shown, operation_kind(op), operation_target(op), pending_state(known), known.attempt, known.opened_at_s, None, known.due_at_s)
    port = op.port if isinstance(op, KeepOperation) else known.outcome.port if isinstance(known.outcome, Success) else "success"
    error = known.outcome.error if isinstance(known.outcome, Failure) else None
    state = "skipped" if error is None and port == "skipped" else settled_state(known)
    shown_port = "" if port in ("success", "skipped") else port
    return StepView(shown, operation_kind(op), operation_target(op), state, known.attempt, known.opened_at_s, known.at_s, None, error, shown_port)


def pending_state(pending: PendingOperation) -> StepState:
    """Returns the state of an open operation."""
    if pending.grace_until_s is not None:
        return "ending"
    return "waiting_approval" if pending.state == "waiting" and awaits_approval(pending.op) else pending.state


def settled_state(known: SettledOperation) -> StepState:
    """Returns the state of a settled operation."""
    if not isinstance(known.outcome, Failure):
        return "completed"
    return "abandoned" if known.outcome.kind == "abandoned" else "cancelled" if known.outcome.kind == "cancelled" else "failed"


def execution_summary(execution: Execution) -> ExecutionSummary:
    """Returns the summary of an execution."""
    started, ended = execution.started, execution.ended
    return ExecutionSummary(
        execution.key,
        execution.status,
        execution.version,
        0 if started is None else started.version,
        None if started is None else started.at_s,
        None if ended is None else ended.at_s,
        len(execution.open),
        len(execution.settled),
        status_reason(execution),
    )


def status_reason(execution: Execution) -> str:
    """Returns in a sentence what the execution waits for, or how it ended."""
    if execution.ended is not None:
        outcome = execution.ended.outcome
        return outcome.error.line if isinstance(outcome, Failure) else "it has completed"
    if execution.parked is not None:
        return _parked_reason(execution.parked)
    if execution.started is None:
        return "it has not started"
    if cancelled := execution.opened.cancelled():
        return f"ending: {len(cancelled)} in flight ({', '.join(path_text(pending.path) for pending in cancelled[:3])}{', ...' if len(cancelled) > 3 else ''})"
    first = next(iter(execution.open.values()), None)
    if first is None:
        return "it is being decided"
    if first.path[0] == UNDO and first.state == "performing":
        return f"undoes {path_text(first.path[1:])}"
    more = f", and {len(execution.open) - 1} more" if len(execution.open) > 1 else ""
    return f"{_STATE_PHRASES.get(first.state, first.state)} {path_text(first.path)} ({_operation_text(first.op)}){more}"


def _parked_reason(event: e.ParkedEvent) -> str:
    detail = f": {'; '.join(event.detail)}" if event.detail else ""
    return f"paused{detail}; resume it" if event.reason == "paused" else f"needs attention ({event.reason}){detail}"


_STATE_PHRASES = {"waiting": "waits for", "performing": "runs", "retrying": "will try again", "interrupted": "was interrupted at", "parked": "is parked at"}


def _operation_text(op: Operation) -> str:
    if isinstance(op, SpawnOperation) and op.workflow == APPROVAL_WORKFLOW:
        return "approval"
    return f"{operation_kind(op)} {operation_target(op)}".strip()
