"""The tests of queues and tasks. A queue hands over what its limits leave room for, by priority and with its lanes in turns.

A task is leased to a live worker until the task is acknowledged or the worker dies.
"""

import pytest

from perdure.core.envelopes import Ack, NewExecution, OutgoingMessage
from perdure.core.paths import Key
from perdure.stores.protocol import UNLIMITED, Committed, Post, QueueLimits, QueueStatus, Superseded
from perdure.testing.conformance.store_world import PROGRAM, StoreWorld, key, plain_message, queue


def queued(id: str, lane: str = "", priority: int = 0, *, name: str = "mails", tenant: str = "acme", due_at_s: float = 0.0) -> OutgoingMessage:
    """Returns the message that starts an execution in a queue."""
    of = key(id, tenant)
    return OutgoingMessage(of, "start", b"start", due_at_s, NewExecution(PROGRAM, of, name, lane, priority))


def work(key: str, lane: str = "", priority: int = 0, *, name: str = "pay", tenant: str = "acme", due_at_s: float = 0.0) -> OutgoingMessage:
    """Returns a message that is a task of a queue."""
    return OutgoingMessage(queue(name, tenant), key, b"work", due_at_s, None, lane, priority)


async def ids(world: StoreWorld, holder: str = "one", **fields: object) -> list[str]:
    """Claims, and returns the ids of the executions."""
    return [one.id for one in await world.claimed(holder, **fields)]


async def leased(world: StoreWorld, holder: str = "one", *queues: str, **fields: object) -> list[str]:
    """Claims, and returns the keys of the tasks."""
    return [message.key for message in await world.work(holder, *queues, **fields)]


