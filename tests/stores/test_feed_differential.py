"""A store that was copied by its feed is the store: the random operations of `test_differential`, shipped to stores of other kinds.

The memory store is shipped to a file and the file to a memory store, in pieces of random size, with repeats as after a crash between a restore and the
writing down of its position. Whenever a reader has caught up, the copy has what the store has.
"""

import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from perdure.core.paths import Address, Key
from perdure.stores.blob_marks import blob_removal_of
from perdure.stores.memory import MemoryStore
from perdure.stores.protocol import Commit, Store
from perdure.stores.records import RecordFilter
from perdure.stores.sqlite.store import SqliteStore
from perdure.testing.conformance.feed_suite import contents, feed_of
from tests.sampling import some
from tests.stores import test_differential as walk

OPERATIONS = 600
KINDS = [RecordFilter(tenant, kind, limit=1_000) for tenant, kind in sorted({(key.tenant, key.kind) for key in walk.RECORDS})]


class Copy:
    """A store that follows another by its feed."""

    def __init__(self, target: Store, rng: random.Random) -> None:
        self.target, self._random = target, rng
        self.position = 0
        self.counts = {"repeated": 0, "caught up": 0, "trimmed": 0}

    async def piece(self, source: Store) -> bool:
        """Restores the next page, or the same again; returns whether the reader has caught up."""
        page = await feed_of(source).shipped(self.position, self._random.choice([1, 2, 7, 100]))
        items = page.items[: self._random.randrange(len(page.items) + 1)] if self._random.random() < 0.1 else page.items
        await feed_of(self.target).restore(items)
        if len(items) < len(page.items) or self._random.random() < 0.2:  # it is killed before it writes down the position
            self.counts["repeated"] += 1
            return False
        self.position = page.position
        if self._random.random() < 0.2:
            await feed_of(source).trim_feed(page.position)
            self.counts["trimmed"] += 1
        return not page.more

    async def catch_up(self, source: Store) -> None:
        """Restores all that has changed."""
        while not await self.piece(source):
            pass
        self.counts["caught up"] += 1


class ShippedTwins(walk.Twins):
    """Both stores, and a copy of each."""

    def __init__(self, seed: int, directory: Path) -> None:
        super().__init__(seed, directory / "perdure.db")
        self.copied_to = SqliteStore(directory / "copy.db", self.clock, synchronous="OFF")
        self.copies = {"memory": Copy(self.copied_to, self.random), "sqlite": Copy(MemoryStore(self.clock), self.random)}
        self.forgotten = 0
        self.places: set[Key] = set(self.keys)

    def source(self, name: str) -> Store:
        return self.memory if name == "memory" else self.sqlite

    async def ship(self) -> None:
        """Ship a piece from either."""
        name = self.random.choice([*self.copies])
        await self.copies[name].piece(self.source(name))

    async def catch_up(self) -> None:
        """Ship all that has changed, and compare."""
        self.places.update(self.keys)
        addresses: list[Address] = [*self.places, walk.NOBODY, *walk.QUEUES]
        for name, copy in self.copies.items():
            await copy.catch_up(self.source(name))
            copied, expected = [await contents(store, addresses, walk.BLOBS, KINDS) for store in (copy.target, self.source(name))]
            heads, boxes = expected["heads"], expected["messages"]
            assert isinstance(heads, dict) and isinstance(boxes, dict)
            for key, head in [*heads.items()]:  # in the copy, nothing was received: an execution waits for the earliest of its messages
                raw = await self.source(name).read(key)
                assert raw is not None
                times_s = [*([self.clock.now_s] if raw.head.holder is not None else []), raw.head.wake_at_s, *(message.due_at_s for message in boxes[key])]
                heads[key] = replace(head, wake_at_s=min((max(at_s, self.clock.now_s) for at_s in times_s if at_s is not None), default=None))
            assert copied == expected, name

    async def forget(self) -> None:
        """Remove an execution. Its key may be used again."""
        key = self.random.choice(self.keys)
        if (head := await self.head(key)) and not head.queue:
            commit = Commit(key=key, epoch=self.epoch, holder="one", version=head.version, program=head.program, root=head.root, forgets=True)
            await self.both(lambda store: store.commit([commit]))
            self.forgotten += 1

    async def remove_blobs(self) -> None:
        """Remove some blobs, and note that."""
        names = self.random.sample(walk.BLOBS, self.random.randrange(1, 3))
        for store in (self.memory, self.sqlite):
            removal = blob_removal_of(store)
            await removal.mark("sweep")
            await removal.remove("sweep", names if self.clock.now_s % 2 else None)
            await removal.unmark("sweep")


async def ship_at_random(seed: int, directory: Path, operations: int) -> None:
    twins, chooser, done = ShippedTwins(seed, directory), random.Random(seed), 0
    own: dict[Callable[[ShippedTwins], Awaitable[None]], float] = {
        ShippedTwins.ship: 20,
        ShippedTwins.catch_up: 5,
        ShippedTwins.forget: 8,
        ShippedTwins.remove_blobs: 1,
    }
    chances: dict[Callable[[ShippedTwins], Awaitable[None]], float] = own | dict(walk.CHANCES.items())
    begins = chooser.randrange(100)
    try:
        for done in range(operations):
            (operation,) = chooser.choices([*chances], [*chances.values()])
            if done == begins:
                for store in (twins.memory, twins.sqlite):
                    await feed_of(store).begin_feed()
            if done >= begins or operation not in (ShippedTwins.ship, ShippedTwins.catch_up):
                await operation(twins)
        await twins.catch_up()
        assert twins.forgotten and all(all(copy.counts.values()) for copy in twins.copies.values())
    except BaseException as error:
        error.add_note(f"seed {seed}, operation {done}")
        raise
    finally:
        await twins.sqlite.close()
        await twins.copied_to.close()


@pytest.mark.slow
@pytest.mark.parametrize("seed", some(range(6), 2))
async def test_a_copy_by_the_feed_is_the_store(seed: int, tmp_path: Path) -> None:
    await ship_at_random(seed, tmp_path, OPERATIONS)


@pytest.mark.prove
@pytest.mark.parametrize("seed", range(100, 130))
async def test_a_copy_by_the_feed_is_the_store_for_long(seed: int, tmp_path: Path) -> None:
    await ship_at_random(seed, tmp_path, 3_000)
