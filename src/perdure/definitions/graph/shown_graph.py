"""A graph as data: the plan of a definition, or what an execution has done; all that is needed to draw it."""

from collections.abc import Collection, Mapping
from typing import Annotated, Literal

import msgspec

from perdure.core.views import StepState, StepView
from perdure.definitions.graph.ir import IR
from perdure.definitions.graph.step_texts import edge_labels, one_line, step_detail, step_modifiers

TITLE_MAX = 32

PictureState = StepState | Literal["not_taken", "not_reached"]

MOST_ACTIVE: tuple[StepState, ...] = ("performing", "ending", "retrying", "interrupted", "parked", "waiting", "waiting_approval")
"""The states of open operations, by precedence: what has several open operations has the first of their states."""


class ShownNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node of a graph: a step of a definition, or an operation of code. `block` is the id of the node that contains it (empty: none does), and `region` the
    number of the list of steps, or of the cycle, that it is in.

    `detail` says in a few words what it does, and `modifiers` when and how often. `state` is that of its present or last passage, of which `path` is the path;
    ``not_taken`` if nothing can lead to it any more; None in a plan. `passages` counts how often it has begun, and `attempts` the attempts of its calls in all.
    """

    id: str
    kind: str
    name: str
    detail: str
    modifiers: list[str]
    block: str
    region: int
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


class ShownRegion(msgspec.Struct, frozen=True, kw_only=True):
    """A list of steps in the node `block`, or a cycle in such a list or in another cycle; the first region of a graph has no `block` and no `parent` (-1).

    `caption` is its role in the block (empty: it is obvious), and `max` the bound on the iterations of a cycle (0: none).
    """

    parent: int
    block: str
    is_cycle: bool
    max: int
    caption: str


class LeftWay(msgspec.Struct, frozen=True, kw_only=True):
    """Where an execution of code has left the way of the latest completed executions of its version: at `node`, a step that none of these `examples` has.

    `instead` counts those of them that did something else there, by the path of that step, the most frequent first; those that did nothing more are missing.
    """

    node: str
    examples: int
    instead: dict[str, int]


class ShownGraph(msgspec.Struct, frozen=True, kw_only=True):
    """A graph, after event `at` of the log of its execution (0 for a plan).

    `definition` is the hash of the definition whose plan it is, `version` the version that it declares, and `order` what decides the order of its steps; all
    are empty for code. Nodes of code that are ``not_reached`` are what `drawn_from` earlier executions all did behind this point; 0: nothing is known of that.
    `left_way` says where it has left the way of such executions; None: it has not, or fewer than three are known.
    """

    name: str
    version: str
    definition: str
    order: str
    at: Annotated[int, msgspec.Meta(extra={"version": True})]
    nodes: list[ShownNode]
    edges: list[ShownEdge]
    regions: list[ShownRegion]
    drawn_from: int = 0
    left_way: LeftWay | None = None


class NodePassages(msgspec.Struct):
    """What has happened at one node: its operations, in the order of opening, and how many attempts their calls had."""

    steps: list[StepView]
    attempts: int = 0


def step_title(node: ShownNode) -> str:
    """The title of a node, in a line."""
    return one_line(node.name or node.id, TITLE_MAX)


def shown_graph(
    ir: IR,
    states: Mapping[str, PictureState] | None = None,
    taken: Collection[int] = (),
    passages: Mapping[str, NodePassages] | None = None,
    at: int = 0,
) -> ShownGraph:
    """A graph as data: with the `states` of nodes by id (one without was not reached) and the numbers of the edges that were `taken`, or the plan alone."""
    is_plan = states is None
    nodes = []
    for node in ir.nodes:
        known = (passages or {}).get(node.id, NodePassages([]))
        last = known.steps[-1] if known.steps else None
        nodes.append(
            ShownNode(
                id=node.id,
                kind=node.kind,
                name=node.name,
                detail=step_detail(node),
                modifiers=step_modifiers(node),
                block=_block_of(ir, node.region),
                region=node.region,
                state=None if is_plan else (states or {}).get(node.id, "not_reached"),
                path="" if last is None else last.path,
                passages=len(known.steps),
                attempts=known.attempts,
                started_at_s=known.steps[0].opened_at_s if known.steps else None,
                ended_at_s=None if last is None else last.settled_at_s,
            )
        )
    edges = [
        ShownEdge(source=ir.nodes[one.source].id, target=ir.nodes[one.target].id, label=label, is_back=one.back, is_taken=number in taken)
        for number, (one, label) in enumerate(zip(ir.edges, edge_labels(ir), strict=True))
    ]
    regions = [_region(ir, number) for number in range(len(ir.regions))]
    order = ir.order if ir.hash else ""
    return ShownGraph(name=ir.name, version=ir.version, definition=ir.hash, order=order, at=at, nodes=nodes, edges=edges, regions=regions)


def _region(ir: IR, number: int) -> ShownRegion:
    region = ir.regions[number]
    is_cycle = region.kind == "cycle"
    caption = _caption(ir, number) if number and not is_cycle else ""
    return ShownRegion(parent=region.parent, block=_block_of(ir, number), is_cycle=is_cycle, max=region.max, caption=caption)


def _block_of(ir: IR, region: int) -> str:
    """The id of the node whose body contains a region; empty for the root. A cycle is within the block of its head."""
    while region > 0 and ir.regions[region].kind == "cycle":
        region = ir.regions[region].parent
    return ir.nodes[ir.regions[region].head].id if region > 0 else ""


def _caption(ir: IR, region: int) -> str:
    """Returns the role of a list in its step; empty if it is obvious."""
    head = ir.nodes[ir.regions[region].head]
    if head.on_error == region:
        return "on error"
    return ("then", "else")[head.bodies.index(region)] if head.kind == "if" else ""
