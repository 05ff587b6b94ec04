"""The content of a picture of a graph, independent of how it is drawn: boxes, the lines between them, their labels and their states."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from perdure.definitions.graph.shown_graph import PictureState, ShownGraph
from perdure.definitions.graph.step_texts import LABEL_MAX, one_line

STATE_SIGNS: dict[PictureState, str] = {
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
STATE_WORDS: dict[PictureState, str] = {"waiting_approval": "waiting for approval", "not_taken": "not taken", "not_reached": "not reached"}


class PictureEdge(NamedTuple):
    """All edges from one step to another: when they are taken, whether they lead back, and whether one was taken."""

    source: int
    target: int
    label: str
    back: bool
    taken: bool


class PictureGroup(NamedTuple):
    """The steps of one list, with those of its cycles, ordered so that each comes after the steps that lead to it; and the lines between them."""

    caption: str
    steps: Sequence[int]
    lines: Sequence[PictureEdge]


class GraphPicture(NamedTuple):
    """A graph as it is drawn. `groups` are the lists of steps by the numbers of their regions, `inside` the lists of each step, `states` the states of steps.
    `hidden` counts the steps of each block of which none is shown, `left_out` all that are not shown."""

    graph: ShownGraph
    groups: Mapping[int, PictureGroup]
    inside: Mapping[int, Sequence[int]]
    states: Mapping[int, PictureState]
    hidden: Mapping[int, int]
    left_out: int

    @property
    def is_plan(self) -> bool:
        """Whether the picture shows no states."""
        return not self.states


def make_picture(graph: ShownGraph, steps_max: int = 1000) -> GraphPicture:
    """Makes the picture of a graph, with at most `steps_max` steps, the first ones."""
    lists = _lists(graph)
    home = [lists[node.region] for node in graph.nodes]
    numbers = {node.id: number for number, node in enumerate(graph.nodes)}
    heads = [numbers.get(region.block, -1) for region in graph.regions]
    edges = [(numbers[edge.source], numbers[edge.target]) for edge in graph.edges]
    shown = _first_steps(home, heads, [ends for ends, edge in zip(edges, graph.edges, strict=True) if not edge.is_back], steps_max)
    kept = {number for steps in shown.values() for number in steps}
    lines: dict[int, list[PictureEdge]] = {}
    for line in _picture_edges(graph, edges):
        if line.source in kept and line.target in kept:
            lines.setdefault(home[line.source], []).append(line)
    inside: dict[int, list[int]] = {}
    groups = {0: PictureGroup("", shown.get(0, []), lines.get(0, []))}
    for region, outer in enumerate(lists):
        if outer == region and region and heads[region] in kept:
            groups[region] = PictureGroup(graph.regions[region].caption, shown.get(region, []), lines.get(region, []))
            inside.setdefault(heads[region], []).append(region)
    states = {number: node.state for number, node in enumerate(graph.nodes) if node.state is not None}
    hidden, sizes = Counter[int](), Counter(node.region for node in graph.nodes)
    for region, one in enumerate(graph.regions):
        if region and not one.is_cycle and not any(groups[inner].steps for inner in inside.get(heads[region], ())):
            hidden[heads[region]] += sizes[region]
    return GraphPicture(graph, groups, inside, states, hidden, len(graph.nodes) - len(kept))


def _lists(graph: ShownGraph) -> list[int]:
    """Returns for each region the list that it belongs to: itself, or for a cycle the list around it."""
    found = [-1] * len(graph.regions)
    for number in range(len(graph.regions)):
        way = [number]
        while graph.regions[way[-1]].is_cycle and found[way[-1]] < 0:
            way.append(graph.regions[way[-1]].parent)
        outer = found[way[-1]] if found[way[-1]] >= 0 else way[-1]
        for region in way:
            found[region] = outer
    return found


def _first_steps(home: Sequence[int], heads: Sequence[int], forward: Sequence[tuple[int, int]], steps_max: int) -> dict[int, list[int]]:
    """Returns the steps that are shown, by list: the first ones of each, as many as there is room for; outer lists before the lists inside of them.

    `home` is the list of each step, `heads` the block of each list, and `forward` the edges that do not lead back.
    """
    members: dict[int, list[int]] = {}
    for number, region in enumerate(home):
        members.setdefault(region, []).append(number)
    edges: dict[int, list[tuple[int, int]]] = {}
    for source, target in forward:
        edges.setdefault(home[source], []).append((source, target))
    found: dict[int, list[int]] = {}
    kept: set[int] = set()
    room = steps_max
    for region in sorted(members):
        if region and heads[region] not in kept:
            continue
        found[region] = _in_order(members[region], edges.get(region, []))[: max(room, 0)]
        kept.update(found[region])
        room -= len(found[region])
    return found


def _in_order(steps: Sequence[int], edges: Sequence[tuple[int, int]]) -> list[int]:
    """Orders steps so that each comes after the steps that lead to it, and close to them where possible."""
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


def _picture_edges(graph: ShownGraph, ends: Sequence[tuple[int, int]]) -> Iterator[PictureEdge]:
    """Yields one line for all edges from one step to another."""
    joined: dict[tuple[int, int, bool], list[int]] = {}
    for number, (edge, (source, target)) in enumerate(zip(graph.edges, ends, strict=True)):
        joined.setdefault((source, target, edge.is_back), []).append(number)
    for (source, target, back), edges in joined.items():
        said = list(dict.fromkeys(graph.edges[number].label for number in edges))
        label = "" if "" in said else one_line(" / ".join(said), LABEL_MAX)
        yield PictureEdge(source, target, label, back, any(graph.edges[number].is_taken for number in edges))
