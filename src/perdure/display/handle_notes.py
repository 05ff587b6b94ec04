"""What IPython displays for handles: of a sync one, the tree of its execution; of an async one, what to await."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

from perdure.cli.terminal_text import safe_lines
from perdure.core.errors import PerdureError
from perdure.display.execution_tree import ExecutionTree
from perdure.display.ipython_formats import Bundle


def unread_handle(name: str) -> Bundle:
    """The display of an async handle, which can read nothing without being awaited: its name, and what to await."""
    return _note(name, "`await handle.tree()` displays its operations, and `await handle.result()` waits for its result")


def read_handle(name: str, read: Callable[[], ExecutionTree]) -> Bundle:
    """The display of a sync handle: its execution, which is read now; or its name, and why it can't be read."""
    try:
        shown = read()
    except PerdureError as error:
        return _note(name, f"it can't be displayed: {error}")
    return {"text/plain": repr(shown), "text/html": shown._repr_html_()}


def _note(name: str, text: str) -> Bundle:
    shown = safe_lines(name, text)
    return {"text/plain": shown, "text/html": f"<pre>{escape(shown)}</pre>"}
