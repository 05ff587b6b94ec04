"""The place that a replay has reached in a log: the commands behind the external event that the program is fed, and what happens next.

A program issues the recorded commands again, one by one. When it has issued all of them and waits for an operation that settles next in the log, it need not
be suspended and fed: `settle_ahead` folds the settlement and places the cursor behind it, and the program continues where it is. Only a program that knows
that nothing else of it could run in between may ask for that.
"""

from collections.abc import Sequence

from perdure.core import events as e
from perdure.core.execution import Execution
from perdure.core.operation_state import SettledOperation
from perdure.core.operations import KeepOperation, Operation, Success, is_same_operation
from perdure.core.paths import Path
from perdure.core.values import Blob


class ReplayCursor:
    """A place in the log `events`, which are folded into `execution` as the cursor passes them. `may_settle_ahead` is set by the replay.

    The cursor stands on one external event, at `position`. Its commands follow up to `_end`; the program has issued those before `_issued` again, and
    those before `_folded` are folded.
    """

    __slots__ = ("_end", "_events", "_execution", "_folded", "_issued", "_kinds", "may_settle_ahead", "position")

    def __init__(self, execution: Execution, events: Sequence[e.Event]) -> None:
        self._execution = execution
        self._events = events
        self._kinds = [type(event) for event in events]
        self._end = self._folded = self._issued = 0
        self.position = -1
        self.may_settle_ahead = False

    def advance(self) -> e.Event | None:
        """Folds the other commands of the present event and the next event, on which the cursor then stands; None at the end of the log."""
        position = self._end
        following = min(position + 1, len(self._events))
        self._execution.apply_all(self._events, self._folded, following)
        self._issued = self._folded = self._end = following
        while self._end < len(self._events) and self._kinds[self._end] in e.COMMAND_EVENTS:
            self._end += 1
        if position == following:
            self._events, self._kinds = (), []  # a program keeps its cursor until it is fed live, and must not keep the log in memory
            self._issued = self._folded = self._end = 0
            return None
        self.position = position
        return self._events[position]

    @property
    def group(self) -> Sequence[e.Event]:
        """The commands that follow the present event."""
        return self._events[self.position + 1 : self._end]

    @property
    def is_fresh(self) -> bool:
        """Whether the program has issued none of the commands of the present event yet."""
        return self._issued == self.position + 1

    def next(self) -> e.Event | None:
        """Returns the command that the program has to issue next, if one is left. Those that trim loops are skipped: the log alone decides on them."""
        while self._issued < self._end:
            event = self._events[self._issued]
            if type(event) is not e.TrimmedEvent:
                return event
            self._issued += 1
        return None

    def take(self) -> None:
        """Records that the program has issued the next command again."""
        self._issued += 1

    def open_again(self, path: Path, op: Operation) -> e.OpenedEvent | None:
        """Records that the program opens an operation again, if that is the next command; returns the command, or None if it is another one."""
        event = self._events[self._issued] if self._issued < self._end else None
        if type(event) is e.TrimmedEvent:
            event = self.next()
        if type(event) is not e.OpenedEvent or event.path != path or not (event.op is op or is_same_operation(event.op, op)):
            return None
        self._issued += 1
        return event

    def left(self) -> Sequence[e.Event]:
        """Returns the commands that the program has not issued again."""
        return self._events[self._issued : self._end]

    def settle_ahead(self, path: Path) -> SettledOperation | None:
        """Moves on to the next event if it settles the operation at `path`, and returns how; None if anything else comes first.

        It also returns None if the event or a command behind it has a value in a blob, which the program would have to be fed with.
        """
        position = self._end
        if position == len(self._events) or not self.may_settle_ahead or (self._issued < position and self.next() is not None):
            return None
        event = self._events[position]
        if type(event) is not e.SettledEvent or event.path != path or (type(event.outcome) is Success and type(event.outcome.value) is Blob):
            return None
        end = position + 1
        while end < len(self._events) and self._kinds[end] in e.COMMAND_EVENTS:
            asked = self._events[end]
            if type(asked) is e.OpenedEvent and type(asked.op) is KeepOperation and type(asked.op.value) is Blob:
                return None
            end += 1
        self._execution.apply_all(self._events, self._folded, position + 1)
        self.position, self._end = position, end
        self._issued = self._folded = position + 1
        return self._execution.settled[path]
