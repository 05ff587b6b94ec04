"""Draws a graph for a terminal, as Mermaid or as SVG, with or without the state of an execution.

For a terminal, steps are listed from top to bottom, each with the steps that it leads to, and blocks with their steps inside:

::

    ✓ check   test @input.amount > 100
    ├─ true → ask
    ╰═ false ⇒ pay

``⇒``, ``═`` and ``┃`` were taken, ``↺`` leads back. In Mermaid, a graph is a flowchart in which blocks and cycles are subgraphs.
"""

import string
import unicodedata
from collections.abc import Iterator, Sequence

from perdure.definitions.graph import svg_drawing
from perdure.definitions.graph.graph_picture import (
    STATE_SIGNS,
    STATE_WORDS,
    GraphPicture,
    PictureEdge,
    PictureGroup,
    make_picture,
)
from perdure.definitions.graph.shown_graph import PictureState, ShownGraph, step_title

DEPTH_MAX = 24
NAMED_MAX = 6
NAMES_WIDTH_MAX = 32


def render_text(picture: GraphPicture, columns: int) -> str:
    """Returns the picture as text, with lines cut to `columns`."""
    count = len(picture.graph.nodes)
    steps, order = f"{count} step{'' if count == 1 else 's'}", f", order {picture.graph.order}" if picture.graph.order else ""
    lines = [f"{picture_title(picture)}  {steps}{order}", "", *_text_group(picture, picture.groups[0], 0)]
    if picture.left_out:
        lines.append(f"… and {picture.left_out:,} more")
    return "\n".join(cut_to_width(line, columns) for line in lines) + "\n"


def picture_title(picture: GraphPicture) -> str:
    """Returns the title of the picture."""
    return f"{picture.graph.name} {picture.graph.version}".strip()


def text_width(text: str) -> int:
    """Returns the number of columns that text takes."""
    return sum(2 if unicodedata.east_asian_width(one) in "WF" else 0 if unicodedata.combining(one) else 1 for one in text)


def cut_to_width(text: str, columns: int) -> str:
    """Cuts text to so many columns."""
    text = text.rstrip()
    if text_width(text) <= columns:
        return text
    while text_width(text) >= columns:
        text = text[:-1]
    return text.rstrip() + "…"


def _text_group(picture: GraphPicture, group: PictureGroup, depth: int) -> Iterator[str]:
    if depth > DEPTH_MAX:
        yield "…"
        return
    leading: dict[int, list[PictureEdge]] = {}
    for line in group.lines:
        leading.setdefault(line.source, []).append(line)
    names = [step_title(picture.graph.nodes[number]) for number in group.steps]
    column = min(max(map(text_width, names), default=0), NAMES_WIDTH_MAX)
    for position, number in enumerate(group.steps):
        lines = leading.get(number, [])
        yield _text_step(picture, number, names[position], column)
        yield from _text_block(picture, number, bool(lines), depth)
        follows = position + 1 < len(group.steps) and [(line.target, line.label) for line in lines] == [(group.steps[position + 1], "")]
        yield from ("┃" if lines[0].taken else "│",) if follows else _text_edges(picture, lines)


def _text_step(picture: GraphPicture, number: int, name: str, column: int) -> str:
    node = picture.graph.nodes[number]
    sign, said = "○", ""
    if not picture.is_plan:
        state = picture.states[number]
        sign, said = STATE_SIGNS[state], f"  ({STATE_WORDS.get(state, state)})" if state not in ("completed", "not_reached") else ""
    what = " · ".join([node.detail, *node.modifiers])
    return f"{sign} {name}{' ' * max(column - text_width(name), 0)}  {what}{said}"


def _text_block(picture: GraphPicture, number: int, leads_on: bool, depth: int) -> Iterator[str]:
    """The lists of a block, with a rail on the left if something follows."""
    rail = "│ " if leads_on else "  "
    for region in picture.inside.get(number, ()):
        group = picture.groups[region]
        if not group.steps and not group.caption:
            continue
        yield f"{rail}╭ {group.caption or 'inside'}{'' if group.steps else ': nothing'}"
        yield from (f"{rail}│ {line}" for line in _text_group(picture, group, depth + 1))
        yield f"{rail}╰"


