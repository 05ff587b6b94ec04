"""The program of a code workflow: one async function on its own event loop, which is fed the events of its execution and asks for operations.

Live, operations become commands. On replay each operation is compared with the log in its place, and the first difference stops the program before
anything new runs. The same events therefore lead to the same state, whether the program stayed in memory or was rebuilt.

Once a workflow has failed or was cancelled, its steps are undone, the last first. The undo is code on the same loop: it records how the execution will end,
then calls one handler after the other, each at the path of the step that it undoes. A handler that fails for good parks the execution, so that no undo is
skipped; with ``on_error="continue"``, the next handler is called.
"""

from asyncio import CancelledError, Future
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import Context as Variables
from datetime import UTC, datetime
from inspect import CORO_CREATED, getcoroutinestate
from typing import Any

import msgspec

from perdure.code.declarations import CodeWorkflow, Step, UndoHandler, undo_handler_of
from perdure.code.deterministic_loop import CLEANUP_AWAITS_MAX, DeterministicLoop, NumberedTask
from perdure.code.exception_data import decode_refusal, encode_refusal, error_info
from perdure.code.function_codec import FunctionCodec
from perdure.code.operation_paths import NameScope, operation_text, refusal_path
from perdure.code.results import PortResult
from perdure.core import error_codes, values
from perdure.core import events as e
from perdure.core.attributes import Attributes
from perdure.core.errors import Diverged, ErrorInfo, Evicted, Fatal, NotAwaited, ProgrammingError, Undecodable, WrongVerb
from perdure.core.execution import Execution
from perdure.core.mailbox import UnusedMessages, uses_messages
from perdure.core.operation_state import SettledOperation
from perdure.core.operations import (
    CallOperation,
    Failure,
    KeepOperation,
    Operation,
    Outcome,
    SendOperation,
    SleepOperation,
    SpawnOperation,
    Success,
    settles_later,
)
from perdure.core.paths import UNDO, Key, Path, path_text
from perdure.core.program import WARNING_LEVEL, DropCommand, FinishCommand, LogCommand, OpenCommand, ProgramCommand, TrimCommand
from perdure.core.replay_cursor import ReplayCursor
from perdure.core.undo_plan import UNDO_BEGIN, UNDO_PLAN, UndoArguments, not_undone_line, operations_to_undo, undo_subject
from perdure.core.values import ENCODED_NONE, Blob, Value


def finish_of_task(
    root: NumberedTask[Any],
    codec: FunctionCodec,
    execution: Execution,
    unstarted: Mapping[Path, Coroutine[Any, Any, Any]],
    left_behind: BaseException | None = None,
) -> FinishCommand:
    """Returns the end of the execution, given the ended task of its function. Verbs that were never awaited are an error, as is the exception `left_behind`."""
    if not root.done():
        stuck = WrongVerb("the workflow waits for something that can never happen", "await a verb, or let another task complete what it awaits")
        return FinishCommand("failed", Failure("failed", 1, error_info(stuck)))
    if root.cancelled():
        reason = execution.cancelling.reason if execution.cancelling is not None else "the workflow cancelled itself"
        return FinishCommand("cancelled", Failure("cancelled", 1, ErrorInfo(error_codes.CANCELLED, reason)))
    error = root.exception()
    forgotten = [path for path, coroutine in unstarted.items() if getcoroutinestate(coroutine) == CORO_CREATED]
    for path in forgotten:
        unstarted[path].close()
    if error is None and forgotten:
        error = NotAwaited([path_text(path) for path in forgotten])
    error = error or left_behind
    if error is None:
        try:
            returned = root.result()
            what = f"the result of workflow {execution.key.workflow}"
            if isinstance(returned, PortResult):
                return FinishCommand("completed", Success(values.encode(returned.value, what), returned.port))
            return FinishCommand("completed", Success(codec.encode_result(returned, what)))
        except ProgrammingError as unencodable:
            error = unencodable
    return FinishCommand("failed", Failure("failed", 1, error_info(error)))


