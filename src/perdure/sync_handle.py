"""The handle of sync programs.

Made from `perdure.async_handle` by ``python -m tools.make_sync``, but for what that leaves alone: change the async methods, and run it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from perdure.async_handle import AsyncHandle, Change
from perdure.code.declarations import Signal
from perdure.code.durations import Duration
from perdure.core.views import PublicEvent, StepView
from perdure.definition_workflow import Definition
from perdure.definitions.graph.execution_view import TokenCounts
from perdure.definitions.graph.shown_graph import ShownGraph
from perdure.loop_thread import LoopThread, run_in_user_transaction
from perdure.service.change_plans import ChangePlan, PlannedVerb
from perdure.service.definition_views import CurrentDefinition
from perdure.service.execution_families import ExecutionFamily
from perdure.service.execution_records import ExecutionRecord
from perdure.service.history import EmittedValue
from perdure.service.judged_conditions import ConditionList
from perdure.service.live_text import LiveText
from perdure.service.log_pages import LogPage
from perdure.service.node_passages import PassagePage
from perdure.service.queries import ExecutionStatus, ListedExecution
from perdure.service.step_traces import StepTrace
from perdure.service.wire_types import WorkflowInput

if TYPE_CHECKING:
    from perdure.display.execution_tree import ExecutionTree

R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")


class Handle(Generic[R_co]):
    """One execution, to people and programs outside of it. See `AsyncHandle`."""

    def __init__(self, thread: LoopThread, inner: AsyncHandle[R_co]) -> None:
        self.key = inner.key
        self.created = inner.created
        self._thread = thread
        self._inner = inner

    def __repr__(self) -> str:
        return f"<handle of {self.key}>"

    @property
    def id(self) -> str:
        """The id, unique per tenant and workflow."""
        return self._inner.id

    def result(self, timeout: Duration | None = None) -> R_co:
        """Waits for the end and returns the result of the workflow; at once, if it has ended. While the execution is paused, the wait continues.

        An end from before this handle's `resume` or `retry` is ignored. While the execution lacks something, such as an engine that knows the workflow, a
        warning is logged after two seconds and once a minute.

        Raises:
            ExecutionFailed, DeadlineExceeded, ExecutionCancelled: it ended without a result.
            NeedsAttention: it is parked until a person acts on it.
            Timeout: it did not end in time, for the reason in `why`; it continues.
            NotFound: the execution no longer exists.
        """
        return self._thread.call(self._inner.result(timeout))

    def summary(self) -> ListedExecution:
        """The entry of this execution in `Client.list`: status, version, times and attributes. It reads one row of the store, however long the log is."""
        return self._thread.call(self._inner.summary())

    def status(self) -> ExecutionStatus:
        """The status, with a sentence that says what the execution waits for.

        The first call of a client reads the whole log (100,000 steps take one or two seconds), later calls read what is new; `summary` reads none of it.
        """
        return self._thread.call(self._inner.status())

    def record(self, at: int | None = None) -> ExecutionRecord:
        """All that is known of the execution in one answer: status and reason, input and result, what it runs, who started it, its error, and the approvals
        that it waits for. With `at`, as it was after the event of that number.

        Raises:
            BadValue: its log has no such event, or has it no more.
        """
        return self._thread.call(self._inner.record(at))

    def input(self) -> WorkflowInput | None:
        """The arguments that it was started with, by position and by name; None once they were removed with its log."""
        return self._thread.call(self._inner.input())

    def steps(self) -> list[StepView]:
        """Every operation, settled and open, in the order of opening; for a definition, with the verb of each."""
        return self._thread.call(self._inner.steps())

    def attempts(self, at: int | None = None) -> list[StepTrace]:
        """Every operation as in `steps`, each with all its attempts, its input and its output. With `at`, as they were after the event of that number.

        Raises:
            BadValue: its log has no such event, or has it no more.
            NotReplayable: it runs a definition, and its log does not replay over that.
        """
        return self._thread.call(self._inner.attempts(at))

    def graph(self, at: int | None = None) -> ShownGraph:
        """The graph of the execution as data: of a definition its plan, with the state of each step; of code its operations. With `at`, as it was after the
        event of that number.

        Raises:
            BadValue: it has not begun, or its log has no such event, or has it no more.
            NotReplayable: it runs a definition, and its log does not replay over that.
        """
        return self._thread.call(self._inner.graph(at))

    def passages(self, node: str, at: int | None = None, after: int = 0, limit: int = 100) -> PassagePage:
        """The passages of a node of the graph, by its id, in the order in which they began: up to `limit` behind number `after`; as of event `at`."""
        return self._thread.call(self._inner.passages(node, at, after, limit))

    def conditions(self, path: str, at: int | None = None) -> ConditionList:
        """The conditions that a step of a definition has judged, by its path: row by row, with the values that were compared; as of event `at`."""
        return self._thread.call(self._inner.conditions(path, at))

    def definition(self, at: int | None = None) -> CurrentDefinition:
        """The definition that it runs by, with its hash: the present one, or that of after the event of number `at`.

        Raises:
            BadValue: it runs code, or has not begun, or its log has no such event, or has it no more.
        """
        return self._thread.call(self._inner.definition(at))

    def tokens(self, at: int | None = None) -> TokenCounts:
        """The tokens of an execution of a definition: its counter, open steps, waiting joins, applied keys and outputs; also after the event of number `at`.

        Raises:
            BadValue: it runs code, or had not begun, or its log has no such event, or has it no more.
            NotReplayable: its log does not replay over its definition.
        """
        return self._thread.call(self._inner.tokens(at))

    def tree(self) -> ExecutionTree:
        """The execution as a tree of its operations, for notebooks, which display it so that parts of it can be expanded, and for prompts, which print it.

        It has the status, each operation with its state, attempts, time, and value or error, shortened, and the executions that this one has started.
        """
        return self._thread.call(self._inner.tree())

    def family(self, at: int | None = None) -> ExecutionFamily:
        """The parent of the execution and its children with theirs, up to 50, each with its status and the number of its last event. With `at`, as they were at
        the time of the event of that number: what is no longer known of a member, its `unknown` says.

        Raises:
            BadValue: its log has no such event, or has it no more.
        """
        return self._thread.call(self._inner.family(at))

    def query(self, key: str | None = None, default: Any = None, *, at: int | None = None) -> Any:
        """The value that the workflow has set under `key` (`default` if none), or all values as a dict. It works after the end, too.

        With `at`, it is as of the event of that number.

        Raises:
            BadValue: its log has no such event, or has it no more.
        """
        return self._thread.call(self._inner.query(key, default, at=at))

    def stream(self, after: int = 0, follow: bool = True, *, at: int | None = None) -> Iterator[EmittedValue]:
        """Yields the values that the workflow emits, from number `after` + 1 on, until the execution ends; without `follow`, the values so far.

        With `at`, it yields those that the workflow had emitted as of the event of that number.

        To resume a stream, pass the number of the last value that was processed. Values of iterations that have been forgotten are gone; the next value says
        how many are missing before it.
        """
        return self._thread.drain(self._inner.stream(after, follow, at=at))

    def live_text(self, after: int = 0, follow: bool = True) -> Iterator[LiveText]:
        """Yields what steps write before they have an outcome, such as the answers of models that stream, until the execution ends; without `follow`, what
        there is now.

        Each piece takes the place of the text of its path from its `offset` on. At offset 0 the text begins anew: an attempt that was lost or has failed is
        repeated. A reader that comes back passes the number of the last piece, and gets again what is there.
        """
        return self._thread.drain(self._inner.live_text(after, follow))

    def events(self, after: int = 0, follow: bool = False) -> Iterator[PublicEvent]:
        """Yields the public events of the execution after the id `after`; with `follow`, until it ends."""
        return self._thread.drain(self._inner.events(after, follow))

    def history(self, after: int = 0) -> list[PublicEvent]:
        """The public events of the execution so far, after the id `after`, as a list. `events` also follows."""
        return self._thread.call(self._inner.history(after))

    def log(self, after: int | None = None, before: int | None = None, limit: int = 100, *, payloads: bool = False) -> LogPage:
        """The events of the execution as they are in its log: up to `limit` behind number `after`, or before number `before`; without both, the last ones.

        A number is one that `at` of other methods takes. With `payloads`, events have the values that they carry.
        """
        return self._thread.call(self._inner.log(after, before, limit, payloads=payloads))

    # By hand: what joins a transaction runs in the caller's thread.
    @overload
    def send(self, signal: Signal[T], body: T, *, key: str | None = ..., may_come: bool = ..., connection: Any = ...) -> None: ...
    @overload
    def send(self, signal: str, body: Any = ..., *, key: str | None = ..., may_come: bool = ..., connection: Any = ...) -> None: ...
    def send(self, signal: Signal[Any] | str, body: Any = None, *, key: str | None = None, may_come: bool = False, connection: Any = None) -> None:
        """See `AsyncHandle.send`. A `connection` is used in the caller's thread; one that belongs to an event loop is for an `AsyncHandle`."""
        sending = self._inner.send(signal, body, key=key, may_come=may_come, connection=connection)
        if connection is None:
            self._thread.call(sending)
        else:
            run_in_user_transaction(self._thread, self._inner._access, connection, sending)

    @overload
    def ask(self, signal: Signal[T], body: T, *, timeout: Duration | None = ...) -> Any: ...
    @overload
    def ask(self, signal: str, body: Any = ..., *, timeout: Duration | None = ...) -> Any: ...
    def ask(self, signal: Signal[Any] | str, body: Any = None, *, timeout: Duration | None = None) -> Any:
        """Sends a message and waits for the reply that the workflow gives with ``message.complete(reply)``.

        Raises:
            NotFound, HasEnded: no execution would receive it.
            NoReply: the execution ended without a reply, or its mailbox was full.
            MessageRejected: a validator has rejected the message, here or in the workflow.
            Timeout: there was no reply in time; the message remains with the execution.
        """
        return self._thread.call(self._inner.ask(signal, body, timeout=timeout))

    def cancel(self, reason: str = "", *, undo: bool = True, wait: bool = False, timeout: Duration | None = None) -> None:
        """Cancels the execution: the workflow unwinds, completed steps are undone unless `undo` is false, and it ends as cancelled.

        As with the other commands, the request is durable when this returns; with `wait`, it has taken effect.
        """
        self._thread.call(self._inner.cancel(reason, undo=undo, wait=wait, timeout=timeout))

    def terminate(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> None:
        """Ends the execution as cancelled at once, without running the workflow any further."""
        self._thread.call(self._inner.terminate(reason, wait=wait, timeout=timeout))

    def pause(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> None:
        """Pauses the execution: it begins nothing more until it is resumed. Attempts in flight finish, and their outcomes are recorded."""
        self._thread.call(self._inner.pause(reason, wait=wait, timeout=timeout))

    def resume(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> None:
        """Resumes a paused or parked execution where it is."""
        self._thread.call(self._inner.resume(reason, wait=wait, timeout=timeout))

    def evict(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> None:
        """Evicts the execution from its engine. It continues from its log, there or elsewhere.

        Async steps in flight are cancelled and begun again, which counts neither as an attempt nor as an interruption; sync steps finish first.
        """
        self._thread.call(self._inner.evict(reason, wait=wait, timeout=timeout))

    @overload
    def patch(self, change: Definition | Change, *, base: str = "", reason: str = "", wait: Literal[True] = True, timeout: Duration | None = None) -> int: ...
    @overload
    def patch(self, change: Definition | Change, *, base: str = "", reason: str = "", wait: bool = True, timeout: Duration | None = None) -> int | None: ...
    def patch(self, change: Definition | Change, *, base: str = "", reason: str = "", wait: bool = True, timeout: Duration | None = None) -> int | None:
        """Patches the pinned definition of the execution; what has begun stays as it is. Returns the number of the event from which the new definition
        applies.

        `change` is the new definition, or a change of the present one: a JSON Patch of its canonical form or of its nodes and edges, operations by id,
        ``{operations, description}`` or ``{workflow_tag, patch_spec}``. A change raises the minor version. With `base`, the patch applies only while that is
        the hash of the present definition. An engine decides; without `wait`, the patch is stored until one does, and None is returned.

        Raises:
            PatchRefused: the new definition does not fit what has begun, and nothing was changed.
            BadDefinition: the change does not apply, or its result is not valid.
        """
        return self._thread.call(self._inner.patch(change, base=base, reason=reason, wait=wait, timeout=timeout))

    def withdraw_patches(self) -> int:
        """Withdraws the patches that no engine has decided on yet, such as those of a `patch` without `wait`; returns how many.

        Raises:
            PatchRefused: an engine has decided on them, or may be about to.
        """
        return self._thread.call(self._inner.withdraw_patches())

    def undo(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> None:
        """Undoes the steps of a completed execution by their own handlers, last first and once; its result stays.

        Of an execution that failed or was cancelled, undoes the steps whose undo failed then.
        """
        self._thread.call(self._inner.undo(reason, wait=wait, timeout=timeout))

    def retry(self, reason: str = "", *, from_step: str | None = None, wait: bool = False, timeout: Duration | None = None) -> None:
        """Retries a failed execution from what failed; a parked one continues where it is. Steps that have succeeded are not called again.

        With `from_step`, a failed execution repeats that step and everything after it.
        """
        self._thread.call(self._inner.retry(reason, from_step=from_step, wait=wait, timeout=timeout))

    def rerun(self, *, id: str | None = None, version: int | None = None) -> Handle[R_co]:
        """Starts a new execution with the same input under a new id; returns its handle.

        Raises:
            AlreadyExists: the id is taken.
        """
        return Handle(self._thread, self._thread.call(self._inner.rerun(id=id, version=version)))

    def fork(
        self, from_step: str | None = None, *, input: Sequence[Any] | Mapping[str, Any] | None = None, id: str | None = None, version: int | None = None
    ) -> Handle[R_co]:
        """Starts a new execution with the outcomes of this one: all, or with `from_step` those that were opened before that step. Returns its handle.

        Open operations are opened again in the new execution; unread messages stay with this one. `input` replaces the arguments, by position or, as a
        mapping, by name; `version` replaces the pinned version of the workflow.

        Raises:
            BadValue: this execution has not reached that step.
            AlreadyExists: the id is taken.
        """
        return Handle(self._thread, self._thread.call(self._inner.fork(from_step, input=input, id=id, version=version)))

    def preset(self, step: str, value: Any = None) -> None:
        """Supplies the result of a step in place of performing it: of an open one, now; of one that is still to come or failed, when it is asked for.

        Raises:
            BadValue: the step has its result already.
        """
        self._thread.call(self._inner.preset(step, value))

    def plan(
        self,
        verb: PlannedVerb,
        *,
        undo: bool = True,
        from_step: str | None = None,
        step: str = "",
        change: Definition | Change | None = None,
        base: str = "",
    ) -> ChangePlan:
        """Says what a command would do to this execution, and changes nothing: ``(handle.plan("retry", from_step="pay")).repeated``.

        The options are those of the method of that name; `step` is for ``preset``, `change` and `base` are for ``patch``.

        Raises:
            HasEnded, BadValue, BadDefinition: the command would be refused for the same reason.
        """
        return self._thread.call(self._inner.plan(verb, undo=undo, from_step=from_step, step=step, change=change, base=base))

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """What IPython displays: the tree of the execution, which is read now."""
        from perdure.display.handle_notes import read_handle

        return read_handle(repr(self), self.tree)
