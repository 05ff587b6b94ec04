"""The SQLite store does what every store must, also when several share the file; what it has acknowledged, a new process finds in the file."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, TypeVar

import pytest

from perdure.core.envelopes import Ack, QueuedMessage
from perdure.core.errors import StoreUnavailable
from perdure.core.paths import Address, Key
from perdure.stores.protocol import (
    ALL_HEADS,
    ChangeAnswer,
    Claim,
    Claimed,
    Committed,
    Head,
    HeadFilter,
    HolderStatus,
    Post,
    QueueLimits,
    QueueStatus,
    Store,
    StoredLog,
    StoreTime,
)
from perdure.stores.records import RecordFilter, RecordKey, StoredRecord
from perdure.stores.sqlite import holders as sqlite_members
from perdure.stores.sqlite.store import SqliteStore
from perdure.stores.store_parts import PartName
from perdure.testing.conformance import Clock, StoreConformance
from perdure.testing.conformance.store_world import key, plain_message, queue, start_message
from tests.stores import test_differential as walk
from tests.stores.sqlite.store_processes import Child, claim, several, step
from tests.stores.sqlite.user_connections import FileUsers

pytestmark = pytest.mark.slow

T = TypeVar("T")


class TestSqliteStore(FileUsers, StoreConformance):
    """The suite."""

    @pytest.fixture(autouse=True)
    def _directory(self, tmp_path: Path) -> None:
        self.directory = tmp_path

    async def make(self, clock: Clock) -> Store:
        return SqliteStore(self.directory / "new" / "perdure.db", clock)


class InTurns:
    """Two stores on one file, of which each call is made to the one that the last was not made to. Both ring; they don't ring each other."""

    def __init__(self, file: Path, clock: Callable[[], float], synchronous: str = "OFF") -> None:
        self.stores = [SqliteStore(file, clock, synchronous=synchronous) for _ in range(2)]
        self._turns = cycle(self.stores)

    async def commit(self, changes: Any) -> list[ChangeAnswer]:
        return await next(self._turns).commit(changes)

    async def claim(self, claim: Claim) -> Claimed:
        return await next(self._turns).claim(claim)

    async def limit(self, queue: str, limits: QueueLimits | None, tenant: str | None = None) -> None:
        await next(self._turns).limit(queue, limits, tenant)

    async def queues(self) -> list[QueueStatus]:
        return await next(self._turns).queues()

    async def read(self, key: Key, after: int = 0) -> StoredLog | None:
        return await next(self._turns).read(key, after)

    async def heads(self, which: HeadFilter = ALL_HEADS) -> list[Head]:
        return await next(self._turns).heads(which)

    async def messages(self, to: Address) -> list[QueuedMessage]:
        return await next(self._turns).messages(to)

    async def are_queued(self, messages: Sequence[Ack]) -> list[bool]:
        return await next(self._turns).are_queued(messages)

    async def record(self, key: RecordKey) -> StoredRecord | None:
        return await next(self._turns).record(key)

    async def records(self, which: RecordFilter) -> list[StoredRecord]:
        return await next(self._turns).records(which)

    async def store_time(self) -> StoreTime:
        return await next(self._turns).store_time()

    async def renew(self, holder: str, lease_s: float, about: bytes = b"") -> StoreTime:
        return await next(self._turns).renew(holder, lease_s, about)

    async def leases(self) -> list[HolderStatus]:
        return await next(self._turns).leases()

    async def relay(self, limit: int = 100) -> int:
        return await next(self._turns).relay(limit)

    async def drop_expired(self, limit: int = 100) -> list[QueuedMessage]:
        return await next(self._turns).drop_expired(limit)

    async def drop_expired_records(self, limit: int = 100) -> int:
        return await next(self._turns).drop_expired_records(limit)

    async def raise_epoch(self) -> int:
        return await next(self._turns).raise_epoch()

    async def blob(self, sha256: str) -> bytes | None:
        return await next(self._turns).blob(sha256)

    async def removed_at(self, sha256: str) -> float | None:
        return await next(self._turns).removed_at(sha256)

    def part(self, name: PartName[T]) -> T | None:
        return next(self._turns).part(name)

    def on_wake(self, notify: Callable[[], None]) -> Callable[[], None]:
        return self._on([store.on_wake(notify) for store in self.stores])

    def on_change(self, notify: Callable[[], None]) -> Callable[[], None]:
        return self._on([store.on_change(notify) for store in self.stores])

    def _on(self, stops: list[Callable[[], None]]) -> Callable[[], None]:
        def stop() -> None:
            for each in stops:
                each()

        return stop

    async def close(self) -> None:
        for store in self.stores:
            await store.close()


