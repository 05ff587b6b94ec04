"""The tests of what attributes are for beside conditions: starts that are admitted by how many have a value, and lists in order of an attribute."""

import random
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from perdure.core.attribute_filter import AttributeCondition, AttributeOrder
from perdure.core.attributes import IndexedAttributes
from perdure.core.envelopes import Ack, NewExecution, OutgoingMessage, StartAdmission
from perdure.core.errors import BadValue
from perdure.core.paths import Key
from perdure.stores.protocol import Commit, Committed, Head, HeadFilter, Post, Refused, head_position
from perdure.stores.records import Stale
from perdure.testing.conformance.record_suite import put
from perdure.testing.conformance.store_world import PROGRAM, StoreWorld, key, plain_message

TWO = StartAdmission("user", b"sada", 2)
"""At most two of one user at a time."""
ADA: IndexedAttributes = (("user", b"sada"),)
FORMS = [b"b\0", b"n\x80\0", b"s", b"s\0", b"sa", b"sa\0", b"t\xff\xff"]
EVERYTHING = ((b"", b"\xff"),)


def admitted(id: str, admission: StartAdmission | None = TWO, attributes: IndexedAttributes = ADA, tenant: str = "acme") -> OutgoingMessage:
    """Returns a start that needs an admission."""
    opens = NewExecution(PROGRAM, key(id, tenant), attributes=attributes, admission=admission)
    return OutgoingMessage(key(id, tenant), "start", b"start", opens=opens)


async def start(world: StoreWorld, *sends: OutgoingMessage) -> list[bool]:
    """Posts each start by itself; returns whether it was admitted."""
    answers = await world.change(*(Post(messages=(send,)) for send in sends))
    assert all(isinstance(answer, Committed | Refused) for answer in answers)
    return [isinstance(answer, Committed) for answer in answers]


class AdmissionSuite:
    """See the module."""

    async def test_a_start_is_refused_while_as_many_as_it_allows_have_not_ended(self, world: StoreWorld) -> None:
        await world.renew("one")
        assert await start(world, admitted("1"), admitted("2")) == [True, True]
        assert await world.change(Post(messages=(admitted("3"),))) == [Refused(key("3"), TWO, 2)]
        assert await world.store.read(key("3")) is None and await world.keys(key("3")) == []
        await world.commit(key("1"), status="completed", ended_at_s=world.clock.now_s)
        assert await start(world, admitted("3"), admitted("4")) == [True, False]
        await world.commit(key("1"), 1, status="running")
        await world.commit(key("2"), status="failed", ended_at_s=world.clock.now_s, release=True)
        assert await start(world, admitted("4")) == [False], "a reopened execution counts"
        await world.commit(key("1"), 2, status="running", attributes=())
        assert await start(world, admitted("4"), admitted("5")) == [True, False], "only those that have the value now count"

    async def test_an_admission_counts_its_tenant_attribute_and_value_alone(self, world: StoreWorld) -> None:
        others: list[IndexedAttributes] = [(("user", b"sad"),), (("user", b"sada\0"),), (("user", b"sadam"),), (("use", b"sada"),), (("user2", b"sada"),), ()]
        await start(world, *(admitted(f"other {number}", None, others[number % 6]) for number in range(12)))
        await start(world, *(admitted(f"tenant {number}", None, tenant="other") for number in range(3)))
        assert await start(world, admitted("1", None), admitted("2"), admitted("3")) == [True, True, False], "also those count that needed none"
        assert await start(world, admitted("4", StartAdmission("user", b"sada", 0)), admitted("5", StartAdmission("user", b"sada", 3))) == [False, True]
        several = (("user", b"sbob"), ("user", b"seve"))
        one = StartAdmission("user", b"sbob", 1)
        assert await start(world, admitted("6", one, several), admitted("7", one, several), admitted("8", StartAdmission("user", b"seve", 1))) == [
            True,
            False,
            False,
        ]

    async def test_the_start_of_an_execution_that_exists_is_not_refused(self, world: StoreWorld) -> None:
        await start(world, admitted("1"), admitted("2"))
        assert await start(world, admitted("1"), replace(admitted("2"), key="again")) == [True, True]
        assert await world.keys(key("2")) == ["start", "again"]

    async def test_the_starts_of_one_post_count_for_each_other_and_are_refused_together(self, world: StoreWorld) -> None:
        three = Post(
            messages=(plain_message(key("9")), admitted("1"), admitted("1"), admitted("2"), admitted("3")), records=(put(),), acks=(Ack(key("9"), "old"),)
        )
        await world.post(plain_message(key("9"), "old"))
        assert await world.change(three) == [Refused(key("3"), TWO, 2)]
        assert await world.store.heads() == [] and await world.keys(key("9")) == ["old"]
        assert await world.store.record(put().key) is None
        (answer,) = await world.change(replace(three, messages=three.messages[:-1]))
        assert isinstance(answer, Committed)
        assert await world.change(replace(three, records=(put(version=4),))) == [Stale(put().key, 1)], "a stale record is the first reason"

    async def test_a_refused_start_does_not_affect_its_neighbours_in_a_batch(self, world: StoreWorld) -> None:
        assert await start(world, *(admitted(f"{number}") for number in range(4)), admitted("free", None, ())) == [True, True, False, False, True]

    async def test_a_removed_execution_counts_no_more(self, world: StoreWorld) -> None:
        await world.renew("one")
        assert await start(world, admitted("1"), admitted("2")) == [True, True]
        await world.commit(key("1"), 0, forgets=True, row=b"", count=0)
        assert await start(world, admitted("3"), admitted("4")) == [True, False]

    async def test_a_commit_may_not_carry_an_admission(self, world: StoreWorld) -> None:
        await world.renew("one")
        await world.open(key())
        with pytest.raises(BadValue):
            await world.commit(key(), messages=(admitted("child"),))
        assert (await world.head(key())).version == 0


