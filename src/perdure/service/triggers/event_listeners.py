"""Which triggers of a tenant listen to which events: one record, which changes together with the triggers.

Engines read it at most once a second, when an execution announces something. A trigger therefore hears of events from a second after it was made at the latest.
"""

import asyncio
from collections.abc import Iterable, Sequence

import msgspec

from perdure.core import messages, values
from perdure.core.announcements import Announcement, announcements, is_announced
from perdure.core.envelopes import NewExecution, OutgoingMessage
from perdure.core.events import Event
from perdure.core.execution import Execution
from perdure.core.operations import EVENTS_WORKFLOW
from perdure.core.paths import Key
from perdure.core.program import program_name
from perdure.service.record_kinds import RecordKind
from perdure.service.triggers.trigger_input import facts_of
from perdure.service.triggers.trigger_records import EventConfig, TriggerRecord
from perdure.stores.protocol import ReadOnlyStore
from perdure.stores.records import RecordChange

LISTENERS_KEY = "all"
KNOWN_S = 1.0
"""How long an engine goes by what it has read of a tenant."""
OWN_WORKFLOWS = "perdure."
"""The beginning of the names of workflows whose executions are Perdure's own: their events are not public."""


class EventListener(msgspec.Struct, frozen=True, array_like=True):
    """A trigger that listens to events: of executions of the workflow `of` (empty: of all), and of which types."""

    trigger: str
    of: str
    on: tuple[str, ...]

    def hears(self, type: str, of: str) -> bool:
        """Whether it listens to events of a type, of executions of this workflow (empty: the event is of no execution)."""
        return type in self.on and self.of in ("", of)


class EventListeners(msgspec.Struct, frozen=True):
    """All triggers of a tenant that listen to events."""

    all: tuple[EventListener, ...] = ()


LISTENERS = RecordKind("event listeners", EventListeners, audited=False)


class AnnouncedEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """An event that was announced: its `type`, and the execution `source`, of which it is event `number`, or the `data` of one that was posted.

    `value` is the encoded result or what was emitted, None if that is large. `chain` are the ids of the triggers that led to it.
    """

    type: str
    at_s: float
    source: Key | None = None
    number: int = 0
    value: bytes | None = None
    error: tuple[str, str] | None = None
    data: dict[str, object] = {}
    chain: tuple[str, ...] = ()


async def read_listeners(store: ReadOnlyStore, tenant: str) -> tuple[EventListener, ...]:
    """The triggers of a tenant that listen to events."""
    kept = await LISTENERS.read(store, tenant, LISTENERS_KEY)
    return () if kept is None else kept.value.all


async def listener_changes(store: ReadOnlyStore, tenant: str, edits: Iterable[tuple[TriggerRecord | None, TriggerRecord | None]]) -> list[RecordChange]:
    """The change of the record when triggers change, each from what it was to what it is (None: it is not there)."""
    gone, come = set[str](), list[EventListener]()
    for was, after in edits:
        if (old := _listener(was)) != (new := _listener(after)):
            gone |= {old.trigger} if old is not None else set()
            come += [] if new is None else [new]
    if not gone and not come:
        return []
    kept = await LISTENERS.read(store, tenant, LISTENERS_KEY)
    stay = [] if kept is None else [one for one in kept.value.all if one.trigger not in gone]
    return [LISTENERS.change(tenant, LISTENERS_KEY, 0 if kept is None else kept.version, EventListeners((*stay, *come)))]


def _listener(record: TriggerRecord | None) -> EventListener | None:
    if record is None or not record.is_active or not isinstance(record.config, EventConfig):
        return None
    return EventListener(record.id, record.config.of, record.config.on)


def event_message(tenant: str, id: str, event: AnnouncedEvent) -> OutgoingMessage:
    """The message that starts the execution which starts what an event triggers."""
    key = Key(tenant, EVENTS_WORKFLOW, id)
    start = messages.StartMessage(0, values.encode(((event,), {}), "an event"), 0)
    return OutgoingMessage(key, "start", messages.encode_message(start), opens=NewExecution(program_name(EVENTS_WORKFLOW, 0), key))


class ListenerAnnouncer:
    """Announces events of executions to the triggers that listen. It implements `perdure.runtime.announcer.Announcer` for the engine on a store."""

    def __init__(self, store: ReadOnlyStore) -> None:
        self._store = store
        self._known: dict[str, tuple[float, tuple[EventListener, ...]]] = {}

    def lacks_listeners(self, execution: Execution, events: Sequence[Event]) -> bool:
        """See `Announcer.lacks_listeners`."""
        if not any(map(is_announced, events)) or execution.key.workflow.startswith(OWN_WORKFLOWS):
            return False
        read_at_s, _ = self._known.get(execution.key.tenant, (-KNOWN_S, ()))
        return _now_s() - read_at_s >= KNOWN_S

    async def read_listeners(self, tenant: str) -> None:
        """See `Announcer.read_listeners`."""
        asked_s = _now_s()
        self._known[tenant] = asked_s, await read_listeners(self._store, tenant)

    def messages(self, execution: Execution, events: Sequence[Event], version: int) -> tuple[OutgoingMessage, ...]:
        """See `Announcer.messages`."""
        _, listeners = self._known.get(execution.key.tenant, (0.0, ()))
        if not listeners or execution.key.workflow.startswith(OWN_WORKFLOWS):
            return ()
        heard = (one for one in announcements(execution, events, version) if any(by.hears(one.type, one.key.workflow) for by in listeners))
        return tuple(event_message(one.key.tenant, f"{one.key.workflow}/{one.key.id}/{one.number}", _announced(one)) for one in heard)


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def _announced(event: Announcement) -> AnnouncedEvent:
    facts = facts_of(event.carried)
    return AnnouncedEvent(
        event.type,
        event.at_s,
        event.key,
        event.number,
        event.value if isinstance(event.value, bytes) else None,
        None if event.error is None else (event.error.type, event.error.message),
        chain=() if facts is None else (*facts.chain, facts.id),
    )
