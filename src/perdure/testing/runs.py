"""The handle of an execution in a test: the sync counterpart of `AsyncHandle`, where waits take virtual time and always end."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from perdure.async_handle import Change
from perdure.code.approval_requests import VoteReply
from perdure.code.declarations import Signal, Step, UndoHandler, checked_name
from perdure.code.durations import Duration, duration_seconds
from perdure.code.function_codec import FunctionCodec, codec_of_function
from perdure.code.results import Vote
from perdure.core import events as e
from perdure.core import log_format, messages, values, views
from perdure.core.attributes import ShownAttributes, indexed_attribute_values
from perdure.core.completions import Completion
from perdure.core.errors import Ambiguous, DecisionRefused, ErrorInfo, NeedsAttention, NotFound, Timeout, Undecodable, WorkflowError
from perdure.core.event_trace import EventTracer, short_text
from perdure.core.execution import Execution
from perdure.core.operation_state import PendingOperation, SettledOperation
from perdure.core.operations import APPROVAL_WORKFLOW, CallOperation, Failure, ReceiveOperation, SpawnOperation, Success, operation_kind, operation_target
from perdure.core.paths import Key, Path, path_text
from perdure.core.replay import fold_events
from perdure.core.values import Value
from perdure.core.views import PublicEvent
from perdure.definition_workflow import Definition
from perdure.runtime.execution_results import result_of_ended
from perdure.runtime.replies import ReplySearch
from perdure.runtime.workflow_programs import encode_input
from perdure.service import approvals, definition_patches, execution_operations, history, queries, reruns, step_completions
from perdure.service.execution_folds import ExecutionFold, LogTail
from perdure.service.history import EmittedValue
from perdure.service.store_access import StoreAccess
from perdure.testing.immediate_calls import run_immediately
from perdure.testing.machine import ENDED, Machine
from perdure.testing.verdicts import Stuck

R_co = TypeVar("R_co", covariant=True)

PATIENCE: Duration = "3650d"
"""How long `Run.result` waits by default, in virtual time."""


class RanStep(msgspec.Struct, frozen=True):
    """One operation of an execution, usually a step: its place, kind, target, arguments, state and outcome.

    `state` is waiting, performing, retrying, interrupted, parked, completed or failed. `attempts` counts its attempts without those that were lost with their
    process or given back, which `interruptions` counts. `result` is None until it has completed; `error` is the error of the last attempt, None once it has
    completed.
    """

    path: str
    kind: str
    target: str
    state: str
    attempts: int
    interruptions: int
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    result: Any
    error: ErrorInfo | None


class RunWorld(Protocol):
    """The part of `perdure.testing.World` that a run uses."""

    machine: Machine
    access: StoreAccess
    performed: dict[tuple[Key, Path], Any]
    start_s: float

    def enter(self, verb: str) -> None:
        """Refuses a call of `verb` from within a workflow or a step."""

    def settle(self) -> None:
        """Runs everything that is ready, without letting time pass."""

    def pass_until(self, verb: str, what: str, found: Callable[[], bool], timeout_s: float, stuck: Callable[[str], Stuck]) -> bool:
        """Lets time pass until `found()` holds, for `timeout_s` at most; returns whether it holds."""

    def run_of(self, key: Key) -> "Run[Any]":
        """Returns the run of an execution."""

    def next_id(self, workflow: str) -> str:
        """Returns an id that no execution of the workflow has."""

    def seed_of(self, key: Key) -> int:
        """Returns the seed that an execution of this key starts with."""

    def message_key(self, key: str | None) -> str:
        """Returns the key of a message: the given one, or a new one."""


class Run(Generic[R_co]):
    """One execution in a world. `created` says whether the start that returned this run created it."""

    def __init__(self, world: RunWorld, key: Key, result: Any, created: bool = False) -> None:
        self.key = key
        self.created = created
        self._world = world
        self._kind = result

    def __repr__(self) -> str:
        return f"<run {self.key}, {self.status}>"

    @property
    def id(self) -> str:
        """The id, unique per tenant and workflow."""
        return self.key.id

    # Status and result

    @property
    def status(self) -> str:
        """Pending, running, waiting, paused, needs_attention, undoing, completed, failed or cancelled."""
        head = self._world.machine.head(self.key)
        return "pending" if head is None else head.status

    @property
    def why(self) -> str:
        """A sentence that says what it waits for, or how it ended."""
        execution = self._execution()
        code = self._world.machine.codes.get(self.key.workflow)
        if execution.started is None and code is None:
            return f"no workflow {self.key.workflow} is known here"
        return views.status_reason(execution)

    def result(self, timeout: Duration = PATIENCE) -> R_co:
        """Returns the result of the workflow. Time passes as needed, up to `timeout`.

        Raises:
            ExecutionFailed, DeadlineExceeded, ExecutionCancelled, NeedsAttention: it ended without a result, or parked, as clients see it.
            Stuck: it waits for something that only the test can supply.
            Timeout: it did not end in that time; it continues.
        """
        __tracebackhide__ = True
        self._wait("result", f"the result of {self.key}", self._is_over, timeout)
        execution = self._execution()
        if execution.parked is not None and execution.ended is None:
            raise NeedsAttention(self.key, execution.parked.reason, "; ".join(execution.parked.detail))
        if execution.ended is None:
            raise NotFound(self.key)
        try:
            raw = run_immediately(result_of_ended(self._world.machine.store, self.key, execution.ended))
        except WorkflowError as error:
            raise error.with_traceback(None) from None  # the frames of the engine do not help a test
        value: R_co = values.decode(raw, self._kind, f"the result of {self.key}")
        return value

    def _is_over(self) -> bool:
        return self.status in ENDED | {"needs_attention"}

    def _wait(self, verb: str, what: str, found: Callable[[], bool], timeout: Duration) -> None:
        __tracebackhide__ = True
        timeout_s = duration_seconds(timeout, "timeout")
        if not self._world.pass_until(verb, what, found, timeout_s, self._stuck):
            raise Timeout(what, timeout_s)

    def _stuck(self, what: str) -> Stuck:
        execution = self._execution()
        waiting = [pending for pending in execution.open.values() if pending.state != "retrying"]
        names = [name for pending in waiting if isinstance(pending.op, ReceiveOperation) for name in pending.op.names]
        children = [self._child(pending.op) for pending in waiting if isinstance(pending.op, SpawnOperation)]
        why = "; ".join([f"{self.key}: {self.why}", *(f"{child.key}: {child.why}" for child in children)])
        unknown = next((one.key.workflow for one in (self, *children) if one.key.workflow not in self._world.machine.codes), None)
        if execution.parked is not None:
            advice = "resume it: run.resume()"
        elif any(child.key.workflow == APPROVAL_WORKFLOW for child in (self, *children)):
            advice = "decide: run.approve(by=...) or run.reject(by=...)"
        elif unknown is not None:
            advice = f"tell the world of the workflow: world.use({unknown})"
        elif step_completions.waiting_attempts(execution):
            advice = "complete the step: run.complete(result) or run.fail(error)"
        elif names:
            advice = f"send it one: run.send({names[0]!r}, ...), and use Signal objects where they are"
        elif children:
            advice = "look at the child: run.children()"
        else:
            advice = "look at run.trace()"
        return Stuck(what, why, advice)

    # Operations and history

    def steps(self) -> list[RanStep]:
        """Every operation, settled and open, in the order of opening."""
        execution, lost = self._execution(), self._interruptions()
        return [self._ran(path, known, lost.get(path, 0)) for path, known in _in_order(execution)]

    def step(self, name: str | Step[Any, Any, Any]) -> RanStep:
        """The operation at a path such as ``charge``, ``charge#2`` or ``audit/~3/fetch``. If it is unique, the last part of the path or the name of the step
        is enough.

        Raises:
            LookupError: there is none, or several; the error lists them.
        """
        wanted = name.name if isinstance(name, Step) else name
        steps = self.steps()
        for called in _CALLED:
            found = [step for step in steps if called(step) == wanted]
            if len(found) == 1:
                return found[0]
            if found:
                raise LookupError(f"{self.key} has several of {wanted!r}: {', '.join(step.path for step in found)}; say which by its whole path")
        raise LookupError(f"{self.key} has no step {wanted!r}; there are: {', '.join(step.path for step in steps) or 'none'}")

    def _ran(self, path: Path, known: PendingOperation | SettledOperation, lost: int) -> RanStep:
        op, fn = known.op, self._world.performed.get((self.key, path))
        codec = None if fn is None else fn.codec if isinstance(fn, Step) else codec_of_function(fn)
        args, kwargs = self._arguments(op.args, codec) if isinstance(op, CallOperation) and not isinstance(fn, UndoHandler) else ((), {})
        state: str
        if isinstance(known, PendingOperation):
            state, error, result = known.state, self._last_error(path), None
        elif isinstance(known.outcome, Failure):
            state, error, result = "failed", known.outcome.error, None
        else:
            state, error, result = "completed", None, self._result(known, codec.result if codec is not None else Any)
        return RanStep(path_text(path), operation_kind(op), operation_target(op), state, known.attempt - lost, lost, tuple(args), kwargs, result, error)

    def _arguments(self, value: Value, codec: FunctionCodec | None) -> tuple[Sequence[Any], Mapping[str, Any]]:
        raw = self._world.machine.payload(value)
        if codec is not None:
            with suppress(Undecodable):  # in place of a secret's value there is its name, which may be of another type
                return codec.decode_args(raw, "the arguments")
        args, kwargs = msgspec.msgpack.decode(raw)
        return args, kwargs

    def _result(self, known: SettledOperation, hint: Any) -> Any:
        if known.messages:
            bodies = [values.decode(self._world.machine.payload(letter.body), Any, "a message") for letter in known.messages]
            return bodies[0] if isinstance(known.op, ReceiveOperation) and known.op.limit == 1 else bodies
        if not isinstance(known.outcome, Success):
            return None
        return values.decode(self._world.machine.payload(known.outcome.value), hint, "the result")

    def _interruptions(self) -> dict[Path, int]:
        found: dict[Path, int] = {}
        for event in self._log():
            match event:
                case e.OpenedEvent(path):
                    found.pop(path, None)
                case e.InterruptedEvent(path) | e.ParkedEvent("interrupted", path=path):
                    found[path] = found.get(path, 0) + 1
        return found

    def _last_error(self, path: Path) -> ErrorInfo | None:
        return next((event.error for event in reversed(self._log()) if isinstance(event, e.RetryingEvent) and event.path == path), None)

    def children(self) -> list["Run[Any]"]:
        """The executions that it has started, in order."""
        return [self._child(known.op) for _, known in _in_order(self._execution()) if isinstance(known.op, SpawnOperation)]

    def _child(self, op: SpawnOperation) -> "Run[Any]":
        return self._world.run_of(Key(self.key.tenant, op.workflow, op.id))

    @property
    def attributes(self) -> ShownAttributes:
        """The attributes by which it is found."""
        head = self._world.machine.head(self.key)
        return {} if head is None else indexed_attribute_values(head.attributes)

    def query(self, key: str | None = None, default: Any = None) -> Any:
        """The value that the workflow has set under `key` (`default` if none), or all values as a dict."""
        found = run_immediately(queries.workflow_state(self._world.access, ExecutionFold(self._world.machine.store, self.key), key))
        return queries.decoded_state(found, key, default)

    def stream(self, after: int = 0) -> list[EmittedValue]:
        """The values that the workflow has emitted so far, from number `after` + 1 on."""
        return run_immediately(_listed(history.stream_values(self._world.access, self.key, after, follow=False)))

    def events(self, after: int = 0) -> list[PublicEvent]:
        """The public events of the execution so far, after the id `after`."""
        return run_immediately(_listed(history.stream_history(self._world.access, self.key, after, follow=False)))

    def trace(self) -> str:
        """The events of the execution in words, a line each, with the time since the world began."""
        tracer, start_s = EventTracer(), self._world.start_s
        lines = [line.since(start_s) for line in tracer.describe(self._log())]
        return "\n".join([f"{self.key} is {self.status}: {short_text(self.why)[1:-1]}", *lines])

    # Messages and commands

    def send(self, signal: Signal[Any] | str, body: Any = None, *, key: str | None = None) -> None:
        """Sends a message and runs everything that follows at once.

        Raises:
            HasEnded: the execution has ended.
        """
        __tracebackhide__ = True
        self._world.enter("send")
        _ = run_immediately(
            execution_operations.send_signal(self._world.access, self.key, execution_operations.signal_message(signal, body, self._world.message_key(key)))
        )
        self._world.settle()

    def ask(self, signal: Signal[Any] | str, body: Any = None, *, timeout: Duration = PATIENCE) -> Any:
        """Sends a message and returns the reply. Time passes as needed.

        Raises:
            HasEnded, NoReply: it has ended, before the message or without a reply.
            Stuck, Timeout: there is no reply, or none in time.
        """
        __tracebackhide__ = True
        self._world.enter("ask")
        return self._ask("ask", execution_operations.signal_message(signal, body, self._world.message_key(None)), timeout)

    def _ask(self, verb: str, message: messages.SignalMessage, timeout: Duration) -> Any:
        __tracebackhide__ = True
        before = run_immediately(execution_operations.send_signal(self._world.access, self.key, message))
        tail, search = LogTail(self._world.machine.store, self.key, 0 if before is None else before.version, read_archives=True), ReplySearch(self.key, message)

        def replied() -> bool:
            while search.reply is None and (row := run_immediately(tail.next())) is not None:
                search.take(row)
            return search.reply is not None

        self._wait(verb, f"the reply of {self.key} to {message.name}", replied, timeout)
        return values.decode(self._world.machine.payload(search.reply or values.ENCODED_NONE), Any, f"the reply of {self.key}")

    def approve(self, *, by: str, value: Any = None, comment: str = "", groups: Sequence[str] = (), path: str | None = None) -> None:
        """Approves the approval that it waits for as `by`, with the form filled in as `value`; of several, the one at `path`.

        Raises:
            NotFound, Ambiguous: it waits for none there, or for several.
            HasEnded: it was decided before.
            DecisionRefused: `by` may not decide, or has decided already.
            BadValue: `value` does not fit the form.
        """
        __tracebackhide__ = True
        self._vote("approve", Vote(by, True, comment, value, tuple(groups), means="api"), path)

    def reject(self, *, by: str, comment: str = "", groups: Sequence[str] = (), path: str | None = None) -> None:
        """Rejects the approval that it waits for. Everything else is as in `approve`."""
        __tracebackhide__ = True
        self._vote("reject", Vote(by, False, comment, None, tuple(groups), means="api"), path)

    def _vote(self, verb: str, vote: Vote, path: str | None) -> None:
        __tracebackhide__ = True
        self._world.enter(verb)
        approval = self._world.run_of(self._approval(path))
        message = run_immediately(approvals.vote_message(self._world.access, approval.key, vote, self._world.message_key(None)))
        raw = approval._ask(verb, message, PATIENCE)
        answer = msgspec.convert(raw, VoteReply)
        if not answer.taken:
            raise DecisionRefused(approval.key, answer.why)

    def _approval(self, path: str | None) -> Key:
        """The key of the approval that the execution waits for."""
        if self.key.workflow == APPROVAL_WORKFLOW:
            return self.key
        execution = self._execution()
        found = approvals.open_approvals(execution, path) or approvals.decided_approvals(execution, path)[-1:]
        if len(found) > 1:
            raise Ambiguous(f"an approval of {self.key}", found, more=False)
        if not found:
            raise NotFound(self.key, f"no approval of {self.key}{'' if path is None else f' at {path}'} waits for a decision: {self.why}")
        return found[0]

    def complete(self, result: Any = None, *, path: str | None = None) -> None:
        """Completes the step that it waits for with `ctx.external`, as whoever has the token does; of several, the one whose path begins with `path`.

        Raises:
            NotFound, Ambiguous: it waits for none there, or for several.
        """
        self._complete("complete", Completion(value=values.encode(result, "the result of a step")), path)

    def fail(self, error: str | BaseException, *, final: bool = False, path: str | None = None) -> None:
        """Fails the attempt of the step that it waits for with `ctx.external`. Everything else is as in `complete`."""
        self._complete("fail", Completion(error=step_completions.error_of(error), final=final), path)

    def _complete(self, verb: str, completion: Completion, path: str | None) -> None:
        __tracebackhide__ = True
        execution = self._execution()
        found = [one for one in step_completions.waiting_attempts(execution) if path is None or path_text(one.request).startswith(path)]
        if len(found) > 1:
            raise Ambiguous(f"a step of {self.key} that waits for its completion", [path_text(one.request) for one in found], more=False)
        if not found or execution.started is None:
            raise NotFound(self.key, f"no step of {self.key}{'' if path is None else f' at {path}'} waits for its completion: {self.why}")
        self._do(verb, step_completions.complete_attempt(self._world.access, found[0].token(execution.started.seed), completion))

    def cancel(self, reason: str = "", *, undo: bool = True) -> None:
        """Cancels it: the workflow unwinds, completed steps are undone unless `undo` is false, and it ends as cancelled."""
        self._do("cancel", execution_operations.cancel_execution(self._world.access, self.key, reason, False, undo))

    def terminate(self, reason: str = "") -> None:
        """Ends it as cancelled at once, without running the workflow any further."""
        self._do("terminate", execution_operations.terminate_execution(self._world.access, self.key, reason, False))

    def undo(self, reason: str = "") -> None:
        """Undoes its steps after it has completed."""
        self._do("undo", execution_operations.undo_execution(self._world.access, self.key, reason, False))

    def pause(self, reason: str = "") -> None:
        """Pauses it: it begins nothing more until it is resumed."""
        self._do("pause", execution_operations.pause_execution(self._world.access, self.key, reason, False))

    def evict(self, reason: str = "") -> None:
        """Evicts it; it continues from its log. Async steps in flight are begun again, without being counted."""
        self._do("evict", execution_operations.evict_execution(self._world.access, self.key, reason, False))

    def resume(self, reason: str = "") -> None:
        """Resumes it from where it was paused or parked."""
        self._do("resume", execution_operations.resume_execution(self._world.access, self.key, reason, False))

    def patch(self, change: Definition | Change, *, base: str = "") -> int:
        """Patches its pinned definition; returns the number of the event from which the new definition applies.

        Raises:
            PatchRefused: the new definition does not fit what has begun.
            BadDefinition: the change does not apply, or its result is not valid.
        """
        access, before, sha256 = self._world.access, self._execution().version, base.removeprefix("sha256:")
        if isinstance(change, Definition):
            message = messages.PatchMessage(change.graph.definition or b"", sha256)
        else:
            message = run_immediately(definition_patches.patch_message(access, self.key, change, sha256))
        self._do("patch", execution_operations.post_message(access, self.key, message, "patch", False))
        return run_immediately(definition_patches.await_patch(access, self.key, before))

    def retry(self, reason: str = "") -> None:
        """Retries it from what failed. Steps that have succeeded are not called again."""
        self._do("retry", execution_operations.retry_execution(self._world.access, self.key, reason, False))

    def rerun(self, *, id: str | None = None, version: int | None = None) -> "Run[R_co]":
        """Starts a new execution with the same input under a new id, by default the next number; returns its run.

        Raises:
            AlreadyExists: the id is taken.
        """
        wanted = reruns.RerunRequest(key=self._anew(id), version=version, seed=self._world.seed_of(self._anew(id)))
        self._do("rerun", reruns.rerun_execution(self._world.access, self.key, wanted))
        return Run(self._world, wanted.key, self._kind, True)

    def fork(
        self, from_step: str | None = None, *, input: Sequence[Any] | Mapping[str, Any] | None = None, id: str | None = None, version: int | None = None
    ) -> "Run[R_co]":
        """Starts a new execution with the outcomes of this one: all, or with `from_step` those that were opened before that step. Returns its run.

        Open operations are opened again in the new execution; unread messages stay with this one. `input` replaces the arguments, by position or, as a
        mapping, by name; `version` replaces the pinned version of the workflow.

        Raises:
            BadValue: it has not reached that step, or the workflow takes other arguments.
            AlreadyExists: the id is taken.
        """
        args, kwargs = ((), input) if isinstance(input, Mapping) else (tuple(input or ()), {})
        workflow = self._world.machine.codes.get(self.key.workflow, self.key.workflow)
        raw = None if input is None else encode_input(workflow, args, kwargs)
        wanted = reruns.RerunRequest(key=self._anew(id), input=raw, version=version, from_step=from_step)
        self._do("fork", reruns.fork_execution(self._world.access, self.key, wanted))
        return Run(self._world, wanted.key, self._kind, True)

    def preset(self, step: str, value: Any = None) -> None:
        """Supplies the result of a step in place of performing it: of an open one, now; of one that is still to come or failed, when it is asked for.

        Raises:
            BadValue: the step has its result already.
        """
        self._do("preset", reruns.preset_outcome(self._world.access, self.key, step, reruns.encode_outcome(value, step)))

    def _anew(self, id: str | None) -> Key:
        return self.key._replace(id=self._world.next_id(self.key.workflow) if id is None else checked_name(id, "id"))

    def _do(self, verb: str, work: Any) -> None:
        __tracebackhide__ = True
        try:
            self._world.enter(verb)
        except BaseException:
            work.close()
            raise
        run_immediately(work)
        self._world.settle()

    # The log

    def _log(self) -> list[e.Event]:
        found = self._world.machine.read(self.key)
        return [] if found is None else log_format.decode_rows(found.payloads)

    def _execution(self) -> Execution:
        return fold_events(self.key, self._log())


_CALLED: tuple[Callable[[RanStep], str], ...] = (
    lambda step: step.path,
    lambda step: step.path.rpartition("/")[2],
    lambda step: step.target.partition(" on ")[0] if step.kind == "call" else "",
)
"""The names of an operation, the most exact first."""


def _in_order(execution: Execution) -> list[tuple[Path, PendingOperation | SettledOperation]]:
    """All operations in the order of opening."""
    found: list[tuple[Path, PendingOperation | SettledOperation]] = [*execution.settled.items(), *execution.open.items()]
    return sorted(found, key=lambda one: one[1].number)


async def _listed(items: Any) -> list[Any]:
    return [item async for item in items]
