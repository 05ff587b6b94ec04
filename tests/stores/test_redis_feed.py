"""The change feed of Redis among several writers and processes that are killed; and a whole store that is copied."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from redis.asyncio import Redis

from perdure.cli.command_list import root
from perdure.core.envelopes import Ack
from perdure.core.paths import Address
from perdure.service.store_copies import copy_store
from perdure.stores import redis as redis_store
from perdure.stores.memory import MemoryStore
from perdure.stores.protocol import Store
from perdure.stores.redis import PREFIX, RedisStore
from perdure.stores.sqlite.store import SqliteStore
from perdure.testing.conformance import Clock, StoreWorld
from perdure.testing.conformance.feed_suite import contents, copy_changes, feed_of
from perdure.testing.conformance.store_world import key, plain_message, queue
from tests.service.test_store_copies import BOXES, filled
from tests.stores.servers import DatabaseServer, valkey
from tests.stores.sqlite.killed_process import begun, ended, in_a_child
from tests.stores.test_redis_store import empty

pytestmark = pytest.mark.real

WRITERS, ROUNDS = 4, 30
BLOBS = [f"blob {number}" for number in range(60)]


@pytest.fixture(scope="module")
def server() -> Iterator[DatabaseServer]:
    with valkey() as server:
        yield server


@pytest.fixture
def copy_url(server: DatabaseServer) -> str:
    """A second, empty database of the server."""
    asyncio.run(empty(server))
    return f"{server.url}?db=1"


@pytest.fixture
async def world(server: DatabaseServer) -> AsyncIterator[StoreWorld]:
    await empty(server)
    clock = Clock()
    store = RedisStore(server.url, clock)
    yield StoreWorld(store, clock, (await store.store_time()).epoch)
    await store.close()


async def recorded(server: DatabaseServer) -> int:
    """How many entries there are, with and without a position."""
    async with Redis.from_url(server.url) as client:
        return int(await client.zcard(f"{PREFIX}feed")) + int(await client.zcard(f"{PREFIX}changed"))


async def test_nothing_is_recorded_before_and_after_a_feed_and_changes_that_nobody_reads_do_not_add_up(world: StoreWorld, server: DatabaseServer) -> None:
    await world.open(key())
    assert await recorded(server) == 0
    await feed_of(world.store).begin_feed()
    for _ in range(3):
        await world.post(plain_message(queue()))
        await world.post(acks=[Ack(queue(), "letter")])
    assert await recorded(server) == 1
    await feed_of(world.store).end_feed()
    await world.post(plain_message(queue()))
    assert await recorded(server) == 0


async def follow_growing_log(world: StoreWorld) -> None:
    """Copies a store whose log grows in each piece of the scan, and names a new blob each time; compares after each page, and at the end."""
    feed, copy, at, version = feed_of(world.store), MemoryStore(world.clock), 0, 1
    await world.commit(key(), creates=True, row=b"1", blobs=tuple((name, name.encode()) for name in BLOBS))
    await world.open(*(key(str(number)) for number in range(60)))
    await feed.begin_feed()
    more = True
    while more:
        page = await feed.shipped(at, 7)
        at, more = page.position, page.more
        await feed_of(copy).restore(page.items)
        for head in await copy.heads():
            log = await copy.read(head.key)
            assert log is not None and [row.version for row in log.rows] == [*range(1, head.version + 1)]
            assert all([await copy.blob(f"new {number}") is not None for number in range(1, head.version)] if head.key == key() else [])
        if version < 40:
            await world.commit(key(), version, row=b"more", blobs=((f"new {version}", b""),))
            version, more = version + 1, True
    names = [*BLOBS, *(f"new {number}" for number in range(1, 40))]
    assert await contents(copy, [], names) == await contents(world.store, [], names)


async def test_what_changes_during_the_scan_comes_behind_it(world: StoreWorld) -> None:
    await follow_growing_log(world)


@pytest.mark.parametrize(
    ("guard", "without"),
    [
        ("if not call('ZSCORE', at('changed'), page[i]) then item", "if true then item"),
        ("local is_behind = unpack(call('GET', at('feeding'))).table or call('EXISTS', at('changed')) == 1", "local is_behind = false"),
        ("keep_blobs(change)\n  local function append", "local function append"),
        ("note('row', address, last)", ""),
    ],
)
async def test_a_feed_without_a_guard_is_noticed(guard: str, without: str, world: StoreWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    assert redis_store.SCRIPT.count(guard) == 1
    monkeypatch.setattr(redis_store, "SCRIPT", redis_store.SCRIPT.replace(guard, without))
    with pytest.raises(AssertionError):
        await follow_growing_log(world)


async def test_a_copy_that_follows_many_writers_is_the_store(world: StoreWorld, server: DatabaseServer) -> None:
    stores = [RedisStore(server.url, world.clock) for _ in range(WRITERS)]
    copy, going = MemoryStore(world.clock), True
    keys = [key(str(number)) for number in range(6)]
    await world.open(*keys)
    await feed_of(world.store).begin_feed()

    async def write(store: Store, number: int) -> None:
        it = StoreWorld(store, world.clock, world.epoch)
        for step in range(ROUNDS):
            to = keys[(number + step) % len(keys)]
            head = await it.head(to)
            sends = tuple(plain_message(keys[other], f"{number} {step}") for other in (step % 5, (step + 3) % 5))
            await it.commit(to, head.version, row=b"r", messages=sends, blobs=((BLOBS[step], b"b"),))
            await it.post(acks=[Ack(keys[step % 5], f"{number} {step - 1}")])

    async def follow() -> int:
        at = 0
        while going:
            page = await feed_of(world.store).shipped(at, 7)
            await feed_of(copy).restore(page.items)
            at = page.position
        return at

    follower = asyncio.create_task(follow())
    await asyncio.gather(*(write(store, number) for number, store in enumerate(stores)))
    going = False
    at = await follower
    await copy_changes(world.store, copy, at)
    assert await contents(copy, keys, BLOBS) == await contents(world.store, keys, BLOBS)
    for store in stores:
        await store.close()


# Whole stores, and processes that are killed.


@pytest.mark.slow
async def test_a_store_that_was_copied_from_a_file_to_redis_and_back_is_the_same(tmp_path: Path, world: StoreWorld) -> None:
    first, back = SqliteStore(tmp_path / "first.db", world.clock), SqliteStore(tmp_path / "back.db", world.clock)
    await filled(first, world.clock, executions=60)
    done = await copy_store(first, world.store, "first")
    assert done.executions == 60
    again = await copy_store(world.store, back, "redis")
    assert (again.executions, again.rows, again.messages, again.records) == (done.executions, done.rows, done.messages, done.records)
    before = await contents(first, BOXES, BLOBS)
    assert await contents(world.store, BOXES, BLOBS) == before and await contents(back, BOXES, BLOBS) == before
    assert [one.number for one in await first.messages(queue())] == [one.number for one in await back.messages(queue())]
    await first.close()
    await back.close()


@pytest.mark.slow
def test_the_command_copies_from_a_file_to_redis_and_back(tmp_path: Path, copy_url: str) -> None:
    first, back = tmp_path / "first.db", tmp_path / "back.db"

    async def fill() -> None:
        store = SqliteStore(first)
        await filled(store, Clock())
        await store.close()

    async def compare() -> None:
        clock = Clock(4e9)  # all times have come
        stores = [SqliteStore(file, clock) for file in (first, back)]
        expected, found = [await contents(store, BOXES, BLOBS) for store in stores]
        assert found == expected
        for store in stores:
            await store.close()

    asyncio.run(fill())
    for source, target in ((f"sqlite:///{first}", copy_url), (copy_url, f"sqlite:///{back}")):
        done = CliRunner().invoke(root, ["db", "copy", source, target, "--independent"])
        assert done.exit_code == 0 and "30 executions" in done.output, done.output
    asyncio.run(compare())


def has_ended(child: int) -> bool:
    """Whether a process has ended."""
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def kill_at(number: int) -> None:
    """Kills this process when it has sent its call of this number to Redis, before it has the answer."""
    left, send = count(), RedisStore._ask

    async def ask(self: RedisStore, operation: str, asked: object = None) -> Any:
        if next(left) == number:
            loop = asyncio.get_running_loop()
            loop.call_later(0.0005 * (number % 3), os.kill, os.getpid(), signal.SIGKILL)
        return await send(self, operation, asked)

    RedisStore._ask = ask  # type: ignore[method-assign]  # in a process that ends with it


@pytest.mark.slow
@pytest.mark.parametrize("phase", range(2))
def test_a_copy_that_is_killed_anywhere_goes_on_and_has_everything(phase: int, server: DatabaseServer, copy_url: str) -> None:
    boxes: list[Address] = [*BOXES]

    async def fill() -> None:
        store = RedisStore(server.url)
        await filled(store, Clock(), executions=400)
        await store.close()

    async def copy() -> None:
        opened, into = RedisStore(server.url), RedisStore(copy_url)
        await copy_store(opened, into, "source")
        await opened.close()
        await into.close()

    async def compare() -> None:
        clock = Clock(4e9)  # all times have come
        opened, into = RedisStore(server.url, clock), RedisStore(copy_url, clock)
        assert await contents(into, boxes, BLOBS) == await contents(opened, boxes, BLOBS)
        await opened.close()
        await into.close()

    def killed_copy(number: int) -> int:
        def do() -> None:
            kill_at(number)
            asyncio.run(copy())

        return in_a_child(do, 0, signal.SIGKILL)

    in_a_child(lambda: asyncio.run(fill()), 0)
    kills, number = 0, phase
    while killed_copy(number):
        kills, number = kills + 1, number + 2
    assert kills > 3
    in_a_child(lambda: asyncio.run(compare()), 0)


@pytest.mark.slow
def test_what_killed_processes_have_committed_is_shipped_and_nothing_else(server: DatabaseServer) -> None:
    async def prepare() -> None:
        await empty(server)
        store = RedisStore(server.url)
        await feed_of(store).begin_feed()
        await store.close()

    def commit_forever(number: int) -> None:
        async def commits() -> None:
            store = RedisStore(server.url)
            it = StoreWorld(store, Clock(), (await store.store_time()).epoch)
            for step in count():
                to = key(f"{number} {step}")
                await it.commit(to, creates=True, row=b"r", blobs=((f"blob {number} {step}", b"b"),), messages=(plain_message(to),))
                await it.commit(to, 1, row=b"r", acks=(Ack(to, "letter"),))

        kill_at(10 + 3 * number)
        asyncio.run(commits())

    async def follow() -> None:
        store, copy, at = RedisStore(server.url), MemoryStore(Clock(4e9)), 0
        children = [begun(lambda number=number: commit_forever(number)) for number in range(6)]  # type: ignore[misc]  # the default binds it
        while children:
            at = await copy_changes(store, copy, at, limit=5)
            if has_ended(children[0]):
                ended(children.pop(0), signal.SIGKILL)
        await asyncio.sleep(0.1)  # the server carries out what it was sent
        await copy_changes(store, copy, at)
        there = [head.key for head in await store.heads()]
        assert len(there) > 12
        late = RedisStore(server.url, Clock(4e9))
        names = [f"blob {one.id}" for one in there]
        assert await contents(copy, there, names) == await contents(late, there, names)
        await store.close()
        await late.close()

    asyncio.run(prepare())
    asyncio.run(follow())
