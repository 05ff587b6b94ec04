"""A store whose commits and claims are told to the observer of the process: of engines, workers and clients alike."""

from collections.abc import Sequence
from time import perf_counter

from perdure.core.errors import StoreError
from perdure.runtime.observer import Observer
from perdure.stores.forwarding_store import ForwardingStore
from perdure.stores.protocol import ChangeAnswer, Claim, Claimed, Commit, Post, Store


class ObservedStore(ForwardingStore):
    """A `Store` that tells an observer of its commits and claims."""

    def __init__(self, inner: Store, observer: Observer) -> None:
        super().__init__(inner)
        self._observer = observer

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
