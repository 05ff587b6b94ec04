"""Where the schedules of a tenant are: a record for each that is active, found by when it is due next.

One execution of a tenant, the *schedule clock*, sleeps until the first of them is due, and starts what is due: see `schedule_clock`. Every change that makes a
schedule due sends it a message. A start and the change of the state are one post, which expects the state to be as it was read, so a time of a schedule is
dealt with once, whoever deals with it.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from perdure.core import messages, values
from perdure.core.attributes import AttributeValue
from perdure.core.envelopes import NewExecution, OutgoingMessage
from perdure.core.operations import SCHEDULE_WORKFLOW
from perdure.core.paths import Key
from perdure.core.program import program_name
from perdure.service.record_kinds import RecordKind
from perdure.stores.records import RecordChange

CLOCK_ID = "clock"
CLOCK_SIGNAL = "look"
"""The message that has the clock look what is due."""


class ScheduleState(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where an active schedule is. Times of the schedule up to `after_s` have been dealt with; it is looked at again at `due_at_s`.

    `tick_s` is the time of the schedule that is due then (None: it only has to be found), by the zone database of `zone_version`.
    """

    after_s: float
    due_at_s: float
    tick_s: float | None = None
    zone_version: str = ""


SCHEDULE_STATES = RecordKind("schedule state", ScheduleState, audited=False)
"""The states of schedules, by the ids of their triggers."""


def state_change(tenant: str, trigger: str, version: int, state: ScheduleState | None) -> RecordChange:
    """The change of a state that is at record version `version`; None removes it, so that the schedule starts nothing."""
    if state is None:
        return SCHEDULE_STATES.change(tenant, trigger, version, None)
    zone: dict[str, AttributeValue | Sequence[AttributeValue]] = {"zone": state.zone_version} if state.zone_version else {}
    return SCHEDULE_STATES.change(tenant, trigger, version, state, {"due": datetime.fromtimestamp(state.due_at_s, UTC)} | zone)


def clock_messages(tenant: str, why: str) -> tuple[OutgoingMessage, ...]:
    """The messages that start the clock of a tenant if it does not run, and have it look what is due. Of several under one `why`, one arrives."""
    key = Key(tenant, SCHEDULE_WORKFLOW, CLOCK_ID)
    opens = NewExecution(program_name(SCHEDULE_WORKFLOW, 0), key)
    start = messages.StartMessage(0, values.encode(((), {}), "the input of the clock"), 0)
    look = messages.SignalMessage(CLOCK_SIGNAL, values.ENCODED_NONE, why)
    return (
        OutgoingMessage(key, "start", messages.encode_message(start), opens=opens),
        OutgoingMessage(key, f"message:{why}", messages.encode_message(look)),
    )
