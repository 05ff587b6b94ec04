"""Opening a file: what is not ours is refused and left alone, and what can't be opened is said to be so, with what to do about it."""

import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from perdure.core.errors import StoreDamaged, StoreError, StoreUnavailable
from perdure.stores.protocol import Post
from perdure.stores.sqlite import database_setup as sqlite_opening
from perdure.stores.sqlite.database_file import DatabaseFile
from perdure.stores.sqlite.database_setup import check_database, create_beside_application_tables, open_database
from perdure.stores.sqlite.store import SqliteStore
from perdure.stores.sqlite.table_schema import SCHEMA_VERSION
from perdure.testing.conformance.store_world import start_message
from tests.stores.sqlite.store_processes import Child, database, run, several


def made(file: Path, heads: int = 0) -> None:
    """A file of a store that has been closed."""

    async def make() -> None:
        store = SqliteStore(file, synchronous="OFF")
        await store.commit([Post(messages=tuple(start_message(each) for each in several(heads)))])
        await store.close()

    asyncio.run(make())


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


@pytest.mark.slow
def test_tables_are_made_beside_those_of_another_program_which_keeps_its_own(file: Path) -> None:
    with database(file) as connection:
        connection.execute("CREATE TABLE accounts (number INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, cents INTEGER)")
        connection.execute("INSERT INTO accounts (name, cents) VALUES ('Ada', 5000)")
    for _ in range(2):
        create_beside_application_tables(file)
    made(file, 3)
    with database(file) as connection:
        assert connection.execute("SELECT * FROM accounts").fetchall() == [(1, "Ada", 5000)]
        assert connection.execute("SELECT count(*) FROM heads").fetchone() == (3,)
    assert check_database(file).damage == () and check_database(file).version == SCHEMA_VERSION


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("CREATE TABLE queues (name)", "has a queues of its own"),
        ("CREATE INDEX Heads_By_Time ON other (name)", "has a heads_by_time of its own"),
        ("PRAGMA application_id = 7", "uses application_id"),
        ("PRAGMA user_version = 3", "uses user_version"),
    ],
)
def test_where_there_is_no_room_for_its_tables_nothing_is_changed(file: Path, statement: str, said: str) -> None:
    with database(file) as connection:
        connection.execute("CREATE TABLE other (name)")
        connection.execute(statement)
    content = file.read_bytes()
    with pytest.raises(StoreError, match=said):
        create_beside_application_tables(file)
    assert file.read_bytes() == content


@pytest.mark.slow
def test_the_tables_of_a_newer_perdure_are_refused_and_left_alone(file: Path) -> None:
    made(file)
    with database(file) as connection:
        connection.execute("PRAGMA user_version = 77")
    content = file.read_bytes()
    with pytest.raises(StoreError, match=rf"written by a newer Perdure \(its tables have version 77, and this one knows {SCHEMA_VERSION}\); upgrade"):
        SqliteStore(file)
    assert file.read_bytes() == content


@pytest.mark.slow
def test_a_damaged_file_is_called_damaged(file: Path) -> None:
    made(file, 300)
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


@pytest.fixture
def nobody() -> Iterator[None]:
    """Run as a user who may not write everywhere."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    yield
    os.seteuid(0)


@pytest.fixture
def public(tmp_path: Path) -> Path:
    """A directory that any user may enter."""
    for each in (tmp_path, *tmp_path.parents):
        if each.stat().st_uid == os.geteuid() and each != Path("/"):
            each.chmod(each.stat().st_mode | 0o755)
    return tmp_path


def test_what_may_only_be_read_is_said_to_be_so_and_is_left_alone(public: Path, request: pytest.FixtureRequest) -> None:
    (public / "store").mkdir()
    file = public / "store" / "perdure.db"
    made(file)
    content = file.read_bytes()
    file.chmod(0o444)
    file.parent.chmod(0o555)
    request.getfixturevalue("nobody")
    with pytest.raises(StoreUnavailable, match="let this user write the file and its directory"):
        SqliteStore(file)
    with pytest.raises(StoreUnavailable, match="let this user write the file and its directory"):
        SqliteStore(file.parent / "other.db")
    with pytest.raises(StoreUnavailable, match="Permission denied"):
        SqliteStore(file.parent / "new" / "other.db")
    assert file.read_bytes() == content
    assert [each.name for each in file.parent.iterdir()] == ["perdure.db"]


def closed(directory: Path) -> None:
    """A directory that others may only read, in one that they may write."""
    directory.parent.chmod(0o777)
    directory.mkdir(mode=0o555)


async def test_who_may_not_make_locks_is_told_so_when_it_wants_to_hold(public: Path, request: pytest.FixtureRequest) -> None:
    closed(public / "perdure.db.processes")
    request.getfixturevalue("nobody")
    store = SqliteStore(public / "perdure.db")
    with pytest.raises(StoreUnavailable, match=r"perdure\.db\.processes.*can't be opened \(Permission denied\)"):
        await store.renew("one", 60)
    assert await store.heads() == []
    await store.close()


@pytest.mark.parametrize(("synchronous", "number"), [("FULL", 2), ("NORMAL", 1), ("OFF", 0)])
async def test_it_waits_for_the_disk_unless_told_not_to(file: Path, synchronous: str, number: int) -> None:
    store = SqliteStore(file, synchronous=synchronous)
    connection = store._writer._connection
    assert connection is not None
    assert connection.execute("PRAGMA synchronous").fetchone() == (number,)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    await store.close()


async def test_full_is_the_default_and_a_wrong_setting_is_refused(file: Path) -> None:
    store = SqliteStore(file)
    assert store._file.synchronous == "FULL"
    await store.close()
    with pytest.raises(ValueError, match="give one of FULL, NORMAL, OFF"):
        SqliteStore(file, synchronous="FULL; DROP TABLE heads")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a b.db", "what?#.db", "100%.db", "données-数据.db", "a'b.db", "file:x.db", "%41.db"])
def test_a_file_may_have_any_name(tmp_path: Path, name: str) -> None:
    store = SqliteStore(tmp_path / name)
    asyncio.run(store.renew("one", 60))
    assert {each.name for each in tmp_path.iterdir()} == {name, f"{name}-wal", f"{name}-shm", f"{name}.processes"}
    asyncio.run(store.close())


OPENED_AT_ONCE = """
import asyncio, sys
from tests.stores.sqlite.store_processes import *

