"""Everything in a file is encrypted under the newest key, whoever uses it meanwhile, and however often this is killed."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from perdure.core.envelopes import OutgoingMessage
from perdure.core.errors import SealedPayload, StoreError, StoreUnavailable
from perdure.stores.encoded_store import EncodedStore
from perdure.stores.encryption import Encrypted, new_key, parse_keys
from perdure.stores.payload_codec import Compressed, PayloadCodec
from perdure.stores.protocol import Commit, Committed, Post
from perdure.stores.sqlite import rekey as rekeying
from perdure.stores.sqlite import write_lock_queue
from perdure.stores.sqlite.backup import back_up
from perdure.stores.sqlite.database_setup import check_database
from perdure.stores.sqlite.rekey import KeyUse, key_uses, rekey
from perdure.stores.sqlite.store import SqliteStore
from tests.stores.sqlite import planted_table_version
from tests.stores.sqlite.store_processes import WAIT_S, database, key, message, queue, several, step, tell, until

pytest.importorskip("cryptography", reason="encryption needs the package cryptography: pip install 'perdure[crypto]'")

OLD, NEW = {"old": parse_keys(f"x:{new_key()}")["x"]}, {"new": parse_keys(f"x:{new_key()}")["x"]}
SECRET = b"kanarienvogel"


def blob(number: int) -> tuple[str, bytes]:
    payload = SECRET + b"%d " % number * 1000
    return sha256(payload).hexdigest(), payload


async def fill(file: Path, codec: PayloadCodec | None, executions: int = 20, rows: int = 5) -> None:
    """Executions, one of them compacted, with mail and blobs."""
    inner = SqliteStore(file, synchronous="OFF")
    store = inner if codec is None else EncodedStore(inner, codec)
    changes: list[Commit | Post] = [step(each, version, row=SECRET + b"%d" % version) for each in several(executions) for version in range(rows)]
    changes += [Post(messages=(message(queue(), f"{SECRET!r} {number}"),), blobs=(blob(number),)) for number in range(executions)]
    changes += [step(key("0"), rows, row=b"last", compacted=SECRET + b" compacted")]
    assert all(isinstance(answer, Committed) for answer in await store.commit(changes))
    await inner.close()


async def content(file: Path, codec: PayloadCodec | None, blobs: int = 20) -> list[Any]:
    inner = SqliteStore(file, synchronous="OFF")
    store = inner if codec is None else EncodedStore(inner, codec)
    found: list[Any] = [await store.read(head.key) for head in await store.heads()]
    found += [await store.messages(queue()), [await store.blob(blob(number)[0]) for number in range(blobs)]]
    await inner.close()
    return found


@pytest.mark.slow
async def test_everything_comes_under_the_newest_key_whatever_it_was_under_before(file: Path) -> None:
    await fill(file, None)
    seen = await content(file, None)
    assert key_uses(file) == [KeyUse(None, 97, 20, 20)]
    told: list[tuple[str, int, int]] = []
    done = rekey(file, Encrypted(OLD, Compressed()), lambda *progress: told.append(progress))
    assert (done.done, done.wiped, done.left, done.refused) == (137, True, 0, ())
    assert [progress for progress in told if progress[1] == progress[2]][:3] == [("log", 97, 97), ("mail", 20, 20), ("blob", 20, 20)]
    assert key_uses(file) == [KeyUse("old", 97, 20, 20)]
    assert await content(file, Encrypted(OLD, required=True)) == seen
    assert rekey(file, Encrypted(NEW | OLD)).done == 137
    assert rekey(file, Encrypted(NEW | OLD)).done == 0
    assert await content(file, Encrypted(NEW, required=True)) == seen
    assert check_database(file).damage == ()
    with database(file) as connection:
        names = {name for (name,) in connection.execute("SELECT sha256 FROM blobs")}
    assert names == {Encrypted(NEW).names(blob(number)[0])[0] for number in range(20)}


def raw(*files: Path) -> bytes:
    return b"".join(each.read_bytes() for each in files)


@pytest.mark.slow
async def test_what_was_plain_is_wiped_from_the_file_and_its_log(file: Path) -> None:
    await fill(file, None)
    reader = SqliteStore(file)
    await reader.heads()
    assert SECRET in raw(file, file.with_name("perdure.db-wal"))
    assert rekey(file, Encrypted(OLD)).wiped
    assert blob(1)[1][:30] not in raw(file, file.with_name("perdure.db-wal"))
    back_up(file, file.with_name("backup.db"))
    assert blob(1)[1][:30] not in raw(file.with_name("backup.db"))
    await reader.close()


async def test_what_was_deleted_before_is_wiped_by_making_the_file_anew(file: Path) -> None:
    store = SqliteStore(file, synchronous="OFF")
    await store.commit([Post(messages=(message(queue(), "kept"), *(OutgoingMessage(queue(), str(number), SECRET * 20) for number in range(200))))])
    await store.close()
    with database(file) as connection:
        connection.execute("PRAGMA secure_delete = OFF")  # as SQLite is, unless who built it had another idea
        connection.execute("DELETE FROM mail WHERE key <> 'kept'")
    rekey(file, Encrypted(OLD))
    assert SECRET * 10 in raw(file)
    assert rekey(file, Encrypted(OLD), vacuum=True).wiped
    assert SECRET not in raw(file)
    assert len((await content(file, Encrypted(OLD), 0))[0]) == 1


async def test_what_can_not_be_read_stays_as_it_is_and_is_told(file: Path) -> None:
    await fill(file, Encrypted(OLD), 3)
    with database(file) as connection:
        (damaged,) = connection.execute("SELECT row FROM log WHERE rowid = 7").fetchone()
        damaged = damaged[:-1] + bytes((damaged[-1] ^ 1,))
        connection.execute("UPDATE log SET row = ? WHERE rowid = 7", (damaged,))
    done = rekey(file, Encrypted(NEW | OLD))
    assert (done.left, len(done.refused)) == (1, 1) and "was changed since it was written" in done.refused[0]
    with database(file) as connection:
        assert connection.execute("SELECT row FROM log WHERE rowid = 7").fetchone() == (damaged,)
    done = rekey(file, Encrypted({"other": NEW["new"]}))
    assert done.done == 0 and done.left == len(done.refused) > 1


async def test_where_encryption_is_required_what_is_plain_is_not_taken_for_true(file: Path) -> None:
    await fill(file, None, 2)
    done = rekey(file, Encrypted(OLD, required=True))
    assert done.done == 0 and len(done.refused) == done.left and "is not encrypted, which is required here" in done.refused[0]


async def test_what_an_engine_writes_between_reading_and_replacing_is_not_overwritten(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await fill(file, Encrypted(OLD), 3)
    with database(file) as other:
        begin = write_lock_queue.begin_write

        def changed_before(*given: Any) -> None:
            other.execute("UPDATE log SET row = x'01' WHERE rowid = 7")
            other.execute("DELETE FROM mail WHERE number = 2")
            begin(*given)

        monkeypatch.setattr(rekeying, "begin_write", changed_before)
        monkeypatch.setattr(rekeying, "PASSES_MAX", 1)
        done = rekey(file, Encrypted(NEW | OLD))
        assert other.execute("SELECT row FROM log WHERE rowid = 7").fetchone() == (b"\x01",)
        assert other.execute("SELECT count(*) FROM mail").fetchone() == (2,)
        assert done.left == 1


@pytest.mark.slow
async def test_a_blob_is_found_while_it_gets_its_new_name(file: Path) -> None:
    await fill(file, Encrypted(OLD), 1)
    store = EncodedStore(SqliteStore(file), Encrypted(NEW | OLD))
    found = store.inner.blob

    async def renamed_meanwhile(name: str) -> bytes | None:
        first = await found(name)
        if first is None:
            rekey(file, Encrypted(NEW | OLD))
        return first

    store.inner.blob = renamed_meanwhile  # type: ignore[method-assign, assignment]  # between the first name and the second
    assert await store.blob(blob(0)[0]) == blob(0)[1]
    assert await store.blob("0" * 64) is None
    await store.close()


@pytest.mark.slow
async def test_what_engines_with_an_older_first_key_write_meanwhile_is_told_of(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await fill(file, Encrypted(OLD), 3)
    store, version = EncodedStore(SqliteStore(file, synchronous="OFF"), Encrypted(OLD | NEW)), 0

    def written(*_: object) -> None:
        nonlocal version
        thread = threading.Thread(target=lambda: asyncio.run(write(version)))
        thread.start()
        thread.join()
        version += 1

    async def write(version: int) -> None:
        await store.commit([step(key("busy"), version)])

    done = rekey(file, Encrypted(NEW | OLD), written)
    assert done.left > 0 and done.refused == ()
    await store.close()
    assert rekey(file, Encrypted(NEW | OLD)).left == 0


@pytest.mark.slow
async def test_a_file_of_another_version_or_one_that_is_locked_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoreError, match="there is no file"):
        key_uses(file)
    await fill(file, Encrypted(OLD), 1)
    monkeypatch.setattr(rekeying, "WAIT_MAX_S", 0.1)
    with database(file) as connection:
        connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="is locked"):
            rekey(file, Encrypted(NEW | OLD))
        connection.execute("ROLLBACK")
    planted_table_version.plant(monkeypatch)
    for refused in (lambda: key_uses(file), lambda: rekey(file, Encrypted(NEW | OLD))):
        with pytest.raises(StoreError, match="perdure db upgrade"):
            refused()


# Killed again and again, while an engine of another process writes.

REKEY = """
import sys
from pathlib import Path
from perdure.stores.encryption import Encrypted, parse_keys
from perdure.stores.sqlite import rekey as rekeying
rekeying.BATCH_ROWS = 5
print("begun", flush=True)
rekeying.rekey(Path(sys.argv[1]), Encrypted(parse_keys(sys.stdin.readline())))
print("done", flush=True)
"""

WRITER = """
import asyncio, sys
from hashlib import sha256
from perdure.stores.protocol import Committed
from tests.stores.sqlite.store_processes import *
from perdure.stores.encoded_store import EncodedStore
from perdure.stores.encryption import Encrypted, parse_keys

