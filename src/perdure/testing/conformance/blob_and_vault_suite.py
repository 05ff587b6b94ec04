"""The tests of blob removal and of the vault. A sweep removes marked blobs unless a later change carries or refers to them, and records removals on request.

A secret is stored unless another write came in between, is visible to its tenant alone, and is gone once it is removed.
"""

from hashlib import sha256

import pytest

from perdure.core.envelopes import OutgoingMessage
from perdure.core.paths import Key
from perdure.stores.blob_marks import BlobRemoval, BlobTotals, blob_removal_of
from perdure.stores.protocol import Committed, Conflict, Post
from perdure.stores.secret_vault import VAULT, SealedValue, Vault
from perdure.testing.conformance.store_world import NAMES, StoreWorld, key, plain_message, queue, start_message

BLOB_NAMES = {letter: sha256(letter.encode()).hexdigest() for letter in "abcdefgh"}


def removal(world: StoreWorld) -> BlobRemoval:
    """Returns the blob removal of the store."""
    return blob_removal_of(world.store)


async def kept(world: StoreWorld, *names: str) -> None:
    """Stores these blobs."""
    await world.change(Post(blobs=tuple((BLOB_NAMES[one], one.encode()) for one in names)))


async def there(world: StoreWorld) -> str:
    """Returns the names of the blobs in the store."""
    return "".join([one for one, name in BLOB_NAMES.items() if await world.store.blob(name) is not None])


async def removed(world: StoreWorld, sweep: str, *noted: str, limit: int = 100) -> int:
    """Removes marked blobs; returns how many."""
    return (await removal(world).remove(sweep, [BLOB_NAMES[one] for one in noted] if noted else None, limit)).blobs


def referring(to: Key, *names: str, key: str = "refers") -> OutgoingMessage:
    """Returns a message that refers to blobs of the store."""
    return OutgoingMessage(to, key, b"refers", refers=tuple((BLOB_NAMES[one],) for one in names))


class BlobRemovalSuite:
    """See the module."""

    async def test_marked_blobs_are_removed_but_for_those_that_are_kept(self, world: StoreWorld) -> None:
        await kept(world, *"abcd")
        await removal(world).mark("one")
        await removal(world).keep([BLOB_NAMES["b"], BLOB_NAMES["d"], BLOB_NAMES["h"]])
        marked = await removal(world).marked("one")
        assert marked.blobs == 2 and marked.size_bytes >= 2
        assert await there(world) == "abcd"
        assert await removal(world).remove("one") == marked
        assert await there(world) == "bd"
        assert await removal(world).remove("one") == await removal(world).marked("one") == BlobTotals()
        assert [await world.store.removed_at(name) for name in BLOB_NAMES.values()] == [None] * len(BLOB_NAMES)

    async def test_so_many_at_a_time_are_removed(self, world: StoreWorld) -> None:
        await kept(world, *"abcde")
        await removal(world).mark("one")
        assert [await removed(world, "one", limit=2) for _ in range(4)] == [2, 2, 1, 0]
        assert await there(world) == ""

    async def test_what_a_change_carries_again_is_not_removed(self, world: StoreWorld) -> None:
        await kept(world, *"abcd")
        await removal(world).mark("one")
        await kept(world, "a")
        await world.commit(key(), creates=True, blobs=((BLOB_NAMES["b"], b"b"),))
        await world.commit(key(), 7, blobs=((BLOB_NAMES["c"], b"c"),))  # a stale one changes nothing
        assert await removed(world, "one") == 2
        assert await there(world) == "ab"

    async def test_what_mail_begins_to_refer_to_is_not_removed(self, world: StoreWorld) -> None:
        await kept(world, *"abcd")
        await removal(world).mark("one")
        await world.commit(key(), creates=True, messages=(referring(key("other"), "a"),))
        await world.post(referring(key(), "b"))
        assert await removed(world, "one") == 2
        assert await there(world) == "ab"

    async def test_a_post_that_refers_to_what_is_not_there_changes_nothing(self, world: StoreWorld) -> None:
        await kept(world, "a")
        (refused,) = await world.change(Post(messages=(plain_message(key()), referring(key(), "a", "b")), blobs=((BLOB_NAMES["c"], b"c"),)))
        assert refused == Conflict(None)
        assert (await world.store.messages(key()), await there(world)) == ([], "a")
        (taken,) = await world.change(Post(messages=(referring(key(), "a", "c"),), blobs=((BLOB_NAMES["c"], b"c"),)))
        assert isinstance(taken, Committed) and await world.keys(key()) == ["refers"]

    async def test_a_later_sweep_takes_the_marks_of_an_earlier_one(self, world: StoreWorld) -> None:
        await kept(world, *"ab")
        await removal(world).mark("one")
        await removal(world).keep([BLOB_NAMES["a"]])
        await removal(world).mark("two")
        assert await removed(world, "one") == 0
        assert await there(world) == "ab"
        await removal(world).unmark("one")
        assert (await removal(world).marked("two")).blobs == 2
        await removal(world).unmark("two")
        assert await removed(world, "two") == 0
        assert await there(world) == "ab"

    async def test_of_what_is_noted_it_is_known_when_it_was_removed(self, world: StoreWorld) -> None:
        await kept(world, *"abc")
        await removal(world).mark("one")
        await removal(world).keep([BLOB_NAMES["c"]])
        world.clock.advance(5)
        assert await removed(world, "one", "a", "c") == 1
        assert await there(world) == "bc"
        assert [await world.store.removed_at(BLOB_NAMES[one]) for one in "abc"] == [world.clock.now_s, None, None]
        assert await removed(world, "one") == 1
        await removed(world, "one")
        assert await world.store.removed_at(BLOB_NAMES["a"]) == world.clock.now_s

    async def test_notes_go_when_nothing_refers_to_what_was_removed(self, world: StoreWorld) -> None:
        await kept(world, "a")
        await removal(world).note({BLOB_NAMES["a"]: 1.0, BLOB_NAMES["b"]: 2.0, BLOB_NAMES["c"]: 3.0, BLOB_NAMES["d"]: 4.0})
        assert [await world.store.removed_at(BLOB_NAMES[one]) for one in "abcd"] == [None, 2.0, 3.0, 4.0]
        await kept(world, "d")
        assert await world.store.removed_at(BLOB_NAMES["d"]) is None
        await removal(world).mark("one")
        await removal(world).keep([BLOB_NAMES[one] for one in "abd"])
        assert await removed(world, "one") == 0
        assert [await world.store.removed_at(BLOB_NAMES[one]) for one in "abc"] == [None, 2.0, None]

    async def test_unclaimed_mail_is_listed_until_its_execution_is_there(self, world: StoreWorld) -> None:
        await world.post(plain_message(key("1"), body=b"one"), plain_message(key("2")), plain_message(queue()), start_message(key("3")))
        found = await removal(world).unclaimed()
        assert [(message.to, message.body) for message in found] == [(key("1"), b"one"), (key("2"), b"letter")]
        await world.open(key("1"))
        assert [message.to for message in await removal(world).unclaimed()] == [key("2")]


