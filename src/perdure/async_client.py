"""The client of asyncio programs: start executions and deal with them, on any store that this process can open.

No rule stands here: it is the typed face of `perdure.service`. What it says of options holds for its sync twin, `perdure.sync_client`.

A selection of executions, of asyncio programs: all that a filter or a list of keys means, to be told the same in batches.

No rule stands here: it is the typed face of `perdure.service.bulk_requests`. What it says holds for its sync twin, `perdure.sync_client`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar, overload

from perdure.async_handle import AsyncHandle, connection_of, kind_of, name_of
from perdure.async_maintenance import AsyncDeadLetterOffice, AsyncUpkeep, secret_of
from perdure.code.call_options import DEFAULT_TENANT, NamedWorkflow
from perdure.code.declarations import checked_name
from perdure.code.declared_queues import Queue, Rate
from perdure.code.durations import Duration, duration_seconds, whole_number
from perdure.code.results import Means, Vote
from perdure.core.attribute_filter import AttributeFilter
from perdure.core.errors import BadValue, NotFound
from perdure.core.paths import Key
from perdure.runtime.registrations import declare_queues
from perdure.service import approvals, bulk_requests, execution_operations, queries, replay_checks
from perdure.service.approvals import Approval
from perdure.service.bulk_requests import BulkFilter, BulkResult
from perdure.service.execution_operations import UNCHANGED, StartRequest, change_queue_limits
from perdure.service.queries import HolderView, ListedExecution
from perdure.service.store_access import StoreAccess
from perdure.stores.configured_store import open_store
from perdure.stores.encoded_store import EncodedStore
from perdure.stores.payload_codec import PayloadCodec
from perdure.stores.protocol import QueueStatus, Store
from perdure.workflow_function import Workflow

P = ParamSpec("P")
R = TypeVar("R")

Listing = list[ListedExecution]
Engines = list[HolderView]
Approvals = list[Approval]
Queues = list[QueueStatus]
Checks = list[replay_checks.ReplayCheck]


def client_on(access: StoreAccess) -> AsyncClient:
    """A client on a store that is in use here already, and stays open."""
    client = AsyncClient(access.store)
    client._access = access
    return client


class AsyncClient:
    """Starts executions and finds them, on the store of a URL: ``sqlite:///file.db``; by default `PERDURE_DB`, else ``.perdure/perdure.db``.

    It runs none: engines do, in this process or another. A store that is open here already may be given in place of a URL, and stays open.
    What the store keeps is encoded by `codec`, which has to be that of the engines; by default, by what the environment says: see the guide to
    encryption.

    Raises:
        BadValue: the URL names no store, or the environment no codec.
        StoreError: the store can't be opened.
    """

    def __init__(self, url: str | Store | None = None, *, codec: PayloadCodec | None = None) -> None:
        if url is not None and not isinstance(url, str) and not hasattr(url, "heads"):
            raise BadValue("client URL", url, "sqlite:///path/to/file.db, or a store")
        if isinstance(url, str) and url.lower().startswith(("http://", "https://")):
            raise BadValue("client URL", url, "a database's; this version does not speak to servers, open the database that the server has")
        if url is None or isinstance(url, str):
            self._store, self._ours = open_store(url, codec), True
        else:
            self._store, self._ours = url if codec is None else EncodedStore(url, codec), False
        self._access = StoreAccess(self._store)
        self._declared: set[str] = set()

    async def aclose(self) -> None:
        """Let the store go. Who waits here for something is told that the client was closed; what was posted is durable."""
        self._access.close()
        if self._ours:
            await self._store.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.aclose()

    def workflow(self, name: str) -> NamedWorkflow:
        """A workflow of which only the name is known here, to be started with options: ``client.start(client.workflow("order").with_(id="o1"), "o1", 500)``.

        Raises:
            BadName: it is no name.
        """
        return NamedWorkflow(checked_name(name, "workflow"))

    @overload
    async def start(self, workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> AsyncHandle[R]: ...
    @overload
    async def start(self, workflow: NamedWorkflow | str, /, *args: Any, **kwargs: Any) -> AsyncHandle[Any]: ...
    async def start(self, workflow: Workflow[..., Any] | NamedWorkflow | str, /, *args: Any, **kwargs: Any) -> AsyncHandle[Any]:
        """Start an execution: durable when this returns, and begun by an engine that knows the workflow. Options are given by `with_`, never beside the
        arguments: ``client.start(order.with_(id="o1", delay="1h"), "o1", 500)``.

        An `id` that exists is returned as it is (`created` is False), whatever the input; with `strict`, another input is an error. The
        `deadline` is counted from when it begins; what has not begun after `ttl` does not begin any more. A workflow is started in the version that it
        has here, a name in that of the engine. In a `queue` (a name, or a `Queue`) it begins as that allows, in the turn of its `lane`, and by `priority`.

        By its `attributes` it is found: up to 32 by name, each a str, int, float, bool, or datetime with its zone (see `Context.set_attributes`). They are
        kept in the clear, also where payloads are encrypted.

        With `debounce`, a later start of the same `id` within that time replaces this one, if it has not begun; with `singleton`, the one that goes on
        is returned, if one does. The ids of their executions count: ``id@1``, ``id@2``.

        With a `connection` to the store's database, the start takes part in the transaction that is open on it: there with its commit, and seen then by
        engines within some milliseconds, a second at the latest; gone with its rollback. See the guide to transactions.

        Raises:
            BadValue: the arguments are not those of the workflow, or the connection has no transaction on this database.
            WrongVerb: an option has no effect here, or stands among the arguments.
            InputDiffers: `strict`, and the execution was started with another input.
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
        if (connection := code.calling.connection) is not None:
            key, created = await execution_operations.start_in_transaction(self._store, connection, wanted, queue)
            return AsyncHandle(self._access, key, kind_of(known), created)
        if queue is not None and queue.name not in self._declared:
            await declare_queues(self._store, [queue])
            self._declared.add(queue.name)
        key, created = await execution_operations.start_execution(self._access, wanted)
        return AsyncHandle(self._access, key, kind_of(known), created)

    @overload
    async def run(self, workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    async def run(self, workflow: NamedWorkflow | str, /, *args: Any, **kwargs: Any) -> Any: ...
    async def run(self, workflow: Workflow[..., Any] | NamedWorkflow | str, /, *args: Any, **kwargs: Any) -> Any:
        """Start an execution, as `start` does, and wait for its result, as `AsyncHandle.result` does. An engine has to run somewhere."""
        return await self._run("client.run", workflow, args, kwargs)

    async def _run(self, verb: str, workflow: Workflow[..., Any] | NamedWorkflow | str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        execution_operations.expect_no_wait(connection_of(workflow))
        known, wanted, queue = self._request(verb, workflow, args, kwargs)
        engine = self._access.engine
        ending = engine.ending(wanted.key) if execution_operations.can_begin(engine, wanted) else None
        handle = await self._begin(known, wanted, queue)
        return await handle._result(None, ending if handle.created else None)

    @overload
    async def get(self, id: str | Key, workflow: Workflow[..., R], *, tenant: str = ...) -> AsyncHandle[R]: ...
    @overload
    async def get(self, id: str | Key, workflow: str | None = ..., *, tenant: str = ...) -> AsyncHandle[Any]: ...
    async def get(self, id: str | Key, workflow: Workflow[..., Any] | str | None = None, *, tenant: str = DEFAULT_TENANT) -> AsyncHandle[Any]:
        """The execution of an id, or of a key; without a `workflow`, the only one of that id.

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
            key = await queries.execution_by_id(self._access, checked_name(tenant, "tenant"), checked_name(id, "id"))
        _ = await self._access.head(key)
        return AsyncHandle(self._access, key, kind_of(workflow))

    async def list(
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
        return await queries.list_executions(
            self._access,
            tenant=checked_name(tenant, "tenant"),
            workflow=None if workflow is None else name_of(workflow),
            status=status,
            id_prefix=id_prefix,
            since=since,
            limit=limit,
            older_than=older_than,
            where=where,
            internal=internal,
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
    ) -> AsyncSelection:
        """All executions that fit, as `list` says, or those of `keys`, to be told the same in batches: ``client.select(workflow="order").cancel("sold out")``.

        Without any of these, it means all executions of the tenant on which the verb has an effect, but for Perdure's own.

        Raises:
            BadValue: there are both keys and a filter.
        """
        if keys is not None and (workflow, status, id_prefix, since, where) != (None, None, "", None, None):
            raise BadValue("select(keys=…)", "keys and a filter", "keys alone: leave the filter out, or the keys")
        which = BulkFilter(
            tenant=checked_name(tenant, "tenant"),
            keys=None if keys is None else tuple(keys),
            workflow=None if workflow is None else name_of(workflow),
            status=status if status is None or isinstance(status, str) else tuple(status),
            id_prefix=id_prefix,
            since=since,
            where=where,
        )
        return AsyncSelection(self._access, which)

    async def find(self, text: str, *, tenant: str = DEFAULT_TENANT) -> Key:
        """Which execution people mean by an id, the beginning of one, ``workflow/id``, ``@latest``, or ``@failed`` (the latest that failed).

        Raises:
            NotFound, Ambiguous: it means none, or several.
        """
        return await queries.find_execution(self._access, text, checked_name(tenant, "tenant"))

    async def approvals(self, assignee: str | None = None, *, groups: Sequence[str] = (), limit: int = 100, tenant: str = DEFAULT_TENANT) -> Approvals:
        """The approvals that wait, newest first: all, or those on which `assignee`, a member of `groups`, may decide and has not."""
        return await approvals.waiting_approvals(self._access, checked_name(tenant, "tenant"), assignee, groups, whole_number(limit, "approvals(limit)"))

    async def approval(self, which: str, *, path: str | None = None, tenant: str = DEFAULT_TENANT) -> Approval:
        """One approval, also when it was decided. It is meant as `approve` says.

        Raises:
            NotFound, Ambiguous: none is meant that has begun, or several.
        """
        key = await approvals.find_approval(self._access, which, checked_name(tenant, "tenant"), path)
        found = await approvals.read_approval(self._access, key)
        if found is None:
            raise NotFound(key, f"the approval {key} can't be read: no engine has started it. Start an engine, or try again later")
        return found

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
        """Decide against it. What holds of `approve` holds here."""
        vote = Vote(by, False, comment, None, tuple(groups), means=means)
        await self._vote(approval, vote, path=path, wait=wait, timeout=timeout, tenant=tenant)

    async def _vote(self, approval: str | Approval, vote: Vote, *, path: str | None, wait: bool, timeout: Duration | None, tenant: str) -> None:
        key = approval.key if isinstance(approval, Approval) else await approvals.find_approval(self._access, approval, checked_name(tenant, "tenant"), path)
        await approvals.give_vote(self._access, key, vote, wait, timeout)

    async def approval_link(
        self, approval: str | Approval, *, by: str, approve: bool, lifetime: Duration = "7d", secret: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> str:
        """A signed text with which whoever has it gives this answer as `by`, to `decide_by_link`. Signed with `secret`, else with `PERDURE_SIGNING_SECRET`.

        Raises:
            NotFound, Ambiguous: no approval is meant, or several.
            BadValue: there is no secret, or a short one.
        """
        key = approval.key if isinstance(approval, Approval) else await approvals.find_approval(self._access, approval, checked_name(tenant, "tenant"))
        until_s = (await self._store.store_time()).now_s + duration_seconds(lifetime, "lifetime")
        return approvals.sign_link(secret_of(secret), approvals.ApprovalLink(key, checked_name(by, "by"), approve, until_s))

    async def decide_by_link(self, link: str, *, value: Any = None, comment: str = "", secret: str | None = None, timeout: Duration | None = None) -> None:
        """Give the answer that a signed link stands for. What holds of `approve` holds here.

        Raises:
            LinkRefused: it was not signed with this secret, or its time is over.
        """
        await approvals.decide_by_link(self._access, secret_of(secret), link, Vote("", True, comment, value), timeout)

    @property
    def dead_letters(self) -> AsyncDeadLetterOffice:
        """What has failed or needs attention, by what it has in common, to be run again or discarded."""
        return AsyncDeadLetterOffice(self._access)

    @property
    def upkeep(self) -> AsyncUpkeep:
        """What whoever looks after the store does: carry executions elsewhere, and look whether all records agree."""
        return AsyncUpkeep(self._store)

    async def check(self, workflows: Iterable[Workflow[..., Any]], *, failed: bool = False, limit: int | None = None, tenant: str = DEFAULT_TENANT) -> Checks:
        """What would become of each execution that has not ended (or also has `failed`) if engines had this code. No step is run, nothing is changed."""
        which = replay_checks.ReplayFilter(tenant=checked_name(tenant, "tenant"), failed=failed, limit=limit and whole_number(limit, "limit"))
        heads = await replay_checks.choose_heads(self._store, which)
        return [one async for one in replay_checks.check_executions(self._store, replay_checks.workflows_by_name(one.code for one in workflows), heads)]

    async def queues(self) -> Queues:
        """The queues that have limits or hold anything, over all tenants: what they allow, what is held, and what waits."""
        return await self._store.queues()

    async def limit(
        self, queue: str, *, concurrency: int | None = UNCHANGED, concurrency_per_key: int | None = UNCHANGED, rate: Rate | None = UNCHANGED
    ) -> QueueStatus:
        """Change limits of a queue while everything runs; None takes one away. It stays so until the code declares something else."""
        return await change_queue_limits(self._store, checked_name(queue, "queue"), concurrency, concurrency_per_key, rate)

    async def engines(self) -> Engines:
        """Who works on this store: engines and workers, with what they know, and what they hold."""
        return await queries.list_holders(self._access)


Keys = list[Key]


class AsyncSelection:
    """Executions that are told the same, 500 in each commit. It is what `AsyncClient.select` returns.

    Each verb does to all what the verb of a handle does to one; of a selection without `status`, to those on which it has an effect. Which these are is found
    out when the verb is called. The answer is durable when it returns, and names the executions that were `told`, those that had `ended` before, and those
    that `failed`, with their errors. With `wait`, each batch is waited for before the next is told, each execution for up to `timeout`. Whoever has started
    others is told to end before them; `retry` and `requeue` begin with those that were started last.

    A process that dies in the middle has told the first batches and not the others; calling the verb again tells the rest.
    """

    def __init__(self, access: StoreAccess, which: BulkFilter) -> None:
        self._access = access
        self._which = which

    async def keys(self) -> Keys:
        """The executions that are meant now, newest first; of all statuses, if none is chosen."""
        return await bulk_requests.choose_executions(self._access, self._which)

    async def cancel(self, reason: str = "", *, undo: bool = True, wait: bool = False, timeout: Duration | None = None) -> BulkResult:
        """Have each unwind, undo what it has done unless that is not wanted, and end as cancelled, as `AsyncHandle.cancel` does."""
        return await bulk_requests.post_bulk(self._access, self._which, bulk_requests.cancel(reason, undo), wait, timeout)

    async def terminate(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> BulkResult:
        """End each as cancelled, at once, as `AsyncHandle.terminate` does."""
        return await bulk_requests.post_bulk(self._access, self._which, bulk_requests.terminate(reason), wait, timeout)

    async def pause(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> BulkResult:
        """Have each begin nothing more until it is resumed, as `AsyncHandle.pause` does."""
        return await bulk_requests.post_bulk(self._access, self._which, bulk_requests.pause(reason), wait, timeout)

    async def resume(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> BulkResult:
        """Have each go on that is paused or needs attention, as `AsyncHandle.resume` does."""
        return await bulk_requests.post_bulk(self._access, self._which, bulk_requests.resume(reason), wait, timeout)

    async def evict(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> BulkResult:
        """Have each leave the engine that has it, and go on from its log, as `AsyncHandle.evict` does."""
        return await bulk_requests.post_bulk(self._access, self._which, bulk_requests.evict(reason), wait, timeout)

    async def retry(self, reason: str = "", *, from_step: str | None = None, wait: bool = False, timeout: Duration | None = None) -> BulkResult:
        """Have each go on from what failed, or from where it is parked, as `AsyncHandle.retry` does."""
        return await bulk_requests.post_bulk(self._access, self._which, bulk_requests.retry(reason, from_step), wait, timeout)

    async def undo(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> BulkResult:
        """Undo what each has done, as `AsyncHandle.undo` does."""
        return await bulk_requests.post_bulk(self._access, self._which, bulk_requests.undo(reason), wait, timeout)

    async def requeue(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> BulkResult:
        """Run each dead letter again, from what failed, as `AsyncDeadLetterOffice.requeue` does."""
        return await bulk_requests.post_bulk(self._access, self._which, bulk_requests.requeue(reason), wait, timeout)

    async def discard(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> BulkResult:
        """Cancel each dead letter as it stands, as `AsyncDeadLetterOffice.discard` does."""
        return await bulk_requests.post_bulk(self._access, self._which, bulk_requests.discard(reason), wait, timeout)
