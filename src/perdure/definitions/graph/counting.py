"""Counting: each step that has used a composite and succeeded adds one to its uses, once.

What counts the uses is an execution of its own (see `perdure.code.builtin_workflows`). It is begun, unless there is one, in the commit that opens the step;
the use is a message in the commit that has its result. So a use is counted if and only if its result is remembered, and whoever replays the step counts
nothing.
"""

from typing import TYPE_CHECKING

from perdure.code.builtin_workflows import DESCRIPTION, USED_SIGNAL
from perdure.core import values
from perdure.core.attributes import checked_attributes
from perdure.core.operations import COMPOSITE_WORKFLOW, KeepOperation, Operation, SendOperation, SpawnOperation
from perdure.core.paths import Key
from perdure.definitions.graph.doing import VerbRun
from perdure.definitions.graph.step_kind import CompositeUse

if TYPE_CHECKING:
    from perdure.definitions.graph.instance import GraphProgram


def begin_use_count(run: "GraphProgram", doing: VerbRun, count: CompositeUse | None) -> str:
    """Have what counts the uses begin; return its name, empty if nothing is counted. On replay, as it is remembered."""
    path = (*doing.path, ("composite", 0))
    if run.log.replaying:
        remembered = run.log.upcoming(path)
        return "" if remembered is None else _composite_name(run.log.ask(path, remembered))
    return "" if count is None else _composite_name(run.log.ask(path, _first_use_operation(count, doing)))


def _first_use_operation(count: CompositeUse, doing: VerbRun) -> Operation:
    if count.input is None:
        return KeepOperation(label=count.name)
    raw = values.encode(((count.input,), {}), "the composite of", doing.path)
    return SpawnOperation(COMPOSITE_WORKFLOW, count.name, 1, raw, awaited=False, on_cancel="detach", attributes=checked_attributes({DESCRIPTION: count.about}))


def _composite_name(op: Operation) -> str:
    match op:
        case SpawnOperation(id=name) | KeepOperation(label=name):
            return name
    return ""


def count_use(run: "GraphProgram", doing: VerbRun, name: str) -> None:
    """Count one use of what was begun."""
    _ = run.log.ask((*doing.path, ("used", 0)), SendOperation(Key(run.execution.key.tenant, COMPOSITE_WORKFLOW, name), USED_SIGNAL.name))
