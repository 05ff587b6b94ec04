"""The tests of the move mark: what a store refuses at each stage of a move, and what it still does."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from perdure.core.envelopes import Ack
from perdure.core.errors import StoreMoved
from perdure.stores.change_feed import CHANGE_FEED, ShippedHead, ShippedRow
from perdure.stores.move_mark import MOVE_MARK, MoveMark, MoveStage, StoreMove, is_draining
from perdure.stores.protocol import LogRow, Post, QueueLimits, Store
from perdure.stores.secret_vault import VAULT
from perdure.testing.conformance.feed_suite import feed_of, note
from perdure.testing.conformance.store_world import StoreWorld, key, plain_message, queue

REFUSING: tuple[MoveStage, ...] = ("copy", "closed", "moved")
OTHER = "postgresql://anna@host/it's"


def move_mark_of(store: Store) -> MoveMark:
    """Returns the move mark of a store; the test is skipped if it has none."""
    mark = store.part(MOVE_MARK)
    if mark is None:
        pytest.skip("this store can't be moved")
    return mark


class MoveSuite:
    """See the module."""

    @pytest.fixture
    async def mark(self, world: StoreWorld) -> AsyncIterator[MoveMark]:
        """The mark of the store, which is removed at the end: the store may be emptied for the next test."""
        mark = move_mark_of(world.store)
        yield mark
        await mark.replace(await mark.read(), None)

    async def _worked_on(self, world: StoreWorld) -> None:
        """Creates something of everything that can be changed."""
        await world.renew("one")
        await world.open(key("1"), key("2"))
        await world.claim("one", limit=1)
        await world.post(plain_message(queue()), plain_message(key("alone")))
        await world.store.limit("slow", QueueLimits(concurrency=1))
        await world.change(note("a"), Post(blobs=(("a", b"blob a"),)))
        vault = world.store.part(VAULT)
        assert vault is None or await vault.keep("acme", "TOKEN", 1, b"sealed")

    def _changes(self, world: StoreWorld) -> dict[str, Callable[[], Awaitable[object]]]:
        return {
            "commit": lambda: world.commit(key("1"), row=b"first", acks=(Ack(key("1"), "start"),)),
            "create": lambda: world.commit(key("new"), creates=True),
            "post": lambda: world.post(plain_message(key("1"), "late")),
            "acknowledgement": lambda: world.post(acks=[Ack(queue(), "letter")]),
            "record": lambda: world.change(note("a", 1, b"changed")),
            "blob": lambda: world.change(Post(blobs=(("b", b"blob b"),))),
            "limits": lambda: world.store.limit("slow", None),
            "claim": lambda: world.claim("one", limit=2),
            "task": lambda: world.work("one"),
            "renewal": lambda: world.renew("one"),
            "joining": lambda: world.renew("another"),
        }

    @pytest.mark.parametrize("stage", REFUSING)
    async def test_a_marked_store_refuses_every_change_and_names_the_other(self, world: StoreWorld, mark: MoveMark, stage: MoveStage) -> None:
        await self._worked_on(world)
        before = await self._everything(world)
        move = StoreMove(stage, OTHER, "run")
        assert await mark.replace(None, move) and await mark.read() == move
        for name, change in self._changes(world).items():
            with pytest.raises(StoreMoved) as refused:
                await change()
            assert OTHER in str(refused.value), name
        assert await self._everything(world) == before
        assert not await mark.replace(None, None) and await mark.replace(move, None)
        assert await mark.read() is None
        for change in self._changes(world).values():
            await change()

    async def _everything(self, world: StoreWorld) -> list[object]:
        store = world.store
        found: list[object] = [await store.heads(), await store.record(note("a").records[0].key), await store.blob("b"), await store.queues()]
        return found + [await store.messages(to) for to in (key("1"), key("alone"), queue())] + [one.holder for one in await store.leases()]

    @pytest.mark.parametrize("stage", REFUSING)
    async def test_secrets_can_be_set_in_a_copy_only(self, world: StoreWorld, mark: MoveMark, stage: MoveStage) -> None:
        vault = world.store.part(VAULT)
        assert vault is not None and await mark.replace(None, StoreMove(stage, OTHER, "run"))
        if stage == "copy":
            assert await vault.keep("acme", "TOKEN", 1, b"sealed")
        else:
            with pytest.raises(StoreMoved):
                await vault.keep("acme", "TOKEN", 1, b"sealed")

    async def test_a_draining_store_lets_processes_end_and_none_join(self, world: StoreWorld, mark: MoveMark) -> None:
        await self._worked_on(world)
        assert not await is_draining(world.store)
        assert await mark.replace(None, StoreMove("draining", OTHER, "run")) and await is_draining(world.store)
        changes = self._changes(world)
        for name in ("renewal", "joining"):
            with pytest.raises(StoreMoved, match="is being moved"):
                await changes[name]()
        for name in changes.keys() - {"renewal", "joining"}:
            await changes[name]()
        assert [lease.holder for lease in await world.store.leases() if lease.alive] == ["one"]
        await world.store.renew("one", 0)
        assert not [lease for lease in await world.store.leases() if lease.alive]

    async def test_a_change_feed_ships_and_restores_in_spite_of_a_mark(self, world: StoreWorld, mark: MoveMark) -> None:
        await self._worked_on(world)
        for stage in REFUSING:
            assert await mark.replace(await mark.read(), StoreMove(stage, OTHER, "run"))
            feed = feed_of(world.store)
            await feed.begin_feed()
            assert (await feed.shipped(0)).position > 0
            head = await world.head(key("1"))
            await feed.restore([ShippedRow(key(stage), LogRow(1, b"row")), ShippedHead(type(head)(key(stage), head.program, key(stage), 1), 1)])
            assert await world.versions(key(stage)) == [1]
            await feed.end_feed()
            with pytest.raises(StoreMoved):
                await world.commit(key(stage), 1)
        assert world.store.part(CHANGE_FEED) is not None

    async def test_the_mark_is_replaced_by_one_who_knows_it(self, mark: MoveMark) -> None:
        first, second = StoreMove("copy", OTHER, "first"), StoreMove("copy", OTHER, "second")
        assert await mark.replace(None, first) and not await mark.replace(None, second) and not await mark.replace(second, None)
        assert await mark.replace(first, second) and await mark.read() == second
        assert not await mark.replace(first, None) and await mark.replace(second, second) and await mark.replace(second, None)
        assert await mark.replace(None, None)

    async def test_a_new_epoch_begins_in_a_marked_store(self, world: StoreWorld, mark: MoveMark) -> None:
        assert await mark.replace(None, StoreMove("copy", OTHER, "run"))
        assert await world.store.raise_epoch() > world.epoch
