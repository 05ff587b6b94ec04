"""The tests of claims, leases and wake-ups. One live holder at a time works on an execution, and others take over from a dead one.

A free execution is claimed when its wake-up time has come or a message is due, and no wake-up is missed.
"""

import pytest

from perdure.core.envelopes import Ack, NewExecution, OutgoingMessage
from perdure.core.paths import Key
from perdure.core.program import Toolbox
from perdure.stores.protocol import Committed, QueueLimits
from perdure.testing.conformance.store_world import NAMES, StoreWorld, key, plain_message, queue, start_message


def families(*ids: str) -> frozenset[Key]:
    """The roots of a claim that is restricted to them."""
    return frozenset(map(key, ids))


class LeaseSuite:
    """See the module."""

    async def test_only_executions_of_known_programs_are_claimed(self, world: StoreWorld) -> None:
        await world.renew("one")
        await world.open(key("1"), program="order")
        await world.open(key("2"), program="order@2")
        await world.open(key("3"), program="refund")
        assert await world.claimed("one", "unknown") == []
        assert await world.claimed("one", "order@2", "refund@1") == [key("2")]
        assert await world.claimed("one", "order", "refund") == [key("1"), key("3")]

    async def test_programs_queues_and_holders_are_known_word_for_word(self, world: StoreWorld) -> None:
        for holder in ("one", *NAMES):
            await world.renew(holder)
        for number, name in enumerate(NAMES):
            await world.open(key(str(number)), program=name, root=key(name))
            await world.post(plain_message(queue(name), name))
        for number, name in enumerate(NAMES):
            claimed = await world.claim(name, name, queues=[name])
            assert [assignment.head.key.id for assignment in claimed.executions] == [str(number)]
            assert [message.key for message in claimed.work] == [name]
            assert (await world.head(key(str(number)))).holder == name
        assert await world.claimed("one", *NAMES) == []
        for number, name in enumerate(NAMES):
            await world.renew(name, lease_s=0)
            assert await world.claimed("one", *NAMES, roots=frozenset({key(name)})) == [key(str(number))]

    async def test_what_needs_capabilities_is_claimed_by_those_who_have_all_of_them(self, world: StoreWorld) -> None:
        await world.renew("one", "two", lease_s=1000)
        pays, more, other = "order@1\ntool:pay", "order@1\ntool:pay\ntool:ship@2", "audit@1\ntool:pay"
        await world.open(key("pays"), program=pays)
        await world.open(key("both"), program=more)
        await world.open(key("other"), program=other)
        await world.open(key("plain"), program="order@1")

        def boxes(*programs: str, has: str = "tool:pay kind:http") -> tuple[Toolbox, ...]:
            return ((frozenset(programs), frozenset(has.split())),)

        assert await world.claimed("one", "order@1", toolboxes=boxes("order@1", has="tool:ship@2")) == [key("plain")]
        assert await world.claimed("one", "order@1") == []
        assert await world.claimed("one", "order@1", toolboxes=(*boxes("order", "order@2"), *boxes("order@1", has="tool:ship@2"))) == []
        assert await world.claimed("one", "order@1", toolboxes=boxes("order@1")) == [key("pays")]
        both = (*boxes("audit@1"), *boxes("order@1", has="tool:pay tool:ship@2 kind:http"))
        assert await world.claimed("two", toolboxes=both) == [key("both"), key("other")]

    async def test_what_an_execution_needs_may_change_and_holds_in_queues_and_for_what_the_dead_held(self, world: StoreWorld) -> None:
        await world.store.limit("line", QueueLimits(concurrency=5))
        await world.renew("one", lease_s=10)
        await world.renew("two", lease_s=1000)
        await world.parked(key("1"))
        await world.commit(key("1"), 1, program="order@1\ntool:pay", wake_at_s=world.clock.now_s)
        await world.post(OutgoingMessage(key("2"), "start", b"start", opens=NewExecution("order@1\ntool:pay", key("2"), "line")))
        world.clock.advance(10)
        assert await world.claimed("two", "order@1") == []
        assert (await world.claim("two", "order@1")).next_at_s is None
        toolbox = frozenset(["order@1"]), frozenset(["tool:pay"])
        assert {*await world.claimed("two", "order@1", toolboxes=(toolbox,))} == {key("1"), key("2")}

    async def test_the_program_is_the_one_that_the_last_commit_named(self, world: StoreWorld) -> None:
        await world.renew("one")
        await world.open(key())
        await world.commit(key(), 0, program="order@3")
        assert await world.claimed("one", "order") == []
        assert await world.claimed("one", "order@3") == [key()]

    async def test_a_claim_may_be_restricted_to_one_family(self, world: StoreWorld) -> None:
        await world.renew("one", "two")
        for id, root in (("1", "1"), ("1a", "1"), ("2", "2"), ("1b", "1"), ("2a", "2")):
            await world.open(key(id), root=key(root))
        await world.open(key("1"), root=key("2"))
        assert await world.claimed(roots=families("3")) == []
        assert await world.claimed(roots=frozenset({key("1", tenant="other")})) == []
        assert await world.claimed(roots=families("1"), limit=2) == [key("1"), key("1a")]
        await world.renew("one", lease_s=0)
        assert await world.claimed("two", roots=families("1")) == [key("1"), key("1a"), key("1b")]
        assert await world.claimed("two", "refund", roots=families("2")) == []
        assert await world.claimed("two") == [key("2"), key("2a")]

    async def test_a_claim_may_be_restricted_to_several_families_or_to_none(self, world: StoreWorld) -> None:
        await world.renew("one", "two")
        for id, root in (("1", "1"), ("2", "2"), ("3", "3"), ("1a", "1"), ("3a", "3"), ("2a", "2")):
            await world.open(key(id), root=key(root))
        assert await world.claimed(roots=families()) == []
        assert (await world.claim(roots=families())).next_at_s is None
        assert await world.claimed(roots=families("3", "1", "none"), limit=3) == [key("1"), key("3"), key("1a")]
        assert await world.claimed(roots=families("3", "1")) == [key("3a")]
        await world.renew("one", lease_s=0)
        assert await world.claimed("two", roots=families("2", "3")) == [key("2"), key("3"), key("3a"), key("2a")]
        assert await world.claimed("two") == [key("1"), key("1a")]

    async def test_a_claim_of_families_tells_when_the_first_of_them_is_due(self, world: StoreWorld) -> None:
        await world.renew("one")
        for number, id in enumerate("123", 1):
            await world.open(key(id), root=key(id))
            (claimed,) = (await world.claim(roots=families(id))).executions
            await world.commit(claimed.head.key, 0, release=True, wake_at_s=world.clock.now_s + 10 * number, acks=(Ack(key(id), "start"),))
        assert (await world.claim(roots=families("3", "2"))).next_at_s == world.clock.now_s + 20
        assert (await world.claim(roots=families("3"))).next_at_s == world.clock.now_s + 30
        assert (await world.claim(roots=families("4"))).next_at_s is None

    async def test_a_claim_of_families_respects_the_limits_of_queues(self, world: StoreWorld) -> None:
        await world.renew("one")
        await world.store.limit("mails", QueueLimits(2))
        for id in "1234":
            start = OutgoingMessage(key(id), "start", b"start", opens=NewExecution("order", key(id), "mails"))
            await world.post(start)
        assert await world.claimed(roots=families()) == []
        assert await world.claimed(roots=families("2", "3", "4")) == [key("2"), key("3")]
        assert await world.claimed(roots=families("4")) == []

    async def test_a_claim_hands_over_the_head_as_it_is_afterwards_and_all_due_mail(self, world: StoreWorld) -> None:
        await world.renew("one")
        later_s = world.clock.now_s + 30
        await world.open(key())
        await world.post(
            plain_message(key(), "later", due_at_s=later_s), plain_message(key(), "second"), plain_message(key(), "much later", due_at_s=later_s + 1)
        )
        claimed = await world.claim()
        (assignment,) = claimed.executions
        assert claimed.now_s == world.clock.now_s
        assert [(message.key, message.body, message.deliveries) for message in assignment.messages] == [("start", b"start", 0), ("second", b"second", 0)]
        assert (assignment.head.holder, assignment.head.wake_at_s, assignment.head.message_at_s) == ("one", None, later_s)
        assert await world.head(key()) == assignment.head
        assert await world.keys(key()) == ["start", "later", "second", "much later"]

    async def test_what_is_held_by_the_living_is_claimed_by_nobody_else(self, world: StoreWorld) -> None:
        await world.renew("one", "two")
        await world.open(key())
        assert await world.claimed("one") == [key()]
        await world.post(plain_message(key()))
        world.clock.advance(59)
        assert await world.claimed("two") == []

    async def test_new_mail_is_handed_to_the_holder_again_with_all_that_is_not_acknowledged(self, world: StoreWorld) -> None:
        await world.renew("one", "two")
        await world.open(key())
        await world.post(plain_message(key(), "handled"))
        await world.claim("one")
        assert await world.claimed("one") == []
        await world.commit(key(), 0, acks=(Ack(key(), "handled"),))
        assert await world.claimed("one") == []
        await world.post(plain_message(key(), "new"))
        assert await world.claimed("two") == []
        (assignment,) = (await world.claim("one")).executions
        assert [message.key for message in assignment.messages] == ["start", "new"]
        assert (assignment.head.holder, assignment.head.message_at_s) == ("one", None)
        assert await world.claimed("one") == []

    async def test_mail_that_becomes_due_is_handed_to_the_holder(self, world: StoreWorld) -> None:
        await world.renew("one", "two")
        await world.open(key())
        await world.claim("one")
        await world.post(plain_message(key(), due_at_s=world.clock.now_s + 10))
        assert await world.claimed("one") == []
        world.clock.advance(10)
        assert await world.claimed("two") == []
        assert await world.claimed("one") == [key()]

    async def test_what_the_dead_held_is_claimed_by_others_awake_or_not(self, world: StoreWorld) -> None:
        await world.renew("one", lease_s=10)
        await world.renew("two")
        await world.open(key("running"), key("sleeping"), key("told"))
        assert len(await world.claimed("one")) == 3
        await world.commit(key("sleeping"), 0, wake_at_s=world.clock.now_s + 1000)
        await world.post(plain_message(key("told")))
        world.clock.advance(9.5)
        assert await world.claimed("two") == []
        world.clock.advance(0.5)
        (first, *others) = (await world.claim("two")).executions
        assert [first.head.key, *(other.head.key for other in others)] == [key("running"), key("told"), key("sleeping")]
        assert [message.key for message in first.messages] == ["start"]
        assert (first.head.holder, others[1].head.wake_at_s) == ("two", None)
        assert await world.claimed("two") == []

    async def test_renewing_extends_a_life_from_now_on(self, world: StoreWorld) -> None:
        await world.renew("one", lease_s=10)
        await world.renew("two", lease_s=1000)
        await world.open(key())
        await world.claim("one")
        for _ in range(5):
            world.clock.advance(9)
            await world.renew("one", lease_s=10)
            assert await world.claimed("two") == []
        await world.renew("one", lease_s=2)
        world.clock.advance(2)
        assert await world.claimed("two") == [key()]

    async def test_renewing_with_nothing_lets_all_go_at_once(self, world: StoreWorld) -> None:
        await world.renew("one", "two")
        await world.open(key("1"), key("2"))
        await world.claim("one")
        await world.renew("one", lease_s=0)
        assert await world.claimed("one") == []
        assert await world.claimed("two") == [key("1"), key("2")]

    async def test_who_never_renewed_holds_nothing_and_is_given_nothing(self, world: StoreWorld) -> None:
        await world.renew("two")
        assert isinstance(await world.commit(key("1"), creates=True, holder="never"), Committed)
        await world.open(key("2"))
        assert await world.claimed("never") == []
        assert await world.claimed("two") == [key("1"), key("2")]

    async def test_a_dead_claimer_is_given_nothing(self, world: StoreWorld) -> None:
        await world.renew("one", lease_s=10)
        await world.open(key())
        await world.post(plain_message(queue()))
        world.clock.advance(10)
        dead = await world.claim("one", queues=["pay"])
        assert (dead.executions, dead.work) == ((), ())
        await world.renew("one", lease_s=10)
        living = await world.claim("one", queues=["pay"])
        assert (len(living.executions), len(living.work)) == (1, 1)

    async def test_a_claim_of_another_epoch_is_given_nothing(self, world: StoreWorld) -> None:
        await world.open(key())
        epoch = await world.store.raise_epoch()
        await world.renew("one")
        assert await world.claimed(epoch=world.epoch) == []
        assert await world.claimed(epoch=epoch + 1) == []
        assert await world.claimed(epoch=epoch) == [key()]

    async def test_who_renews_late_still_holds_what_no_claim_has_freed(self, world: StoreWorld) -> None:
        await world.renew("one", lease_s=10)
        await world.renew("two", lease_s=1000)
        await world.open(key("1"), key("2"))
        await world.claim("one")
        world.clock.advance(20)
        await world.renew("one", lease_s=10)
        assert await world.claimed("two") == []
        assert [(await world.head(key(id))).holder for id in "12"] == ["one", "one"]
        world.clock.advance(20)
        assert await world.claimed("two", limit=1) == [key("1")]
        await world.renew("one")
        assert [(await world.head(key(id))).holder for id in "12"] == ["two", None]
        await world.commit(key("2"), holder="one")
        assert (await world.head(key("2"))).holder == "one", "whoever goes on with what is free holds it again"
        assert await world.claimed("two") == []

    async def test_who_had_let_go_begins_with_nothing_and_is_given_it_anew(self, world: StoreWorld) -> None:
        await world.renew("one")
        await world.open(key())
        await world.claim("one")
        await world.renew("one", lease_s=0)
        await world.renew("one")
        assert (await world.head(key())).holder is None
        assert await world.claimed("one") == [key()]

    async def test_a_new_epoch_ends_all_lives(self, world: StoreWorld) -> None:
        await world.renew("one", "two")
        await world.open(key("1"), key("2"))
        await world.claim("one")
        epoch = await world.store.raise_epoch()
        assert await world.claimed("one", epoch=epoch) == []
        await world.renew("two")
        assert await world.claimed("two", epoch=epoch, limit=1) == [key("1")]
        await world.renew("one")
        assert await world.claimed("one", epoch=epoch) == [key("2")]

    async def test_releasing_gives_back_only_what_is_still_held(self, world: StoreWorld) -> None:
        await world.renew("one", lease_s=10)
        await world.renew("two")
        await world.open(key("1"), key("2"))
        await world.claim("one")
        world.clock.advance(10)
        assert await world.claimed("two", limit=1) == [key("1")]
        for id in "12":
            assert isinstance(await world.commit(key(id), 0, holder="one", release=True), Committed)
        assert [(await world.head(key(id))).holder for id in "12"] == ["two", None]

    async def test_a_commit_that_does_not_release_holds_what_nobody_holds(self, world: StoreWorld) -> None:
        await world.renew("one", "two")
        await world.open(key("1"))
        assert isinstance(await world.commit(key("1"), 0, holder="one"), Committed)
        assert (await world.head(key("1"))).holder == "one"
        assert await world.claimed("two") == []
        await world.renew("one", lease_s=0)
        assert await world.claimed("two") == [key("1")], "its death is noticed"
        assert isinstance(await world.commit(key("1"), 1, holder="one"), Committed)
        assert (await world.head(key("1"))).holder == "two", "what somebody holds stays theirs"
        assert isinstance(await world.commit(key("1"), 2, holder="two", release=True), Committed)
        assert isinstance(await world.commit(key("1"), 3, holder="two", release=True), Committed)
        assert (await world.head(key("1"))).holder is None

    async def test_creating_and_releasing_in_one_leaves_it_to_nobody(self, world: StoreWorld) -> None:
        await world.renew("one", "two")
        await world.commit(key(), creates=True, release=True, wake_at_s=world.clock.now_s)
        assert (await world.head(key())).holder is None
        assert await world.claimed("two") == [key()]

    async def test_no_more_is_claimed_than_the_limit_and_nothing_twice(self, world: StoreWorld) -> None:
        await world.renew("one", "two")
        await world.open(*(key(str(number)) for number in range(5)))
        assert await world.claimed("one", limit=0) == []
        first, second, third = await world.claimed("one", limit=2), await world.claimed("two", limit=2), await world.claimed("one")
        assert [*first, *second, *third] == [key(str(number)) for number in range(5)]

    async def test_the_longest_waiting_is_claimed_first(self, world: StoreWorld) -> None:
        await world.renew("one", lease_s=10)
        now_s = world.clock.now_s
        await world.commit(key("orphan"), creates=True)
        for id, wake_at_s in (("4", now_s + 4), ("2", now_s + 2), ("6", now_s + 6), ("2b", now_s + 2)):
            await world.parked(key(id), wake_at_s=wake_at_s, program=f"program {id}")
        world.clock.advance(3)
        await world.open(key("3"))
        await world.post(plain_message(key("6")))
        world.clock.advance(7)
        await world.renew("two")
        programs = ("order", *(f"program {id}" for id in ("2", "2b", "4", "6")))
        assert await world.claimed("two", *programs, limit=4) == [key("orphan"), key("2"), key("2b"), key("6")]
        assert await world.claimed("two", *programs) == [key("3"), key("4")]