RAW = bytes(range(256))


def vault(world: StoreWorld) -> Vault:
    """Returns the vault of the store; skips the test if there is none."""
    found = world.store.part(VAULT)
    if found is None:
        pytest.skip("this store keeps no secrets")
    return found


class VaultSuite:
    """See the module."""

    async def test_a_secret_is_kept_as_it_was_given_and_when(self, world: StoreWorld) -> None:
        kept = vault(world)
        assert await kept.read() == []
        assert await kept.keep("acme", "TOKEN", 1, RAW)
        world.clock.advance(10)
        assert await kept.keep("acme", "A", 1, b"")
        at_s = world.clock.now_s
        assert await kept.read("acme") == [SealedValue("acme", "A", 1, b"", at_s), SealedValue("acme", "TOKEN", 1, RAW, at_s - 10)]
        assert await kept.read("acme", "TOKEN") == [SealedValue("acme", "TOKEN", 1, RAW, at_s - 10)]

    async def test_who_has_not_seen_the_last_version_writes_nothing(self, world: StoreWorld) -> None:
        kept = vault(world)
        for version in (0, 2, 3):
            assert not await kept.keep("acme", "TOKEN", version, b"never")
        assert await kept.keep("acme", "TOKEN", 1, b"one") and not await kept.keep("acme", "TOKEN", 1, b"late")
        assert await kept.keep("acme", "TOKEN", 2, b"two")
        for version in (1, 2, 4):
            assert not await kept.keep("acme", "TOKEN", version, b"late")
        assert [(one.version, one.sealed) for one in await kept.read()] == [(2, b"two")]

    async def test_what_is_removed_is_gone_and_may_be_set_anew(self, world: StoreWorld) -> None:
        kept = vault(world)
        assert not await kept.drop("acme", "TOKEN")
        assert await kept.keep("acme", "TOKEN", 1, b"one") and await kept.keep("acme", "TOKEN", 2, b"two")
        assert await kept.drop("acme", "TOKEN") and not await kept.drop("acme", "TOKEN")
        assert await kept.read() == [] and not await kept.keep("acme", "TOKEN", 3, b"three")
        assert await kept.keep("acme", "TOKEN", 1, b"anew")

    async def test_tenants_and_names_are_told_apart_however_they_are_called(self, world: StoreWorld) -> None:
        kept, names = vault(world), NAMES
        for name in names:
            assert await kept.keep("acme", name, 1, b"of acme") and await kept.keep(name, "TOKEN", 1, name.encode())
        assert [one.name for one in await kept.read("acme")] == sorted(names)
        for name in names:
            assert [(one.tenant, one.sealed) for one in await kept.read(name)] == [(name, name.encode())]
            assert [one.sealed for one in await kept.read("acme", name)] == [b"of acme"]
            assert await kept.drop(name, "TOKEN")
        assert [one.tenant for one in await kept.read()] == ["acme"] * len(names)
