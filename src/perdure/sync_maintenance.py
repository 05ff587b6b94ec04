"""The dead letters of everybody else: `DeadLetterOffice`, the sync face of `AsyncDeadLetterOffice`. What holds of the async twin holds here.

The upkeep of everybody else: `Upkeep`, the sync face of `AsyncUpkeep`. What holds of the async twin holds here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from perdure.async_maintenance import Archives, AsyncDeadLetterOffice, AsyncUpkeep, Findings, Groups, Imports, Prunes
from perdure.code.call_options import DEFAULT_TENANT
from perdure.code.durations import Duration
from perdure.core.paths import Key
from perdure.loop_thread import LoopThread
from perdure.service.blob_collection import CollectedBlobs
from perdure.service.retention import PRUNED_STATUSES, ArchiveWriter
from perdure.sync_handle import Handle
from perdure.workflow_function import Workflow


class DeadLetterOffice:
    """What has failed or needs attention, on the store of a client. See `AsyncDeadLetterOffice`."""

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
        """See `AsyncDeadLetterOffice.groups`."""
        found = self._inner.groups(workflow=workflow, id_prefix=id_prefix, since=since, fingerprint=fingerprint, limit=limit, tenant=tenant)
        return self._thread.call(found)

    def requeue(
        self,
        execution: str | Key,
        reason: str = "",
        *,
        edits: Mapping[str, Any] | None = None,
        workflow: Workflow[..., Any] | None = None,
        wait: bool = False,
        timeout: Duration | None = None,
        tenant: str = DEFAULT_TENANT,
    ) -> Handle[Any]:
        """See `AsyncDeadLetterOffice.requeue`."""
        follows = self._inner.requeue(execution, reason, edits=edits, workflow=workflow, wait=wait, timeout=timeout, tenant=tenant)
        return Handle(self._thread, self._thread.call(follows))

    def discard(self, execution: str | Key, reason: str = "", *, wait: bool = False, timeout: Duration | None = None, tenant: str = DEFAULT_TENANT) -> None:
        """See `AsyncDeadLetterOffice.discard`."""
        self._thread.call(self._inner.discard(execution, reason, wait=wait, timeout=timeout, tenant=tenant))


class Upkeep:
    """What whoever looks after a store does, on the store of a client. See `AsyncUpkeep`."""

    def __init__(self, thread: LoopThread, inner: AsyncUpkeep) -> None:
        self._thread = thread
        self._inner = inner

    def export(self, execution: str | Key, *, children: bool = False, secret: str | None = None, tenant: str = DEFAULT_TENANT) -> bytes:
        """See `AsyncUpkeep.export`."""
        return self._thread.call(self._inner.export(execution, children=children, secret=secret, tenant=tenant))

    def import_(self, raw: bytes, *, id: str | None = None, paused: bool = False, unsigned: bool = False, secret: str | None = None) -> Imports:
        """See `AsyncUpkeep.import_`."""
        return self._thread.call(self._inner.import_(raw, id=id, paused=paused, unsigned=unsigned, secret=secret))

    def verify(self, *executions: str | Key, tenant: str = DEFAULT_TENANT) -> Findings:
        """See `AsyncUpkeep.verify`."""
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
        """See `AsyncUpkeep.prune`."""
        asked = self._inner.prune(older_than, status=status, workflow=workflow, archive=archive, dry_run=dry_run, forget_ids=forget_ids, tenant=tenant)
        return self._thread.call(asked)

    def archives(self, execution: str | Key, *, tenant: str = DEFAULT_TENANT) -> Archives:
        """See `AsyncUpkeep.archives`."""
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
        """See `AsyncUpkeep.prune_archives`."""
        asked = self._inner.prune_archives(older_than, status=status, workflow=workflow, archive=archive, dry_run=dry_run, tenant=tenant)
        return self._thread.call(asked)

    def prune_values(self, *, dry_run: bool = False) -> CollectedBlobs:
        """See `AsyncUpkeep.prune_values`."""
        return self._thread.call(self._inner.prune_values(dry_run=dry_run))
