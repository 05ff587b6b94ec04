"""The tests of the change feed and of restoring: what is shipped and restored elsewhere is the same store."""

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from perdure.core.attribute_filter import AttributeOrder
from perdure.core.attributes import IndexedAttributes
from perdure.core.envelopes import Ack
from perdure.core.errors import StoreError
from perdure.core.paths import Address
from perdure.stores.blob_marks import blob_removal_of
from perdure.stores.change_feed import (
    CHANGE_FEED,
    ChangeFeed,
    RemovedBlob,
    RemovedExecution,
    RemovedMessage,
    RemovedRecord,
    ShippedBlob,
    ShippedHead,
    ShippedItem,
    ShippedLimits,
    ShippedMessage,
    ShippedRecord,
    ShippedRow,
)
from perdure.stores.memory import MemoryStore
from perdure.stores.protocol import UNLIMITED, Commit, Committed, Head, HeadFilter, Post, QueueLimits, QueueStatus, Store
from perdure.stores.records import RecordChange, RecordFilter, RecordKey
from perdure.testing.conformance.store_world import Clock, StoreWorld, key, plain_message, queue, start_message

COLOUR: IndexedAttributes = (("colour", b"sred"),)
NOTES = RecordFilter("acme", "note", limit=100_000)


def feed_of(store: Store) -> ChangeFeed:
    """Returns the change feed of a store; the test is skipped if it has none."""
    feed = store.part(CHANGE_FEED)
    if feed is None:
        pytest.skip("this store has no change feed")
    return feed


async def copy_changes(source: Store, target: Store, after: int = 0, limit: int = 3) -> int:
    """Restores in `target` what has changed in `source` since the position `after`; returns the new position."""
    while True:
        page = await feed_of(source).shipped(after, limit)
        assert page.position > after or not page.items
        after = page.position
        await feed_of(target).restore(page.items)
        if not page.more:
            return after


def free_head(head: Head, now_s: float) -> Head:
    """Returns a head as it is where it was restored: without a holder, and awake if it had one. Times that have come are one."""
    wake_at_s = now_s if head.holder is not None else head.wake_at_s
    times_s = [max(at_s, now_s) for at_s in (wake_at_s, head.message_at_s) if at_s is not None]
    return replace(head, holder=None, wake_at_s=min(times_s, default=None), message_at_s=None)


def note(name: str, version: int = 0, value: bytes | None = b"note", attributes: IndexedAttributes = COLOUR, expires_at_s: float | None = None) -> Post:
    """Returns the post that changes a record."""
    return Post(records=(RecordChange(RecordKey("acme", "note", name), version, value, attributes, expires_at_s),))


async def contents(store: Store, addresses: Iterable[Address], blobs: Iterable[str] = (), records: Iterable[RecordFilter] = (NOTES,)) -> dict[object, object]:
    """Returns everything that a copy of a store must have."""
    now_s = (await store.store_time()).now_s
    heads = {head.key: free_head(head, now_s) for head in await store.heads(HeadFilter(limit=100_000))}
    logs = {of: log and log.rows for of in heads for log in [await store.read(of)]}
    boxes: dict[object, object] = {to: [replace(one, number=0) for one in await store.messages(to)] for to in (*heads, *addresses)}
    kept = {name: (await store.blob(name), await store.removed_at(name)) for name in blobs}
    limits = {(one.name, one.tenant): one.limits for one in await store.queues()}
    documents = [record for which in records for record in await store.records(which)]
    return {"heads": heads, "logs": logs, "messages": boxes, "blobs": kept, "limits": limits, "records": documents}


def names(items: Iterable[ShippedItem]) -> list[object]:
    """Returns what items are about."""
    return [_name(item) for item in items]


def _name(item: ShippedItem) -> object:
    match item:
        case ShippedHead():
            return item.head.key.id
        case ShippedRow():
            return f"{item.key.id}@{item.row.version}"
        case ShippedMessage():
            return f"{item.message.to}:{item.message.key}"
        case ShippedBlob():
            return "blob"
        case ShippedLimits():
            return item.queue
        case ShippedRecord():
            return f"{item.record.key.key}@{item.record.version}"
        case RemovedRecord():
            return f"-{item.key.key}"
        case RemovedExecution():
            return f"-{item.key.id}"
        case RemovedMessage():
            return f"-{item.to}:{item.key}"
        case RemovedBlob():
            return "-blob"


