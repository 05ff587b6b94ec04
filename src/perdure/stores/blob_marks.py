"""Removal of unreferenced blobs while other processes write: mark and sweep.

A store cannot decode what it stores, so it does not know what refers to a blob; the sweep reads all logs and messages to find out. Meanwhile others
may begin to refer to a blob that the sweep has found unused. Therefore the sweep first marks all blobs and at its end removes only those that still
have the mark: a change that carries a blob, or sends a message that refers to it, removes the mark in the same transaction.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from perdure.core.envelopes import QueuedMessage
from perdure.core.errors import StoreError
from perdure.stores.protocol import Commit, Post, Store
from perdure.stores.store_parts import PartName

REMOVAL_BATCH = 20
"""How many blobs one transaction removes. Each may have megabytes."""


class BlobTotals(msgspec.Struct, frozen=True):
    """A number of blobs and the bytes that they occupy as stored."""

    blobs: int = 0
    size_bytes: int = 0


class BlobRemoval(Protocol):
    """Removes blobs: the part `BLOB_REMOVAL`, which every store of this package has.

    Any method may raise `StoreUnavailable`. An interruption never loses a referenced blob.
    """

    async def mark(self, sweep: str) -> None:
        """Mark all blobs, and all removal records, with the name of a sweep, in place of the marks of other sweeps.

        When this returns, every change that was in progress when it was called has been carried out or will see the marks.
        """
        ...

    async def keep(self, names: Sequence[str]) -> None:
        """Remove the marks of these blobs and removal records, whichever sweep set them."""
        ...

    async def marked(self, sweep: str) -> BlobTotals:
        """Count the blobs that have the mark of this sweep."""
        ...

    async def remove(self, sweep: str, noted: Sequence[str] | None = None, limit: int = REMOVAL_BATCH) -> BlobTotals:
        """Remove up to `limit` blobs that have the mark of this sweep, and return their totals, which are zero once none is left.

        With `noted`, only the blobs of these names are removed, and the time of each removal is recorded. Without it, marked removal records are
        deleted as well once no marked blob is left.
        """
        ...

    async def unmark(self, sweep: str) -> None:
        """Remove all marks of this sweep, so that it removes nothing more."""
        ...

    async def note(self, removed: Mapping[str, float]) -> None:
        """Record, for blobs that are not in the store, when they were removed elsewhere."""
        ...

    async def unclaimed(self) -> list[QueuedMessage]:
        """Return all messages to executions that have no head."""
        ...


BLOB_REMOVAL: PartName[BlobRemoval] = PartName("blob removal")


def blob_removal_of(store: Store) -> BlobRemoval:
    """Returns the blob removal of a store.

    Raises:
        StoreError: the store has none.
    """
    removal = store.part(BLOB_REMOVAL)
    if removal is None:
        raise StoreError("this store cannot remove blobs; use a store that has the part BLOB_REMOVAL")
    return removal


def blob_names_of(change: Commit | Post) -> list[str]:
    """Returns the names of the blobs that a change carries or that its messages refer to."""
    return [*(name for name, _ in change.blobs), *(name for send in change.messages for names in send.refers for name in names)]


class MemoryBlobRemoval:
    """A `BlobRemoval` in dicts, the plainest implementation. `blobs` and `notes` (the removal records) belong to the store.

    `changed` is called with the name of each blob that is removed, or whose record changes.
    """

    def __init__(
        self,
        blobs: dict[str, bytes],
        notes: dict[str, float],
        clock: Callable[[], float],
        unclaimed: Callable[[], list[QueuedMessage]],
        changed: Callable[[str], object],
    ) -> None:
        self._blobs, self._notes, self._clock, self._unclaimed, self._changed = blobs, notes, clock, unclaimed, changed
        self._marks: dict[str, str] = {}

    def carried(self, names: Sequence[str]) -> None:
        """Removes the marks of blobs that a change carries or refers to."""
        for name in names:
            self._marks.pop(name, None)

    async def mark(self, sweep: str) -> None:
        """See `BlobRemoval.mark`."""
        self._marks = dict.fromkeys((*self._blobs, *self._notes), sweep)

    async def keep(self, names: Sequence[str]) -> None:
        """See `BlobRemoval.keep`."""
        self.carried(names)

    async def marked(self, sweep: str) -> BlobTotals:
        """See `BlobRemoval.marked`."""
        sizes = [len(self._blobs[name]) for name in self._of(sweep)]
        return BlobTotals(len(sizes), sum(sizes))

    async def remove(self, sweep: str, noted: Sequence[str] | None = None, limit: int = REMOVAL_BATCH) -> BlobTotals:
        """See `BlobRemoval.remove`."""
        wanted = None if noted is None else set(noted)
        names = [name for name in self._of(sweep) if wanted is None or name in wanted][:limit]
        size_bytes = sum(len(self._blobs.pop(name)) for name in names)
        if noted is not None:
            self._notes.update(dict.fromkeys(names, self._clock()))
        elif not names:
            names = [name for name, of in self._marks.items() if of == sweep]
            for name in names:
                if self._notes.pop(name, None) is not None:
                    self._changed(name)
            self.carried(names)
            return BlobTotals()
        self.carried(names)
        for name in names:
            self._changed(name)
        return BlobTotals(len(names), size_bytes)

    def _of(self, sweep: str) -> list[str]:
        return [name for name, of in self._marks.items() if of == sweep and name in self._blobs]

    async def unmark(self, sweep: str) -> None:
        """See `BlobRemoval.unmark`."""
        self.carried([name for name, of in self._marks.items() if of == sweep])

    async def note(self, removed: Mapping[str, float]) -> None:
        """See `BlobRemoval.note`."""
        for name, at_s in removed.items():
            if name not in self._blobs:
                self._notes[name] = at_s
                self._changed(name)

    async def unclaimed(self) -> list[QueuedMessage]:
        """See `BlobRemoval.unclaimed`."""
        return self._unclaimed()
