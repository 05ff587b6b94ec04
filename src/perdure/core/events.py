"""Events: what an execution remembers, in order. Its state is a fold of them, and its program is replayed from them.

An event is either *given* (it came from outside the program: a start, an answer, a message, the passing of time) or *asked*
(the program's own doing: an operation opened or dropped, a turn trimmed, the end). What the program asked for stands right
behind the given event that made it ask; so the log is the schedule of the program, and replay compares each in its place.

What is said of an execution whose log was removed, in place of what it had done.
"""

from datetime import UTC, datetime
from typing import Literal, get_args

import msgspec

from perdure.core.attributes import Attributes
from perdure.core.errors import ErrorInfo
from perdure.core.messages import Parent
from perdure.core.operations import Failure, OnCancel, Operation, Outcome
from perdure.core.paths import Key, Path
from perdure.core.recalled import ForkData
from perdure.core.values import ENCODED_NONE, Blob, Value

_FIELD_NAMES = {
    "path": "p",
    "at_s": "s",
    "op": "o",
    "by": "b",
    "outcome": "r",
    "attempt": "n",
    "due_s": "d",
    "numbers": "m",
    "number": "m",
    "name": "g",
    "body": "v",
    "sender": "f",
    "sent": "i",
    "key": "k",
    "error": "e",
    "version": "w",
    "attributes": "a",
    "until_s": "u",
}


_REMOVED_FIELD_NAMES = {"ended_at_s": "x", "started_at_s": "y", "status": "q", "input": "j", "result": "l"}
"""Shorter still: there may be a great many of these."""

EVENT_RULES_VERSION = 1
"""The number of the rules that executions are started under: what their events mean, and what programs make of them."""


class StartedEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="S", rename=_FIELD_NAMES):
    """The execution began; the version of its workflow is pinned, or its definition. `origin` has started it, itself started so many levels deep less one.

    `rules` numbers what its events mean; with `archive`, what compaction replaces is kept.
    `grace_s` is how long its steps in flight may go on when it fails or is cancelled, those aside that have a grace of their own.
    """

    version: int
    at_s: float
    input: Value = ENCODED_NONE
    seed: int = 0
    parent: Parent | None = None
    deadline_at_s: float | None = None
    origin: Key | None = None
    depth: int = 0
    attributes: Attributes = ()
    definition: Blob | None = None
    grace_s: float | None = None
    rules: int = 1
    archive: bool = False


class ForkedEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="F", rename=_FIELD_NAMES):
    """The execution will begin with what another one had reached."""

    fork: ForkData
    at_s: float


class PresetEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="p", rename=_FIELD_NAMES):
    """Somebody gave the outcome of an operation that is not open: should it be opened, it settles with that."""

    path: Path
    outcome: Outcome
    at_s: float


class WatchedEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="W", rename=_FIELD_NAMES):
    """A further execution waits for the end of this one."""

    parent: Parent
    at_s: float


class UnwatchedEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="w", rename=_FIELD_NAMES):
    """An execution no longer waits for the end of this one; `end` is what it wants done with this one, should nobody else wait."""

    parent: Parent
    at_s: float
    end: OnCancel = "cancel"


class MessageArrivedEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="A", rename=_FIELD_NAMES):
    """A message came into the mailbox, under its number in the store's mail."""

    number: int
    name: str
    at_s: float
    body: Value = ENCODED_NONE
    key: str = ""
    sender: Key | None = None
    sent: int = 0


class MessageRefusedEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="X", rename=_FIELD_NAMES):
    """A message was turned away, because the mailbox is full."""

    number: int
    name: str
    at_s: float
    key: str = ""
    sender: Key | None = None
    sent: int = 0


class ReceivedEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="C", rename=_FIELD_NAMES):
    """A receive settled with these messages, which leave the mailbox."""

    path: Path
    numbers: tuple[int, ...]
    at_s: float


class SettledEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="s", rename=_FIELD_NAMES):
    """A promise settled, once and for all."""

    path: Path
    outcome: Outcome
    at_s: float


class RecalledEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="M", rename=_FIELD_NAMES):
    """After a reopening: the operation had settled before, and settles with the same again."""

    path: Path
    at_s: float


class RetryingEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="r", rename=_FIELD_NAMES):
    """A try failed; the next one is due at `due_s`."""

    path: Path
    attempt: int
    kind: str
    error: ErrorInfo
    due_s: float
    at_s: float


class InterruptedEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="i", rename=_FIELD_NAMES):
    """Whoever performed this try is gone; the next one is due at `due_s`. Not counted as a failed try; `given_back` in good order, not at all."""

    path: Path
    attempt: int
    due_s: float
    at_s: float
    given_back: bool = False


class AttemptStartedEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="n", rename=_FIELD_NAMES):
    """A further try began: `by` the holder that performs it, or None when it went to the queue."""

    path: Path
    attempt: int
    at_s: float
    by: str | None = None


class ProgressedEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="b", rename=_FIELD_NAMES):
    """Who performs this try said how far it is, and thereby that it is alive; the next try is told."""

    path: Path
    attempt: int
    body: Value
    at_s: float


class CancellingEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="c", rename=_FIELD_NAMES):
    """The program was told to unwind, because somebody wants that, its deadline has passed, or it is `unwanted`: its parent waits no longer. What it has
    done is to be undone, or not."""

    at_s: float
    reason: str = ""
    deadline: bool = False
    undo: bool = True
    unwanted: bool = False


class StoppedEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="x", rename=_FIELD_NAMES):
    """The program was ended where it stood: it was told to unwind, has not ended within the grace of the execution, and the deadline is over."""

    at_s: float


class UndoingEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="u", rename=_FIELD_NAMES):
    """The execution had completed, and what it has done is to be undone; then it ends as before. `parent` waits for that."""

    at_s: float
    reason: str = ""
    parent: Parent | None = None


class ParkedEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="P", rename=_FIELD_NAMES):
    """The execution needs attention, or somebody paused it; it does nothing until it is resumed, cancelled or terminated."""

    reason: Literal["diverged", "interrupted", "paused", "undo"]
    at_s: float
    detail: tuple[str, ...] = ()
    path: Path = ()


class ResumedEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="U", rename=_FIELD_NAMES):
    """The execution goes on from where it was parked."""

    at_s: float
    reason: str = ""


class ReopenedEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="R", rename=_FIELD_NAMES):
    """A failed execution goes on: its program runs anew, and every operation that had succeeded settles with the same again.

    With `before`, only those that were opened earlier than the operation there.
    """

    at_s: float
    reason: str = ""
    before: Path = ()


class EvictedEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="v", rename=_FIELD_NAMES):
    """Somebody had the execution leave the engine that had it. What that was performing is given back behind this."""

    at_s: float
    reason: str = ""


class IterationResumedEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="T", rename=_FIELD_NAMES):
    """In a compacted log: the loop at `path` stood at the beginning of `turn`, with the state `value`. Earlier turns are gone."""

    path: Path
    turn: int
    value: Value
    at_s: float


class AttributesSetEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="a", rename=_FIELD_NAMES):
    """In a compacted log: these are the attributes from here on. The turns that changed them are gone."""

    attributes: Attributes
    at_s: float


class RetainedEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="k", rename=_FIELD_NAMES):
    """In a compacted log: an operation of a turn that is gone, which is to be undone if it comes to that; or a note about that."""

    path: Path
    op: Operation
    outcome: Outcome | None
    at_s: float


class RemovedEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="V", rename=_FIELD_NAMES | _REMOVED_FIELD_NAMES):
    """What it had done was removed, long after its end. This is the only event that is left, and the one of number `number`.

    It says how the execution ended and when. Of its `input` and its `result` (empty: it had none) the first 16 bytes of their SHA-256 are kept; of a failure
    or a cancellation the `error`. Without a `started_at_s` it had ended before it began.
    """

    at_s: float
    number: int
    ended_at_s: float
    started_at_s: float | None = None
    version: int = 0
    status: Literal["completed", "failed", "cancelled"] = "completed"
    input: bytes = b""
    result: bytes = b""
    error: Failure | None = None
    attributes: Attributes = ()


class PatchedEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="f", rename=_FIELD_NAMES):
    """The execution goes on by another definition from here on; or, for these reasons, that was `refused`."""

    definition: Blob
    at_s: float
    reason: str = ""
    refused: tuple[str, ...] = ()


class OpenedEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="o", rename=_FIELD_NAMES):
    """The program opened an operation. `by` names the holder that performs a call itself; `number` counts what is sent to one receiver."""

    path: Path
    op: Operation
    by: str | None = None
    number: int = 0


class DroppedEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="d", rename=_FIELD_NAMES):
    """The program no longer wants the operation; messages that it received and that were not used go back to their place.

    Until `until_s`, a call that is in flight may still be answered, and is open so long. Without it, the call is abandoned at once. One that is dropped in
    the decision that opened it has not `begun`.
    """

    path: Path
    until_s: float | None = None
    begun: bool = True


class TrimmedEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="t", rename=_FIELD_NAMES):
    """The turns of the loop at `path` before turn `before` are forgotten. What was done in them is still to be undone, but for turns before `undo_before`."""

    path: Path
    before: int
    undo_before: int = 0


class EndedEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="E", rename=_FIELD_NAMES):
    """The execution is over: completed with a value, failed with an error, or cancelled. One that has failed may end once more: as cancelled, discarded.

    `path` is that of the step because of which a definition has failed.
    """

    status: Literal["completed", "failed", "cancelled"]
    outcome: Outcome
    at_s: float
    path: Path = ()


class SnapshotEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="Z", rename=_FIELD_NAMES):
    """What the events before it in a compacted log do not say any more, as of `version`.

    `kept` counts the events before it; `archive` is the hash of the blob that holds what was replaced, if it was kept.
    """

    version: int
    at_s: float
    kept: int
    state: tuple[tuple[str, Value], ...] = ()
    watermarks: tuple[tuple[Key, int, tuple[int, ...]], ...] = ()
    keys: tuple[tuple[str, float], ...] = ()
    sent: tuple[tuple[Key, int], ...] = ()
    emitted: int = 0
    archive: str | None = None
    attributes: Attributes = ()


ExternalEvent = (
    StartedEvent
    | ForkedEvent
    | PresetEvent
    | WatchedEvent
    | UnwatchedEvent
    | MessageArrivedEvent
    | MessageRefusedEvent
    | ReceivedEvent
    | SettledEvent
    | RecalledEvent
    | RetryingEvent
    | InterruptedEvent
    | AttemptStartedEvent
    | ProgressedEvent
    | CancellingEvent
    | StoppedEvent
    | UndoingEvent
    | ParkedEvent
    | ResumedEvent
    | ReopenedEvent
    | EvictedEvent
    | IterationResumedEvent
    | AttributesSetEvent
    | RetainedEvent
    | RemovedEvent
    | SnapshotEvent
    | PatchedEvent
)
CommandEvent = OpenedEvent | DroppedEvent | TrimmedEvent | EndedEvent
Event = ExternalEvent | CommandEvent

COMMAND_EVENTS: frozenset[type] = frozenset(get_args(CommandEvent))
PROGRAM_EVENTS: frozenset[type] = frozenset(
    (
        StartedEvent,
        ReceivedEvent,
        SettledEvent,
        RecalledEvent,
        CancellingEvent,
        StoppedEvent,
        UndoingEvent,
        ResumedEvent,
        ReopenedEvent,
        IterationResumedEvent,
        PatchedEvent,
    )
)
"""The given events that a program is fed; the others do not concern it."""


REMOVED_KIND = "removed"
"""The kind of the error that stands in the place of a result."""

DIGEST_BYTES = 16
"""How much is kept of the SHA-256 of an input and of a result: enough to tell whether a value is the same."""


def removal_text(removed: RemovedEvent) -> str:
    """That it was removed, in words."""
    of_result = f", the SHA-256 of its result began with {removed.result.hex()}" if removed.result else ""
    return f"it was removed at {datetime.fromtimestamp(removed.at_s, UTC):%Y-%m-%d %H:%M:%S} UTC{of_result}"


def ended_event_of(removed: RemovedEvent) -> EndedEvent:
    """How it ended, as far as that was kept."""
    outcome = Failure(REMOVED_KIND, 1, ErrorInfo("Removed", removal_text(removed))) if removed.error is None else removed.error
    return EndedEvent(removed.status, outcome, removed.ended_at_s)
