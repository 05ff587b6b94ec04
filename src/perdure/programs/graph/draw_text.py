"""A graph for a terminal: its steps from top to bottom, below each where it leads, and inside of a block what stands in it.

::

    ✓ check   test @input.amount > 100
    ├─ true → ask
    ╰═ false ⇒ pay

``⇒``, ``═`` and ``┃`` were taken, ``↺`` leads back.
"""

import unicodedata
from collections.abc import Iterator, Sequence

from perdure.programs.graph.captions import detail, marks, title
from perdure.programs.graph.picture import SIGNS, WORDS, Group, Line, Picture

DEPTH_MAX = 24
NAMED_MAX = 6
NAMES_WIDTH_MAX = 32


def drawn(picture: Picture, columns: int) -> str:
    """The picture, its lines cut to so many columns."""
    ir = picture.ir
    steps = f"{len(ir.nodes)} step{'' if len(ir.nodes) == 1 else 's'}"
    lines = [f"{title_of(picture)}  {steps}, order {ir.order}", "", *_group(picture, picture.groups[0], 0)]
    if picture.left_out:
        lines.append(f"… and {picture.left_out:,} more")
    return "\n".join(narrowed(line, columns) for line in lines) + "\n"


def title_of(picture: Picture) -> str:
    """What the whole is called."""
    return f"{picture.ir.name} {picture.ir.version}".strip()


def width(text: str) -> int:
    """How many columns text takes."""
    return sum(2 if unicodedata.east_asian_width(one) in "WF" else 0 if unicodedata.combining(one) else 1 for one in text)


def narrowed(text: str, columns: int) -> str:
    """Text cut to so many columns."""
    text = text.rstrip()
    if width(text) <= columns:
        return text
    while width(text) >= columns:
        text = text[:-1]
    return text.rstrip() + "…"


def _group(picture: Picture, group: Group, depth: int) -> Iterator[str]:
    if depth > DEPTH_MAX:
        yield "…"
        return
    leading: dict[int, list[Line]] = {}
    for line in group.lines:
        leading.setdefault(line.source, []).append(line)
    names = [title(picture.ir.nodes[number]) for number in group.steps]
    column = min(max(map(width, names), default=0), NAMES_WIDTH_MAX)
    for position, number in enumerate(group.steps):
        lines = leading.get(number, [])
        yield _step(picture, number, names[position], column)
        yield from _inside(picture, number, bool(lines), depth)
        follows = position + 1 < len(group.steps) and [(line.target, line.label) for line in lines] == [(group.steps[position + 1], "")]
        yield from ("┃" if lines[0].taken else "│",) if follows else _leads(picture, lines)


def _step(picture: Picture, number: int, name: str, column: int) -> str:
    node = picture.ir.nodes[number]
    sign, said = "○", ""
    if not picture.is_plan:
        state = picture.states[number]
        sign, said = SIGNS[state], f"  ({WORDS.get(state, state)})" if state not in ("completed", "not_reached") else ""
    what = " · ".join([detail(node), *marks(node)])
    return f"{sign} {name}{' ' * max(column - width(name), 0)}  {what}{said}"


def _inside(picture: Picture, number: int, leads_on: bool, depth: int) -> Iterator[str]:
    """The lists of a block, with a rail on the left if something follows."""
    rail = "│ " if leads_on else "  "
    for region in picture.inside.get(number, ()):
        group = picture.groups[region]
        if not group.steps and not group.caption:
            continue
        yield f"{rail}╭ {group.caption or 'inside'}{'' if group.steps else ': nothing'}"
        yield from (f"{rail}│ {line}" for line in _group(picture, group, depth + 1))
        yield f"{rail}╰"


def _leads(picture: Picture, lines: Sequence[Line]) -> Iterator[str]:
    """Where a step leads: a line for each case."""
    cases: dict[tuple[str, bool, bool], list[str]] = {}
    for line in lines:
        cases.setdefault((line.label, line.back, line.taken), []).append(title(picture.ir.nodes[line.target]))
    for position, ((label, back, taken), targets) in enumerate(cases.items()):
        corner = "╰" if position == len(cases) - 1 else "├"
        arrow = "↺" if back else "⇒" if taken else "→"
        more = f" and {len(targets) - NAMED_MAX} more" if len(targets) > NAMED_MAX else ""
        said = f" {label} " if label else ""
        yield f"{corner}{'═' if taken else '─'}{said}{arrow} {', '.join(targets[:NAMED_MAX])}{more}"
