"""Writing: one transaction for what is asked for in one turn, turns among processes, and trouble that leaves nothing behind and ends."""

import asyncio
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from perdure.core.errors import StoreError, StoreUnavailable
from perdure.core.paths import Key
from perdure.stores.change_feed import CHANGE_FEED
from perdure.stores.protocol import Claim, Committed, Post
from perdure.stores.sqlite import checkpoints as sqlite_checkpoints
from perdure.stores.sqlite import group_commit as sqlite_writer
from perdure.stores.sqlite.database_file import DatabaseFile
from perdure.stores.sqlite.database_setup import check_database
from perdure.stores.sqlite.group_commit import FILE_CHECK_S
from perdure.stores.sqlite.store import SqliteStore
from perdure.stores.sqlite.write_lock_queue import LOCK_RETRY_S, WAITER_GRACE_S, WAITER_IGNORED_S, WRITE_SLICE_S, WriteLockQueue
from perdure.testing.conformance import Clock
from perdure.testing.conformance.store_world import key
from tests.stores.sqlite.store_processes import WAIT_S, Child, claim, database, message, opening, queue, several, step, tell


def connection(store: SqliteStore) -> sqlite3.Connection:
    """What the store writes on at present."""
    assert store._writer._connection is not None
    return store._writer._connection


def traced(store: SqliteStore) -> tuple[list[str], dict[str, set[int]]]:
    """The statements from now on, and by their first words the threads that executed them."""
    statements: list[str] = []
    threads: dict[str, set[int]] = {}

    def note(statement: str) -> None:
        statements.append(statement)
        threads.setdefault(statement.split()[0], set()).add(threading.get_ident())

    connection(store).set_trace_callback(note)
    return statements, threads


# Group commit.


@pytest.mark.slow
async def test_what_is_asked_for_in_one_turn_is_one_transaction(store: SqliteStore) -> None:
    statements, threads = traced(store)
    answers = await asyncio.gather(*(store.commit([step(each)]) for each in several(50)))
    assert all(isinstance(answer, Committed) for (answer,) in answers)
    assert (statements.count("BEGIN IMMEDIATE"), statements.count("COMMIT")) == (1, 1)
    assert threads["INSERT"] == {threading.get_ident()}
    assert threading.get_ident() not in threads["COMMIT"]


@pytest.mark.slow
async def test_a_list_of_changes_is_one_transaction(store: SqliteStore) -> None:
    statements, _ = traced(store)
    answers = await store.commit([step(each) for each in [*several(50), *several(10)]])
    assert sum(isinstance(answer, Committed) for answer in answers) == 50
    assert (statements.count("BEGIN IMMEDIATE"), statements.count("COMMIT")) == (1, 1)


@pytest.mark.slow
async def test_what_is_asked_for_while_the_disk_is_written_is_the_next_transaction(store: SqliteStore) -> None:
    statements, _ = traced(store)

    async def steps(key: Key) -> None:
        for version in range(20):
            (answer,) = await store.commit([step(key, version)])
            assert answer == Committed(version + 1, Clock().now_s)

    await asyncio.gather(*map(steps, several(50)))
    assert 20 <= statements.count("COMMIT") < 500


async def test_a_lone_change_is_made_on_the_thread_of_its_caller(store: SqliteStore) -> None:
    _, threads = traced(store)
    for version in range(5):
        await store.commit([step(key(), version)])
    assert threads["COMMIT"] == {threading.get_ident()}


@pytest.mark.slow
async def test_changes_of_one_task_after_another_let_the_others_run_in_between(store: SqliteStore) -> None:
    turns = 0

    async def watch() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    watching = asyncio.create_task(watch())
    began_s = time.monotonic()
    for version in range(100):
        before, began_s = turns, time.monotonic()
        while turns == before:
            await store.commit([step(key(), version, creates=False)])
            assert time.monotonic() - began_s < WAIT_S
    watching.cancel()


@pytest.mark.slow
async def test_two_tasks_that_take_turns_share_transactions(store: SqliteStore) -> None:
    statements, _ = traced(store)

    async def steps(key: Key) -> None:
        for version in range(50):
            await store.commit([step(key, version)])

    await asyncio.gather(*map(steps, several(2)))
    assert statements.count("COMMIT") < 60


async def test_who_stops_waiting_does_not_stop_the_others(store: SqliteStore) -> None:
    tasks = [asyncio.create_task(store.commit([step(each)])) for each in several(3)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(answer) for answer in answers] == [list, asyncio.CancelledError, list]
    assert len(await store.heads()) == 3


