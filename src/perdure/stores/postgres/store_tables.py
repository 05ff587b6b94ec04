"""The operations of the store on its tables in Postgres, inside of one transaction. Nothing here begins or ends a transaction, or depends on a driver.

A change first takes an advisory lock for each execution that it decides or sends to and each record that it changes, all at once and in order. So no other
transaction changes these heads and records or sends such messages meanwhile, whether a head or a record exists or not. A claim locks the rows that it takes,
and waits only for claims on the same queue with limits. A new epoch, and a change of limits, waits until no other transaction is running.
"""

from collections.abc import Iterable, Sequence
from typing import Any
from zlib import crc32

from msgspec.structs import astuple

from perdure.core.envelopes import Ack, OutgoingMessage, QueuedMessage, StartAdmission
from perdure.core.limits import UNCLAIMED_MESSAGE_S
from perdure.core.paths import Address, Key, QueueAddress
from perdure.core.program import program_requirements
from perdure.stores.blob_marks import blob_names_of
from perdure.stores.change_feed import ShippedItem
from perdure.stores.postgres import limited_queues as queues
from perdure.stores.postgres import record_rows, restored_items
from perdure.stores.postgres import store_rows as attributes
from perdure.stores.postgres.claim_queries import free_orphans, has_orphans, ready_executions, ready_work
from perdure.stores.postgres.limited_queues import ClaimArguments, Fetch, PostgresCandidate
from perdure.stores.postgres.statements import SQL
from perdure.stores.postgres.store_rows import address_bytes, escape_nul, head_of, message_of
from perdure.stores.protocol import (
    ORPHANS_FREED_MIN,
    ChangeAnswer,
    Claim,
    Claimed,
    ClaimedExecution,
    Commit,
    Committed,
    Conflict,
    Head,
    HeadFilter,
    HolderStatus,
    LogRow,
    Post,
    Refused,
    StoredLog,
    StoreTime,
    Superseded,
    creation_time,
    has_admission,
    refused_start,
)

