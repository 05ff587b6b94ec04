"""A store in a Postgres database, shared by engines and workers of many processes.

This module has the transactions; `store_tables` has the statements that run in them, `connections` and `notifications` what its name says.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, NamedTuple, TypeVar, Unpack

from perdure.core.envelopes import Ack, QueuedMessage
from perdure.core.errors import StoreUnavailable
from perdure.core.paths import Address, Key
from perdure.stores.blob_marks import BLOB_REMOVAL
from perdure.stores.change_feed import CHANGE_FEED
from perdure.stores.month_removal import MONTH_REMOVAL
from perdure.stores.move_mark import MOVE_MARK
from perdure.stores.postgres import claim_queries, migrations
from perdure.stores.postgres import limited_queues as queues
from perdure.stores.postgres import store_tables as tables
from perdure.stores.postgres.blobs import PostgresBlobRemoval
from perdure.stores.postgres.change_arrays import CarriedOut, carry_out, only_adds_events
from perdure.stores.postgres.change_feed_part import PostgresChangeFeed
from perdure.stores.postgres.connection_settings import ConnectionOptions, ConnectionSettings, connection_settings
from perdure.stores.postgres.connections import PostgresConnection, PostgresConnections, PostgresServerFacts
from perdure.stores.postgres.group_commit import GroupCommit
from perdure.stores.postgres.head_lists import read_heads
from perdure.stores.postgres.limited_queues import Fetch
from perdure.stores.postgres.move_mark_part import PostgresMoveMark
from perdure.stores.postgres.notifications import StoreNotifications
from perdure.stores.postgres.old_months import PostgresMonthRemoval
from perdure.stores.postgres.record_rows import read_record, read_records
from perdure.stores.postgres.server_errors import repeat_conflicts, sqlstate, was_rolled_back
from perdure.stores.postgres.statements import SQL, in_schema
from perdure.stores.postgres.store_tables import CHANGE_CHANNEL, WAKE_CHANNEL
from perdure.stores.postgres.transactional_steps import StepWork, run_transactional_step
from perdure.stores.postgres.user_transaction_store import PostgresUserTransactionStore, join_user_transaction
from perdure.stores.postgres.vault import PostgresVault
from perdure.stores.protocol import (
    ALL_HEADS,
    TRANSACTIONS,
    ChangeAnswer,
    Claim,
    Claimed,
    Commit,
    Committed,
    Head,
    HeadFilter,
    HolderStatus,
    NothingClaimed,
    Post,
    QueueLimits,
    QueueStatus,
    StoredLog,
    StoreTime,
    Superseded,
    TransactionGuard,
    TransactionRaised,
    TransactionRefused,
    check_changes,
)
from perdure.stores.records import RecordFilter, RecordKey, StoredRecord
from perdure.stores.secret_vault import VAULT
from perdure.stores.store_parts import STORE_KIND, PartName, StoreParts
from perdure.stores.user_transactions import USER_TRANSACTIONS, is_instance_of

T = TypeVar("T")


MONTH_AHEAD_S = 7 * 86_400.0
"""How long before it begins a month gets its tables."""


class StoreConnections(NamedTuple):
    """How a store is connected. `notifications` says how those of others come: by ``listening``, by ``polling``, or ``none``."""

    settings: ConnectionSettings
    server: PostgresServerFacts
    notifications: str


class PostgresStore:
    """A `Store` in a schema of the database at `url` (``postgresql://user@host/database``). It creates the schema if there is none.

    `options` are settings that the URL can have as well; see `ConnectionOptions`. The store belongs to one event loop, where it has a few connections and one
    for notifications; `renew` on another loop has a connection of its own. Acknowledged changes are as durable as `synchronous_commit` says, which is ``on``
    unless it is configured. Time is the server's, unless a test gives a `clock`.

    Raises:
        BadValue: a setting is not accepted.
        MissingExtra: asyncpg is not installed.
    """

    def __init__(self, url: str, clock: Callable[[], float] | None = None, **options: Unpack[ConnectionOptions]) -> None:
        self._connections = PostgresConnections(connection_settings(url, **options), self._prepare)
        self._notifications = StoreNotifications(self._connections)
        self._clock = clock
        self._identity: tuple[Any, ...] | None = None
        self._programs = claim_queries.KnownPrograms()
        self._group: tuple[asyncio.AbstractEventLoop, GroupCommit] | None = None
        self.vault = PostgresVault(self._transaction)
        self.blob_removal = PostgresBlobRemoval(self._transaction)
        parts = StoreParts().having(STORE_KIND, "postgres").having(VAULT, self.vault).having(BLOB_REMOVAL, self.blob_removal)
        self._optional = parts.having(TRANSACTIONS, self).having(USER_TRANSACTIONS, self)
        self._optional.having(CHANGE_FEED, PostgresChangeFeed(self._transaction, self._snapshot)).having(MOVE_MARK, PostgresMoveMark(self._transaction))
        self._optional.having(MONTH_REMOVAL, PostgresMonthRemoval(self._connections, self._transaction))

    # The methods of `Store`, which documents them.

    async def commit(self, changes: Sequence[Commit | Post]) -> list[ChangeAnswer]:
        check_changes(changes)
        if not changes:
            async with self._connected():  # which says so if the store is closed, or its server is not there
                return []
        group = self._group_commit()
        return await (self._commit(changes) if group is None else group.commit(changes))

    async def claim(self, claim: Claim) -> Claimed:
        is_sent = False
        try:
            async with self._connected() as connection:
                is_sent = True
                claimed, freed = await claim_queries.claim(connection.fetch, claim, self._clock and self._clock(), self._programs)
        except StoreUnavailable as error:
            if is_sent and not was_rolled_back(error):
                raise
            raise NothingClaimed(str(error)) from error
        self._notifications.notify([WAKE_CHANNEL] if freed else [])
        return claimed

    async def read(self, key: Key, after: int = 0) -> StoredLog | None:
        async with self._connected() as connection:
            return await tables.read_log(connection.fetch, key, after)

    async def heads(self, which: HeadFilter = ALL_HEADS) -> list[Head]:
        async with self._connected() as connection:
            return await read_heads(connection.fetch, which)

    async def messages(self, to: Address) -> list[QueuedMessage]:
        async with self._connected() as connection:
            return await tables.read_messages(connection.fetch, to)

    async def are_queued(self, messages: Sequence[Ack]) -> list[bool]:
        async with self._connected() as connection:
            return await tables.are_queued(connection.fetch, messages)

    async def record(self, key: RecordKey) -> StoredRecord | None:
        async with self._transaction() as here:
            return await read_record(here.fetch, key, here.moment.now_s)

    async def records(self, which: RecordFilter) -> list[StoredRecord]:
        async with self._transaction() as here:
            return await read_records(here.fetch, which, here.moment.now_s)

    async def store_time(self) -> StoreTime:
        async with self._connected() as connection:
            ((now_s, epoch),) = await connection.fetch(SQL.store_time, self._clock and self._clock())
            return StoreTime(now_s, epoch)

    async def renew(self, holder: str, lease_s: float, about: bytes = b"") -> StoreTime:
        async with self._connected() as connection:
            ((now_s, epoch, freed),) = await connection.fetch(SQL.renew, self._clock and self._clock(), holder, float(lease_s), about)
        self._notifications.notify([WAKE_CHANNEL] if freed else [])
        return StoreTime(now_s, epoch)

    async def leases(self) -> list[HolderStatus]:
        async with self._connected() as connection:
            return await tables.read_leases(connection.fetch, self._clock and self._clock())

    async def limit(self, queue: str, limits: QueueLimits | None, tenant: str | None = None) -> None:
        async with self._connected() as connection:
            await queues.set_limits(connection.fetch, queue, limits, tenant)
        self._notifications.notify([WAKE_CHANNEL])

    async def queues(self) -> list[QueueStatus]:
        async with self._transaction() as here:
            return await queues.queue_statuses(here.fetch, here.moment.now_s)

    async def relay(self, limit: int = 100) -> int:
        return 0  # There is one reach, so nothing ever leaves it.

    async def drop_expired(self, limit: int = 100) -> list[QueuedMessage]:
        async with self._transaction() as here:
            await here.fetch(SQL.ensure_month, here.moment.now_s + MONTH_AHEAD_S)
            return await here.drop_expired(limit)

    async def drop_expired_records(self, limit: int = 100) -> int:
        async with self._transaction() as here:
            return await here.drop_expired_records(limit)

    async def raise_epoch(self) -> int:
        async with self._transaction(alone=True) as here:
            return await here.raise_epoch()

    async def blob(self, sha256: str) -> bytes | None:
        async with self._connected() as connection:
            return await tables.read_blob(connection.fetch, sha256)

    async def removed_at(self, sha256: str) -> float | None:
        async with self._connected() as connection:
            return await tables.read_removed_at(connection.fetch, sha256)

    def on_wake(self, notify: Callable[[], None]) -> Callable[[], None]:
        return self._notifications.add_listener(WAKE_CHANNEL, notify)

    def on_change(self, notify: Callable[[], None]) -> Callable[[], None]:
        return self._notifications.add_listener(CHANGE_CHANNEL, notify)

    def part(self, name: PartName[T]) -> T | None:
        return self._optional.get(name)

    async def close(self) -> None:
        await self._notifications.close()
        await self._connections.close()

    async def about(self) -> StoreConnections:
        """Returns how the store is connected, for people to read."""
        server = await self._connections.server()
        return StoreConnections(self._connections.settings, server, await self._notifications.known_mode())

    # Transactions of users.

    async def transact(self, guard: TransactionGuard, work: StepWork) -> Committed | Superseded | TransactionRefused | TransactionRaised:
        """See `TransactionalStore.transact`. If `work` awaits anything else, only those wait who need what the transaction has locked."""
        async with self._connections.step_connection() as connection:
            transaction = await connection.begin()
            answer = await run_transactional_step(connection.raw, guard, work, self._clock, self._connections.settings.schema)
            await (transaction.commit() if isinstance(answer, Committed) else transaction.rollback())
            return answer  # type: ignore[return-value]  # a post of a step carries every blob that it refers to, so it never conflicts

    async def is_same_database(self, connection: Any) -> bool:
        """See `TransactionalStore.is_same_database`."""
        if not is_instance_of(connection, "asyncpg", "Connection", "PoolConnectionProxy"):
            return False
        async with self._connected() as own:
            here = await own.fetch(SQL.user_connection_identity)
        there = await connection.fetch(in_schema(SQL.user_connection_identity, self._connections.settings.schema))
        return here == [tuple(row) for row in there]

    async def meet(self) -> None:
        """See `JoinsUserTransactions.meet`."""
        if self._identity is None:
            async with self._connected() as connection:
                (self._identity,) = await connection.fetch(SQL.database_identity)

    @asynccontextmanager
    async def join(self, connection: Any) -> AsyncIterator[PostgresUserTransactionStore]:
        """See `JoinsUserTransactions.join`. Until the transaction ends, no other process can change the executions that it has posted to."""
        if self._identity is None:
            raise StoreUnavailable("the store has not identified its database yet; await meet() first")
        async with join_user_transaction(connection, self._identity, self._clock, self._connections.loop, self._connections.settings.schema) as within:
            yield within

    # Transactions and connections.

    async def _commit(self, changes: Sequence[Commit | Post]) -> list[ChangeAnswer]:
        """Carries out changes in one statement, which is one transaction, and notifies listeners when it is durable."""

        async def once() -> CarriedOut:
            async with self._connected() as connection:
                return await carry_out(connection.fetch, changes, self._clock and self._clock())

        done = await repeat_conflicts(once)
        if done.wakes or done.news:
            self._notifications.notify(tables.channels_to_notify(done.wakes, done.news))
        return done.answers

    def _group_commit(self) -> GroupCommit | None:
        """Returns what groups the changes of callers on the event loop of the store; None on the loop of another thread."""
        loop = asyncio.get_running_loop()
        if self._group is None or self._group[0] is not loop:
            if self._connections.home() is None:
                return None
            self._group = loop, GroupCommit(self._commit, is_refused, only_adds_events)
        return self._group[1]

    @asynccontextmanager
    async def _transaction(self, *, alone: bool = False) -> AsyncIterator[tables.PostgresTables]:
        """Yields the tables in one transaction and one epoch (with `alone`, while no other transaction runs), and notifies listeners when it is durable."""
        async with self._connected() as connection, connection.transaction():
            here = await tables.begin_transaction(connection.fetch, self._clock and self._clock(), alone=alone)
            yield here
        self._notifications.notify(here.channels_to_notify)

    @asynccontextmanager
    async def _snapshot(self, first: str) -> AsyncIterator[Fetch]:
        """Yields the function that executes statements in one transaction, whose statements see the database as it was after the statement `first`."""
        async with self._connected() as connection, connection.transaction("repeatable_read"):
            await connection.execute(first)
            yield connection.fetch

    def _connected(self) -> AbstractAsyncContextManager[PostgresConnection]:
        """Gives a connection for exclusive use. From the first call after something waits for notifications, those of other processes are received."""
        return self._connections.connected(self._notifications.begin)

    async def _prepare(self, connection: PostgresConnection) -> None:
        """Makes sure that the schema is one that this version can use; see `migrations.prepare`."""
        settings, direct = self._connections.settings, self._connections.direct_connection
        await migrations.prepare(connection.raw, settings.schema, None if settings.read_only else direct)


def is_refused(error: BaseException) -> bool:
    """Whether Postgres has refused a statement because of what is in it, and has changed nothing: bad data, a constraint, a limit of the program."""
    return sqlstate(error.__cause__)[:2] in ("22", "23", "42", "54")
