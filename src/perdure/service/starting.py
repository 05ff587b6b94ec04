"""Starting: what the options of a start mean, where the arguments of the workflow end and its options begin."""

from typing import Any
from uuid import uuid4

from perdure.core.attributes import checked
from perdure.core.errors import BadValue
from perdure.core.paths import Key
from perdure.programs.code.declare import checked_name
from perdure.programs.code.durations import seconds, whole
from perdure.programs.code.queues import Queue, called
from perdure.programs.workflows import Workflow
from perdure.service import operations
from perdure.service.operations import Start

OPTIONS = frozenset(("id", "delay", "deadline", "strict", "queue", "lane", "priority", "ttl", "debounce", "singleton", "attributes", "connection", "tenant"))
"""Keywords that are options of a start, and no arguments of the workflow."""

PRIORITY_MAX = 2**31 - 1


def wanted(workflow: Workflow | str, args: tuple[Any, ...], given: dict[str, Any], tenant: str) -> tuple[Start, Queue | None]:
    """What is to be started, of arguments and options, and the queue that was declared for it.

    Raises:
        BadValue, BadName: the arguments are not those of the workflow, or an option means nothing.
    """
    options = {name: given[name] for name in OPTIONS & given.keys() if given[name] is not None}
    kwargs = {name: value for name, value in given.items() if name not in OPTIONS}
    code = None if isinstance(workflow, str) else workflow
    name = workflow.name if isinstance(workflow, Workflow) else checked_name(workflow, "workflow")
    of = checked_name(given.get("tenant", tenant), "tenant")
    id = options.get("id", code and code.calling.id)
    in_row = "debounce" in options or bool(options.get("singleton"))
    if in_row and ("strict" in options or ("debounce" in options and options.get("singleton"))):
        raise BadValue("start", sorted(options), "debounce or singleton, of which one excludes the other, and strict both")
    if id is None and not in_row:
        id = uuid4().hex
    own_s = None if code is None else code.deadline_s
    deadline_s = seconds(options["deadline"], "deadline") if "deadline" in options else own_s
    place, line = _place(code, options, (of, args, kwargs))
    start = Start(
        key=Key(of, name, checked_name(name if id is None else id, "id")),
        input=operations.encoded(workflow, args, kwargs),
        version=0 if code is None else code.version,
        definition=None if code is None else code.definition,
        delay_s=seconds(options.get("delay", 0.0), "delay"),
        deadline_s=deadline_s,
        strict=bool(options.get("strict")),
        place=place,
        ttl_s=seconds(options["ttl"], "ttl") if "ttl" in options else None,
        debounce_s=seconds(options["debounce"], "debounce") if "debounce" in options else None,
        singleton=bool(options.get("singleton")),
        attributes=checked(options["attributes"]) if "attributes" in options else () if code is None else code.calling.attributes,
    )
    return start, line


def _place(code: Workflow | None, options: dict[str, Any], call: tuple[str, tuple[Any, ...], dict[str, Any]]) -> tuple[tuple[str, str, int], Queue | None]:
    tenant, args, kwargs = call
    if "queue" in options:
        queue, line = called(options["queue"])
        checked_name(queue, "queue")
    else:
        queue, line = ("", None) if code is None else (code.calling.queue, code.calling.line)
    priority = options.get("priority", 0 if code is None else code.calling.priority)
    if priority:
        whole(priority + PRIORITY_MAX if isinstance(priority, int) else priority, "priority", 0)
    if (priority or "lane" in options) and not queue:
        raise BadValue("start", sorted(options), "a queue, in which a lane and a priority mean something")
    lane = options.get("lane", None if code is None else code.calling.lane)
    if lane is None:
        lane = "" if line is None or code is None else line.lane(tenant, code.fn, args, kwargs, skip=1)
    return (queue, lane, priority if line is None else line.ranked(priority)), line
