"""How the steps of a graph execution stand at an event of its log, and over which edges tokens went: its plan and what has come of it, for a picture."""

from collections.abc import Generator, Iterator, Sequence

from perdure.core import events as e
from perdure.core.execution import Execution
from perdure.core.ops import Err, Keep, asks_a_person
from perdure.core.paths import Key, Path
from perdure.core.promise import Promise, Settlement
from perdure.core.rebuild import Load
from perdure.programs.graph.declare import GraphWorkflow
from perdure.programs.graph.ir import IR
from perdure.programs.graph.picture import State
from perdure.programs.graph.plan import Plan, takes
from perdure.programs.graph.tokens import rebuilt
from perdure.programs.graph.walk import Over

_BY_PORT: dict[str, State] = {"skipped": "skipped", "error": "failed"}


class Standing:
    """By what an execution went then, how the steps stood that have one to tell of, by their ids, and the numbers of the edges that were taken."""

    def __init__(self, ir: IR, states: dict[str, State], taken: frozenset[int]) -> None:
        self.ir, self.states, self.taken = ir, states, taken


def at(workflow: GraphWorkflow, key: Key, events: Sequence[e.Event], number: int) -> Generator[Load, bytes, Standing | None]:
    """How it stood after event `number` of its log, counted from 1; None, if it had not begun."""
    instance, execution = yield from rebuilt(workflow, key, events, number)
    if not instance.is_begun:
        return None
    plan, over = instance.plan, [one for one in instance.walk.happened if isinstance(one, Over)]
    edges = frozenset(edge for one in over for edge in _taken(plan, one))
    states: dict[str, State] = {} if execution.ended is None else dict.fromkeys(plan.by_id, "dead")
    for frame in instance.walk.frames():
        states |= {plan.places[number].node.id: "dead" for number, arrivals in frame.arrivals.items() if arrivals.is_dead}
    states |= {_id(path): "done" for path in execution.settled if _id(path) in plan.by_id}  # a return is never over: the execution is
    states |= {id: "failed" for path, settled in execution.settled.items() if _has_failed(settled) for id in _ids(path) if id in plan.by_id}
    states |= {_id(one.path): _BY_PORT.get(one.port, "done") for one in over}
    if execution.ended is None:
        states |= {_id(path): _open(path, execution) for path in instance.walk.open}
    return Standing(plan.ir, states, edges)


def _taken(plan: Plan, one: Over) -> Iterator[int]:
    """The edges over which a step that has settled led on."""
    for number in plan.by_id[_id(one.path)].out:
        edge = plan.edges[number]
        if plan.places[edge.target].node.id in one.to and (one.chosen or takes(edge.port, one.port)):
            yield number


def _open(path: Path, execution: Execution) -> State:
    """How a step stands that has not settled, by what is open in it."""
    inside = [promise for other, promise in execution.open.items() if other[: len(path)] == path]
    if inside and all(asks_a_person(promise.op) for promise in inside):
        return "waiting_approval"
    return "waiting" if inside and not any(map(_goes_on, inside)) else "running"


def _goes_on(promise: Promise) -> bool:
    return promise.state == "performing"


def _has_failed(settled: Settlement) -> bool:
    return isinstance(settled.outcome, Err) or (isinstance(settled.op, Keep) and settled.op.label == "error")


def _ids(path: Path) -> Iterator[str]:
    """The ids of the steps in which a path leads; what is no step has no id among those of the plan."""
    return (part[0] for part in path if isinstance(part, tuple) and part[1] > 0)


def _id(path: Path) -> str:
    """The id of the step whose path it is."""
    segment = path[-1]
    return segment[0] if isinstance(segment, tuple) else str(segment)
