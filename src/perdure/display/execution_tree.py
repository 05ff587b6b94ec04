"""One execution for people at a notebook or a prompt: its status, and its operations as a tree with their values and the executions that it has started.

The tree is the one that ``perdure show`` prints, with more in it: values, progress, and children.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from reprlib import Repr
from typing import Any

from perdure.cli import plain_text, terminal_text
from perdure.cli.execution_views import execution_head, step_tree
from perdure.cli.plain_text import TextCell, TreeNode, cell, status_cell
from perdure.core import values
from perdure.core.errors import Undecodable
from perdure.core.paths import Key
from perdure.core.values import Blob, Value
from perdure.core.views import StepView
from perdure.display import html_text
from perdure.service.execution_details import ExecutionDetails
from perdure.service.queries import ExecutionStatus

HTML_NODES_MAX = 300
TEXT_NODES_MAX = 60
"""How many operations are shown; of the others, their number."""

VALUE_COLUMNS_MAX = 80
VALUE_BYTES_MAX = 16 * 1024
"""A larger value is not decoded to be shown."""

STATE_VALUES_MAX = 5
"""The number of values of the workflow's state that are listed."""


class ExecutionTree:
    """One execution as it was when it was read: its `status` and its `steps`, and the same of its `children`, by the path that has started each.

    A notebook displays it as a tree of its operations, which can be expanded; its text is the same tree for terminals. Both have at most some hundreds of
    lines, with first what is open or has failed, however much the execution has done.
    """

    def __init__(self, details: ExecutionDetails) -> None:
        self._details = details

    @property
    def key(self) -> Key:
        """The key of the execution."""
        return self._details.status.key

    @property
    def status(self) -> ExecutionStatus:
        """The status of the execution."""
        return self._details.status

    @property
    def steps(self) -> list[StepView]:
        """Every operation, settled and open, in the order of opening."""
        return self._details.steps

    @property
    def children(self) -> dict[str, ExecutionTree]:
        """The executions that it has started, as far as they were read: 20 descendants at most."""
        return {path: ExecutionTree(child) for path, child in self._details.children.items()}

    def __repr__(self) -> str:
        nodes = limited_tree(_operations(self._details), TEXT_NODES_MAX)
        lines = (*map(plain_text.line, _head(self._details)), *plain_text.tree(nodes).splitlines())
        return "\n".join(terminal_text.truncate(line, html_text.COLUMNS_MAX) for line in lines)

    def _repr_html_(self) -> str:
        nodes = limited_tree(_operations(self._details), HTML_NODES_MAX)
        return html_text.frame(html_text.lines(_head(self._details)), html_text.tree(nodes))


def limited_tree(nodes: Sequence[TreeNode], nodes_max: int) -> tuple[TreeNode, ...]:
    """The same tree with at most `nodes_max` of its nodes: first those that are open, then those that have failed, and then those nearest to the root; of many
    beside each other, the first and the last. In the place of what is left out stands its number.
    """
    if _count(nodes) <= nodes_max:
        return tuple(nodes)
    kept = set[int]()
    for is_wanted in _PRECEDENCE:
        level = list(nodes)
        while level:
            wanted = [node for node in level if id(node) not in kept and is_wanted(node)]
            kept.update(map(id, _ends(wanted, nodes_max - len(kept))))
            level = [lower for node in level if id(node) in kept for lower in node.below]
    return tuple(_with_numbers(nodes, kept))


_PRECEDENCE = (lambda node: node.open, lambda node: not node.quiet, lambda node: True)


def _count(nodes: Iterable[TreeNode]) -> int:
    return sum(1 + _count(node.below) for node in nodes)


def _ends(nodes: Sequence[TreeNode], count: int) -> Sequence[TreeNode]:
    last = count // 2
    return nodes if len(nodes) <= count else [*nodes[: count - last], *nodes[len(nodes) - last :]]


def _with_numbers(nodes: Sequence[TreeNode], kept: set[int]) -> Iterator[TreeNode]:
    for is_kept, group in groupby(nodes, key=lambda node: id(node) in kept):
        members = list(group)
        if is_kept:
            yield from (replace(node, below=tuple(_with_numbers(node.below, kept))) for node in members)
        else:
            quiet = all(node.quiet for node in members)
            yield TreeNode((TextCell(f"… {len(members):,} {'completed' if quiet else 'more'}", "dim"),), quiet=quiet)


def _head(details: ExecutionDetails) -> Iterator[tuple[TextCell, ...]]:
    yield from execution_head(details.status, details.programs, details.read_at_s)
    for what, text in _facts(details):
        yield TextCell(f"  {what:<11}", "dim"), cell(text)


def _facts(details: ExecutionDetails) -> Iterator[tuple[str, str]]:
    found = details.values
    if details.steps:
        yield "operations", ", ".join(f"{count:,} {state}" for state, count in Counter(step.state for step in details.steps).most_common())
    if found.emitted is not None:
        yield "emitted", f"{terminal_text.count(details.status.emitted, 'value')}, the last one {value_text(found.emitted)}"
    for name, value in list(found.state.items())[:STATE_VALUES_MAX]:
        yield "state", f"{name} = {value_text(value)}"
    if len(found.state) > STATE_VALUES_MAX:
        yield "state", f"… {len(found.state) - STATE_VALUES_MAX:,} more"
    if found.result is not None:
        yield "result", value_text(found.result)


def _operations(details: ExecutionDetails) -> tuple[TreeNode, ...]:
    return tuple(_detailed(node, details) for node in step_tree(details.steps, details.read_at_s))


def _detailed(node: TreeNode, details: ExecutionDetails) -> TreeNode:
    """The node with the values of its operation, and below it the execution that the operation has started."""
    below = tuple(_detailed(lower, details) for lower in node.below)
    cells = (*node.cells, *map(cell, _value_texts(node.path, details))) if node.path else node.cells
    child = details.children.get(node.path)
    if child is None:
        return replace(node, cells=cells, below=below)
    name = cell(terminal_text.execution_name(child.status.key), "strong")
    shown = TreeNode((name, status_cell(child.status.status)), (), _operations(child))
    is_open = child.status.ended_at_s is None
    shown = replace(shown, quiet=child.status.status == "completed" and all(lower.quiet for lower in shown.below), open=is_open)
    return replace(node, cells=cells, below=(*below, shown), quiet=node.quiet and shown.quiet, open=node.open or is_open)


def _value_texts(path: str, details: ExecutionDetails) -> Iterator[str]:
    found = details.values
    if path in found.results:
        yield f"→ {value_text(found.results[path])}"
    if path in found.received:
        yield f"→ {', '.join(map(value_text, found.received[path][:STATE_VALUES_MAX]))}"
    if path in found.progress:
        yield f"progress {value_text(found.progress[path])}"


def value_text(value: Value) -> str:
    """An encoded value as Python writes it, shortened; of a large one, its size."""
    if isinstance(value, Blob) or len(value) > VALUE_BYTES_MAX:
        return f"({terminal_text.size(value.size_bytes if isinstance(value, Blob) else len(value))})"
    try:
        decoded = values.decode(value, Any, "a value")
    except Undecodable as error:
        return f"(not readable: {error.why})"
    return terminal_text.truncate(_SHORT.repr(decoded), VALUE_COLUMNS_MAX)


_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = VALUE_COLUMNS_MAX