def _text_edges(picture: GraphPicture, lines: Sequence[PictureEdge]) -> Iterator[str]:
    """Yields a line for each case in which a step leads on."""
    cases: dict[tuple[str, bool, bool], list[str]] = {}
    for line in lines:
        cases.setdefault((line.label, line.back, line.taken), []).append(step_title(picture.graph.nodes[line.target]))
    for position, ((label, back, taken), targets) in enumerate(cases.items()):
        corner = "╰" if position == len(cases) - 1 else "├"
        arrow = "↺" if back else "⇒" if taken else "→"
        more = f" and {len(targets) - NAMED_MAX} more" if len(targets) > NAMED_MAX else ""
        said = f" {label} " if label else ""
        yield f"{corner}{'═' if taken else '─'}{said}{arrow} {', '.join(targets[:NAMED_MAX])}{more}"


PLAIN_CHARACTERS = frozenset(string.ascii_letters + string.digits + " _.,:/=+*()[]?!-@≤≥≠…·✓▶✗×–○↻⚡‖⚠⊘")
MERMAID_EDGES_MAX = 490
"""Mermaid itself refuses more than 500 edges."""

GREEN, BLUE, YELLOW, VIOLET, RED = (
    "fill:#d7f5dd,stroke:#1f883d,color:#0b3d1a",
    "fill:#d8eaff,stroke:#0969da,color:#052c5c",
    "fill:#fff3c4,stroke:#b08800,color:#4d3b00",
    "fill:#efe0ff,stroke:#8250df,color:#2e1065",
    "fill:#ffdfdc,stroke:#cf222e,color:#5c0a10",
)
GREY = "fill:#f0f0f0,stroke:#8c8c8c,color:#555555,stroke-dasharray:4 3"
MERMAID_COLORS: dict[PictureState, str] = {
    "completed": GREEN,
    "performing": BLUE,
    "ending": BLUE,
    "retrying": YELLOW,
    "interrupted": YELLOW,
    "parked": YELLOW,
    "waiting": YELLOW,
    "waiting_approval": VIOLET,
    "skipped": GREY,
    "failed": RED,
    "abandoned": RED,
    "cancelled": GREY,
    "not_taken": "fill:#fafafa,stroke:#c4c4c4,color:#8c8c8c,stroke-dasharray:2 3",
    "not_reached": "fill:#ffffff,stroke:#8c8c8c,color:#333333",
}
MERMAID_SHAPES = {"test": ("{", "}"), "approve": ("{{", "}}"), "return": ("([", "])"), "fail": ("([", "])")}
LOOP_SIGN = "↺"


def render_mermaid(picture: GraphPicture) -> str:
    """Returns the picture as the text of a flowchart."""
    lines = ["flowchart TD"]
    lines += _indented(_mermaid_list(picture, 0), 1)
    links = [line for group in picture.groups.values() for line in group.lines][:MERMAID_EDGES_MAX]
    for line in links:
        arrow = ("-.->", "==>")[line.taken] if line.back else ("-->", "==>")[line.taken]
        said = f"{LOOP_SIGN} {line.label}".strip() if line.back else line.label
        label = f'|"{mermaid_escaped(said)}"|' if said else ""
        lines.append(f"    {_mermaid_name(picture, line.source)} {arrow}{label} {_mermaid_name(picture, line.target)}")
    left_out = sum(len(group.lines) for group in picture.groups.values()) - len(links)
    if picture.left_out or left_out:
        words = [f"{count:,} more {what}" for count, what in ((picture.left_out, "steps"), (left_out, "edges")) if count]
        lines.append(f'    left_out["{mermaid_escaped("… " + " and ".join(words))}"]')
    lines += _mermaid_classes(picture)
    return "\n".join(lines) + "\n"


def mermaid_escaped(text: str) -> str:
    """Escapes text for quotes: all but plain characters become their numbers, so that none of it is taken for Mermaid, HTML or Markdown."""
    return "".join(one if one in PLAIN_CHARACTERS else f"#{ord(one)};" for one in text)


def _mermaid_name(picture: GraphPicture, number: int) -> str:
    return f"{'b' if _is_block(picture, number) else 'n'}{number}"


