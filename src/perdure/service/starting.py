"""Starting: what is to be started, of a workflow with its options and the arguments of one start."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import uuid4

from perdure.core.paths import Key
from perdure.programs.code.options import DEFAULT_TENANT, NamedWorkflow, expect_acting
from perdure.programs.code.queues import Queue
from perdure.programs.inputs import encoded
from perdure.programs.workflows import Workflow
from perdure.service.operations import Start


def wanted(
    workflow: Workflow | NamedWorkflow, args: Sequence[Any], kwargs: Mapping[str, Any], verb: str, own_id: Callable[[], str] = lambda: uuid4().hex
) -> tuple[Start, Queue | None]:
    """What is to be started by `verb`, under `own_id` where no id is given, and the queue that was declared for it.

    Raises:
        BadValue: the arguments are not those of the workflow, or an option means nothing beside the others.
        WrongVerb: an option has no effect on this verb, or stands among the arguments.
    """
    calling = workflow.calling
    expect_acting(calling, verb, workflow.name)
    code = None if isinstance(workflow, NamedWorkflow) else workflow
    raw = encoded(code or workflow.name, args, kwargs, verb)
    tenant = calling.tenant or DEFAULT_TENANT
    in_row = calling.debounce_s is not None or calling.singleton
    id = calling.id or (workflow.name if in_row else own_id())
    start = Start(
        key=Key(tenant, workflow.name, id),
        input=raw,
        version=0 if code is None else code.version,
        definition=None if code is None else code.definition,
        delay_s=calling.delay_s,
        deadline_s=calling.deadline_s if code is None else code.deadline_s,
        grace_s=calling.grace_s if code is None else code.grace_s,
        strict=calling.strict,
        place=calling.place(tenant, None if code is None else code.fn, args, kwargs),
        ttl_s=calling.ttl_s,
        debounce_s=calling.debounce_s,
        singleton=calling.singleton,
        attributes=calling.attributes,
    )
    return start, calling.line
