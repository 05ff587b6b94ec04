"""Where boxes and the lines between them stand: in layers from top to bottom, each line leading down, few of them crossing, nothing on top of anything.

By the steps of Sugiyama: the longest way from the top is a box's layer; a line that passes a layer has a bend there, and its label stands in a layer
between those of boxes, so that boxes, bends and labels keep away from each other; each layer is sorted by the middle of its neighbours, back and forth;
then all are moved under their neighbours as far as the order allows. Of loops and lines back nothing is known here: who asks turns them round before.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

SWEEPS = 6
MOVES = 18
BENDS_MAX = 20_000
COUNTED_MAX = 3_000
STRAIGHT = 6.0
BOX_GAP = 28.0
BEND_GAP = 16.0
LAYER_GAP = 38.0
LABEL_GAP = 20.0
PORT_GAP = 22.0
PORT_MARGIN = 14.0

Point = tuple[float, float]


class Link(NamedTuple):
    """A line from a box down to another, and the size of its label, if it has one."""

    source: int
    target: int
    label: tuple[float, float] | None = None


class Route(NamedTuple):
    """Where a line runs: through these points, from one to the next; and the middle of its label."""

    points: Sequence[Point]
    label: Point | None


class Layout(NamedTuple):
    """The upper left corners of the boxes, the routes of the lines, and the size of all together."""

    corners: Sequence[Point]
    routes: Sequence[Route]
    width: float
    height: float


class _Chain(NamedTuple):
    """A line as it passes the layers: its places from one end to the other, and which of them is the label's (-1: none)."""

    places: Sequence[int]
    label: int


class _Layers:
    """All that stands in layers: boxes first, by their numbers, then bends and labels."""

    def __init__(self, boxes: Sequence[tuple[float, float]], links: Sequence[Link]) -> None:
        self.sizes = list(boxes)
        self.boxes = len(boxes)
        self.labelled = any(link.label for link in links)
        self.layer = [rank * 2 if self.labelled else rank for rank in _ranks(len(boxes), links)]
        self.chains: list[_Chain] = []
        passed = sum(max(self.layer[link.target] - self.layer[link.source] - 1, 0) for link in links)
        for link in links:
            self.chains.append(self._chain(link, passed <= BENDS_MAX))
        self.layers: list[list[int]] = [[] for _ in range(max(self.layer, default=-1) + 1)]
        for place, layer in enumerate(self.layer):
            self.layers[layer].append(place)
        self.up: list[list[int]] = [[] for _ in self.layer]
        self.down: list[list[int]] = [[] for _ in self.layer]
        for chain in self.chains:
            for above, below in zip(chain.places, chain.places[1:], strict=False):
                self.down[above].append(below)
                self.up[below].append(above)

    def _chain(self, link: Link, bends: bool) -> _Chain:
        places, label = [link.source], -1
        between = range(self.layer[link.source] + 1, self.layer[link.target])
        for layer in between if bends else between[:1] if link.label else ():
            is_label = link.label is not None and label < 0
            if is_label:
                label = len(self.layer)
            places.append(len(self.layer))
            self.layer.append(layer)
            self.sizes.append(link.label if is_label and link.label else (0.0, 0.0))
        return _Chain([*places, link.target], label)

    def gap(self, one: int, other: int) -> float:
        """How far apart the middles of two neighbours in a layer are at least."""
        apart = BOX_GAP if one < self.boxes and other < self.boxes else BEND_GAP
        return (self.sizes[one][0] + self.sizes[other][0]) / 2 + apart


