"""A store is moved: the copy refuses work until the switch, FROM refuses it from then on, and an interruption or a damage leaves one of them in use."""

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from perdure import Context, step, step_info, workflow
from perdure.core.envelopes import Ack
from perdure.core.errors import BadValue, MoveRefused, StoreError, StoreMoved
from perdure.runtime.engine import Engine
from perdure.service.store_comparison import StoreComparer, compare_stores
from perdure.service.store_moves import MovedStore, MoveProgress, MoveReport, StoreMover
from perdure.stores.blob_directory import DirectoryBlobStore
from perdure.stores.change_feed import CHANGE_FEED
from perdure.stores.encoded_store import EncodedStore
from perdure.stores.encryption import Encrypted, new_key, parse_keys
from perdure.stores.memory import MemoryStore
from perdure.stores.move_mark import MOVE_MARK, StoreMove
from perdure.stores.protocol import Post, QueueLimits, Store
from perdure.stores.secret_vault import VAULT
from perdure.stores.separate_blobs import SeparateBlobsStore
from perdure.stores.sqlite.store import SqliteStore
from perdure.testing.conformance import Clock, StoreWorld
from perdure.testing.conformance.feed_suite import contents, note
from perdure.testing.conformance.store_world import key, plain_message, queue
from tests.sampling import some
from tests.service.full_store import fill, unpack_corpus
from tests.service.test_store_copies import BOXES, filled
from tests.stores.sqlite.killed_process import in_a_child, killed_at

BLOBS = [f"blob {number}" for number in range(30)]


class Move:
    """Two files, of which the first has something of everything, and runs of their move."""

    def __init__(self, directory: Path, clock: Clock) -> None:
        self.files = directory / "from.db", directory / "to.db"
        self.source, self.target = [SqliteStore(file, clock) for file in self.files]
        self.names = ["sqlite:///from.db", "sqlite:///to.db"]
        self.clock, self.told = clock, list[str]()

    def run(self, back: bool = False) -> StoreMover:
        """A new run of the command."""
        sides = [MovedStore(self.source, self.names[0]), MovedStore(self.target, self.names[1])]
        return StoreMover(sides[back], sides[not back], progress=MoveProgress(told=self.told.append))

    async def stages(self) -> list[str | None]:
        """The marks of both."""
        marks = [await mark.read() for store in (self.source, self.target) if (mark := store.part(MOVE_MARK)) is not None]
        return [None if mark is None else mark.stage for mark in marks]

    async def world(self, store: Store) -> StoreWorld:
        return StoreWorld(store, self.clock, (await store.store_time()).epoch)

    async def same(self) -> bool:
        """Whether both have the same."""
        return await contents(self.source, BOXES, BLOBS) == await contents(self.target, BOXES, BLOBS)


@pytest.fixture
async def move(tmp_path: Path) -> AsyncIterator[Move]:
    move = Move(tmp_path, Clock())
    await filled(move.source, move.clock)
    await move.source.renew("one", 0)
    yield move
    await move.source.close()
    await move.target.close()


async def test_a_copy_refuses_work_until_the_switch_and_its_source_from_then_on(move: Move) -> None:
    source, target = await move.world(move.source), await move.world(move.target)
    report = await move.run().copy()
    assert not report.switched and report.copied.executions == 30 and await move.stages() == [None, "copy"] and await move.same()
    with pytest.raises(StoreMoved, match=r"copy of sqlite:///from.db, which is still in use"):
        await target.post(plain_message(queue(), "x"))
    await source.post(plain_message(queue(), "x"))
    report = await move.run().switch()
    assert report.switched and report.copied.resumed and report.copied.messages == 1 and report.differences == ()
    assert report.verified is not None and report.verified.executions == 30 and 0 < report.closed_s < 60
    assert await move.stages() == ["moved", None] and await move.same()
    with pytest.raises(StoreMoved, match=r"moved to sqlite:///to.db"):
        await source.post(plain_message(queue(), "y"))
    target.epoch = report.copied.epoch
    await target.post(plain_message(queue(), "y"))
    await target.renew("here")
    assert len(await target.work("here")) == 32
    assert await move.target.blob("copy-") is None and not await _has_feed(move.source) and not await _has_feed(move.target)


