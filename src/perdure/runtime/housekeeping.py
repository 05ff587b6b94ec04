"""Housekeeping: what any engine does for its store now and then. Mail is carried between reaches, and dropped where nobody will ever want it."""

import logging

from perdure.core.errors import StoreError
from perdure.stores.base import Store

logger = logging.getLogger("perdure.engine")

SWEEP_EVERY_S = 60.0
"""How often mail that nobody claims is looked for."""


class Housekeeping:
    """Relays at every turn of an engine, and sweeps once a minute."""

    __slots__ = ("_store", "_sweep_at_s")

    def __init__(self, store: Store) -> None:
        self._store = store
        self._sweep_at_s = 0.0

    async def turn(self, now_s: float) -> None:
        """Do what is to be done by now; what the store refuses is done in the next turn."""
        try:
            _ = await self._store.relay()
            if now_s >= self._sweep_at_s:
                for mail in await self._store.sweep():
                    logger.warning("mail %s to %s was dropped: it waited seven days, and no such execution was started", mail.key, mail.to)
                self._sweep_at_s = now_s + SWEEP_EVERY_S
        except StoreError as error:
            logger.warning("could not relay or sweep mail: %s", error)
