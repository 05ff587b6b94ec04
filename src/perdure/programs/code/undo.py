"""Undo: once a workflow has failed or was cancelled, what it has done is undone, what was done last first.

That is code like a workflow's own, on the same loop: it remembers how the execution will end, then calls one handler after the other
at the path of what that undoes. A handler that fails for good parks the execution, so that nothing is left out, unless it is declared with
``on_error="continue"``: then the next one is called.
"""

from typing import TYPE_CHECKING, Any

import msgspec

from perdure.core import values
from perdure.core.errors import Fatal
from perdure.core.ops import Call, Err, Ok, Outcome, Sleep, Spawn
from perdure.core.paths import UNDO, Path, text
from perdure.core.program import WARNING, Finish
from perdure.core.undo import undoable, undoing
from perdure.core.values import NOTHING, Value
from perdure.programs.code.declare import Step, Undo, handler_of

if TYPE_CHECKING:
    from perdure.programs.code.instance import Instance

PLAN: Path = (UNDO,)
BEGIN: Path = (UNDO, ("begin", 0))


class Done(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What a handler is called with: the result of what it undoes, and its arguments, each as it was remembered."""

    result: Value
    args: Value


async def undo(instance: "Instance", finish: Finish) -> None:
    """Wait until nothing is in flight, then undo all that is to be undone, before `finish`."""
    instance.remember(PLAN, lambda: values.encode(finish.outcome, "the outcome"), role="undo", label=finish.status)
    await instance.open(BEGIN, Sleep(0.0))  # what the workflow has dropped with its last breath is known from then on
    while cancelled := instance.execution.opened.cancelled():
        await instance.wait_for(cancelled[0].path)
    for path in undoable(instance.execution.settled) if instance.undoes else ():
        outcome: Outcome | None = None
        done = undoing(instance.execution.settled, path)
        if isinstance(done.op, Call):
            name = done.op.target
            handler = (instance.handlers[name] if name in instance.handlers else handler_of(name, instance.workflow)) or _missing(done.op)
            step, result = handler.step, done.outcome.value if isinstance(done.outcome, Ok) else NOTHING
            given = values.encode(Done(result, done.op.args), "what is to be undone", path)
            call = Call(step.name, given, step.queue, step.rule, step.timeout_s, transaction=step.transaction)
            call = msgspec.structs.replace(call, lane=done.op.lane, priority=done.op.priority, limited=done.op.limited, may_fail=handler.on_error == "continue")
            outcome = (await instance.open((UNDO, *path), call, handler)).outcome
        elif isinstance(done.op, Spawn):
            await instance.open((UNDO, *path), msgspec.structs.replace(done.op, input=NOTHING))
        if isinstance(outcome, Err):
            instance.say(WARNING, not_undone_line(path, outcome), {})


def not_undone_line(path: Path, outcome: Err) -> str:
    """What is logged of a step that could not be undone."""
    return f"{text(path)} could not be undone: {outcome.error.type}: {outcome.error.message}. Mend the cause, then undo what is left: perdure undo"


def _missing(op: Call) -> Undo:
    """What stands for a handler that the code no longer has: it fails for good, and says so."""

    def refuse(*_: Any, **__: Any) -> None:
        raise Fatal(f"the code that runs here has nothing that undoes step {op.target}; bring its @{op.target}.undo back, and resume the execution")

    return Undo(Step(refuse, name=f"undo:{op.target}", queue=op.queue), in_doubt=True)
