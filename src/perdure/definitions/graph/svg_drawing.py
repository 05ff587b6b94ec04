"""Draws a graph as SVG: boxes in layers from top to bottom, blocks as boxes around their steps, lines that lead back dashed, in light and dark colours.

The layout follows Sugiyama: the longest path from the top is a box's layer; a line that passes a layer has a bend there, and its label is in a layer
between those of boxes, so that boxes, bends and labels do not overlap; each layer is sorted by the middle of its neighbours, back and forth; then all are
moved under their neighbours as far as the order allows. The layout takes no cycles: the caller reverses lines that lead back.
"""

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from perdure.definitions.graph.graph_picture import (
    STATE_SIGNS,
    STATE_WORDS,
    GraphPicture,
    PictureEdge,
    PictureGroup,
)
from perdure.definitions.graph.shown_graph import PictureState, step_title

FONT = "ui-sans-serif, system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"

COLOR_OF: dict[PictureState, str] = {
    "completed": "green",
    "performing": "blue",
    "ending": "blue",
    "retrying": "yellow",
    "interrupted": "yellow",
    "parked": "yellow",
    "waiting": "yellow",
    "waiting_approval": "violet",
    "skipped": "grey",
    "failed": "red",
    "abandoned": "red",
    "cancelled": "grey",
    "not_taken": "faint",
    "not_reached": "plain",
}
LIGHT_COLORS: dict[str, tuple[str, str]] = {
    "green": ("#dafbe1", "#1f883d"),
    "blue": ("#ddf4ff", "#0969da"),
    "yellow": ("#fff8c5", "#9a6700"),
    "violet": ("#fbefff", "#8250df"),
    "grey": ("#f6f8fa", "#6e7781"),
    "red": ("#ffebe9", "#cf222e"),
    "faint": ("#fbfbfc", "#c4cad1"),
    "plain": ("#ffffff", "#6e7781"),
}
"""For each colour the ground and the edge of boxes."""

DARK_COLORS: dict[str, tuple[str, str]] = {
    "green": ("#12301c", "#3fb950"),
    "blue": ("#0c2d5c", "#58a6ff"),
    "yellow": ("#3a2d06", "#d29922"),
    "violet": ("#2f1a55", "#bc8cff"),
    "grey": ("#161b22", "#6e7681"),
    "red": ("#4c1518", "#f85149"),
    "faint": ("#0f1319", "#3d444d"),
    "plain": ("#161b22", "#8b949e"),
}
GROUND_COLORS = ("#ffffff", "#0d1117")
INK_COLORS = ("#1f2328", "#e6edf3")
FAINT_COLORS = ("#57606a", "#9da7b3")
EDGE_COLORS = ("#6e7781", "#8b949e")
TAKEN_COLORS = ("#1f883d", "#3fb950")
BACK_EDGE_COLORS = ("#8250df", "#bc8cff")
BLOCK_OPACITY = 0.45


def _colors(colors: dict[str, tuple[str, str]], dark: bool) -> str:
    rules = [
        f".ground {{ fill: {GROUND_COLORS[dark]} }}",
        f"text {{ fill: {INK_COLORS[dark]} }}",
        f".detail, .caption, .label {{ fill: {FAINT_COLORS[dark]} }}",
        f".label {{ stroke: {GROUND_COLORS[dark]} }}",
        f".line {{ stroke: {EDGE_COLORS[dark]} }} .taken {{ stroke: {TAKEN_COLORS[dark]} }} .back {{ stroke: {BACK_EDGE_COLORS[dark]} }}",
        f"#line path {{ fill: {EDGE_COLORS[dark]} }} #taken path {{ fill: {TAKEN_COLORS[dark]} }} #back path {{ fill: {BACK_EDGE_COLORS[dark]} }}",
        *(
            f".{state} rect {{ fill: {colors[name][0]}; stroke: {colors[name][1]} }} .{state} .sign {{ fill: {colors[name][1]} }}"
            for state, name in COLOR_OF.items()
        ),
    ]
    return "\n".join(rules)


def _marker(kind: str) -> str:
    return (
        f'<marker id="{kind}" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto">'
        '<path d="M0 0.5 L8 4 L0 7.5 Z"/></marker>'
    )


