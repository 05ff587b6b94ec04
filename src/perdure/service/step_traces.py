"""Reads the steps of an execution with all that is known of each: its attempts, its input and its output."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from perdure.core import values, views
from perdure.core.errors import ErrorInfo, Undecodable
from perdure.core.execution import Execution
from perdure.core.operation_state import PendingOperation, SettledOperation
from perdure.core.operations import CallOperation, SpawnOperation, Success
from perdure.core.paths import UNDO, Key, Path, parse_path
from perdure.core.step_attempts import StepAttempt, step_attempts
from perdure.core.undo_plan import UndoArguments
from perdure.core.values import ENCODED_NONE, Value
from perdure.core.views import StepState, StepView
from perdure.definitions.graph.execution_view import ExecutionView
from perdure.service.dead_letter_groups import step_name
from perdure.service.definition_views import view_of_past
from perdure.service.past_states import read_past
from perdure.service.store_access import StoreAccess
from perdure.service.wire_types import EncodedInput, WorkflowInput, decoded_input

StepSeedStatus = Literal["pending", "running", "waiting_approval", "completed", "failed", "cancelled", "skipped"]

SEED_STATUSES: dict[StepState, StepSeedStatus] = {
    "waiting": "running",
    "waiting_approval": "waiting_approval",
    "performing": "running",
    "retrying": "running",
    "interrupted": "running",
    "parked": "running",
    "ending": "running",
    "completed": "completed",
    "skipped": "skipped",
    "failed": "failed",
    "abandoned": "failed",
    "cancelled": "cancelled",
}


class StepTrace(msgspec.Struct, frozen=True, kw_only=True):
    """One operation of an execution, numbered from 1 in the order of opening.

    `step_id` is the name of the step that it belongs to. `state` is one of those of a `StepView`, and `seed_status` says the same in the words of systems that
    know seven. A call has `attempts`; calls and children have an `input`, and what has completed has an `output`, a loop or block of a definition that of its
    last passage. A large one is given as the name of its blob.
    """

    number: int
    path: str
    step_id: str
    kind: str
    target: str
    state: StepState
    seed_status: StepSeedStatus
    attempt: int
    started_at_s: float
    ended_at_s: float | None
    due_at_s: float | None
    port: str
    error: ErrorInfo | None
    input: EncodedInput | None
    output: Value | None
    attempts: list[StepAttempt]

    def decoded_input(self) -> WorkflowInput | None:
        """The arguments of a call or a child; None for anything else."""
        return None if self.input is None else decoded_input(self.input, f"the input of {self.path}")

    def decoded_output(self) -> Any:
        """The output as a value; a large one is given as its blob, by name and size."""
        return values.decode(self.output, Any, f"the output of {self.path}") if isinstance(self.output, bytes) else self.output


class StepPage(msgspec.Struct, frozen=True):
    """A page of steps. `next` is the `after` of the next page; None if this was the last."""

    items: list[StepTrace]
    next: int | None


async def read_steps(access: StoreAccess, key: Key, at: int | None, after: int, limit: int) -> StepPage:
    """The steps of an execution, now or after event `at` of its log: up to `limit` behind number `after`.

    Raises:
        NotFound: there is no such execution.
        BadValue: its log has no such event.
        NotReplayable: it runs a definition, and its log does not replay over that.
    """
    if at is None:
        async with access.tails.use(key) as tail:
            if "steps" not in tail.cached:
                view = await tail.view()
                tail.cached["steps"] = _shown_steps(tail.execution, view)
            return await _page(access, tail.execution, tail.attempts, tail.cached["steps"], after, limit)
    past = await read_past(access.store, key, at)
    execution = Execution(key, past.head.root)
    attempts = step_attempts(execution, past.seen)
    view = None if execution.definition is None else await view_of_past(access.store, past)
    return await _page(access, execution, attempts, _shown_steps(execution, view), after, limit)


class _ShownSteps(NamedTuple):
    """The steps of an execution, and the results by path of those that have no operation of their own: the last passages of loops and blocks."""

    steps: Sequence[StepView]
    results: Mapping[Path, Any]


def _shown_steps(execution: Execution, view: ExecutionView | None) -> _ShownSteps:
    if execution.definition is None:
        return _ShownSteps(views.step_views(execution), {})
    return _ShownSteps([], {}) if view is None else _ShownSteps(view.steps, _results(view))


def _results(view: ExecutionView) -> dict[Path, Any]:
    last: dict[str, Path] = {}
    for step in view.steps:
        if step.state == "completed" and isinstance((segment := (path := parse_path(step.path))[-1]), tuple):
            last[segment[0]] = path
    return {path: view.tokens.outputs[id] for id, path in last.items() if id in view.tokens.outputs}


async def _page(access: StoreAccess, execution: Execution, attempts: dict[Path, list[StepAttempt]], shown: _ShownSteps, after: int, limit: int) -> StepPage:
    numbered = enumerate(shown.steps[after : after + limit], after + 1)
    page = [await _trace(access, number, step, execution, attempts, shown.results) for number, step in numbered]
    return StepPage(page, after + limit if len(shown.steps) > after + limit else None)


async def _trace(
    access: StoreAccess, number: int, step: StepView, execution: Execution, attempts: dict[Path, list[StepAttempt]], results: Mapping[Path, Any]
) -> StepTrace:
    path = parse_path(step.path)
    known = execution.open.get(path) or execution.settled.get(path)
    return StepTrace(
        number=number,
        path=step.path,
        step_id=step_name(step.path),
        kind=step.kind,
        target=step.target,
        state=step.state,
        seed_status=SEED_STATUSES[step.state],
        attempt=max(step.attempt, len(attempts.get(path, ()))),
        started_at_s=step.opened_at_s,
        ended_at_s=step.settled_at_s,
        due_at_s=step.due_at_s,
        port=step.port,
        error=step.error,
        input=await _input(access, path, known),
        output=values.encode(results[path], f"the result of {step.path}") if known is None and path in results else _output(known),
        attempts=[*attempts.get(path, ())],
    )


async def _input(access: StoreAccess, path: Path, known: PendingOperation | SettledOperation | None) -> bytes | None:
    """The encoded arguments of a call or a child."""
    match None if known is None else known.op:
        case CallOperation(args=raw) | SpawnOperation(input=raw):
            given = await access.payload(raw)
            return await _undo_input(access, given) if path[0] == UNDO else given
    return None


async def _undo_input(access: StoreAccess, given: bytes) -> bytes:
    """The arguments of an undo handler: the result of its step, followed by the arguments of the step. Those of a tool that undoes are its own."""
    try:
        undone = values.decode(given, UndoArguments, "what is to be undone")
    except Undecodable:
        return given
    what = "the arguments of what is to be undone"
    args, kwargs = values.decode(await access.payload(undone.args), tuple[list[msgspec.Raw], dict[str, msgspec.Raw]], what)
    return values.encode(((msgspec.Raw(await access.payload(undone.result)), *args), kwargs), "the arguments of what undoes")


def _output(known: PendingOperation | SettledOperation | None) -> Value | None:
    if not isinstance(known, SettledOperation):
        return None
    if known.messages:
        bodies = [one.body for one in known.messages]
        return bodies[0] if len(bodies) == 1 else values.encode([values.decode(one, Any, "a message") for one in bodies if isinstance(one, bytes)], "messages")
    return known.outcome.value if isinstance(known.outcome, Success) and known.outcome.value != ENCODED_NONE else None
