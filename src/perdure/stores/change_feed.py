"""The change feed of a store, and the restoring of what it ships: for moving a store, for keeping a copy of it, and for putting a fast store before another.

The feed is a list of *things*, not of changes: an entry names an execution's head, a log row, a message, a blob, the limits of
a queue or a record. A later change of
the same thing moves its entry to the end. So the feed is never longer than what is in the store, and what was removed since the last `trim_feed`. What is
shipped is the thing as it is when it is read.

A reader asks for what comes after its position, restores that elsewhere, and remembers the new position; after a failure it asks again from the old one.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from perdure.core.envelopes import QueuedMessage
from perdure.core.errors import StoreError
from perdure.core.paths import Address, Key
from perdure.stores.protocol import Head, LogRow, QueueLimits
from perdure.stores.records import RecordKey, StoredRecord
from perdure.stores.store_parts import PartName

SHIPPED_MAX = 500
"""How many things are shipped at a time, unless the reader asks for another number."""

PAGE_BYTES_MAX = 8 * 2**20
"""A page of a store with large values ends once its rows, messages, blobs and records have this size."""


class ShippedHead(msgspec.Struct, frozen=True, gc=False):
    """The head of an execution. Its log has the shipped rows from version `first_version` (None: it has none) up to `head.version`, and no others."""

    head: Head
    first_version: int | None


class ShippedRow(msgspec.Struct, frozen=True, gc=False):
    """A log row of an execution."""

    key: Key
    row: LogRow


class ShippedMessage(msgspec.Struct, frozen=True, gc=False):
    """A queued message, with its number in the store that it comes from."""

    message: QueuedMessage


class ShippedBlob(msgspec.Struct, frozen=True, gc=False):
    """A blob."""

    sha256: str
    payload: bytes


class ShippedLimits(msgspec.Struct, frozen=True, gc=False):
    """The limits of a queue; None: it has none any more. They are those of `tenant`, or (None) of all tenants that have none of their own."""

    queue: str
    limits: QueueLimits | None
    tenant: str | None = None


class ShippedRecord(msgspec.Struct, frozen=True, gc=False):
    """A record, which is there even if it has expired."""

    record: StoredRecord


class RemovedExecution(msgspec.Struct, frozen=True, gc=False):
    """An execution was removed with its log. If one of the same key was created since, it is shipped later."""

    key: Key


class RemovedMessage(msgspec.Struct, frozen=True, gc=False):
    """No message of this key is queued any more."""

    to: Address
    key: str


class RemovedBlob(msgspec.Struct, frozen=True, gc=False):
    """A blob is no longer there; `removed_at_s` is when it was removed, if that was recorded."""

    sha256: str
    removed_at_s: float | None


class RemovedRecord(msgspec.Struct, frozen=True, gc=False):
    """A record is no longer there."""

    key: RecordKey


ShippedItem = (
    ShippedHead | ShippedRow | ShippedMessage | ShippedBlob | ShippedLimits | ShippedRecord | RemovedExecution | RemovedMessage | RemovedBlob | RemovedRecord
)


class Shipped(msgspec.Struct, frozen=True, gc=False):
    """The changes up to `position`. Without `more`, these items and those shipped before are the whole store as it was at one moment."""

    position: int
    items: tuple[ShippedItem, ...]
    more: bool


class ChangeFeed(Protocol):
    """The part `CHANGE_FEED` of a store: ships what changes, and restores what another store has shipped.

    One reader follows a feed. Any method may raise `StoreUnavailable`, and may be repeated.

    Guarantee: a store into which everything was restored that was shipped up to an answer without `more` equals the shipping store at the moment of
    that answer, but for what is not shipped: holders and leases, the order in which queues serve their lanes, marks of blobs, secrets. Between two such
    answers it is sound, but not to be worked on: the log of each execution is whole, at a version that it had, and every blob that it names is there;
    a message that was sent and handled in between may be missing, and one that was handled may still be queued.
    """

    async def begin_feed(self) -> None:
        """Record from now on what changes. Everything that is there counts as changed. It does nothing if the feed has begun.

        While a feed is kept, each change costs about one more write of a small row for each thing that it changes.
        """
        ...

    async def end_feed(self) -> None:
        """Stop recording and remove the feed. It does nothing if there is none. Changes then cost what they cost without a feed."""
        ...

    async def shipped(self, after: int, limit: int = SHIPPED_MAX) -> Shipped:
        """Up to `limit` things that have changed since the position `after` (0: since the beginning), each once and as it is now.

        A blob comes before the rows and messages that name it, and a row before the head that counts it. Positions only grow, also over `end_feed` and
        another `begin_feed`. The work of a call is bounded by `limit` and the log of one execution, whatever the store holds.

        Raises:
            StoreError: `begin_feed` was not called.
        """
        ...

    async def trim_feed(self, until: int) -> None:
        """Forget the entries up to the position `until`: what they name is safe elsewhere."""
        ...

    async def restore(self, items: Sequence[ShippedItem]) -> None:
        """Put `items` in place, all of them or none. The store need not be empty; what is restored replaces what has the same name.

        - Restoring items again, in their order, changes nothing. Only one caller restores at a time.
        - What was held is free and awake. A row is kept aside until a head counts it, so a log and its head change together.
        - A message keeps its due time, its deliveries and its number, hence its place among the others. If another message of this store has that number,
          it gets a new one behind all others.
        - Heads are listed in the order in which they were first restored.

        Call `Store.raise_epoch` before the store is used, so that engines of the other store can decide nothing here.
        """
        ...


CHANGE_FEED: PartName[ChangeFeed] = PartName("change feed")


def no_feed_error() -> StoreError:
    """The error of reading a feed that has not begun."""
    return StoreError("this store keeps no change feed; call begin_feed() first, and ship from position 0")
