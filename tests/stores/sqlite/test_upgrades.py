"""Upgrading: a file of an earlier version comes along with all that is in it, or stays as it was."""

import asyncio
import fcntl
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from perdure.core.errors import StoreError
from perdure.stores.sqlite.database_setup import check_database, upgrade_database
from perdure.stores.sqlite.read_only_store import ReadOnlySqliteStore
from perdure.stores.sqlite.store import SqliteStore
from perdure.stores.sqlite.store_rows import address_text
from perdure.stores.sqlite.table_schema import OLDEST_SCHEMA_VERSION, SCHEMA_VERSION, SchemaStep
from perdure.testing.conformance import Clock
from perdure.testing.conformance.store_world import key
from tests.stores.sqlite import planted_table_version
from tests.stores.sqlite.planted_table_version import NEXT
from tests.stores.sqlite.store_processes import Child, database, until
from tests.stores.sqlite.test_read_only_store import fill

pytestmark = pytest.mark.slow


@pytest.fixture
async def file(tmp_path: Path) -> Path:
    """A file of this version, with an execution that sleeps, work, mail and a blob."""
    file = tmp_path / "perdure.db"
    store = SqliteStore(file, Clock())
    await fill(store)
    await store.close()
    return file


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A version after this one."""
    planted_table_version.plant(monkeypatch)
    return monkeypatch


def content(file: Path) -> list[str]:
    """All rows and tables."""
    with database(file) as connection:
        return [*connection.iterdump()]


def version(file: Path) -> int:
    with database(file) as connection:
        (found,) = connection.execute("PRAGMA user_version").fetchone()
        return int(found)


async def test_a_file_is_upgraded_with_all_that_is_in_it_and_once(file: Path, planted: pytest.MonkeyPatch) -> None:
    store = SqliteStore(file, Clock())
    assert version(file) == NEXT
    (head,) = await store.heads()
    assert head.key == key() and await store.read(key()) is not None
    await store.close()
    with database(file) as connection:
        assert connection.execute("SELECT note FROM heads").fetchall() == [(address_text(key()),)]
    assert upgrade_database(file) == [] and check_database(file).damage == ()
    assert not file.with_name("perdure.db.lock").exists()


@pytest.mark.parametrize("older", range(1, OLDEST_SCHEMA_VERSION))
def test_a_file_of_a_development_version_is_refused_and_stays_as_it_is(file: Path, older: int) -> None:
    with database(file) as connection:
        connection.execute(f"PRAGMA user_version = {older}")
    before = file.read_bytes()
    for attempt in (SqliteStore, upgrade_database, check_database, ReadOnlySqliteStore):
        with pytest.raises(StoreError, match=rf"was written by a development version of Perdure \(its tables have version {older}, .*name a new file"):
            attempt(file)
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ("ALTER TABLE heads ADD COLUMN more TEXT", "heads.more"),
        ("ALTER TABLE holders DROP COLUMN about", "holders.about"),
        ("ALTER TABLE mail RENAME COLUMN lane TO line", "mail.lane, mail.line, mail.mail_in_line"),
        ("DROP INDEX heads_by_time", "heads.heads_by_time"),
        ("DROP TABLE vault", "vault.name, vault.sealed, vault.set_at_s, vault.tenant, vault.version"),
    ],
)
def test_a_file_whose_tables_are_not_what_their_version_says_is_refused_and_stays_as_it_is(file: Path, change: str, where: str) -> None:
    with database(file) as connection:
        connection.execute(change)
    before = content(file)
    for attempt in (SqliteStore, ReadOnlySqliteStore):
        with pytest.raises(
            StoreError, match=rf"has tables of version {SCHEMA_VERSION} that differ from those of this Perdure, at {where}: .*; name a new file"
        ):
            attempt(file)
    assert content(file) == before


def test_tables_and_indexes_of_others_do_not_matter(file: Path) -> None:
    with database(file) as connection:
        connection.execute("CREATE TABLE mine (name)")
        connection.execute("CREATE INDEX heads_of_mine ON heads (address)")
    asyncio.run(SqliteStore(file).close())


def test_a_file_that_another_process_is_upgrading_stays_as_it_is(file: Path, planted: pytest.MonkeyPatch) -> None:
    lock = os.open(f"{file}.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    for attempt in (SqliteStore, upgrade_database):
        with pytest.raises(StoreError, match="must be upgraded, and another process has it open; end all that use it, and run `perdure db upgrade`"):
            attempt(file)
    assert version(file) == SCHEMA_VERSION
    os.close(lock)
    assert upgrade_database(file) == [f"version {NEXT}: let executions have a note"]


def test_a_file_that_other_processes_have_open_stays_as_it_is_and_they_are_named(file: Path, planted: pytest.MonkeyPatch) -> None:
    with Child(file) as child:
        child.ask("store.renew('one', 60)")
        with pytest.raises(StoreError, match=f"process {child.pid} has it open"):
            upgrade_database(file)
        assert version(file) == SCHEMA_VERSION
    assert upgrade_database(file) == [f"version {NEXT}: let executions have a note"]


async def test_a_store_whose_file_is_upgraded_under_it_says_so(file: Path) -> None:
    store = SqliteStore(file, synchronous="OFF")
    with database(file) as connection:
        connection.execute("UPDATE meta SET version = version + 1")
    with pytest.raises(
        StoreError, match=rf"was upgraded while it was open: its tables now have version {SCHEMA_VERSION + 1}, and this process knows {SCHEMA_VERSION}"
    ):
        await store.renew("one", 60)
    await store.close()


def test_a_step_that_fails_leaves_the_version_before(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(connection: sqlite3.Connection) -> None:
        connection.execute("DROP TABLE heads")
        raise sqlite3.OperationalError("planted")

    before = content(file)
    planted_table_version.plant(monkeypatch, SchemaStep(NEXT, "fail", fail))
    with pytest.raises(StoreError, match="planted"):
        upgrade_database(file)
    assert content(file) == before
    assert version(file) == SCHEMA_VERSION


STOPPED_IN_THE_MIDDLE = """
import sys
from pathlib import Path
import pytest
from perdure.stores.sqlite.database_setup import upgrade_database
from tests.stores.sqlite import planted_table_version

