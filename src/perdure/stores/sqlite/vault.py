"""The vault in SQLite. With `secure_delete`, SQLite overwrites what is deleted; the write-ahead log keeps a copy until it is emptied."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import closing
from typing import Any

from perdure.stores.secret_vault import SealedValue
from perdure.stores.sqlite.database_file import DatabaseFile, Execute
from perdure.stores.sqlite.statements import SQL
from perdure.stores.sqlite.store_tables import SqliteTables
from perdure.stores.sqlite.write_lock_queue import empty_write_ahead_log


class SqliteVault:
    """A `Vault` in `file`, which reads and writes through the functions of its store."""

    def __init__(self, file: DatabaseFile, read: Callable[..., Awaitable[Any]], write: Callable[..., Awaitable[Any]]) -> None:
        self._file, self._read, self._write = file, read, write

    async def read(self, tenant: str | None = None, name: str | None = None) -> list[SealedValue]:
        """See `Vault.read`."""
        found: list[SealedValue] = await self._read(lambda execute: [SealedValue(*row) for row in execute(SQL.read_vault, (tenant, name))])
        return found

    async def keep(self, tenant: str, name: str, version: int, sealed: bytes) -> bool:
        """See `Vault.keep`."""

        def kept(execute: Execute, now_s: float) -> bool:
            if version == 1:
                return bool(execute(SQL.keep_first_secret, (tenant, name, sealed, now_s)).rowcount)
            return _overwriting(execute, SQL.keep_next_secret, (version, sealed, now_s, tenant, name, version - 1))

        return await self._written(kept)

    async def drop(self, tenant: str, name: str) -> bool:
        """See `Vault.drop`."""
        return await self._written(lambda execute, _: _overwriting(execute, SQL.drop_secret, (tenant, name)))

    async def wipe(self) -> bool:
        """See `Vault.wipe`."""
        return await asyncio.to_thread(_emptied, self._file)

    async def _written(self, do: Callable[[Execute, float], bool]) -> bool:
        def write(tables: SqliteTables) -> bool:
            return tables.vault(do)

        return bool(await self._write(write))


def _overwriting(execute: Execute, sql: str, arguments: tuple[object, ...]) -> bool:
    """Executes a statement so that nothing is left of the old value; returns whether there was one."""
    execute("PRAGMA secure_delete = ON")
    done = execute(sql, arguments).rowcount
    execute("PRAGMA secure_delete = OFF")
    return bool(done)


def _emptied(file: DatabaseFile) -> bool:
    with file.translated_errors(), closing(file.connect()) as connection:
        return empty_write_ahead_log(connection)
