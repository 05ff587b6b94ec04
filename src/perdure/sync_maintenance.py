"""The dead letters of a client of sync programs, and the upkeep of its store.

Made from `perdure.async_maintenance` by ``python -m tools.make_sync``, but for what that leaves alone: change the async methods, and run it.
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
        """The dead letters by what they have in common, what failed last first; of at most `limit` executions, the newest.

        A `fingerprint`, or the beginning of one, chooses one group. Where there are more than `limit`, the groups say that they are not `complete`.

        Raises:
            BadValue: there is no group of that fingerprint, or several begin so.
        """
        return self._thread.call(self._inner.groups(workflow=workflow, id_prefix=id_prefix, since=since, fingerprint=fingerprint, limit=limit, tenant=tenant))

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
        """Run one again: from what failed or, with `edits` of its input, as a new execution from the beginning, for which this one is discarded.

        Edits are arguments by name; those that were given by position have their numbers, from 1, or their names where the `workflow` is given, which
        is then held against the input. Returns the handle of what goes on. With `wait`, the wish has been carried out.

        Raises:
            NotFound, BadValue: it is no dead letter, or can't be edited so.
            NeedsAttention: with `wait`, it went on and is parked again.
        """
        return Handle(
            self._thread, self._thread.call(self._inner.requeue(execution, reason, edits=edits, workflow=workflow, wait=wait, timeout=timeout, tenant=tenant))
        )

    def discard(self, execution: str | Key, reason: str = "", *, wait: bool = False, timeout: Duration | None = None, tenant: str = DEFAULT_TENANT) -> None:
        """Take one off the list, and run nothing: it is cancelled as it stands, and whoever waited for it is not told again.

        Raises:
            NotFound, BadValue: it is no dead letter.
        """
        self._thread.call(self._inner.discard(execution, reason, wait=wait, timeout=timeout, tenant=tenant))


class Upkeep:
    """What whoever looks after a store does, on the store of a client. See `AsyncUpkeep`."""

    def __init__(self, thread: LoopThread, inner: AsyncUpkeep) -> None:
        self._thread = thread
        self._inner = inner

    def export(self, execution: str | Key, *, children: bool = False, secret: str | None = None, tenant: str = DEFAULT_TENANT) -> bytes:
        """An execution as a file: its log, its mail and the blobs that it refers to; with `children`, also all that was started below it.

        It is signed with `secret`, else with `PERDURE_SIGNING_SECRET`, if there is one. Nothing is changed, and the execution goes on.

        Raises:
            NotFound, Ambiguous: no execution is meant, or several.
            LogDamaged: something of it is missing.
        """
        return self._thread.call(self._inner.export(execution, children=children, secret=secret, tenant=tenant))

    def import_(self, raw: bytes, *, id: str | None = None, paused: bool = False, unsigned: bool = False, secret: str | None = None) -> Imports:
        """Have what was exported go on here; the first under another `id`, if one is given, and with `paused` only once it is resumed.

        What was being done when it was exported counts as interrupted, and is done again. If the original goes on elsewhere, it runs twice.

        Raises:
            ExportRefused: the file is damaged, or it was not signed with this secret and may not be `unsigned`.
            AlreadyExists: there is an execution of this id; nothing was changed.
        """
        return self._thread.call(self._inner.import_(raw, id=id, paused=paused, unsigned=unsigned, secret=secret))

    def verify(self, *executions: str | Key, tenant: str = DEFAULT_TENANT) -> Findings:
        """What does not agree in the records of these executions, or of all of all tenants; nothing is changed. None is as it should be.

        Raises:
            NotFound, Ambiguous: an execution is not meant, or several.
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
        """Remove what executions have done that ended so long ago: logs and mail. Their ids, statuses and times are kept, so that none is begun again.

        Of inputs and results the beginning of the SHA-256 is kept; who asks for a result hears that it was removed. With an `archive`, that is given an
        export of each before. What somebody holds is left as it is, and so is that for which another has waited that has not ended. Large values stay until
        `prune_values`.
        With `forget_ids`, nothing is kept, not even ids: what is started again under one of them runs again.

        Raises:
            BadValue: the duration or a status makes no sense.
        """
        return self._thread.call(
            self._inner.prune(older_than, status=status, workflow=workflow, archive=archive, dry_run=dry_run, forget_ids=forget_ids, tenant=tenant)
        )

    def archives(self, execution: str | Key, *, tenant: str = DEFAULT_TENANT) -> Archives:
        """What compactions have replaced in the log of an execution that keeps archives, the newest first. Where some were pruned, the last says so.

        Raises:
            NotFound, Ambiguous: no execution is meant, or several.
            LogDamaged: something of it can't be read.
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
        """Remove the archives that were made so long ago, also of executions that go on, and the large values that nothing needs any more.

        Of an execution, an archive goes with all that are older. That there were archives, and which turns were in them, stays known. With an `archive`,
        that is given an export of each execution before. Reads all logs of all tenants; engines may be at work meanwhile.

        Raises:
            BadValue: the duration or a status makes no sense.
            LogDamaged, SealedPayload: a log, a message or an archive can't be read; nothing was removed.
        """
        return self._thread.call(self._inner.prune_archives(older_than, status=status, workflow=workflow, archive=archive, dry_run=dry_run, tenant=tenant))

    def prune_values(self, *, dry_run: bool = False) -> CollectedBlobs:
        """Remove the large values, of all tenants, that nothing needs any more: neither an execution that is there, nor a message, nor an archive.

        Reads all logs; engines may be at work meanwhile.

        Raises:
            LogDamaged, SealedPayload: a log, a message or an archive can't be read; nothing was removed.
        """
        return self._thread.call(self._inner.prune_values(dry_run=dry_run))
