"""The vault in Postgres. Replaced and removed secrets can't be queried any more; they leave the files of the server as it vacuums and overwrites them."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from perdure.stores.postgres.statements import SQL
from perdure.stores.postgres.store_tables import PostgresTables
from perdure.stores.secret_vault import SealedValue


class PostgresVault:
    """A `Vault` in the transactions of a store."""

    def __init__(self, transaction: Callable[[], AbstractAsyncContextManager[PostgresTables]]) -> None:
        self._transaction = transaction

    async def read(self, tenant: str | None = None, name: str | None = None) -> list[SealedValue]:
        """See `Vault.read`."""
        async with self._transaction() as here:
            return sorted((SealedValue(*row) for row in await here.fetch(SQL.read_vault, tenant, name)), key=lambda row: (row.tenant, row.name))

    async def keep(self, tenant: str, name: str, version: int, sealed: bytes) -> bool:
        """See `Vault.keep`."""
        async with self._transaction() as here:
            if version == 1:
                return bool(await here.fetch(SQL.keep_first_secret, tenant, name, sealed, here.moment.now_s))
            return bool(await here.fetch(SQL.keep_next_secret, tenant, name, version, sealed, here.moment.now_s))

    async def drop(self, tenant: str, name: str) -> bool:
        """See `Vault.drop`."""
        async with self._transaction() as here:
            return bool(await here.fetch(SQL.drop_secret, tenant, name))

    async def wipe(self) -> bool:
        """Does nothing: the server overwrites old rows itself."""
        return True
