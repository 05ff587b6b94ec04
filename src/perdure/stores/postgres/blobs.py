"""Removal of blobs in Postgres. Marking and removing run alone: each waits for the transactions that have begun, and later ones wait for it."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from perdure.core.envelopes import QueuedMessage
from perdure.stores.blob_marks import REMOVAL_BATCH, BlobTotals
from perdure.stores.postgres.store_rows import MESSAGE_COLUMNS, message_of
from perdure.stores.postgres.store_tables import PostgresTables

MARK = "INSERT INTO blob_marks SELECT sha256, $1 FROM (SELECT sha256 FROM blobs UNION SELECT sha256 FROM removed_blobs) AS known"
KEEP = "DELETE FROM blob_marks WHERE sha256 = ANY($1::text[])"
MARKED = "SELECT count(*), coalesce(sum(length(bytes)), 0)::bigint FROM blob_marks JOIN blobs USING (sha256) WHERE sweep = $1"
CHOOSE = """SELECT sha256, length(bytes) FROM blob_marks JOIN blobs USING (sha256)
    WHERE sweep = $1 AND ($2::text[] IS NULL OR sha256 = ANY($2)) LIMIT $3"""
REMOVE = "DELETE FROM blobs WHERE sha256 = ANY($1::text[])"
NOTE = "INSERT INTO removed_blobs SELECT name, $2 FROM unnest($1::text[]) AS name ON CONFLICT DO NOTHING"
NOTE_ELSEWHERE = "INSERT INTO removed_blobs SELECT $1::text, $2::float8 WHERE NOT EXISTS (SELECT 1 FROM blobs WHERE sha256 = $1) ON CONFLICT DO NOTHING"
FORGET_NOTES = "DELETE FROM removed_blobs WHERE sha256 IN (SELECT sha256 FROM blob_marks WHERE sweep = $1)"
UNMARK = "DELETE FROM blob_marks WHERE sweep = $1"
UNCLAIMED = f"""SELECT {MESSAGE_COLUMNS} FROM mail WHERE queue IS NULL
    AND NOT EXISTS (SELECT 1 FROM heads WHERE sha256(heads.address) = sha256(mail.address)) ORDER BY number"""


class _Transaction(Protocol):
    def __call__(self, *, alone: bool = False) -> AbstractAsyncContextManager[PostgresTables]: ...


class PostgresBlobRemoval:
    """A `BlobRemoval` in the transactions of a store."""

    def __init__(self, transaction: _Transaction) -> None:
        self._transaction = transaction

    async def mark(self, sweep: str) -> None:
        """See `BlobRemoval.mark`."""
        async with self._transaction(alone=True) as here:
            await here.fetch("DELETE FROM blob_marks")
            await here.fetch(MARK, sweep)

    async def keep(self, names: Sequence[str]) -> None:
        """See `BlobRemoval.keep`."""
        async with self._transaction() as here:
            await here.fetch(KEEP, list(names))

    async def marked(self, sweep: str) -> BlobTotals:
        """See `BlobRemoval.marked`."""
        async with self._transaction() as here:
            return BlobTotals(*(await here.fetch(MARKED, sweep))[0])

    async def remove(self, sweep: str, noted: Sequence[str] | None = None, limit: int = REMOVAL_BATCH) -> BlobTotals:
        """See `BlobRemoval.remove`."""
        async with self._transaction(alone=True) as here:
            found = await here.fetch(CHOOSE, sweep, None if noted is None else list(noted), limit)
            names = [name for name, _ in found]
            await here.fetch(REMOVE, names)
            await here.fetch(KEEP, names)
            if noted is not None:
                await here.fetch(NOTE, names, here.moment.now_s)
            elif not names:
                await here.fetch(FORGET_NOTES, sweep)
                await here.fetch(UNMARK, sweep)
            return BlobTotals(len(names), sum(size_bytes for _, size_bytes in found))

    async def unmark(self, sweep: str) -> None:
        """See `BlobRemoval.unmark`."""
        async with self._transaction() as here:
            await here.fetch(UNMARK, sweep)

    async def note(self, removed: Mapping[str, float]) -> None:
        """See `BlobRemoval.note`."""
        async with self._transaction() as here:
            for name, at_s in removed.items():
                await here.fetch(NOTE_ELSEWHERE, name, at_s)

    async def unclaimed(self) -> list[QueuedMessage]:
        """See `BlobRemoval.unclaimed`."""
        async with self._transaction() as here:
            return [*map(message_of, await here.fetch(UNCLAIMED))]
