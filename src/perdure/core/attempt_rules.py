"""Decides how a call continues when an attempt of it failed or will never be answered."""

import msgspec

from perdure.core import error_codes, limits
from perdure.core import events as e
from perdure.core.errors import ErrorInfo
from perdure.core.operation_state import PendingOperation
from perdure.core.operations import CallOperation, Failure, Outcome
from perdure.core.paths import UNDO, Key, path_text

FINAL_FAILURES = ("fatal", "interrupted", "rollback")
"""The kinds of failures after which a call is not attempted again."""


def event_after_failure(key: Key, pending: PendingOperation, op: CallOperation, failure: Failure, now_s: float) -> e.Event:
    """Returns the event after a failed attempt: a retry, or the failure of the call. The execution parks if an undo handler that may not fail has failed."""
    failures, error = pending.failures + 1, failure.error
    is_final = failure.kind in FINAL_FAILURES or failures >= op.retry.max or pending.grace_until_s is not None
    if failure.kind == "timeout" and not op.idempotent and not is_final:  # as after an interruption, it is not known how far the step came
        is_final, error = True, msgspec.structs.replace(error, message=f"{error.message}. The step is not declared idempotent, so it was not run again")
    if is_final:
        if pending.path[0] == UNDO and not op.may_fail:
            why = f"{path_text(pending.path[1:])} could not be undone: {error.type}: {error.message}"
            return e.ParkedEvent("undo", now_s, (why,), pending.path)
        kept = failure.kind if failure.kind in FINAL_FAILURES or failure.kind == "timeout" else "exhausted"
        return e.SettledEvent(pending.path, Failure(kept, failures, error), now_s)
    wait_s = op.retry.delay_s(failures, f"{key}:{pending.path}:{failures}") if failure.after_s is None else failure.after_s
    return e.RetryingEvent(pending.path, pending.attempt, failure.kind, failure.error, now_s + wait_s, now_s)


def event_after_loss(key: Key, pending: PendingOperation, op: CallOperation, times: int, begun: bool, now_s: float) -> e.Event:
    """Returns the event after `times` lost attempts (0: one was given back): a further attempt, now or after a while; or a parked execution if that happened
    too often. A step that is not idempotent has no further attempt if the last one had `begun`.
    """
    if pending.grace_until_s is not None:
        return e.SettledEvent(pending.path, abandoned_outcome(pending, begun), now_s)
    if not times and (op.idempotent or not begun):
        return e.InterruptedEvent(pending.path, pending.attempt, now_s, now_s, given_back=True)
    if not op.idempotent:
        error = ErrorInfo(error_codes.INTERRUPTED, "the process that ran the step is gone, and the step is not declared idempotent, so it was not run again")
        return event_after_failure(key, pending, op, Failure("interrupted", 1, error), now_s)
    if pending.interruptions + times >= limits.INTERRUPTIONS_MAX:
        why = f"{path_text(pending.path)} was interrupted {pending.interruptions + times} times in a row. Find what kills its process, then retry the execution"
        return e.ParkedEvent("interrupted", now_s, (why,), pending.path)
    wait_s = min(limits.INTERRUPTION_WAIT_S * 2**pending.interruptions, limits.INTERRUPTION_WAIT_MAX_S) if pending.interruptions else 0.0
    return e.InterruptedEvent(pending.path, pending.attempt, now_s + wait_s, now_s)


def abandoned_outcome(pending: PendingOperation, begun: bool = True) -> Failure:
    """Returns the outcome of a dropped call that was not answered. Whether an attempt in flight did its work is not known."""
    if pending.in_flight and begun:
        return Failure(
            "abandoned",
            pending.attempt,
            ErrorInfo(error_codes.ABANDONED, "the attempt was in flight when its result was no longer needed, and its outcome is not known"),
        )
    tries = pending.attempt - pending.in_flight
    again = " again" if tries else ""
    return Failure("cancelled", tries, ErrorInfo(error_codes.CANCELLED, f"its result was no longer needed before it was begun{again}"))


def attempts_begun(pending: PendingOperation, outcome: Outcome | None) -> int:
    """Returns how many attempts of a settled operation began. A cancelled call says so itself, because its last attempt may have been taken back."""
    return outcome.attempts if isinstance(pending.op, CallOperation) and isinstance(outcome, Failure) and outcome.kind == "cancelled" else pending.attempt


def attempt_grace_s(op: CallOperation, of_execution_s: float | None) -> float:
    """Returns how long an attempt in flight may continue after the execution failed or was cancelled. For a transaction it is 0: a dropped one can't commit."""
    if op.transaction:
        return 0.0
    return next((one_s for one_s in (op.grace_s, of_execution_s) if one_s is not None), limits.GRACE_S)


def overdue_text(pending: PendingOperation, op: CallOperation) -> str:
    """Describes what an overdue attempt has not done in time."""
    if pending.until_s is not None and pending.due_at_s == pending.until_s:
        return f"no answer within {op.timeout_s:g} s"
    return f"no heartbeat within {op.heartbeat_s:g} s"
