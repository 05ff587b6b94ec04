"""Checks of the view of an execution of a definition: at every event of its log, all that is shown says the same, and the same as the log folded."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from perdure.core import events as e
from perdure.core.errors import NotReplayable
from perdure.core.execution import Execution
from perdure.core.folding import fold
from perdure.core.ops import Call, Keep, Send, asks_a_person
from perdure.core.paths import UNDO, Key, Path, parse, text
from perdure.core.turns import is_forgotten
from perdure.programs.graph import draw, view
from perdure.programs.graph.picture import SIGNS, WORDS
from perdure.programs.graph.view import MOST_ACTIVE, View
from perdure.testing.definitions.told import Payload
from perdure.testing.replays import driven


def problems(key: Key, events: Sequence[e.Event], payload: Payload, every: int = 1) -> list[str]:
    """What is wrong with the views of a log, at each event or at one in `every` and the last."""
    moments = [number for number in range(1, len(events) + 1) if number == len(events) or type(events[number]) not in e.ASKED]
    found: list[str] = []
    seen: list[View] = []
    for position, number in enumerate(moments):
        if position % every and number != len(events):
            continue
        try:
            shown = driven(view.at(key, events, number), payload)
        except NotReplayable as error:
            return [*found, str(error)]
        execution = fold(key, events[:number])
        if shown is not None:
            seen.append(shown)
            found += [f"after event {number}: {problem}" for problem in _of_one(shown, execution)]
    return found + [problem for before, after in pairwise(seen) for problem in _of_two(before, after, events)]


def _of_one(shown: View, execution: Execution) -> Iterator[str]:
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
    of_nodes = [step for step in shown.steps if (last := parse(step.path)[-1]) and isinstance(last, tuple) and last[1] > 0 and last[0] in nodes]
    for id in nodes:
        passages = [step.state for step in of_nodes if _last(step.path) == id and parse(step.path)[0] != UNDO]
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


def _of_operations(shown: View, execution: Execution) -> Iterator[str]:
    """All that the fold knows is shown, and stands in it as it is shown."""
    steps = {step.path: step for step in shown.steps}
    for path, promise in execution.open.items():
        step = steps.get(text(path))
        if step is None or step.settled_at_s is not None:
            yield f"{text(path)} is open, and is shown as {step and step.state}"
        for end in range(1, len(path)):
            around = steps.get(text(path[:end]))
            if around is not None and around.settled_at_s is not None and _is_own(path[:end]) and promise.grace_until_s is None:
                yield f"{text(path)} is open, and {around.path} around it is {around.state}"
    for path, known in execution.settled.items():
        if path not in execution.retained and isinstance(known.op, Call) and text(path) not in steps:
            yield f"{text(path)} was called, and is not shown"
        if _is_own(path) and not isinstance(known.op, Keep | Send) and text(path) not in steps and not is_forgotten(path, execution.trimmed):
            yield f"{text(path)} is settled, and is not shown"
    asked = [path for path, promise in execution.open.items() if asks_a_person(promise.op)]
    if execution.ended is None and not execution.undoing and len(asked) != shown.tokens.approvals:
        yield f"{len(asked)} approvals are asked for, and {shown.tokens.approvals} counted"


def _of_picture(shown: View) -> Iterator[str]:
    """The picture has for each node its sign and the word of its state."""
    lines = draw.text(shown.ir, shown.states, shown.taken, 400).splitlines()
    for node in shown.ir.nodes if len(shown.ir.nodes) <= 100 else ():
        state = shown.states.get(node.id, "not_reached")
        word = "" if state in ("completed", "not_reached") else f"({WORDS.get(state, state)})"
        if not any(f"{SIGNS[state]} {node.id}" in line and line.endswith(word) for line in lines):
            yield f"{node.id} is {state}, and is not drawn so"


def _of_two(before: View, after: View, events: Sequence[e.Event]) -> Iterator[str]:
    """What has settled stays as it is, but for what is run again or forgotten, and for what a patch or an undo goes on with."""
    between = events[before.number : after.number]
    if any(isinstance(event, e.Reopened | e.Trimmed | e.Turned | e.Undoing) for event in between):
        return
    steps = {step.path: step for step in after.steps}
    for step in before.steps:
        now = steps.get(step.path)
        if now is None and not (step.settled_at_s is None and _is_note(parse(step.path))):
            yield f"{step.path} is {step.state} after event {before.number}, and gone after {after.number}"
        elif now is not None and step.settled_at_s is not None and now.state != step.state and parse(step.path)[0] != UNDO and _is_own(parse(step.path)):
            yield f"{step.path} is {step.state} after event {before.number}, and {now.state} after {after.number}"


def _is_own(path: Path) -> bool:
    """Whether an operation is a node's own, and not a note beside it or something of an item or a turn."""
    return path[0] != UNDO and all(isinstance(segment, int) or segment[1] > 0 for segment in path) and isinstance(path[-1], tuple)


def _is_note(path: Path) -> bool:
    """Whether an operation stands beside a node, and is not shown any more once it has settled."""
    return isinstance(path[-1], tuple) and path[-1][1] == 0


def _last(shown: str) -> str:
    segment = parse(shown)[-1]
    return segment[0] if isinstance(segment, tuple) else ""
