"""Renders data as HTML: trees, tables and lines. It is the counterpart of `perdure.cli.plain_text`, and as pure.

The HTML is complete in itself: styles stand in the elements, and nothing is loaded. All text is escaped. The colours can be read on light and on dark
backgrounds, and everything else has the colour of the page.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from perdure.cli.plain_text import TextCell, TextTable, TreeNode
from perdure.cli.terminal_text import truncate

STYLES = {
    "good": "color:#3a853a",
    "bad": "color:#d9534f;font-weight:bold",
    "warn": "color:#a8720f",
    "live": "color:#2b7fb8",
    "dim": "opacity:.65",
    "strong": "font-weight:bold",
}
"""The look of each style of a cell."""

FRAME = "font-family:ui-monospace,Menlo,Consolas,monospace;font-size:12px;line-height:1.5;overflow-x:auto;white-space:pre"
INDENT = "margin-left:1.4em"
LEAF = "padding-left:1.1em"
"""The place that the triangle of an expandable node takes."""

CELL = "text-align:left;padding:0 1.2em 0 0;background:none;border:none"
COLUMNS_MAX = 200
"""The length at which the text of a cell is cut."""


def frame(*parts: str) -> str:
    """A block that holds rendered parts below each other."""
    return f'<div style="{FRAME}">{"".join(parts)}</div>'


def lines(rows: Iterable[Sequence[TextCell]]) -> str:
    """Lines of cells."""
    return f'<div style="margin-bottom:.5em">{"".join(f"<div>{_cells(row)}</div>" for row in rows)}</div>'


def table(content: TextTable) -> str:
    """A table."""
    head = "".join(f'<th style="{CELL};{STYLES["dim"]}">{escape(one)}</th>' for one in content.headers)
    body = "".join(f"<tr>{''.join(f'<td style={chr(34)}{CELL}{chr(34)}>{_cell(one)}</td>' for one in row)}</tr>" for row in content.rows)
    return f'<table style="border-collapse:collapse;border:none;margin:0"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def tree(nodes: Sequence[TreeNode]) -> str:
    """A tree. A node with others below it can be expanded; it is expanded already if something in it is open or has failed."""
    return "".join(map(_node, nodes))


def _node(node: TreeNode) -> str:
    notes = "".join(f'<div style="{INDENT}">{_cell(note)}</div>' for note in node.notes)
    if not node.below:
        return f'<div style="{LEAF}">{_cells(node.cells)}{notes}</div>'
    expanded = "" if node.quiet else " open"
    return f'<details{expanded}><summary>{_cells(node.cells)}</summary><div style="{INDENT}">{notes}{tree(node.below)}</div></details>'


def _cells(cells: Iterable[TextCell]) -> str:
    return "  ".join(_cell(one) for one in cells if one.text)


def _cell(one: TextCell) -> str:
    text = escape(truncate(one.text, COLUMNS_MAX))
    return f'<span style="{STYLES[one.style]}">{text}</span>' if one.style else text