@pytest.mark.slow
async def test_a_change_that_cannot_be_stored_fails_alone(store: SqliteStore) -> None:
    asked = [[step(key("1"))], [step(key("2")), step(key("\ud800"))], [step(key("3"))], [step(key("4"), row="text")]]  # type: ignore[arg-type]  # wrong on purpose
    answers = await asyncio.gather(*map(store.commit, asked), return_exceptions=True)
    assert [type(answer).__name__ for answer in answers] == ["list", "UnicodeEncodeError", "list", "StoreError"]
    assert {head.key.id for head in await store.heads()} == {"1", "3"}
    assert isinstance((await store.commit([step(key("2"))]))[0], Committed)


# Others who write.


@pytest.mark.slow
async def test_a_lock_held_by_another_program_is_waited_for_and_the_loop_goes_on(file: Path, store: SqliteStore) -> None:
    with database(file) as other:
        other.execute("BEGIN IMMEDIATE")
        asked = asyncio.create_task(store.commit([step(key())]))
        for _ in range(20):
            began_s = time.monotonic()
            await asyncio.sleep(0.001)
            assert time.monotonic() - began_s < 1.0
            assert await store.read(key()) is None, "reading does not wait"
        assert not asked.done()
        other.execute("ROLLBACK")
        assert isinstance((await asked)[0], Committed)


@pytest.mark.slow
async def test_a_lock_that_is_not_let_go_is_said_to_be_so_and_changes_nothing(file: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_writer, "WRITE_WAIT_MAX_S", 0.2)
    with Child(file) as child, database(file) as other:
        child.ask("store.renew('two', 60)")
        other.execute("BEGIN IMMEDIATE")
        for each in several(3):
            with pytest.raises(
                StoreUnavailable, match=rf"is locked by another program .*, perhaps by process {child.pid}, or by a database shell; end what writes"
            ):
                await store.commit([step(each)])
        assert await store.heads() == []
        other.execute("ROLLBACK")
    assert isinstance((await store.commit([step(key())]))[0], Committed)


# Claims.


def levels(statements: list[str]) -> list[str]:
    """Of the transactions that were committed: whether each was synced with the disk."""
    level, found = "FULL", list[str]()
    for statement in statements:
        if statement.startswith("PRAGMA synchronous"):
            level = statement.rpartition(" ")[2]
        elif statement == "COMMIT":
            found.append(level)
    return found


def of_executions(epoch: int) -> Claim:
    """A claim of executions, as engines make them."""
    return Claim(holder="one", epoch=epoch, programs=frozenset({"order"}))


async def test_a_claim_of_executions_is_synced_with_the_commit_that_follows_it(store: SqliteStore) -> None:
    epoch = (await store.renew("one", 60)).epoch
    await store.commit([Post(messages=(opening(key()),))])
    statements, _ = traced(store)
    claimed = await store.claim(of_executions(epoch))
    assert [one.head.key for one in claimed.executions] == [key()]
    await store.commit([step(key("another"))])
    assert levels(statements) == ["NORMAL", "FULL"]


@pytest.mark.slow
async def test_a_claim_that_is_not_synced_outlives_its_process_until_others_claim_the_same(file: Path, store: SqliteStore) -> None:
    epoch = (await store.renew("one", 60)).epoch
    await store.commit([Post(messages=(opening(key()),))])
    with Child(file) as child:
        child.ask("store.renew('two', 60)")
        claimed = child.ask("store.claim(Claim(holder='two', epoch=1, programs=frozenset({'order'})))")
        assert [one.head.key for one in claimed.executions] == [key()]
        child.signal(signal.SIGKILL)
        assert [head.holder for head in await store.heads()] == ["two"]
    again = await store.claim(of_executions(epoch))
    assert [(one.head.key, len(one.messages)) for one in again.executions] == [(key(), 1)]
    assert not check_database(file).damage


async def test_a_claim_of_tasks_is_synced(store: SqliteStore) -> None:
    epoch = (await store.renew("one", 60)).epoch
    await store.commit([Post(messages=(message(queue()),))])
    statements, _ = traced(store)
    claimed = await store.claim(Claim(holder="one", epoch=epoch, queues=frozenset({"pay"})))
    assert len(claimed.work) == 1
    assert levels(statements) == ["FULL"]


async def test_a_claim_is_synced_while_a_change_feed_is_read(store: SqliteStore) -> None:
    feed = store.part(CHANGE_FEED)
    assert feed is not None
    await feed.begin_feed()
    epoch = (await store.renew("one", 60)).epoch
    await store.commit([Post(messages=(opening(key()),))])
    statements, _ = traced(store)
    claimed = await store.claim(of_executions(epoch))
    assert len(claimed.executions) == 1
    assert levels(statements)[-1] == "FULL"
    assert statements.index("PRAGMA synchronous = FULL") < max(index for index, one in enumerate(statements) if one.startswith("UPDATE heads"))


