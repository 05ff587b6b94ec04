"""A store in a Postgres database, shared by engines and workers of many processes.

This module has the connections and transactions; `store_tables` has the statements that run in them.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from importlib import import_module
from importlib.resources import files
from typing import Any, TypeVar
from uuid import uuid4

from perdure.core.envelopes import Ack, QueuedMessage
from perdure.core.errors import ProgrammingError, StoreUnavailable
from perdure.core.paths import Address, Key
from perdure.stores.blob_marks import BLOB_REMOVAL
from perdure.stores.change_feed import CHANGE_FEED
from perdure.stores.postgres import claim_queries
from perdure.stores.postgres import limited_queues as queues
from perdure.stores.postgres import store_tables as tables
from perdure.stores.postgres.blobs import PostgresBlobRemoval
from perdure.stores.postgres.change_arrays import carry_out
from perdure.stores.postgres.change_feed_part import PostgresChangeFeed
from perdure.stores.postgres.group_commit import GroupCommit
from perdure.stores.postgres.limited_queues import Fetch
from perdure.stores.postgres.record_rows import read_record, read_records
from perdure.stores.postgres.statements import SQL
from perdure.stores.postgres.store_rows import escape_nul, unescape_nul
from perdure.stores.postgres.store_tables import CHANGE_CHANNEL, WAKE_CHANNEL
from perdure.stores.postgres.transactional_steps import CONFLICTS, StepWork, run_transactional_step
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
from perdure.stores.store_parts import PartName, StoreParts
from perdure.stores.user_transactions import USER_TRANSACTIONS

T = TypeVar("T")

CONNECT_TIMEOUT_S, ANSWER_TIMEOUT_S = 10.0, 60.0
"""How long to wait for a connection, and for the answer to a statement."""

TRANSACTIONS_MAX, SPARE_CONNECTIONS_MAX = 10, 3
"""How many transactions of steps run at a time, each on a connection of its own, and how many of these connections are kept for reuse."""

ATTEMPTS_MAX = 5
"""How often a statement is sent that Postgres ends because of another transaction."""

SCHEMA = "\n".join(
    files("perdure.stores.postgres").joinpath(script).read_text(encoding="utf-8")
    for script in ("tables.sql", "months.sql", "commits.sql", "claim_functions.sql", "limited_queue_functions.sql")
)


class PostgresStore:
    """A `Store` in the schema ``perdure`` of the database at `url` (``postgresql://user@host/database``). It creates the schema if there is none.

    The store belongs to one event loop and uses one connection for one operation after another. That connection receives the notifications as well, so
    there must be no pooler in transaction mode in between. `renew` on another loop, and each transaction of a step, has a connection of its own.
    Acknowledged changes are as durable as ``synchronous_commit = on`` makes them, which is set. Time is the server's, unless a test gives a `clock`.

    Raises:
        ProgrammingError: asyncpg is not installed.
    """

    def __init__(self, url: str, clock: Callable[[], float] | None = None) -> None:
        try:
            self._asyncpg: Any = import_module("asyncpg")
        except ImportError as missing:
            raise ProgrammingError('PostgresStore needs asyncpg; install it: pip install "perdure[postgres]"') from missing
        # asyncpg raises InternalClientError when the server has closed the connection in between.
        self._errors = (self._asyncpg.PostgresError, self._asyncpg.InterfaceError, OSError, self._asyncpg.InternalClientError)
        self._url, self._clock, self._name = url, clock, uuid4().hex
        self._listeners: dict[str, list[Callable[[], None]]] = {WAKE_CHANNEL: [], CHANGE_CHANNEL: []}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connection: Any = None
        self._identity: tuple[Any, ...] | None = None
        self._spare: list[Any] = []
        self._programs = claim_queries.KnownPrograms()
        self.vault = PostgresVault(self._transaction)
        self.blob_removal = PostgresBlobRemoval(self._transaction)
        parts = StoreParts().having(VAULT, self.vault).having(BLOB_REMOVAL, self.blob_removal)
        self._optional = parts.having(TRANSACTIONS, self).having(USER_TRANSACTIONS, self)
        self._optional.having(CHANGE_FEED, PostgresChangeFeed(self._transaction, self._snapshot))
        self._closed = False

    # The methods of `Store`, which documents them.

    async def commit(self, changes: Sequence[Commit | Post]) -> list[ChangeAnswer]:
        check_changes(changes)
        if not changes:
            async with self._connected():  # which says so if the store is closed, or its server is not there
                return []
        return await (self._group.commit(changes) if self._is_on_own_loop() else self._carry_out(changes))

    async def claim(self, claim: Claim) -> Claimed:
        async with self._connected() as connection:
            claimed, freed = await claim_queries.claim(connection.fetch, claim, self._clock and self._clock(), self._programs)
            if freed:
                await connection.fetch(SQL.notify, WAKE_CHANNEL, self._name)
        if freed:
            self._on_notification(None, 0, WAKE_CHANNEL, None)
        return claimed

    async def read(self, key: Key, after: int = 0) -> StoredLog | None:
        async with self._connected() as connection:
            return await tables.read_log(connection.fetch, key, after)

    async def heads(self, which: HeadFilter = ALL_HEADS) -> list[Head]:
        async with self._connected() as connection:
            return await tables.read_heads(connection.fetch, which)

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
        async with self._transaction() as here:
            return here.moment

    async def renew(self, holder: str, lease_s: float, about: bytes = b"") -> StoreTime:
        async with self._connected() as connection:
            ((now_s, epoch, freed),) = await connection.fetch(SQL.renew, self._clock and self._clock(), holder, float(lease_s), about)
            if freed:
                await connection.fetch(SQL.notify, WAKE_CHANNEL, self._name)
        if freed:
            self._on_notification(None, 0, WAKE_CHANNEL, None)
        return StoreTime(now_s, epoch)

    async def leases(self) -> list[HolderStatus]:
        async with self._connected() as connection:
            return await tables.read_leases(connection.fetch, self._clock and self._clock())

    async def limit(self, queue: str, limits: QueueLimits | None, tenant: str | None = None) -> None:
        async with self._connected() as connection:
            await queues.set_limits(connection.fetch, queue, limits, tenant)
            await connection.fetch(SQL.notify, WAKE_CHANNEL, self._name)
        self._on_notification(None, 0, WAKE_CHANNEL, None)

    async def queues(self) -> list[QueueStatus]:
        async with self._transaction() as here:
            return await queues.queue_statuses(here.fetch, here.moment.now_s)

    async def relay(self, limit: int = 100) -> int:
        return 0  # There is one reach, so nothing ever leaves it.

    async def drop_expired(self, limit: int = 100) -> list[QueuedMessage]:
        async with self._transaction() as here:
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
        return self._add_listener(WAKE_CHANNEL, notify)

    def on_change(self, notify: Callable[[], None]) -> Callable[[], None]:
        return self._add_listener(CHANGE_CHANNEL, notify)

    def part(self, name: PartName[T]) -> T | None:
        return self._optional.get(name)

    async def close(self) -> None:
        self._closed = True
        if self._connection is not None:
            async with self._turn:
                for connection in (self._connection, *self._spare):
                    with suppress(*self._errors):  # The server may be gone already.
                        await connection.close(timeout=CONNECT_TIMEOUT_S)

    # Transactions of users.

    async def transact(self, guard: TransactionGuard, work: StepWork) -> Committed | Superseded | TransactionRefused | TransactionRaised:
        """See `TransactionalStore.transact`. If `work` awaits anything else, only those wait who need what the transaction has locked."""
        async with self._step_connection() as connection:
            transaction = connection.transaction(isolation="read_committed")
            await transaction.start()
            answer = await run_transactional_step(connection, guard, work, self._clock)
            await (transaction.commit() if isinstance(answer, Committed) else transaction.rollback())
            return answer  # type: ignore[return-value]  # a post of a step carries every blob that it refers to, so it never conflicts

    async def meet(self) -> None:
        """See `JoinsUserTransactions.meet`."""
        if self._identity is None:
            async with self._connected() as connection:
                self._identity = tuple(await connection.fetchrow(SQL.database_identity))

    @asynccontextmanager
    async def join(self, connection: Any) -> AsyncIterator[PostgresUserTransactionStore]:
        """See `JoinsUserTransactions.join`. Until the transaction ends, no other process can change the executions that it has posted to."""
        if self._identity is None:
            raise StoreUnavailable("the store has not identified its database yet; await meet() first")
        async with join_user_transaction(connection, self._identity, self._clock, self._loop) as within:
            yield within

    # Transactions and connections.

    async def _carry_out(self, changes: Sequence[Commit | Post]) -> list[ChangeAnswer]:
        """Carries out changes in one statement, which is one transaction, and notifies listeners when it is durable."""
        for attempt in range(1, ATTEMPTS_MAX + 1):
            try:
                async with self._connected() as connection:
                    done = await carry_out(connection.fetch, changes, self._clock and self._clock())
                    channels = tables.channels_to_notify(done.wakes, done.news)
                    for channel in channels:
                        await connection.fetch(SQL.notify, channel, self._name)
                break
            except StoreUnavailable as error:
                if attempt == ATTEMPTS_MAX or sqlstate_of(error) not in CONFLICTS:
                    raise
        self._notify(channels)
        return done.answers

    @asynccontextmanager
    async def _transaction(self, *, alone: bool = False) -> AsyncIterator[tables.PostgresTables]:
        """Yields the tables in one transaction and one epoch (with `alone`, while no other transaction runs), and notifies listeners when it is durable."""
        async with self._connected() as connection, connection.transaction(isolation="read_committed"):
            here = await tables.begin_transaction(connection.fetch, self._clock and self._clock(), alone=alone)
            yield here
            for channel in here.channels_to_notify:
                await connection.fetch(SQL.notify, channel, self._name)
        self._notify(here.channels_to_notify)

    @asynccontextmanager
    async def _snapshot(self, first: str) -> AsyncIterator[Fetch]:
        """Yields the function that executes statements in one transaction, whose statements see the database as it was after the statement `first`."""
        async with self._connected() as connection, connection.transaction(isolation="repeatable_read"):
            await connection.execute(first)
            yield connection.fetch

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Any]:
        """Yields a connection for exclusive use. After a failure it is closed, since its state is unknown."""
        on_own_loop, unharmed = self._is_on_own_loop(), False
        with self._translated_errors():
            async with self._turn if on_own_loop else asyncio.Lock():
                connection = self._connection if on_own_loop else None
                if is_new := connection is None or connection.is_closed():
                    connection = await self._connect()
                try:
                    if is_new:
                        await self._prepare(connection, on_own_loop)
                    yield connection
                    unharmed = True
                finally:
                    if not (unharmed and on_own_loop):
                        connection.terminate()

    @asynccontextmanager
    async def _step_connection(self) -> AsyncIterator[Any]:
        """Yields a connection for the transaction of a step, with the settings that users expect. After a failure it is closed, which rolls back."""
        on_own_loop, unharmed = self._is_on_own_loop(), False
        with self._translated_errors():
            async with self._room if on_own_loop else asyncio.Lock():
                spare = self._spare.pop() if on_own_loop and self._spare else None
                connection = await self._connect() if spare is None or spare.is_closed() or self._closed else spare
                try:
                    yield connection
                    with suppress(*self._errors):  # The transaction has ended; a failed reset only costs the connection.
                        await connection.reset(timeout=CONNECT_TIMEOUT_S)
                        unharmed = True
                finally:
                    if unharmed and on_own_loop and len(self._spare) < SPARE_CONNECTIONS_MAX and not self._closed:
                        self._spare.append(connection)
                    else:
                        connection.terminate()

    def _is_on_own_loop(self) -> bool:
        """Whether the running loop is the loop of the store: the first one that uses it, or the next one after that is closed."""
        loop = asyncio.get_running_loop()
        if self._loop is None or self._loop.is_closed():
            self._loop, self._connection, self._turn = loop, None, asyncio.Lock()
            self._spare, self._room = [], asyncio.Semaphore(TRANSACTIONS_MAX)
            self._group = GroupCommit(self._carry_out, is_refused)
        return loop is self._loop

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Raises the errors of Postgres and of the network as store errors that say what to do."""
        try:
            yield
        except self._errors as error:
            raise StoreUnavailable(f"Postgres: {error or type(error).__name__}; check that it runs and that the store's URL is right") from error

    async def _connect(self, **settings: str) -> Any:
        if self._closed:
            raise StoreUnavailable("the store has been closed; open a new one")
        settings |= {"synchronous_commit": "on"}
        return await self._asyncpg.connect(self._url, timeout=CONNECT_TIMEOUT_S, command_timeout=ANSWER_TIMEOUT_S, server_settings=settings)

    async def _prepare(self, connection: Any, on_own_loop: bool) -> None:
        """Prepares a new connection, and creates or upgrades the tables if needed."""
        await connection.set_type_codec("text", schema="pg_catalog", encoder=escape_nul, decoder=unescape_nul, format="text")
        if await connection.fetchval(SQL.newest_table) is None:
            async with connection.transaction():
                await connection.fetch(SQL.lock_epoch.format(shared=""))
                await connection.execute(SCHEMA)
        if on_own_loop:
            self._connection = connection
            for channel in self._listeners:
                await connection.add_listener(channel, self._on_notification)

    def _add_listener(self, channel: str, notify: Callable[[], None]) -> Callable[[], None]:
        listeners = self._listeners[channel]
        listeners.append(notify)
        return lambda: listeners.remove(notify) if notify in listeners else None

    def _on_notification(self, _connection: object, _process: int, channel: str, name: object) -> None:
        if name != self._name:  # This store has notified its own listeners already.
            for notify in tuple(self._listeners[channel]):
                notify()

    def _notify(self, channels: Sequence[str]) -> None:
        """Notifies the listeners of this store after a transaction is durable."""
        for channel in channels:
            self._on_notification(None, 0, channel, None)


def sqlstate_of(error: BaseException) -> str:
    """The SQLSTATE of the answer of Postgres that an error was raised for; empty if there was none."""
    return str(getattr(error.__cause__, "sqlstate", None) or "")


def is_refused(error: BaseException) -> bool:
    """Whether Postgres has refused a statement because of what is in it, and has changed nothing: bad data, a constraint, a limit of the program."""
    return sqlstate_of(error)[:2] in ("22", "23", "42", "54")
