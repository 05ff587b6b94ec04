"""The client of sync programs, and its selections.

Made from `perdure.async_client` by ``python -m tools.make_sync``, but for what that leaves alone: change the async methods, and run it.

A client runs one event loop in a daemon thread of its own, so it works in scripts, in threads, in notebooks and inside of a running loop (which waits
meanwhile).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar, overload

from perdure.async_client import Approvals, AsyncClient, AsyncSelection, Checks, Engines, Keys, Listing, Queues
from perdure.async_handle import AsyncHandle, connection_of
from perdure.code.call_options import DEFAULT_TENANT, NamedWorkflow
from perdure.code.declared_queues import Rate
from perdure.code.durations import Duration
from perdure.code.results import Means
from perdure.core.attribute_filter import AttributeFilter
from perdure.core.paths import Key
from perdure.core.views import PublicEvent, StepView
from perdure.loop_thread import LoopThread, run_in_user_transaction
from perdure.service.approvals import Approval
from perdure.service.bulk_requests import BulkResult
from perdure.service.dead_letter_groups import DeadLetter, DeadLetterGroup
from perdure.service.execution_operations import UNCHANGED
from perdure.service.history import EmittedValue
from perdure.service.queries import ExecutionStatus, HolderView, ListedExecution
from perdure.service.replay_checks import ReplayCheck
from perdure.stores.payload_codec import PayloadCodec
from perdure.stores.protocol import QueueStatus, Store
from perdure.sync_handle import Handle
from perdure.sync_maintenance import DeadLetterOffice, Upkeep
from perdure.workflow_function import Workflow


class Selection:
    """Executions that are told the same, 500 in each commit. See `AsyncSelection`."""

    def __init__(self, thread: LoopThread, inner: AsyncSelection) -> None:
        self._thread = thread
        self._inner = inner

    def keys(self) -> Keys:
        """The executions that are meant now, newest first; of all statuses, if none is chosen."""
        return self._thread.call(self._inner.keys())

    def cancel(self, reason: str = "", *, undo: bool = True, wait: bool = False, timeout: Duration | None = None) -> BulkResult:
        """Have each unwind, undo what it has done unless that is not wanted, and end as cancelled, as `Handle.cancel` does."""
        return self._thread.call(self._inner.cancel(reason, undo=undo, wait=wait, timeout=timeout))

    def terminate(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> BulkResult:
        """End each as cancelled, at once, as `Handle.terminate` does."""
        return self._thread.call(self._inner.terminate(reason, wait=wait, timeout=timeout))

    def pause(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> BulkResult:
        """Have each begin nothing more until it is resumed, as `Handle.pause` does."""
        return self._thread.call(self._inner.pause(reason, wait=wait, timeout=timeout))

    def resume(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> BulkResult:
        """Have each go on that is paused or needs attention, as `Handle.resume` does."""
        return self._thread.call(self._inner.resume(reason, wait=wait, timeout=timeout))

    def evict(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> BulkResult:
        """Have each leave the engine that has it, and go on from its log, as `Handle.evict` does."""
        return self._thread.call(self._inner.evict(reason, wait=wait, timeout=timeout))

    def retry(self, reason: str = "", *, from_step: str | None = None, wait: bool = False, timeout: Duration | None = None) -> BulkResult:
        """Have each go on from what failed, or from where it is parked, as `Handle.retry` does."""
        return self._thread.call(self._inner.retry(reason, from_step=from_step, wait=wait, timeout=timeout))

    def undo(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> BulkResult:
        """Undo what each has done, as `Handle.undo` does."""
        return self._thread.call(self._inner.undo(reason, wait=wait, timeout=timeout))

    def requeue(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> BulkResult:
        """Run each dead letter again, from what failed, as `DeadLetterOffice.requeue` does."""
        return self._thread.call(self._inner.requeue(reason, wait=wait, timeout=timeout))

    def discard(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> BulkResult:
        """Cancel each dead letter as it stands, as `DeadLetterOffice.discard` does."""
        return self._thread.call(self._inner.discard(reason, wait=wait, timeout=timeout))


__all__ = [
    "Approval",
    "AsyncClient",
    "AsyncHandle",
    "BulkResult",
    "Client",
    "DeadLetter",
    "DeadLetterGroup",
    "EmittedValue",
    "ExecutionStatus",
    "Handle",
    "HolderView",
    "ListedExecution",
    "PublicEvent",
    "ReplayCheck",
    "Selection",
    "StepView",
]  # fmt: skip

P = ParamSpec("P")
R = TypeVar("R")


def client_on_thread(thread: LoopThread, inner: AsyncClient) -> Client:
    """A client on a thread that is in use already; closing it does nothing."""
    client = Client.__new__(Client)
    client._thread, client._inner, client._is_borrowed = thread, inner, True
    return client


class Client:
    """Starts executions and finds them, on the store of a URL. See `AsyncClient`. A store that is given in place of a URL is closed with the client."""

    def __init__(self, url: str | Store | None = None, *, codec: PayloadCodec | None = None) -> None:
        self._thread, self._is_borrowed = LoopThread("perdure-client"), False
        try:
            self._inner = self._thread.call(_opened(url, codec))
        except BaseException:
            self._thread.close()
            raise

    def close(self) -> None:
        """Let the store and the thread go. Closing twice does nothing."""
        if not self._thread.closed and not self._is_borrowed:
            try:
                self._thread.call(self._inner.aclose())
            finally:
                self._thread.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def workflow(self, name: str) -> NamedWorkflow:
        """A workflow of which only the name is known here, to be started with options: ``client.start(client.workflow("order").with_(id="o1"), "o1", 500)``.

        Raises:
            BadName: it is no name.
        """
        return self._inner.workflow(name)

    # By hand: what joins a transaction runs in the caller's thread.
    @overload
    def start(self, workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Handle[R]: ...
    @overload
    def start(self, workflow: NamedWorkflow | str, /, *args: Any, **kwargs: Any) -> Handle[Any]: ...
    def start(self, workflow: Workflow[..., Any] | NamedWorkflow | str, /, *args: Any, **kwargs: Any) -> Handle[Any]:
        """See `AsyncClient.start`. A `connection` is used in the caller's thread; one that belongs to an event loop is for an `AsyncClient`."""
        starting = self._inner.start(workflow, *args, **kwargs)
        if (connection := connection_of(workflow)) is None:
            return Handle(self._thread, self._thread.call(starting))
        return Handle(self._thread, run_in_user_transaction(self._thread, self._inner._access.store, connection, starting))

    @overload
    def run(self, workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def run(self, workflow: NamedWorkflow | str, /, *args: Any, **kwargs: Any) -> Any: ...
    def run(self, workflow: Workflow[..., Any] | NamedWorkflow | str, /, *args: Any, **kwargs: Any) -> Any:
        """Start an execution, as `start` does, and wait for its result, as `Handle.result` does. An engine has to run somewhere."""
        return self._thread.call(self._inner.run(workflow, *args, **kwargs))

    @overload
    def get(self, id: str | Key, workflow: Workflow[..., R], *, tenant: str = ...) -> Handle[R]: ...
    @overload
    def get(self, id: str | Key, workflow: str | None = ..., *, tenant: str = ...) -> Handle[Any]: ...
    def get(self, id: str | Key, workflow: Workflow[..., Any] | str | None = None, *, tenant: str = DEFAULT_TENANT) -> Handle[Any]:
        """The execution of an id, or of a key; without a `workflow`, the only one of that id.

        Raises:
            NotFound: there is none.
            Ambiguous: several workflows have one of that id.
        """
        return Handle(self._thread, self._thread.call(self._inner.get(id, workflow, tenant=tenant)))

    def list(
        self,
        *,
        workflow: Workflow[..., Any] | str | None = None,
        status: str | Iterable[str] | None = None,
        id_prefix: str = "",
        since: Duration | datetime | None = None,
        limit: int = 100,
        older_than: Key | None = None,
        where: AttributeFilter | None = None,
        internal: bool = False,
        tenant: str = DEFAULT_TENANT,
    ) -> Listing:
        """Executions, newest first: those of a workflow, in a status (or any of several), created since a time or for so long.

        `where` says what their attributes are: ``{"customer": "c1", "cents": Is(">=", 500)}``. `older_than` is the key of the last one of the page before.
        Perdure's own executions, such as those of approvals, are left out, unless `internal` ones are asked for, or their `workflow` is.
        """
        return self._thread.call(
            self._inner.list(
                workflow=workflow,
                status=status,
                id_prefix=id_prefix,
                since=since,
                limit=limit,
                older_than=older_than,
                where=where,
                internal=internal,
                tenant=tenant,
            )
        )

    def select(
        self,
        *,
        keys: Iterable[Key] | None = None,
        workflow: Workflow[..., Any] | str | None = None,
        status: str | Iterable[str] | None = None,
        id_prefix: str = "",
        since: Duration | datetime | None = None,
        where: AttributeFilter | None = None,
        tenant: str = DEFAULT_TENANT,
    ) -> Selection:
        """All executions that fit, as `list` says, or those of `keys`, to be told the same in batches: ``client.select(workflow="order").cancel("sold out")``.

        Without any of these, it means all executions of the tenant on which the verb has an effect, but for Perdure's own.

        Raises:
            BadValue: there are both keys and a filter.
        """
        return Selection(
            self._thread, self._inner.select(keys=keys, workflow=workflow, status=status, id_prefix=id_prefix, since=since, where=where, tenant=tenant)
        )

    def find(self, text: str, *, tenant: str = DEFAULT_TENANT) -> Key:
        """Which execution people mean by an id, the beginning of one, ``workflow/id``, ``@latest``, or ``@failed`` (the latest that failed).

        Raises:
            NotFound, Ambiguous: it means none, or several.
        """
        return self._thread.call(self._inner.find(text, tenant=tenant))

    def approvals(self, assignee: str | None = None, *, groups: Sequence[str] = (), limit: int = 100, tenant: str = DEFAULT_TENANT) -> Approvals:
        """The approvals that wait, newest first: all, or those on which `assignee`, a member of `groups`, may decide and has not."""
        return self._thread.call(self._inner.approvals(assignee, groups=groups, limit=limit, tenant=tenant))

    def approval(self, which: str, *, path: str | None = None, tenant: str = DEFAULT_TENANT) -> Approval:
        """One approval, also when it was decided. It is meant as `approve` says.

        Raises:
            NotFound, Ambiguous: none is meant that has begun, or several.
        """
        return self._thread.call(self._inner.approval(which, path=path, tenant=tenant))

    def approve(
        self,
        approval: str | Approval,
        *,
        by: str,
        value: Any = None,
        comment: str = "",
        groups: Sequence[str] = (),
        path: str | None = None,
        wait: bool = True,
        timeout: Duration | None = None,
        tenant: str = DEFAULT_TENANT,
        means: Means = "api",
    ) -> None:
        """Decide for it, with the form filled in as `value`; of two who decide at once one does, and the other is told.

        An approval is meant by its id, or by that of the execution that asks for it, with the `path` there if it asks for several. An engine takes the
        decision; without `wait` it is kept until one does. It is remembered with who, when, the comment, and by what `means` it came.

        Raises:
            NotFound, Ambiguous: no approval is meant, or several.
            HasEnded: it was decided before.
            DecisionRefused: `by` may not decide, or has decided already.
            BadValue: `value` does not fit the form.
            Timeout: no engine has taken it in time; it is kept.
        """
        self._thread.call(
            self._inner.approve(approval, by=by, value=value, comment=comment, groups=groups, path=path, wait=wait, timeout=timeout, tenant=tenant, means=means)
        )

    def reject(
        self,
        approval: str | Approval,
        *,
        by: str,
        comment: str = "",
        groups: Sequence[str] = (),
        path: str | None = None,
        wait: bool = True,
        timeout: Duration | None = None,
        tenant: str = DEFAULT_TENANT,
        means: Means = "api",
    ) -> None:
        """Decide against it. What holds of `approve` holds here."""
        self._thread.call(
            self._inner.reject(approval, by=by, comment=comment, groups=groups, path=path, wait=wait, timeout=timeout, tenant=tenant, means=means)
        )

    def approval_link(
        self, approval: str | Approval, *, by: str, approve: bool, lifetime: Duration = "7d", secret: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> str:
        """A signed text with which whoever has it gives this answer as `by`, to `decide_by_link`. Signed with `secret`, else with `PERDURE_SIGNING_SECRET`.

        Raises:
            NotFound, Ambiguous: no approval is meant, or several.
            BadValue: there is no secret, or a short one.
        """
        return self._thread.call(self._inner.approval_link(approval, by=by, approve=approve, lifetime=lifetime, secret=secret, tenant=tenant))

    def decide_by_link(self, link: str, *, value: Any = None, comment: str = "", secret: str | None = None, timeout: Duration | None = None) -> None:
        """Give the answer that a signed link stands for. What holds of `approve` holds here.

        Raises:
            LinkRefused: it was not signed with this secret, or its time is over.
        """
        self._thread.call(self._inner.decide_by_link(link, value=value, comment=comment, secret=secret, timeout=timeout))

    @property
    def dead_letters(self) -> DeadLetterOffice:
        """What has failed or needs attention, by what it has in common, to be run again or discarded."""
        return DeadLetterOffice(self._thread, self._inner.dead_letters)

    @property
    def upkeep(self) -> Upkeep:
        """What whoever looks after the store does: carry executions elsewhere, and look whether all records agree."""
        return Upkeep(self._thread, self._inner.upkeep)

    def check(self, workflows: Iterable[Workflow[..., Any]], *, failed: bool = False, limit: int | None = None, tenant: str = DEFAULT_TENANT) -> Checks:
        """What would become of each execution that has not ended (or also has `failed`) if engines had this code. No step is run, nothing is changed."""
        return self._thread.call(self._inner.check(workflows, failed=failed, limit=limit, tenant=tenant))

    def queues(self) -> Queues:
        """The queues that have limits or hold anything, over all tenants: what they allow, what is held, and what waits."""
        return self._thread.call(self._inner.queues())

    def limit(
        self, queue: str, *, concurrency: int | None = UNCHANGED, concurrency_per_key: int | None = UNCHANGED, rate: Rate | None = UNCHANGED
    ) -> QueueStatus:
        """Change limits of a queue while everything runs; None takes one away. It stays so until the code declares something else."""
        return self._thread.call(self._inner.limit(queue, concurrency=concurrency, concurrency_per_key=concurrency_per_key, rate=rate))

    def engines(self) -> Engines:
        """Who works on this store: engines and workers, with what they know, and what they hold."""
        return self._thread.call(self._inner.engines())


async def _opened(url: str | Store | None, codec: PayloadCodec | None) -> AsyncClient:
    """A client of the store of `url`, opened on the loop that it will be used on."""
    return AsyncClient(url, codec=codec)
