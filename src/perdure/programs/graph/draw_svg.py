"""A graph as SVG: boxes in layers, blocks as boxes around what stands in them, lines that lead back dashed; readable on light and on dark ground."""

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from perdure.programs.graph.captions import detail, marks, title
from perdure.programs.graph.layout import Layout, Link, Point, Route, laid_out
from perdure.programs.graph.picture import SIGNS, WORDS, Group, Line, Picture, State
from perdure.programs.graph.svg_style import STYLE

TITLE_PX = 13.0
BOLD = 1.13
TEXT_PX = 11.5
LINE_PX = 16.0
PADDING = 12.0
MARGIN = 20.0
LABEL_HEIGHT = 15.0
LOOP = 26.0
NARROW = frozenset("iljtfrI.,:;|!'`()[]{} /\\")
BROAD = frozenset("mwMW@%✓▶✗≤≥≠…×")


class _Size(NamedTuple):
    """The size of a box, without the room for lines to itself at its sides, and of its head, behind which stands what is in it."""

    width: float
    height: float
    head: float
    beside: float


class _Sheet:
    """The layouts of all lists, inner ones first, as the sizes of blocks follow from them."""

    def __init__(self, picture: Picture) -> None:
        self.picture = picture
        self.sizes: dict[int, _Size] = {}
        self.layouts: dict[int, Layout] = {}
        self.lines: dict[int, list[Line]] = {}
        for region in sorted(picture.groups, reverse=True):
            self._lay_out(region, picture.groups[region])

    def inner(self, number: int) -> list[tuple[int, Point]]:
        """The lists that are shown in a block, and where in it each stands."""
        regions = [region for region in self.picture.inside.get(number, ()) if self.picture.groups[region].steps]
        found, left = [], PADDING
        for region in regions:
            captioned = LINE_PX if self.picture.groups[region].caption else 0.0
            found.append((region, (left, self.sizes[number].head + captioned if number in self.sizes else captioned)))
            left += max(self.layouts[region].width, text_px(self.picture.groups[region].caption, TEXT_PX)) + 2 * PADDING
        return found

    def _lay_out(self, region: int, group: Group) -> None:
        loops = {line.source: line for line in group.lines if line.source == line.target}
        for number in group.steps:
            self.sizes[number] = self._size(number, loops.get(number))
        position = {number: at for at, number in enumerate(group.steps)}
        lines = [line for line in group.lines if line.source != line.target]
        ends = [(line.target, line.source) if line.back else (line.source, line.target) for line in lines]
        boxes = [(self.sizes[number].width + 2 * self.sizes[number].beside, self.sizes[number].height) for number in group.steps]
        links = [Link(position[one], position[other], label_size(line.label)) for (one, other), line in zip(ends, lines, strict=True)]
        self.layouts[region], self.lines[region] = laid_out(boxes, links), lines

    def _size(self, number: int, loop: Line | None) -> _Size:
        texts = words(self.picture, number)
        width = (
            max(text_px(texts[0], TITLE_PX) * BOLD + (0 if self.picture.is_plan else 18), *(text_px(text, TEXT_PX) for text in texts[1:]), 60.0) + 2 * PADDING
        )
        head = 2 * PADDING - 4 + LINE_PX * len(texts)
        beside = 0.0 if loop is None else LOOP + text_px(loop.label, TEXT_PX) + 8
        inner = self.inner(number)
        if not inner:
            return _Size(width, head, head, beside)
        last, (left, _) = inner[-1]
        across = left + max(self.layouts[last].width, text_px(self.picture.groups[last].caption, TEXT_PX)) + PADDING
        deep = max(self.layouts[region].height + place[1] for region, place in inner)
        return _Size(max(width, across), head + deep + PADDING, head, beside)


def drawn(picture: Picture) -> str:
    """The picture as an SVG document."""
    sheet = _Sheet(picture)
    layout = sheet.layouts[0]
    legend = list(_legend(picture))
    width = max(layout.width, sum(part[1] for part in legend)) + 2 * MARGIN
    height = layout.height + 2 * MARGIN + (LINE_PX + 8 if legend else 0)
    name = f"{picture.ir.name} {picture.ir.version}".strip()
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" role="img">',
        f"<title>{escaped(name)}</title>",
        STYLE,
        f'<rect class="ground" width="{width:.0f}" height="{height:.0f}"/>',
        *_lists(sheet),
    ]
    left = MARGIN
    for text, taken in legend:
        lines.append(_text(left, height - MARGIN / 2, text, "detail"))
        left += taken
    return "\n".join([*lines, "</svg>"]) + "\n"


