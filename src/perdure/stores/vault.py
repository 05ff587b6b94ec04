"""Vaults: where secrets are kept, encrypted by whoever keeps them there. A store that has one knows no key, and nothing of it stands in a log or an export.

There is one row for each secret, so that of one that is replaced or removed nothing is left where the store can help it.
"""

from typing import Any, Protocol

import msgspec


class Sealed(msgspec.Struct, frozen=True, gc=False):
    """A secret as it is kept. `version` counts from 1 how often it was written since it is there; `set_at_s` is the store's time of the last."""

    tenant: str
    name: str
    version: int
    sealed: bytes
    set_at_s: float


class Vault(Protocol):
    """What a store can do besides: keep secrets. Any method may raise `StoreUnavailable`."""

    async def secrets(self, tenant: str | None = None, name: str | None = None) -> list[Sealed]:
        """Those of a tenant (None: of all), of a name (None: of any), in order of tenant and name. It may be called in any event loop."""
        ...

    async def keep_secret(self, tenant: str, name: str, version: int, sealed: bytes) -> bool:
        """Make it this version of a secret, durably, if what is there is the one before (with 1: nothing); return whether it was."""
        ...

    async def drop_secret(self, tenant: str, name: str) -> bool:
        """Remove a secret, durably; return whether it was there."""
        ...


def vault_of(store: Any) -> Vault | None:
    """The vault of a store, or of the one that it is around; None if it has none."""
    inner = getattr(store, "inner", store)
    found: Vault = inner
    return found if hasattr(inner, "keep_secret") else None


async def wiped(store: Any) -> bool:
    """See to it that nothing is left of what was replaced or removed, as far as the store can; False if somebody kept it from that."""
    wipe = getattr(getattr(store, "inner", store), "wipe", None)
    return True if wipe is None else bool(await wipe())