class OrderedListSuite:
    """See the module."""

    async def test_an_execution_has_several_values_of_a_name_until_a_commit_says_others(self, world: StoreWorld) -> None:
        await world.renew("one")
        first, second = (("a", b"s1"), ("a", b"s2"), ("b", b"s")), (("a", b"s2"), ("a", b"s3"))
        await start(world, admitted("1", None, first))
        assert (await world.head(key("1"))).attributes == first
        for value, found in ((b"s1", True), (b"s2", True), (b"s3", False)):
            assert bool(await world.store.heads(HeadFilter(where=(AttributeCondition("a", ((value, value + b"\0"),)),)))) == found
        both = tuple(AttributeCondition("a", ((value, value + b"\0"),)) for value in (b"s1", b"s2"))
        assert len(await world.store.heads(HeadFilter(where=both))) == 1
        assert len(await world.store.heads(HeadFilter(where=(AttributeCondition("a", EVERYTHING),)))) == 1
        await world.commit(key("1"), attributes=second, release=True)
        assert (await world.head(key("1"))).attributes == second
        assert (await world.claim()).executions[0].head.attributes == second

    async def test_lists_in_order_of_an_attribute_are_complete_page_by_page(self, world: StoreWorld) -> None:
        """Lists in each order, whole and in pages of three, have what the filter means."""
        await world.renew("one")
        rng, heads = random.Random(11), list[Head]()
        for number in range(40):
            attributes = tuple(sorted({(rng.choice("ab"), rng.choice(FORMS)) for _ in range(rng.randrange(5))}))
            one = key(f"{rng.choice('xy')}{number:02}", rng.choice(["acme", "other"]), rng.choice(["order", "ship"]))
            ended = world.clock.now_s if rng.random() < 0.5 else None
            await world.commit(one, creates=True, attributes=attributes, status="completed" if ended else "running", ended_at_s=ended, root=key("root"))
            world.clock.advance(rng.choice([0, 1]))
            heads.append(await world.head(one))
        some = (AttributeCondition("a", ((b"s", b"s\0"),)), AttributeCondition("b", ((b"n", b"sa"),)))
        none = (AttributeCondition("none", EVERYTHING),)
        filters = [
            *(HeadFilter(), HeadFilter(tenant="acme"), HeadFilter(tenant="acme", workflow="ship"), HeadFilter(statuses=frozenset({"completed"}))),
            *(HeadFilter(tenant="other", ended=False), HeadFilter(ended=True), HeadFilter(ended=False, statuses=frozenset({"running"}), where=some[:1])),
            *(HeadFilter(where=some[:1]), HeadFilter(tenant="acme", where=some[1:]), HeadFilter(where=some), HeadFilter(id_prefix="x")),
            *(HeadFilter(any_of=(some[:1], some[1:])), HeadFilter(tenant="acme", any_of=(some, none, some[1:])), HeadFilter(any_of=(none, none))),
            *(HeadFilter(where=some[:1], any_of=(some[1:], none)), HeadFilter(ended=False, tenant="other", any_of=(some[:1], some[1:]), id_prefix="x")),
            *(
                HeadFilter(root=key("root"), tenant="acme"),
                HeadFilter(keys=tuple(head.key for head in heads[::2])),
                HeadFilter(created_from_s=heads[20].created_at_s),
            ),
        ]
        for which in filters:
            for order in (None, AttributeOrder("a"), AttributeOrder("a", descending=True), AttributeOrder("b"), AttributeOrder("none")):
                await self._is_complete(world, replace(which, order=order), _meant(replace(which, order=order), heads))

    async def _is_complete(self, world: StoreWorld, which: HeadFilter, meant: Sequence[Head]) -> None:
        assert [head.key for head in await world.store.heads(which)] == [head.key for head in meant]
        paged, page = list[Key](), replace(which, limit=3)
        while found := await world.store.heads(page):
            paged += [head.key for head in found]
            page = replace(page, after=head_position(found[-1], which.order))
        assert paged == [head.key for head in meant]

    @pytest.mark.parametrize("order", [None, AttributeOrder("a"), AttributeOrder("a", descending=True)])
    @pytest.mark.parametrize("change", ["changed", "removed"])
    async def test_a_page_begins_behind_the_last_head_also_when_that_was_changed_or_removed(
        self, world: StoreWorld, order: AttributeOrder | None, change: str
    ) -> None:
        await world.renew("one")
        for number in range(6):
            await world.commit(key(f"{number}"), creates=True, attributes=(("a", b"s"),))
            world.clock.advance(1)
        which = HeadFilter(order=order, limit=2)
        first = await world.store.heads(which)
        second = replace(which, after=head_position(first[-1], order))
        if change == "changed":
            await world.commit(first[-1].key, 1, attributes=(("a", b"z"),))
        else:
            await world.commit(first[-1].key, 1, forgets=True, row=b"", count=0)
        left = {f"{number}" for number in range(6)} - {head.key.id for head in first}
        assert [head.key.id for head in await world.store.heads(second)] == sorted(left, reverse=order is None or order.descending)[:2]

    async def test_a_list_follows_what_a_commit_changes(self, world: StoreWorld) -> None:
        await world.renew("one")
        by = HeadFilter(tenant="acme", order=AttributeOrder("due"), ended=False)

        async def ids() -> list[str]:
            return [head.key.id for head in await world.store.heads(by)]

        for id, due in (("1", b"t2"), ("2", b"t1"), ("3", b"t3")):
            await world.commit(key(id), creates=True, attributes=(("due", due),))
        assert await ids() == ["2", "1", "3"]
        await world.commit(key("2"), 1, attributes=(("due", b"t4"),))
        await world.commit(key("3"), 1, status="completed", ended_at_s=world.clock.now_s)
        assert await ids() == ["1", "2"]
        await world.commit(key("3"), 2, attributes=(("due", b"t0"), ("due", b"t9")))
        await world.commit(key("1"), 1, attributes=())
        assert await ids() == ["3", "2"]
        assert not isinstance(world.decision(key("1")), Post) and isinstance(world.decision(key("1")), Commit)


def _meant(which: HeadFilter, heads: Sequence[Head]) -> list[Head]:
    """The heads of a list in its order, by the plainest rule; `heads` are in order of creation."""
    found = [
        (number, head)
        for number, head in enumerate(heads)
        if which.tenant in (None, head.key.tenant)
        and which.workflow in (None, head.key.workflow)
        and (which.statuses is None or head.status in which.statuses)
        and head.key.id.startswith(which.id_prefix)
        and (which.keys is None or head.key in which.keys)
        and (which.created_from_s is None or head.created_at_s >= which.created_from_s)
        and which.ended in (None, head.ended_at_s is not None)
        and any(all(condition.holds(head.attributes) for condition in (*which.where, *one)) for one in which.any_of or ((),))
    ]
    order = which.order
    if order is None:
        return [head for _, head in reversed(found)]
    placed = [(value, number, head) for number, head in found if (value := order.value_in(head.attributes)) is not None]
    return [head for *_, head in sorted(placed, key=lambda place: place[:2], reverse=order.descending)]