async def undo_all(instance: "CodeProgram", finish: FinishCommand) -> None:
    """Waits until nothing is in flight, then runs the undo handlers, before `finish`."""
    instance.remember(UNDO_PLAN, lambda: values.encode(finish.outcome, "the outcome"), role="undo", label=finish.status)
    await instance.open(UNDO_BEGIN, SleepOperation(0.0))  # after this wait, everything that the workflow dropped at its end is recorded
    while cancelled := instance.execution.opened.cancelled():
        await instance.future_of_open(cancelled[0].path)
    for path in operations_to_undo(instance.execution.settled) if instance.undoes else ():
        outcome: Outcome | None = None
        done = undo_subject(instance.execution.settled, path)
        if isinstance(done.op, CallOperation):
            name = done.op.target
            handler = (instance.handlers[name] if name in instance.handlers else undo_handler_of(name, instance.workflow)) or _missing_undo_handler(done.op)
            step, result = handler.step, done.outcome.value if isinstance(done.outcome, Success) else ENCODED_NONE
            given = values.encode(UndoArguments(result, done.op.args), "what is to be undone", path)
            call = CallOperation(step.name, given, step.queue, step.rule, step.timeout_s, transaction=step.transaction)
            call = msgspec.structs.replace(call, lane=done.op.lane, priority=done.op.priority, limited=done.op.limited, may_fail=handler.on_error == "continue")
            outcome = (await instance.open((UNDO, *path), call, handler)).outcome
        elif isinstance(done.op, SpawnOperation):
            await instance.open((UNDO, *path), msgspec.structs.replace(done.op, input=ENCODED_NONE))
        if isinstance(outcome, Failure):
            instance.log(WARNING_LEVEL, not_undone_line(path, outcome), {})


def _missing_undo_handler(op: CallOperation) -> UndoHandler:
    """Returns a handler in place of one that the code no longer has: it fails for good with that reason."""

    def refuse(*_: Any, **__: Any) -> None:
        raise Fatal(f"the code has no undo handler for step {op.target} any more. Restore its @{op.target}.undo, and resume the execution")

    return UndoHandler(Step(refuse, name=f"undo:{op.target}", queue=op.queue), in_doubt=True)


OPERATIONS_AT_ONCE_MAX = 100_000
"""The most operations that a workflow may open without waiting for any; more is taken for a loop that never waits."""

_NO_VALUES: Mapping[str, bytes] = {}

WorkflowEntry = Callable[["CodeProgram"], Coroutine[Any, Any, Any]]
"""Creates the coroutine of a workflow in its program."""


