"""Replays of definitions: the same log again, which leads to the same and evaluates no expression.

Checks of the view of an execution of a definition: at every event of its log, all that is shown says the same, and the same as the log folded.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

from perdure.core import events as e
from perdure.core.errors import NotReplayable
from perdure.core.execution import Execution
from perdure.core.loop_iterations import is_in_trimmed_iteration
from perdure.core.operations import CallOperation, KeepOperation, SendOperation, awaits_approval
from perdure.core.paths import UNDO, Key, Path, parse_path, path_text
from perdure.core.replay import fold_events
from perdure.definitions.expr.condition import CompiledCondition
from perdure.definitions.expr.template import Template
from perdure.definitions.graph import execution_view, graph_drawing
from perdure.definitions.graph.execution_view import ExecutionView
from perdure.definitions.graph.graph_picture import STATE_SIGNS, STATE_WORDS
from perdure.definitions.graph.graph_workflow import GraphWorkflow
from perdure.definitions.graph.shown_graph import MOST_ACTIVE, shown_graph
from perdure.testing.replay_check import replay_differences, run_generator
from tests.proof.definitions.log_facts import Payload


def replayed(workflow: GraphWorkflow, key: Key, events: Sequence[e.Event], payload: Payload) -> list[str]:
    """What is not as it should be when a log is replayed."""
    with evaluating() as evaluated:
        problems = list(replay_differences(workflow, key, key, events, payload))
    return problems + [f"a replay has evaluated {what}" for what in evaluated]


@contextmanager
def evaluating() -> Iterator[list[str]]:
    """What is evaluated meanwhile; what has no reference in it is not counted, as nothing can come of it but itself."""
    evaluated: list[str] = []
    before = Template.evaluate, CompiledCondition.evaluate

    def counted(evaluate: Callable[..., Any]) -> Callable[..., Any]:
        def count(one: Any, *given: Any, **named: Any) -> Any:
            if not getattr(one, "constant", False):
                evaluated.append(
                    f"{type(one).__name__.removeprefix('Compiled')} of {', '.join(sorted(f'{read.root} {read.step}'.strip() for read in one.reads))}"
                )
            return evaluate(one, *given, **named)

        return count

    Template.evaluate, CompiledCondition.evaluate = counted(before[0]), counted(before[1])  # type: ignore[method-assign]  # they are put back
    try:
        yield evaluated
    finally:
        Template.evaluate, CompiledCondition.evaluate = before  # type: ignore[method-assign]  # as they were


def problems(key: Key, events: Sequence[e.Event], payload: Payload, every: int = 1) -> list[str]:
    """What is wrong with the views of a log, at each event or at one in `every` and the last."""
    moments = [number for number in range(1, len(events) + 1) if number == len(events) or type(events[number]) not in e.COMMAND_EVENTS]
    found: list[str] = []
    seen: list[ExecutionView] = []
    for position, number in enumerate(moments):
        if position % every and number != len(events):
            continue
        try:
            shown = run_generator(execution_view.view_at_event(key, events, number), payload)
        except NotReplayable as error:
            return [*found, str(error)]
        execution = fold_events(key, events[:number])
        if shown is not None:
            seen.append(shown)
            found += [f"after event {number}: {problem}" for problem in _of_one(shown, execution)]
    return found + [problem for before, after in pairwise(seen) for problem in _of_two(before, after, events)]


def _of_one(shown: ExecutionView, execution: Execution) -> Iterator[str]:
    steps = {step.path: step for step in shown.steps}
    if len(steps) != len(shown.steps):
        yield "a path is shown twice"
    nodes = {node.id for node in shown.ir.nodes}
    yield from _of_operations(shown, execution)
    is_over = execution.ended is not None
    for step in shown.steps:
        is_open = step.settled_at_s is None
        if is_open != (step.state in MOST_ACTIVE):
            yield f"{step.path} is {step.state} and {'open' if is_open else 'settled'}"
        if is_open and is_over:
            yield f"{step.path} is {step.state}, and the execution has ended"
        if step.settled_at_s is not None and step.settled_at_s < step.opened_at_s:
            yield f"{step.path} has ended before it began"
        if (step.state == "failed") != (step.error is not None) and step.state in ("failed", "completed", "skipped"):
            yield f"{step.path} is {step.state}, and its error is {step.error}"
    open_steps = {step.path for step in shown.steps if step.settled_at_s is None}
    if not set(shown.tokens.open) <= open_steps:
        yield f"tokens are at {set(shown.tokens.open) - open_steps}, which are not open"
    of_nodes = [step for step in shown.steps if (last := parse_path(step.path)[-1]) and isinstance(last, tuple) and last[1] > 0 and last[0] in nodes]
    for id in nodes:
        passages = [step.state for step in of_nodes if _last(step.path) == id and parse_path(step.path)[0] != UNDO]
        state = shown.states.get(id)
        if state in (None, "not_taken") and passages:
            yield f"{id} is {state}, and it is shown as {passages}"
        if state not in (None, "not_taken") and state not in passages:
            yield f"{id} is {state}, and it is shown as {passages}"
        if any(one in MOST_ACTIVE for one in passages) and state not in MOST_ACTIVE:
            yield f"{id} is open, and its state is {state}"
        if is_over and (state is None or state in MOST_ACTIVE):
            yield f"{id} is {state}, and the execution has ended"
    if is_over and (shown.tokens.counter, shown.tokens.approvals, shown.tokens.open) != (0, 0, []):
        yield f"the execution has ended with {shown.tokens.counter} tokens and {shown.tokens.approvals} approvals at {shown.tokens.open}"
    yield from _of_picture(shown)


def _of_operations(shown: ExecutionView, execution: Execution) -> Iterator[str]:
    """All that the fold knows is shown, and stands in it as it is shown."""
    steps = {step.path: step for step in shown.steps}
    for path, pending in execution.open.items():
        step = steps.get(path_text(path))
        if step is None or step.settled_at_s is not None:
            yield f"{path_text(path)} is open, and is shown as {step and step.state}"
        for end in range(1, len(path)):
            around = steps.get(path_text(path[:end]))
            if around is not None and around.settled_at_s is not None and _is_own(path[:end]) and pending.grace_until_s is None:
                yield f"{path_text(path)} is open, and {around.path} around it is {around.state}"
    for path, known in execution.settled.items():
        if path not in execution.retained and isinstance(known.op, CallOperation) and path_text(path) not in steps:
            yield f"{path_text(path)} was called, and is not shown"
        if (
            _is_own(path)
            and not isinstance(known.op, KeepOperation | SendOperation)
            and path_text(path) not in steps
            and not is_in_trimmed_iteration(path, execution.trimmed)
        ):
            yield f"{path_text(path)} is settled, and is not shown"
    asked = [path for path, pending in execution.open.items() if awaits_approval(pending.op)]
    if execution.ended is None and not execution.undoing and len(asked) != shown.tokens.approvals:
        yield f"{len(asked)} approvals are asked for, and {shown.tokens.approvals} counted"


def _of_picture(shown: ExecutionView) -> Iterator[str]:
    """The picture has for each node its sign and the word of its state."""
    lines = graph_drawing.text_drawing(shown_graph(shown.ir, shown.states, shown.taken), 400).splitlines()
    for node in shown.ir.nodes if len(shown.ir.nodes) <= 100 else ():
        state = shown.states.get(node.id, "not_reached")
        word = "" if state in ("completed", "not_reached") else f"({STATE_WORDS.get(state, state)})"
        if not any(f"{STATE_SIGNS[state]} {node.id}" in line and line.endswith(word) for line in lines):
            yield f"{node.id} is {state}, and is not drawn so"


def _of_two(before: ExecutionView, after: ExecutionView, events: Sequence[e.Event]) -> Iterator[str]:
    """What has settled stays as it is, but for what is run again or forgotten, and for what a patch or an undo goes on with."""
    between = events[before.number : after.number]
    if any(isinstance(event, e.ReopenedEvent | e.TrimmedEvent | e.IterationResumedEvent | e.UndoingEvent) for event in between):
        return
    steps = {step.path: step for step in after.steps}
    for step in before.steps:
        now = steps.get(step.path)
        if now is None and not (step.settled_at_s is None and _is_note(parse_path(step.path))):
            yield f"{step.path} is {step.state} after event {before.number}, and gone after {after.number}"
        elif (
            now is not None
            and step.settled_at_s is not None
            and now.state != step.state
            and parse_path(step.path)[0] != UNDO
            and _is_own(parse_path(step.path))
        ):
            yield f"{step.path} is {step.state} after event {before.number}, and {now.state} after {after.number}"


def _is_own(path: Path) -> bool:
    """Whether an operation is a node's own, and not a note beside it or something of an item or a turn."""
    return path[0] != UNDO and all(isinstance(segment, int) or segment[1] > 0 for segment in path) and isinstance(path[-1], tuple)


def _is_note(path: Path) -> bool:
    """Whether an operation stands beside a node, and is not shown any more once it has settled."""
    return isinstance(path[-1], tuple) and path[-1][1] == 0


def _last(shown: str) -> str:
    segment = parse_path(shown)[-1]
    return segment[0] if isinstance(segment, tuple) else ""
