"""A store whose commits and claims are told to the observer of the process: of engines, workers and clients alike."""

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TypeVar

from perdure.core.envelopes import Ack, QueuedMessage
from perdure.core.errors import StoreError
from perdure.core.paths import Address, Key
from perdure.runtime.observer import Observer
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


class ObservedStore:
    """A `Store` that tells an observer of its commits and claims, and has the parts of the store in it."""

    def __init__(self, inner: Store, observer: Observer) -> None:
        self.inner, self._observer = inner, observer

    @classmethod
    def of(cls, store: Store, observer: Observer) -> "ObservedStore":
        """Returns the observed store: this one, if it is observed already."""
        return store if isinstance(store, ObservedStore) else cls(store, observer)

    async def commit(self, changes: Sequence[Commit | Post]) -> list[ChangeAnswer]:
        """See `Store.commit`."""
        began_s = perf_counter()
        try:
            answers = await self.inner.commit(changes)
        except StoreError:
            self._observer.store_failed()
            raise
        self._observer.committed(len(changes), perf_counter() - began_s)
        return answers

    async def claim(self, claim: Claim) -> Claimed:
        """See `Store.claim`."""
        try:
            claimed = await self.inner.claim(claim)
        except StoreError:
            self._observer.store_failed()
            raise
        if claimed.executions or claimed.work:
            self._observer.claimed(claimed)
        return claimed

    # Methods that nobody is told of.

    async def limit(self, queue: str, limits: QueueLimits | None, tenant: str | None = None) -> None:
        """See `Store.limit`."""
        await self.inner.limit(queue, limits, tenant)

    async def raise_epoch(self) -> int:
        """See `Store.raise_epoch`."""
        return await self.inner.raise_epoch()

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

    async def blob(self, sha256: str) -> bytes | None:
        """See `Store.blob`."""
        return await self.inner.blob(sha256)

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
        """See `Store.part`."""
        return self.inner.part(name)

    async def close(self) -> None:
        """See `Store.close`."""
        await self.inner.close()
