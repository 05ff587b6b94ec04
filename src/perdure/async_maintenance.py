"""The dead letters of a client: executions that have failed or need attention, by what they have in common, and what is done about them.

No rule stands here: it is the typed face of `perdure.service.dead_letter_groups`. What it says holds for its sync twin, `perdure.sync_maintenance`.

The upkeep of a client's store: executions are carried elsewhere and back, their records compared, and removed long after their end.

No rule stands here: it is the typed face of `perdure.service`. What it says holds for its sync twin, `perdure.sync_maintenance`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from perdure.async_handle import AsyncHandle
from perdure.code.call_options import DEFAULT_TENANT
from perdure.code.declarations import checked_name
from perdure.code.durations import Duration, duration_seconds, whole_number
from perdure.core.paths import Key
from perdure.service import dead_letter_groups, execution_bundles, log_archives, queries, retention, verification
from perdure.service.blob_collection import ArchiveFilter, CollectedBlobs, collect_blobs
from perdure.service.dead_letter_groups import DeadLetterFilter, DeadLetterGroup
from perdure.service.execution_bundles import ImportedExecution
from perdure.service.retention import PRUNED_STATUSES, ArchiveWriter, PrunedExecution, RetentionFilter
from perdure.service.store_access import StoreAccess, with_timeout
from perdure.service.verification import VerificationFinding
from perdure.stores.protocol import Store
from perdure.workflow_function import Workflow

Groups = list[DeadLetterGroup]


class AsyncDeadLetterOffice:
    """What has failed or needs attention, on the store of a client. It is the client's `dead_letters`."""

    def __init__(self, access: StoreAccess) -> None:
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
        """The dead letters by what they have in common, what failed last first; of at most `limit` executions, the newest.

        A `fingerprint`, or the beginning of one, chooses one group. Where there are more than `limit`, the groups say that they are not `complete`.

        Raises:
            BadValue: there is no group of that fingerprint, or several begin so.
        """
        name = workflow.code.name if isinstance(workflow, Workflow) else None if workflow is None else checked_name(workflow, "workflow")
        which = DeadLetterFilter(
            tenant=checked_name(tenant, "tenant"), workflow=name, id_prefix=id_prefix, since=since, fingerprint=fingerprint, limit=whole_number(limit, "limit")
        )
        return await dead_letter_groups.group_dead_letters(self._access, which)

    async def requeue(
        self,
        execution: str | Key,
        reason: str = "",
        *,
        edits: Mapping[str, Any] | None = None,
        workflow: Workflow[..., Any] | None = None,
        wait: bool = False,
        timeout: Duration | None = None,
        tenant: str = DEFAULT_TENANT,
    ) -> AsyncHandle[Any]:
        """Run one again: from what failed or, with `edits` of its input, as a new execution from the beginning, for which this one is discarded.

        Edits are arguments by name; those that were given by position have their numbers, from 1, or their names where the `workflow` is given, which
        is then held against the input. Returns the handle of what goes on. With `wait`, the wish has been carried out.

        Raises:
            NotFound, BadValue: it is no dead letter, or can't be edited so.
            NeedsAttention: with `wait`, it went on and is parked again.
        """
        key = await self._key(execution, tenant)
        async with with_timeout(timeout, f"the requeuing of {key}"):
            code = None if workflow is None else workflow.code
            follows, after = await dead_letter_groups.requeue_dead_letter(self._access, key, reason, edits=edits, code=code, wait=wait)
        return AsyncHandle(self._access, follows, Any, follows != key, after)

    async def discard(
        self, execution: str | Key, reason: str = "", *, wait: bool = False, timeout: Duration | None = None, tenant: str = DEFAULT_TENANT
    ) -> None:
        """Take one off the list, and run nothing: it is cancelled as it stands, and whoever waited for it is not told again.

        Raises:
            NotFound, BadValue: it is no dead letter.
        """
        key = await self._key(execution, tenant)
        async with with_timeout(timeout, f"the discarding of {key}"):
            await dead_letter_groups.discard_dead_letter(self._access, key, reason, wait)

    async def _key(self, execution: str | Key, tenant: str) -> Key:
        if isinstance(execution, Key):
            return execution
        return await queries.execution_by_id(self._access, checked_name(tenant, "tenant"), checked_name(execution, "id"))


Imports = list[ImportedExecution]
Findings = list[VerificationFinding]
Prunes = list[PrunedExecution]
Archives = list[log_archives.LogArchive]