class QueueSuite:
    """See the module."""

    async def test_a_queue_without_limits_holds_nothing_up_and_is_listed_as_long_as_something_is_in_it(self, world: StoreWorld) -> None:
        await world.renew("one")
        await world.post(*(queued(str(number), "lane", number) for number in range(3)), work("w", "lane", 7))
        now_s = world.clock.now_s
        assert await world.store.queues() == [QueueStatus("mails", UNLIMITED, 0, 0, 3, 0), QueueStatus("pay", UNLIMITED, 0, 0, 0, 1, None, now_s)]
        assert await ids(world) == ["0", "1", "2"] and await leased(world) == ["w"]
        head = await world.head(key("2"))
        assert (head.queue, head.lane, head.priority) == ("mails", "lane", 2)
        (message,) = await world.store.messages(queue())
        assert (message.lane, message.priority, message.deliveries) == ("lane", 7, 1)
        assert await world.store.queues() == [QueueStatus("mails", UNLIMITED, 3, 0, 0, 0), QueueStatus("pay", UNLIMITED, 0, 1, 0, 0)]

    async def test_no_more_executions_are_held_than_a_queue_allows_whoever_claims(self, world: StoreWorld) -> None:
        await world.renew("one", "two")
        await world.store.limit("mails", QueueLimits(2))
        await world.post(*(queued(str(number)) for number in range(5)), queued("free", name="other"))
        assert await ids(world, limit=1) == ["0"]
        assert await ids(world, "two") == ["1", "free"]
        assert await ids(world) == await ids(world, "two") == []
        assert await world.store.queues() == [QueueStatus("mails", QueueLimits(2), 2, 0, 3, 0), QueueStatus("other", UNLIMITED, 1, 0, 0, 0)]

    async def test_what_is_released_makes_room_and_what_waits_for_time_takes_none(self, world: StoreWorld) -> None:
        await world.renew("one")
        await world.store.limit("mails", QueueLimits(1))
        await world.post(queued("a"), queued("b"), queued("c"))
        assert await ids(world) == ["a"]
        await world.commit(key("a"), acks=(Ack(key("a"), "start"),), release=True, wake_at_s=world.clock.now_s + 10)
        assert await ids(world) == ["b"]
        world.clock.advance(10)
        assert await ids(world) == [], "it is due, and there is no room"
        await world.commit(key("b"), acks=(Ack(key("b"), "start"),), release=True)
        assert await ids(world) == ["c"], "which has waited longer"
        await world.commit(key("c"), acks=(Ack(key("c"), "start"),), release=True)
        assert await ids(world) == ["a"]

    async def test_what_the_claimer_holds_is_handed_its_mail_without_room(self, world: StoreWorld) -> None:
        await world.renew("one", "two")
        await world.store.limit("mails", QueueLimits(1))
        await world.post(queued("a"), queued("b"))
        assert await ids(world) == ["a"]
        await world.post(OutgoingMessage(key("a"), "more", b"more"), OutgoingMessage(key("b"), "more", b"more"))
        assert await ids(world, "two") == []
        (assignment,) = (await world.claim()).executions
        assert (assignment.head.key.id, [message.key for message in assignment.messages]) == ("a", ["start", "more"])

    async def test_what_the_dead_held_takes_no_room_and_is_handed_over_within_it(self, world: StoreWorld) -> None:
        await world.renew("one", lease_s=10)
        await world.renew("two", lease_s=100)
        await world.store.limit("mails", QueueLimits(2))
        await world.post(*(queued(str(number)) for number in range(4)))
        assert await ids(world) == ["0", "1"] and await ids(world, "two") == []
        world.clock.advance(10)
        assert await ids(world, "two", limit=1) == ["0"]
        assert await ids(world, "two") == ["1"] and await ids(world, "two") == []
        assert (await world.store.queues())[0] == QueueStatus("mails", QueueLimits(2), 2, 0, 2, 0)

    async def test_limits_are_changed_while_things_are_held(self, world: StoreWorld) -> None:
        await world.renew("one")
        await world.store.limit("mails", QueueLimits(3))
        await world.post(*(queued(str(number)) for number in range(6)))
        assert await ids(world) == ["0", "1", "2"]
        await world.store.limit("mails", QueueLimits(1))
        await world.commit(key("0"), acks=(Ack(key("0"), "start"),), release=True)
        assert await ids(world) == []
        await world.store.limit("mails", QueueLimits(4))
        assert await ids(world) == ["3", "4"]
        await world.store.limit("mails", None)
        assert await ids(world) == ["5"]
        await world.store.limit("mails", QueueLimits(0))
        await world.post(queued("6"))
        assert await ids(world) == []

    async def test_lanes_are_served_in_turns_also_where_there_is_room_for_one(self, world: StoreWorld) -> None:
        await world.renew("one")
        await world.store.limit("mails", QueueLimits(1))
        await world.post(*(queued(f"a{number}", "a") for number in range(4)), queued("b0", "b"), queued("c0", "c"), queued("b1", "b"))
        served = []
        for _ in range(7):
            (id,) = await ids(world)
            served.append(id)
            await world.commit(key(id), acks=(Ack(key(id), "start"),), release=True)
        assert served == ["a0", "b0", "c0", "a1", "b1", "a2", "a3"]

    async def test_a_lane_that_was_served_is_not_kept_waiting_by_ever_new_ones(self, world: StoreWorld) -> None:
        await world.renew("one")
        await world.store.limit("mails", QueueLimits(1))
        await world.store.limit("pay", QueueLimits(1))
        await world.post(queued("a0", "a"), queued("a1", "a"), work("a0", "a"), work("a1", "a"))
        served, worked = [], []
        for turn in range(4):
            world.clock.advance(1)
            (id,), (piece,) = await ids(world), await leased(world)
            served.append(id)
            worked.append(piece)
            world.clock.advance(1)
            await world.post(*(queued(f"{turn} {number}", f"{turn} {number}") for number in range(2)))
            await world.post(*(work(f"{turn} {number}", f"{turn} {number}") for number in range(2)))
            await world.commit(key(id), acks=(Ack(key(id), "start"),), release=True)
            await world.post(acks=[Ack(queue(), piece)])
        assert served == worked == ["a0", "a1", "0 0", "0 1"]

    async def test_what_is_held_counts_against_its_lane(self, world: StoreWorld) -> None:
        await world.renew("one")
        await world.store.limit("mails", QueueLimits(4))
        await world.post(*(queued(f"a{number}", "a") for number in range(3)))
        assert await ids(world, limit=2) == ["a0", "a1"]
        await world.post(*(queued(f"b{number}", "b") for number in range(3)))
        assert sorted(await ids(world)) == ["b0", "b1"]

    async def test_no_more_of_a_lane_is_held_than_is_allowed_of_each(self, world: StoreWorld) -> None:
        await world.renew("one")
        await world.store.limit("mails", QueueLimits(None, 1))
        await world.post(*(queued(f"{lane}{number}", lane) for lane in "ab" for number in range(2)))
        assert await ids(world) == ["a0", "b0"] and await ids(world) == []
        await world.commit(key("b0"), acks=(Ack(key("b0"), "start"),), release=True)
        assert await ids(world) == ["b1"]

    async def test_a_higher_priority_comes_first_whatever_its_lane(self, world: StoreWorld) -> None:
        await world.renew("one")
        await world.store.limit("mails", QueueLimits(1))
        await world.post(queued("low", "a", -1), queued("middle", "b"), queued("high", "a", 5), queued("higher", "a", 6), queued("other", "c", 5))
        served = []
        for _ in range(5):
            (id,) = await ids(world)
            served.append(id)
            await world.commit(key(id), acks=(Ack(key(id), "start"),), release=True)
        assert served == ["higher", "other", "high", "middle", "low"]

    async def test_a_rate_lets_one_begin_after_the_other_and_tells_when_the_next_may(self, world: StoreWorld) -> None:
        await world.renew("one", lease_s=1000)
        await world.store.limit("mails", QueueLimits(interval_s=10.0))
        await world.post(*(queued(str(number)) for number in range(3)))
        began = world.clock.now_s
        assert await ids(world) == ["0"]
        claimed = await world.claim()
        assert (claimed.executions, claimed.next_at_s) == ((), began + 10)
        await world.commit(key("0"), acks=(Ack(key("0"), "start"),), release=True, wake_at_s=began + 1)
        world.clock.advance(5)
        assert await ids(world) == ["0"], "what goes on does not begin"
        world.clock.advance(5)
        assert await ids(world) == ["1"]
        world.clock.advance(25)
        assert await ids(world) == ["2"]

    async def test_a_rate_makes_up_for_a_few_at_once_if_it_may(self, world: StoreWorld) -> None:
        await world.renew("one", lease_s=1000)
        await world.store.limit("pay", QueueLimits(interval_s=10.0, burst=3))
        await world.post(*(work(str(number)) for number in range(9)))
        assert await leased(world) == ["0", "1", "2"]
        world.clock.advance(10)
        assert await leased(world) == ["3"]
        world.clock.advance(100)
        assert await leased(world) == ["4", "5", "6"] and await leased(world) == []

    async def test_no_more_work_is_leased_than_a_queue_allows_over_all_tenants(self, world: StoreWorld) -> None:
        await world.renew("one", "two")
        await world.store.limit("pay", QueueLimits(2))
        await world.post(work("a"), work("b", tenant="b"), work("c"), work("free", name="ship"))
        assert await leased(world, "one", "pay", "ship") == ["a", "b", "free"]
        assert await leased(world, "two", "pay") == []
        await world.post(acks=[Ack(queue("pay", "b"), "b")])
        assert await leased(world, "two", "pay") == ["c"]
        assert (await world.store.queues())[0] == QueueStatus("pay", QueueLimits(2), 0, 2, 0, 0)

    @pytest.mark.parametrize("limits", [None, QueueLimits(2)])
    async def test_it_is_told_since_when_the_longest_waiting_task_is_due_that_no_holder_leases(self, world: StoreWorld, limits: QueueLimits | None) -> None:
        await world.renew("one", lease_s=1000)
        await world.store.limit("pay", limits)

        async def oldest_at_s() -> list[float | None]:
            return [one.oldest_task_at_s for one in await world.store.queues()]

        begun_s = world.clock.now_s
        await world.post(work("later", due_at_s=begun_s + 20))
        assert await oldest_at_s() == [None], "it is not due"
        await world.post(work("a"))
        world.clock.advance(5)
        await world.post(work("b"))
        assert await oldest_at_s() == [begun_s]
        assert await leased(world, limit=1) == ["a"] and await oldest_at_s() == [begun_s + 5]
        assert await leased(world, limit=1) == ["b"] and await oldest_at_s() == [None]
        world.clock.advance(15)
        assert await oldest_at_s() == [begun_s + 20]

    async def test_leased_work_of_the_dead_is_leased_again_within_the_limits(self, world: StoreWorld) -> None:
        await world.renew("one", lease_s=10)
        await world.renew("two", lease_s=100)
        await world.store.limit("pay", QueueLimits(1))
        await world.post(work("a"), work("b"))
        assert await leased(world) == ["a"] and await leased(world, "two") == []
        world.clock.advance(10)
        assert await leased(world, "two") == ["a"] and await leased(world, "two") == []

    async def test_work_of_many_lanes_is_leased_in_turns_by_priority_and_lane(self, world: StoreWorld) -> None:
        await world.renew("one")
        await world.store.limit("pay", QueueLimits(4, 2))
        await world.post(*(work(f"a{number}", "a") for number in range(5)), *(work(f"b{number}", "b", number) for number in range(3)))
        assert sorted(await leased(world)) == ["a0", "a1", "b1", "b2"]
        await world.post(acks=[Ack(queue(), key) for key in ("a0", "a1", "b1", "b2")])
        assert sorted(await leased(world)) == ["a2", "a3", "b0"]

    async def test_what_is_due_later_is_not_handed_over_before_and_its_time_is_told(self, world: StoreWorld) -> None:
        await world.renew("one", lease_s=1000)
        await world.store.limit("mails", QueueLimits(1))
        await world.store.limit("pay", QueueLimits(1))
        later = world.clock.now_s + 20
        await world.post(queued("later", due_at_s=later), work("later", due_at_s=later + 5))
        claimed = await world.claim(queues=["pay"])
        assert (claimed.executions, claimed.work, claimed.next_at_s) == ((), (), later)
        world.clock.advance(25)
        claimed = await world.claim(queues=["pay"])
        assert (len(claimed.executions), len(claimed.work), claimed.next_at_s) == (1, 1, None)

    async def test_a_full_queue_tells_no_time(self, world: StoreWorld) -> None:
        await world.renew("one")
        await world.store.limit("mails", QueueLimits(1))
        await world.post(queued("a"), queued("b"))
        assert (await world.claim()).next_at_s is None and (await world.claim()).executions == ()

    async def test_only_the_executions_of_known_programs_take_part(self, world: StoreWorld) -> None:
        await world.renew("one")
        await world.store.limit("mails", QueueLimits(1))
        unknown = Key("acme", "order", "unknown")
        await world.post(OutgoingMessage(unknown, "start", b"start", 0.0, NewExecution("other", unknown, "mails", "", 9)), queued("known"))
        assert await ids(world) == ["known"]

    @pytest.mark.parametrize("name", ["", "\0", "a\0b", "é", "日本", "'", '"', "x" * 1024])
    async def test_a_queue_and_a_lane_may_have_any_name(self, world: StoreWorld, name: str) -> None:
        await world.renew("one")
        await world.store.limit(name, QueueLimits(1, 1, 0.5, 2, f"{name} as the code has it"))
        await world.post(work("a", name, name=name), work("b", name + "x", name=name))
        assert await leased(world, "one", name) == ["a"]
        assert await world.store.queues() == [QueueStatus(name, QueueLimits(1, 1, 0.5, 2, f"{name} as the code has it"), 0, 1, 0, 1, None, world.clock.now_s)]
        await world.store.limit(name, None)
        assert await leased(world, "one", name) == ["b"]

    async def test_a_change_of_limits_rings(self, world: StoreWorld) -> None:
        rings: list[None] = []
        silence = world.store.on_wake(lambda: rings.append(None))
        await world.store.limit("mails", QueueLimits(1))
        await world.store.store_time()
        silence()
        assert rings


