"""Removes blobs and archives that nothing refers to, while engines work (mark and sweep).

References to blobs are in logs and messages, all of which are read. A process that adds a reference during the scan clears the mark of the blob (see
`perdure.stores.blob_marks`), and only blobs that are still marked are removed. If a log cannot be read, nothing is removed, because it might refer to
any blob. Archives are removed before the blobs that only they refer to, so an interruption never leaves an archive with missing blobs.
"""

import secrets
from collections.abc import AsyncGenerator, Sequence

import msgspec

from perdure.core import log_format, messages
from perdure.core.envelopes import QueuedMessage
from perdure.core.errors import LogDamaged
from perdure.core.traversal import referenced_blobs
from perdure.service import log_archives
from perdure.service.execution_bundles import export_bundle
from perdure.service.log_archives import LogArchive
from perdure.service.retention import ArchiveWriter
from perdure.service.store_access import head_pages
from perdure.stores.blob_marks import REMOVAL_BATCH, BlobRemoval, BlobTotals, blob_removal_of
from perdure.stores.blob_store import BLOB_SWEEP
from perdure.stores.protocol import Head, HeadFilter, ReadOnlyStore, Store


class ArchiveFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Selects the archives to prune: those made before `before_s` (store time, seconds since 1970), of executions in one of `statuses` (None: any)."""

    tenant: str
    before_s: float
    statuses: frozenset[str] | None = None
    workflow: str | None = None

    def means(self, head: Head) -> bool:
        """Whether the filter selects the archives of this execution, provided that they are old enough."""
        return head.key.tenant == self.tenant and self.workflow in (None, head.key.workflow) and (self.statuses is None or head.status in self.statuses)


class CollectedBlobs(msgspec.Struct, frozen=True):
    """The result of a collection: the archives that were removed (in a dry run: would be), the number of other blobs, and the bytes of all of them."""

    archives: list[LogArchive] = []
    values: int = 0
    size_bytes: int = 0


async def collect_blobs(store: Store, old: ArchiveFilter | None = None, dry_run: bool = False, archive: ArchiveWriter | None = None) -> CollectedBlobs:
    """Removes the blobs of all tenants to which nothing refers. With `old`, also removes those archives and what only they refer to.

    `archive` receives an export of each execution before its archives are pruned.

    Raises:
        LogDamaged, SealedPayload: a log, a message or an archive cannot be read; nothing was removed.
    """
    removal, name = blob_removal_of(store), secrets.token_hex(16)
    await removal.mark(name)
    try:
        scan = _ReferenceScan(store, old)
        async for names in scan.needed(await removal.unclaimed()):
            await removal.keep(names)
        pruned = [one for one in scan.pruned if one.name not in scan.archives]
        if dry_run:
            marked = await removal.marked(name)
            return CollectedBlobs(pruned, marked.blobs - len({one.name for one in pruned if not one.missing}), marked.size_bytes)
        if archive is not None:
            for key in dict.fromkeys(one.key for one in pruned):
                archive(key, await export_bundle(store, key))
        first = await _remove_noted(removal, name, [one.name for one in pruned])
        rest = await _remove_marked(removal, name)
        sweep = store.part(BLOB_SWEEP)
        apart = BlobTotals() if sweep is None else await sweep.sweep()
        return CollectedBlobs(pruned, rest.blobs, first.size_bytes + rest.size_bytes + apart.size_bytes)
    finally:
        await removal.unmark(name)


async def _remove_noted(removal: BlobRemoval, name: str, noted: Sequence[str]) -> BlobTotals:
    """Removes those of `noted` that are still marked and records their removal, in small batches so that each transaction looks at few names."""
    parts = [await _remove_marked(removal, name, noted[first : first + REMOVAL_BATCH]) for first in range(0, len(noted), REMOVAL_BATCH)]
    return BlobTotals(sum(part.blobs for part in parts), sum(part.size_bytes for part in parts))


async def _remove_marked(removal: BlobRemoval, name: str, noted: Sequence[str] | None = None) -> BlobTotals:
    """Removes the blobs that are still marked, one batch per transaction."""
    blobs, size_bytes = 0, 0
    while (batch := await removal.remove(name, noted)).blobs:
        blobs, size_bytes = blobs + batch.blobs, size_bytes + batch.size_bytes
    return BlobTotals(blobs, size_bytes)


class _ReferenceScan:
    """Reads all messages and logs. `pruned` are the archives to prune, `archives` the names of those that an execution still refers to."""

    def __init__(self, store: ReadOnlyStore, old: ArchiveFilter | None) -> None:
        self.pruned: list[LogArchive] = []
        self.archives: set[str] = set()
        self._store, self._old = store, old

    async def needed(self, unclaimed: Sequence[QueuedMessage]) -> AsyncGenerator[list[str], None]:
        """Yields the names of referenced blobs, page by page.

        `unclaimed` are messages whose execution has not been created. They are read before the heads, so an execution created since is among the heads.
        """
        yield _message_blobs(unclaimed)
        async for page in head_pages(self._store, HeadFilter()):
            names = set[str]()
            for head in page:
                names |= await self._of(head)
            yield sorted(names)

    async def _of(self, head: Head) -> set[str]:
        """Returns what an execution refers to. Its messages are read before its log: a message that is handled in between is then found in the log."""
        queued = await self._store.messages(head.key)
        log_now = await self._store.read(head.key)
        names = set(_message_blobs(queued))
        try:
            events = [] if log_now is None else log_format.decode_rows(log_now.payloads)
            names |= referenced_blobs(events).keys()
            async for one in log_archives.archive_contents(self._store, head.key, events):
                names |= self._kept(head, one, names)
            return names
        except LogDamaged as error:
            raise _unreadable_error(head.key, error) from error

    def _kept(self, head: Head, content: log_archives.ArchiveContent, names: set[str]) -> set[str]:
        """Returns what an archive refers to. An archive that is to be pruned keeps nothing, and is removed from `names` instead."""
        one = content.archive
        if self._old is not None and self._old.means(head) and one.archived_at_s < self._old.before_s and one.pruned_at_s is None:
            names.discard(one.name)
            self.pruned.append(one)
            return set()
        if one.missing:
            raise LogDamaged(f"its archive {one.name} is missing")
        self.archives.add(one.name)
        return set(referenced_blobs(content.events))


def _message_blobs(queued: Sequence[QueuedMessage]) -> list[str]:
    names = list[str]()
    for one in queued:
        try:
            names += referenced_blobs((messages.decode_message_or_task(one.body),))
        except LogDamaged as error:
            raise _unreadable_error(one.to, error) from error
    return names


def _unreadable_error(whose: object, error: LogDamaged) -> LogDamaged:
    return LogDamaged(f"{whose}: {error.why}. The blobs that it refers to are not known, so none was removed. Run perdure verify to see what is damaged")
