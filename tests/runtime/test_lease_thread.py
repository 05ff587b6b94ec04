"""Claims about the thread that renews a lease, in real time: a long turn of the event loop does not cost the lease, a hanging loop loses it."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from perdure.runtime.holder import Holder, process_info_here
from perdure.stores.memory import MemoryStore

pytestmark = pytest.mark.slow

LEASE_S = 0.9
HOLDER = "the one"


@asynccontextmanager
async def alive(store: MemoryStore) -> AsyncIterator[tuple[Holder, list[int]]]:
    """A holder that is kept alive by a thread, and the epochs that it was told."""
    told: list[int] = []
    holder = Holder(store, HOLDER, process_info_here("engine", ["order@1"]), LEASE_S, threaded=True)
    _ = await holder.join()

    async def hear(moment: object) -> None:
        told.append(store._epoch)

    keeping = asyncio.create_task(holder.keep_alive(hear))
    try:
        yield holder, told
    finally:
        keeping.cancel()
        _ = await asyncio.gather(keeping, return_exceptions=True)
        await holder.leave()


def lives(store: MemoryStore) -> bool:
    """Whether the holder lives, as anybody else may ask at this moment: in a thread of its own."""
    found: list[bool] = []
    asking = threading.Thread(target=lambda: found.extend(lease.alive for lease in asyncio.run(store.leases())))
    asking.start()
    asking.join()
    return found == [True]


def block(seconds: float, meanwhile: Callable[[], None] = lambda: None) -> None:
    """Keep the event loop from turning, as a step that computes does."""
    watch = threading.Thread(target=meanwhile)
    watch.start()
    time.sleep(seconds)  # blocking is what is to be survived
    watch.join()


async def test_a_turn_that_takes_most_of_the_lease_does_not_cost_it() -> None:
    store = MemoryStore(time.monotonic)
    async with alive(store) as (holder, _):
        since_s = asyncio.get_running_loop().time()
        for _ in range(3):
            await asyncio.sleep(0.05)
            block(LEASE_S * 0.6)
            assert lives(store)
        await asyncio.sleep(0.05)
        assert holder.held_since(since_s)


async def test_a_loop_that_hangs_loses_the_lease_and_knows_it_afterwards() -> None:
    store = MemoryStore(time.monotonic)
    lived: list[bool] = []

    def look() -> None:
        time.sleep(LEASE_S * 2.2)
        lived.append(lives(store))

    async with alive(store) as (holder, _):
        since_s = asyncio.get_running_loop().time()
        await asyncio.sleep(0.01)
        block(LEASE_S * 2.5, look)
        assert lived == [False]
        assert not holder.held_since(since_s)
        await asyncio.sleep(LEASE_S)
        assert not holder.lapsed and not holder.held_since(since_s)


async def test_what_the_store_answers_is_told_on_the_loop_of_the_holder() -> None:
    store = MemoryStore(time.monotonic)
    async with alive(store) as (_, told):
        epoch = await store.raise_epoch()
        async with asyncio.timeout(10):
            while epoch not in told:
                await asyncio.sleep(0.02)


async def test_no_thread_is_left_behind() -> None:
    before = threading.active_count()
    async with alive(MemoryStore(time.monotonic)):
        await asyncio.sleep(0.01)
        assert threading.active_count() == before + 1
    assert threading.active_count() == before
