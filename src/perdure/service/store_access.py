"""Gives the operations and queries access to one store: pages of heads, cached blobs and folds, a change watcher, and timeouts."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Concatenate, ParamSpec, TypeVar

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
from perdure.service.access_keys import KeyVerifier
from perdure.service.code_plans import CodePlans
from perdure.service.execution_folds import FoldCache
from perdure.service.execution_tails import ExecutionTails
from perdure.service.history_tails import HistoryCache
from perdure.service.missing_parts import WaitWarnings
from perdure.service.people.earlier_approvals import EarlierApprovals
from perdure.service.service_clock import ServiceClock
from perdure.service.sessions import SessionVerifier
from perdure.service.tenant_changes import TenantChanges
from perdure.service.triggers.webhook_deliveries import RejectedDeliveries
from perdure.stores.outbox import OutboxTransactions
from perdure.stores.protocol import Head, HeadFilter, ReadOnlyStore, Store, head_position
from perdure.stores.user_transactions import JoinsUserTransactions, expect_user_transactions

P = ParamSpec("P")
T = TypeVar("T")

HEADS_PER_PAGE = 500


async def head_pages(store: ReadOnlyStore, which: HeadFilter) -> AsyncIterator[list[Head]]:
    """Yields all heads that `which` selects, newest first, in lists of up to `HEADS_PER_PAGE`. The limit of `which` is ignored.

    Paging keeps each read short, so that other processes are not kept from the store.
    """
    page = msgspec.structs.replace(which, limit=HEADS_PER_PAGE)
    while heads := await store.heads(page):
        yield heads
        if len(heads) < HEADS_PER_PAGE:
            return
        page = msgspec.structs.replace(page, after=head_position(heads[-1], which.order))
        await asyncio.sleep(0)


class StoreAccess:
    """A store with the caches and the change watcher that all callers in one event loop share.

    With an `engine`, which runs on this loop, starts and ends go through the engine directly. With an `outbox`, connections of callers are to its database
    and not to the store's.
    """

    def __init__(self, store: Store, engine: Engine | None = None, outbox: OutboxTransactions | None = None) -> None:
        self.store = store
        self.engine = engine
        self.outbox = outbox
        self.watch = ChangeWatcher(store) if engine is None else engine.watch
        self.wait_warnings = WaitWarnings(store)
        self.folds = FoldCache(store)
        self.histories = HistoryCache()
        self.tails = ExecutionTails(store)
        self.code_plans = CodePlans(store, self.folds)
        self.earlier_approvals = EarlierApprovals(store)
        self.rejected_deliveries = RejectedDeliveries()
        self.changes = TenantChanges(store)
        self.clock = ServiceClock(store)
        self.keys = KeyVerifier(store, self.clock)
        self.sessions = SessionVerifier(store, self.clock, self.keys)
        self._payloads = BlobCache(store)

    def call(self, operation: Callable[Concatenate["StoreAccess", P], Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        """Performs an operation. See `ServiceAccess`."""
        return operation(self, *args, **kwargs)

    def stream(
        self, operation: Callable[Concatenate["StoreAccess", P], AsyncGenerator[T, None]], /, *args: P.args, **kwargs: P.kwargs
    ) -> AsyncGenerator[T, None]:
        """Yields what an operation finds. See `ServiceAccess`."""
        return operation(self, *args, **kwargs)

    def on_store(self, what: str) -> "StoreAccess":
        """Returns this. See `ServiceAccess`."""
        return self

    async def aclose(self) -> None:
        """Fails the pending waits. The watch of an engine stays open as long as the engine runs."""
        if self.engine is None:
            self.watch.close()
        self.wait_warnings.close()
        await self.changes.aclose()

    @property
    def user_transactions(self) -> JoinsUserTransactions | OutboxTransactions:
        """The part that joins transactions of callers: that of the outbox, if there is one, else of the store.

        Raises:
            BadValue: the store is in no database to which callers have connections.
        """
        return expect_user_transactions(self.store) if self.outbox is None else self.outbox

    async def result(self, key: Key, after: int = 0, ending: Ending | None = None) -> bytes:
        """Waits for the end of an execution and returns its encoded result. Events up to version `after` are ignored, and a pause is waited through.

        `ending` is the next end in this engine, if the execution is known to be there.

        Raises:
            ExecutionFailed, DeadlineExceeded, ExecutionCancelled, NeedsAttention, NotFound: see `wait_for_result`.
        """
        with self.wait_warnings.waiting(key):
            if self.engine is None:
                return await wait_for_result(self.watch, self.store, key, after)
            return await wait_for_end(self.engine, key, after, through_pauses=True, ending=ending)

    async def until_there(self, key: Key) -> None:
        """Waits until an execution exists, which is on its way in an outbox."""
        with self.wait_warnings.waiting(key):
            _ = await self.watch.until(key, lambda head: head is not None, quick=True)

    async def payload(self, value: Value) -> bytes:
        """Returns the bytes of a value, from its blob if it is large."""
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
"""The time limit for finding out why a wait timed out."""


@asynccontextmanager
async def with_timeout(timeout: Duration | None, what: str, why: Callable[[], Awaitable[str]] | None = None) -> AsyncIterator[None]:
    """Limits the time of the block (None: no limit). After a timeout, `why` finds out what the wait was for.

    Raises:
        Timeout: the block took longer.
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
    """The text of `why`, or why it is not known. The timeout is reported either way."""
    try:
        return await asyncio.wait_for(why(), REASON_TIMEOUT_S)
    except (PerdureError, TimeoutError) as error:
        return f"why is not known: {error}" if str(error) else ""
