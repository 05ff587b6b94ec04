"""The tests of records: small versioned documents that change only by a post, each at the version that the post expects."""

import itertools
import random
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import pytest
from msgspec.structs import replace

from perdure.core import limits
from perdure.core.attribute_filter import AttributeCondition, AttributeOrder
from perdure.core.envelopes import Ack
from perdure.core.errors import BadValue
from perdure.stores.protocol import Commit, Committed, Conflict, Post, Superseded
from perdure.stores.records import RecordChange, RecordFilter, RecordKey, Stale, StoredRecord, record_position
from perdure.stores.user_transactions import USER_TRANSACTIONS
from perdure.testing.conformance.store_world import NAMES, StoreWorld, key, plain_message, queue, start_message

VALUE_FORMS = [b"b\0", b"n\x80\0", b"s", b"s\0", b"sa", b"sa\0", b"sb", b"t\xff\xff"]
"""Values of attributes that a store might confuse with each other."""


def record_key(name: str = "nightly", kind: str = "trigger", tenant: str = "acme") -> RecordKey:
    """Returns the key of a record."""
    return RecordKey(tenant, kind, name)


def put(name: str = "nightly", version: int = 0, value: bytes | None = b"value", **fields: object) -> RecordChange:
    """Returns a change of a record of the tenant ``acme`` and the kind ``trigger``."""
    return RecordChange(record_key(name), version, value, **fields)  # type: ignore[arg-type]  # the fields of a change


async def changed(world: StoreWorld, *changes: RecordChange) -> None:
    """Posts each change by itself."""
    answers = await world.change(*(Post(records=(change,)) for change in changes))
    assert all(isinstance(answer, Committed) for answer in answers), answers


async def names(world: StoreWorld, which: RecordFilter) -> list[str]:
    """Returns the keys of a list."""
    return [record.key.key for record in await world.store.records(which)]


TRIGGERS = RecordFilter("acme", "trigger")


