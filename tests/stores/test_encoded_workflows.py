"""Workflows on a coded store go on as on any other; and what they say is in none of its files."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from perdure import Context, SealedPayload, step, workflow
from perdure.async_client import AsyncClient
from perdure.core import limits, messages
from perdure.core.envelopes import OutgoingMessage
from perdure.core.errors import BadValue, PerdureError, StepFailed, StoreUnavailable
from perdure.core.messages import TaskMessage
from perdure.core.paths import Key, QueueAddress
from perdure.runtime import quarantine
from perdure.runtime.engine import Engine
from perdure.runtime.holder import retry_with_backoff
from perdure.runtime.worker import Worker
from perdure.stores.configured_store import open_store
from perdure.stores.encoded_store import EncodedStore
from perdure.stores.encryption import Encrypted, new_key, parse_keys
from perdure.stores.memory import MemoryStore
from perdure.stores.payload_codec import Compressed
from perdure.stores.protocol import Post, Store
from perdure.stores.sqlite.backup import back_up
from perdure.stores.sqlite.database_setup import check_database
from perdure.stores.sqlite.store import SqliteStore
from perdure.sync_client import Client
from tests.hostile_values import EXCEPTION_SAMPLE, EXCEPTIONS, Hostile
from tests.stores.sqlite.store_processes import run

pytestmark = pytest.mark.slow

pytest.importorskip("cryptography", reason="encryption needs the package cryptography: pip install 'perdure[crypto]'")

OLD, NEW = parse_keys(f"old:{new_key()}"), parse_keys(f"new:{new_key()}")
SECRET = "kanarienvogel"


@step
def shouted(text: str) -> str:
    return f"{text}!" * 2


@step(queue="remote")
def whispered(text: str) -> str:
    return text * 10_000


@step
def fails(text: str) -> None:
    raise ValueError(text)


@workflow
async def telling(ctx: Context, text: str) -> str:
    heard = await ctx.listen("word")
    ctx.set("state", f"{text} {heard}")
    ctx.emit({"emitted": text})
    said = await ctx.step(shouted, text)
    whisper = await ctx.step(whispered, text)
    try:
        await ctx.step(fails, text)
    except StepFailed as error:
        ctx.set("error", str(error))
    await ctx.listen("end")
    return f"{said} {len(whisper)} {whisper}"


@workflow
async def failing(ctx: Context, text: str) -> None:
    raise ValueError(text)


def traces(directory: Path) -> Iterator[str]:
    """The files that say the secret."""
    for file in directory.rglob("*"):
        if file.is_file() and SECRET.encode() in file.read_bytes():
            yield file.name


async def told(store: Store, directory: Path) -> None:
    """Run workflows that say the secret everywhere, and make a backup in the middle."""
    engine = Engine(store, [telling.code, failing.code])
    worker = Worker(store, [whispered, shouted, fails], queues=["remote"])
    tasks = [asyncio.create_task(member.run()) for member in (engine, worker)]
    async with AsyncClient(store) as client:
        handle = await client.start(telling.with_(id="1"), SECRET)
        broken = await client.start(failing.with_(id="2"), SECRET)
        await handle.send("word", {"heard": SECRET})
        await client.start(client.workflow("nowhere").with_(id="3"), SECRET)
        while (await handle.query("state", "")) != f"{SECRET} {{'heard': '{SECRET}'}}" or not [
            one for one in await handle.steps() if one.path == "fails" and one.state == "failed"
        ]:
            await asyncio.sleep(0.02)
        await asyncio.to_thread(back_up, directory / "perdure.db", directory / "backup.db")
        assert [one.value async for one in handle.stream(follow=False)] == [{"emitted": SECRET}]
        await handle.send("end", SECRET)
        assert (await handle.result("20s")).startswith(f"{SECRET}!{SECRET}! {10_000 * len(SECRET)}")
        with pytest.raises(PerdureError, match=SECRET):
            await broken.result("20s")
        forked = await handle.fork("shouted", id="4")
        assert (await forked.status()).status
    engine.stop()
    worker.stop()
    await asyncio.gather(*tasks)


async def test_what_workflows_say_is_in_no_file_and_in_no_backup(tmp_path: Path) -> None:
    inner = SqliteStore(tmp_path / "perdure.db", synchronous="OFF")
    await told(EncodedStore(inner, Encrypted(OLD, required=True)), tmp_path)
    await inner.backup(tmp_path / "again.db")
    assert (tmp_path / "perdure.db-wal").stat().st_size > 0
    assert list(traces(tmp_path)) == []
    await inner.close()
    assert list(traces(tmp_path)) == []
    assert check_database(tmp_path / "perdure.db").damage == ()
    restored = EncodedStore(SqliteStore(tmp_path / "again.db"), Encrypted(OLD, required=True))
    async with AsyncClient(restored) as client:
        assert SECRET in await (await client.get("1", "telling")).result("5s")
    await restored.close()


@pytest.mark.prove
async def test_without_encryption_it_would_be_found(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "perdure.db", synchronous="OFF")
    await told(store, tmp_path)
    await store.close()
    assert {"perdure.db", "backup.db"} <= {*traces(tmp_path)}


async def test_an_engine_without_the_key_leaves_all_as_it_is_and_one_with_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(quarantine, "SEALED_RETRY_S", 0.05)
    file = tmp_path / "perdure.db"
    store = EncodedStore(SqliteStore(file), Encrypted(OLD))
    async with AsyncClient(store) as client:
        await client.start(failing.with_(id="1"), "first")
        await client.start(telling.with_(id="2"), "second")
        engine = Engine(store, [telling.code])
        running = asyncio.create_task(engine.run())
        while (await (await client.get("2", "telling")).status()).status != "waiting":
            await asyncio.sleep(0.01)
        await (await client.get("2", "telling")).send("word", "heard")
        engine.stop()
        await running
    await store.close()
    before = kept(file)
    for codec in (None, Encrypted(NEW), Compressed()):
        blind = SqliteStore(file) if codec is None else EncodedStore(SqliteStore(file), codec)
        engine = Engine(blind, [failing.code, telling.code], poll_s=0.02)
        running = asyncio.create_task(engine.run())
        caplog.clear()
        while caplog.text.count("'old'") < 3:
            await asyncio.sleep(0.01)
        engine.stop()
        await running
        await blind.close()
        assert kept(file) == before
    store = EncodedStore(SqliteStore(file), Encrypted(NEW | OLD))
    async with AsyncClient(store) as client:
        engine = Engine(store, [failing.code, telling.code])
        running = asyncio.create_task(engine.run())
        with pytest.raises(PerdureError, match="first"):
            await (await client.get("1", "failing")).result("10s")
        engine.stop()
        await running
    await store.close()


def kept(file: Path) -> list[Any]:
    with closing(sqlite3.connect(file)) as connection:
        return [connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall() for table in ("log", "blobs")] + [
            connection.execute("SELECT number, address, key, body FROM mail ORDER BY number").fetchall(),
            connection.execute("SELECT address, version, status FROM heads ORDER BY number").fetchall(),
        ]


# How it is switched on.


async def test_the_environment_chooses_the_codec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path}/perdure.db"
    coded = f"new:{new_key()}"
    for compress, keys, required, shown in (
        ("", "", "", None),
        ("0", " ", "0", None),
        ("1", "", "", "Compressed(256, 'zlib')"),
        ("zstd", "", "", "Compressed(256, 'zstd')"),
        ("", coded, "", "Encrypted(keys new; Compressed(None, 'zlib'))"),
        ("1", f"{coded},old:{new_key()}", "1", "Encrypted(keys new, old; Compressed(256, 'zlib'), required)"),
    ):
        for name, value in (("COMPRESS", compress), ("ENCRYPTION_KEYS", keys), ("ENCRYPTION_REQUIRED", required)):
            monkeypatch.setenv(f"PERDURE_{name}", value)
        store = open_store(url)
        assert (repr(store._coding._codec) if isinstance(store, EncodedStore) else None) == shown
        await store.close()
    for compress, keys, required in (("2", "", ""), ("", "nonsense", ""), ("", coded, "yes"), ("", "", "1")):
        for name, value in (("COMPRESS", compress), ("ENCRYPTION_KEYS", keys), ("ENCRYPTION_REQUIRED", required)):
            monkeypatch.setenv(f"PERDURE_{name}", value)
        with pytest.raises(BadValue, match="PERDURE_"):
            open_store(url)


def test_clients_take_a_codec(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/perdure.db"
    with Client(url, codec=Encrypted(OLD)) as client:
        client.start(client.workflow("nowhere").with_(id="1"), SECRET)
    assert list(traces(tmp_path)) == []
    with pytest.raises(SealedPayload, match="'old'"), Client(url) as client:
        client.start(client.workflow("nowhere").with_(id="1", strict=True), SECRET)


FORK = """
import asyncio, os, sys
from perdure.core.errors import StoreError
from tests.stores.sqlite.store_processes import *
from perdure.stores.encoded_store import EncodedStore
from perdure.stores.encryption import Encrypted

