"""A holder: one process at a store. It lives as long as it renews its lease; what it holds is free for others when the lease runs out.

When the store begins a new epoch, or it is not known what the store has handed over, the process joins again under another name, and what the old name
holds is released. With `threaded`, a thread renews the lease as long as the event loop makes progress at all: a long turn does not cost the lease, and a
loop that hangs does not keep it. `WorkClaims` leases work of queues for one holder. `ProcessInfo` describes the process for people; no rule depends on it.
"""

import asyncio
import logging
import os
import platform
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

import msgspec

from perdure.core.envelopes import Ack, QueuedMessage
from perdure.core.errors import SealedPayload, StoreDamaged, StoreError, StoreUnavailable
from perdure.core.messages import TaskMessage
from perdure.core.paths import Key
from perdure.core.program import Toolbox
from perdure.runtime import attempt_reports
from perdure.runtime.quarantine import UNREADABLE, QuarantineReports, postponement
from perdure.runtime.store_clock import ClockReading, StoreAlarm, StoreClock
from perdure.stores.protocol import Claim, Post, Store, StoreTime


class ProcessInfo(msgspec.Struct, frozen=True):
    """Who a holder is: its kind (engine, worker), where it runs, which programs it advances and with which capabilities, and which queues it serves.

    With `roots`, it advances only these executions and their descendants, as the engine of a script does.
    """

    kind: str
    host: str
    pid: int
    programs: list[str]
    queues: list[str]
    started_at_s: float
    roots: list[Key] | None = None
    toolboxes: tuple[Toolbox, ...] = ()


def process_info_here(
    kind: str, programs: Iterable[str] = (), queues: Iterable[str] = (), roots: Iterable[Key] | None = None, toolboxes: tuple[Toolbox, ...] = ()
) -> ProcessInfo:
    """The presence of something in this process."""
    return ProcessInfo(
        kind, platform.node(), os.getpid(), sorted(programs), sorted(queues), round(time.time(), 3), None if roots is None else sorted(roots), toolboxes
    )


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(ProcessInfo)


def encode_process_info(presence: ProcessInfo) -> bytes:
    """The bytes of a lease's `about`."""
    return _encoder.encode(presence)


def decode_process_info(about: bytes) -> ProcessInfo | None:
    """Read what `encode` wrote; None of what is something else, such as nothing at all."""
    try:
        return _decoder.decode(about)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


T = TypeVar("T")
logger = logging.getLogger("perdure.holder")

HOLDER_LEASE_S = 15.0
"""How long a holder that has fallen silent is taken to be alive."""

STORE_POLL_S = 1.0
"""How often who is idle asks the store: the net under the rings."""

WAIT_MIN_S, WAIT_MAX_S = 0.05, 5.0
"""The shortest and the longest wait before a store that was unavailable is asked again."""


class LeaseRenewal(NamedTuple):
    """What the store answered when a lease was renewed: its moment, and what that says of its time."""

    moment: StoreTime
    reading: ClockReading


class Holder:
    """One process at one store: its present name, and the epoch in which it is alive."""

    def __init__(self, store: Store, name: str | None, about: ProcessInfo, lease_s: float, *, threaded: bool = False) -> None:
        self.name = name or f"{about.kind}-{uuid4().hex}"
        self.epoch = 0
        self._store = store
        self._lease_s = lease_s
        self._about = encode_process_info(about)
        self._threaded = threaded
        self._generation = 0
        self._renewed_s = 0.0
        self._broken_s = 0.0

    def describe(self, about: ProcessInfo) -> None:
        """Say something else of the process, from the next renewal on."""
        self._about = encode_process_info(about)

    @property
    def lapsed(self) -> bool:
        """Whether the lease may have run out, so that others may have taken over what is held: true after the process was stopped for long."""
        return self._time() - self._renewed_s >= self._lease_s

    def unbroken(self, since_s: float) -> bool:
        """Whether the lease has surely held from `since_s`, on the clock of the loop, until now."""
        return self._broken_s <= since_s and not self.lapsed

    async def join(self) -> LeaseRenewal:
        """Begin to be alive; wait for the store if it is unavailable."""
        self._time = asyncio.get_running_loop().time
        renewal = await self.renew()
        self.epoch = renewal.moment.epoch
        return renewal

    async def renew(self) -> LeaseRenewal:
        """Renew the lease now; wait for the store if it is unavailable."""
        return await retry_with_backoff(self._renew)

    async def _renew(self) -> LeaseRenewal:
        asked_s = self._time()
        moment = await self._store.renew(self.name, self._lease_s, self._about)
        reading = ClockReading(moment.now_s, asked_s, self._time())
        if self.lapsed:
            self._broken_s = self._time()
        self._renewed_s = asked_s
        return LeaseRenewal(moment, reading)

    def rename(self) -> None:
        """Take another name, under which nothing is held; to be followed by `join`."""
        self._generation += 1
        self.name = f"{self.name.partition('~')[0]}~{self._generation}"

    async def let_go(self, name: str | None = None) -> None:
        """Let go everything that is held under the present name, or an earlier one."""
        _ = await retry_with_backoff(lambda: self._store.renew(name or self.name, 0))

    async def leave(self) -> None:
        """Let go everything, if the store can be told; if not, the lease will run out."""
        try:
            _ = await self._store.renew(self.name, 0)
        except StoreError as error:
            logger.warning("could not tell the store that %s is gone: %s; its lease will run out", self.name, error)

    async def keep_alive(self, told: Callable[[LeaseRenewal], Awaitable[None]]) -> None:
        """Renew the lease until cancelled; `told` is given what the store answers, and finds out whether its epoch is a new one."""
        if self._threaded:
            await self._keep_alive_by_thread(told)
        while True:
            await asyncio.sleep(self._lease_s / 3)
            if (renewal := await self._attempt()) is not None:
                await told(renewal)

    async def _attempt(self) -> LeaseRenewal | None:
        try:
            return await self._renew()
        except StoreDamaged:
            raise
        except StoreError as error:
            logger.warning("could not renew the lease of %s: %s", self.name, error)
            return None

    async def _keep_alive_by_thread(self, told: Callable[[LeaseRenewal], Awaitable[None]]) -> None:
        loop, renewals, ended = asyncio.get_running_loop(), asyncio.Queue[LeaseRenewal | StoreDamaged](), threading.Event()
        turned = threading.Event()
        turned.set()

        def renew_while_it_turns() -> None:
            while not ended.wait(self._lease_s / 3) and not loop.is_closed():
                if not turned.is_set():
                    logger.warning(
                        "the event loop of %s has not turned for %.2g s, so its lease is not renewed; find what blocks it", self.name, self._lease_s / 3
                    )
                    continue
                turned.clear()
                try:
                    renewal: LeaseRenewal | StoreDamaged | None = asyncio.run(self._attempt())
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


