"""Lists every attempt of a call that ever began, from a log.

A task that was taken back before a worker began it is not an attempt; neither is a call that settled with a recalled result. Attempts in forgotten
iterations are left out.
"""

from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from perdure.core import attempt_rules
from perdure.core import events as e
from perdure.core.errors import ErrorInfo
from perdure.core.execution import Execution
from perdure.core.loop_iterations import is_in_trimmed_iteration
from perdure.core.operation_state import PendingOperation
from perdure.core.operations import CallOperation, Failure, Outcome, operation_target
from perdure.core.paths import Key, Path

AttemptEnding = Literal["", "completed", "failed", "interrupted", "abandoned"]
"""How an attempt ended. Empty: it is in flight. Interrupted: its process is gone. Abandoned: its call was dropped, and its outcome is not known."""


class RecordedAttempt(msgspec.Struct, frozen=True):
    """An attempt of the call at `path`: the `number`-th since the execution was `reopened` for the last time."""

    path: Path
    reopened: int
    number: int
    target: str
    began_at_s: float
    ended_at_s: float | None = None
    ending: AttemptEnding = ""
    error: ErrorInfo | None = None


class AttemptHistory:
    """The attempts of one execution, folded from its events."""

    def __init__(self, key: Key) -> None:
        self.execution = Execution(key)
        self._known: dict[tuple[Path, int, int], RecordedAttempt] = {}

    def listed(self) -> list[RecordedAttempt]:
        """Returns all attempts, in the order in which they began."""
        return [one for one in self._known.values() if not is_in_trimmed_iteration(one.path, self.execution.trimmed)]

    def apply(self, event: e.Event) -> None:
        """Folds one more event."""
        execution = self.execution
        began, ended = list(self._began(event)), list(self._ended(event))
        execution.apply(event)
        for path, number, name in began:
            self._known[path, execution.reopened, number] = RecordedAttempt(path, execution.reopened, number, name, execution.now_s)
        for pending, ending, error in ended:
            self._end(pending, ending, error)

    def _began(self, event: e.Event) -> Iterator[tuple[Path, int, str]]:
        match event:
            case e.OpenedEvent(path, CallOperation() as op) if not self.execution.recalled_results.recalls(path, op):
                yield path, 1, operation_target(op)
            case e.AttemptStartedEvent(path, attempt):
                yield path, attempt, operation_target(self.execution.open[path].op)

    def _ended(self, event: e.Event) -> Iterator[tuple[PendingOperation, AttemptEnding | None, ErrorInfo | None]]:
        """Yields the attempts in flight that end with an event, and how (None: the attempt never began)."""
        match event:
            case e.SettledEvent(path, outcome):
                yield self.execution.open[path], *_attempt_ending(outcome)
            case e.RetryingEvent(path, error=error):
                yield self.execution.open[path], "failed", error
            case e.InterruptedEvent(path):
                yield self.execution.open[path], "interrupted", None
            case e.ParkedEvent("interrupted", path=path) if path in self.execution.open:
                yield self.execution.open[path], "interrupted", None
            case e.ParkedEvent("undo", path=path) if path in self.execution.open:
                yield self.execution.open[path], "failed", None
            case e.DroppedEvent(path, None, begun) if path in self.execution.open:
                yield self._given_up(self.execution.open[path], begun)
            case e.EndedEvent():
                yield from (self._given_up(pending) for pending in self.execution.open.values())

    def _given_up(self, pending: PendingOperation, begun: bool = True) -> tuple[PendingOperation, AttemptEnding | None, ErrorInfo | None]:
        return pending, *_attempt_ending(attempt_rules.abandoned_outcome(pending, begun))

    def _end(self, pending: PendingOperation, ending: AttemptEnding | None, error: ErrorInfo | None) -> None:
        place = pending.path, self.execution.reopened, pending.attempt
        before = self._known.get(place)
        if before is None or before.ending:  # not a call, or between two attempts
            return
        if ending is None:
            del self._known[place]
        else:
            self._known[place] = msgspec.structs.replace(before, ended_at_s=self.execution.now_s, ending=ending, error=error)


def _attempt_ending(outcome: Outcome) -> tuple[AttemptEnding | None, ErrorInfo | None]:
    if not isinstance(outcome, Failure):
        return "completed", None
    if outcome.kind == "cancelled":
        return None, None
    return "abandoned" if outcome.kind == "abandoned" else "interrupted" if outcome.kind == "interrupted" else "failed", outcome.error


def attempts_of_log(key: Key, events: Iterable[e.Event]) -> list[RecordedAttempt]:
    """Returns all attempts in a log, in the order in which they began."""
    found = AttemptHistory(key)
    for event in events:
        found.apply(event)
    return found.listed()
