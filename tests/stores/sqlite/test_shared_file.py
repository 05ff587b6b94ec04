"""Processes that share a file: real ones, which are killed and stopped. Deaths and rings are noticed without being asked for."""

import asyncio
import fcntl
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from perdure.core.errors import StoreError
from perdure.stores.protocol import Committed, Conflict, HeadFilter, Post, Superseded
from perdure.stores.sqlite import notifications as sqlite_rings
from perdure.stores.sqlite import process_liveness as sqlite_lives
from perdure.stores.sqlite.store import SqliteStore
from perdure.testing.conformance.store_world import key, start_message
from tests.stores.sqlite.store_processes import WAIT_S, Child, claim, database, several, step, tell, until


@pytest.fixture
async def store(file: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(file)
    yield store
    await store.close()


class NotificationRecorder:
    """Notes when a store rings."""

    def __init__(self, listen: Callable[[Callable[[], None]], object]) -> None:
        self.times_s: list[float] = []
        self._rung = threading.Event()
        listen(self.ring)

    def ring(self) -> None:
        self.times_s.append(time.monotonic())
        self._rung.set()

    def wait(self) -> float:
        """Wait until it has rung since the last time; return when that was."""
        assert self._rung.wait(WAIT_S), "nobody rings"
        self._rung.clear()
        return self.times_s[-1]

    def forget(self) -> None:
        """What was so far is of no interest."""
        time.sleep(0.005)  # What is on its way has time to come.
        self._rung.clear()
        self.times_s.clear()


async def holding(child: Child, holder: str, *ids: str, lease_s: float = 60) -> None:
    """Have a process begin executions, and hold them."""
    child.ask(f"store.renew({holder!r}, {lease_s})")
    for id in ids:
        child.ask(f"store.commit([step(key({id!r}), holder={holder!r})])")


# Deaths.


@pytest.mark.slow
async def test_what_a_killed_process_held_goes_on_elsewhere_at_once(file: Path, store: SqliteStore) -> None:
    notification = NotificationRecorder(store.on_wake)
    await store.renew("one", 60)
    with Child(file) as child:
        await holding(child, "two", "1", "2", lease_s=10_000)
        child.ask("store.commit([Post(messages=(message(queue()),))])")
        assert len(child.ask("store.claim(claim('two'))").work) == 1
        assert (await store.claim(claim())).executions == ()
        notification.forget()
        killed_s = time.monotonic()
        child.signal(signal.SIGKILL)
        noticed_s = notification.wait() - killed_s
    tell(f"a death was noticed in {noticed_s * 1e3:.1f} ms")
    assert noticed_s < 1.0
    claimed = await store.claim(claim())
    assert [assignment.head.key for assignment in claimed.executions] == [key("1"), key("2")]
    assert [message.deliveries for message in claimed.work] == [2]
    assert [(lease.holder, lease.executions) for lease in await store.leases()] == [("one", 2)]


@pytest.mark.slow
async def test_the_death_of_a_process_that_has_just_come_is_noticed_without_asking(file: Path, store: SqliteStore) -> None:
    notification = NotificationRecorder(store.on_wake)
    await store.renew("one", 60)
    with Child(file) as child:
        await holding(child, "two", "1")
        until(lambda: len(store._watched) == 1, "the other is watched")
        notification.forget()
        child.signal(signal.SIGKILL)
        notification.wait()
    assert len((await store.claim(claim())).executions) == 1


@pytest.mark.slow
async def test_a_stopped_process_is_dead_when_its_lease_has_run_out_and_not_before(file: Path, store: SqliteStore) -> None:
    await store.renew("one", 60)
    with Child(file) as child:
        began_s = time.monotonic()
        await holding(child, "two", "1", lease_s=1.0)
        child.signal(signal.SIGSTOP)
        assert (await store.claim(claim())).executions == () or time.monotonic() - began_s > 1.0
        while not (claimed := (await store.claim(claim())).executions):
            await asyncio.sleep(0.01)
        assert time.monotonic() - began_s > 1.0
        (answer,) = await store.commit([step(key("1"), claimed[0].head.version)])
        assert isinstance(answer, Committed)
        child.signal(signal.SIGCONT)
        (answer,) = child.ask("store.commit([step(key('1'), 1, holder='two')])")
        assert isinstance(answer, Conflict) and answer.head is not None and answer.head.holder == "one"
        child.ask("store.renew('two', 60)")
        assert child.ask("store.claim(claim('two'))").executions == ()


async def test_a_wall_clock_that_jumps_kills_nobody(file: Path) -> None:
    wall_s = 1e9
    store = SqliteStore(file, clock=lambda: wall_s, monotonic=time.monotonic)
    await store.renew("one", 60)
    await store.renew("two", 60)
    await store.commit([step(key())])
    for jump_s in (1e6, -2e6):
        wall_s += jump_s
        assert (await store.claim(claim("two"))).executions == ()
        assert all(lease.alive for lease in await store.leases())
    await store.close()


@pytest.mark.slow
async def test_a_holder_that_comes_back_in_a_new_process_begins_with_nothing(file: Path, store: SqliteStore) -> None:
    with Child(file) as child:
        await holding(child, "one", "1", lease_s=10_000)
        child.signal(signal.SIGKILL)
    await store.renew("one", 60)
    assert [head.holder for head in await store.heads()] == [None]
    assert len((await store.claim(claim())).executions) == 1


@pytest.mark.slow
async def test_what_the_dead_leave_behind_is_removed(file: Path, store: SqliteStore) -> None:
    await store.renew("one", 60)
    for number in range(2):
        with Child(file) as child:
            await holding(child, f"holder {number}", str(number))
            child.ask("store.on_change(lambda: None)")
            child.signal(signal.SIGKILL)
    left = store._file.processes
    (left / "123-0123456789abcdef").touch()
    (left / "something else").touch()
    assert len([*left.iterdir()]) == 5
    assert len((await store.claim(claim())).executions) == 2
    assert [path.name for path in left.iterdir() if path.name not in ("waiting", "something else")] == [store._presence.name]
    with database(file) as connection:
        assert connection.execute("SELECT name FROM processes").fetchall() == [(store._presence.name,)]
        assert connection.execute("SELECT name FROM holders").fetchall() == [("one",)]


@pytest.mark.slow
async def test_who_leaves_forgets_the_dead_that_held_nothing(file: Path, store: SqliteStore) -> None:
    await store.renew("one", 60)
    with Child(file) as child:
        child.ask("store.on_change(lambda: None)")
        child.ask("store.heads()")
        child.signal(signal.SIGKILL)
    with database(file) as connection:
        assert connection.execute("SELECT count(*) FROM processes").fetchone() == (2,)
    await store.close()
    with database(file) as connection:
        assert connection.execute("SELECT count(*) FROM processes").fetchone() == (0,)


async def test_a_process_whose_lock_was_removed_lives_on_from_its_next_renewal(file: Path, store: SqliteStore) -> None:
    await store.renew("one", 60)
    other = SqliteStore(file)
    await other.renew("two", 60)
    shutil.rmtree(store._file.processes)
    await store.commit([step(key())])
    assert [(lease.holder, lease.alive) for lease in await other.leases()] == [("one", False), ("two", True)]
    await store.renew("one", 60)
    assert [(lease.holder, lease.alive) for lease in await other.leases()] == [("one", True), ("two", True)]
    assert [(lease.holder, lease.alive) for lease in await store.leases()] == [("one", True)], "and the other not yet"
    await other.renew("two", 60)
    assert [lease.alive for lease in await store.leases()] == [True, True]
    await other.close()


def test_where_files_cannot_be_locked_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(_descriptor: int, _kind: int) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(StoreError, match=r"files can't be locked in .* \(No locks available\); put the database on a local disk"):
        sqlite_lives.ProcessLock(tmp_path / "processes")
    assert [*(tmp_path / "processes").iterdir()] == []


# Rings.


@pytest.mark.slow
async def test_processes_notify_each_other_as_stores_of_one_process_do(file: Path, store: SqliteStore) -> None:
    wake, news = NotificationRecorder(store.on_wake), NotificationRecorder(store.on_change)
    await store.renew("one", 60)
    with Child(file) as child:
        child.ask("store.commit([Post(messages=(opening(key()),))])")
        wake.wait()
        wake.forget()
        child.ask("store.commit([Post(messages=(message(queue()),))])")
        wake.wait()
        news.forget()
        child.ask("store.commit([step(key('2'), news=True)])")
        news.wait()
        wake.forget()
        child.ask("store.commit([step(key('2'), 1)])")
        child.ask("store.commit([step(key('2'), 7, news=True)])")
        wake.forget()
        assert news.times_s[1:] == wake.times_s == []
        child.ask("store.raise_epoch()")
        wake.wait()


@pytest.mark.slow
async def test_a_message_for_an_execution_notifies_its_holder_alone(file: Path, store: SqliteStore) -> None:
    notification = NotificationRecorder(store.on_wake)
    await store.renew("one", 60)
    with Child(file) as holder, Child(file) as sender:
        holder.ask("store.on_wake(lambda: rings.append(1))")
        await holding(holder, "two", "1")
        await store.commit([step(key("mine"))])
        notification.forget()
        holder.ask("rings.clear()")
        sender.ask("store.commit([Post(messages=(message(key('1')),))])")
        until(lambda: holder.ask("len(rings)") == 1, "the holder is rung")
        notification.forget()
        assert notification.times_s == []
        sender.ask("store.commit([Post(messages=(message(key('mine')),))])")
        notification.wait()
        assert holder.ask("len(rings)") == 1


@pytest.mark.slow
async def test_what_was_read_after_listening_has_not_changed_without_a_notification(file: Path, store: SqliteStore) -> None:
    with Child(file) as child:
        for version in range(20):
            listener = SqliteStore(file)
            news = NotificationRecorder(listener.on_change)
            log = await listener.read(key())
            assert (log.head.version if log else 0) == version
            child.ask(f"store.commit([step(key(), {version}, news=True)])")
            news.wait()
            await listener.close()


async def test_stray_datagrams_notify_no_process(file: Path, store: SqliteStore) -> None:
    notification = NotificationRecorder(store.on_wake)
    await store.renew("one", 60)
    assert store._presence._listener is not None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stray:
        for datagram in (b"", b"x", b"x" * 8, b"x" * 9, b"x" * 60_000, store._presence._listener.token, store._presence._listener.token + b"xx"):
            stray.sendto(datagram, ("127.0.0.1", store._presence._listener.port))
    notification.forget()
    sqlite_rings.notify(store._presence._listener, sqlite_rings.WAKE_UP)
    notification.wait()


async def test_without_a_loopback_all_works_but_notifications(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_rings, "_socket", None)
    monkeypatch.setattr(sqlite_rings, "LOOPBACK", "203.0.113.1")
    one, two = SqliteStore(file), SqliteStore(file)
    notification = NotificationRecorder(one.on_wake)
    await one.renew("one", 60)
    await two.commit([Post(messages=(start_message(key()),))])
    assert len((await one.claim(claim())).executions) == 1
    assert notification.times_s == []
    await one.close()
    await two.close()


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Other things that this machine has to do."""
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


@pytest.mark.parametrize("load", [0, pytest.param(2, marks=pytest.mark.prove)])
async def test_a_notification_comes_within_milliseconds_of_the_commit(file: Path, store: SqliteStore, load: int) -> None:
    notification = NotificationRecorder(store.on_wake)
    await store.renew("one", 60)
    delays_s = []
    with Child(file) as child, busy(load):
        child.ask("store.commit([])")
        for number in range(60):
            notification.forget()
            committed_s = child.ask(f"timed(store.commit([Post(messages=(opening(key('{number}')),))]))")
            delays_s.append(max(notification.wait() - committed_s, 0.0))
    delays_s.sort()
    tell(f"rings came {delays_s[30] * 1e3:.2f} ms (median), {delays_s[58] * 1e3:.2f} ms (p99) after the commit")
    assert delays_s[58] < 1.0


# Sharing.


CLAIMS = """
import asyncio, sys
from perdure.core.envelopes import Ack
from tests.stores.sqlite.store_processes import *

async def main():
    store, me = SqliteStore(sys.argv[1], synchronous="OFF"), sys.argv[2]
    await store.renew(me, 600)
    sys.stdin.readline()
    while executions := (await store.claim(claim(me, limit=7))).executions:
        for assignment in executions:
            print(assignment.head.key.id, flush=True)
            acks = tuple(Ack(message.to, message.key) for message in assignment.messages)
            await store.commit([step(assignment.head.key, 0, holder=me, creates=False, release=True, acks=acks)])
    await store.renew(me, 0)
    await store.close()

asyncio.run(main())
"""


@pytest.mark.slow
def test_no_two_processes_are_given_the_same(file: Path) -> None:
    store = SqliteStore(file)
    asyncio.run(store.commit([Post(messages=(start_message(each),)) for each in several(600)]))
    command, cwd = [sys.executable, "-c", CLAIMS, str(file)], Path(__file__).parents[3]
    children = [subprocess.Popen([*command, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=cwd) for name in ("a", "b", "c")]
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    given = [child.communicate(timeout=4 * WAIT_S)[0].split() for child in children]
    assert sorted(id for ids in given for id in ids) == sorted(each.id for each in several(600))
    assert {head.version for head in asyncio.run(store.heads(HeadFilter(limit=1_000)))} == {1}
    asyncio.run(store.close())
    tell(f"each got {[len(ids) for ids in given]}")


@pytest.mark.slow
async def test_an_epoch_that_another_process_begins_is_known_at_once(file: Path, store: SqliteStore) -> None:
    await store.renew("one", 60)
    await store.commit([step(key())])
    with Child(file) as child:
        epoch = child.ask("store.raise_epoch()")
    (answer,) = await store.commit([step(key(), 1)])
    assert answer == Superseded(epoch)
    assert (await store.claim(claim())).executions == ()
    assert (await store.store_time()).epoch == (await store.renew("one", 60)).epoch == epoch
    assert len((await store.claim(claim(epoch=epoch))).executions) == 1


@pytest.mark.slow
async def test_idle_costs_nothing(file: Path, store: SqliteStore) -> None:
    store.on_wake(lambda: None)
    await store.renew("one", 60)
    with Child(file) as child:
        child.ask("store.on_wake(lambda: None)")
        child.ask("store.renew('two', 60)")
        await store.claim(claim())
        before = child.ask("os.times()[:2]"), switches(child.pid)
        await asyncio.sleep(1.0)
        after = child.ask("os.times()[:2]"), switches(child.pid)
    assert sum(after[0]) - sum(before[0]) <= 0.02
    assert after[1] - before[1] <= 20


def switches(pid: int) -> int:
    """How often the threads of a process were given a processor."""
    status = [task.joinpath("status").read_text() for task in Path(f"/proc/{pid}/task").iterdir()]
    return sum(int(line.split()[1]) for text in status for line in text.splitlines() if "ctxt_switches" in line)


@pytest.mark.slow
def test_notifications_and_deaths_of_a_process_need_few_threads(file: Path) -> None:
    async def main() -> None:
        stores = [SqliteStore(file, synchronous="OFF") for _ in range(20)]
        for number, store in enumerate(stores):
            store.on_wake(lambda: None)
            await store.renew(str(number), 60)
        with Child(file) as child:
            child.ask("store.renew('other', 60)")
            for store in stores:
                await store.commit([step(key(str(id(store))))])
            assert len([each for each in threading.enumerate() if each.name == "perdure-death"]) == 1
            assert len([each for each in threading.enumerate() if each.name == "perdure-notify"]) == 1
        until(lambda: not [each for each in threading.enumerate() if each.name == "perdure-death"])
        for store in stores:
            await store.close()

    asyncio.run(main())