class TaskSuite:
    """See the module."""

    async def test_work_is_claimed_by_the_names_of_queues_whatever_the_tenant(self, world: StoreWorld) -> None:
        await world.renew("one")
        await world.post(
            plain_message(queue("pay", "a"), "1"),
            plain_message(queue("ship", "a"), "2"),
            plain_message(queue("pay", "b"), "1"),
            plain_message(queue("mail"), "4"),
        )
        assert await world.work("one", "nothing", "order") == []
        assert [(message.to, message.key) for message in await world.work("one", "pay")] == [(queue("pay", "a"), "1"), (queue("pay", "b"), "1")]
        assert [(message.to, message.key) for message in await world.work("one", "ship", "mail")] == [(queue("ship", "a"), "2"), (queue("mail"), "4")]

    @pytest.mark.parametrize("limits", [None, QueueLimits(concurrency=10)], ids=["unlimited", "limited"])
    async def test_who_names_tenants_gets_the_work_of_these_alone(self, world: StoreWorld, limits: QueueLimits | None) -> None:
        await world.store.limit("pay", limits)
        await world.renew("one", lease_s=10)
        await world.renew("two", lease_s=1000)
        await world.post(*(plain_message(queue("pay", tenant), str(number)) for number, tenant in enumerate(("a", "b", "a", "c", 'a"]\0'))))
        await world.post(plain_message(queue("ship", "b"), "5"))
        assert await world.work("one", "pay", tenants=frozenset()) == await world.work("one", "pay", tenants=frozenset({"pay", "d"})) == []
        assert [message.key for message in await world.work("one", "pay", "ship", tenants=frozenset({"b", 'a"]\0'}))] == ["1", "4", "5"]
        world.clock.advance(10)
        assert [message.key for message in await world.work("two", "pay", tenants=frozenset({"b", "c"}), limit=1)] == ["1"]
        assert [message.key for message in await world.work("two", "pay", tenants=frozenset({"b", "c"}))] == ["3"]
        assert [message.key for message in await world.work("two", "pay", "ship")] == ["0", "2", "4", "5"]

    async def test_who_holds_work_can_ask_whether_it_is_there_still(self, world: StoreWorld) -> None:
        await world.renew("one")
        await world.open(key())
        await world.post(plain_message(queue(), "1"), plain_message(queue(), "2"), plain_message(queue("pay", "b"), "2"))
        await world.work("one")
        asked = [Ack(queue(), "1"), Ack(queue(), "2"), Ack(queue("pay", "b"), "1"), Ack(queue("pay", "b"), "2"), Ack(key(), "start"), Ack(queue(), "1")]
        assert await world.store.are_queued(asked) == [True, True, False, True, True, True]
        await world.post(acks=[Ack(queue(), "1")])
        assert await world.store.are_queued(asked) == [False, True, False, True, True, False]
        assert await world.store.are_queued([]) == []

    async def test_leased_work_is_handed_to_nobody_again_not_even_its_worker(self, world: StoreWorld) -> None:
        await world.renew("one", "two")
        await world.post(plain_message(queue(), body=b"work"))
        (message,) = await world.work("one")
        assert (message.key, message.body, message.deliveries) == ("letter", b"work", 1)
        assert await world.work("one") == await world.work("two") == []
        assert await world.store.messages(queue()) == [message]

    @pytest.mark.parametrize("limits", [None, QueueLimits(concurrency=1)], ids=["unlimited", "limited"])
    async def test_postponed_work_is_leased_by_nobody_and_makes_room(self, world: StoreWorld, limits: QueueLimits | None) -> None:
        await world.store.limit("pay", limits)
        await world.renew("one", lease_s=1000)
        await world.post(plain_message(queue(), "1"), plain_message(queue(), "2"))
        assert [message.key for message in await world.work("one", limit=1)] == ["1"]
        await world.post(acks=[Ack(queue(), "1", postpone_to_s=world.clock.now_s + 30)])
        assert [message.key for message in await world.work("one")] == ["2"]
        await world.post(acks=[Ack(queue(), "2")])
        assert await world.work("one") == []
        world.clock.advance(30)
        assert [(message.key, message.deliveries) for message in await world.work("one")] == [("1", 2)]

    async def test_the_work_of_a_dead_worker_is_handed_out_again_and_counted(self, world: StoreWorld) -> None:
        await world.post(plain_message(queue()))
        await world.renew("last", lease_s=1000)
        for deliveries, worker in enumerate(("one", "two", "one"), 1):
            await world.renew(worker, lease_s=10)
            (message,) = await world.work(worker)
            assert message.deliveries == deliveries
            assert await world.work("last") == []
            world.clock.advance(10)
        await world.renew("two", lease_s=10)
        await world.renew("two", lease_s=0)
        assert [message.deliveries for message in await world.work("last")] == [4]

    async def test_a_worker_that_comes_back_is_handed_its_work_again(self, world: StoreWorld) -> None:
        await world.renew("one")
        await world.post(plain_message(queue("pay", "a")), plain_message(queue("pay", "b")))
        await world.work("one")
        await world.renew("one", lease_s=0)
        await world.renew("one")
        assert [message.deliveries for message in await world.work("one")] == [2, 2]
        epoch = await world.store.raise_epoch()
        await world.renew("one")
        assert [message.deliveries for message in await world.work("one", epoch=epoch)] == [3, 3]

    async def test_a_worker_that_renews_late_keeps_what_no_claim_has_freed(self, world: StoreWorld) -> None:
        await world.renew("one", lease_s=10)
        await world.renew("two", lease_s=1000)
        await world.post(plain_message(queue(), "1"), plain_message(queue(), "2"))
        await world.work("one")
        world.clock.advance(10)
        await world.renew("one", lease_s=10)
        assert await world.work("two") == await world.work("one") == []
        world.clock.advance(10)
        assert [message.key for message in await world.work("two", limit=1)] == ["1"]
        await world.renew("one", lease_s=10)
        assert [message.key for message in await world.work("one")] == ["2"]

    async def test_an_answer_is_one_change_that_sends_and_acknowledges(self, world: StoreWorld) -> None:
        await world.renew("one")
        await world.open(key())
        await world.post(plain_message(queue()), plain_message(queue(), "other"))
        await world.work("one", limit=1)
        answers = await world.change(*[Post(epoch=world.epoch, messages=(plain_message(key(), "answer"),), acks=(Ack(queue(), "letter"),))] * 2)
        assert [type(answer) for answer in answers] == [Committed, Committed]
        assert (await world.keys(key()), await world.keys(queue())) == (["start", "answer"], ["other"])
        await world.renew("one", lease_s=0)
        await world.renew("two")
        assert [(message.key, message.deliveries) for message in await world.work("two")] == [("other", 1)]

    async def test_an_answer_of_an_earlier_epoch_is_refused(self, world: StoreWorld) -> None:
        await world.renew("one")
        await world.open(key())
        await world.post(plain_message(queue()))
        await world.work("one")
        epoch = await world.store.raise_epoch()
        (answer,) = await world.change(Post(epoch=world.epoch, messages=(plain_message(key(), "answer"),), acks=(Ack(queue(), "letter"),)))
        assert answer == Superseded(epoch)
        assert (await world.keys(key()), await world.keys(queue())) == (["start"], ["letter"])

    async def test_work_is_handed_out_when_it_is_due(self, world: StoreWorld) -> None:
        await world.renew("one")
        await world.post(plain_message(queue(), due_at_s=world.clock.now_s + 10))
        world.clock.advance(9.5)
        assert await world.work() == []
        world.clock.advance(0.5)
        assert [message.key for message in await world.work()] == ["letter"]

    async def test_work_is_handed_out_in_order_up_to_the_limit(self, world: StoreWorld) -> None:
        await world.renew("one", "two", lease_s=1000)
        await world.renew("three", lease_s=20)
        await world.post(plain_message(queue(), "later", due_at_s=world.clock.now_s + 10))
        await world.post(*(plain_message(queue("ab"[number % 2]), str(number)) for number in range(6)))
        assert [message.key for message in await world.work("three", "a", limit=1)] == ["0"]
        assert await world.work("one", "a", "b", limit=0) == []
        assert [message.key for message in await world.work("one", "a", "b", limit=2)] == ["1", "2"]
        world.clock.advance(20)
        await world.post(plain_message(queue("a"), "6"))
        assert [message.key for message in await world.work("two", "a", "b", "pay", limit=3)] == ["0", "3", "4"]
        assert [message.key for message in await world.work("one", "pay", "b", "a")] == ["5", "later", "6"]

    async def test_executions_and_work_are_limited_apart(self, world: StoreWorld) -> None:
        await world.renew("one")
        await world.open(key("1"), key("2"))
        await world.post(plain_message(queue(), "1"), plain_message(queue(), "2"))
        claimed = await world.claim(queues=["pay"], limit=1)
        assert (len(claimed.executions), len(claimed.work)) == (1, 1)

    async def test_a_message_to_an_execution_is_no_work_and_work_is_no_message(self, world: StoreWorld) -> None:
        await world.renew("one")
        await world.open(key(workflow="pay"))
        await world.post(plain_message(queue("order"), "work"))
        assert await world.work("one", "pay", "acme", "1") == []
        assert await world.claimed("one", "pay") == []
        assert [message.key for message in await world.work("one", "order")] == ["work"]

    async def test_the_limits_of_a_tenant_take_the_place_of_those_for_all(self, world: StoreWorld) -> None:
        await world.renew("one")
        await world.store.limit("pay", QueueLimits(3), "acme")
        await world.store.limit("pay", QueueLimits(2))
        await world.store.limit("mails", QueueLimits(1))
        await world.store.limit("mails", QueueLimits(2), "b")
        tenants = ("acme", "b", "c")
        await world.post(*(work(f"{tenant}{number}", tenant=tenant) for number in range(4) for tenant in tenants))
        assert sorted(await leased(world)) == ["acme0", "acme1", "acme2", "b0", "c0"] and await leased(world) == []
        await world.post(*(queued(f"{tenant}{number}", tenant=tenant) for number in range(4) for tenant in tenants))
        assert sorted(await ids(world)) == ["acme0", "b0", "b1"] and await ids(world) == []
        assert await world.store.queues() == [
            QueueStatus("mails", QueueLimits(1), 1, 0, 7, 0),
            QueueStatus("mails", QueueLimits(2), 2, 0, 2, 0, "b"),
            QueueStatus("pay", QueueLimits(2), 0, 2, 0, 6, None, world.clock.now_s),
            QueueStatus("pay", QueueLimits(3), 0, 3, 0, 1, "acme", world.clock.now_s),
        ]
        await world.post(acks=[Ack(queue("pay", "acme"), "acme0"), Ack(queue("pay", "c"), "c0")])
        assert sorted(await leased(world)) == ["acme3", "b1"]
        await world.commit(key("b0", "b"), acks=(Ack(key("b0", "b"), "start"),), release=True)
        assert await ids(world) == ["b2"]

    async def test_a_tenant_alone_is_limited_or_exempt(self, world: StoreWorld) -> None:
        await world.renew("one")
        await world.store.limit("pay", QueueLimits(1), "b")
        await world.store.limit("mails", QueueLimits(1))
        await world.store.limit("mails", UNLIMITED, "b")
        await world.post(*(work(f"{tenant}{number}", tenant=tenant) for number in range(3) for tenant in ("acme", "b")))
        assert sorted(await leased(world)) == ["acme0", "acme1", "acme2", "b0"]
        await world.post(*(queued(f"{tenant}{number}", tenant=tenant) for number in range(3) for tenant in ("acme", "b")))
        assert sorted(await ids(world)) == ["acme0", "b0", "b1", "b2"]
        assert await world.store.queues() == [
            QueueStatus("mails", QueueLimits(1), 1, 0, 2, 0),
            QueueStatus("mails", UNLIMITED, 3, 0, 0, 0, "b"),
            QueueStatus("pay", UNLIMITED, 0, 3, 0, 0),
            QueueStatus("pay", QueueLimits(1), 0, 1, 0, 2, "b", world.clock.now_s),
        ]

    async def test_limits_of_a_tenant_that_come_and_go_apply_to_what_waits_and_what_is_held(self, world: StoreWorld) -> None:
        await world.renew("one")
        await world.store.limit("pay", QueueLimits(2))
        await world.post(*(work(f"{tenant}{number}", tenant=tenant) for number in range(3) for tenant in ("acme", "b")))
        assert sorted(await leased(world)) == ["acme0", "b0"]
        await world.store.limit("pay", QueueLimits(2), "b")  # what b holds no longer counts for the others
        assert sorted(await leased(world)) == ["acme1", "b1"]
        await world.store.limit("pay", None, "b")
        assert await leased(world) == []
        await world.store.limit("pay", QueueLimits(5))
        assert sorted(await leased(world)) == ["acme2"]
        await world.store.limit("pay", None)
        assert sorted(await leased(world)) == ["b2"]
        assert await world.store.queues() == [QueueStatus("pay", UNLIMITED, 0, 6, 0, 0)]

    async def test_a_claim_for_some_tenants_gets_what_their_limits_leave(self, world: StoreWorld) -> None:
        await world.renew("one")
        await world.store.limit("pay", QueueLimits(1))
        await world.store.limit("pay", QueueLimits(2), "b")
        await world.post(*(work(f"{tenant}{number}", tenant=tenant) for number in range(3) for tenant in ("acme", "b", "c")))
        assert await leased(world, tenants=frozenset({"c"})) == ["c0"]
        assert await leased(world, tenants=frozenset({"acme", "c"})) == []
        assert sorted(await leased(world, tenants=frozenset({"b"}))) == ["b0", "b1"]

    async def test_the_rate_of_a_tenant_is_its_own(self, world: StoreWorld) -> None:
        await world.renew("one", lease_s=1000)
        await world.store.limit("pay", QueueLimits(interval_s=10.0))
        await world.store.limit("pay", QueueLimits(interval_s=4.0), "b")
        await world.post(*(work(f"{tenant}{number}", tenant=tenant) for number in range(2) for tenant in ("acme", "b")))
        claimed = await world.claim(queues=["pay"])
        assert (sorted(message.key for message in claimed.work), claimed.next_at_s) == (["acme0", "b0"], world.clock.now_s + 4)
        world.clock.advance(4)
        claimed = await world.claim(queues=["pay"])
        assert ([message.key for message in claimed.work], claimed.next_at_s) == (["b1"], world.clock.now_s + 6)
