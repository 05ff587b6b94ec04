"""The attempts of calls, each with its times and its error, folded from a log."""

from collections.abc import Iterable
from typing import Literal

import msgspec

from perdure.core import events as e
from perdure.core.errors import ErrorInfo
from perdure.core.execution import Execution
from perdure.core.operation_state import PendingOperation
from perdure.core.operations import CallOperation, Failure, Outcome
from perdure.core.paths import Path

AttemptState = Literal["performing", "completed", "failed", "interrupted", "cancelled", "abandoned"]


class StepAttempt(msgspec.Struct, frozen=True, omit_defaults=True):
    """One attempt of a call. Attempts are numbered from 1, those after a retry of the execution included.

    `started_at_s` is when it was handed over: to the holder `by`, or to its queue (None). An attempt of a process that died is ``interrupted``; one in flight
    whose result was no longer needed is ``abandoned``, since its outcome is not known. After a failure, the next attempt is due at `next_at_s`.
    """

    number: int
    state: AttemptState
    started_at_s: float
    ended_at_s: float | None = None
    by: str | None = None
    error: ErrorInfo | None = None
    next_at_s: float | None = None


def step_attempts(execution: Execution, events: Iterable[e.Event]) -> dict[Path, list[StepAttempt]]:
    """Folds events into a fresh `execution`; returns the attempts of its calls by path, those of forgotten iterations included."""
    recorder = AttemptRecorder()
    for event in events:
        recorder.record(execution, event)
        execution.apply(event)
    return recorder.attempts


class AttemptRecorder:
    """Records the attempts of calls by path, from events that are about to be folded."""

    def __init__(self) -> None:
        self.attempts: dict[Path, list[StepAttempt]] = {}

    def record(self, execution: Execution, event: e.Event) -> None:
        """Records what an event says, which is about to be folded into `execution`."""
        match event:
            case e.OpenedEvent(path, CallOperation() as op, by) if not execution.recalled_results.recalls(path, op):
                self._begin(path, execution.now_s, by)
            case e.AttemptStartedEvent(path, _, at_s, by):
                self._begin(path, at_s, by)
            case e.RetryingEvent(path, _, _, error, due_at_s, at_s):
                self._end(path, "failed", at_s, error, due_at_s)
            case e.InterruptedEvent(path, _, due_at_s, at_s):
                self._end(path, "interrupted", at_s, None, due_at_s)
            case e.SettledEvent(path, outcome, at_s):
                self._settle(path, outcome, at_s)
            case e.DroppedEvent(path, None, begun) if path in execution.open:
                self._drop(execution.open[path], execution.now_s, begun)
            case e.EndedEvent(at_s=at_s):
                for pending in execution.open.values():
                    self._drop(pending, at_s)

    def _begin(self, path: Path, at_s: float, by: str | None) -> None:
        known = self.attempts.setdefault(path, [])
        known.append(StepAttempt(len(known) + 1, "performing", at_s, by=by))

    def _end(self, path: Path, state: AttemptState, at_s: float, error: ErrorInfo | None = None, next_at_s: float | None = None) -> None:
        """Ends the last attempt of a call, unless it has ended: an operation may settle between two attempts."""
        known = self.attempts.get(path)
        if known and known[-1].ended_at_s is None:
            known[-1] = msgspec.structs.replace(known[-1], state=state, ended_at_s=at_s, error=error, next_at_s=next_at_s)

    def _settle(self, path: Path, outcome: Outcome, at_s: float) -> None:
        if not isinstance(outcome, Failure):
            self._end(path, "completed", at_s)
        elif outcome.kind in ("cancelled", "abandoned"):
            self._end(path, "cancelled" if outcome.kind == "cancelled" else "abandoned", at_s, outcome.error)
        else:
            self._end(path, "failed", at_s, outcome.error)

    def _drop(self, pending: PendingOperation, at_s: float, begun: bool = True) -> None:
        if isinstance(pending.op, CallOperation):
            self._end(pending.path, "abandoned" if begun and pending.in_flight else "cancelled", at_s)
