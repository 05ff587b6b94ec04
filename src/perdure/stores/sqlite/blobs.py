"""Removal of blobs in SQLite. There is one writer at a time, so the removal of marked blobs never overlaps with a change that removes a mark."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from perdure.core.envelopes import QueuedMessage
from perdure.stores.blob_marks import REMOVAL_BATCH, BlobTotals
from perdure.stores.sqlite.database_file import Execute
from perdure.stores.sqlite.statements import SQL
from perdure.stores.sqlite.store_rows import message_of
from perdure.stores.sqlite.store_tables import SqliteTables

T = TypeVar("T")


class SqliteBlobRemoval:
    """A `BlobRemoval` in SQLite, which reads and writes through the functions of its store."""

    def __init__(self, read: Callable[..., Awaitable[Any]], write: Callable[..., Awaitable[Any]]) -> None:
        self._read, self._write = read, write

    async def mark(self, sweep: str) -> None:
        """See `BlobRemoval.mark`."""

        def mark(execute: Execute, _: float) -> None:
            execute(SQL.unmark_all)
            execute(SQL.mark_blobs, (sweep,))

        await self._written(mark)

    async def keep(self, names: Sequence[str]) -> None:
        """See `BlobRemoval.keep`."""
        if names:
            await self._written(lambda execute, _: execute(SQL.unmark_blobs, (json.dumps(names),)))

    async def marked(self, sweep: str) -> BlobTotals:
        """See `BlobRemoval.marked`."""
        found: BlobTotals = await self._read(lambda execute: BlobTotals(*execute(SQL.marked_totals, (sweep,)).fetchone()))
        return found

    async def remove(self, sweep: str, noted: Sequence[str] | None = None, limit: int = REMOVAL_BATCH) -> BlobTotals:
        """See `BlobRemoval.remove`."""

        def remove(execute: Execute, now_s: float) -> BlobTotals:
            asked = (SQL.marked_blobs, (sweep, limit)) if noted is None else (SQL.marked_among, (sweep, limit, json.dumps(noted)))
            found = execute(*asked).fetchall()
            names = json.dumps([name for name, _ in found])
            if found:
                execute(SQL.remove_blobs, (names,))
                execute(SQL.unmark_blobs, (names,))
            if noted is not None:
                execute(SQL.note_removals, (now_s, names))
            elif not found:
                execute(SQL.forget_marked_removals, (sweep,))
                execute(SQL.unmark_sweep, (sweep,))
            return BlobTotals(len(found), sum(size_bytes for _, size_bytes in found))

        return await self._written(remove)

    async def unmark(self, sweep: str) -> None:
        """See `BlobRemoval.unmark`."""
        await self._written(lambda execute, _: execute(SQL.unmark_sweep, (sweep,)))

    async def note(self, removed: Mapping[str, float]) -> None:
        """See `BlobRemoval.note`."""

        def note(execute: Execute, _: float) -> None:
            for name, at_s in removed.items():
                execute(SQL.note_removal_elsewhere, (name, at_s))

        await self._written(note)

    async def unclaimed(self) -> list[QueuedMessage]:
        """See `BlobRemoval.unclaimed`."""
        found: list[QueuedMessage] = await self._read(lambda execute: [message_of(row) for row in execute(SQL.unclaimed_messages)])
        return found

    async def _written(self, do: Callable[[Execute, float], T]) -> T:
        def write(tables: SqliteTables) -> T:
            return tables.removal(do)

        done: T = await self._write(write)
        return done
