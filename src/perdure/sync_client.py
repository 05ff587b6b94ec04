"""The client of sync programs, and its selections.

Made from `perdure.async_client` by ``python -m tools.make_sync``, but for what that leaves alone: change the async methods, and run it.

A client runs one event loop in a daemon thread of its own, so it works in scripts, in threads, in notebooks and inside of a running loop (which waits
meanwhile).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar, overload

from perdure.async_catalog import Document
from perdure.async_client import UNCHANGED, Approvals, AsyncClient, AsyncSelection, Checks, Engines, EngineTools, Keys, Listing, Queues
from perdure.async_handle import AsyncHandle, connection_of
from perdure.code.approval_attributes import Priority
from perdure.code.call_options import DEFAULT_TENANT, NamedWorkflow
from perdure.code.declarations import Signal
from perdure.code.declared_queues import Rate
from perdure.code.durations import Duration
from perdure.code.results import Means
from perdure.core.attribute_filter import AttributeFilter
from perdure.core.paths import Key
from perdure.core.views import PublicEvent, StepView
from perdure.loop_thread import LoopThread, run_in_user_transaction
from perdure.operations.on_executions import ExecutionChange
from perdure.service.agent_memories import ShownMemory
from perdure.service.approvals import Approval
from perdure.service.bulk_requests import BulkResult
from perdure.service.bulk_workflow import BulkAction, BulkCount
from perdure.service.callers import CallerDetails
from perdure.service.dead_letter_groups import DeadLetter, DeadLetterGroup
from perdure.service.history import EmittedValue
from perdure.service.kind_list import FormatDescription, KindList
from perdure.service.model_costs import ModelCosts
from perdure.service.people.inbox import InboxOrder
from perdure.service.queries import ExecutionStatus, HolderView, ListedExecution
from perdure.service.queue_details import QueueDetails
from perdure.service.replay_checks import ReplayCheck
from perdure.service.store_access import StoreAccess
from perdure.service.system_status import SystemStatus
from perdure.service.tenant_numbers import TenantNumbers
from perdure.stores.payload_codec import PayloadCodec
from perdure.stores.protocol import Store
from perdure.sync_administration import Administration
from perdure.sync_catalog import Catalog
from perdure.sync_handle import Handle
from perdure.sync_maintenance import DeadLetterOffice, Upkeep
from perdure.sync_people import People
from perdure.sync_proposals import Proposals
from perdure.sync_recordings import Recordings
from perdure.sync_triggers import Triggers
from perdure.workflow_function import Workflow


class Selection:
    """Sends the same command to many executions, 500 in each commit. See `AsyncSelection`."""

    def __init__(self, thread: LoopThread, inner: AsyncSelection) -> None:
        self._thread = thread
        self._inner = inner

    def keys(self) -> Keys:
        """The selected executions, newest first; in any status, if the selection names none."""
        return self._thread.call(self._inner.keys())

    def cancel(self, reason: str = "", *, undo: bool = True, wait: bool = False, timeout: Duration | None = None) -> BulkResult:
        """Cancels each execution, as `Handle.cancel` does."""
        return self._thread.call(self._inner.cancel(reason, undo=undo, wait=wait, timeout=timeout))

    def terminate(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> BulkResult:
        """Ends each execution as cancelled at once, as `Handle.terminate` does."""
        return self._thread.call(self._inner.terminate(reason, wait=wait, timeout=timeout))

    def pause(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> BulkResult:
        """Pauses each execution, as `Handle.pause` does."""
        return self._thread.call(self._inner.pause(reason, wait=wait, timeout=timeout))

    def resume(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> BulkResult:
        """Resumes each execution that is paused or needs attention, as `Handle.resume` does."""
        return self._thread.call(self._inner.resume(reason, wait=wait, timeout=timeout))

    def evict(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> BulkResult:
        """Evicts each execution from its engine, as `Handle.evict` does."""
        return self._thread.call(self._inner.evict(reason, wait=wait, timeout=timeout))

    def retry(self, reason: str = "", *, from_step: str | None = None, wait: bool = False, timeout: Duration | None = None) -> BulkResult:
        """Retries each execution that failed or is parked, as `Handle.retry` does."""
        return self._thread.call(self._inner.retry(reason, from_step=from_step, wait=wait, timeout=timeout))

    def undo(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> BulkResult:
        """Undoes each execution, as `Handle.undo` does."""
        return self._thread.call(self._inner.undo(reason, wait=wait, timeout=timeout))

    def requeue(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> BulkResult:
        """Runs each dead letter again from what failed, as `DeadLetterOffice.requeue` does."""
        return self._thread.call(self._inner.requeue(reason, wait=wait, timeout=timeout))

    def discard(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> BulkResult:
        """Cancels each dead letter without running anything, as `DeadLetterOffice.discard` does."""
        return self._thread.call(self._inner.discard(reason, wait=wait, timeout=timeout))

    def count(self, action: BulkAction) -> BulkCount:
        """Counts the executions on which `begin` would act now, in all and by status. Nothing is changed."""
        return self._thread.call(self._inner.count(action))

    def begin(
        self,
        action: BulkAction,
        reason: str = "",
        *,
        id: str | None = None,
        undo: bool = True,
        from_step: str | None = None,
        edits: Mapping[str, Any] | None = None,
        version: int | None = None,
    ) -> Handle[Any]:
        """Has an engine do this to each execution: begins an execution that works through the selection, in pieces and across crashes; returns its handle.

        ``query("progress")`` of the handle counts what is done, failed and left, its stream has the failures, and `cancel` stops it. Besides what the methods
        here do, ``prune`` removes the logs of executions that have ended. An engine of an `App`, ``perdure dev``, ``perdure serve`` or ``perdure worker``
        has to run. With `edits` of the input, or another `version` of the code, ``requeue`` starts a new execution in the place of each, and discards it.

        Raises:
            BadValue: the selection consists of keys, or is ordered by an attribute.
            InputDiffers: the bulk execution of this `id` exists with another order.
        """
        return Handle(self._thread, self._thread.call(self._inner.begin(action, reason, id=id, undo=undo, from_step=from_step, edits=edits, version=version)))

    def send(self, signal: Signal[Any] | str, body: Any = None, *, id: str | None = None) -> Handle[Any]:
        """Begins an execution that sends a message to each execution that has not ended, once; returns its handle, as `begin` does."""
        return Handle(self._thread, self._thread.call(self._inner.send(signal, body, id=id)))


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
    """Makes a client on a thread that is in use already; closing the client has no effect."""
    client = Client.__new__(Client)
    client._thread, client._inner, client._is_borrowed = thread, inner, True
    return client


class Client:
    """Starts executions and finds them, on the store of a URL. See `AsyncClient`. A store that is given in place of a URL is closed with the client."""

    def __init__(self, url: str | Store | None = None, *, codec: PayloadCodec | None = None, token: str | None = None) -> None:
        self._thread, self._is_borrowed = LoopThread("perdure-client"), False
        try:
            self._inner = self._thread.call(_opened(url, codec, token))
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

    @property
    def access(self) -> StoreAccess:
        """The open store of the client, as `perdure.api.ApiApp` takes it.

        Raises:
            WrongVerb: the client is one of a server.
        """
        return self._inner.access

    def workflow(self, name: str) -> NamedWorkflow:
        """A workflow that is known by its name only, to start it with options: ``client.start(client.workflow("order").with_(id="o1"), "o1", 500)``.

        Raises:
            BadName: the name is invalid.
        """
        return self._inner.workflow(name)

    def definition(self, reference: str) -> NamedWorkflow:
        """A definition of the catalog, to start the version that `reference` names: ``client.start(client.definition("invoice@^1"), cents=500)``.

        It is a slug, or a slug with a version, a range, a hash or a tag: ``invoice``, ``invoice@1.2.0``, ``invoice@^1``, ``invoice@sha256:…``,
        ``invoice:production``. The execution keeps this version, and the versions of what it calls, whatever is published later.

        Raises:
            BadValue: the text is no reference.
        """
        return self._inner.definition(reference)

    def document(self, document: Document, *, workflow: str = "", until: str = "") -> NamedWorkflow:
        """A definition that is not in the catalog, to start it once: ``client.start(client.document(text).with_(id="7"), cents=500)``.

        It may call what is in the catalog. Its executions have `workflow` as theirs, else the name of the document; any engine that runs the catalog runs them.

        With `until`, the id of a step, they perform what leads to that step, and end with its result.
        """
        return self._inner.document(document, workflow=workflow, until=until)

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
        return Handle(self._thread, run_in_user_transaction(self._thread, self._inner._access, connection, starting))

    @overload
    def run(self, workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def run(self, workflow: NamedWorkflow | str, /, *args: Any, **kwargs: Any) -> Any: ...
    def run(self, workflow: Workflow[..., Any] | NamedWorkflow | str, /, *args: Any, **kwargs: Any) -> Any:
        """Starts an execution, as `start` does, and waits for its result, as `Handle.result` does. An engine must be running."""
        return self._thread.call(self._inner.run(workflow, *args, **kwargs))

    @overload
    def get(self, id: str | Key, workflow: Workflow[..., R], *, tenant: str = ...) -> Handle[R]: ...
    @overload
    def get(self, id: str | Key, workflow: str | None = ..., *, tenant: str = ...) -> Handle[Any]: ...
    def get(self, id: str | Key, workflow: Workflow[..., Any] | str | None = None, *, tenant: str = DEFAULT_TENANT) -> Handle[Any]:
        """The handle of an execution by its id or key; without a `workflow`, of the only execution of that id.

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
        error_type: str = "",
        fingerprint: str = "",
        failed_since: Duration | datetime | None = None,
        text: str = "",
        limit: int = 100,
        after: ListedExecution | None = None,
        where: AttributeFilter | None = None,
        order_by: str | None = None,
        descending: bool = False,
        internal: bool = False,
        tenant: str = DEFAULT_TENANT,
    ) -> Listing:
        """Lists executions, newest first: those of a workflow, in one of the statuses, and created since a time (or within a duration before now).

        `error_type`, `fingerprint` and `failed_since` select executions that have failed or need attention: by their error, with those that failed alike, and
        since when. `text` selects those whose workflow, id, attributes or type of error contain it, in any case, without an index. `where` has conditions on
        attributes, which must all hold: ``{"customer": "c1", "cents": Is(">=", 500)}``; or a list of such mappings, one of which must hold. With `order_by`,
        the list has the executions with that attribute, in its order (of several values the least counts, or with `descending` the greatest). For the next
        page, `after` is the last execution of this one. Perdure's own executions are listed only with `internal`, or if `workflow` names theirs.
        """
        return self._thread.call(
            self._inner.list(
                workflow=workflow,
                status=status,
                id_prefix=id_prefix,
                since=since,
                error_type=error_type,
                fingerprint=fingerprint,
                failed_since=failed_since,
                text=text,
                limit=limit,
                after=after,
                where=where,
                order_by=order_by,
                descending=descending,
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
        error_type: str = "",
        fingerprint: str = "",
        failed_since: Duration | datetime | None = None,
        where: AttributeFilter | None = None,
        tenant: str = DEFAULT_TENANT,
    ) -> Selection:
        """Selects all executions that match, as `list` does, or those of `keys`, for bulk operations: ``client.select(workflow="order").cancel("sold out")``.

        Without conditions, it selects all executions of the tenant on which the operation has an effect, except Perdure's own.

        Raises:
            BadValue: both keys and a filter are given.
        """
        return Selection(
            self._thread,
            self._inner.select(
                keys=keys,
                workflow=workflow,
                status=status,
                id_prefix=id_prefix,
                since=since,
                error_type=error_type,
                fingerprint=fingerprint,
                failed_since=failed_since,
                where=where,
                tenant=tenant,
            ),
        )

    def counts(self, failed_since: Duration = "1d", *, tenant: str = DEFAULT_TENANT) -> TenantNumbers:
        """Counts what is going on in a tenant: what is open, runs, needs attention, waits for people, and has failed within a duration before now.

        Each number is one up to 1,000, and says whether there are more.
        """
        return self._thread.call(self._inner.counts(failed_since, tenant=tenant))

    def model_costs(self, within: Duration = "1d", *, workflow: str = "", tenant: str = DEFAULT_TENANT) -> ModelCosts:
        """What model calls within a duration before now have used and cost, by workflow, step and model, the highest cost first. Three months are kept.

        Every answer that a provider gave counts, also one that was lost with its process. An agent that is a step of a definition counts for that step.
        """
        return self._thread.call(self._inner.model_costs(within, workflow=workflow, tenant=tenant))

    def agent_memories(self, agent: str, *, tenant: str = DEFAULT_TENANT) -> Sequence[ShownMemory]:
        """What an agent remembers, in order of name: by the name of its workflow, which for agents of a definition is ``NAME.agent``."""
        return self._thread.call(self._inner.agent_memories(agent, tenant=tenant))

    def forget_memory(self, agent: str, memory: str, *, tenant: str = DEFAULT_TENANT) -> None:
        """Has an agent forget what it remembers under a name.

        Raises:
            NotFound: there is nothing of this name.
        """
        self._thread.call(self._inner.forget_memory(agent, memory, tenant=tenant))

    def find(self, text: str, *, tenant: str = DEFAULT_TENANT) -> Key:
        """Finds an execution by its id, a prefix of it, ``workflow/id``, ``@latest``, or ``@failed`` (the latest that failed).

        Raises:
            NotFound, Ambiguous: no execution matches, or several do.
        """
        return self._thread.call(self._inner.find(text, tenant=tenant))

    def approvals(
        self,
        assignee: str | None = None,
        *,
        groups: Sequence[str] = (),
        group: str = "",
        priority: Priority | None = None,
        resource: tuple[str, str] | None = None,
        workflow: str = "",
        overdue: bool = False,
        order: InboxOrder = "newest",
        mine: bool = False,
        limit: int = 100,
        tenant: str = DEFAULT_TENANT,
    ) -> Approvals:
        """Lists the approvals that wait, newest first: all of them, or those on which `assignee`, a member of `groups`, may still decide.

        `group` selects those that are assigned to that group, `resource` those about what has this type and id (an empty id: any), and `workflow` those
        that its executions ask for. With the order ``"due"``, the list begins with what is due first; with ``"priority"``, with the most urgent. `mine` is for
        a person who has signed in to a server: those on which they may decide.
        """
        return self._thread.call(
            self._inner.approvals(
                assignee,
                groups=groups,
                group=group,
                priority=priority,
                resource=resource,
                workflow=workflow,
                overdue=overdue,
                order=order,
                mine=mine,
                limit=limit,
                tenant=tenant,
            )
        )

    def approval(self, which: str, *, path: str | None = None, tenant: str = DEFAULT_TENANT) -> Approval:
        """One approval, waiting or decided. `which` and `path` select it as in `approve`.

        Raises:
            NotFound, Ambiguous: no approval that has begun matches, or several do.
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
        """Approves, with the form filled in as `value`. Of two concurrent decisions one is accepted, and the other is refused.

        An approval is selected by its id, or by the id of the execution that asks for it, with `path` if that asks for several. An engine accepts the decision;
        without `wait`, it is stored until one does. The log records who decided, when, with which comment, and by which `means`.

        Raises:
            NotFound, Ambiguous: no approval matches, or several do.
            HasEnded: it was decided before.
            DecisionRefused: `by` may not decide, or has decided already.
            BadValue: `value` does not fit the form.
            Timeout: no engine accepted the decision in time; it remains stored.
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
        """Rejects. Everything else is as in `approve`."""
        self._thread.call(
            self._inner.reject(approval, by=by, comment=comment, groups=groups, path=path, wait=wait, timeout=timeout, tenant=tenant, means=means)
        )

    def complete(self, token: str, result: Any = None) -> None:
        """Completes a step that waits for it (`ctx.external`) with a result, durably. It takes effect as soon as an engine runs.

        Raises:
            BadValue: the token was given to no step of this database.
            AlreadyCompleted: it was used before; the first completion counts.
            CompletionRefused: the step is not wanted any more: it has timed out, or was cancelled.
            HasEnded: the execution has ended without it.
            Unencodable, TooLarge: the result can't be stored.
        """
        self._thread.call(self._inner.complete(token, result))

    def fail(self, token: str, error: str | BaseException, *, final: bool = False) -> None:
        """Fails an attempt of a step that waits for its completion. There is another one, by the retry policy of the step, unless the failure is `final`.

        Raises:
            BadValue, AlreadyCompleted, CompletionRefused, HasEnded: as for `complete`.
        """
        self._thread.call(self._inner.fail(token, error, final=final))

    def heartbeat(self, token: str) -> None:
        """Reports that the work for a step that waits for its completion is alive; the step fails if `heartbeat` of it passes without a report.

        Raises:
            BadValue, AlreadyCompleted, CompletionRefused, HasEnded: as for `complete`. The work can be stopped.
        """
        self._thread.call(self._inner.heartbeat(token))

    def approval_link(
        self, approval: str | Approval, *, by: str, approve: bool | None, lifetime: Duration = "7d", secret: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> str:
        """A signed link whose bearer can give this answer as `by`, once, with `decide_by_link`; with None, the one answer or the other.

        A server that knows its public URL returns the URL of a page. The secret is `secret`, else `PERDURE_SIGNING_SECRET`.

        Raises:
            NotFound, Ambiguous: no approval matches, or several do.
            BadValue: there is no secret, or it is too short.
        """
        return self._thread.call(self._inner.approval_link(approval, by=by, approve=approve, lifetime=lifetime, secret=secret, tenant=tenant))

    def decide_by_link(
        self,
        link: str,
        *,
        value: Any = None,
        comment: str = "",
        approve: bool | None = None,
        secret: str | None = None,
        timeout: Duration | None = None,
    ) -> None:
        """Gives the answer of a signed link, or `approve` if that offers both. Everything else is as in `approve`.

        Raises:
            LinkRefused: it was not signed with this secret, has expired, or its person may not decide any more.
        """
        self._thread.call(self._inner.decide_by_link(link, value=value, comment=comment, approve=approve, secret=secret, timeout=timeout))

    def changes(self, after: int = 0, *, follow: bool = True, watch: Iterable[Key] = (), tenant: str = DEFAULT_TENANT) -> Iterator[ExecutionChange]:
        """Yields what happens to the executions of a tenant, from now on: which begin, change their status, and end; without `follow`, the changes so far.

        To go on after a break, pass the number of the last change as `after`. A change of the type ``reset`` says that some are missing. The executions in
        `watch`, 50 at most, have also ``changed`` when the reading begins, and whenever their logs grow.
        """
        return self._thread.drain(self._inner.changes(after, follow=follow, watch=watch, tenant=tenant))

    @property
    def catalog(self) -> Catalog:
        """The catalog: definitions, their versions, tags and drafts."""
        return Catalog(self._thread, self._inner.catalog)

    @property
    def proposals(self) -> Proposals:
        """Proposals of changes of definitions: makes, reviews and applies them."""
        return Proposals(self._thread, self._inner.proposals)

    # By hand
    @property
    def recordings(self) -> Recordings:
        """Recordings: calls of tools, one by one, of which a definition is made."""
        return Recordings(self._thread, self._inner.recordings)

    @property
    def triggers(self) -> Triggers:
        """Triggers: schedules, webhooks, events, and starts by hand."""
        return Triggers(self._thread, self._inner.triggers)

    @property
    def people(self) -> People:
        """The people of a tenant: how many approvals wait for them, delegation, and who stands in for whom."""
        return People(self._thread, self._inner.people)

    @property
    def administration(self) -> Administration:
        """Access to the service: keys, sessions and the audit."""
        return Administration(self._thread, self._inner.administration)

    def whoami(self) -> CallerDetails:
        """Who the client is to the service: tenant, subject, roles and groups. On a store, it is the local user, who may do everything."""
        return self._thread.call(self._inner.whoami())

    def system(self, *, tenant: str = DEFAULT_TENANT) -> SystemStatus:
        """The server that answers (of a store, this process), its database with its clock, and how many executions of the tenant begin and end."""
        return self._thread.call(self._inner.system(tenant=tenant))

    def kinds(self) -> KindList:
        """The kinds of steps that definitions may use on the server, or in this process, each with its schemas and an example."""
        return self._thread.call(self._inner.kinds())

    def engine_tools(self, *, tenant: str = DEFAULT_TENANT) -> EngineTools:
        """The tools that running engines have for steps of definitions in the catalog."""
        return self._thread.call(self._inner.engine_tools(tenant=tenant))

    def definition_format(self) -> FormatDescription:
        """The format of definitions: its JSON Schema, and the operators of conditions."""
        return self._thread.call(self._inner.definition_format())

    @property
    def dead_letters(self) -> DeadLetterOffice:
        """The dead letters of the store: lists them in groups, requeues and discards them."""
        return DeadLetterOffice(self._thread, self._inner.dead_letters)

    @property
    def upkeep(self) -> Upkeep:
        """Maintenance of the store: export, import, verification and retention."""
        return Upkeep(self._thread, self._inner.upkeep)

    def check(self, workflows: Iterable[Workflow[..., Any]], *, failed: bool = False, limit: int | None = None, tenant: str = DEFAULT_TENANT) -> Checks:
        """Checks whether this code replays the executions that have not ended (with `failed`, also those that failed). No step is run, and nothing is
        changed.
        """
        return self._thread.call(self._inner.check(workflows, failed=failed, limit=limit, tenant=tenant))

    def queues(self) -> Queues:
        """Lists the queues that have limits or hold anything: their limits, what is claimed, and what waits.

        The status of a queue is that of all tenants, and is followed by those of tenants that have limits of their own in it, which it does not count.
        """
        return self._thread.call(self._inner.queues())

    def queue(self, name: str, *, tenant: str | None = None) -> QueueDetails:
        """One queue: its limits, what is claimed, and what waits; with a `tenant` that has limits of its own, for that one."""
        return self._thread.call(self._inner.queue(name, tenant=tenant))

    def limit(
        self,
        queue: str,
        *,
        concurrency: int | None = UNCHANGED,
        concurrency_per_key: int | None = UNCHANGED,
        rate: Rate | None = UNCHANGED,
        revision: int | None = None,
        tenant: str | None = None,
    ) -> QueueDetails:
        """Changes limits of a queue while workers use it; None removes a limit. The change holds until code declares other limits.

        Limits are for all tenants together. With a `tenant`, this one gets limits of its own in their place, which begin as those for all.

        Raises:
            StaleRecord: the limits are not those of the `revision`, if one is given.
        """
        return self._thread.call(
            self._inner.limit(queue, concurrency=concurrency, concurrency_per_key=concurrency_per_key, rate=rate, revision=revision, tenant=tenant)
        )

    def remove_limits(self, queue: str, *, revision: int | None = None, tenant: str | None = None) -> None:
        """Removes all limits of a queue. With a `tenant`, removes its own, so that those for all apply to it again.

        Raises:
            StaleRecord: the limits are not those of the `revision`, if one is given.
        """
        self._thread.call(self._inner.remove_limits(queue, revision=revision, tenant=tenant))

    def engines(self) -> Engines:
        """Lists the engines and workers of this store, with what they serve and hold."""
        return self._thread.call(self._inner.engines())


async def _opened(url: str | Store | None, codec: PayloadCodec | None, token: str | None) -> AsyncClient:
    """A client of the store of `url`, opened on the loop that it will be used on."""
    return AsyncClient(url, codec=codec, token=token)
