"""Tombstones: what is kept of an execution long after its end. A log like any other, of the same version, status and times, with nothing in it.

Who asks for the result, or joins the execution as its child, is told that it was removed.
"""

from datetime import UTC, datetime
from hashlib import sha256

import msgspec

from perdure.core import events as e
from perdure.core.errors import ErrorInfo
from perdure.core.execution import Execution
from perdure.core.ops import Err, Ok, Outcome
from perdure.core.values import NOTHING, Blob, Value

REMOVED = "removed"
"""The kind of the error that stands in the place of a result."""


def digest(value: Value) -> str:
    """The SHA-256 of a value, wherever it is kept."""
    return value.sha256 if isinstance(value, Blob) else sha256(value).hexdigest()


def tombstone(execution: Execution, now_s: float) -> tuple[list[e.Event], e.Removed] | None:
    """What replaces the log of an execution that has ended, and the event that follows it; None if it has not ended, or is one already."""
    ended, started = execution.ended, execution.started
    if ended is None or execution.removed is not None:
        return None
    result = digest(ended.outcome.value) if isinstance(ended.outcome, Ok) else ""
    removed = e.Removed(max(now_s, execution.now_s), "" if started is None else digest(started.input), result)
    kept: list[e.Event] = [] if started is None else [msgspec.structs.replace(started, input=NOTHING, parent=None)]
    kept.append(e.Ended(ended.status, _without_result(ended.outcome, removed), ended.at_s))
    return [*kept, e.Snapshot(execution.version, execution.now_s, len(kept), attributes=execution.attributes)], removed


def said(removed: e.Removed) -> str:
    """That it was removed, in words."""
    of_result = f", its result had the SHA-256 {removed.result_sha256}" if removed.result_sha256 else ""
    return f"it was removed at {datetime.fromtimestamp(removed.at_s, UTC):%Y-%m-%d %H:%M:%S} UTC{of_result}"


def _without_result(outcome: Outcome, removed: e.Removed) -> Outcome:
    if isinstance(outcome, Ok):
        return Err(REMOVED, 1, ErrorInfo("Removed", said(removed)))
    return msgspec.structs.replace(outcome, error=ErrorInfo(outcome.error.type, outcome.error.message))
