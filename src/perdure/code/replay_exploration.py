"""Explores which operations changed code asks for when it is led through a log that it may not match.

The code is fed the events of the log in their order and with their times, but the operations that it asks for are recorded and not compared. Where it
waits for an operation that the log does not have, an outcome is guessed. Nothing is performed, sent or written.
"""

from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextvars import Context
from typing import Any, TypeVarTuple

import msgspec

from perdure.code.context import new_code_program
from perdure.code.declarations import CodeWorkflow, Step
from perdure.code.deterministic_loop import DeterministicLoop
from perdure.code.function_codec import codec_of_function
from perdure.core import events as e
from perdure.core import values
from perdure.core.errors import Undecodable
from perdure.core.execution import Execution
from perdure.core.mailbox import ReceivedMessage
from perdure.core.operation_state import SettledOperation
from perdure.core.operations import KeepOperation, Operation, ReceiveOperation, Success, is_same_operation, operation_kind
from perdure.core.paths import Key, Path, Segment
from perdure.core.program import DropCommand, FinishCommand, OpenCommand
from perdure.core.replay import LoadBlob, blobs_read, events_fed
from perdure.core.values import ENCODED_NONE, Blob

Ts = TypeVarTuple("Ts")
ExplorationSteps = Generator[LoadBlob, bytes, None]

GUESSES_MAX = 100
"""The most outcomes that one exploration guesses, which ends endless loops."""

KEEPS_MAX = 10
"""The most restarts of an exploration because the value of a `keep` had to be guessed."""

CALLBACKS_MAX = 200_000
"""The most callbacks of one event; more is taken for a loop that waits for nothing."""

UNREADABLE = ("", 1)
"""The name, below an operation, of a note that its value does not fit its type. What the code does after that is not reported."""

_BLANKS = [values.encode(blank, "a blank") for blank in (None, True, 0, "", list[Any](), dict[str, Any]())]


class OperationNode(msgspec.Struct, eq=False):
    """An operation, or a scope of operations: a loop, an iteration, a branch, a task. It is `sure` if no guessed value led to it.

    `clock` is the number of the event of the log that caused the first request for it.
    """

    path: Path
    clock: int
    sure: bool = True
    op: Operation | None = None
    children: dict[Segment, "OperationNode"] = msgspec.field(default_factory=dict)

    def note(self, path: Path, op: Operation, clock: int, sure: bool = True) -> None:
        """Adds an operation below this node, with its scopes."""
        node = self
        for end, segment in enumerate(path, 1):
            node = node.children.setdefault(segment, OperationNode(path[:end], clock, sure))
        node.op = op


class RecordedOperations(msgspec.Struct):
    """The log since the last reopening: the operations that were asked for, and the external events, with how each operation settled."""

    root: OperationNode
    ops: dict[Path, Operation] = msgspec.field(default_factory=dict)
    clocks: dict[Path, int] = msgspec.field(default_factory=dict)
    happened: list[tuple[int, e.Event, SettledOperation | None]] = msgspec.field(default_factory=list)
    causes: dict[int, list[Path]] = msgspec.field(default_factory=dict)
    started: e.StartedEvent | None = None
    earlier: dict[Path, SettledOperation] = msgspec.field(default_factory=dict)
    trimmed: dict[Path, int] = msgspec.field(default_factory=dict)

    def remember(self, path: Path, op: Operation, clock: int) -> None:
        """Records an operation that the program asked for."""
        self.ops[path] = op
        self.clocks[path] = clock
        self.root.note(path, op, clock)


def read_recorded_operations(key: Key, events: Sequence[e.Event]) -> RecordedOperations:
    """Reads the log from the last reopening on."""
    life = max((index for index, event in enumerate(events) if isinstance(event, e.ReopenedEvent)), default=0)
    execution, memory, clock = Execution(key), RecordedOperations(OperationNode((), 0)), 0
    for index, event in enumerate(events):
        execution.apply(event)
        if index < life:
            continue
        if isinstance(event, e.ReopenedEvent):
            memory.earlier, memory.trimmed = dict(execution.recalled_results.known), dict(execution.trimmed)
        if isinstance(event, e.OpenedEvent):
            memory.remember(event.path, event.op, clock)
        elif type(event) not in e.COMMAND_EVENTS:
            clock += 1
            for one in events_fed(execution, event):
                path: Path | None = getattr(one, "path", None)
                memory.happened.append((clock, one, None if path is None else execution.settled.get(path)))
                memory.causes.setdefault(clock, []).extend(() if path is None else (path,))
            if isinstance(event, e.IterationResumedEvent):
                memory.trimmed[event.path] = event.turn
                memory.causes[clock] = []
                memory.remember((*event.path, event.turn), KeepOperation(event.value, "turn"), clock)
    memory.started = execution.started
    return memory


