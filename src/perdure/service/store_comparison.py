"""Compares what two stores keep: heads, logs, messages, blobs, records, limits of queues and secrets.

What is stored must be the same bytes, since a copy moves payloads as they are stored. A log is folded as well, if it can be decoded here: that it is
readable, and leads to the version in its head, is then known of both sides, as two equal logs have one fold. Where the bytes differ, such as after a rekey
of one side, both are decoded and their events compared.

What a store has is listed by its change feed, in pages; nothing is held in memory but a page, and the messages of one queue at a time.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from perdure.core import log_format
from perdure.core.envelopes import QueuedMessage
from perdure.core.errors import BadValue, PerdureError, SealedPayload
from perdure.core.events import Event
from perdure.core.paths import Address, Key, QueueAddress
from perdure.core.replay import fold_events
from perdure.service.store_access import head_pages
from perdure.stores.change_feed import (
    CHANGE_FEED,
    ChangeFeed,
    RemovedBlob,
    RemovedMessage,
    RemovedRecord,
    ShippedBlob,
    ShippedHead,
    ShippedItem,
    ShippedMessage,
    ShippedRecord,
)
from perdure.stores.encoded_store import PayloadSealer
from perdure.stores.payload_codec import PayloadCodec
from perdure.stores.protocol import UNLIMITED, Head, HeadFilter, QueueLimits, QueueStatus, Store, StoredLog
from perdure.stores.records import RecordKey
from perdure.stores.secret_vault import VAULT

COMPARED_AT_A_TIME = 8
"""How many things are read from both stores at a time."""

HEAD_FIELDS = ("program", "root", "version", "status", "created_at_s", "ended_at_s", "queue", "lane", "priority", "attributes")
FREE_HEAD_FIELDS = ("wake_at_s", "message_at_s")
"""Compared if neither side has a holder: what is held is copied as free and awake."""

READ_ERRORS = (PerdureError, KeyError, ValueError, IndexError, AttributeError, TypeError)
"""The errors that reading and folding a damaged log can raise."""

StorePlaceKind = Literal["execution", "messages", "record", "large value", "queue", "secret"]


class StorePlace(NamedTuple):
    """Something that both stores have, or one of them: its kind, and its name in the store."""

    kind: StorePlaceKind
    name: Address | RecordKey | str

    def __str__(self) -> str:
        return str(self.name) if isinstance(self.name, str | Key | QueueAddress) else "/".join(self.name)


class StoreDifference(msgspec.Struct, frozen=True):
    """Something that is not the same in both stores, and in what it differs."""

    kind: StorePlaceKind
    name: str
    why: str


class ComparedCounts(msgspec.Struct):
    """How much was compared. Of the `executions`, the logs of `folded` were decoded and folded, with `events` events; those of `sealed` need a key.

    `unreadable` logs are the same on both sides, and can't be folded on either.
    """

    executions: int = 0
    folded: int = 0
    events: int = 0
    sealed: int = 0
    unreadable: int = 0
    messages: int = 0
    blobs: int = 0
    records: int = 0


def feed_of(store: Store, name: str) -> ChangeFeed:
    """Returns the change feed of a store.

    Raises:
        BadValue: it has none.
    """
    feed = store.part(CHANGE_FEED)
    if feed is None:
        raise BadValue(name, type(store).__name__, "a store with a change feed: a file, Postgres or memory:")
    return feed


def places_of(items: Iterable[ShippedItem]) -> list[StorePlace]:
    """Returns what items are about, each once.

    Rows belong to their execution. The limits of queues are compared as a whole, and the walk over all heads finds executions that were removed.
    """
    found: dict[StorePlace, None] = {}
    for item in items:
        match item:
            case ShippedHead():
                found[StorePlace("execution", item.head.key)] = None
            case ShippedMessage():
                found[StorePlace("messages", item.message.to)] = None
            case RemovedMessage():
                found[StorePlace("messages", item.to)] = None
            case ShippedBlob() | RemovedBlob():
                found[StorePlace("large value", item.sha256)] = None
            case ShippedRecord():
                found[StorePlace("record", item.record.key)] = None
            case RemovedRecord():
                found[StorePlace("record", item.key)] = None
    return [one for one in found if one.kind != "messages" or StorePlace("execution", one.name) not in found]


class StoreComparer:
    """Compares places of two stores, called `names` in what it reports. Payloads are decoded by `codec`, if they are encoded."""

    def __init__(self, first: Store, second: Store, names: tuple[str, str], codec: PayloadCodec | None = None) -> None:
        self._first, self._second, self._names = first, second, names
        self._sealer = None if codec is None else PayloadSealer(codec)
        self.counts = ComparedCounts()

    async def differences(self, places: Sequence[StorePlace]) -> dict[StorePlace, str]:
        """Compares places; returns those that differ, with the reason."""
        found: dict[StorePlace, str] = {}
        room = asyncio.Semaphore(COMPARED_AT_A_TIME)

        async def compare(place: StorePlace) -> None:
            async with room:
                if (why := await self._difference(place)) is not None:
                    found[place] = why

        await asyncio.gather(*map(compare, places))
        return found

    async def _difference(self, place: StorePlace) -> str | None:
        match place:
            case StorePlace("execution", Key() as key):
                return await self._execution_difference(key)
            case StorePlace("messages", Key() | QueueAddress() as address):
                return await self._messages_difference(address)
            case StorePlace("record", RecordKey() as key):
                self.counts.records += 1
                return self._unequal("the record", await self._first.record(key), await self._second.record(key))
            case StorePlace("large value", str(sha256)):
                self.counts.blobs += 1
                return self._unequal("its content", await self._first.blob(sha256), await self._second.blob(sha256))
            case _:
                raise AssertionError(place)

    def _unequal(self, what: str, first: object, second: object) -> str | None:
        if first == second:
            return None
        missing = [name for name, there in zip(self._names, (first, second), strict=True) if there is None]
        return f"it is not in {missing[0]}" if missing else f"{what} differs"

    async def _execution_difference(self, key: Key) -> str | None:
        first, second = await asyncio.gather(self._first.read(key), self._second.read(key))
        if first is None or second is None:
            return self._unequal("", first, second) or await self._messages_difference(key)
        found = self.head_difference(first.head, second.head) or self._log_difference(first, second)
        has_no_messages = all(head.holder is None and head.message_at_s is None for head in (first.head, second.head))
        return found or (None if has_no_messages else await self._messages_difference(key))

    def head_difference(self, first: Head, second: Head) -> str | None:
        """Returns in what two heads of one execution differ."""
        fields = HEAD_FIELDS if first.holder or second.holder else (*HEAD_FIELDS, *FREE_HEAD_FIELDS)
        for name in fields:
            one, other = getattr(first, name), getattr(second, name)
            if one != other:
                return f"its {name} is {one} in {self._names[0]} and {other} in {self._names[1]}"
        return None

    def _log_difference(self, first: StoredLog, second: StoredLog) -> str | None:
        if first.rows == second.rows:
            self._fold(first)
            return None
        versions = [row.version for row, there in zip(first.rows, second.rows, strict=False) if row != there]
        differ = f"its log differs {f'at version {versions[0]}' if versions else 'in its length'}"
        try:
            one, other = self._events(first), self._events(second)
        except READ_ERRORS:
            return f"{differ}; it can't be decoded here, so its bytes were compared"
        if one != other:
            return f"{differ}: {len(one)} events in {self._names[0]}, {len(other)} in {self._names[1]}"
        self._fold(first)
        return None

    def _events(self, log: StoredLog) -> list[Event]:
        return log_format.decode_rows((log if self._sealer is None else self._sealer.log(log, 0)).payloads)

    def _fold(self, log: StoredLog) -> None:
        try:
            events = self._events(log)
            if fold_events(log.head.key, events, log.head.root).version == log.head.version:
                self.counts.folded += 1
                self.counts.events += len(events)
            else:
                self.counts.unreadable += 1
        except SealedPayload:
            self.counts.sealed += 1
        except READ_ERRORS:
            self.counts.unreadable += 1

    async def _messages_difference(self, address: Address) -> str | None:
        first, second = await asyncio.gather(self._first.messages(address), self._second.messages(address))
        self.counts.messages += len(second)
        if [*map(_content, first)] == [*map(_content, second)]:
            return None
        keys, others = ({one.key: one for one in messages} for messages in (first, second))
        for names, (having, lacking) in ((self._names[1], (keys, others)), (self._names[0], (others, keys))):
            if missing := having.keys() - lacking.keys():
                return f"its message {min(missing)} is not in {names}"
        changed = [key for key in keys if _content(keys[key]) != _content(others[key])]
        return f"its message {changed[0]} differs" if changed else "its messages have another order"

    async def head_walk(self) -> dict[StorePlace, str]:
        """Compares all heads, and finds executions that only one store has. It reads no logs."""
        found: dict[StorePlace, str] = {}
        counted = 0
        self.counts.executions = 0
        async for page in head_pages(self._first, HeadFilter()):
            self.counts.executions += len(page)
            keys = tuple(head.key for head in page)
            there = {head.key: head for head in await self._second.heads(HeadFilter(keys=keys, limit=len(keys)))}
            counted += len(there)
            for head in page:
                other = there.get(head.key)
                why = f"it is not in {self._names[1]}" if other is None else self.head_difference(head, other)
                if why is not None:
                    found[StorePlace("execution", head.key)] = why
        of_second = 0
        async for page in head_pages(self._second, HeadFilter()):
            of_second += len(page)
        return found if of_second == counted else found | await self._only_in_second()

    async def _only_in_second(self) -> dict[StorePlace, str]:
        found: dict[StorePlace, str] = {}
        async for page in head_pages(self._second, HeadFilter()):
            keys = tuple(head.key for head in page)
            there = {head.key for head in await self._first.heads(HeadFilter(keys=keys, limit=len(keys)))}
            found |= {StorePlace("execution", key): f"it is not in {self._names[0]}" for key in keys if key not in there}
        return found

    async def shared_differences(self) -> dict[StorePlace, str]:
        """Compares the limits of queues, and secrets as they are encrypted, with their versions."""
        limits, others = [_limits(await store.queues()) for store in (self._first, self._second)]
        secrets, kept = [await _secrets(store) for store in (self._first, self._second)]
        return self._map_differences("queue", limits, others) | self._map_differences("secret", secrets, kept)

    def _map_differences(self, kind: StorePlaceKind, first: Mapping[str, object], second: Mapping[str, object]) -> dict[StorePlace, str]:
        names = sorted({name for name, _ in (first.items() ^ second.items())})
        what = "its limits" if kind == "queue" else "its version or its encrypted value"
        return {StorePlace(kind, name): self._unequal(what, first.get(name), second.get(name)) or "" for name in names}


def _content(message: QueuedMessage) -> QueuedMessage:
    return msgspec.structs.replace(message, number=0)


def _limits(queues: Iterable[QueueStatus]) -> dict[str, QueueLimits]:
    """Returns the limits of queues, each for all tenants or for one. A queue without limits is listed if something waits in it."""
    return {
        one.name if one.tenant is None else f"{one.name} of {one.tenant}": one.limits for one in queues if one.tenant is not None or one.limits != UNLIMITED
    }


async def _secrets(store: Store) -> dict[str, tuple[int, bytes]]:
    vault = store.part(VAULT)
    return {f"{one.name} of {one.tenant}": (one.version, one.sealed) for one in ([] if vault is None else await vault.read())}


class StoreComparison(msgspec.Struct, frozen=True):
    """What a comparison of two stores has found: how much was compared in how many seconds, and what differs."""

    counts: ComparedCounts
    seconds: float
    differences: list[StoreDifference]


def named_differences(found: Mapping[StorePlace, str]) -> list[StoreDifference]:
    """Returns differences as they are shown, in order of kind and name."""
    return sorted((StoreDifference(place.kind, str(place), why) for place, why in found.items()), key=lambda one: (one.kind, one.name))


async def content_pages(store: Store, name: str) -> AsyncIterator[tuple[ShippedItem, ...]]:
    """Yields everything that a store keeps, in pages of its change feed, which is ended before and after.

    Raises:
        BadValue: the store has no change feed.
    """
    feed = feed_of(store, name)
    await feed.end_feed()
    await feed.begin_feed()
    try:
        position, more = 0, True
        while more:
            page = await feed.shipped(position)
            yield page.items
            await feed.trim_feed(page.position)
            position, more = page.position, page.more
    finally:
        await feed.end_feed()


async def compare_stores(comparer: StoreComparer, first: Store, second: Store, progress: Callable[[int], object] = lambda _: None) -> StoreComparison:
    """Compares everything in two stores that nobody changes meanwhile. `progress` is called with the number of things compared by each page.

    It takes over the change feeds of both, and ends them: a copy that was interrupted then ships everything again.

    Raises:
        BadValue: one of the stores has no change feed.
    """
    began_s, found, compared = time.monotonic(), dict[StorePlace, str](), set[StorePlace]()
    for store, name, is_second in ((second, "B", True), (first, "A", False)):
        async for items in content_pages(store, name):
            places = [one for one in places_of(items) if one.kind != "execution" or is_second]  # the walk finds those that only A has
            found |= await comparer.differences([one for one in places if not _is_queue(one)])
            queues = {one for one in places if _is_queue(one)} - compared
            compared |= queues
            found |= await comparer.differences(sorted(queues))
            progress(len(items))
    found |= await comparer.head_walk() | await comparer.shared_differences()
    return StoreComparison(comparer.counts, time.monotonic() - began_s, named_differences(found))


def _is_queue(place: StorePlace) -> bool:
    return isinstance(place.name, QueueAddress)


class CopyVerification:
    """Compares a copy with its source while the copy is still kept up to date; what changes afterwards is compared again, and nothing else.

    The change feed of the copy lists what has to be compared: first everything, then what later pages have restored. So the last comparison, for which the
    source does not change any more, takes as long as there was to do since the one before, and a walk over all heads.
    """

    def __init__(self, comparer: StoreComparer, target: Store, marker: str) -> None:
        self._comparer, self._feed, self._ignored = comparer, feed_of(target, "TO"), StorePlace("large value", marker)
        self._position = 0
        self._open: dict[StorePlace, str] = {}
        self._queues: set[StorePlace] = set()

    async def begin(self) -> None:
        """Begins the change feed of the copy, with everything in it."""
        await self._feed.end_feed()
        await self._feed.begin_feed()

    async def advance(self, progress: Callable[[int], object]) -> None:
        """Compares what was restored since the last call, or since the beginning. What differs, because the source goes on, is compared again at the end."""
        while True:
            page = await self._feed.shipped(self._position)
            places = [one for one in places_of(page.items) if one != self._ignored]
            self._queues |= {one for one in places if _is_queue(one)}
            now = [one for one in places if not _is_queue(one)]
            differing = await self._comparer.differences(now)
            self._open = {place: why for place, why in self._open.items() if place not in now} | differing
            await self._feed.trim_feed(page.position)
            self._position = page.position
            progress(len(now))
            if not page.more:
                return

    async def complete(self, queues: Iterable[Address], progress: Callable[[int], object]) -> list[StoreDifference]:
        """Compares the rest, of a source that does not change any more: what was restored since, all heads, limits, secrets and what `queues` hold."""
        await self.advance(progress)
        places = [*self._open, *sorted(self._queues | {StorePlace("messages", queue) for queue in queues})]
        found = await self._comparer.differences(places)
        found |= await self._comparer.head_walk() | await self._comparer.shared_differences()
        return named_differences(found)

    async def end(self) -> None:
        """Ends the change feed of the copy."""
        await self._feed.end_feed()
