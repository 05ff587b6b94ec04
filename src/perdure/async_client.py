"""The asyncio client: starts, finds and manages executions, one by one or in bulk, on any store that this process can open.

It holds no rules, but gives `perdure.service` its typed interface. `perdure.sync_client` is generated from it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar, overload
from uuid import uuid4

from msgspec import UNSET

from perdure.async_administration import AsyncAdministration
from perdure.async_catalog import AsyncCatalog, Document, document_bytes
from perdure.async_handle import AsyncHandle, connection_of, kind_of, name_of
from perdure.async_maintenance import AsyncDeadLetterOffice, AsyncUpkeep, secret_of
from perdure.async_people import AsyncPeople
from perdure.async_proposals import AsyncProposals
from perdure.async_recordings import AsyncRecordings
from perdure.async_triggers import AsyncTriggers
from perdure.code.approval_attributes import Priority
from perdure.code.call_options import DEFAULT_TENANT, NamedWorkflow
from perdure.code.declarations import Signal, checked_name
from perdure.code.declared_queues import Queue, Rate
from perdure.code.durations import Duration, duration_seconds, whole_number
from perdure.code.results import Means, Vote
from perdure.core import values
from perdure.core.attribute_filter import AttributeFilter
from perdure.core.errors import BadValue, WrongVerb
from perdure.core.paths import Key
from perdure.display.execution_list import ExecutionList
from perdure.operations import on_access, on_approvals, on_catalog, on_execution_changes, on_executions, on_kinds, on_queues, on_system
from perdure.operations.on_executions import ExecutionChange
from perdure.runtime.registrations import queue_limits
from perdure.service import execution_operations, queries, replay_checks, step_completions
from perdure.service.agent_memories import ShownMemory
from perdure.service.approvals import Approval
from perdure.service.bulk_requests import BulkFilter, BulkResult, BulkVerb
from perdure.service.bulk_workflow import BulkAction, BulkCount, BulkProgress
from perdure.service.callers import LOCAL, CallerDetails
from perdure.service.catalog_references import parse_reference
from perdure.service.engine_tools import ListedEngineTool
from perdure.service.execution_operations import StartRequest, signal_body
from perdure.service.execution_searches import ExecutionSearch
from perdure.service.kind_list import FormatDescription, KindList
from perdure.service.model_costs import ModelCosts
from perdure.service.page_cursors import cursor_text
from perdure.service.people.inbox import InboxOrder, inbox_filter
from perdure.service.queries import ExecutionFilter, HolderView, ListedExecution
from perdure.service.queue_details import LimitChanges, QueueDetails
from perdure.service.service_access import ServiceAccess
from perdure.service.store_access import StoreAccess, with_timeout
from perdure.service.system_status import SystemStatus
from perdure.service.tenant_numbers import TenantNumbers
from perdure.service.watched_executions import watched_text
from perdure.stores.configured_store import open_store
from perdure.stores.encoded_store import EncodedStore
from perdure.stores.payload_codec import PayloadCodec
from perdure.stores.protocol import QueueStatus, Store
from perdure.workflow_function import Workflow

P = ParamSpec("P")
R = TypeVar("R")

UNCHANGED: Any = UNSET

NO_FILTER = (None, None, "", None, "", "", None, None)

Listing = list[ListedExecution]
Engines = list[HolderView]
Approvals = list[Approval]
Queues = list[QueueStatus]
EngineTools = list[ListedEngineTool]
Checks = list[replay_checks.ReplayCheck]


def client_on(access: StoreAccess) -> AsyncClient:
    """Makes a client on a store that is in use here already; closing the client leaves the store open."""
    client = AsyncClient(access.store)
    client._access = access
    return client


class AsyncClient:
    """Starts and manages executions on the store of a URL such as ``sqlite:///file.db``; by default `PERDURE_DB`, else ``.perdure/perdure.db``.

    The client runs no executions; engines do, in this process or another. An open store can be passed in place of a URL; closing the client leaves it open.
    `codec` must be the codec of the engines; by default it follows from the environment (see the guide to encryption).

    The URL of a server, ``https://…``, opens that, with a key as `token` (by default `PERDURE_TOKEN`). Everything is as on a store, but for what needs the
    database itself: `connection=`, `check`, and archives of `upkeep.prune`.

    Raises:
        BadValue: the URL names no store, or the environment no codec.
        StoreError: the store can't be opened.
    """

    def __init__(self, url: str | Store | None = None, *, codec: PayloadCodec | None = None, token: str | None = None) -> None:
        if url is not None and not isinstance(url, str) and not hasattr(url, "heads"):
            raise BadValue("client URL", url, "sqlite:///path/to/file.db, or a store")
        self._ours: Store | None = None
        self._access: ServiceAccess
        if isinstance(url, str) and url.lower().startswith(("http://", "https://")):
            if codec is not None:
                raise BadValue("codec", codec, "given with a database; a server has the codec of its own")
            from perdure.remote.http_access import HttpAccess  # here, so that a client on a store does not load it

            self._access = HttpAccess(url, token or os.environ.get("PERDURE_TOKEN"))
        else:
            if url is None or isinstance(url, str):
                url = self._ours = open_store(url, codec)
            elif codec is not None:
                url = EncodedStore(url, codec)
            self._access = StoreAccess(url)
        self._declared: set[str] = set()
        if sys.modules.get("IPython") is not None:
            from perdure.display.ipython_formats import register_formats

            register_formats()

    async def aclose(self) -> None:
        """Closes the client. Pending waits raise `StoreUnavailable`; messages that were posted are durable."""
        await self._access.aclose()
        if self._ours is not None:
            await self._ours.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.aclose()

    @property
    def access(self) -> StoreAccess:
        """The open store of the client, as `perdure.api.ApiApp` takes it.

        Raises:
            WrongVerb: the client is one of a server.
        """
        return self._access.on_store("the store of a client")

    def workflow(self, name: str) -> NamedWorkflow:
        """A workflow that is known by its name only, to start it with options: ``client.start(client.workflow("order").with_(id="o1"), "o1", 500)``.

        Raises:
            BadName: the name is invalid.
        """
        return NamedWorkflow(checked_name(name, "workflow"))

    def definition(self, reference: str) -> NamedWorkflow:
        """A definition of the catalog, to start the version that `reference` names: ``client.start(client.definition("invoice@^1"), cents=500)``.

        It is a slug, or a slug with a version, a range, a hash or a tag: ``invoice``, ``invoice@1.2.0``, ``invoice@^1``, ``invoice@sha256:…``,
        ``invoice:production``. The execution keeps this version, and the versions of what it calls, whatever is published later.

        Raises:
            BadValue: the text is no reference.
        """
        return NamedWorkflow(parse_reference(reference).name, reference=reference)

    def document(self, document: Document, *, workflow: str = "", until: str = "") -> NamedWorkflow:
        """A definition that is not in the catalog, to start it once: ``client.start(client.document(text).with_(id="7"), cents=500)``.

        It may call what is in the catalog. Its executions have `workflow` as theirs, else the name of the document; any engine that runs the catalog runs them.

        With `until`, the id of a step, they perform what leads to that step, and end with its result.
        """
        return NamedWorkflow(workflow and checked_name(workflow, "workflow"), document=document_bytes(document), until=until)

    @overload
    async def start(self, workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> AsyncHandle[R]: ...
    @overload
    async def start(self, workflow: NamedWorkflow | str, /, *args: Any, **kwargs: Any) -> AsyncHandle[Any]: ...
    async def start(self, workflow: Workflow[..., Any] | NamedWorkflow | str, /, *args: Any, **kwargs: Any) -> AsyncHandle[Any]:
        """Starts an execution. It is durable when this returns; an engine that knows the workflow runs it.

        Options are given by `with_`, never among the arguments: ``client.start(order.with_(id="o1", delay="1h"), "o1", 500)``.

        If an execution of this `id` exists, it is returned (`created` is False), whatever its input; with `strict`, another input is an error, and so is a
        document, version or range of another definition. The `deadline` is counted from the beginning; after `ttl` the execution no longer begins. A workflow
        object pins its own version, a name the version of the engine. In a `queue` (a name, or a `Queue`) the execution begins within the limits of the queue,
        when its `lane` is served, by `priority`.

        `attributes` make the execution searchable: up to 32 by name, each a str, int, float, bool, or datetime with its zone (see `Context.set_attributes`).
        They are stored unencrypted, even where payloads are encrypted.

        With `debounce`, a later start of the same `id` within that time replaces this one, unless it has begun; with `singleton`, the execution that is
        running is returned, if there is one. The ids of their executions are counted: ``id@1``, ``id@2``.

        With a `connection` to the store's database, the start takes part in the transaction that is open on it: it exists once that commits, when engines
        notice it within milliseconds, at the latest after a second, and never existed if that rolls back. On an App with an `Outbox`, the connection is to
        the outbox's database. See the guide to transactions.

        Raises:
            BadValue: the arguments do not fit the workflow, or the connection has no transaction on this database.
            WrongVerb: an option has no effect here, or is passed among the arguments.
            InputDiffers: `strict`, and the execution was started with another input or definition.
        """
        return await self._start("client.start", workflow, args, kwargs)

    async def _start(self, verb: str, workflow: Workflow[..., Any] | NamedWorkflow | str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> AsyncHandle[Any]:
        known, wanted, queue = self._request(verb, workflow, args, kwargs)
        return await self._begin(known, wanted, queue)

    def _request(
        self, verb: str, workflow: Workflow[..., Any] | NamedWorkflow | str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Workflow[..., Any] | NamedWorkflow, StartRequest, Queue | None]:
        known = workflow if isinstance(workflow, Workflow | NamedWorkflow) else self.workflow(workflow)
        return known, *execution_operations.start_request(known.code if isinstance(known, Workflow) else known, args, kwargs, verb)

    async def _begin(self, known: Workflow[..., Any] | NamedWorkflow, wanted: StartRequest, queue: Queue | None) -> AsyncHandle[Any]:
        code = known.code if isinstance(known, Workflow) else known
        if isinstance(known, NamedWorkflow) and known.is_of_catalog:
            return await self._begin_definition(known, wanted, queue)
        if (connection := code.calling.connection) is not None:
            access = self._access.on_store("connection=")
            key, created = await execution_operations.start_in_transaction(access, connection, wanted, queue)
            return AsyncHandle(access, key, kind_of(known), created, in_outbox=access.outbox is not None)
        await self._declare(queue)
        started = await self._access.call(on_execution_changes.start, wanted)
        return AsyncHandle(self._access, started.key, kind_of(known), started.created)

    async def _begin_definition(self, known: NamedWorkflow, wanted: StartRequest, queue: Queue | None) -> AsyncHandle[Any]:
        if known.calling.connection is not None:
            raise WrongVerb("a definition of the catalog was started with connection=", "start it after your commit, or start a workflow of code that calls it")
        await self._declare(queue)
        if known.document:
            started = await self._access.call(on_catalog.start_document, wanted, known.document, until=known.until)
        else:
            started = await self._access.call(on_catalog.start, wanted, known.reference)
        return AsyncHandle(self._access, started.key, Any, started.created)

    async def _declare(self, queue: Queue | None) -> None:
        if queue is not None and queue.name not in self._declared:
            await self._access.call(on_queues.declare, queue.name, queue_limits(queue))
            self._declared.add(queue.name)

    @overload
    async def run(self, workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    async def run(self, workflow: NamedWorkflow | str, /, *args: Any, **kwargs: Any) -> Any: ...
    async def run(self, workflow: Workflow[..., Any] | NamedWorkflow | str, /, *args: Any, **kwargs: Any) -> Any:
        """Starts an execution, as `start` does, and waits for its result, as `AsyncHandle.result` does. An engine must be running."""
        return await self._run("client.run", workflow, args, kwargs)

    async def _run(self, verb: str, workflow: Workflow[..., Any] | NamedWorkflow | str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        execution_operations.expect_no_wait(connection_of(workflow))
        known, wanted, queue = self._request(verb, workflow, args, kwargs)
        engine = self._access.engine if isinstance(self._access, StoreAccess) else None
        begins = execution_operations.can_begin(engine, wanted) and not (isinstance(known, NamedWorkflow) and known.is_of_catalog)
        ending = engine.ending(wanted.key) if engine is not None and begins else None
        handle = await self._begin(known, wanted, queue)
        return await handle._result(None, ending if handle.created else None)

    @overload
    async def get(self, id: str | Key, workflow: Workflow[..., R], *, tenant: str = ...) -> AsyncHandle[R]: ...
    @overload
    async def get(self, id: str | Key, workflow: str | None = ..., *, tenant: str = ...) -> AsyncHandle[Any]: ...
    async def get(self, id: str | Key, workflow: Workflow[..., Any] | str | None = None, *, tenant: str = DEFAULT_TENANT) -> AsyncHandle[Any]:
        """The handle of an execution by its id or key; without a `workflow`, of the only execution of that id.

        Raises:
            NotFound: there is none.
            Ambiguous: several workflows have one of that id.
        """
        if isinstance(id, Key):
            key = id
            if workflow is not None and key.workflow != name_of(workflow):
                raise BadValue("key", str(key), f"one of the workflow {name_of(workflow)}")
        elif workflow is not None:
            key = Key(checked_name(tenant, "tenant"), name_of(workflow), checked_name(id, "id"))
        else:
            key = await self._access.call(on_executions.by_id, checked_name(tenant, "tenant"), checked_name(id, "id"))
        _ = await self._access.call(on_executions.summary, key)
        return AsyncHandle(self._access, key, kind_of(workflow))

    async def list(
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
        which = queries.execution_filter(
            checked_name(tenant, "tenant"),
            workflow=None if workflow is None else name_of(workflow),
            status=status,
            id_prefix=id_prefix,
            since=since,
            error_type=error_type,
            fingerprint=fingerprint,
            failed_since=failed_since,
            where=where,
            order_by=order_by,
            descending=descending,
            internal=internal,
        )
        items: Listing = []
        position, search = cursor_text(queries.position_behind(after, which)), ExecutionSearch(text=text)
        whole_number(limit, "limit")
        while len(items) < limit:
            page = await self._access.call(on_executions.page, which, search, limit - len(items), position)
            items += page.items
            if not (position := page.next):
                break
        return ExecutionList(items)

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
    ) -> AsyncSelection:
        """Selects all executions that match, as `list` does, or those of `keys`, for bulk operations: ``client.select(workflow="order").cancel("sold out")``.

        Without conditions, it selects all executions of the tenant on which the operation has an effect, except Perdure's own.

        Raises:
            BadValue: both keys and a filter are given.
        """
        if keys is not None and (workflow, status, id_prefix, since, error_type, fingerprint, failed_since, where) != NO_FILTER:
            raise BadValue("select(keys=…)", "keys and a filter", "keys alone: leave the filter out, or the keys")
        which = queries.execution_filter(
            checked_name(tenant, "tenant"),
            workflow=None if workflow is None else name_of(workflow),
            status=status,
            id_prefix=id_prefix,
            since=since,
            error_type=error_type,
            fingerprint=fingerprint,
            failed_since=failed_since,
            where=where,
        )
        return AsyncSelection(self._access, BulkFilter(which=which, keys=None if keys is None else tuple(keys)))

    async def counts(self, failed_since: Duration = "1d", *, tenant: str = DEFAULT_TENANT) -> TenantNumbers:
        """Counts what is going on in a tenant: what is open, runs, needs attention, waits for people, and has failed within a duration before now.

        Each number is one up to 1,000, and says whether there are more.
        """
        return await self._access.call(on_executions.counts, checked_name(tenant, "tenant"), duration_seconds(failed_since, "failed_since"))

    async def model_costs(self, within: Duration = "1d", *, workflow: str = "", tenant: str = DEFAULT_TENANT) -> ModelCosts:
        """What model calls within a duration before now have used and cost, by workflow, step and model, the highest cost first. Three months are kept.

        Every answer that a provider gave counts, also one that was lost with its process. An agent that is a step of a definition counts for that step.
        """
        return await self._access.call(on_executions.model_costs, checked_name(tenant, "tenant"), duration_seconds(within, "within"), workflow)

    async def agent_memories(self, agent: str, *, tenant: str = DEFAULT_TENANT) -> Sequence[ShownMemory]:
        """What an agent remembers, in order of name: by the name of its workflow, which for agents of a definition is ``NAME.agent``."""
        return await self._access.call(on_executions.agent_memories, checked_name(tenant, "tenant"), agent)

    async def forget_memory(self, agent: str, memory: str, *, tenant: str = DEFAULT_TENANT) -> None:
        """Has an agent forget what it remembers under a name.

        Raises:
            NotFound: there is nothing of this name.
        """
        await self._access.call(on_executions.forget_memory, checked_name(tenant, "tenant"), agent, memory)

    async def find(self, text: str, *, tenant: str = DEFAULT_TENANT) -> Key:
        """Finds an execution by its id, a prefix of it, ``workflow/id``, ``@latest``, or ``@failed`` (the latest that failed).

        Raises:
            NotFound, Ambiguous: no execution matches, or several do.
        """
        return await self._access.call(on_executions.find, checked_name(tenant, "tenant"), text)

    async def approvals(
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
        wanted, found, after = whole_number(limit, "approvals(limit)"), Approvals(), ""
        which = inbox_filter(assignee, groups, group=group, priority=priority, resource=resource, workflow=workflow, overdue=overdue, order=order)
        while True:
            page = await self._access.call(on_approvals.waiting, checked_name(tenant, "tenant"), which, mine, limit=wanted - len(found), after=after)
            found += page.items
            after = page.next
            if not after or len(found) >= wanted:
                return found

    async def approval(self, which: str, *, path: str | None = None, tenant: str = DEFAULT_TENANT) -> Approval:
        """One approval, waiting or decided. `which` and `path` select it as in `approve`.

        Raises:
            NotFound, Ambiguous: no approval that has begun matches, or several do.
        """
        return await self._access.call(on_approvals.read, await self._access.call(on_approvals.find, checked_name(tenant, "tenant"), which, path))

    async def approve(
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
        vote = Vote(by, True, comment, value, tuple(groups), means=means)
        await self._vote(approval, vote, path=path, wait=wait, timeout=timeout, tenant=tenant)

    async def reject(
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
        vote = Vote(by, False, comment, None, tuple(groups), means=means)
        await self._vote(approval, vote, path=path, wait=wait, timeout=timeout, tenant=tenant)

    async def _vote(self, approval: str | Approval, vote: Vote, *, path: str | None, wait: bool, timeout: Duration | None, tenant: str) -> None:
        key = approval.key if isinstance(approval, Approval) else await self._access.call(on_approvals.find, checked_name(tenant, "tenant"), approval, path)
        async with with_timeout(timeout if wait else None, f"an engine that takes the decision on {key}"):
            await self._access.call(on_approvals.vote, key, vote, wait)

    async def complete(self, token: str, result: Any = None) -> None:
        """Completes a step that waits for it (`ctx.external`) with a result, durably. It takes effect as soon as an engine runs.

        Raises:
            BadValue: the token was given to no step of this database.
            AlreadyCompleted: it was used before; the first completion counts.
            CompletionRefused: the step is not wanted any more: it has timed out, or was cancelled.
            HasEnded: the execution has ended without it.
            Unencodable, TooLarge: the result can't be stored.
        """
        await self._access.call(on_approvals.complete, token, values.encode(result, "the result of a step"))

    async def fail(self, token: str, error: str | BaseException, *, final: bool = False) -> None:
        """Fails an attempt of a step that waits for its completion. There is another one, by the retry policy of the step, unless the failure is `final`.

        Raises:
            BadValue, AlreadyCompleted, CompletionRefused, HasEnded: as for `complete`.
        """
        await self._access.call(on_approvals.fail, token, step_completions.error_of(error), final)

    async def heartbeat(self, token: str) -> None:
        """Reports that the work for a step that waits for its completion is alive; the step fails if `heartbeat` of it passes without a report.

        Raises:
            BadValue, AlreadyCompleted, CompletionRefused, HasEnded: as for `complete`. The work can be stopped.
        """
        await self._access.call(on_approvals.heartbeat, token)

    async def approval_link(
        self, approval: str | Approval, *, by: str, approve: bool | None, lifetime: Duration = "7d", secret: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> str:
        """A signed link whose bearer can give this answer as `by`, once, with `decide_by_link`; with None, the one answer or the other.

        A server that knows its public URL returns the URL of a page. The secret is `secret`, else `PERDURE_SIGNING_SECRET`.

        Raises:
            NotFound, Ambiguous: no approval matches, or several do.
            BadValue: there is no secret, or it is too short.
        """
        key = approval.key if isinstance(approval, Approval) else await self._access.call(on_approvals.find, checked_name(tenant, "tenant"), approval)
        return await self._access.call(on_approvals.sign_link, key, by, approve, duration_seconds(lifetime, "lifetime"), secret_of(secret))

    async def decide_by_link(
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
        async with with_timeout(timeout, "an engine that takes the decision of a link"):
            await self._access.call(on_approvals.vote_by_link, link, secret_of(secret), values.encode(value, "what was filled in"), comment, approve)

    def changes(self, after: int = 0, *, follow: bool = True, watch: Iterable[Key] = (), tenant: str = DEFAULT_TENANT) -> AsyncGenerator[ExecutionChange, None]:
        """Yields what happens to the executions of a tenant, from now on: which begin, change their status, and end; without `follow`, the changes so far.

        To go on after a break, pass the number of the last change as `after`. A change of the type ``reset`` says that some are missing. The executions in
        `watch`, 50 at most, have also ``changed`` when the reading begins, and whenever their logs grow.
        """
        named = tuple(watched_text(key) for key in watch)
        return self._access.stream(on_executions.changes, checked_name(tenant, "tenant"), whole_number(after, "changes(after)", 0), follow, named)

    @property
    def catalog(self) -> AsyncCatalog:
        """The catalog: definitions, their versions, tags and drafts."""
        return AsyncCatalog(self._access)

    @property
    def proposals(self) -> AsyncProposals:
        """Proposals of changes of definitions: makes, reviews and applies them."""
        return AsyncProposals(self._access)

    @property
    def recordings(self) -> AsyncRecordings:
        """Recordings: calls of tools, one by one, of which a definition is made."""
        return AsyncRecordings(self._access)

    @property
    def triggers(self) -> AsyncTriggers:
        """Triggers: schedules, webhooks, events, and starts by hand."""
        return AsyncTriggers(self._access)

    @property
    def people(self) -> AsyncPeople:
        """The people of a tenant: how many approvals wait for them, delegation, and who stands in for whom."""
        return AsyncPeople(self._access)

    @property
    def administration(self) -> AsyncAdministration:
        """Access to the service: keys, sessions and the audit."""
        return AsyncAdministration(self._access)

    async def whoami(self) -> CallerDetails:
        """Who the client is to the service: tenant, subject, roles and groups. On a store, it is the local user, who may do everything."""
        return await self._access.call(on_access.whoami, LOCAL)

    async def system(self, *, tenant: str = DEFAULT_TENANT) -> SystemStatus:
        """The server that answers (of a store, this process), its database with its clock, and how many executions of the tenant begin and end."""
        return await self._access.call(on_system.status, checked_name(tenant, "tenant"))

    async def kinds(self) -> KindList:
        """The kinds of steps that definitions may use on the server, or in this process, each with its schemas and an example."""
        return await self._access.call(on_kinds.kinds)

    async def engine_tools(self, *, tenant: str = DEFAULT_TENANT) -> EngineTools:
        """The tools that running engines have for steps of definitions in the catalog."""
        return await self._access.call(on_kinds.tools, checked_name(tenant, "tenant"))

    async def definition_format(self) -> FormatDescription:
        """The format of definitions: its JSON Schema, and the operators of conditions."""
        return await self._access.call(on_kinds.definition_format)

    @property
    def dead_letters(self) -> AsyncDeadLetterOffice:
        """The dead letters of the store: lists them in groups, requeues and discards them."""
        return AsyncDeadLetterOffice(self._access)

    @property
    def upkeep(self) -> AsyncUpkeep:
        """Maintenance of the store: export, import, verification and retention."""
        return AsyncUpkeep(self._access)

    async def check(self, workflows: Iterable[Workflow[..., Any]], *, failed: bool = False, limit: int | None = None, tenant: str = DEFAULT_TENANT) -> Checks:
        """Checks whether this code replays the executions that have not ended (with `failed`, also those that failed). No step is run, and nothing is
        changed.
        """
        which = replay_checks.ReplayFilter(tenant=checked_name(tenant, "tenant"), failed=failed, limit=limit and whole_number(limit, "limit"))
        store = self._access.on_store("check").store
        heads = await replay_checks.choose_heads(store, which)
        return [one async for one in replay_checks.check_executions(store, replay_checks.workflows_by_name(one.code for one in workflows), heads)]

    async def queues(self) -> Queues:
        """Lists the queues that have limits or hold anything: their limits, what is claimed, and what waits.

        The status of a queue is that of all tenants, and is followed by those of tenants that have limits of their own in it, which it does not count.
        """
        return await self._access.call(on_queues.statuses)

    async def queue(self, name: str, *, tenant: str | None = None) -> QueueDetails:
        """One queue: its limits, what is claimed, and what waits; with a `tenant` that has limits of its own, for that one."""
        return await self._access.call(on_queues.read, checked_name(name, "queue"), None if tenant is None else checked_name(tenant, "tenant"))

    async def limit(
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
        of = None if tenant is None else checked_name(tenant, "tenant")
        per_start: Any = (rate.interval_s, rate.burst) if isinstance(rate, Rate) else rate
        changes = LimitChanges(concurrency=concurrency, per_lane=concurrency_per_key, rate=per_start)
        return await self._access.call(on_queues.change, checked_name(queue, "queue"), changes, of, revision)

    async def remove_limits(self, queue: str, *, revision: int | None = None, tenant: str | None = None) -> None:
        """Removes all limits of a queue. With a `tenant`, removes its own, so that those for all apply to it again.

        Raises:
            StaleRecord: the limits are not those of the `revision`, if one is given.
        """
        await self._access.call(on_queues.remove, checked_name(queue, "queue"), None if tenant is None else checked_name(tenant, "tenant"), revision)

    async def engines(self) -> Engines:
        """Lists the engines and workers of this store, with what they serve and hold."""
        return await self._access.call(on_queues.processes)


Keys = list[Key]


class AsyncSelection:
    """Executions for bulk operations, posted in batches of 500 per commit. `AsyncClient.select` returns it.

    Each operation does to all executions what the same method of a handle does to one; without a `status`, to those on which it has an effect. The selection is
    evaluated when the operation is called. When it returns, the requests are durable; the result has the executions that `accepted` the request, those that had
    `ended` before, and those for which it `failed`, with their errors. With `wait`, each batch takes effect before the next is posted, with up to `timeout` for
    each execution. Parents are asked to end before their children; `retry` and `requeue` begin with the newest executions.

    If the process dies in between, the first batches are posted and the rest are not; calling the operation again posts the rest.
    """

    def __init__(self, access: ServiceAccess, which: BulkFilter) -> None:
        self._access = access
        self._which = which

    async def keys(self) -> Keys:
        """The selected executions, newest first; in any status, if the selection names none."""
        return await self._access.call(on_executions.selected, self._which)

    async def cancel(self, reason: str = "", *, undo: bool = True, wait: bool = False, timeout: Duration | None = None) -> BulkResult:
        """Cancels each execution, as `AsyncHandle.cancel` does."""
        return await self._do("cancel", reason, wait, timeout, undo=undo)

    async def terminate(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> BulkResult:
        """Ends each execution as cancelled at once, as `AsyncHandle.terminate` does."""
        return await self._do("terminate", reason, wait, timeout)

    async def pause(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> BulkResult:
        """Pauses each execution, as `AsyncHandle.pause` does."""
        return await self._do("pause", reason, wait, timeout)

    async def resume(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> BulkResult:
        """Resumes each execution that is paused or needs attention, as `AsyncHandle.resume` does."""
        return await self._do("resume", reason, wait, timeout)

    async def evict(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> BulkResult:
        """Evicts each execution from its engine, as `AsyncHandle.evict` does."""
        return await self._do("evict", reason, wait, timeout)

    async def retry(self, reason: str = "", *, from_step: str | None = None, wait: bool = False, timeout: Duration | None = None) -> BulkResult:
        """Retries each execution that failed or is parked, as `AsyncHandle.retry` does."""
        return await self._do("retry", reason, wait, timeout, from_step=from_step)

    async def undo(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> BulkResult:
        """Undoes each execution, as `AsyncHandle.undo` does."""
        return await self._do("undo", reason, wait, timeout)

    async def requeue(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> BulkResult:
        """Runs each dead letter again from what failed, as `AsyncDeadLetterOffice.requeue` does."""
        return await self._do("requeue", reason, wait, timeout)

    async def discard(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> BulkResult:
        """Cancels each dead letter without running anything, as `AsyncDeadLetterOffice.discard` does."""
        return await self._do("discard", reason, wait, timeout)

    async def count(self, action: BulkAction) -> BulkCount:
        """Counts the executions on which `begin` would act now, in all and by status. Nothing is changed."""
        found = (await self._access.call(on_execution_changes.start_bulk, LOCAL, self._filter("count"), action, dry_run=True)).count
        assert found is not None, "a dry run counts"
        return found

    async def begin(
        self,
        action: BulkAction,
        reason: str = "",
        *,
        id: str | None = None,
        undo: bool = True,
        from_step: str | None = None,
        edits: Mapping[str, Any] | None = None,
        version: int | None = None,
    ) -> AsyncHandle[Any]:
        """Has an engine do this to each execution: begins an execution that works through the selection, in pieces and across crashes; returns its handle.

        ``query("progress")`` of the handle counts what is done, failed and left, its stream has the failures, and `cancel` stops it. Besides what the methods
        here do, ``prune`` removes the logs of executions that have ended. An engine of an `App`, ``perdure dev``, ``perdure serve`` or ``perdure worker``
        has to run. With `edits` of the input, or another `version` of the code, ``requeue`` starts a new execution in the place of each, and discards it.

        Raises:
            BadValue: the selection consists of keys, or is ordered by an attribute.
            InputDiffers: the bulk execution of this `id` exists with another order.
        """
        given: dict[str, Any] = {"reason": reason, "undo": undo, "from_step": from_step, "bulk_id": uuid4().hex if id is None else id}
        given["edits"] = {name: values.encode(value, f"the argument {name}") for name, value in edits.items()} if edits else None
        given["version"] = version
        started = await self._access.call(on_execution_changes.start_bulk, LOCAL, self._filter("begin"), action, **given)
        assert started.key is not None, "it was started"
        return AsyncHandle(self._access, started.key, BulkProgress, started.created)

    async def send(self, signal: Signal[Any] | str, body: Any = None, *, id: str | None = None) -> AsyncHandle[Any]:
        """Begins an execution that sends a message to each execution that has not ended, once; returns its handle, as `begin` does."""
        name, raw = signal_body(signal, body)
        given: dict[str, Any] = {"signal": name, "body": raw, "bulk_id": uuid4().hex if id is None else id}
        started = await self._access.call(on_execution_changes.start_bulk, LOCAL, self._filter("send"), "send", **given)
        assert started.key is not None, "it was started"
        return AsyncHandle(self._access, started.key, BulkProgress, started.created)

    def _filter(self, what: str) -> ExecutionFilter:
        if self._which.keys is not None:
            raise BadValue(what, "a selection of keys", "called on a selection by conditions, such as select(workflow=...)")
        return self._which.which

    async def _do(self, verb: BulkVerb, reason: str, wait: bool, timeout: Duration | None, undo: bool = True, from_step: str | None = None) -> BulkResult:
        timeout_s = None if timeout is None else duration_seconds(timeout, "timeout")
        return await self._access.call(
            on_execution_changes.bulk, verb, self._which, reason=reason, undo=undo, from_step=from_step, wait=wait, timeout_s=timeout_s
        )