SVG_STYLE = f"""<style>
text {{ font-family: {FONT} }}
.name {{ font-size: 13px; font-weight: 600 }}
.sign {{ font-size: 13px; font-weight: 700 }}
.detail, .caption, .label {{ font-size: 11.5px }}
.caption {{ font-style: italic }}
.label {{ stroke-width: 4px; paint-order: stroke; stroke-linejoin: round }}
.way {{ fill: none; stroke-width: 1.3 }}
.taken {{ stroke-width: 2.4 }}
.dashed {{ stroke-dasharray: 5 3 }}
rect {{ stroke-width: 1.2 }}
.skipped rect, .cancelled rect, .not_taken rect {{ stroke-dasharray: 4 3 }}
.block > rect {{ fill-opacity: {BLOCK_OPACITY} }}
.not_taken text, .skipped text, .cancelled text {{ fill-opacity: 0.65 }}
{_colors(LIGHT_COLORS, False)}
@media (prefers-color-scheme: dark) {{
{_colors(DARK_COLORS, True)}
}}
</style>
<defs>{_marker("line")}{_marker("taken")}{_marker("back")}</defs>"""
"""The style sheet and the heads of arrows."""


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


class LayoutLink(NamedTuple):
    """A line from a box down to another, and the size of its label, if it has one."""

    source: int
    target: int
    label: tuple[float, float] | None = None


class LayoutRoute(NamedTuple):
    """Where a line runs: through these points, from one to the next; and the middle of its label."""

    points: Sequence[Point]
    label: Point | None


class GraphLayout(NamedTuple):
    """The upper left corners of the boxes, the routes of the lines, and the size of all together."""

    corners: Sequence[Point]
    routes: Sequence[LayoutRoute]
    width: float
    height: float


class _Chain(NamedTuple):
    """A line as it passes the layers: its places from one end to the other, and which of them is the label's (-1: none)."""

    places: Sequence[int]
    label: int


class _Layers:
    """All that stands in layers: boxes first, by their numbers, then bends and labels."""

    def __init__(self, boxes: Sequence[tuple[float, float]], links: Sequence[LayoutLink]) -> None:
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

    def _chain(self, link: LayoutLink, bends: bool) -> _Chain:
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


def lay_out_graph(boxes: Sequence[tuple[float, float]], links: Sequence[LayoutLink]) -> GraphLayout:
    """Lays out boxes of these sizes and the lines between them. The lines have no cycles, and none leads to its own source."""
    if not boxes:
        return GraphLayout((), (), 0.0, 0.0)
    layers = _Layers(boxes, links)
    _sort(layers)
    middles = _across(layers)
    left = min(middle - size[0] / 2 for middle, size in zip(middles, layers.sizes, strict=True))
    middles = [middle - left for middle in middles]
    tops, heights, height = _down(layers, middles)
    corners = [(middles[box] - size[0] / 2, tops[layers.layer[box]]) for box, size in enumerate(boxes)]
    width = max(middle + size[0] / 2 for middle, size in zip(middles, layers.sizes, strict=True))
    return GraphLayout(corners, _routes(layers, middles, tops, heights), width, height)


def _ranks(count: int, links: Sequence[LayoutLink]) -> list[int]:
    """Returns the layer of each box: below all boxes that lead to it. Boxes without incoming lines are just above the first box that they lead to."""
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
    """Sorts each layer by the middle of its neighbours, and keeps the order with the fewest crossings."""
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
    """Counts the crossings of lines between neighbouring layers."""
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
    """Returns how far from the left the middle of each box is."""
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
    """Returns the positions nearest to the wanted ones that keep each gap to the one before (by pooling of adjacent violators)."""
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
    """Returns the top and the height of each layer, and the total height. Layers whose lines lead far to the side have more room between them."""
    heights = [max(layers.sizes[place][1] for place in layer) if layer else 0.0 for layer in layers.layers]
    tops, at = [], 0.0
    for number, layer in enumerate(layers.layers):
        tops.append(at)
        aside = max((abs(middles[place] - middles[one]) for place in layer for one in layers.down[place]), default=0.0)
        room = LABEL_GAP if layers.labelled else LAYER_GAP
        at += heights[number] + room + min(aside * 0.06, 40.0)
    return tops, heights, tops[-1] + heights[-1]


def _routes(layers: _Layers, middles: Sequence[float], tops: Sequence[float], heights: Sequence[float]) -> list[LayoutRoute]:
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
        routes.append(LayoutRoute([point for point, before in zip(points, [None, *points], strict=False) if point != before], middle))
    return routes


def _ports(layers: _Layers, middles: Sequence[float], ends: Sequence[tuple[int, int, int]]) -> list[float]:
    """Returns the position on its box where each line begins or ends: side by side, ordered by the other end."""
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


TITLE_PX = 13.0
BOLD = 1.13
TEXT_PX = 11.5
LINE_PX = 16.0
PADDING = 12.0
MARGIN = 20.0
LABEL_HEIGHT = 15.0
LOOP_PX = 26.0
NARROW = frozenset("iljtfrI.,:;|!'`()[]{} /\\")
BROAD = frozenset("mwMW@%✓▶✗≤≥≠…×")


class _Size(NamedTuple):
    """The size of a box without the room for loops at its side, and the height of its head, above its contents."""

    width: float
    height: float
    head: float
    beside: float