async def test_a_claim_that_another_process_forestalls_takes_no_turn_at_the_lock(file: Path, store: SqliteStore) -> None:
    epoch = (await store.renew("one", 60)).epoch
    await store.renew("two", 60)
    await store.commit([Post(messages=(opening(key()),))])
    statements, _ = traced(store)
    with database(file) as other:
        other.execute("BEGIN IMMEDIATE")
        other.execute("UPDATE heads SET holder = 'two', mail_at_s = NULL")
        claiming = asyncio.create_task(store.claim(of_executions(epoch)))
        while "BEGIN IMMEDIATE" not in statements:  # the claim finds the file locked, and notifies nobody of that
            await asyncio.sleep(0)
        other.execute("COMMIT")
    assert (await claiming).executions == ()
    assert "COMMIT" not in statements, "it has found out by reading"
    assert not store._writer._turns._shown, "so the others need not give way"


async def test_a_claim_gets_its_turn_though_another_process_writes_on(file: Path, store: SqliteStore) -> None:
    epoch = (await store.renew("one", 60)).epoch
    await store.commit([Post(messages=(opening(key()),))])
    with database(file) as other:
        other.execute("BEGIN IMMEDIATE")
        claiming = asyncio.create_task(store.claim(of_executions(epoch)))
        until_shown = time.monotonic() + WAIT_S
        while not store._writer._turns._shown:
            assert time.monotonic() < until_shown
            await asyncio.sleep(0.001)
        other.execute("ROLLBACK")
    assert len((await claiming).executions) == 1


COMMITS = """
import asyncio, sys, time
from tests.stores.sqlite.store_processes import *

async def main():
    store = SqliteStore(sys.argv[1])
    key_ = key(sys.argv[2])
    version = 0
    print("ready", flush=True)
    ends_s = float(sys.stdin.readline())
    while time.time() < ends_s:
        (answer,) = await store.commit([step(key_, version)])
        version = answer.version
    print(version)

asyncio.run(main())
"""


