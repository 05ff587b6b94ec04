"""The tests of messages: they are delivered at least once, deduplicated by key, in order of arrival, also before their execution exists."""

import pytest

from perdure.core.envelopes import Ack, NewExecution, OutgoingMessage
from perdure.core.limits import UNCLAIMED_MESSAGE_S
from perdure.core.paths import Key
from perdure.stores.protocol import Commit, Committed, Post, Store
from perdure.testing.conformance.store_world import StoreWorld, key, plain_message, queue, start_message

SENDER = key("sender")


class MessageSuite:
    """See the module."""

    reaches = 1
    """The number of reaches over which the store spreads the executions of these tests."""

    async def interrupt_relay(self, store: Store) -> None:
        """Delivers one message from an outbox, and fails before the message is removed from there."""
        pytest.skip("this store has no relay that could be interrupted")

    async def test_sending_a_key_twice_is_sending_it_once(self, world: StoreWorld) -> None:
        await world.post(plain_message(key(), body=b"first"), plain_message(queue(), body=b"first"))
        before = [*await world.store.messages(key()), *await world.store.messages(queue())]
        await world.post(plain_message(key(), body=b"second", due_at_s=world.clock.now_s + 9), plain_message(queue(), body=b"second"))
        sends = (plain_message(key(), body=b"third"), plain_message(key("new"), body=b"fourth"), plain_message(key("new"), body=b"fifth"))
        await world.change(Post(messages=sends))
        assert [*await world.store.messages(key()), *await world.store.messages(queue())] == before
        assert [message.body for message in await world.store.messages(key("new"))] == [b"fourth"]

    async def test_the_same_key_may_wait_at_several_addresses(self, world: StoreWorld) -> None:
        addresses = (key("1"), key("2"), key("1", tenant="b"), key("1", workflow="b"), queue("1"), queue("1", "b"))
        await world.post(*(plain_message(to, "same", body=str(to).encode()) for to in addresses))
        for to in addresses:
            assert [(message.to, message.key, message.body) for message in await world.store.messages(to)] == [(to, "same", str(to).encode())]

    async def test_acknowledged_mail_is_gone_and_acknowledging_again_does_nothing(self, world: StoreWorld) -> None:
        await world.post(plain_message(key(), "1"), plain_message(key(), "2"), plain_message(key("other"), "1"))
        await world.post(acks=(Ack(key(), "1"), Ack(key(), "1"), Ack(key(), "3"), Ack(key("nobody"), "1"), Ack(queue(), "1")))
        assert (await world.keys(key()), await world.keys(key("other"))) == (["2"], ["1"])

    async def test_postponed_mail_keeps_its_place_and_wakes_its_execution_when_it_is_due_again(self, world: StoreWorld) -> None:
        await world.renew("one", lease_s=1000)
        await world.open(key())
        await world.post(plain_message(key(), "1"), plain_message(key(), "2"))
        assert await world.claimed("one") == [key()]
        later_s = world.clock.now_s + 30
        acks = (Ack(key(), "start"), Ack(key(), "1", postpone_to_s=later_s), Ack(key(), "2", postpone_to_s=later_s), Ack(key(), "3", postpone_to_s=later_s))
        await world.commit(key(), 0, release=True, acks=acks)
        assert (await world.head(key())).message_at_s == later_s and await world.claimed("one") == []
        await world.post(plain_message(key(), "4"))
        ((first,),) = [assignment.messages for assignment in (await world.claim("one")).executions]
        assert first.key == "4"
        await world.commit(key(), 1, release=True, acks=[Ack(key(), "4")])
        world.clock.advance(30)
        ((*messages,),) = [assignment.messages for assignment in (await world.claim("one")).executions]
        assert [(one.key, one.body, one.due_at_s) for one in messages] == [("1", b"1", later_s), ("2", b"2", later_s)]

    async def test_a_post_may_postpone_mail_of_an_execution_that_is_held_and_of_one_that_is_not_there(self, world: StoreWorld) -> None:
        await world.renew("one", lease_s=1000)
        await world.open(key())
        await world.post(plain_message(key("never"), "1"))
        await world.claimed("one")
        later_s = world.clock.now_s + 30
        await world.post(acks=[Ack(key(), "start", postpone_to_s=later_s), Ack(key("never"), "1", postpone_to_s=later_s)])
        assert (await world.head(key())).message_at_s == later_s
        assert [message.due_at_s for to in (key(), key("never")) for message in await world.store.messages(to)] == [later_s, later_s]
        world.clock.advance(30)
        assert await world.claimed("one") == [key()]

    async def test_work_that_is_taken_back_tells_whether_anybody_had_leased_it(self, world: StoreWorld) -> None:
        await world.open(key())
        await world.renew("one")
        await world.post(plain_message(queue(), "leased"), plain_message(queue(), "left"))
        await world.claim("one", "other", queues=("pay",), limit=1)
        acks = [Ack(queue(), name, unleased=plain_message(key(), f"not {name}", body=name.encode())) for name in ("leased", "left", "gone", "left")]
        await world.commit(key(), 0, acks=(Ack(key(), "start"), *acks), release=True)
        assert [(message.key, message.body) for message in await world.store.messages(key())] == [("not left", b"left")]
        assert not await world.store.messages(queue())
        assert [message.key for message in (await world.claim("one")).executions[0].messages] == ["not left"]

    async def test_a_key_that_is_gone_may_be_sent_again(self, world: StoreWorld) -> None:
        await world.post(plain_message(key(), "1"), plain_message(key(), "2"))
        await world.post(acks=[Ack(key(), "1")])
        await world.post(plain_message(key(), "1"))
        assert await world.keys(key()) == ["2", "1"]

    async def test_a_change_acknowledges_before_it_sends(self, world: StoreWorld) -> None:
        await world.open(key())
        await world.post(plain_message(key(), "timer", body=b"old"))
        await world.commit(key(), 0, messages=(plain_message(key(), "timer", body=b"new"),), acks=(Ack(key(), "timer"), Ack(key(), "start")))
        assert [(message.key, message.body) for message in await world.store.messages(key())] == [("timer", b"new")]

    async def test_mail_is_delivered_in_the_order_of_its_arrival(self, world: StoreWorld) -> None:
        await world.renew("one")
        now_s = world.clock.now_s
        await world.open(key())
        await world.post(*(plain_message(key(), id, due_at_s=now_s + due_s) for id, due_s in (("z", 3), ("a", 1), ("m", 2), ("k", 0))))
        world.clock.advance(1)
        await world.change(Post(messages=(plain_message(key(), "c"), plain_message(queue(), "elsewhere"), plain_message(key(), "b"))))
        world.clock.advance(5)
        (assignment,) = (await world.claim()).executions
        numbers = [message.number for message in assignment.messages]
        assert [message.key for message in assignment.messages] == ["start", "z", "a", "m", "k", "c", "b"]
        assert numbers == sorted(set(numbers))
        assert await world.store.messages(key()) == list(assignment.messages)

    async def test_numbers_are_not_given_again(self, world: StoreWorld) -> None:
        numbers = []
        for _ in range(3):
            await world.post(plain_message(key()))
            numbers += [message.number for message in await world.store.messages(key())]
            await world.post(acks=[Ack(key(), "letter")])
        assert numbers == sorted(set(numbers))

    async def test_mail_is_due_at_its_time_and_not_before_it_arrived(self, world: StoreWorld) -> None:
        now_s = world.clock.now_s
        await world.post(
            plain_message(key(), "at once"), plain_message(key(), "long due", due_at_s=now_s - 100), plain_message(key(), "later", due_at_s=now_s + 100.25)
        )
        assert [message.due_at_s for message in await world.store.messages(key())] == [now_s, now_s, now_s + 100.25]

    async def test_a_message_is_not_delivered_before_it_is_due(self, world: StoreWorld) -> None:
        await world.renew("one")
        due_at_s = world.clock.now_s + 10
        await world.post(OutgoingMessage(key(), "start", b"", due_at_s, NewExecution("order", key())))
        assert ((await world.head(key())).message_at_s, await world.claimed()) == (due_at_s, [])
        world.clock.advance(9.5)
        assert await world.claimed() == []
        world.clock.advance(0.5)
        assert await world.claimed() == [key()]

    async def test_mail_waits_for_the_execution_that_a_send_opens(self, world: StoreWorld) -> None:
        await world.renew("one")
        early_s = world.clock.now_s
        await world.post(plain_message(key(), "early"), plain_message(key(), "later", due_at_s=early_s + 100))
        assert (await world.claimed(), await world.store.read(key())) == ([], None)
        world.clock.advance(10)
        await world.post(OutgoingMessage(key(), "start", b"", early_s + 50, NewExecution("order", key())))
        assert (await world.head(key())).message_at_s == early_s
        (assignment,) = (await world.claim()).executions
        assert ([message.key for message in assignment.messages], assignment.head.message_at_s) == (["early"], early_s + 50)

    async def test_mail_waits_for_the_execution_that_a_commit_creates(self, world: StoreWorld) -> None:
        await world.renew("one")
        now_s = world.clock.now_s
        await world.post(plain_message(key("1"), "early"), plain_message(key("1"), "handled"), plain_message(key("2"), due_at_s=now_s + 10))
        await world.commit(key("1"), creates=True, acks=(Ack(key("1"), "handled"),))
        await world.commit(key("2"), creates=True)
        assert [(await world.head(key(id))).message_at_s for id in "12"] == [now_s, now_s + 10]
        (assignment,) = (await world.claim()).executions
        assert (assignment.head.key, [message.key for message in assignment.messages]) == (key("1"), ["early"])

    async def test_a_send_that_opens_makes_a_pending_head(self, world: StoreWorld) -> None:
        answer = await world.post(OutgoingMessage(key(), "start", b"", 0.0, NewExecution("order@7", key("root"))))
        head = await world.head(key())
        assert answer.created == (key(),)
        assert (head.key, head.program, head.root, head.version, head.status) == (key(), "order@7", key("root"), 0, "pending")
        assert (head.holder, head.wake_at_s, head.ended_at_s) == (None, None, None)
        assert head.message_at_s == head.created_at_s == world.clock.now_s

    async def test_a_send_that_opens_is_delivered_also_where_there_is_a_head(self, world: StoreWorld) -> None:
        await world.open(key())
        await world.commit(key(), 0, status="running")
        before = await world.head(key())
        answer = await world.post(OutgoingMessage(key(), "again", b"", 0.0, NewExecution("refund", key("root"))))
        assert (answer.created, await world.keys(key())) == ((), ["start", "again"])
        assert await world.head(key()) == before
        assert (await world.post(start_message(key()))).created == ()

    async def test_a_send_that_opens_makes_a_head_though_its_key_is_in_the_mail(self, world: StoreWorld) -> None:
        await world.renew("one")
        await world.post(plain_message(key(), "start", body=b"first"))
        assert (await world.post(start_message(key()))).created == (key(),)
        assert [message.body for message in await world.store.messages(key())] == [b"first"]
        assert await world.claimed() == [key()]

    async def test_a_commit_opens_its_children(self, world: StoreWorld) -> None:
        await world.renew("one")
        children = [key(f"child {number}") for number in range(20)]
        await world.open(key(), children[3])
        answer = await world.commit(key(), 0, messages=tuple(start_message(child, "child", key()) for child in children))
        assert isinstance(answer, Committed)
        assert set(answer.created) <= set(children) - {children[3]}
        assert self.reaches > 1 or answer.created == (*children[:3], *children[4:])
        assert [(await world.head(child)).root for child in children] == [*[key()] * 3, children[3], *[key()] * 16]
        assert set(await world.claimed("one", "child")) == set(children) - {children[3]}

    async def test_mail_that_waits_seven_days_for_an_execution_is_swept(self, world: StoreWorld) -> None:
        now_s = world.clock.now_s
        await world.open(key("started"))
        await world.post(plain_message(key("never"), "1"), plain_message(key("late")), plain_message(queue()))
        await world.post(plain_message(key("never"), "later", due_at_s=now_s + 100), plain_message(key("never"), "3"), plain_message(key("nobody"), "4"))
        world.clock.advance(UNCLAIMED_MESSAGE_S - 1)
        await world.open(key("late"))
        assert await world.store.drop_expired() == []
        world.clock.advance(1)
        first = await world.store.drop_expired(limit=2)
        assert [(message.to, message.key) for message in first] == [(key("never"), "1"), (key("never"), "3")]
        assert [(message.to, message.key) for message in await world.store.drop_expired()] == [(key("nobody"), "4")]
        assert await world.store.drop_expired() == []
        assert await world.keys(key("never")) == ["later"]
        assert [await world.keys(to) for to in (key("started"), key("late"), queue())] == [["start"], ["letter", "start"], ["letter"]]
        world.clock.advance(100)
        assert [message.key for message in await world.store.drop_expired()] == ["later"]

    async def test_what_leaves_a_reach_arrives_in_order(self, world: StoreWorld) -> None:
        everybody = [key(str(number)) for number in range(12)]
        await world.open(SENDER)
        for version in range(2):
            assert isinstance((await world.store.commit([_round(world, everybody, version)]))[0], Committed)
        carried = []
        while count := await world.store.relay(limit=5):
            carried.append(count)
        assert max(carried, default=0) <= 5
        assert (sum(carried) > 0) == (self.reaches > 1)
        for to in everybody:
            assert await world.keys(to) == ["0 a", "0 b", "1 a", "1 b"]

    async def test_what_is_acknowledged_elsewhere_goes_in_the_same_order(self, world: StoreWorld) -> None:
        queues = [queue(str(number)) for number in range(12)]
        await world.open(key())
        await world.store.commit([world.decision(key(), 0, messages=tuple(plain_message(to, "dropped") for to in queues))])
        await world.store.commit(
            [world.decision(key(), 1, acks=tuple(Ack(to, "dropped") for to in queues), messages=tuple(plain_message(to, "kept") for to in queues))]
        )
        while await world.store.relay(limit=5):
            pass
        assert [await world.keys(to) for to in queues] == [["kept"]] * 12

    async def test_what_arrives_twice_is_dropped_if_its_key_is_in_the_mail(self, world: StoreWorld) -> None:
        everybody = [key(str(number)) for number in range(12)]
        await world.open(SENDER)
        await world.store.commit([_round(world, everybody, 0)])
        for _ in range(3):
            await self.interrupt_relay(world.store)
        assert sum([len(await world.keys(to)) for to in everybody]) < 24
        while await world.store.relay():
            pass
        for to in everybody:
            assert await world.keys(to) == ["0 a", "0 b"]


def _round(world: StoreWorld, everybody: list[Key], version: int) -> Commit:
    return world.decision(SENDER, version, messages=tuple(plain_message(to, f"{version} {name}") for name in "ab" for to in everybody))
