"""The tests of queries by people and idle engines: which executions exist, who holds them, when something becomes ready, and what is new."""

from datetime import UTC, datetime
from typing import get_args

import pytest

from perdure.core.attribute_filter import AttributeCondition, AttributeConditions, Comparison, Is, attribute_conditions
from perdure.core.attributes import AttributeValue, checked_attribute_value, sortable_bytes
from perdure.core.envelopes import Ack
from perdure.stores.protocol import Commit, Conflict, HeadFilter, HolderStatus
from perdure.stores.records import PagePosition
from perdure.testing.conformance.store_world import PROGRAM, StoreWorld, key, plain_message, queue, start_message

VALUES: list[AttributeValue] = [
    *(True, False, 0, 1, -1, 1.0, 0.5, -0.5, 500, 499.99, 500.01, 2**53, 2.0**53, 2**53 + 1, 2**63 - 1, 2.0**63, -(2**63), 1e300, -1e-300),
    *("", "a", "b", "a\0", "ab", "500", "true", "é", "🐘" * 256, "\uffff", "'", '"', "%"),
    *(datetime(1970, 1, 1, tzinfo=UTC), datetime(1969, 12, 31, tzinfo=UTC), datetime(2026, 1, 31, 12, 0, 0, 1, tzinfo=UTC)),
    *(datetime(2026, 1, 31, 12, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)),
]
"""Attribute values that a store might confuse with each other."""

ASKED: list[AttributeConditions] = [
    *({"a": Is(sign, value)} for value in VALUES for sign in get_args(Comparison)[: 2 if isinstance(value, bool) else 6]),
    *({"a": Is("exists")}, {"z": Is("exists")}, {"x": 1}, {"a": [Is(">", 1), Is("<=", 500)]}, {"a": Is(">=", ""), "z": Is("!=", "b")}),
]


