"""Says in a sentence what the open operations of an execution wait for, or do, as its log tells it.

The sentence is that of one operation: one that is performed, or that people or workers have to act on, before one that goes on by itself.
"""

from datetime import UTC, datetime

from perdure.core.errors import ErrorInfo
from perdure.core.execution import Execution
from perdure.core.operation_state import PendingOperation
from perdure.core.operations import APPROVAL_WORKFLOW, CallOperation, ReceiveOperation, SleepOperation, SpawnOperation
from perdure.core.paths import UNDO, path_text


def first_operation(execution: Execution) -> PendingOperation | None:
    """Returns the open operation that the sentence is about; None if nothing is open."""
    return min(execution.open.values(), key=lambda pending: (_rank(pending), pending.number), default=None)


def _rank(pending: PendingOperation) -> int:
    if pending.state == "performing":
        return 0
    if pending.state in ("parked", "interrupted", "retrying"):
        return 1
    match pending.op:
        case SpawnOperation(workflow=workflow):
            return 2 if workflow == APPROVAL_WORKFLOW else 4
        case CallOperation():
            return 3
        case ReceiveOperation():
            return 5
    return 6


def operation_reason(pending: PendingOperation) -> str:
    """Returns what one open operation waits for, or does."""
    op, shown = pending.op, path_text(pending.path)
    if pending.path[0] == UNDO and pending.state == "performing":
        return f"undoes {path_text(pending.path[1:])}"
    if pending.state == "performing":
        return f"runs {shown}{f', attempt {pending.attempt}' if pending.attempt > 1 else ''}"
    if pending.state in ("retrying", "interrupted"):
        return next_attempt_reason(pending, pending.attempt + 1, None)
    match op:
        case CallOperation():
            return f"waits for {shown} in queue {op.queue}" if op.queue else f"waits to run {shown}"  # the log does not say when a worker takes it
        case SleepOperation():
            return f"sleeps{'' if pending.due_at_s is None else f' until {time_text(pending.due_at_s)}'} ({shown})"
        case ReceiveOperation(names=names):
            until = "" if pending.due_at_s is None else f", until {time_text(pending.due_at_s)}"
            return f"waits for the message {' or '.join(names)} ({shown}){until}"
        case SpawnOperation(workflow=workflow, id=id):
            return f"waits for the approval {shown}" if workflow == APPROVAL_WORKFLOW else f"waits for its child {workflow}/{id} ({shown})"
    return f"waits for {shown}"


def next_attempt_reason(pending: PendingOperation, attempt: int, error: ErrorInfo | None) -> str:
    """Returns the sentence of a call that is attempted again: as which attempt, and after which error of the one before, if that is known."""
    at = "" if pending.due_at_s is None else f" at {time_text(pending.due_at_s)}"
    after = ", after its process was lost" if pending.state == "interrupted" else "" if error is None else f", after {error.type}: {error.message}"
    return f"tries {path_text(pending.path)} again (attempt {attempt}){at}{after}"


def and_more(execution: Execution) -> str:
    """Returns the end of a sentence about one operation, if others are open as well."""
    return f", and {len(execution.open) - 1} more" if len(execution.open) > 1 else ""


def time_text(at_s: float) -> str:
    """A time as sentences have it."""
    try:
        return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, ValueError, OSError):
        return "a time beyond any calendar"
