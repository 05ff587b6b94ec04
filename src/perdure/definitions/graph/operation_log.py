"""The log as the walk uses it. Live, it records the operations that the walk asks for; on replay, it compares them with the recorded ones.

Each decision of an expression is recorded as a note beside its operation, so a replay evaluates nothing.
"""

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
from perdure.core.replay_cursor import ReplayCursor
from perdure.core.values import ENCODED_NONE, Blob, Value
from perdure.definitions.graph.node_scope import NodeOutcome, Output

FAILED, UNJUDGED, MISSING = ("error", 0), ("condition", 0), ("missing", 0)
"""The segments, beside an operation, of the notes that it could not be built, that its condition could not be evaluated, or that values were missing."""


class NodeFailure(Exception):  # raised by an expression or a limit, caught where the failure is recorded
    """A node failed for good, with an error."""

    def __init__(self, info: ErrorInfo, kind: str = "fatal") -> None:
        super().__init__(info.message)
        self.info, self.kind = info, kind


class OperationLog:
    """The operations of one walk. `commands` are the new ones; `steps` perform the open calls; `asked` counts the operations of the present event."""

    __slots__ = ("_recorded", "_settled", "_turns", "_values", "_waiting", "asked", "commands", "receipts", "steps")

    def __init__(self) -> None:
        self.commands: list[ProgramCommand] = []
        self.asked = 0
        self.steps: dict[Path, Any] = {}
        self.receipts = UnusedMessages()
        self._recorded: ReplayCursor | None = None
        self._values: Mapping[str, bytes] = {}
        self._settled: Mapping[Path, SettledOperation] = {}
        self._waiting: dict[Path, Callable[[SettledOperation], None]] = {}
        self._turns: dict[Path, Callable[[e.IterationResumedEvent], None]] = {}

    def begin_event(self, recorded: ReplayCursor | None, values: Mapping[str, bytes], settled: Mapping[Path, SettledOperation]) -> None:
        """Continues at an event, after which the log has the commands in `recorded`; live, there are none. `settled` are the operations that have settled."""
        self._recorded, self._values, self._settled, self.commands, self.asked = recorded, values, settled, [], 0

    @property
    def payloads(self) -> Mapping[str, bytes]:
        """The payloads of blobs that came with the event, by hash."""
        return self._values

    def clear(self) -> None:
        """Removes all waits."""
        self._waiting.clear()
        self._turns.clear()
        self.steps.clear()
        self.receipts = UnusedMessages()

    def told(self, path: Path, settlement: SettledOperation) -> None:
        """Calls the callback that waits for an operation that has settled."""
        self.steps.pop(path, None)
        if isinstance(settlement.op, ReceiveOperation) and settlement.messages:
            self.receipts.receive(path, [message.number for message in settlement.messages], settlement.op.completable)
        elif uses_messages(path, settlement.op):
            self.receipts.use(path)
        told = self._waiting.pop(path, None)
        if told is not None:
            told(settlement)

    def forget(self, path: Path) -> None:
        """Removes the wait for an operation that has settled."""
        self.steps.pop(path, None)
        self._waiting.pop(path, None)

    def turned(self, event: e.IterationResumedEvent) -> None:
        """Calls the callback that waits for the iteration from which a loop of a compacted log continues."""
        self.receipts.use((*event.path, event.turn))
        told = self._turns.pop(event.path, None)
        if told is not None:
            told(event)

    def wait_for_iteration(self, path: Path, told: Callable[[e.IterationResumedEvent], None]) -> None:
        """Calls `told` when the log reaches the iteration from which the loop at `path` continues."""
        self._turns[path] = told

    def trim(self, path: Path, before: int, undo_before: int = 0) -> None:
        """Forgets iterations of a loop. The log records how many, so replay has nothing to decide or compare."""
        if self._recorded is None:
            self.commands.append(TrimCommand(path, before, undo_before))

    # Notes.

    def judged(self, path: Path, compute: Callable[[], KeepOperation | None]) -> KeepOperation | Err | None:
        """Makes a decision and records it unless it is the default (None); on replay, reads it."""
        if self._recorded is not None:
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
        """Opens an operation that `make` computes from expressions; a failure to compute it is recorded as well."""
        if self._recorded is not None:
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
        """Records that an operation could not be computed or a condition evaluated, and why."""
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
        """Logs a warning, unless this is a replay."""
        if self._recorded is None:
            self.commands.append(LogCommand(WARNING_LEVEL, line))

    def note_warning(self, path: Path, line: str) -> None:
        """Records a warning, which is a public event of the execution, and logs it."""
        line = shorten_text(line, limits.ERROR_MESSAGE_CHARACTERS_MAX)
        _ = self.note(path, KeepOperation(values.encode(line, "a warning"), role="warning"))
        self.log_warning(f"{path_text(path[:-1])}: {line}")

    def skip_warning(self, path: Path) -> None:
        """On replay, skips a warning if one is recorded at `path`."""
        if isinstance(noted := self.upcoming(path), KeepOperation):
            _ = self.note(path, noted)

    # Operations.

    def ask(self, path: Path, op: Operation, blobs: tuple[tuple[str, bytes], ...] = ()) -> Operation:
        """Opens an operation; on replay, returns the recorded one."""
        if not settles_later(op) and uses_messages(path, op):
            self.receipts.use(path)
        self.asked += 1
        if self._recorded is None:
            self.commands.append(OpenCommand(path, op, blobs))
            return op
        event = self._next()
        if type(event) is not e.OpenedEvent or event.path != path or type(event.op) is not type(op):
            raise Diverged(path, (f"remembered {self._next_text()}, asked for {operation_text(path, op)}",))
        self._recorded.take()
        return event.op

    def note(self, path: Path, keep: KeepOperation) -> KeepOperation:
        """Records a note; on replay, returns the recorded one."""
        noted = self.ask(path, keep)
        assert isinstance(noted, KeepOperation)
        return noted

    def wait(self, path: Path, told: Callable[[SettledOperation], None], step: Any = None) -> None:
        """Calls `told` when the operation at `path` has settled. `step` performs it."""
        self._waiting[path] = told
        if step is not None:
            self.steps[path] = step

    def drop_under(self, path: Path, lost: bool = False) -> None:
        """Drops all open operations below `path`; with `lost`, because they lost a race."""
        depth = len(path)
        for one in [one for one in self._waiting if one[:depth] == path]:
            self.drop(one, lost)

    def drop(self, path: Path, lost: bool = False) -> None:
        """Drops an open operation."""
        del self._waiting[path]
        self.steps.pop(path, None)
        self._drop(path, lost)

    def give_back(self, branch: Path) -> None:
        """Returns the messages to the mailbox that a branch received and has not used."""
        for path in self.receipts.give_back(branch):
            self._drop(path)

    def _drop(self, path: Path, lost: bool = False) -> None:
        if (settlement := self._settled.get(path)) is not None and not settlement.messages:
            return  # it settled while the execution was parked, so that this program was not told yet, and stays as it is
        if self._recorded is None:
            self.commands.append(DropCommand(path, lost))
        elif isinstance(event := self._next(), e.DroppedEvent) and event.path == path:
            self._recorded.take()
        else:
            raise Diverged(path, (f"remembered {self._next_text()}, asked for {path_text(path)} dropped",))

    def drop_all(self) -> None:
        """Drops all open operations."""
        while self._waiting:
            self.drop(next(iter(self._waiting)))

    def waits_at(self, path: Path) -> bool:
        """Whether the operation at `path` is waited for."""
        return path in self._waiting

    def end(self, status: Any, outcome: Any, failed_at: Path = ()) -> None:
        """Ends the execution; `failed_at` is the path of the step that made it fail."""
        if self._recorded is None:
            self.commands.append(FinishCommand(status, outcome, failed_at))
        elif not isinstance(self._next(), e.EndedEvent):
            raise Diverged((), (f"remembered {self._next_text()}, asked for the end of the execution",))

    @property
    def replaying(self) -> bool:
        """Whether the operation that is asked for now is in the log."""
        return self._recorded is not None

    def upcoming(self, path: Path) -> Operation | None:
        """On replay, returns the next recorded operation if it is at `path`."""
        return None if self._recorded is None else self._upcoming(path)

    def is_ending(self) -> bool:
        """On replay, whether the end of the execution is the next recorded command."""
        return isinstance(self._next(), e.EndedEvent)

    def _upcoming(self, path: Path) -> Operation | None:
        event = self._next()
        return event.op if type(event) is e.OpenedEvent and event.path == path else None

    def _next(self) -> e.Event | None:
        return None if self._recorded is None else self._recorded.next()

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
        """Returns the outcome of a settled operation."""
        outcome = settlement.outcome
        if isinstance(outcome, Err):
            return outcome
        return NodeOutcome("success" if outcome is None else outcome.port, Output(ENCODED_NONE if outcome is None else self.raw(outcome.value)))
