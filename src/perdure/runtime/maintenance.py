"""Periodic work that any engine does for its store: relays messages between reaches, and removes messages that will never be claimed.

It also tracks which queues have limits, so that calls on them wait for the store to hand them out and are not performed where they are opened.
"""

import logging
from collections.abc import Callable, Iterable

from perdure.code.declared_queues import Queue
from perdure.core.errors import StoreDamaged, StoreError
from perdure.runtime.holder import retry_with_backoff
from perdure.runtime.registrations import declare_queues, limited_queues
from perdure.stores.protocol import Store

logger = logging.getLogger("perdure.engine")

SWEEP_INTERVAL_S = 60.0
"""How often mail that nobody claims is looked for."""


QUEUE_LIMITS_INTERVAL_S = 2.0
"""How often it is looked at which queues have limits, where calls on queues are served at all."""


class StoreMaintenance:
    """Relays at every turn of an engine, and sweeps once a minute. `serve` is told which of `queues` the engine may serve itself."""

    __slots__ = ("_declares", "_look_at_s", "_queues", "_serve", "_store", "_sweep_at_s")

    def __init__(self, store: Store, declares: Iterable[Queue], queues: frozenset[str], serve: Callable[[frozenset[str]], None]) -> None:
        self._store = store
        self._declares = tuple(declares)
        self._queues = queues
        self._serve = serve
        self._sweep_at_s = self._look_at_s = 0.0

    async def begin(self) -> None:
        """Tell the store of queues that the code declares, before anything runs."""
        await retry_with_backoff(lambda: declare_queues(self._store, self._declares))
        await retry_with_backoff(self._look)

    async def _look(self) -> None:
        if self._queues:
            self._serve(self._queues - await limited_queues(self._store))

    async def turn(self, now_s: float) -> None:
        """Do what is to be done by now; what the store refuses is done in the next turn."""
        try:
            _ = await self._store.relay()
            if self._queues and now_s >= self._look_at_s:
                await self._look()
                self._look_at_s = now_s + QUEUE_LIMITS_INTERVAL_S
            if now_s >= self._sweep_at_s:
                for queued in await self._store.drop_expired():
                    logger.warning("mail %s to %s was dropped: it waited seven days, and no such execution was started", queued.key, queued.to)
                self._sweep_at_s = now_s + SWEEP_INTERVAL_S
        except StoreDamaged:
            raise
        except StoreError as error:
            logger.warning("could not relay or sweep mail: %s", error)
