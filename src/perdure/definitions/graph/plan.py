"""Plans: an IR prepared for the walk, with indexes of the edges of each node and cycle.

A plan is made once for each definition in a process, and shared by all of its executions.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from perdure.definitions.format.compiler import compile_definition
from perdure.definitions.format.dialect_rules import RULES
from perdure.definitions.graph.ir import AFTER, ALWAYS, IR, NOT_AFTER, NOT_ALWAYS, GraphEdge, GraphNode


class PlannedNode:
    """A node in its plan: the numbers of its outgoing edges, the number of its incoming edges (without back edges), and the region in whose frames they end.

    `cycle` is the region whose head it is, or -1. The edges into that cycle then end in the region around it.
    """

    __slots__ = ("cycle", "home", "incoming", "is_block", "memory", "node", "number", "out")

    def __init__(self, number: int, node: GraphNode) -> None:
        self.number, self.node = number, node
        self.out: list[int] = []
        self.incoming: list[int] = []
        self.cycle = -1
        self.home = node.region
        self.is_block = bool(node.bodies)
        self.memory: dict[str, object] = {}


class GraphPlan:
    """All nodes of a plan, and for each edge the outermost cycle that it leaves, or -1. `exits` are the edges that leave each cycle.

    `behind_errors` are the nodes that a port ``error`` leads to, directly or through other nodes. `memory` has what is computed once for all executions.
    """

    __slots__ = ("_below", "behind_errors", "by_id", "direct", "edges", "exits", "inside", "ir", "left", "memory", "outs", "places", "regions")

    def __init__(self, ir: IR) -> None:
        self.ir = ir
        self.edges: Sequence[GraphEdge] = ir.edges
        self.regions = ir.regions
        self.places = [PlannedNode(number, node) for number, node in enumerate(ir.nodes)]
        self.by_id = {place.node.id: place for place in self.places}
        for number, region in enumerate(ir.regions):
            if region.kind == "cycle":
                self.places[region.head].cycle, self.places[region.head].home = number, region.parent
        self.left = [self._left(edge) for edge in ir.edges]
        self.exits: dict[int, list[int]] = {}
        self.outs: dict[tuple[int, str], tuple[int, ...]] = {}
        self.inside: dict[int, tuple[str, ...]] = {}
        self.direct: dict[int, tuple[str, ...]] = {}
        for number, edge in enumerate(ir.edges):
            self.places[edge.source].out.append(number)
            if not edge.back:
                self.places[edge.target].incoming.append(number)
            if self.left[number] >= 0:
                self.exits.setdefault(self.left[number], []).append(number)
        self._below: dict[int, tuple[str, ...]] = {}
        self.memory: dict[str, object] = {}
        self.behind_errors = self._behind_errors()

    def _behind_errors(self) -> frozenset[int]:
        failing = {edge.source for edge in self.edges if edge.port == "error"}
        found, waiting = set[int](), [edge.target for edge in self.edges if edge.source in failing and edge.port in ("error", "max")]
        while waiting:
            if (number := waiting.pop()) not in found:
                found.add(number)
                waiting += [self.edges[edge].target for edge in self.places[number].out]
        return frozenset(found)

    def _left(self, edge: GraphEdge) -> int:
        left, region = -1, self.places[edge.source].node.region
        while region != edge.region:
            left, region = region, self.regions[region].parent
        return -1 if edge.back else left

    def by_port(self, place: PlannedNode, port: str) -> tuple[int, ...]:
        """Returns the edges that are taken when a node settles by `port`, if no rule decides."""
        known = self.outs.get((place.number, port))
        if known is None:
            known = self.outs[place.number, port] = tuple(number for number in place.out if takes_edge(self.edges[number].port, port))
        return known

    def is_endless(self, cycle: int) -> bool:
        """Returns whether a cycle may run without end. One without a bound of its own may still be bounded by the hops of its dialect."""
        return not self.regions[cycle].max and not RULES[self.ir.dialect].cycles_bounded_by_hops

    def ids_in(self, region: int) -> tuple[str, ...]:
        """Returns the ids of all nodes in a region and in the regions inside of it."""
        if region not in self.inside:
            self.inside[region] = tuple(place.node.id for place in self.places if region in self._around(place.node.region))
        return self.inside[region]

    def ids_below(self, place: PlannedNode) -> tuple[str, ...]:
        """Returns the ids of all nodes inside of a node: in its bodies, and in its error handler."""
        if place.number not in self._below:
            node = place.node
            regions = (*node.bodies, node.on_error) if isinstance(node.on_error, int) else node.bodies
            self._below[place.number] = tuple(id for region in regions for id in self.ids_in(region))
        return self._below[place.number]

    def ids_of(self, place: PlannedNode) -> tuple[str, ...]:
        """Returns the ids of a node, or of all nodes in the cycle whose head it is, and of all nodes inside of these."""
        return self.ids_in(place.cycle) if place.cycle >= 0 else (place.node.id, *self.ids_below(place))

    def ids_directly_in(self, region: int) -> tuple[str, ...]:
        """Returns the ids of the nodes of the root or a body and of its cycles, but not of bodies of blocks in it, in document order."""
        if region not in self.direct:
            held = [(place.node.id, self._around(place.node.region)) for place in self.places]
            self.direct[region] = tuple(id for id, around in held if next(one for one in around if self.regions[one].kind != "cycle") == region)
        return self.direct[region]

    def _around(self, region: int) -> Iterator[int]:
        """Yields a region and the regions around it, from the inside out."""
        while region >= 0:
            yield region
            region = self.regions[region].parent

    def has_port(self, place: PlannedNode, port: str) -> bool:
        """Returns whether an edge of exactly this port leaves a node."""
        return any(self.edges[number].port == port for number in place.out)


def takes_edge(of_edge: str, port: str) -> bool:
    """Returns whether an edge of the port `of_edge` is taken when its source settles by `port`."""
    if of_edge == AFTER:
        return port not in NOT_AFTER
    if of_edge == "done" and port == "success":  # `done` is the success of a node after its last item or iteration
        return True
    return (of_edge == ALWAYS and port not in NOT_ALWAYS) or of_edge == port


PLANS_MAX = 256

_cached_plans: OrderedDict[str, GraphPlan] = OrderedDict()


def plan_of_definition(sha256: str, payloads: Mapping[str, bytes]) -> GraphPlan:
    """Returns the plan of the definition of this hash; makes it from the bytes among `payloads` if it is not cached."""
    plan = _cached_plans.pop(sha256, None) or GraphPlan(compile_definition(msgspec.json.decode(payloads[sha256])))
    _cached_plans[sha256] = plan
    if len(_cached_plans) > PLANS_MAX:
        _cached_plans.popitem(last=False)
    return plan
