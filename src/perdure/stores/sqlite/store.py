"""The default store: one SQLite file that any number of processes of one host share, with nothing to set up.

Any process may be killed at any instant: what it had acknowledged is durable, the others learn of its death within milliseconds, and they claim what it
held. Each process reads what the others have changed at the beginning of each transaction. So that no process has to poll often, the one that changes
something notifies those that wait.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from perdure.core.envelopes import Ack, QueuedMessage
from perdure.core.errors import StoreError, StoreUnavailable
from perdure.core.paths import Address, Key
from perdure.stores.blob_marks import BLOB_REMOVAL
from perdure.stores.change_feed import CHANGE_FEED
from perdure.stores.move_mark import MOVE_MARK
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
from perdure.stores.sqlite.backup import BackupCopies
from perdure.stores.sqlite.blobs import SqliteBlobRemoval
from perdure.stores.sqlite.change_feed_part import SqliteChangeFeed
from perdure.stores.sqlite.checkpoints import Checkpoints
from perdure.stores.sqlite.claim_queries import TenantCursors, find_ready, next_ready_at, with_full_names
from perdure.stores.sqlite.database_file import DATABASE_ERRORS, SYNCHRONOUS, DatabaseFile, Execute, is_busy, sqlite_code
from perdure.stores.sqlite.database_setup import open_database
from perdure.stores.sqlite.forks_and_threads import Forkable, unwatch_forks, watch_forks
from perdure.stores.sqlite.group_commit import WRITE_WAIT_MAX_S, GroupCommitWriter
from perdure.stores.sqlite.holders import OwnProcess, execution_leases, holder_liveness, holders_without_claims
from perdure.stores.sqlite.limited_queues import queue_statuses
from perdure.stores.sqlite.move_mark_part import SqliteMoveMark
from perdure.stores.sqlite.notifications import CHANGE, MEMBERSHIP, WAKE_UP, notify
from perdure.stores.sqlite.process_liveness import watch_process
from perdure.stores.sqlite.read_only_store import ReadConnections
from perdure.stores.sqlite.record_rows import read_record, read_records
from perdure.stores.sqlite.statements import SQL
from perdure.stores.sqlite.steady_clock import Anchor, SteadyClock
from perdure.stores.sqlite.store_rows import address_text, is_queued, read_blob, read_head, read_heads, read_log, read_messages, read_removed_at
from perdure.stores.sqlite.store_tables import SqliteTables
from perdure.stores.sqlite.transaction_watcher import TransactionWatcher
from perdure.stores.sqlite.user_transaction_store import SqliteUserTransactionStore, is_connection_to, join_user_transaction
from perdure.stores.sqlite.vault import SqliteVault
from perdure.stores.sqlite.write_lock_queue import LOCK_RETRY_S
from perdure.stores.store_parts import STORE_KIND, PartName, StoreParts
from perdure.stores.user_transactions import USER_TRANSACTIONS

T = TypeVar("T")

CLAIM_ATTEMPTS = 4
"""How often a claim reads again what is ready because another process writes, before it waits for the write lock."""


class SqliteStore:
    """A `Store` in the SQLite file at `path`. It creates the file and its directory if there is none.

    It may be used in several event loops and threads. `synchronous` is SQLite's: with FULL, acknowledged changes survive a loss of power; with NORMAL or
    OFF (far faster on slow disks), only the death of the process. `clock` returns the store's time and `monotonic` the time of leases; a given `clock`
    serves for both if `monotonic` is not given.

    Raises:
        StoreUnavailable: the file can't be opened now.
        StoreError: the file is damaged, is not a store, belongs to a newer Perdure, or must be upgraded while other processes have it open.
    """

    def __init__(
        self, path: str | Path, clock: Callable[[], float] | None = None, monotonic: Callable[[], float] | None = None, synchronous: str = "FULL"
    ) -> None:
        if synchronous not in SYNCHRONOUS:
            raise ValueError(f"synchronous={synchronous!r}: give one of {', '.join(SYNCHRONOUS)}")
        self._clock = clock or SteadyClock()
        self._lease_clock = monotonic or clock or time.monotonic
        self._file = DatabaseFile(Path(path).absolute(), synchronous)
        self._presence = OwnProcess(self._file.processes, self._on_notification)
        self._wake_listeners: list[Callable[[], None]] = []
        self._change_listeners: list[Callable[[], None]] = []
        self._unannounced = False
        self._watched: dict[str, Callable[[], None]] = {}
        self._watching = Lock()
        self._refusal: StoreError | None = None
        self._readers = ReadConnections(self._file)
        self._writer = GroupCommitWriter(self._file, self._make_tables, self._written)
        self._checkpoints = Checkpoints(self._file, self._writer.alone)
        self._copies = BackupCopies(self._file)
        self.vault = SqliteVault(self._file, self._read, self._write)
        self.blob_removal = SqliteBlobRemoval(self._read, self._write)
        parts = StoreParts().having(CHANGE_FEED, SqliteChangeFeed(self._read, self._write)).having(VAULT, self.vault).having(BLOB_REMOVAL, self.blob_removal)
        parts.having(STORE_KIND, "sqlite").having(MOVE_MARK, SqliteMoveMark(self._read, self._write))
        self._optional = parts.having(TRANSACTIONS, self).having(USER_TRANSACTIONS, self)
        self._transaction_watcher = TransactionWatcher(self._readers, lambda tables: self._written(tables, 0))
        self._parts: tuple[Forkable, ...] = (self._copies, self._checkpoints, self._writer, self._readers)
        self._writer.adopt(open_database(self._file))
        watch_forks(self)

    # The methods of `Store`.

    async def commit(self, changes: Sequence[Commit | Post]) -> list[ChangeAnswer]:
        """See `Store.commit`."""
        asked = tuple(changes)
        check_changes(asked)
        return await self._write(lambda tables: tables.change(asked), len(asked))

    async def claim(self, claim: Claim) -> Claimed:
        """See `Store.claim`. It first reads whether there is anything to claim, so that a claim that finds nothing does not take the write lock.

        While another process writes, perhaps the claim of the same, it reads again instead of waiting for the lock. A claim of executions need not be synced
        with the disk: nothing is done for them before a commit is, and that makes both durable. A leased task begins without a commit, and what reads a
        change feed remembers how far it has read it: these claims are synced.
        """
        synced, is_assigned = bool(claim.queues), False

        def assign(tables: SqliteTables) -> Claimed:
            nonlocal is_assigned
            is_assigned, claimed = False, tables.claim(claim)
            is_assigned = True
            return claimed

        try:
            for _ in range(CLAIM_ATTEMPTS):
                idle = await self._read(lambda execute: self._idle(execute, claim))
                if idle is not None:
                    return idle
                self._check_open()
                answer = await self._writer.write_now(lambda tables: assign(tables) if synced or not tables.has_feed() else None, synced=synced)
                if answer is None:
                    await asyncio.sleep(LOCK_RETRY_S)
                elif (claimed := answer[0]) is not None:
                    return claimed
                else:
                    break
            return await self._write(assign)
        except StoreUnavailable as error:
            if is_assigned and (error.__cause__ is None or sqlite_code(error.__cause__) != sqlite3.SQLITE_FULL):
                raise  # it may have been committed
            raise NothingClaimed(str(error)) from error

    async def read(self, key: Key, after: int = 0) -> StoredLog | None:
        """See `Store.read`."""
        return await self._read(lambda execute: read_log(execute, key, after))

    async def heads(self, which: HeadFilter = ALL_HEADS) -> list[Head]:
        """See `Store.heads`."""
        if (key := which.only_key()) is not None:
            return await self._read(lambda execute: [] if (head := read_head(execute, key)) is None else [head], is_one_statement=True)
        return await self._read(lambda execute: read_heads(execute, which))

    async def messages(self, to: Address) -> list[QueuedMessage]:
        """See `Store.messages`."""
        return await self._read(lambda execute: read_messages(execute, to), is_one_statement=True)

    async def are_queued(self, messages: Sequence[Ack]) -> list[bool]:
        """See `Store.are_queued`."""
        return await self._read(lambda execute: [is_queued(execute, address_text(one.to), one.key) for one in messages])

    async def record(self, key: RecordKey) -> StoredRecord | None:
        """See `Store.record`."""
        return await self._read(lambda execute: read_record(execute, key, self._now_s(execute)))

    async def records(self, which: RecordFilter) -> list[StoredRecord]:
        """See `Store.records`."""
        return await self._read(lambda execute: read_records(execute, which, self._now_s(execute)))

    async def store_time(self) -> StoreTime:
        """See `Store.store_time`."""
        return await self._read(self._time)

    async def renew(self, holder: str, lease_s: float, about: bytes = b"") -> StoreTime:
        """See `Store.renew`."""
        if lease_s > 0:
            self._appear()
        return await self._write(lambda tables: tables.renew(holder, lease_s, about))

    async def leases(self) -> list[HolderStatus]:
        """See `Store.leases`."""
        return await self._read(lambda execute: execution_leases(execute, self._presence, self._lease_clock()), is_one_statement=True)

    async def relay(self, limit: int = 100) -> int:
        """Does nothing: there is one reach, so nothing ever leaves it."""
        return 0

    async def limit(self, queue: str, limits: QueueLimits | None, tenant: str | None = None) -> None:
        """See `Store.limit`."""
        await self._write(lambda tables: tables.limit(queue, limits, tenant))

    async def queues(self) -> list[QueueStatus]:
        """See `Store.queues`."""
        return await self._read(lambda execute: queue_statuses(execute, holder_liveness(execute, self._presence, self._lease_clock()).living, self._clock()))

    async def drop_expired(self, limit: int = 100) -> list[QueuedMessage]:
        """See `Store.drop_expired`."""
        return await self._write(lambda tables: tables.drop_expired(limit))

    async def drop_expired_records(self, limit: int = 100) -> int:
        """See `Store.drop_expired_records`."""
        return await self._write(lambda tables: tables.drop_expired_records(limit))

    async def raise_epoch(self) -> int:
        """See `Store.raise_epoch`."""
        return await self._write(SqliteTables.raise_epoch)

    async def blob(self, sha256: str) -> bytes | None:
        """See `Store.blob`."""
        return await self._read(lambda execute: read_blob(execute, sha256))

    async def removed_at(self, sha256: str) -> float | None:
        """See `Store.removed_at`."""
        return await self._read(lambda execute: read_removed_at(execute, sha256))

    def on_wake(self, notify: Callable[[], None]) -> Callable[[], None]:
        """See `Store.on_wake`."""
        return self._add_listener(self._wake_listeners, notify)

    def on_change(self, notify: Callable[[], None]) -> Callable[[], None]:
        """See `Store.on_change`."""
        return self._add_listener(self._change_listeners, notify)

    def part(self, name: PartName[T]) -> T | None:
        """See `Store.part`."""
        return self._optional.get(name)

    async def close(self) -> None:
        """See `Store.close`. Changes that were requested before are completed first."""
        if self._refusal is not None:
            return
        with suppress(StoreError):  # The other processes then notice its end by its lock.
            await self._writer.write(lambda tables: tables.leave() if self._presence.name else None)
        self._refusal = StoreUnavailable(f"{self._file.path} has been closed; open a new store on it")
        with self._watching:
            for unwatch in self._watched.values():
                unwatch()
        self._checkpoints.close()
        self._transaction_watcher.close()
        self.pause()
        self._writer.close()
        self._readers.close()
        self.resume()
        self._presence.end()
        unwatch_forks(self)

    # Transactions shared with users, and backups.

    async def transact(
        self, guard: TransactionGuard, work: Callable[[Any], Coroutine[Any, Any, Post]]
    ) -> Committed | Superseded | TransactionRefused | TransactionRaised:
        """See `TransactionalStore.transact`. It is an error if `work` awaits anything but its transaction, since every other write waits for it."""
        return await self._write(lambda tables: tables.transact(guard, work))

    async def is_same_database(self, connection: Any) -> bool:
        """See `TransactionalStore.is_same_database`."""
        return is_connection_to(connection, self._file)

    async def meet(self) -> None:
        """Does nothing: a connection is identified by its file."""

    @asynccontextmanager
    async def join(self, connection: Any) -> AsyncIterator[SqliteUserTransactionStore]:
        """See `JoinsUserTransactions.join`. No other process can write from here on until the transaction ends."""
        self._check_open()
        with self._file.translated_errors():
            self._file.check()
        async with join_user_transaction(connection, self._file, self._tables_for_user, self._clock) as within:
            yield within
        if within.posted is not None:
            self._transaction_watcher.expect(within.posted, within.tables)

    async def backup(self, target: str | Path) -> None:
        """Copies the database, as it is at this moment, into the new file `target`. Reads and writes continue meanwhile.

        Raises:
            StoreError: `target` exists, or it can't be written.
        """
        self._check_open()
        await asyncio.to_thread(self._copies.copy, Path(target))

    # Writing and reading.

    def _write(self, do: Callable[[SqliteTables], T], changes: int = 1) -> Coroutine[Any, Any, T]:
        self._check_open()
        return self._announce(do, changes) if self._unannounced else self._writer.write(do, changes)

    async def _announce(self, do: Callable[[SqliteTables], T], changes: int) -> T:
        """Writes after adding this process to the table of processes, which the transaction does."""
        self._appear()
        self._unannounced = False
        try:
            return await self._writer.write(do, changes)
        except BaseException:
            self._unannounced = True
            raise

    async def _read(self, read: Callable[[Execute], T], *, is_one_statement: bool = False) -> T:
        self._check_open()
        if self._unannounced:
            await self._write(lambda _: None)
        began_s = time.monotonic()
        while True:
            try:
                return self._readers.read(read, is_one_statement=is_one_statement)
            except DATABASE_ERRORS as error:
                if not is_busy(error) or time.monotonic() - began_s > WRITE_WAIT_MAX_S:
                    raise self._file.trouble(error) from error
            await asyncio.sleep(LOCK_RETRY_S)

    def _idle(self, execute: Execute, claim: Claim) -> Claimed | None:
        """Returns the answer to a claim that gets nothing; None if there is something to claim, or dead holders to remove."""
        now_s = self._clock()
        liveness = holder_liveness(execute, self._presence, self._lease_clock())
        (epoch,) = execute(SQL.read_epoch).fetchone()
        if claim.epoch != epoch or claim.holder not in liveness.living:
            return Claimed(now_s)
        claim = with_full_names(execute, claim)
        if liveness.gone or len(holders_without_claims(execute, liveness.dead)) < len(liveness.dead):
            return None
        if find_ready(execute, claim, liveness.living, now_s, TenantCursors()):
            return None
        return Claimed(now_s, next_at_s=next_ready_at(execute, claim, now_s))

    def _time(self, execute: Execute) -> StoreTime:
        epoch, _, _, *anchor = execute(SQL.read_meta).fetchone()
        if isinstance(self._clock, SteadyClock):
            self._clock.follow(Anchor(*anchor))
        return StoreTime(self._clock(), epoch)

    def _now_s(self, execute: Execute) -> float:
        return self._time(execute).now_s

    def _check_open(self) -> None:
        if self._refusal is not None:
            raise self._refusal.with_traceback(None)

    def _make_tables(self, connection: sqlite3.Connection) -> SqliteTables:
        return SqliteTables(connection, self._presence, self._clock, self._lease_clock)

    def _tables_for_user(self, connection: sqlite3.Connection) -> SqliteTables:
        """Creates the tables on a user's connection. A transaction there does not announce this process to the others."""
        return SqliteTables(connection, OwnProcess(self._file.processes, lambda _: None), self._clock, self._lease_clock)

    # Notifications, and the deaths of other processes.

    def _add_listener(self, listeners: list[Callable[[], None]], notify: Callable[[], None]) -> Callable[[], None]:
        """Adds a listener. The other processes learn of the first one before anything else is read or written here."""
        listeners.append(notify)
        wakes, news = bool(self._wake_listeners), bool(self._change_listeners)
        if (wakes, news) != (self._presence.wakes, self._presence.news):
            self._presence.wakes, self._presence.news = wakes or self._presence.wakes, news or self._presence.news
            self._unannounced = True
        return lambda: listeners.remove(notify) if notify in listeners else None

    def _appear(self) -> None:
        with self._file.translated_errors():
            self._presence.appear()

    def _written(self, tables: SqliteTables, changes: int) -> None:
        """Notifies everyone who waits for what a durable transaction has changed, each process once."""
        self._checkpoints.wrote(changes)
        members, pending, own = tables.members, tables.pending, self._presence.name
        if members.changed:
            members.changed = False
            self._watch_over({*members.holders.values()})
        if not pending:
            return
        woken = {members.holders.get(holder) for holder in pending.holders}
        everyone = pending.everyone or not woken <= members.processes.keys()
        if everyone or own in woken:
            _notify_all(self._wake_listeners)
        if pending.news:
            _notify_all(self._change_listeners)
        for name, process in members.processes.items():
            if name != own and process.listener is not None:
                wakes = process.wakes and (everyone or name in woken)
                if about := wakes * WAKE_UP | (pending.news and process.news) * CHANGE | (pending.members and process.wakes) * MEMBERSHIP:
                    notify(process.listener, about)

    def _on_notification(self, about: int) -> None:
        """Handles a notification of another process."""
        if about & MEMBERSHIP and self._wake_listeners and self._refusal is None:
            with suppress(*DATABASE_ERRORS, StoreError):  # The next transaction finds out.
                self._watch_over(self._readers.read(lambda execute: {process for _, process, _ in execute(SQL.holders)}))
        if about & WAKE_UP:
            _notify_all(self._wake_listeners)
        if about & CHANGE:
            _notify_all(self._change_listeners)

    def _watch_over(self, processes: set[str | None]) -> None:
        """Watches these processes and no others, so that listeners are notified when one dies."""
        if not self._wake_listeners:
            return
        with self._watching:
            for gone in self._watched.keys() - processes:
                self._watched.pop(gone)()
            for name in processes - self._watched.keys() - {None, self._presence.name}:
                if name is not None and self._refusal is None:
                    self._watched[name] = watch_process(self._file.processes / name, partial(self._died, name))

    def _died(self, name: str) -> None:
        with self._watching:
            self._watched.pop(name, None)
        _notify_all(self._wake_listeners)

    # Forks: see `forks_and_threads`.

    def pause(self) -> None:
        """Before a fork: waits until nothing is in progress here, and lets nothing begin."""
        for part in self._parts:
            part.pause()

    def resume(self) -> None:
        """After a fork, in the parent: lets work begin again."""
        for part in self._parts:
            part.resume()

    def abandon(self) -> None:
        """After a fork, in the child: closes what was inherited, and refuses all use."""
        self._refusal = StoreError(f"this store on {self._file.path} was opened before a fork and belongs to the parent process; open a new store in the child")
        self._writer.abandon()
        self._readers.close()
        self._presence.abandon()


def _notify_all(listeners: list[Callable[[], None]]) -> None:
    for each in tuple(listeners):
        try:
            each()
        except RuntimeError:  # The event loop that it would wake is closed.
            with suppress(ValueError):
                listeners.remove(each)
