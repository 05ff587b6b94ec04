"""The time by which keys, sessions and forms expire: that of the store, which wrote when they end.

The clock of this process may be set back, or differ from that of another machine. So the time is read from the store, with the reads that are made anyway,
and is carried on by the monotonic clock, as engines do it.
"""

import time
from collections.abc import Callable

from perdure.runtime.store_clock import StoreClock
from perdure.stores.protocol import ReadOnlyStore

READ_INTERVAL_S = 5.0
"""How old a reading of the store's time is before `refresh` takes another one."""


class ServiceClock:
    """The time of a store, known without a read of it. `monotonic` is the clock that carries it on."""

    def __init__(self, store: ReadOnlyStore, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.monotonic = monotonic
        self._store, self._bounds = store, StoreClock(monotonic)
        self._read_at_s: float | None = None

    async def refresh(self) -> None:
        """Reads the time of the store, unless that was done within `READ_INTERVAL_S`.

        Raises:
            StoreUnavailable: the store did not answer.
        """
        asked_s = self.monotonic()
        if self._read_at_s is None or asked_s >= self._read_at_s + READ_INTERVAL_S:
            self._bounds.take_answer((await self._store.store_time()).now_s, asked_s)
            self._read_at_s = asked_s

    def now_s(self) -> float:
        """The latest time that it can be in the store, in seconds since 1970, so that nothing is valid after its end. `refresh` comes before it."""
        assert self._read_at_s is not None, "the time of the store was never read"
        return self._bounds.now().latest_s
