"""Conditions in Python: they run in a sandbox, as a call of their own, and what they say is remembered like any answer."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from perdure.core import values
from perdure.core.errors import Fatal
from perdure.core.ops import Call, Err, Op
from perdure.core.paths import Path
from perdure.core.promise import Settlement
from perdure.expr.condition import Condition
from perdure.programs.code.declare import Retry, Step
from perdure.programs.graph.names import Names, together

if TYPE_CHECKING:
    from perdure.programs.graph.instance import Instance

PYTHON = "perdure.python"
"""The name of the calls by which conditions in Python are judged."""


def judge(run: "Instance", path: Path, what: tuple[Condition, Names], told: Callable[[Any], None]) -> None:
    """Have the parts in Python judged, then the rest; tell what holds."""
    condition, names = what
    place = (*path, ("python", 0))

    def made() -> Op:
        output = _of(names, "self")
        context = {id: {"output": value} for id, value in together(names.seen(), "what a condition in Python sees").items()}
        args = values.encode(((list(condition.python), output, context), {}), "what a condition sees", path)
        return Call(PYTHON, args, retry=Retry(max=1).rule(), timeout_s=10.0)

    def answered(settlement: Settlement) -> None:
        how = run.log.result(settlement)
        if isinstance(how, Err):
            told(how)
        else:
            told(run.judged(path, condition, names, how.output.value))

    op = run.log.attempted(place, made)
    if isinstance(op, Err):
        told(op)
    else:
        kind = run.workflow.kinds.get(PYTHON)
        run.log.wait(place, answered, _MISSING if kind is None else kind.step)


def _of(names: Names, root: str) -> Any:
    try:
        return names.root(root)
    except KeyError:
        return None


def _refuse(*_: Any) -> None:
    raise Fatal('conditions in Python need a sandbox: pip install "perdure[sandbox]"')


_MISSING: Step[Any, Any, Any] = Step(_refuse, name=PYTHON)
