"""What happens to the executions of a tenant, for those who watch it live: which begin, change their status, and end.

There is one tail of the store for each tenant and process, while somebody watches, and a little longer. It asks for new executions, and for those that it knows
and that have not ended, when the store notifies of a change, and once a second. The last changes are kept in memory under ascending numbers, by which a reader
goes on. A reader whose number is of another process, or older than what is kept, is told to read the lists again (``reset``).

Several changes of one execution between two looks are one. Nothing is written, and nobody pays for it who does not watch. A reader may watch some executions
more closely: of those it hears whenever their logs grow.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from itertools import takewhile
from typing import Literal

import msgspec

from perdure.core.errors import StoreError
from perdure.core.paths import Key
from perdure.runtime.change_watcher import ChangeWatcher
from perdure.runtime.execution_results import ENDED_STATUSES
from perdure.service.watched_executions import WatchedHeads
from perdure.stores.protocol import Head, HeadFilter, Store, head_position

logger = logging.getLogger("perdure.changes")

KEPT_MAX = 10_000
"""How many changes are kept for readers that come back."""

KNOWN_MAX = 20_000
"""How many executions that have not ended a tail looks at; of more, it follows the newest."""

POLL_S, BACK_OFF_S = 1.0, 5.0
REST_FACTOR = 4
"""After a look, the tail rests for this many times its duration."""

LINGER_S = 60.0
"""How long a tail goes on without readers, so that one that comes back goes on where it was."""

STOCK_S = 10.0
"""How often the tail looks for executions that go on although they had ended, since somebody retries them."""

KEYS_PER_QUERY, NEW_PER_QUERY = 500, 500
OVERLAP_S = 5.0
"""How far back new executions are looked for: the commit of one may become visible after that of a later one."""

ChangeKind = Literal["began", "changed", "ended", "reset"]


class HeadChange(msgspec.Struct, frozen=True):
    """A change of an execution, by its head after it. A ``reset`` has none: the reader has missed changes, and reads the lists again."""

    number: int
    type: ChangeKind
    head: Head | None = None


class TenantTail:
    """Follows the executions of one tenant while there are readers. `internal` names the workflows that are not followed."""

    def __init__(self, store: Store, tenant: str, internal: frozenset[str]) -> None:
        self._store, self._tenant, self._internal = store, tenant, internal
        self._watcher = ChangeWatcher(store)  # that of an engine does not poll the executions that the engine holds
        self._changes: deque[HeadChange] = deque(maxlen=KEPT_MAX)
        self._number = int(time.time() * 1_000_000)  # above that of every process that began earlier
        self._first = self._number
        self._statuses: dict[Key, str] = {}
        self._recent: dict[Key, None] = {}
        self._new_from_s = self._stock_at_s = 0.0
        self._readers = 0
        self._running: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[None] | None = None
        self._woken = asyncio.Event()
        self._news = asyncio.Event()

    async def read(self, after: int, follow: bool, watched: Sequence[Key] = ()) -> AsyncGenerator[HeadChange, None]:
        """Yields the changes behind number `after` (0: from now on); with `follow`, without end.

        Of `watched` executions, it also yields each head as it is when the reading begins and, with `follow`, whenever the log has grown. Those changes are no
        part of the tail, so their number is that of the last change before them.

        Raises:
            StoreError: the store could not be read when the tail began.
        """
        self._readers += 1
        heads = WatchedHeads(self._watcher, watched if follow else ())
        try:
            await self._begun()
            if after and not self._has(after):
                after = self._number
                yield HeadChange(after, "reset")
            after = after or self._number
            while True:
                if after < self._number and not self._has(after):  # it was too slow
                    after = self._number
                    yield HeadChange(after, "reset")
                    continue
                news = self._news
                newest_first = [*takewhile(lambda one: one.number > after, reversed(self._changes))]  # noqa: B023  # it is used up at once
                for change in reversed(newest_first):
                    after = change.number
                    if change.head is not None:
                        heads.pass_by(change.head)
                    yield change
                if not follow:
                    for head in await self._store.heads(HeadFilter(keys=tuple(watched), limit=len(watched))) if watched else ():
                        yield HeadChange(after, "changed", head)
                    return
                for head in heads.take():
                    yield HeadChange(after, "changed", head)
                if after >= self._number:
                    await heads.wait(news)
        finally:
            self._readers -= 1
            await heads.aclose()

    def _has(self, after: int) -> bool:
        """Whether all changes behind a number are kept."""
        oldest = self._changes[0].number - 1 if self._changes else self._number
        return max(oldest, self._first) <= after <= self._number

    async def _begun(self) -> None:
        """Waits until the tail runs, and knows what is in progress."""
        if self._running is None or self._running.done():
            self._ready = asyncio.get_running_loop().create_future()
            self._running = asyncio.create_task(self._run(self._ready))
        if self._ready is not None:
            await asyncio.shield(self._ready)

    async def aclose(self) -> None:
        """Ends the tail."""
        self._watcher.close()
        if self._running is not None:
            self._running.cancel()
            _ = await asyncio.gather(self._running, return_exceptions=True)

    async def _run(self, ready: "asyncio.Future[None]") -> None:
        loop = asyncio.get_running_loop()

        def on_change() -> None:
            if not loop.is_closed():
                _ = loop.call_soon_threadsafe(self._woken.set)

        unsubscribe = self._store.on_change(on_change)
        idle_from_s = loop.time()
        try:
            try:
                self._new_from_s = (await self._store.store_time()).now_s
                self._statuses, self._recent = {}, {}
                await self._take_stock()
            except StoreError as error:
                ready.set_exception(error)
                return
            ready.set_result(None)
            while self._readers or loop.time() < idle_from_s + LINGER_S:
                idle_from_s = loop.time() if self._readers else idle_from_s
                await self._wait(await self._looked())
        finally:
            unsubscribe()
            self._number += 1  # what happens from now on is missed, so nobody goes on from here
            self._first, self._changes = self._number, deque(maxlen=KEPT_MAX)

    async def _wait(self, rest_s: float) -> None:
        await asyncio.sleep(rest_s)
        try:
            async with asyncio.timeout(POLL_S):
                _ = await self._woken.wait()
        except TimeoutError:
            pass
        self._woken.clear()

    async def _looked(self) -> float:
        """Looks once, and returns how long to rest."""
        began_s = asyncio.get_running_loop().time()
        try:
            await self._look()
        except StoreError as error:
            logger.warning("could not read what has changed in tenant %s: %s. It is read again in %g s", self._tenant, error, BACK_OFF_S)
            return BACK_OFF_S
        return min(REST_FACTOR * (asyncio.get_running_loop().time() - began_s), POLL_S)

    async def _take_stock(self, tells: bool = False) -> None:
        """Learns which executions are in progress; with `tells`, readers hear of those that were not known: they had ended, and go on."""
        self._stock_at_s = asyncio.get_running_loop().time()
        which = HeadFilter(tenant=self._tenant, ended=False, limit=NEW_PER_QUERY)
        async for head in self._newest(which):
            if head.key not in self._statuses:
                self._recent[head.key] = None
                self._add(head, "changed" if tells else None)

    async def _newest(self, which: HeadFilter) -> AsyncGenerator[Head, None]:
        """Yields the newest heads, `KNOWN_MAX` at most."""
        for _ in range(KNOWN_MAX // NEW_PER_QUERY):
            heads = await self._store.heads(which)
            for head in heads:
                yield head
            if len(heads) < NEW_PER_QUERY:
                return
            which = msgspec.structs.replace(which, after=head_position(heads[-1], None))
            await asyncio.sleep(0)

    async def _look(self) -> None:
        now_s = (await self._store.store_time()).now_s
        new = HeadFilter(tenant=self._tenant, created_from_s=self._new_from_s - OVERLAP_S, limit=NEW_PER_QUERY)
        begun = [head async for head in self._newest(new) if head.key not in self._recent]
        for head in reversed(begun):
            self._recent[head.key] = None
        changed = await self._changed()
        for head in reversed(begun):
            self._add(head, "began")
        for head in changed:
            self._add(head, "changed")
        if asyncio.get_running_loop().time() >= self._stock_at_s + STOCK_S:
            await self._take_stock(tells=True)
        self._new_from_s = now_s
        for remembered in (self._recent, self._statuses):
            for key in list(remembered)[: max(len(remembered) - KNOWN_MAX, 0)]:
                del remembered[key]

    async def _changed(self) -> list[Head]:
        """The heads of known executions whose status is another one now. Those that are gone are forgotten."""
        known, changed = list(self._statuses), list[Head]()
        for first in range(0, len(known), KEYS_PER_QUERY):
            asked = tuple(known[first : first + KEYS_PER_QUERY])
            found = {head.key: head for head in await self._store.heads(HeadFilter(keys=asked, limit=len(asked)))}
            for key in asked:
                if key not in found:
                    del self._statuses[key]
                elif found[key].status != self._statuses[key]:
                    changed.append(found[key])
            await asyncio.sleep(0)
        return changed

    def _add(self, head: Head, kind: ChangeKind | None) -> None:
        """Remembers the status of an execution, and tells readers of its change (None: of nothing)."""
        has_ended = head.status in ENDED_STATUSES
        if has_ended:
            self._statuses.pop(head.key, None)
        else:
            self._statuses[head.key] = head.status
        if kind is not None and head.key.workflow not in self._internal:
            for one in [*(() if has_ended and kind == "changed" else (kind,)), *(("ended",) if has_ended else ())]:
                self._number += 1
                self._changes.append(HeadChange(self._number, one, head))
            self._news.set()
            self._news = asyncio.Event()


class TenantChanges:
    """The tails of all tenants of a store, in one event loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._tails: dict[str, TenantTail] = {}

    def of(self, tenant: str, internal: frozenset[str]) -> TenantTail:
        """The tail of a tenant."""
        if tenant not in self._tails:
            self._tails[tenant] = TenantTail(self._store, tenant, internal)
        return self._tails[tenant]

    async def aclose(self) -> None:
        """Ends all tails."""
        for tail in self._tails.values():
            await tail.aclose()
