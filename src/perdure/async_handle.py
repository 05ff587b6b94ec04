"""The handle of asyncio programs: one execution, to people and programs outside of it.

No rule stands here: it is the typed face of `perdure.service`. What it says holds for its sync twin, `perdure.sync_client.Handle`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Generic, Literal, ParamSpec, TypeVar, overload
from uuid import uuid4

from perdure.code.call_options import NamedWorkflow
from perdure.code.declarations import CallOptions, Signal, checked_name
from perdure.code.durations import Duration, whole_number
from perdure.core import messages, values
from perdure.core.paths import Key
from perdure.core.views import PublicEvent, StepView
from perdure.definition_workflow import Definition
from perdure.runtime.execution_results import Ending
from perdure.runtime.workflow_programs import encode_input
from perdure.service import definition_patches, definition_views, execution_operations, history, queries, reruns
from perdure.service.execution_folds import ExecutionFold
from perdure.service.execution_operations import await_reply
from perdure.service.history import EmittedValue
from perdure.service.queries import ExecutionStatus, ListedExecution
from perdure.service.store_access import StoreAccess, with_timeout
from perdure.short_traceback import short_traceback
from perdure.workflow_function import Workflow

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")

Change = Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""A change of a definition: operations, or a mapping that holds them."""


class AsyncHandle(Generic[R_co]):
    """One execution, to people and programs outside of it. `created` says whether the start that this came from made it."""

    def __init__(self, access: StoreAccess, key: Key, kind: Any, created: bool = False, after: int = 0) -> None:
        self.key = key
        self.created = created
        self._access = access
        self._kind = kind
        self._after = after

    def __repr__(self) -> str:
        return f"<handle of {self.key}>"

    @property
    def _fold(self) -> ExecutionFold:
        return self._access.folds.of(self.key)

    @property
    def id(self) -> str:
        """The id, unique per tenant and workflow."""
        return self.key.id

    async def result(self, timeout: Duration | None = None) -> R_co:
        """Wait for the end and return what the workflow returned; at once, if it has ended. A paused execution is waited for.

        What was before this handle's `resume` or `retry` does not count. While something is missing for it to go on, such as an engine that knows
        the workflow, a warning says so, after two seconds and once a minute.

        Raises:
            ExecutionFailed, DeadlineExceeded, ExecutionCancelled: how else it ended.
            NeedsAttention: it is parked until somebody looks at it.
            Timeout: it did not end in time, for the reason in `why`; it goes on.
            NotFound: there is no such execution any more.
        """
        return await self._result(timeout)

    async def _result(self, timeout: Duration | None, ending: Ending | None = None) -> R_co:
        """See `result`. `ending` is given if the execution has just begun in the engine of this process: the end that follows."""
        with short_traceback, self._access.notices.waiting(self.key):
            async with with_timeout(timeout, f"the result of {self.key}", self._why):
                raw = await self._access.result(self.key, self._after, ending)
        value: R_co = values.decode(raw, self._kind, f"the result of {self.key}")
        return value

    async def _why(self) -> str:
        return (await self.status()).why

    async def summary(self) -> ListedExecution:
        """What `AsyncClient.list` says of it: its status, version, times and attributes. That is one row of the store, however long the execution is."""
        return await queries.execution_summary(self._access, self.key)

    async def status(self) -> ExecutionStatus:
        """How it stands, and in a sentence why it waits.

        The first call of a client reads the whole log for that, 100,000 steps in one or two seconds, the next ones what is new; `summary` reads none of it.
        """
        return await queries.execution_status(self._access, self._fold)

    async def steps(self) -> list[StepView]:
        """Every operation that it knows, settled and open, in the order in which they were opened; of a definition, by its verbs."""
        return await definition_views.step_views(self._access, self._fold)

    async def query(self, key: str | None = None, default: Any = None) -> Any:
        """What the workflow has set under `key` (`default`, if it has not), or all that it has set as a dict; also after its end."""
        return await queries.workflow_state(self._access, self._fold, key, default)

    def stream(self, after: int = 0, follow: bool = True) -> AsyncGenerator[EmittedValue, None]:
        """The values that the workflow emits, from number `after` + 1 on, as they come; ends when the execution ends.

        Without `follow`, those that are there. A stream is resumed with the number of the last value that was dealt with. Values in
        turns of a loop that were forgotten since are gone; the next one says how many are missing before it.
        """
        return history.stream_values(self._access, self.key, whole_number(after, "stream(after)", 0), follow)

    def events(self, after: int = 0, follow: bool = False) -> AsyncGenerator[PublicEvent, None]:
        """What happened to the execution, as public events after the one with the id `after`; with `follow`, also what comes, until its end."""
        return history.stream_history(self._access, self.key, whole_number(after, "events(after)", 0), follow)

    @overload
    async def send(self, signal: Signal[T], body: T, *, key: str | None = ..., may_come: bool = ..., connection: Any = ...) -> None: ...
    @overload
    async def send(self, signal: str, body: Any = ..., *, key: str | None = ..., may_come: bool = ..., connection: Any = ...) -> None: ...
    async def send(self, signal: Signal[Any] | str, body: Any = None, *, key: str | None = None, may_come: bool = False, connection: Any = None) -> None:
        """Send a message; it is durable when this returns. Sent again within 24 hours with the same `key`, it arrives once.

        With `may_come`, an execution that does not exist yet is no error: the message waits for it, for 7 days. With a `connection` to the
        store's database, the message takes part in the transaction that is open on it, as a start does: see `AsyncClient.start`.

        Raises:
            NotFound, HasEnded: nobody would read it.
            BadValue: the body is not of the signal's type, or the connection has no transaction on this database.
        """
        message = execution_operations.signal_message(signal, body, key)
        if connection is not None:
            await execution_operations.send_in_transaction(self._access.store, connection, self.key, message, may_come)
        else:
            _ = await execution_operations.send_signal(self._access, self.key, message, may_come)

    @overload
    async def ask(self, signal: Signal[T], body: T, *, timeout: Duration | None = ...) -> Any: ...
    @overload
    async def ask(self, signal: str, body: Any = ..., *, timeout: Duration | None = ...) -> Any: ...
    async def ask(self, signal: Signal[Any] | str, body: Any = None, *, timeout: Duration | None = None) -> Any:
        """Send a message and wait for the reply that the workflow gives with ``message.complete(reply)``.

        Raises:
            NotFound, HasEnded: nobody would read it.
            NoReply: the execution ended without a reply, or its mailbox was full.
            Timeout: there was no reply in time; the message stays where it is.
        """
        message = execution_operations.signal_message(signal, body)
        async with with_timeout(timeout, f"the reply of {self.key} to {message.name}"):
            reply = await await_reply(self._access, self.key, message)
        return values.decode(await self._access.payload(reply), Any, f"the reply of {self.key}")

    async def cancel(self, reason: str = "", *, undo: bool = True, wait: bool = False, timeout: Duration | None = None) -> None:
        """Have the workflow unwind, undo what it has done unless that is not wanted, and end as cancelled.

        Like its siblings it is durable when this returns; with `wait`, it has taken effect.
        """
        async with with_timeout(timeout, f"the end of {self.key}"):
            await execution_operations.cancel_execution(self._access, self.key, reason, wait, undo)

    async def terminate(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> None:
        """End the execution as cancelled, at once; the workflow gets no say."""
        async with with_timeout(timeout, f"the end of {self.key}"):
            await execution_operations.terminate_execution(self._access, self.key, reason, wait)

    async def pause(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> None:
        """Begin nothing more until resumed; what is being done is finished and remembered."""
        async with with_timeout(timeout, f"the pause of {self.key}"):
            await execution_operations.pause_execution(self._access, self.key, reason, wait)

    async def resume(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> None:
        """Have a paused or parked execution go on from where it stands."""
        async with with_timeout(timeout, f"the resume of {self.key}"):
            self._after = await execution_operations.resume_execution(self._access, self.key, reason, wait)

    async def evict(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> None:
        """Have the execution leave the engine that has it, and go on from its log, there or elsewhere.

        Async steps in progress there are cancelled and begun again, which counts neither as a try nor as an interruption; sync ones are finished first.
        """
        async with with_timeout(timeout, f"the eviction of {self.key}"):
            await execution_operations.evict_execution(self._access, self.key, reason, wait)

    @overload
    async def patch(
        self, change: Definition | Change, *, base: str = "", reason: str = "", wait: Literal[True] = True, timeout: Duration | None = None
    ) -> int: ...
    @overload
    async def patch(
        self, change: Definition | Change, *, base: str = "", reason: str = "", wait: bool = True, timeout: Duration | None = None
    ) -> int | None: ...
    async def patch(self, change: Definition | Change, *, base: str = "", reason: str = "", wait: bool = True, timeout: Duration | None = None) -> int | None:
        """Have an execution of a definition go on by another one; what has begun stays as it is. Return the number of the event from which on it does.

        `change` is that definition, or a change of the present one: a JSON Patch of its canonical form or of its nodes and edges, operations by id,
        ``{operations, description}`` or ``{workflow_tag, patch_spec}``. A change raises the minor version. With `base`, only if that is still the hash of the
        definition by which it goes on. An engine judges it; without `wait`, it is kept until one does, and None is returned.

        Raises:
            PatchRefused: what has begun does not fit it, and nothing was changed.
            BadDefinition: the change can't be carried out, or what it makes is not valid.
        """
        async with with_timeout(timeout, f"the patch of {self.key}"):
            sha256 = base.removeprefix("sha256:")
            if isinstance(change, Definition):
                message = messages.PatchMessage(change.graph.definition or b"", sha256, reason)
            else:
                message = await definition_patches.patch_message(self._access, self.key, change, sha256, reason)
            return await definition_patches.apply_patch(self._access, self.key, message, wait)

    async def withdraw_patches(self) -> int:
        """Take back the patches that no engine has judged yet, such as those of a `patch` that was not waited for; return how many.

        Raises:
            PatchRefused: an engine has judged them meanwhile, or may be about to.
        """
        return await definition_patches.withdraw_patches(self._access, self.key)

    async def undo(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> None:
        """Undo what a completed execution has done, by its own handlers, last first and once; its result stays. Of one that failed or was cancelled, undo
        what could not be undone then."""
        async with with_timeout(timeout, f"the undoing of {self.key}"):
            await execution_operations.undo_execution(self._access, self.key, reason, wait)

    async def retry(self, reason: str = "", *, from_step: str | None = None, wait: bool = False, timeout: Duration | None = None) -> None:
        """Have a failed execution go on from what failed, and a parked one from where it stands; what had succeeded is not done again.

        With `from_step`, what a failed one did from that step on is done again; what was begun earlier is not.
        """
        async with with_timeout(timeout, f"the retry of {self.key}"):
            self._after = await execution_operations.retry_execution(self._access, self.key, reason, wait, from_step)

    async def rerun(self, *, id: str | None = None, version: int | None = None) -> AsyncHandle[R_co]:
        """Begin a new execution with the same input, under a new id; return its handle.

        Raises:
            AlreadyExists: the id is taken.
        """
        wanted = reruns.RerunRequest(key=self._anew(id), version=version)
        await reruns.rerun_execution(self._access, self.key, wanted)
        return AsyncHandle(self._access, wanted.key, self._kind, True)

    async def fork(
        self, from_step: str | None = None, *, input: Sequence[Any] | Mapping[str, Any] | None = None, id: str | None = None, version: int | None = None
    ) -> AsyncHandle[R_co]:
        """Begin a new execution with what this one had reached: all, or with `from_step` what was begun earlier; return its handle.

        What is open here is opened anew there; messages that this one has not read stay with it. `input` replaces the arguments, by position or,
        as a mapping, by name; `version` the pinned version of the workflow.

        Raises:
            BadValue: it has not come to that step.
            AlreadyExists: the id is taken.
        """
        args, kwargs = ((), input) if isinstance(input, Mapping) else (tuple(input or ()), {})
        raw = None if input is None else encode_input(self.key.workflow, args, kwargs)
        wanted = reruns.RerunRequest(key=self._anew(id), input=raw, version=version, from_step=from_step)
        await reruns.fork_execution(self._access, self.key, wanted)
        return AsyncHandle(self._access, wanted.key, self._kind, True)

    async def preset(self, step: str, value: Any = None) -> None:
        """Give the result of a step in place of its work: of one that is open, now; of one that is yet to come or failed, when it is asked for.

        Raises:
            BadValue: the step has its result already.
        """
        await reruns.preset_outcome(self._access, self.key, step, reruns.encode_outcome(value, step))

    def _anew(self, id: str | None) -> Key:
        return self.key._replace(id=uuid4().hex if id is None else checked_name(id, "id"))


def name_of(workflow: Workflow[..., Any] | str) -> str:
    """What a workflow is called."""
    return workflow.code.name if isinstance(workflow, Workflow) else checked_name(workflow, "workflow")


def kind_of(workflow: Workflow[..., Any] | NamedWorkflow | str | None) -> Any:
    """The type of the results of a workflow, as far as it is known here."""
    return workflow.code.codec.result if isinstance(workflow, Workflow) else Any


def connection_of(workflow: Workflow[..., Any] | NamedWorkflow | str) -> Any:
    """The connection that was chosen for a start; None, if none was."""
    known = workflow.code if isinstance(workflow, Workflow) else workflow
    return getattr(known, "calling", CallOptions()).connection  # whatever else is given is refused by the start
