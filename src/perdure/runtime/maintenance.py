"""Periodic work that any engine does for its store: relays messages between reaches, and removes messages that will never be claimed.

It also tracks which queues have limits, so that calls on them wait for the store to hand them out and are not performed where they are opened.
"""

import logging
from collections.abc import Callable, Iterable

from perdure.code.declared_queues import Queue
from perdure.core.errors import StoreError, StoreUnusable
from perdure.runtime.holder import retry_with_backoff
from perdure.runtime.registrations import declare_queues, limited_queues
from perdure.stores.protocol import Store

logger = logging.getLogger("perdure.engine")

SWEEP_INTERVAL_S = 60.0
"""How often messages that will never be claimed, and records that have expired, are removed."""

EXPIRED_RECORDS_MAX = 1_000
"""How many expired records are removed each time."""


QUEUE_LIMITS_INTERVAL_S = 2.0
"""How often an engine that serves queues reads which of them have limits."""


class StoreMaintenance:
    """Relays messages after every claim of an engine, and removes expired ones once a minute.

    `set_queues` is called with those of `queues` that the engine may serve itself, because they have no limits.
    """

    __slots__ = ("_declares", "_limits_at_s", "_queues", "_set_queues", "_store", "_sweep_at_s")

    def __init__(self, store: Store, declares: Iterable[Queue], queues: frozenset[str], set_queues: Callable[[frozenset[str]], None]) -> None:
        self._store = store
        self._declares = tuple(declares)
        self._queues = queues
        self._set_queues = set_queues
        self._sweep_at_s = self._limits_at_s = 0.0

    async def begin(self) -> None:
        """Declares the queues of the code to the store, before anything runs."""
        await retry_with_backoff(lambda: declare_queues(self._store, self._declares))
        await retry_with_backoff(self._read_limits)

    async def _read_limits(self) -> None:
        if self._queues:
            self._set_queues(self._queues - await limited_queues(self._store))

    async def run_due(self, now_s: float) -> None:
        """Performs the maintenance that is due by now. If the store fails, the next call repeats it."""
        try:
            _ = await self._store.relay()
            if self._queues and now_s >= self._limits_at_s:
                await self._read_limits()
                self._limits_at_s = now_s + QUEUE_LIMITS_INTERVAL_S
            if now_s >= self._sweep_at_s:
                for queued in await self._store.drop_expired():
                    logger.warning(
                        "message %s to %s was removed: no execution with this id was started within seven days. Start the execution, and send it again",
                        queued.key,
                        queued.to,
                    )
                _ = await self._store.drop_expired_records(EXPIRED_RECORDS_MAX)
                self._sweep_at_s = now_s + SWEEP_INTERVAL_S
        except StoreUnusable:
            raise
        except StoreError as error:
            logger.warning("could not relay or remove messages: %s. Perdure retries it", error)
