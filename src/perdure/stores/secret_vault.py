"""The vault: where a store keeps secrets. The caller encrypts them; the store has no key, and no log or export contains them.

Each secret is one row, so that nothing is left of a replaced or removed secret, as far as the store can prevent it.
"""

from collections.abc import Callable
from typing import Protocol

import msgspec

from perdure.stores.store_parts import PartName


class SealedValue(msgspec.Struct, frozen=True, gc=False):
    """A secret as stored. `version` counts from 1 how often it was written since its creation; `set_at_s` is the store's time of the last write."""

    tenant: str
    name: str
    version: int
    sealed: bytes
    set_at_s: float


class Vault(Protocol):
    """Keeps secrets: the part `VAULT`. Any method may raise `StoreUnavailable`, and may be called in any event loop."""

    async def read(self, tenant: str | None = None, name: str | None = None) -> list[SealedValue]:
        """Return the secrets of a tenant (None: of all tenants) and a name (None: of all names), in order of tenant and name."""
        ...

    async def keep(self, tenant: str, name: str, version: int, sealed: bytes) -> bool:
        """Store this version of a secret durably if the stored one is the version before it (for version 1: if there is none); return whether it did."""
        ...

    async def drop(self, tenant: str, name: str) -> bool:
        """Remove a secret durably; return whether it was there."""
        ...

    async def wipe(self) -> bool:
        """Erase the remains of replaced and removed secrets as far as the store can; return False if other processes prevented it."""
        ...


VAULT: PartName[Vault] = PartName("vault")


class MemoryVault:
    """A `Vault` in a dict, the plainest implementation."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._rows: dict[tuple[str, str], SealedValue] = {}

    async def read(self, tenant: str | None = None, name: str | None = None) -> list[SealedValue]:
        """See `Vault.read`."""
        rows = [self._rows[place] for place in sorted(self._rows)]
        return [row for row in rows if tenant in (None, row.tenant) and name in (None, row.name)]

    async def keep(self, tenant: str, name: str, version: int, sealed: bytes) -> bool:
        """See `Vault.keep`."""
        before = self._rows.get((tenant, name))
        if version != (1 if before is None else before.version + 1):
            return False
        self._rows[tenant, name] = SealedValue(tenant, name, version, sealed, self._clock())
        return True

    async def drop(self, tenant: str, name: str) -> bool:
        """See `Vault.drop`."""
        return self._rows.pop((tenant, name), None) is not None

    async def wipe(self) -> bool:
        """Does nothing: a dict keeps no remains."""
        return True