class AsyncUpkeep:
    """What whoever looks after a store does. It is the client's `upkeep`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def export(self, execution: str | Key, *, children: bool = False, secret: str | None = None, tenant: str = DEFAULT_TENANT) -> bytes:
        """An execution as a file: its log, its mail and the blobs that it refers to; with `children`, also all that was started below it.

        It is signed with `secret`, else with `PERDURE_SIGNING_SECRET`, if there is one. Nothing is changed, and the execution goes on.

        Raises:
            NotFound, Ambiguous: no execution is meant, or several.
            LogDamaged: something of it is missing.
        """
        key = await self._key(execution, tenant)
        return execution_bundles.encode_bundle(await execution_bundles.export_bundle(self._store, key, children), secret_of(secret))

    async def import_(self, raw: bytes, *, id: str | None = None, paused: bool = False, unsigned: bool = False, secret: str | None = None) -> Imports:
        """Have what was exported go on here; the first under another `id`, if one is given, and with `paused` only once it is resumed.

        What was being done when it was exported counts as interrupted, and is done again. If the original goes on elsewhere, it runs twice.

        Raises:
            ExportRefused: the file is damaged, or it was not signed with this secret and may not be `unsigned`.
            AlreadyExists: there is an execution of this id; nothing was changed.
        """
        found = execution_bundles.expect_signed(execution_bundles.decode_bundle(raw, secret_of(secret)), unsigned)
        return await execution_bundles.import_bundle(self._store, found, id=id, paused=paused)

    async def verify(self, *executions: str | Key, tenant: str = DEFAULT_TENANT) -> Findings:
        """What does not agree in the records of these executions, or of all of all tenants; nothing is changed. None is as it should be.

        Raises:
            NotFound, Ambiguous: an execution is not meant, or several.
        """
        keys = [await self._key(one, tenant) for one in executions]
        heads = await verification.heads_to_verify(self._store, keys or None)
        return [finding async for one in verification.verify_executions(self._store, [head.key for head in heads]) for finding in one.findings]

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
        """Remove what executions have done that ended so long ago: logs and mail. Their ids, statuses and times are kept, so that none is begun again.

        Of inputs and results the beginning of the SHA-256 is kept; who asks for a result hears that it was removed. With an `archive`, that is given an
        export of each before. What somebody holds is left as it is, and so is that for which another has waited that has not ended. Large values stay until
        `prune_values`.
        With `forget_ids`, nothing is kept, not even ids: what is started again under one of them runs again.

        Raises:
            BadValue: the duration or a status makes no sense.
        """
        before_s = (await self._store.store_time()).now_s - duration_seconds(older_than, "older_than")
        which = RetentionFilter(tenant=checked_name(tenant, "tenant"), before_s=before_s, statuses=frozenset(status), workflow=workflow, forget_ids=forget_ids)
        return [one async for one in retention.prune_executions(self._store, which, archive, dry_run)]

    async def archives(self, execution: str | Key, *, tenant: str = DEFAULT_TENANT) -> Archives:
        """What compactions have replaced in the log of an execution that keeps archives, the newest first. Where some were pruned, the last says so.

        Raises:
            NotFound, Ambiguous: no execution is meant, or several.
            LogDamaged: something of it can't be read.
        """
        return await log_archives.archives_of(self._store, await self._key(execution, tenant))

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
        """Remove the archives that were made so long ago, also of executions that go on, and the large values that nothing needs any more.

        Of an execution, an archive goes with all that are older. That there were archives, and which turns were in them, stays known. With an `archive`,
        that is given an export of each execution before. Reads all logs of all tenants; engines may be at work meanwhile.

        Raises:
            BadValue: the duration or a status makes no sense.
            LogDamaged, SealedPayload: a log, a message or an archive can't be read; nothing was removed.
        """
        before_s = (await self._store.store_time()).now_s - duration_seconds(older_than, "older_than")
        statuses = queries.checked_statuses(status)
        old = ArchiveFilter(tenant=checked_name(tenant, "tenant"), before_s=before_s, statuses=statuses, workflow=workflow)
        return await collect_blobs(self._store, old, dry_run, archive)

    async def prune_values(self, *, dry_run: bool = False) -> CollectedBlobs:
        """Remove the large values, of all tenants, that nothing needs any more: neither an execution that is there, nor a message, nor an archive.

        Reads all logs; engines may be at work meanwhile.

        Raises:
            LogDamaged, SealedPayload: a log, a message or an archive can't be read; nothing was removed.
        """
        return await collect_blobs(self._store, None, dry_run)

    async def _key(self, execution: str | Key, tenant: str) -> Key:
        if isinstance(execution, Key):
            return execution
        return await queries.execution_by_id(StoreAccess(self._store), checked_name(tenant, "tenant"), checked_name(execution, "id"))


def secret_of(given: str | None) -> bytes:
    """The secret that is meant; empty if there is none."""
    return (given if given is not None else os.environ.get("PERDURE_SIGNING_SECRET", "")).encode()
