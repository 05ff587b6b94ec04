"""The dead letters of a client of sync programs, and the upkeep of its store.

Made from `perdure.async_maintenance` by ``python -m tools.make_sync``, but for what that leaves alone: change the async methods, and run it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from perdure.async_maintenance import Archives, AsyncDeadLetterOffice, AsyncUpkeep, Findings, Groups, Imports, Prunes, StoredMonths
from perdure.code.call_options import DEFAULT_TENANT
from perdure.code.durations import Duration
from perdure.core.paths import Key
from perdure.loop_thread import LoopThread
from perdure.service.blob_collection import CollectedBlobs
from perdure.service.dead_letter_counts import DeadLetterCounts
from perdure.service.retention import PRUNED_STATUSES, ArchiveWriter
from perdure.sync_handle import Handle
from perdure.workflow_function import Workflow


class DeadLetterOffice:
    """Lists, requeues and discards dead letters in the store of a client. See `AsyncDeadLetterOffice`."""

    def __init__(self, thread: LoopThread, inner: AsyncDeadLetterOffice) -> None:
        self._thread = thread
        self._inner = inner

    def groups(
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
        return self._thread.call(self._inner.groups(workflow=workflow, id_prefix=id_prefix, since=since, fingerprint=fingerprint, limit=limit, tenant=tenant))

    def counts(
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
        return self._thread.call(self._inner.counts(workflow=workflow, since=since, fingerprint=fingerprint, tenant=tenant))

    def requeue(
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
    ) -> Handle[Any]:
        """Runs a dead letter again from what failed; with `edits` of its input or another `version` of its code, as a new execution from the beginning, and
        discards this one.

        Edits are keyed by argument name; arguments that were passed by position are keyed by their number, from 1, or by name if `workflow` is given, which
        then also checks the input. Returns the handle of the execution that continues. With `wait`, the request has taken effect.

        Raises:
            NotFound, BadValue: it is no dead letter, or the edits do not fit.
            NeedsAttention: with `wait`, it continued and is parked again.
        """
        return Handle(
            self._thread,
            self._thread.call(
                self._inner.requeue(execution, reason, edits=edits, version=version, workflow=workflow, wait=wait, timeout=timeout, tenant=tenant)
            ),
        )

    def discard(self, execution: str | Key, reason: str = "", *, wait: bool = False, timeout: Duration | None = None, tenant: str = DEFAULT_TENANT) -> None:
        """Cancels a dead letter without running anything. Its parent, which has its outcome already, is not notified again.

        Raises:
            NotFound, BadValue: it is no dead letter.
        """
        self._thread.call(self._inner.discard(execution, reason, wait=wait, timeout=timeout, tenant=tenant))


class Upkeep:
    """Maintains the store of a client. See `AsyncUpkeep`."""

    def __init__(self, thread: LoopThread, inner: AsyncUpkeep) -> None:
        self._thread = thread
        self._inner = inner

    def export(self, execution: str | Key, *, children: bool = False, secret: str | None = None, tenant: str = DEFAULT_TENANT) -> bytes:
        """Exports an execution as a file with its log, its messages and the blobs that it refers to; with `children`, also with its descendants.

        It is signed with `secret`, else with `PERDURE_SIGNING_SECRET`, if there is one. Nothing is changed, and the execution continues.

        Raises:
            NotFound, Ambiguous: no execution matches, or several do.
            LogDamaged: a part of it is missing.
        """
        return self._thread.call(self._inner.export(execution, children=children, secret=secret, tenant=tenant))

    def import_(self, raw: bytes, *, id: str | None = None, paused: bool = False, unsigned: bool = False, secret: str | None = None) -> Imports:
        """Imports an exported file: its executions continue here, the first under `id` if one is given; with `paused`, after they are resumed.

        Attempts that were in flight at the export count as interrupted, and are made again. If the original continues too, everything from there on runs twice.

        Raises:
            ExportRefused: the file is damaged, or is not signed with this secret, and `unsigned` is false.
            AlreadyExists: there is an execution of this id; nothing was changed.
        """
        return self._thread.call(self._inner.import_(raw, id=id, paused=paused, unsigned=unsigned, secret=secret))

    def verify(self, *executions: str | Key, tenant: str = DEFAULT_TENANT) -> Findings:
        """Verifies the records of these executions, or of all executions of all tenants, and returns what does not agree. Nothing is changed.

        Raises:
            NotFound, Ambiguous: no execution matches, or several do.
        """
        return self._thread.call(self._inner.verify(*executions, tenant=tenant))

    def prune(
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
        return self._thread.call(
            self._inner.prune(older_than, status=status, workflow=workflow, archive=archive, dry_run=dry_run, forget_ids=forget_ids, tenant=tenant)
        )

    def archives(self, execution: str | Key, *, tenant: str = DEFAULT_TENANT) -> Archives:
        """Lists the archives of an execution that keeps them, newest first. If some were pruned, the last entry says so.

        Raises:
            NotFound, Ambiguous: no execution matches, or several do.
            LogDamaged: a part of it cannot be read.
        """
        return self._thread.call(self._inner.archives(execution, tenant=tenant))

    def prune_archives(
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
        return self._thread.call(self._inner.prune_archives(older_than, status=status, workflow=workflow, archive=archive, dry_run=dry_run, tenant=tenant))

    def prune_values(self, *, dry_run: bool = False) -> CollectedBlobs:
        """Removes the large values of all tenants to which no execution, message or archive refers.

        It reads all logs; engines may work at the same time.

        Raises:
            LogDamaged, SealedPayload: a log, a message or an archive can't be read; nothing was removed.
        """
        return self._thread.call(self._inner.prune_values(dry_run=dry_run))

    def prune_months(self, older_than: Duration) -> StoredMonths:
        """Removes the months that ended longer ago than this and in which no execution has a log any more, for all tenants, and returns all that ended then.

        Only a store that keeps logs by months has them (Postgres); any other returns none. Prune executions and values first: `prune` leaves little of each
        execution, and that is moved out of its month. The space returns to the disk at once. Engines may work at the same time.

        Raises:
            BadValue: the duration is invalid.
            StoreError: the role of the database may not remove tables.
        """
        return self._thread.call(self._inner.prune_months(older_than))
