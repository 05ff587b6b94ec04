"""Graphs as data: the plan of a definition, and of an execution its plan with what has happened in it.

An execution of code has no plan. Its graph is that of its operations, with an edge to each from those that it follows directly.
"""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from perdure.core.errors import BadValue
from perdure.core.execution import Execution
from perdure.core.paths import UNDO, Key, Path, parse_path
from perdure.core.step_attempts import StepAttempt, step_attempts
from perdure.core.views import StepView, step_views
from perdure.definitions.graph.graph_picture import PictureState, edge_labels, step_detail, step_modifiers
from perdure.definitions.graph.ir import IR
from perdure.definitions.graph.operation_graph import operation_graph
from perdure.service.dead_letter_groups import step_name
from perdure.service.definition_views import view_of_past
from perdure.service.past_states import PastState, read_past
from perdure.service.store_access import StoreAccess


class ShownNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node of a graph: a step of a definition, or an operation of code. `block` is the id of the node that contains it (empty: none does).

    `detail` says in a few words what it does, and `modifiers` when and how often. `state` is that of its present or last passage, of which `path` is the path;
    ``not_taken`` if nothing can lead to it any more; None in a plan. `passages` counts how often it has begun, and `attempts` the attempts of its calls in all.
    """

    id: str
    kind: str
    name: str
    detail: str
    modifiers: list[str]
    block: str
    state: PictureState | None
    path: str
    passages: int
    attempts: int
    started_at_s: float | None
    ended_at_s: float | None


class ShownEdge(msgspec.Struct, frozen=True, kw_only=True):
    """An edge between two nodes, by their ids. `label` says when it is taken (empty: by default), `is_back` that it leads back in a cycle."""

    source: str
    target: str
    label: str
    is_back: bool
    is_taken: bool


class ShownGraph(msgspec.Struct, frozen=True, kw_only=True):
    """A graph, after event `at` of the log of its execution (0 for the plan of a definition, or before the beginning).

    `definition` is the hash of the definition whose plan it is; empty for code.
    """

    name: str
    definition: str
    at: int
    nodes: list[ShownNode]
    edges: list[ShownEdge]


class _Passages(msgspec.Struct):
    """What has happened at one node."""

    steps: list[StepView]
    attempts: int = 0


async def read_graph(access: StoreAccess, key: Key, at: int | None = None) -> ShownGraph:
    """The graph of an execution, now or after event `at` of its log.

    Raises:
        NotFound: there is no such execution.
        BadValue: its log has no such event, or it has not begun.
        NotReplayable: it runs a definition, and its log does not replay over that.
    """
    past = await read_past(access.store, key, at)
    execution = Execution(key, past.head.root)
    attempts = step_attempts(execution, past.seen)
    if execution.definition is None:
        if execution.started is None:
            raise BadValue("execution", str(key), "one that has begun; it has no graph yet")
        return _graph_of_code(execution, past, attempts)
    view = await view_of_past(access.store, past)
    assert view is not None, "it has begun"
    states: dict[str, PictureState] = {node.id: view.states.get(node.id, "not_reached") for node in view.ir.nodes}
    passages = _passages(view.steps, attempts, {node.id for node in view.ir.nodes})
    return shown_graph(view.ir, f"sha256:{execution.definition.sha256}", past.version, states, view.taken, passages)


def _graph_of_code(execution: Execution, past: PastState, attempts: Mapping[Path, Sequence[StepAttempt]]) -> ShownGraph:
    found = operation_graph(execution)
    passages = {step.path: _Passages([step], len(attempts.get(parse_path(step.path), ()))) for step in step_views(execution)}
    return shown_graph(found.ir, "", past.version, found.states, found.taken, passages)


def _passages(steps: Sequence[StepView], attempts: Mapping[Path, Sequence[StepAttempt]], ids: Collection[str]) -> dict[str, _Passages]:
    """The passages of nodes by id. What is opened beside a node, or for an item of it, is no passage, and its attempts count."""
    found: dict[str, _Passages] = {}
    for step in steps:
        path = parse_path(step.path)
        if path[0] == UNDO or (id := step_name(step.path)) not in ids:
            continue
        known = found.setdefault(id, _Passages([]))
        known.attempts += len(attempts.get(path, ()))
        if isinstance(path[-1], tuple) and path[-1][0] == id:
            known.steps.append(step)
    return found


def shown_graph(
    ir: IR,
    definition: str,
    at: int = 0,
    states: Mapping[str, PictureState] | None = None,
    taken: Collection[int] = (),
    passages: Mapping[str, _Passages] | None = None,
) -> ShownGraph:
    """A graph as data; without `states`, the plan alone."""
    labels = edge_labels(ir)
    blocks = [_block_of(ir, node.region) for node in ir.nodes]
    nodes = []
    for node, block in zip(ir.nodes, blocks, strict=True):
        known = (passages or {}).get(node.id, _Passages([]))
        last = known.steps[-1] if known.steps else None
        nodes.append(
            ShownNode(
                id=node.id,
                kind=node.kind,
                name=node.name,
                detail=step_detail(node),
                modifiers=step_modifiers(node),
                block=block,
                state=None if states is None else states.get(node.id, "not_reached"),
                path="" if last is None else last.path,
                passages=len(known.steps),
                attempts=known.attempts,
                started_at_s=known.steps[0].opened_at_s if known.steps else None,
                ended_at_s=None if last is None else last.settled_at_s,
            )
        )
    edges = [
        ShownEdge(source=ir.nodes[one.source].id, target=ir.nodes[one.target].id, label=label, is_back=one.back, is_taken=number in taken)
        for number, (one, label) in enumerate(zip(ir.edges, labels, strict=True))
    ]
    return ShownGraph(name=ir.name, definition=definition, at=at, nodes=nodes, edges=edges)


def _block_of(ir: IR, region: int) -> str:
    """The id of the node whose body contains a region; empty for the root. A cycle is within the block of its head."""
    while region > 0 and ir.regions[region].kind == "cycle":
        region = ir.regions[region].parent
    return ir.nodes[ir.regions[region].head].id if region > 0 else ""
