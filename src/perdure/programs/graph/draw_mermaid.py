"""A graph as Mermaid: a flowchart in which blocks and cycles are subgraphs."""

import string
from collections.abc import Iterator

from perdure.programs.graph.captions import detail, marks, title
from perdure.programs.graph.picture import SIGNS, Group, Picture, State

PLAIN = frozenset(string.ascii_letters + string.digits + " _.,:/=+*()[]?!-@≤≥≠…·✓▶✗×–○↻⚡‖⚠⊘")
LINES_MAX = 490
"""Mermaid itself refuses more than 500 edges."""

GREEN, BLUE, YELLOW, VIOLET, RED = (
    "fill:#d7f5dd,stroke:#1f883d,color:#0b3d1a",
    "fill:#d8eaff,stroke:#0969da,color:#052c5c",
    "fill:#fff3c4,stroke:#b08800,color:#4d3b00",
    "fill:#efe0ff,stroke:#8250df,color:#2e1065",
    "fill:#ffdfdc,stroke:#cf222e,color:#5c0a10",
)
GREY = "fill:#f0f0f0,stroke:#8c8c8c,color:#555555,stroke-dasharray:4 3"
COLORS: dict[State, str] = {
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
SHAPES = {"test": ("{", "}"), "approve": ("{{", "}}"), "return": ("([", "])"), "fail": ("([", "])")}
TURNED = "↺"


def drawn(picture: Picture) -> str:
    """The picture as the text of a flowchart."""
    lines = ["flowchart TD"]
    lines += _indented(_list(picture, 0), 1)
    links = [line for group in picture.groups.values() for line in group.lines][:LINES_MAX]
    for line in links:
        arrow = ("-.->", "==>")[line.taken] if line.back else ("-->", "==>")[line.taken]
        said = f"{TURNED} {line.label}".strip() if line.back else line.label
        label = f'|"{escaped(said)}"|' if said else ""
        lines.append(f"    {_name(picture, line.source)} {arrow}{label} {_name(picture, line.target)}")
    left_out = sum(len(group.lines) for group in picture.groups.values()) - len(links)
    if picture.left_out or left_out:
        words = [f"{count:,} more {what}" for count, what in ((picture.left_out, "steps"), (left_out, "edges")) if count]
        lines.append(f'    left_out["{escaped("… " + " and ".join(words))}"]')
    lines += _classes(picture)
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """Text that stands for itself inside of quotes: all but plain characters by their numbers, so that none of it is taken for Mermaid, HTML or Markdown."""
    return "".join(one if one in PLAIN else f"#{ord(one)};" for one in text)


def _name(picture: Picture, number: int) -> str:
    return f"{'b' if _is_block(picture, number) else 'n'}{number}"


def _is_block(picture: Picture, number: int) -> bool:
    return any(picture.groups[region].steps for region in picture.inside.get(number, ()))


def _list(picture: Picture, region: int) -> Iterator[str]:
    """The steps of a list. Those of a cycle stand in a subgraph, as cycles in it do."""
    yield from _steps(picture, picture.groups[region], region)


def _steps(picture: Picture, group: Group, region: int) -> Iterator[str]:
    ir = picture.ir
    inside: dict[int, list[int]] = {}
    for number in group.steps:
        inside.setdefault(ir.nodes[number].region, []).append(number)
    cycles: dict[int, set[int]] = {}
    for found in inside:
        while found != region:
            cycles.setdefault(ir.regions[found].parent, set()).add(found)
            found = ir.regions[found].parent
    waiting: list[tuple[int, int, bool]] = [(region, 0, False)]
    while waiting:
        current, depth, closes = waiting.pop()
        if closes:
            yield "    " * (depth - 1) + "end"
            continue
        if current != region:
            most = ir.regions[current].max
            yield "    " * (depth - 1) + f'subgraph c{current}["{escaped(f"{TURNED} at most {most} turns" if most else TURNED)}"]'
            waiting.append((current, depth, True))
        for number in inside.get(current, ()):
            yield from _indented(_step(picture, number), depth)
        waiting += [(inner, depth + 1, False) for inner in sorted(cycles.get(current, ()), reverse=True)]


def _step(picture: Picture, number: int) -> Iterator[str]:
    node = picture.ir.nodes[number]
    sign = "" if picture.is_plan else f"{SIGNS[picture.states[number]]} "
    texts = [escaped(text) for text in (f"{sign}{title(node)}", detail(node), *marks(node))]
    if not _is_block(picture, number):
        opening, closing = SHAPES.get(node.kind, ("[", "]"))
        yield f'n{number}{opening}"{"<br/>".join(texts)}"{closing}'
        return
    yield f'subgraph b{number}["{" · ".join(texts)}"]'
    for region in picture.inside[number]:
        group = picture.groups[region]
        if group.caption and group.steps:
            yield f'    subgraph r{region}["{escaped(group.caption)}"]'
            yield from _indented(_list(picture, region), 2)
            yield "    end"
        elif group.steps:
            yield from _indented(_list(picture, region), 1)
    yield "end"


def _classes(picture: Picture) -> Iterator[str]:
    if picture.is_plan:
        return
    by_state: dict[State, list[str]] = {}
    for group in picture.groups.values():
        for number in group.steps:
            by_state.setdefault(picture.states[number], []).append(_name(picture, number))
    for state, names in by_state.items():
        yield f"    classDef {state} {COLORS[state]}"
        yield f"    class {','.join(names)} {state}"


def _indented(lines: Iterator[str], depth: int) -> Iterator[str]:
    return ("    " * depth + line for line in lines)