@pytest.mark.slow
def test_of_three_processes_that_commit_without_pause_none_starves(file: Path) -> None:
    command = [sys.executable, "-c", COMMITS, str(file)]
    cwd = Path(__file__).parents[3]
    children = [subprocess.Popen([*command, str(number)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=cwd) for number in range(3)]
    for child in children:
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
    ends_s = time.time() + 2.0
    for child in children:
        assert child.stdin is not None
        child.stdin.write(f"{ends_s}\n")
        child.stdin.flush()
    counts = [int(child.communicate()[0]) for child in children]
    tell(f"commits of each in 2 s: {counts}")
    assert min(counts) > sum(counts) / len(counts) / 5, counts
    with database(file) as found:
        assert [version for (version,) in found.execute("SELECT version FROM heads ORDER BY address")] == counts


class WriteContention:
    """A process that writes, and another that may wait, in a time of their own."""

    def __init__(self, directory: Path) -> None:
        self.writing, self.waiting = WriteLockQueue(directory / "new"), WriteLockQueue(directory / "new")
        self.now_s = 100.0
        assert not self.writing.gives_way(self.now_s)

    def write_on(self, for_s: float) -> bool:
        """Whether the one gives way when it has written without a pause for so long."""
        ends_s = self.now_s + for_s
        while self.now_s < ends_s:
            self.now_s += 0.0003
            self.writing.ended(self.now_s)
        return self.writing.gives_way(self.now_s)

    def give_way(self, for_s: float) -> bool:
        """Whether it still gives way after so long."""
        ends_s = self.now_s + for_s
        while self.now_s < ends_s and self.writing.gives_way(self.now_s):
            self.now_s += LOCK_RETRY_S
        return self.writing.gives_way(self.now_s)


def test_who_has_had_its_turn_gives_way_to_who_waits_until_nobody_does(tmp_path: Path) -> None:
    turn = WriteContention(tmp_path)
    assert not turn.write_on(WRITE_SLICE_S * 2), "nobody waits"
    turn.waiting.wait()
    turn.waiting.wait()
    assert not turn.write_on(WRITE_SLICE_S / 2)
    assert turn.write_on(WRITE_SLICE_S)
    assert turn.give_way(WAITER_GRACE_S / 2)
    turn.waiting.go()
    assert not turn.give_way(LOCK_RETRY_S)
    turn.waiting.wait()
    assert not turn.write_on(WRITE_SLICE_S / 2), "and begins a turn anew"
    assert turn.write_on(WRITE_SLICE_S)
    turn.waiting.close()
    assert not turn.give_way(LOCK_RETRY_S), "who dies no longer waits"
    turn.writing.close()


def test_who_waits_and_never_comes_costs_little(tmp_path: Path) -> None:
    turn = WriteContention(tmp_path)
    turn.waiting.wait()
    assert turn.write_on(WRITE_SLICE_S * 2)
    assert not turn.give_way(WAITER_GRACE_S * 2)
    assert not turn.write_on(WAITER_IGNORED_S / 2)
    assert turn.write_on(WAITER_IGNORED_S)
    turn.waiting.close()
    turn.writing.close()


def test_who_waits_itself_and_who_pauses_gives_way_to_nobody(tmp_path: Path) -> None:
    turn = WriteContention(tmp_path)
    turn.waiting.wait()
    turn.write_on(WRITE_SLICE_S / 2)
    turn.now_s += 2 * WRITE_SLICE_S
    assert not turn.writing.gives_way(turn.now_s), "in its pause anybody could have come"
    turn.writing.wait()
    assert not turn.write_on(WRITE_SLICE_S * 2)
    other = WriteLockQueue(tmp_path / "new")
    assert other._somebody_waits()
    turn.writing.close()
    turn.waiting.close()
    assert not other._somebody_waits(), "looking has not ended their waiting before"
    other.close()


# The log that is written ahead.


@pytest.mark.slow
async def test_the_log_is_bounded_and_a_reader_that_stays_delays_that_but_does_not_undo_it(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("PASSIVE_BYTES", 400_000), ("RESTART_BYTES", 300_000), ("TRUNCATE_BYTES", 4_000_000)):
        monkeypatch.setattr(sqlite_checkpoints, name, value)
    store = SqliteStore(file, synchronous="OFF")
    wal = file.with_name("perdure.db-wal")
    version = 0

    async def write(some_bytes: int) -> int:
        """Write about so much, and return the size of the log after that."""
        nonlocal version
        for _ in range(some_bytes // 20_000):
            answers = await store.commit([step(key("one"), version, row=bytes(2_000)), step(key(f"{version}"), row=bytes(2_000))])
            assert [type(answer) for answer in answers] == [Committed, Committed]
            version += 1
        return wal.stat().st_size

    async def write_until(most_bytes: int) -> None:
        began_s = time.monotonic()
        while await write(400_000) > most_bytes:
            assert time.monotonic() - began_s < WAIT_S

    await write_until(4_000_000)
    with database(file) as reader:
        reader.execute("BEGIN")
        (seen,) = reader.execute("SELECT count(*) FROM log").fetchone()
        assert await write(12_000_000) > 8_000_000
        assert reader.execute("SELECT count(*) FROM log").fetchone() == (seen,)
        reader.execute("COMMIT")
    await write_until(4_000_000)
    await store.close()


# Trouble.


async def test_a_disk_that_is_full_leaves_nothing_of_any_change(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    await store.commit([step(key("before"))])
    connect = store._file.connect
    pages = connection(store).execute("PRAGMA page_count").fetchone()[0] + 3
    monkeypatch.setattr(store._file, "connect", lambda **given: limited(connect(**given), pages))
    connection(store).execute(f"PRAGMA max_page_count = {pages}")
    for _ in range(3):
        asked = (store.commit([step(key("1")), step(key("2"), row=bytes(1_000_000)), step(key("3"))]), store.commit([step(key("4"))]))
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(answer) for answer in answers] == [StoreUnavailable] * 2
        assert "free some space" in str(answers[0])
        assert [head.key.id for head in await store.heads()] == ["before"]
    monkeypatch.setattr(store._file, "connect", connect)
    retried = await store.commit([step(key("1")), step(key("before"), 1)])
    assert [type(answer) for answer in retried] == [Committed, Committed]


def limited(connection: sqlite3.Connection, pages: int) -> sqlite3.Connection:
    connection.execute(f"PRAGMA max_page_count = {pages}")
    return connection


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 20])
async def test_a_disk_that_fails_while_committing_leaves_nothing_of_any_change(store: SqliteStore, count: int) -> None:
    await store.renew("one", 60)
    await store.commit([step(key("before"))])
    with wal_no_larger_by(store, 4096):
        for _ in range(3):
            with pytest.raises(StoreUnavailable, match=r"the disk of .* failed|there is no room"):
                await store.commit([step(each, row=bytes(400_000)) for each in several(count)])
        assert [head.key.id for head in await store.heads()] == ["before"]
    assert (await store.renew("two", 60)).epoch == 1
    retried = await store.commit([step(each) for each in several(count)])
    assert [type(answer) for answer in retried] == [Committed] * count
    log = await store.read(key("0"))
    assert log is not None and log.payloads == (b"row",)