codec = Encrypted({"key": bytes(32)})
store = EncodedStore(SqliteStore(sys.argv[1]), codec)
asyncio.run(store.commit([step(key())]))
if (child := os.fork()) == 0:
    try:
        asyncio.run(store.read(key()))
    except StoreError:
        own = EncodedStore(SqliteStore(sys.argv[1]), codec)
        asyncio.run(own.commit([step(key(), 1)]))
        os._exit(0)
    os._exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print([row.decode() for row in asyncio.run(store.read(key())).payloads])
asyncio.run(store.close())
"""


def test_after_a_fork_the_parent_goes_on_and_the_child_with_a_store_of_its_own(tmp_path: Path) -> None:
    assert run(FORK, tmp_path / "perdure.db") == "['row', 'row']\n"


async def test_a_worker_without_the_key_postpones_work_and_changes_no_payload(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "perdure.db"
    work = messages.encode_message(TaskMessage(Key("default", "telling", "1"), (("whispered", 1),), 1, "whispered", "key"))
    store = EncodedStore(SqliteStore(file), Encrypted(OLD))
    await store.commit([Post(messages=(OutgoingMessage(QueueAddress("default", "remote"), "work", work),))])
    await store.close()
    before = kept(file)
    blind = EncodedStore(SqliteStore(file), Encrypted(NEW))
    worker = Worker(blind, [whispered], queues=["remote"], poll_s=0.02)
    running = asyncio.create_task(worker.run())
    while "is set aside" not in caplog.text:
        await asyncio.sleep(0.01)
    worker.stop()
    await running
    await blind.close()
    assert kept(file) == before and "with the key 'old', and this process has only new" in caplog.text and "defect" not in caplog.text


async def test_a_payload_whose_key_is_missing_is_asked_for_again_and_is_no_failed_try() -> None:
    answers: list[Exception | bytes] = [SealedPayload("a blob", "is encrypted"), StoreUnavailable("busy"), b"payload"]

    async def ask() -> bytes:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert await retry_with_backoff(ask) == b"payload"


class Failing:
    """A codec whose methods do what `encode` and `decode` say, if they say anything."""

    def __init__(self) -> None:
        self.does: dict[str, Callable[[], Any]] = {}

    def encode(self, raw: bytes, about: bytes) -> Any:
        return self.does["encode"]() if "encode" in self.does else raw[::-1]

    def decode(self, stored: bytes, about: bytes) -> Any:
        return self.does["decode"]() if "decode" in self.does else stored[::-1]


def raising(make: Callable[[], BaseException]) -> Callable[[], Any]:
    def fails() -> Any:
        raise make()

    return fails


CODEC_FAILURES: dict[str, Callable[[], Any]] = {
    **{name: raising(EXCEPTIONS[name]) for name in EXCEPTION_SAMPLE},
    "returns None": lambda: None,
    "returns text": lambda: "\ud800",
    "returns a bytearray": lambda: bytearray(b"x"),
    "returns what fails when it is looked at": Hostile,
}


@workflow
async def waits_for_word(ctx: Context) -> Any:
    return await ctx.listen("word")


@pytest.mark.parametrize("method", ["encode", "decode"])
async def test_whatever_a_codec_raises_or_returns_is_an_error_of_the_store_and_all_goes_on_once_it_is_mended(
    method: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """With an engine that has nothing in memory, since what it reads is decoded."""
    monkeypatch.setattr(quarantine, "SEALED_RETRY_S", 0.01)
    codec = Failing()
    store = EncodedStore(MemoryStore(), codec)
    engine = Engine(store, [waits_for_word.code], idle_s=0, poll_s=0.01)
    running = asyncio.create_task(engine.run())
    await engine.ready()
    async with AsyncClient(store) as client, asyncio.timeout(30):
        for name, does in CODEC_FAILURES.items():
            handle = await client.start(waits_for_word.with_(id=name))
            while not await handle.steps():
                await asyncio.sleep(0.001)
            codec.does = {method: does} if method == "decode" else {}
            await handle.send("word", name)
            codec.does = {method: does}
            refused_act = client.start(waits_for_word.with_(id=f"{name}, refused")) if method == "encode" else store.read(handle.key)
            with pytest.raises(SealedPayload, match=rf"could not be coded: Failing.{method} r.*Correct the codec") as refused:
                await refused_act
            assert len(str(refused.value)) < 2 * limits.ERROR_MESSAGE_CHARACTERS_MAX
            if method == "encode":
                with pytest.raises(SealedPayload):
                    await engine.start(Key("default", "waits_for_word", f"{name}, here"), waits_for_word.code.codec.encode_args((), {}, "input"))
            await asyncio.sleep(0.03)
            codec.does = {}
            assert await handle.result() == name
    engine.stop()
    await running
    assert "defect of Perdure" not in caplog.text and "asyncio" not in {record.name for record in caplog.records}
