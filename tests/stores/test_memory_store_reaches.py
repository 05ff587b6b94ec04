"""Over several reaches: a commit is atomic within its own, and what leaves it arrives at least once and in order."""

import pytest

from perdure.core.envelopes import Ack
from perdure.stores.memory import MemoryStore
from perdure.stores.protocol import Committed, Post, Store
from perdure.testing.conformance import Clock, StoreConformance, StoreWorld
from perdure.testing.conformance.store_world import key, plain_message, queue, start_message


class Interrupted(Exception):
    """Something failed between the arrival of a message and its removal."""


class InterruptibleStore(MemoryStore):
    """A store whose relay fails when told to."""

    fails = False

    def forget(self, origin: int) -> None:
        if self.fails:
            raise Interrupted
        super().forget(origin)


class TestMemoryStoreOfSeveralReaches(StoreConformance):
    """The suite, and what it leaves open for stores of one reach."""

    reaches = 3

    async def make(self, clock: Clock) -> Store:
        return InterruptibleStore(clock, reaches=self.reaches)

    async def interrupt_relay(self, store: Store) -> None:
        assert isinstance(store, InterruptibleStore)
        store.fails = True
        with pytest.raises(Interrupted):
            await store.relay()
        store.fails = False

    async def test_only_what_stays_in_the_reach_is_there_before_the_relay(self, world: StoreWorld) -> None:
        await world.open(key())
        children = [key(str(number)) for number in range(2, 40)]
        answer = await world.store.commit([world.decision(key(), 0, messages=tuple(start_message(child) for child in children))])
        (committed,) = answer
        assert isinstance(committed, Committed)
        existing = [child for child in children if await world.store.read(child)]
        assert 0 < len(existing) < len(children)
        assert list(committed.created) == existing
        assert await world.store.relay(limit=1000) == len(children) - len(existing)
        assert [child for child in children if await world.store.read(child)] == children

    async def test_a_post_has_the_reach_of_its_first_send(self, world: StoreWorld) -> None:
        for first in (key(str(number)) for number in range(10)):
            await world.store.commit(
                [Post(messages=(plain_message(first), *(plain_message(queue(str(number)), first.id) for number in range(10))), acks=(Ack(first, "old"),))]
            )
            assert await world.keys(first) == ["letter"]
        arrived = sum([len(await world.keys(queue(str(number)))) for number in range(10)])
        assert await world.store.relay(limit=1000) == 100 - arrived > 0

    async def test_the_spread_is_the_same_in_every_process(self, world: StoreWorld) -> None:
        await world.store.commit([Post(messages=tuple(plain_message(key(str(number))) for number in range(20)))])
        assert [number for number in range(20) if await world.keys(key(str(number)))] == [0, 2, 4, 5, 9, 12, 15, 16, 18]

    async def test_what_arrives_again_after_it_was_handled_is_delivered_again(self, world: StoreWorld) -> None:
        away = key("1")
        await world.store.commit([Post(messages=(plain_message(key("0")), plain_message(away, "twice")))])
        await self.interrupt_relay(world.store)
        assert await world.keys(away) == ["twice"]
        await world.store.commit([Post(acks=(Ack(away, "twice"),))])
        assert await world.store.relay() == 1
        assert await world.keys(away) == ["twice"]
