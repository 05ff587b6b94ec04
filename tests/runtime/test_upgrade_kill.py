"""Claims about kill -9 of processes that upgrade an old file: it is of the version before or of the one after, and whole."""

import random
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from perdure.stores.sqlite.database_setup import check_database, upgrade_database
from perdure.stores.sqlite.table_schema import SCHEMA_VERSION
from tests.corpus.make_files import newest_file
from tests.runtime.processes import ProcessDirectory, RealProcess, record, seeded, until
from tests.stores.sqlite import planted_table_version
from tests.stores.sqlite.planted_table_version import NEXT

SLEEPERS = 15_000
"""How many executions an old file has, so that upgrading it takes a while."""

KILLS, MANY_KILLS, KILL_WITHIN_S = 4, 100, 0.5
TRIES = 5

GROW = """
    INSERT INTO {table} ({columns}) SELECT {values} FROM {table} JOIN (
        WITH RECURSIVE counted(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < {count}) SELECT n FROM counted) WHERE {which}
"""
COLUMNS = "tenant, workflow, program, root, version, wake_at_s, status, created_at_s"
HEADS = "SELECT address, program, root, version, holder, wake_at_s, mail_at_s, status, created_at_s, ended_at_s FROM heads ORDER BY number"
OTHERS = (
    "SELECT * FROM log ORDER BY execution, version",
    "SELECT number, address, key, body, due_at_s, queue, holder, deliveries, unclaimed FROM mail ORDER BY number",
    "SELECT * FROM blobs ORDER BY sha256",
)


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ProcessDirectory]:
    """A stage with a file of this version of the tables, many executions sleeping in it, whose processes know the next one."""
    planted_table_version.plant(monkeypatch)
    with ProcessDirectory(tmp_path) as stage:
        renew(stage)
        yield stage


def renew(stage: ProcessDirectory) -> None:
    """Have the old file there, and nothing else."""
    for path in stage.directory.glob("perdure.db-*"):
        path.unlink()
    stage.file.write_bytes(newest_file())
    grown = {"table": "heads", "count": SLEEPERS, "which": "address LIKE '%sleeping%'"}
    with database(stage.file) as old:
        old.execute("BEGIN")
        old.execute(GROW.format(columns=f"address, {COLUMNS}", values=f"""'["' || n || ' more","sleeping","corpus"]', {COLUMNS}""", **grown))
        old.execute("INSERT INTO log SELECT heads.number, 2, log.row FROM heads JOIN log ON log.execution = 3 WHERE heads.address LIKE '% more%'")
        old.execute("COMMIT")


@contextmanager
def database(file: Path) -> Iterator[sqlite3.Connection]:
    """SQLite's own connection to the file."""
    with closing(sqlite3.connect(file, isolation_level=None, timeout=10)) as connection:
        yield connection


def content(file: Path) -> list[Any]:
    """All that every version of the tables has."""
    with database(file) as read:
        return [read.execute(statement).fetchall() for statement in (HEADS, *OTHERS)]


def version(file: Path) -> int:
    """The version of the tables."""
    with database(file) as read:
        (found,) = read.execute("PRAGMA user_version").fetchone()
    return int(found)


def opening(stage: ProcessDirectory, draw: random.Random) -> RealProcess:
    """A process that is in the middle of opening the file, at a drawn moment."""
    process = stage.member("opener")
    process.until_said("opening")
    time.sleep(draw.uniform(0, KILL_WITHIN_S))
    return process


def killed_again_and_again(stage: ProcessDirectory, seed: int, kills: int) -> None:
    """Kill those who open an old file, and look at what they leave."""
    before = content(stage.file)
    left = [0, 0]
    with seeded(seed) as draw:
        for _ in range(kills):
            opening(stage, draw).send(signal.SIGKILL)
            found = version(stage.file)
            assert found in (SCHEMA_VERSION, NEXT) and check_database(stage.file).damage == ()
            left[found == NEXT] += 1
            if found == NEXT:
                assert content(stage.file) == before
                renew(stage)
        upgrade_database(stage.file)
        assert (version(stage.file), content(stage.file)) == (NEXT, before)
    record(f"{kills} processes killed while they opened an old file of {len(before[0])} executions: {left[0]} left it old, {left[1]} upgraded")


@pytest.mark.slow
def test_killed_at_any_moment_of_an_upgrade_nothing_is_lost_and_the_next_does_it_again(stage: ProcessDirectory) -> None:
    killed_again_and_again(stage, 7, KILLS)


@pytest.mark.prove
def test_killed_at_many_moments_of_an_upgrade_nothing_is_lost(stage: ProcessDirectory) -> None:
    killed_again_and_again(stage, 8, MANY_KILLS)


@pytest.mark.prove
def test_who_waits_for_an_upgrade_does_it_if_the_other_is_killed(stage: ProcessDirectory) -> None:
    before = content(stage.file)
    first, second = caught_upgrading(stage)
    first.send(signal.SIGKILL)
    second.until_said("opened")
    assert (version(stage.file), content(stage.file)) == (NEXT, before)


def caught_upgrading(stage: ProcessDirectory) -> tuple[RealProcess, RealProcess]:
    """Of two processes that open an old file, the one that is upgrading it, and the other; on a busy machine that may be over before it is seen."""
    for _ in range(TRIES):
        openers = [stage.member("opener") for _ in range(2)]
        for opener in openers:
            opener.until_said("opening")
        until(lambda: upgrading(stage.file) or version(stage.file) == NEXT, "somebody upgrades")
        at_work = upgrading(stage.file)
        if at_work in {opener.pid for opener in openers}:
            first, second = sorted(openers, key=lambda opener: opener.pid != at_work)
            return first, second
        for opener in openers:
            opener.send(signal.SIGKILL)
        renew(stage)
    raise AssertionError(f"nobody was seen upgrading in {TRIES} tries")


@pytest.mark.prove
def test_several_that_open_an_old_file_at_once_all_get_in(stage: ProcessDirectory) -> None:
    openers = [stage.member("opener") for _ in range(3)]
    for opener in openers:
        opener.until_said("opened")


def upgrading(file: Path) -> int | None:
    """Which process has the lock of those that upgrade, as the kernel tells."""
    path = file.with_name(f"{file.name}.lock")
    number = path.stat().st_ino if path.exists() else 0
    fields = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return next((int(line[4]) for line in fields if line[1] == "FLOCK" and line[5].endswith(f":{number}")), None)
