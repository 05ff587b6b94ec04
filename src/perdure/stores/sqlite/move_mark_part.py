"""The part `MOVE_MARK` of the SQLite store: a table that exists while there is a mark, and triggers that refuse changes meanwhile."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from perdure.stores.move_mark import MoveStage, StoreMove
from perdure.stores.sqlite.database_file import Execute
from perdure.stores.sqlite.statements import SQL
from perdure.stores.sqlite.store_tables import SqliteTables

CHANGES = ("INSERT", "UPDATE", "DELETE")
CONTENT = ("heads", "log", "mail", "blobs", "removed_blobs", "queues", "records")
"""The tables whose changes are those of executions, and of what executions share."""

REFUSING_TABLES: dict[MoveStage, tuple[str, ...]] = {
    "copy": ("holders", *CONTENT),
    "draining": ("holders",),
    "closed": ("holders", *CONTENT, "vault"),
    "moved": ("holders", *CONTENT, "vault"),
}

LEASE_CONDITION = {"INSERT": "NEW.until_s IS NOT NULL", "UPDATE": "NEW.until_s IS NOT NULL", "DELETE": "0"}
"""Of `holders` only the joining of a process and the renewal of its lease are refused: what ends may leave."""


class SqliteMoveMark:
    """A `MoveMark` in SQLite, which reads and writes through the functions of its store."""

    def __init__(self, read: Callable[..., Awaitable[Any]], write: Callable[..., Awaitable[Any]]) -> None:
        self._read, self._write = read, write

    async def read(self) -> StoreMove | None:
        """See `MoveMark.read`."""
        found: StoreMove | None = await self._read(read_move)
        return found

    async def replace(self, expected: StoreMove | None, move: StoreMove | None) -> bool:
        """See `MoveMark.replace`. Only one process writes at a time, so no change is in progress."""

        def write(tables: SqliteTables) -> bool:
            replaced: list[bool] = []
            tables.feed(lambda execute: replaced.append(_replace(execute, expected, move)))
            return replaced[0]

        return bool(await self._write(write))


def read_move(execute: Execute) -> StoreMove | None:
    """Reads the mark."""
    if execute(SQL.has_move).fetchone() == (0,):
        return None
    return msgspec.convert(dict(zip(("stage", "other", "run"), execute(SQL.read_move).fetchone(), strict=True)), StoreMove)


def set_restoring(execute: Execute, restoring: bool) -> None:
    """Lets this transaction, and no other, restore what a change feed has shipped in spite of a mark; must be ended before the transaction is."""
    if execute(SQL.has_move).fetchone() != (0,):
        execute(SQL.set_restoring, (int(restoring),))


def _replace(execute: Execute, expected: StoreMove | None, move: StoreMove | None) -> bool:
    before = read_move(execute)
    if before != expected:
        return False
    for table in REFUSING_TABLES["moved"]:
        for change in CHANGES:
            execute(SQL.accept_change.format(table=table, change=change))
    execute(SQL.drop_move)
    if move is not None:
        execute(SQL.create_move)
        execute(SQL.put_move, (move.stage, move.other, move.run))
        for table in REFUSING_TABLES[move.stage]:
            for change in CHANGES:
                condition = LEASE_CONDITION[change] if table == "holders" else "1"
                execute(SQL.refuse_change.format(table=table, change=change, condition=condition, message=_quoted(move.refusal)))
    return True


def _quoted(text: str) -> str:
    """A text as SQL: the message of RAISE can't be a parameter."""
    return "'" + text.replace("'", "''").replace("\0", "") + "'"