@pytest.fixture
def _without_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_members, "start_listening", lambda _heard: None)


@pytest.mark.usefixtures("_without_loopback")
@pytest.mark.slow
class TestTwoSqliteStores(FileUsers, StoreConformance):
    """The suite, with each call made through another store than the last. (A holder moves to and fro; nothing in the suite tells them apart.)"""

    @pytest.fixture(autouse=True)
    def _directory(self, tmp_path: Path) -> None:
        self.directory = tmp_path

    async def make(self, clock: Clock) -> Store:
        return InTurns(self.directory / "perdure.db", clock)


@pytest.mark.usefixtures("_without_loopback")
@pytest.mark.prove
@pytest.mark.parametrize("seed", range(20, 41))
async def test_two_stores_in_turns_do_what_memory_does(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "SqliteStore", InTurns)
    await walk.compare_stores(seed, tmp_path / "perdure.db", walk.OPERATIONS_MIN)


# What is acknowledged is there afterwards.


async def test_what_was_acknowledged_is_there_when_the_file_is_opened_again(file: Path) -> None:
    clock = Clock()
    before = SqliteStore(file, clock)
    await before.renew("one", 60)
    await before.commit([Post(messages=(start_message(key()), plain_message(key("waiting")), plain_message(queue())), blobs=(("blob", b"bytes"),))])
    await before.claim(claim())
    await before.commit([step(key("2")), step(key("2"), 1)])
    epoch = await before.raise_epoch()
    seen = await everything(before)
    await before.close()
    after = SqliteStore(file, clock)
    assert await everything(after) == seen
    assert (await after.renew("two", 60)).epoch == (await after.store_time()).epoch == epoch
    await after.close()


async def everything(store: Store) -> tuple[list[Head], list[StoredLog | None], list[object], bytes | None]:
    logs = [await store.read(head.key) for head in await store.heads()]
    messages = [await store.messages(to) for to in (key(), key("2"), key("waiting"), queue())]
    return await store.heads(), logs, [*messages], await store.blob("blob")


async def test_all_holders_are_dead_when_the_file_is_opened_again(file: Path) -> None:
    before = SqliteStore(file, Clock())
    await before.renew("one", 60)
    await before.renew("two", 60)
    await before.commit([Post(messages=(start_message(key("1")), plain_message(queue())))])
    await before.claim(claim())
    await before.commit([step(key("2"))])
    await before.close()
    after = SqliteStore(file, Clock())
    assert await after.leases() == []
    await after.renew("two", 60)
    claimed = await after.claim(Claim(holder="two", epoch=1, programs=frozenset(["order"]), limit=1))
    assert [assignment.head.key for assignment in claimed.executions] == [key("1")]
    await after.renew("one", 60)
    claimed = await after.claim(claim())
    assert len(claimed.executions) == 1
    assert [message.deliveries for message in claimed.work] == [2]
    await after.close()


async def test_numbers_of_messages_continue_when_the_file_is_opened_again(file: Path) -> None:
    before = SqliteStore(file, Clock())
    await before.commit([Post(messages=(plain_message(key()),))])
    (first,) = await before.messages(key())
    await before.commit([Post(acks=(Ack(key(), first.key),))])
    await before.close()
    after = SqliteStore(file, Clock())
    await after.commit([Post(messages=(plain_message(key()),))])
    assert [message.number > first.number for message in await after.messages(key())] == [True]
    await after.close()


async def test_a_killed_process_leaves_all_it_had_acknowledged(file: Path) -> None:
    with Child(file) as child:
        acknowledged = 0
        for version in range(50):
            ((answer),) = child.ask(f"store.commit([step(key(), {version})])")
            acknowledged = answer.version
        child.begin(f"store.commit([step(key(), version) for version in range({acknowledged}, 10_000)])")
        child.signal(signal.SIGKILL)
    store = SqliteStore(file)
    log = await store.read(key())
    assert log is not None and log.head.version >= acknowledged == 50
    assert len(log.payloads) == log.head.version
    await store.close()


