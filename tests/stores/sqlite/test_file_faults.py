"""The SQLite store on file systems that are full or read-only, with files that are taken away or damaged, and locked out by others: all of it real.

Whoever asks is told what to do; and when the fault is gone, a running engine goes on by itself, with nothing lost and nothing done twice.
"""

import asyncio
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from perdure import Context, step, step_info, workflow
from perdure.core import events as e
from perdure.core import log_format, messages
from perdure.core.envelopes import NewExecution, OutgoingMessage
from perdure.core.errors import StoreError, StoreUnavailable
from perdure.core.paths import Key, path_text
from perdure.core.program import program_name
from perdure.core.replay import fold_events
from perdure.runtime.engine import Engine
from perdure.stores.protocol import Committed, Post, StoredLog
from perdure.stores.sqlite import group_commit as sqlite_writer
from perdure.stores.sqlite.database_file import DatabaseFile
from perdure.stores.sqlite.group_commit import FILE_CHECK_S
from perdure.stores.sqlite.store import SqliteStore
from tests.stores.sqlite.store_processes import WAIT_S, Child, database, key, run, several, tell
from tests.stores.sqlite.store_processes import step as one_step

pytestmark = pytest.mark.slow

BALLAST_BYTES = 6 * 2**20
DISK_BYTES = BALLAST_BYTES + 2 * 2**20
GAP_MAX_S = 1.0
"""How long a loop on a busy machine may stand still for reasons of its own."""

tries: Counter[tuple[str, str, int]] = Counter()


@step
async def fill(number: int) -> str:
    """Returns some 100 KB."""
    info = step_info()
    tries[info.execution.id, path_text(info.path), info.attempt] += 1
    return f"{number:05d}" * 20_000


@step
async def double(number: int) -> int:
    info = step_info()
    tries[info.execution.id, path_text(info.path), info.attempt] += 1
    return 2 * number


