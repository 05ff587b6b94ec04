"""Work: mail in a queue is leased to a living worker, until it is acknowledged or the worker dies."""

import pytest

from perdure.core.mail import Ack
from perdure.stores.base import Committed, Limits, Post, Superseded
from perdure.testing.conformance.world import World, key, letter, queue


class Work:
    """See the module."""

    async def test_work_is_claimed_by_the_names_of_queues_whatever_the_tenant(self, world: World) -> None:
        await world.renew("one")
        await world.post(letter(queue("pay", "a"), "1"), letter(queue("ship", "a"), "2"), letter(queue("pay", "b"), "1"), letter(queue("mail"), "4"))
        assert await world.work("one", "nothing", "order") == []
        assert [(mail.to, mail.key) for mail in await world.work("one", "pay")] == [(queue("pay", "a"), "1"), (queue("pay", "b"), "1")]
        assert [(mail.to, mail.key) for mail in await world.work("one", "ship", "mail")] == [(queue("ship", "a"), "2"), (queue("mail"), "4")]

    @pytest.mark.parametrize("limits", [None, Limits(concurrency=10)], ids=["unlimited", "limited"])
    async def test_who_names_tenants_gets_the_work_of_these_alone(self, world: World, limits: Limits | None) -> None:
        await world.store.limit("pay", limits)
        await world.renew("one", lease_s=10)
        await world.renew("two", lease_s=1000)
        await world.post(*(letter(queue("pay", tenant), str(number)) for number, tenant in enumerate(("a", "b", "a", "c", 'a"]\0'))))
        await world.post(letter(queue("ship", "b"), "5"))
        assert await world.work("one", "pay", tenants=frozenset()) == await world.work("one", "pay", tenants=frozenset({"pay", "d"})) == []
        assert [mail.key for mail in await world.work("one", "pay", "ship", tenants=frozenset({"b", 'a"]\0'}))] == ["1", "4", "5"]
        world.clock.advance(10)
        assert [mail.key for mail in await world.work("two", "pay", tenants=frozenset({"b", "c"}), limit=1)] == ["1"]
        assert [mail.key for mail in await world.work("two", "pay", tenants=frozenset({"b", "c"}))] == ["3"]
        assert [mail.key for mail in await world.work("two", "pay", "ship")] == ["0", "2", "4", "5"]

    async def test_who_holds_work_can_ask_whether_it_is_there_still(self, world: World) -> None:
        await world.renew("one")
        await world.open(key())
        await world.post(letter(queue(), "1"), letter(queue(), "2"), letter(queue("pay", "b"), "2"))
        await world.work("one")
        asked = [Ack(queue(), "1"), Ack(queue(), "2"), Ack(queue("pay", "b"), "1"), Ack(queue("pay", "b"), "2"), Ack(key(), "start"), Ack(queue(), "1")]
        assert await world.store.there(asked) == [True, True, False, True, True, True]
        await world.post(acks=[Ack(queue(), "1")])
        assert await world.store.there(asked) == [False, True, False, True, True, False]
        assert await world.store.there([]) == []

    async def test_leased_work_is_handed_to_nobody_again_not_even_its_worker(self, world: World) -> None:
        await world.renew("one", "two")
        await world.post(letter(queue(), body=b"work"))
        (mail,) = await world.work("one")
        assert (mail.key, mail.body, mail.deliveries) == ("letter", b"work", 1)
        assert await world.work("one") == await world.work("two") == []
        assert await world.store.mail(queue()) == [mail]

    @pytest.mark.parametrize("limits", [None, Limits(concurrency=1)], ids=["unlimited", "limited"])
    async def test_postponed_work_is_leased_by_nobody_and_makes_room(self, world: World, limits: Limits | None) -> None:
        await world.store.limit("pay", limits)
        await world.renew("one", lease_s=1000)
        await world.post(letter(queue(), "1"), letter(queue(), "2"))
        assert [mail.key for mail in await world.work("one", limit=1)] == ["1"]
        await world.post(acks=[Ack(queue(), "1", postpone_to_s=world.clock.now_s + 30)])
        assert [mail.key for mail in await world.work("one")] == ["2"]
        await world.post(acks=[Ack(queue(), "2")])
        assert await world.work("one") == []
        world.clock.advance(30)
        assert [(mail.key, mail.deliveries) for mail in await world.work("one")] == [("1", 2)]

    async def test_the_work_of_a_dead_worker_is_handed_out_again_and_counted(self, world: World) -> None:
        await world.post(letter(queue()))
        await world.renew("last", lease_s=1000)
        for deliveries, worker in enumerate(("one", "two", "one"), 1):
            await world.renew(worker, lease_s=10)
            (mail,) = await world.work(worker)
            assert mail.deliveries == deliveries
            assert await world.work("last") == []
            world.clock.advance(10)
        await world.renew("two", lease_s=10)
        await world.renew("two", lease_s=0)
        assert [mail.deliveries for mail in await world.work("last")] == [4]

    async def test_a_worker_that_comes_back_is_handed_its_work_again(self, world: World) -> None:
        await world.renew("one")
        await world.post(letter(queue("pay", "a")), letter(queue("pay", "b")))
        await world.work("one")
        await world.renew("one", lease_s=0)
        await world.renew("one")
        assert [mail.deliveries for mail in await world.work("one")] == [2, 2]
        epoch = await world.store.raise_epoch()
        await world.renew("one")
        assert [mail.deliveries for mail in await world.work("one", epoch=epoch)] == [3, 3]

    async def test_a_worker_that_renews_late_keeps_what_nobody_took(self, world: World) -> None:
        await world.renew("one", lease_s=10)
        await world.renew("two", lease_s=1000)
        await world.post(letter(queue(), "1"), letter(queue(), "2"))
        await world.work("one")
        world.clock.advance(10)
        assert [mail.key for mail in await world.work("two", limit=1)] == ["1"]
        await world.renew("one", lease_s=10)
        assert await world.work("two") == await world.work("one") == []

    async def test_an_answer_is_one_change_that_sends_and_acknowledges(self, world: World) -> None:
        await world.renew("one")
        await world.open(key())
        await world.post(letter(queue()), letter(queue(), "other"))
        await world.work("one", limit=1)
        answers = await world.change(*[Post(epoch=world.epoch, sends=(letter(key(), "answer"),), acks=(Ack(queue(), "letter"),))] * 2)
        assert [type(answer) for answer in answers] == [Committed, Committed]
        assert (await world.keys(key()), await world.keys(queue())) == (["start", "answer"], ["other"])
        await world.renew("one", lease_s=0)
        await world.renew("two")
        assert [(mail.key, mail.deliveries) for mail in await world.work("two")] == [("other", 1)]

    async def test_an_answer_of_an_earlier_epoch_is_refused(self, world: World) -> None:
        await world.renew("one")
        await world.open(key())
        await world.post(letter(queue()))
        await world.work("one")
        epoch = await world.store.raise_epoch()
        (answer,) = await world.change(Post(epoch=world.epoch, sends=(letter(key(), "answer"),), acks=(Ack(queue(), "letter"),)))
        assert answer == Superseded(epoch)
        assert (await world.keys(key()), await world.keys(queue())) == (["start"], ["letter"])

    async def test_work_is_handed_out_when_it_is_due(self, world: World) -> None:
        await world.renew("one")
        await world.post(letter(queue(), due_at_s=world.clock.now_s + 10))
        world.clock.advance(9.5)
        assert await world.work() == []
        world.clock.advance(0.5)
        assert [mail.key for mail in await world.work()] == ["letter"]

    async def test_work_is_handed_out_in_order_up_to_the_limit(self, world: World) -> None:
        await world.renew("one", "two", lease_s=1000)
        await world.renew("three", lease_s=20)
        await world.post(letter(queue(), "later", due_at_s=world.clock.now_s + 10))
        await world.post(*(letter(queue("ab"[number % 2]), str(number)) for number in range(6)))
        assert [mail.key for mail in await world.work("three", "a", limit=1)] == ["0"]
        assert await world.work("one", "a", "b", limit=0) == []
        assert [mail.key for mail in await world.work("one", "a", "b", limit=2)] == ["1", "2"]
        world.clock.advance(20)
        await world.post(letter(queue("a"), "6"))
        assert [mail.key for mail in await world.work("two", "a", "b", "pay", limit=3)] == ["0", "3", "4"]
        assert [mail.key for mail in await world.work("one", "pay", "b", "a")] == ["5", "later", "6"]

    async def test_executions_and_work_are_limited_apart(self, world: World) -> None:
        await world.renew("one")
        await world.open(key("1"), key("2"))
        await world.post(letter(queue(), "1"), letter(queue(), "2"))
        claimed = await world.claim(queues=["pay"], limit=1)
        assert (len(claimed.executions), len(claimed.work)) == (1, 1)

    async def test_a_message_to_an_execution_is_no_work_and_work_is_no_message(self, world: World) -> None:
        await world.renew("one")
        await world.open(key(workflow="pay"))
        await world.post(letter(queue("order"), "work"))
        assert await world.work("one", "pay", "acme", "1") == []
        assert await world.claimed("one", "pay") == []
        assert [mail.key for mail in await world.work("one", "order")] == ["work"]
