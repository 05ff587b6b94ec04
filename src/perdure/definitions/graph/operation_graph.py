"""The graph of what an execution has done: its operations in the form of a definition, so that it is drawn as one.

A log has no plan, but it has times: an operation that began after another one had settled follows it, and operations that overlap ran side by side. An edge
leads to an operation from those that it follows directly. Branches, iterations and all else that has operations below its path are blocks.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

from perdure.core.execution import Execution
from perdure.core.operations import APPROVAL_WORKFLOW
from perdure.core.views import StepView, step_views
from perdure.definitions.graph.ir import IR, GraphEdge, GraphNode, GraphRegion
from perdure.definitions.graph.shown_graph import MOST_ACTIVE, PictureState

EDGES_MAX = 20
"""To an operation that follows more operations than this, only those that settled last lead: two rows of a thousand would have a million edges."""

Moment = tuple[float, int]
"""A time of the store, and the number of the operation: operations that settle at once are in the order in which they were opened."""


class OperationGraph(NamedTuple):
    """A graph as `graph_drawing` takes it: the operations as nodes, their states by path, and the edges, all of which were taken."""

    ir: IR
    states: Mapping[str, PictureState]
    taken: frozenset[int]


@dataclass
class _Place:
    """A path with its operation, if it has one, and the places below it."""

    path: str
    step: StepView | None = None
    number: int = 0
    below: dict[str, "_Place"] = field(default_factory=dict)
    begun: Moment = (0.0, 0)
    ended: Moment | None = None


def operation_graph(execution: Execution) -> OperationGraph:
    """Returns the graph of the operations of an execution, as far as its log still has them: iterations that are complete are forgotten."""
    root = _Place("")
    for number, step in enumerate(step_views(execution)):
        place = root
        for part in step.path.split("/"):
            place = place.below.setdefault(part, _Place(f"{place.path}/{part}".removeprefix("/")))
        place.step, place.number = step, number
    _set_times(root)
    builder = _GraphBuilder()
    builder.add_list(root, 0)
    return builder.made(f"{execution.key.workflow}/{execution.key.id}")


def _set_times(place: _Place) -> None:
    """Sets when a place began and ended: an open operation in it has no end, and so the place has none."""
    for lower in place.below.values():
        _set_times(lower)
    begun = [one.begun for one in place.below.values()]
    ended = [one.ended for one in place.below.values()]
    if place.step is not None:
        begun.append((place.step.opened_at_s, place.number))
        ended.append(None if place.step.settled_at_s is None else (place.step.settled_at_s, place.number))
    place.begun = min(begun, default=(0.0, 0))
    known = [one for one in ended if one is not None]
    place.ended = max(known) if known and len(known) == len(ended) else None


class _GraphBuilder:
    """Builds the nodes, regions and edges, list by list."""

    def __init__(self) -> None:
        self.nodes: list[GraphNode] = []
        self.edges: list[GraphEdge] = []
        self.regions: list[GraphRegion] = [GraphRegion()]
        self.states: dict[str, PictureState] = {}

    def add_list(self, place: _Place, region: int) -> PictureState:
        """Adds what is below a place; returns the state of the most active operation, or ``completed``."""
        found = list[PictureState]()
        numbers: dict[str, int] = {}
        for lower in place.below.values():
            numbers[lower.path] = len(self.nodes)
            self.nodes.append(_node(lower, region))
            found.append(self._add_inside(lower, numbers[lower.path]))
        for source, target in _following(list(place.below.values())):
            self.edges.append(GraphEdge(numbers[source.path], numbers[target.path], region=region))
        self.regions[region] = GraphRegion(
            "body" if region else "root", self.regions[region].parent, self.regions[region].head, tuple(numbers.values()), tuple(numbers.values())[:1]
        )
        return next((state for state in MOST_ACTIVE if state in found), "completed")

    def _add_inside(self, place: _Place, number: int) -> PictureState:
        state: PictureState = "completed" if place.step is None else place.step.state
        if place.below:
            inner = len(self.regions)
            node = self.nodes[number]
            self.regions.append(GraphRegion("body", node.region, number))
            self.nodes[number] = GraphNode(node.id, node.kind, node.region, node.config, name=node.name, bodies=(inner,))
            below = self.add_list(place, inner)
            state = below if below != "completed" else state
        self.states[place.path] = state
        return state

    def made(self, name: str) -> OperationGraph:
        """Returns the graph."""
        ir = IR(name, "", "", "listed", nodes=tuple(self.nodes), edges=tuple(self.edges), regions=tuple(self.regions))
        return OperationGraph(ir, self.states, frozenset(range(len(self.edges))))


def _node(place: _Place, region: int) -> GraphNode:
    part, step = place.path.rpartition("/")[2], place.step
    if part.startswith("~"):
        return GraphNode(place.path, "iteration", region, name=f"iteration {part[1:]}", config="")
    if step is None or (step.kind == "keep" and place.below):  # the operation that keeps a join or a race says nothing by itself
        return GraphNode(place.path, "branch" if step is None else "branches", region, name=part, config="")
    target = step.target.rstrip(": ")
    said = [] if target in ("", part.partition("#")[0]) else [target]
    said += [f"{step.attempt} attempts"] if step.attempt > 1 else []
    is_approval = step.target == APPROVAL_WORKFLOW
    return GraphNode(place.path, "approve" if is_approval else step.kind, region, "" if is_approval else ", ".join(said), name=part)


def _following(places: list[_Place]) -> Iterator[tuple[_Place, _Place]]:
    """Yields the pairs of places of one list of which the second follows the first with none in between: the first ended before the second began, and after
    every other one that was over by then had begun; or it is the last of those to begin."""
    over = sorted(((one.ended, one) for one in places if one.ended is not None), key=lambda pair: pair[0])
    ends = [end for end, _ in over]
    latest = [number for _, number in accumulate(((one.begun, number) for number, (_, one) in enumerate(over)), max)]
    for place in places:
        if not (count := bisect_left(ends, place.begun)):
            continue
        last = latest[count - 1]
        first = max(bisect_right(ends, over[last][1].begun, 0, count), count - EDGES_MAX)
        found = over[first:count]
        if last < first and len(found) < EDGES_MAX:
            found = [over[last], *found]
        yield from ((one, place) for _, one in found)
