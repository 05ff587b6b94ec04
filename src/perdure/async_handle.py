"""The asyncio handle of one execution.

It holds no rules, but gives `perdure.service` its typed interface. `perdure.sync_client.Handle` is generated from it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, TypeVar, overload
from uuid import uuid4

from perdure.code.call_options import NamedWorkflow
from perdure.code.declarations import CallOptions, Signal, checked_name
from perdure.code.durations import Duration, whole_number
from perdure.core import values
from perdure.core.paths import Key
from perdure.core.views import PublicEvent, StepView
from perdure.definition_workflow import Definition
from perdure.definitions.graph.execution_view import TokenCounts
from perdure.definitions.graph.shown_graph import ShownGraph
from perdure.operations import on_execution_changes, on_executions
from perdure.runtime.execution_results import Ending
from perdure.runtime.workflow_programs import encode_input
from perdure.service import execution_operations, queries
from perdure.service.change_plans import ChangePlan, PlannedVerb
from perdure.service.definition_views import CurrentDefinition
from perdure.service.execution_families import ExecutionFamily
from perdure.service.execution_records import ExecutionRecord
from perdure.service.history import EmittedValue
from perdure.service.judged_conditions import ConditionList
from perdure.service.live_text import LiveText
from perdure.service.log_pages import LogPage
from perdure.service.node_passages import PassagePage
from perdure.service.page_cursors import PAGE_MAX
from perdure.service.queries import ExecutionStatus, ListedExecution
from perdure.service.service_access import ServiceAccess
from perdure.service.step_traces import StepTrace
from perdure.service.store_access import with_timeout
from perdure.service.wire_types import WorkflowInput, decoded_input
from perdure.short_traceback import short_traceback
from perdure.workflow_function import Workflow

if TYPE_CHECKING:
    from perdure.display.execution_tree import ExecutionTree

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")

Change = Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""A change of a definition: a list of operations, or a mapping that contains one."""


