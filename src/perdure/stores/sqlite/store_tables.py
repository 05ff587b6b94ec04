"""The operations of the store on its tables, inside of one transaction. Nothing here begins or ends a transaction.

Every transaction first reads the row of `meta`. Only what can't change without that row changing is cached between transactions: the epoch, the
holders and processes, and the numbers of executions, which never change.
"""

import sqlite3
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import NamedTuple, TypeVar

from perdure.core.envelopes import Ack, NewExecution, OutgoingMessage, QueuedMessage
from perdure.core.errors import StoreError
from perdure.core.limits import UNCLAIMED_MESSAGE_S
from perdure.core.paths import Key, QueueAddress
from perdure.core.program import program_requirements
from perdure.stores.blob_marks import blob_names_of
from perdure.stores.change_feed import ShippedItem
from perdure.stores.protocol import (
    ChangeAnswer,
    Claim,
    Claimed,
    Commit,
    Committed,
    Conflict,
    Post,
    QueueLimits,
    StoreTime,
    Superseded,
    TransactionGuard,
    TransactionRaised,
    TransactionRefused,
    creation_time,
    has_admission,
    refused_start,
)
from perdure.stores.sqlite import limited_queues, record_rows, restored_items, store_rows, transactional_steps
from perdure.stores.sqlite.claim_queries import (
    TenantCursors,
    assign_executions,
    find_ready,
    free_orphans,
    lease_work,
    next_ready_at,
    record_turns,
    with_full_names,
)
from perdure.stores.sqlite.database_file import Execute
from perdure.stores.sqlite.holders import HolderTable, OwnProcess, holder_liveness, holders_without_claims
from perdure.stores.sqlite.statements import SQL
from perdure.stores.sqlite.steady_clock import Anchor, SteadyClock
from perdure.stores.sqlite.store_rows import address_text, is_queued, message_of, read_head, root_text
from perdure.stores.sqlite.table_schema import SCHEMA_VERSION

T = TypeVar("T")

NUMBERS_MAX = 4_096


class HeadState(NamedTuple):
    """The columns of a head that a commit changes, in the order of `head_state`."""

    version: int
    holder: str | None
    program: str
    status: str
    wake_at_s: float | None
    message_at_s: float | None
    ended_at_s: float | None


HEAD_STATE_COLUMNS = ("version", "holder", "program", "status", "wake_at_s", "mail_at_s", "ended_at_s")


@cache
def _update_of(columns: tuple[str, ...]) -> str:
    return f"UPDATE heads SET {', '.join(f'{column} = ?' for column in columns)} WHERE number = ?"


class PendingNotifications:
    """Whom to notify once a transaction is durable: everyone, or only the holders whose executions got messages. It may also have news or changed members."""

    __slots__ = ("everyone", "holders", "members", "news")

    def __init__(self) -> None:
        self.everyone = self.news = self.members = False
        self.holders: set[str] = set()

    def __bool__(self) -> bool:
        return self.everyone or self.news or self.members or bool(self.holders)


