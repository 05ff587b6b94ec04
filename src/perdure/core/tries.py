"""Tries: what becomes of a call when a try of it has failed, or will never answer."""

import msgspec

from perdure.core import events as e
from perdure.core import limits
from perdure.core.errors import ErrorInfo
from perdure.core.ops import Call, Err, Outcome
from perdure.core.paths import UNDO, Key, text
from perdure.core.promise import Promise

FINAL = ("fatal", "interrupted", "rollback")
"""The kinds of failures after which a call is not tried again."""


def failed(key: Key, promise: Promise, op: Call, failure: Err, now_s: float) -> e.Event:
    """It is tried again after a while, or not any more. Where what undoes something may not fail, the execution then needs attention."""
    failures, error = promise.failures + 1, failure.error
    is_final = failure.kind in FINAL or failures >= op.retry.max or promise.grace_until_s is not None
    if failure.kind == "timeout" and not op.idempotent and not is_final:  # nobody knows how far it came, as after an interruption
        is_final, error = True, msgspec.structs.replace(error, message=f"{error.message}; it is not declared idempotent, so it was not run again")
    if is_final:
        if promise.path[0] == UNDO and not op.may_fail:
            why = f"{text(promise.path[1:])} could not be undone: {error.type}: {error.message}"
            return e.Parked("undo", now_s, (why,), promise.path)
        kept = failure.kind if failure.kind in FINAL or failure.kind == "timeout" else "exhausted"
        return e.Settled(promise.path, Err(kept, failures, error), now_s)
    wait_s = op.retry.delay_s(failures, f"{key}:{promise.path}:{failures}") if failure.after_s is None else failure.after_s
    return e.Retrying(promise.path, promise.attempt, failure.kind, failure.error, now_s + wait_s, now_s)


def lost(key: Key, promise: Promise, op: Call, times: int, now_s: float) -> e.Event:
    """Whoever performed it is gone, so many times: it is tried again after a while; when that has happened too often, the execution needs attention."""
    if promise.grace_until_s is not None:
        return e.Settled(promise.path, abandoned(promise), now_s)
    if not times:
        return e.Interrupted(promise.path, promise.attempt, now_s, now_s, given_back=True)
    if not op.idempotent:
        error = ErrorInfo("Interrupted", "whoever performed it is gone, and it is not declared idempotent, so it was not run again")
        return failed(key, promise, op, Err("interrupted", 1, error), now_s)
    if promise.interruptions + times >= limits.INTERRUPTIONS_MAX:
        why = f"{text(promise.path)} was interrupted {promise.interruptions + times} times in a row; find out what kills its host, then retry the execution"
        return e.Parked("interrupted", now_s, (why,), promise.path)
    wait_s = min(limits.INTERRUPTION_WAIT_S * 2**promise.interruptions, limits.INTERRUPTION_WAIT_MAX_S) if promise.interruptions else 0.0
    return e.Interrupted(promise.path, promise.attempt, now_s + wait_s, now_s)


def abandoned(promise: Promise, begun: bool = True) -> Err:
    """The outcome of a call that nobody waits for any more, and that was not answered. Whether a try in flight has done its work is not known."""
    if promise.in_flight and begun:
        return Err("abandoned", promise.attempt, ErrorInfo("Abandoned", "it was in flight when nobody waited for it any more, and its outcome is not known"))
    tries = promise.attempt - promise.in_flight
    again = "again " if tries else ""
    return Err("cancelled", tries, ErrorInfo("Cancelled", f"it was not begun {again}before nobody waited for it any more"))


def begun(promise: Promise, outcome: Outcome | None) -> int:
    """How many tries were begun of what settles so. A call that is cancelled says it itself: its last try may have been taken back before it began."""
    return outcome.attempts if isinstance(promise.op, Call) and isinstance(outcome, Err) and outcome.kind == "cancelled" else promise.attempt


def grace_s(op: Call, of_execution_s: float | None) -> float:
    """How long a try in flight may go on when the execution fails or is cancelled. A transaction may not: taken back, it can't be committed."""
    if op.transaction:
        return 0.0
    return next((one_s for one_s in (op.grace_s, of_execution_s) if one_s is not None), limits.GRACE_S)


def overdue(promise: Promise, op: Call) -> str:
    """In words, what a try that is due has not done in time."""
    if promise.until_s is not None and promise.due_s == promise.until_s:
        return f"no answer within {op.timeout_s:g} s"
    return f"no heartbeat within {op.heartbeat_s:g} s"
