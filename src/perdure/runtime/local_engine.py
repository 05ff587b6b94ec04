"""A host: an engine with the store it opened, for as long as somebody needs them. What `greet.run()` stands on."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from perdure.code.declared_queues import Queue
from perdure.core import messages
from perdure.core.envelopes import OutgoingMessage
from perdure.core.errors import BadValue
from perdure.core.events import ParkedEvent
from perdure.core.paths import Key
from perdure.runtime.call_secrets import SecretSource
from perdure.runtime.engine import Engine
from perdure.runtime.execution_results import last_lifecycle_event, result_of_ended, wait_for_result
from perdure.runtime.workflow_programs import Workflow
from perdure.stores.encoded_store import EncodedStore
from perdure.stores.encryption import Encrypted, parse_keys
from perdure.stores.memory import MemoryStore
from perdure.stores.payload_codec import Compressed, PayloadCodec
from perdure.stores.protocol import Post, ReadOnlyStore, Store
from perdure.stores.sqlite.read_only_store import ReadOnlySqliteStore
from perdure.stores.sqlite.store import SqliteStore

DEFAULT_URL = "sqlite:///.perdure/perdure.db"

EXPERIMENTAL_SCHEMES = {"postgres": "Postgres", "postgresql": "Postgres", "redis": "Redis", "rediss": "Redis", "valkey": "Valkey", "valkeys": "Valkey"}
"""The schemes of stores that are not opened by a URL yet: their tables have no version number, so a later Perdure could not tell what they hold."""


def open_store(url: str | None = None, codec: PayloadCodec | None = None) -> Store:
    """The store of a URL: ``sqlite:///relative/path``, ``sqlite:////absolute/path`` or ``memory:``; by default `PERDURE_DB`, else a file in ``.perdure``.

    What it keeps is encoded by `codec`; without one, as `chosen_codec` finds in the environment.

    Raises:
        BadValue: the URL names no store that this Perdure has, or the environment no codec.
        StoreError: the file can't be opened.
    """
    chosen_one = configured_codec(codec)
    store = _store_of_url(configured_url(url))
    return store if chosen_one is None else EncodedStore(store, chosen_one)


def _store_of_url(chosen: str) -> Store:
    parts = urlsplit(chosen)
    if parts.scheme == "memory":
        return MemoryStore()
    if file := database_file(chosen):
        return SqliteStore(file)
    shown = chosen.replace(f":{parts.password}@", ":***@") if parts.password else chosen
    if experimental := EXPERIMENTAL_SCHEMES.get(parts.scheme.partition("+")[0]):
        expected = (
            f"a URL that can be opened yet: the store for {experimental} is experimental. Use sqlite:///path/to/file.db, which processes of one machine share"
        )
        raise BadValue("database URL", shown, expected)
    raise BadValue("database URL", shown, "sqlite:///path/to/file.db or memory:")


def configured_codec(codec: PayloadCodec | None = None) -> PayloadCodec | None:
    """The codec that is meant: this one, else what the environment says; None if nothing is to be encoded.

    `PERDURE_KEYS` has keys, ``id:key,id:key``, of which the first encrypts; with `PERDURE_KEYS_REQUIRED` set to 1, what is not encrypted is
    refused. `PERDURE_COMPRESS` is 1 for zlib, or names a method.

    Raises:
        BadValue: that can't be understood, or needs a package that is not installed.
    """
    if codec is not None:
        return codec
    method, keys, required = (os.environ.get(name, "") for name in ("PERDURE_COMPRESS", "PERDURE_KEYS", "PERDURE_KEYS_REQUIRED"))
    if required not in ("", "0", "1"):
        raise BadValue("PERDURE_KEYS_REQUIRED", required, "0 or 1")
    match method:
        case "" | "0":
            compressed = None
        case "1" | "zlib":
            compressed = Compressed()
        case "zstd":
            compressed = Compressed(method="zstd")
        case _:
            raise BadValue("PERDURE_COMPRESS", method, "0, 1, zlib or zstd")
    if keys.strip():
        return Encrypted(parse_keys(keys), compressed, required=required == "1")
    if required == "1":
        raise BadValue("PERDURE_KEYS", "", "there, as PERDURE_KEYS_REQUIRED wants; perdure db key new makes a key")
    return compressed


def open_read_only_store(url: str | None = None) -> ReadOnlyStore:
    """The store of a URL, to be looked at and not changed. See `open_store`; a file that is not there is not made.

    Raises:
        BadValue: the URL names no store that this Perdure has.
        StoreError: the file can't be looked at.
    """
    file = database_file(configured_url(url))
    if file is None:
        return open_store(url)
    codec = configured_codec()
    return ReadOnlySqliteStore(file) if codec is None else EncodedStore(ReadOnlySqliteStore(file), codec)  # type: ignore[arg-type]  # it is only read, and reading is all that this asks for


def configured_url(url: str | None = None) -> str:
    """The URL that is meant: this one, else `PERDURE_DB`, else a file in ``.perdure``. It may hold a password."""
    return url or os.environ.get("PERDURE_DB") or DEFAULT_URL


def database_file(url: str) -> Path | None:
    """The file of a database; None if the URL names none.

    Raises:
        BadValue: it means a store in memory, which SQLite's own name for it would not be here.
    """
    parts = urlsplit(url)
    file = unquote(parts.path[1:])
    if file.rpartition("/")[2] == ":memory:":
        raise BadValue("database URL", url, "a file's name; a store in memory is memory:, without sqlite")
    named = url[:10].lower() == "sqlite:///" and file and "\0" not in file and not parts.query and not parts.fragment
    return Path(file).absolute() if named else None


@asynccontextmanager
async def local_engine(
    workflows: Iterable[Workflow],
    url: str | None = None,
    root: Key | None = None,
    declares: Iterable[Queue] = (),
    secrets: Callable[[Store], SecretSource] | None = None,
) -> AsyncIterator[Engine]:
    """An engine that runs on the store of `url` until the block is left; what it has not finished then goes on when it is run again.

    `secrets` says what finds those that calls are given, for a store that may keep some.
    """
    store = open_store(url)
    try:
        engine = Engine(store, workflows, root=root, declares=declares, threaded=True, secrets=None if secrets is None else secrets(store))
        running = asyncio.create_task(engine.run())
        joined = asyncio.create_task(engine.ready())
        try:
            _ = await asyncio.wait((running, joined), return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                await running  # it failed, and this raises why
            yield engine
        finally:
            joined.cancel()
            engine.stop()
            await running
    finally:
        await store.close()


async def resume_if_diverged(engine: Engine, key: Key) -> int:
    """Have an execution go on that was parked because its code did not match; return the version after which it is to be watched (0: from its start).

    What was parked for another reason stays so, as running it again may do harm again: that is for a person to decide. The reason is checked once
    more where the message is decided on, so nothing else goes on that was parked meanwhile.
    """
    found = await engine.store.read(key, after=sys.maxsize)
    if found is None or found.head.status != "needs_attention":
        return 0
    turn = await last_lifecycle_event(engine.store, found.head)
    if not isinstance(turn, ParkedEvent) or turn.reason != "diverged":
        return 0
    retry = messages.encode_message(messages.RetryMessage("run again", parked="diverged"))
    _ = await engine.store.commit([Post(messages=(OutgoingMessage(key, f"retry:{uuid4().hex}", retry),))])
    return found.head.version


async def run_to_end(engine: Engine, key: Key, value: bytes) -> bytes:
    """Start an execution with an encoded input, or have the one of this key go on; wait for its end and return its encoded result.

    Raises:
        UnknownProgram: this engine does not know the workflow.
        ExecutionFailed, DeadlineExceeded, ExecutionCancelled, NeedsAttention: see `finished`.
    """
    ending = engine.ending(key)
    if not await engine.start(key, value):
        return await wait_for_end(engine, key, await resume_if_diverged(engine, key))
    ended = await asyncio.shield(ending)  # nobody has to look for what is gone on with here from its start to its end
    return await (wait_for_end(engine, key) if ended is None else result_of_ended(engine.store, key, ended))


async def wait_for_end(engine: Engine, key: Key, after: int = 0) -> bytes:
    """Wait for an execution's end and return its encoded result; what happened up to version `after` is of no interest.

    It may be advanced by any process; but if this engine fails, so does this.

    Raises:
        NotFound: there is no such execution.
        ExecutionFailed, DeadlineExceeded, ExecutionCancelled: how it ended.
        NeedsAttention: it is parked.
    """
    waiting = asyncio.create_task(wait_for_result(engine.watch, engine.store, key, after, through_pauses=False))
    try:
        while True:
            ending = engine.ending(key)
            _ = await asyncio.wait((waiting, ending), return_when=asyncio.FIRST_COMPLETED)
            if ending.done() and (ended := ending.result()) is not None:
                return await result_of_ended(engine.store, key, ended)
            if waiting.done():
                return await waiting
    finally:
        waiting.cancel()