def _is_block(picture: GraphPicture, number: int) -> bool:
    return any(picture.groups[region].steps for region in picture.inside.get(number, ()))


def _mermaid_list(picture: GraphPicture, region: int) -> Iterator[str]:
    """Yields the steps of a list. A cycle is a subgraph, and nested cycles are subgraphs in it."""
    yield from _mermaid_steps(picture, picture.groups[region], region)


def _mermaid_steps(picture: GraphPicture, group: PictureGroup, region: int) -> Iterator[str]:
    nodes, regions = picture.graph.nodes, picture.graph.regions
    inside: dict[int, list[int]] = {}
    for number in group.steps:
        inside.setdefault(nodes[number].region, []).append(number)
    cycles: dict[int, set[int]] = {}
    for found in inside:
        while found != region:
            cycles.setdefault(regions[found].parent, set()).add(found)
            found = regions[found].parent
    waiting: list[tuple[int, int, bool]] = [(region, 0, False)]
    while waiting:
        current, depth, closes = waiting.pop()
        if closes:
            yield "    " * (depth - 1) + "end"
            continue
        if current != region:
            most = regions[current].max
            yield "    " * (depth - 1) + f'subgraph c{current}["{mermaid_escaped(f"{LOOP_SIGN} at most {most} iterations" if most else LOOP_SIGN)}"]'
            waiting.append((current, depth, True))
        for number in inside.get(current, ()):
            yield from _indented(_mermaid_step(picture, number), depth)
        waiting += [(inner, depth + 1, False) for inner in sorted(cycles.get(current, ()), reverse=True)]


def _mermaid_step(picture: GraphPicture, number: int) -> Iterator[str]:
    node = picture.graph.nodes[number]
    sign = "" if picture.is_plan else f"{STATE_SIGNS[picture.states[number]]} "
    texts = [mermaid_escaped(text) for text in (f"{sign}{step_title(node)}", node.detail, *node.modifiers)]
    if not _is_block(picture, number):
        opening, closing = MERMAID_SHAPES.get(node.kind, ("[", "]"))
        yield f'n{number}{opening}"{"<br/>".join(texts)}"{closing}'
        return
    yield f'subgraph b{number}["{" · ".join(texts)}"]'
    for region in picture.inside[number]:
        group = picture.groups[region]
        if group.caption and group.steps:
            yield f'    subgraph r{region}["{mermaid_escaped(group.caption)}"]'
            yield from _indented(_mermaid_list(picture, region), 2)
            yield "    end"
        elif group.steps:
            yield from _indented(_mermaid_list(picture, region), 1)
    yield "end"


def _mermaid_classes(picture: GraphPicture) -> Iterator[str]:
    if picture.is_plan:
        return
    by_state: dict[PictureState, list[str]] = {}
    for group in picture.groups.values():
        for number in group.steps:
            by_state.setdefault(picture.states[number], []).append(_mermaid_name(picture, number))
    for state, names in by_state.items():
        yield f"    classDef {state} {MERMAID_COLORS[state]}"
        yield f"    class {','.join(names)} {state}"


def _indented(lines: Iterator[str], depth: int) -> Iterator[str]:
    return ("    " * depth + line for line in lines)


TEXT_STEPS_MAX = 300
MERMAID_STEPS_MAX = 300
SVG_STEPS_MAX = 1000


def text_drawing(graph: ShownGraph, columns: int = 100, steps_max: int = TEXT_STEPS_MAX) -> str:
    """The graph for a terminal, no wider than `columns`, at most `steps_max` of its steps."""
    return render_text(make_picture(graph, steps_max), columns)


def mermaid_drawing(graph: ShownGraph, steps_max: int = MERMAID_STEPS_MAX) -> str:
    """The graph as a Mermaid flowchart; blocks and cycles are subgraphs."""
    return render_mermaid(make_picture(graph, steps_max))


def svg_drawing_of(graph: ShownGraph, steps_max: int = SVG_STEPS_MAX) -> str:
    """The graph as an SVG document of its own, to be read on light and dark ground; blocks are boxes."""
    return svg_drawing.render_svg(make_picture(graph, steps_max))
