"""A store that hands each call on to another one, for wrappers that change some of them."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from perdure.core.envelopes import Ack, QueuedMessage
from perdure.core.paths import Address, Key
from perdure.stores.protocol import (
    ALL_HEADS,
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
from perdure.stores.store_parts import PartName

T = TypeVar("T")


class ForwardingStore:
    """A `Store` that hands each call on to `inner`, after `before_call`."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner

    async def before_call(self) -> None:
        """Is awaited before each call except that of `commit` and `store_time`."""

    async def commit(self, changes: Sequence[Commit | Post]) -> list[ChangeAnswer]:
        """See `Store.commit`."""
        return await self.inner.commit(changes)

    async def claim(self, claim: Claim) -> Claimed:
        """See `Store.claim`."""
        await self.before_call()
        return await self.inner.claim(claim)

    async def read(self, key: Key, after: int = 0) -> StoredLog | None:
        """See `Store.read`."""
        await self.before_call()
        return await self.inner.read(key, after)

    async def heads(self, which: HeadFilter = ALL_HEADS) -> list[Head]:
        """See `Store.heads`."""
        await self.before_call()
        return await self.inner.heads(which)

    async def messages(self, to: Address) -> list[QueuedMessage]:
        """See `Store.messages`."""
        await self.before_call()
        return await self.inner.messages(to)

    async def are_queued(self, messages: Sequence[Ack]) -> list[bool]:
        """See `Store.are_queued`."""
        await self.before_call()
        return await self.inner.are_queued(messages)

    async def record(self, key: RecordKey) -> StoredRecord | None:
        """See `Store.record`."""
        await self.before_call()
        return await self.inner.record(key)

    async def records(self, which: RecordFilter) -> list[StoredRecord]:
        """See `Store.records`."""
        await self.before_call()
        return await self.inner.records(which)

    async def store_time(self) -> StoreTime:
        """See `Store.store_time`."""
        return await self.inner.store_time()

    async def renew(self, holder: str, lease_s: float, about: bytes = b"") -> StoreTime:
        """See `Store.renew`."""
        await self.before_call()
        return await self.inner.renew(holder, lease_s, about)

    async def leases(self) -> list[HolderStatus]:
        """See `Store.leases`."""
        await self.before_call()
        return await self.inner.leases()

    async def limit(self, queue: str, limits: QueueLimits | None, tenant: str | None = None) -> None:
        """See `Store.limit`."""
        await self.before_call()
        await self.inner.limit(queue, limits, tenant)

    async def queues(self) -> list[QueueStatus]:
        """See `Store.queues`."""
        await self.before_call()
        return await self.inner.queues()

    async def relay(self, limit: int = 100) -> int:
        """See `Store.relay`."""
        await self.before_call()
        return await self.inner.relay(limit)

    async def drop_expired(self, limit: int = 100) -> list[QueuedMessage]:
        """See `Store.drop_expired`."""
        await self.before_call()
        return await self.inner.drop_expired(limit)

    async def drop_expired_records(self, limit: int = 100) -> int:
        """See `Store.drop_expired_records`."""
        await self.before_call()
        return await self.inner.drop_expired_records(limit)

    async def raise_epoch(self) -> int:
        """See `Store.raise_epoch`."""
        await self.before_call()
        return await self.inner.raise_epoch()

    async def blob(self, sha256: str) -> bytes | None:
        """See `Store.blob`."""
        await self.before_call()
        return await self.inner.blob(sha256)

    async def removed_at(self, sha256: str) -> float | None:
        """See `Store.removed_at`."""
        await self.before_call()
        return await self.inner.removed_at(sha256)

    def on_wake(self, notify: Callable[[], None]) -> Callable[[], None]:
        """See `Store.on_wake`."""
        return self.inner.on_wake(notify)

    def on_change(self, notify: Callable[[], None]) -> Callable[[], None]:
        """See `Store.on_change`."""
        return self.inner.on_change(notify)

    def part(self, name: PartName[T]) -> T | None:
        """See `Store.part`."""
        return self.inner.part(name)

    async def close(self) -> None:
        """See `Store.close`."""
        await self.inner.close()
