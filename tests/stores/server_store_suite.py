"""What a store on a server must do besides the conformance suite: several processes share it, and it outlives the absence of its server.

Two stores on one database stand for two processes: they have nothing in common but the server. Time is the server's.
"""

import asyncio
import random
import threading
import time
from collections.abc import AsyncIterator, Coroutine

import pytest

from perdure.core.envelopes import Ack, NewExecution, OutgoingMessage
from perdure.core.errors import StoreUnavailable
from perdure.core.paths import Key
from perdure.stores.protocol import Claim, Committed, Conflict, HeadFilter, QueueLimits, Store, Superseded
from perdure.testing.conformance import Clock, StoreWorld
from perdure.testing.conformance.store_world import PROGRAM, key, plain_message, queue
from tests.stores.servers import DatabaseServer

SEVERAL = 30
RING_S = 10.0
STARTS, CLAIMERS, ALLOWED = 200, 8, 3
DYING_S, RUSH_S = 0.1, 60.0
Pair = tuple[StoreWorld, StoreWorld]


class SharedStore:
    """See the module. Before each test `server` is set and empty."""

    server: DatabaseServer

    def open(self) -> Store:
        """A store on the server."""
        raise NotImplementedError

    @pytest.fixture
    async def pair(self) -> AsyncIterator[Pair]:
        """Two stores; holder ``one`` lives by the first, holder ``two`` by the second."""
        stores = self.open(), self.open()
        one, two = [StoreWorld(store, Clock(), (await store.store_time()).epoch) for store in stores]
        await one.renew("one")
        await two.renew("two")
        yield one, two
        for store in stores:
            await store.close()

    async def test_time_is_that_of_the_server(self, pair: Pair) -> None:
        for world in pair:
            assert abs((await world.store.store_time()).now_s - time.time()) < 10

    async def test_no_two_stores_claim_the_same(self, pair: Pair) -> None:
        one, two = pair
        names = [str(number) for number in range(SEVERAL)]
        await one.open(*map(key, names))
        await two.post(*(plain_message(queue(), name) for name in names))

        both_have_claimed = asyncio.Barrier(2)

        async def drain(world: StoreWorld, holder: str) -> list[str]:
            got = list[str]()
            while (claimed := await world.claim(holder, queues=["pay"], limit=2)).next_at_s is not None or claimed.executions or claimed.work:
                some = [assignment.head.key.id for assignment in claimed.executions] + [message.key for message in claimed.work]
                if some and not got:
                    await both_have_claimed.wait()
                got += some
            return got

        async with asyncio.timeout(30):
            first, second = await asyncio.gather(drain(one, "one"), drain(two, "two"))
        assert sorted(first + second) == sorted(names + names)
        assert first and second

    async def test_of_two_decisions_at_one_version_one_is_made(self, pair: Pair) -> None:
        await pair[0].open(key())
        for version in range(SEVERAL):
            answers = await asyncio.gather(*(world.commit(key(), version) for world in pair))
            (made,) = (answer for answer in answers if isinstance(answer, Committed))
            (refused,) = (answer for answer in answers if isinstance(answer, Conflict))
            assert refused.head is not None and refused.head.version == made.version == version + 1
        assert len(await pair[1].rows(key())) == SEVERAL

    async def test_batches_that_meet_head_on_are_all_made(self, pair: Pair) -> None:
        keys = [key(str(number)) for number in range(10)]
        await pair[0].open(*keys)

        async def decide(world: StoreWorld, mine: list[Key], version: int) -> None:
            sends = tuple(plain_message(to, f"{mine[0]} {version}") for to in (keys if mine[0] == keys[0] else keys[::-1]))
            answers = await world.change(*(world.decision(each, version, messages=sends) for each in mine))
            assert all(isinstance(answer, Committed) for answer in answers)

        for version in range(5):
            await asyncio.gather(decide(pair[0], keys[::2], version), decide(pair[1], keys[::-2], version))
        assert len(await pair[0].keys(keys[3])) == 1 + 2 * 5

    async def test_a_message_that_comes_while_an_execution_is_opened_wakes_it(self, pair: Pair) -> None:
        one, two = pair
        for number in range(SEVERAL):
            to = key(str(number))
            await asyncio.gather(one.post(plain_message(to)), two.commit(to, creates=True, release=True, holder="two"))
            assert await message_while_claimed(one) == {(to, "letter")}

    async def test_a_message_that_comes_while_an_execution_is_claimed_is_handed_over(self, pair: Pair) -> None:
        one, two = pair
        await one.open(key())
        for number in range(SEVERAL):
            first, _ = await asyncio.gather(message_while_claimed(one), two.post(plain_message(key(), str(number))))
            got = first | await message_while_claimed(one)
            assert (key(), str(number)) in got
            await one.post(acks=[Ack(to, name) for to, name in got])

    async def test_nothing_of_an_earlier_epoch_is_made_or_handed_over(self, pair: Pair) -> None:
        one, two = pair
        assert await two.store.raise_epoch() == one.epoch + 1
        assert await one.commit(key(), creates=True) == Superseded(one.epoch + 1)
        await one.open(key())
        assert await message_while_claimed(one) == set()

    async def test_what_was_made_before_an_epoch_is_there_when_it_begins(self, pair: Pair) -> None:
        one, two = pair
        for number in range(SEVERAL):
            one.epoch = (await one.store.store_time()).epoch
            commits = [asyncio.create_task(one.commit(key(f"{number} {n}"), creates=True)) for n in range(4)]
            await asyncio.sleep(number * 0.0002)
            await two.store.raise_epoch()
            there = {head.key.id for head in await two.store.heads(HeadFilter(limit=1000))}
            answers = await asyncio.gather(*commits)
            made = {f"{number} {n}" for n, answer in enumerate(answers) if isinstance(answer, Committed)}
            assert made == {id for id in there if id.startswith(f"{number} ")}

    async def test_others_receive_notifications_from_the_next_call_on(self, pair: Pair) -> None:
        one, two = pair
        wake, news = NotificationEvent(), NotificationEvent()
        stop = two.store.on_wake(wake)
        await two.store.store_time()
        await one.open(key())
        await wake.notified()
        wake.clear()
        two.store.on_change(news)
        await two.store.store_time()
        stop()
        await one.commit(key(), 0, news=True, messages=(plain_message(key()),))
        await news.notified()
        assert not wake.is_set()

    async def test_room_in_a_queue_and_other_limits_notify_those_who_wait(self, pair: Pair) -> None:
        one, two = pair
        for name in ("mails", "pay"):
            await one.store.limit(name, QueueLimits(1))
        await one.post(queued("a"), queued("b"), plain_message(queue(), "a"), plain_message(queue(), "b"))
        claimed = await one.claim("one", queues=["pay"])
        assert (len(claimed.executions), len(claimed.work)) == (1, 1)
        notification = NotificationEvent()
        two.store.on_wake(notification)
        for make_room in (
            one.commit(key("a"), acks=(Ack(key("a"), "start"),), release=True),
            one.post(acks=[Ack(queue(), "a")]),
            one.store.limit("other", QueueLimits(1)),
        ):
            await two.store.store_time()
            notification.clear()
            await make_room
            await notification.notified()
        claimed = await two.claim("two", queues=["pay"])
        assert (len(claimed.executions), len(claimed.work)) == (1, 1)

    async def test_no_more_of_a_queue_is_held_than_it_allows_however_many_claim_at_once(self, pair: Pair) -> None:
        await pair[0].store.limit("mails", QueueLimits(ALLOWED))
        await pair[0].post(*(queued(str(number)) for number in range(STARTS)))
        rush, stores = Rush(), [self.open() for _ in range(CLAIMERS)]
        claimers = [Claimer(StoreWorld(store, Clock(), pair[0].epoch), f"{number}", rush) for number, store in enumerate(stores)]
        async with asyncio.timeout(RUSH_S):
            await asyncio.gather(*(claimer.drain() for claimer in claimers), rush.watch(pair[1].store))
        assert len(rush.ended) == STARTS and rush.most == ALLOWED and rush.left and rush.died
        (stand,) = await pair[1].store.queues()
        assert (stand.executions, stand.executions_waiting) == (0, 0)
        for store in stores:
            await store.close()

    async def test_a_lease_is_renewed_in_another_thread_while_the_loop_is_busy(self, pair: Pair) -> None:
        one, two = pair
        await one.open(key())
        assert await one.claimed("one") == [key()]
        await one.renew("one", lease_s=0.5)
        for about in (b"about", b""):
            in_a_thread(one.store.renew("one", 60, about))
        await asyncio.sleep(0.6)
        assert await two.claimed("two") == []
        assert [(lease.holder, lease.alive, lease.about) for lease in await two.store.leases()] == [("one", True, b"about"), ("two", True, b"")]
        assert isinstance(await one.commit(key(), 0), Committed)

    async def test_it_works_again_when_the_server_is_back(self, pair: Pair) -> None:
        one, two = pair
        notification = NotificationEvent()
        two.store.on_wake(notification)
        await two.commit(key(), creates=True, blobs=(("blob", b"bytes"),), messages=(plain_message(queue()),))
        before = await everything(one.store)
        self.server.stop()
        try:
            for world in (one, two, one):
                for refused in (world.commit(key(), 1), world.claim(), world.store.read(key()), world.renew("one"), world.store.store_time()):
                    with pytest.raises(StoreUnavailable, match="check that it runs"):
                        await refused
        finally:
            self.server.start()
        assert await everything(two.store) == await everything(one.store) == before
        assert isinstance(await two.commit(key(), 1), Committed)
        notification.clear()
        await one.open(key("new"))
        await notification.notified()

    async def test_it_can_be_closed_though_the_server_is_gone(self, pair: Pair) -> None:
        pair[1].store.on_wake(NotificationEvent())
        await pair[1].store.store_time()
        self.server.stop()
        try:
            for world in pair:
                await world.store.close()
        finally:
            self.server.start()

    async def test_who_stops_waiting_harms_nobody(self, pair: Pair) -> None:
        one, _ = pair
        for number in range(SEVERAL):
            changes = [one.commit(key(f"{number} {n}"), creates=True, messages=(plain_message(queue(), f"{number} {n}"),)) for n in range(3)]
            tasks = [asyncio.create_task(change) for change in changes]
            await asyncio.sleep(number * 0.0002)
            tasks[0].cancel()
            _, *answers = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(answer, Committed) for answer in answers)
        assert {head.key.id for head in await one.store.heads()} == set(await one.keys(queue()))

    async def test_a_closed_store_says_so(self, pair: Pair) -> None:
        store = pair[0].store
        await store.close()
        await store.close()
        for refused in (store.commit([]), store.claim(Claim(holder="one", epoch=1)), store.store_time(), store.renew("one", 60)):
            with pytest.raises(StoreUnavailable, match="has been closed"):
                await refused