class FeedSuite:
    """See the module."""

    async def make_other(self, clock: Clock) -> Store:
        """Creates the store that is copied to and from."""
        return MemoryStore(clock)

    async def test_a_feed_that_has_not_begun_cannot_be_read(self, world: StoreWorld) -> None:
        feed = feed_of(world.store)
        with pytest.raises(StoreError, match="begin_feed"):
            await feed.shipped(0)
        await feed.end_feed()
        await feed.trim_feed(10)
        await feed.begin_feed()
        assert await self._drained(feed) == 0
        await feed.end_feed()
        with pytest.raises(StoreError, match="begin_feed"):
            await feed.shipped(0)

    @pytest.mark.parametrize("limit", [1, 2, 100])
    async def test_everything_that_is_there_is_shipped_and_what_changes_later(self, world: StoreWorld, limit: int) -> None:
        other = await self.make_other(world.clock)
        boxes: list[Address] = [key("alone"), queue()]
        await self._some_work(world)
        await feed_of(world.store).begin_feed()
        at = await copy_changes(world.store, other, limit=limit)
        assert await contents(other, boxes, "ab") == await contents(world.store, boxes, "ab")
        await world.commit(key("1"), 2, row=b"third", attributes=(("size", b"n\xc0\0"),))
        await world.commit(key("2"), 1, compacted=b"", row=b"all of it", release=True, wake_at_s=world.clock.now_s + 5)
        await world.post(plain_message(queue(), "later"), acks=[Ack(key("alone"), "letter")])
        await world.store.limit("slow", QueueLimits(concurrency=7))
        await world.store.limit("fast", None)
        await world.change(note("kept", 1, b"changed", ()), note("new"))
        at = await copy_changes(world.store, other, at, limit)
        assert await contents(other, boxes, "ab") == await contents(world.store, boxes, "ab")
        assert (await feed_of(world.store).shipped(at)).items == ()

    async def _some_work(self, world: StoreWorld) -> None:
        await world.renew("one")
        await world.open(key("1"), key("2"), key("3"))
        await world.claim("one", limit=2)
        await world.commit(key("1"), row=b"first", acks=(Ack(key("1"), "start"),), blobs=(("a", b"blob a"),))
        await world.commit(key("1"), 1, row=b"second", attributes=COLOUR, messages=(plain_message(queue(), "task"),))
        await world.commit(key("2"), row=b"only", release=True, acks=(Ack(key("2"), "start"),), wake_at_s=world.clock.now_s + 100)
        await world.post(plain_message(key("alone")), plain_message(queue(), "due", due_at_s=world.clock.now_s + 50))
        await world.work("one")
        await world.store.limit("slow", QueueLimits(concurrency=2, per_lane=1, interval_s=0.5, burst=3, declared="x"))
        await world.store.limit("fast", QueueLimits())
        await world.change(note("kept"), note("short", expires_at_s=world.clock.now_s + 10))

    async def test_each_thing_is_shipped_once_and_as_it_is_now(self, world: StoreWorld) -> None:
        feed = feed_of(world.store)
        await feed.begin_feed()
        at = await self._drained(feed)
        await world.commit(key("1"), creates=True, row=b"1", messages=(plain_message(queue(), "task"),))
        await world.commit(key("1"), 1, row=b"2", blobs=(("a", b"a"),))
        await world.change(Post(epoch=world.epoch, acks=(Ack(queue(), "task"),)))
        page = await feed.shipped(at)
        assert sorted(map(str, names(page.items))) == sorted(["1@1", "1@2", "1", "blob", f"-{queue()}:task"])
        assert [item.head.version for item in page.items if isinstance(item, ShippedHead)] == [2]
        shown = names(page.items)
        assert shown.index("blob") < shown.index("1@2") < shown.index("1") and not page.more
        await world.commit(key("1"), 2, row=b"3")
        again = await feed.shipped(page.position)
        assert names(again.items) == ["1@3", "1"] and again.position > page.position
        assert set(map(str, names((await feed.shipped(at)).items))) == {"1@1", "1@2", "1@3", "1", "blob", f"-{queue()}:task"}

    async def _drained(self, feed: ChangeFeed) -> int:
        page = await feed.shipped(0)
        while page.more:
            page = await feed.shipped(page.position)
        return page.position

    async def test_beginning_again_does_nothing_and_positions_only_grow(self, world: StoreWorld) -> None:
        feed = feed_of(world.store)
        await world.open(key())
        await feed.begin_feed()
        at = await self._drained(feed)
        await feed.begin_feed()
        assert (await feed.shipped(at)).items == ()
        await feed.end_feed()
        await feed.begin_feed()
        page = await feed.shipped(at)
        while page.more:
            assert page.position >= at
            page = await feed.shipped(page.position)
        assert await self._drained(feed) > at

    async def test_what_is_trimmed_is_not_shipped_again_until_it_changes(self, world: StoreWorld) -> None:
        feed = feed_of(world.store)
        await world.open(key("1"), key("2"))
        await feed.begin_feed()
        at = await self._drained(feed)
        await feed.trim_feed(at)
        assert (await feed.shipped(0)).items == ()
        await world.commit(key("2"), acks=(Ack(key("2"), "start"),))
        assert names((await feed.shipped(0)).items)[-1] in ("2", f"-{key('2')}:start")
        await feed.trim_feed(0)
        assert len((await feed.shipped(0)).items) == 3

    async def test_what_is_removed_is_removed_elsewhere(self, world: StoreWorld) -> None:
        other = await self.make_other(world.clock)
        await world.commit(key("1"), creates=True, row=b"1", attributes=COLOUR, messages=(plain_message(key("1")), plain_message(queue())))
        await world.commit(key("2"), creates=True, row=b"1")
        await world.change(Post(blobs=(("a", b"a"), ("b", b"b"))))
        await feed_of(world.store).begin_feed()
        at = await copy_changes(world.store, other)
        await world.commit(key("1"), 1, forgets=True, count=0, row=b"")
        await blob_removal_of(world.store).mark("sweep")
        await blob_removal_of(world.store).remove("sweep", ["a"])
        await blob_removal_of(world.store).keep(["b"])
        await world.post(acks=[Ack(queue(), "letter")])
        at = await copy_changes(world.store, other, at)
        assert await contents(other, [queue(), key("1")], "ab") == await contents(world.store, [queue(), key("1")], "ab")
        assert await other.read(key("1")) is None and await other.messages(key("1")) == []
        await world.change(Post(blobs=(("a", b"a"),)))
        await copy_changes(world.store, other, at)
        assert await other.blob("a") is not None and await other.removed_at("a") is None

    async def test_records_are_shipped_with_their_versions_and_go_when_they_are_removed_or_dropped(self, world: StoreWorld) -> None:
        feed, other = feed_of(world.store), await self.make_other(world.clock)
        await world.change(note("a"), note("a", 1, b"second"), note("b"), note("c", expires_at_s=world.clock.now_s + 5))
        await feed.begin_feed()
        at = await copy_changes(world.store, other, limit=1)
        assert await contents(other, []) == await contents(world.store, [])
        world.clock.advance(5)
        await world.change(note("a", 2, b"third", (("size", b"n"),)), note("b", 1, None))
        assert names((await feed.shipped(at)).items) == ["a@3", "-b"]
        assert await world.store.drop_expired_records() == 1
        page = await feed.shipped(at)
        assert names(page.items) == ["a@3", "-b", "-c"]
        for _ in range(2):
            await feed_of(other).restore(page.items)
            assert await contents(other, []) == await contents(world.store, [])
        assert await other.drop_expired_records() == 0
        red, sized = (RecordFilter("acme", "note", order=AttributeOrder(name)) for name in ("colour", "size"))
        assert [one.key.key for one in await other.records(sized)] == ["a"] and await other.records(red) == []
        assert [type(one) for one in await other.commit([note("a", 3), note("b", 0)])] == [Committed, Committed]

    async def test_an_execution_that_was_removed_and_created_anew_has_nothing_of_the_old(self, world: StoreWorld) -> None:
        other = await self.make_other(world.clock)
        await world.commit(key(), creates=True, row=b"three", count=3)
        await world.commit(key(), 3, row=b"five", count=2, attributes=COLOUR)
        await feed_of(world.store).begin_feed()
        at = await copy_changes(world.store, other)
        await world.commit(key(), 5, forgets=True, count=0, row=b"")
        await world.commit(key(), creates=True, row=b"two", count=2)
        await world.commit(key(), 2, row=b"five again", count=3)
        await copy_changes(world.store, other, at)
        log = await other.read(key())
        assert log is not None and [row.version for row in log.rows] == [2, 5] and log.head.attributes == ()
        assert await contents(other, []) == await contents(world.store, [])

    async def test_what_a_store_has_of_another_execution_of_the_key_is_replaced(self, world: StoreWorld) -> None:
        other = await self.make_other(world.clock)
        source = StoreWorld(other, world.clock, (await other.store_time()).epoch)
        await source.commit(key(), creates=True, row=b"two", count=2)
        await source.commit(key(), 2, row=b"five", count=3)
        await world.commit(key(), creates=True, row=b"three", count=3)
        await world.commit(key("mine"), creates=True, row=b"mine")
        await feed_of(other).begin_feed()
        await copy_changes(other, world.store)
        assert await world.versions(key()) == [2, 5] and await world.versions(key("mine")) == [1]

    async def test_a_log_and_its_head_change_together(self, world: StoreWorld) -> None:
        other = await self.make_other(world.clock)
        source = StoreWorld(other, world.clock, (await other.store_time()).epoch)
        await source.commit(key(), creates=True, row=b"1")
        await feed_of(other).begin_feed()
        at = await copy_changes(other, world.store)
        await source.commit(key(), 1, row=b"2")
        await source.commit(key(), 2, compacted=b"1 and 2", row=b"3")
        page = await feed_of(other).shipped(at)
        head = page.items[-1]
        assert isinstance(head, ShippedHead) and head.first_version == 2
        for _ in range(2):
            await feed_of(world.store).restore(page.items[:-1])
            assert await world.versions(key()) == [1] and (await world.head(key())).version == 1
        for _ in range(2):
            await feed_of(world.store).restore(page.items)
            assert await world.versions(key()) == [2, 3] and (await world.head(key())).version == 3
        await source.commit(key(), 3, row=b"4")
        await copy_changes(other, world.store, page.position)
        assert await world.rows(key()) == await source.rows(key())

    @pytest.mark.parametrize("limit", [1, 2, 5])
    async def test_each_log_is_whole_after_each_page_though_it_grows_meanwhile(self, world: StoreWorld, limit: int) -> None:
        other = await self.make_other(world.clock)
        for id in "12":
            await world.commit(key(id), creates=True, row=b"1")
        await feed_of(world.store).begin_feed()
        at, version, more = 0, 1, True
        while more:
            page = await feed_of(world.store).shipped(at, limit)
            at, more = page.position, page.more
            await feed_of(other).restore(page.items)
            for head in await other.heads():
                log = await other.read(head.key)
                assert log is not None and [row.version for row in log.rows] == [*range(1, head.version + 1)]
            if version < 8:
                more = isinstance(await world.commit(key("1"), version, row=b"more", blobs=((f"blob {version}", b""),)), Committed)
                version += 1
        assert await contents(other, []) == await contents(world.store, [])

    async def test_what_was_held_is_free_and_awake_in_the_next_epoch(self, world: StoreWorld) -> None:
        other = await self.make_other(world.clock)
        source = StoreWorld(other, world.clock, (await other.store_time()).epoch)
        await source.renew("engine")
        await source.open(key("held"))
        await source.claim("engine")
        await source.commit(key("held"), holder="engine", acks=(Ack(key("held"), "start"),))
        await source.parked(key("asleep"), holder="engine", wake_at_s=world.clock.now_s + 100)
        await source.post(plain_message(queue(), "leased"))
        assert [message.deliveries for message in await source.work("engine")] == [1]
        await feed_of(other).begin_feed()
        await copy_changes(other, world.store)
        world.epoch = await world.store.raise_epoch()
        await world.renew("here")
        assert await world.claimed("here") == [key("held")]
        assert [message.deliveries for message in await world.work("here")] == [2]
        world.clock.advance(100)
        await world.renew("here")
        assert await world.claimed("here") == [key("asleep")]

    async def test_messages_keep_their_order_whenever_they_are_restored(self, world: StoreWorld) -> None:
        other = await self.make_other(world.clock)
        source = StoreWorld(other, world.clock, (await other.store_time()).epoch)
        await source.post(*(plain_message(key(), letter) for letter in "abcd"))
        await feed_of(other).begin_feed()
        pages = [await self._drained(feed_of(other))]
        await source.change(Post(acks=(Ack(key(), "b", postpone_to_s=world.clock.now_s + 5),)))
        pages.append(await copy_changes(other, world.store, limit=1))
        assert await world.keys(key()) == ["a", "b", "c", "d"] and pages[1] > pages[0]
        await copy_changes(other, world.store, limit=2)
        assert await world.keys(key()) == ["a", "b", "c", "d"]
        await world.post(plain_message(key(), "own"))
        assert await world.keys(key()) == ["a", "b", "c", "d", "own"]
        await source.change(Post(messages=(plain_message(key(), "b"),), acks=(Ack(key(), "b"),)))
        await copy_changes(other, world.store, pages[1])
        kept = await world.keys(key())
        assert sorted(kept) == ["a", "b", "c", "d", "own"] and kept.index("a") < kept.index("c") < kept.index("d") < kept.index("b")

    async def test_a_message_whose_number_is_taken_comes_behind_the_others(self, world: StoreWorld) -> None:
        await world.post(plain_message(key(), "own"))
        (own,) = await world.store.messages(key())
        other = await self.make_other(world.clock)
        await other.commit([Post(messages=(plain_message(key("other"), "restored"),))])
        await feed_of(other).begin_feed()
        await self._drained(feed_of(other))
        (item,) = (await feed_of(other).shipped(0)).items
        assert isinstance(item, ShippedMessage)
        restored = replace(item.message, number=own.number)
        for _ in range(2):
            await feed_of(world.store).restore([ShippedMessage(restored)])
            (found,) = await world.store.messages(key("other"))
            assert found.number > own.number and await world.keys(key()) == ["own"]

    async def test_restored_attributes_and_queues_are_used(self, world: StoreWorld) -> None:
        other = await self.make_other(world.clock)
        source = StoreWorld(other, world.clock, (await other.store_time()).epoch)
        await other.limit("slow", QueueLimits(concurrency=1))
        for id in "12":
            start = start_message(key(id), attributes=COLOUR)
            assert start.opens is not None
            await source.post(replace(start, opens=replace(start.opens, queue="slow", lane=id)))
        await feed_of(other).begin_feed()
        await copy_changes(other, world.store)
        world.epoch = await world.store.raise_epoch()
        await world.renew("here")
        assert len(await world.claimed("here")) == 1
        assert {head.key: (head.attributes, head.lane) for head in await world.store.heads()} == {key(id): (COLOUR, id) for id in "12"}

    async def test_restored_limits_of_a_tenant_apply_to_what_was_restored_before_and_after(self, world: StoreWorld) -> None:
        other = await self.make_other(world.clock)
        try:
            await world.store.limit("nothing", None, "acme")
        except StoreError:
            pytest.skip("this store keeps limits for all tenants together")
        await other.limit("pay", QueueLimits(concurrency=1), "acme")
        source = StoreWorld(other, world.clock, (await other.store_time()).epoch)
        await source.post(*(plain_message(queue("pay", tenant), f"{tenant}{number}") for number in range(2) for tenant in ("acme", "b")))
        await feed_of(other).begin_feed()
        at = await copy_changes(other, world.store)
        world.epoch = await world.store.raise_epoch()
        await world.renew("here")
        assert [message.key for message in await world.work("here", tenants=frozenset({"acme"}))] == ["acme0"]
        assert sorted(message.key for message in await world.work("here")) == ["b0", "b1"]
        await other.limit("pay", None, "acme")
        await copy_changes(other, world.store, at)
        assert [message.key for message in await world.work("here")] == ["acme1"]
        assert await world.store.queues() == [QueueStatus("pay", UNLIMITED, 0, 4)]

    async def test_a_restored_store_has_a_feed_of_what_was_restored(self, world: StoreWorld) -> None:
        other, third = await self.make_other(world.clock), await self.make_other(world.clock)
        await self._some_work(world)
        await feed_of(world.store).begin_feed()
        await feed_of(other).begin_feed()
        at = await copy_changes(world.store, other)
        place = await copy_changes(other, third)
        await world.commit(key("1"), 2, compacted=b"both", row=b"third")
        await copy_changes(world.store, other, at)
        await copy_changes(other, third, place)
        assert await contents(third, [queue()], "a") == await contents(world.store, [queue()], "a")

    async def test_a_change_of_the_older_epoch_is_refused_after_the_restore(self, world: StoreWorld) -> None:
        other = await self.make_other(world.clock)
        source = StoreWorld(other, world.clock, (await other.store_time()).epoch)
        await source.commit(key(), creates=True, row=b"1")
        await feed_of(other).begin_feed()
        await copy_changes(other, world.store)
        epoch = await world.store.raise_epoch()
        stale: Commit = source.decision(key(), 1)
        answers = await world.store.commit([replace(stale, epoch=epoch - 1), replace(stale, epoch=epoch)])
        assert [type(answer).__name__ for answer in answers] == ["Superseded", "Committed"]
