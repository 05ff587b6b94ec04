"""Has the clock go on where the record of a schedule is damaged: its state begins anew, and a schedule whose trigger can't be read stops."""

import logging
from collections.abc import AsyncIterator

from perdure.core.errors import LogDamaged
from perdure.service.record_kinds import PAGE
from perdure.service.triggers.schedule_states import INCIDENT_CHARACTERS_MAX, SCHEDULE_STATES, ScheduleIncident, begun_state, ended_state, state_change
from perdure.service.triggers.trigger_records import TRIGGERS
from perdure.stores.protocol import Post, ReadOnlyStore, Store
from perdure.stores.records import RecordFilter, StoredRecord, record_position

logger = logging.getLogger("perdure.schedules")


async def mend_schedules(store: Store, tenant: str) -> int:
    """Mends all schedules of a tenant whose records can't be read, notes that in their states, and returns how many there were.

    A state that is damaged begins anew: what waited for its turn and how many ticks there were is lost. No tick is started twice, since the id of an execution
    follows from its tick.
    """
    mended, now_s = 0, (await store.store_time()).now_s
    async for record in _records(store, tenant):
        why, after = "", None
        try:
            state = SCHEDULE_STATES.decode(record).value
        except LogDamaged as error:
            why, state = f"the state of the schedule could not be read, and has begun anew: {error}", begun_state(None, now_s)
            after = state
        try:
            _ = await TRIGGERS.read(store, tenant, record.key.key)
        except LogDamaged as error:
            if state.due_at_s is not None:
                why, after = f"the schedule has stopped: {error}", ended_state(state)
        if after is not None:
            logger.error("schedule %s of %s: %s", record.key.key, tenant, why)
            after = after.with_incident(ScheduleIncident("failed", now_s, now_s, why[:INCIDENT_CHARACTERS_MAX]))
            _ = await store.commit([Post(records=(state_change(tenant, record.key.key, record.version, after),))])
            mended += 1
    return mended


async def _records(store: ReadOnlyStore, tenant: str) -> AsyncIterator[StoredRecord]:
    """The states of schedules as they are stored."""
    after = None
    while True:
        page = await store.records(RecordFilter(tenant, SCHEDULE_STATES.name, after=after, limit=PAGE))
        for record in page:
            yield record
        if len(page) < PAGE:
            return
        after = record_position(page[-1], None)
