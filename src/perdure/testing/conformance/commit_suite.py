"""The tests of commits and posts: atomicity, versions and epochs; logs, blobs and unusual names."""

from perdure.core.attribute_filter import AttributeCondition
from perdure.core.envelopes import Ack, OutgoingMessage
from perdure.core.paths import Address, Key, QueueAddress
from perdure.stores.protocol import Committed, Conflict, HeadFilter, Post, Superseded
from perdure.testing.conformance.store_world import NAMES, StoreWorld, key, plain_message, queue, start_message

ODD_KEYS = [
    *(Key(*names) for name in NAMES for names in ((name, "b", "c"), ("a", name, "c"), ("a", "b", name))),
    *(Key(*names) for names in (("a/b", "c", "d"), ("a", "b/c", "d"), ("a", "b", "c/d"), ("a\0b", "c", ""), ("a", "b\0c", ""), ("", "", ""))),
]


class CommitSuite:
    """See the module."""

    async def test_a_commit_appends_its_row_and_moves_the_version(self, world: StoreWorld) -> None:
        await world.open(key())
        answer = await world.commit(key(), 0, row=b"two events", count=2)
        assert isinstance(answer, Committed) and (answer.version, answer.now_s, answer.created) == (2, world.clock.now_s, ())
        assert isinstance(await world.commit(key(), 2, row=b"a third"), Committed)
        assert (await world.head(key())).version == 3
        assert await world.rows(key()) == [b"two events", b"a third"]

    async def test_a_stale_commit_changes_nothing(self, world: StoreWorld) -> None:
        await world.open(key(), key("other"))
        await world.commit(key(), 0)
        before = await world.head(key())
        for version in (0, 2):
            answer = await world.commit(
                key(),
                version,
                status="completed",
                ended_at_s=1.0,
                wake_at_s=1.0,
                compacted=b"compacted",
                messages=(plain_message(key("other")), plain_message(key()), start_message(key("new"))),
                acks=(Ack(key(), "start"),),
                blobs=(("refused", b"blob"),),
            )
            assert answer == Conflict(before)
        assert (await world.head(key()), await world.rows(key()), await world.keys(key())) == (before, [b"row 1"], ["start"])
        assert await world.keys(key("other")) == ["start"]
        assert await world.store.read(key("new")) is None
        assert await world.store.blob("refused") is None

    async def test_a_stale_commit_in_a_batch_does_not_touch_its_neighbours(self, world: StoreWorld) -> None:
        await world.open(key("1"), key("2"), key("3"))
        answers = await world.change(world.decision(key("1")), world.decision(key("2"), 7), world.decision(key("3")), Post(messages=(plain_message(key("2")),)))
        assert [type(answer) for answer in answers] == [Committed, Conflict, Committed, Committed]
        assert [(await world.head(key(id))).version for id in "123"] == [1, 0, 1]
        assert await world.keys(key("2")) == ["start", "letter"]

    async def test_the_changes_of_a_batch_happen_in_their_order(self, world: StoreWorld) -> None:
        create = world.decision(key(), 0, creates=True)
        answers = await world.change(create, create, world.decision(key(), 1), world.decision(key(), 1), world.decision(key(), 2))
        assert [type(answer) for answer in answers] == [Committed, Conflict, Committed, Conflict, Committed]
        assert await world.rows(key()) == [b"row 1", b"row 2", b"row 3"]

    async def test_a_batch_of_nothing_is_answered_by_nothing(self, world: StoreWorld) -> None:
        assert await world.store.commit([]) == []
        assert await world.store.commit([Post()]) == [Committed(0, world.clock.now_s)]

    async def test_creating_makes_a_head_that_the_committer_holds(self, world: StoreWorld) -> None:
        answer = await world.commit(key(), creates=True, root=key("root"), status="running", count=2)
        head = await world.head(key())
        assert isinstance(answer, Committed) and answer.version == head.version == 2
        assert (head.key, head.program, head.root, head.status) == (key(), "order", key("root"), "running")
        assert (head.holder, head.created_at_s, head.ended_at_s) == ("one", world.clock.now_s, None)

    async def test_what_was_created_earlier_is_listed_with_that_time_and_never_with_a_later_one(self, world: StoreWorld) -> None:
        began_s = world.clock.now_s
        world.clock.advance(5)
        await world.commit(key("1"), creates=True, created_at_s=began_s + 2.5)
        await world.commit(key("2"), creates=True, created_at_s=world.clock.now_s + 1)
        await world.commit(key("1"), 1, created_at_s=began_s)
        assert [(await world.head(key(id))).created_at_s for id in "12"] == [began_s + 2.5, world.clock.now_s]

    async def test_creating_conflicts_with_any_head_even_a_pending_one(self, world: StoreWorld) -> None:
        await world.open(key())
        pending = await world.head(key())
        assert await world.commit(key(), creates=True) == Conflict(pending)
        assert await world.head(key()) == pending

    async def test_a_commit_to_an_execution_without_head_conflicts_and_makes_none(self, world: StoreWorld) -> None:
        await world.post(plain_message(key()))
        assert await world.commit(key(), acks=(Ack(key(), "letter"),)) == Conflict(None)
        assert await world.store.read(key()) is None
        assert await world.keys(key()) == ["letter"]

    async def test_a_commit_that_mail_has_overtaken_conflicts_and_changes_nothing(self, world: StoreWorld) -> None:
        await world.open(key())
        await world.post(plain_message(key(), "answer"), plain_message(key("2"), "other"))
        head = await world.head(key())
        assert await world.commit(key(), unless=("none", "answer"), messages=(plain_message(key("3")),)) == Conflict(head)
        assert await world.head(key()) == head and await world.keys(key("3")) == []
        assert isinstance(await world.commit(key(), unless=("none", "other"), acks=(Ack(key(), "answer"),)), Committed)
        assert isinstance(await world.commit(key(), 1, unless=("answer",)), Committed)

    async def test_the_head_gets_what_its_commit_says_and_keeps_the_rest(self, world: StoreWorld) -> None:
        await world.open(key(), root=key("root"))
        started_s = world.clock.now_s
        world.clock.advance(5)
        await world.commit(key(), 0, program="order@2", root=key("another"), status="completed", ended_at_s=3.5, wake_at_s=7.25)
        head = await world.head(key())
        assert (head.program, head.status, head.ended_at_s, head.wake_at_s) == ("order@2", "completed", 3.5, 7.25)
        assert (head.root, head.created_at_s) == (key("root"), started_s)
        await world.commit(key(), 1, status="running")
        head = await world.head(key())
        assert (head.program, head.status, head.ended_at_s, head.wake_at_s) == ("order", "running", None, None)

    async def test_a_commit_of_another_epoch_is_refused_whatever_its_version(self, world: StoreWorld) -> None:
        await world.open(key())
        epoch = await world.store.raise_epoch()
        assert epoch > world.epoch
        for other in (world.epoch, epoch + 1):
            for version in (0, 5):
                blobs, acks = (("refused", b"blob"),), (Ack(key(), "start"),)
                assert await world.commit(key(), version, epoch=other, blobs=blobs, acks=acks) == Superseded(epoch)
            assert await world.commit(key("new"), creates=True, epoch=other) == Superseded(epoch)
        assert (await world.head(key())).version == 0
        assert await world.keys(key()) == ["start"]
        assert await world.store.blob("refused") is None
        assert await world.store.read(key("new")) is None
        assert isinstance(await world.commit(key(), 0, epoch=epoch), Committed)

    async def test_a_post_names_the_present_epoch_or_none(self, world: StoreWorld) -> None:
        await world.open(key())
        epoch = await world.store.raise_epoch()
        posts = [
            Post(epoch=given, messages=(plain_message(key(), str(given)),), acks=(Ack(key(), "start"),), blobs=((str(given), b"blob"),))
            for given in (world.epoch, None, epoch, epoch + 1)
        ]
        assert [type(answer) for answer in await world.change(*posts)] == [Superseded, Committed, Committed, Superseded]
        assert await world.keys(key()) == ["None", str(epoch)]
        assert await world.store.blob(str(world.epoch)) is None

    async def test_renewing_tells_the_time_and_the_epoch(self, world: StoreWorld) -> None:
        world.clock.advance(3)
        epoch = await world.store.raise_epoch()
        moment = await world.store.renew("one", 60)
        assert (moment.now_s, moment.epoch) == (world.clock.now_s, epoch)

    async def test_a_commit_of_no_events_leaves_the_log_and_the_version(self, world: StoreWorld) -> None:
        await world.open(key())
        answer = await world.commit(key(), 0, count=0, row=b"", status="waiting")
        assert isinstance(answer, Committed) and answer.version == 0
        assert ((await world.head(key())).status, await world.rows(key())) == ("waiting", [])

    async def test_reading_begins_with_the_row_that_holds_the_first_event_asked_for(self, world: StoreWorld) -> None:
        await world.open(key(), key("other"))
        await world.commit(key("other"), 0)
        for version, row, count in ((0, b"1 to 3", 3), (3, b"4", 1), (4, b"5 to 6", 2)):
            await world.commit(key(), version, row=row, count=count)
        rows = [b"1 to 3", b"4", b"5 to 6"]
        assert [await world.rows(key(), after) for after in range(8)] == [rows, rows, rows, rows[1:], rows[2:], rows[2:], [], []]
        assert await world.store.read(key("nobody")) is None

    async def test_each_row_names_the_last_event_in_it(self, world: StoreWorld) -> None:
        await world.commit(key(), creates=True, row=b"two events", count=2)
        await world.commit(key(), 2, row=b"a third")
        assert await world.versions(key()) == [2, 3] and await world.versions(key(), 2) == [3]
        await world.commit(key(), 3, compacted=b"the first three", row=b"and two more", count=2)
        assert await world.versions(key()) == [3, 5]
        await world.commit(key(), 5, compacted=b"", row=b"all of it", count=1)
        assert await world.versions(key()) == [6]

    async def test_compacting_replaces_the_rows_before_and_leaves_the_version(self, world: StoreWorld) -> None:
        await world.open(key(), key("other"))
        await world.commit(key("other"), 0)
        for version in range(3):
            await world.commit(key(), version)
        answer = await world.commit(key(), 3, compacted=b"1 to 3", row=b"4")
        assert isinstance(answer, Committed) and (await world.head(key())).version == 4
        assert [await world.rows(key(), after) for after in range(5)] == [[b"1 to 3", b"4"]] * 3 + [[b"4"], []]
        await world.commit(key(), 4, compacted=b"1 to 4", count=0)
        assert [await world.rows(key(), after) for after in range(5)] == [[b"1 to 4"]] * 4 + [[]]
        await world.commit(key(), 4, row=b"5")
        assert (await world.head(key())).version == 5
        assert await world.rows(key()) == [b"1 to 4", b"5"]
        assert await world.rows(key("other")) == [b"row 1"]

    async def test_compacting_to_nothing_leaves_the_row_that_stands_for_all(self, world: StoreWorld) -> None:
        await world.open(key())
        for version in range(3):
            await world.commit(key(), version)
        await world.commit(key(), 3, compacted=b"", row=b"all that is left")
        assert (await world.head(key())).version == 4
        assert [await world.rows(key(), after) for after in range(5)] == [[b"all that is left"]] * 4 + [[]]
        await world.commit(key(), 4, row=b"5")
        assert await world.rows(key()) == [b"all that is left", b"5"]

    async def test_what_is_forgotten_leaves_nothing_and_may_be_created_anew(self, world: StoreWorld) -> None:
        await world.open(key(), key("other"))
        for one in (key(), key("other")):
            await world.commit(one, 0, attributes=(("customer", b"c1"),), messages=(plain_message(one, "unread"),))
        stale = await world.commit(key(), 0, forgets=True)
        assert isinstance(stale, Conflict) and await world.rows(key()) == [b"row 1"]
        gone = await world.commit(key(), 1, count=0, row=b"", compacted=b"", release=True, forgets=True)
        assert isinstance(gone, Committed)
        assert await world.store.read(key()) is None
        assert [head.key for head in await world.store.heads(HeadFilter(where=(AttributeCondition("customer", ((b"c1", b"c2"),)),)))] == [key("other")]
        assert await world.store.messages(key()) == []
        assert await world.rows(key("other")) == [b"row 1"]
        await world.open(key("third"))
        again = await world.commit(key(), 1)
        assert isinstance(again, Conflict) and again.head is None, "what was decided on it does not change another"
        created = await world.post(start_message(key()))
        assert created.created == (key(),) and (await world.head(key())).version == 0
        assert [message.key for message in await world.store.messages(key())] == ["start"]

    async def test_rows_may_be_large_or_empty(self, world: StoreWorld) -> None:
        large = bytes(range(256)) * 8192
        await world.open(key())
        for version, row in enumerate((large, b"", b"\0")):
            await world.commit(key(), version, row=row)
        await world.post(plain_message(key(), "large", body=large))
        assert await world.rows(key()) == [large, b"", b"\0"]
        assert [message.body for message in await world.store.messages(key())] == [b"start", large]

    async def test_blobs_are_kept_with_the_change_that_brings_them(self, world: StoreWorld) -> None:
        await world.open(key())
        await world.commit(key(), 0, blobs=(("one", b"1"), ("two", b"")))
        await world.change(Post(blobs=(("three", b"3" * 100_000), ("one", b"1"))))
        assert [await world.store.blob(name) for name in ("one", "two", "three", "four")] == [b"1", b"", b"3" * 100_000, None]

    async def test_no_two_names_collide(self, world: StoreWorld) -> None:
        keys = list(dict.fromkeys(ODD_KEYS))
        addresses: list[Address] = [*keys, *(QueueAddress(name, other) for name in NAMES for other in ("a", "b", name)), queue()]
        addresses = list(dict.fromkeys(addresses))
        await world.open(*keys)
        await world.post(*(OutgoingMessage(to, name, str(number).encode()) for number, to in enumerate(addresses) for name in ("", "\0", "a\0b/🐘")))
        for number, to in enumerate(addresses):
            messages = [found for found in await world.store.messages(to) if found.key != "start"]
            assert [(found.to, found.key, found.body) for found in messages] == [(to, name, str(number).encode()) for name in ("", "\0", "a\0b/🐘")]
            assert type(messages[0].to) is type(to)
        assert [(await world.head(key)).key for key in keys] == keys
        assert {head.key for head in await world.store.heads(HeadFilter(limit=1000))} == set(keys)
        assert {head.key for head in await world.store.heads(HeadFilter(tenant="a\0b"))} == {key for key in keys if key.tenant == "a\0b"}