class RecordSuite:
    """See the module."""

    async def user_connection(self) -> tuple[Any, Callable[[str], Awaitable[object]]]:
        """Opens a connection of a user to the database of the store, which commits by itself; returns it, and what executes SQL on it.

        A store without the part `USER_TRANSACTIONS` needs none.
        """
        raise NotImplementedError("override user_connection() to connect to the database of your store")

    async def test_records_change_with_the_transaction_of_a_user_or_not_at_all(self, world: StoreWorld) -> None:
        if (joins := world.store.part(USER_TRANSACTIONS)) is None:
            pytest.skip("this store joins no transactions of users")
        await joins.meet()
        await changed(world, put(attributes=(("a", b"s"),)))
        connection, execute = await self.user_connection()
        for end in ("ROLLBACK", "COMMIT"):
            await execute("BEGIN")
            async with joins.join(connection) as within:
                change = put(version=1, value=b"second", attributes=(("a", b"t"),))
                answers = await within.commit([Post(records=(change,)), Post(records=(put(version=1),)), Post(records=(put("new"),))])
                assert [type(answer) for answer in answers] == [Committed, Stale, Committed] and answers[1] == Stale(record_key(), 2)
                found = await within.record(record_key())
                assert found is not None and (found.version, found.value, found.attributes) == (2, b"second", (("a", b"t"),))
                assert [one.key.key for one in await within.records(TRIGGERS)] == ["new", "nightly"]
            assert await names(world, TRIGGERS) == ["nightly"], "others do not see it before the commit"
            await execute(end)
            assert await names(world, TRIGGERS) == (["new", "nightly"] if end == "COMMIT" else ["nightly"])
        (late,) = await world.change(Post(records=(put(version=1),)))
        assert late == Stale(record_key(), 2)

    async def test_a_record_counts_its_changes_from_1_until_it_is_removed(self, world: StoreWorld) -> None:
        assert await world.store.record(record_key()) is None
        began_s = world.clock.now_s
        await changed(world, put(value=b"\0first\xff", attributes=(("a", b"s1"), ("a", b"s2"), ("b", b""))))
        first = StoredRecord(record_key(), 1, b"\0first\xff", (("a", b"s1"), ("a", b"s2"), ("b", b"")), began_s, None)
        assert await world.store.record(record_key()) == first
        world.clock.advance(5)
        await changed(world, put(version=1, value=b"", expires_at_s=began_s + 60))
        second = StoredRecord(record_key(), 2, b"", (), began_s + 5, began_s + 60)
        assert await world.store.record(record_key()) == second
        assert await world.store.records(TRIGGERS) == [second]
        await changed(world, put(version=2, value=None))
        assert await world.store.record(record_key()) is None
        assert await world.store.records(TRIGGERS) == []
        await changed(world, put(value=b"again"))
        assert await world.store.record(record_key()) == StoredRecord(record_key(), 1, b"again", (), began_s + 5, None)

    @pytest.mark.parametrize(("expected", "value"), [(0, b"x"), (1, b"x"), (3, b"x"), (0, None), (1, None), (3, None)])
    async def test_a_post_that_expects_another_version_changes_nothing(self, world: StoreWorld, expected: int, value: bytes | None) -> None:
        await changed(world, put(), put(version=1, value=b"second"))
        await world.post(plain_message(key("2"), "old"))
        late = Post(
            records=(put("fresh"), put(version=expected, value=value)),
            messages=(plain_message(key("2"), "new"), start_message(key("3"))),
            acks=(Ack(key("2"), "old"),),
            blobs=(("sha", b"blob"),),
        )
        assert await world.change(late) == [Stale(record_key(), 2)]
        assert [(one.key.key, one.version, one.value) for one in await world.store.records(TRIGGERS)] == [("nightly", 2, b"second")]
        assert await world.keys(key("2")) == ["old"]
        assert await world.store.read(key("3")) is None
        assert await world.store.blob("sha") is None

    async def test_the_first_stale_record_is_named(self, world: StoreWorld) -> None:
        await changed(world, put("b"), put("c"))
        assert await world.change(Post(records=(put("a"), put("c", 7), put("b")))) == [Stale(record_key("c"), 1)]
        assert await world.change(Post(records=(put("a", 4, None),))) == [Stale(record_key("a"), 0)]

    async def test_records_messages_and_acks_of_a_post_take_effect_together(self, world: StoreWorld) -> None:
        await changed(world, put("gone"))
        await world.post(plain_message(queue(), "task"))
        every = Post(
            epoch=world.epoch,
            records=(put("gone", 1, None), put("new"), put("never", 0, None)),
            messages=(start_message(key()), plain_message(queue("ship"), "told")),
            acks=(Ack(queue(), "task"),),
        )
        (answer,) = await world.change(every)
        assert isinstance(answer, Committed) and answer.version == 0
        assert await names(world, TRIGGERS) == ["new"]
        assert await world.store.read(key()) is not None
        assert (await world.keys(queue()), await world.keys(queue("ship"))) == ([], ["told"])

    async def test_a_stale_post_does_not_affect_its_neighbours_in_a_batch(self, world: StoreWorld) -> None:
        await world.renew("one")
        await world.open(key())
        posts = [Post(records=(put("a", version),)) for version in (0, 0, 1)]
        answers = await world.change(posts[0], world.decision(key(), 0), posts[1], posts[2], Post(records=(put("b"),)))
        assert [type(answer) for answer in answers] == [Committed, Committed, Stale, Committed, Committed]
        assert answers[2] == Stale(record_key("a"), 1)
        assert [(one.key.key, one.version) for one in await world.store.records(TRIGGERS)] == [("a", 2), ("b", 1)]

    async def test_a_post_of_another_epoch_or_without_its_blob_changes_no_record(self, world: StoreWorld) -> None:
        early = replace(plain_message(key()), refers=(("nowhere",),))
        answers = await world.change(Post(epoch=world.epoch - 1, records=(put(),)), Post(records=(put(),), messages=(early,)))
        assert [type(answer) for answer in answers] == [Superseded, Conflict]
        assert await world.store.record(record_key()) is None

    async def test_a_repeated_post_is_stale_and_changes_nothing(self, world: StoreWorld) -> None:
        post = Post(records=(put(value=b"once"),), messages=(plain_message(key()),))
        assert [type(answer) for answer in await world.change(post, post)] == [Committed, Stale]
        assert (await world.store.records(TRIGGERS))[0].version == 1

    async def test_an_expired_record_counts_as_absent(self, world: StoreWorld) -> None:
        due_s = world.clock.now_s + 10
        attributes = (("a", b"s"),)
        await changed(world, put("a", attributes=attributes, expires_at_s=due_s), put("b", attributes=attributes), put("past", expires_at_s=due_s - 20))
        listed = [TRIGGERS, replace(TRIGGERS, order=AttributeOrder("a")), replace(TRIGGERS, where=(AttributeCondition("a", ((b"", b"\xff"),)),))]
        assert await names(world, TRIGGERS) == ["a", "b"]
        world.clock.advance(9.5)
        assert await world.store.record(record_key("a")) is not None
        world.clock.advance(0.5)
        assert await world.store.record(record_key("a")) is None
        assert [await names(world, which) for which in listed] == [["b"]] * 3
        assert await world.change(Post(records=(put("a", 1, b"late"),))) == [Stale(record_key("a"), 0)]
        await changed(world, put("a", value=b"anew"))
        assert await world.store.record(record_key("a")) == StoredRecord(record_key("a"), 1, b"anew", (), due_s, None)
        assert [await names(world, which) for which in listed] == [["a", "b"], ["b"], ["b"]]

    async def test_expired_records_are_dropped_in_pieces_and_no_others(self, world: StoreWorld) -> None:
        now_s = world.clock.now_s
        await changed(world, *(put(f"{number}", expires_at_s=now_s + number) for number in range(5)), put("always"), put("later", expires_at_s=now_s + 99))
        world.clock.advance(10)
        assert await names(world, TRIGGERS) == ["always", "later"]
        assert [await world.store.drop_expired_records(limit) for limit in (0, 2, 100, 100)] == [0, 2, 3, 0]
        world.clock.advance(90)
        assert await names(world, TRIGGERS) == ["always"]
        assert await world.store.drop_expired_records() == 1
        assert await names(world, TRIGGERS) == ["always"]

    async def test_of_records_that_expired_together_the_first_in_order_of_key_is_dropped_first(self, world: StoreWorld) -> None:
        await changed(world, *(put(name, expires_at_s=world.clock.now_s + 1) for name in ("c", "a", "b")))
        world.clock.advance(10)
        assert await world.store.drop_expired_records(1) == 1
        await changed(world, put("a"))
        assert await world.store.drop_expired_records() == 2

    async def test_the_order_of_keys_is_that_of_their_parts(self, world: StoreWorld) -> None:
        parts = itertools.product(("acme", "b", "a", "a\x01"), ("x", "xy"), ("2/é", "1", "\x01", "🐘"))
        keys = sorted(RecordKey(*three) for three in parts)
        await changed(world, *(RecordChange(one, 0, b"passing", expires_at_s=world.clock.now_s + 1) for one in reversed(keys)))
        world.clock.advance(10)
        dropped = 0
        for one in keys:
            dropped += await world.store.drop_expired_records(1)
            await changed(world, RecordChange(one, 0, b"lasting"))  # if another one was dropped, this replaces one that could have been
        assert dropped == len(keys)

    async def test_lists_are_in_order_of_key_within_a_tenant_and_kind(self, world: StoreWorld) -> None:
        several = sorted({name for name in NAMES if name and "\0" not in name} | {"a/", "a/1", "a/\uffff", "a/🐘", "a0"})
        for tenant, kind in (("acme", "trigger"), ("acme", "trigger2"), ("acm", "trigger"), ("acme", "t")):
            posts = [Post(records=(RecordChange(RecordKey(tenant, kind, name), 0, kind.encode()),)) for name in reversed(several)]
            assert {type(answer) for answer in await world.change(*posts)} == {Committed}
        assert await names(world, TRIGGERS) == several
        assert {record.value for record in await world.store.records(TRIGGERS)} == {b"trigger"}
        assert await names(world, RecordFilter("acme", "tri")) == []
        for prefix in ("a", "a/", "a/\uffff", "é", "🐘", "a%", '"', "b" * 9):
            assert await names(world, replace(TRIGGERS, prefix=prefix)) == [name for name in several if name.startswith(prefix)]
        assert [await names(world, replace(TRIGGERS, limit=limit)) for limit in (0, 3)] == [[], several[:3]]

    async def test_lists_find_by_attributes_in_any_order_page_by_page(self, world: StoreWorld) -> None:
        """A list compares what the store returns, with pages of three, with what the filter means."""
        rng, kept = random.Random(7), list[StoredRecord]()
        for number in range(40):
            attributes = tuple(sorted({(rng.choice(["a", "b", "ä"]), rng.choice(VALUE_FORMS)) for _ in range(rng.randrange(5))}))
            change = put(f"{rng.choice('xy')}{number:02}", attributes=attributes)
            await changed(world, change)
            kept.append(StoredRecord(change.key, 1, b"value", attributes, world.clock.now_s, None))
        kept.sort(key=lambda record: record.key)
        spans = [((b"", b"\xff"),), ((b"s", b"s\0"),), ((b"s", b"t"),), ((b"", b"s"), (b"sa\0", b"\xff")), ((b"s", b"s\0"), (b"sa", b"sa\0"))]
        wheres = [(), *((AttributeCondition(name, span),) for name in ("a", "c") for span in spans)]
        wheres += [
            (AttributeCondition("a", spans[1]), AttributeCondition("b", spans[2])),
            (AttributeCondition("b", spans[4]), AttributeCondition("a", spans[3])),
        ]
        for where in wheres:
            for order in (None, AttributeOrder("a"), AttributeOrder("a", descending=True), AttributeOrder("none")):
                for prefix in ("", "x"):
                    which = RecordFilter("acme", "trigger", prefix, where, order)
                    await self._lists(world, which, meant(which, kept))

    async def _lists(self, world: StoreWorld, which: RecordFilter, meant: list[StoredRecord]) -> None:
        assert await world.store.records(which) == meant
        paged, page = list[StoredRecord](), replace(which, limit=3)
        for _ in count():
            found = await world.store.records(page)
            paged += found
            if len(found) < page.limit:
                break
            page = replace(page, after=record_position(found[-1], which.order))
        assert paged == meant

    @pytest.mark.parametrize("order", [None, AttributeOrder("a"), AttributeOrder("a", descending=True)])
    async def test_a_page_begins_behind_the_last_item_also_when_that_was_changed_or_removed(self, world: StoreWorld, order: AttributeOrder | None) -> None:
        await changed(world, *(put(f"{number}", attributes=(("a", b"s"),)) for number in range(6)))
        which = replace(TRIGGERS, order=order, limit=2)
        first = await world.store.records(which)
        second = replace(which, after=record_position(first[-1], order))
        await changed(world, put(first[-1].key.key, 1, attributes=(("a", b"z"),)), put(first[-1].key.key, 2, None))
        expected = {"0", "1", "2", "3", "4", "5"} - {record.key.key for record in first}
        found = await names(world, second)
        assert found == sorted(expected, reverse=order is not None and order.descending)[:2]

    async def test_what_no_record_can_be_is_refused_before_anything_is_changed(self, world: StoreWorld) -> None:
        bad = [
            (RecordChange(RecordKey("acme", "trigger", ""), 0, b""),),
            (RecordChange(RecordKey("acme", "", "a"), 0, b""),),
            (RecordChange(RecordKey("", "trigger", "a"), 0, b""),),
            (RecordChange(RecordKey("acme", "trigger", "a\0"), 0, b""),),
            (put("x" * (limits.RECORD_KEY_BYTES_MAX + 1)),),
            (put("\ud800"),),
            (put("a", value=b"x" * (limits.RECORD_BYTES_MAX + 1)),),
            (put("a", attributes=tuple((f"{number:03}", b"") for number in range(limits.RECORD_ATTRIBUTES_MAX + 1))),),
            (put("a", attributes=(("b", b""), ("a", b""))),),
            (put("a", attributes=(("a", b"2"), ("a", b"1"))),),
            (put("a", attributes=(("a", b""), ("a", b""))),),
            (put("a"), put("a", 1)),
            (put("a"), RecordChange(record_key("a", tenant="other"), 0, b"")),
        ]
        for records in bad:
            with pytest.raises(BadValue):
                await world.store.commit([Post(records=(put("good"),)), Post(records=records)])
        assert await world.store.records(TRIGGERS) == []
        largest = put("x" * limits.RECORD_KEY_BYTES_MAX, value=b"x" * (limits.RECORD_BYTES_MAX - 8192))
        await changed(world, largest)
        assert (await world.store.records(TRIGGERS))[0].value == largest.value

    async def test_records_outlive_epochs_and_are_in_no_way_of_executions(self, world: StoreWorld) -> None:
        await changed(world, put())
        await world.store.raise_epoch()
        assert (await world.store.records(TRIGGERS))[0].version == 1
        assert await world.store.heads() == [] and not isinstance(put(), Commit)


def meant(which: RecordFilter, kept: list[StoredRecord]) -> list[StoredRecord]:
    """The records of a list in its order, by the plainest rule; `kept` is in order of key."""
    found = [one for one in kept if one.key.key.startswith(which.prefix) and all(condition.holds(one.attributes) for condition in which.where)]
    if (order := which.order) is None:
        return found
    placed = [(value, one.key, one) for one in found if (value := order.value_in(one.attributes)) is not None]
    return [one for *_, one in sorted(placed, key=lambda place: place[:2], reverse=order.descending)]
