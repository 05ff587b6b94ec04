"""A holder: a process as the store knows it, alive as long as it renews its lease. What it holds is let go when it falls silent.

When the store begins a new epoch, or when nobody knows what the store has handed over, the process comes back under another
name: what the old one holds is then free for all. With `threaded`, the lease is renewed by a thread, for as long as the event
loop turns at all: a turn that takes long does not cost the lease, and a loop that hangs does not keep it.
"""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar
from uuid import uuid4

from perdure.core.errors import SealedPayload, StoreDamaged, StoreError, StoreUnavailable
from perdure.runtime import presence
from perdure.runtime.clock import Reading
from perdure.runtime.presence import Presence
from perdure.stores.base import Moment, Store

T = TypeVar("T")
logger = logging.getLogger("perdure.holder")

LEASE_S = 15.0
"""How long a holder that has fallen silent is taken to be alive."""

POLL_S = 1.0
"""How often who is idle asks the store: the net under the rings."""

WAIT_MIN_S, WAIT_MAX_S = 0.05, 5.0
"""The shortest and the longest wait before a store that was unavailable is asked again."""


class Renewal(NamedTuple):
    """What the store answered when a lease was renewed: its moment, and what that says of its time."""

    moment: Moment
    reading: Reading


class Holder:
    """One process at one store: its present name, and the epoch in which it is alive."""

    def __init__(self, store: Store, name: str | None, about: Presence, lease_s: float, *, threaded: bool = False) -> None:
        self.name = name or f"{about.kind}-{uuid4().hex}"
        self.epoch = 0
        self._store = store
        self._lease_s = lease_s
        self._about = presence.encode(about)
        self._threaded = threaded
        self._generation = 0
        self._renewed_s = 0.0
        self._broken_s = 0.0

    @property
    def lapsed(self) -> bool:
        """Whether the lease may have run out, so that others may have taken over what is held: true after the process was stopped for long."""
        return self._time() - self._renewed_s >= self._lease_s

    def unbroken(self, since_s: float) -> bool:
        """Whether the lease has surely held from `since_s`, on the clock of the loop, until now."""
        return self._broken_s <= since_s and not self.lapsed

    async def join(self) -> Renewal:
        """Begin to be alive; wait for the store if it is unavailable."""
        self._time = asyncio.get_running_loop().time
        renewal = await self.renew()
        self.epoch = renewal.moment.epoch
        return renewal

    async def renew(self) -> Renewal:
        """Renew the lease now; wait for the store if it is unavailable."""
        return await persistently(self._renew)

    async def _renew(self) -> Renewal:
        asked_s = self._time()
        moment = await self._store.renew(self.name, self._lease_s, self._about)
        reading = Reading(moment.now_s, asked_s, self._time())
        if self.lapsed:
            self._broken_s = self._time()
        self._renewed_s = asked_s
        return Renewal(moment, reading)

    def rename(self) -> None:
        """Take another name, under which nothing is held; to be followed by `join`."""
        self._generation += 1
        self.name = f"{self.name.partition('~')[0]}~{self._generation}"

    async def let_go(self, name: str | None = None) -> None:
        """Let go everything that is held under the present name, or an earlier one."""
        _ = await persistently(lambda: self._store.renew(name or self.name, 0))

    async def leave(self) -> None:
        """Let go everything, if the store can be told; if not, the lease will run out."""
        try:
            _ = await self._store.renew(self.name, 0)
        except StoreError as error:
            logger.warning("could not tell the store that %s is gone: %s; its lease will run out", self.name, error)

    async def keep_alive(self, told: Callable[[Renewal], Awaitable[None]]) -> None:
        """Renew the lease until cancelled; `told` is given what the store answers, and finds out whether its epoch is a new one."""
        if self._threaded:
            await self._keep_alive_by_thread(told)
        while True:
            await asyncio.sleep(self._lease_s / 3)
            if (renewal := await self._attempt()) is not None:
                await told(renewal)

    async def _attempt(self) -> Renewal | None:
        try:
            return await self._renew()
        except StoreDamaged:
            raise
        except StoreError as error:
            logger.warning("could not renew the lease of %s: %s", self.name, error)
            return None

    async def _keep_alive_by_thread(self, told: Callable[[Renewal], Awaitable[None]]) -> None:
        loop, renewals, ended = asyncio.get_running_loop(), asyncio.Queue[Renewal | StoreDamaged](), threading.Event()
        turned = threading.Event()
        turned.set()

        def renew_while_it_turns() -> None:
            while not ended.wait(self._lease_s / 3):
                if not turned.is_set():
                    logger.warning(
                        "the event loop of %s has not turned for %.2g s, so its lease is not renewed; find what blocks it", self.name, self._lease_s / 3
                    )
                    continue
                turned.clear()
                try:
                    renewal: Renewal | StoreDamaged | None = asyncio.run(self._attempt())
                except StoreDamaged as damage:
                    renewal = damage
                if not loop.is_closed():
                    loop.call_soon_threadsafe(turned.set)
                    if renewal is not None:
                        loop.call_soon_threadsafe(renewals.put_nowait, renewal)

        thread = threading.Thread(target=renew_while_it_turns, name=f"perdure-lease-{self.name}", daemon=True)
        thread.start()
        try:
            while True:
                renewal = await renewals.get()
                if isinstance(renewal, StoreDamaged):
                    raise renewal
                await told(renewal)
        finally:
            ended.set()
            thread.join()


class Patience:
    """Waits longer each time."""

    def __init__(self) -> None:
        self.wait_s = WAIT_MIN_S

    async def wait(self) -> None:
        """Wait, twice as long as the last time."""
        wait_s, self.wait_s = self.wait_s, min(self.wait_s * 2, WAIT_MAX_S)
        await asyncio.sleep(wait_s)


async def persistently(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask the store until it answers, waiting longer each time. What is sealed here is no answer: a key may be missing in this process alone."""
    patience = Patience()
    while True:
        try:
            return await ask()
        except (StoreUnavailable, SealedPayload) as error:
            logger.warning("the store is unavailable: %s; trying again in %.2g s", error, patience.wait_s)
            await patience.wait()


def bell(store: Store, ring: asyncio.Event) -> Callable[[], None]:
    """Set `ring`, on its own loop, whenever the store has something new; return what ends that."""
    loop = asyncio.get_running_loop()

    def wake() -> None:
        loop.call_soon_threadsafe(ring.set)

    return store.on_wake(wake)