@workflow
async def filling(ctx: Context, number: int) -> int:
    """Two steps, of which the first takes much room."""
    size = len(await ctx.step(fill, number))
    return size + await ctx.step(double, number)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system of its own."""
    directory = tmp_path / "disk"
    directory.mkdir()
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root can mount a small file system")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", directory], capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "-l", directory], check=True)


@pytest.fixture(autouse=True)
def _nothing_tried() -> None:
    tries.clear()


def started(number: int) -> Post:
    """The mail that starts an execution."""
    to = Key("default", "filling", str(number))
    start = messages.encode_message(messages.StartMessage(1, filling.code.codec.encode_args((number,), {}, "input"), 7))
    return Post(messages=(OutgoingMessage(to, f"start:{to}", start, opens=NewExecution(program_name("filling", 0), to)),))


@asynccontextmanager
async def engine_on(store: SqliteStore) -> AsyncIterator["asyncio.Task[None]"]:
    """An engine that runs, in good order, until the end of the block."""
    engine = Engine(store, [filling.code], poll_s=0.1, idle_s=0.5)
    running = asyncio.create_task(engine.run())
    try:
        yield running
    finally:
        engine.stop()
        with suppress(StoreError):
            await running


async def ended(store: SqliteStore, keys: list[Key]) -> None:
    """Wait until all have ended; how, must be right, and no try may have run twice."""
    ends_s = time.monotonic() + WAIT_S
    for number, its in enumerate(keys):
        while (found := await store.read(its)) is None or found.head.ended_at_s is None:
            assert time.monotonic() < ends_s, f"{its} did not end"
            await asyncio.sleep(0.02)
        events = log_format.decode_rows(found.payloads)
        settled = [event.path for event in events if isinstance(event, e.SettledEvent)]
        assert len(settled) == len(set(settled)) == 2
        end = fold_events(its, events, found.head.root).ended
        assert end is not None and end.status == "completed", f"{number}: {end}"
    assert set(tries.values()) <= {1}, tries


def is_well(file: Path) -> bool:
    with database(file) as found:
        return bool(found.execute("PRAGMA integrity_check").fetchall() == [("ok",)])


# Disks.


async def test_on_a_full_disk_what_was_acknowledged_stays_and_the_engine_goes_on_when_there_is_room(disk: Path) -> None:
    ballast = occupied(disk)
    store = SqliteStore(disk / "perdure.db")
    acknowledged: list[Key] = []
    async with engine_on(store) as running:
        with pytest.raises(StoreUnavailable, match=r"there is no room for .*perdure\.db.*; free some space on its disk"):
            await start_on(store, acknowledged)
        await asyncio.sleep(0.3)
        assert not running.done()
        ballast.unlink()  # it is in memory
        await ended(store, acknowledged)
    await store.close()
    tell(f"{len(acknowledged)} executions until the disk was full")
    assert is_well(disk / "perdure.db")


async def start_on(store: SqliteStore, acknowledged: list[Key]) -> None:
    """Start one execution after another."""
    for number in range(1_000):
        await store.commit([started(number)])
        acknowledged.append(Key("default", "filling", str(number)))
        await asyncio.sleep(0.005)


def occupied(disk: Path) -> Path:
    """Most of the room there is, taken."""
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(BALLAST_BYTES))
    return ballast


def fill_up(disk: Path) -> None:
    """Take all the room there is."""
    with suppress(OSError), (disk / "rest").open("wb", buffering=0) as rest:
        while rest.write(bytes(4096)):
            pass


def test_a_file_that_is_to_be_made_on_a_full_disk_is_refused_and_made_when_there_is_room(disk: Path) -> None:
    (disk / "store").mkdir()
    fill_up(disk)
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="there is no room"):
            SqliteStore(disk / "store" / "perdure.db")
    (disk / "rest").unlink()
    asyncio.run(SqliteStore(disk / "store" / "perdure.db").close())


def test_a_file_that_is_to_be_opened_on_a_full_disk_keeps_what_is_in_it(disk: Path) -> None:
    file = disk / "perdure.db"
    keys = several(20)
    asyncio.run(commit(file, keys))
    fill_up(disk)
    with suppress(StoreUnavailable):
        store = SqliteStore(file)
        assert len(asyncio.run(store.heads())) == len(keys)
        asyncio.run(store.close())
    (disk / "rest").unlink()
    assert asyncio.run(read_all(file, keys)) == len(keys)


def test_a_disk_that_is_read_only_is_said_to_be_so_and_the_file_opens_when_it_is_not(disk: Path) -> None:
    file = disk / "perdure.db"
    asyncio.run(commit(file, several(3)))
    content = file.read_bytes()
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    for path, advice in (
        (file, "let this user write the file and its directory"),
        (disk / "other.db", "let this user"),
        (disk / "new" / "one.db", "name another"),
    ):
        with pytest.raises(StoreUnavailable, match=advice):
            SqliteStore(path)
    assert file.read_bytes() == content
    subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
    assert asyncio.run(read_all(file, several(3))) == 3


async def commit(file: Path, keys: list[Key], rows: int = 1) -> None:
    """Make a file with these executions, and close it."""
    store = SqliteStore(file, synchronous="OFF")
    for version in range(rows):
        answers = await store.commit([one_step(each, version, row=row_of(each, version)) for each in keys])
        assert all(isinstance(answer, Committed) for answer in answers)
    await store.close()


def row_of(its: Key, version: int) -> bytes:
    return f"{its.id}:{version};".encode() * 40


async def read_all(file: Path, keys: list[Key]) -> int:
    """Open the file, read these executions, and return how many of them are as they were written. The rest is to be said clearly.

    Raises:
        StoreError: the file can't be opened.
    """
    store = SqliteStore(file)
    well = 0
    try:
        for each in keys:
            try:
                found = await store.read(each)
            except StoreError as error:
                advised(error, "restore it from a backup", "restore the database from a backup")
                continue
            well += found is not None and as_written(each, found)
    finally:
        await store.close()
    return well


def advised(error: StoreError, *advice: str) -> None:
    """It says one of these."""
    assert any(each in str(error) for each in advice), error


def as_written(its: Key, found: StoredLog) -> bool:
    return list(found.payloads) == [row_of(its, version) for version in range(len(found.payloads))] and len(found.payloads) == found.head.version


# Files that are taken away, and rights.


def move(file: Path, to: Path) -> None:
    file.replace(to)
    time.sleep(2 * FILE_CHECK_S)


async def test_an_engine_ends_with_a_clear_error_when_its_file_is_taken_away_and_the_next_goes_on_when_it_is_back(file: Path) -> None:
    store = SqliteStore(file)
    async with engine_on(store) as running:
        await store.commit([started(0)])
        move(file, file.with_name("elsewhere"))
        with pytest.raises(StoreError, match=r"was deleted or replaced while it was open.*put the original file back"):
            await asyncio.wait_for(running, WAIT_S)
    move(file.with_name("elsewhere"), file)
    async with engine_on(store):
        await ended(store, [Key("default", "filling", "0")])
    await store.close()
    assert is_well(file)


async def test_a_directory_that_may_not_be_entered_any_more_stops_an_engine_for_that_long(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody who has no rights")
    for each in (tmp_path, *tmp_path.parents[:-1]):
        each.chmod(each.stat().st_mode | 0o711)  # quick
    directory = tmp_path / "store"
    directory.mkdir()
    os.chown(directory, 65534, -1)
    os.seteuid(65534)
    try:
        store = SqliteStore(directory / "perdure.db")
        async with engine_on(store) as running:
            directory.chmod(0o000)
            await asyncio.sleep(2 * FILE_CHECK_S)
            with pytest.raises(StoreUnavailable, match=r"can't be opened \(Permission denied\); name another file with db="):
                await store.commit([started(0)])
            await asyncio.sleep(0.3)
            assert not running.done()
            directory.chmod(0o700)
            await store.commit([started(0)])
            await ended(store, [Key("default", "filling", "0")])
        await store.close()
    finally:
        os.seteuid(0)


class OnANetwork(sqlite3.Connection):
    """A connection through a file system on which processes can share no memory, as on a network's."""

    def __init__(self, database: str, *arguments: Any, **settings: Any) -> None:
        super().__init__(f"{database}&vfs=unix-dotfile", *arguments, **settings)