class Backoff:
    """Waits longer each time."""

    def __init__(self) -> None:
        self.wait_s = WAIT_MIN_S

    async def wait(self) -> None:
        """Wait, twice as long as the last time."""
        wait_s, self.wait_s = self.wait_s, min(self.wait_s * 2, WAIT_MAX_S)
        await asyncio.sleep(wait_s)


async def retry_with_backoff(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask the store until it answers, waiting longer each time. What is sealed here is no answer: a key may be missing in this process alone."""
    patience = Backoff()
    while True:
        try:
            return await ask()
        except (StoreUnavailable, SealedPayload) as error:
            logger.warning("the store is unavailable: %s; trying again in %.2g s", error, patience.wait_s)
            await patience.wait()


def set_on_notification(store: Store, ring: asyncio.Event) -> Callable[[], None]:
    """Set `ring`, on its own loop, whenever the store has something new; return what ends that."""
    loop = asyncio.get_running_loop()

    def wake() -> None:
        loop.call_soon_threadsafe(ring.set)

    return store.on_wake(wake)


work_logger = logging.getLogger("perdure.worker")


WANTED_POLL_S = 1.0
"""How often is looked whether what is leased is still wanted."""


class WorkClaims:
    """What one holder leases. `forsake` is called when all that it has leased is its own no longer."""

    def __init__(self, store: Store, membership: Holder, poll_s: float, on_lease_lost: Callable[[], None]) -> None:
        self.membership = membership
        self._store = store
        self._poll_s = poll_s
        self._on_lease_lost = on_lease_lost
        self._damage: StoreDamaged | None = None
        self._ring = asyncio.Event()
        self._backoff = Backoff()
        self._reports = QuarantineReports(work_logger)

    @asynccontextmanager
    async def alive(self) -> AsyncIterator[None]:
        """Be alive at the store, and hear its rings; at the end, everything is let go."""
        self.clock = StoreClock(asyncio.get_running_loop().time)
        self._alarm = StoreAlarm(self.clock, self._ring)
        silence = set_on_notification(self._store, self._ring)
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

    async def claim(self, queues: frozenset[str], limit: int, tenants: frozenset[str] | None = None) -> list[tuple[QueuedMessage, TaskMessage]]:
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
            work_logger.warning("could not claim: %s; what the store may have leased is let go", error)
            await self._begin_anew()
            await self._backoff.wait()
            return []
        self._backoff = Backoff()
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

    async def _readable(self, leased: tuple[QueuedMessage, ...]) -> list[tuple[QueuedMessage, TaskMessage]]:
        """The work that can be read; the rest is postponed, for whoever can read it."""
        found, postponing = list[tuple[QueuedMessage, TaskMessage]](), list[Ack]()
        for mail in leased:
            try:
                found.append((mail, attempt_reports.decode_work(mail)))
            except UNREADABLE as error:
                self._reports.report(mail.to, mail.key, error)
                postponing.append(postponement(mail, self.clock.now().latest_s, error))
        if postponing:
            try:
                _ = await self._store.commit([Post(epoch=self.membership.epoch, acks=tuple(postponing))])
            except StoreError as error:
                work_logger.warning("could not postpone what can't be read: %s; it stays leased until this worker ends", error)
        return found

    async def _renewed(self, renewal: LeaseRenewal) -> None:
        """In a new epoch of the store, what is leased is no longer ours."""
        self.clock.take(renewal.reading)
        if renewal.moment.epoch > self.membership.epoch:
            await self._begin_anew()

    async def _begin_anew(self) -> None:
        """Let go of what is leased, and come back as another holder."""
        self._on_lease_lost()
        before = self.membership.name
        self.membership.rename()  # at once, so that what is still on its way to the old name is not begun
        await self.membership.let_go(before)
        self.clock.take((await self.membership.join()).reading)
