"""The table of all kinds of records that the service keeps. Other packages keep kinds of their own, such as `perdure.langgraph`."""

from typing import Any

from perdure.service import access_records as access
from perdure.service import catalog_records as catalog
from perdure.service.agent_memories import MEMORIES
from perdure.service.bulk_workflow import BULK_PIECES
from perdure.service.idempotency import KEPT_ANSWERS
from perdure.service.notifications.notification_rules import RULES
from perdure.service.notifications.notification_workflow import COUNTS
from perdure.service.people.person_records import PEOPLE
from perdure.service.proposals.proposal_records import PROPOSAL_CONTENTS, PROPOSALS
from perdure.service.record_kinds import RecordKind
from perdure.service.triggers import event_listeners, schedule_states, trigger_records, webhook_deliveries

RECORD_KINDS: tuple[RecordKind[Any], ...] = (
    catalog.DEFINITIONS,
    catalog.VERSIONS,
    catalog.CONTENTS,
    catalog.RELEASES,
    catalog.EVENTS,
    catalog.DRAFTS,
    PROPOSALS,
    PROPOSAL_CONTENTS,
    KEPT_ANSWERS,
    access.KEYS,
    access.KEY_USES,
    access.SESSIONS,
    access.AUDIT_ENTRIES,
    access.CREDENTIALS,
    BULK_PIECES,
    PEOPLE,
    RULES,
    COUNTS,
    trigger_records.TRIGGERS,
    trigger_records.WEBHOOK_PATHS,
    schedule_states.SCHEDULE_STATES,
    webhook_deliveries.DELIVERIES,
    webhook_deliveries.DELIVERY_KEYS,
    event_listeners.LISTENERS,
    MEMORIES,
)
"""Every kind, once."""

KINDS_BY_NAME = {kind.name: kind for kind in RECORD_KINDS}
