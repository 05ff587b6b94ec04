"""Removal of blobs in SQLite. There is one writer at a time, so the removal of marked blobs never overlaps with a change that removes a mark."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from perdure.core.envelopes import QueuedMessage
from perdure.stores.blob_marks import REMOVAL_BATCH, BlobTotals
from perdure.stores.sqlite.database_file import Execute
from perdure.stores.sqlite.store_rows import MESSAGE_COLUMNS, message_of
from perdure.stores.sqlite.store_tables import SqliteTables

T = TypeVar("T")

UNMARK_ALL = "DELETE FROM blob_marks"
MARK = "INSERT INTO blob_marks SELECT sha256, ?1 FROM blobs UNION SELECT sha256, ?1 FROM removed_blobs"
KEEP = "DELETE FROM blob_marks WHERE sha256 IN (SELECT value FROM json_each(?))"
_MARKED = "FROM blob_marks JOIN blobs ON blobs.sha256 = blob_marks.sha256 WHERE sweep = ?1"
MARKED = f"SELECT count(*), coalesce(sum(length(bytes)), 0) {_MARKED}"
ANY = f"SELECT blobs.sha256, length(bytes) {_MARKED} LIMIT ?2"
NOTED = f"SELECT blobs.sha256, length(bytes) {_MARKED} AND blobs.sha256 IN (SELECT value FROM json_each(?3)) LIMIT ?2"
REMOVE = "DELETE FROM blobs WHERE sha256 IN (SELECT value FROM json_each(?))"
NOTE = "INSERT INTO removed_blobs SELECT value, ? FROM json_each(?) WHERE true ON CONFLICT (sha256) DO NOTHING"
NOTE_ELSEWHERE = "INSERT INTO removed_blobs SELECT ?1, ?2 WHERE NOT EXISTS (SELECT 1 FROM blobs WHERE sha256 = ?1) ON CONFLICT (sha256) DO NOTHING"
FORGET_NOTES = "DELETE FROM removed_blobs WHERE sha256 IN (SELECT sha256 FROM blob_marks WHERE sweep = ?)"
UNMARK = "DELETE FROM blob_marks WHERE sweep = ?"
UNCLAIMED = f"SELECT {MESSAGE_COLUMNS} FROM mail WHERE unclaimed IS NOT NULL ORDER BY number"


class SqliteBlobRemoval:
    """A `BlobRemoval` in SQLite, which reads and writes through the functions of its store."""

    def __init__(self, read: Callable[..., Awaitable[Any]], write: Callable[..., Awaitable[Any]]) -> None:
        self._read, self._write = read, write

    async def mark(self, sweep: str) -> None:
        """See `BlobRemoval.mark`."""

        def mark(execute: Execute, _: float) -> None:
            execute(UNMARK_ALL)
            execute(MARK, (sweep,))

        await self._written(mark)

    async def keep(self, names: Sequence[str]) -> None:
        """See `BlobRemoval.keep`."""
        if names:
            await self._written(lambda execute, _: execute(KEEP, (json.dumps(names),)))

    async def marked(self, sweep: str) -> BlobTotals:
        """See `BlobRemoval.marked`."""
        found: BlobTotals = await self._read(lambda execute: BlobTotals(*execute(MARKED, (sweep,)).fetchone()))
        return found

    async def remove(self, sweep: str, noted: Sequence[str] | None = None, limit: int = REMOVAL_BATCH) -> BlobTotals:
        """See `BlobRemoval.remove`."""

        def remove(execute: Execute, now_s: float) -> BlobTotals:
            asked = (ANY, (sweep, limit)) if noted is None else (NOTED, (sweep, limit, json.dumps(noted)))
            found = execute(*asked).fetchall()
            names = json.dumps([name for name, _ in found])
            if found:
                execute(REMOVE, (names,))
                execute(KEEP, (names,))
            if noted is not None:
                execute(NOTE, (now_s, names))
            elif not found:
                execute(FORGET_NOTES, (sweep,))
                execute(UNMARK, (sweep,))
            return BlobTotals(len(found), sum(size_bytes for _, size_bytes in found))

        return await self._written(remove)

    async def unmark(self, sweep: str) -> None:
        """See `BlobRemoval.unmark`."""
        await self._written(lambda execute, _: execute(UNMARK, (sweep,)))

    async def note(self, removed: Mapping[str, float]) -> None:
        """See `BlobRemoval.note`."""

        def note(execute: Execute, _: float) -> None:
            for name, at_s in removed.items():
                execute(NOTE_ELSEWHERE, (name, at_s))

        await self._written(note)

    async def unclaimed(self) -> list[QueuedMessage]:
        """See `BlobRemoval.unclaimed`."""
        found: list[QueuedMessage] = await self._read(lambda execute: [message_of(row) for row in execute(UNCLAIMED)])
        return found

    async def _written(self, do: Callable[[Execute, float], T]) -> T:
        def write(tables: SqliteTables) -> T:
            return tables.removal(do)

        done: T = await self._write(write)
        return done
