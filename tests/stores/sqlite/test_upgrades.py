"""Upgrading: a file of an earlier version comes along with all that is in it, or stays as it was."""

import asyncio
import fcntl
import gzip
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from perdure.core.errors import StoreError
from perdure.stores.change_feed import CHANGE_FEED, ShippedLimits
from perdure.stores.protocol import QueueLimits
from perdure.stores.sqlite.database_setup import check_database, upgrade_database
from perdure.stores.sqlite.read_only_store import ReadOnlySqliteStore
from perdure.stores.sqlite.store import SqliteStore
from perdure.stores.sqlite.store_rows import address_text
from perdure.stores.sqlite.table_schema import OLDEST_SCHEMA_VERSION, SCHEMA_VERSION, SchemaStep
from perdure.testing.conformance import Clock
from perdure.testing.conformance.store_world import key
from tests.corpus.make_files import FILES, TENANT
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


@pytest.fixture
def file_9(tmp_path: Path) -> Path:
    """A file of version 9, whose queue has limits, with an execution and tasks in it, and one more execution that has never been in a queue."""
    file = tmp_path / "9.db"
    file.write_bytes(gzip.decompress((FILES / "sqlite-9.db.gz").read_bytes()))
    with database(file) as connection:
        connection.execute("INSERT INTO queues VALUES ('press', 2, 1, 0.5, 3, 'declared', 7.0, 8.0, 9.0)")
        connection.execute("INSERT INTO lanes VALUES ('press', 'lane', 1, 6.0)")
        connection.execute("UPDATE heads SET queue = 'press', limited = 1 WHERE workflow = 'pending'")
    return file


async def test_limits_of_version_9_are_for_all_tenants_and_tenants_may_get_their_own(file_9: Path) -> None:
    assert upgrade_database(file_9) == ["version 10: let tenants have limits of their own in queues"]
    with database(file_9) as connection:
        assert connection.execute("SELECT * FROM queues").fetchall() == [(1, "press", "", 2, 1, 0.5, 3, "declared", 7.0, 8.0, 9.0)]
        assert connection.execute("SELECT * FROM lanes").fetchall() == [(1, "lane", 1, 6.0)]
        assert connection.execute("SELECT workflow FROM heads WHERE limited = 1").fetchall() == [("pending",)]
        assert connection.execute("SELECT queue, limited FROM mail WHERE limited <> 0 OR queue IS NOT NULL").fetchall() == [("press", 1)] * 2
    store = SqliteStore(file_9)
    limits = QueueLimits(2, 1, 0.5, 3, "declared")
    (status,) = await store.queues()
    assert (status.limits, status.tenant, status.executions + status.executions_waiting, status.work + status.work_waiting) == (limits, None, 1, 2)
    await store.limit("press", QueueLimits(7), TENANT)
    everyone, one = await store.queues()
    assert (everyone.limits, everyone.executions_waiting, everyone.work_waiting) == (limits, 0, 0)
    assert (one.limits, one.tenant, one.executions + one.executions_waiting, one.work + one.work_waiting) == (QueueLimits(7), TENANT, 1, 2)
    await store.close()


async def test_a_change_feed_of_version_9_goes_on(file_9: Path) -> None:
    with database(file_9) as connection:
        for statement in FEED_OF_9.split("\n\n"):
            connection.execute(statement)
    store = SqliteStore(file_9)
    feed = store.part(CHANGE_FEED)
    assert feed is not None
    shipped = await feed.shipped(0)
    assert [item for item in shipped.items if isinstance(item, ShippedLimits)] == [ShippedLimits("press", QueueLimits(2, 1, 0.5, 3, "declared"))]
    await store.limit("press", QueueLimits(7), TENANT)
    assert (await feed.shipped(shipped.position)).items == (ShippedLimits("press", QueueLimits(7), TENANT),)
    await store.close()


FEED_OF_9 = """
CREATE TRIGGER feed_limits_changed AFTER UPDATE OF concurrency, per_lane, interval_s, burst, declared ON queues BEGIN
    DELETE FROM feed WHERE kind = 'limits' AND name = NEW.name AND key = '' AND version = 0;
    INSERT INTO feed (kind, name) VALUES ('limits', NEW.name);
END

INSERT INTO feed_scans VALUES ('heads', '', 0, 1), ('mail', '', 0, 1), ('blobs', '', 0, 1), ('removed_blobs', '', 0, 1), ('records', '', 0, 1)

INSERT INTO feed (kind, name) VALUES ('limits', 'press')
"""
"""A feed of version 9 that has scanned everything, with one of its triggers."""


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