def laid_out(boxes: Sequence[tuple[float, float]], links: Sequence[Link]) -> Layout:
    """Boxes of these sizes and the lines between them; the lines go round nowhere, and none leads to its own source."""
    if not boxes:
        return Layout((), (), 0.0, 0.0)
    layers = _Layers(boxes, links)
    _sort(layers)
    middles = _across(layers)
    left = min(middle - size[0] / 2 for middle, size in zip(middles, layers.sizes, strict=True))
    middles = [middle - left for middle in middles]
    tops, heights, height = _down(layers, middles)
    corners = [(middles[box] - size[0] / 2, tops[layers.layer[box]]) for box, size in enumerate(boxes)]
    width = max(middle + size[0] / 2 for middle, size in zip(middles, layers.sizes, strict=True))
    return Layout(corners, _routes(layers, middles, tops, heights), width, height)


def _ranks(count: int, links: Sequence[Link]) -> list[int]:
    """The layer of each box: behind all that lead to it; those that nothing leads to stand just above the first to which they lead."""
    after: list[list[int]] = [[] for _ in range(count)]
    open_links = [0] * count
    for link in links:
        after[link.source].append(link.target)
        open_links[link.target] += 1
    first = [not number for number in open_links]
    ranks = [0] * count
    waiting = [box for box in range(count) if first[box]]
    for box in waiting:
        for target in after[box]:
            ranks[target] = max(ranks[target], ranks[box] + 1)
            open_links[target] -= 1
            if not open_links[target]:
                waiting.append(target)
    for box in range(count):
        if first[box] and after[box]:
            ranks[box] = min(ranks[target] for target in after[box]) - 1
    return ranks


def _sort(layers: _Layers) -> None:
    """Sort each layer by the middle of its neighbours, and keep the order with the fewest crossings."""
    counted = sum(map(len, layers.down)) <= COUNTED_MAX
    best, fewest = [list(layer) for layer in layers.layers], _crossings(layers) if counted else 0
    for sweep in range(SWEEPS if fewest or not counted else 0):
        downwards = sweep % 2 == 0
        order = range(1, len(layers.layers)) if downwards else range(len(layers.layers) - 2, -1, -1)
        for number in order:
            _sort_layer(layers, number, number - 1 if downwards else number + 1, layers.up if downwards else layers.down)
        if counted and (crossings := _crossings(layers)) < fewest:
            best, fewest = [list(layer) for layer in layers.layers], crossings
    if counted:
        layers.layers = best


def _sort_layer(layers: _Layers, number: int, beside: int, neighbours: Sequence[Sequence[int]]) -> None:
    position = {place: float(at) for at, place in enumerate(layers.layers[beside])}
    layer = layers.layers[number]
    key = {}
    for at, place in enumerate(layer):
        known = [position[one] for one in neighbours[place] if one in position]
        key[place] = sum(known) / len(known) if known else at * max(len(position), 1) / len(layer)
    layer.sort(key=key.__getitem__)


def _crossings(layers: _Layers) -> int:
    """How many lines cross, between each two layers."""
    found = 0
    for above, below in zip(layers.layers, layers.layers[1:], strict=False):
        position = {place: at for at, place in enumerate(below)}
        ends = [at for place in above for at in sorted(position[one] for one in layers.down[place] if one in position)]
        tree = [0] * (len(below) + 1)
        for seen, end in enumerate(ends):
            before, at = 0, end + 1
            while at:
                before += tree[at]
                at &= at - 1
            found += seen - before
            at = end + 1
            while at <= len(below):
                tree[at] += 1
                at += at & -at
    return found


def _across(layers: _Layers) -> list[float]:
    """How far from the left the middle of each stands."""
    middles = [0.0] * len(layers.layer)
    for layer in layers.layers:
        at = 0.0
        for before, place in zip([None, *layer], layer, strict=False):
            at += layers.gap(before, place) if before is not None else 0.0
            middles[place] = at
        for place in layer:
            middles[place] -= at / 2
    for move in range(MOVES):
        for layer in layers.layers if move % 2 == 0 else layers.layers[::-1]:
            wanted, weights = [], []
            for place in layer:
                near = layers.up[place] + layers.down[place] if move >= MOVES // 3 else layers.up[place] if move % 2 == 0 else layers.down[place]
                pulls = [STRAIGHT if place >= layers.boxes and one >= layers.boxes else 1.0 for one in near]
                total = sum(pulls)
                wanted.append(sum(middles[one] * pull for one, pull in zip(near, pulls, strict=True)) / total if near else middles[place])
                weights.append(total or 0.05)
            gaps = [0.0, *(layers.gap(one, other) for one, other in pairwise(layer))]
            for place, middle in zip(layer, _apart(wanted, weights, gaps), strict=True):
                middles[place] = middle
    return middles


