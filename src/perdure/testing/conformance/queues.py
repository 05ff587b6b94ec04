"""Queues: of what waits in one, as much is handed over as its limits leave room for; by priority, its lanes in turns."""

import pytest

from perdure.core.mail import Ack, Opening, Send
from perdure.core.paths import Key
from perdure.stores.base import UNLIMITED, Limits, QueueStand
from perdure.testing.conformance.world import PROGRAM, World, key, queue


def queued(id: str, lane: str = "", priority: int = 0, *, name: str = "mails", due_at_s: float = 0.0) -> Send:
    """The start of an execution in a queue."""
    of = key(id)
    return Send(of, "start", b"start", due_at_s, Opening(PROGRAM, of, name, lane, priority))


def work(key: str, lane: str = "", priority: int = 0, *, name: str = "pay", tenant: str = "acme", due_at_s: float = 0.0) -> Send:
    """A piece of work."""
    return Send(queue(name, tenant), key, b"work", due_at_s, None, lane, priority)


async def ids(world: World, holder: str = "one", **fields: object) -> list[str]:
    """The ids of the executions that a claim gets."""
    return [one.id for one in await world.claimed(holder, **fields)]


async def leased(world: World, holder: str = "one", *queues: str, **fields: object) -> list[str]:
    """The keys of the work that a claim gets."""
    return [mail.key for mail in await world.work(holder, *queues, **fields)]


