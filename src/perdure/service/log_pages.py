"""Reads the events of an execution as they are in its log, page by page in both directions, each with a sentence, and with what changed at it.

Events before the snapshot of a compacted log are gone, so the first number that is kept is told.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from perdure.core import events as e
from perdure.core.errors import BadValue
from perdure.core.event_trace import EventTracer
from perdure.core.operations import CallOperation, KeepOperation, SendOperation, SpawnOperation, Success
from perdure.core.paths import Key, path_text
from perdure.core.values import ENCODED_NONE, Value
from perdure.service.past_states import compacted_before, read_past
from perdure.service.store_access import StoreAccess

TOUCHED_MAX = 200
"""How many paths an event names as touched."""


class LoggedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a log. `type` is its kind, such as ``opened`` or ``settled``, and `text` says in a few words what happened at `path` (empty: the execution).

    `cause` is the number of the event because of which the workflow did this; of what came from outside, its own. That event has `touched`, the paths that it
    and everything which it caused changed; of more than 200, the first. `payload` is the value that the event carries: of a start and of a call, the arguments
    by position and by name. It is there only on request, and of a large one the name of its blob.
    """

    number: int
    type: str
    at_s: float
    path: str
    text: str
    cause: int
    touched: list[str] = []
    payload: Value | None = None


class LogPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of events, the earliest first. The log has the events from `first` to `last` (0: none); `first` is above 1 if earlier ones are gone.

    `next` is the `after` of the page behind this one, `previous` the `before` of the one in front of it; None if there is none.
    """

    items: list[LoggedEvent]
    first: int
    last: int
    next: int | None
    previous: int | None


async def read_log(access: StoreAccess, key: Key, after: int | None, before: int | None, limit: int, payloads: bool) -> LogPage:
    """The events behind number `after`, or up to `limit` before number `before`; without both, the last ones.

    Raises:
        NotFound: there is no such execution.
        BadValue: both are given.
    """
    if after is not None and before is not None:
        raise BadValue("before", before, "left out beside after")
    past = await read_past(access.store, key)
    if not past.events:
        return LogPage(items=[], first=0, last=0, next=None, previous=None)
    shift = compacted_before(past.events)
    first = next((position for position, event in enumerate(past.events) if isinstance(event, e.SnapshotEvent)), 0) + 1 + shift
    if after is not None:
        begin = max(after + 1, first)
        end = min(begin + limit - 1, past.version)
    else:
        end = past.version if before is None else min(before - 1, past.version)
        begin = max(end - limit + 1, first)
    items = _items(past.events, shift, begin, end, payloads)
    follows, precedes = bool(items) and end < past.version, bool(items) and begin > first
    return LogPage(items=items, first=first, last=past.version, next=end if follows else None, previous=begin if precedes else None)


def _items(events: Sequence[e.Event], shift: int, begin: int, end: int, payloads: bool) -> list[LoggedEvent]:
    """The events from number `begin` to `end`. All before them are gone through, because the time of a command is that of its cause."""
    tracer, items, cause, at_s = EventTracer(shows_values=False), list[LoggedEvent](), 0, 0.0
    for number, event in enumerate(events[: max(end - shift, 0)], shift + 1):
        at_s = getattr(event, "at_s", at_s)
        is_cause = type(event) not in e.COMMAND_EVENTS
        cause = number if is_cause else cause
        said = "; ".join(line.said for line in tracer.describe((event,)))
        if number < begin:
            continue
        kind = type_of(event)
        items.append(
            LoggedEvent(
                number=number,
                type=kind,
                at_s=at_s,
                path=path_text(getattr(event, "path", ())),
                text=said or kind.replace("_", " "),
                cause=cause,
                touched=_touched(events, number - shift - 1) if is_cause else [],
                payload=_payload(event) if payloads else None,
            )
        )
    return items


def type_of(event: e.Event) -> str:
    """The kind of an event in lower case, such as ``attempt_started``."""
    name = type(event).__name__.removesuffix("Event")
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


def _touched(events: Sequence[e.Event], position: int) -> list[str]:
    """The paths of the event at a position and of the commands that it caused."""
    found: dict[str, None] = {}
    for number in range(position, len(events)):
        event = events[number]
        if number > position and type(event) not in e.COMMAND_EVENTS:
            break
        if path := path_text(getattr(event, "path", ())):
            found[path] = None
    return list(found)[:TOUCHED_MAX]


def _payload(event: e.Event) -> Value | None:
    """The value of users that an event carries; None if it carries none."""
    found: Any = None
    match event:
        case e.StartedEvent(input=value) | e.MessageArrivedEvent(body=value) | e.ProgressedEvent(body=value) | e.IterationResumedEvent(value=value):
            found = value
        case e.SettledEvent(outcome=Success(value=value)) | e.EndedEvent(outcome=Success(value=value)):
            found = value
        case e.OpenedEvent(op=CallOperation(args=value) | SpawnOperation(input=value) | KeepOperation(value=value) | SendOperation(body=value)):
            found = value
    return None if found == ENCODED_NONE else found