def _apart(wanted: Sequence[float], weights: Sequence[float], gaps: Sequence[float]) -> list[float]:
    """The places nearest to those wanted of which each is at least its gap to the right of the one before (by pooling of adjacent violators)."""
    offsets, total = [], 0.0
    for gap in gaps:
        total += gap
        offsets.append(total)
    pools: list[tuple[float, float, int]] = []
    for want, weight, offset in zip(wanted, weights, offsets, strict=True):
        mean, mass, count = want - offset, weight, 1
        while pools and pools[-1][0] > mean:
            other, other_mass, other_count = pools.pop()
            mean = (mean * mass + other * other_mass) / (mass + other_mass)
            mass, count = mass + other_mass, count + other_count
        pools.append((mean, mass, count))
    means = [mean for mean, _, count in pools for _ in range(count)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=True)]


def _down(layers: _Layers, middles: Sequence[float]) -> tuple[list[float], list[float], float]:
    """How far down each layer begins, how high it is, and how high all are together. Lines that lead far aside are given room."""
    heights = [max(layers.sizes[place][1] for place in layer) if layer else 0.0 for layer in layers.layers]
    tops, at = [], 0.0
    for number, layer in enumerate(layers.layers):
        tops.append(at)
        aside = max((abs(middles[place] - middles[one]) for place in layer for one in layers.down[place]), default=0.0)
        room = LABEL_GAP if layers.labelled else LAYER_GAP
        at += heights[number] + room + min(aside * 0.06, 40.0)
    return tops, heights, tops[-1] + heights[-1]


def _routes(layers: _Layers, middles: Sequence[float], tops: Sequence[float], heights: Sequence[float]) -> list[Route]:
    leaving = _ports(layers, middles, [(chain.places[0], chain.places[1], number) for number, chain in enumerate(layers.chains)])
    entering = _ports(layers, middles, [(chain.places[-1], chain.places[-2], number) for number, chain in enumerate(layers.chains)])
    routes = []
    for number, chain in enumerate(layers.chains):
        source, target = chain.places[0], chain.places[-1]
        top, layer = tops[layers.layer[source]], layers.layer[source]
        points = [(leaving[number], top + layers.sizes[source][1]), (leaving[number], top + heights[layer])]
        for place in chain.places[1:-1]:
            top, layer = tops[layers.layer[place]], layers.layer[place]
            points += [(middles[place], top), (middles[place], top + heights[layer])]
        points.append((entering[number], tops[layers.layer[target]]))
        at = chain.label
        middle = (middles[at], tops[layers.layer[at]] + heights[layers.layer[at]] / 2) if at >= 0 else None
        routes.append(Route([point for point, before in zip(points, [None, *points], strict=False) if point != before], middle))
    return routes


def _ports(layers: _Layers, middles: Sequence[float], ends: Sequence[tuple[int, int, int]]) -> list[float]:
    """Where on its box each line begins or ends: side by side, in the order of where they lead."""
    by_box: dict[int, list[tuple[float, int]]] = {}
    for box, beside, number in ends:
        by_box.setdefault(box, []).append((middles[beside], number))
    found = [0.0] * len(ends)
    for box, lines in by_box.items():
        lines.sort()
        apart = min(PORT_GAP, (layers.sizes[box][0] - 2 * PORT_MARGIN) / max(len(lines) - 1, 1))
        for at, (_, number) in enumerate(lines):
            found[number] = middles[box] + (at - (len(lines) - 1) / 2) * max(apart, 0.0)
    return found