async def main():
    store = EncodedStore(SqliteStore(sys.argv[1], synchronous="OFF"), Encrypted(parse_keys(sys.stdin.readline())))
    version = 0
    while True:
        payload = b"blob %d" % version * 500
        name = sha256(payload).hexdigest()
        sends, compacted = (message(queue(), f"mail {version}"),), b"compacted %d" % version if version % 50 == 49 else None
        (answer,) = await store.commit([step(key("busy"), version, row=b"row %d" % version, messages=sends, blobs=((name, payload),), compacted=compacted)])
        assert isinstance(answer, Committed), answer
        version = answer.version
        log = await store.read(key("busy"))
        whole = max(version // 50 * 50 - 1, 0)
        expected = [b"compacted %d" % whole] * (version >= 50) + [b"row %d" % each for each in range(whole, version)]
        assert list(log.payloads) == expected, (log.payloads, expected)
        assert await store.blob(name) == payload
        print(version, flush=True)

asyncio.run(main())
"""


def python(script: str, file: Path, keys: dict[str, bytes]) -> "subprocess.Popen[str]":
    """A process that is told the keys on its standard input."""
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3]
    )
    assert process.stdin is not None
    process.stdin.write(",".join(f"{id}:{b64encode(its).decode()}" for id, its in keys.items()) + "\n")
    process.stdin.flush()
    return process


def lines(process: "subprocess.Popen[str]") -> Iterator[str]:
    assert process.stdout is not None
    return iter(process.stdout)


@contextmanager
def writing(file: Path) -> Iterator[list[int]]:
    """A process that commits all the time, and to which version it has come."""
    writer, acknowledged = python(WRITER, file, NEW | OLD), [0]
    reading = threading.Thread(target=lambda: acknowledged.extend(map(int, lines(writer))))
    reading.start()
    try:
        until(lambda: acknowledged[-1] > 0, "a commit")
        yield acknowledged
        before = acknowledged[-1]
        until(lambda: acknowledged[-1] > before, "a commit at the end")
        assert writer.poll() is None
    finally:
        writer.kill()
        reading.join(WAIT_S)
        writer.communicate(timeout=WAIT_S)


@pytest.mark.prove
async def test_killed_again_and_again_it_is_resumed_and_engines_lose_nothing(file: Path) -> None:
    await fill(file, Encrypted(OLD), 60, 10)
    seen = await content(file, Encrypted(OLD), 60)
    draw = random.Random(7)
    left = [under_old(file)]
    with writing(file) as acknowledged:
        while left[-1] and len(left) < 9:
            process = python(REKEY, file, NEW | OLD)
            assert next(lines(process)) == "begun\n"
            await asyncio.sleep(draw.uniform(0.0, 0.4))
            os.kill(process.pid, signal.SIGKILL)
            process.communicate(timeout=WAIT_S)
            left.append(under_old(file))
            assert left[-1] <= left[-2]
        process = python(REKEY, file, NEW | OLD)
        assert process.communicate(timeout=WAIT_S)[0] == "begun\ndone\n"
    assert {use.key_id for use in key_uses(file)} == {"new"} and len({*left}) > 2
    *logs, messages, blobs = await content(file, Encrypted(NEW, required=True), 60)
    (busy,) = [log for log in logs if log.head.key.id == "busy"]
    assert [log for log in logs if log is not busy] == seen[:-2] and blobs == seen[-1]
    assert messages[: len(seen[-2])] == seen[-2] and len(messages) == len(seen[-2]) + busy.head.version
    assert busy.head.version >= acknowledged[-1]
    assert check_database(file).damage == ()
    tell(f"left after each kill: {left}; {busy.head.version} commits of another process meanwhile")


def under_old(file: Path) -> int:
    return sum(use.total for use in key_uses(file) if use.key_id == "old")


@pytest.mark.slow
async def test_a_reader_that_holds_an_old_moment_sees_the_old_payloads(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_lock_queue, "EMPTY_WAL_MAX_S", 0.2)
    await fill(file, Encrypted(OLD), 2)
    with database(file) as reader:
        reader.execute("BEGIN")
        before = reader.execute("SELECT row FROM log ORDER BY rowid").fetchall()
        done = rekey(file, Encrypted(NEW | OLD))
        assert not done.wiped and done.left == 0
        assert reader.execute("SELECT row FROM log ORDER BY rowid").fetchall() == before
        reader.execute("ROLLBACK")
    with pytest.raises(SealedPayload):
        await content(file, Encrypted(OLD))
