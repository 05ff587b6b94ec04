"""Tombstones: the one event that is kept of an execution long after its end. It says that there was one of this id, how it ended and when.

Who asks for the result, or joins the execution as its child, is told that it was removed.
"""

from hashlib import sha256

import msgspec

from perdure.core import events as e
from perdure.core import limits
from perdure.core.error_text import shortened
from perdure.core.errors import ErrorInfo
from perdure.core.execution import Execution
from perdure.core.ops import Err, Ok, Outcome
from perdure.core.removal import DIGEST_BYTES
from perdure.core.values import Blob, Value


def digest(value: Value) -> bytes:
    """The beginning of the SHA-256 of a value, wherever it is kept."""
    return (bytes.fromhex(value.sha256) if isinstance(value, Blob) else sha256(value).digest())[:DIGEST_BYTES]


def tombstone(execution: Execution, now_s: float) -> e.Removed | None:
    """The event that replaces the log of an execution that has ended; None if it has not ended, or is one already."""
    ended, started = execution.ended, execution.started
    if ended is None or execution.removed is not None:
        return None
    begun = {} if started is None else {"started_at_s": started.at_s, "version": started.version, "input": digest(started.input)}
    return e.Removed(
        max(now_s, execution.now_s),
        execution.version + 1,
        ended.at_s,
        status=ended.status,
        result=digest(ended.outcome.value) if isinstance(ended.outcome, Ok) else b"",
        error=_error(ended.outcome),
        attributes=execution.attributes,
        **begun,  # type: ignore[arg-type]  # as they are named
    )


def _error(outcome: Outcome) -> Err | None:
    """How it failed or why it was cancelled, in short: neither the traceback nor what it carried."""
    match outcome:
        case Err(_, _, ErrorInfo() as error):
            return msgspec.structs.replace(outcome, error=ErrorInfo(error.type, shortened(error.message, limits.REMOVED_ERROR_CHARACTERS_MAX)))
        case _:
            return None
