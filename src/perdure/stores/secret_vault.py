"""Vaults: where secrets are kept, encrypted by whoever keeps them there. A store that has one knows no key, and nothing of it stands in a log or an export.

There is one row for each secret, so that of one that is replaced or removed nothing is left where the store can help it.
"""

from collections.abc import Callable
from typing import Any, Protocol

import msgspec


class SealedValue(msgspec.Struct, frozen=True, gc=False):
    """A secret as it is kept. `version` counts from 1 how often it was written since it is there; `set_at_s` is the store's time of the last."""

    tenant: str
    name: str
    version: int
    sealed: bytes
    set_at_s: float


class Vault(Protocol):
    """What a store can have besides, as its `vault`. Any method may raise `StoreUnavailable`, and may be called in any event loop."""

    async def read(self, tenant: str | None = None, name: str | None = None) -> list[SealedValue]:
        """The secrets of a tenant (None: of all), of a name (None: of any), in order of tenant and name."""
        ...

    async def keep(self, tenant: str, name: str, version: int, sealed: bytes) -> bool:
        """Make it this version of a secret, durably, if what is there is the one before (with 1: nothing); return whether it was."""
        ...

    async def drop(self, tenant: str, name: str) -> bool:
        """Remove a secret, durably; return whether it was there."""
        ...

    async def wipe(self) -> bool:
        """See to it that nothing is left of what was replaced or removed, as far as the store can; False if somebody kept it from that."""
        ...


class MemoryVault:
    """A `Vault` in a dict: the plainest statement of what one does."""

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
        """There is nothing else."""
        return True


def vault_of(store: Any) -> Vault | None:
    """The vault of a store, or of the one that it is around; None if it has none."""
    found: Vault | None = getattr(getattr(store, "inner", store), "vault", None)
    return found