class Rush:
    """What many claimers do at once, as they know it: who holds what, and what has ended. A store counts for longer what each has just given back."""

    def __init__(self) -> None:
        self.held: dict[Key, str] = {}
        self.ended: set[Key] = set()
        self.most = self.left = self.died = 0

    def take(self, key: Key, holder: str) -> None:
        """Note that a claim got an execution."""
        assert key not in self.held, f"{holder} was given what {self.held[key]} holds"
        assert key not in self.ended
        self.held[key] = holder
        self.look(len(self.held))

    def look(self, count: int) -> None:
        """So many are held."""
        assert count <= ALLOWED
        self.most = max(self.most, count)

    def give_back(self, holder: str) -> None:
        """Note that a holder is about to hold nothing any more."""
        self.held = {key: other for key, other in self.held.items() if other != holder}

    async def watch(self, store: Store) -> None:
        """Look again and again at what the store says is held, until all has ended."""
        while len(self.ended) < STARTS:
            (stand,) = await store.queues()
            self.look(stand.executions)


class Claimer:
    """Claims and ends executions until all have ended. Now and then it lets go of all or dies instead, and begins anew under another name."""

    def __init__(self, world: StoreWorld, name: str, rush: Rush) -> None:
        self.world, self.name, self.rush = world, name, rush
        self.random = random.Random(name)

    async def drain(self) -> None:
        """Do all that."""
        await self.world.renew(self.name)
        while len(self.rush.ended) < STARTS:
            claimed = await self.world.claim(self.name, limit=2)
            for assignment in claimed.executions:
                self.rush.take(assignment.head.key, self.name)
            await asyncio.sleep(0 if claimed.executions else 0.01)
            if claimed.executions and self.random.random() < 0.1:
                await self.leave()
                continue
            for assignment in claimed.executions:
                await self.end(assignment.head.key)

    async def end(self, key: Key) -> None:
        """End an execution, and give it back."""
        del self.rush.held[key]
        self.rush.ended.add(key)
        answer = await self.world.commit(key, holder=self.name, status="completed", acks=(Ack(key, "start"),), release=True)
        assert isinstance(answer, Committed)

    async def leave(self) -> None:
        """Let go, or die."""
        if dies := self.random.random() < 0.5:
            await self.world.renew(self.name, lease_s=DYING_S)
            self.rush.died += 1
        self.rush.give_back(self.name)
        if not dies:
            await self.world.renew(self.name, lease_s=0)
            self.rush.left += 1
        self.name += "'"
        await self.world.renew(self.name)


def queued(id: str) -> OutgoingMessage:
    """The start of an execution in the queue ``mails``."""
    return OutgoingMessage(key(id), "start", b"start", opens=NewExecution(PROGRAM, key(id), "mails", id[-1]))


class NotificationEvent(asyncio.Event):
    """A ring that can be waited for."""

    def __call__(self) -> None:
        self.set()

    async def notified(self) -> None:
        """Wait until it rings."""
        async with asyncio.timeout(RING_S):
            await self.wait()


async def message_while_claimed(world: StoreWorld) -> set[tuple[Key, str]]:
    """The mail that holder ``one`` is handed, with the executions that it is for."""
    return {(message.to, message.key) for assignment in (await world.claim("one")).executions for message in assignment.messages if isinstance(message.to, Key)}


async def everything(store: Store) -> tuple[object, ...]:
    """What the tests above have left."""
    return await store.read(key()), await store.messages(queue()), await store.blob("blob"), await store.leases(), (await store.store_time()).epoch


def in_a_thread(asked: Coroutine[object, object, object]) -> None:
    """Do something in the loop of another thread, while that of this one stands still."""
    thread = threading.Thread(target=asyncio.run, args=(asked,))
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