class Queues:
    """See the module."""

    async def test_a_queue_without_limits_holds_nothing_up_and_is_listed_as_long_as_something_is_in_it(self, world: World) -> None:
        await world.renew("one")
        await world.post(*(queued(str(number), "lane", number) for number in range(3)), work("w", "lane", 7))
        assert await world.store.queues() == [QueueStand("mails", UNLIMITED, 0, 0, 3, 0), QueueStand("pay", UNLIMITED, 0, 0, 0, 1)]
        assert await ids(world) == ["0", "1", "2"] and await leased(world) == ["w"]
        head = await world.head(key("2"))
        assert (head.queue, head.lane, head.priority) == ("mails", "lane", 2)
        (mail,) = await world.store.mail(queue())
        assert (mail.lane, mail.priority, mail.deliveries) == ("lane", 7, 1)
        assert await world.store.queues() == [QueueStand("mails", UNLIMITED, 3, 0, 0, 0), QueueStand("pay", UNLIMITED, 0, 1, 0, 0)]

    async def test_no_more_executions_are_held_than_a_queue_allows_whoever_claims(self, world: World) -> None:
        await world.renew("one", "two")
        await world.store.limit("mails", Limits(2))
        await world.post(*(queued(str(number)) for number in range(5)), queued("free", name="other"))
        assert await ids(world, limit=1) == ["0"]
        assert await ids(world, "two") == ["1", "free"]
        assert await ids(world) == await ids(world, "two") == []
        assert await world.store.queues() == [QueueStand("mails", Limits(2), 2, 0, 3, 0), QueueStand("other", UNLIMITED, 1, 0, 0, 0)]

    async def test_what_is_released_makes_room_and_what_waits_for_time_takes_none(self, world: World) -> None:
        await world.renew("one")
        await world.store.limit("mails", Limits(1))
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

    async def test_what_the_claimer_holds_is_handed_its_mail_without_room(self, world: World) -> None:
        await world.renew("one", "two")
        await world.store.limit("mails", Limits(1))
        await world.post(queued("a"), queued("b"))
        assert await ids(world) == ["a"]
        await world.post(Send(key("a"), "more", b"more"), Send(key("b"), "more", b"more"))
        assert await ids(world, "two") == []
        (assignment,) = (await world.claim()).executions
        assert (assignment.head.key.id, [mail.key for mail in assignment.mail]) == ("a", ["start", "more"])

    async def test_what_the_dead_held_takes_no_room_and_is_handed_over_within_it(self, world: World) -> None:
        await world.renew("one", lease_s=10)
        await world.renew("two", lease_s=100)
        await world.store.limit("mails", Limits(2))
        await world.post(*(queued(str(number)) for number in range(4)))
        assert await ids(world) == ["0", "1"] and await ids(world, "two") == []
        world.clock.advance(10)
        assert await ids(world, "two", limit=1) == ["0"]
        assert await ids(world, "two") == ["1"] and await ids(world, "two") == []
        assert (await world.store.queues())[0] == QueueStand("mails", Limits(2), 2, 0, 2, 0)

    async def test_limits_are_changed_while_things_are_held(self, world: World) -> None:
        await world.renew("one")
        await world.store.limit("mails", Limits(3))
        await world.post(*(queued(str(number)) for number in range(6)))
        assert await ids(world) == ["0", "1", "2"]
        await world.store.limit("mails", Limits(1))
        await world.commit(key("0"), acks=(Ack(key("0"), "start"),), release=True)
        assert await ids(world) == []
        await world.store.limit("mails", Limits(4))
        assert await ids(world) == ["3", "4"]
        await world.store.limit("mails", None)
        assert await ids(world) == ["5"]
        await world.store.limit("mails", Limits(0))
        await world.post(queued("6"))
        assert await ids(world) == []

    async def test_lanes_are_served_in_turns_also_where_there_is_room_for_one(self, world: World) -> None:
        await world.renew("one")
        await world.store.limit("mails", Limits(1))
        await world.post(*(queued(f"a{number}", "a") for number in range(4)), queued("b0", "b"), queued("c0", "c"), queued("b1", "b"))
        served = []
        for _ in range(7):
            (id,) = await ids(world)
            served.append(id)
            await world.commit(key(id), acks=(Ack(key(id), "start"),), release=True)
        assert served == ["a0", "b0", "c0", "a1", "b1", "a2", "a3"]

    async def test_a_lane_that_was_served_is_not_kept_waiting_by_ever_new_ones(self, world: World) -> None:
        await world.renew("one")
        await world.store.limit("mails", Limits(1))
        await world.store.limit("pay", Limits(1))
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

    async def test_what_is_held_counts_against_its_lane(self, world: World) -> None:
        await world.renew("one")
        await world.store.limit("mails", Limits(4))
        await world.post(*(queued(f"a{number}", "a") for number in range(3)))
        assert await ids(world, limit=2) == ["a0", "a1"]
        await world.post(*(queued(f"b{number}", "b") for number in range(3)))
        assert sorted(await ids(world)) == ["b0", "b1"]

    async def test_no_more_of_a_lane_is_held_than_is_allowed_of_each(self, world: World) -> None:
        await world.renew("one")
        await world.store.limit("mails", Limits(None, 1))
        await world.post(*(queued(f"{lane}{number}", lane) for lane in "ab" for number in range(2)))
        assert await ids(world) == ["a0", "b0"] and await ids(world) == []
        await world.commit(key("b0"), acks=(Ack(key("b0"), "start"),), release=True)
        assert await ids(world) == ["b1"]

    async def test_a_higher_priority_comes_first_whatever_its_lane(self, world: World) -> None:
        await world.renew("one")
        await world.store.limit("mails", Limits(1))
        await world.post(queued("low", "a", -1), queued("middle", "b"), queued("high", "a", 5), queued("higher", "a", 6), queued("other", "c", 5))
        served = []
        for _ in range(5):
            (id,) = await ids(world)
            served.append(id)
            await world.commit(key(id), acks=(Ack(key(id), "start"),), release=True)
        assert served == ["higher", "other", "high", "middle", "low"]

    async def test_a_rate_lets_one_begin_after_the_other_and_tells_when_the_next_may(self, world: World) -> None:
        await world.renew("one", lease_s=1000)
        await world.store.limit("mails", Limits(interval_s=10.0))
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

    async def test_a_rate_makes_up_for_a_few_at_once_if_it_may(self, world: World) -> None:
        await world.renew("one", lease_s=1000)
        await world.store.limit("pay", Limits(interval_s=10.0, burst=3))
        await world.post(*(work(str(number)) for number in range(9)))
        assert await leased(world) == ["0", "1", "2"]
        world.clock.advance(10)
        assert await leased(world) == ["3"]
        world.clock.advance(100)
        assert await leased(world) == ["4", "5", "6"] and await leased(world) == []

    async def test_no_more_work_is_leased_than_a_queue_allows_over_all_tenants(self, world: World) -> None:
        await world.renew("one", "two")
        await world.store.limit("pay", Limits(2))
        await world.post(work("a"), work("b", tenant="b"), work("c"), work("free", name="ship"))
        assert await leased(world, "one", "pay", "ship") == ["a", "b", "free"]
        assert await leased(world, "two", "pay") == []
        await world.post(acks=[Ack(queue("pay", "b"), "b")])
        assert await leased(world, "two", "pay") == ["c"]
        assert (await world.store.queues())[0] == QueueStand("pay", Limits(2), 0, 2, 0, 0)

    async def test_leased_work_of_the_dead_is_leased_again_within_the_limits(self, world: World) -> None:
        await world.renew("one", lease_s=10)
        await world.renew("two", lease_s=100)
        await world.store.limit("pay", Limits(1))
        await world.post(work("a"), work("b"))
        assert await leased(world) == ["a"] and await leased(world, "two") == []
        world.clock.advance(10)
        assert await leased(world, "two") == ["a"] and await leased(world, "two") == []

    async def test_work_of_many_lanes_is_leased_in_turns_by_priority_and_lane(self, world: World) -> None:
        await world.renew("one")
        await world.store.limit("pay", Limits(4, 2))
        await world.post(*(work(f"a{number}", "a") for number in range(5)), *(work(f"b{number}", "b", number) for number in range(3)))
        assert sorted(await leased(world)) == ["a0", "a1", "b1", "b2"]
        await world.post(acks=[Ack(queue(), key) for key in ("a0", "a1", "b1", "b2")])
        assert sorted(await leased(world)) == ["a2", "a3", "b0"]

    async def test_what_is_due_later_is_not_handed_over_before_and_its_time_is_told(self, world: World) -> None:
        await world.renew("one", lease_s=1000)
        await world.store.limit("mails", Limits(1))
        await world.store.limit("pay", Limits(1))
        later = world.clock.now_s + 20
        await world.post(queued("later", due_at_s=later), work("later", due_at_s=later + 5))
        claimed = await world.claim(queues=["pay"])
        assert (claimed.executions, claimed.work, claimed.next_at_s) == ((), (), later)
        world.clock.advance(25)
        claimed = await world.claim(queues=["pay"])
        assert (len(claimed.executions), len(claimed.work), claimed.next_at_s) == (1, 1, None)

    async def test_a_full_queue_tells_no_time(self, world: World) -> None:
        await world.renew("one")
        await world.store.limit("mails", Limits(1))
        await world.post(queued("a"), queued("b"))
        assert (await world.claim()).next_at_s is None and (await world.claim()).executions == ()

    async def test_only_the_executions_of_known_programs_take_part(self, world: World) -> None:
        await world.renew("one")
        await world.store.limit("mails", Limits(1))
        unknown = Key("acme", "order", "unknown")
        await world.post(Send(unknown, "start", b"start", 0.0, Opening("other", unknown, "mails", "", 9)), queued("known"))
        assert await ids(world) == ["known"]

    @pytest.mark.parametrize("name", ["", "\0", "a\0b", "é", "日本", "'", '"', "x" * 1024])
    async def test_a_queue_and_a_lane_may_have_any_name(self, world: World, name: str) -> None:
        await world.renew("one")
        await world.store.limit(name, Limits(1, 1, 0.5, 2, f"{name} as the code has it"))
        await world.post(work("a", name, name=name), work("b", name + "x", name=name))
        assert await leased(world, "one", name) == ["a"]
        assert await world.store.queues() == [QueueStand(name, Limits(1, 1, 0.5, 2, f"{name} as the code has it"), 0, 1, 0, 1)]
        await world.store.limit(name, None)
        assert await leased(world, "one", name) == ["b"]

    async def test_a_change_of_limits_rings(self, world: World) -> None:
        rings: list[None] = []
        silence = world.store.on_wake(lambda: rings.append(None))
        await world.store.limit("mails", Limits(1))
        await world.store.moment()
        silence()
        assert rings
