"""Warnings to those who wait for results that cannot come, as something is missing: an engine that knows the workflow, or a worker for a queue.

Waiting is no error, as an engine may be started later. So the warning goes to the logger ``perdure.client``, two seconds after the wait began
and once a minute from then on, in one line for all executions that lack the same.
"""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from perdure.core.errors import StoreError
from perdure.core.paths import Key
from perdure.service.blockers import MissingParts
from perdure.stores.base import Store

logger = logging.getLogger("perdure.client")

FIRST_AFTER_S = 2.0
"""How long somebody waits before the first warning."""

EVERY_S = 60.0
"""The time between two warnings to one who waits."""

GATHER_S = 0.05
"""How long further waits that are due are gathered, so that one look at the store serves them all."""

KEYS_MAX = 500
"""How many executions are looked at for one warning; of more, some are enough."""


class WaitNotices:
    """Everybody in one event loop who waits for results from one store."""

    def __init__(self, store: Store) -> None:
        self._missing = MissingParts(store)
        self._due: dict[Key, None] = {}
        self._telling: asyncio.Task[None] | None = None

    @contextmanager
    def waiting(self, key: Key) -> Iterator[None]:
        """Somebody waits for the result of `key` within the block."""
        timer: asyncio.TimerHandle
        loop = asyncio.get_running_loop()

        def due() -> None:
            nonlocal timer
            self._take(key)
            timer = loop.call_later(EVERY_S, due)

        timer = loop.call_later(FIRST_AFTER_S, due)
        try:
            yield
        finally:
            timer.cancel()
            self._due.pop(key, None)

    def close(self) -> None:
        """Warn nobody any more."""
        if self._telling is not None:
            self._telling.cancel()

    def _take(self, key: Key) -> None:
        self._due[key] = None
        if self._telling is None or self._telling.done():
            self._telling = asyncio.get_running_loop().create_task(self._tell())

    async def _tell(self) -> None:
        """Warn of what is missing for those that are due."""
        await asyncio.sleep(GATHER_S)
        keys, self._due = list(self._due)[:KEYS_MAX], {}
        try:
            missing = await self._missing.of(keys)
        except StoreError as error:
            logger.warning("could not find out why results do not come: %s", error)
            return
        by_reason: dict[str, list[Key]] = {}
        for key, reason in missing.items():
            by_reason.setdefault(reason, []).append(key)
        for reason, waiting in by_reason.items():
            others = f" and of {len(waiting) - 1} more" if len(waiting) > 1 else ""
            logger.warning("waiting for the result of %s%s: %s", waiting[0], others, reason)