async def main():
    sys.stdin.readline()
    store = SqliteStore(sys.argv[1])
    (answer,) = await store.commit([step(key(sys.argv[2]))])
    print(answer.version)
    await store.close()

asyncio.run(main())
"""


@pytest.mark.slow
def test_processes_that_make_the_same_file_at_once_agree_on_it(file: Path) -> None:
    command = [sys.executable, "-c", OPENED_AT_ONCE, str(file)]
    cwd = Path(__file__).parents[3]
    children = [subprocess.Popen([*command, str(number)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=cwd) for number in range(5)]
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    assert [child.communicate()[0] for child in children] == ["1\n"] * 5
    with database(file) as connection:
        assert connection.execute("SELECT count(*) FROM heads").fetchone() == (5,)


@pytest.mark.slow
def test_who_comes_while_another_makes_the_file_finds_it_well_at_any_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_opening, "OPEN_WAIT_S", 0.05)
    asked = [0]

    def comes_before(statement: int, file: DatabaseFile) -> sqlite3.Connection | None:
        """Open the file; before one statement of that, another opens it too, unless it is being written."""
        others: list[sqlite3.Connection] = []

        class Interrupted(sqlite3.Connection):
            def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
                asked[0] += 1
                if asked[0] == statement:
                    with suppress(StoreUnavailable):
                        others.append(open_database(DatabaseFile(file.path)))
                return super().execute(sql, parameters)

        asked[0] = 0
        file.factory = Interrupted
        with closing(open_database(file)) as connection:
            assert connection.execute("SELECT count(*) FROM heads").fetchone() == (0,)
        return others[0] if others else None

    statement, came = 0, 0
    while statement <= asked[0]:
        statement += 1
        if other := comes_before(statement, DatabaseFile(tmp_path / f"{statement}.db")):
            other.close()
            came += 1
    assert came > 10


# Looking at a file.


@pytest.mark.slow
def test_a_check_tells_how_a_file_is_and_changes_nothing(file: Path) -> None:
    with Child(file) as child:
        child.ask("store.renew('one', 60)")
        child.ask("store.commit([Post(messages=(opening(key(str(number))),)) for number in range(500)])")
        health = check_database(file)
        assert (health.version, health.version_known, health.epoch, health.mode) == (SCHEMA_VERSION, SCHEMA_VERSION, 1, "wal")
        assert (health.damage, health.processes) == ((), (child.pid,))
        assert health.wal_bytes > 0 and health.size_bytes > 100_000
    assert check_database(file).processes == ()


@pytest.mark.slow
def test_a_check_finds_damage_wherever_it_is(file: Path) -> None:
    made(file, 300)
    content = file.read_bytes()
    with closing(sqlite3.connect(file)) as connection:
        first = max(root for (root,) in connection.execute("SELECT rootpage FROM sqlite_master")) * 4096  # behind the roots, all pages are full
    for page in range(first, len(content), 4096):
        file.write_bytes(content[:page] + b"\xa5" * 4096 + content[page + 4096 :])
        with suppress(StoreDamaged):  # the tables can't even be listed
            assert check_database(file).damage, page


def test_there_is_nothing_to_check_where_there_is_no_file(file: Path) -> None:
    with pytest.raises(StoreError, match="there is no file"):
        check_database(file)
    assert not file.exists()


@pytest.mark.slow
def test_importing_the_store_starts_nothing() -> None:
    script = "import threading, perdure.stores.sqlite.store; print(threading.active_count())"
    assert run(script) == "1\n"
