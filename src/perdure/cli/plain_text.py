"""Renders data as plain text: tables, trees and lines. The functions are pure; `rich_text` renders the same for terminals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from perdure.cli import terminal_text


@dataclass(frozen=True)
class TextCell:
    """A text with a style of `STYLES`, or none."""

    text: str
    style: str = ""


@dataclass(frozen=True)
class TextTable:
    """Rows under headers. On a terminal, cells that are too long are cut; in a pipe they are printed in full."""

    headers: tuple[str, ...]
    rows: tuple[tuple[TextCell, ...], ...]


@dataclass(frozen=True)
class TreeNode:
    """A line of a tree, with what hangs below it; `notes` are further lines of its own. A `quiet` one says
    only that all is well; with an `open` one, something in it has not come to its end. `path` is that of its operation, if it
    stands for one.
    """

    cells: tuple[TextCell, ...]
    notes: tuple[TextCell, ...] = ()
    below: tuple[TreeNode, ...] = ()
    quiet: bool = False
    open: bool = False
    path: str = ""

    @property
    def lines(self) -> int:
        """The number of lines of the node and everything below it."""
        return 1 + len(self.notes) + sum(node.lines for node in self.below)


STYLES = {
    "good": "green",
    "bad": "bold red",
    "warn": "yellow",
    "live": "cyan",
    "dim": "dim",
    "strong": "bold",
}
"""The look of each style on a terminal."""

STATUS_STYLES = {
    "completed": "good",
    "failed": "bad",
    "cancelled": "dim",
    "needs_attention": "warn",
    "paused": "warn",
    "interrupted": "warn",
    "parked": "warn",
    "skipped": "dim",
    "retrying": "warn",
    "waiting_approval": "live",
    "performing": "live",
    "running": "live",
    "undoing": "live",
    "ending": "live",
    "abandoned": "warn",
}
"""How executions and steps look in each status or state; any other looks plain."""

GLYPHS = {
    "completed": ("✓", "+"),
    "failed": ("✗", "x"),
    "cancelled": ("⊘", "-"),
    "performing": ("▶", ">"),
    "ending": ("▶", ">"),
    "abandoned": ("⚠", "?"),
    "retrying": ("↻", "~"),
    "interrupted": ("⚡", "!"),
    "parked": ("‖", "="),
    "waiting": ("…", "."),
    "waiting_approval": ("?", "?"),
    "skipped": ("–", "-"),
    "running": ("▶", ">"),
    "undoing": ("↶", "<"),
    "paused": ("‖", "="),
    "needs_attention": ("!", "!"),
}
"""A mark for each state of a step and status of an execution: where the terminal has it, and where it has only ASCII."""


def cell(text: object, style: str = "") -> TextCell:
    """A cell of text from outside, with control characters escaped."""
    return TextCell(terminal_text.clean(str(text)), style)


def status_cell(name: str) -> TextCell:
    """The cell of a status."""
    return TextCell(name, STATUS_STYLES.get(name, ""))


def state_glyph(state: str, unicode: bool = True) -> TextCell:
    """The mark of a step's state."""
    marks = GLYPHS.get(state, ("·", "?"))
    return TextCell(marks[0] if unicode else marks[1], STATUS_STYLES.get(state, ""))


def table(content: TextTable) -> str:
    """A table in columns, two blanks apart; nothing is cut, and no line ends with blanks."""
    lines = [content.headers, *([one.text for one in row] for row in content.rows)]
    widths = [max(terminal_text.width(line[column]) for line in lines) for column in range(len(content.headers))]
    return "\n".join("  ".join(map(_padded, line, widths)).rstrip() for line in lines)


def tree(nodes: Sequence[TreeNode], unicode: bool = True) -> str:
    """A tree, with lines that connect each node with its parent."""
    branches = BRANCHES if unicode else ASCII_BRANCHES
    return "\n".join(line for node in nodes for line in (_lines(node, "", branches)))


BRANCHES = ("├── ", "└── ", "│   ", "    ")
ASCII_BRANCHES = ("|-- ", "`-- ", "|   ", "    ")
"""The prefixes of a node that others follow, of the last one, and of the lines below each."""


def _lines(node: TreeNode, indent: str, branches: tuple[str, str, str, str]) -> Iterator[str]:
    """The lines of a node and its descendants; all but the first begin with `indent`."""
    yield line(node.cells)
    for note in node.notes:
        yield f"{indent}   {note.text}"
    for number, lower in enumerate(node.below, 1):
        last = number == len(node.below)
        first, *more = _lines(lower, f"{indent}{branches[2 + last]}", branches)
        yield f"{indent}{branches[last]}{first}"
        yield from more


def line(cells: Iterable[TextCell]) -> str:
    """Cells beside each other."""
    return "  ".join(one.text for one in cells if one.text).rstrip()


def fields(pairs: Iterable[tuple[str, str]]) -> str:
    """Names and values, a line each."""
    shown = [(name, text) for name, text in pairs if text]
    columns = max((len(name) for name, _ in shown), default=0)
    return "\n".join(f"{name.ljust(columns)}  {text}" for name, text in shown)


def fact_lines(facts: Iterable[tuple[str, str | None]], columns: int) -> Iterator[Sequence[TextCell]]:
    """Names and values as indented cells, a line for each that has a value; names are padded to so many columns."""
    return ((TextCell(f"  {name:<{columns}}"), cell(text)) for name, text in facts if text)


def _padded(text: str, columns: int) -> str:
    return text + " " * (columns - terminal_text.width(text))