def escaped(text: str) -> str:
    """Text as it stands in XML, without the characters that it cannot have."""
    seen = "".join(one for one in text if one in "\t\n" or (one >= " " and not "\ud800" <= one <= "\udfff" and one not in "\ufffe\uffff"))
    return seen.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def text_px(text: str, size: float) -> float:
    """About how wide text is, rather too wide."""
    found = 0.0
    for one in text:
        wide = unicodedata.east_asian_width(one) in "WF"
        found += 1.05 if wide else 0.4 if one in NARROW else 1.0 if one in BROAD else 0.72 if one.isupper() else 0.62
    return found * size


def label_size(label: str) -> tuple[float, float] | None:
    """The room that a label takes."""
    return (text_px(label, TEXT_PX) + 8, LABEL_HEIGHT) if label else None


def words(picture: Picture, number: int) -> list[str]:
    """What stands in a box."""
    node = picture.ir.nodes[number]
    found = [title(node), detail(node), *marks(node)]
    hidden = sum(len(picture.ir.regions[region].nodes) for region in (*node.bodies, *((node.on_error,) if isinstance(node.on_error, int) else ())))
    if hidden and not any(picture.groups[region].steps for region in picture.inside.get(number, ())):
        found.append(f"… {hidden} steps inside")
    return found


def _lists(sheet: _Sheet) -> Iterator[str]:
    """All lists, each where its block stands."""
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
            yield from _line(line, Route([(x + left, y + top) for x, y in route.points], route.label and (route.label[0] + left, route.label[1] + top)))
        for line in group.lines:
            if line.source == line.target:
                corner, size = places[line.source], sheet.sizes[line.source]
                yield from _loop(line, (left + corner[0] + size.beside + size.width, top + corner[1] + min(size.height, size.head) / 2))


def _box(sheet: _Sheet, number: int, at: Point) -> Iterator[str]:
    picture, size, node = sheet.picture, sheet.sizes[number], sheet.picture.ir.nodes[number]
    state: State = "not_reached" if picture.is_plan else picture.states[number]
    kind = "block" if sheet.inner(number) else "box"
    round_px = 14 if node.kind in ("return", "fail") else 5
    said = "" if picture.is_plan else f": {WORDS.get(state, state)}"
    yield f'<g class="{kind} {state}"><title>{escaped(f"{node.id}{said}")}</title>'
    yield f'<rect x="{at[0]:.1f}" y="{at[1]:.1f}" width="{size.width:.1f}" height="{size.height:.1f}" rx="{round_px}"/>'
    texts = words(picture, number)
    base = at[1] + PADDING + TITLE_PX - 2
    yield _text(at[0] + PADDING, base, texts[0], "name")
    if not picture.is_plan:
        yield _text(at[0] + size.width - PADDING - 12, base, SIGNS[state], "sign")
    for row, text in enumerate(texts[1:], 1):
        yield _text(at[0] + PADDING, base + row * LINE_PX, text, "detail")
    yield "</g>"


def _line(line: Line, route: Route) -> Iterator[str]:
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


def _loop(line: Line, at: Point) -> Iterator[str]:
    x, y = at
    yield _path(line, f"M{x:.1f} {y - 8:.1f} C{x + LOOP:.1f} {y - 14:.1f} {x + LOOP:.1f} {y + 14:.1f} {x:.1f} {y + 8:.1f}")
    if line.label:
        yield _text(x + LOOP, y + 4, line.label, "label")


def _path(line: Line, path: str) -> str:
    kind = "taken" if line.taken else "back" if line.back else "line"
    dashed = " dashed" if line.back else ""
    return f'<path class="way {kind}{dashed}" d="{path}" marker-end="url(#{kind})"/>'


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    placed = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}"{placed}>{escaped(text)}</text>'


def _legend(picture: Picture) -> Iterator[tuple[str, float]]:
    """What the signs mean that are there, and what is left out; each with its width."""
    shown: Sequence[int] = [number for group in picture.groups.values() for number in group.steps]
    states: Mapping[State, None] = dict.fromkeys(picture.states[number] for number in shown) if not picture.is_plan else {}
    texts = [f"{SIGNS[state]} {WORDS.get(state, state)}" for state in SIGNS if state in states]
    if picture.left_out:
        texts.append(f"… and {picture.left_out:,} more steps")
    yield from ((text, text_px(text, TEXT_PX) + 16) for text in texts)