async def _has_feed(store: Store) -> bool:
    feed = store.part(CHANGE_FEED)
    assert feed is not None
    with contextlib.suppress(StoreError):
        await feed.shipped(0)
        return True
    return False


async def test_what_changes_and_what_is_removed_after_a_copy_is_part_of_the_switch(move: Move) -> None:
    await move.run().copy()
    world, vault = await move.world(move.source), move.source.part(VAULT)
    assert vault is not None
    await world.commit(key("1"), 2, forgets=True, count=0, row=b"")
    await world.commit(key("2"), 2, row=b"third", attributes=(("b", b"s"),))
    await world.post(acks=[Ack(queue(), "3")])
    await world.change(note("b", 2, None), note("c"), Post(blobs=(("blob 5", b"changed"),)))
    await world.store.limit("slow", QueueLimits(concurrency=1))
    assert await vault.drop("acme", "TOKEN") and await vault.keep("acme", "OTHER", 1, b"other")
    report = await move.run().switch()
    assert report.switched and await move.same() and await move.target.read(key("1")) is None
    kept = move.target.part(VAULT)
    assert kept is not None and [(one.name, one.sealed) for one in await kept.read()] == [("OTHER", b"other")]


async def test_what_changes_until_from_closes_is_copied(move: Move) -> None:
    mover = move.run()
    drain = mover._drain

    async def change_after_draining(drain_s: float) -> float:
        took_s = await drain(drain_s)
        source = await move.world(move.source)
        await source.post(plain_message(queue(), "at the last moment"), acks=[Ack(queue(), "3")])
        return took_s

    mover._drain = change_after_draining  # type: ignore[method-assign]  # the moment between draining and closing
    report = await mover.switch()
    assert report.switched and await move.same() and len(await move.target.messages(queue())) == 30


async def test_a_store_that_has_something_of_its_own_is_refused_and_goes_on(move: Move) -> None:
    target = await move.world(move.target)
    for put in (target.post(plain_message(queue())), target.change(note("own")), target.open(key("own"))):
        await put
        with pytest.raises(MoveRefused, match=r"TO is not empty: it has .* of its own"):
            await move.run().copy()
        assert await move.stages() == [None, None]
        await target.post(acks=[Ack(queue(), "letter")])
        await target.change(note("own", 1, None)) if await move.target.record(note("own").records[0].key) else None
    await target.renew("here")
    assert await target.claimed("here") == [key("own")]


async def test_a_store_in_which_a_process_works_is_refused(move: Move) -> None:
    target = await move.world(move.target)
    await target.store.limit("pay", QueueLimits(concurrency=3))
    await target.renew("engine")
    with pytest.raises(MoveRefused, match="in use by engine"):
        await move.run().copy()
    await target.store.renew("engine", 0)
    assert (await move.run().switch()).switched and await move.same()


async def test_a_move_that_is_not_complete_is_taken_back(move: Move) -> None:
    await move.run().copy()
    mark = move.source.part(MOVE_MARK)
    assert mark is not None
    assert await mark.replace(None, StoreMove("closed", move.names[1], "killed"))
    await move.run().undo()
    assert await move.stages() == [None, "copy"] and not await _has_feed(move.source)
    source = await move.world(move.source)
    await source.post(acks=[Ack(queue(), "3")])  # while nothing records what is removed
    await source.commit(key("1"), 2, forgets=True, count=0, row=b"")
    report = await move.run().switch()
    assert report.switched and not report.copied.resumed and await move.same()
    with pytest.raises(MoveRefused, match="TO is in use"):
        await move.run().undo()
    with pytest.raises(MoveRefused, match=r"was moved to sqlite:///to.db"):
        await move.run().copy()


