"""Posts the rows of an outbox to the store, and removes them.

A relay runs beside each engine of an `App` with an outbox. It looks for rows when a transaction of this process commits, and otherwise every `OUTBOX_POLL_S`.
If it dies after a post and before the removal, the next relay posts the row again, which has no effect.

Neither a fault of the user's database nor one of the store ends the relay: the rows stay, and it attempts them again.
"""

import asyncio
import logging
from contextlib import suppress

from perdure.core.errors import LogDamaged, PerdureError, StoreError
from perdure.runtime.holder import Backoff
from perdure.runtime.step_resources import DaemonThreads
from perdure.stores.outbox import ROWS_PER_BATCH, Outbox, OutboxBatch, OutboxTransactions, decode_row
from perdure.stores.protocol import Committed, Post, Store

OUTBOX_POLL_S = 0.5
"""How long a row that another process has committed may wait for the next look."""

FIRST_POLL_S = 0.005
"""The wait after a transaction of this process has committed, or is about to, which is all that some drivers tell. Each further wait is `POLL_GROWTH` times
as long, up to `OUTBOX_POLL_S`."""

POLL_GROWTH = 3.0

logger = logging.getLogger("perdure.outbox")


class OutboxRelay:
    """Posts the rows of `source` to `store` until it is stopped."""

    def __init__(self, source: OutboxTransactions, store: Store, poll_s: float = OUTBOX_POLL_S) -> None:
        self._source, self._store, self._poll_s = source, store, poll_s
        self._wait_s = poll_s
        self._stopping = False
        self._woken = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Posts rows until stopped. A batch in flight is finished, or stays as it was."""
        loop, threads, backoff = asyncio.get_running_loop(), DaemonThreads(1), Backoff()
        self._running = asyncio.current_task()
        try:
            with self._source.outbox.listening(lambda: _wake(loop, self._woken)):
                while not self._stopping:
                    wait_s = await self._next_wait_s(self._source.outbox, threads, backoff)
                    if wait_s and await _is_set_within(self._woken, wait_s):
                        self._woken.clear()
                        self._wait_s = FIRST_POLL_S
        finally:
            threads.shutdown()

    def stop(self, grace_s: float = 0.0) -> None:
        """Makes `run` return, within `grace_s`. What is not posted by then stays in the outbox."""
        self._stopping = True
        self._woken.set()
        if self._running is not None:
            asyncio.get_running_loop().call_later(grace_s, self._running.cancel)

    async def _next_wait_s(self, outbox: Outbox, threads: DaemonThreads, backoff: Backoff) -> float:
        """Posts a batch; returns how long to wait for the next one."""
        try:
            async with outbox.batch(threads) as batch:
                await self._post(batch)
        except Exception as error:  # of the store, or any driver; whatever it is, the rows are still there
            wait_s = backoff.next_s()
            logger.warning("could not post the rows of the outbox: %s. They stay there; Perdure attempts it again in %.2g s", error, wait_s)
            return wait_s
        backoff.reset()
        for number, why in batch.failed.items():
            logger.error("row %d of the outbox can't be posted: %s. It stays there, and is attempted again when its column `error` is NULL", number, why)
        wait_s, self._wait_s = self._wait_s, min(self._wait_s * POLL_GROWTH, self._poll_s)
        return 0.0 if len(batch.rows) == ROWS_PER_BATCH else wait_s

    async def _post(self, batch: OutboxBatch) -> None:
        posts: dict[int, Post] = {}
        for row in batch.rows:
            try:
                posts[row.number] = decode_row(row, self._source.codec)
            except LogDamaged as error:
                batch.failed[row.number] = str(error)
        try:
            await self._commit(batch, posts)
        except StoreError:
            raise
        except PerdureError:  # one of them is not accepted: find out which
            for number, post in posts.items():
                await self._commit_alone(batch, number, post)

    async def _commit_alone(self, batch: OutboxBatch, number: int, post: Post) -> None:
        try:
            await self._commit(batch, {number: post})
        except StoreError:
            raise
        except PerdureError as error:
            batch.failed[number] = str(error)

    async def _commit(self, batch: OutboxBatch, posts: dict[int, Post]) -> None:
        answers = await self._store.commit(list(posts.values())) if posts else ()
        batch.failed.update(
            {number: f"the store answered {answer}" for number, answer in zip(posts, answers, strict=True) if not isinstance(answer, Committed)}
        )


def _wake(loop: asyncio.AbstractEventLoop, woken: asyncio.Event) -> None:
    with suppress(RuntimeError):  # the loop is closed, and nobody waits any more
        loop.call_soon_threadsafe(woken.set)


async def _is_set_within(event: asyncio.Event, wait_s: float) -> bool:
    with suppress(TimeoutError):
        return await asyncio.wait_for(event.wait(), wait_s)
    return False
