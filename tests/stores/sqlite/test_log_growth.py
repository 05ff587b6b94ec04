"""The write-ahead log is grown ahead of its use, and nobody takes what it is grown by for a part of it."""

import sqlite3
from contextlib import closing
from pathlib import Path

from perdure.core.paths import Key
from perdure.stores.protocol import Committed
from perdure.stores.sqlite import log_growth
from perdure.stores.sqlite.log_growth import COMMITS_MIN, FIRST_BYTES, GROWN_BYTES
from perdure.stores.sqlite.store import SqliteStore
from perdure.stores.sqlite.write_ahead_log import log_mismatch
from perdure.testing.conformance import Clock
from perdure.testing.conformance.store_world import key
from tests.stores.sqlite.store_processes import step

ROW = bytes(2_000)


async def steps(store: SqliteStore, of: Key, first: int, count: int) -> None:
    """Commits so many steps."""
    for version in range(first, first + count):
        (answer,) = await store.commit([step(of, version, row=ROW)])
        assert isinstance(answer, Committed)


async def test_the_log_is_grown_in_two_pieces_for_who_goes_on_writing(tmp_path: Path) -> None:
    path, wal = tmp_path / "perdure.db", tmp_path / "perdure.db-wal"
    store = SqliteStore(path, Clock(), synchronous="OFF")
    await steps(store, key(), 0, COMMITS_MIN - 1)
    small_bytes = wal.stat().st_size
    assert small_bytes < FIRST_BYTES
    await steps(store, key(), COMMITS_MIN - 1, 1)
    sizes = [wal.stat().st_size]
    assert small_bytes + FIRST_BYTES <= sizes[0] <= small_bytes + FIRST_BYTES + 100_000
    for first in range(COMMITS_MIN, 300):
        await steps(store, key(), first, 1)
        sizes.append(wal.stat().st_size)
    assert sizes[-1] >= GROWN_BYTES and len({size for size in sizes if size < GROWN_BYTES}) <= 2
    await store.close()


async def test_what_the_log_is_grown_by_is_no_part_of_it(tmp_path: Path) -> None:
    path, wal = tmp_path / "perdure.db", tmp_path / "perdure.db-wal"
    store = SqliteStore(path, Clock(), synchronous="OFF")
    for first in range(0, 120, 10):
        await steps(store, key(), first, 10)
        copied, copied_wal = tmp_path / f"{first}.db", tmp_path / f"{first}.db-wal"
        copied.write_bytes(path.read_bytes())
        copied_wal.write_bytes(wal.read_bytes())  # as a crash leaves them
        assert log_mismatch(copied, copied_wal) == ""
        with closing(sqlite3.connect(copied)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            assert connection.execute("SELECT max(version) FROM log").fetchone() == (first + 10,)
    await store.close()


async def test_two_stores_that_write_in_turns_grow_one_log(tmp_path: Path) -> None:
    path = tmp_path / "perdure.db"
    one, other = (SqliteStore(path, Clock(), synchronous="OFF") for _ in range(2))
    for turn in range(100):
        await steps(one, key("1"), turn, 1)
        await steps(other, key("2"), turn, 1)
    for store in (one, other):
        for id in "12":
            log = await store.read(key(id))
            assert log is not None and len(log.rows) == 100
    await one.close()
    await other.close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


async def test_a_disk_without_room_for_growth_lets_commits_go_on(tmp_path: Path) -> None:
    growth = log_growth.LogGrowth(tmp_path / "nothing-wal")
    for _ in range(COMMITS_MIN + 2):
        growth.grow()
    assert not (tmp_path / "nothing-wal").exists()
