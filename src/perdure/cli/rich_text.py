"""Renders what `plain_text` does for terminals, with rich; no other module imports it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import StringIO

from rich.console import Console, RenderableType
from rich.live import Live
from rich.table import Table as RichTable
from rich.text import Text
from rich.tree import Tree

from perdure.cli.plain_text import STYLES, TextCell, TextTable, TreeNode
from perdure.cli.terminal import Screen


def table(content: TextTable, screen: Screen) -> str:
    """A table no wider than the screen."""
    return _shown(_table(content), screen)


def tree(nodes: Sequence[TreeNode], screen: Screen) -> str:
    """A tree, its lines cut to the width of the screen."""
    return _shown(_tree(nodes), screen)


def line(cells: Sequence[TextCell], screen: Screen) -> str:
    """Cells beside each other."""
    return _shown(_line(cells), screen)


@contextmanager
def live(screen: Screen, error: bool = False) -> Iterator[Callable[[TextTable | Sequence[TreeNode]], None]]:
    """A place on the screen that the returned function redraws; its last content stays."""
    console = Console(stderr=error, no_color=not screen.color, highlight=False)
    with Live(console=console, auto_refresh=False, transient=False) as place:
        yield lambda content: place.update(_table(content) if isinstance(content, TextTable) else _tree(content), refresh=True)


def _shown(drawn: RenderableType, screen: Screen) -> str:
    written = StringIO()
    console = Console(
        file=written,
        width=screen.columns,
        force_terminal=screen.terminal,
        no_color=not screen.color,
        color_system="standard" if screen.color else None,
        highlight=False,
        legacy_windows=False,
    )
    console.print(drawn)
    return "\n".join(one.rstrip() for one in written.getvalue().splitlines())


def _text(one: TextCell) -> Text:
    return Text(one.text, STYLES.get(one.style, ""), no_wrap=True, overflow="ellipsis")


def _line(cells: Sequence[TextCell]) -> Text:
    return Text("  ", no_wrap=True, overflow="ellipsis").join(_text(one) for one in cells if one.text)


def _table(content: TextTable) -> RichTable:
    drawn = RichTable(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for header in content.headers:
        drawn.add_column(header, no_wrap=True, overflow="ellipsis")
    for row in content.rows:
        drawn.add_row(*map(_text, row))
    return drawn


def _tree(nodes: Sequence[TreeNode]) -> Tree:
    root = Tree("", hide_root=True, guide_style="dim")
    _hang(root, nodes)
    return root


def _hang(tree: Tree, nodes: Sequence[TreeNode]) -> None:
    for node in nodes:
        label = _line(node.cells)
        for note in node.notes:
            label = Text("\n", no_wrap=True, overflow="ellipsis").join((label, Text("   ").append_text(_text(note))))
        _hang(tree.add(label), node.below)
