"""The change feed of the store in memory, the plainest implementation of `ChangeFeed`: a dict of things, each with the position of its last change."""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Protocol

from perdure.core.paths import Address, Key
from perdure.stores.change_feed import SHIPPED_MAX, Shipped, ShippedItem, no_feed_error
from perdure.stores.records import RecordKey

Thing = tuple[str, Key, int] | tuple[str, Key] | tuple[str, Address, str] | tuple[str, str] | tuple[str, tuple[str, str | None]] | tuple[str, RecordKey]
"""The name of what an entry is about: a row (with its version), a head or a removed execution, a message, a blob, a queue or a record."""


class FeedContents(Protocol):
    """The store whose changes are shipped."""

    def things(self) -> Iterable[Thing]:
        """Yields everything that is there: blobs before what names them, and the rows of an execution before its head."""
        ...

    def item_of(self, thing: Thing) -> ShippedItem | None:
        """Returns a thing as it is now; None if it went together with something else that tells so."""
        ...

    def put(self, items: Sequence[ShippedItem]) -> None:
        """Restores items."""
        ...


class MemoryChangeFeed:
    """A `ChangeFeed` in a dict. `relay` delivers what is on its way between reaches, where it would not be shipped."""

    def __init__(self, contents: FeedContents, relay: Callable[[], object]) -> None:
        self._contents, self._relay = contents, relay
        self._entries: dict[Thing, int] | None = None
        self._position = 0

    def note(self, *things: Thing) -> None:
        """Records that these have changed, in this order."""
        if self._entries is not None:
            for thing in things:
                self._entries.pop(thing, None)
                self._position += 1
                self._entries[thing] = self._position

    def drop(self, things: Iterable[Thing]) -> None:
        """Removes the entries of things that went together with something else that tells so."""
        if self._entries is not None:
            for thing in things:
                self._entries.pop(thing, None)

    async def begin_feed(self) -> None:
        """See `ChangeFeed.begin_feed`."""
        if self._entries is None:
            self._entries = {}
            self.note(*self._contents.things())

    async def end_feed(self) -> None:
        """See `ChangeFeed.end_feed`."""
        self._entries = None

    async def shipped(self, after: int, limit: int = SHIPPED_MAX) -> Shipped:
        """See `ChangeFeed.shipped`."""
        if self._entries is None:
            raise no_feed_error()
        self._relay()
        found = list(islice(((thing, position) for thing, position in self._entries.items() if position > after), limit + 1))
        page = found[:limit]
        items = tuple(item for thing, _ in page if (item := self._contents.item_of(thing)) is not None)
        return Shipped(page[-1][1] if page else after, items, len(found) > limit)

    async def trim_feed(self, until: int) -> None:
        """See `ChangeFeed.trim_feed`."""
        if self._entries is not None:
            self._entries = {thing: position for thing, position in self._entries.items() if position > until}

    async def restore(self, items: Sequence[ShippedItem]) -> None:
        """See `ChangeFeed.restore`."""
        self._contents.put(items)
