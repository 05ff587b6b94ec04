"""Removal of blobs in Postgres. Marking and removing run alone: each waits for the transactions that have begun, and later ones wait for it."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from perdure.core.envelopes import QueuedMessage
from perdure.stores.blob_marks import REMOVAL_BATCH, BlobTotals
from perdure.stores.postgres.statements import SQL
from perdure.stores.postgres.store_rows import message_of
from perdure.stores.postgres.store_tables import PostgresTables


class _Transaction(Protocol):
    def __call__(self, *, alone: bool = False) -> AbstractAsyncContextManager[PostgresTables]: ...


class PostgresBlobRemoval:
    """A `BlobRemoval` in the transactions of a store."""

    def __init__(self, transaction: _Transaction) -> None:
        self._transaction = transaction

    async def mark(self, sweep: str) -> None:
        """See `BlobRemoval.mark`."""
        async with self._transaction(alone=True) as here:
            await here.fetch(SQL.remove_all_marks)
            await here.fetch(SQL.mark_blobs, sweep)

    async def keep(self, names: Sequence[str]) -> None:
        """See `BlobRemoval.keep`."""
        async with self._transaction() as here:
            await here.fetch(SQL.unmark_blobs, list(names))

    async def marked(self, sweep: str) -> BlobTotals:
        """See `BlobRemoval.marked`."""
        async with self._transaction() as here:
            return BlobTotals(*(await here.fetch(SQL.marked_totals, sweep))[0])

    async def remove(self, sweep: str, noted: Sequence[str] | None = None, limit: int = REMOVAL_BATCH) -> BlobTotals:
        """See `BlobRemoval.remove`."""
        async with self._transaction(alone=True) as here:
            found = await here.fetch(SQL.marked_blobs, sweep, None if noted is None else list(noted), limit)
            names = [name for name, _ in found]
            await here.fetch(SQL.remove_blobs, names)
            await here.fetch(SQL.unmark_blobs, names)
            if noted is not None:
                await here.fetch(SQL.record_removals, names, here.moment.now_s)
            elif not names:
                await here.fetch(SQL.forget_marked_removals, sweep)
                await here.fetch(SQL.remove_marks, sweep)
            return BlobTotals(len(names), sum(size_bytes for _, size_bytes in found))

    async def unmark(self, sweep: str) -> None:
        """See `BlobRemoval.unmark`."""
        async with self._transaction() as here:
            await here.fetch(SQL.remove_marks, sweep)

    async def note(self, removed: Mapping[str, float]) -> None:
        """See `BlobRemoval.note`."""
        async with self._transaction() as here:
            for name, at_s in removed.items():
                await here.fetch(SQL.record_removal_elsewhere, name, at_s)

    async def unclaimed(self) -> list[QueuedMessage]:
        """See `BlobRemoval.unclaimed`."""
        async with self._transaction() as here:
            return [*map(message_of, await here.fetch(SQL.unclaimed_messages))]
