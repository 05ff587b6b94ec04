"""The SQLite store does what every store must; and what it has acknowledged, a new process finds in the file."""

import asyncio
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from perdure.core.errors import StoreError, StoreInUse, StoreUnavailable
from perdure.core.mail import Ack
from perdure.core.paths import Key
from perdure.stores.base import Claim, Commit, Committed, Head, Log, Post, Store
from perdure.stores.sqlite import SqliteStore
from perdure.testing.conformance import Clock, StoreConformance
from perdure.testing.conformance.world import key, letter, opening, queue


class TestSqliteStore(StoreConformance):
    """The suite."""

    @pytest.fixture(autouse=True)
    def _directory(self, tmp_path: Path) -> None:
        self.directory = tmp_path

    async def make(self, clock: Clock) -> Store:
        return SqliteStore(self.directory / "new" / "perdure.db", clock)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "perdure.db"


@pytest.fixture
async def store(file: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(file, Clock())
    yield store
    await store.close()


def step(key: Key, version: int = 0, row: bytes = b"row") -> Commit:
    return Commit(key=key, epoch=1, holder="one", version=version, program="order", root=key, row=row, count=1, creates=version == 0)


def several(count: int) -> list[Key]:
    return [key(str(number)) for number in range(count)]


# What is acknowledged is there afterwards.


async def test_what_was_acknowledged_is_there_when_the_file_is_opened_again(file: Path) -> None:
    clock = Clock()
    before = SqliteStore(file, clock)
    await before.renew("one", 60)
    await before.commit([Post(sends=(opening(key()), letter(key("waiting")), letter(queue())), blobs=(("blob", b"bytes"),))])
    await before.claim(Claim(holder="one", epoch=1, programs=frozenset(["order"]), queues=frozenset(["pay"])))
    await before.commit([step(key("2")), step(key("2"), 1)])
    assert await before.raise_epoch() == 2
    seen = await everything(before)
    await before.close()
    after = SqliteStore(file, clock)
    assert await everything(after) == seen
    assert (await after.renew("two", 60)).epoch == 2
    await after.close()


async def everything(store: Store) -> tuple[list[Head], list[Log | None], list[object], bytes | None]:
    logs = [await store.read(head.key) for head in await store.heads()]
    mail = [await store.mail(to) for to in (key(), key("2"), key("waiting"), queue())]
    return await store.heads(), logs, [*mail], await store.blob("blob")


async def test_all_holders_are_dead_when_the_file_is_opened_again(file: Path) -> None:
    before = SqliteStore(file, Clock())
    await before.renew("one", 60)
    await before.renew("two", 60)
    await before.commit([Post(sends=(opening(key("1")), letter(queue())))])
    work = Claim(holder="one", epoch=1, programs=frozenset(["order"]), queues=frozenset(["pay"]))
    await before.claim(work)
    await before.commit([step(key("2"))])
    await before.close()
    after = SqliteStore(file, Clock())
    await after.renew("two", 60)
    claimed = await after.claim(Claim(holder="two", epoch=1, programs=frozenset(["order"]), limit=1))
    assert [assignment.head.key for assignment in claimed.executions] == [key("1")]
    await after.renew("one", 60)
    claimed = await after.claim(work)
    assert len(claimed.executions) == 1
    assert [mail.deliveries for mail in claimed.work] == [2]
    await after.close()


async def test_numbers_of_mail_go_on_when_the_file_is_opened_again(file: Path) -> None:
    before = SqliteStore(file, Clock())
    await before.commit([Post(sends=(letter(key()),))])
    (first,) = await before.mail(key())
    await before.commit([Post(acks=(Ack(key(), first.key),))])
    await before.close()
    after = SqliteStore(file, Clock())
    await after.commit([Post(sends=(letter(key()),))])
    assert [mail.number > first.number for mail in await after.mail(key())] == [True]
    await after.close()


COMMITS_UNTIL_KILLED = """
import asyncio, sys
from perdure.stores.base import Commit
from perdure.stores.sqlite import SqliteStore
from perdure.core.mail import Ack
from perdure.core.paths import Key

async def main():
    store = SqliteStore(sys.argv[1])
    key, version = Key("acme", "order", "1"), 0
    while True:
        await store.commit([Commit(key=key, epoch=1, holder="one", version=version, program="order", root=key, row=b"row", count=1, creates=version == 0)])
        version += 1
        print(version, flush=True)

asyncio.run(main())
"""


async def test_a_killed_process_leaves_all_it_had_acknowledged_and_no_lock(file: Path) -> None:
    acknowledged = acknowledged_before_kill(file)
    store = SqliteStore(file)
    log = await store.read(key())
    assert log is not None and log.head.version >= acknowledged > 0
    assert len(log.rows) == log.head.version
    await store.close()


def acknowledged_before_kill(file: Path) -> int:
    """The version that a process had told to be durable when it was killed; while it lived, nobody else could open its file."""
    with subprocess.Popen([sys.executable, "-c", COMMITS_UNTIL_KILLED, str(file)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = [process.stdout.readline() for _ in range(50)]
        with pytest.raises(StoreInUse, match="is in use by another process"):
            SqliteStore(file)
        process.send_signal(signal.SIGKILL)
        told += process.stdout.readlines()
    return int([line for line in told if line.endswith("\n")][-1])


# Opening.


async def test_a_file_belongs_to_one_store_until_it_is_closed(file: Path) -> None:
    first = SqliteStore(file)
    with pytest.raises(StoreInUse) as refused:
        SqliteStore(str(file))
    assert refused.value.file == str(file)
    await first.close()
    await SqliteStore(file).close()


@pytest.mark.parametrize("content", [b"not a database, but long enough to be taken for one" * 100, b"short"])
def test_a_file_that_is_no_database_is_refused_and_left_alone(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    for _ in range(2):
        with pytest.raises(StoreError, match="is damaged, or no SQLite database"):
            SqliteStore(file)
    assert file.read_bytes() == content


def test_the_database_of_another_program_is_refused_and_left_alone(file: Path) -> None:
    with database(file) as connection:
        connection.execute("CREATE TABLE heads (number)")
    content = file.read_bytes()
    for _ in range(2):
        with pytest.raises(StoreError, match="is the database of another program"):
            SqliteStore(file)
    assert file.read_bytes() == content


def test_the_tables_of_a_newer_perdure_are_refused_and_left_alone(file: Path) -> None:
    asyncio.run(SqliteStore(file).close())
    with database(file) as connection:
        connection.execute("PRAGMA user_version = 7")
    content = file.read_bytes()
    with pytest.raises(StoreError, match=r"written by a newer Perdure \(its tables are of version 7, known here is 1\); upgrade"):
        SqliteStore(file)
    assert file.read_bytes() == content


def test_a_damaged_file_is_called_damaged(file: Path) -> None:
    async def fill() -> None:
        store = SqliteStore(file)
        await store.commit([Post(sends=tuple(opening(each) for each in several(300)))])
        await store.close()

    asyncio.run(fill())
    content = file.read_bytes()
    file.write_bytes(content[:4096] + b"\xa5" * (len(content) - 4096))
    with pytest.raises(StoreError, match="is damaged") as told:
        SqliteStore(file)
    assert not isinstance(told.value, StoreUnavailable)


def test_a_directory_that_cannot_be_made_is_said_to_be_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path / "file" / "perdure.db", tmp_path / "file" / "deeper" / "perdure.db"):
        with pytest.raises(StoreUnavailable, match=r"can't be opened \(.*\); name another file with db="):
            SqliteStore(path)
    (tmp_path / "directory").mkdir()
    with pytest.raises(StoreUnavailable, match="can't be written"):
        SqliteStore(tmp_path / "directory")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_or_file_that_is_read_only_is_said_to_be_so(file: Path) -> None:
    asyncio.run(SqliteStore(file).close())
    file.chmod(0o444)
    with pytest.raises(StoreUnavailable, match="let this user write the file and its directory"):
        SqliteStore(file)
    file.parent.chmod(0o555)
    with pytest.raises(StoreUnavailable, match="Permission denied"):
        SqliteStore(file.parent / "other.db")
    file.parent.chmod(0o755)


@pytest.mark.parametrize(("synchronous", "number"), [("FULL", 2), ("NORMAL", 1), ("OFF", 0)])
async def test_it_waits_for_the_disk_unless_told_not_to(file: Path, synchronous: str, number: int) -> None:
    store = SqliteStore(file, synchronous=synchronous)
    assert store._writer.execute("PRAGMA synchronous").fetchone() == (number,)
    assert store._writer.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    await store.close()


async def test_full_is_the_default_and_a_wrong_setting_is_refused(file: Path, store: SqliteStore) -> None:
    assert store._writer.execute("PRAGMA synchronous").fetchone() == (2,)
    with pytest.raises(ValueError, match="give one of FULL, NORMAL, OFF"):
        SqliteStore(file, synchronous="FULL; DROP TABLE heads")


# Group commit.


async def test_what_is_asked_for_in_one_turn_is_one_transaction(store: SqliteStore) -> None:
    statements, threads = traced(store)
    answers = await asyncio.gather(*(store.commit([step(each)]) for each in several(50)))
    assert all(isinstance(answer, Committed) for (answer,) in answers)
    assert (statements.count("BEGIN IMMEDIATE"), statements.count("COMMIT")) == (1, 1)
    assert threads["INSERT"] == {threading.get_ident()}
    assert threading.get_ident() not in threads["COMMIT"]


async def test_a_list_of_changes_is_one_transaction(store: SqliteStore) -> None:
    statements, _ = traced(store)
    answers = await store.commit([step(each) for each in [*several(50), *several(10)]])
    assert sum(isinstance(answer, Committed) for answer in answers) == 50
    assert (statements.count("BEGIN IMMEDIATE"), statements.count("COMMIT")) == (1, 1)


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
    await store.commit([step(key())])
    assert threads["COMMIT"] == {threading.get_ident()}


async def test_who_stops_waiting_does_not_stop_the_others(store: SqliteStore) -> None:
    tasks = [asyncio.create_task(store.commit([step(each)])) for each in several(3)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(answer) for answer in answers] == [list, asyncio.CancelledError, list]
    assert len(await store.heads()) == 3


async def test_a_change_that_cannot_be_stored_fails_alone(store: SqliteStore) -> None:
    asked = [[step(key("1"))], [step(key("2")), step(key("\ud800"))], [step(key("3"))], [step(key("4"), row="text")]]  # type: ignore[arg-type]  # wrong on purpose
    answers = await asyncio.gather(*map(store.commit, asked), return_exceptions=True)
    assert [type(answer).__name__ for answer in answers] == ["list", "UnicodeEncodeError", "list", "StoreUnavailable"]
    assert {head.key.id for head in await store.heads()} == {"1", "3"}
    assert isinstance((await store.commit([step(key("2"))]))[0], Committed)


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


# Trouble.


async def test_a_lock_held_by_another_program_is_said_to_be_so_and_changes_nothing(file: Path, store: SqliteStore) -> None:
    with database(file) as connection:
        connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="is locked by another program"):
            await store.commit([step(key())])
        assert await store.read(key()) is None
        connection.execute("ROLLBACK")
    assert isinstance((await store.commit([step(key())]))[0], Committed)


async def test_a_disk_that_is_full_leaves_nothing_of_any_change(store: SqliteStore) -> None:
    await store.commit([step(key("before"))])
    store._writer.execute(f"PRAGMA max_page_count = {store._writer.execute('PRAGMA page_count').fetchone()[0] + 3}")
    asked = (store.commit([step(key("1")), step(key("2"), row=bytes(1_000_000)), step(key("3"))]), store.commit([step(key("4"))]))
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(answer) for answer in answers] == [StoreUnavailable] * 2
    assert "free some space" in str(answers[0])
    assert [head.key.id for head in await store.heads()] == ["before"]
    store._writer.execute("PRAGMA max_page_count = 1000000")
    retried = await store.commit([step(key("1")), step(key("before"), 1)])
    assert [type(answer) for answer in retried] == [Committed, Committed]


@pytest.mark.parametrize("count", [1, 20])
async def test_a_disk_that_fails_while_committing_leaves_nothing_of_any_change(store: SqliteStore, count: int) -> None:
    await store.renew("one", 60)
    await store.commit([step(key("before"))])
    with wal_no_larger_by(store, 4096):
        with pytest.raises(StoreUnavailable, match=r"the disk of .* failed|there is no room"):
            await store.commit([step(each, row=bytes(10_000)) for each in several(count)])
        with pytest.raises(StoreUnavailable):
            await store.raise_epoch()
        assert [head.key.id for head in await store.heads()] == ["before"]
    assert (await store.renew("two", 60)).epoch == 1
    retried = await store.commit([step(each) for each in several(count)])
    assert [type(answer) for answer in retried] == [Committed] * count
    log = await store.read(key("0"))
    assert log is not None and log.rows == (b"row",)


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


def traced(store: SqliteStore) -> tuple[list[str], dict[str, set[int]]]:
    """The statements from now on, and by their first words the threads that executed them."""
    statements: list[str] = []
    threads: dict[str, set[int]] = {}

    def note(statement: str) -> None:
        statements.append(statement)
        threads.setdefault(statement.split()[0], set()).add(threading.get_ident())

    store._writer.set_trace_callback(note)
    return statements, threads


@contextmanager
def database(file: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(file, isolation_level=None)
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def wal_no_larger_by(store: SqliteStore, size_bytes: int) -> Iterator[None]:
    """A real failure of writing: the kernel refuses what would make a file larger."""
    size_bytes += Path(f"{store._file}-wal").stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
