"""Reads the log of an execution up to any of its events, or up to a time, so that people can look at it as it was then.

A time is that of an event of another execution, such as its parent. Both have their times from the store, but the clocks of two processes may differ by
milliseconds, so what two executions did at about the same time may be seen in either order.
"""

from collections.abc import Sequence
from typing import NamedTuple

from perdure.core import events as e
from perdure.core import log_format
from perdure.core.errors import BadValue, NotFound
from perdure.core.execution import Execution
from perdure.core.paths import Key
from perdure.core.replay import fold_events
from perdure.stores.protocol import Head, ReadOnlyStore


class PastState(NamedTuple):
    """The log of an execution, of which the first `size` events are looked at. `version` is the number of the last of these.

    The event that was asked for is the one of number `position` in the log as it is now; those behind it are the commands that it caused.
    """

    head: Head
    events: Sequence[e.Event]
    position: int
    size: int
    version: int

    @property
    def seen(self) -> Sequence[e.Event]:
        """The events that are looked at."""
        return self.events[: self.size]

    def fold(self) -> Execution:
        """Returns the state after these events."""
        return fold_events(self.head.key, self.seen, self.head.root)


async def read_past(store: ReadOnlyStore, key: Key, at: int | None = None) -> PastState:
    """Reads a log up to the event of number `at` (None: all of it), which is the id of its public events.

    The commands that an event caused were written with it, and are looked at with it.

    Raises:
        NotFound: there is no such execution.
        BadValue: its log has no such event, or has it no more.
    """
    found = await store.read(key)
    if found is None:
        raise NotFound(key)
    events = log_format.decode_rows(found.payloads)
    before = compacted_before(events)
    last = len(events) + before
    if at is None:
        return PastState(found.head, events, len(events), len(events), last)
    first = next((number + 1 + before for number, event in enumerate(events) if isinstance(event, e.SnapshotEvent)), 1)
    if not first <= at <= last:
        raise BadValue("at", at, f"one of its log, {first} to {last}" if events else "left out: it has not begun")
    size = e.end_of_commands(events, at - before)
    return PastState(found.head, events, at - before, size, size + before)


async def read_past_time(store: ReadOnlyStore, key: Key, at_s: float) -> PastState | None:
    """Reads a log up to the last event that had happened at a time. None: what is left of the log does not say what was so, since it was compacted or removed.

    Raises:
        NotFound: there is no such execution.
    """
    past = await read_past(store, key)
    size = next((number for number, event in enumerate(past.events) if _time_of(event, at_s) > at_s), len(past.events))
    if any(isinstance(event, e.SnapshotEvent | e.RemovedEvent) for event in past.events[size:]):
        return None
    return PastState(past.head, past.events, size, size, size + (compacted_before(past.events) if size else 0))


def _time_of(event: e.Event, otherwise_s: float) -> float:
    """The time of an event; of a tombstone, the end of its execution. A command, which has no time of its own, belongs to the event before it."""
    return event.ended_at_s if isinstance(event, e.RemovedEvent) else getattr(event, "at_s", otherwise_s)


def compacted_before(events: Sequence[e.Event]) -> int:
    """How much higher the number of an event is than its position: compaction has replaced the events before its snapshot by fewer."""
    position = next((number for number, event in enumerate(events) if isinstance(event, e.SnapshotEvent)), None)
    snapshot = None if position is None else events[position]
    return snapshot.version - (position + 1) if isinstance(snapshot, e.SnapshotEvent) and position is not None else 0
