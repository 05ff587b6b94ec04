"""Replaces logs by shorter ones: a log without its forgotten iterations (compaction), and the tombstone of an execution that ended long ago.

A compacted log is still the schedule of its program, with a later beginning. The loop resumes where its first kept iteration began
(`IterationResumedEvent`); attributes that dropped iterations changed, which programs read, are set again (`AttributesSetEvent`); the remaining state that
only dropped events contained is in a `SnapshotEvent` at the end. The replaced rows go to an archive blob, which names the one before it.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from hashlib import sha256

import msgspec

from perdure.core import events as e
from perdure.core import limits, log_format
from perdure.core.attributes import Attributes, decode_attribute_changes, merge_attributes
from perdure.core.error_text import shorten_text
from perdure.core.errors import ErrorInfo
from perdure.core.events import DIGEST_BYTES
from perdure.core.execution import Execution
from perdure.core.loop_iterations import is_in_trimmed_iteration
from perdure.core.operation_state import SettledOperation
from perdure.core.operations import Failure, KeepOperation, Outcome, Success, settles_later
from perdure.core.paths import Key, Path
from perdure.core.replay import fold_events
from perdure.core.values import Blob, Value

DEAD_EVENTS_MIN = 64
"""The least number of dead events that is worth a compaction."""


class CompactedLog(msgspec.Struct, frozen=True):
    """A shorter log of the same meaning: its events, of which `snapshot` is the last, and the archive blob, if it is kept."""

    events: Sequence[e.Event]
    snapshot: e.SnapshotEvent
    blobs: dict[str, bytes]


def is_worth_compaction(execution: Execution) -> bool:
    """Whether more than half of the log is dead events."""
    return execution.dead_events >= DEAD_EVENTS_MIN and execution.dead_events > execution.logged_events - execution.dead_events


def compact_log(key: Key, rows: Sequence[bytes], archive: bool) -> CompactedLog | None:
    """Returns the compacted form of a log, or None when it has none at this point.

    It has none when something inside a dropped iteration caused something outside of it, other than through the state of the loop: the schedule would have
    no place for the effect.
    """
    events = log_format.decode_rows(rows)
    execution = fold_events(key, events)
    retained = {path: execution.settled[path] for path in execution.retained}
    kept = _kept_events(events, execution.trimmed, execution.mailbox.messages.keys(), retained)
    if kept is None:
        return None
    blobs: dict[str, bytes] = {}
    if archive:
        raw = msgspec.msgpack.encode(rows)
        blobs[sha256(raw).hexdigest()] = raw
    snapshot = e.SnapshotEvent(
        version=execution.version,
        at_s=execution.now_s,
        event_count=len(kept),
        state=tuple(execution.state.items()),
        watermarks=tuple((sender, mark.all_to, tuple(sorted(mark.beyond))) for sender, mark in execution.seen.watermarks.items()),
        keys=tuple(execution.seen.keys.items()),
        sent=tuple(execution.sent.items()),
        emitted=execution.emitted,
        archive=next(iter(blobs), execution.archive),
        attributes=execution.attributes,
    )
    return CompactedLog((*kept, snapshot), snapshot, blobs)


def _kept_events(
    events: Sequence[e.Event], trimmed: dict[Path, int], waiting: AbstractSet[int], retained: Mapping[Path, SettledOperation]
) -> list[e.Event] | None:
    received = [(number, is_in_trimmed_iteration(event.path, trimmed)) for event in events if isinstance(event, e.ReceivedEvent) for number in event.numbers]
    alive_mail = waiting | {number for number, dead in received if not dead}
    dead_mail = {number for number, dead in received if dead and number not in alive_mail}
    consumed = {number for number, dead in dict(received).items() if dead and number in alive_mail and number not in waiting}
    if consumed:  # a kept receive returned it and a dropped iteration received it again: without that iteration it would be received once more
        return None
    kept = _KeptEvents(trimmed)
    unfed = False  # whether the backlog of the next resume has events of a dropped iteration
    settles = _SettledInTrimmed(events, retained)
    for given, asked in _event_groups(events):
        if isinstance(given, e.ParkedEvent):
            unfed = False
        unfed = unfed or (type(given) in e.PROGRAM_EVENTS and is_in_trimmed_iteration(_path_of(given), trimmed))
        if isinstance(given, e.SnapshotEvent | e.EvictedEvent) or (isinstance(given, e.MessageArrivedEvent) and given.number in dead_mail):
            continue
        if isinstance(given, e.ParkedEvent) and is_in_trimmed_iteration(given.path, trimmed):
            given = msgspec.structs.replace(given, path=())  # that it was parked still matters: the backlog was fed later
        if isinstance(given, e.PatchedEvent) and not given.refused and any(isinstance(one, e.IterationResumedEvent) for one in kept.events):
            return None  # whether the patch fits was decided with the iterations that would be gone
        alive = [one for one in asked if not is_in_trimmed_iteration(_path_of(one), trimmed) and not isinstance(one, e.TrimmedEvent)]
        if not is_in_trimmed_iteration(_path_of(given), trimmed):
            if _resuming_event(alive, trimmed) is not None or (isinstance(given, e.ResumedEvent) and unfed and alive):
                return None
            kept.events += [] if isinstance(given, e.AttributesSetEvent) else [given, *alive]
            kept.past((given, *asked), given.at_s)
            kept.events += settles.among(given, asked)
            continue
        turn = _resuming_event(alive, trimmed)
        begins = len(asked) if turn is None else asked.index(turn)
        kept.past(asked[:begins], given.at_s)
        if turn is not None and isinstance(turn.op, KeepOperation):
            loop, at_s = turn.path[:-1], given.at_s
            if any(_path_of(one)[: len(loop)] != loop for one in alive):  # the iteration before caused something outside of the loop
                return None
            kept.events += [e.IterationResumedEvent(loop, trimmed[loop], turn.op.value, at_s), *(one for one in alive if one is not turn)]
            kept.past(asked[begins:], at_s)
        elif alive:
            return None
        kept.events += settles.among(given, asked)
    return kept.events


class _SettledInTrimmed:
    """The places where retained operations of dropped iterations settled for the last time."""

    def __init__(self, events: Sequence[e.Event], retained: Mapping[Path, SettledOperation]) -> None:
        self._retained = retained
        self._last: dict[Path, e.Event] = {}
        for event in events if retained else ():
            if isinstance(event, e.SettledEvent | e.RecalledEvent | e.RetainedEvent | e.DroppedEvent) or (
                isinstance(event, e.OpenedEvent) and not settles_later(event.op)
            ):
                self._last[event.path] = event

    def among(self, given: e.ExternalEvent, asked: Sequence[e.CommandEvent]) -> list[e.Event]:
        """Returns a `RetainedEvent` for each retained operation that settled with this external event or its commands."""
        settled = [(event, getattr(event, "path", ())) for event in (given, *asked)] if self._retained else []
        paths = [path for event, path in settled if path in self._retained and self._last.get(path) is event]
        return [e.RetainedEvent(path, self._retained[path].op, self._retained[path].outcome, given.at_s) for path in paths]


class _KeptEvents:
    """The kept events, with an `AttributesSetEvent` in place of dropped changes of attributes."""

    def __init__(self, trimmed: dict[Path, int]) -> None:
        self.events: list[e.Event] = []
        self._trimmed = trimmed
        self._attributes: Attributes = ()

    def past(self, events: Iterable[e.Event], at_s: float) -> None:
        """Takes note of events that are passed, kept or not."""
        lost = False
        for event in events:
            match event:
                case e.StartedEvent():
                    self._attributes = event.attributes
                case e.AttributesSetEvent(attributes):
                    self._attributes, lost = attributes, True
                case e.OpenedEvent(path, KeepOperation(value, "attributes")):
                    self._attributes = merge_attributes(self._attributes, decode_attribute_changes(value))
                    lost = lost or is_in_trimmed_iteration(path, self._trimmed)
        if lost:
            if self.events and isinstance(self.events[-1], e.AttributesSetEvent):
                self.events.pop()
            self.events.append(e.AttributesSetEvent(self._attributes, at_s))


def _event_groups(events: Sequence[e.Event]) -> Iterable[tuple[e.ExternalEvent, list[e.CommandEvent]]]:
    """Yields each external event with the command events behind it."""
    group: tuple[e.ExternalEvent, list[e.CommandEvent]] | None = None
    for event in events:
        if isinstance(event, e.CommandEvent):
            if group is not None:
                group[1].append(event)
            continue
        if group is not None:
            yield group
        group = (event, [])
    if group is not None:
        yield group


def _path_of(event: e.Event) -> Path:
    path: Path = getattr(event, "path", ())
    return (*path, event.turn) if isinstance(event, e.IterationResumedEvent) else path


def _resuming_event(asked: Iterable[e.CommandEvent], trimmed: dict[Path, int]) -> e.OpenedEvent | None:
    """Returns the event with which the first kept iteration of a loop began, if it is among these."""
    for event in asked:
        if isinstance(event, e.OpenedEvent) and event.path and isinstance(event.path[-1], int) and trimmed.get(event.path[:-1], -1) == event.path[-1] > 0:
            return event
    return None


def value_digest(value: Value) -> bytes:
    """Returns the beginning of the SHA-256 of a value, inline or in a blob."""
    return (bytes.fromhex(value.sha256) if isinstance(value, Blob) else sha256(value).digest())[:DIGEST_BYTES]


def tombstone(execution: Execution, now_s: float) -> e.RemovedEvent | None:
    """Returns the event that replaces the log of an execution that has ended; None if it has not ended or was removed already."""
    ended, started = execution.ended, execution.started
    if ended is None or execution.removed is not None:
        return None
    begun = {} if started is None else {"started_at_s": started.at_s, "version": started.version, "input": value_digest(started.input)}
    return e.RemovedEvent(
        max(now_s, execution.now_s),
        execution.version + 1,
        ended.at_s,
        status=ended.status,
        result=value_digest(ended.outcome.value) if isinstance(ended.outcome, Success) else b"",
        error=_shortened_failure(ended.outcome),
        attributes=execution.attributes,
        **begun,  # type: ignore[arg-type]  # each key is a field of the event
    )


def _shortened_failure(outcome: Outcome) -> Failure | None:
    """Returns the failure with a short message, without traceback and data; None for a success."""
    match outcome:
        case Failure(_, _, ErrorInfo() as error):
            return msgspec.structs.replace(outcome, error=ErrorInfo(error.type, shorten_text(error.message, limits.REMOVED_ERROR_CHARACTERS_MAX)))
        case _:
            return None
