"""Events: the entries of a log, in order. The state of an execution is a fold of them, and its program is replayed over them.

An *external* event comes from outside the program: a start, an outcome, a message, the passing of time. A *command* event records a command of the
program: an operation opened or dropped, iterations trimmed, the end. The commands follow directly behind the external event that caused them, so the log
is the schedule of the program, and replay compares each command in its place.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal, get_args

import msgspec

from perdure.core import error_codes
from perdure.core.attributes import Attributes
from perdure.core.carried import Carried
from perdure.core.errors import ErrorInfo
from perdure.core.messages import Parent
from perdure.core.operations import Failure, OnCancel, Operation, Outcome
from perdure.core.paths import Key, Path
from perdure.core.pinned_calls import Hosting, PinnedCalls
from perdure.core.recalled import ForkData
from perdure.core.values import ENCODED_NONE, Blob, Value

_FIELD_NAMES = {
    "path": "p",
    "at_s": "s",
    "op": "o",
    "by": "b",
    "outcome": "r",
    "attempt": "n",
    "due_at_s": "d",
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
"""One-letter names for `RemovedEvent` alone, because a store may hold a great many of these."""

EVENT_RULES_VERSION = 1
"""The version of the rules that executions are started under: what their events mean and how programs react to them."""


class StartedEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="S", rename=_FIELD_NAMES):
    """The execution began; the version of its workflow, or its definition, is pinned. It was started by `origin` and has `depth` ancestors.

    `rules` is the version of the rules it runs under; with `archive`, compaction keeps what it replaces. Steps in flight may go on for `grace_s` when the
    execution fails or is cancelled, unless they have a grace of their own. `carried` are values of the context in which it was started.
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
    carried: Carried = ()


class HostedEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="H", rename=_FIELD_NAMES):
    """The execution will begin with a definition that its engines need not know, and is claimed by the name that `hosting` has."""

    hosting: Hosting
    at_s: float


class ForkedEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="F", rename=_FIELD_NAMES):
    """The execution will begin with the results of another one."""

    fork: ForkData
    at_s: float


class PresetEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="p", rename=_FIELD_NAMES):
    """The outcome of an operation that is not open was set: it settles with this when it is opened."""

    path: Path
    outcome: Outcome
    at_s: float


class WatchedEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="W", rename=_FIELD_NAMES):
    """A further execution waits for the end of this one."""

    parent: Parent
    at_s: float


class UnwatchedEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="w", rename=_FIELD_NAMES):
    """An execution no longer waits for the end of this one; `end` says what happens to this one if no other waits."""

    parent: Parent
    at_s: float
    end: OnCancel = "cancel"


class MessageArrivedEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="A", rename=_FIELD_NAMES):
    """A message arrived in the mailbox, under the number that the store gave it."""

    number: int
    name: str
    at_s: float
    body: Value = ENCODED_NONE
    key: str = ""
    sender: Key | None = None
    sent: int = 0


class MessageRefusedEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="X", rename=_FIELD_NAMES):
    """A message was refused because the mailbox is full."""

    number: int
    name: str
    at_s: float
    key: str = ""
    sender: Key | None = None
    sent: int = 0


class ReceivedEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="C", rename=_FIELD_NAMES):
    """A receive settled with these messages, which left the mailbox."""

    path: Path
    numbers: tuple[int, ...]
    at_s: float


class SettledEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="s", rename=_FIELD_NAMES):
    """An operation settled, once and for all."""

    path: Path
    outcome: Outcome
    at_s: float


class RecalledEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="M", rename=_FIELD_NAMES):
    """An operation that had settled before the execution was reopened settled with the same outcome again."""

    path: Path
    at_s: float


class RetryingEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="r", rename=_FIELD_NAMES):
    """An attempt failed; the next one is due at `due_at_s`."""

    path: Path
    attempt: int
    kind: str
    error: ErrorInfo
    due_at_s: float
    at_s: float


class InterruptedEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="i", rename=_FIELD_NAMES):
    """The process that made this attempt is gone; the next one is due at `due_at_s`. If an orderly stop has `given_back` the attempt, it is not counted."""

    path: Path
    attempt: int
    due_at_s: float
    at_s: float
    given_back: bool = False


class AttemptStartedEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="n", rename=_FIELD_NAMES):
    """A further attempt began: `by` the holder that performs it, or None when it went to the queue."""

    path: Path
    attempt: int
    at_s: float
    by: str | None = None


class ProgressedEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="b", rename=_FIELD_NAMES):
    """The attempt reported progress, which proves that it is alive. The next attempt receives it."""

    path: Path
    attempt: int
    body: Value
    at_s: float


class CancellingEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="c", rename=_FIELD_NAMES):
    """The program was told to unwind: on request, because the `deadline` has passed, or because it is `unwanted` (its parent no longer waits).

    `undo` says whether its completed steps are undone.
    """

    at_s: float
    reason: str = ""
    deadline: bool = False
    undo: bool = True
    unwanted: bool = False


class StoppedEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="x", rename=_FIELD_NAMES):
    """The program was stopped: its deadline has passed, and it did not unwind within the grace of the execution."""

    at_s: float


class UndoingEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="u", rename=_FIELD_NAMES):
    """The undo of an execution that had ended began; then it ends as before. `parent` waits for that."""

    at_s: float
    reason: str = ""
    parent: Parent | None = None


class ParkedEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="P", rename=_FIELD_NAMES):
    """The execution needs attention or was paused; it does nothing until it is resumed, cancelled or terminated."""

    reason: Literal["diverged", "interrupted", "paused", "undo"]
    at_s: float
    detail: tuple[str, ...] = ()
    path: Path = ()


class ResumedEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="U", rename=_FIELD_NAMES):
    """The execution goes on from where it was parked."""

    at_s: float
    reason: str = ""


class ReopenedEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="R", rename=_FIELD_NAMES):
    """A failed execution was reopened: its program runs anew, and every operation that had succeeded settles with the same outcome again.

    With `before`, only the operations that were opened earlier than the one at that path do.
    """

    at_s: float
    reason: str = ""
    before: Path = ()


class EvictedEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="v", rename=_FIELD_NAMES):
    """The execution was evicted from its engine on request. The attempts that the engine gives back follow this event."""

    at_s: float
    reason: str = ""


class IterationResumedEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="T", rename=_FIELD_NAMES):
    """In a compacted log: the loop at `path` goes on with iteration `turn`, with the state `value`. Earlier iterations are gone."""

    path: Path
    turn: int
    value: Value
    at_s: float


class AttributesSetEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="a", rename=_FIELD_NAMES):
    """In a compacted log: the attributes from here on. The iterations that changed them are gone."""

    attributes: Attributes
    at_s: float


class RetainedEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="k", rename=_FIELD_NAMES):
    """In a compacted log: an operation of a forgotten iteration that is kept because it may have to be undone, or a note about undoing."""

    path: Path
    op: Operation
    outcome: Outcome | None
    at_s: float


class RemovedEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="V", rename=_FIELD_NAMES | _REMOVED_FIELD_NAMES):
    """A tombstone: the log was removed long after the end of the execution, and this is its only event, numbered `number`.

    It says how the execution ended and when. `input` and `result` are the first 16 bytes of their SHA-256 (empty: there was none); `error` is that of a
    failure or a cancellation. Without `started_at_s` the execution ended before it began.
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
    """The execution goes on by another definition from here on, which may make `calls` besides those before; or the patch was `refused` for these reasons."""

    definition: Blob
    at_s: float
    reason: str = ""
    refused: tuple[str, ...] = ()
    calls: PinnedCalls = ()


class OpenedEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="o", rename=_FIELD_NAMES):
    """The program opened an operation. `by` names the holder that performs a call itself; `number` counts the messages to one receiver."""

    path: Path
    op: Operation
    by: str | None = None
    number: int = 0


class DroppedEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="d", rename=_FIELD_NAMES):
    """The program no longer needs the operation. Messages that it received and did not use return to the mailbox.

    A call in flight stays open until `until_s`, so that its outcome is still recorded; without it, the call is abandoned at once. A call that is dropped in
    the decision that opened it has not `begun`.
    """

    path: Path
    until_s: float | None = None
    begun: bool = True


class TrimmedEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="t", rename=_FIELD_NAMES):
    """The iterations of the loop at `path` before `before` are forgotten. Those from `undo_before` on can still be undone."""

    path: Path
    before: int
    undo_before: int = 0


class EndedEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="E", rename=_FIELD_NAMES):
    """The execution ended: completed with a value, failed with an error, or cancelled. A failed one may end once more, as cancelled, when it is discarded.

    `path` is that of the step that made a definition fail.
    """

    status: Literal["completed", "failed", "cancelled"]
    outcome: Outcome
    at_s: float
    path: Path = ()


class SnapshotEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="Z", rename=_FIELD_NAMES):
    """The last event of a compacted log: the state, as of `version`, that its other events no longer contain.

    `event_count` counts the events before it; `archive` is the SHA-256 of the blob that holds the replaced rows, if they are kept.
    """

    version: int
    at_s: float
    event_count: int
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
    | HostedEvent
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


def end_of_commands(events: Sequence[Event], size: int) -> int:
    """Returns how many events a log has with those that its event number `size` caused: the commands that follow it, which were written with it."""
    while size < len(events) and type(events[size]) in COMMAND_EVENTS:
        size += 1
    return size


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
"""The external events that a program is fed; the others do not concern it."""


REMOVED_KIND = "removed"
"""The kind of the failure that takes the place of a removed result."""

DIGEST_BYTES = 16
"""How many bytes of the SHA-256 of an input or a result are kept: enough to tell whether a value is the same."""


def removal_text(removed: RemovedEvent) -> str:
    """Describes a removal in words, for errors and listings."""
    of_result = f", the SHA-256 of its result began with {removed.result.hex()}" if removed.result else ""
    return f"it was removed at {datetime.fromtimestamp(removed.at_s, UTC):%Y-%m-%d %H:%M:%S} UTC{of_result}"


def ended_event_of(removed: RemovedEvent) -> EndedEvent:
    """Returns how a removed execution ended, as far as that was kept."""
    outcome = Failure(REMOVED_KIND, 1, ErrorInfo(error_codes.REMOVED, removal_text(removed))) if removed.error is None else removed.error
    return EndedEvent(removed.status, outcome, removed.ended_at_s)
