"""Copies a whole store into another one by its change feed.

The position is kept in the target, as a blob that is restored together with each page. So an interrupted copy goes on where it was, and a page
is restored twice only if the target did not answer. Payloads are copied as they are stored: encrypted ones need no key.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import sha256

import msgspec

from perdure.core.errors import BadValue
from perdure.stores.change_feed import (
    CHANGE_FEED,
    ChangeFeed,
    RemovedBlob,
    Shipped,
    ShippedBlob,
    ShippedHead,
    ShippedItem,
    ShippedLimits,
    ShippedMessage,
    ShippedRecord,
    ShippedRow,
)
from perdure.stores.protocol import Store
from perdure.stores.secret_vault import VAULT, SealedValue

COPIED = {
    ShippedHead: "executions",
    ShippedRow: "rows",
    ShippedMessage: "messages",
    ShippedBlob: "blobs",
    ShippedLimits: "queues",
    ShippedRecord: "records",
}


class CopyPosition(msgspec.Struct, frozen=True):
    """Up to where a store was copied: the position in the feed of the source, and the source's epoch, in which alone the position means something."""

    position: int
    epoch: int


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


async def copy_store(source: Store, target: Store, source_name: str, progress: Callable[[int], object] = lambda _: None) -> CopyResult:
    """Copy everything in `source` into `target`, and begin a new epoch there. `progress` is called with the number of things restored by each page.

    The target is what the source was at the end of the copy. Engines may use the source meanwhile, but not the target. Interrupted, it is repeated with
    the same `source_name`, and continues. It takes over the change feed of the source, and ends it.

    Raises:
        BadValue: one of the stores has no change feed.
    """
    feed, into, marker = _feed_of(source, "FROM"), _feed_of(target, "TO"), _marker(source_name)
    epoch = (await source.store_time()).epoch
    begun = await _position(target, marker, epoch)
    if begun is None:
        await feed.end_feed()
    await feed.begin_feed()
    position, counts = begun or 0, Counter[str]()
    while True:
        page = await feed.shipped(position)
        position = page.position
        await into.restore([*page.items, _mark(marker, page, epoch)])
        await feed.trim_feed(position)
        counts.update(_counted(page.items))
        progress(len(page.items))
        if not page.more:
            break
    secrets = await _copy_secrets(source, target)
    new_epoch = await target.raise_epoch()
    await into.restore([RemovedBlob(marker, None)])
    await feed.end_feed()
    return CopyResult(**{name: counts[name] for name in COPIED.values()}, secrets=secrets, epoch=new_epoch, resumed=begun is not None)


def _feed_of(store: Store, name: str) -> ChangeFeed:
    feed = store.part(CHANGE_FEED)
    if feed is None:
        raise BadValue(name, type(store).__name__, "a store with a change feed: a file, Postgres or memory:")
    return feed


def _marker(source_name: str) -> str:
    """The name of the blob with the position. It is no hash of its content, so nothing refers to it."""
    return "copy-" + sha256(source_name.encode()).hexdigest()


def _mark(marker: str, page: Shipped, epoch: int) -> ShippedItem:
    return ShippedBlob(marker, msgspec.msgpack.encode(CopyPosition(page.position, epoch)))


async def _position(target: Store, marker: str, epoch: int) -> int | None:
    """The position that an interrupted copy has reached; None if there was none, or the source was restored from a backup since."""
    stored = await target.blob(marker)
    if stored is None:
        return None
    found = msgspec.msgpack.decode(stored, type=CopyPosition)
    return found.position if found.epoch == epoch else None


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
        before = there.get((secret.tenant, secret.name))
        if before is None or (before.version, before.sealed) != (secret.version, secret.sealed):
            versions = range(1 if before is None or before.version >= secret.version else before.version + 1, secret.version + 1)
            if before is not None and before.version >= secret.version:
                await into.drop(secret.tenant, secret.name)
            await _keep_versions(target, secret, versions)
            copied += 1
    return copied


async def _keep_versions(target: Store, secret: SealedValue, versions: range) -> None:
    """Stores a secret under its version, which a vault reaches one by one."""
    vault = target.part(VAULT)
    assert vault is not None, "its secrets were read"
    for version in versions:
        await vault.keep(secret.tenant, secret.name, version, secret.sealed)