async def test_what_was_moved_is_moved_back_to_an_empty_store_only(move: Move, tmp_path: Path) -> None:
    assert (await move.run().switch()).switched
    with pytest.raises(MoveRefused, match=r"TO can't be copied to: this database was moved to sqlite:///to.db"):
        await move.run(back=True).switch()
    fresh = SqliteStore(tmp_path / "fresh.db", move.clock)
    done = await StoreMover(MovedStore(move.target, move.names[1]), MovedStore(fresh, "sqlite:///fresh.db")).switch()
    assert done.switched and await contents(fresh, BOXES, BLOBS) == await contents(move.source, BOXES, BLOBS)
    await fresh.close()


async def test_a_run_stops_when_another_one_has_taken_over(move: Move) -> None:
    first, second = move.run(), move.run()
    await first.copy()
    await second.copy()
    for continued in (first._check_run(), first._copy_until_caught_up(), first._replace(first._marks[1], first._copy_mark, None)):
        with pytest.raises(MoveRefused, match="another perdure db copy"):
            await continued
    assert await move.stages() == [None, "copy"]
    assert (await second.switch()).switched


async def test_a_copy_that_was_altered_is_not_put_into_use_and_its_source_goes_on(move: Move) -> None:
    await move.run().copy()
    with contextlib.closing(sqlite3.connect(move.files[1])) as database, database:
        for refusing in ("log", "mail", "heads", "blobs"):
            for change in ("update", "delete"):
                database.execute(f"DROP TRIGGER refuse_{change}_{refusing}")
        database.execute("UPDATE log SET row = x'00' WHERE execution = 7 AND version = 2")
        database.execute("DELETE FROM mail WHERE key = '11'")
        database.execute("UPDATE heads SET status = 'failed' WHERE number = 9")
        database.execute("UPDATE blobs SET bytes = x'00' WHERE sha256 = 'blob 4'")
        database.execute("DELETE FROM heads WHERE number = 12")
        database.execute("DELETE FROM log WHERE execution = 12")
    report = await move.run().switch()
    assert not report.switched and await move.stages() == [None, "copy"]
    found = {(one.kind, one.name): one.why for one in report.differences}
    assert found[("execution", str(key("6")))].startswith("its log differs at version 2")
    assert found[("execution", str(key("8")))] == "its status is running in FROM and failed in TO"
    assert found[("execution", str(key("11")))] == "it is not in TO"
    assert found[("large value", "blob 4")] == "its content differs"
    assert found[("messages", str(queue()))] == "its message 11 is not in TO" and len(found) == 5
    await (await move.world(move.source)).post(plain_message(queue(), "on"))


async def test_a_target_whose_clock_is_ahead_is_refused_at_the_switch(move: Move, tmp_path: Path) -> None:
    ahead = SqliteStore(tmp_path / "ahead.db", Clock(move.clock.now_s + 90))
    mover = StoreMover(MovedStore(move.source, "FROM"), MovedStore(ahead, "TO"))
    assert (await mover.copy()).clock_ahead_s == 90
    with pytest.raises(MoveRefused, match="90 s ahead"):
        await mover.switch()
    await ahead.close()


async def test_an_independent_copy_leaves_both_in_use(move: Move) -> None:
    report = await move.run().clone()
    assert not report.switched and await move.stages() == [None, None] and await move.same()
    for store in (move.source, move.target):
        await (await move.world(store)).post(plain_message(queue(), "both"))


async def test_a_store_that_cannot_refuse_changes_is_not_moved(move: Move) -> None:
    with pytest.raises(BadValue, match="can refuse changes"):
        StoreMover(MovedStore(MemoryStore(), "memory:"), MovedStore(move.target, "TO"))


# Everything that a store can have, and runs that are killed.


