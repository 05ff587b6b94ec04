"""A store whose large values are in a blob store: it puts their bytes there first, and gives the inner store stubs in their place.

A stub is a blob of the inner store that names the tenant. So the inner store still knows which blobs there are: marks, records of removals, and posts that
refer to a blob work as without this. What is in the blob store without a stub, because a process was killed before its commit or because the stub was
removed, goes with the next sweep after a grace period.

Encryption is above this store, so that the blob store holds only what is encrypted.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from perdure.core import payload_header
from perdure.core.envelopes import Ack, QueuedMessage
from perdure.core.limits import BLOB_BYTES_MIN
from perdure.core.paths import Address, Key
from perdure.stores.blob_marks import BLOB_REMOVAL, BlobTotals
from perdure.stores.blob_store import BLOB_SWEEP, GRACE_S, BlobStore
from perdure.stores.change_feed import CHANGE_FEED, SHIPPED_MAX, ChangeFeed, Shipped, ShippedBlob, ShippedItem
from perdure.stores.month_removal import MONTH_REMOVAL
from perdure.stores.move_mark import MOVE_MARK
from perdure.stores.protocol import (
    ALL_HEADS,
    TRANSACTIONS,
    ChangeAnswer,
    Claim,
    Claimed,
    Commit,
    Head,
    HeadFilter,
    HolderStatus,
    Post,
    QueueLimits,
    QueueStatus,
    Store,
    StoredLog,
    StoreTime,
)
from perdure.stores.records import RecordFilter, RecordKey, StoredRecord
from perdure.stores.secret_vault import VAULT
from perdure.stores.store_parts import STORE_KIND, PartName, StoreParts
from perdure.stores.user_transactions import USER_TRANSACTIONS

T = TypeVar("T")
STUB = bytes((payload_header.ENCODED_MARKER,)) + b"b"
"""How a stub begins; the tenant follows. No payload begins so: a codec writes other frames behind its marker."""

SWEEP_PAGE = 1_000


class SeparateBlobsStore:
    """A `Store` around `inner` whose blobs from `bytes_min` on are in `blobs`. Closing it closes `inner`.

    `clock` is that of the blob store. What a transaction of a user carries stays in the inner store, since nothing may be awaited there.
    """

    def __init__(self, inner: Store, blobs: BlobStore, bytes_min: int = BLOB_BYTES_MIN, clock: Callable[[], float] = time.time) -> None:
        self.inner = inner
        self._blobs, self._bytes_min, self._clock = blobs, bytes_min, clock
        self._optional = self._parts()

    def _parts(self) -> StoreParts:
        parts = StoreParts().having(BLOB_SWEEP, self)
        handed_on: tuple[PartName[Any], ...] = (STORE_KIND, VAULT, BLOB_REMOVAL, TRANSACTIONS, USER_TRANSACTIONS, MONTH_REMOVAL, MOVE_MARK)
        for name in handed_on:
            if (part := self.inner.part(name)) is not None:
                parts.having(name, part)
        if (feed := self.inner.part(CHANGE_FEED)) is not None:
            parts.having(CHANGE_FEED, SeparateBlobsFeed(feed, self))
        return parts

    async def commit(self, changes: Sequence[Commit | Post]) -> list[ChangeAnswer]:
        """See `Store.commit`. Large blobs are durable in the blob store before the inner store commits."""
        return await self.inner.commit([await self._stubbed(change) if change.blobs else change for change in changes])

    async def claim(self, claim: Claim) -> Claimed:
        """See `Store.claim`."""
        return await self.inner.claim(claim)

    async def read(self, key: Key, after: int = 0) -> StoredLog | None:
        """See `Store.read`."""
        return await self.inner.read(key, after)

    async def heads(self, which: HeadFilter = ALL_HEADS) -> list[Head]:
        """See `Store.heads`."""
        return await self.inner.heads(which)

    async def messages(self, to: Address) -> list[QueuedMessage]:
        """See `Store.messages`."""
        return await self.inner.messages(to)

    async def are_queued(self, messages: Sequence[Ack]) -> list[bool]:
        """See `Store.are_queued`."""
        return await self.inner.are_queued(messages)

    async def record(self, key: RecordKey) -> StoredRecord | None:
        """See `Store.record`."""
        return await self.inner.record(key)

    async def records(self, which: RecordFilter) -> list[StoredRecord]:
        """See `Store.records`."""
        return await self.inner.records(which)

    async def store_time(self) -> StoreTime:
        """See `Store.store_time`."""
        return await self.inner.store_time()

    async def renew(self, holder: str, lease_s: float, about: bytes = b"") -> StoreTime:
        """See `Store.renew`."""
        return await self.inner.renew(holder, lease_s, about)

    async def leases(self) -> list[HolderStatus]:
        """See `Store.leases`."""
        return await self.inner.leases()

    async def limit(self, queue: str, limits: QueueLimits | None, tenant: str | None = None) -> None:
        """See `Store.limit`."""
        await self.inner.limit(queue, limits, tenant)

    async def queues(self) -> list[QueueStatus]:
        """See `Store.queues`."""
        return await self.inner.queues()

    async def relay(self, limit: int = 100) -> int:
        """See `Store.relay`."""
        return await self.inner.relay(limit)

    async def drop_expired(self, limit: int = 100) -> list[QueuedMessage]:
        """See `Store.drop_expired`."""
        return await self.inner.drop_expired(limit)

    async def drop_expired_records(self, limit: int = 100) -> int:
        """See `Store.drop_expired_records`."""
        return await self.inner.drop_expired_records(limit)

    async def raise_epoch(self) -> int:
        """See `Store.raise_epoch`."""
        return await self.inner.raise_epoch()

    async def blob(self, sha256: str) -> bytes | None:
        """See `Store.blob`."""
        return await self.resolved(sha256, await self.inner.blob(sha256))

    async def removed_at(self, sha256: str) -> float | None:
        """See `Store.removed_at`."""
        return await self.inner.removed_at(sha256)

    def on_wake(self, notify: Callable[[], None]) -> Callable[[], None]:
        """See `Store.on_wake`."""
        return self.inner.on_wake(notify)

    def on_change(self, notify: Callable[[], None]) -> Callable[[], None]:
        """See `Store.on_change`."""
        return self.inner.on_change(notify)

    def part(self, name: PartName[T]) -> T | None:
        """See `Store.part`. The parts of the inner store are handed on; its feed ships the blobs themselves in place of stubs."""
        return self._optional.get(name)

    async def close(self) -> None:
        """See `Store.close`."""
        await self.inner.close()

    async def sweep(self, grace_s: float = GRACE_S) -> BlobTotals:
        """See `BlobSweep.sweep`."""
        count = size_bytes = 0
        before_s = self._clock() - grace_s
        for tenant in await self._blobs.tenants():
            after = ""
            while page := await self._blobs.list(tenant, after, SWEEP_PAGE):
                after = page[-1].sha256
                for one in page:
                    named = one.put_at_s >= before_s or await self.inner.blob(one.sha256) == _stub(tenant)
                    if not named and await self._blobs.delete(tenant, one.sha256, before_s):
                        count, size_bytes = count + 1, size_bytes + one.size_bytes
        return BlobTotals(count, size_bytes)

    async def resolved(self, sha256: str, stored: bytes | None) -> bytes | None:
        """Returns the payload that the inner store has, or names by a stub."""
        return await self._blobs.get(stored[len(STUB) :].decode(), sha256) if stored is not None and stored.startswith(STUB) else stored

    async def separated(self, tenant: str, sha256: str, payload: bytes) -> bytes:
        """Puts a large payload into the blob store, and returns what the inner store keeps in its place."""
        if len(payload) < self._bytes_min:
            return payload
        await self._blobs.put(tenant, sha256, payload)
        return _stub(tenant)

    async def _stubbed(self, change: Commit | Post) -> Commit | Post:
        addresses = [*(send.to for send in change.messages), *(ack.to for ack in change.acks)]
        records = () if isinstance(change, Commit) else change.records
        tenant = change.key.tenant if isinstance(change, Commit) else records[0].key.tenant if records else addresses[0][0] if addresses else ""
        return replace(change, blobs=tuple([(name, await self.separated(tenant, name, payload)) for name, payload in change.blobs]))


class SeparateBlobsFeed:
    """The `ChangeFeed` of a `SeparateBlobsStore`. Restored blobs belong to no tenant, since an item does not tell it."""

    def __init__(self, inner: ChangeFeed, store: SeparateBlobsStore) -> None:
        self._inner, self._store = inner, store

    async def begin_feed(self) -> None:
        """See `ChangeFeed.begin_feed`."""
        await self._inner.begin_feed()

    async def end_feed(self) -> None:
        """See `ChangeFeed.end_feed`."""
        await self._inner.end_feed()

    async def shipped(self, after: int, limit: int = SHIPPED_MAX) -> Shipped:
        """See `ChangeFeed.shipped`."""
        page = await self._inner.shipped(after, limit)
        return replace(page, items=tuple([item for one in page.items if (item := await self._with_payload(one)) is not None]))

    async def trim_feed(self, until: int) -> None:
        """See `ChangeFeed.trim_feed`."""
        await self._inner.trim_feed(until)

    async def restore(self, items: Sequence[ShippedItem]) -> None:
        """See `ChangeFeed.restore`."""
        await self._inner.restore([await self._stubbed(item) for item in items])

    async def _with_payload(self, item: ShippedItem) -> ShippedItem | None:
        if not isinstance(item, ShippedBlob):
            return item
        payload = await self._store.resolved(item.sha256, item.payload)
        return None if payload is None else replace(item, payload=payload)

    async def _stubbed(self, item: ShippedItem) -> ShippedItem:
        return replace(item, payload=await self._store.separated("", item.sha256, item.payload)) if isinstance(item, ShippedBlob) else item


def _stub(tenant: str) -> bytes:
    return STUB + tenant.encode()
