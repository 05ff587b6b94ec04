"""Counting: each step that has used a composite and succeeded adds one to its uses, once.

What counts the uses is an execution of its own (see `perdure.programs.code.composite`). It is begun, unless there is one, in the commit that opens the step;
the use is a message in the commit that has its result. So a use is counted if and only if its result is remembered, and whoever replays the step counts
nothing.
"""

from typing import TYPE_CHECKING

from perdure.core import values
from perdure.core.attributes import checked
from perdure.core.ops import COMPOSITE, Keep, Op, Send, Spawn
from perdure.core.paths import Key
from perdure.programs.code.composite import ABOUT, USED
from perdure.programs.graph.doing import Doing
from perdure.programs.graph.kind import Count

if TYPE_CHECKING:
    from perdure.programs.graph.instance import Instance


def begun(run: "Instance", doing: Doing, count: Count | None) -> str:
    """Have what counts the uses begin; return its name, empty if nothing is counted. On replay, as it is remembered."""
    path = (*doing.path, ("composite", 0))
    if run.log.replaying:
        remembered = run.log.upcoming(path)
        return "" if remembered is None else _name(run.log.ask(path, remembered))
    return "" if count is None else _name(run.log.ask(path, _beginning(count, doing)))


def _beginning(count: Count, doing: Doing) -> Op:
    if count.input is None:
        return Keep(label=count.name)
    raw = values.encode(((count.input,), {}), "the composite of", doing.path)
    return Spawn(COMPOSITE, count.name, 1, raw, awaited=False, on_cancel="detach", attributes=checked({ABOUT: count.about}))


def _name(op: Op) -> str:
    match op:
        case Spawn(id=name) | Keep(label=name):
            return name
    return ""


def used(run: "Instance", doing: Doing, name: str) -> None:
    """Count one use of what was begun."""
    _ = run.log.ask((*doing.path, ("used", 0)), Send(Key(run.execution.key.tenant, COMPOSITE, name), USED.name))
