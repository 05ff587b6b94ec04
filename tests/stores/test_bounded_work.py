"""No call of a store does more because more is in it: the work of each call is counted at two sizes of the store.

Work is counted, not time: in SQLite the instructions of its virtual machine, in Redis the commands of the script and the members that they return. The
memory store is not counted, since it is the plainest one and walks over everything on purpose. Neither is Postgres: its planner reads a small table as a
whole, whatever its indexes, so that a count at a size that a test can afford shows nothing.
"""

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
from redis.asyncio import Redis

from perdure.core.attribute_filter import AttributeCondition, AttributeOrder
from perdure.core.envelopes import Ack, NewExecution, OutgoingMessage
from perdure.core.paths import Key
from perdure.stores import redis as redis_store
from perdure.stores.fairness import LANE_MEMORY_S
from perdure.stores.protocol import ORPHANS_FREED_MIN, HeadFilter, Post, QueueLimits, Store
from perdure.stores.records import RecordChange, RecordFilter, RecordKey
from perdure.stores.redis import RedisStore
from perdure.stores.sqlite.database_file import DatabaseFile
from perdure.stores.sqlite.store import SqliteStore
from perdure.testing.conformance import Clock, StoreWorld
from perdure.testing.conformance.feed_suite import feed_of
from perdure.testing.conformance.store_world import PROGRAM, key, plain_message, queue
from tests.stores.servers import DatabaseServer, valkey

SIZES = (500, 2_500)
GROWTH_MAX = 1.5
"""How much more work a call may do in a store that is five times as large: trees are deeper, and pieces are full."""

SQLITE_GROWS = {"a renewal of one who has released much", "the holders"}
"""In a file, one UPDATE frees what a holder had that begins anew under its name, and the numbers that it holds are counted in an index: both take a process
that reads or writes by itself, while on Redis everybody waits for each call."""

Call = Callable[[StoreWorld], Awaitable[object]]
CALLS: dict[str, Call] = {
    "a renewal of one who has released much": lambda world: world.renew("released"),
    "a commit": lambda world: world.commit(key("mine"), 1, row=b"row", messages=(plain_message(queue(), "task"),)),
    "a start": lambda world: world.open(key("new")),
    "an acknowledgement": lambda world: world.post(acks=[Ack(queue(), "task 1")]),
    "a claim": lambda world: world.claim("one", queues=["pay"], limit=10),
    "a claim of a family": lambda world: world.claim("one", roots=frozenset({key("root")}), limit=10),
    "a claim of a tenant": lambda world: world.claim("one", queues=["pay"], tenants=frozenset({"acme"}), limit=10),
    "a renewal": lambda world: world.renew("one"),
    "the holders": lambda world: world.store.leases(),
    "a list": lambda world: world.store.heads(HeadFilter(tenant="acme", limit=10)),
    "records": lambda world: world.store.records(RecordFilter("acme", "note", limit=10)),
    "what is queued": lambda world: world.store.are_queued([Ack(queue(), "task 1")]),
    "expired messages": lambda world: world.store.drop_expired(10),
    "a feed that begins": lambda world: feed_of(world.store).begin_feed(),
    "a piece of the scan": lambda world: feed_of(world.store).shipped(0, 10),
    "a change while the feed is read": lambda world: world.commit(key("mine"), 2, row=b"row"),
    "a piece of the feed": lambda world: feed_of(world.store).shipped(0, 10),
}


class CountingConnection(sqlite3.Connection):
    """A connection that counts the instructions of the virtual machine, by tens."""

    counted: ClassVar[int] = 0

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.set_progress_handler(self._count, 10)

    def _count(self) -> int:
        CountingConnection.counted += 10
        return 0


COUNTED = """
local function counted(...)
  local reply = redis.call(...)
  redis.call('INCRBY', '{perdure}:counted', 1 + (type(reply) == 'table' and #reply or 0))
  return reply
end
"""
"""A call of a command that counts itself and the members of its answer."""


async def fill(world: StoreWorld, size: int) -> None:
    """Put `size` of everything into the store: executions that are ready, in families, held by the living, by the dead and by one who has released them."""
    await world.renew("one", "released", lease_s=1_000)
    await world.renew("dead", lease_s=1)
    await world.commit(key("mine"), creates=True, wake_at_s=world.clock.now_s + 500)
    await world.open(key("root"))
    for holder in ("released", "dead", "one", ""):
        starts = [start(key(f"{holder} {number}"), "child" if number % 2 else "alone") for number in range(size)]
        await world.change(Post(messages=tuple(starts)))
        while holder and len((await world.claim(holder, limit=500)).executions):
            pass
    await world.store.renew("released", 0)
    await world.change(Post(messages=tuple(plain_message(queue(), f"task {number}") for number in range(size))))
    await world.change(Post(messages=tuple(plain_message(key(f"nobody {number}")) for number in range(size))))
    await world.change(Post(records=tuple(RecordChange(RecordKey("acme", "note", f"{number}"), 0, b"note", (), None) for number in range(size))))
    await world.store.limit("slow", QueueLimits(1))
    world.clock.advance(10)


