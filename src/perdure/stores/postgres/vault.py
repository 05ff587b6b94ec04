"""The vault in Postgres. Replaced and removed secrets can't be queried any more; they leave the files of the server as it vacuums and overwrites them."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from perdure.stores.postgres.store_tables import PostgresTables
from perdure.stores.secret_vault import SealedValue

READ = "SELECT tenant, name, version, sealed, set_at_s FROM vault WHERE ($1::text IS NULL OR tenant = $1) AND ($2::text IS NULL OR name = $2)"
FIRST = "INSERT INTO vault VALUES ($1, $2, 1, $3, $4) ON CONFLICT DO NOTHING RETURNING version"
NEXT = "UPDATE vault SET version = $3, sealed = $4, set_at_s = $5 WHERE tenant = $1 AND name = $2 AND version = $3 - 1 RETURNING version"
DROP = "DELETE FROM vault WHERE tenant = $1 AND name = $2 RETURNING version"


class PostgresVault:
    """A `Vault` in the transactions of a store."""

    def __init__(self, transaction: Callable[[], AbstractAsyncContextManager[PostgresTables]]) -> None:
        self._transaction = transaction

    async def read(self, tenant: str | None = None, name: str | None = None) -> list[SealedValue]:
        """See `Vault.read`."""
        async with self._transaction() as here:
            return sorted((SealedValue(*row) for row in await here.fetch(READ, tenant, name)), key=lambda row: (row.tenant, row.name))

    async def keep(self, tenant: str, name: str, version: int, sealed: bytes) -> bool:
        """See `Vault.keep`."""
        async with self._transaction() as here:
            if version == 1:
                return bool(await here.fetch(FIRST, tenant, name, sealed, here.moment.now_s))
            return bool(await here.fetch(NEXT, tenant, name, version, sealed, here.moment.now_s))

    async def drop(self, tenant: str, name: str) -> bool:
        """See `Vault.drop`."""
        async with self._transaction() as here:
            return bool(await here.fetch(DROP, tenant, name))

    async def wipe(self) -> bool:
        """Does nothing: the server overwrites old rows itself."""
        return True
