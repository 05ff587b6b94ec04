"""Sweeps: large values and archives that nothing needs any more are removed, while engines work.

What refers to a blob stands in logs and mail, which are all read. Whoever begins to refer to one meanwhile takes its mark away (see
`perdure.stores.blob_marks`), and no more is removed than what has its mark still. If a log can't be read, nothing is removed, since it may refer
to anything. Archives go before the values that only they refer to: whatever interrupts this, no archive is left that lacks any.
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
    """Which archives are to be pruned: those made before a time of the store, in seconds since 1970, of executions in one of these statuses (None: any)."""

    tenant: str
    before_s: float
    statuses: frozenset[str] | None = None
    workflow: str | None = None

    def means(self, head: Head) -> bool:
        """Whether archives of this execution are meant, if they are old."""
        return head.key.tenant == self.tenant and self.workflow in (None, head.key.workflow) and (self.statuses is None or head.status in self.statuses)


class CollectedBlobs(msgspec.Struct, frozen=True):
    """What was removed, or would be: archives, how many large values besides, and how many bytes all of it takes in the store."""

    archives: list[LogArchive] = []
    values: int = 0
    size_bytes: int = 0


async def collect_blobs(store: Store, old: ArchiveFilter | None = None, dry_run: bool = False, archive: ArchiveWriter | None = None) -> CollectedBlobs:
    """Remove the blobs to which nothing refers, of all tenants; and archives, if some are meant, with what only they refer to.

    `archive` is given an export of each execution whose archives are about to be pruned.

    Raises:
        LogDamaged, SealedPayload: a log, a message or an archive can't be read; nothing was removed.
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
    """Remove those of these that have their mark still, and note it: a few at a time, so that each transaction looks at few names."""
    parts = [await _remove_marked(removal, name, noted[first : first + REMOVAL_BATCH]) for first in range(0, len(noted), REMOVAL_BATCH)]
    return BlobTotals(sum(part.blobs for part in parts), sum(part.size_bytes for part in parts))


async def _remove_marked(removal: BlobRemoval, name: str, noted: Sequence[str] | None = None) -> BlobTotals:
    """Remove what has its mark still, a few by each transaction."""
    blobs, size_bytes = 0, 0
    while (batch := await removal.remove(name, noted)).blobs:
        blobs, size_bytes = blobs + batch.blobs, size_bytes + batch.size_bytes
    return BlobTotals(blobs, size_bytes)


class _ReferenceScan:
    """Reads all mail and logs. `pruned` are the archives that are to be pruned, `archives` the names of those that somebody keeps."""

    def __init__(self, looking: ReadOnlyStore, old: ArchiveFilter | None) -> None:
        self.pruned: list[LogArchive] = []
        self.archives: set[str] = set()
        self._looking, self._old = looking, old

    async def needed(self, unclaimed: Sequence[QueuedMessage]) -> AsyncGenerator[list[str], None]:
        """The names of the blobs that something refers to, in parts.

        Mail without an execution was read before: if one has come for it since, that is among the heads.
        """
        yield _message_blobs(unclaimed)
        async for page in head_pages(self._looking, HeadFilter()):
            names = set[str]()
            for head in page:
                names |= await self._of(head)
            yield sorted(names)

    async def _of(self, head: Head) -> set[str]:
        """What an execution refers to. Its mail is read before its log: what leaves the one comes into the other."""
        mail = await self._looking.messages(head.key)
        log_now = await self._looking.read(head.key)
        names = set(_message_blobs(mail))
        try:
            events = [] if log_now is None else log_format.decode_rows(log_now.payloads)
            names |= referenced_blobs(events).keys()
            async for one in log_archives.archive_contents(self._looking, head.key, events):
                names |= self._kept(head, one, names)
            return names
        except LogDamaged as error:
            raise _unreadable_error(head.key, error) from error

    def _kept(self, head: Head, content: log_archives.ArchiveContent, names: set[str]) -> set[str]:
        """What is kept for the sake of an archive; one that is to be pruned is taken out of the `names` instead."""
        one = content.archive
        if self._old is not None and self._old.means(head) and one.archived_at_s < self._old.before_s and one.pruned_at_s is None:
            names.discard(one.name)
            self.pruned.append(one)
            return set()
        if one.missing:
            raise LogDamaged(f"its archive {one.name} is missing, so what that refers to is not known")
        self.archives.add(one.name)
        return set(referenced_blobs(content.events))


def _message_blobs(mail: Sequence[QueuedMessage]) -> list[str]:
    names = list[str]()
    for one in mail:
        try:
            names += referenced_blobs((messages.decode_message_or_task(one.body),))
        except LogDamaged as error:
            raise _unreadable_error(one.to, error) from error
    return names


def _unreadable_error(whose: object, error: LogDamaged) -> LogDamaged:
    return LogDamaged(f"{whose}: {error.why}; what it refers to is not known, so no large value was removed (perdure verify says what is damaged)")
