"""Notifications between the stores on one database.

A store listens on a direct connection, from the first call after something waits for notifications. It sends them after its commits, in a transaction of
their own: a transaction that notifies holds, until it is durable, a lock that all others of the server need. At most one is under way; what comes meanwhile
is sent together afterwards.

Where none gets through (there is a pooler in transaction mode and no direct URL, or a proxy swallows them, which a notification to itself finds out), the
store polls how often was notified. Sequences count that. A transaction of a user counts before it commits, so after each change the store notifies its
listeners at every poll until all transactions have ended that had begun by then.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from uuid import uuid4

from perdure.core.errors import StoreError
from perdure.stores.postgres.connections import PostgresConnection, PostgresConnections
from perdure.stores.postgres.statements import SQL
from perdure.stores.postgres.store_tables import CHANGE_CHANNEL, WAKE_CHANNEL

POLL_MIN_S, POLL_MAX_S, POLL_GROWTH = 0.25, 1.0, 1.5
"""How often a store polls that gets no notifications: soon after something has changed, and less often with each poll that finds no change."""

PROBE_S = 5.0
"""How long a notification to itself may take before a store concludes that none gets through."""

LISTEN_AGAIN_S = 300.0
"""How long a store polls after that, until it listens again."""

HEARTBEAT_S = 30.0
"""How often a store makes sure that the connection on which it listens still leads to the server."""

WAIT_MIN_S, WAIT_MAX_S = 0.1, 10.0
"""The shortest and the longest wait before a store listens again, or sends again, after it could not."""

SEND_S = 2.0
"""How long closing a store waits for the notification that it sends."""

logger = logging.getLogger("perdure.store")


class StoreNotifications:
    """The notifications of one store, on its event loop. `mode` says how it gets those of others: not yet, or by listening or polling."""

    def __init__(self, connections: PostgresConnections) -> None:
        self._connections, self._name = connections, uuid4().hex
        self._listeners: dict[str, list[Callable[[], None]]] = {WAKE_CHANNEL: [], CHANGE_CHANNEL: []}
        self._unsent: dict[str, None] = {}
        self._sending: asyncio.Task[None] | None = None
        self._receiving: asyncio.Task[None] | None = None
        self._begun: asyncio.Event | None = None
        self._known: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.mode = "none"

    def add_listener(self, channel: str, notify: Callable[[], None]) -> Callable[[], None]:
        """Has `notify` called for each notification of a channel; returns a function that ends this."""
        listeners = self._listeners[channel]
        listeners.append(notify)
        return lambda: listeners.remove(notify) if notify in listeners else None

    async def begin(self) -> None:
        """Begins to receive the notifications of others, if there are listeners and the running loop is that of the store. They come from then on."""
        if self._begun is not None and self._begun.is_set() and self._loop is asyncio.get_running_loop():
            return
        if not any(self._listeners.values()) or self._connections.home() is None:
            return
        if self._loop is not asyncio.get_running_loop() or self._begun is None:
            self._loop, self._begun, self._known = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
            self._receiving = asyncio.create_task(self._receive(self._begun), name="perdure-notifications")
        await self._begun.wait()

    async def known_mode(self) -> str:
        """Returns how notifications of others come, once it is known: ``listening``, ``polling``, or ``none``, as long as they can't be received."""
        remove = self.add_listener(WAKE_CHANNEL, lambda: None)
        await self.begin()
        if self._known is not None and self._loop is asyncio.get_running_loop():
            await self._known.wait()
        remove()
        return self.mode

    def notify(self, channels: Collection[str]) -> None:
        """Calls the listeners of this store, and notifies other stores soon. What was changed must be durable."""
        for channel in channels:
            self._call(channel)
        if not channels or (loop := self._connections.loop) is None or loop.is_closed():
            return
        if loop is asyncio.get_running_loop():
            self._send_soon(loop, channels)
        else:
            loop.call_soon_threadsafe(self._send_soon, loop, channels)

    async def close(self) -> None:
        """Sends what is unsent, and receives no more."""
        here = asyncio.get_running_loop()
        if self._sending is not None and self._sending.get_loop() is here:
            _ = await asyncio.wait((self._sending,), timeout=SEND_S)
            self._sending.cancel()
        if self._receiving is not None and self._receiving.get_loop() is here:
            self._receiving.cancel()
            _ = await asyncio.wait((self._receiving,))

    def _set_mode(self, mode: str) -> None:
        self.mode = mode
        if self._known is not None:
            self._known.set()

    def _call(self, channel: str) -> None:
        for notify in tuple(self._listeners[channel]):
            notify()

    def _call_all(self) -> None:
        for channel in self._listeners:
            self._call(channel)

    def _send_soon(self, loop: asyncio.AbstractEventLoop, channels: Collection[str]) -> None:
        self._unsent.update(dict.fromkeys(channels))
        if self._sending is None or self._sending.done() or self._sending.get_loop() is not loop:
            self._sending = loop.create_task(self._send(), name="perdure-notify")

    async def _send(self) -> None:
        wait_s = WAIT_MIN_S
        while self._unsent and not self._connections.is_closed:
            channels, self._unsent = self._unsent, {}
            try:
                async with self._connections.connected() as connection:
                    await connection.fetch(SQL.notify_now, [*channels], self._name)
                wait_s = WAIT_MIN_S
            except StoreError as error:
                self._unsent = {**channels, **self._unsent}
                logger.info("could not notify other processes: %s. Perdure does it again in %.2g s; until then they poll", error, wait_s)
                await asyncio.sleep(wait_s)
                wait_s = min(wait_s * 2, WAIT_MAX_S)

    async def _receive(self, begun: asyncio.Event) -> None:
        """Listens or polls for as long as the store is open. Sets `begun` when notifications come, or will come only after the server is back."""
        wait_s = WAIT_MIN_S
        while True:
            try:
                _ = await self._connections.server()
                if not self._connections.is_listening_possible:
                    await self._poll(begun)
                async with self._connections.direct_connection() as connection:
                    if await self._listen(connection, begun):
                        wait_s = WAIT_MIN_S
                        continue
                logger.warning(
                    "no notification gets through to this process: a proxy in between swallows them. It polls; perdure_direct_url= of the URL can lead past it"
                )
                await self._poll(begun, LISTEN_AGAIN_S)
            except StoreError as error:
                self._set_mode("none")
                begun.set()
                if self._connections.is_closed:
                    return
                logger.info("could not receive notifications: %s. Perdure does it again in %.2g s; until then this process polls", error, wait_s)
                await asyncio.sleep(wait_s)
                wait_s = min(wait_s * 2, WAIT_MAX_S)

    async def _listen(self, connection: PostgresConnection, begun: asyncio.Event) -> bool:
        """Listens until the connection ends. Returns False at once if a notification to itself does not arrive."""
        ended, arrived, own = asyncio.Event(), asyncio.Event(), f"perdure_{self._name}"
        connection.raw.add_termination_listener(lambda _: ended.set())
        await connection.raw.add_listener(own, lambda *_: arrived.set())
        schema = self._connections.settings.schema
        for channel in self._listeners:
            await connection.raw.add_listener(schema + channel.removeprefix("perdure"), self._on_notification)
        was_begun = begun.is_set()
        begun.set()
        if was_begun:  # whatever others have sent in between is lost
            self._call_all()
        async with self._connections.connected() as other:
            await other.fetch(SQL.probe, own)
        try:
            async with asyncio.timeout(PROBE_S):
                await arrived.wait()
        except TimeoutError:
            return ended.is_set()
        self._set_mode("listening")
        while not ended.is_set():
            try:
                async with asyncio.timeout(HEARTBEAT_S):
                    await ended.wait()
            except TimeoutError:
                await connection.fetch(SQL.answers)
        return True

    def _on_notification(self, _connection: object, _process: int, channel: str, name: object) -> None:
        if name != self._name:  # this store has notified its own listeners already
            self._call("perdure" + channel.removeprefix(self._connections.settings.schema))

    async def _poll(self, begun: asyncio.Event, length_s: float = float("inf")) -> None:
        """Polls for so long how often was notified, and notifies the listeners of each change."""
        loop = asyncio.get_running_loop()
        until_s, wait_s = loop.time() + length_s, POLL_MIN_S
        poll = NotificationPoll()
        self._set_mode("polling")
        if begun.is_set():
            self._call_all()
        while loop.time() < until_s:
            async with self._connections.connected() as connection:
                ((wakes, news, ended_before, begun_before),) = await connection.fetch(SQL.notification_counts)
            changed = poll.changed({WAKE_CHANNEL: wakes or 0, CHANGE_CHANNEL: news or 0}, ended_before, begun_before)
            for channel in changed:
                self._call(channel)
            begun.set()
            wait_s = POLL_MIN_S if changed else min(wait_s * POLL_GROWTH, POLL_MAX_S)
            await asyncio.sleep(wait_s)


class NotificationPoll:
    """Finds what has changed from one poll to the next."""

    def __init__(self) -> None:
        self._counts: dict[str, int] | None = None
        self._watched: dict[str, int] = {}

    def changed(self, counts: dict[str, int], ended_before: int, begun_before: int) -> list[str]:
        """Returns the channels whose listeners are to be notified.

        `ended_before` and `begun_before` are the numbers of transactions: all before the first have ended, none from the second on had begun.
        """
        before, self._counts = self._counts or counts, counts
        found = [channel for channel, count in counts.items() if count != before[channel]]
        watched = [channel for channel in self._watched if channel not in found]
        self._watched = {channel: number for channel, number in self._watched.items() if number > ended_before}
        self._watched.update(dict.fromkeys(found, begun_before))
        return [*found, *watched]