class _Sheet:
    """The layouts of all lists, inner ones first, as the sizes of blocks follow from them."""

    def __init__(self, picture: GraphPicture) -> None:
        self.picture = picture
        self.sizes: dict[int, _Size] = {}
        self.layouts: dict[int, GraphLayout] = {}
        self.lines: dict[int, list[PictureEdge]] = {}
        for region in sorted(picture.groups, reverse=True):
            self._lay_out(region, picture.groups[region])

    def inner(self, number: int) -> list[tuple[int, Point]]:
        """The lists that are shown in a block, and where in it each stands."""
        regions = [region for region in self.picture.inside.get(number, ()) if self.picture.groups[region].steps]
        found, left = [], PADDING
        for region in regions:
            captioned = LINE_PX if self.picture.groups[region].caption else 0.0
            found.append((region, (left, self.sizes[number].head + captioned if number in self.sizes else captioned)))
            left += max(self.layouts[region].width, text_width_px(self.picture.groups[region].caption, TEXT_PX)) + 2 * PADDING
        return found

    def _lay_out(self, region: int, group: PictureGroup) -> None:
        loops = {line.source: line for line in group.lines if line.source == line.target}
        for number in group.steps:
            self.sizes[number] = self._size(number, loops.get(number))
        position = {number: at for at, number in enumerate(group.steps)}
        lines = [line for line in group.lines if line.source != line.target]
        ends = [(line.target, line.source) if line.back else (line.source, line.target) for line in lines]
        boxes = [(self.sizes[number].width + 2 * self.sizes[number].beside, self.sizes[number].height) for number in group.steps]
        links = [LayoutLink(position[one], position[other], label_size(line.label)) for (one, other), line in zip(ends, lines, strict=True)]
        self.layouts[region], self.lines[region] = lay_out_graph(boxes, links), lines

    def _size(self, number: int, loop: PictureEdge | None) -> _Size:
        texts = box_texts(self.picture, number)
        width = (
            max(text_width_px(texts[0], TITLE_PX) * BOLD + (0 if self.picture.is_plan else 18), *(text_width_px(text, TEXT_PX) for text in texts[1:]), 60.0)
            + 2 * PADDING
        )
        head = 2 * PADDING - 4 + LINE_PX * len(texts)
        beside = 0.0 if loop is None else LOOP_PX + text_width_px(loop.label, TEXT_PX) + 8
        inner = self.inner(number)
        if not inner:
            return _Size(width, head, head, beside)
        last, (left, _) = inner[-1]
        across = left + max(self.layouts[last].width, text_width_px(self.picture.groups[last].caption, TEXT_PX)) + PADDING
        deep = max(self.layouts[region].height + place[1] for region, place in inner)
        return _Size(max(width, across), head + deep + PADDING, head, beside)


def render_svg(picture: GraphPicture) -> str:
    """The picture as an SVG document."""
    sheet = _Sheet(picture)
    layout = sheet.layouts[0]
    legend = list(_legend(picture))
    width = max(layout.width, sum(part[1] for part in legend)) + 2 * MARGIN
    height = layout.height + 2 * MARGIN + (LINE_PX + 8 if legend else 0)
    name = f"{picture.graph.name} {picture.graph.version}".strip()
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" role="img">',
        f"<title>{xml_escaped(name)}</title>",
        SVG_STYLE,
        f'<rect class="ground" width="{width:.0f}" height="{height:.0f}"/>',
        *_lists(sheet),
    ]
    left = MARGIN
    for text, taken in legend:
        lines.append(_text(left, height - MARGIN / 2, text, "detail"))
        left += taken
    return "\n".join([*lines, "</svg>"]) + "\n"


def xml_escaped(text: str) -> str:
    """Escapes text for XML, and drops characters that XML can't contain."""
    seen = "".join(one for one in text if one in "\t\n" or (one >= " " and not "\ud800" <= one <= "\udfff" and one not in "\ufffe\uffff"))
    return seen.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def text_width_px(text: str, size: float) -> float:
    """Estimates the width of text, rather too wide."""
    found = 0.0
    for one in text:
        wide = unicodedata.east_asian_width(one) in "WF"
        found += 1.05 if wide else 0.4 if one in NARROW else 1.0 if one in BROAD else 0.72 if one.isupper() else 0.62
    return found * size


def label_size(label: str) -> tuple[float, float] | None:
    """Returns the size of a label."""
    return (text_width_px(label, TEXT_PX) + 8, LABEL_HEIGHT) if label else None


def box_texts(picture: GraphPicture, number: int) -> list[str]:
    """Returns the texts in a box."""
    node = picture.graph.nodes[number]
    found = [step_title(node), node.detail, *node.modifiers]
    if hidden := picture.hidden.get(number, 0):
        found.append(f"… {hidden} steps inside")
    return found


