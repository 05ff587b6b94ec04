"""Access: what the rules of use work with. One store, and one watch for all who wait in this event loop."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from perdure.core.errors import NotFound, PerdureError, Timeout
from perdure.core.paths import Key
from perdure.core.values import Value
from perdure.programs.code.durations import Duration, seconds
from perdure.runtime.payloads import Payloads
from perdure.runtime.watch import Watch
from perdure.service.fold import Folds
from perdure.service.wait_notices import WaitNotices
from perdure.stores.base import Filter, Head, Store


class Access:
    """A store as people use it, in one event loop."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.watch = Watch(store)
        self.notices = WaitNotices(store)
        self.folds = Folds(store)
        self._payloads = Payloads(store)

    async def payload(self, value: Value) -> bytes:
        """A value's bytes, wherever they are kept."""
        return value if isinstance(value, bytes) else await self._payloads.get(value.sha256)

    async def head(self, key: Key) -> Head:
        """The head of an execution.

        Raises:
            NotFound: there is no such execution.
        """
        found = await self.store.heads(Filter(keys=(key,), limit=1))
        if not found:
            raise NotFound(key)
        return found[0]


WHY_S = 2.0
"""How long it may take to find out why nothing came in time."""


@asynccontextmanager
async def within(timeout: Duration | None, what: str, why: Callable[[], Awaitable[str]] | None = None) -> AsyncIterator[None]:
    """Give the block so much time (None: any). `why` says, should that be over, what is waited for.

    Raises:
        Timeout: it took longer.
    """
    timeout_s = None if timeout is None else seconds(timeout, "timeout")
    limit = asyncio.timeout(timeout_s)
    try:
        async with limit:
            yield
    except TimeoutError as error:
        if limit.expired():
            raise Timeout(what, timeout_s, "" if why is None else await _said(why)) from error
        raise


async def _said(why: Callable[[], Awaitable[str]]) -> str:
    """What `why` says, if it can be found out; that something took too long is told either way."""
    try:
        return await asyncio.wait_for(why(), WHY_S)
    except (PerdureError, TimeoutError) as error:
        return f"why is not known: {error}" if str(error) else ""
