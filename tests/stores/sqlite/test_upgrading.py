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
from perdure.core.paths import Key
from perdure.stores.base import Claim, Filter, Log
from perdure.stores.sqlite import opening as sqlite_opening
from perdure.stores.sqlite.opening import check, upgrade
from perdure.stores.sqlite.schema import STEPS, VERSION, Step
from perdure.stores.sqlite.store import SqliteStore
from perdure.testing.conformance import Clock
from perdure.testing.conformance.world import key, queue
from tests.stores.sqlite.world import Child, database, until

# What the store of version 1 had written, in the words of SQLite's own dump.
VERSION_1 = r"""
PRAGMA journal_mode = WAL;
BEGIN;
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
INSERT INTO meta VALUES ('epoch', 2);
CREATE TABLE heads (
    number INTEGER PRIMARY KEY,
    address TEXT NOT NULL UNIQUE,
    tenant TEXT NOT NULL,
    program TEXT NOT NULL,
    root TEXT NOT NULL,
    version INTEGER NOT NULL,
    holder TEXT,
    wake_at_s REAL,
    mail_at_s REAL,
    status TEXT NOT NULL,
    created_at_s REAL NOT NULL,
    ended_at_s REAL,
    ready_at_s REAL GENERATED ALWAYS AS (coalesce(min(wake_at_s, mail_at_s), wake_at_s, mail_at_s)) VIRTUAL
);
CREATE INDEX heads_waiting ON heads (holder, program, ready_at_s);
CREATE INDEX heads_of_family ON heads (root, ready_at_s) WHERE ready_at_s IS NOT NULL;
INSERT INTO heads VALUES (1, '["acme","order","1"]', 'acme', 'order@1', '["acme","order","1"]', 2, 'one', NULL, NULL, 'running', 1000000000.0, NULL);
INSERT INTO heads VALUES (2, '["acme","order","a\u0000b"]', 'acme', 'order@1', '["acme","order","1"]', 1, NULL, 1000000030.0, NULL,
    'waiting', 1000000000.0, NULL);
INSERT INTO heads VALUES (3, '["acme","order","🐘"]', 'acme', 'order', '["acme","order","🐘"]', 0, NULL, NULL, 1000000000.0, 'pending', 1000000000.0, NULL);
INSERT INTO heads VALUES (4, '["b\u0000","ship","done"]', 'b' || char(0), 'ship@1', '["b\u0000","ship","done"]', 1, NULL, NULL, NULL,
    'completed', 1000000000.0, 1000000000.0);
CREATE TABLE log (execution INTEGER NOT NULL, version INTEGER NOT NULL, row BLOB NOT NULL);
CREATE UNIQUE INDEX log_of_execution ON log (execution, version);
INSERT INTO log VALUES (1, 2, X'74776F206576656E7473'), (2, 1, X'6F6E65'), (4, 1, X'00FF');
CREATE TABLE mail (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    address TEXT NOT NULL,
    key TEXT NOT NULL,
    body BLOB NOT NULL,
    due_at_s REAL NOT NULL,
    queue TEXT,
    holder TEXT,
    deliveries INTEGER NOT NULL DEFAULT 0,
    unclaimed INTEGER,
    UNIQUE (address, key)
);
CREATE INDEX mail_waiting ON mail (holder, queue, due_at_s) WHERE queue IS NOT NULL;
CREATE INDEX mail_unclaimed ON mail (due_at_s) WHERE unclaimed IS NOT NULL;
INSERT INTO mail VALUES (3, '["acme","order","🐘"]', 'start', X'7374617274', 1000000000.0, NULL, NULL, 0, NULL);
INSERT INTO mail VALUES (4, '["acme","order","never"]', 'letter', X'6561726C79', 1000000000.0, NULL, NULL, 0, 1);
INSERT INTO mail VALUES (5, '["acme","pay"]', 'work', X'776F726B', 1000000000.0, 'pay', 'one', 1, NULL);
INSERT INTO mail VALUES (6, '["acme","pay"]', 'later', X'776F726B', 1000000050.0, 'pay', NULL, 0, NULL);
CREATE TABLE blobs (sha256 TEXT PRIMARY KEY, bytes BLOB NOT NULL);
INSERT INTO blobs VALUES ('blob', X'6279746573');
PRAGMA application_id = 0x50657264;
PRAGMA user_version = 1;
COMMIT;
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of version 1."""
    file = tmp_path / "perdure.db"
    with database(file) as connection:
        connection.executescript(VERSION_1)
    return file


def version(file: Path) -> int:
    with database(file) as connection:
        (found,) = connection.execute("PRAGMA user_version").fetchone()
        return int(found)