async def test_what_a_lone_process_left_in_its_log_is_recovered_by_the_next(file: Path) -> None:
    with Child(file) as child:
        child.ask("store.commit([step(each) for each in map(key, map(str, range(200)))])")
        child.signal(signal.SIGKILL)
    assert file.with_name("perdure.db-wal").stat().st_size > 100_000
    store = SqliteStore(file)
    assert len(await store.heads(HeadFilter(limit=10_000))) == 200
    await store.close()
    assert not file.with_name("perdure.db-wal").exists()


# Stores, loops and threads of one process.


async def test_two_stores_of_one_process_share_the_file(file: Path) -> None:
    one, two = SqliteStore(file), SqliteStore(file)
    await one.renew("one", 60)
    await two.renew("two", 60)
    await asyncio.gather(*(store.commit([step(each, holder=holder)]) for store, holder in ((one, "one"), (two, "two")) for each in several(20)))
    assert (await one.claim(claim("one"))).executions == (await two.claim(claim("two"))).executions == ()
    assert await one.heads() == await two.heads()
    assert [(lease.holder, lease.alive) for lease in await one.leases()] == [("one", True), ("two", True)]
    held = sum(head.holder == "one" for head in await two.heads())
    await one.close()
    assert len((await two.claim(claim("two"))).executions) == held
    assert [lease.holder for lease in await two.leases()] == ["two"]
    await two.close()


def test_a_store_may_be_used_in_one_event_loop_after_another(file: Path) -> None:
    store = SqliteStore(file, Clock())

    async def abandon() -> None:
        asyncio.get_running_loop().call_soon(asyncio.current_task().cancel)  # type: ignore[union-attr]  # there is one
        await store.commit([step(each) for each in several(2)])

    for _ in range(3):
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(abandon())
    (answer,) = asyncio.run(store.commit([step(key("after"))]))
    assert isinstance(answer, Committed)
    asyncio.run(store.close())


async def test_a_holder_is_renewed_by_another_thread_while_the_loop_is_busy_or_stands_still(file: Path) -> None:
    store = SqliteStore(file)
    renewed: list[StoreTime] = []

    def renew(times: int) -> threading.Thread:
        async def again() -> None:
            renewed.extend([await store.renew("one", 60) for _ in range(times)])

        thread = threading.Thread(target=asyncio.run, args=(again(),))
        thread.start()
        return thread

    standing_still = renew(3)
    standing_still.join()
    assert len(renewed) == 3

    async def steps(key: Key) -> None:
        version = 0
        while busy.is_alive():
            (answer,) = await store.commit([step(key, version)])
            assert isinstance(answer, Committed)
            version = answer.version

    busy = renew(20)
    await asyncio.gather(*map(steps, several(20)))
    assert len(renewed) == 23
    await store.close()


async def test_a_closed_store_says_so(file: Path) -> None:
    store = SqliteStore(file)
    asked = asyncio.gather(*(store.commit([step(each)]) for each in several(5)))
    await asyncio.sleep(0)
    await store.close()
    await store.close()
    assert len(await asked) == 5
    for refused in (store.commit([step(key())]), store.read(key()), store.claim(Claim(holder="one", epoch=1)), store.raise_epoch()):
        with pytest.raises(StoreUnavailable, match="has been closed"):
            await refused
    assert [each.name for each in file.parent.iterdir() if each.name != "perdure.db.processes"] == ["perdure.db"]


async def test_many_short_lived_stores_leak_nothing(file: Path) -> None:
    patient = SqliteStore(file, synchronous="OFF")
    notified: list[int] = []
    patient.on_wake(lambda: notified.append(1))
    await patient.renew("patient", 60)
    before = set(threading.enumerate())
    for number in range(300):
        store = SqliteStore(file, synchronous="OFF")
        store.on_wake(lambda: None)
        await store.renew(f"short-lived {number}", 60)
        await store.close()
    assert set(threading.enumerate()) <= before
    assert len([*file.with_name("perdure.db.processes").iterdir()]) == 1
    assert [lease.holder for lease in await patient.leases()] == ["patient"]
    assert len(patient._watched) <= 1
    assert len(os.listdir("/proc/self/fd")) < 200  # noqa: PTH208  # a Path may not be used in a coroutine
    await patient.close()
