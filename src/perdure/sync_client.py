"""A selection of everybody else: `Selection`, the sync face of `AsyncSelection`, method by method. What holds of the async twin holds here.

The client of everybody else: `Client`, the sync face of `AsyncClient`, method by method; `handle` has that of `AsyncHandle`.

A client runs one event loop in a daemon thread of its own, so it works in scripts, in threads, in notebooks and inside of a
running loop (which waits meanwhile). What holds of the async twin holds here.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Sequence
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
        """See `AsyncSelection.keys`."""
        return self._thread.call(self._inner.keys())

    def cancel(self, reason: str = "", *, undo: bool = True, wait: bool = False, timeout: Duration | None = None) -> BulkResult:
        """See `AsyncSelection.cancel`."""
        return self._thread.call(self._inner.cancel(reason, undo=undo, wait=wait, timeout=timeout))

    def terminate(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> BulkResult:
        """See `AsyncSelection.terminate`."""
        return self._thread.call(self._inner.terminate(reason, wait=wait, timeout=timeout))

    def pause(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> BulkResult:
        """See `AsyncSelection.pause`."""
        return self._thread.call(self._inner.pause(reason, wait=wait, timeout=timeout))

    def resume(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> BulkResult:
        """See `AsyncSelection.resume`."""
        return self._thread.call(self._inner.resume(reason, wait=wait, timeout=timeout))

    def evict(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> BulkResult:
        """See `AsyncSelection.evict`."""
        return self._thread.call(self._inner.evict(reason, wait=wait, timeout=timeout))

    def retry(self, reason: str = "", *, from_step: str | None = None, wait: bool = False, timeout: Duration | None = None) -> BulkResult:
        """See `AsyncSelection.retry`."""
        return self._thread.call(self._inner.retry(reason, from_step=from_step, wait=wait, timeout=timeout))

    def undo(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> BulkResult:
        """See `AsyncSelection.undo`."""
        return self._thread.call(self._inner.undo(reason, wait=wait, timeout=timeout))

    def requeue(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> BulkResult:
        """See `AsyncSelection.requeue`."""
        return self._thread.call(self._inner.requeue(reason, wait=wait, timeout=timeout))

    def discard(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> BulkResult:
        """See `AsyncSelection.discard`."""
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


class Client:
    """Starts executions and finds them, on the store of a URL. See `AsyncClient`. A store that is given in place of a URL is closed with the client."""

    def __init__(self, url: str | Store | None = None, *, codec: PayloadCodec | None = None) -> None:
        self._thread = LoopThread("perdure-client")
        try:
            self._inner = self._thread.call(_opened(url, codec))
        except BaseException:
            self._thread.close()
            raise

    def close(self) -> None:
        """Let the store and the thread go. Closing twice does nothing."""
        if not self._thread.closed:
            try:
                self._thread.call(self._inner.aclose())
            finally:
                self._thread.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def workflow(self, name: str) -> NamedWorkflow:
        """See `AsyncClient.workflow`."""
        return self._inner.workflow(name)

    @overload
    def start(self, workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Handle[R]: ...
    @overload
    def start(self, workflow: NamedWorkflow | str, /, *args: Any, **kwargs: Any) -> Handle[Any]: ...
    def start(self, workflow: Workflow[..., Any] | NamedWorkflow | str, /, *args: Any, **kwargs: Any) -> Handle[Any]:
        """See `AsyncClient.start`. A `connection` is used in the caller's thread; one that belongs to an event loop is for an `AsyncClient`."""
        starting = self._inner.start(workflow, *args, **kwargs)
        if (connection := connection_of(workflow)) is None:
            return self._handle(starting)
        return Handle(self._thread, run_in_user_transaction(self._thread, self._inner._access.store, connection, starting))

    @overload
    def run(self, workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def run(self, workflow: NamedWorkflow | str, /, *args: Any, **kwargs: Any) -> Any: ...
    def run(self, workflow: Workflow[..., Any] | NamedWorkflow | str, /, *args: Any, **kwargs: Any) -> Any:
        """See `AsyncClient.run`."""
        return self._thread.call(self._inner.run(workflow, *args, **kwargs))

    @overload
    def get(self, id: str | Key, workflow: Workflow[..., R], *, tenant: str = ...) -> Handle[R]: ...
    @overload
    def get(self, id: str | Key, workflow: str | None = ..., *, tenant: str = ...) -> Handle[Any]: ...
    def get(self, id: str | Key, workflow: Workflow[..., Any] | str | None = None, *, tenant: str = DEFAULT_TENANT) -> Handle[Any]:
        """See `AsyncClient.get`."""
        return self._handle(self._inner.get(id, workflow, tenant=tenant))

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
        """See `AsyncClient.list`."""
        which: dict[str, Any] = {"workflow": workflow, "status": status, "id_prefix": id_prefix, "since": since, "older_than": older_than, "where": where}
        which["internal"] = internal
        return self._thread.call(self._inner.list(**which, limit=limit, tenant=tenant))

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
        """See `AsyncClient.select`."""
        which = self._inner.select(keys=keys, workflow=workflow, status=status, id_prefix=id_prefix, since=since, where=where, tenant=tenant)
        return Selection(self._thread, which)

    def find(self, text: str, *, tenant: str = DEFAULT_TENANT) -> Key:
        """See `AsyncClient.find`."""
        return self._thread.call(self._inner.find(text, tenant=tenant))

    def approvals(self, assignee: str | None = None, *, groups: Sequence[str] = (), limit: int = 100, tenant: str = DEFAULT_TENANT) -> Approvals:
        """See `AsyncClient.approvals`."""
        return self._thread.call(self._inner.approvals(assignee, groups=groups, limit=limit, tenant=tenant))

    def approval(self, which: str, *, place: str | None = None, tenant: str = DEFAULT_TENANT) -> Approval:
        """See `AsyncClient.approval`."""
        return self._thread.call(self._inner.approval(which, place=place, tenant=tenant))

    def approve(
        self,
        approval: str | Approval,
        *,
        by: str,
        value: Any = None,
        comment: str = "",
        groups: Sequence[str] = (),
        place: str | None = None,
        wait: bool = True,
        timeout: Duration | None = None,
        tenant: str = DEFAULT_TENANT,
        means: Means = "api",
    ) -> None:
        """See `AsyncClient.approve`."""
        deciding = self._inner.approve(
            approval, by=by, value=value, comment=comment, groups=groups, place=place, wait=wait, timeout=timeout, tenant=tenant, means=means
        )
        self._thread.call(deciding)

    def reject(
        self,
        approval: str | Approval,
        *,
        by: str,
        comment: str = "",
        groups: Sequence[str] = (),
        place: str | None = None,
        wait: bool = True,
        timeout: Duration | None = None,
        tenant: str = DEFAULT_TENANT,
        means: Means = "api",
    ) -> None:
        """See `AsyncClient.reject`."""
        self._thread.call(
            self._inner.reject(approval, by=by, comment=comment, groups=groups, place=place, wait=wait, timeout=timeout, tenant=tenant, means=means)
        )

    def approval_link(
        self, approval: str | Approval, *, by: str, approve: bool, lifetime: Duration = "7d", secret: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> str:
        """See `AsyncClient.approval_link`."""
        return self._thread.call(self._inner.approval_link(approval, by=by, approve=approve, lifetime=lifetime, secret=secret, tenant=tenant))

    def decide_by_link(self, link: str, *, value: Any = None, comment: str = "", secret: str | None = None, timeout: Duration | None = None) -> None:
        """See `AsyncClient.decide_by_link`."""
        self._thread.call(self._inner.decide_by_link(link, value=value, comment=comment, secret=secret, timeout=timeout))

    @property
    def dead_letters(self) -> DeadLetterOffice:
        """See `AsyncClient.dead_letters`."""
        return DeadLetterOffice(self._thread, self._inner.dead_letters)

    def check(self, workflows: Iterable[Workflow[..., Any]], *, failed: bool = False, limit: int | None = None, tenant: str = DEFAULT_TENANT) -> Checks:
        """See `AsyncClient.check`."""
        return self._thread.call(self._inner.check(workflows, failed=failed, limit=limit, tenant=tenant))

    @property
    def upkeep(self) -> Upkeep:
        """See `AsyncClient.upkeep`."""
        return Upkeep(self._thread, self._inner.upkeep)

    def queues(self) -> Queues:
        """See `AsyncClient.queues`."""
        return self._thread.call(self._inner.queues())

    def limit(
        self, queue: str, *, concurrency: int | None = UNCHANGED, concurrency_per_key: int | None = UNCHANGED, rate: Rate | None = UNCHANGED
    ) -> QueueStatus:
        """See `AsyncClient.limit`."""
        return self._thread.call(self._inner.limit(queue, concurrency=concurrency, concurrency_per_key=concurrency_per_key, rate=rate))

    def engines(self) -> Engines:
        """See `AsyncClient.engines`."""
        return self._thread.call(self._inner.engines())

    def _handle(self, finding: Coroutine[Any, Any, AsyncHandle[R]]) -> Handle[R]:
        return Handle(self._thread, self._thread.call(finding))


async def _opened(url: str | Store | None, codec: PayloadCodec | None) -> AsyncClient:
    """A client of the store of `url`, opened on the loop that it will be used on."""
    return AsyncClient(url, codec=codec)
