"""The interface of blob stores, which keep large values apart from a store, and the one in memory."""

import time
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from perdure.stores.blob_marks import BlobTotals
from perdure.stores.store_parts import PartName

GRACE_S = 24 * 3600.0
"""How old a blob without a stub must be before a sweep removes it: far longer than a commit takes after its blobs were put."""


class KeptBlob(msgspec.Struct, frozen=True, gc=False):
    """A blob as a blob store lists it. `put_at_s` is when it was last put, in seconds since 1970."""

    sha256: str
    size_bytes: int
    put_at_s: float


class BlobStore(Protocol):
    """Keeps immutable payloads by tenant and name. The name is a SHA-256, or what a codec makes of one.

    A blob is put before the commit that names it, and removed only by a sweep that has found no name for it and after a grace period, so a name never lacks
    its blob. Any method may raise `StoreUnavailable`, and may be repeated.
    """

    async def put(self, tenant: str, sha256: str, payload: bytes) -> None:
        """Keep a blob; it is durable when this returns. One that is there counts as put now. A crash leaves the whole blob or nothing of it."""
        ...

    async def get(self, tenant: str, sha256: str) -> bytes | None:
        """The payload of a blob; None if it is not there."""
        ...

    async def list(self, tenant: str, after: str, limit: int) -> Sequence[KeptBlob]:
        """Up to `limit` blobs of a tenant behind the name `after`, in order of name."""
        ...

    async def tenants(self) -> Sequence[str]:
        """The tenants that have blobs, in order."""
        ...

    async def delete(self, tenant: str, sha256: str, put_before_s: float) -> bool:
        """Remove a blob unless it was put at `put_before_s` or later; return whether it was removed. A `put` meanwhile happens before or after."""
        ...


class BlobSweep(Protocol):
    """Removes what is in a blob store and has no name in the store: the part `BLOB_SWEEP`."""

    async def sweep(self, grace_s: float = GRACE_S) -> BlobTotals:
        """Remove the blobs that have no stub and were put more than `grace_s` seconds ago; return how many, and their size. It may be interrupted."""
        ...


BLOB_SWEEP: PartName[BlobSweep] = PartName("blob sweep")


class MemoryBlobStore:
    """A `BlobStore` in a dict, the plainest implementation."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._blobs: dict[tuple[str, str], tuple[bytes, float]] = {}

    async def put(self, tenant: str, sha256: str, payload: bytes) -> None:
        """See `BlobStore.put`."""
        self._blobs[tenant, sha256] = (payload, self._clock())

    async def get(self, tenant: str, sha256: str) -> bytes | None:
        """See `BlobStore.get`."""
        return self._blobs.get((tenant, sha256), (None, 0.0))[0]

    async def list(self, tenant: str, after: str, limit: int) -> Sequence[KeptBlob]:
        """See `BlobStore.list`."""
        found = sorted((name, payload, at_s) for (of, name), (payload, at_s) in self._blobs.items() if of == tenant and name > after)
        return [KeptBlob(name, len(payload), at_s) for name, payload, at_s in found[:limit]]

    async def tenants(self) -> Sequence[str]:
        """See `BlobStore.tenants`."""
        return sorted({tenant for tenant, _ in self._blobs})

    async def delete(self, tenant: str, sha256: str, put_before_s: float) -> bool:
        """See `BlobStore.delete`."""
        _, at_s = self._blobs.get((tenant, sha256), (b"", put_before_s))
        if at_s >= put_before_s:
            return False
        del self._blobs[tenant, sha256]
        return True