class AsyncHandle(Generic[R_co]):
    """The handle of one execution. `created` says whether the start that returned this handle created it.

    After a start in an outbox, `created` is true, and only `result` waits until the execution exists.
    """

    def __init__(self, access: ServiceAccess, key: Key, kind: Any, created: bool = False, after: int = 0, *, in_outbox: bool = False) -> None:
        self.key = key
        self.created = created
        self._access = access
        self._kind = kind
        self._after = after
        self._in_outbox = in_outbox

    def __repr__(self) -> str:
        return f"<handle of {self.key}>"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Returns what IPython displays: the name of the execution, and what to await."""
        from perdure.display.handle_notes import unread_handle

        return unread_handle(repr(self))

    @property
    def id(self) -> str:
        """The id, unique per tenant and workflow."""
        return self.key.id

    async def result(self, timeout: Duration | None = None) -> R_co:
        """Waits for the end and returns the result of the workflow; at once, if it has ended. While the execution is paused, the wait continues.

        An end from before this handle's `resume` or `retry` is ignored. While the execution lacks something, such as an engine that knows the workflow, a
        warning is logged after two seconds and once a minute.

        Raises:
            ExecutionFailed, DeadlineExceeded, ExecutionCancelled: it ended without a result.
            NeedsAttention: it is parked until a person acts on it.
            Timeout: it did not end in time, for the reason in `why`; it continues.
            NotFound: the execution no longer exists.
        """
        return await self._result(timeout)

    async def _result(self, timeout: Duration | None, ending: Ending | None = None) -> R_co:
        """Does the same. `ending` is the end that follows in the engine of this process, if the execution has just begun there."""
        with short_traceback:
            if timeout is None:
                raw = await self._encoded_result(ending)
            else:
                async with with_timeout(timeout, f"the result of {self.key}", self._why):
                    raw = await self._encoded_result(ending)
        value: R_co = values.decode(raw, self._kind, f"the result of {self.key}")
        return value

    async def _encoded_result(self, ending: Ending | None) -> bytes:
        if self._in_outbox:
            await self._access.on_store("an outbox").until_there(self.key)
        return await self._access.result(self.key, self._after, ending)

    async def _why(self) -> str:
        return (await self.status()).why

    async def summary(self) -> ListedExecution:
        """The entry of this execution in `AsyncClient.list`: status, version, times and attributes. It reads one row of the store, however long the log is."""
        return await self._access.call(on_executions.summary, self.key)

    async def status(self) -> ExecutionStatus:
        """The status, with a sentence that says what the execution waits for.

        The first call of a client reads the whole log (100,000 steps take one or two seconds), later calls read what is new; `summary` reads none of it.
        """
        return await self._access.call(on_executions.status, self.key)

    async def record(self, at: int | None = None) -> ExecutionRecord:
        """All that is known of the execution in one answer: status and reason, input and result, what it runs, who started it, its error, and the approvals
        that it waits for. With `at`, as it was after the event of that number.

        Raises:
            BadValue: its log has no such event, or has it no more.
        """
        return await self._access.call(on_executions.read, self.key, at)

    async def input(self) -> WorkflowInput | None:
        """The arguments that it was started with, by position and by name; None once they were removed with its log."""
        raw = (await self._access.call(on_executions.input, self.key)).input
        return None if raw is None else decoded_input(raw, f"the input of {self.key}")

    async def steps(self) -> list[StepView]:
        """Every operation, settled and open, in the order of opening; for a definition, with the verb of each."""
        return await self._access.call(on_executions.steps, self.key)

    async def attempts(self, at: int | None = None) -> list[StepTrace]:
        """Every operation as in `steps`, each with all its attempts, its input and its output. With `at`, as they were after the event of that number.

        Raises:
            BadValue: its log has no such event, or has it no more.
            NotReplayable: it runs a definition, and its log does not replay over that.
        """
        found: list[StepTrace] = []
        after: int | None = 0
        while after is not None:
            page = await self._access.call(on_executions.traces, self.key, at, after, PAGE_MAX)
            found, after = found + page.items, page.next
        return found

    async def graph(self, at: int | None = None) -> ShownGraph:
        """The graph of the execution as data: of a definition its plan, with the state of each step; of code its operations. With `at`, as it was after the
        event of that number.

        Raises:
            BadValue: it has not begun, or its log has no such event, or has it no more.
            NotReplayable: it runs a definition, and its log does not replay over that.
        """
        return await self._access.call(on_executions.graph, self.key, at)

    async def passages(self, node: str, at: int | None = None, after: int = 0, limit: int = 100) -> PassagePage:
        """The passages of a node of the graph, by its id, in the order in which they began: up to `limit` behind number `after`; as of event `at`."""
        return await self._access.call(on_executions.passages, self.key, node, at, after, limit)

    async def conditions(self, path: str, at: int | None = None) -> ConditionList:
        """The conditions that a step of a definition has judged, by its path: row by row, with the values that were compared; as of event `at`."""
        return await self._access.call(on_executions.conditions, self.key, path, at)

    async def definition(self, at: int | None = None) -> CurrentDefinition:
        """The definition that it runs by, with its hash: the present one, or that of after the event of number `at`.

        Raises:
            BadValue: it runs code, or has not begun, or its log has no such event, or has it no more.
        """
        return await self._access.call(on_executions.definition, self.key, at)

    async def tokens(self, at: int | None = None) -> TokenCounts:
        """The tokens of an execution of a definition: its counter, open steps, waiting joins, applied keys and outputs; also after the event of number `at`.

        Raises:
            BadValue: it runs code, or had not begun, or its log has no such event, or has it no more.
            NotReplayable: its log does not replay over its definition.
        """
        return await self._access.call(on_executions.tokens, self.key, at)

    async def tree(self) -> ExecutionTree:
        """The execution as a tree of its operations, for notebooks, which display it so that parts of it can be expanded, and for prompts, which print it.

        It has the status, each operation with its state, attempts, time, and value or error, shortened, and the executions that this one has started.
        """
        from perdure.display.execution_tree import ExecutionTree  # here, so that programs that display nothing do not load it

        return ExecutionTree(await self._access.call(on_executions.details, self.key))

    async def family(self, at: int | None = None) -> ExecutionFamily:
        """The parent of the execution and its children with theirs, up to 50, each with its status and the number of its last event. With `at`, as they were at
        the time of the event of that number: what is no longer known of a member, its `unknown` says.

        Raises:
            BadValue: its log has no such event, or has it no more.
        """
        return await self._access.call(on_executions.family, self.key, at)

    async def query(self, key: str | None = None, default: Any = None, *, at: int | None = None) -> Any:
        """The value that the workflow has set under `key` (`default` if none), or all values as a dict. It works after the end, too.

        With `at`, it is as of the event of that number.

        Raises:
            BadValue: its log has no such event, or has it no more.
        """
        return queries.decoded_state(await self._access.call(on_executions.state, self.key, key, at), key, default)

    def stream(self, after: int = 0, follow: bool = True, *, at: int | None = None) -> AsyncGenerator[EmittedValue, None]:
        """Yields the values that the workflow emits, from number `after` + 1 on, until the execution ends; without `follow`, the values so far.

        With `at`, it yields those that the workflow had emitted as of the event of that number.

        To resume a stream, pass the number of the last value that was processed. Values of iterations that have been forgotten are gone; the next value says
        how many are missing before it.
        """
        return self._access.stream(on_executions.stream, self.key, whole_number(after, "stream(after)", 0), follow, at)

    def live_text(self, after: int = 0, follow: bool = True) -> AsyncGenerator[LiveText, None]:
        """Yields what steps write before they have an outcome, such as the answers of models that stream, until the execution ends; without `follow`, what
        there is now.

        Each piece takes the place of the text of its path from its `offset` on. At offset 0 the text begins anew: an attempt that was lost or has failed is
        repeated. A reader that comes back passes the number of the last piece, and gets again what is there.
        """
        return self._access.stream(on_executions.live_text, self.key, whole_number(after, "live_text(after)", 0), follow)

    def events(self, after: int = 0, follow: bool = False) -> AsyncGenerator[PublicEvent, None]:
        """Yields the public events of the execution after the id `after`; with `follow`, until it ends."""
        return self._access.stream(on_executions.events, self.key, whole_number(after, "events(after)", 0), follow)

    async def history(self, after: int = 0) -> list[PublicEvent]:
        """The public events of the execution so far, after the id `after`, as a list. `events` also follows."""
        return [one async for one in self.events(after)]

    async def log(self, after: int | None = None, before: int | None = None, limit: int = 100, *, payloads: bool = False) -> LogPage:
        """The events of the execution as they are in its log: up to `limit` behind number `after`, or before number `before`; without both, the last ones.

        A number is one that `at` of other methods takes. With `payloads`, events have the values that they carry.
        """
        return await self._access.call(on_executions.log, self.key, after, before, limit, payloads)

    @overload
    async def send(self, signal: Signal[T], body: T, *, key: str | None = ..., may_come: bool = ..., connection: Any = ...) -> None: ...
    @overload
    async def send(self, signal: str, body: Any = ..., *, key: str | None = ..., may_come: bool = ..., connection: Any = ...) -> None: ...
    async def send(self, signal: Signal[Any] | str, body: Any = None, *, key: str | None = None, may_come: bool = False, connection: Any = None) -> None:
        """Sends a message; it is durable when this returns. Sent again with the same `key` within 24 hours, it arrives once.

        With `may_come`, the execution need not exist yet: the message waits for it, for 7 days. With a `connection` to the store's database or that of the
        App's outbox, the message takes part in the transaction that is open on it: see `AsyncClient.start`.

        Raises:
            NotFound, HasEnded: no execution would receive it.
            BadValue: the body is not of the signal's type, or the connection has no transaction on this database.
        """
        if connection is not None:
            message = execution_operations.signal_message(signal, body, key)
            await execution_operations.send_in_transaction(self._access.on_store("connection="), connection, self.key, message, may_come)
        else:
            name, raw = execution_operations.signal_body(signal, body)
            await self._access.call(on_execution_changes.send, self.key, name, raw, execution_operations.message_key(key), may_come)

    @overload
    async def ask(self, signal: Signal[T], body: T, *, timeout: Duration | None = ...) -> Any: ...
    @overload
    async def ask(self, signal: str, body: Any = ..., *, timeout: Duration | None = ...) -> Any: ...
    async def ask(self, signal: Signal[Any] | str, body: Any = None, *, timeout: Duration | None = None) -> Any:
        """Sends a message and waits for the reply that the workflow gives with ``message.complete(reply)``.

        Raises:
            NotFound, HasEnded: no execution would receive it.
            NoReply: the execution ended without a reply, or its mailbox was full.
            MessageRejected: a validator has rejected the message, here or in the workflow.
            Timeout: there was no reply in time; the message remains with the execution.
        """
        name, raw = execution_operations.signal_body(signal, body)
        async with with_timeout(timeout, f"the reply of {self.key} to {name}"):
            reply = await self._access.call(on_execution_changes.ask, self.key, name, raw)
        return values.decode(reply, Any, f"the reply of {self.key}")

    async def cancel(self, reason: str = "", *, undo: bool = True, wait: bool = False, timeout: Duration | None = None) -> None:
        """Cancels the execution: the workflow unwinds, completed steps are undone unless `undo` is false, and it ends as cancelled.

        As with the other commands, the request is durable when this returns; with `wait`, it has taken effect.
        """
        async with with_timeout(timeout, f"the end of {self.key}"):
            await self._access.call(on_execution_changes.cancel, self.key, reason, undo, wait)

    async def terminate(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> None:
        """Ends the execution as cancelled at once, without running the workflow any further."""
        async with with_timeout(timeout, f"the end of {self.key}"):
            await self._access.call(on_execution_changes.terminate, self.key, reason, wait)

    async def pause(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> None:
        """Pauses the execution: it begins nothing more until it is resumed. Attempts in flight finish, and their outcomes are recorded."""
        async with with_timeout(timeout, f"the pause of {self.key}"):
            await self._access.call(on_execution_changes.pause, self.key, reason, wait)

    async def resume(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> None:
        """Resumes a paused or parked execution where it is."""
        async with with_timeout(timeout, f"the resume of {self.key}"):
            self._after = await self._access.call(on_execution_changes.resume, self.key, reason, wait)

    async def evict(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> None:
        """Evicts the execution from its engine. It continues from its log, there or elsewhere.

        Async steps in flight are cancelled and begun again, which counts neither as an attempt nor as an interruption; sync steps finish first.
        """
        async with with_timeout(timeout, f"the eviction of {self.key}"):
            await self._access.call(on_execution_changes.evict, self.key, reason, wait)

    @overload
    async def patch(
        self, change: Definition | Change, *, base: str = "", reason: str = "", wait: Literal[True] = True, timeout: Duration | None = None
    ) -> int: ...
    @overload
    async def patch(
        self, change: Definition | Change, *, base: str = "", reason: str = "", wait: bool = True, timeout: Duration | None = None
    ) -> int | None: ...
    async def patch(self, change: Definition | Change, *, base: str = "", reason: str = "", wait: bool = True, timeout: Duration | None = None) -> int | None:
        """Patches the pinned definition of the execution; what has begun stays as it is. Returns the number of the event from which the new definition
        applies.

        `change` is the new definition, or a change of the present one: a JSON Patch of its canonical form or of its nodes and edges, operations by id,
        ``{operations, description}`` or ``{workflow_tag, patch_spec}``. A change raises the minor version. With `base`, the patch applies only while that is
        the hash of the present definition. An engine decides; without `wait`, the patch is stored until one does, and None is returned.

        Raises:
            PatchRefused: the new definition does not fit what has begun, and nothing was changed.
            BadDefinition: the change does not apply, or its result is not valid.
        """
        async with with_timeout(timeout, f"the patch of {self.key}"):
            changed, definition = _change_and_definition(change)
            return await self._access.call(on_execution_changes.patch, self.key, changed, definition, base=base, reason=reason, wait=wait)

    async def withdraw_patches(self) -> int:
        """Withdraws the patches that no engine has decided on yet, such as those of a `patch` without `wait`; returns how many.

        Raises:
            PatchRefused: an engine has decided on them, or may be about to.
        """
        return await self._access.call(on_execution_changes.withdraw_patches, self.key)

    async def undo(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> None:
        """Undoes the steps of a completed execution by their own handlers, last first and once; its result stays.

        Of an execution that failed or was cancelled, undoes the steps whose undo failed then.
        """
        async with with_timeout(timeout, f"the undoing of {self.key}"):
            await self._access.call(on_execution_changes.undo, self.key, reason, wait)

    async def retry(self, reason: str = "", *, from_step: str | None = None, wait: bool = False, timeout: Duration | None = None) -> None:
        """Retries a failed execution from what failed; a parked one continues where it is. Steps that have succeeded are not called again.

        With `from_step`, a failed execution repeats that step and everything after it.
        """
        async with with_timeout(timeout, f"the retry of {self.key}"):
            self._after = await self._access.call(on_execution_changes.retry, self.key, reason, from_step, wait)

    async def rerun(self, *, id: str | None = None, version: int | None = None) -> AsyncHandle[R_co]:
        """Starts a new execution with the same input under a new id; returns its handle.

        Raises:
            AlreadyExists: the id is taken.
        """
        key = await self._access.call(on_execution_changes.rerun, self.key, self._new_id(id), version)
        return AsyncHandle(self._access, key, self._kind, True)

    async def fork(
        self, from_step: str | None = None, *, input: Sequence[Any] | Mapping[str, Any] | None = None, id: str | None = None, version: int | None = None
    ) -> AsyncHandle[R_co]:
        """Starts a new execution with the outcomes of this one: all, or with `from_step` those that were opened before that step. Returns its handle.

        Open operations are opened again in the new execution; unread messages stay with this one. `input` replaces the arguments, by position or, as a
        mapping, by name; `version` replaces the pinned version of the workflow.

        Raises:
            BadValue: this execution has not reached that step.
            AlreadyExists: the id is taken.
        """
        args, kwargs = ((), input) if isinstance(input, Mapping) else (tuple(input or ()), {})
        raw = None if input is None else encode_input(self.key.workflow, args, kwargs)
        key = await self._access.call(on_execution_changes.fork, self.key, from_step, raw, self._new_id(id), version)
        return AsyncHandle(self._access, key, self._kind, True)

    async def preset(self, step: str, value: Any = None) -> None:
        """Supplies the result of a step in place of performing it: of an open one, now; of one that is still to come or failed, when it is asked for.

        Raises:
            BadValue: the step has its result already.
        """
        await self._access.call(on_execution_changes.preset, self.key, step, values.encode(value, f"the result of {step}"))

    async def plan(
        self,
        verb: PlannedVerb,
        *,
        undo: bool = True,
        from_step: str | None = None,
        step: str = "",
        change: Definition | Change | None = None,
        base: str = "",
    ) -> ChangePlan:
        """Says what a command would do to this execution, and changes nothing: ``(await handle.plan("retry", from_step="pay")).repeated``.

        The options are those of the method of that name; `step` is for ``preset``, `change` and `base` are for ``patch``.

        Raises:
            HasEnded, BadValue, BadDefinition: the command would be refused for the same reason.
        """
        changed, definition = _change_and_definition(change)
        given: dict[str, Any] = {"undo": undo, "from_step": from_step, "step": step, "change": changed, "definition": definition, "base": base}
        return await self._access.call(on_execution_changes.plan, self.key, verb, **given)

    def _new_id(self, id: str | None) -> str:
        return uuid4().hex if id is None else checked_name(id, "id")


def _change_and_definition(change: Definition | Change | None) -> tuple[Change | None, bytes | None]:
    """A change of a definition and a whole new one, of which a patch has one."""
    return (None, change.graph.definition or b"") if isinstance(change, Definition) else (change, None)


def name_of(workflow: Workflow[..., Any] | str) -> str:
    """The name of a workflow."""
    return workflow.code.name if isinstance(workflow, Workflow) else checked_name(workflow, "workflow")


def kind_of(workflow: Workflow[..., Any] | NamedWorkflow | str | None) -> Any:
    """The type of the results of a workflow, as far as it is known here."""
    return workflow.code.codec.result if isinstance(workflow, Workflow) else Any


def connection_of(workflow: Workflow[..., Any] | NamedWorkflow | str) -> Any:
    """The connection that was chosen for a start; None if there is none."""
    known = workflow.code if isinstance(workflow, Workflow) else workflow
    return getattr(known, "calling", CallOptions()).connection  # the start itself refuses an argument that is no workflow
