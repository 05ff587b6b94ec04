"""Perdure's own workflows that use what the service knows. Engines that run code of users are given them, as built-in ones."""

from typing import Any

from perdure.code.declarations import CodeWorkflow
from perdure.service.bulk_workflow import BULK_CODE
from perdure.service.notifications.notice_finder import NOTICES_CODE
from perdure.service.notifications.notification_workflow import NOTIFICATION_CODE
from perdure.service.proposals.proposal_workflow import PROPOSAL_CODE
from perdure.service.triggers.event_dispatch import EVENTS_CODE
from perdure.service.triggers.event_listeners import ListenerAnnouncer
from perdure.service.triggers.schedule_clock import SCHEDULE_CODE
from perdure.stores.protocol import Store

SERVICE_WORKFLOWS: tuple[CodeWorkflow, ...] = (BULK_CODE, EVENTS_CODE, NOTICES_CODE, NOTIFICATION_CODE, PROPOSAL_CODE, SCHEDULE_CODE)


def engine_options(store: Store) -> dict[str, Any]:
    """The options of an engine that performs these workflows, and announces events to triggers."""
    return {"built_in": SERVICE_WORKFLOWS, "announcer": ListenerAnnouncer(store)}