def stand_still(connection):
    planted_table_version.STEP.carry_out(connection)
    print("done, but not committed", flush=True)
    sys.stdin.read()

planted_table_version.plant(pytest.MonkeyPatch(), planted_table_version.STEP._replace(carry_out=stand_still))
upgrade_database(Path(sys.argv[1]))
"""
UPGRADING = """
import sys
from pathlib import Path
import pytest
from perdure.stores.sqlite.database_setup import upgrade_database
from tests.stores.sqlite import planted_table_version

planted_table_version.plant(pytest.MonkeyPatch())
print(upgrade_database(Path(sys.argv[1])))
"""


def test_an_upgrade_that_is_killed_leaves_the_version_before_and_another_waits_for_it(file: Path) -> None:
    command, here = [sys.executable, "-c", STOPPED_IN_THE_MIDDLE, str(file)], Path(__file__).parents[3]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=here) as first:
        assert first.stdout is not None and first.stdout.readline() == "done, but not committed\n"
        with subprocess.Popen([sys.executable, "-c", UPGRADING, str(file)], stdout=subprocess.PIPE, text=True, cwd=here) as second:
            until(lambda: f"{file}.lock" in opened_by(second.pid), "the second waits for the lock")
            assert version(file) == SCHEMA_VERSION
            first.send_signal(signal.SIGKILL)
            assert second.communicate()[0].startswith(f"['version {NEXT}: ")
    assert version(file) == NEXT


def opened_by(pid: int) -> set[str]:
    names = set()
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # It was closed meanwhile.
            names.add(str(each.readlink()))
    return names
