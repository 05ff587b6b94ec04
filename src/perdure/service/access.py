"""Access: what the rules of use work with. One store, and one watch for all who wait in this event loop."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from perdure.core.errors import NotFound, Timeout
from perdure.core.paths import Key
from perdure.core.values import Value
from perdure.programs.code.durations import Duration, seconds
from perdure.runtime.payloads import Payloads
from perdure.runtime.watch import Watch
from perdure.stores.base import Filter, Head, Store


class Access:
    """A store as people use it, in one event loop."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.watch = Watch(store)
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


@asynccontextmanager
async def within(timeout: Duration | None, what: str) -> AsyncIterator[None]:
    """Give the block so much time (None: any).

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
            raise Timeout(what, timeout_s) from error
        raise