class WakeUpSuite:
    """See the module."""

    async def test_a_parked_execution_wakes_at_its_time(self, world: StoreWorld) -> None:
        await world.renew("one")
        await world.parked(key(), wake_at_s=world.clock.now_s + 10)
        world.clock.advance(9.5)
        assert await world.claimed() == []
        world.clock.advance(0.5)
        (assignment,) = (await world.claim()).executions
        assert (assignment.head.wake_at_s, assignment.messages) == (None, ())

    async def test_a_parked_execution_without_time_waits_for_its_mail(self, world: StoreWorld) -> None:
        await world.renew("one", lease_s=10**9)
        await world.parked(key())
        world.clock.advance(10**8)
        assert await world.claimed() == []
        await world.post(plain_message(key()))
        assert await world.claimed() == [key()]

    async def test_mail_brings_waking_forward(self, world: StoreWorld) -> None:
        await world.renew("one")
        await world.parked(key(), wake_at_s=world.clock.now_s + 50)
        await world.post(plain_message(key(), "third", due_at_s=world.clock.now_s + 20), plain_message(key(), "second", due_at_s=world.clock.now_s + 10))
        await world.post(plain_message(key(), "fourth", due_at_s=world.clock.now_s + 30))
        head = await world.head(key())
        assert (head.message_at_s, head.wake_at_s) == (world.clock.now_s + 10, world.clock.now_s + 50)
        assert await world.claimed() == []
        world.clock.advance(10)
        (assignment,) = (await world.claim()).executions
        assert [message.key for message in assignment.messages] == ["second"]
        assert (assignment.head.message_at_s, assignment.head.wake_at_s) == (world.clock.now_s + 10, None)

    async def test_the_time_of_a_commit_wakes_before_later_mail(self, world: StoreWorld) -> None:
        await world.renew("one")
        await world.parked(key(), wake_at_s=world.clock.now_s + 10)
        await world.post(plain_message(key(), due_at_s=world.clock.now_s + 20))
        world.clock.advance(10)
        (assignment,) = (await world.claim()).executions
        assert (assignment.messages, assignment.head.message_at_s) == ((), world.clock.now_s + 10)
        await world.commit(key(), 1, release=True)
        assert await world.claimed() == []
        world.clock.advance(10)
        assert await world.claimed() == [key()]

    async def test_a_message_sent_twice_does_not_bring_waking_forward(self, world: StoreWorld) -> None:
        await world.renew("one")
        await world.parked(key())
        later_s = world.clock.now_s + 20
        await world.post(plain_message(key(), due_at_s=later_s))
        await world.post(plain_message(key()))
        assert (await world.head(key())).message_at_s == later_s
        assert await world.claimed() == []

    async def test_the_last_commit_says_when_to_wake(self, world: StoreWorld) -> None:
        await world.renew("one")
        await world.parked(key(), wake_at_s=world.clock.now_s)
        await world.commit(key(), 1, wake_at_s=world.clock.now_s + 10)
        assert await world.claimed() == []
        await world.commit(key(), 2, wake_at_s=None)
        world.clock.advance(10)
        assert await world.claimed() == []
        await world.commit(key(), 3, wake_at_s=0.0)
        assert await world.claimed() == [key()]

    async def test_a_holder_is_given_its_own_execution_at_its_time(self, world: StoreWorld) -> None:
        await world.renew("one", "two")
        await world.open(key())
        await world.claim("one")
        await world.commit(key(), 0, wake_at_s=world.clock.now_s + 10, acks=(Ack(key(), "start"),))
        assert await world.claimed("one") == []
        world.clock.advance(10)
        assert await world.claimed("two") == []
        assert await world.claimed("one") == [key()]
        assert await world.claimed("one") == []

    async def test_mail_that_comes_between_claim_and_parking_wakes_it_again(self, world: StoreWorld) -> None:
        await world.renew("one", "two")
        await world.open(key())
        await world.claim("one")
        await world.post(plain_message(key(), "in between"))
        await world.commit(key(), 0, release=True, acks=(Ack(key(), "start"),))
        (assignment,) = (await world.claim("two")).executions
        assert [message.key for message in assignment.messages] == ["in between"]

    async def test_later_mail_that_comes_between_claim_and_parking_wakes_it_in_time(self, world: StoreWorld) -> None:
        await world.renew("one")
        await world.open(key())
        await world.claim()
        due_at_s = world.clock.now_s + 10
        await world.post(plain_message(key(), due_at_s=due_at_s))
        await world.commit(key(), 0, release=True, acks=(Ack(key(), "start"),), wake_at_s=due_at_s + 10)
        assert (await world.head(key())).message_at_s == due_at_s
        assert await world.claimed() == []
        world.clock.advance(10)
        assert await world.claimed() == [key()]

    async def test_releasing_without_acknowledging_leaves_it_awake(self, world: StoreWorld) -> None:
        await world.renew("one", "two")
        await world.open(key())
        opened_s = world.clock.now_s
        world.clock.advance(5)
        await world.claim("one")
        await world.commit(key(), 0, release=True)
        assert (await world.head(key())).message_at_s == opened_s
        (assignment,) = (await world.claim("two")).executions
        assert [message.key for message in assignment.messages] == ["start"]

    async def test_releasing_with_an_empty_mailbox_leaves_it_asleep(self, world: StoreWorld) -> None:
        await world.renew("one")
        await world.open(key())
        await world.claim()
        await world.commit(key(), 0, release=True, acks=(Ack(key(), "start"),))
        head = await world.head(key())
        assert (head.holder, head.wake_at_s, head.message_at_s) == (None, None, None)
        assert await world.claimed() == []

    async def test_mail_to_itself_in_the_parking_commit_wakes_it(self, world: StoreWorld) -> None:
        await world.renew("one")
        await world.open(key())
        await world.claim()
        due_at_s = world.clock.now_s + 10
        await world.commit(key(), 0, release=True, acks=(Ack(key(), "start"),), messages=(plain_message(key(), "timer", due_at_s=due_at_s),))
        assert (await world.head(key())).message_at_s == due_at_s
        world.clock.advance(10)
        assert await world.claimed() == [key()]

    async def test_an_ended_execution_still_gets_its_mail(self, world: StoreWorld) -> None:
        await world.renew("one")
        await world.open(key())
        await world.claim()
        await world.commit(key(), 0, status="completed", ended_at_s=world.clock.now_s, release=True, acks=(Ack(key(), "start"),))
        assert await world.claimed() == []
        await world.post(plain_message(key(), "late"))
        (assignment,) = (await world.claim()).executions
        assert (assignment.head.status, [message.key for message in assignment.messages]) == ("completed", ["late"])

    async def test_a_commit_by_somebody_else_leaves_the_holder_its_execution(self, world: StoreWorld) -> None:
        await world.renew("one", "two")
        await world.open(key())
        await world.claim("one")
        answer = await world.commit(key(), 0, holder="someone", release=True, wake_at_s=world.clock.now_s)
        assert isinstance(answer, Committed)
        assert (await world.head(key())).holder == "one"
        assert await world.claimed("two") == []
        assert await world.claimed("one") == [key()]

    @pytest.mark.parametrize("what", ["a start", "a letter", "a late letter", "work", "a send to another", "a release", "a letting go", "an epoch"])
    async def test_it_rings_when_something_may_have_become_ready(self, world: StoreWorld, what: str) -> None:
        await world.renew("one", "two")
        await world.parked(key("parked"))
        await world.open(key("held"))
        await world.claim("one")
        rings: list[str] = []
        stop = world.store.on_wake(lambda: rings.append(what))
        match what:
            case "a start":
                await world.post(start_message(key("new")))
            case "a letter":
                await world.post(plain_message(key("parked")))
            case "a late letter":
                await world.post(plain_message(key("parked"), due_at_s=world.clock.now_s + 0.2))
            case "work":
                await world.post(plain_message(queue()))
            case "a send to another":
                await world.commit(key("held"), 0, messages=(plain_message(key("parked")),))
            case "a release":
                await world.commit(key("held"), 0, release=True)
            case "a letting go":
                await world.renew("one", lease_s=0)
            case _:
                await world.store.raise_epoch()
        assert rings
        rings.clear()
        stop()
        stop()
        await world.post(plain_message(key("parked"), "after"))
        assert not rings

    async def test_a_step_that_wakes_nobody_does_not_ring(self, world: StoreWorld) -> None:
        await world.renew("one")
        await world.open(key())
        await world.claim()
        rings: list[int] = []
        world.store.on_wake(lambda: rings.append(1))
        await world.commit(key(), 0)
        await world.commit(key(), 7, release=True)
        await world.claim()
        await world.renew("one")
        assert not rings
