"""A holder is one process at a store. It is alive as long as it renews its lease; when the lease expires, others may claim what it holds.

When the store begins a new epoch, or a claim fails without saying what it assigned, the process joins again under another name, and what the old name
holds is released. With `threaded`, a thread renews the lease as long as the event loop makes progress: one long callback does not lose the lease, and a
loop that hangs does not keep it. `TaskClaims` claims tasks of queues for one holder. `ProcessInfo` describes the process for people; no rule depends on it.
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
from perdure.core.errors import UNREADABLE, SealedPayload, StoreError, StoreMoved, StoreUnavailable, StoreUnusable
from perdure.core.messages import TaskMessage
from perdure.core.paths import Key
from perdure.core.program import Toolbox
from perdure.runtime import attempt_reports
from perdure.runtime.quarantine import QuarantineReports, postponement
from perdure.runtime.store_clock import ClockReading, StoreClock, WakeUpTimer
from perdure.stores.protocol import Claim, NothingClaimed, Post, Store, StoreTime


class ProcessInfo(msgspec.Struct, frozen=True):
    """A description of a holder: its kind (engine, worker), where it runs, which programs it advances and with which capabilities, and which queues it serves.

    With `roots`, it advances only these executions and their descendants, as the engine of a script does. With `tenants`, it serves these and no others.
    `definitions` are the names of the programs that are definitions; `inputs` has, by program, the JSON Schema of the input of workflows of code, and
    `messages` those of the messages that they may receive, by name. `scheduled` are the workflows of code that declare a schedule.
    """

    kind: str
    host: str
    pid: int
    programs: list[str]
    queues: list[str]
    started_at_s: float
    roots: list[Key] | None = None
    toolboxes: tuple[Toolbox, ...] = ()
    tenants: tuple[str, ...] | None = None
    definitions: tuple[str, ...] = ()
    inputs: dict[str, Any] = {}
    messages: dict[str, dict[str, Any]] = {}
    scheduled: tuple[str, ...] = ()

    def serves(self, tenant: str) -> bool:
        """Whether the process serves a tenant."""
        return self.tenants is None or tenant in self.tenants


def process_info_here(kind: str, programs: Iterable[str] = (), queues: Iterable[str] = (), tenants: Iterable[str] | None = None) -> ProcessInfo:
    """Describes this process as a holder of the kind `kind`."""
    served = None if tenants is None else tuple(sorted(tenants))
    return ProcessInfo(kind, platform.node(), os.getpid(), sorted(programs), sorted(queues), round(time.time(), 3), tenants=served)


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(ProcessInfo)


def encode_process_info(info: ProcessInfo) -> bytes:
    """Encodes a description for the field `about` of a lease."""
    return _encoder.encode(info)


def decode_process_info(about: bytes) -> ProcessInfo | None:
    """Decodes what `encode_process_info` wrote. Returns None for anything else, such as an empty value."""
    try:
        return _decoder.decode(about)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


T = TypeVar("T")
logger = logging.getLogger("perdure.holder")

HOLDER_LEASE_S = 15.0
"""How long a holder counts as alive after its last renewal."""

MOVE_GRACE_S = 30.0
"""How long attempts in flight may go on when the store is about to be moved: their outcomes are part of the move. Others are given back, uncounted."""

LEAVE_S = 5.0
"""How long a process that ends waits for the store to release what it holds."""

STORE_POLL_S = 1.0
"""How often an idle process polls the store, in case a notification was lost."""

WAIT_MIN_S, WAIT_MAX_S = 0.05, 5.0
"""The shortest and the longest wait before a call of an unavailable store is repeated."""


class LeaseRenewal(NamedTuple):
    """The answer of the store to the renewal of a lease, and the reading of its clock that follows from it."""

    moment: StoreTime
    reading: ClockReading


class Holder:
    """One process at one store, with its present name and the epoch of the store in which it joined."""

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
        self._has_joined = False

    def describe(self, about: ProcessInfo) -> None:
        """Replaces the description of the process, from the next renewal on."""
        self._about = encode_process_info(about)

    @property
    def lapsed(self) -> bool:
        """Whether the lease may have expired, so that others may hold what this process held. It is true after the process was suspended for long."""
        return self._time() - self._renewed_s >= self._lease_s

    def held_since(self, since_s: float) -> bool:
        """Whether the lease has surely held from `since_s`, a time of the loop, until now."""
        return self._broken_s <= since_s and not self.lapsed

    async def join(self) -> LeaseRenewal:
        """Acquires the first lease under the present name, and enters the epoch of the store. Waits while the store is unavailable."""
        self._time = asyncio.get_running_loop().time
        renewal = await self.renew()
        self.epoch = renewal.moment.epoch
        self._has_joined = True
        return renewal

    async def renew(self) -> LeaseRenewal:
        """Renews the lease now. Waits while the store is unavailable."""
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
        """Changes to a new name, which holds nothing. The caller then calls `join`."""
        self._generation += 1
        self.name = f"{self.name.partition('~')[0]}~{self._generation}"

    async def release_all(self, name: str | None = None) -> None:
        """Releases everything that is held under the present name, or under an earlier `name`."""
        _ = await retry_with_backoff(lambda: self._store.renew(name or self.name, 0))

    async def leave(self) -> None:
        """Releases everything, if this has joined and the store is available. If not, the lease expires by itself."""
        if not self._has_joined:
            return
        try:
            async with asyncio.timeout(LEAVE_S):
                _ = await self._store.renew(self.name, 0)
        except StoreMoved:
            return  # where the store goes on, nobody holds anything
        except (StoreError, TimeoutError) as raised:
            error = f"the database has not answered within {LEAVE_S:g} s" if isinstance(raised, TimeoutError) else raised
            logger.warning("could not release what %s holds: %s. Others can claim it in %g s, when its lease has expired", self.name, error, self._lease_s)

    async def keep_alive(self, on_renewal: Callable[[LeaseRenewal], Awaitable[None]]) -> None:
        """Renews the lease until cancelled, and calls `on_renewal` with each answer, from which it learns of a new epoch."""
        if self._threaded:
            await self._keep_alive_by_thread(on_renewal)
        while True:
            await asyncio.sleep(self._lease_s / 3)
            if (renewal := await self._attempt()) is not None:
                await on_renewal(renewal)

    async def _attempt(self) -> LeaseRenewal | None:
        try:
            return await self._renew()
        except StoreUnusable:
            raise
        except StoreError as error:
            logger.warning("could not renew the lease of %s: %s. Perdure retries it in %.2g s", self.name, error, self._lease_s / 3)
            return None

    async def _keep_alive_by_thread(self, on_renewal: Callable[[LeaseRenewal], Awaitable[None]]) -> None:
        loop, renewals, ended = asyncio.get_running_loop(), asyncio.Queue[LeaseRenewal | StoreUnusable](), threading.Event()
        turned = threading.Event()
        turned.set()

        def renew_while_loop_turns() -> None:
            while not ended.wait(self._lease_s / 3) and not loop.is_closed():
                if not turned.is_set():
                    logger.warning(
                        "could not renew the lease of %s: its event loop has been blocked for %.2g s. Find the call that blocks it",
                        self.name,
                        self._lease_s / 3,
                    )
                    continue
                turned.clear()
                try:
                    renewal: LeaseRenewal | StoreUnusable | None = asyncio.run(self._attempt())
                except StoreUnusable as damage:
                    renewal = damage
                if not loop.is_closed():
                    loop.call_soon_threadsafe(turned.set)
                    if renewal is not None:
                        loop.call_soon_threadsafe(renewals.put_nowait, renewal)

        thread = threading.Thread(target=renew_while_loop_turns, name=f"perdure-lease-{self.name}", daemon=True)
        thread.start()
        try:
            while True:
                renewal = await renewals.get()
                if isinstance(renewal, StoreUnusable):
                    raise renewal
                await on_renewal(renewal)
        finally:
            ended.set()
            thread.join()


class Backoff:
    """Waits between attempts, twice as long each time."""

    def __init__(self) -> None:
        self.wait_s = WAIT_MIN_S

    def next_s(self) -> float:
        """Returns how long to wait now: twice as long as the last time, up to `WAIT_MAX_S`."""
        wait_s, self.wait_s = self.wait_s, min(self.wait_s * 2, WAIT_MAX_S)
        return wait_s

    def reset(self) -> None:
        """Makes the next wait the shortest again."""
        self.wait_s = WAIT_MIN_S

    async def wait(self) -> None:
        """Waits, twice as long as the last time, up to `WAIT_MAX_S`."""
        await asyncio.sleep(self.next_s())


async def retry_with_backoff(call: Callable[[], Awaitable[T]]) -> T:
    """Calls the store until it answers, with exponential backoff. A sealed payload is retried as well: the key may be missing in this process only."""
    backoff = Backoff()
    while True:
        try:
            return await call()
        except (StoreUnavailable, SealedPayload) as error:
            logger.warning("the store is unavailable: %s. Perdure retries the call in %.2g s", error, backoff.wait_s)
            await backoff.wait()


def set_on_notification(store: Store, event: asyncio.Event) -> Callable[[], None]:
    """Sets `event`, on the running loop, whenever the store notifies of something to claim. Returns a function that ends the subscription."""
    loop = asyncio.get_running_loop()

    def wake() -> None:
        loop.call_soon_threadsafe(event.set)

    return store.on_wake(wake)


work_logger = logging.getLogger("perdure.worker")


WANTED_POLL_S = 1.0
"""How often a worker polls whether the tasks that it has leased are still wanted."""


class TaskClaims:
    """Claims tasks of queues for one holder. `on_lease_lost` is called when the holder has lost all tasks that it had leased."""

    def __init__(self, store: Store, holder: Holder, poll_s: float, on_lease_lost: Callable[[], None]) -> None:
        self.holder = holder
        self._store = store
        self._poll_s = poll_s
        self._on_lease_lost = on_lease_lost
        self._damage: StoreUnusable | None = None
        self._wake_up = asyncio.Event()
        self._backoff = Backoff()
        self._reports = QuarantineReports(work_logger)

    @asynccontextmanager
    async def joined(self) -> AsyncIterator[None]:
        """Joins the store and subscribes to its notifications for the duration of a block; releases everything at its end."""
        self.clock = StoreClock(asyncio.get_running_loop().time)
        self._wake_up_timer = WakeUpTimer(self.clock, self._wake_up)
        unsubscribe = set_on_notification(self._store, self._wake_up)
        renewing: asyncio.Task[None] | None = None
        try:
            self.clock.take((await self.holder.join()).reading)
            renewing = asyncio.create_task(self.holder.keep_alive(self._renewed))
            renewing.add_done_callback(self.ended)
            yield
        finally:
            self._wake_up_timer.cancel()
            unsubscribe()
            if renewing is not None:
                renewing.cancel()
                _ = await asyncio.gather(renewing, return_exceptions=True)
            await self.holder.leave()

    def ended(self, task: asyncio.Task[Any]) -> bool:
        """Makes the next claim fail if this task has found the store unusable. Returns whether any task has."""
        if not task.cancelled() and isinstance(damage := task.exception(), StoreUnusable):
            self._damage = damage
            self._wake_up.set()
        return self._damage is not None

    def check(self) -> None:
        """Checks that the store is usable.

        Raises:
            StoreUnusable: a task has found that it is not.
        """
        if self._damage is not None:
            raise self._damage

    def wake(self) -> None:
        """Makes `wait` return, because there may be something to claim."""
        self._wake_up.set()

    async def wait(self) -> None:
        """Waits until there may be something to claim."""
        try:
            await asyncio.wait_for(self._wake_up.wait(), self._poll_s)
        except TimeoutError:
            return
        finally:
            self._wake_up.clear()

    async def claim(self, queues: frozenset[str], limit: int, tenants: frozenset[str] | None = None) -> list[tuple[QueuedMessage, TaskMessage]]:
        """Claims up to `limit` tasks. Leaves out all of them if others may hold them by now, and postpones those that can't be read.

        Raises:
            StoreUnusable: the store is damaged, or is being moved, so nothing may be claimed from it.
        """
        self.check()
        name, asked_s = self.holder.name, asyncio.get_running_loop().time()
        try:
            claimed = await self._store.claim(Claim(holder=name, epoch=self.holder.epoch, queues=queues, limit=limit, tenants=tenants))
        except StoreUnusable:
            raise
        except NothingClaimed as error:
            work_logger.warning("could not claim tasks: %s. Perdure retries it in %.2g s", error, self._backoff.wait_s)
            await self._backoff.wait()
            self._wake_up.set()
            return []
        except StoreError as error:
            work_logger.warning("could not claim tasks: %s. Joining again under another name, because the store may have leased some", error)
            await self._rejoin()
            await self._backoff.wait()
            return []
        self._backoff = Backoff()
        self.clock.take_answer(claimed.now_s, asked_s)
        self._wake_up_timer.at(claimed.next_at_s)
        if name != self.holder.name:  # it has joined under another name meanwhile, and has released what this name was given
            self._wake_up.set()
            return []
        if claimed.work and not self.holder.held_since(asked_s):  # the answer took longer than the lease, so others may have claimed the same tasks
            await self._rejoin()
            self._wake_up.set()
            return []
        return await self._readable(claimed.work)

    async def _readable(self, leased: tuple[QueuedMessage, ...]) -> list[tuple[QueuedMessage, TaskMessage]]:
        """Returns the tasks that can be read, and postpones the others for a worker that can read them."""
        found, postponing = list[tuple[QueuedMessage, TaskMessage]](), list[Ack]()
        for queued in leased:
            try:
                found.append((queued, attempt_reports.decode_task(queued)))
            except UNREADABLE as error:
                self._reports.report(queued.to, queued.key, error)
                postponing.append(postponement(queued, self.clock.now().latest_s, error))
        if postponing:
            try:
                _ = await self._store.commit([Post(epoch=self.holder.epoch, acks=tuple(postponing))])
            except StoreError as error:
                work_logger.warning("could not postpone tasks that can't be read: %s. They stay leased until this worker ends", error)
        return found

    async def _renewed(self, renewal: LeaseRenewal) -> None:
        """Joins again if the store has begun a new epoch, in which the present leases are void."""
        self.clock.take(renewal.reading)
        if renewal.moment.epoch > self.holder.epoch:
            await self._rejoin()

    async def _rejoin(self) -> None:
        """Releases what is leased, and joins again under another name."""
        self._on_lease_lost()
        before = self.holder.name
        self.holder.rename()  # first, so that tasks which a claim under way assigns to the old name are not begun
        await self.holder.release_all(before)
        self.clock.take((await self.holder.join()).reading)
