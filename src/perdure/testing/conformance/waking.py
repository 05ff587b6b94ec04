"""Waking: an execution that nobody holds is claimed when its time has come or its mail is due, and nothing is slept through."""

import pytest

from perdure.core.mail import Ack
from perdure.stores.base import Committed
from perdure.testing.conformance.world import World, key, letter, opening, queue


class Waking:
    """See the module."""

    async def test_a_parked_execution_wakes_at_its_time(self, world: World) -> None:
        await world.renew("one")
        await world.parked(key(), wake_at_s=world.clock.now_s + 10)
        world.clock.advance(9.5)
        assert await world.claimed() == []
        world.clock.advance(0.5)
        (assignment,) = (await world.claim()).executions
        assert (assignment.head.wake_at_s, assignment.mail) == (None, ())

    async def test_a_parked_execution_without_time_waits_for_its_mail(self, world: World) -> None:
        await world.renew("one", lease_s=10**9)
        await world.parked(key())
        world.clock.advance(10**8)
        assert await world.claimed() == []
        await world.post(letter(key()))
        assert await world.claimed() == [key()]

    async def test_mail_brings_waking_forward(self, world: World) -> None:
        await world.renew("one")
        await world.parked(key(), wake_at_s=world.clock.now_s + 50)
        await world.post(letter(key(), "third", due_at_s=world.clock.now_s + 20), letter(key(), "second", due_at_s=world.clock.now_s + 10))
        await world.post(letter(key(), "fourth", due_at_s=world.clock.now_s + 30))
        head = await world.head(key())
        assert (head.mail_at_s, head.wake_at_s) == (world.clock.now_s + 10, world.clock.now_s + 50)
        assert await world.claimed() == []
        world.clock.advance(10)
        (assignment,) = (await world.claim()).executions
        assert [mail.key for mail in assignment.mail] == ["second"]
        assert (assignment.head.mail_at_s, assignment.head.wake_at_s) == (world.clock.now_s + 10, None)

    async def test_the_time_of_a_commit_wakes_before_later_mail(self, world: World) -> None:
        await world.renew("one")
        await world.parked(key(), wake_at_s=world.clock.now_s + 10)
        await world.post(letter(key(), due_at_s=world.clock.now_s + 20))
        world.clock.advance(10)
        (assignment,) = (await world.claim()).executions
        assert (assignment.mail, assignment.head.mail_at_s) == ((), world.clock.now_s + 10)
        await world.commit(key(), 1, release=True)
        assert await world.claimed() == []
        world.clock.advance(10)
        assert await world.claimed() == [key()]

    async def test_a_message_sent_twice_does_not_bring_waking_forward(self, world: World) -> None:
        await world.renew("one")
        await world.parked(key())
        later_s = world.clock.now_s + 20
        await world.post(letter(key(), due_at_s=later_s))
        await world.post(letter(key()))
        assert (await world.head(key())).mail_at_s == later_s
        assert await world.claimed() == []

    async def test_the_last_commit_says_when_to_wake(self, world: World) -> None:
        await world.renew("one")
        await world.parked(key(), wake_at_s=world.clock.now_s)
        await world.commit(key(), 1, wake_at_s=world.clock.now_s + 10)
        assert await world.claimed() == []
        await world.commit(key(), 2, wake_at_s=None)
        world.clock.advance(10)
        assert await world.claimed() == []
        await world.commit(key(), 3, wake_at_s=0.0)
        assert await world.claimed() == [key()]

    async def test_a_holder_is_given_its_own_execution_at_its_time(self, world: World) -> None:
        await world.renew("one", "two")
        await world.open(key())
        await world.claim("one")
        await world.commit(key(), 0, wake_at_s=world.clock.now_s + 10, acks=(Ack(key(), "start"),))
        assert await world.claimed("one") == []
        world.clock.advance(10)
        assert await world.claimed("two") == []
        assert await world.claimed("one") == [key()]
        assert await world.claimed("one") == []

    async def test_mail_that_comes_between_claim_and_parking_wakes_it_again(self, world: World) -> None:
        await world.renew("one", "two")
        await world.open(key())
        await world.claim("one")
        await world.post(letter(key(), "in between"))
        await world.commit(key(), 0, release=True, acks=(Ack(key(), "start"),))
        (assignment,) = (await world.claim("two")).executions
        assert [mail.key for mail in assignment.mail] == ["in between"]

    async def test_later_mail_that_comes_between_claim_and_parking_wakes_it_in_time(self, world: World) -> None:
        await world.renew("one")
        await world.open(key())
        await world.claim()
        due_at_s = world.clock.now_s + 10
        await world.post(letter(key(), due_at_s=due_at_s))
        await world.commit(key(), 0, release=True, acks=(Ack(key(), "start"),), wake_at_s=due_at_s + 10)
        assert (await world.head(key())).mail_at_s == due_at_s
        assert await world.claimed() == []
        world.clock.advance(10)
        assert await world.claimed() == [key()]

    async def test_releasing_without_acknowledging_leaves_it_awake(self, world: World) -> None:
        await world.renew("one", "two")
        await world.open(key())
        opened_s = world.clock.now_s
        world.clock.advance(5)
        await world.claim("one")
        await world.commit(key(), 0, release=True)
        assert (await world.head(key())).mail_at_s == opened_s
        (assignment,) = (await world.claim("two")).executions
        assert [mail.key for mail in assignment.mail] == ["start"]

    async def test_releasing_with_an_empty_mailbox_leaves_it_asleep(self, world: World) -> None:
        await world.renew("one")
        await world.open(key())
        await world.claim()
        await world.commit(key(), 0, release=True, acks=(Ack(key(), "start"),))
        head = await world.head(key())
        assert (head.holder, head.wake_at_s, head.mail_at_s) == (None, None, None)
        assert await world.claimed() == []

    async def test_mail_to_itself_in_the_parking_commit_wakes_it(self, world: World) -> None:
        await world.renew("one")
        await world.open(key())
        await world.claim()
        due_at_s = world.clock.now_s + 10
        await world.commit(key(), 0, release=True, acks=(Ack(key(), "start"),), sends=(letter(key(), "timer", due_at_s=due_at_s),))
        assert (await world.head(key())).mail_at_s == due_at_s
        world.clock.advance(10)
        assert await world.claimed() == [key()]

    async def test_an_ended_execution_still_gets_its_mail(self, world: World) -> None:
        await world.renew("one")
        await world.open(key())
        await world.claim()
        await world.commit(key(), 0, status="completed", ended_at_s=world.clock.now_s, release=True, acks=(Ack(key(), "start"),))
        assert await world.claimed() == []
        await world.post(letter(key(), "late"))
        (assignment,) = (await world.claim()).executions
        assert (assignment.head.status, [mail.key for mail in assignment.mail]) == ("completed", ["late"])

    async def test_a_commit_by_somebody_else_leaves_the_holder_its_execution(self, world: World) -> None:
        await world.renew("one", "two")
        await world.open(key())
        await world.claim("one")
        answer = await world.commit(key(), 0, holder="someone", release=True, wake_at_s=world.clock.now_s)
        assert isinstance(answer, Committed)
        assert (await world.head(key())).holder == "one"
        assert await world.claimed("two") == []
        assert await world.claimed("one") == [key()]

    @pytest.mark.parametrize("what", ["a start", "a letter", "a late letter", "work", "a send to another", "a release", "a letting go", "an epoch"])
    async def test_it_rings_when_something_may_have_become_ready(self, world: World, what: str) -> None:
        await world.renew("one", "two")
        await world.parked(key("parked"))
        await world.open(key("held"))
        await world.claim("one")
        rings: list[str] = []
        stop = world.store.on_wake(lambda: rings.append(what))
        match what:
            case "a start":
                await world.post(opening(key("new")))
            case "a letter":
                await world.post(letter(key("parked")))
            case "a late letter":
                await world.post(letter(key("parked"), due_at_s=world.clock.now_s + 0.2))
            case "work":
                await world.post(letter(queue()))
            case "a send to another":
                await world.commit(key("held"), 0, sends=(letter(key("parked")),))
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
        await world.post(letter(key("parked"), "after"))
        assert not rings

    async def test_a_step_that_wakes_nobody_does_not_ring(self, world: World) -> None:
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
