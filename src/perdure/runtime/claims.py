"""Claims: work of queues, leased in the name of one holder, which is kept alive meanwhile.

Who can't know what is leased in its name comes back under another: what the store has given to the old one is then free for all.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from perdure.core.errors import StoreDamaged, StoreError
from perdure.core.mail import Ack, Mail
from perdure.core.messages import Work
from perdure.runtime import answers
from perdure.runtime.clock import Alarm, StoreClock
from perdure.runtime.holder import Holder, Patience, Renewal, bell
from perdure.runtime.quarantine import UNREADABLE, Reports, postponed
from perdure.stores.base import Claim, Post, Store

logger = logging.getLogger("perdure.worker")


LOOK_S = 1.0
"""How often is looked whether what is leased is still wanted."""


class Claims:
    """What one holder leases. `forsake` is called when all that it has leased is its own no longer."""

    def __init__(self, store: Store, membership: Holder, poll_s: float, forsake: Callable[[], None]) -> None:
        self.membership = membership
        self._store = store
        self._poll_s = poll_s
        self._forsake = forsake
        self._damage: StoreDamaged | None = None
        self._ring = asyncio.Event()
        self._patience = Patience()
        self._reports = Reports(logger)

    @asynccontextmanager
    async def alive(self) -> AsyncIterator[None]:
        """Be alive at the store, and hear its rings; at the end, everything is let go."""
        self.clock = StoreClock(asyncio.get_running_loop().time)
        self._alarm = Alarm(self.clock, self._ring)
        silence = bell(self._store, self._ring)
        renewing: asyncio.Task[None] | None = None
        try:
            self.clock.take((await self.membership.join()).reading)
            renewing = asyncio.create_task(self.membership.keep_alive(self._renewed))
            renewing.add_done_callback(self.ended)
            yield
        finally:
            self._alarm.cancel()
            silence()
            if renewing is not None:
                renewing.cancel()
                _ = await asyncio.gather(renewing, return_exceptions=True)
            await self.membership.leave()

    def ended(self, task: asyncio.Task[Any]) -> bool:
        """Have the next claim fail if this task has found the store damaged; return whether it has."""
        if not task.cancelled() and isinstance(damage := task.exception(), StoreDamaged):
            self._damage = damage
            self._ring.set()
        return self._damage is not None

    def check(self) -> None:
        """Find out whether anything more can be done with the store.

        Raises:
            StoreDamaged: nothing can.
        """
        if self._damage is not None:
            raise self._damage

    def ring(self) -> None:
        """There may be something to claim."""
        self._ring.set()

    async def wait(self) -> None:
        """Wait until there may be something to claim."""
        try:
            await asyncio.wait_for(self._ring.wait(), self._poll_s)
        except TimeoutError:
            return
        finally:
            self._ring.clear()

    async def claim(self, queues: frozenset[str], limit: int, tenants: frozenset[str] | None = None) -> list[tuple[Mail, Work]]:
        """Lease up to so much work; what may be leased to others by now is not given. What can't be read is postponed.

        Raises:
            StoreDamaged: no more can be done with this store.
        """
        self.check()
        name, asked_s = self.membership.name, asyncio.get_running_loop().time()
        try:
            claimed = await self._store.claim(Claim(holder=name, epoch=self.membership.epoch, queues=queues, limit=limit, tenants=tenants))
        except StoreDamaged:
            raise
        except StoreError as error:
            logger.warning("could not claim: %s; what the store may have leased is let go", error)
            await self._begin_anew()
            await self._patience.wait()
            return []
        self._patience = Patience()
        self.clock.take_answer(claimed.now_s, asked_s)
        if tenants is None or claimed.next_at_s is None or claimed.next_at_s > claimed.now_s:  # what others may have by now is no reason to ask again
            self._alarm.at(claimed.next_at_s)
        if name != self.membership.name:  # it came back under another name meanwhile, and has let go what this one was given
            self._ring.set()
            return []
        if claimed.work and not self.membership.unbroken(asked_s):  # the answer took so long that others may have been given the same
            await self._begin_anew()
            self._ring.set()
            return []
        return await self._readable(claimed.work)

    async def _readable(self, leased: tuple[Mail, ...]) -> list[tuple[Mail, Work]]:
        """The work that can be read; the rest is postponed, for whoever can read it."""
        found, postponing = list[tuple[Mail, Work]](), list[Ack]()
        for mail in leased:
            try:
                found.append((mail, answers.read(mail)))
            except UNREADABLE as error:
                self._reports.report(mail.to, mail.key, error)
                postponing.append(postponed(mail, self.clock.now().latest_s, error))
        if postponing:
            try:
                _ = await self._store.commit([Post(epoch=self.membership.epoch, acks=tuple(postponing))])
            except StoreError as error:
                logger.warning("could not postpone what can't be read: %s; it stays leased until this worker ends", error)
        return found

    async def _renewed(self, renewal: Renewal) -> None:
        """In a new epoch of the store, what is leased is no longer ours."""
        self.clock.take(renewal.reading)
        if renewal.moment.epoch > self.membership.epoch:
            await self._begin_anew()

    async def _begin_anew(self) -> None:
        """Let go of what is leased, and come back as another holder."""
        self._forsake()
        before = self.membership.name
        self.membership.rename()  # at once, so that what is still on its way to the old name is not begun
        await self.membership.let_go(before)
        self.clock.take((await self.membership.join()).reading)
