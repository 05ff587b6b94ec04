"""The steps of a graph execution as people look at them: by the verbs of its definition, with what the walk notes beside them folded into them."""

import msgspec

from perdure.core import values, views
from perdure.core.errors import ErrorInfo
from perdure.core.execution import Execution
from perdure.core.ops import Keep
from perdure.core.paths import UNDO, Path, parse, text
from perdure.core.views import StepView
from perdure.programs.graph.ir import IR, Node

NO_TARGET = frozenset(("approve", "sleep", "set", "test", "if", "return", "fail", "do", "parallel", "race"))
"""The verbs whose name says all that their operation says."""


def steps(execution: Execution, ir: IR) -> list[StepView]:
    """Every operation that the execution knows, in the order in which they were opened. Of notes, those are there that are open, and the errors of
    what could not be done stand with the step."""
    nodes = {node.id: node for node in ir.nodes}
    found: dict[Path, StepView] = {}
    for view in views.steps(execution):
        path = parse(view.path)
        node = None if path[0] == UNDO else _node(path, nodes)
        if node is None:
            if path == (UNDO,) or not (path[0] == UNDO and _is_note(path) and view.settled_at_s is not None):
                found[path] = view
        elif not _is_note(path):
            found[path] = msgspec.structs.replace(view, kind=node.kind, target="" if view.kind == "keep" or node.kind in NO_TARGET else view.target)
        elif view.settled_at_s is None:
            found[path] = view
        elif (error := _error(execution, path)) is not None:
            step = StepView(text(path[:-1]), node.kind, "", "failed", 1, view.opened_at_s, view.settled_at_s, error=error)
            before = found.get(path[:-1])
            found[path[:-1]] = step if before is None else msgspec.structs.replace(before, state="failed", error=error)
    return list(found.values())


def _node(path: Path, nodes: dict[str, Node]) -> Node | None:
    """The step to which an operation belongs: the innermost one in whose passage it lies."""
    for segment in reversed(path):
        if isinstance(segment, tuple) and segment[1] > 0:
            return nodes.get(segment[0])
    return None


def _is_note(path: Path) -> bool:
    """Whether the walk has noted this beside a step; a turn or an item is none."""
    return isinstance(path[-1], tuple) and path[-1][1] == 0


def _error(execution: Execution, path: Path) -> ErrorInfo | None:
    """The error that was noted at a path, if it was one and stands in the log itself."""
    op = execution.settled[path].op
    if isinstance(op, Keep) and op.label == "error" and isinstance(op.value, bytes):
        error: ErrorInfo = values.decode(op.value, ErrorInfo, "an error")
        return error
    return None
