"""The log as a walk sees it: live, what it asks for is written down; on replay it is read, and held against what is asked for again.

Whatever an expression decided stands in it as a note beside what it is about, so a replay evaluates nothing.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from perdure.code.operation_paths import operation_text
from perdure.core import events as e
from perdure.core import limits, values
from perdure.core.error_codes import error_code
from perdure.core.error_text import exception_text, shorten_text
from perdure.core.errors import Diverged, ErrorInfo, ExpressionFailed, ProgrammingError
from perdure.core.mailbox import UnusedMessages, uses_messages
from perdure.core.operation_state import SettledOperation
from perdure.core.operations import Failure as Err
from perdure.core.operations import KeepOperation, Operation, ReceiveOperation, settles_later
from perdure.core.paths import Path, path_text
from perdure.core.program import WARNING_LEVEL, DropCommand, FinishCommand, LogCommand, OpenCommand, ProgramCommand, TrimCommand
from perdure.core.values import ENCODED_NONE, Blob, Value
from perdure.definitions.graph.node_scope import NodeOutcome, Output

FAILED, UNJUDGED, MISSING = ("error", 0), ("condition", 0), ("missing", 0)
"""Where it is noted, beside an operation, that it could not be made, that its condition could not be judged, or that this asks for what is missing."""


class NodeFailure(Exception):  # what an expression or a bound says, on its way to where it is noted
    """A node fails for good, with an error."""

    def __init__(self, info: ErrorInfo, kind: str = "fatal") -> None:
        super().__init__(info.message)
        self.info, self.kind = info, kind


class OperationLog:
    """What one walk asks for, and waits for. `commands` are new; `steps` perform the calls that are open; `asked` counts what was asked for at this event."""

    __slots__ = ("_remembered", "_turns", "_values", "_waiting", "asked", "commands", "receipts", "steps")

    def __init__(self) -> None:
        self.commands: list[ProgramCommand] = []
        self.asked = 0
        self.steps: dict[Path, Any] = {}
        self.receipts = UnusedMessages()
        self._remembered: deque[e.Event] | None = None
        self._values: Mapping[str, bytes] = {}
        self._waiting: dict[Path, Callable[[SettledOperation], None]] = {}
        self._turns: dict[Path, Callable[[e.IterationResumedEvent], None]] = {}

    def begin_event(self, remembered: deque[e.Event] | None, values: Mapping[str, bytes]) -> None:
        """Go on at an event, behind which this is `remembered`; live, nothing is."""
        self._remembered, self._values, self.commands, self.asked = remembered, values, [], 0

    @property
    def payloads(self) -> Mapping[str, bytes]:
        """The payloads of blobs that came with the event, by hash."""
        return self._values

    def clear(self) -> None:
        """Wait for nothing any more."""
        self._waiting.clear()
        self._turns.clear()
        self.steps.clear()
        self.receipts = UnusedMessages()

    def told(self, path: Path, settlement: SettledOperation) -> None:
        """An operation has settled: whoever waits for it is told."""
        self.steps.pop(path, None)
        if isinstance(settlement.op, ReceiveOperation) and settlement.messages:
            self.receipts.receive(path, [message.number for message in settlement.messages], settlement.op.completable)
        elif uses_messages(path, settlement.op):
            self.receipts.use(path)
        told = self._waiting.pop(path, None)
        if told is not None:
            told(settlement)

    def forget(self, path: Path) -> None:
        """Wait no longer for an operation that has settled."""
        self.steps.pop(path, None)
        self._waiting.pop(path, None)

    def turned(self, event: e.IterationResumedEvent) -> None:
        """A compacted log goes on here with a turn of a loop: who waits for that is told."""
        self.receipts.use((*event.path, event.turn))
        told = self._turns.pop(event.path, None)
        if told is not None:
            told(event)

    def wait_for_turn(self, path: Path, told: Callable[[e.IterationResumedEvent], None]) -> None:
        """Have `told` told when the log comes to the turn from which the loop at `path` goes on."""
        self._turns[path] = told

    def trim(self, path: Path, before: int, undo_before: int = 0) -> None:
        """Forget turns of a loop. How far was decided with it, so a replay has nothing to do or compare."""
        if self._remembered is None:
            self.commands.append(TrimCommand(path, before, undo_before))

    # notes

    def judged(self, path: Path, compute: Callable[[], KeepOperation | None]) -> KeepOperation | Err | None:
        """Make a choice, and keep it unless it is the usual one (None); on replay, read it."""
        if self._remembered is not None:
            op = self._upcoming(path)
            if op is None:
                return None
            _ = self.ask(path, op)
            return self._error(op) if isinstance(op, KeepOperation) and op.label == "error" else op if isinstance(op, KeepOperation) else None
        try:
            choice = compute()
        except (ExpressionFailed, ProgrammingError, NodeFailure) as error:
            return self.fails(path, error)
        if choice is not None:
            _ = self.ask(path, choice)
        return choice

    def attempted(self, path: Path, make: Callable[[], Operation], blobs: Callable[[], tuple[tuple[str, bytes], ...]] = tuple) -> Operation | Err:
        """Ask for an operation that `make` makes of expressions; that it could not be made is kept as well."""
        if self._remembered is not None:
            failed = self.judged((*path, FAILED), lambda: None)
            if isinstance(failed, Err):
                return failed
            op = self._upcoming(path)
            return self.ask(path, op if op is not None else KeepOperation(label="nothing of this definition"))
        try:
            op = make()
        except (ExpressionFailed, ProgrammingError, NodeFailure) as error:
            return self.fails((*path, FAILED), error)
        return self.ask(path, op, blobs())

    def fails(self, path: Path, error: Exception) -> Err:
        """Note that something could not be made or judged, and why."""
        info = (
            error.info
            if isinstance(error, NodeFailure)
            else ErrorInfo(error_code(type(error)), shorten_text(exception_text(error), limits.ERROR_MESSAGE_CHARACTERS_MAX))
        )
        op = KeepOperation(values.encode(info, "an error", path), label="error", port=error.kind if isinstance(error, NodeFailure) else "fatal")
        _ = self.ask(path, op)
        return Err(op.port, 1, info)

    def _error(self, op: KeepOperation) -> Err:
        return Err(op.port, 1, values.decode(self.raw(op.value), ErrorInfo, "an error"))

    def log_warning(self, line: str) -> None:
        """Log a line of warning, unless this is a replay."""
        if self._remembered is None:
            self.commands.append(LogCommand(WARNING_LEVEL, line))

    def note_warning(self, path: Path, line: str) -> None:
        """Note a warning, which is a public event of the execution, and log it."""
        line = shorten_text(line, limits.ERROR_MESSAGE_CHARACTERS_MAX)
        _ = self.note(path, KeepOperation(values.encode(line, "a warning"), role="warning"))
        self.log_warning(f"{path_text(path[:-1])}: {line}")

    def skip_warning(self, path: Path) -> None:
        """On replay: go past a warning, if one is noted at `path`."""
        if isinstance(noted := self.upcoming(path), KeepOperation):
            _ = self.note(path, noted)

    # operations

    def ask(self, path: Path, op: Operation, blobs: tuple[tuple[str, bytes], ...] = ()) -> Operation:
        """Ask for an operation; on replay, the one that is remembered here comes back."""
        if not settles_later(op) and uses_messages(path, op):
            self.receipts.use(path)
        self.asked += 1
        if self._remembered is None:
            self.commands.append(OpenCommand(path, op, blobs))
            return op
        event = self._next()
        if type(event) is not e.OpenedEvent or event.path != path or type(event.op) is not type(op):
            raise Diverged(path, (f"remembered {self._next_text()}, asked for {operation_text(path, op)}",))
        self._remembered.popleft()
        return event.op

    def note(self, path: Path, keep: KeepOperation) -> KeepOperation:
        """Note what was found; on replay, the note that stands here comes back."""
        noted = self.ask(path, keep)
        assert isinstance(noted, KeepOperation)
        return noted

    def wait(self, path: Path, told: Callable[[SettledOperation], None], step: Any = None) -> None:
        """Have `told` told when the operation at `path` has settled. `step` is what performs it."""
        self._waiting[path] = told
        if step is not None:
            self.steps[path] = step

    def drop_under(self, path: Path, lost: bool = False) -> None:
        """Want nothing any more that lies under `path`; or it has `lost` a race."""
        depth = len(path)
        for one in [one for one in self._waiting if one[:depth] == path]:
            self.drop(one, lost)

    def drop(self, path: Path, lost: bool = False) -> None:
        """Want an open operation no longer."""
        del self._waiting[path]
        self.steps.pop(path, None)
        self._drop(path, lost)

    def give_back(self, branch: Path) -> None:
        """Put back the messages that a branch received and has not used."""
        for path in self.receipts.give_back(branch):
            self._drop(path)

    def _drop(self, path: Path, lost: bool = False) -> None:
        if self._remembered is None:
            self.commands.append(DropCommand(path, lost))
        elif isinstance(event := self._next(), e.DroppedEvent) and event.path == path:
            self._remembered.popleft()
        else:
            raise Diverged(path, (f"remembered {self._next_text()}, asked for {path_text(path)} dropped",))

    def drop_all(self) -> None:
        """Want nothing any more."""
        while self._waiting:
            self.drop(next(iter(self._waiting)))

    def waits_at(self, path: Path) -> bool:
        """Whether the operation at `path` is waited for."""
        return path in self._waiting

    def end(self, status: Any, outcome: Any, failed_at: Path = ()) -> None:
        """End the execution; with the path of the step because of which it has failed."""
        if self._remembered is None:
            self.commands.append(FinishCommand(status, outcome, failed_at))
        elif not isinstance(self._next(), e.EndedEvent):
            raise Diverged((), (f"remembered {self._next_text()}, asked for the end of the execution",))

    @property
    def replaying(self) -> bool:
        """Whether what is asked for now is remembered."""
        return self._remembered is not None

    def upcoming(self, path: Path) -> Operation | None:
        """On replay: the operation that is remembered next, if it is at `path`."""
        return None if self._remembered is None else self._upcoming(path)

    def is_ending(self) -> bool:
        """On replay: whether the end of the execution is remembered next."""
        return isinstance(self._next(), e.EndedEvent)

    def _upcoming(self, path: Path) -> Operation | None:
        event = self._next()
        return event.op if type(event) is e.OpenedEvent and event.path == path else None

    def _next(self) -> e.Event | None:
        while (left := self._remembered) and type(left[0]) is e.TrimmedEvent:
            left.popleft()
        return left[0] if left else None

    def _next_text(self) -> str:
        match self._next():
            case e.OpenedEvent(path, op):
                return operation_text(path, op)
            case e.DroppedEvent(path):
                return f"{path_text(path)} dropped"
            case e.EndedEvent():
                return "the end of the execution"
        return "nothing here"

    def raw(self, value: Value) -> bytes:
        """The payload of a value, which may be a blob that came with the event."""
        return self._values[value.sha256] if isinstance(value, Blob) else value

    def result(self, settlement: SettledOperation) -> NodeOutcome | Err:
        """How an operation settled."""
        outcome = settlement.outcome
        if isinstance(outcome, Err):
            return outcome
        return NodeOutcome("success" if outcome is None else outcome.port, Output(ENCODED_NONE if outcome is None else self.raw(outcome.value)))
