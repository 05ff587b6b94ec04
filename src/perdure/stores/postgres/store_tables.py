"""The operations of the store on its tables in Postgres, inside of one transaction. Nothing here begins or ends a transaction, or depends on a driver.

A change locks the heads of the executions that it decides or sends to (see commits.sql). A claim (`claim_queries`) locks the rows that it takes, and waits only
for claims on the same queue with limits. A new epoch waits until no other transaction is running.
"""

from collections.abc import Sequence
from typing import Any

from perdure.core.envelopes import Ack, QueuedMessage
from perdure.core.limits import UNCLAIMED_MESSAGE_S
from perdure.core.paths import Address, Key
from perdure.core.program import program_requirements
from perdure.stores.change_feed import ShippedItem
from perdure.stores.postgres import record_rows, restored_items
from perdure.stores.postgres.change_arrays import carry_out
from perdure.stores.postgres.limited_queues import Fetch
from perdure.stores.postgres.statements import SQL
from perdure.stores.postgres.store_rows import address_bytes, head_of, message_of
from perdure.stores.protocol import (
    ChangeAnswer,
    Commit,
    HolderStatus,
    LogRow,
    Post,
    StoredLog,
    StoreTime,
)

WAKE_CHANNEL, CHANGE_CHANNEL = "perdure_wake", "perdure_news"
"""The channels of notifications: something may be ready; an execution has ended or needs attention."""


class PostgresTables:
    """The operations of a transaction, at one time of the store, and the listeners to notify afterwards. `fetch` executes a statement and returns its rows."""

    def __init__(self, fetch: Fetch, moment: StoreTime) -> None:
        self.fetch, self.moment = fetch, moment
        self.wakes = self.news = False

    @property
    def channels_to_notify(self) -> list[str]:
        """The channels on which to notify others."""
        return channels_to_notify(self.wakes, self.news)

    async def _first(self, sql: str, *arguments: object) -> Any:
        """Returns the first value of the first row; None if there is no row."""
        return next((row[0] for row in await self.fetch(sql, *arguments)), None)

    async def change(self, changes: Sequence[Commit | Post]) -> list[ChangeAnswer]:
        """Carries out changes in order. See `Store.commit`."""
        done = await carry_out(self.fetch, changes, self.moment.now_s)
        self.wakes |= done.wakes
        self.news |= done.news
        return done.answers

    async def _know(self, program: str) -> None:
        """Records a program that needs capabilities, so that claims find it."""
        if program_requirements(program):
            await self.fetch(SQL.add_program, program)

    async def restore(self, items: Sequence[ShippedItem]) -> None:
        """See `ChangeFeed.restore`. No other transaction may be running."""
        for item in items:
            await restored_items.restore_item(self.fetch, item, self.moment.now_s, self._know)
        self.wakes = True

    async def drop_expired(self, limit: int) -> list[QueuedMessage]:
        """See `Store.drop_expired`."""
        swept = map(message_of, await self.fetch(SQL.drop_expired, self.moment.now_s - UNCLAIMED_MESSAGE_S, limit))
        return sorted(swept, key=lambda message: (message.due_at_s, message.number))

    async def drop_expired_records(self, limit: int) -> int:
        """See `Store.drop_expired_records`."""
        return await record_rows.drop_expired_records(self.fetch, limit, self.moment.now_s)

    async def raise_epoch(self) -> int:
        """See `Store.raise_epoch`. No other transaction may be running."""
        await self.fetch(SQL.remove_all_holders)
        await self.fetch(SQL.raise_epoch)
        self.wakes = True
        return self.moment.epoch + 1


def channels_to_notify(wakes: bool, news: bool) -> list[str]:
    """The channels on which to notify others."""
    return [channel for channel, is_notified in ((WAKE_CHANNEL, wakes), (CHANGE_CHANNEL, news)) if is_notified]


async def begin_transaction(fetch: Fetch, now_s: float | None, *, alone: bool = False) -> PostgresTables:
    """Returns the tables in an open transaction, in one epoch (with `alone`, while no other transaction runs). The time is `now_s`, or else the server's."""
    await fetch(SQL.lock_epoch.format(shared="" if alone else "_shared"))
    ((now, epoch),) = map(tuple, await fetch(SQL.store_time, now_s))
    return PostgresTables(fetch, StoreTime(now, epoch))


async def read_log(fetch: Fetch, key: Key, after: int) -> StoredLog | None:
    """See `Store.read`. This and the functions below are one statement each, which needs no transaction and waits for no lock."""
    return next((StoredLog(head_of(row), tuple(map(LogRow, row[16], row[17]))) for row in await fetch(SQL.read_execution, address_bytes(key), after)), None)


async def read_leases(fetch: Fetch, now_s: float | None) -> list[HolderStatus]:
    """See `Store.leases`. The time is `now_s`, or else the server's."""
    return sorted((HolderStatus(*row) for row in await fetch(SQL.leases, now_s)), key=lambda lease: lease.holder)


async def read_messages(fetch: Fetch, to: Address) -> list[QueuedMessage]:
    """See `Store.messages`."""
    return [*map(message_of, await fetch(SQL.read_messages, address_bytes(to)))]


async def are_queued(fetch: Fetch, messages: Sequence[Ack]) -> list[bool]:
    """See `Store.are_queued`."""
    rows = await fetch(SQL.are_queued, [address_bytes(one.to) for one in messages], [one.key.encode() for one in messages])
    return [row[0] for row in rows]


async def read_blob(fetch: Fetch, sha256: str) -> bytes | None:
    """See `Store.blob`."""
    return next((row[0] for row in await fetch(SQL.read_blob, sha256)), None)


async def read_removed_at(fetch: Fetch, sha256: str) -> float | None:
    """See `Store.removed_at`."""
    return next((row[0] for row in await fetch(SQL.removed_at, sha256)), None)
