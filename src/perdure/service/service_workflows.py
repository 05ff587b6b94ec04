"""Perdure's own workflows that use what the service knows. Engines that run code of users are given them, as built-in ones."""

from perdure.code.declarations import CodeWorkflow
from perdure.service.bulk_workflow import BULK_CODE
from perdure.service.proposals.proposal_workflow import PROPOSAL_CODE
from perdure.service.triggers.event_dispatch import EVENTS_CODE
from perdure.service.triggers.schedule_clock import SCHEDULE_CODE

SERVICE_WORKFLOWS: tuple[CodeWorkflow, ...] = (BULK_CODE, EVENTS_CODE, PROPOSAL_CODE, SCHEDULE_CODE)