class CodeProgram:
    """The `perdure.core.program.Program` of one workflow function. The function runs with the context variables `variables`, by default those of the caller."""

    __slots__ = (
        "_closing",
        "_commands",
        "_divergence",
        "_enter",
        "_finished",
        "_has_returned",
        "_left_behind",
        "_matched_value",
        "_opened",
        "_recalled",
        "_recorded",
        "_refused",
        "_root",
        "_undoing",
        "_unstarted",
        "_values",
        "_variables",
        "_waiting",
        "attributes",
        "branches",
        "closed",
        "dry",
        "execution",
        "handlers",
        "keeping",
        "loop",
        "lost",
        "receipts",
        "steps",
        "workflow",
    )

    def __init__(self, workflow: CodeWorkflow, key: Key, enter: WorkflowEntry, variables: Variables | None = None) -> None:
        self.workflow = workflow
        self.execution = Execution(key)
        self.steps: dict[Path, Any] = {}
        self.handlers: dict[str, UndoHandler | None] = {}
        self.branches: dict[NumberedTask[Any], NameScope] = {}
        self.receipts = UnusedMessages()
        self.attributes: Attributes = ()
        self.lost: set[Path] = set()
        self.closed = self._closing = False
        self.dry = False
        self.keeping = ""
        self.loop = DeterministicLoop()
        self._enter = enter
        self._variables = variables
        self._root: NumberedTask[Any] | None = None
        self._waiting: dict[Path, Future[Any]] = {}
        self._unstarted: dict[Path, Coroutine[Any, Any, Any]] = {}
        self._commands: list[ProgramCommand] = []
        self._recorded: ReplayCursor | None = None
        self._values: Mapping[str, bytes] = {}
        self._recalled: Mapping[str, bytes] = {}
        self._divergence: Diverged | None = None
        self._finished = False
        self._refused = 0
        self._undoing: FinishCommand | None = None
        self._matched_value: Value = values.ENCODED_NONE
        self._opened: list[tuple[Path, NumberedTask[Any] | None]] = []
        self._has_returned = False
        self._left_behind: BaseException | None = None

    # The methods of a program.

    def feed(self, execution: Execution, event: e.Event, recorded: ReplayCursor | None, values: Mapping[str, bytes]) -> Sequence[ProgramCommand]:
        """Takes one external event; returns the commands that follow from it."""
        if self._divergence is not None:
            raise self._divergence
        if recorded is None or recorded.is_fresh:  # otherwise the commands of the event before are not folded into the execution yet
            self.attributes = execution.attributes
        self.execution, self._recorded, self._values, self._commands = execution, recorded, values, []
        self._opened.clear()
        self.lost.clear()
        self._take(event)
        self.loop.drive()
        self._conclude()
        if self._divergence is not None:
            self.refuse(self._divergence)
            raise self._divergence
        return self._commands

    @property
    def awake(self) -> bool:
        """Whether the program has begun, or can no longer begin."""
        return self._root is not None or self._divergence is not None

    @property
    def keeps_archives(self) -> bool:
        """Whether compaction keeps what it replaces, as the workflow declared when the execution started."""
        return self.execution.started is not None and self.execution.started.archive

    @property
    def required(self) -> frozenset[str] | None:
        """None: a code workflow needs nothing but its code."""
        return frozenset()

    def unfit(self, definition: bytes) -> tuple[str, ...]:
        """Returns the reason why a definition can't replace the program: it is code."""
        return (f"{self.workflow.name} is a code workflow and has no definition; deploy other code instead",)

    def refuse(self, diverged: Diverged) -> None:
        """Stops the program, because the code does not match the log."""
        self._divergence = diverged
        self.close()

    def close(self) -> None:
        """Releases everything held in memory. Coroutines end where they are, and what they do then is not recorded."""
        if not self.closed:
            self.closed = self._closing = True
            try:
                for coroutine in self._unstarted.values():
                    coroutine.close()
                self._unstarted.clear()
                self.loop.close()
                for memory in (self._waiting, self._unstarted, self.steps, self.branches):
                    memory.clear()
            finally:
                self._closing = False

    def _take_settlement(self, path: Path) -> None:
        self.steps.pop(path, None)
        future, settlement = self._waiting.pop(path, None), self.execution.settled[path]
        if self.receipts and uses_messages(path, settlement.op):
            self.receipts.use(path)
        if future is not None and not future.done():
            future.set_result(settlement)

    def _take(self, event: e.Event) -> None:
        match event:
            case e.SettledEvent() | e.ReceivedEvent() | e.RecalledEvent():
                self._take_settlement(event.path)
            case e.StartedEvent():
                self._recalled = self._values  # values of the original may be kept again at any later event of the fork
                self._begin()
            case e.ReopenedEvent():
                self.loop.close()
                self._recalled = self._values  # values from before the reopening may be kept again at any later event
                self.loop, self._finished, self._undoing, self.receipts = DeterministicLoop(), False, None, UnusedMessages()
                self._has_returned, self._left_behind = False, None
                for memory in (self._waiting, self._unstarted, self.steps, self.branches):
                    memory.clear()
                self._begin()
            case e.CancellingEvent() if self._root is not None and self._undoing is None:
                self._root.cancel()
            case e.StoppedEvent() if self._root is not None and not self._finished and self._undoing is None:
                self._stop(self._root)
            case e.UndoingEvent() if self.execution.completed is not None:
                self._finished = False
                self._begin_undo(FinishCommand(self.execution.completed.status, self.execution.completed.outcome))
            case e.IterationResumedEvent(path, turn):
                self.receipts.use((*path, turn))
                waiting = self._waiting.pop(path, None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(event)

    def _begin(self) -> None:
        self._root = self.loop.create_task(self._enter(self), name="workflow", context=None if self._variables is None else self._variables.copy())

    def _stop(self, root: NumberedTask[Any]) -> None:
        """Ends the workflow's function and its tasks where they are, and continues as after a cancellation."""
        for path in [path for path in self.execution.open if path in self._waiting]:
            self.drop(path)
        self.close()
        self.closed, self._refused = False, 0
        self.loop = DeterministicLoop()
        reason = "" if self.execution.cancelling is None else self.execution.cancelling.reason
        self._end(FinishCommand("cancelled", Failure("cancelled", 1, ErrorInfo(error_codes.CANCELLED, reason))), root)

    def _begin_undo(self, finish: FinishCommand) -> None:
        self._undoing = finish
        self._root = self.loop.create_task(undo_all(self, finish), name="undo", context=None if self._root is None else self._root.context)

    def _conclude(self) -> None:
        """Finishes the execution once the workflow's function has ended and its other tasks have unwound or can never continue."""
        root = self._root
        if root is None or self._finished or self.closed or self.loop.stopped:
            return
        if root.done():
            if self._undoing is None and not self._has_returned:
                self._has_returned, self._left_behind = True, self._abandoned_failure(root)
            self._unwind_rest()
        elif self._waiting:
            return
        if (root.done() and not self.loop.pending) or not self._waiting:
            self._finish(root)

    def _abandoned_failure(self, root: NumberedTask[Any]) -> BaseException | None:
        """Returns the error that a workflow left behind when it returned: of a failed task that was never awaited, or of verbs that can never complete."""
        if root.cancelled() or root.exception() is not None:
            return None
        if unretrieved := self.loop.unretrieved:
            return unretrieved[0].exception()
        lost = [path_text(path) for path, task in self._opened if path in self._waiting and task is not None and not task.cancelling()]
        return NotAwaited(lost) if lost else None

    def _unwind_rest(self) -> None:
        """Cancels the tasks that the workflow left behind, each once, as asyncio does; those of lost branches are unwinding already."""
        told: set[int] = set()
        while left := [task for task in self.loop.pending if not task.cancelling() and task.number not in told]:
            for task in left:
                told.add(task.number)
                task.cancel()
            self.loop.drive()

    def _finish(self, root: NumberedTask[Any]) -> None:
        if self._divergence is not None:
            return
        finish = self._undoing or finish_of_task(root, self.workflow.codec, self.execution, self._unstarted, self._left_behind)
        self._unstarted.clear()
        self._end(finish, root)

    def _end(self, finish: FinishCommand, root: NumberedTask[Any]) -> None:
        """Ends the execution with `finish`, after its undo if there is something to undo."""
        if self._undoing is None and self._ends_later(finish):
            self._begin_undo(finish)
            self.loop.drive()
            return
        if self._undoing is not None and (error := root.exception()) is not None:
            finish = FinishCommand("failed", Failure("failed", 1, error_info(error)))
        self._finished = True
        if self._recorded is None:
            self._commands.append(finish)
        elif not isinstance(self._next(), e.EndedEvent):
            self.differs((), self._next_text(), "the end of the workflow")

    def _ends_later(self, finish: FinishCommand) -> bool:
        """Whether something is in flight or has to be undone before the execution can end with `finish`."""
        if finish.status == "completed" and self.execution.cancelling is None:
            return False
        if self._recorded is not None:
            return self.is_next(UNDO_PLAN)
        return self.execution.is_in_flight or (self.undoes and self.execution.is_to_be_undone)

    @property
    def undoes(self) -> bool:
        """Whether completed steps are undone if the execution fails or is cancelled."""
        return self.execution.cancelling is None or self.execution.cancelling.undo

    # The methods that verbs use.

    def open(self, path: Path, op: Operation, step: Any = None) -> Future[SettledOperation]:
        """Opens an operation; the future settles with it. `step` is the function behind a call."""
        self._ask(path, op)
        if isinstance(step, Step):
            self._register_undo_handler(step)
        return self._wait(path, step)

    def _wait(self, path: Path, step: Any) -> Future[SettledOperation]:
        """Returns the future of an operation that was just opened."""
        if step is not None:
            self.steps[path] = step
        future = self._waiting[path] = self.loop.create_settlement()
        self._opened.append((path, self.loop.current))
        return future

    def _register_undo_handler(self, step: Step[Any, Any, Any]) -> None:
        """Registers the undo handler of a step, or that it has none any more."""
        handler = self.handlers[step.name] = step.handlers[0] if step.handlers else None
        if handler is not None:
            self.workflow.handlers[step.name] = handler

    async def settle(self, path: Path, op: Operation, step: Any = None) -> SettledOperation:
        """Opens an operation and waits until it has settled; if the waiting task is cancelled first, drops the operation."""
        self._unstarted.pop(path, None)
        self._ask(path, op)
        if isinstance(step, Step) and (step.handlers or self.handlers.get(step.name, step) is not None):  # else it is known that it has none
            self._register_undo_handler(step)
        if self._recorded is not None and (settlement := self._settle_ahead(self._recorded, path)) is not None:
            return settlement
        try:
            return await self._wait(path, step)
        except CancelledError:
            self.drop(path)
            raise

    def _settle_ahead(self, recorded: ReplayCursor, path: Path) -> SettledOperation | None:
        """Returns how an operation settled if that comes next in the log, and nothing else of the workflow could run before; else None.

        The task then continues without being suspended, which spares a replay most of its work. No other task can see the difference, because each waits
        for something later in the log.
        """
        if self.closed or self._divergence is not None or self._root is None or self._root.done() or not self.loop.runs_alone:
            return None
        settlement = recorded.settle_ahead(path)
        if settlement is not None:
            self.attributes, self._values = self.execution.attributes, _NO_VALUES
            if self._opened:
                self._opened.clear()
            if self.lost:
                self.lost.clear()
            if self.receipts and uses_messages(path, settlement.op):
                self.receipts.use(path)
        return settlement

    async def wait_for_settlement(self, path: Path, future: Future[SettledOperation]) -> SettledOperation:
        """Waits for the operation at `path` through its future; if the waiting task is cancelled first, drops the operation."""
        try:
            return await future
        except CancelledError:
            self.drop(path)
            raise

    def remember(self, path: Path, make: Callable[[], Value], **how: Any) -> Value:
        """Keeps a value, which is computed now unless the log has it. The operation settles at once. A failure to compute the value is recorded as well."""
        if self._recorded is not None:
            if self.is_next(mark := refusal_path(path)):
                self._ask(mark, KeepOperation(label="refused"))
                raise decode_refusal(path, self.raw(self._matched_value))
            asked = KeepOperation(**how)
            self._ask(path, asked)
            return self._matched_value
        known = self.execution.recalled_results.known.get(path)
        if known is None and self.dry and not how:  # an exploration must not call the user's function, so the value is not known
            self._ask(path, KeepOperation())
            self.loop.stopped = True
            raise Evicted
        try:
            value = known.op.value if known is not None and isinstance(known.op, KeepOperation) else make()
        except BaseException as error:
            raw = encode_refusal(error)
            self._ask(refusal_path(path), KeepOperation(raw, label="refused"))
            raise decode_refusal(path, raw) from error
        self._ask(path, KeepOperation(value, **how))
        return value

    @property
    def replaying(self) -> bool:
        """Whether the operation that the program asks for now is in the log."""
        return self._recorded is not None

    def recorded_call(self, path: Path, step: Step[Any, Any, Any]) -> CallOperation | None:
        """Returns the call of `step` that the log has here next, if it does.

        It takes the place of the one that the program asks for now, since replay compares no arguments; so these need not be encoded again.
        """
        event = None if self._recorded is None else self._recorded.next()
        if type(event) is e.OpenedEvent and event.path == path and type(op := event.op) is CallOperation and op.target == step.name and op.queue == step.queue:
            return op
        return None

    def take_removed(self, path: Path, kind: type[Operation]) -> Future[SettledOperation] | None:
        """Takes the recorded operation at `path` as asked for, if it is next and of this kind. Returns a future if it settles later."""
        event = self._next()
        if not isinstance(event, e.OpenedEvent) or event.path != path or not isinstance(event.op, kind) or self._recorded is None:
            return None
        self._recorded.take()
        if not settles_later(event.op):
            return None
        future = self.loop.create_settlement()
        self._waiting[path] = future
        self.steps[path] = removed_step
        return future

    def send(self, path: Path, op: SendOperation | SpawnOperation) -> None:
        """Opens an operation that settles at once."""
        self._ask(path, op)

    def future_of_open(self, path: Path) -> Future[SettledOperation]:
        """Returns a new future for an operation that was dropped and is still open."""
        future = self.loop.create_settlement()
        self._waiting[path] = future
        return future

    def drop(self, path: Path) -> None:
        """Drops a pending operation, or returns the messages of a settled receive to the mailbox.

        Whatever else has settled stays as it is, also if that was while the execution was parked, so that this program was not told yet.
        """
        if self.closed:
            return
        self.steps.pop(path, None)
        waiting, settlement = self._waiting.pop(path, None), self.execution.settled.get(path)
        if settlement is None and waiting is None:
            return
        if settlement is not None and not settlement.messages:
            return
        if self._recorded is None:
            self._commands.append(DropCommand(path, any(path[:depth] in self.lost for depth in range(1, len(path) + 1)) if self.lost else False))
        elif not isinstance(event := self._next(), e.DroppedEvent) or event.path != path:
            self.differs(path, self._next_text(), f"{path_text(path)} dropped")
        else:
            self._recorded.take()

    def give_back(self, branch: Path) -> None:
        """Returns the messages to the mailbox that a branch received and has not used or not completed."""
        for path in self.receipts.give_back(branch):
            self.drop(path)

    def trim(self, path: Path, before: int, undo_before: int = 0) -> None:
        """Forgets iterations of a loop. The log records how many, so replay has nothing to decide or compare."""
        if self._recorded is None:
            self._commands.append(TrimCommand(path, before, undo_before))

    def wait_for_iteration(self, path: Path) -> Future[e.IterationResumedEvent]:
        """Returns a future for the iteration from which the loop at `path` continues in a compacted log."""
        future = self.loop.create_settlement()
        self._waiting[path] = future
        return future

    def log(self, level: int, line: str, fields: Mapping[str, Any]) -> None:
        """Logs a line, unless this is a replay."""
        if self._recorded is None and not self.closed:
            self._commands.append(LogCommand(level, line, tuple(fields.items())))

    def note_awaited(self, path: Path) -> None:
        """Notes that the coroutine of a verb runs."""
        self._unstarted.pop(path, None)

    def note_called(self, path: Path, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Notes that a verb was called and that its coroutine has not run yet."""
        self._unstarted[path] = coroutine

    def raw(self, value: Value) -> bytes:
        """Returns the payload of a value, which may be a blob that came with the event."""
        if not isinstance(value, Blob):
            return value
        found = self._values.get(value.sha256)
        return self._recalled[value.sha256] if found is None else found

    def decode(self, value: Value, hint: Any, path: Path) -> Any:
        """Decodes a recorded value by its type hint. One that no longer fits is a divergence on replay, and an error live."""
        try:
            return values.decode(value if type(value) is bytes else self.raw(value), hint, "the value of", path)
        except Undecodable as error:
            if self._recorded is not None and not self.is_next(refusal_path(path)):
                self.differs(path, "a value of another shape", str(error))
                raise Evicted from error
            self.remember(refusal_path(path), lambda: values.ENCODED_NONE, label="unreadable")
            raise

    def now(self) -> datetime:
        """Returns the store's time of the event that the program is being fed."""
        return datetime.fromtimestamp(self.execution.now_s, UTC)

    def admit(self, verb: str) -> NumberedTask[Any]:
        """Returns the task that calls a verb.

        Raises:
            WrongVerb: the caller is not the running workflow, or is the function of `ctx.keep`.
        """
        if self.closed and not self._closing:
            raise WrongVerb(
                f"ctx.{verb} was called on a context whose execution was evicted or has ended",
                "a context belongs to one run of its workflow: pass it to the functions that the workflow calls, and keep it nowhere else",
            )
        if self.closed or self._divergence is not None:
            self._refuse()
        task = self._root if self.closed else self.loop.current
        if task is None:
            raise WrongVerb(
                f"ctx.{verb} was called outside its workflow (in a step, a callback, a thread, or after its end)",
                "a step can't use verbs: return its result, and call the verb in the workflow",
            )
        if self.keeping and verb != "now":
            raise WrongVerb(f"ctx.{verb} was called in {self.keeping}", "replay does not call that function: call the verb before it")
        return task

    @contextmanager
    def no_verbs(self, function: str) -> Iterator[None]:
        """Inside, verbs are refused, because replay does not call this `function` of the user."""
        self.keeping = function
        try:
            yield
        finally:
            self.keeping = ""

    # The comparison with the log.

    def _refuse(self) -> None:
        """Raises `Evicted`. Code that catches it and keeps calling verbs is finally let through, to await a future that never completes: only there can it
        be abandoned."""
        self._refused += 1
        if self._refused <= CLEANUP_AWAITS_MAX:
            raise Evicted

    def _ask(self, path: Path, op: Operation) -> None:
        if self.closed or self._divergence is not None:
            self._refuse()
            return
        if type(op) is not CallOperation and self.receipts and not settles_later(op) and uses_messages(path, op):
            self.receipts.use(path)
        if self._recorded is None:
            self._commands.append(OpenCommand(path, op))
            if len(self._commands) > OPERATIONS_AT_ONCE_MAX:
                raise WrongVerb(f"{OPERATIONS_AT_ONCE_MAX:,} operations were opened without waiting for any", "let each iteration wait for something")
            return
        event = self._recorded.open_again(path, op)
        if event is None:
            self.differs(path, self._next_text(), operation_text(path, op))
            raise Evicted
        if type(event.op) is KeepOperation:
            self._matched_value = event.op.value

    def _next(self) -> e.Event | None:
        """Returns the next recorded command, except those that trim loops."""
        return None if self._recorded is None else self._recorded.next()

    def is_next(self, path: Path) -> bool:
        """Whether the next recorded command opens an operation at `path`."""
        event = self._next()
        return isinstance(event, e.OpenedEvent) and event.path == path

    def known_port(self, path: Path) -> str | None:
        """Returns the port of the value that is kept at `path`: on replay if that comes next, else from before the execution was reopened; or None."""
        event = self._next() if self.replaying else None
        if isinstance(event, e.OpenedEvent):
            return event.op.port if event.path == path and isinstance(event.op, KeepOperation) else None
        known = self.execution.recalled_results.known.get(path)
        return known.op.port if known is not None and isinstance(known.op, KeepOperation) else None

    def _next_text(self) -> str:
        match self._next():
            case e.OpenedEvent(path, op):
                return operation_text(path, op)
            case e.DroppedEvent(path):
                return f"{path_text(path)} dropped"
            case e.EndedEvent():
                return "the end of the workflow"
        return "nothing here"

    def differs(self, path: Path, remembered: str, asked: str) -> None:
        """Records that the program differs from its log, and stops it."""
        if self._divergence is None:
            self._divergence = Diverged(path, (f"remembered {remembered}, asked for {asked}",))
            self.loop.stopped = True


def removed_step(*_: object, **__: object) -> None:
    """Does nothing: the body of a step that was removed from the code, in case a retry of it is due."""
