"""The upkeep of everybody else: `Upkeep`, the sync face of `AsyncUpkeep`. What holds of the async twin holds here."""

from __future__ import annotations

from collections.abc import Iterable

from perdure.async_upkeep import Archives, AsyncUpkeep, Findings, Imports, Prunes
from perdure.core.paths import Key
from perdure.loop_thread import LoopThread
from perdure.programs.code.durations import Duration
from perdure.programs.code.options import DEFAULT_TENANT
from perdure.service.blob_sweep import Swept
from perdure.service.retention import DEFAULT, Archive


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
        status: Iterable[str] = DEFAULT,
        workflow: str | None = None,
        archive: Archive | None = None,
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
        archive: Archive | None = None,
        dry_run: bool = False,
        tenant: str = DEFAULT_TENANT,
    ) -> Swept:
        """See `AsyncUpkeep.prune_archives`."""
        asked = self._inner.prune_archives(older_than, status=status, workflow=workflow, archive=archive, dry_run=dry_run, tenant=tenant)
        return self._thread.call(asked)

    def prune_values(self, *, dry_run: bool = False) -> Swept:
        """See `AsyncUpkeep.prune_values`."""
        return self._thread.call(self._inner.prune_values(dry_run=dry_run))
