"""Paging: all the heads that a filter means, however many there are, without keeping others from the store for long.

Access: what the rules of use work with. One store, and one watch for all who wait in this event loop.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec

from perdure.code.durations import Duration, duration_seconds
from perdure.core.errors import NotFound, PerdureError, Timeout
from perdure.core.paths import Key
from perdure.core.values import Value
from perdure.runtime.blob_loader import BlobCache
from perdure.runtime.change_watcher import ChangeWatcher
from perdure.runtime.engine import Engine
from perdure.runtime.execution_results import Ending, wait_for_result
from perdure.runtime.local_engine import wait_for_end
from perdure.service.execution_folds import FoldCache
from perdure.service.missing_parts import WaitWarnings
from perdure.stores.protocol import Head, HeadFilter, ReadOnlyStore, Store

HEADS_PER_PAGE = 500


async def head_pages(looking: ReadOnlyStore, which: HeadFilter) -> AsyncIterator[list[Head]]:
    """What `which` means, newest first, in lists of up to `PAGE`; its own limit is none of these."""
    page = msgspec.structs.replace(which, limit=HEADS_PER_PAGE)
    while heads := await looking.heads(page):
        yield heads
        if len(heads) < HEADS_PER_PAGE:
            return
        page = msgspec.structs.replace(page, older_than=heads[-1].key)
        await asyncio.sleep(0)


class StoreAccess:
    """A store as people use it, in one event loop; with an `engine` that runs on this loop, starts and ends go through that one directly."""

    def __init__(self, store: Store, engine: Engine | None = None) -> None:
        self.store = store
        self.engine = engine
        self.watch = ChangeWatcher(store) if engine is None else engine.watch
        self.notices = WaitWarnings(store)
        self.folds = FoldCache(store)
        self._payloads = BlobCache(store)

    def close(self) -> None:
        """Fail those who wait here. The watch of an engine stays open as long as the engine runs."""
        if self.engine is None:
            self.watch.close()
        self.notices.close()

    async def result(self, key: Key, after: int = 0, ending: Ending | None = None) -> bytes:
        """The encoded result of an execution, waited for. What happened up to version `after` is of no interest, and a pause is waited through. `ending`
        is the next end of it in this engine, if that is known to come.

        Raises:
            ExecutionFailed, DeadlineExceeded, ExecutionCancelled, NeedsAttention, NotFound: see `wait_for_result`.
        """
        if self.engine is None:
            return await wait_for_result(self.watch, self.store, key, after)
        return await wait_for_end(self.engine, key, after, through_pauses=True, ending=ending)

    async def payload(self, value: Value) -> bytes:
        """A value's bytes, wherever they are kept."""
        return value if isinstance(value, bytes) else await self._payloads.get(value.sha256)

    async def head(self, key: Key) -> Head:
        """The head of an execution.

        Raises:
            NotFound: there is no such execution.
        """
        found = await self.store.heads(HeadFilter(keys=(key,), limit=1))
        if not found:
            raise NotFound(key)
        return found[0]


REASON_TIMEOUT_S = 2.0
"""How long it may take to find out why nothing came in time."""


@asynccontextmanager
async def with_timeout(timeout: Duration | None, what: str, why: Callable[[], Awaitable[str]] | None = None) -> AsyncIterator[None]:
    """Give the block so much time (None: any). `why` says, should that be over, what is waited for.

    Raises:
        Timeout: it took longer.
    """
    timeout_s = None if timeout is None else duration_seconds(timeout, "timeout")
    limit = asyncio.timeout(timeout_s)
    try:
        async with limit:
            yield
    except TimeoutError as error:
        if limit.expired():
            raise Timeout(what, timeout_s, "" if why is None else await _reason_text(why)) from error
        raise


async def _reason_text(why: Callable[[], Awaitable[str]]) -> str:
    """What `why` says, if it can be found out; that something took too long is told either way."""
    try:
        return await asyncio.wait_for(why(), REASON_TIMEOUT_S)
    except (PerdureError, TimeoutError) as error:
        return f"why is not known: {error}" if str(error) else ""
