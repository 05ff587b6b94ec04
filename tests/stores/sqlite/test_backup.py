"""Backups: a copy of one moment, made while others write; opening it, or a copy of it, begins an epoch that no other recovery has."""

import asyncio
import os
import shutil
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from perdure.core.errors import StoreError
from perdure.stores.protocol import Committed, HeadFilter, StoredLog, Superseded
from perdure.stores.sqlite import backup as sqlite_backup
from perdure.stores.sqlite import database_setup as sqlite_opening
from perdure.stores.sqlite.backup import back_up
from perdure.stores.sqlite.store import SqliteStore
from perdure.testing.conformance.store_world import key
from tests.stores.sqlite.store_processes import Child, claim, database, several, step


@pytest.fixture
async def store(file: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(file, synchronous="OFF")
    yield store
    await store.close()


@pytest.mark.slow
async def test_a_backup_has_all_that_was_acknowledged_before_it_and_stands_alone(file: Path, store: SqliteStore) -> None:
    await store.renew("one", 60)
    await store.commit([step(each) for each in several(50)])
    target = file.with_name("backup.db")
    await store.backup(target)
    assert sorted(each.name for each in file.parent.iterdir() if each.name.startswith((".", "backup"))) == ["backup.db"]
    restored = SqliteStore(target)
    assert [head.key for head in await restored.heads()] == [head.key for head in await store.heads()]
    assert await restored.leases() == []
    log = await restored.read(key("7"))
    assert isinstance(log, StoredLog) and log.payloads == (b"row",)
    await restored.close()


@pytest.mark.slow
async def test_a_backup_is_of_one_moment_though_others_write_without_pause(file: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_backup, "PAGES_PER_STEP", 5)
    await store.commit([step(each, row=bytes(2_000)) for each in several(300)])
    with Child(file, synchronous="OFF") as child:
        child.begin("__import__('asyncio').gather(*(store.commit([step(key('a'), v), step(key('b'), v)]) for v in range(3_000)))")
        while (log := await store.read(key("a"))) is None or log.head.version < 100:
            await asyncio.sleep(0.001)
        await store.backup(file.with_name("backup.db"))
        during = await store.read(key("a"))
    restored = SqliteStore(file.with_name("backup.db"))
    one, other = [await restored.read(key(id)) for id in "ab"]
    assert one is not None and other is not None and during is not None
    assert 100 <= one.head.version == other.head.version == len(one.payloads) == len(other.payloads) <= during.head.version
    assert sqlite_opening.check_database(file.with_name("backup.db")).damage == ()
    await restored.close()


@pytest.mark.slow
async def test_opening_a_backup_begins_an_epoch_once_in_each_copy_and_none_is_like_another(file: Path, store: SqliteStore) -> None:
    await store.renew("one", 10_000)
    await store.commit([step(key())])
    backups = [file.with_name(f"{number}.db") for number in range(2)]
    await store.backup(backups[0])
    shutil.copy(*backups)
    began_s = int(time.time())
    for each in backups:
        restored = SqliteStore(each)
        epoch = (await restored.store_time()).epoch
        assert began_s <= epoch <= time.time() + 1
        assert (await restored.commit([step(key(), 1)])) == [Superseded(epoch)]
        await restored.renew("two", 60)
        assert len((await restored.claim(claim("two", epoch))).executions) == 1
        assert (await restored.raise_epoch()) > epoch
        await restored.close()
        again = SqliteStore(each)
        assert (await again.store_time()).epoch == epoch + 1 or (await again.store_time()).epoch <= time.time()
        await again.close()
    (answer,) = await store.commit([step(key(), 1)])
    assert isinstance(answer, Committed), "the original is still in its own"


async def test_an_epoch_that_was_far_ahead_is_followed_by_the_next(store: SqliteStore, file: Path) -> None:
    with database(file) as connection:
        connection.execute("UPDATE meta SET epoch = 99999999999")
    await store.backup(file.with_name("backup.db"))
    restored = SqliteStore(file.with_name("backup.db"))
    assert (await restored.store_time()).epoch == 100_000_000_000
    await restored.close()


async def test_a_backup_replaces_nothing(file: Path, store: SqliteStore) -> None:
    target = file.with_name("backup.db")
    target.write_bytes(b"precious")
    with pytest.raises(StoreError, match=r"exists already, and a backup replaces no file; name a new file"):
        await store.backup(target)
    with pytest.raises(StoreError, match="exists already"):
        await store.backup(file)
    assert target.read_bytes() == b"precious"


async def test_a_target_that_appears_meanwhile_is_not_replaced_either(file: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    target = file.with_name("backup.db")
    copy = sqlite_backup.copy_snapshot

    def slowly(*arguments: object) -> None:
        copy(*arguments)  # type: ignore[arg-type]  # as they came
        target.write_bytes(b"precious")

    monkeypatch.setattr(sqlite_backup, "copy_snapshot", slowly)
    with pytest.raises(StoreError, match="exists already"):
        await store.backup(target)
    assert target.read_bytes() == b"precious"
    assert [each.name for each in file.parent.iterdir() if each.name.endswith("partial")] == []


async def test_a_backup_that_cannot_be_written_leaves_nothing_and_says_why(file: Path, store: SqliteStore) -> None:
    with pytest.raises(StoreError, match=r"can't be written|can't be opened"):
        await store.backup(file.with_name("no such directory") / "backup.db")
    assert isinstance((await store.commit([step(key())]))[0], Committed)


@pytest.mark.slow
async def test_a_script_backs_up_a_file_that_others_use_and_it_is_on_the_disk(file: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink())))
    await store.commit([step(each) for each in several(20)])
    target = file.with_name("backup.db")
    back_up(file, target)
    assert [Path(name).parent for name in synced[:1]] == [file.parent] and synced[-1] == str(file.parent)
    restored = SqliteStore(target)
    assert len(await restored.heads(HeadFilter(limit=1_000))) == 20
    await restored.close()
