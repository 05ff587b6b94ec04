"""A database and a write-ahead log that do not belong together are never opened together; a backup takes the place of a database whole or not at all."""

import asyncio
import os
import random
import shutil
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from perdure.core.errors import StoreDamaged, StoreError, StoreUnavailable
from perdure.core.paths import Key
from perdure.runtime.engine import Engine
from perdure.runtime.worker import Worker
from perdure.stores.protocol import Commit, HeadFilter
from perdure.stores.sqlite.backup import back_up, restore
from perdure.stores.sqlite.database_setup import check_database, upgrade_database
from perdure.stores.sqlite.read_only_store import ReadOnlySqliteStore
from perdure.stores.sqlite.rekey import key_uses
from perdure.stores.sqlite.store import SqliteStore
from perdure.stores.sqlite.write_ahead_log import log_mismatch
from tests.stores.sqlite.killed_process import in_a_child, killed_at
from tests.stores.sqlite.store_processes import Child, database, key, several, step

pytestmark = pytest.mark.slow

OPENERS: list[Callable[[Path], object]] = [
    SqliteStore,
    ReadOnlySqliteStore,
    check_database,
    upgrade_database,
    key_uses,
    lambda file: back_up(file, file.with_name("other.db")),
]


def wal(file: Path) -> Path:
    return file.with_name(f"{file.name}-wal")


def beside(file: Path) -> list[str]:
    """What stands beside a database, but for its processes."""
    return sorted(one.name for one in file.parent.iterdir() if one.is_file() and one.name != file.name)


def killed(file: Path, *commits: list[Commit]) -> None:
    """A process commits, carries over what it committed first, commits the rest, and is killed."""

    async def work() -> None:
        store = SqliteStore(file, synchronous="OFF")
        for number, commit in enumerate(commits):
            if number:
                with database(file) as connection:
                    connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
            await store.commit(commit)
        os.kill(os.getpid(), signal.SIGKILL)

    in_a_child(lambda: asyncio.run(work()), signal.SIGKILL)


def ids(file: Path) -> dict[str, int]:
    """The executions of a database, with their versions."""
    store = SqliteStore(file, synchronous="OFF")
    try:
        return {head.key.id: head.version for head in asyncio.run(store.heads(HeadFilter(limit=1_000)))}
    finally:
        asyncio.run(store.close())


def saved(file: Path, target: Path) -> Path:
    """A backup."""
    back_up(file, target)
    return target


@pytest.fixture
def crashed(file: Path) -> Path:
    """A database whose process was killed, with a backup of before."""
    killed(file, [step(each) for each in several(10)])
    saved(file, file.with_name("backup.db"))
    killed(file, [step(key(f"more{number}")) for number in range(10)])
    return file


def test_a_backup_that_was_copied_over_a_database_is_not_mixed_with_its_log(crashed: Path) -> None:
    shutil.copy(crashed.with_name("backup.db"), crashed)
    before = crashed.read_bytes(), wal(crashed).read_bytes()
    for opener in OPENERS:
        with pytest.raises(StoreDamaged, match=r"do not belong together: it was written for another database.*perdure db restore"):
            opener(crashed)
    assert (crashed.read_bytes(), wal(crashed).read_bytes()) == before
    restore(crashed.with_name("backup.db"), crashed, replace=True)
    assert beside(crashed) == ["backup.db"]
    assert ids(crashed) == {each.id: 1 for each in several(10)}


def test_an_older_or_a_newer_copy_of_the_same_database_is_not_mixed_with_its_log(file: Path) -> None:
    older, log = file.with_name("older"), file.with_name("older-log")
    killed(file, [step(key("a"))], [step(key("a"), 1)])
    asyncio.run(SqliteStore(file).close())  # carries everything over
    shutil.copy(file, older)
    killed(file, [step(key("b"))])
    shutil.copy(wal(file), log)
    asyncio.run(SqliteStore(file).close())
    newer = Path(shutil.copy(file, file.with_name("newer")))
    killed(file, [step(key("c"))], [step(key("c"), 1)])
    assert log_mismatch(file, wal(file)) == ""
    assert "it continues after transaction" in log_mismatch(older, wal(file))
    killed(newer, [step(key("d"))])
    asyncio.run(SqliteStore(newer).close())
    assert "it ends at transaction" in log_mismatch(newer, log)
    assert log_mismatch(older, log) == "", "the log was begun on that very copy"


def test_a_database_that_was_copied_with_its_log_is_opened(crashed: Path) -> None:
    (crashed.parent / "elsewhere").mkdir()
    other = crashed.parent / "elsewhere" / "copied.db"
    shutil.copy(crashed, other)
    shutil.copy(wal(crashed), wal(other))
    assert len(ids(other)) == 20


