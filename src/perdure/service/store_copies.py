"""Copies a whole store into another one by its change feed.

The position is kept in the target, as a blob that is restored together with each page. So an interrupted copy goes on where it was, and a page
is restored twice only if the target did not answer. Payloads are copied as they are stored: encrypted ones need no key.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import sha256

import msgspec

from perdure.core.errors import MoveRefused, StoreError
from perdure.core.paths import QueueAddress
from perdure.service.store_comparison import content_pages, feed_of
from perdure.stores.change_feed import (
    ChangeFeed,
    RemovedBlob,
    RemovedExecution,
    RemovedMessage,
    RemovedRecord,
    Shipped,
    ShippedBlob,
    ShippedHead,
    ShippedItem,
    ShippedLimits,
    ShippedMessage,
    ShippedRecord,
    ShippedRow,
    no_feed_error,
)
from perdure.stores.protocol import QueueLimits, Store
from perdure.stores.secret_vault import VAULT, SealedValue

COPIED = {
    ShippedHead: "executions",
    ShippedRow: "rows",
    ShippedMessage: "messages",
    ShippedBlob: "blobs",
    ShippedLimits: "queues",
    ShippedRecord: "records",
}


MARKER_PREFIX = "copy-"


class CopyPosition(msgspec.Struct, frozen=True):
    """Up to where a store was copied: the position in the feed of the source, and the source's epoch, in which alone the position means something.

    `complete` says that the source is closed, and that the target has everything.
    """

    position: int
    epoch: int
    complete: bool = False


class CopyResult(msgspec.Struct, frozen=True):
    """The numbers of restored things. Things that changed during the copy are counted each time; `resumed` says that an earlier copy was continued."""

    executions: int
    rows: int
    messages: int
    blobs: int
    queues: int
    records: int
    secrets: int
    epoch: int
    resumed: bool


class StoreCopier:
    """Copies `source` into `target`, page by page. `progress` is called with the number of things restored by each page.

    `queues` are those of which messages were copied.
    """

    def __init__(self, source: Store, target: Store, source_name: str, progress: Callable[[int], object]) -> None:
        self._source, self._target, self._progress = source, target, progress
        self.feed, self.into, self.marker = feed_of(source, "FROM"), feed_of(target, "TO"), marker_of(source_name)
        self.counts = Counter[str]()
        self.secrets = self.position = self._epoch = 0
        self.resumed = False
        self.queues: set[QueueAddress] = set()

    async def begin(self) -> None:
        """Begins the feed of the source, or continues where an earlier copy was.

        If the feed was ended since, or the source was restored from a backup, what an earlier copy has restored may be gone from the source. It is removed,
        and so are limits of queues that the target has of its own.
        """
        self._epoch = (await self._source.store_time()).epoch
        stored = await stored_position(self._target, self.marker)
        self.resumed = stored is not None and stored.epoch == self._epoch and await has_feed(self.feed, stored.position)
        if stored is not None and self.resumed:
            self.position = stored.position
        else:
            await remove_everything(self._target)
            await self.feed.end_feed()
        await self.feed.begin_feed()

    async def copy_page(self) -> bool:
        """Restores one page; returns whether there is more."""
        page = await self.feed.shipped(self.position)
        if page.position > self.position or page.items:
            await self._restore(page)
        return page.more

    async def _restore(self, page: Shipped) -> None:
        await self.into.restore([*page.items, self.mark(page.position)])
        self.position = page.position
        await self.feed.trim_feed(page.position)
        self.counts.update(_counted(page.items))
        addresses = (item.message.to for item in page.items if isinstance(item, ShippedMessage))
        self.queues.update(to for to in addresses if isinstance(to, QueueAddress))
        self._progress(len(page.items))

    async def copy_secrets(self) -> None:
        """Copies the secrets as they are encrypted, and counts those that were not there."""
        self.secrets += await _copy_secrets(self._source, self._target)

    def mark(self, position: int, complete: bool = False) -> ShippedItem:
        """Returns the item that keeps the position in the target."""
        return ShippedBlob(self.marker, msgspec.msgpack.encode(CopyPosition(position, self._epoch, complete)))

    async def forget_position(self) -> None:
        """Removes the position from the target, and ends the feed of the source."""
        await self.into.restore([RemovedBlob(self.marker, None)])
        await self.feed.end_feed()

    def result(self, epoch: int) -> CopyResult:
        """Returns what was copied so far, into a store in this epoch."""
        return CopyResult(**{name: self.counts[name] for name in COPIED.values()}, secrets=self.secrets, epoch=epoch, resumed=self.resumed)


async def copy_store(source: Store, target: Store, source_name: str, progress: Callable[[int], object] = lambda _: None) -> CopyResult:
    """Copy everything in `source` into `target`, and begin a new epoch there. `progress` is called with the number of things restored by each page.

    The target is what the source was at the end of the copy, and both may be used from then on, as two databases: executions in progress go on in both.
    Engines may use the source meanwhile, but not the target. Interrupted, it is repeated with the same `source_name`, and continues. It takes over the
    change feed of the source, and ends it.

    Raises:
        BadValue: one of the stores has no change feed.
        MoveRefused: the target has something of its own.
    """
    copier = StoreCopier(source, target, source_name, progress)
    if await stored_position(target, copier.marker) is None:
        await check_empty(target)
    await copier.begin()
    while await copier.copy_page():
        pass
    await copier.copy_secrets()
    epoch = await target.raise_epoch()
    await copier.forget_position()
    return copier.result(epoch)


def marker_of(source_name: str) -> str:
    """The name of the blob with the position. It is no hash of its content, so nothing refers to it."""
    return MARKER_PREFIX + sha256(source_name.encode()).hexdigest()


async def stored_position(target: Store, marker: str) -> CopyPosition | None:
    """The position that an interrupted copy has reached; None if there was none."""
    stored = await target.blob(marker)
    return None if stored is None else msgspec.msgpack.decode(stored, type=CopyPosition)


async def has_feed(feed: ChangeFeed, position: int) -> bool:
    """Whether a feed that has shipped everything up to a position still exists, so that it has recorded what was removed since."""
    try:
        await feed.shipped(position, 1)
    except StoreError as error:
        if str(error) != str(no_feed_error()):
            raise
        return False
    return True


async def remove_everything(target: Store) -> None:
    """Removes from a store what a copy has restored, but for secrets. Interrupted, it is repeated."""
    into = feed_of(target, "TO")
    async for items in content_pages(target, "TO"):
        if removals := [removal for item in items if (removal := _removal_of(item)) is not None]:
            await into.restore(removals)


def _removal_of(item: ShippedItem) -> ShippedItem | None:
    match item:
        case ShippedHead():
            return RemovedExecution(item.head.key)
        case ShippedMessage():
            return RemovedMessage(item.message.to, item.message.key)
        case ShippedBlob() if not item.sha256.startswith(MARKER_PREFIX):
            return RemovedBlob(item.sha256, None)
        case RemovedBlob(removed_at_s=float()):
            return RemovedBlob(item.sha256, None)
        case ShippedRecord():
            return RemovedRecord(item.record.key)
        case ShippedLimits(limits=QueueLimits()):
            return ShippedLimits(item.queue, None, item.tenant)
        case _:
            return None


async def check_empty(target: Store) -> None:
    """Checks that a store has nothing of its own that a copy would mix with or replace. Limits of queues do not count: a copy replaces them.

    Raises:
        MoveRefused: it has.
    """
    found = Counter[str]()
    if heads := await target.heads():
        found["executions"] = len(heads)
    else:
        feed = feed_of(target, "TO")
        await feed.begin_feed()
        try:
            position, more = 0, True
            while more and not found:
                page = await feed.shipped(position)
                position, more = page.position, page.more
                found.update(name for name in _counted(page.items) if name != "queues")
        finally:
            await feed.end_feed()
    vault = target.part(VAULT)
    found["secrets"] = 0 if vault is None else len(await vault.read())
    if present := ", ".join(f"{number} {name}" for name, number in (+found).items()):
        raise MoveRefused(f"TO is not empty: it has {present} or more of its own. Copy into a database without executions, messages, records and secrets")


def _counted(items: Sequence[ShippedItem]) -> list[str]:
    return [name for item in items if (name := COPIED.get(type(item))) is not None]


async def _copy_secrets(source: Store, target: Store) -> int:
    """Copies the secrets as they are encrypted; returns how many were not there."""
    of, into = source.part(VAULT), target.part(VAULT)
    if of is None or into is None:
        return 0
    there = {(one.tenant, one.name): one for one in await into.read()}
    copied = 0
    for secret in await of.read():
        before = there.pop((secret.tenant, secret.name), None)
        if before is None or (before.version, before.sealed) != (secret.version, secret.sealed):
            versions = range(1 if before is None or before.version >= secret.version else before.version + 1, secret.version + 1)
            if before is not None and before.version >= secret.version:
                await into.drop(secret.tenant, secret.name)
            await _keep_versions(target, secret, versions)
            copied += 1
    for gone in there.values():  # of an earlier round
        await into.drop(gone.tenant, gone.name)
    return copied


async def _keep_versions(target: Store, secret: SealedValue, versions: range) -> None:
    """Stores a secret under its version, which a vault reaches one by one."""
    vault = target.part(VAULT)
    assert vault is not None, "its secrets were read"
    for version in versions:
        await vault.keep(secret.tenant, secret.name, version, secret.sealed)