@pytest.mark.slow
async def test_everything_is_moved_and_compared(tmp_path: Path) -> None:
    unpack_corpus(tmp_path / "from.db")
    move = Move(tmp_path, Clock(3e9))
    await fill(move.source)
    report = await move.run().switch()
    assert report.switched and report.verified is not None
    assert report.verified.executions > 100 and report.verified.folded > 80 and report.verified.events > 1_000
    found = await compare_stores(StoreComparer(move.source, move.target, ("A", "B")), move.source, move.target)
    assert found.differences == [] and found.counts.executions == report.verified.executions
    await move.source.close()
    await move.target.close()


@pytest.mark.slow
@pytest.mark.parametrize("phase", some(range(3), 1))
def test_killed_anywhere_a_switch_leaves_one_store_in_use_and_is_completed(phase: int, tmp_path: Path) -> None:
    async def make() -> None:
        move = Move(tmp_path, Clock())
        await filled(move.source, move.clock, executions=20)
        await move.source.renew("one", 0)
        await move.source.close()

    async def switch() -> None:
        move = Move(tmp_path, Clock())
        report: MoveReport = await move.run().switch(0)
        assert report.switched, report
        await move.source.close()
        await move.target.close()

    async def check(complete: bool) -> None:
        move = Move(tmp_path, Clock())
        in_use = []
        for store in (move.source, move.target):
            try:
                await store.renew("engine", 1)
                await store.renew("engine", 0)
                in_use.append(store)
            except StoreMoved:
                continue
        fresh = await move.target.heads() == [] and not complete  # before the first page of the copy
        assert len(in_use) < 2 or fresh
        assert not complete or in_use == [move.target]
        if complete:
            assert await move.same()
        await move.source.close()
        await move.target.close()

    in_a_child(lambda: asyncio.run(make()), 0)
    kills, number = 0, 30 + 11 * phase
    while killed_at(number, lambda: asyncio.run(switch())):
        in_a_child(lambda: asyncio.run(check(False)), 0)
        kills, number = kills + 1, number * 5 // 4 + 7
    assert kills > 5
    in_a_child(lambda: asyncio.run(check(True)), 0)


@pytest.mark.slow
async def test_what_is_encrypted_is_folded_with_its_key_and_compared_as_bytes_without(tmp_path: Path) -> None:
    codec, move = Encrypted(parse_keys(f"k:{new_key()}")), Move(tmp_path, Clock())
    encoded = EncodedStore(move.source, codec)
    engine = Engine(encoded, [works.code])
    running = asyncio.create_task(engine.run())
    await engine.ready()
    LEDGER.clear()
    may_go_on.set()
    assert await engine.start(key("1", "default", "works"), works.code.codec.encode_args((), {}, "input"))
    await _ended(encoded, 1)
    engine.stop()
    await running
    report = await move.run().switch()
    assert report.switched and report.verified is not None and (report.verified.folded, report.verified.sealed) == (0, 1)
    found = await compare_stores(StoreComparer(move.source, move.target, ("A", "B"), codec), move.source, move.target)
    assert found.differences == [] and (found.counts.folded, found.counts.sealed) == (1, 0) and found.counts.events > 6
    other = StoreComparer(move.source, move.target, ("A", "B"), Encrypted(parse_keys(f"k:{new_key()}")))
    assert (await compare_stores(other, move.source, move.target)).counts.sealed == 1
    await move.source.close()
    await move.target.close()


@pytest.mark.slow
async def test_large_values_in_a_directory_stay_there_and_are_read_at_the_other_side(tmp_path: Path) -> None:
    move, large = Move(tmp_path, Clock()), b"large" * 30_000
    blobs = DirectoryBlobStore(str(tmp_path / "blobs"))
    apart = SeparateBlobsStore(move.source, blobs)
    await apart.commit([Post(messages=(plain_message(queue()),), blobs=(("a" * 64, large),))])
    assert (await move.run().switch()).switched
    assert await move.target.blob("a" * 64) != large
    assert await SeparateBlobsStore(move.target, blobs).blob("a" * 64) == large
    await move.source.close()
    await move.target.close()