async def sell(user: sqlite3.Connection, store: SqliteStore, id: Key, *, times: int, ends: str) -> None:
    """A user's transaction, in which so many others of the store lie."""
    user.execute("BEGIN IMMEDIATE")
    user.execute("INSERT INTO sales VALUES (1)")
    for version in range(times):
        async with store.join(user) as within:
            await within.commit([step(id, version)])
    user.execute(ends)


async def test_a_user_s_transaction_is_counted_once_whatever_lies_in_it(file: Path) -> None:
    store = SqliteStore(file, synchronous="OFF")
    await store.commit([step(key("a"))])
    with closing(sqlite3.connect(file, isolation_level=None)) as user:
        user.execute("CREATE TABLE sales (number INTEGER)")
        assert user.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
        await sell(user, store, key("b"), times=3, ends="COMMIT")
        assert log_mismatch(file, wal(file)) == ""
        (counted,) = user.execute("SELECT writes FROM meta").fetchone()
        await sell(user, store, key("c"), times=2, ends="ROLLBACK")
        await sell(user, store, key("d"), times=2, ends="COMMIT")
        assert user.execute("SELECT writes FROM meta").fetchone() == (counted + 1,)
    await store.close()


@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.prove) for seed in range(3, 60))])
async def test_a_log_always_belongs_to_its_own_database_whatever_carries_it_over(file: Path, seed: int) -> None:
    rng, versions = random.Random(seed), dict.fromkeys(several(8), 0)
    stores = [SqliteStore(file, synchronous="OFF") for _ in range(2)]
    with closing(sqlite3.connect(file, isolation_level=None)) as reader, closing(sqlite3.connect(file, isolation_level=None)) as user:
        user.execute("CREATE TABLE sales (number INTEGER)")
        for number in range(60):
            match rng.randrange(7):
                case 0 if not reader.in_transaction:
                    reader.execute(f"PRAGMA wal_checkpoint({rng.choice(['PASSIVE', 'FULL', 'RESTART', 'TRUNCATE'])})").fetchall()
                case 0:
                    reader.execute("ROLLBACK")
                case 1 if not reader.in_transaction:
                    reader.execute("BEGIN")
                    reader.execute("SELECT epoch FROM meta").fetchall()
                case 2:
                    await sell(user, rng.choice(stores), key(f"sale{number}"), times=rng.randint(0, 3), ends=rng.choice(["COMMIT", "ROLLBACK"]))
                case _:
                    chosen = rng.sample(sorted(versions), rng.randint(1, 8))
                    row = bytes(rng.choice([10, 9_000]))
                    await rng.choice(stores).commit([step(one, versions[one], row=row) for one in chosen])
                    versions.update({one: versions[one] + 1 for one in chosen})
            assert log_mismatch(file, wal(file)) == "", f"seed {seed}"
    for store in stores:
        await store.close()


def test_a_log_that_was_never_whole_belongs_to_any_database(crashed: Path) -> None:
    content = wal(crashed).read_bytes()
    shutil.copy(crashed.with_name("backup.db"), crashed)
    for torn in (b"", content[:20], content[:16] + b"other salts, so that nothing fits" + content[49:], content[:500]):
        wal(crashed).write_bytes(torn)
        assert log_mismatch(crashed, wal(crashed)) == ""


async def test_a_process_whose_database_was_overwritten_stops_and_leaves_what_is_there_now(file: Path) -> None:
    store = SqliteStore(file, synchronous="OFF")
    await store.commit([step(each) for each in several(5)])
    await store.backup(file.with_name("backup.db"))
    engine, worker = Engine(store, [], poll_s=0.01), Worker(store, [], queues=["pay"], poll_s=0.01)
    running = [asyncio.create_task(member.run()) for member in (engine, worker)]
    await engine.ready()
    shutil.copy(file.with_name("backup.db"), file)
    store._checkpoints.wrote(1_000)
    for task in running:
        with pytest.raises(StoreDamaged, match="do not belong together"):
            await asyncio.wait_for(task, 20)
    await store.close()
    assert Path.read_bytes(file) == Path.read_bytes(file.with_name("backup.db"))


# Restoring.


def test_what_is_restored_has_a_later_epoch_than_the_database_and_the_backup_had(crashed: Path) -> None:
    with database(crashed) as connection:
        connection.execute("UPDATE meta SET epoch = 7777777777")
    done = restore(crashed.with_name("backup.db"), crashed, replace=True)
    assert (done.epoch, done.executions) == (7_777_777_778, 10)
    store = SqliteStore(crashed)
    assert asyncio.run(store.store_time()).epoch == done.epoch
    asyncio.run(store.close())


