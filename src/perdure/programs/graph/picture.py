"""What a picture of a graph shows, however it is drawn: boxes, the lines between them, and what has come of each so far."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from perdure.core.views import StepState
from perdure.programs.graph.captions import LABEL_MAX, cut, edge_labels
from perdure.programs.graph.ir import IR

State = StepState | Literal["not_taken", "not_reached"]

SIGNS: dict[State, str] = {
    "completed": "✓",
    "performing": "▶",
    "ending": "▶",
    "retrying": "↻",
    "interrupted": "⚡",
    "parked": "‖",
    "waiting": "…",
    "waiting_approval": "?",
    "skipped": "–",
    "failed": "✗",
    "abandoned": "⚠",
    "cancelled": "⊘",
    "not_taken": "×",
    "not_reached": "○",
}
WORDS: dict[State, str] = {"waiting_approval": "waiting for approval", "not_taken": "not taken", "not_reached": "not reached"}


class Line(NamedTuple):
    """All edges from one step to another: when they are taken, whether they lead back, and whether one was taken."""

    source: int
    target: int
    label: str
    back: bool
    taken: bool


class Group(NamedTuple):
    """The steps of one list, those in its cycles included, in an order in which each comes behind what leads to it; and the lines between them."""

    caption: str
    steps: Sequence[int]
    lines: Sequence[Line]


class Picture(NamedTuple):
    """A graph as it is shown. `groups` are the lists of steps by the numbers of their regions, `inside` those of each step. So many are `left_out`."""

    ir: IR
    groups: Mapping[int, Group]
    inside: Mapping[int, Sequence[int]]
    states: Mapping[int, State]
    left_out: int

    @property
    def is_plan(self) -> bool:
        """Whether nothing is said of what has come of it."""
        return not self.states


def picture(ir: IR, states: Mapping[str, State] | None = None, taken: Collection[int] = (), steps_max: int = 1000) -> Picture:
    """The picture of a graph: with the states of its steps by their ids and the numbers of the edges that were taken, also of what has come of it.

    At most `steps_max` steps are shown, those that come first.
    """
    lists = _lists(ir)
    home = [lists[node.region] for node in ir.nodes]
    shown = _first(ir, home, steps_max)
    kept = {number for steps in shown.values() for number in steps}
    lines: dict[int, list[Line]] = {}
    for line in _lines(ir, frozenset(taken)):
        if line.source in kept and line.target in kept:
            lines.setdefault(home[line.source], []).append(line)
    inside: dict[int, list[int]] = {}
    groups = {0: Group("", shown.get(0, []), lines.get(0, []))}
    for region, outer in enumerate(lists):
        if outer == region and region and ir.regions[region].head in kept:
            groups[region] = Group(_caption(ir, region), shown.get(region, []), lines.get(region, []))
            inside.setdefault(ir.regions[region].head, []).append(region)
    known: dict[int, State] = {} if states is None else {number: states.get(node.id, "not_reached") for number, node in enumerate(ir.nodes)}
    return Picture(ir, groups, inside, known, len(ir.nodes) - len(kept))


def _lists(ir: IR) -> list[int]:
    """For each region the list in which it is: itself, or for a cycle the list around it."""
    found = [-1] * len(ir.regions)
    for number in range(len(ir.regions)):
        way = [number]
        while ir.regions[way[-1]].kind == "cycle" and found[way[-1]] < 0:
            way.append(ir.regions[way[-1]].parent)
        outer = found[way[-1]] if found[way[-1]] >= 0 else way[-1]
        for region in way:
            found[region] = outer
    return found


def _first(ir: IR, home: Sequence[int], steps_max: int) -> dict[int, list[int]]:
    """The steps that are shown, by list: of each those that come first, as many as there is room for, outer lists before those inside of them."""
    members: dict[int, list[int]] = {}
    for number, region in enumerate(home):
        members.setdefault(region, []).append(number)
    edges: dict[int, list[tuple[int, int]]] = {}
    for edge in ir.edges:
        if not edge.back:
            edges.setdefault(home[edge.source], []).append((edge.source, edge.target))
    found: dict[int, list[int]] = {}
    kept: set[int] = set()
    room = steps_max
    for region in sorted(members):
        if region and ir.regions[region].head not in kept:
            continue
        found[region] = _in_order(members[region], edges.get(region, []))[: max(room, 0)]
        kept.update(found[region])
        room -= len(found[region])
    return found


def _in_order(steps: Sequence[int], edges: Sequence[tuple[int, int]]) -> list[int]:
    """Steps so that each comes behind what leads to it, and near to it where it can."""
    after: dict[int, list[int]] = {}
    open_edges = dict.fromkeys(steps, 0)
    for source, target in edges:
        after.setdefault(source, []).append(target)
        open_edges[target] += 1
    waiting = [number for number in reversed(steps) if not open_edges[number]]
    found = []
    while waiting:
        number = waiting.pop()
        found.append(number)
        for target in reversed(after.get(number, ())):
            open_edges[target] -= 1
            if not open_edges[target]:
                waiting.append(target)
    return found


def _lines(ir: IR, taken: frozenset[int]) -> Iterator[Line]:
    """One line for all edges from one step to another."""
    labels = edge_labels(ir)
    joined: dict[tuple[int, int, bool], list[int]] = {}
    for number, edge in enumerate(ir.edges):
        joined.setdefault((edge.source, edge.target, edge.back), []).append(number)
    for (source, target, back), edges in joined.items():
        said = list(dict.fromkeys(labels[number] for number in edges))
        yield Line(source, target, "" if "" in said else cut(" / ".join(said), LABEL_MAX), back, not taken.isdisjoint(edges))


def _caption(ir: IR, region: int) -> str:
    """What a list is to its step; nothing if that goes without saying."""
    head = ir.nodes[ir.regions[region].head]
    if head.on_error == region:
        return "on error"
    return ("then", "else")[head.bodies.index(region)] if head.kind == "if" else ""
