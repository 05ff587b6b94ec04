"""The start of an execution by a trigger: which workflow, with which input, and what the execution knows of the trigger.

An execution that a trigger has started has the attributes ``trigger`` (its id) and ``trigger_kind``, and carries `TriggerFacts` to its code, steps and
children; definitions read them as ``@trigger``. The facts name the triggers that led to it, so a chain that comes back to the same trigger is found.
"""

from typing import Any, NamedTuple

import msgspec

from perdure.core import values
from perdure.core.attributes import checked_attributes, sortable_bytes
from perdure.core.carried import TRIGGER_CARRIED
from perdure.core.envelopes import StartAdmission
from perdure.core.errors import BadValue
from perdure.core.operations import PROMPT_WORKFLOW
from perdure.core.paths import Key
from perdure.service.definition_starts import DefinitionStart, catalog_start
from perdure.service.execution_operations import NOT_HOSTED, StartRequest
from perdure.service.queries import INTERNAL_WORKFLOWS
from perdure.service.store_access import StoreAccess
from perdure.service.triggers.trigger_input import TriggerFacts, bounded_facts, mapped_input, prompt_input
from perdure.service.triggers.trigger_records import TriggerRecord

TRIGGER_ATTRIBUTE, TRIGGER_KIND_ATTRIBUTE = "trigger", "trigger_kind"
"""The attributes of an execution that a trigger has started: the id of the trigger, and what it is."""


class TriggeredStart(NamedTuple):
    """What a trigger wants to start: under which `id`, with which `payload`, and what is known of it.

    `admission_max` limits how many executions of the trigger may be in progress (None: any number), and `queue` is where it waits for its turn.
    """

    id: str
    payload: Any
    facts: TriggerFacts
    admission_max: int | None = None
    queue: str = ""


async def triggered_start(access: StoreAccess, tenant: str, trigger: TriggerRecord, wanted: TriggeredStart) -> DefinitionStart:
    """The start of the workflow of a trigger, or of what hands its prompt to the application. `start_post` makes the post of it, which is refused if the
    admission does not allow it.

    Code need not run anywhere at present: its execution then waits for an engine.

    Raises:
        NotFound, Ambiguous: there is no such definition, or the reference names several versions.
        BadDefinition: the definition calls something that is not there.
        BadValue: the definition does not take this input, or the workflow is Perdure's own.
        DefinitionDisabled: the definition is disabled.
    """
    expect_users_workflow(trigger.workflow)
    facts = bounded_facts(wanted.facts)
    input = prompt_input(trigger, facts) if trigger.asks else mapped_input(trigger, facts, wanted.payload)
    given = values.encode(((), input), f"the input of the trigger {trigger.name}")
    carried = ((TRIGGER_CARRIED, values.encode(msgspec.to_builtins(facts), "what is known of the trigger")),)
    admission = None if wanted.admission_max is None else StartAdmission(TRIGGER_ATTRIBUTE, sortable_bytes(trigger.id), wanted.admission_max)
    request = StartRequest(
        key=Key(tenant, PROMPT_WORKFLOW if trigger.asks else trigger.workflow, wanted.id),
        input=given,
        queue=wanted.queue,
        attributes=checked_attributes({TRIGGER_ATTRIBUTE: trigger.id, TRIGGER_KIND_ATTRIBUTE: trigger.kind}),
        admission=admission,
        carried=carried,
    )
    return DefinitionStart(request, NOT_HOSTED) if trigger.is_code or trigger.asks else await catalog_start(access, request, trigger.workflow)


def expect_users_workflow(workflow: str) -> None:
    """Checks that a trigger does not start an execution of Perdure's own, such as an approval or a proposal agent. Operations with roles and limits do that.

    Raises:
        BadValue: the workflow is Perdure's own.
    """
    if workflow in INTERNAL_WORKFLOWS:
        why = f"a trigger can't start {workflow}: it is Perdure's own workflow. Name a definition of the catalog, or a workflow of your code"
        raise BadValue("workflowId", workflow, "a workflow of users", why, "/workflowId")