def test_where_processes_cannot_share_memory_that_is_said(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DatabaseFile, "factory", OnANetwork)
    with pytest.raises(StoreUnavailable, match=r"can't be written ahead .*; put it on a local disk"):
        SqliteStore(file)
    monkeypatch.undo()
    asyncio.run(SqliteStore(file).close())


NO_MEMORY = """
import asyncio, sys
from perdure.core.errors import StoreUnavailable
from tests.stores.sqlite.store_processes import *

async def main():
    store = SqliteStore(sys.argv[1])
    await store.commit([step(key("before"))])
    store._writer._connection.execute("PRAGMA hard_heap_limit = 2000000").fetchone()
    for changes in ([step(key("1"), row=bytes(8_000_000))], [step(key("2"), row=bytes(8_000_000)), step(key("3"))]):
        try:
            await store.commit(changes)
        except StoreUnavailable as error:
            print(error)
    (answer,) = await store.commit([step(key("4"))])
    print(type(answer).__name__, [head.key.id for head in await store.heads()])
    await store.close()

asyncio.run(main())
"""


def test_a_process_without_memory_is_told_so_and_goes_on(file: Path) -> None:
    first, second, then = run(NO_MEMORY, file).splitlines()
    assert "no memory is left" in first and "give this machine more" in second
    assert then == "Committed ['4', 'before']"


# Damage.


PAGES = 60
KEYS = 150


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The content of a file in which all is well."""
    file = tmp_path_factory.mktemp("whole") / "perdure.db"
    asyncio.run(commit(file, several(KEYS), rows=4))
    content = file.read_bytes()
    assert len(content) > PAGES * 4096
    return content


def opened(file: Path, content: bytes, keys: list[Key]) -> int | None:
    """Open a file with this content: how many executions are as they were; None if it is refused, and left as it was."""
    file.write_bytes(content)
    try:
        return asyncio.run(read_all(file, keys))
    except StoreError as error:
        advised(error, "restore it from a backup", "restore the database from a backup", "name another file", "upgrade perdure")
        unchanged = file.read_bytes() == content
    assert unchanged
    return None


@pytest.mark.parametrize("size", [1, 15, 99, 100, 512, 4095, 4096, 4097, 8192, 0.3, 0.5, 0.9, -4096, -1])
def test_a_file_that_was_cut_off_is_refused_as_it_is_or_tells_nothing_that_is_wrong(file: Path, whole: bytes, size: float) -> None:
    end = int(len(whole) * size) if 0 < size < 1 else int(size)
    well = opened(file, whole[:end], several(KEYS))
    tell(f"cut to {len(whole[:end])} of {len(whole)} bytes: {'refused' if well is None else f'{well} executions are well'}")
    assert well is None or end < 0 or end > 4096 or end == 1, "SQLite takes a single byte for nothing"


def test_an_empty_file_is_a_new_one(file: Path) -> None:
    assert opened(file, b"", several(3)) == 0


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.prove) for seed in range(8, 300))])
def test_whatever_page_is_damaged_that_is_said_and_the_other_executions_can_be_read(file: Path, whole: bytes, seed: int) -> None:
    rng = random.Random(seed)
    content = bytearray(whole)
    page = rng.randrange(1, len(whole) // 4096)
    at = page * 4096 + rng.choice((0, rng.randrange(4096 - 64)))
    content[at : at + 64] = rng.choice((rng.randbytes(64), bytes(64), b"\xff" * 64))
    well = opened(file, bytes(content), several(KEYS))
    tell(f"seed {seed}: page {page} of {len(whole) // 4096} at {at % 4096}: {'refused' if well is None else f'{well} of {KEYS} executions are well'}")


@pytest.fixture(scope="module")
def left_behind(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a process that was killed, so that all is in the log that is written ahead."""
    file = tmp_path_factory.mktemp("left") / "perdure.db"
    with Child(file) as child:
        for version in range(10):
            child.ask(f"store.commit([step(key('1'), {version}, row={row_of(key('1'), version)!r})])")
        child.signal(signal.SIGKILL)
    return file.parent


