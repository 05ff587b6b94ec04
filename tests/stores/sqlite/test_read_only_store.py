"""Claims about looking at a file: it shows what a store shows, SQLite refuses to write, and the file stays what it is, byte for byte."""

import asyncio
import sqlite3
from hashlib import sha256
from pathlib import Path

import pytest

from perdure.core.errors import StoreError
from perdure.stores.protocol import Commit, HeadFilter, Post
from perdure.stores.sqlite.database_setup import read_only_file
from perdure.stores.sqlite.read_only_store import ReadOnlySqliteStore
from perdure.stores.sqlite.store import SqliteStore
from tests.stores.sqlite import planted_table_version
from tests.stores.sqlite.store_processes import key, message, opening

pytestmark = pytest.mark.slow


async def fill(store: SqliteStore) -> None:
    """An execution with a log, mail and a blob, held by somebody."""
    epoch = (await store.renew("holder", 60.0, b"about")).epoch
    await store.commit([Post(messages=(opening(key()), message(key())), blobs=(("a" * 64, b"blob"),))])
    await store.commit([Commit(key=key(), epoch=epoch, holder="holder", version=0, program="order@1", root=key(), row=b"row", count=1)])


async def test_a_look_shows_what_the_store_shows(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "p.db")
    await fill(store)
    look = ReadOnlySqliteStore(tmp_path / "p.db")
    assert await look.heads() == await store.heads()
    assert await look.heads(HeadFilter(tenant="nobody")) == []
    assert await look.read(key()) == await store.read(key())
    assert await look.messages(key()) == await store.messages(key())
    assert await look.blob("a" * 64) == b"blob" and await look.blob("b" * 64) is None
    assert await look.leases() == await store.leases() != []
    assert (await look.store_time()).epoch == (await store.store_time()).epoch
    await look.close()
    await store.close()


async def test_looking_changes_no_byte_of_the_file_and_is_seen_by_nobody(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "p.db")
    await fill(store)
    await store.close()
    file = tmp_path / "p.db"
    before = sha256(file.read_bytes()).digest()
    lives = sorted((tmp_path / "p.db.processes").iterdir())
    look = ReadOnlySqliteStore(file)
    for asked in (look.heads(), look.read(key()), look.messages(key()), look.leases(), look.store_time()):
        await asked
    assert sorted((tmp_path / "p.db.processes").iterdir()) == lives
    await look.close()
    assert sha256(file.read_bytes()).digest() == before
    wal = tmp_path / "p.db-wal"
    assert not wal.exists() or wal.stat().st_size == 0


def test_sqlite_refuses_to_write_what_is_only_looked_at(tmp_path: Path) -> None:
    asyncio.run(SqliteStore(tmp_path / "p.db").close())
    connection = read_only_file(tmp_path / "p.db").connect()
    for statement in ("DELETE FROM heads", "UPDATE meta SET epoch = 5", "CREATE TABLE more (x)"):
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            connection.execute(statement)
    connection.close()


async def test_a_look_sees_what_is_written_meanwhile(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "p.db")
    look = ReadOnlySqliteStore(tmp_path / "p.db")
    assert await look.heads() == []
    await fill(store)
    assert [head.key for head in await look.heads()] == [key()]
    await look.close()
    await store.close()


def test_a_file_that_is_not_there_is_not_made_and_an_older_one_not_upgraded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoreError, match="there is no file"):
        ReadOnlySqliteStore(tmp_path / "none.db")
    assert list(tmp_path.iterdir()) == []
    asyncio.run(SqliteStore(tmp_path / "old.db").close())
    with sqlite3.connect(tmp_path / "old.db") as older:
        older.execute("CREATE TABLE others (name)")
    older.close()
    planted_table_version.plant(monkeypatch)
    with pytest.raises(StoreError, match="perdure db upgrade"):
        ReadOnlySqliteStore(tmp_path / "old.db")
