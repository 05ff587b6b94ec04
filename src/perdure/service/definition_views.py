"""Reads executions of definitions: the present definition, the view of its state, and the secrets that it reads. Nothing is changed."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from perdure.core import views
from perdure.core.errors import BadExpression, BadValue, NotFound
from perdure.core.events import StartedEvent
from perdure.core.paths import Key, Path
from perdure.core.values import Blob
from perdure.core.views import StepView
from perdure.definitions.expr import template
from perdure.definitions.format.dialect_rules import RULES
from perdure.definitions.format.model import SOURCE_FIELDS
from perdure.definitions.graph import execution_view
from perdure.definitions.graph.execution_view import ExecutionView, TokenCounts
from perdure.definitions.graph.ir import IR, GraphNode
from perdure.definitions.graph.plan import plan_of_definition
from perdure.runtime.blob_loader import BlobCache, run_in_threads
from perdure.service.execution_folds import ExecutionFold
from perdure.service.past_states import PastState, read_past
from perdure.service.store_access import StoreAccess
from perdure.stores.protocol import ReadOnlyStore

T = TypeVar("T")

OF_A_DEFINITION = "one of a definition that has begun; it is code, or has not begun"


class CurrentDefinition(msgspec.Struct, frozen=True):
    """The definition that an execution runs by, in its canonical form, and its hash. A patch replaces it."""

    hash: str
    document: dict[str, Any]

    @property
    def version(self) -> str:
        """The version that the document declares."""
        return str(self.document.get("version", "1.0.0"))


async def definition_of(store: ReadOnlyStore, key: Key, at: int | None = None) -> CurrentDefinition:
    """The definition of an execution, now or after event `at` of its log. Before it began, it is the one that it began with.

    Raises:
        NotFound: there is no such execution.
        BadValue: it runs code, or has not begun, or its log has no such event.
    """
    blob = definition_of_past(await read_past(store, key, at))
    if blob is None:
        raise BadValue("execution", str(key), OF_A_DEFINITION)
    return CurrentDefinition(f"sha256:{blob.sha256}", msgspec.json.decode(await BlobCache(store).get(blob.sha256)))


async def nodes_after_decision(access: StoreAccess, key: Key, path: Path, approved: bool) -> list[str]:
    """The ids of the nodes to which a decision on the approval at a path of an execution leads. None if it runs code or has been removed, if the approval is
    no step of its definition, or if rules choose among them.
    """
    try:
        blob = (await access.folds.of(key).refresh()).definition
    except NotFound:
        return []
    last = path[-1] if path else ""
    if blob is None or not isinstance(last, tuple):
        return []
    plan = plan_of_definition(blob.sha256, {blob.sha256: await BlobCache(access.store).get(blob.sha256)})
    if (place := plan.by_id.get(last[0])) is None or place.node.kind != "approve" or (approved and (place.node.rules or place.node.choose)):
        return []
    goes_on = not approved and place.node.on_rejected == "go_on" and not plan.has_port(place, "rejected")
    edges = plan.by_port(place, "success" if goes_on else "approved" if approved else "rejected")
    return [plan.places[plan.edges[number].target].node.id for number in edges]


async def step_views(access: StoreAccess, fold: ExecutionFold) -> list[StepView]:
    """Every operation of an execution in the order of opening. For a definition, each has its verb, and composite steps are included.

    Raises:
        NotFound: there is no such execution.
        NotReplayable: the log does not replay over the definition.
    """
    execution = await fold.refresh()
    if execution.definition is None:
        return await fold.view(views.step_views)
    if fold.cached_steps is None or fold.cached_steps[0] != execution.version:
        found = await read_execution_view(access.store, fold.key)
        fold.cached_steps = execution.version, (await fold.view(views.step_views) if found is None else found.steps)
    return fold.cached_steps[1]


async def read_execution_view(store: ReadOnlyStore, key: Key, number: int | None = None) -> ExecutionView | None:
    """The view of an execution, now or after event `number` of its log; None if there is none, since it ended before anything could happen.

    Raises:
        NotFound: there is no such execution.
        BadValue: the execution runs code, or has not begun, or its log has no such event.
        NotReplayable: the log does not replay over the definition.
    """
    past = await read_past(store, key, number)
    if definition_of_past(past) is None:
        raise BadValue("execution", str(key), OF_A_DEFINITION)
    return await view_of_past(store, past)


async def read_tokens(store: ReadOnlyStore, key: Key, at: int | None = None) -> TokenCounts:
    """The tokens of an execution of a definition, now or after event `at` of its log.

    Raises:
        NotFound: there is no such execution.
        BadValue: it runs code, or had not begun by then, or its log has no such event.
        NotReplayable: the log does not replay over the definition.
    """
    found = await read_execution_view(store, key, at)
    if found is None:
        raise BadValue("event", at, "one behind its beginning")
    return found.tokens


async def view_of_past(store: ReadOnlyStore, past: PastState) -> ExecutionView | None:
    """The view of an execution after some of its events; None if it runs code, or has not begun. Of the time before it began, nothing in it has happened.

    Raises:
        NotReplayable: the log does not replay over the definition.
    """
    definition, blobs = definition_of_past(past), BlobCache(store)
    if definition is None:
        return None
    if past.fold().started is not None:
        return await run_in_threads(blobs, execution_view.view_at_event(past.head.key, past.events, past.position))
    ir = plan_of_definition(definition.sha256, {definition.sha256: await blobs.get(definition.sha256)}).ir
    return ExecutionView(past.position, ir, [], {}, frozenset(), TokenCounts(past.position, 0, 0, {}, [], [], {}))


def definition_of_past(past: PastState) -> Blob | None:
    """The definition by which an execution ran after some of its events, or with which it began after them; None if it runs code, or has not begun.

    What is known before the start, such as what the execution may call, is in events of its own.
    """
    execution = past.fold()
    if execution.started is not None:
        return execution.definition
    return next((event.definition for event in past.events[past.size :] if isinstance(event, StartedEvent)), None)


def secrets_read_by(ir: IR, triggers: Any = ()) -> dict[str, list[str]]:
    """The secrets that a definition reads: for each name, the ids of the steps that read it, in order; ``triggers`` stands for its `triggers`.

    Secrets that called definitions read are not included.
    """
    found: dict[str, list[str]] = {}
    readers = [*((node.id, value) for node in ir.nodes for value in _node_values(node)), ("triggers", list(triggers or ()))]
    for who, value in readers:
        for name in _secret_names(value, RULES[ir.dialect].expressions == "braces"):
            if who not in found.setdefault(name, []):
                found[name].append(who)
    return found


def _node_values(node: GraphNode) -> Iterator[Any]:
    config = node.config
    if node.kind in SOURCE_FIELDS:
        config = {name: value for name, value in config.items() if name != SOURCE_FIELDS[node.kind]} if isinstance(config, Mapping) else None
    yield from (config, node.input, node.env, None if node.undo is None else node.undo.input)


def _secret_names(value: Any, braces: bool) -> Iterator[str]:
    with suppress(BadExpression):  # some kinds have fields that are not templates
        reads = template.compile_template(value, expressions="braces" if braces else "none").reads
        yield from sorted({str(read.path[0]) for read in reads if read.root == "secrets" and read.path})
