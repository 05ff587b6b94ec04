"""An execution driven by hand: `decide` and `rebuild` alone, with no engine, no store and no clock but a number."""

import inspect
from collections.abc import Callable, Generator, Mapping
from typing import Any, TypeVar

from perdure.code.code_program import CodeProgram
from perdure.code.context import new_code_program
from perdure.code.declarations import CodeWorkflow, Step
from perdure.code.exception_data import error_info
from perdure.code.function_codec import codec_of_function
from perdure.core import events as e
from perdure.core import log_format, messages, values
from perdure.core.decision import DecisionContext, ExecutionDecision, decide
from perdure.core.errors import Diverged, Fatal
from perdure.core.execution import Execution, execution_facts
from perdure.core.operations import CallOperation, Failure, Outcome, Success
from perdure.core.paths import Key, Path, parse_path
from perdure.core.replay import LoadBlob, replay_program
from perdure.core.time_bounds import TimeBounds

T = TypeVar("T")
HOST = DecisionContext("hand")
MOVES_MAX = 10_000


def drive(deciding: Generator[LoadBlob, bytes, T], blobs: Mapping[str, bytes]) -> T:
    """Run a decision or a rebuild to its end, and answer its questions from `blobs`."""
    try:
        question = next(deciding)
        while True:
            question = deciding.send(blobs[question.blob.sha256])
    except StopIteration as end:
        result: T = end.value
        return result


class Hand:
    """One execution, warm. Each method hands it one message, and folds what was decided; `log` has all events so far.

    `steps` replaces the functions behind calls, by the name of the step; the others are really called. `performed` has their names.
    """

    def __init__(self, workflow: Callable[..., Any] | CodeWorkflow, steps: Mapping[str, Callable[..., Any]] | None = None) -> None:
        self.workflow = workflow if isinstance(workflow, CodeWorkflow) else CodeWorkflow(workflow, "workflow")
        self.steps = steps or {}
        self.key = Key("", self.workflow.name, "1")
        self.execution, self.program = Execution(self.key), new_code_program(self.workflow, self.key)
        self.log: list[e.Event] = []
        self.blobs: dict[str, bytes] = {}
        self.performed: list[str] = []
        self.now_s = 0.0

    # messages

    def tell(self, message: messages.ExecutionMessage, number: int = 0) -> ExecutionDecision:
        """Decide on any message."""
        decision = drive(decide(self.execution, message, self.program, TimeBounds.exactly(self.now_s), HOST, number), self.blobs)
        self.log += decision.events
        self.blobs.update(decision.blobs)
        return decision

    def start(self, *args: Any, **kwargs: Any) -> "Hand":
        """Start it with this input."""
        self.tell(messages.StartMessage(input=self.workflow.codec.encode_args(args, kwargs, "the input"), seed=7))
        return self

    def settle(self, path: Path | str, result: Any = None) -> None:
        """Answer the open operation at `path`, a path or its text, with a result, an error or an outcome."""
        where = parse_path(path) if isinstance(path, str) else path
        self.tell(messages.SettleMessage(where, self.execution.open[where].attempt, _outcome(result)))

    def signal(self, name: str, body: Any = None) -> None:
        """Send it a message."""
        self.tell(messages.SignalMessage(name, values.encode(body, "a body")), number=len(self.log) + 1)

    def tick(self) -> bool:
        """Let time pass up to the next timer; False if there is none."""
        due_s = self.execution.wake_at()
        if due_s is not None:
            self.now_s = max(self.now_s, due_s)
            self.tell(messages.TickMessage())
        return due_s is not None

    def close(self) -> None:
        """Leave memory, where code must not notice it by the garbage collector alone."""
        self.program.close()

    # many at once

    def perform(self) -> bool:
        """Perform the call that was opened first and is waited for; False if there is none."""
        pending = next((one for one in self.execution.opened.performing() if one.grace_until_s is None), None)
        if pending is None or not isinstance(pending.op, CallOperation):
            return False
        self.performed.append(pending.op.target)
        self.settle(pending.path, self._result(self.program.steps[pending.path], pending.op))
        return True

    def run(self) -> "Hand":
        """Perform all calls and let time pass, until the execution has ended or waits for somebody else."""
        for _ in range(MOVES_MAX):
            if self.execution.ended is not None or not (self.perform() or self.tick()):
                return self
        raise AssertionError(f"it still goes on after {MOVES_MAX} moves")

    def _result(self, fn: Any, call: CallOperation) -> Any:
        args, kwargs = (fn.codec if isinstance(fn, Step) else codec_of_function(fn)).decode_args(values_of(call.args, self.blobs), "the arguments")
        try:
            result = self.steps.get(call.target, fn)(*args, **kwargs)
            return _awaited(result) if inspect.iscoroutine(result) else result
        except Exception as error:
            return error

    # what came of it

    @property
    def result(self) -> Any:
        """What the workflow returned, as plain data."""
        ended = self.execution.ended
        assert ended is not None and isinstance(ended.outcome, Success), f"it has not completed: {ended or self.execution.status}"
        return values.decode(values_of(ended.outcome.value, self.blobs), Any, "the result")

    def rebuilt(self, workflow: Callable[..., Any] | None = None) -> tuple[Execution, CodeProgram, Diverged | None]:
        """The execution and its program rebuilt from the encoded log, on this code or another, and how that diverged."""
        code = self.workflow if workflow is None else CodeWorkflow(workflow, self.workflow.name)
        execution, instance = Execution(self.key), new_code_program(code, self.key)
        return execution, instance, drive(replay_program(execution, log_format.decode_row(log_format.encode_row(self.log)), instance), self.blobs)

    def restart(self, workflow: Callable[..., Any] | None = None) -> "Hand":
        """Leave memory and come back from the log, on this code or another, knowing the same as before."""
        execution, instance, diverged = self.rebuilt(workflow)
        assert diverged is None, diverged
        assert execution_facts(execution) == execution_facts(self.execution)
        self.program.close()
        self.workflow, self.execution, self.program = instance.workflow, execution, instance
        return self


def values_of(value: values.Value, blobs: Mapping[str, bytes]) -> bytes:
    """The payload of a value, which may be a blob."""
    return blobs[value.sha256] if isinstance(value, values.Blob) else value


def _outcome(result: Any) -> Outcome:
    match result:
        case Success() | Failure():
            return result
        case Fatal():
            return Failure("fatal", 1, error_info(result))
        case Exception():
            return Failure("failed", 1, error_info(result))
    return Success(values.encode(result, "a result"))


def _awaited(coroutine: Any) -> Any:
    """The result of an async step that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    coroutine.close()
    raise AssertionError("a step that is performed by hand can't wait")
