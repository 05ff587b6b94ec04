"""What the log of an execution of a definition says, as plain facts."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from perdure.code.approval_requests import ApprovalVerdict
from perdure.core import events as e
from perdure.core import values
from perdure.core.execution import Execution
from perdure.core.operation_state import SettledOperation
from perdure.core.operations import CallOperation, Failure, KeepOperation, ReceiveOperation, SendOperation, SleepOperation, SpawnOperation, Success
from perdure.core.paths import UNDO, Key, Path
from perdure.core.values import Value
from tests.proof.definitions.facts import Facts, Json, Place, Ran, Undone
from tests.proof.definitions.shape import Step, inside, shaped

STANDS_IN = ("on_error", 0)
"""What stands in a path before the steps that stand in for one that has failed."""

Payload = Callable[[Value], bytes]
"""The bytes of a value, wherever they are kept."""


class LogFacts:
    """What all events of an execution of `definition` say. Tries that were interrupted are not counted, and what was in flight at the end is left out."""

    def __init__(self, key: Key, definition: dict[str, Json], events: Iterable[e.Event], payload: Payload) -> None:
        self._events = tuple(events)
        self._payload = payload
        self._interrupted = Counter(_interrupted(self._events))
        self._settled: dict[Path, SettledOperation] = {}
        self._taken_back = {event.path for event in self._events if isinstance(event, e.DroppedEvent)}
        self._execution = Execution(key)
        for event in self._events:
            self._execution.apply(event)
            path = event.path if isinstance(event, e.OpenedEvent | e.SettledEvent | e.ReceivedEvent) else None
            if path is not None and (known := self._execution.settled.get(path)) is not None:
                self._settled[path] = known  # which loops forget
        self._steps: dict[str, Step] = {one["id"]: one for step in definition["steps"] for one in (step, *inside(step))}
        self._heads = {cycle.head for cycle in shaped(definition["steps"], definition.get("order", "refs")).cycles}

    def facts(self) -> Facts:
        """All of it."""
        ended = self._execution.ended
        assert ended is not None
        result = self._plain(ended.outcome.value) if isinstance(ended.outcome, Success) else None
        return Facts(ended.status, result, "", list(self._ran()), list(self._undone()), list(self._emitted()))

    def _ran(self) -> Iterator[Ran]:
        for path, known in self._settled.items():
            if path[0] == UNDO or any(isinstance(segment, tuple) and segment[1] == 0 and segment != STANDS_IN for segment in path):
                continue
            step_name, place = self._place(path)
            match known.op:
                case CallOperation() if path in self._taken_back:
                    continue  # whether it still came to something depends on when its execution ended
                case CallOperation():
                    yield self._called(step_name, place, known, known.attempt - self._interrupted[path])
                case SpawnOperation():
                    yield self._decided(step_name, place, known)
                case ReceiveOperation():
                    late = isinstance(known.outcome, Failure)
                    bodies = [self._plain(letter.body) for letter in known.messages]
                    yield Ran(step_name, place, None, "timeout") if late else Ran(step_name, place, bodies[0] if known.op.limit == 1 else bodies)
                case SleepOperation() | SendOperation():
                    yield Ran(step_name, place)
                case KeepOperation() if "emit" in self._steps[step_name] and known.op.port != "skipped":
                    yield Ran(step_name, place)

    def _called(self, step_name: str, place: Place, known: SettledOperation, tries: int) -> Ran:
        if isinstance(known.outcome, Failure):
            return Ran(step_name, place, None, known.outcome.kind, tries)
        return Ran(step_name, place, self._plain(known.outcome.value) if isinstance(known.outcome, Success) else None, "", tries)

    def _decided(self, step_name: str, place: Place, known: SettledOperation) -> Ran:
        """An approval: whether it was approved, or time was over."""
        assert isinstance(known.outcome, Success)
        verdict: ApprovalVerdict = values.decode(self._payload(known.outcome.value), ApprovalVerdict, "a verdict")
        if verdict.expired and self._steps[step_name]["approve"].get("on_timeout", "fail") == "fail":
            return Ran(step_name, place, None, "timeout")
        return Ran(step_name, place, {"approved": verdict.approved, "expired": verdict.expired})

    def _emitted(self) -> Iterator[Json]:
        for event in self._events:
            if isinstance(event, e.OpenedEvent) and isinstance(event.op, KeepOperation) and event.op.role == "stream":
                yield self._plain(event.op.value)

    def _undone(self) -> Iterator[Undone]:
        for event in self._events:
            if isinstance(event, e.OpenedEvent) and event.path[0] == UNDO and isinstance(event.op, CallOperation):
                path = event.path[1:]
                if path in self._taken_back:
                    continue
                outcome = self._settled[path].outcome
                step_name, place = self._place(path)
                undone = self._settled.get(event.path)
                failed = undone is not None and isinstance(undone.outcome, Failure)
                yield Undone(step_name, place, self._plain(outcome.value) if isinstance(outcome, Success) else None, failed)

    def _plain(self, value: Any) -> Json:
        return msgspec.msgpack.decode(self._payload(value)) if value else None

    def _place(self, path: Path) -> tuple[str, Place]:
        """The step that an operation is of, and the frames around it: a number behind a head is a turn of its cycle, else an item, else a turn of the step."""
        place: list[str] = []
        stays: set[str] = set()
        step_name, numbers = "", 0
        for segment in path:
            if segment == STANDS_IN:
                continue
            if isinstance(segment, tuple):
                step_name, numbers = segment[0], 0
                turning = step_name in self._heads and step_name not in stays
                continue
            step = self._steps[step_name]
            if turning:
                stays.add(step_name)
                place.append(f"{step_name}~{segment}")
                turning = False
            else:
                place.append(f"{step_name}[{segment}]" if "each" in step and not numbers else f"{step_name}~{segment}")
                numbers += 1
        return step_name, tuple(place)


def _interrupted(events: Iterable[e.Event]) -> Iterator[Path]:
    """The paths of the tries that were interrupted, each as often as it was."""
    for event in events:
        if isinstance(event, e.InterruptedEvent) or (isinstance(event, e.ParkedEvent) and event.reason == "interrupted"):
            yield event.path