def start(to: Key, root: str) -> OutgoingMessage:
    """The start of an execution by itself, or as a child of the root."""
    return OutgoingMessage(to, "start", b"start", opens=NewExecution(PROGRAM, key("root") if root == "child" else to))


async def counts(world: StoreWorld, size: int, counter: Callable[[], Awaitable[int]]) -> dict[str, int]:
    """What each call costs in a store of this size."""
    await fill(world, size)
    found: dict[str, int] = {}
    for name, call in CALLS.items():
        before = await counter()
        await call(world)
        found[name] = await counter() - before
    return found


def grown(small: dict[str, int], large: dict[str, int]) -> dict[str, tuple[int, int]]:
    """The calls that cost more in the large store, with both counts."""
    assert all(small.values()), f"a call was not counted: {small}"
    return {name: (small[name], large[name]) for name in CALLS if large[name] > GROWTH_MAX * small[name] + 20}


@pytest.fixture(scope="module")
def valkey_server() -> Iterator[DatabaseServer]:
    with valkey() as server:
        yield server


@asynccontextmanager
async def opened(store: Store, clock: Clock) -> AsyncIterator[StoreWorld]:
    """The world of a store, which is closed at the end."""
    yield StoreWorld(store, clock, (await store.store_time()).epoch)
    await store.close()


@pytest.mark.slow
async def test_no_call_of_sqlite_does_more_in_a_larger_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DatabaseFile, "factory", CountingConnection)
    found = []

    async def counter() -> int:
        return CountingConnection.counted

    for size in SIZES:
        clock = Clock()
        async with opened(SqliteStore(tmp_path / f"{size}.db", clock, synchronous="OFF"), clock) as world:
            found.append(await counts(world, size, counter))
    assert set(grown(*found)) <= SQLITE_GROWS


async def counts_of_redis(server: DatabaseServer) -> list[dict[str, int]]:
    """What each call costs at both sizes, with the script as it is now."""
    found = []
    async with Redis.from_url(server.url) as client:

        async def counter() -> int:
            return int(await client.get("{perdure}:counted") or 0)

        for size in SIZES:
            await client.flushall()
            clock = Clock()
            async with opened(RedisStore(server.url, clock), clock) as world:
                found.append(await counts(world, size, counter))
    return found


def counting(script: str) -> str:
    """The script with commands that count themselves."""
    return COUNTED + script.replace("redis.call, cmsgpack", "counted, cmsgpack", 1)


@pytest.mark.real
async def test_no_call_of_redis_does_more_in_a_larger_store(valkey_server: DatabaseServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_store, "SCRIPT", counting(redis_store.SCRIPT))
    assert grown(*await counts_of_redis(valkey_server)) == {}


@pytest.mark.real
@pytest.mark.parametrize(
    ("guard", "without", "grows"),
    [
        ("local ORPHANS_FREED = 100 ", "local ORPHANS_FREED = 1000000 ", "a renewal of one who has released much"),
        ("count > 0 and call('ZRANGE', line, 0, count - 1) or {}", "call('ZRANGE', line, 0, count - 1)", "a claim"),
        ("'WITHSCORES', 'LIMIT', offset, piece)", "'WITHSCORES', 'LIMIT', offset, -1)", "a claim of a family"),
    ],
)
async def test_a_walk_without_its_bound_is_noticed(
    guard: str, without: str, grows: str, valkey_server: DatabaseServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert redis_store.SCRIPT.count(guard) == 1
    monkeypatch.setattr(redis_store, "SCRIPT", counting(redis_store.SCRIPT.replace(guard, without)))
    assert grows in grown(*await counts_of_redis(valkey_server))


@pytest.mark.real
async def test_a_list_that_passes_over_much_takes_redis_in_pieces(valkey_server: DatabaseServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_store, "READ_MAX", 100)
    async with Redis.from_url(valkey_server.url) as client:
        await client.flushall()
        clock = Clock()
        async with opened(RedisStore(valkey_server.url, clock), clock) as world:
            await world.open(key("rare", workflow="rare"), *(key(str(number)) for number in range(450)))
            await world.change(*(Post(records=(RecordChange(RecordKey("acme", "note", f"{n:03}"), 0, b"", (("n", b"%03d" % n),), None),)) for n in range(450)))
            before = (await client.info("commandstats"))["cmdstat_evalsha"]["calls"]
            assert [head.key.id for head in await world.store.heads(HeadFilter(workflow="rare"))] == ["rare"]
            assert (await client.info("commandstats"))["cmdstat_evalsha"]["calls"] - before >= 4
            where = (AttributeCondition("n", ((b"449", b"450"),)),)
            assert [one.key.key for one in await world.store.records(RecordFilter("acme", "note", where=where))] == ["449"]
            ordered = RecordFilter("acme", "note", where=where, order=AttributeOrder("n"))
            assert [one.key.key for one in await world.store.records(ordered)] == ["449"]


def test_the_numbers_that_the_script_of_redis_repeats_are_those_of_python() -> None:
    assert f"local LANE_MEMORY_S = {LANE_MEMORY_S:.0f} " in redis_store.SCRIPT
    assert f"local ORPHANS_FREED = {ORPHANS_FREED_MIN} " in redis_store.SCRIPT