EPOCH_LOCK, LOCKS_MAX = 0x50657264 << 16, 1024
"""The advisory lock of the epoch, and how many follow it for executions."""

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
        return [channel for channel, is_notified in ((WAKE_CHANNEL, self.wakes), (CHANGE_CHANNEL, self.news)) if is_notified]

    async def _first(self, sql: str, *arguments: object) -> Any:
        """Returns the first value of the first row; None if there is no row."""
        return next((row[0] for row in await self.fetch(sql, *arguments)), None)

    async def change(self, change: Commit | Post) -> ChangeAnswer:
        """Carries out one change, or answers why it can't."""
        if change.epoch not in (None, self.moment.epoch):
            return Superseded(self.moment.epoch)
        if isinstance(change, Commit):
            return await self._commit(change)
        if not await self._has_all(change):
            return Conflict(None)
        if change.records and (stale := await record_rows.stale_record(self.fetch, change.records, self.moment.now_s)) is not None:
            return stale
        if has_admission(change) and (refused := await self._refused(change)) is not None:
            return refused
        if change.records:
            await record_rows.change_records(self.fetch, change.records, self.moment.now_s)
        await self._keep_blobs(change)
        return Committed(0, self.moment.now_s, await self._carry_out(change))

    async def _has_all(self, post: Post) -> bool:
        """Whether each blob that the post refers to is in the store or carried by the post, under one of its names."""
        carried = {name for name, _ in post.blobs}
        refers = [names for send in post.messages for names in send.refers if carried.isdisjoint(names)]
        return all([await self._first(SQL.has_any_blob, list(names)) for names in refers])

    async def _refused(self, post: Post) -> Refused | None:
        """Returns the refusal of a start that its admission does not allow. What is counted is locked, see `places_touched`."""
        starts = {send.to: send.opens.admission for send in post.messages if isinstance(send.to, Key) and send.opens is not None}
        existing = {key for key in starts if await self._first(SQL.head_is_there, address_bytes(key))}
        counts: dict[tuple[str, StartAdmission], int] = {}
        for key, one in starts.items():
            if one is not None:
                counts[key.tenant, one] = await self._first(SQL.count_living, key.tenant, one.attribute, one.value, max(one.max, 0))
        return refused_start(post, existing.__contains__, lambda tenant, one: counts[tenant, one])

    async def _commit(self, commit: Commit) -> ChangeAnswer:
        version, now_s, address = commit.version + commit.count, self.moment.now_s, address_bytes(commit.key)
        if commit.unless and await self._first(SQL.is_any_queued, address, [key.encode() for key in commit.unless]):
            number = None
        elif commit.creates:
            times = (commit.wake_at_s, None, commit.status, creation_time(commit, now_s), commit.ended_at_s)
            number = await self._create(Head(commit.key, commit.program, commit.root, version, commit.holder, *times))
        else:
            holder = None if commit.release else commit.holder
            state = (commit.program, commit.status, commit.wake_at_s, commit.ended_at_s, holder)
            number = await self._first(SQL.advance_head, address, commit.version, version, *state)
        if number is None:
            return Conflict(next(map(head_of, await self.fetch(SQL.read_execution, address, 0)), None))
        if commit.forgets:
            await self._forget(number, address)
            return Committed(commit.version, now_s)
        await self._keep_blobs(commit)
        if commit.compacted is not None:
            await self.fetch(SQL.remove_log, number)
            if commit.compacted:
                await self.fetch(SQL.append_row, number, commit.version, commit.compacted)
        if commit.count:
            await self.fetch(SQL.append_row, number, version, commit.row)
        if commit.attributes is not None:
            await attributes.write_attributes(self.fetch, number, commit.attributes)
        else:
            await self.fetch(SQL.set_ended, number, commit.ended_at_s is not None)
        created = await self._carry_out(commit)
        await self._know(commit.program)
        if commit.creates or commit.release:
            self.wakes |= bool(await self._first(SQL.hand_back, number, commit.holder, commit.release))
        self.wakes |= bool(await self._first(SQL.is_ready, number, now_s))
        self.news |= commit.news
        return Committed(version, now_s, created)

    async def _forget(self, number: int, address: bytes) -> None:
        """Removes an execution with its log, messages and attributes."""
        for forget in (SQL.remove_attributes, SQL.remove_log, SQL.remove_head):
            await self.fetch(forget, number)
        await self.fetch(SQL.remove_messages, address)
        self.wakes = True

    async def _carry_out(self, change: Commit | Post) -> tuple[Key, ...]:
        """Carries out what commits and posts have in common: acks, then messages. Returns the executions that were created."""
        sends = [*[send for ack in change.acks if (send := await self._acknowledge(ack)) is not None], *change.messages]
        opened = [send.to for send in sends if await self._deliver(send)]
        self.wakes |= bool(sends)
        return tuple(to for to in opened if isinstance(to, Key))

    async def _keep_blobs(self, change: Commit | Post) -> None:
        """Keeps the blobs that a change carries, before what names them, and unmarks all that it refers to."""
        for blob in change.blobs:
            await self.fetch(SQL.keep_blob, *blob)
            await self.fetch(SQL.forget_removal, blob[0])
        if names := blob_names_of(change):
            await self.fetch(SQL.unmark_blobs, names)

    async def _acknowledge(self, ack: Ack) -> OutgoingMessage | None:
        """Removes or postpones a message. Returns the message to send instead if it was a task that had never been leased."""
        where = address_bytes(ack.to), ack.key.encode()
        if ack.postpone_to_s is not None:
            if found := await self.fetch(SQL.postpone, *where, ack.postpone_to_s):
                self.wakes |= found[0][0]
                await self.fetch(SQL.bring_message_time_forward, where[0], ack.postpone_to_s)
            return None
        for makes_room, deliveries in await self.fetch(SQL.acknowledge, *where):
            self.wakes |= bool(makes_room)
            return None if deliveries else ack.unleased
        return None

    async def _deliver(self, send: OutgoingMessage) -> bool:
        """Queues a message unless its key is queued already. Returns whether an execution was created."""
        to, opens, opened = send.to, send.opens, None
        if isinstance(to, Key) and opens is not None:
            program, root, *more, _ = astuple(opens)
            await self._know(program)
            opened = await self._create(Head(to, program, root, 0, None, None, None, "pending", self.moment.now_s, None, *more))
        queue, due_at_s = to.name if isinstance(to, QueueAddress) else None, max(send.due_at_s, self.moment.now_s)
        place = (due_at_s, queue, send.lane, send.priority, None if queue is None else to[0])
        if await self.fetch(SQL.queue_message, address_bytes(to), send.key.encode(), send.body, *place) and queue is None:
            await self.fetch(SQL.bring_message_time_forward, address_bytes(to), due_at_s)
        return opened is not None

    async def _know(self, program: str) -> None:
        """Records a program that needs capabilities, so that claims find it."""
        if program_requirements(program):
            await self.fetch(SQL.add_program, program)

    async def _create(self, head: Head) -> Any:
        """Creates a head and returns its number; None if there is a head already."""
        times = (head.wake_at_s, head.status, head.created_at_s, head.ended_at_s, head.queue, head.lane, head.priority)
        number = await self._first(
            SQL.create_head, address_bytes(head.key), *head.key, head.program, address_bytes(head.root), head.version, head.holder, *times
        )
        if number is not None and head.attributes:
            await attributes.write_attributes(self.fetch, number, head.attributes)
        return number

    async def claim(self, claim: Claim) -> Claimed:
        """See `Store.claim`."""
        holder, now_s = claim.holder, self.moment.now_s
        alive, limited = next(map(tuple, await self.fetch(SQL.lives, now_s, holder)), (False, False))
        if claim.epoch != self.moment.epoch or not alive:
            return Claimed(now_s)
        claim = claim.of([name for (name,) in await self.fetch(SQL.programs)])
        roots = None if claim.roots is None else [*map(address_bytes, claim.roots)]
        tenants = None if claim.tenants is None else [*map(escape_nul, sorted(claim.tenants))]
        asked = ClaimArguments(now_s, [*map(escape_nul, claim.programs)], roots, holder, [*map(escape_nul, claim.queues)], claim.limit, tenants)
        self.wakes |= await free_orphans(self.fetch, now_s, max(claim.limit, ORPHANS_FREED_MIN))
        executions, work = await self._ready(asked, limited)
        numbers = [one.number for one in executions]
        assigned = {row[16]: head_of(row) for row in await self.fetch(SQL.assign, numbers, holder, now_s)}
        messages = await self.fetch(SQL.due_messages, numbers, now_s)  # Only a statement after the one that locks the heads sees messages that came in between.
        handed = tuple(ClaimedExecution(assigned[number], tuple(message_of(row) for row in messages if row[8] == number)) for number in numbers)
        numbers = [one.number for one in work]
        leased = {row[0]: message_of(row) for row in await self.fetch(SQL.lease, numbers, holder)}
        if await has_orphans(self.fetch, now_s):
            return Claimed(now_s, handed, tuple(leased[number] for number in numbers), now_s)
        times_s = [await self._first(SQL.next_time, asked.queues, *asked[1:4], asked.tenants), *(await queues.next_times(self.fetch, asked) if limited else ())]
        next_at_s = min((at_s for at_s in times_s if at_s is not None), default=None)
        return Claimed(now_s, handed, tuple(leased[number] for number in numbers), next_at_s)

    async def _ready(self, asked: ClaimArguments, limited: bool) -> tuple[list[PostgresCandidate], list[PostgresCandidate]]:
        """Chooses and locks the executions and tasks to hand over, longest waiting first. `limited` says that some queue has limits."""
        locked = await queues.lock_queues(self.fetch, asked) if limited else {}
        from_queues = await queues.choose_executions(self.fetch, locked, asked) if limited else []
        executions = await ready_executions(self.fetch, asked, from_queues)
        work = await ready_work(self.fetch, asked, await queues.choose_work(self.fetch, locked, asked) if limited else [])
        if limited:
            await queues.record_served(self.fetch, locked, executions, work, asked.now_s)
        return executions, work

    async def restore(self, items: Sequence[ShippedItem]) -> None:
        """See `ChangeFeed.restore`. No other transaction may be running."""
        for item in items:
            await restored_items.restore_item(self.fetch, item, self.moment.now_s, self._know)
        self.wakes = True

    async def leases(self) -> list[HolderStatus]:
        """See `Store.leases`."""
        leases = [HolderStatus(*row) for row in await self.fetch(SQL.leases, self.moment.now_s)]
        return sorted((lease for lease in leases if lease.alive or lease.executions or lease.work), key=lambda lease: lease.holder)

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

    async def renew(self, holder: str, lease_s: float, about: bytes) -> None:
        """See `Store.renew`."""
        now_s = self.moment.now_s
        if lease_s <= 0:
            await self.fetch(SQL.remove_holder, holder)
            self.wakes = True
        elif not await self.fetch(SQL.renew_holder, holder, now_s + lease_s, about):
            freed = [*await self.fetch(SQL.let_executions_go, holder, now_s), *await self.fetch(SQL.let_tasks_go, holder)]
            self.wakes = bool(freed)
            await self.fetch(SQL.add_holder, holder, now_s + lease_s, about)