class _BoundedLoop(DeterministicLoop):
    """An event loop that stops after too many callbacks of one event."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        super().__init__()
        self.left = CALLBACKS_MAX

    def call_soon(self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None) -> Any:
        self.left -= 1
        if self.left < 0:
            self.stopped = True
        return super().call_soon(callback, *args, context=context)


class CodeExploration:
    """The new code, led through the log.

    `asked` and `root` have the operations that it asked for, `dropped` those that it dropped, `placed` the operations of the log that settled or whose
    outcome was used as a guess; `keep` is the operation whose value it needs to continue. It is `sure` as long as no outcome was guessed.
    """

    def __init__(self, workflow: CodeWorkflow, key: Key, memory: RecordedOperations, guessed: dict[Path, Path | None]) -> None:
        self.execution = Execution(key)
        self.root = OperationNode((), 0)
        self.asked: dict[Path, Operation] = {}
        self.placed: set[Path] = set()
        self.dropped: list[Path] = []
        self.clock = 0
        self.sure = True
        self.guesses = len(guessed)
        self.keep: Path | None = None
        self.finish: FinishCommand | None = None
        self.stopped = False
        self._memory = memory
        self._guessed = guessed
        self._used = {path for path in guessed.values() if path is not None}
        self._known = {path: known for path, known in memory.earlier.items() if path not in memory.ops}
        self._late: deque[Path] = deque()
        self._unknown: dict[Path, None] = {}
        self._siblings: dict[tuple[Path, str], deque[Path]] = {}
        for path, op in memory.ops.items():
            self._siblings.setdefault((path[:-1], operation_sort(op)), deque()).append(path)
        self._blobs: dict[str, bytes] = {}
        self._loop = _BoundedLoop()
        self._program = new_code_program(workflow, key)
        self._program.loop = self._loop
        self._program.dry = True

    @property
    def over(self) -> bool:
        """Whether the exploration has ended."""
        return self.stopped or self.finish is not None

    def close(self) -> None:
        """Releases the program."""
        self._program.close()

    def run(self) -> ExplorationSteps:
        """Leads the code through the log, and beyond it as long as it waits for operations that the log does not have."""
        yield from self._prepare()
        for clock, event, settlement in self._memory.happened:
            if self.over:
                return
            self.clock = clock
            match event:
                case e.StartedEvent() | e.CancellingEvent() | e.StoppedEvent():
                    yield from self._feed(event)
                case e.ReopenedEvent(at_s) if self._memory.started is not None:
                    yield from self._feed(msgspec.structs.replace(self._memory.started, at_s=at_s))
                case e.SettledEvent(path, _, at_s) | e.ReceivedEvent(path, _, at_s) | e.RecalledEvent(path, at_s) if settlement is not None:
                    self.execution.now_s = at_s
                    yield from self._relive(path, settlement)
            yield from self._catch_up()
        self.clock += 1
        while not self.over and (yield from self._guess(at_end=True)):
            yield from self._catch_up()

    def _prepare(self) -> ExplorationSteps:
        """Gives the execution all kept values, and the first iteration of each loop."""
        self.execution.trimmed = dict(self._memory.trimmed)
        self.execution.reopened = 1
        kept = {path: op for path, op in self._memory.ops.items() if isinstance(op, KeepOperation)}
        kept |= {path: known.op for path, known in self._memory.earlier.items() if isinstance(known.op, KeepOperation)}
        kept |= {path: kept[like] if like is not None else KeepOperation() for path, like in self._guessed.items()}
        for path, op in kept.items():
            if isinstance(op.value, Blob) and op.value.sha256 not in self._blobs:
                self._blobs[op.value.sha256] = yield LoadBlob(op.value)
            self.execution.recalled_results.known[path] = SettledOperation(op, Success(op.value), (), 0, 0, 1, 1)

    def _relive(self, path: Path, settlement: SettledOperation) -> ExplorationSteps:
        """Settles an operation as the log has it; if the code has not asked for it yet, guesses the outcomes that it may be waiting for."""
        self._known[path] = settlement
        if path in self.execution.open and path not in self._unknown:
            self._late.append(path)
            return
        while not self.over and path not in self._used and (path not in self.asked or path in self._unknown) and (yield from self._guess()):
            yield from self._catch_up()

    def _catch_up(self) -> ExplorationSteps:
        """Settles the open operations whose outcome is known."""
        while self._late and not self.over:
            path = self._late.popleft()
            if path in self.execution.open and path not in self._unknown:
                yield from self._settle(path, self._known[path])
                self.placed.add(path)

    def _settle(self, path: Path, settlement: SettledOperation, guessed: bool = False) -> ExplorationSteps:
        self.execution.recalled_results.known[path] = settlement
        yield from self._feed(e.RecalledEvent(path, self.execution.now_s), guessed)

    def _feed(self, event: e.Event, guessed: bool = False) -> ExplorationSteps:
        """Feeds the program one event and records what it asks for; a failure caused by a guess is ignored."""
        self.execution.apply(event)
        for blob in blobs_read(self.execution, event):
            if blob.sha256 not in self._blobs:
                self._blobs[blob.sha256] = yield LoadBlob(blob)
        self._loop.left = CALLBACKS_MAX
        commands = self._program.feed(self.execution, event, None, self._blobs)
        self.stopped = self._loop.stopped
        if guessed and any(isinstance(command, FinishCommand) and command.status == "failed" for command in commands):
            self.stopped = True
            return
        for command in commands:
            match command:
                case OpenCommand(path) if path[-1] == UNREADABLE and path not in self._memory.ops:
                    self.stopped = True
                    return
                case OpenCommand(path, op):
                    self._open(path, op)
                case DropCommand(path):
                    self.dropped.append(path)
                    self.execution.apply(e.DroppedEvent(path))
                case FinishCommand():
                    self.finish = command
            if self.finish is not None or self.keep is not None:
                return

    def _open(self, path: Path, op: Operation) -> None:
        remembered = self._memory.ops.get(path)
        if isinstance(op, KeepOperation) and op.role == "value" and not op.label and path not in self.execution.recalled_results.known:
            self.keep = path
        self.sure = self.sure and self._guessed.get(path, path) is not None
        self.asked[path] = op
        self.root.note(path, op, self.clock, self.sure)
        self.execution.apply(e.OpenedEvent(path, op))
        if path not in self.execution.open:
            return
        known = self._known.get(path)
        if remembered is not None and not is_same_operation(remembered, op):
            self._unknown[path] = None
        elif known is not None and type(known.op) is type(op):
            self._late.append(path)
        elif remembered is None:
            self._unknown[path] = None

    # Guesses.

    def like(self, path: Path) -> Path | None:
        """Returns the first recorded operation of the same sort and scope that was not asked for: this one may be that one renamed."""
        siblings = self._siblings.get((path[:-1], operation_sort(self.asked[path])))
        while siblings and (siblings[0] in self.asked or siblings[0] in self._used):
            siblings.popleft()
        return siblings[0] if siblings else None

    def _guess(self, at_end: bool = False) -> Generator[LoadBlob, bytes, bool]:
        """Settles an operation that the log does not have: like the one that it may have been before, else with a default value. False if there is none."""
        if self.guesses >= GUESSES_MAX:
            return False
        self._unknown = {path: None for path in self._unknown if path in self.execution.open}
        for path in list(self._unknown):
            like = path if path in self._memory.ops else self.like(path)
            known = None if like is None else self._known.get(like)
            if known is None and like is not None and not at_end:
                continue
            del self._unknown[path]
            if like is not None and known is not None and self._fits(path, known):
                self._used.add(like)
                self.placed.add(like)
                answer: SettledOperation | None = known
            else:
                answer = self._blank(path)
                self.sure = self.sure and answer is None
            if answer is not None:
                self.guesses += 1
                yield from self._settle(path, answer, guessed=True)
                return True
        return False

    def _fits(self, path: Path, known: SettledOperation) -> bool:
        op = self.execution.open[path].op
        if type(known.op) is not type(op):
            return False
        return not isinstance(known.outcome, Success) or isinstance(known.outcome.value, Blob) or self._decodes(path, known.outcome.value)

    def _decodes(self, path: Path, raw: bytes) -> bool:
        """Whether the step's result type accepts this value; true for an operation that is not a step."""
        fn = self._program.steps.get(path)
        if fn is None:
            return True
        try:
            values.decode(raw, (fn.codec if isinstance(fn, Step) else codec_of_function(fn)).result, "a guess")
        except Undecodable:
            return False
        return True

    def _blank(self, path: Path) -> SettledOperation | None:
        op, now_s = self.execution.open[path].op, self.execution.now_s
        if isinstance(op, ReceiveOperation):
            return SettledOperation(op, None, (ReceivedMessage(0, op.names[0], ENCODED_NONE, now_s),), now_s, now_s, 1, 1)
        raw = next((raw for raw in _BLANKS if self._decodes(path, raw)), None)
        return None if raw is None else SettledOperation(op, Success(raw), (), now_s, now_s, 1, 1)


def explore_code(workflow: CodeWorkflow, key: Key, memory: RecordedOperations) -> Generator[LoadBlob, bytes, CodeExploration]:
    """Explores the code; restarts with a guess whenever it needs a value that only the user's function could compute."""
    guessed: dict[Path, Path | None] = {}
    while True:
        exploration = CodeExploration(workflow, key, memory, guessed)
        try:
            yield from exploration.run()
        finally:
            exploration.close()
        if exploration.keep is None or len(guessed) == KEEPS_MAX:
            return exploration
        guessed[exploration.keep] = exploration.like(exploration.keep)


def operation_sort(op: Operation) -> str:
    """Returns the kind of an operation, with the role of a kept value: what stays the same when an operation is renamed."""
    if not isinstance(op, KeepOperation) or op.role == "value":
        return operation_kind(op)
    return f"{op.role} {op.label.split(' ')[0]}" if op.role == "branches" else op.role