async def test_a_file_of_version_1_is_upgraded_with_all_that_is_in_it(file: Path) -> None:
    store = SqliteStore(file, Clock())
    assert version(file) == VERSION
    ended, pending, waiting, running = await store.heads()
    assert [head.key for head in (ended, pending, waiting, running)] == [Key("b\0", "ship", "done"), key("🐘"), key("a\0b"), key("1")]
    assert (ended.status, ended.ended_at_s, ended.version, ended.root) == ("completed", 1e9, 1, ended.key)
    assert (pending.status, pending.mail_at_s, pending.program) == ("pending", 1e9, "order")
    assert (waiting.wake_at_s, waiting.root, waiting.holder) == (1e9 + 30, key("1"), None)
    assert (running.holder, running.version, running.program) == ("one", 2, "order@1")
    assert await store.read(key("1")) == Log(running, (b"two events",))
    assert await store.read(ended.key) == Log(ended, (b"\0\xff",))
    assert [(mail.number, mail.key, mail.deliveries) for mail in await store.mail(queue())] == [(5, "work", 1), (6, "later", 0)]
    assert [mail.key for mail in await store.mail(key("never"))] == ["letter"]
    assert (await store.blob("blob"), (await store.moment()).epoch) == (b"bytes", 2)
    assert await store.heads(Filter(id_prefix="a\0", workflow="order")) == [waiting]
    await store.renew("two", 60)
    claimed = await store.claim(Claim(holder="two", epoch=2, programs=frozenset(["order", "order@1"]), queues=frozenset(["pay"])))
    assert [assignment.head.key for assignment in claimed.executions] == [key("1"), key("🐘")], "who held it is dead"
    assert [mail.deliveries for mail in claimed.work] == [2]
    await store.close()


def test_an_upgraded_file_has_the_same_tables_as_a_new_one(file: Path, tmp_path: Path) -> None:
    assert upgrade(file) == [f"version {step.version}: {step.title}" for step in STEPS]
    assert upgrade(file) == []
    asyncio.run(SqliteStore(tmp_path / "new.db").close())

    def tables(of: Path) -> set[tuple[str, str]]:
        with database(of) as connection:
            rows = connection.execute("SELECT name, replace(sql, ' STRICT', '') FROM sqlite_master WHERE sql IS NOT NULL")
            return {(name, " ".join(sql.split())) for name, sql in rows}

    assert tables(file) == tables(tmp_path / "new.db")
    assert check(file).damage == ()
    assert not file.with_name("perdure.db.lock").exists()


def test_a_file_that_a_process_of_version_1_has_open_stays_as_it_is(file: Path) -> None:
    lock = os.open(f"{file}.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    for attempt in (SqliteStore, upgrade):
        with pytest.raises(
            StoreError, match=r"must be upgraded, and a process of an older Perdure has it open; end all that use it, and run `perdure db upgrade`"
        ):
            attempt(file)
    assert version(file) == 1
    os.close(lock)
    assert len(upgrade(file)) == len(STEPS)


def test_a_file_that_other_processes_have_open_stays_as_it_is_and_they_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "perdure.db"
    monkeypatch.setattr(sqlite_opening, "STEPS", (*STEPS, Step(VERSION + 1, "a next version", lambda connection: None)))
    monkeypatch.setattr(sqlite_opening, "VERSION", VERSION + 1)
    with Child(file) as child:
        child.ask("store.renew('one', 60)")
        with pytest.raises(StoreError, match=f"process {child.pid} has it open"):
            upgrade(file)
        assert version(file) == VERSION
    assert upgrade(file) == [f"version {VERSION + 1}: a next version"]


async def test_a_store_whose_file_is_upgraded_under_it_says_so(file: Path) -> None:
    store = SqliteStore(file, synchronous="OFF")
    with database(file) as connection:
        connection.execute("UPDATE meta SET version = version + 1")
    with pytest.raises(StoreError, match=rf"was upgraded while it was open \(its tables are of version {VERSION + 1} now, known here is {VERSION}\)"):
        await store.renew("one", 60)
    await store.close()


def test_a_step_that_fails_leaves_the_version_before(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(connection: sqlite3.Connection) -> None:
        connection.execute("DROP TABLE heads")
        raise sqlite3.OperationalError("planted")

    with database(file) as connection:
        before = [*connection.iterdump()]
    monkeypatch.setattr(sqlite_opening, "STEPS", (Step(2, "fail", fail),))
    with pytest.raises(StoreError, match="planted"):
        upgrade(file)
    with database(file) as connection:
        assert [*connection.iterdump()] == before
    assert version(file) == 1


STOPPED_IN_THE_MIDDLE = """
import sys, time
from pathlib import Path
from perdure.stores.sqlite import opening as sqlite_opening
from perdure.stores.sqlite.schema import STEPS

def stand_still(connection):
    STEPS[0].carry_out(connection)
    print("done, but not committed", flush=True)
    sys.stdin.read()

sqlite_opening.STEPS = (STEPS[0]._replace(carry_out=stand_still),)
sqlite_opening.upgrade(Path(sys.argv[1]))
"""


def test_an_upgrade_that_is_killed_leaves_the_version_before_and_another_waits_for_it(file: Path) -> None:
    command = [sys.executable, "-c", STOPPED_IN_THE_MIDDLE, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None and first.stdout.readline() == "done, but not committed\n"
        upgrading = "import sys; from pathlib import Path; from perdure.stores.sqlite.opening import upgrade; print(upgrade(Path(sys.argv[1])))"
        with subprocess.Popen([sys.executable, "-c", upgrading, str(file)], stdout=subprocess.PIPE, text=True) as second:
            until(lambda: f"{file}.lock" in opened_by(second.pid), "the second waits for the lock")
            assert version(file) == 1
            first.send_signal(signal.SIGKILL)
            assert second.communicate()[0].startswith("['version 2: ")
    assert version(file) == VERSION


def opened_by(pid: int) -> set[str]:
    names = set()
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # It was closed meanwhile.
            names.add(str(each.readlink()))
    return names
