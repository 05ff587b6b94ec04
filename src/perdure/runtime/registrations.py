"""The registrations of an engine: its workflows, their releases and capabilities, and the queues that code declares.

A change of a queue by an operator stays until the code declares something else.
"""

import logging
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import Any

import msgspec

from perdure.code.builtin_workflows import APPROVAL_CODE as APPROVAL
from perdure.code.builtin_workflows import COMPOSITE_CODE as COMPOSITE
from perdure.code.declarations import CodeWorkflow, Step
from perdure.code.declared_queues import Queue
from perdure.code.declared_signals import message_schemas
from perdure.core.errors import BadValue
from perdure.core.program import Toolbox, program_name
from perdure.definitions.graph.graph_workflow import GraphWorkflow
from perdure.definitions.graph.version_ranges import version_order
from perdure.runtime.workflow_programs import Workflow
from perdure.stores.protocol import UNLIMITED, QueueLimits, Store

logger = logging.getLogger("perdure.engine")

BUILT_IN_WORKFLOWS = (APPROVAL, COMPOSITE)

SCHEMAS_BYTES_MAX = 16 * 1024
"""The size of all schemas that an engine tells. The workflows that come last in order of name then have none."""


def runnable_workflows(workflows: Iterable[Workflow]) -> dict[str, Workflow]:
    """Returns the workflows that can run here, by name; of several definitions of one name, the newest. Sync workflows need greenlet.

    Raises:
        UnsupportedType: one of them, or one of its tools, has a type that can't be decoded.
    """
    found: dict[str, Workflow] = {}
    for one in workflows:
        if isinstance(one, CodeWorkflow):
            _ = one.codec
        else:
            resolve_type_hints(one.tools.values())
        before = found.get(one.name)
        if _can_run(one) and not (isinstance(before, GraphWorkflow) and isinstance(one, GraphWorkflow) and _release_number(one) < _release_number(before)):
            found[one.name] = one
    return found


def resolve_type_hints(steps: Iterable[Step[Any, Any, Any]]) -> None:
    """Reads the type hints of steps and of their undo handlers, so that a bad one is refused before anything runs.

    Raises:
        UnsupportedType: one has a type that can't be decoded.
    """
    for one in steps:
        _ = one.codec, [handler.step.codec for handler in one.handlers]


def definition_releases(workflows: Iterable[Workflow]) -> dict[tuple[str, str], GraphWorkflow]:
    """Returns each definition with the tools that were given for it, by its name and its SHA-256."""
    return {(one.name, one.release.sha256): one for one in workflows if isinstance(one, GraphWorkflow) and one.release is not None}


def engine_toolboxes(workflows: Iterable[Workflow]) -> tuple[Toolbox, ...]:
    """Returns the capabilities that executions of these definitions may use. Definitions with the same capabilities share one toolbox."""
    found: dict[frozenset[str], set[str]] = {}
    for one in workflows:
        if isinstance(one, GraphWorkflow) and one.capabilities:
            found.setdefault(one.capabilities, set()).update(one.programs)
    return tuple((frozenset(programs), has) for has, programs in found.items())


def told_schemas(workflows: Iterable[Workflow]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Returns the JSON Schemas of the input of workflows of code, by program, and those of the messages that they may receive, by program and name.

    There are as many as fit into `SCHEMAS_BYTES_MAX`, those of inputs first: each renewal of a lease sends them.
    """
    known = [(program_name(one.name, one.version), one) for one in sorted(workflows, key=lambda one: one.name) if isinstance(one, CodeWorkflow)]
    inputs, left = _that_fit({program: one.codec.schema() for program, one in known}, SCHEMAS_BYTES_MAX)
    messages, _ = _that_fit({program: schemas for program, one in known if (schemas := message_schemas(one))}, left)
    return inputs, messages


def _that_fit(schemas: Mapping[str, dict[str, Any]], left: int) -> tuple[dict[str, dict[str, Any]], int]:
    """The first schemas that fit into `left` bytes together, and how many bytes are left."""
    found: dict[str, dict[str, Any]] = {}
    for program, schema in schemas.items():
        if (size := len(msgspec.json.encode(schema))) > left:
            return found, 0
        found[program], left = schema, left - size
    return found, left


def _release_number(workflow: GraphWorkflow) -> tuple[int, int, int, bool]:
    return version_order(workflow.release.version) if workflow.release is not None else (0, 0, 0, False)


def _can_run(workflow: Workflow) -> bool:
    able = not workflow.sync or find_spec("greenlet") is not None
    if not able:
        logger.warning('%s is left to other engines: greenlet is not installed here. Install it with pip install "perdure[sync]"', workflow.name)
    return able


def queue_limits(queue: Queue) -> QueueLimits:
    """Returns the limits of a declared queue."""
    interval_s, burst = (0.0, 1) if queue.rate is None else (queue.rate.interval_s, queue.rate.burst)
    limits = QueueLimits(queue.concurrency, queue.concurrency_per_key, interval_s, burst)
    return msgspec.structs.replace(limits, declared=msgspec.json.encode(limits).decode())


def declared_queues(workflows: Iterable[Workflow], steps: Iterable[Step[Any, Any, Any]]) -> list[Queue]:
    """Returns the queues that code declares on its steps and workflows.

    Raises:
        BadValue: two declarations of one queue differ.
    """
    found: dict[str, Queue] = {}
    for queue in (*(one.calling.line for one in workflows), *(one.line for one in steps)):
        if queue is not None and found.setdefault(queue.name, queue) != queue:
            raise BadValue("Queue", queue.name, "declared once, and there are two declarations that differ; keep one and import it")
    return list(found.values())


def worker_limits(queues: Iterable[Queue]) -> dict[str, int]:
    """Returns how many calls of each of these queues one worker performs at a time, where that is declared."""
    return {queue.name: queue.worker_concurrency for queue in queues if queue.worker_concurrency is not None}


async def declare_queues(store: Store, queues: Iterable[Queue]) -> None:
    """Sets the limits of these queues in the store, unless the same declaration has set them before."""
    wanted = {queue.name: queue_limits(queue) for queue in queues}
    if not wanted:
        return
    known = {stand.name: stand.limits for stand in await store.queues() if stand.tenant is None}
    for name, limits in wanted.items():
        if known.get(name, UNLIMITED).declared != limits.declared:
            await store.limit(name, limits)


async def limited_queues(store: Store) -> frozenset[str]:
    """Returns the queues that have limits. Only the store hands out their calls."""
    return frozenset(stand.name for stand in await store.queues() if _has_limits(stand.limits))


def _has_limits(limits: QueueLimits) -> bool:
    return limits.concurrency is not None or limits.per_lane is not None or limits.interval_s > 0
