"""Compaction: the log without the turns that are forgotten. It is still the schedule of its program, with a later beginning.

Where the first kept turn of a loop began, the loop resumes (`Turned`); where turns that are dropped had changed attributes, which programs
read, these are said (`Attributed`); what else only the dropped events said (state, watermarks, keys) stands in a `Snapshot` at the end. What was
replaced goes to an archive blob, which names the one before it.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from hashlib import sha256

import msgspec

from perdure.core import events as e
from perdure.core import log
from perdure.core.attributes import Attributes, decoded, merged
from perdure.core.execution import Execution
from perdure.core.folding import fold
from perdure.core.ops import Keep, settles_later
from perdure.core.paths import Key, Path
from perdure.core.promise import Settlement
from perdure.core.turns import is_forgotten

DEAD_EVENTS_MIN = 64
"""Fewer dead events than this are not worth a compaction."""


class Compacted(msgspec.Struct, frozen=True):
    """A shorter log of the same meaning: its events, of which `snapshot` is the last, and the archive blob, if wanted."""

    events: Sequence[e.Event]
    snapshot: e.Snapshot
    blobs: dict[str, bytes]


def worth_it(execution: Execution) -> bool:
    """Whether more of the log is dead than alive."""
    return execution.dead_events >= DEAD_EVENTS_MIN and execution.dead_events > execution.logged_events - execution.dead_events


def compact(key: Key, rows: Sequence[bytes], archive: bool) -> Compacted | None:
    """The compacted form of a log, or None when it has none at this point.

    That is when something outside of a dropped turn happened because of something inside of it, other than through the loop's
    state: the schedule would then have no place for it.
    """
    events = log.decode_all(rows)
    execution = fold(key, events)
    retained = {path: execution.settled[path] for path in execution.retained}
    kept = _kept(events, execution.trimmed, execution.mailbox.letters.keys(), retained)
    if kept is None:
        return None
    blobs: dict[str, bytes] = {}
    if archive:
        raw = msgspec.msgpack.encode(rows)
        blobs[sha256(raw).hexdigest()] = raw
    snapshot = e.Snapshot(
        version=execution.version,
        at_s=execution.now_s,
        kept=len(kept),
        state=tuple(execution.state.items()),
        watermarks=tuple((sender, mark.all_to, tuple(sorted(mark.beyond))) for sender, mark in execution.seen.watermarks.items()),
        keys=tuple(execution.seen.keys.items()),
        sent=tuple(execution.sent.items()),
        emitted=execution.emitted,
        archive=next(iter(blobs), execution.archive),
        attributes=execution.attributes,
    )
    return Compacted((*kept, snapshot), snapshot, blobs)


def _kept(events: Sequence[e.Event], trimmed: dict[Path, int], waiting: AbstractSet[int], retained: Mapping[Path, Settlement]) -> list[e.Event] | None:
    received = [(number, is_forgotten(event.path, trimmed)) for event in events if isinstance(event, e.Received) for number in event.numbers]
    alive_mail = waiting | {number for number, dead in received if not dead}
    dead_mail = {number for number, dead in received if dead and number not in alive_mail}
    consumed = {number for number, dead in dict(received).items() if dead and number in alive_mail and number not in waiting}
    if consumed:  # given back by what is alive, then consumed in a turn that is not: without that turn it would come again
        return None
    kept = _Kept(trimmed)
    unfed = False  # whether what a resuming will feed the program comes of a turn that is gone
    settles = _Settles(events, retained)
    for given, asked in _groups(events):
        if isinstance(given, e.Parked):
            unfed = False
        unfed = unfed or (type(given) in e.FED and is_forgotten(_path(given), trimmed))
        if isinstance(given, e.Snapshot | e.Evicted) or (isinstance(given, e.Arrived) and given.number in dead_mail):
            continue
        if isinstance(given, e.Parked) and is_forgotten(given.path, trimmed):
            given = msgspec.structs.replace(given, path=())  # that it was parked still matters: what came meanwhile was fed later
        if isinstance(given, e.Patched) and not given.refused and any(isinstance(one, e.Turned) for one in kept.events):
            return None  # it was taken by what is known of all turns, some of which would be gone
        alive = [one for one in asked if not is_forgotten(_path(one), trimmed) and not isinstance(one, e.Trimmed)]
        if not is_forgotten(_path(given), trimmed):
            if _resuming(alive, trimmed) is not None or (isinstance(given, e.Resumed) and unfed and alive):
                return None
            kept.events += [] if isinstance(given, e.Attributed) else [given, *alive]
            kept.past((given, *asked), given.at_s)
            kept.events += settles.among(given, asked)
            continue
        turn = _resuming(alive, trimmed)
        begins = len(asked) if turn is None else asked.index(turn)
        kept.past(asked[:begins], given.at_s)
        if turn is not None and isinstance(turn.op, Keep):
            loop, at_s = turn.path[:-1], given.at_s
            if any(_path(one)[: len(loop)] != loop for one in alive):  # something else went on because of the turn before
                return None
            kept.events += [e.Turned(loop, trimmed[loop], turn.op.value, at_s), *(one for one in alive if one is not turn)]
            kept.past(asked[begins:], at_s)
        elif alive:
            return None
        kept.events += settles.among(given, asked)
    return kept.events


class _Settles:
    """Where operations settled for the last time that lie in turns that are gone, and are still to be undone."""

    def __init__(self, events: Sequence[e.Event], retained: Mapping[Path, Settlement]) -> None:
        self._retained = retained
        self._last: dict[Path, e.Event] = {}
        for event in events if retained else ():
            if isinstance(event, e.Settled | e.Recalled | e.Retained | e.Dropped) or (isinstance(event, e.Opened) and not settles_later(event.op)):
                self._last[event.path] = event

    def among(self, given: e.Given, asked: Sequence[e.Asked]) -> list[e.Event]:
        """These operations, of those that settled with this given event and what was asked for because of it."""
        settled = [(event, getattr(event, "path", ())) for event in (given, *asked)] if self._retained else []
        paths = [path for event, path in settled if path in self._retained and self._last.get(path) is event]
        return [e.Retained(path, self._retained[path].op, self._retained[path].outcome, given.at_s) for path in paths]


class _Kept:
    """The events that are kept, and among them what the attributes are wherever those that made them so are not."""

    def __init__(self, trimmed: dict[Path, int]) -> None:
        self.events: list[e.Event] = []
        self._trimmed = trimmed
        self._attributes: Attributes = ()

    def past(self, events: Iterable[e.Event], at_s: float) -> None:
        """These are over, kept or not."""
        lost = False
        for event in events:
            match event:
                case e.Started():
                    self._attributes = event.attributes
                case e.Attributed(attributes):
                    self._attributes, lost = attributes, True
                case e.Opened(path, Keep(value, "attributes")):
                    self._attributes = merged(self._attributes, decoded(value))
                    lost = lost or is_forgotten(path, self._trimmed)
        if lost:
            if self.events and isinstance(self.events[-1], e.Attributed):
                self.events.pop()
            self.events.append(e.Attributed(self._attributes, at_s))


def _groups(events: Sequence[e.Event]) -> Iterable[tuple[e.Given, list[e.Asked]]]:
    """Each given event with what the program asked for because of it."""
    group: tuple[e.Given, list[e.Asked]] | None = None
    for event in events:
        if isinstance(event, e.Asked):
            if group is not None:
                group[1].append(event)
            continue
        if group is not None:
            yield group
        group = (event, [])
    if group is not None:
        yield group


def _path(event: e.Event) -> Path:
    path: Path = getattr(event, "path", ())
    return (*path, event.turn) if isinstance(event, e.Turned) else path


def _resuming(asked: Iterable[e.Asked], trimmed: dict[Path, int]) -> e.Opened | None:
    """The event with which the first kept turn of a loop began, if it is among these."""
    for event in asked:
        if isinstance(event, e.Opened) and event.path and isinstance(event.path[-1], int) and trimmed.get(event.path[:-1], -1) == event.path[-1] > 0:
            return event
    return None
