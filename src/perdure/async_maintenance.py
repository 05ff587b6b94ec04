"""Asyncio maintenance of a client's store: dead letters, export and import, verification, and retention.

It holds no rules, but gives `perdure.service` its typed interface. `perdure.sync_maintenance` is generated from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from perdure.async_handle import AsyncHandle
from perdure.code.call_options import DEFAULT_TENANT
from perdure.code.declarations import checked_name
from perdure.code.durations import Duration, duration_seconds, whole_number
from perdure.core import values
from perdure.core.paths import Key
from perdure.operations import on_dead_letters, on_executions, on_upkeep
from perdure.operations.on_dead_letters import Requeued
from perdure.service import log_archives, queries, retention
from perdure.service.blob_collection import ArchiveFilter, CollectedBlobs, collect_blobs
from perdure.service.dead_letter_counts import DeadLetterCounts
from perdure.service.dead_letter_groups import DeadLetterFilter, DeadLetterGroup, requeue_dead_letter
from perdure.service.execution_bundles import ImportedExecution
from perdure.service.retention import PRUNED_STATUSES, ArchiveWriter, PrunedExecution, RetentionFilter
from perdure.service.service_access import ServiceAccess
from perdure.service.signing_secrets import environment_secrets
from perdure.service.store_access import with_timeout
from perdure.service.verification import VerificationFinding
from perdure.stores.month_removal import StoredMonth
from perdure.workflow_function import Workflow

Groups = list[DeadLetterGroup]


class AsyncDeadLetterOffice:
    """The dead letters of a client's store. It is the client's `dead_letters`."""

    def __init__(self, access: ServiceAccess) -> None:
        self._access = access

    async def groups(
        self,
        *,
        workflow: Workflow[..., Any] | str | None = None,
        id_prefix: str = "",
        since: Duration | datetime | None = None,
        fingerprint: str = "",
        limit: int = 10_000,
        tenant: str = DEFAULT_TENANT,
    ) -> Groups:
        """Groups dead letters that failed alike, the most recent failure first; reads at most `limit` executions, the newest.

        A `fingerprint`, or a prefix of one, selects one group. If there are more executions than `limit`, the groups are not `complete`.

        Raises:
            BadValue: no group has that fingerprint, or several have that prefix.
        """
        name = workflow.code.name if isinstance(workflow, Workflow) else None if workflow is None else checked_name(workflow, "workflow")
        since_s = since if since is None or isinstance(since, datetime) else duration_seconds(since, "since")
        which = DeadLetterFilter(
            tenant=checked_name(tenant, "tenant"),
            workflow=name,
            id_prefix=id_prefix,
            since=since_s,
            fingerprint=fingerprint,
            limit=whole_number(limit, "limit"),
        )
        return await self._access.call(on_dead_letters.groups, which)

    async def counts(
        self,
        *,
        workflow: Workflow[..., Any] | str | None = None,
        since: Duration | datetime | None = None,
        fingerprint: str = "",
        tenant: str = DEFAULT_TENANT,
    ) -> DeadLetterCounts:
        """Counts dead letters that failed alike, the most recent failure first, with a sample of each group; looks at 10,000 at most, in the index.

        `since` selects by when they have failed.
        """
        name = workflow.code.name if isinstance(workflow, Workflow) else workflow
        which = queries.execution_filter(checked_name(tenant, "tenant"), workflow=name, failed_since=since, fingerprint=fingerprint)
        return await self._access.call(on_dead_letters.counts, which)

    async def requeue(
        self,
        execution: str | Key,
        reason: str = "",
        *,
        edits: Mapping[str, Any] | None = None,
        version: int | None = None,
        workflow: Workflow[..., Any] | None = None,
        wait: bool = False,
        timeout: Duration | None = None,
        tenant: str = DEFAULT_TENANT,
    ) -> AsyncHandle[Any]:
        """Runs a dead letter again from what failed; with `edits` of its input or another `version` of its code, as a new execution from the beginning, and
        discards this one.

        Edits are keyed by argument name; arguments that were passed by position are keyed by their number, from 1, or by name if `workflow` is given, which
        then also checks the input. Returns the handle of the execution that continues. With `wait`, the request has taken effect.

        Raises:
            NotFound, BadValue: it is no dead letter, or the edits do not fit.
            NeedsAttention: with `wait`, it continued and is parked again.
        """
        key = await self._key(execution, tenant)
        async with with_timeout(timeout, f"the requeuing of {key}"):
            encoded = {name: values.encode(value, f"the argument {name}") for name, value in edits.items()} if edits else None
            if workflow is None:
                found = await self._access.call(on_dead_letters.requeue, key, reason, encoded, wait, version)
            else:
                access = self._access.on_store("workflow=")
                found = Requeued(*await requeue_dead_letter(access, key, reason, edits=encoded, version=version, code=workflow.code, wait=wait))
        return AsyncHandle(self._access, found.key, Any, found.key != key, found.after)

    async def discard(
        self, execution: str | Key, reason: str = "", *, wait: bool = False, timeout: Duration | None = None, tenant: str = DEFAULT_TENANT
    ) -> None:
        """Cancels a dead letter without running anything. Its parent, which has its outcome already, is not notified again.

        Raises:
            NotFound, BadValue: it is no dead letter.
        """
        key = await self._key(execution, tenant)
        async with with_timeout(timeout, f"the discarding of {key}"):
            await self._access.call(on_dead_letters.discard, key, reason, wait)

    async def _key(self, execution: str | Key, tenant: str) -> Key:
        if isinstance(execution, Key):
            return execution
        return await self._access.call(on_executions.by_id, checked_name(tenant, "tenant"), checked_name(execution, "id"))


Imports = list[ImportedExecution]
Findings = list[VerificationFinding]
Prunes = list[PrunedExecution]
StoredMonths = list[StoredMonth]
Archives = list[log_archives.LogArchive]


class AsyncUpkeep:
    """Maintenance of a store. It is the client's `upkeep`."""

    def __init__(self, access: ServiceAccess) -> None:
        self._access = access

    async def export(self, execution: str | Key, *, children: bool = False, secret: str | None = None, tenant: str = DEFAULT_TENANT) -> bytes:
        """Exports an execution as a file with its log, its messages and the blobs that it refers to; with `children`, also with its descendants.

        It is signed with `secret`, else with `PERDURE_SIGNING_SECRET`, if there is one. Nothing is changed, and the execution continues.

        Raises:
            NotFound, Ambiguous: no execution matches, or several do.
            LogDamaged: a part of it is missing.
        """
        key = await self._key(execution, tenant)
        return await self._access.call(on_upkeep.export, key, secret_of(secret), children)

    async def import_(self, raw: bytes, *, id: str | None = None, paused: bool = False, unsigned: bool = False, secret: str | None = None) -> Imports:
        """Imports an exported file: its executions continue here, the first under `id` if one is given; with `paused`, after they are resumed.

        Attempts that were in flight at the export count as interrupted, and are made again. If the original continues too, everything from there on runs twice.

        Raises:
            ExportRefused: the file is damaged, or is not signed with this secret, and `unsigned` is false.
            AlreadyExists: there is an execution of this id; nothing was changed.
        """
        return await self._access.call(on_upkeep.import_, raw, secret_of(secret), id, paused, unsigned)

    async def verify(self, *executions: str | Key, tenant: str = DEFAULT_TENANT) -> Findings:
        """Verifies the records of these executions, or of all executions of all tenants, and returns what does not agree. Nothing is changed.

        Raises:
            NotFound, Ambiguous: no execution matches, or several do.
        """
        keys = [await self._key(one, tenant) for one in executions]
        return await self._access.call(on_upkeep.verify, keys)

    async def prune(
        self,
        older_than: Duration,
        *,
        status: Iterable[str] = PRUNED_STATUSES,
        workflow: str | None = None,
        archive: ArchiveWriter | None = None,
        dry_run: bool = False,
        forget_ids: bool = False,
        tenant: str = DEFAULT_TENANT,
    ) -> Prunes:
        """Removes the logs and messages of executions that ended longer ago than this. Their ids, statuses and times are kept, so that none is started
        again.

        Of inputs and results a prefix of the SHA-256 is kept; asking for a result then raises `Removed`. `archive` receives an export of each execution
        before it is removed. An execution is left if it has a holder, or if a parent has waited for it that has not ended. Large values stay until
        `prune_values`. With `forget_ids`, not even ids are kept: an execution that is started under one of them runs again.

        Raises:
            BadValue: the duration or a status is invalid.
        """
        older_than_s = duration_seconds(older_than, "older_than")
        if archive is None:
            of, how = checked_name(tenant, "tenant"), {"dry_run": dry_run, "forget_ids": forget_ids}
            return await self._access.call(on_upkeep.prune, of, older_than_s, status=tuple(status), workflow=workflow, **how)
        store = self._access.on_store("archive=").store
        before_s = (await store.store_time()).now_s - older_than_s
        which = RetentionFilter(tenant=checked_name(tenant, "tenant"), before_s=before_s, statuses=frozenset(status), workflow=workflow, forget_ids=forget_ids)
        return [one async for one in retention.prune_executions(store, which, archive, dry_run)]

    async def archives(self, execution: str | Key, *, tenant: str = DEFAULT_TENANT) -> Archives:
        """Lists the archives of an execution that keeps them, newest first. If some were pruned, the last entry says so.

        Raises:
            NotFound, Ambiguous: no execution matches, or several do.
            LogDamaged: a part of it cannot be read.
        """
        return await self._access.call(on_upkeep.archives, await self._key(execution, tenant))

    async def prune_archives(
        self,
        older_than: Duration,
        *,
        status: Iterable[str] | None = None,
        workflow: str | None = None,
        archive: ArchiveWriter | None = None,
        dry_run: bool = False,
        tenant: str = DEFAULT_TENANT,
    ) -> CollectedBlobs:
        """Removes archives that were made longer ago than this, even of executions in progress, and the large values that nothing refers to.

        An archive goes together with all older ones of its execution. It stays known that there were archives, and which iterations they held. `archive`
        receives an export of each execution first. It reads all logs of all tenants; engines may work at the same time.

        Raises:
            BadValue: the duration or a status is invalid.
            LogDamaged, SealedPayload: a log, a message or an archive can't be read; nothing was removed.
        """
        older_than_s, statuses = duration_seconds(older_than, "older_than"), None if status is None else tuple(status)
        if archive is None:
            return await self._access.call(on_upkeep.prune_archives, checked_name(tenant, "tenant"), older_than_s, statuses, workflow, dry_run)
        store = self._access.on_store("archive=").store
        before_s = (await store.store_time()).now_s - older_than_s
        old = ArchiveFilter(tenant=checked_name(tenant, "tenant"), before_s=before_s, statuses=queries.checked_statuses(statuses), workflow=workflow)
        return await collect_blobs(store, old, dry_run, archive)

    async def prune_values(self, *, dry_run: bool = False) -> CollectedBlobs:
        """Removes the large values of all tenants to which no execution, message or archive refers.

        It reads all logs; engines may work at the same time.

        Raises:
            LogDamaged, SealedPayload: a log, a message or an archive can't be read; nothing was removed.
        """
        return await self._access.call(on_upkeep.prune_values, dry_run)

    async def prune_months(self, older_than: Duration) -> StoredMonths:
        """Removes the months that ended longer ago than this and in which no execution has a log any more, for all tenants, and returns all that ended then.

        Only a store that keeps logs by months has them (Postgres); any other returns none. Prune executions and values first: `prune` leaves little of each
        execution, and that is moved out of its month. The space returns to the disk at once. Engines may work at the same time.

        Raises:
            BadValue: the duration is invalid.
            StoreError: the role of the database may not remove tables.
        """
        return await self._access.call(on_upkeep.prune_months, duration_seconds(older_than, "older_than"))

    async def _key(self, execution: str | Key, tenant: str) -> Key:
        if isinstance(execution, Key):
            return execution
        return await self._access.call(on_executions.by_id, checked_name(tenant, "tenant"), checked_name(execution, "id"))


def secret_of(given: str | None) -> bytes:
    """The given secret, else those of the environment; empty if there is none."""
    return environment_secrets() if given is None else given.encode()
