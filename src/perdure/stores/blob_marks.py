"""Removal of blobs to which nothing refers any more, while others write.

A store cannot read what it keeps, so it does not know what refers to a blob: who removes blobs reads all logs and mail to find out. In the meantime
others may begin to refer to a blob that was found without use. Therefore blobs are marked first, and only what has its mark still is removed: a change
that carries a blob, or that sends mail which refers to it, takes the mark away in the same transaction.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from perdure.core.envelopes import QueuedMessage
from perdure.stores.protocol import Commit, Post

REMOVAL_BATCH = 20
"""How many blobs are removed by one transaction: each may have megabytes."""


class BlobTotals(msgspec.Struct, frozen=True):
    """So many blobs, which take so many bytes as they are kept."""

    blobs: int = 0
    size_bytes: int = 0


class BlobRemoval(Protocol):
    """What every store has as its `blob_removal`. Any method may raise `StoreUnavailable`; interrupted, none loses what is still referred to."""

    async def mark(self, sweep: str) -> None:
        """Mark all blobs, and all notes of removed ones, with the name of a sweep, in place of the marks of other sweeps.

        When this returns, every change that was in hand when it was called is carried out or sees the marks.
        """
        ...

    async def keep(self, names: Sequence[str]) -> None:
        """Take the marks of these blobs and notes away, whatever sweep they are of."""
        ...

    async def marked(self, sweep: str) -> BlobTotals:
        """The blobs that have the mark of this sweep."""
        ...

    async def remove(self, sweep: str, noted: Sequence[str] | None = None, limit: int = REMOVAL_BATCH) -> BlobTotals:
        """Remove up to `limit` blobs that have the mark of this sweep; return what was removed: nothing, when none is left.

        With `noted`, only these, and of each it is noted when it was removed. Without, marked notes go as well once no marked blob is left.
        """
        ...

    async def unmark(self, sweep: str) -> None:
        """Take all marks of this sweep away: it removes nothing more."""
        ...

    async def note(self, removed: Mapping[str, float]) -> None:
        """Note of blobs that are not there when they were removed elsewhere."""
        ...

    async def unclaimed(self) -> list[QueuedMessage]:
        """All mail to executions that have no head."""
        ...


def blob_removal_of(store: Any) -> BlobRemoval:
    """The removal of blobs of a store, or of the one that it is around."""
    found: BlobRemoval | None = getattr(store, "blob_removal", None)
    return blob_removal_of(store.inner) if found is None else found


def blob_names_of(change: Commit | Post) -> list[str]:
    """The names of the blobs that a change carries, and of those that what it sends refers to."""
    return [*(name for name, _ in change.blobs), *(name for send in change.messages for names in send.refers for name in names)]


class MemoryBlobRemoval:
    """A `BlobRemoval` in dicts: the plainest statement of what one does. `blobs` and `notes` are those of the store."""

    def __init__(self, blobs: dict[str, bytes], notes: dict[str, float], clock: Callable[[], float], unclaimed: Callable[[], list[QueuedMessage]]) -> None:
        self._blobs, self._notes, self._clock, self._unclaimed = blobs, notes, clock, unclaimed
        self._marks: dict[str, str] = {}

    def carried(self, names: Sequence[str]) -> None:
        """A change has brought these blobs, or begun to refer to them."""
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
                self._notes.pop(name, None)
            self.carried(names)
            return BlobTotals()
        self.carried(names)
        return BlobTotals(len(names), size_bytes)

    def _of(self, sweep: str) -> list[str]:
        return [name for name, of in self._marks.items() if of == sweep and name in self._blobs]

    async def unmark(self, sweep: str) -> None:
        """See `BlobRemoval.unmark`."""
        self.carried([name for name, of in self._marks.items() if of == sweep])

    async def note(self, removed: Mapping[str, float]) -> None:
        """See `BlobRemoval.note`."""
        self._notes.update({name: at_s for name, at_s in removed.items() if name not in self._blobs})

    async def unclaimed(self) -> list[QueuedMessage]:
        """See `BlobRemoval.unclaimed`."""
        return self._unclaimed()
