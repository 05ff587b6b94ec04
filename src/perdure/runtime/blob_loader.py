"""Loads blobs for the generators of the core. A small cache holds the latest ones, because replay often reads a blob twice."""

import asyncio
from collections.abc import Generator, Mapping
from typing import Any, TypeVar

from perdure.code import deterministic_loop
from perdure.core.replay import LoadBlob
from perdure.core.values import verified_payload
from perdure.stores.protocol import ReadOnlyStore

BLOBS_CACHED_MAX = 16
"""How many blobs a cache holds."""


class BlobCache:
    """A cache of the blobs of a store, by their SHA-256."""

    __slots__ = ("_recent", "_store")

    def __init__(self, store: ReadOnlyStore) -> None:
        self._store = store
        self._recent: dict[str, bytes] = {}

    async def get(self, sha256: str) -> bytes:
        """Returns the payload of a blob.

        Raises:
            LogDamaged: it is missing, or has changed since it was written.
            SealedPayload: a codec has encoded it, and this process has none.
        """
        raw = self._recent.pop(sha256, None)
        if raw is None:
            raw = verified_payload(sha256, await self._store.blob(sha256))
        self._recent[sha256] = raw
        if len(self._recent) > BLOBS_CACHED_MAX:
            del self._recent[next(iter(self._recent))]
        return raw


T = TypeVar("T")


async def run_with_blobs(payloads: BlobCache, deciding: Generator[LoadBlob, bytes, T], unwritten: Mapping[str, bytes] = {}) -> T:
    """Runs a generator of the core to its end, and loads the blobs that it asks for. Those in `unwritten` are not in the store yet.

    Raises:
        LogDamaged: a blob is missing.
    """
    answer: Any = None
    try:
        while True:
            asked = await _outside_of_tasks(deciding, answer) if deterministic_loop.ONE_TASK_PER_THREAD else deciding.send(answer)
            answer = unwritten.get(asked.blob.sha256) or await payloads.get(asked.blob.sha256)
    except StopIteration as end:
        result: T = end.value
        return result
    except _GeneratorEnded as end:
        return end.args[0]  # type: ignore[no-any-return]  # what the generator returned


async def run_in_threads(payloads: BlobCache, making: Generator[LoadBlob, bytes, T], unwritten: Mapping[str, bytes] = {}) -> T:
    """Runs a generator of the core to its end, each part in a thread, because its time grows with a log. Blobs in `unwritten` are not in the store."""
    answer: Any = None
    while True:
        asked = await asyncio.to_thread(_next_load, making, answer)
        if not isinstance(asked, LoadBlob):
            return asked[0]
        answer = unwritten.get(asked.blob.sha256) or await payloads.get(asked.blob.sha256)


def _next_load(making: Generator[LoadBlob, bytes, T], answer: Any) -> LoadBlob | tuple[T]:
    try:
        return making.send(answer)
    except StopIteration as end:  # a future cannot carry a StopIteration
        return (end.value,)


class _GeneratorEnded(Exception):  # a future can't carry a StopIteration
    """Carries the value that a generator returned."""


async def _outside_of_tasks(deciding: Generator[LoadBlob, bytes, object], answer: bytes) -> LoadBlob:
    """Continues a decision in a callback. From Python 3.14 on, a task may not run a deterministic loop, because that loop runs tasks itself."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[LoadBlob] = loop.create_future()

    def call() -> None:
        try:
            done.set_result(deciding.send(answer))
        except StopIteration as end:
            done.set_exception(_GeneratorEnded(end.value))
        except BaseException as error:  # passed on by the future, of any class
            done.set_exception(error)

    loop.call_soon(call)
    return await done
