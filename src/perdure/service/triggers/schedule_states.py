"""Where the schedules of a tenant are: a record for each, found by when it is due next.

One execution of a tenant, the *schedule clock*, sleeps until the first of them is due, and starts what is due: see `schedule_clock`. Every change that makes a
schedule due sends it a message. A start and the change of the state are one post, which expects the state to be as it was read, so a tick is dealt with once,
whoever deals with it. The state of a schedule that is not active stays, without a due time: so it has a version that no earlier decision can expect.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from perdure.core import messages, values
from perdure.core.attribute_filter import AttributeOrder, Is, attribute_conditions
from perdure.core.attributes import AttributeValue
from perdure.core.envelopes import NewExecution, OutgoingMessage
from perdure.core.operations import SCHEDULE_WORKFLOW
from perdure.core.paths import Key
from perdure.core.program import program_name
from perdure.service.record_kinds import KeptValue, RecordKind
from perdure.stores.protocol import HeadFilter, ReadOnlyStore
from perdure.stores.records import RecordChange

CLOCK_ID = "clock"
CLOCK_SIGNAL = "look"
"""The message that has the clock look what is due."""

ENDED_CLOCKS_MAX = 100
"""How many clocks that have ended are looked at to find the last one."""

INCIDENTS_KEPT = 10
INCIDENT_CHARACTERS_MAX = 500

IncidentKind = Literal["missed", "skipped", "failed", "broken"]
"""Why a tick has started nothing: nobody was there to start it, an earlier execution was in progress, its start failed, or the schedule has paused itself."""


class ScheduleIncident(msgspec.Struct, frozen=True):
    """A tick that has started nothing, when that was found, and why. Of several missed ticks, `tick_at_s` is the first."""

    kind: IncidentKind
    tick_at_s: float
    at_s: float
    why: str


class ScheduleState(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a schedule is. Ticks up to `after_s` have been dealt with; it is looked at again at `due_at_s` (None: it is not active, or has no tick any more).

    `tick_s` is the next tick, found with the zone database of `zone_version` (None: it has to be found). `waiting` are ticks before it that wait for their
    turn, the first of which is attempted again at `retry_at_s`. `number` counts the ticks that have started an execution, and `incidents` has the last others.
    """

    after_s: float
    due_at_s: float | None = None
    tick_s: float | None = None
    zone_version: str = ""
    number: int = 0
    waiting: tuple[float, ...] = ()
    waiting_since_s: float = 0.0
    retry_at_s: float = 0.0
    incidents: tuple[ScheduleIncident, ...] = ()

    def with_incident(self, incident: ScheduleIncident) -> "ScheduleState":
        """The state with one more incident, in place of the oldest if there are too many."""
        return msgspec.structs.replace(self, incidents=(*self.incidents, incident)[-INCIDENTS_KEPT:])


SCHEDULE_STATES = RecordKind("schedule state", ScheduleState, audited=False)
"""The states of schedules, by the ids of their triggers."""

DUE, ZONE = "due", "zone"
BY_DUE = AttributeOrder("due")
"""The attributes of a state: when it is due, and the version of the zone database that its next tick depends on."""


def state_change(tenant: str, trigger: str, version: int, state: ScheduleState | None) -> RecordChange:
    """The change of a state that is at record version `version`; None removes it."""
    if state is None:
        return SCHEDULE_STATES.change(tenant, trigger, version, None)
    found: dict[str, AttributeValue | Sequence[AttributeValue]] = {}
    if state.due_at_s is not None:
        found[DUE] = state.due_at_s
        if state.zone_version:
            found[ZONE] = state.zone_version
    return SCHEDULE_STATES.change(tenant, trigger, version, state, found)


def begun_state(before: ScheduleState | None, now_s: float, owed: Sequence[float] = ()) -> ScheduleState:
    """The state of a schedule that begins now, or is edited while it is active: then ticks that were due before the edit are `owed`, and still started."""
    if before is None:
        return ScheduleState(now_s, now_s)
    began = msgspec.structs.replace(before, after_s=now_s, due_at_s=now_s, tick_s=None, zone_version="")
    return msgspec.structs.replace(began, waiting=tuple(owed), waiting_since_s=now_s, retry_at_s=now_s)


def ended_state(before: ScheduleState) -> ScheduleState:
    """The state of a schedule that is not active: what waits is forgotten."""
    return msgspec.structs.replace(before, due_at_s=None, tick_s=None, zone_version="", waiting=())


async def clock_messages(store: ReadOnlyStore, tenant: str, why: str) -> tuple[OutgoingMessage, ...]:
    """The messages that start a clock of a tenant unless one is there, and have it look what is due. Of several under one `why`, one arrives.

    A clock that was ended, whoever did it, is followed by another one with the next id.
    """
    going = await store.heads(HeadFilter(tenant=tenant, workflow=SCHEDULE_WORKFLOW, ended=False, limit=1))
    if going:
        return _messages_to(going[0].key, why)
    ended = await store.heads(HeadFilter(tenant=tenant, workflow=SCHEDULE_WORKFLOW, limit=ENDED_CLOCKS_MAX))
    last = max(ended, key=lambda head: _number_of(head.key), default=None)
    first = Key(tenant, SCHEDULE_WORKFLOW, CLOCK_ID)
    return _messages_to(first, why) if last is None else following_clock(last.key, why)


def following_clock(before: Key, why: str) -> tuple[OutgoingMessage, ...]:
    """The messages that start the clock after another one, and have it look what is due."""
    return _messages_to(before._replace(id=f"{CLOCK_ID}-{_number_of(before) + 1}"), why)


def _number_of(clock: Key) -> int:
    number = clock.id.removeprefix(f"{CLOCK_ID}-")
    return int(number) if number.isdecimal() else 1


def _messages_to(clock: Key, why: str) -> tuple[OutgoingMessage, ...]:
    opens = NewExecution(program_name(SCHEDULE_WORKFLOW, 0), clock)
    start = messages.StartMessage(0, values.encode(((), {}), "the input of the clock"), 0)
    look = messages.SignalMessage(CLOCK_SIGNAL, values.ENCODED_NONE, why)
    return (
        OutgoingMessage(clock, "start", messages.encode_message(start), opens=opens),
        OutgoingMessage(clock, f"message:{why}", messages.encode_message(look)),
    )


async def active_schedules(store: ReadOnlyStore, tenant: str, limit: int) -> list[KeptValue[ScheduleState]]:
    """Some states of active schedules of a tenant, those that are due first before the others."""
    return await SCHEDULE_STATES.page(store, tenant, where=attribute_conditions({DUE: Is("exists")}), order=BY_DUE, limit=limit)
