"""What executions announce: that one has ended or needs attention, and what its code emits under a name. Triggers can start executions on it."""

from collections.abc import Iterator, Sequence

import msgspec

from perdure.core.carried import Carried
from perdure.core.errors import BadValue, ErrorInfo
from perdure.core.events import EndedEvent, Event, OpenedEvent, ParkedEvent
from perdure.core.execution import Execution
from perdure.core.failure_causes import failure_cause
from perdure.core.operations import Failure, KeepOperation, Success
from perdure.core.paths import Key
from perdure.core.values import ENCODED_NONE, Value

NEEDS_ATTENTION = "needs_attention"

LIFECYCLE_TYPES = ("completed", "failed", "cancelled", NEEDS_ATTENTION)
"""The types of announcements that tell how an execution has ended, or that it does not go on by itself."""

ATTENTION_REASONS = frozenset(("diverged", "interrupted", "undo"))
"""Why an execution that is parked does not go on by itself. One that is paused was stopped by somebody, who knows it."""


def check_event_name(name: str, what: str) -> None:
    """Checks a name under which a value is announced: it can't be one that tells how an execution has ended.

    Raises:
        BadValue: it is one.
    """
    if name in LIFECYCLE_TYPES:
        raise BadValue(what, name, f"a name of your own: {', '.join(LIFECYCLE_TYPES)} tell how an execution has ended")


class Announcement(msgspec.Struct, frozen=True, omit_defaults=True):
    """An announcement of the execution `key`, which is its event `number`: its `type`, one of `LIFECYCLE_TYPES` or a name; and the result, or what was emitted.

    `carried` is what the execution carries, which names the trigger that has started it.
    """

    key: Key
    type: str
    number: int
    at_s: float
    value: Value = ENCODED_NONE
    error: ErrorInfo | None = None
    carried: Carried = ()


def announcements(execution: Execution, events: Sequence[Event], version: int) -> Iterator[Announcement]:
    """Yields what an execution announces by events that it appends at `version`; the execution is as it is after them."""
    for number, event in enumerate(events, version + 1):
        match event:
            case OpenedEvent(op=KeepOperation(role="stream", label=str(name)) as op) if name:
                yield Announcement(execution.key, name, number, execution.now_s, op.value, carried=execution.carried)
            case EndedEvent(outcome=Success(value)):
                yield Announcement(execution.key, execution.status, number, event.at_s, value, carried=execution.carried)
            case EndedEvent(outcome=Failure(error=error)):
                yield Announcement(execution.key, execution.status, number, event.at_s, error=_cause(execution, error), carried=execution.carried)
            case ParkedEvent(reason=reason) if reason in ATTENTION_REASONS:
                error = ErrorInfo(reason, "; ".join(event.detail))
                yield Announcement(execution.key, NEEDS_ATTENTION, number, event.at_s, error=_cause(execution, error), carried=execution.carried)


def is_announced(event: Event) -> bool:
    """Whether an event is announced."""
    match event:
        case EndedEvent():
            return True
        case ParkedEvent(reason=reason):
            return reason in ATTENTION_REASONS
        case OpenedEvent(op=KeepOperation(role="stream", label=str(name))):
            return bool(name)
    return False


def _cause(execution: Execution, otherwise: ErrorInfo) -> ErrorInfo:
    found = failure_cause(execution)
    return otherwise if found is None else found.error