class QuerySuite:
    """See the module."""

    @pytest.mark.parametrize(
        ("which", "ids"),
        [
            (HeadFilter(), ["c/3", "b/2", "b/1", "a/0"]),
            (HeadFilter(limit=3), ["c/3", "b/2", "b/1"]),
            (HeadFilter(limit=0), []),
            (HeadFilter(tenant="acme"), ["b/2", "a/0"]),
            (HeadFilter(tenant="nobody"), []),
            (HeadFilter(workflow="ship"), ["b/1"]),
            (HeadFilter(statuses=frozenset({"failed"})), ["b/1"]),
            (HeadFilter(statuses=frozenset({"failed", "pending"}), tenant="other"), ["c/3", "b/1"]),
            (HeadFilter(statuses=frozenset()), []),
            (HeadFilter(id_prefix="b/"), ["b/2", "b/1"]),
            (HeadFilter(id_prefix="B"), []),
            (HeadFilter(id_prefix="%"), []),
            (HeadFilter(id_prefix="b_"), []),
            (HeadFilter(keys=(key("a/0"), key("c/3"), key("c/3", "other"))), ["c/3", "a/0"]),
            (HeadFilter(keys=()), []),
            (HeadFilter(root=key("a/0")), ["b/2", "a/0"]),
            (HeadFilter(created_from_s=1_000_000_002.0), ["c/3", "b/2"]),
            (HeadFilter(after=PagePosition(key("b/1", "other", "ship"))), ["a/0"]),
            (HeadFilter(after=PagePosition(key("b/2")), tenant="other"), ["b/1"]),
            (HeadFilter(after=PagePosition(key("a/0"))), []),
        ],
    )
    async def test_heads_are_listed_newest_first_as_far_as_they_are_meant(self, world: StoreWorld, which: HeadFilter, ids: list[str]) -> None:
        await world.renew("one")
        for mine, root in ((key("a/0"), key("a/0")), (key("b/1", "other", "ship"), None), (key("b/2"), key("a/0")), (key("c/3", "other"), None)):
            await world.open(mine, root=root)
            world.clock.advance(1)
        await world.commit(key("b/1", "other", "ship"), 0, status="failed")
        assert [head.key.id for head in await world.store.heads(which)] == ids

    async def test_an_execution_has_the_attributes_that_it_was_opened_with_until_a_commit_says_others(self, world: StoreWorld) -> None:
        await world.renew("one")
        opened, later = (("a", b"s1"), ("b", b"\0\xff")), (("a", b"s2"), ("\0'\"🐘", b""))
        await world.post(start_message(key(), attributes=opened), start_message(key("none")))
        await world.post(start_message(key(), attributes=(("late", b"s"),)))
        assert [head.attributes for head in await world.store.heads()] == [(), opened]
        (first, second) = (await world.claim()).executions
        assert (first.head.attributes, second.head.attributes) == (opened, ())
        await world.commit(key(), 0)
        assert (await world.head(key())).attributes == opened
        await world.commit(key(), 1, attributes=tuple(sorted(later)))
        assert (await world.head(key())).attributes == tuple(sorted(later))
        answer = await world.commit(key(), 1, attributes=())
        assert isinstance(answer, Conflict) and answer.head is not None and answer.head.attributes == tuple(sorted(later))
        await world.commit(key(), 2, attributes=(), release=True)
        assert (await world.head(key())).attributes == ()
        await world.commit(key("made"), creates=True, attributes=opened)
        await world.commit(key("bare"), creates=True)
        assert [(await world.head(key(id))).attributes for id in ("made", "bare")] == [opened, ()]

    async def test_executions_are_found_by_attributes_whatever_else_is_asked_for(self, world: StoreWorld) -> None:
        await world.renew("one")
        forms = [*(sortable_bytes(checked_attribute_value("a", value)) for value in VALUES)]
        for number, form in enumerate(forms):
            more = (("z", form),) if number % 3 == 0 else ()
            await world.post(start_message(key(f"{number:03}", tenant="acme" if number % 2 else "other"), attributes=(("a", form), *more)))
        await world.open(key("none"))
        for asked in ASKED:
            await self._finds(world, forms, attribute_conditions(asked))

    async def _finds(self, world: StoreWorld, forms: list[bytes], where: tuple[AttributeCondition, ...]) -> None:
        """A list has the executions that satisfy the condition, newest first, page by page."""
        meant = [
            key(f"{number:03}", tenant="acme" if number % 2 else "other")
            for number, form in reversed([*enumerate(forms)])
            if all(condition.holds((("a", form), *((("z", form),) if number % 3 == 0 else ()))) for condition in where)
        ]
        assert [head.key for head in await world.store.heads(HeadFilter(where=where))] == meant
        assert [head.key for head in await world.store.heads(HeadFilter(where=where, tenant="acme", statuses=frozenset({"pending"}), limit=3))] == [
            one for one in meant if one.tenant == "acme"
        ][:3]
        if len(meant) > 2:
            assert [head.key for head in await world.store.heads(HeadFilter(where=where, after=PagePosition(meant[1]), limit=2))] == meant[2:4]
            assert [head.key for head in await world.store.heads(HeadFilter(where=where, keys=(meant[0], key("none"))))] == meant[:1]
            assert [head.key for head in await world.store.heads(HeadFilter(where=where, id_prefix=meant[0].id[:2]))] == [
                one for one in meant if one.id.startswith(meant[0].id[:2])
            ]

    async def test_the_moment_is_told(self, world: StoreWorld) -> None:
        world.clock.advance(3)
        epoch = await world.store.raise_epoch()
        moment = await world.store.store_time()
        assert (moment.now_s, moment.epoch) == (world.clock.now_s, epoch)

    async def test_leases_tell_who_lives_and_what_is_held(self, world: StoreWorld) -> None:
        await world.store.renew("two", 10, b"about two")
        await world.store.renew("one", 60, b"about one")
        await world.open(key("1"), key("2"))
        await world.post(plain_message(queue(), "a"), plain_message(queue(), "b"), plain_message(queue(), "c"))
        await world.claim("two")
        await world.work("one", limit=2)
        assert await world.store.leases() == [HolderStatus("one", True, 0, 2, b"about one"), HolderStatus("two", True, 2, 0, b"about two")]
        await world.store.renew("one", 60)
        world.clock.advance(20)
        assert await world.store.leases() == [HolderStatus("one", True, 0, 2, b"about one"), HolderStatus("two", False, 2, 0, b"about two")]
        assert len(await world.claimed("one")) == 2
        assert await world.store.leases() == [HolderStatus("one", True, 2, 2, b"about one")]
        await world.store.renew("one", 60, b"something else")
        assert [lease.about for lease in await world.store.leases()] == [b"something else"]
        await world.store.renew("one", 0)
        assert await world.store.leases() == []

    async def test_nobody_has_a_lease_in_a_new_epoch(self, world: StoreWorld) -> None:
        await world.store.renew("one", 60, b"about")
        await world.store.raise_epoch()
        assert await world.store.leases() == []

    async def test_a_claim_tells_when_the_next_would_get_more(self, world: StoreWorld) -> None:
        await world.renew("one", "two", lease_s=1000)
        assert (await world.claim()).next_at_s is None
        now_s = world.clock.now_s
        await world.parked(key("later"), wake_at_s=now_s + 50)
        await world.parked(key("other"), wake_at_s=now_s + 5, program="other")
        await world.open(key("asleep"))
        assert (await world.claim()).next_at_s == now_s + 50
        await world.post(plain_message(key("asleep"), due_at_s=now_s + 20))
        await world.post(plain_message(queue(), due_at_s=now_s + 10))
        assert (await world.claim("two", PROGRAM)).next_at_s == now_s + 50
        assert (await world.claim("one", PROGRAM)).next_at_s == now_s + 20
        assert (await world.claim("one", queues=["pay"])).next_at_s == now_s + 10
        assert (await world.claim("one", "other")).next_at_s == now_s + 5
        assert (await world.claim("one", roots=frozenset({key("later")}))).next_at_s == now_s + 50
        assert (await world.claim("one", roots=frozenset({key("nobody")}))).next_at_s is None
        world.clock.advance(60)
        assert await world.claimed() == [key("asleep"), key("later")]
        assert (await world.claim()).next_at_s is None

    async def test_a_claim_that_left_something_tells_so(self, world: StoreWorld) -> None:
        await world.renew("one")
        await world.open(key("1"), key("2"))
        claimed = await world.claim(limit=1)
        assert len(claimed.executions) == 1 and claimed.next_at_s is not None and claimed.next_at_s <= world.clock.now_s
        claimed = await world.claim(limit=1)
        assert len(claimed.executions) == 1 and claimed.next_at_s is None

    async def test_news_ring_who_waits_for_them_and_nobody_else(self, world: StoreWorld) -> None:
        await world.renew("one")
        await world.open(key())
        await world.claim()
        news: list[int] = []
        wakes: list[int] = []
        stop = world.store.on_change(lambda: news.append(1))
        world.store.on_wake(lambda: wakes.append(1))
        await world.commit(key(), 0, acks=(Ack(key(), "start"),))
        await world.commit(key(), 7, news=True)
        assert (news, wakes) == ([], [])
        await world.commit(key(), 1, status="completed", ended_at_s=world.clock.now_s, release=True, news=True)
        assert (news, wakes) == ([1], [])
        stop()
        stop()
        await world.commit(key(), 2, news=True)
        assert news == [1]

    async def test_releasing_what_is_to_wake_later_does_not_ring(self, world: StoreWorld) -> None:
        await world.renew("one")
        await world.open(key())
        await world.claim()
        wakes: list[int] = []
        world.store.on_wake(lambda: wakes.append(1))
        await world.commit(key(), 0, acks=(Ack(key(), "start"),), wake_at_s=world.clock.now_s + 10, release=True)
        assert wakes == []

    async def test_a_stale_commit_with_news_changes_nothing_that_is_listed(self, world: StoreWorld) -> None:
        await world.open(key())
        before = await world.store.heads()
        stale = Commit(key=key(), epoch=world.epoch, holder="one", version=9, program=PROGRAM, root=key(), status="failed", news=True)
        await world.change(stale)
        assert await world.store.heads() == before

    async def test_opening_twice_lists_once(self, world: StoreWorld) -> None:
        await world.post(start_message(key()), start_message(key()))
        assert [head.key for head in await world.store.heads()] == [key()]
