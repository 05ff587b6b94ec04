"""The upkeep of a client's store: executions are carried elsewhere and back, their records compared, and removed long after their end.

No rule stands here: it is the typed face of `perdure.service`. What it says holds for its sync twin, `perdure.upkeep`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from perdure.core.paths import Key
from perdure.programs.code.declare import checked_name
from perdure.programs.code.durations import Duration, seconds
from perdure.programs.code.options import DEFAULT_TENANT
from perdure.service import archives, bundle, exporting, importing, queries, retention, verifying
from perdure.service.access import Access
from perdure.service.blob_sweep import OldArchives, Swept, sweep
from perdure.service.importing import Imported
from perdure.service.retention import DEFAULT, Archive, Old, Pruned
from perdure.service.verify import Finding
from perdure.stores.base import Store

Imports = list[Imported]
Findings = list[Finding]
Prunes = list[Pruned]
Archives = list[archives.LogArchive]


class AsyncUpkeep:
    """What whoever looks after a store does. It is the client's `upkeep`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def export(self, execution: str | Key, *, children: bool = False, secret: str | None = None, tenant: str = DEFAULT_TENANT) -> bytes:
        """An execution as a file: its log, its mail and the blobs that it refers to; with `children`, also all that was started below it.

        It is signed with `secret`, else with `PERDURE_SECRET`, if there is one. Nothing is changed, and the execution goes on.

        Raises:
            NotFound, Ambiguous: no execution is meant, or several.
            LogDamaged: something of it is missing.
        """
        key = await self._key(execution, tenant)
        return bundle.written(await exporting.export(self._store, key, children), secret_of(secret))

    async def import_(self, raw: bytes, *, id: str | None = None, paused: bool = False, unsigned: bool = False, secret: str | None = None) -> Imports:
        """Have what was exported go on here; the first under another `id`, if one is given, and with `paused` only once it is resumed.

        What was being done when it was exported counts as interrupted, and is done again. If the original goes on elsewhere, it runs twice.

        Raises:
            ExportRefused: the file is damaged, or it was not signed with this secret and may not be `unsigned`.
            AlreadyThere: there is an execution of this id; nothing was changed.
        """
        found = importing.trusted(bundle.read(raw, secret_of(secret)), unsigned)
        return await importing.import_(self._store, found, id=id, paused=paused)

    async def verify(self, *executions: str | Key, tenant: str = DEFAULT_TENANT) -> Findings:
        """What does not agree in the records of these executions, or of all of all tenants; nothing is changed. None is as it should be.

        Raises:
            NotFound, Ambiguous: an execution is not meant, or several.
        """
        keys = [await self._key(one, tenant) for one in executions]
        heads = await verifying.heads_of(self._store, keys or None)
        return [finding async for one in verifying.verified(self._store, [head.key for head in heads]) for finding in one.findings]

    async def prune(
        self,
        older_than: Duration,
        *,
        status: Iterable[str] = DEFAULT,
        workflow: str | None = None,
        archive: Archive | None = None,
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
        before_s = (await self._store.moment()).now_s - seconds(older_than, "older_than")
        which = Old(tenant=checked_name(tenant, "tenant"), before_s=before_s, statuses=frozenset(status), workflow=workflow, forget_ids=forget_ids)
        return [one async for one in retention.prune(self._store, which, archive, dry_run)]

    async def archives(self, execution: str | Key, *, tenant: str = DEFAULT_TENANT) -> Archives:
        """What compactions have replaced in the log of an execution that keeps archives, the newest first. Where some were pruned, the last says so.

        Raises:
            NotFound, Ambiguous: no execution is meant, or several.
            LogDamaged: something of it can't be read.
        """
        return await archives.of_execution(self._store, await self._key(execution, tenant))

    async def prune_archives(
        self,
        older_than: Duration,
        *,
        status: Iterable[str] | None = None,
        workflow: str | None = None,
        archive: Archive | None = None,
        dry_run: bool = False,
        tenant: str = DEFAULT_TENANT,
    ) -> Swept:
        """Remove the archives that were made so long ago, also of executions that go on, and the large values that nothing needs any more.

        Of an execution, an archive goes with all that are older. That there were archives, and which turns were in them, stays known. With an `archive`,
        that is given an export of each execution before. Reads all logs of all tenants; engines may be at work meanwhile.

        Raises:
            BadValue: the duration or a status makes no sense.
            LogDamaged, SealedPayload: a log, a message or an archive can't be read; nothing was removed.
        """
        before_s = (await self._store.moment()).now_s - seconds(older_than, "older_than")
        statuses = queries.checked_statuses(status)
        old = OldArchives(tenant=checked_name(tenant, "tenant"), before_s=before_s, statuses=statuses, workflow=workflow)
        return await sweep(self._store, old, dry_run, archive)

    async def prune_values(self, *, dry_run: bool = False) -> Swept:
        """Remove the large values, of all tenants, that nothing needs any more: neither an execution that is there, nor a message, nor an archive.

        Reads all logs; engines may be at work meanwhile.

        Raises:
            LogDamaged, SealedPayload: a log, a message or an archive can't be read; nothing was removed.
        """
        return await sweep(self._store, None, dry_run)

    async def _key(self, execution: str | Key, tenant: str) -> Key:
        if isinstance(execution, Key):
            return execution
        return await queries.by_id(Access(self._store), checked_name(tenant, "tenant"), checked_name(execution, "id"))


def secret_of(given: str | None) -> bytes:
    """The secret that is meant; empty if there is none."""
    return (given if given is not None else os.environ.get("PERDURE_SECRET", "")).encode()