@pytest.mark.parametrize("neighbour", ["wal", "shm"])
@pytest.mark.parametrize("how", ["empty", "cut", "halved", "garbled", "flipped", "gone"])
def test_what_is_left_of_a_damaged_log_is_a_beginning_of_it(tmp_path: Path, left_behind: Path, neighbour: str, how: str) -> None:
    directory = tmp_path / "copy"
    shutil.copytree(left_behind, directory)
    damaged = directory / f"perdure.db-{neighbour}"
    content = damaged.read_bytes()
    middle = len(content) // 2
    changed = {
        "empty": b"",
        "cut": content[:-1000],
        "halved": content[:middle],
        "garbled": b"\xa5" * len(content),
        "flipped": content[:middle] + bytes([content[middle] ^ 0xFF]) + content[middle + 1 :],
    }
    damaged.unlink() if how == "gone" else damaged.write_bytes(changed[how])
    store = SqliteStore(directory / "perdure.db")
    found = asyncio.run(store.read(key("1")))
    asyncio.run(store.close())
    assert found is None or as_written(key("1"), found)
    left = 0 if found is None else found.head.version
    tell(f"{neighbour} {how}: {left} of 10 events are left")
    assert left == 10 or neighbour == "wal"
    assert is_well(directory / "perdure.db")


# Locks.


@pytest.mark.parametrize("held_s", [0.5, pytest.param(3.0, marks=pytest.mark.prove)])
async def test_a_lock_that_another_process_holds_for_a_while_only_delays(file: Path, held_s: float) -> None:
    store = SqliteStore(file)
    with Child(file) as other:
        async with engine_on(store) as running:
            other.ask("store._writer._connection.execute('BEGIN IMMEDIATE') and None")
            asked = asyncio.create_task(store.commit([started(0)]))
            gap_s = await longest_gap(held_s)
            assert not asked.done() and not running.done()
            other.ask("store._writer._connection.execute('ROLLBACK') and None")
            await asked
            await ended(store, [Key("default", "filling", "0")])
    await store.close()
    tell(f"the longest gap of the loop: {gap_s * 1000:.0f} ms")
    assert gap_s < GAP_MAX_S


async def test_a_lock_that_is_held_for_too_long_is_said_to_be_so_with_who_may_hold_it_and_work_goes_on(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_writer, "WRITE_WAIT_MAX_S", 0.3)
    store = SqliteStore(file)
    with Child(file) as other:
        other.ask("store.renew('two', 60)")
        async with engine_on(store) as running:
            other.ask("store._writer._connection.execute('BEGIN IMMEDIATE') and None")
            watching = asyncio.create_task(longest_gap(1.0))
            for number in range(2):
                with pytest.raises(StoreUnavailable, match=rf"is locked by another program .*by process {other.pid}, .*end what writes to it, or wait"):
                    await store.commit([started(number)])
            gap_s = await watching
            assert not running.done()
            other.ask("store._writer._connection.execute('ROLLBACK') and None")
            await store.commit([started(0)])
            await ended(store, [Key("default", "filling", "0")])
    await store.close()
    tell(f"the longest gap of the loop: {gap_s * 1000:.0f} ms")
    assert gap_s < GAP_MAX_S


async def longest_gap(during_s: float) -> float:
    """How long the loop stands still at most."""
    began_s = before_s = time.monotonic()
    longest_s = 0.0
    while before_s - began_s < during_s:
        await asyncio.sleep(0.001)
        now_s = time.monotonic()
        longest_s, before_s = max(longest_s, now_s - before_s), now_s
    return longest_s
