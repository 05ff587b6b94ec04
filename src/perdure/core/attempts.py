"""Attempts: every try of a call that ever began, listed from a log.

A try that was given to a queue and taken back before a worker began it is no attempt; neither is a call whose result was known before. What a loop has
forgotten is left out.
"""

from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from perdure.core import events as e
from perdure.core import tries
from perdure.core.errors import ErrorInfo
from perdure.core.execution import Execution
from perdure.core.ops import Call, Err, Outcome, target
from perdure.core.paths import Key, Path
from perdure.core.promise import Promise
from perdure.core.turns import is_forgotten

Ending = Literal["", "completed", "failed", "interrupted", "abandoned"]
"""How an attempt ended. Empty: it is in flight. Interrupted: what performed it is gone; abandoned: nothing waits for it, and its outcome is not known."""


class Attempt(msgspec.Struct, frozen=True):
    """A try of the call at `path`: the `number`-th in this life of the execution, which begins anew with each retry of a failed execution."""

    path: Path
    life: int
    number: int
    target: str
    began_at_s: float
    ended_at_s: float | None = None
    ending: Ending = ""
    error: ErrorInfo | None = None


class Attempts:
    """The attempts of one execution, folded from its events."""

    def __init__(self, key: Key) -> None:
        self.execution = Execution(key)
        self._known: dict[tuple[Path, int, int], Attempt] = {}

    def listed(self) -> list[Attempt]:
        """All attempts, in the order in which they began."""
        return [one for one in self._known.values() if not is_forgotten(one.path, self.execution.trimmed)]

    def apply(self, event: e.Event) -> None:
        """Take one more event."""
        execution = self.execution
        began, ended = list(self._began(event)), list(self._ended(event))
        execution.apply(event)
        for path, number, name in began:
            self._known[path, execution.reopened, number] = Attempt(path, execution.reopened, number, name, execution.now_s)
        for promise, ending, error in ended:
            self._end(promise, ending, error)

    def _began(self, event: e.Event) -> Iterator[tuple[Path, int, str]]:
        match event:
            case e.Opened(path, Call() as op) if not self.execution.memo.recalls(path, op):
                yield path, 1, target(op)
            case e.Tried(path, attempt):
                yield path, attempt, target(self.execution.open[path].op)

    def _ended(self, event: e.Event) -> Iterator[tuple[Promise, Ending | None, ErrorInfo | None]]:
        """The attempts in flight that end with an event, and how: None, if they never began."""
        match event:
            case e.Settled(path, outcome):
                yield self.execution.open[path], *_outcome(outcome)
            case e.Retrying(path, error=error):
                yield self.execution.open[path], "failed", error
            case e.Interrupted(path):
                yield self.execution.open[path], "interrupted", None
            case e.Parked("interrupted", path=path) if path in self.execution.open:
                yield self.execution.open[path], "interrupted", None
            case e.Parked("undo", path=path) if path in self.execution.open:
                yield self.execution.open[path], "failed", None
            case e.Dropped(path, None, begun) if path in self.execution.open:
                yield self._given_up(self.execution.open[path], begun)
            case e.Ended():
                yield from (self._given_up(promise) for promise in self.execution.open.values())

    def _given_up(self, promise: Promise, begun: bool = True) -> tuple[Promise, Ending | None, ErrorInfo | None]:
        return promise, *_outcome(tries.abandoned(promise, begun))

    def _end(self, promise: Promise, ending: Ending | None, error: ErrorInfo | None) -> None:
        place = promise.path, self.execution.reopened, promise.attempt
        before = self._known.get(place)
        if before is None or before.ending:  # no call, or between two tries
            return
        if ending is None:
            del self._known[place]
        else:
            self._known[place] = msgspec.structs.replace(before, ended_at_s=self.execution.now_s, ending=ending, error=error)


def _outcome(outcome: Outcome) -> tuple[Ending | None, ErrorInfo | None]:
    if not isinstance(outcome, Err):
        return "completed", None
    if outcome.kind == "cancelled":
        return None, None
    return "abandoned" if outcome.kind == "abandoned" else "interrupted" if outcome.kind == "interrupted" else "failed", outcome.error


def attempts(key: Key, events: Iterable[e.Event]) -> list[Attempt]:
    """All attempts that a log tells of, in the order in which they began."""
    found = Attempts(key)
    for event in events:
        found.apply(event)
    return found.listed()
