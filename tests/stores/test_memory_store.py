"""The store in memory does what every store must, and is fast enough to simulate with."""

import time

import pytest

from perdure.stores.memory import MemoryStore
from perdure.stores.protocol import Claim, Commit, Post, Store
from perdure.testing.conformance import Clock, StoreConformance, StoreWorld
from perdure.testing.conformance.store_world import key, start_message
from tests.stores.forgotten_lanes import SINCE, serve_lanes


class TestMemoryStore(StoreConformance):
    """The suite."""

    async def make(self, clock: Clock) -> Store:
        return MemoryStore(clock)


async def test_the_clock_is_the_wall_clock_unless_another_is_given() -> None:
    assert abs((await MemoryStore().renew("one", 60)).now_s - time.time()) < 60


async def test_lanes_that_were_served_long_ago_are_forgotten() -> None:
    store = MemoryStore(clock := Clock())
    await serve_lanes(StoreWorld(store, clock, 1))
    queues = store._queues._queues
    for served in (queues["mails", None].executions, queues["pay", None].work):
        assert len(served.lanes) == SINCE + 1 and "again" in served.lanes


@pytest.mark.slow
async def test_a_claim_does_not_look_at_what_is_not_ready() -> None:
    store = MemoryStore(Clock())
    await store.renew("one", 60)
    await store.commit([Post(messages=(start_message(key(str(number))),)) for number in range(20_000)])
    parked = [Commit(key=key(str(n)), epoch=1, holder="one", version=0, program="order", root=key(), count=1, wake_at_s=2e9) for n in range(20_000)]
    await store.commit(parked)
    while (await store.claim(Claim(holder="one", epoch=1, programs=frozenset(["order"]), limit=1000))).executions:
        pass
    started = time.perf_counter()
    for _ in range(1000):
        await store.claim(Claim(holder="one", epoch=1, programs=frozenset(["order"])))
    assert time.perf_counter() - started < 10
