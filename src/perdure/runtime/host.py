"""A host: an engine with the store it opened, for as long as somebody needs them. What `greet.run()` stands on."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from perdure.core import log, messages
from perdure.core.errors import BadValue, DeadlineExceeded, ErrorInfo, ExecutionCancelled, ExecutionFailed, NeedsAttention, NotFound
from perdure.core.events import Ended, Parked, Reopened, Resumed
from perdure.core.mail import Send
from perdure.core.ops import Err, Ok
from perdure.core.paths import Key
from perdure.core.values import Blob
from perdure.programs.code.declare import CodeWorkflow
from perdure.runtime.engine import Engine
from perdure.stores.base import Post, Store
from perdure.stores.memory import MemoryStore
from perdure.stores.sqlite import SqliteStore

TURNS = (Ended, Reopened, Parked, Resumed)
"""The events after which an execution does or doesn't go on; the last of them in a log says which."""

DEFAULT_URL = "sqlite:///.perdure/perdure.db"


def open_store(url: str | None = None) -> Store:
    """The store of a URL: ``sqlite:///relative/path``, ``sqlite:////absolute/path`` or ``memory:``; by default `PERDURE_DB`, else a file in ``.perdure``.

    Raises:
        BadValue: the URL names no store that this Perdure has.
        StoreInUse: another process has the file open.
        StoreError: the file can't be opened.
    """
    chosen = url or os.environ.get("PERDURE_DB") or DEFAULT_URL
    parts = urlsplit(chosen)
    if parts.scheme == "memory":
        return MemoryStore()
    file = unquote(parts.path[1:])
    if chosen[:10].lower() == "sqlite:///" and file and "\0" not in file and not parts.query and not parts.fragment:
        return SqliteStore(Path(file))
    raise BadValue("database URL", chosen, "sqlite:///path/to/file.db or memory:")


@asynccontextmanager
async def hosting(workflows: Iterable[CodeWorkflow], url: str | None = None, root: Key | None = None) -> AsyncIterator[Engine]:
    """An engine that runs on the store of `url` until the block is left; what it has not finished then goes on when it is run again."""
    store = open_store(url)
    try:
        engine = Engine(store, workflows, root=root)
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


async def resume(engine: Engine, key: Key) -> int:
    """Have an execution that needs attention go on, if it can by now; return the version after which it is to be watched (0: from its start)."""
    found = await engine.store.read(key, after=sys.maxsize)
    if found is None or found.head.status != "needs_attention":
        return 0
    retry = messages.encode(messages.Retry("run again"))
    _ = await engine.store.commit([Post(sends=(Send(key, f"retry:{uuid4().hex}", retry),))])
    return found.head.version


async def finished(engine: Engine, key: Key, after: int = 0) -> bytes:
    """Wait for an execution's end and return its encoded result; what happened up to version `after` is of no interest.

    Raises:
        NotFound: there is no such execution.
        ExecutionFailed, DeadlineExceeded, ExecutionCancelled: how it ended.
        NeedsAttention: it is parked.
    """
    version = after
    while True:
        ending = engine.ending(key)
        found = await engine.store.read(key, after=version)
        if found is None:
            raise NotFound(key)
        version = found.head.version
        turn = next((event for event in reversed(log.decode_all(found.rows)) if isinstance(event, TURNS)), None)
        if isinstance(turn, Parked):
            raise NeedsAttention(key, turn.reason, "; ".join(turn.detail))
        if isinstance(turn, Ended):
            return await _result(engine, key, turn)
        done, _ = await asyncio.wait((ending,), timeout=1.0)
        for one in done:
            one.result()  # raises what ended the engine, if it ended


async def _result(engine: Engine, key: Key, ended: Ended) -> bytes:
    match ended.outcome:
        case Ok(Blob() as blob):
            return await engine.payloads.get(blob.sha256)
        case Ok(bytes() as raw):
            return raw
        case Err(kind, ErrorInfo() as error):
            if ended.status == "cancelled":
                raise ExecutionCancelled(key, error.message)
            raise (DeadlineExceeded if kind == "deadline_exceeded" else ExecutionFailed)(key, error)
    raise TypeError(f"{ended.outcome!r} is no outcome")