@contextmanager
def wal_no_larger_by(store: SqliteStore, size_bytes: int) -> Iterator[None]:
    """A real failure of writing: the kernel refuses what would make a file larger."""
    size_bytes += store._file.wal.stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class FailingConnection(sqlite3.Connection):
    """A connection on which the next statement fails that begins with `planted`."""

    planted: str | None = None
    made = 0

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        FailingConnection.made += 1

    def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
        if FailingConnection.planted is not None and sql.startswith(FailingConnection.planted):
            FailingConnection.planted = None
            error = sqlite3.OperationalError("disk I/O error, planted")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR_READ
            raise error
        return super().execute(sql, *arguments)


@pytest.mark.slow
@pytest.mark.parametrize("statement", ["BEGIN IMMEDIATE", "SELECT epoch", "UPDATE", "INSERT", "COMMIT"])
@pytest.mark.parametrize("together", [1, 2])
async def test_a_connection_that_fails_to_write_leaves_nothing_and_is_made_anew(
    file: Path, statement: str, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DatabaseFile, "factory", FailingConnection)
    store = SqliteStore(file)
    await store.renew("one", 60)
    await store.commit([step(key())])
    made, FailingConnection.planted = FailingConnection.made, statement
    asked = await asyncio.gather(*(store.commit([step(key(), 1), step(key(f"new {number}"))]) for number in range(together)), return_exceptions=True)
    assert [type(answer) for answer in asked] == [StoreUnavailable] * together
    assert "the disk of" in str(asked[0])
    assert [head.version for head in await store.heads()] == [1]
    assert [type(answer) for answer in await store.commit([step(key(), 1), step(key("new 0"))])] == [Committed, Committed]
    assert FailingConnection.made > made
    await store.close()


@pytest.mark.slow
@pytest.mark.parametrize("statement", ["BEGIN", "SELECT", "COMMIT"])
async def test_a_connection_that_fails_to_read_is_made_anew(file: Path, statement: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DatabaseFile, "factory", FailingConnection)
    store = SqliteStore(file)
    await store.commit([step(key())])
    for _ in range(2):
        FailingConnection.planted = statement
        with pytest.raises(StoreUnavailable, match="the disk of"):
            await store.read(key())
        log = await store.read(key())
        assert log is not None and log.payloads == (b"row",)
    await store.close()


def move(file: Path, to: Path) -> None:
    file.replace(to)
    time.sleep(2 * FILE_CHECK_S)


async def test_a_file_that_is_deleted_is_missed_and_nothing_takes_its_place(file: Path, store: SqliteStore) -> None:
    await store.renew("one", 60)
    await store.commit([step(key())])
    move(file, file.with_name("elsewhere"))
    for refused in (store.commit([step(key(), 1)]), store.renew("one", 60), store.read(key()), store.claim(claim())):
        with pytest.raises(StoreError, match=r"was deleted or replaced while it was open.*put the original file back"):
            await refused
    assert "perdure.db" not in os.listdir(file.parent)  # noqa: PTH208  # a Path may not be used in a coroutine
    move(file.with_name("elsewhere"), file)
    assert isinstance((await store.commit([step(key(), 1)]))[0], Committed)


async def test_a_file_that_is_replaced_is_not_written(file: Path, store: SqliteStore) -> None:
    await store.commit([step(key())])
    other = SqliteStore(file.with_name("other.db"))
    await other.commit([step(key("other"))])
    await other.close()
    move(file.with_name("other.db"), file)
    content = read(file)
    for refused in (store.commit([step(key(), 1)]), store.heads()):
        with pytest.raises(StoreError, match="was deleted or replaced"):
            await refused
    assert read(file) == content


def read(file: Path) -> bytes:
    return file.read_bytes()


def damage(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.seek(4096)
        opened.write(b"\xa5" * (file.stat().st_size - 4096))


@pytest.mark.slow
async def test_a_file_that_is_damaged_while_it_is_open_is_called_damaged(file: Path) -> None:
    store = SqliteStore(file, synchronous="OFF")
    await store.commit([step(each, row=bytes(500)) for each in several(2_000)])
    await store.close()
    store = SqliteStore(file)
    damage(file)
    with pytest.raises(StoreError, match=r"is damaged.*restore it from a backup") as told:
        await store.heads()
    assert not isinstance(told.value, StoreUnavailable)
    await store.close()
