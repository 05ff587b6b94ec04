"""Lets thousands of tasks wait for changes of executions with one poll of the store for all of them.

The store notifies when an execution ends or needs attention. Other changes, and those whose notification was lost, are found by polling. However many tasks
wait, and however often the store notifies of executions that nobody here waits for, polling takes a fifth of the time at most. What is asked for the first
time, and what has an answer, does not count: so a task that waits has its answer at once.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable

from perdure.core.errors import StoreUnavailable
from perdure.core.paths import Key
from perdure.stores.protocol import Head, HeadFilter, Store

logger = logging.getLogger("perdure.watch")

POLL_S = 1.0
"""How often all awaited executions are polled, in case a notification was lost."""

QUICK_S = 0.1
"""How often executions that are followed closely are polled, because the store does not notify of all their changes."""

BACK_OFF_MAX_S = 5.0
"""The longest wait before an unavailable store is polled again."""

REST_FACTOR = 4
"""After a poll, the watcher rests for this many times the duration of the poll, as far as it asked again for what had not changed."""

REST_DEBT_S = 0.01
"""How much rest may be owed before the watcher takes it, so that a few waiters have their notification answered at once."""

KEYS_PER_QUERY_MAX = 500
"""How many executions one query asks for, so that no answer holds up the event loop."""

CLOSED_TEXT = "could not continue to wait for the execution: the client was closed. Open another client and wait again"

HeadPredicate = Callable[[Head | None], bool]


class _HeadWaiter:
    """A waiter for a change: its future resolves when the head of `key` fits. `was_offered` says whether there was a head that did not."""

    __slots__ = ("fits", "future", "key", "quick", "was_offered")

    def __init__(self, key: Key, fits: HeadPredicate, quick: bool) -> None:
        self.key, self.fits, self.quick, self.was_offered = key, fits, quick, False
        self.future: asyncio.Future[Head | None] = asyncio.get_running_loop().create_future()

    def offer(self, head: Head | None) -> bool:
        """Resolves the future if the head fits. Returns True if it does not, and neither did the one before."""
        if not self.future.done() and self.fits(head):
            self.future.set_result(head)
        is_idle = self.was_offered and not self.future.done()
        self.was_offered = True
        return is_idle

    def fail(self, error: BaseException) -> None:
        """Fails the future."""
        if not self.future.done():
            self.future.set_exception(error)


class ChangeWatcher:
    """The waiters of one event loop for executions of one store. The store may be unavailable meanwhile.

    Executions for which `is_followed` returns True are polled only for waiters with `quick`: the others learn of the end in another way.
    """

    def __init__(self, store: Store, is_followed: Callable[[Key], bool] = lambda _: False) -> None:
        self._store = store
        self._is_followed = is_followed
        self._unsubscribe: Callable[[], None] | None = None
        self._waiters: dict[_HeadWaiter, None] = {}
        self._fresh: list[_HeadWaiter] = []
        self._woken = asyncio.Event()
        self._notified = False
        self._all_at_s = self._quick_at_s = self._rested_at_s = 0.0
        self._back_off_s = QUICK_S
        self._polling: asyncio.Task[None] | None = None
        self._closed = False

    async def until(self, key: Key, fits: HeadPredicate, *, quick: bool = False) -> Head | None:
        """Waits until `fits` accepts the head of an execution (None: there is none), and returns it.

        With `quick`, a change without a notification is noticed within a tenth of a second, otherwise within a second.

        Raises:
            StoreUnavailable: the watch was closed.
        """
        if self._closed:
            raise StoreUnavailable(CLOSED_TEXT)
        waiter = _HeadWaiter(key, fits, quick)
        self._waiters[waiter] = None
        self._fresh.append(waiter)
        self._woken.set()
        if self._polling is None or self._polling.done():
            self._polling = asyncio.create_task(self._poll_loop())
        try:
            return await waiter.future
        finally:
            self._waiters.pop(waiter, None)

    def poll_now(self) -> None:
        """Polls all awaited executions now. It must be called on the loop of the waiters."""
        self._notified = True
        self._woken.set()

    def close(self) -> None:
        """Fails all waiters, and ends the subscription."""
        self._closed = True
        self._fail(StoreUnavailable(CLOSED_TEXT))
        if self._polling is not None:
            self._polling.cancel()
        if self._unsubscribe is not None:
            self._unsubscribe()

    def listen(self) -> None:
        """Subscribes to the notifications of the store, unless that has happened. The first waiter does the same, but then pays for it."""
        if self._unsubscribe is None:
            loop = asyncio.get_running_loop()

            def on_change() -> None:
                if not loop.is_closed():
                    loop.call_soon_threadsafe(self.poll_now)

            self._unsubscribe = self._store.on_change(on_change)

    def _fail(self, error: BaseException) -> None:
        for waiter in list(self._waiters):
            waiter.fail(error)
        self._waiters.clear()

    async def _poll_loop(self) -> None:
        loop = asyncio.get_running_loop()
        self.listen()
        try:
            while self._waiters:
                try:
                    took_s = await self._poll(self._due_waiters(loop.time()))
                    self._back_off_s = QUICK_S
                except StoreUnavailable as error:
                    logger.warning("could not poll the executions that are waited for: %s. Perdure retries it in %.2g s", error, self._back_off_s)
                    await asyncio.sleep(self._back_off_s)
                    self._back_off_s = min(2 * self._back_off_s, BACK_OFF_MAX_S)
                    self._notified = True
                    continue
                self._rested_at_s = max(self._rested_at_s + took_s, loop.time()) + min(REST_FACTOR * took_s, POLL_S)
                if (owed_s := self._rested_at_s - loop.time()) > REST_DEBT_S:
                    await asyncio.sleep(owed_s)
                await self._rest()
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # reported as the failure of the watcher, of any class
            self._fail(error)

    def _due_waiters(self, now_s: float) -> list[_HeadWaiter]:
        """Returns the waiters to poll for now: all, the new ones and those with `quick`, or only the new ones."""
        fresh, self._fresh = self._fresh, []
        if self._notified or now_s >= self._all_at_s:
            self._notified = False
            self._all_at_s, self._quick_at_s = now_s + POLL_S, now_s + QUICK_S
            return list(self._waiters)
        if now_s >= self._quick_at_s:
            self._quick_at_s = now_s + QUICK_S
            return [*fresh, *(waiter for waiter in self._waiters if waiter.quick)]
        return fresh

    async def _poll(self, waiters: Iterable[_HeadWaiter]) -> float:
        """Polls the executions of these waiters. Returns for how many seconds it asked again for what had not changed, without the time of other tasks."""
        clock_s, took_s = asyncio.get_running_loop().time, 0.0
        waiting: dict[Key, list[_HeadWaiter]] = {}
        for waiter in waiters:
            if self._is_followed(waiter.key) and not waiter.quick:
                continue
            waiting.setdefault(waiter.key, []).append(waiter)
        keys = list(waiting)
        for first in range(0, len(keys), KEYS_PER_QUERY_MAX):
            asked = tuple(keys[first : first + KEYS_PER_QUERY_MAX])
            began_s = clock_s()
            heads = {head.key: head for head in await self._store.heads(HeadFilter(keys=asked, limit=len(asked)))}
            idle = 0
            for key in asked:
                were_idle = [waiter.offer(heads.get(key)) for waiter in waiting[key]]
                idle += all(were_idle)
            took_s += (clock_s() - began_s) * idle / len(asked)
            await asyncio.sleep(0)
        return took_s

    async def _rest(self) -> None:
        """Waits for a new waiter, for a notification, or until it is time to poll again."""
        self._woken.clear()
        if self._notified or self._fresh or not self._waiters:
            return
        loop = asyncio.get_running_loop()
        due_s = min(self._all_at_s, self._quick_at_s) if any(waiter.quick for waiter in self._waiters) else self._all_at_s
        timer = loop.call_at(due_s, self._woken.set)
        try:
            _ = await self._woken.wait()
        finally:
            timer.cancel()
