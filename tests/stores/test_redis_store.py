"""The Redis store does what every store must, on a real Valkey that waits for its disk."""

import sys
from collections.abc import AsyncIterator, Iterator

import pytest
from redis.asyncio import Redis

from perdure.core.envelopes import Ack
from perdure.core.errors import ProgrammingError, StoreUnavailable
from perdure.stores.protocol import Committed, Post, Store, Superseded
from perdure.stores.redis import PREFIX, RedisStore
from perdure.testing.conformance import Clock, StoreConformance, StoreWorld
from perdure.testing.conformance.store_world import key, plain_message
from tests.stores.forgotten_lanes import SINCE, serve_lanes
from tests.stores.server_store_suite import SharedStore
from tests.stores.servers import DatabaseServer, valkey

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def server() -> Iterator[DatabaseServer]:
    with valkey() as server:
        yield server


class TestRedisStore(StoreConformance, SharedStore):
    """Both suites."""

    @pytest.fixture(autouse=True)
    async def _server(self, server: DatabaseServer) -> None:
        self.server = server
        await empty(server)

    async def make(self, clock: Clock) -> Store:
        return RedisStore(self.server.url, clock)

    def open(self) -> Store:
        return RedisStore(self.server.url)


async def empty(server: DatabaseServer) -> None:
    """Leave nothing, the scripts excepted."""
    async with Redis.from_url(server.url) as client:
        await client.flushall()


@pytest.fixture
async def world(server: DatabaseServer) -> AsyncIterator[StoreWorld]:
    await empty(server)
    clock = Clock()
    store = RedisStore(server.url, clock)
    yield StoreWorld(store, clock, (await store.store_time()).epoch)
    await store.close()


async def test_lanes_that_were_served_long_ago_are_forgotten(server: DatabaseServer, world: StoreWorld) -> None:
    await serve_lanes(world)
    async with Redis.from_url(server.url) as client:
        served = [await client.zrange(line, 0, -1) for line in await client.keys(f"{PREFIX}served *")]
    assert [(len(lanes), b"again" in lanes) for lanes in served] == [(SINCE + 1, True)] * 2


async def test_what_was_decided_before_all_was_lost_is_refused(server: DatabaseServer, world: StoreWorld) -> None:
    await world.commit(key(), creates=True)
    lost = await world.store.raise_epoch()
    world.clock.advance(60)
    await empty(server)
    epoch = (await world.store.store_time()).epoch
    assert epoch > lost
    assert await world.commit(key(), 1) == Superseded(epoch)


async def test_a_server_without_memory_makes_nothing_of_a_change(server: DatabaseServer, world: StoreWorld) -> None:
    await world.open(key())
    before = await world.store.heads(), await world.store.messages(key())
    async with Redis.from_url(server.url) as client:
        await client.config_set("maxmemory", 1)
        with pytest.raises(StoreUnavailable, match="maxmemory"):
            await world.commit(key(), 0, blobs=(("blob", b"bytes"),), messages=(plain_message(key("other")), plain_message(key())))
        assert (await world.store.heads(), await world.store.messages(key()), await world.store.blob("blob")) == (*before, None)
        (answer,) = await world.store.commit([Post(acks=(Ack(key(), "start"),))])
        await client.config_set("maxmemory", 0)
    assert isinstance(answer, Committed)
    assert await world.keys(key()) == []


def test_without_redis_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis.asyncio", None)
    with pytest.raises(ProgrammingError, match=r'pip install "perdure\[redis\]"'):
        RedisStore("redis://nowhere")