async def begin_transaction(fetch: Fetch, places: Iterable[tuple[str, ...]], now_s: float | None, *, alone: bool = False) -> PostgresTables:
    """Returns the tables in an open transaction, in one epoch (with `alone`, while no other transaction runs). It locks the `places` until the end.

    The time is `now_s`, or else the server's.
    """
    await fetch(SQL.lock_places.format(shared="" if alone else "_shared"), EPOCH_LOCK, sorted({_lock(place) for place in places}))
    ((now, epoch),) = map(tuple, await fetch(SQL.store_time, now_s))
    return PostgresTables(fetch, StoreTime(now, epoch))


async def read_log(fetch: Fetch, key: Key, after: int) -> StoredLog | None:
    """See `Store.read`. This and the functions below are one statement each, which needs no transaction and waits for no lock."""
    return next((StoredLog(head_of(row), tuple(map(LogRow, row[16], row[17]))) for row in await fetch(SQL.read_execution, address_bytes(key), after)), None)


async def read_heads(fetch: Fetch, which: HeadFilter) -> list[Head]:
    """See `Store.heads`. The number of a position is read before, since it never changes while its execution is there."""
    statuses = None if which.statuses is None else [*map(escape_nul, which.statuses)]
    keys = None if which.keys is None else [*map(address_bytes, which.keys)]
    named = (which.tenant, which.workflow, statuses, which.id_prefix, keys, which.root and address_bytes(which.root))
    where, wanted = attributes.attribute_conditions(which, first=10)
    source, order, descending = "perdure.heads", "heads.number DESC", True

    def given(value: object) -> str:
        wanted.append(value)
        return f"${9 + len(wanted)}"

    if which.order is not None:
        descending = which.order.descending
        direction, further = ("DESC", ">") if descending else ("ASC", "<")
        living = "AND NOT at.ended" if which.ended is False else ""
        where += " " + SQL.in_order_of_attribute.format(name=given(which.order.name), living=living, further=further)
        source, order = "perdure.attributes AS at JOIN perdure.heads ON heads.number = at.number", f"at.value {direction}, at.number {direction}"
    if which.after is not None:
        at = (address_bytes(which.after.key), which.after.created_at_s, int(descending))
        number = given(next(row[0] for row in await fetch(SQL.number_at_position, *at)))
        beyond = "<" if descending else ">"
        where += f" AND heads.number < {number}" if which.order is None else f" AND (at.value, at.number) {beyond} ({given(which.after.value)}, {number})"
    sql = SQL.list_heads.format(source=source, where=where, order=order)
    return [*map(head_of, await fetch(sql, *named, which.created_from_s, which.ended, max(which.limit, 0), *wanted))]


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


def places_touched(changes: Sequence[Commit | Post]) -> set[tuple[str, ...]]:
    """Returns the executions that changes decide or send to, the records that they change, and what their admissions count."""
    decided = {change.key for change in changes if isinstance(change, Commit)}
    receivers = {send.to for change in changes for send in change.messages if isinstance(send.to, Key)}
    starts = (send for change in changes for send in change.messages if send.opens is not None and send.opens.admission is not None)
    counted = {
        ("admission", send.to[0], send.opens.admission.attribute, send.opens.admission.value.hex()) for send in starts if send.opens and send.opens.admission
    }
    return {*decided, *receivers, *counted, *(record.key for change in changes if isinstance(change, Post) for record in change.records)}


def _lock(place: tuple[str, ...]) -> int:
    """Returns the advisory lock of an execution or a record, which others share: Postgres has room for a limited number of locks."""
    return EPOCH_LOCK + 1 + crc32(address_bytes(place)) % LOCKS_MAX
