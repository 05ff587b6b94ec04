"""Passages: which nodes a walk has begun, each with when and how it ended. Kept only for a view of an execution; an engine has no use for it.

Roots: what every expression of an execution may read: its input, its variables, what it is, and the result before.

Conditions in Python: they run in a sandbox, as a call of their own, and what they say is remembered like any answer.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from perdure.code.declarations import Retry, Step
from perdure.core import values
from perdure.core.errors import ErrorInfo, Fatal
from perdure.core.operation_state import SettledOperation
from perdure.core.operations import CallOperation, Failure, KeepOperation, Operation
from perdure.core.paths import Path
from perdure.definitions.expr.condition import CompiledCondition
from perdure.definitions.expr.secret_marks import SecretMark, secret_mark
from perdure.definitions.graph.definition_input import completed_input_problems, with_defaults
from perdure.definitions.graph.ir import GraphNode
from perdure.definitions.graph.node_scope import NodeOutcome, NodeScope, Output, combined_values

if TYPE_CHECKING:
    from perdure.definitions.graph.instance import GraphProgram
if TYPE_CHECKING:
    from perdure.definitions.graph.instance import GraphProgram


class Passage:
    """One time that a node fired and began. It has settled by a `port`, or with an `error`, if one of the two is there; at `ended_at_s` it was left.

    One that was left and has not settled was given up: nothing waits for it any more. So many operations had been opened before it: `number`.
    """

    __slots__ = ("began_at_s", "ended_at_s", "error", "node", "number", "port")

    def __init__(self, node: GraphNode, number: int, at_s: float) -> None:
        self.node, self.number, self.began_at_s = node, number, at_s
        self.ended_at_s: float | None = None
        self.port: str | None = None
        self.error: ErrorInfo | None = None

    @property
    def has_settled(self) -> bool:
        """Whether the node has come to a result or an error."""
        return self.port is not None or self.error is not None


class PassageRecord:
    """The passages of one walk by path, in the order in which they began."""

    __slots__ = ("known",)

    def __init__(self) -> None:
        self.known: dict[Path, Passage] = {}

    def begin(self, path: Path, node: GraphNode, number: int, at_s: float) -> None:
        """A node begins, behind the operation of this number."""
        self.known[path] = Passage(node, number, at_s)

    def settle(self, path: Path, how: NodeOutcome | Failure) -> None:
        """A node has come to a result or an error. It goes on if others stand in for it, or if Python has to say where it leads."""
        passage = self.known[path]
        if isinstance(how, Failure):
            passage.error = how.error
        else:
            passage.port = how.port

    def leave(self, paths: Iterable[Path], at_s: float) -> None:
        """Nodes are not open any more: they have settled, or were given up."""
        for path in paths:
            passage = self.known.get(path)  # one that was given up before it began is none
            if passage is not None and passage.ended_at_s is None:
                passage.ended_at_s = at_s

    def end_around(self, path: Path, at_s: float) -> None:
        """The node at a path ends the execution well, and with it the blocks in which it lies."""
        for end in range(1, len(path) + 1):
            passage = self.known.get(path[:end])
            if passage is not None and not passage.has_settled:
                passage.port = "success"
            self.leave((path[:end],), at_s)


class SecretMarks:
    """The secrets of an execution, by name: what stands for each is resolved where a call is made, and nowhere before."""

    def __getitem__(self, name: str) -> SecretMark:
        return secret_mark(name)

    def get(self, name: str, _: Any = None) -> SecretMark:
        """What stands for a secret."""
        return self[name]


class RunRoots:
    """The roots of one execution. `outputs` are the results of the steps that stand in no `each`."""

    def __init__(self, run: "GraphProgram", raw: bytes) -> None:
        self.run = run
        self.outputs: dict[str, Output] = {}
        self.last: Output | None = None
        self.loop: dict[str, Any] | None = None
        positional, named = values.decode(raw, tuple[list[Any], dict[str, Any]], "the input")
        given = {**(positional[0] if positional and isinstance(positional[0], dict) else {}), **named}
        self.input: dict[str, Any] = with_defaults(run.plan.ir, given)
        self.variables: dict[str, Any] = {}

    def check(self) -> KeepOperation | None:
        """Hold the input against what the definition takes."""
        for why in completed_input_problems(self.run.plan.ir, self.input):
            raise self.run.failure(why, "BadInput")
        return None

    def vary(self) -> Failure | None:
        """Have the variables be what they are at the beginning: as they stand in the definition, or what their references come to, which is noted."""
        run, given = self.run, self.run.plan.ir.variables
        if not isinstance(given, dict):
            return None
        template, names = run.template(given), NodeScope(self)
        if template.constant:
            self.variables = template.evaluate(names)
            return None
        kept = run.log.judged((("vars", 0),), lambda: KeepOperation(values.encode(run.evaluated(given, names), "the variables"), label="vars"))
        if isinstance(kept, KeepOperation):
            self.variables = values.decode(run.log.raw(kept.value), dict[str, Any], "the variables")
        return kept if isinstance(kept, Failure) else None

    def root(self, name: str) -> Any:
        """The value of a root. KeyError, if there is none of this name."""
        match name:
            case "input":
                return self.input
            case "vars":
                return self.variables
            case "secrets":
                return SecretMarks()
            case "execution":
                return self._execution()
            case "last":
                return None if self.last is None else self.last.value
            case "lastOutput":
                return None if self.last is None else self.last.envelope
            case "loop" if self.loop is not None:
                return self.loop
            case "trigger":
                return {}
            case "steps":
                return {id: {"output": output.envelope} for id, output in self.outputs.items()}
        raise KeyError(name)

    def name_of(self, id: str) -> str:
        """What a step is called for people; empty, if nobody says."""
        place = self.run.plan.by_id.get(id)
        return "" if place is None else place.node.name

    def is_out(self, id: str) -> bool:
        """Whether a step without a result is not going to have one any more: it was passed by, or the block in which it stands is over without it."""
        plan, walk = self.run.plan, self.run.walk
        place = plan.by_id.get(id)
        if place is None:
            return False
        if plan.ir.order != "ports" or not walk.open:
            return True  # what is read stands before what reads it, and was passed by if there is nothing of it
        while True:
            if any((arrivals := frame.arrivals.get(place.number)) is not None and arrivals.is_dead for frame in walk.frames()):
                return True
            region = plan.regions[place.node.region]
            if region.kind == "body" and plan.places[region.head].node.id in self.outputs:
                return True
            if region.head < 0 or plan.places[region.head] is place:
                return False
            place = plan.places[region.head]

    def _execution(self) -> dict[str, Any]:
        execution = self.run.execution
        started = execution.started
        return {
            "id": execution.key.id,
            "execution_id": execution.key.id,
            "workflow": execution.key.workflow,
            "tenant": execution.key.tenant,
            "depth": execution.depth,
            "started_at_s": None if started is None else started.at_s,
            "now_s": execution.now_s,
        }


PYTHON_CONDITION = "perdure.python"
"""The name of the calls by which conditions in Python are judged."""


def judge_python(run: "GraphProgram", path: Path, what: tuple[CompiledCondition, NodeScope], told: Callable[[Any], None]) -> None:
    """Have the parts in Python judged, then the rest; tell what holds."""
    condition, names = what
    place = (*path, ("python", 0))

    def made() -> Operation:
        output = _root_or_none(names, "self")
        context = {id: {"output": value} for id, value in combined_values(names.seen(), "what a condition in Python sees").items()}
        args = values.encode(((list(condition.python), output, context), {}), "what a condition sees", path)
        return CallOperation(PYTHON_CONDITION, args, retry=Retry(max=1).rule(), timeout_s=10.0)

    def answered(settlement: SettledOperation) -> None:
        how = run.log.result(settlement)
        if isinstance(how, Failure):
            told(how)
        else:
            told(run.judged(path, condition, names, how.output.value))

    op = run.log.attempted(place, made)
    if isinstance(op, Failure):
        told(op)
    else:
        kind = run.workflow.kinds.get(PYTHON_CONDITION)
        run.log.wait(place, answered, _NO_SANDBOX_STEP if kind is None else kind.step)


def _root_or_none(names: NodeScope, root: str) -> Any:
    try:
        return names.root(root)
    except KeyError:
        return None


def _refuse_python(*_: Any) -> None:
    raise Fatal('conditions in Python need a sandbox: pip install "perdure[sandbox]"')


_NO_SANDBOX_STEP: Step[Any, Any, Any] = Step(_refuse_python, name=PYTHON_CONDITION)
