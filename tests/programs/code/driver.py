"""An execution driven by hand: `decide` and `rebuild` alone, with no engine, no store and no clock but a number."""

import inspect
from collections.abc import Callable, Generator, Mapping
from typing import Any, TypeVar

from perdure.core import events as e
from perdure.core import log, messages, values
from perdure.core.decide import decide
from perdure.core.decision import Decision, Host
from perdure.core.errors import Diverged, Fatal
from perdure.core.execution import Execution
from perdure.core.facts import facts
from perdure.core.ops import Call, Err, Ok, Outcome
from perdure.core.paths import Key, Path, parse
from perdure.core.rebuild import Load, rebuild
from perdure.core.time_bounds import TimeBounds
from perdure.programs.code.codec import codec_of
from perdure.programs.code.context import program
from perdure.programs.code.declare import CodeWorkflow, Step
from perdure.programs.code.failures import error_info
from perdure.programs.code.instance import Instance

T = TypeVar("T")
HOST = Host("hand")
MOVES_MAX = 10_000


def drive(deciding: Generator[Load, bytes, T], blobs: Mapping[str, bytes]) -> T:
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
        self.execution, self.program = Execution(self.key), program(self.workflow, self.key)
        self.log: list[e.Event] = []
        self.blobs: dict[str, bytes] = {}
        self.performed: list[str] = []
        self.now_s = 0.0

    # messages

    def tell(self, message: messages.Message, number: int = 0) -> Decision:
        """Decide on any message."""
        decision = drive(decide(self.execution, message, self.program, TimeBounds.exactly(self.now_s), HOST, number), self.blobs)
        self.log += decision.events
        self.blobs.update(decision.blobs)
        return decision

    def start(self, *args: Any, **kwargs: Any) -> "Hand":
        """Start it with this input."""
        self.tell(messages.Start(input=self.workflow.codec.encode_args(args, kwargs, "the input"), seed=7))
        return self

    def settle(self, path: Path | str, result: Any = None) -> None:
        """Answer the open operation at `path`, a path or its text, with a result, an error or an outcome."""
        where = parse(path) if isinstance(path, str) else path
        self.tell(messages.Settle(where, self.execution.open[where].attempt, _outcome(result)))

    def signal(self, name: str, body: Any = None) -> None:
        """Send it a message."""
        self.tell(messages.Signal(name, values.encode(body, "a body")), number=len(self.log) + 1)

    def tick(self) -> bool:
        """Let time pass up to the next timer; False if there is none."""
        due_s = self.execution.wake_at()
        if due_s is not None:
            self.now_s = max(self.now_s, due_s)
            self.tell(messages.Tick())
        return due_s is not None

    def close(self) -> None:
        """Leave memory, where code must not notice it by the garbage collector alone."""
        self.program.close()

    # many at once

    def perform(self) -> bool:
        """Perform the call that was opened first and is waited for; False if there is none."""
        promise = next((one for one in self.execution.opened.performing() if one.grace_until_s is None), None)
        if promise is None or not isinstance(promise.op, Call):
            return False
        self.performed.append(promise.op.target)
        self.settle(promise.path, self._result(self.program.steps[promise.path], promise.op))
        return True

    def run(self) -> "Hand":
        """Perform all calls and let time pass, until the execution has ended or waits for somebody else."""
        for _ in range(MOVES_MAX):
            if self.execution.ended is not None or not (self.perform() or self.tick()):
                return self
        raise AssertionError(f"it still goes on after {MOVES_MAX} moves")

    def _result(self, fn: Any, call: Call) -> Any:
        args, kwargs = (fn.codec if isinstance(fn, Step) else codec_of(fn)).decode_args(values_of(call.args, self.blobs), "the arguments")
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
        assert ended is not None and isinstance(ended.outcome, Ok), f"it has not completed: {ended or self.execution.status}"
        return values.decode(values_of(ended.outcome.value, self.blobs), Any, "the result")

    def rebuilt(self, workflow: Callable[..., Any] | None = None) -> tuple[Execution, Instance, Diverged | None]:
        """The execution and its program rebuilt from the encoded log, on this code or another, and how that diverged."""
        code = self.workflow if workflow is None else CodeWorkflow(workflow, self.workflow.name)
        execution, instance = Execution(self.key), program(code, self.key)
        return execution, instance, drive(rebuild(execution, log.decode(log.encode(self.log)), instance), self.blobs)

    def restart(self, workflow: Callable[..., Any] | None = None) -> "Hand":
        """Leave memory and come back from the log, on this code or another, knowing the same as before."""
        execution, instance, diverged = self.rebuilt(workflow)
        assert diverged is None, diverged
        assert facts(execution) == facts(self.execution)
        self.program.close()
        self.workflow, self.execution, self.program = instance.workflow, execution, instance
        return self


def values_of(value: values.Value, blobs: Mapping[str, bytes]) -> bytes:
    """The payload of a value, which may be a blob."""
    return blobs[value.sha256] if isinstance(value, values.Blob) else value


def _outcome(result: Any) -> Outcome:
    match result:
        case Ok() | Err():
            return result
        case Fatal():
            return Err("fatal", 1, error_info(result))
        case Exception():
            return Err("failed", 1, error_info(result))
    return Ok(values.encode(result, "a result"))


def _awaited(coroutine: Any) -> Any:
    """The result of an async step that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    coroutine.close()
    raise AssertionError("a step that is performed by hand can't wait")
