"""A reader of the change feed in a simulated world: it copies the store into another one, which must equal it whenever the reader has caught up."""

import asyncio
from collections import Counter
from collections.abc import Callable
from random import Random

from perdure.core.record_format import encode_record_value
from perdure.stores.change_feed import CHANGE_FEED, ChangeFeed, Shipped, ShippedBlob
from perdure.stores.memory import MemoryStore
from perdure.stores.protocol import Post, Store
from perdure.stores.records import RecordChange, RecordFilter, RecordKey
from perdure.testing.conformance.feed_suite import contents
from tests.proof.audited_store import AuditedStore
from tests.proof.auditor import Auditor

KINDS, KEYS = ("letter", "note"), 3
"""The records that it changes itself, since no program has any."""


class FeedFollower:
    """Follows the feed of `store` in pages of random size, restores some of them twice, trims the feed, ends it and begins again with an empty copy.

    It compares now and then, and at the end.
    """

    def __init__(self, auditor: Auditor, store: AuditedStore, clock: Callable[[], float], rng: Random) -> None:
        self._auditor, self._store, self._clock, self._rng = auditor, store, clock, rng
        self._copy: MemoryStore | None = None
        self._position = 0
        self._blobs: set[str] = set()
        self.counts: Counter[str] = Counter()

    async def follow(self) -> None:
        """Reads and restores now and then, for ever."""
        while True:
            await asyncio.sleep(self._rng.random() * self._rng.choice((0.1, 1.0, 10.0)))
            self._change_record()
            self._step()

    def catch_up(self) -> None:
        """Reads everything that is left, and compares."""
        while self._step(may_end=False).more:
            pass

    def _step(self, *, may_end: bool = True) -> Shipped:
        at_once, rng = self._store.at_once, self._rng
        feed = _feed_of(self._store.inner)
        if self._copy is not None and may_end and rng.random() < 0.02:
            at_once(feed.end_feed())
            self._copy = None
        if self._copy is None:
            at_once(feed.begin_feed())
            self._copy, self._position, self._blobs = MemoryStore(self._clock), 0, set()
            self.counts["feeds"] += 1
        target = _feed_of(self._copy)
        page: Shipped = at_once(feed.shipped(self._position, rng.choice((1, 7, 100))))
        for _ in range(rng.choice((1, 1, 1, 2))):
            at_once(target.restore(page.items))
        self._position = page.position
        self._blobs |= {item.sha256 for item in page.items if isinstance(item, ShippedBlob)}
        if rng.random() < 0.3:
            at_once(feed.trim_feed(self._position))
        if not page.more and (not may_end or rng.random() < 0.25):
            self.counts["compared"] += 1
            records = [RecordFilter(tenant, kind) for tenant in ("acme", "b") for kind in KINDS]
            addresses = self._store.addresses
            of_store, of_copy = (at_once(contents(one, addresses, self._blobs, records)) for one in (self._store.inner, self._copy))
            self._auditor.expect(of_store == of_copy, lambda: f"a copy by the feed differs: {_difference(of_store, of_copy)}")
        return page

    def _change_record(self) -> None:
        key = RecordKey(self._rng.choice(("acme", "b")), self._rng.choice(KINDS), str(self._rng.randrange(KEYS)))
        found = self._store.at_once(self._store.inner.record(key))
        value = encode_record_value(str(self._rng.random()).encode()) if found is None or self._rng.random() < 0.8 else None
        self._store.at_once(self._store.inner.commit([Post(records=(RecordChange(key, 0 if found is None else found.version, value),))]))


def _feed_of(store: Store) -> ChangeFeed:
    feed = store.part(CHANGE_FEED)
    assert feed is not None, "every store that is simulated has a feed"
    return feed


def _difference(one: dict[object, object], other: dict[object, object]) -> str:
    """The first part in which both differ, shortened."""
    for part in one:
        if one[part] != other[part]:
            return f"{part}: {one[part]!r:.700} in the store, {other[part]!r:.700} in its copy"
    return "nothing"
