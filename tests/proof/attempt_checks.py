"""Checks that each attempt which ever began is visible: in the steps, in the public events, and in the dead letter of an execution that failed."""

from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from perdure.core import events as e
from perdure.core import views
from perdure.core.attempt_history import AttemptHistory, RecordedAttempt
from perdure.core.execution import Execution
from perdure.core.loop_iterations import is_in_trimmed_iteration
from perdure.core.paths import UNDO, Key, Path, path_text
from perdure.core.views import PublicEvent, StepView, public_history
from perdure.definitions.graph import execution_view
from perdure.service import dead_letter_groups
from perdure.testing.replay_check import Payload, run_generator

ENDS = {
    "completed": ("step.completed",),
    "failed": ("step.failed", "step.retrying", "step.parked"),
    "interrupted": ("step.failed", "step.retrying", "step.parked"),
    "abandoned": ("step.abandoned",),
}
"""The public events that tell how an attempt ended."""

UNDOING = {"step.completed": "step.undone", "step.failed": "step.undo_failed"}
"""What these are called of an attempt to undo a step; they are about that step."""


def problems(key: Key, rows: Sequence[Sequence[e.Event]], payload: Payload, ran: AbstractSet[tuple[Path, int]] = frozenset()) -> list[str]:
    """Which attempts of a log, given as the events of each commit, are missing from what people are shown of it; and of those that are known to have `ran` in
    this life of the execution, by path and number, which are missing from the log."""
    found = AttemptHistory(key)
    for row in rows:
        for event in row:
            found.apply(event)
    listed, steps = found.listed(), _steps(found.execution, [event for row in rows for event in row], payload)
    of_life = {(one.path, one.number) for one in listed if one.reopened == found.execution.reopened}
    lost = sorted(str(one) for one in ran - of_life if not is_in_trimmed_iteration(one[0], found.execution.trimmed))
    return [
        *(f"{one} ran, and is no attempt of the log" for one in lost),
        *_of_steps(listed, found.execution, steps),
        *_of_events(listed, list(public_history(key, rows))),
        *_of_dead_letter(listed, found.execution),
    ]


def _steps(execution: Execution, events: Sequence[e.Event], payload: Payload) -> Sequence[StepView]:
    shown = None if execution.definition is None else run_generator(execution_view.view_at_event(execution.key, events, len(events)), payload)
    return views.step_views(execution) if shown is None else shown.steps


def _of_steps(listed: Sequence[RecordedAttempt], execution: Execution, steps: Sequence[StepView]) -> Iterator[str]:
    shown = {step.path: step for step in steps}
    last = {one.path: one.number for one in listed if one.reopened == execution.reopened}
    for one in listed:
        if one.reopened != execution.reopened:
            continue
        step = shown.get(path_text(one.path))
        if step is None or step.attempt < one.number:
            yield f"attempt {one.number} of {path_text(one.path)} is not among the steps: {step}"
        elif step.attempt > last[one.path]:
            yield f"{path_text(one.path)} is shown with {step.attempt} tries, of which there were {last[one.path]}"
        elif not one.ending and step.settled_at_s is not None:
            yield f"attempt {one.number} of {path_text(one.path)} is in flight, and its step is {step.state}"


def _of_events(listed: Sequence[RecordedAttempt], events: Sequence[PublicEvent]) -> Iterator[str]:
    started: Counter[object] = Counter((event.subject, event.data["attempt"]) for event in events if event.type == "step.started")
    for one in listed:
        if not started[path_text(one.path), one.number]:
            yield f"no event says that attempt {one.number} of {path_text(one.path)} began"
        started[path_text(one.path), one.number] -= 1
    ended = Counter((event.type, event.subject, event.data.get("attempt")) for event in events)
    for one in listed:
        is_undo = one.path[0] == UNDO
        told = [(UNDOING.get(type, type), one.path[1:] if type in UNDOING else one.path) if is_undo else (type, one.path) for type in ENDS.get(one.ending, ())]
        if one.ending and not any(ended[type, path_text(path), one.number] for type, path in told):
            yield f"attempt {one.number} of {path_text(one.path)} was {one.ending}, and no event says so"


def _of_dead_letter(listed: Sequence[RecordedAttempt], execution: Execution) -> Iterator[str]:
    letter = dead_letter_groups.dead_letter_of(execution)
    if letter is None or not letter.path:
        return
    of_step = [one for one in listed if path_text(one.path) == letter.path and one.reopened == execution.reopened]
    if of_step and of_step[-1].ending in ("", "completed"):
        yield f"the dead letter is about {letter.path}, whose last attempt is {of_step[-1].ending or 'in flight'}"
    if of_step and of_step[-1].number != letter.attempts:
        yield f"the dead letter counts {letter.attempts} tries of {letter.path}, of which there were {of_step[-1].number}"
