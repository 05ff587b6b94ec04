"""What an execution has recorded, as answers to what another version of its definition asks for.

A call or a child is answered by the record of the same step with the same input, each record once; an approval by that of the same step, whatever it asks
now. An answer arrives as long after its question as it did when it was recorded.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from perdure.core import error_codes, values
from perdure.core import events as e
from perdure.core.errors import ErrorInfo
from perdure.core.execution import Execution
from perdure.core.operation_state import SettledOperation
from perdure.core.operations import CallOperation, Failure, Operation, Outcome, SpawnOperation, Success, awaits_approval
from perdure.core.paths import UNDO, Path
from perdure.core.values import Blob, Value
from perdure.definitions.graph.ir import IR, GraphNode
from perdure.definitions.graph.requirements import AGENT_VERBS
from perdure.runtime.blob_loader import BlobCache

NEVER_ANSWERED = frozenset(("abandoned", "cancelled"))
"""The kinds of failures that say that nothing waited for the answer any more."""


class StepPlace(NamedTuple):
    """The place of an operation: the innermost step, whether it is undone, and what the operation is beside the step (empty: its own)."""

    step: str
    undo: bool
    beside: Path


class RecordedAnswer(NamedTuple):
    """An operation that has settled: where, how, how long it took, and how many attempts began."""

    path: Path
    op: CallOperation | SpawnOperation
    outcome: Outcome
    took_s: float
    attempts: int

    @property
    def is_lost(self) -> bool:
        """Is true if nothing waited for it any more, so that its outcome says nothing of what it would have answered."""
        return isinstance(self.outcome, Failure) and self.outcome.kind in NEVER_ANSWERED


def place_of(path: Path, steps: Collection[str]) -> StepPlace:
    """The place of an operation among these steps."""
    is_undo = bool(path) and path[0] == UNDO
    for end in range(len(path), 0, -1):
        segment = path[end - 1]
        if isinstance(segment, tuple) and segment[1] > 0 and segment[0] in steps:
            return StepPlace(segment[0], is_undo, tuple(one for one in path[end:] if isinstance(one, tuple)))
    return StepPlace("", is_undo, tuple(one for one in path if isinstance(one, tuple)))


class RecordedAnswers:
    """The answers that one execution has recorded, by the place of each. `before` is the definition that it ran by."""

    def __init__(self, events: Sequence[e.Event], execution: Execution, before: IR, payloads: BlobCache) -> None:
        self._before, self._payloads = before, payloads
        self._nodes = {node.id: node for node in before.nodes}
        self._left: dict[StepPlace, list[RecordedAnswer]] = {}
        for answer in recorded_answers(events, execution):
            self._left.setdefault(place_of(answer.path, self._nodes), []).append(answer)

    @property
    def kinds(self) -> frozenset[str]:
        """The names of the kinds that performed steps of the execution without a queue. A tool and a function are no kinds: a step names them as they are."""
        known = ((self._nodes[place.step].config, one.op) for place, answers in self._left.items() if place.step and not place.undo for one in answers)
        calls = ((config, op.target) for config, op in known if isinstance(op, CallOperation) and not op.queue)
        return frozenset(target for config, target in calls if config != target and not target.startswith("py:"))

    @property
    def targets(self) -> frozenset[str]:
        """The names of all steps that the execution has called."""
        return frozenset(one.op.target for answers in self._left.values() for one in answers if isinstance(one.op, CallOperation))

    @property
    def agent(self) -> str:
        """The name of the workflow of its agents; empty if it had none."""
        agents = {node.id for node in self._before.nodes if node.kind in AGENT_VERBS}
        children = (one.op for place, answers in self._left.items() if place.step in agents for one in answers if isinstance(one.op, SpawnOperation))
        return next((op.workflow for op in children), "")

    async def take(self, place: StepPlace, path: Path, op: CallOperation | SpawnOperation, node: GraphNode | None, after: IR) -> RecordedAnswer | str:
        """Takes the answer to an operation of the other version; or returns why there is none."""
        left = self._left.get(place, [])
        same_target = sorted((one for one in left if _asks_the_same(one.op, op)), key=lambda one: one.path != path)
        answer = await self._fitting(same_target, op)
        if answer is None:
            return "its input differs from what was recorded" if same_target else "it has no recorded result"
        if (why := self._unfit(answer, node, after)) is not None:
            return why
        left.remove(answer)
        return answer

    async def _fitting(self, among: Sequence[RecordedAnswer], op: Operation) -> RecordedAnswer | None:
        """The first of these answers that was given to the same input; to an approval, the first."""
        if awaits_approval(op):
            return next(iter(among), None)
        wanted = await self._input(op)
        for one in among:
            if await self._input(one.op) == wanted:
                return one
        return None

    async def _input(self, op: Operation) -> Any:
        """The input of an operation as data, so that the order of names does not matter."""
        value: Value = op.args if isinstance(op, CallOperation) else op.input if isinstance(op, SpawnOperation) else values.ENCODED_NONE
        raw = await self._payloads.get(value.sha256) if isinstance(value, Blob) else value
        found = msgspec.msgpack.decode(raw)
        if isinstance(op, SpawnOperation) and self.agent and op.workflow == self.agent:
            _forget_version(found)
        return found

    def _unfit(self, answer: RecordedAnswer, node: GraphNode | None, after: IR) -> str | None:
        """Returns why a record says nothing of a step that has other options now; None if it does."""
        known = None if node is None else self._nodes.get(node.id)
        if node is None or known is None or awaits_approval(answer.op):
            return None
        if answer.is_lost:
            return None
        retried = (known.retry or self._before.retry) != (node.retry or after.retry)
        if retried and (isinstance(answer.outcome, Failure) or answer.attempts > 1):
            return "it failed when it was recorded, and is retried in another way now"
        if known.timeout_s != node.timeout_s and node.timeout_s is not None and answer.took_s > node.timeout_s:
            return f"it took {answer.took_s:.3g} s when it was recorded, and has {node.timeout_s:g} s now"
        return None


def recorded_answers(events: Sequence[e.Event], execution: Execution) -> Iterator[RecordedAnswer]:
    """Yields the answers in a log, in the order in which they were asked for.

    The log has more than the state that it folds to: iterations that are forgotten, and what was dropped. What a compaction has removed from the log, and is
    not forgotten, comes from the state. What failed and was retried by somebody counts as it ended.
    """
    found, now_s = dict[int, RecordedAnswer](), 0.0
    opened = dict[Path, tuple[int, CallOperation | SpawnOperation, float, int]]()
    for number, event in enumerate(events):
        now_s = max(now_s, getattr(event, "at_s", now_s))
        match event:
            case e.OpenedEvent(path, CallOperation() | SpawnOperation() as op) if isinstance(op, CallOperation) or op.awaited:
                opened[path] = number, op, now_s, 1
            case e.AttemptStartedEvent(path) if path in opened:
                first, op, at_s, _ = opened[path]
                opened[path] = first, op, at_s, event.attempt
            case e.SettledEvent(path, outcome) if path in opened:
                first, op, at_s, attempts = opened.pop(path)
                found[first] = RecordedAnswer(path, op, outcome, now_s - at_s, attempts)
            case e.DroppedEvent(path, until_s) if path in opened and until_s is None:
                first, op, at_s, attempts = opened.pop(path)
                found[first] = RecordedAnswer(path, op, DROPPED, now_s - at_s, attempts)
            case e.ReopenedEvent():
                found = {first: one for first, one in found.items() if isinstance(one.outcome, Success)}
    known = {one.path for one in found.values()}
    yield from (one for path, settled in execution.settled.items() if path not in known and (one := _answer(path, settled)) is not None)
    yield from (found[first] for first in sorted(found))


DROPPED = Failure("abandoned", 1, ErrorInfo(error_codes.CANCELLED, "nothing waited for it any more"))
"""The outcome of what was dropped."""


def _answer(path: Path, one: SettledOperation) -> RecordedAnswer | None:
    if one.outcome is None or not isinstance(one.op, CallOperation | SpawnOperation) or (isinstance(one.op, SpawnOperation) and not one.op.awaited):
        return None
    return RecordedAnswer(path, one.op, one.outcome, max(one.at_s - one.opened_at_s, 0.0), one.attempt)


def _asks_the_same(recorded: Operation, asked: Operation) -> bool:
    """Whether two operations have the same target: a step and its queue, or a workflow and, of a definition, its version."""
    match recorded, asked:
        case CallOperation(), CallOperation():
            return recorded.target == asked.target
        case SpawnOperation(), SpawnOperation():
            is_other_version = None not in (recorded.definition, asked.definition) and recorded.definition != asked.definition
            return recorded.workflow == asked.workflow and not is_other_version
    return False


def _forget_version(task: Any) -> None:
    """Removes from the task of an agent the version of the definition, which each document declares."""
    for one in _mappings(task):
        if "step" in one and "version" in one:
            del one["version"]


def _mappings(task: Any) -> Iterator[dict[str, Any]]:
    positional = task[0] if isinstance(task, list) and task else []
    yield from (one for one in positional if isinstance(one, dict))
