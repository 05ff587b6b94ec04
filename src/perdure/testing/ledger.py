"""The ledger of steps and of what undoes them, as they began in the world, against the log of their execution.

What the log says of a step once its execution has ended: that it has succeeded, that it failed, that it was abandoned in flight, or that it never began.
Whatever began in the world is one of the first three. What is to be undone of them follows, and that was undone, the last first, and nothing else was.
"""

from collections.abc import Callable, Iterator

from perdure.core import events as e
from perdure.core.execution import Execution
from perdure.core.ops import Call, Err, Ok, Outcome
from perdure.core.paths import UNDO, Path, text


class Ledger:
    """What the log of one execution says of its steps, in the life that it is in; forgotten turns of loops are kept."""

    def __init__(self) -> None:
        self._calls: dict[Path, Call] = {}
        self._outcomes: dict[Path, Outcome | None] = {}
        self._was_parked = False

    def note(self, execution: Execution, event: e.Event) -> None:
        """Take down an event, already folded into `execution`."""
        match event:
            case e.Opened(path, Call() as op):
                self._calls[path] = op
            case e.Settled(path) | e.Recalled(path) | e.Dropped(path):
                self._settle(execution, path)
            case e.Parked():
                self._was_parked = True
            case e.Resumed():
                self._was_parked = False
            case e.Ended():
                for path in self._calls:
                    if path not in self._outcomes:
                        self._settle(execution, path)
            case e.Reopened():
                self._calls, self._outcomes, self._was_parked = {}, {}, False

    def _settle(self, execution: Execution, path: Path) -> None:
        if path in self._calls and path in execution.settled:
            self._outcomes[path] = execution.settled[path].outcome

    def differs(self, execution: Execution, undoes: bool, began: Callable[[Path], int], strays: Callable[[Path], int]) -> Iterator[str]:
        """What does not agree, now that it has ended: `began` says how many tries did in the world, `strays` how many of these may have been let loose when
        nobody wanted them any more; `undoes`, whether a failure is undone at all."""
        steps = {path: op for path, op in self._calls.items() if path[0] != UNDO}
        for path in steps:
            if path not in self._outcomes:
                yield f"{text(path)} is neither open nor settled"
            elif began(path) > strays(path) and _is_known_not_to_have_begun(self._outcomes[path]):
                yield f"{text(path)} began, and the log says that it never did"
        if self._was_parked:  # it was ended as it stood, perhaps in the midst of undoing
            return
        wanted = [path for path, outcome in reversed(self._outcomes.items()) if path in steps and _is_to_be_undone(steps[path], outcome)]
        wanted = wanted if _is_undone(execution, undoes) else []
        undone = [path[1:] for path in self._calls if path[0] == UNDO]
        if undone != wanted:
            yield f"undone was {[*map(text, undone)]}, to be undone was {[*map(text, wanted)]}"
        yield from (f"{text(path)} is undone by the log, and was not" for path in undone if not began((UNDO, *path)))


def _is_undone(execution: Execution, undoes: bool) -> bool:
    """Whether all that is to be undone was to be, as the execution ended: not if it has returned, had not begun, or is not to undo."""
    ended, cancelling = execution.ended, execution.cancelling
    if execution.completed is not None:
        return True
    if ended is None or ended.status == "completed":
        return False
    return undoes if cancelling is None else cancelling.undo


def _is_to_be_undone(op: Call, outcome: Outcome | None) -> bool:
    if not op.undo or isinstance(outcome, Ok):
        return bool(op.undo)
    return op.undo == "in_doubt" and not _is_known_not_to_have_begun(outcome)


def _is_known_not_to_have_begun(outcome: Outcome | None) -> bool:
    return isinstance(outcome, Err) and outcome.kind == "cancelled" and not outcome.attempts