# Engines that work while their store is moved.

LEDGER: list[str] = []
may_go_on = asyncio.Event()


@step
async def work(number: int) -> int:
    """The third one lasts until it may go on; each is noted at its end."""
    if number == 3:
        await may_go_on.wait()
    LEDGER.append(f"{step_info().execution.id} {number}")
    return number


@workflow
async def works(ctx: Context) -> int:
    """Six steps."""
    return sum([await ctx.step(work, number) for number in range(6)])


async def _ended(store: Store, count: int) -> None:
    while sum(head.status == "completed" for head in await store.heads()) < count:
        await asyncio.sleep(0.02)


async def _third_steps_begun(executions: int) -> None:
    while len(LEDGER) < 3 * executions:
        await asyncio.sleep(0.02)


async def _let_go_on_when_stopping(engine: Engine) -> None:
    while not engine.stopping:
        await asyncio.sleep(0.02)
    may_go_on.set()


@pytest.mark.slow
async def test_an_engine_ends_what_it_has_begun_and_another_goes_on_with_nothing_done_twice(tmp_path: Path) -> None:
    LEDGER.clear()
    may_go_on.clear()
    source, target = SqliteStore(tmp_path / "from.db"), SqliteStore(tmp_path / "to.db")
    engine = Engine(source, [works.code], lease_s=0.3)
    running = asyncio.create_task(engine.run())
    await engine.ready()
    keys = [key(str(number), "default", "works") for number in range(10)]
    for one in keys:
        assert await engine.start(one, works.code.codec.encode_args((), {}, "input"))
    await _third_steps_begun(10)
    letting_go = asyncio.create_task(_let_go_on_when_stopping(engine))
    report = await StoreMover(MovedStore(source, "sqlite:///from.db"), MovedStore(target, "sqlite:///to.db")).switch(20)
    assert report.switched and report.interrupted == () and report.drained_s > 0
    with pytest.raises(StoreMoved, match=r"is being moved to sqlite:///to.db"):
        await running
    await letting_go
    assert len(LEDGER) == 40, "the attempts in flight have ended, and none has begun"
    second = Engine(target, [works.code])
    going_on = asyncio.create_task(second.run())
    await _ended(target, 10)
    second.stop()
    await going_on
    assert len(LEDGER) == 60 and len(set(LEDGER)) == 60, "no attempt was lost or repeated"
    await source.close()
    await target.close()


@pytest.mark.slow
async def test_an_engine_that_does_not_end_in_time_is_waited_for_until_its_lease_has_run_out(tmp_path: Path) -> None:
    source, target = SqliteStore(tmp_path / "from.db"), SqliteStore(tmp_path / "to.db")
    LEDGER.clear()
    may_go_on.clear()
    engine = Engine(source, [works.code], lease_s=1.5)
    running = asyncio.create_task(engine.run())
    await engine.ready()
    assert await engine.start(key("1", "default", "works"), works.code.codec.encode_args((), {}, "input"))
    await _third_steps_begun(1)
    told: list[str] = []
    progress = MoveProgress(told=told.append)
    report = await StoreMover(MovedStore(source, "sqlite:///from.db"), MovedStore(target, "sqlite:///to.db"), progress=progress).switch(0)
    assert report.switched and len(report.interrupted) == 1 and "engine" in report.interrupted[0]
    assert any("leases of these processes" in sentence for sentence in told)
    with pytest.raises(StoreMoved):
        await running
    assert len(LEDGER) == 3, "what was in flight was cancelled"
    may_go_on.set()
    second = Engine(target, [works.code])
    going_on = asyncio.create_task(second.run())
    await _ended(target, 1)
    assert len(LEDGER) == 6
    second.stop()
    await going_on
    await source.close()
    await target.close()
