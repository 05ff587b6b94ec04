"""Tries: what becomes of a call when a try of it has failed, or will never answer."""

import msgspec

from perdure.core import events as e
from perdure.core import limits
from perdure.core.errors import ErrorInfo
from perdure.core.operation_state import PendingOperation
from perdure.core.operations import CallOperation, Failure, Outcome
from perdure.core.paths import UNDO, Key, path_text

FINAL_FAILURES = ("fatal", "interrupted", "rollback")
"""The kinds of failures after which a call is not tried again."""


def event_after_failure(key: Key, pending: PendingOperation, op: CallOperation, failure: Failure, now_s: float) -> e.Event:
    """It is tried again after a while, or not any more. Where what undoes something may not fail, the execution then needs attention."""
    failures, error = pending.failures + 1, failure.error
    is_final = failure.kind in FINAL_FAILURES or failures >= op.retry.max or pending.grace_until_s is not None
    if failure.kind == "timeout" and not op.idempotent and not is_final:  # nobody knows how far it came, as after an interruption
        is_final, error = True, msgspec.structs.replace(error, message=f"{error.message}; it is not declared idempotent, so it was not run again")
    if is_final:
        if pending.path[0] == UNDO and not op.may_fail:
            why = f"{path_text(pending.path[1:])} could not be undone: {error.type}: {error.message}"
            return e.ParkedEvent("undo", now_s, (why,), pending.path)
        kept = failure.kind if failure.kind in FINAL_FAILURES or failure.kind == "timeout" else "exhausted"
        return e.SettledEvent(pending.path, Failure(kept, failures, error), now_s)
    wait_s = op.retry.delay_s(failures, f"{key}:{pending.path}:{failures}") if failure.after_s is None else failure.after_s
    return e.RetryingEvent(pending.path, pending.attempt, failure.kind, failure.error, now_s + wait_s, now_s)


def event_after_loss(key: Key, pending: PendingOperation, op: CallOperation, times: int, now_s: float) -> e.Event:
    """Whoever performed it is gone, so many times: it is tried again after a while; when that has happened too often, the execution needs attention."""
    if pending.grace_until_s is not None:
        return e.SettledEvent(pending.path, abandoned_outcome(pending), now_s)
    if not times:
        return e.InterruptedEvent(pending.path, pending.attempt, now_s, now_s, given_back=True)
    if not op.idempotent:
        error = ErrorInfo("Interrupted", "whoever performed it is gone, and it is not declared idempotent, so it was not run again")
        return event_after_failure(key, pending, op, Failure("interrupted", 1, error), now_s)
    if pending.interruptions + times >= limits.INTERRUPTIONS_MAX:
        why = (
            f"{path_text(pending.path)} was interrupted {pending.interruptions + times} times in a row; find out what kills its host, then retry the execution"
        )
        return e.ParkedEvent("interrupted", now_s, (why,), pending.path)
    wait_s = min(limits.INTERRUPTION_WAIT_S * 2**pending.interruptions, limits.INTERRUPTION_WAIT_MAX_S) if pending.interruptions else 0.0
    return e.InterruptedEvent(pending.path, pending.attempt, now_s + wait_s, now_s)


def abandoned_outcome(pending: PendingOperation, begun: bool = True) -> Failure:
    """The outcome of a call that nobody waits for any more, and that was not answered. Whether a try in flight has done its work is not known."""
    if pending.in_flight and begun:
        return Failure(
            "abandoned", pending.attempt, ErrorInfo("Abandoned", "it was in flight when nobody waited for it any more, and its outcome is not known")
        )
    tries = pending.attempt - pending.in_flight
    again = "again " if tries else ""
    return Failure("cancelled", tries, ErrorInfo("Cancelled", f"it was not begun {again}before nobody waited for it any more"))


def attempts_begun(pending: PendingOperation, outcome: Outcome | None) -> int:
    """How many tries were begun of what settles so. A call that is cancelled says it itself: its last try may have been taken back before it began."""
    return outcome.attempts if isinstance(pending.op, CallOperation) and isinstance(outcome, Failure) and outcome.kind == "cancelled" else pending.attempt


def attempt_grace_s(op: CallOperation, of_execution_s: float | None) -> float:
    """How long a try in flight may go on when the execution fails or is cancelled. A transaction may not: taken back, it can't be committed."""
    if op.transaction:
        return 0.0
    return next((one_s for one_s in (op.grace_s, of_execution_s) if one_s is not None), limits.GRACE_S)


def overdue_text(pending: PendingOperation, op: CallOperation) -> str:
    """In words, what a try that is due has not done in time."""
    if pending.until_s is not None and pending.due_s == pending.until_s:
        return f"no answer within {op.timeout_s:g} s"
    return f"no heartbeat within {op.heartbeat_s:g} s"
