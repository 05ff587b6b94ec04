"""Removal of blobs: what is marked is removed, unless a change has carried it or has begun to refer to it since; what is noted stays known as removed."""

from hashlib import sha256

from perdure.core.mail import Send
from perdure.core.paths import Key
from perdure.stores.base import Committed, Conflict, Post
from perdure.stores.blob_removal import BlobRemoval, Marked, blob_removal_of
from perdure.testing.conformance.world import World, key, letter, opening, queue

NAMES = {letter: sha256(letter.encode()).hexdigest() for letter in "abcdefgh"}


def removal(world: World) -> BlobRemoval:
    """The removal of blobs of the store."""
    return blob_removal_of(world.store)


async def kept(world: World, *letters: str) -> None:
    """Have the store keep these blobs."""
    await world.change(Post(blobs=tuple((NAMES[one], one.encode()) for one in letters)))


async def there(world: World) -> str:
    """The blobs that are there."""
    return "".join([one for one, name in NAMES.items() if await world.store.blob(name) is not None])


async def removed(world: World, sweep: str, *noted: str, limit: int = 100) -> int:
    """Remove what is marked; return how many blobs."""
    return (await removal(world).remove(sweep, [NAMES[one] for one in noted] if noted else None, limit)).blobs


def referring(to: Key, *letters: str, key: str = "refers") -> Send:
    """A message that refers to blobs which the store has."""
    return Send(to, key, b"refers", refers=tuple((NAMES[one],) for one in letters))


class RemovalOfBlobs:
    """See the module."""

    async def test_marked_blobs_are_removed_but_for_those_that_are_kept(self, world: World) -> None:
        await kept(world, *"abcd")
        await removal(world).mark("one")
        await removal(world).keep([NAMES["b"], NAMES["d"], NAMES["h"]])
        marked = await removal(world).marked("one")
        assert marked.blobs == 2 and marked.size_bytes >= 2
        assert await there(world) == "abcd"
        assert await removal(world).remove("one") == marked
        assert await there(world) == "bd"
        assert await removal(world).remove("one") == await removal(world).marked("one") == Marked()
        assert [await world.store.removed_at(name) for name in NAMES.values()] == [None] * len(NAMES)

    async def test_so_many_at_a_time_are_removed(self, world: World) -> None:
        await kept(world, *"abcde")
        await removal(world).mark("one")
        assert [await removed(world, "one", limit=2) for _ in range(4)] == [2, 2, 1, 0]
        assert await there(world) == ""

    async def test_what_a_change_carries_again_is_not_removed(self, world: World) -> None:
        await kept(world, *"abcd")
        await removal(world).mark("one")
        await kept(world, "a")
        await world.commit(key(), creates=True, blobs=((NAMES["b"], b"b"),))
        await world.commit(key(), 7, blobs=((NAMES["c"], b"c"),))  # a stale one changes nothing
        assert await removed(world, "one") == 2
        assert await there(world) == "ab"

    async def test_what_mail_begins_to_refer_to_is_not_removed(self, world: World) -> None:
        await kept(world, *"abcd")
        await removal(world).mark("one")
        await world.commit(key(), creates=True, sends=(referring(key("other"), "a"),))
        await world.post(referring(key(), "b"))
        assert await removed(world, "one") == 2
        assert await there(world) == "ab"

    async def test_a_post_that_refers_to_what_is_not_there_changes_nothing(self, world: World) -> None:
        await kept(world, "a")
        (refused,) = await world.change(Post(sends=(letter(key()), referring(key(), "a", "b")), blobs=((NAMES["c"], b"c"),)))
        assert refused == Conflict(None)
        assert (await world.store.mail(key()), await there(world)) == ([], "a")
        (taken,) = await world.change(Post(sends=(referring(key(), "a", "c"),), blobs=((NAMES["c"], b"c"),)))
        assert isinstance(taken, Committed) and await world.keys(key()) == ["refers"]

    async def test_a_later_sweep_takes_the_marks_of_an_earlier_one(self, world: World) -> None:
        await kept(world, *"ab")
        await removal(world).mark("one")
        await removal(world).keep([NAMES["a"]])
        await removal(world).mark("two")
        assert await removed(world, "one") == 0
        assert await there(world) == "ab"
        await removal(world).unmark("one")
        assert (await removal(world).marked("two")).blobs == 2
        await removal(world).unmark("two")
        assert await removed(world, "two") == 0
        assert await there(world) == "ab"

    async def test_of_what_is_noted_it_is_known_when_it_was_removed(self, world: World) -> None:
        await kept(world, *"abc")
        await removal(world).mark("one")
        await removal(world).keep([NAMES["c"]])
        world.clock.advance(5)
        assert await removed(world, "one", "a", "c") == 1
        assert await there(world) == "bc"
        assert [await world.store.removed_at(NAMES[one]) for one in "abc"] == [world.clock.now_s, None, None]
        assert await removed(world, "one") == 1
        await removed(world, "one")
        assert await world.store.removed_at(NAMES["a"]) == world.clock.now_s

    async def test_notes_go_when_nothing_refers_to_what_was_removed(self, world: World) -> None:
        await kept(world, "a")
        await removal(world).note({NAMES["a"]: 1.0, NAMES["b"]: 2.0, NAMES["c"]: 3.0, NAMES["d"]: 4.0})
        assert [await world.store.removed_at(NAMES[one]) for one in "abcd"] == [None, 2.0, 3.0, 4.0]
        await kept(world, "d")
        assert await world.store.removed_at(NAMES["d"]) is None
        await removal(world).mark("one")
        await removal(world).keep([NAMES[one] for one in "abd"])
        assert await removed(world, "one") == 0
        assert [await world.store.removed_at(NAMES[one]) for one in "abc"] == [None, 2.0, None]

    async def test_unclaimed_mail_is_listed_until_its_execution_is_there(self, world: World) -> None:
        await world.post(letter(key("1"), body=b"one"), letter(key("2")), letter(queue()), opening(key("3")))
        found = await removal(world).unclaimed()
        assert [(mail.to, mail.body) for mail in found] == [(key("1"), b"one"), (key("2"), b"letter")]
        await world.open(key("1"))
        assert [mail.to for mail in await removal(world).unclaimed()] == [key("2")]