def test_without_being_told_to_it_replaces_nothing_and_makes_what_is_not_there(crashed: Path) -> None:
    with pytest.raises(StoreError, match="exists already; give --replace"):
        restore(crashed.with_name("backup.db"), crashed)
    assert len(ids(crashed)) == 20
    for source in (crashed, crashed.parent / ".." / crashed.parent.name / crashed.name):
        with pytest.raises(StoreError, match="is the database itself"):
            restore(source, crashed, replace=True)
    with pytest.raises(StoreError, match="there is no file"):
        restore(crashed.with_name("no.db"), crashed, replace=True)
    assert restore(crashed.with_name("backup.db"), crashed.parent / "new" / "perdure.db").executions == 10
    assert len(ids(crashed.parent / "new" / "perdure.db")) == 10


def test_a_damaged_backup_is_refused_and_the_database_stays(crashed: Path) -> None:
    target = crashed.with_name("backup.db")
    content = bytearray(target.read_bytes())
    with database(target) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'heads_by_time'").fetchone()
    content[(page - 1) * 4096 + 50 : page * 4096] = b"\xa5" * 4046
    target.write_bytes(content)
    with pytest.raises(StoreDamaged, match=r"the backup .* is damaged: .*was not changed"):
        restore(target, crashed, replace=True)
    assert beside(crashed) == ["backup.db", "perdure.db-shm", "perdure.db-wal"] and len(ids(crashed)) == 20


def test_a_database_that_can_not_be_read_at_all_is_replaced(crashed: Path) -> None:
    crashed.write_bytes(b"\xa5" * 40_000)
    assert restore(crashed.with_name("backup.db"), crashed, replace=True).executions == 10
    assert len(ids(crashed)) == 10 and beside(crashed) == ["backup.db"]


@contextmanager
def by_a_store(file: Path) -> Iterator[None]:
    with Child(file) as child:
        child.ask("store.renew('one', 60)")
        yield


@contextmanager
def by_a_look(file: Path) -> Iterator[None]:
    look = ReadOnlySqliteStore(file)
    asyncio.run(look.heads())
    yield
    asyncio.run(look.close())


@contextmanager
def by_a_shell(file: Path) -> Iterator[None]:
    with database(file) as connection:
        connection.execute("SELECT * FROM heads").fetchall()
        yield


@pytest.mark.parametrize("used", [by_a_store, by_a_look, by_a_shell])
def test_a_database_that_is_in_use_is_not_replaced(crashed: Path, used: Callable[[Path], Any]) -> None:
    with used(crashed), pytest.raises(StoreUnavailable, match=r"has .* open.*end all that use it, and restore again"):
        restore(crashed.with_name("backup.db"), crashed, replace=True)
    assert len(ids(crashed)) == 20
    assert [name for name in beside(crashed) if "restoring" in name] == []


def found_in(file: Path) -> str:
    """Which database is there."""
    if log_mismatch(file, wal(file)):
        with pytest.raises(StoreDamaged, match="do not belong together"):
            ids(file)
        return "refused"
    return {4: "old", 3: "new"}[len(ids(file))]


EVERY = 13
"""Of how many places one is tried in the quick run."""


@pytest.mark.parametrize("offset", [0, *(pytest.param(offset, marks=pytest.mark.prove) for offset in range(1, EVERY))])
def test_killed_anywhere_it_leaves_the_old_database_or_the_new_and_is_repeated(tmp_path: Path, offset: int) -> None:
    file, source = tmp_path / "perdure.db", tmp_path / "backup.db"
    seen = set[str]()
    killed(file, [step(each) for each in several(3)])
    saved(file, source)
    killed(file, [step(key("more"))])
    content, log = file.read_bytes(), wal(file).read_bytes()
    for number in count(offset, EVERY):
        if not killed_at(number, lambda: restore(source, file, replace=True)):
            break
        seen.add(found_in(file))
        restore(source, file, replace=True)
        assert len(ids(file)) == 3 and not [name for name in beside(file) if "restoring" in name]
        file.write_bytes(content)
        wal(file).write_bytes(log)
        file.with_name("perdure.db-shm").unlink(missing_ok=True)
    assert "old" in seen and number > 20


def test_engines_decide_nothing_more_that_they_began_before_it(crashed: Path) -> None:
    store = SqliteStore(crashed.with_name("backup.db"))
    asyncio.run(store.close())
    restore(crashed.with_name("backup.db"), crashed, replace=True)
    with Child(crashed) as child:
        assert "Superseded" in repr(child.ask("store.commit([step(key('0'), 1)])"))
        epoch = child.ask("store.store_time()").epoch
        child.ask("store.renew('two', 60)")
        assert len(child.ask(f"store.claim(claim('two', {epoch}))").executions) == 10, "what a dead process held goes on"