class SqliteTables:
    """The operations of a transaction on `connection` between `begin` and `end`. Call `forget` after a rollback."""

    def __init__(self, connection: sqlite3.Connection, presence: OwnProcess, clock: Callable[[], float], lease_clock: Callable[[], float]) -> None:
        self.pending = PendingNotifications()
        self.epoch = 0
        self.members = HolderTable(connection.execute, presence)
        self._presence = presence
        self._clock, self._lease_clock = clock, lease_clock
        self._connection = connection
        self._execute = connection.execute
        self._executemany = connection.executemany
        self.cursors = TenantCursors()
        self._numbers: dict[Key, int] = {}
        self._programs: set[str] = set()
        self._rows: list[tuple[int, int, bytes]] = []
        self._meta: tuple[object, ...] = ()
        self._changes_before = 0

    def begin(self) -> None:
        """Reads what other processes have changed, and announces what has changed in this one.

        Raises:
            StoreError: a newer Perdure has changed the tables.
        """
        self.pending = PendingNotifications()
        self._changes_before = self._connection.total_changes
        meta = self._execute(SQL.read_meta).fetchone()
        if meta != self._meta:
            if meta[:3] != self._meta[:3]:
                self.epoch = meta[0]
                if meta[2] != SCHEMA_VERSION:
                    raise StoreError(
                        f"the database was upgraded while it was open: its tables now have version {meta[2]}, and this process knows {SCHEMA_VERSION}. "
                        "Restart the process"
                    )
                self.members.reload()
                self._numbers.clear()  # a new execution may have taken the number of one that was removed
            if isinstance(self._clock, SteadyClock):
                self._clock.follow(Anchor(*meta[3:]))
            self._meta = meta
        if self.members.announced is not self._presence.row and self.members.announce():
            self._members_changed()

    @property
    def has_changed(self) -> bool:
        """Whether the transaction has changed anything."""
        return self._connection.total_changes != self._changes_before

    def end(self, counted: int | None = None) -> None:
        """Counts the transaction if it has changed anything. `counted` is the number of those before it, if parts of it may have been counted already."""
        if counted is not None:
            self._execute(SQL.set_transaction_count, (counted + 1,))
        elif self.has_changed:
            self._execute(SQL.count_transaction)

    def forget(self) -> None:
        """Clears the caches, since what they hold may have been rolled back."""
        self._numbers.clear()
        self._programs.clear()
        self._meta = ()

    # The methods of `Store`.

    def change(self, changes: Sequence[Commit | Post]) -> list[ChangeAnswer]:
        """See `Store.commit`."""
        now_s = self._clock()
        self._rows.clear()  # some are left if an earlier change raised and was rolled back
        answers = [self._post(change, now_s) if isinstance(change, Post) else self._commit(change, now_s) for change in changes]
        self._append_rows()
        return answers

    def _append_rows(self) -> None:
        """Appends the rows of the commits so far to their logs. One statement for many rows costs half as much as one for each."""
        if self._rows:
            self._executemany(SQL.append_row, self._rows)
            self._rows.clear()

    def claim(self, claim: Claim) -> Claimed:
        """See `Store.claim`."""
        now_s = self._clock()
        liveness = holder_liveness(self._execute, self._presence, self._lease_clock())
        if claim.epoch != self.epoch or claim.holder not in liveness.living:
            return Claimed(now_s)
        claim = with_full_names(self._execute, claim)
        if free_orphans(self._execute, liveness.dead, claim.limit, now_s):
            self.pending.everyone = True
        found = find_ready(self._execute, claim, liveness.living, now_s, self.cursors)
        assigned = assign_executions(self._execute, found.executions, claim.holder, now_s)
        leased = lease_work(self._execute, found.work, claim.holder)
        limited_queues.record_served(self._execute, found.executions, found.work, now_s)
        record_turns(self._execute, found.turns, now_s)
        if self.members.forget(liveness.gone):
            self.members.clean_up()
            self._members_changed()
        more = len(holders_without_claims(self._execute, liveness.dead)) < len(liveness.dead)
        return Claimed(now_s, assigned, leased, now_s if more else next_ready_at(self._execute, claim, now_s))

    def has_feed(self) -> bool:
        """Whether there is a change feed, into which every change of a head is written."""
        return self._execute(SQL.is_scanned).fetchone()[0] is not None

    def renew(self, holder: str, lease_s: float, about: bytes) -> StoreTime:
        """See `Store.renew`."""
        if lease_s <= 0:
            self.members.let_go(holder)
            self._members_changed()
            self.pending.everyone = True
        else:
            if self.members.starts_anew(holder):
                self._let_go(holder)
            if self.members.renew(holder, self._lease_clock() + lease_s, about):
                self._members_changed()
        now_s = self._clock()
        if isinstance(self._clock, SteadyClock):
            self._execute(SQL.set_anchor, self._clock.anchor)
        return StoreTime(now_s, self.epoch)

    def transact(self, guard: TransactionGuard, work: transactional_steps.StepWork) -> Committed | Superseded | TransactionRefused | TransactionRaised:
        """See `TransactionalStore.transact`."""
        if guard.epoch != self.epoch:
            return Superseded(self.epoch)
        if (refused := transactional_steps.check_guard(self._execute, guard)) is not None:
            return refused
        answer = transactional_steps.run_transactional_step(self._connection, work, lambda post: self.change([post])[0])
        if isinstance(answer, TransactionRaised):
            self._numbers.clear()  # the rollback may have removed executions that the caches know
            self._programs.clear()
        return answer  # type: ignore[return-value]  # a post of a step carries every blob that it refers to, so it never conflicts

    def limit(self, queue: str, limits: QueueLimits | None, tenant: str | None) -> None:
        """See `Store.limit`."""
        limited_queues.set_limits(self._execute, queue, limits, tenant)
        self.pending.everyone = True

    def drop_expired(self, limit: int) -> list[QueuedMessage]:
        """See `Store.drop_expired`."""
        swept = [message_of(row) for row in self._execute(SQL.expired_messages, (self._clock() - UNCLAIMED_MESSAGE_S, limit)).fetchall()]
        _ = self._acknowledge([Ack(one.to, one.key) for one in swept])
        return swept

    def drop_expired_records(self, limit: int) -> int:
        """See `Store.drop_expired_records`."""
        return record_rows.drop_expired_records(self._execute, limit, self._clock())

    def raise_epoch(self) -> int:
        """See `Store.raise_epoch`."""
        self.epoch = max(self.epoch + 1, int(self._clock()))
        self._execute(SQL.set_epoch, (self.epoch,))
        self.members.let_all_go()
        self._members_changed()
        self.pending.everyone = True
        return self.epoch

    def leave(self) -> None:
        """Releases what the holders of this process hold, and removes the process."""
        self.pending.everyone = self.members.leave()
        self._members_changed()

    # Changes.

    def _commit(self, commit: Commit, now_s: float) -> ChangeAnswer:
        if commit.epoch != self.epoch:
            return Superseded(self.epoch)
        if commit.unless and any(is_queued(self._execute, address_text(commit.key), key) for key in commit.unless):
            return Conflict(read_head(self._execute, commit.key))
        version = commit.version + commit.count
        number = self._create(commit, version, now_s) if commit.creates else self._number(commit.key)
        ended = commit.ended_at_s is not None
        before = self._state(number) if number is not None and commit.release and not commit.creates else None
        had_ended = None if number is None else ended if commit.creates else self._advance(commit, number, version, before)
        if number is None or had_ended is None:
            return Conflict(read_head(self._execute, commit.key))
        if commit.forgets:
            return self._forget(commit, number, now_s)
        if commit.blobs or commit.messages:
            self._put_blobs(commit)
        if commit.compacted is not None:
            self._append_rows()
            self._execute(SQL.remove_log, (number,))
            if commit.compacted:
                self._rows.append((number, commit.version, commit.compacted))
        if commit.count:
            self._rows.append((number, version, commit.row))
        created = self._carry_out(commit, now_s)
        self._know(commit.program)
        if commit.release:
            self._release(commit, number, version, self._state(number) if before is None or commit.acks or commit.messages else before, now_s)
        else:
            if commit.creates and (commit.acks or commit.messages):
                self._execute(SQL.set_message_time, (number,))
            if self.members.name(commit.holder):
                self._members_changed()
            if commit.wake_at_s is not None and commit.wake_at_s <= now_s:
                self.pending.holders.add(commit.holder)
        if commit.attributes is not None:
            store_rows.write_attributes(self._execute, self._executemany, number, commit.attributes, (commit.key.tenant, ended))
        elif ended is not had_ended:
            self._execute(SQL.set_ended, (ended, number))
        if commit.news:
            self.pending.news = True
        return Committed(version, now_s, created)

    def _forget(self, commit: Commit, number: int, now_s: float) -> ChangeAnswer:
        """Removes an execution with its log, messages and attributes."""
        self._append_rows()
        for forget in (SQL.remove_attributes, SQL.remove_log, SQL.remove_head):
            self._execute(forget, (number,))
        self._execute(SQL.remove_messages, (address_text(commit.key),))
        self._numbers.clear()
        self._execute(SQL.membership_changed)
        self.pending.everyone = True  # in a queue with limits, others may have waited for its place
        return Committed(commit.version, now_s)

    def _advance(self, commit: Commit, number: int, version: int, before: HeadState | None) -> bool | None:
        """Returns whether the execution had ended, None if it is not at the version that the commit was decided on. Unless it releases the execution, this
        also writes the head. `before` is the head, if it was read.

        Most commits change only the version of the head, which one UPDATE does if nothing else has changed.
        """
        decided = (commit.holder, commit.program, commit.status, commit.wake_at_s, commit.ended_at_s)
        if not commit.release and self._execute(SQL.advance_head, (version, number, commit.version, *decided)).rowcount:
            return commit.ended_at_s is not None
        before = before or self._state(number)
        if before is None or before.version != commit.version:
            return None
        if not commit.release:
            holder = commit.holder if before.holder is None else before.holder
            state = HeadState(version, holder, commit.program, commit.status, commit.wake_at_s, before.message_at_s, commit.ended_at_s)
            self._set_state(number, before, state)
        return before.ended_at_s is not None

    def _release(self, commit: Commit, number: int, version: int, before: HeadState | None, now_s: float) -> None:
        """Writes the head, which is as in `before`, and gives the execution back, if the holder of the commit still holds it."""
        assert before is not None, "the commit has found it"
        released = before.holder == commit.holder
        message_at_s = self._execute(SQL.first_due_of_address, (address_text(commit.key),)).fetchone()[0] if released else before.message_at_s
        holder = None if released else before.holder
        self._set_state(number, before, HeadState(version, holder, commit.program, commit.status, commit.wake_at_s, message_at_s, commit.ended_at_s))
        is_ready = any(at_s is not None and at_s <= now_s for at_s in (commit.wake_at_s, message_at_s))
        if is_ready or self._execute(SQL.is_limited, (number,)).fetchone()[0]:  # in a queue with limits, others may have waited for its place
            self.pending.everyone = True

    def _state(self, number: int) -> HeadState | None:
        row = self._execute(SQL.head_state, (number,)).fetchone()
        return row and HeadState(*row)

    def _set_state(self, number: int, before: HeadState, after: HeadState) -> None:
        """Writes the columns that change. SQLite writes to each index of a column that an UPDATE names, even if its value stays the same."""
        changed = [(column, value) for column, value, was in zip(HEAD_STATE_COLUMNS, after, before, strict=True) if value != was]
        if changed:
            self._execute(_update_of(tuple(column for column, _ in changed)), (*(value for _, value in changed), number))

    def _post(self, post: Post, now_s: float) -> ChangeAnswer:
        if post.epoch not in (None, self.epoch):
            return Superseded(self.epoch)
        if any(not self._has(names, post) for send in post.messages for names in send.refers):
            return Conflict(None)
        if post.records and (stale := record_rows.stale_record(self._execute, post.records, now_s)) is not None:
            return stale
        if has_admission(post) and (refused := refused_start(post, self._exists, partial(store_rows.count_living, self._execute))) is not None:
            return refused
        self._put_blobs(post)
        if post.records:
            record_rows.change_records(self._execute, self._executemany, post.records, now_s)
        return Committed(0, now_s, self._carry_out(post, now_s))

    def _exists(self, key: Key) -> bool:
        return self._number(key) is not None

    def _has(self, names: Sequence[str], post: Post) -> bool:
        """Whether a blob is in the store or carried by the post under one of its names."""
        return any(name in names for name, _ in post.blobs) or any(self._execute(SQL.has_blob, (name,)).fetchone() for name in names)

    def _carry_out(self, change: Commit | Post, now_s: float) -> tuple[Key, ...]:
        """Carries out acks, then messages. Returns the executions that were created."""
        sends = (*self._acknowledge(change.acks), *change.messages) if change.acks else change.messages
        return tuple(send.to for send in sends if self._deliver(send, now_s) and isinstance(send.to, Key)) if sends else ()

    def _put_blobs(self, change: Commit | Post) -> None:
        """Keeps the blobs of a change, before anything that names them, and removes the marks of all that it names."""
        if change.blobs:
            self._executemany(SQL.keep_blob, change.blobs)
            self._executemany(SQL.forget_removal, [(name,) for name, _ in change.blobs])
        if names := blob_names_of(change):
            self._executemany(SQL.unmark_blob, [(name,) for name in names])

    def _deliver(self, send: OutgoingMessage, now_s: float) -> bool:
        """Queues a message unless its key is queued already. Returns whether an execution was created."""
        to, address, due_at_s = send.to, address_text(send.to), max(send.due_at_s, now_s)
        if isinstance(to, QueueAddress):
            limited = limited_queues.limits_that_apply(self._execute, to.name, to.tenant)
            self._execute(SQL.queue_message, (address, send.key, send.body, due_at_s, to.tenant, to.name, None, send.lane, send.priority, limited))
            self.pending.everyone = True
            return False
        opened = False
        receiver = self._execute(SQL.message_receiver, (address,)).fetchone()
        if receiver is None and send.opens is not None:
            opened = True
            self._know(send.opens.program)
            self._insert(
                to, address, (send.opens.program, root_text(send.opens.root, to), 0, None, None, "pending", now_s, None, *self._place(send.opens, to.tenant))
            )
            receiver = self._execute(SQL.message_receiver, (address,)).fetchone()
            if send.opens.attributes:
                store_rows.write_attributes(self._execute, self._executemany, receiver[0], send.opens.attributes, (to.tenant, False))
        delivered = self._execute(SQL.queue_message, (address, send.key, send.body, due_at_s, None, None, None if receiver else 1, "", 0, 0)).rowcount
        if receiver is None:
            return False
        number, holder, message_at_s = receiver
        if delivered and (message_at_s is None or due_at_s < message_at_s):
            self._execute(SQL.bring_message_time_forward, (due_at_s, number))
        if holder is None:
            self.pending.everyone = True
        else:
            self.pending.holders.add(holder)
        return opened

    def vault(self, do: Callable[[Execute, float], bool]) -> bool:
        """Runs `do` on the vault, with the store's time."""
        return do(self._execute, self._clock())

    def removal(self, do: Callable[[Execute, float], T]) -> T:
        """Runs `do` on the blobs and their marks, with the store's time."""
        return do(self._execute, self._clock())

    def feed(self, do: Callable[[Execute], object]) -> None:
        """Runs `do` on the change feed."""
        do(self._execute)

    def restore(self, items: Sequence[ShippedItem]) -> None:
        """See `ChangeFeed.restore`."""
        now_s = self._clock()
        for item in items:
            restored_items.restore_item(self._execute, self._executemany, item, now_s, self._know)
        self._numbers.clear()
        self._execute(SQL.membership_changed)  # as in `_forget`: a number may have been taken by another execution
        self.pending.everyone = True

    def _place(self, opens: NewExecution, tenant: str) -> tuple[str, str, int, int]:
        """Returns the queue in which a new execution waits, its lane and priority there, and the limits that apply to it."""
        limited = limited_queues.limits_that_apply(self._execute, opens.queue, tenant) if opens.queue else 0
        return opens.queue, opens.lane, opens.priority, limited

    def _acknowledge(self, acks: Sequence[Ack]) -> list[OutgoingMessage]:
        """Removes or postpones messages. Returns the messages to send instead of tasks that had never been leased."""
        unleased = [ack.unleased for ack in acks if ack.unleased and self._execute(SQL.is_unleased, (address_text(ack.to), ack.key)).fetchone()]
        self._executemany(SQL.remove_message, [(address_text(ack.to), ack.key) for ack in acks if ack.postpone_to_s is None])
        for ack in acks:
            if ack.postpone_to_s is not None:
                self._postpone(address_text(ack.to), ack.key, ack.postpone_to_s)
        if any(isinstance(ack.to, QueueAddress) for ack in acks):  # others may have waited for its place
            self.pending.everyone = True
        return unleased

    def _postpone(self, address: str, key: str, due_at_s: float) -> None:
        if self._execute(SQL.postpone_message, (due_at_s, address, key)).rowcount and (receiver := self._execute(SQL.message_receiver, (address,)).fetchone()):
            number, _, message_at_s = receiver
            if message_at_s is None or due_at_s < message_at_s:
                self._execute(SQL.bring_message_time_forward, (due_at_s, number))

    def _create(self, commit: Commit, version: int, now_s: float) -> int | None:
        times = (commit.wake_at_s, commit.status, creation_time(commit, now_s), commit.ended_at_s)
        state = (commit.program, root_text(commit.root, commit.key), version, commit.holder, *times, "", "", 0, 0)
        return self._insert(commit.key, address_text(commit.key), state)

    def _know(self, program: str) -> None:
        """Records a program that needs capabilities, so that claims find it."""
        if program not in self._programs:
            if program_requirements(program):
                self._execute(SQL.add_program, (program,))
            self._programs.add(program)

    def _insert(self, key: Key, address: str, state: tuple[object, ...]) -> int | None:
        """Creates the head, to which messages that waited for it belong from now on. Returns its number, or None if there is a head already."""
        found = self._execute(SQL.create_head, (address, key.tenant, key.workflow, *state, address)).fetchall()
        if not found:
            return None
        ((number, message_at_s),) = found
        if message_at_s is not None:
            self._execute(SQL.mark_claimed, (address,))
        return self._remember(key, number)

    def _number(self, key: Key) -> int | None:
        number = self._numbers.get(key)
        if number is None and (row := self._execute(SQL.head_number, (address_text(key),)).fetchone()):
            return self._remember(key, row[0])
        return number

    def _remember(self, key: Key, number: int) -> int:
        if len(self._numbers) >= NUMBERS_MAX:
            self._numbers.clear()
        self._numbers[key] = number
        return number

    # Holders.

    def _let_go(self, holder: str) -> None:
        """Frees everything that `holder` held before it began anew, and makes it ready."""
        freed = self._execute(SQL.release_executions, (self._clock(), holder)).rowcount + self._execute(SQL.release_work, (holder,)).rowcount
        if freed:
            self.pending.everyone = True

    def _members_changed(self) -> None:
        self._execute(SQL.membership_changed)
        self.pending.members = True
