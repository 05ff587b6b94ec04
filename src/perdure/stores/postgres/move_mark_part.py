"""The part `MOVE_MARK` of the Postgres store: a table that exists while there is a mark, and triggers that refuse changes meanwhile."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from perdure.stores.move_mark import MoveStage, StoreMove
from perdure.stores.postgres.limited_queues import Fetch
from perdure.stores.postgres.statements import SQL
from perdure.stores.postgres.store_tables import PostgresTables

CONTENT = ("heads", "log", "mail", "blobs", "removed_blobs", "queues", "records")
"""The tables whose changes are those of executions, and of what executions share."""

REFUSING_TABLES: dict[MoveStage, tuple[str, ...]] = {
    "copy": ("holders", *CONTENT),
    "draining": ("holders",),
    "closed": ("holders", *CONTENT, "vault"),
    "moved": ("holders", *CONTENT, "vault"),
}


class _Transaction(Protocol):
    def __call__(self, *, alone: bool = False) -> AbstractAsyncContextManager[PostgresTables]: ...


class PostgresMoveMark:
    """A `MoveMark` in the transactions of a store. Setting and removing it needs the rights of the owner of the tables."""

    def __init__(self, transaction: _Transaction) -> None:
        self._transaction = transaction

    async def read(self) -> StoreMove | None:
        """See `MoveMark.read`."""
        async with self._transaction() as here:
            return await _read_move(here.fetch)

    async def replace(self, expected: StoreMove | None, move: StoreMove | None) -> bool:
        """See `MoveMark.replace`. It runs alone: it waits for all transactions that have begun, those of users included."""
        async with self._transaction(alone=True) as here:
            if await _read_move(here.fetch) != expected:
                return False
            await here.fetch(SQL.accept_changes)
            await here.fetch(SQL.drop_move)
            if move is not None:
                await _put_move(here.fetch, move)
            return True


async def _read_move(fetch: Fetch) -> StoreMove | None:
    if not (await fetch(SQL.has_move))[0][0]:
        return None
    return msgspec.convert(dict(zip(("stage", "other", "run"), (await fetch(SQL.read_move))[0], strict=True)), StoreMove)


async def _put_move(fetch: Fetch, move: StoreMove) -> None:
    await fetch(SQL.create_move)
    await fetch(SQL.put_move, move.stage, move.other, move.run, move.refusal)
    await fetch(SQL.create_refusal)
    for table in REFUSING_TABLES[move.stage]:
        changes = "INSERT OR UPDATE" if table == "holders" else "INSERT OR UPDATE OR DELETE"  # what ends may leave
        await fetch(SQL.refuse_changes.format(table=table, changes=changes))
