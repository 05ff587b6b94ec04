"""A whole store is copied: everything is there, also after the copy was killed at any moment, and an engine goes on with it in a new epoch."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from perdure import Context, step, step_info, workflow
from perdure.core.envelopes import Ack
from perdure.core.errors import BadValue, MoveRefused, StoreUnavailable
from perdure.core.paths import Address
from perdure.service.store_copies import copy_store
from perdure.stores.change_feed import CHANGE_FEED, ShippedItem
from perdure.stores.memory import MemoryStore
from perdure.stores.memory_feed import MemoryChangeFeed
from perdure.stores.protocol import Post, Store
from perdure.stores.secret_vault import VAULT
from perdure.stores.sqlite.read_only_store import ReadOnlySqliteStore
from perdure.stores.sqlite.store import SqliteStore
from perdure.testing.conformance import Clock, StoreWorld
from perdure.testing.conformance.feed_suite import contents, note
from perdure.testing.conformance.store_world import key, plain_message, queue
from tests.runtime.cluster import Cluster
from tests.runtime.test_engine import virtually
from tests.sampling import some
from tests.stores.sqlite.killed_process import in_a_child, killed_at

BOXES: list[Address] = [queue(), key("alone")]


async def filled(store: Store, clock: Clock, executions: int = 30) -> StoreWorld:
    """A store with something of everything."""
    world = StoreWorld(store, clock, (await store.store_time()).epoch)
    await world.renew("one")
    for number in range(executions):
        await world.commit(key(str(number)), creates=True, row=b"1", blobs=((f"blob {number}", b"b" * number),), release=number % 2 == 0)
        await world.commit(key(str(number)), 1, row=b"2", messages=(plain_message(queue(), str(number)),), attributes=(("a", b"s"),))
    await world.post(plain_message(key("alone")))
    await world.change(note("a"), note("b"), note("b", 1))
    vault = store.part(VAULT)
    assert vault is not None
    assert await vault.keep("acme", "TOKEN", 1, b"old") and await vault.keep("acme", "TOKEN", 2, b"new")
    return world


async def test_everything_is_copied(tmp_path: Path) -> None:
    clock = Clock()
    source, target = MemoryStore(clock), SqliteStore(tmp_path / "copy.db", clock)
    await filled(source, clock)
    epoch, told = (await target.store_time()).epoch, list[int]()
    done = await copy_store(source, target, "memory:", told.append)
    names = [f"blob {number}" for number in range(30)]
    assert await contents(target, BOXES, names) == await contents(source, BOXES, names)
    assert (done.executions, done.rows, done.messages, done.blobs, done.queues, done.records, done.secrets) == (30, 60, 31, 30, 0, 2, 1)
    assert done.epoch == (await target.store_time()).epoch > epoch and not done.resumed and sum(told) >= 151
    kept, moved = [await part.read() for store in (source, target) if (part := store.part(VAULT)) is not None]
    assert [(one.name, one.version, one.sealed) for one in moved] == [(one.name, one.version, one.sealed) for one in kept]
    with pytest.raises(MoveRefused, match="it has 30 executions"):
        await copy_store(source, target, "memory:")
    await target.close()


class FailingFeed(MemoryChangeFeed):
    """A feed whose restore fails once, before or after it has taken effect."""

    fails_in = 2
    after = False

    async def restore(self, items: Sequence[ShippedItem]) -> None:
        self.fails_in -= 1
        if self.fails_in == 0 and not self.after:
            raise StoreUnavailable("the network is gone")
        await super().restore(items)
        if self.fails_in == 0:
            raise StoreUnavailable("the network is gone")


@pytest.mark.parametrize("after", [False, True])
async def test_an_interrupted_copy_goes_on_where_it_was(after: bool) -> None:
    clock = Clock()
    source, target = MemoryStore(clock), MemoryStore(clock)
    await filled(source, clock, executions=400)
    feed = FailingFeed(target, lambda: None)
    feed.after = after
    target._feed = feed
    target._optional.having(CHANGE_FEED, feed)
    with pytest.raises(StoreUnavailable):
        await copy_store(source, target, "memory:")
    done = await copy_store(source, target, "memory:")
    assert done.resumed and done.executions < 400
    assert await contents(target, BOXES) == await contents(source, BOXES)
    assert len(target._blobs) == 400, "no trace is left of where the copy was"


async def test_a_copy_to_another_store_begins_anew(tmp_path: Path) -> None:
    clock = Clock()
    source, first, other = MemoryStore(clock), MemoryStore(clock), MemoryStore(clock)
    await filled(source, clock, executions=400)
    feed = FailingFeed(first, lambda: None)
    first._feed = feed
    first._optional.having(CHANGE_FEED, feed)
    with pytest.raises(StoreUnavailable):
        await copy_store(source, first, "memory:")
    done = await copy_store(source, other, "memory:")
    assert not done.resumed and await contents(other, BOXES) == await contents(source, BOXES)
    await source.commit([Post(epoch=1, acks=(Ack(queue(), "3"),))])  # nothing has recorded for the first one what is removed
    assert not (await copy_store(source, first, "memory:")).resumed and await contents(first, BOXES) == await contents(source, BOXES)


async def test_a_store_without_a_feed_is_refused(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "perdure.db")
    await store.close()
    with pytest.raises(BadValue, match="change feed"):
        await copy_store(ReadOnlySqliteStore(tmp_path / "perdure.db"), MemoryStore(), "it")  # type: ignore[arg-type]  # it is only read


@pytest.mark.slow
@pytest.mark.parametrize("phase", some(range(3), 1))
def test_killed_anywhere_a_copy_goes_on_and_has_everything(phase: int, tmp_path: Path) -> None:
    source, target = tmp_path / "source.db", tmp_path / "target.db"

    async def fill() -> None:
        store = SqliteStore(source)
        await filled(store, Clock(), executions=60)
        await store.close()

    async def copy() -> None:
        opened, into = SqliteStore(source), SqliteStore(target)
        await copy_store(opened, into, "source")
        await opened.close()
        await into.close()

    async def compare() -> None:
        clock = Clock(4e9)  # all times have come
        opened, into = SqliteStore(source, clock), SqliteStore(target, clock)
        names = [f"blob {number}" for number in range(60)]
        assert await contents(into, BOXES, names) == await contents(opened, BOXES, names)
        vaults = [await part.read() for store in (opened, into) if (part := store.part(VAULT)) is not None]
        assert [[(one.name, one.version, one.sealed) for one in rows] for rows in vaults] == [[("TOKEN", 2, b"new")]] * 2
        await opened.close()
        await into.close()

    in_a_child(lambda: asyncio.run(fill()), 0)
    kills, number = 0, 40 + 13 * phase
    while killed_at(number, lambda: asyncio.run(copy())):
        kills, number = kills + 1, number * 3 // 2 + 17
    assert kills > 3
    in_a_child(lambda: asyncio.run(compare()), 0)


EFFECTS: Counter[str] = Counter()


@step
async def charge(number: int) -> int:
    """Takes a second, and is noted."""
    await asyncio.sleep(1)
    EFFECTS[step_info().key] += 1
    return number


@workflow
async def charges(ctx: Context) -> int:
    """Five steps and a message."""
    total = 0
    for number in range(5):
        total += await ctx.step(charge, number)
    return total + int(await ctx.listen("more"))


@virtually
async def test_an_engine_goes_on_with_the_copy_and_nothing_is_lost_or_done_twice(c: Cluster) -> None:
    EFFECTS.clear()
    first = await c.engine(charges)
    keys = [await c.post(charges, id=str(number)) for number in range(20)]
    await asyncio.sleep(2.5)
    for one in keys[:10]:
        await c.send(one, "more", 100)
    await first.kill()
    source, clock = c.store, asyncio.get_running_loop().time
    done = dict(EFFECTS)
    assert len(done) == 40 and set(done.values()) == {1}
    c.store = MemoryStore(clock)
    await copy_store(source, c.store, "memory:")
    second = await c.engine(charges)
    for one in keys[10:]:
        await c.send(one, "more", 100)
    assert [await c.result(second, charges, id=one.id) for one in keys] == [110] * 20
    assert len(EFFECTS) == 100 and set(EFFECTS.values()) == {1}
    answers = await c.store.commit([Post(epoch=1, messages=(plain_message(keys[0], "late"),))])
    assert [type(answer).__name__ for answer in answers] == ["Superseded"], "what engines of the source decide does not count"