def _lists(sheet: _Sheet) -> Iterator[str]:
    """Yields all lists, each at the position of its block."""
    waiting: list[tuple[int, Point]] = [(0, (MARGIN, MARGIN))]
    while waiting:
        region, (left, top) = waiting.pop()
        group, layout = sheet.picture.groups[region], sheet.layouts[region]
        if group.caption and region:
            yield _text(left, top - 5, group.caption, "caption")
        for number, corner in zip(group.steps, layout.corners, strict=True):
            size = sheet.sizes[number]
            at = (left + corner[0] + size.beside, top + corner[1])
            yield from _box(sheet, number, at)
            waiting += [(inner, (at[0] + place[0], at[1] + place[1])) for inner, place in sheet.inner(number)]
        places = dict(zip(group.steps, layout.corners, strict=True))
        for line, route in zip(sheet.lines[region], layout.routes, strict=True):
            yield from _line(line, LayoutRoute([(x + left, y + top) for x, y in route.points], route.label and (route.label[0] + left, route.label[1] + top)))
        for line in group.lines:
            if line.source == line.target:
                corner, size = places[line.source], sheet.sizes[line.source]
                yield from _loop(line, (left + corner[0] + size.beside + size.width, top + corner[1] + min(size.height, size.head) / 2))


def _box(sheet: _Sheet, number: int, at: Point) -> Iterator[str]:
    picture, size, node = sheet.picture, sheet.sizes[number], sheet.picture.graph.nodes[number]
    state: PictureState = "not_reached" if picture.is_plan else picture.states[number]
    kind = "block" if sheet.inner(number) else "box"
    round_px = 14 if node.kind in ("return", "fail") else 5
    said = "" if picture.is_plan else f": {STATE_WORDS.get(state, state)}"
    yield f'<g class="{kind} {state}"><title>{xml_escaped(f"{node.id}{said}")}</title>'
    yield f'<rect x="{at[0]:.1f}" y="{at[1]:.1f}" width="{size.width:.1f}" height="{size.height:.1f}" rx="{round_px}"/>'
    texts = box_texts(picture, number)
    base = at[1] + PADDING + TITLE_PX - 2
    yield _text(at[0] + PADDING, base, texts[0], "name")
    if not picture.is_plan:
        yield _text(at[0] + size.width - PADDING - 12, base, STATE_SIGNS[state], "sign")
    for row, text in enumerate(texts[1:], 1):
        yield _text(at[0] + PADDING, base + row * LINE_PX, text, "detail")
    yield "</g>"


def _line(line: PictureEdge, route: LayoutRoute) -> Iterator[str]:
    points = list(route.points)
    if line.back:
        points.reverse()
    path = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    for (x, y), (next_x, next_y) in pairwise(points):
        if abs(x - next_x) < 0.05:
            path.append(f"L{next_x:.1f} {next_y:.1f}")
        else:
            middle = (y + next_y) / 2
            path.append(f"C{x:.1f} {middle:.1f} {next_x:.1f} {middle:.1f} {next_x:.1f} {next_y:.1f}")
    yield _path(line, " ".join(path))
    if route.label:
        yield _text(route.label[0], route.label[1] + 4, line.label, "label", "middle")


def _loop(line: PictureEdge, at: Point) -> Iterator[str]:
    x, y = at
    yield _path(line, f"M{x:.1f} {y - 8:.1f} C{x + LOOP_PX:.1f} {y - 14:.1f} {x + LOOP_PX:.1f} {y + 14:.1f} {x:.1f} {y + 8:.1f}")
    if line.label:
        yield _text(x + LOOP_PX, y + 4, line.label, "label")


def _path(line: PictureEdge, path: str) -> str:
    kind = "taken" if line.taken else "back" if line.back else "line"
    dashed = " dashed" if line.back else ""
    return f'<path class="way {kind}{dashed}" d="{path}" marker-end="url(#{kind})"/>'


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    placed = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}"{placed}>{xml_escaped(text)}</text>'


def _legend(picture: GraphPicture) -> Iterator[tuple[str, float]]:
    """Yields the legend: the meaning of the signs that occur, and the number of hidden steps; each with its width."""
    shown: Sequence[int] = [number for group in picture.groups.values() for number in group.steps]
    states: Mapping[PictureState, None] = dict.fromkeys(picture.states[number] for number in shown) if not picture.is_plan else {}
    texts = [f"{STATE_SIGNS[state]} {STATE_WORDS.get(state, state)}" for state in STATE_SIGNS if state in states]
    if picture.left_out:
        texts.append(f"… and {picture.left_out:,} more steps")
    yield from ((text, text_width_px(text, TEXT_PX) + 16) for text in texts)
