"""The store in memory: the plainest implementation of `Store`, and the oracle that every other store is compared with.

Executions and queues are spread over `reaches` by a stable hash of their addresses, but all of them are kept in the same dicts. A reach only
decides whether a message is delivered in its commit or goes into the outbox of the reach that it leaves. Nothing here awaits anything, so every
change is atomic. A store belongs to one thread.
"""

import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from operator import attrgetter, itemgetter
from typing import TypeVar
from zlib import crc32

from msgspec.structs import astuple, replace

from perdure.core.attribute_filter import AttributeOrder
from perdure.core.envelopes import Ack, OutgoingMessage, QueuedMessage, StartAdmission
from perdure.core.limits import UNCLAIMED_MESSAGE_S
from perdure.core.paths import Address, Key, QueueAddress
from perdure.core.program import program_requirements
from perdure.stores.blob_marks import BLOB_REMOVAL, MemoryBlobRemoval, blob_names_of
from perdure.stores.change_feed import (
    CHANGE_FEED,
    RemovedBlob,
    RemovedExecution,
    RemovedMessage,
    RemovedRecord,
    ShippedBlob,
    ShippedHead,
    ShippedItem,
    ShippedLimits,
    ShippedMessage,
    ShippedRecord,
    ShippedRow,
)
from perdure.stores.fairness import next_lane_turn, take_turns
from perdure.stores.memory_feed import MemoryChangeFeed, Thing
from perdure.stores.memory_queues import NO_TIME, MemoryQueues, WaitingLines, line_position, ready_time
from perdure.stores.memory_records import MemoryRecords
from perdure.stores.protocol import (
    ALL_HEADS,
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
    QueueLimits,
    QueueStatus,
    Refused,
    StoredLog,
    StoreTime,
    Superseded,
    check_changes,
    creation_time,
    has_admission,
    matches_filter,
    refused_start,
)
from perdure.stores.records import PagePosition, RecordFilter, RecordKey, StoredRecord
from perdure.stores.secret_vault import VAULT, MemoryVault
from perdure.stores.store_parts import STORE_KIND, PartName, StoreParts

T = TypeVar("T")


class Listeners:
    """Functions that are called when something has changed, in the order in which they were added."""

    __slots__ = ("_listeners",)

    def __init__(self) -> None:
        self._listeners: list[Callable[[], None]] = []

    def add(self, notify: Callable[[], None]) -> Callable[[], None]:
        """Calls `notify` from now on; returns a function that removes it."""
        self._listeners.append(notify)
        return lambda: self._listeners.remove(notify) if notify in self._listeners else None

    def notify_all(self) -> None:
        """Calls every listener."""
        for notify in tuple(self._listeners):
            notify()


class _Execution:
    """An execution: its head, its number in the order of creation, and its log rows."""

    __slots__ = ("head", "number", "rows")

    def __init__(self, number: int, head: Head) -> None:
        self.number, self.head = number, head
        self.rows: list[LogRow] = []


Claimable = TypeVar("Claimable", _Execution, QueuedMessage)


class MemoryStore:
    """A `Store` in dicts, for tests, for simulation, and for executions that need not outlive their process.

    `clock` returns the store's time in seconds since 1970. A test injects faults between reaches by overriding `arrive` or `forget`.
    """

    def __init__(self, clock: Callable[[], float] = time.time, reaches: int = 1) -> None:
        self._clock = clock
        self._epoch = 1
        self._executions: dict[Key, _Execution] = {}
        self._created = 0
        self._waiting: WaitingLines[_Execution] = WaitingLines()
        self._programs: set[str] = set()
        self._tenants: set[str] = set()
        self._turns: tuple[dict[str, float], dict[str, float]] = {}, {}
        self._turn = 0.0
        self._arrivals = 0
        self._messages: dict[Address, dict[str, QueuedMessage]] = {}
        self._work: WaitingLines[QueuedMessage] = WaitingLines()
        self._leases: dict[int, str] = {}
        self._holders: dict[str, float] = {}
        self._about: dict[str, bytes] = {}
        self._blobs: dict[str, bytes] = {}
        self._removed: dict[str, float] = {}
        self.blob_removal = MemoryBlobRemoval(self._blobs, self._removed, clock, self._unclaimed, lambda name: self._feed.note(("blob", name)))
        self._queues = MemoryQueues(self._executions, self._messages, self._leases, self._lives)
        self._records = MemoryRecords(lambda key: self._feed.note(("record", key)))
        self._outboxes: tuple[deque[OutgoingMessage | Ack], ...] = tuple(deque() for _ in range(reaches))
        self._wakes, self._news, self.vault = Listeners(), Listeners(), MemoryVault(clock)
        self._staged: dict[Key, dict[int, LogRow]] = {}
        self._feed = MemoryChangeFeed(self, self._relay_all)
        self._optional = (
            StoreParts().having(STORE_KIND, "memory").having(CHANGE_FEED, self._feed).having(VAULT, self.vault).having(BLOB_REMOVAL, self.blob_removal)
        )

    # The methods of `Store`.

    async def commit(self, changes: Sequence[Commit | Post]) -> list[ChangeAnswer]:
        """See `Store.commit`."""
        check_changes(changes)
        now_s = self._clock()
        answers = [self._post(change, now_s) if isinstance(change, Post) else self._commit(change, now_s) for change in changes]
        done = [change for change, answer in zip(changes, answers, strict=True) if isinstance(answer, Committed)]
        if any(self._may_wake(change, now_s) for change in done):
            self._wakes.notify_all()
        if any(isinstance(change, Commit) and change.news for change in done):
            self._news.notify_all()
        return answers

    async def claim(self, claim: Claim) -> Claimed:
        """See `Store.claim`."""
        now_s, claim = self._clock(), claim.of(self._programs)
        if claim.epoch != self._epoch or self._is_dead(claim.holder, now_s):
            return Claimed(now_s)

        has_more = self._free_orphans(max(claim.limit, ORPHANS_FREED_MIN), now_s)
        ready = (one for one in self._waiting.ready(claim.programs, claim.holder, now_s) if self._is_wanted(one, claim))
        leasable = (message for message in self._work.ready(claim.queues, None, now_s) if claim.tenants is None or message.to[0] in claim.tenants)
        executions = self._in_turns(0, self._queues.executions(ready, claim, now_s), claim, now_s)
        work = self._in_turns(1, self._queues.work(leasable, claim, now_s), claim, now_s)
        self._queues.begin([one.head for one in executions if one.head.holder != claim.holder], work, now_s)
        assigned = tuple(self._assign(execution, claim.holder, now_s) for execution in executions)
        leased = tuple(self._lease(message, claim.holder) for message in work)
        return Claimed(now_s, assigned, leased, now_s if has_more else self._next(claim, now_s))

    async def read(self, key: Key, after: int = 0) -> StoredLog | None:
        """See `Store.read`."""
        execution = self._executions.get(key)
        if execution is None:
            return None
        first = bisect_right(execution.rows, after, key=attrgetter("version"))
        return StoredLog(execution.head, tuple(execution.rows[first:]))

    async def heads(self, which: HeadFilter = ALL_HEADS) -> list[Head]:
        """See `Store.heads`."""
        known = self._executions.values() if which.keys is None else [self._executions[key] for key in self._executions.keys() & set(which.keys)]
        matching = (execution for execution in reversed(known) if matches_filter(execution.head, which))
        if which.order is None:
            newest = matching if which.keys is None else sorted(matching, key=lambda execution: -execution.number)
            before = None if which.after is None else self._number_of(which.after, descending=True)
            listed = (execution.head for execution in newest if before is None or execution.number < before)
        else:
            listed = (execution.head for execution in self._ordered(matching, which.order, which.after))
        return list(islice(listed, max(which.limit, 0)))

    def _ordered(self, executions: Iterable[_Execution], order: AttributeOrder, after: PagePosition | None) -> Iterator[_Execution]:
        """Yields executions that have the attribute of the order, behind a position."""
        placed = sorted(
            ((order.value_in(execution.head.attributes) or b"", execution.number, execution) for execution in executions),
            key=itemgetter(0, 1),
            reverse=order.descending,
        )
        place = None if after is None else (after.value, self._number_of(after, order.descending))
        for value, number, execution in placed:
            if place is None or ((value, number) < place if order.descending else (value, number) > place):
                yield execution

    def _number_of(self, position: PagePosition, descending: bool) -> int:
        """Returns the number of the execution at a position. If it is gone, that of its neighbour by the time of creation stands for it."""
        if execution := self._executions.get(Key(*position.key)):
            return execution.number
        times = ((one.head.created_at_s, one.number) for one in self._executions.values() if one.head.created_at_s <= position.created_at_s)
        return max(times, default=(0.0, 0))[1] + descending

    async def messages(self, to: Address) -> list[QueuedMessage]:
        """See `Store.messages`."""
        return list(self._messages.get(to, {}).values())

    async def are_queued(self, messages: Sequence[Ack]) -> list[bool]:
        """See `Store.are_queued`."""
        return [one.key in self._messages.get(one.to, {}) for one in messages]

    async def record(self, key: RecordKey) -> StoredRecord | None:
        """See `Store.record`."""
        return self._records.record(key, self._clock())

    async def records(self, which: RecordFilter) -> list[StoredRecord]:
        """See `Store.records`."""
        return self._records.records(which, self._clock())

    async def store_time(self) -> StoreTime:
        """See `Store.store_time`."""
        return StoreTime(self._clock(), self._epoch)

    async def renew(self, holder: str, lease_s: float, about: bytes = b"") -> StoreTime:
        """See `Store.renew`."""
        now_s = self._clock()
        if about:
            self._about[holder] = about
        if lease_s <= 0:
            self._holders.pop(holder, None)
            self._about.pop(holder, None)
            self._wakes.notify_all()
        else:
            if holder not in self._holders:
                self._let_go(holder, now_s)
            self._holders[holder] = now_s + lease_s
        return StoreTime(now_s, self._epoch)

    async def leases(self) -> list[HolderStatus]:
        """See `Store.leases`."""
        now_s = self._clock()
        known = ((name, not self._is_dead(name, now_s), len(self._waiting.held(name)), len(self._work.held(name))) for name in sorted(self._holders))
        return [
            HolderStatus(name, alive, executions, work, self._about.get(name, b"")) for name, alive, executions, work in known if alive or executions or work
        ]

    async def limit(self, queue: str, limits: QueueLimits | None, tenant: str | None = None) -> None:
        """See `Store.limit`."""
        self._queues.limit(queue, limits, tenant)
        self._feed.note(("limits", (queue, tenant)))
        self._wakes.notify_all()

    async def queues(self) -> list[QueueStatus]:
        """See `Store.queues`."""
        return self._queues.statuses(self._clock())

    async def relay(self, limit: int = 100) -> int:
        """See `Store.relay`."""
        return self._relay(limit)

    def _relay(self, limit: int) -> int:
        carried = 0
        for origin, outbox in enumerate(self._outboxes):
            while outbox and carried < limit:
                self.arrive(outbox[0])
                self.forget(origin)
                carried += 1
        return carried

    async def drop_expired(self, limit: int = 100) -> list[QueuedMessage]:
        """See `Store.drop_expired`."""
        before_s = self._clock() - UNCLAIMED_MESSAGE_S
        old = sorted((message.due_at_s, message.number, message) for message in self._unclaimed() if message.due_at_s <= before_s)
        swept = [message for _, _, message in old[:limit]]
        for message in swept:
            self._acknowledge(Ack(message.to, message.key))
        return swept

    async def drop_expired_records(self, limit: int = 100) -> int:
        """See `Store.drop_expired_records`."""
        return self._records.drop_expired(limit, self._clock())

    async def raise_epoch(self) -> int:
        """See `Store.raise_epoch`."""
        self._epoch += 1
        self._holders.clear()
        self._about.clear()
        self._wakes.notify_all()
        return self._epoch

    async def blob(self, sha256: str) -> bytes | None:
        """See `Store.blob`."""
        return self._blobs.get(sha256)

    async def removed_at(self, sha256: str) -> float | None:
        """See `Store.removed_at`."""
        return self._removed.get(sha256)

    def on_wake(self, notify: Callable[[], None]) -> Callable[[], None]:
        """See `Store.on_wake`."""
        return self._wakes.add(notify)

    def on_change(self, notify: Callable[[], None]) -> Callable[[], None]:
        """See `Store.on_change`."""
        return self._news.add(notify)

    def part(self, name: PartName[T]) -> T | None:
        """See `Store.part`."""
        return self._optional.get(name)

    async def close(self) -> None:
        """Does nothing: the store holds no file, thread or lock."""

    def _unclaimed(self) -> list[QueuedMessage]:
        return [message for to, box in self._messages.items() if isinstance(to, Key) and to not in self._executions for message in box.values()]

    def _lives(self, holder: str | None) -> bool:
        return holder is not None and not self._is_dead(holder, self._clock())

    # Delivery to other reaches takes two steps, and anything may fail between them.

    def arrive(self, entry: OutgoingMessage | Ack) -> None:
        """Carries out an entry of an outbox in the reach that it is addressed to. A message whose key is queued there already is dropped."""
        if isinstance(entry, Ack):
            if unleased := self._acknowledge(entry):
                self._pass_on(unleased, self._reach(entry.to), self._clock())
        else:
            self._deliver(entry, self._clock())
            self._wakes.notify_all()

    def forget(self, origin: int) -> None:
        """Removes the first entry of the outbox of reach `origin` after it has arrived."""
        self._outboxes[origin].popleft()

    # The change feed.

    def _relay_all(self) -> None:
        while self._relay(100):
            pass

    def things(self) -> Iterator[Thing]:
        """See `FeedContents.things`. An execution is shipped as removed first, so that nothing stays of another one of its key."""
        yield from (("blob", name) for name in {**self._blobs, **self._removed})
        for key, execution in self._executions.items():
            yield "removed", key
            yield from (("row", key, row.version) for row in execution.rows)
            yield "head", key
        numbered = sorted((message.number, message) for box in self._messages.values() for message in box.values())
        yield from (("message", message.to, message.key) for _, message in numbered)
        yield from (("limits", part) for part in self._queues.limited())
        yield from (("record", record) for record in self._records.all_keys())

    def item_of(self, thing: Thing) -> ShippedItem | None:
        """See `FeedContents.item_of`."""
        match thing:
            case "blob", str(name):
                payload = self._blobs.get(name)
                return RemovedBlob(name, self._removed.get(name)) if payload is None else ShippedBlob(name, payload)
            case "removed", Key() as key:
                return RemovedExecution(key)
            case "head", Key() as key:
                execution = self._executions[key]
                return ShippedHead(execution.head, execution.rows[0].version if execution.rows else None)
            case "row", Key() as key, int(version):
                return ShippedRow(key, next(row for row in self._executions[key].rows if row.version == version))
            case "message", (Key() | QueueAddress()) as to, str(name):
                message = self._messages.get(to, {}).get(name)
                return RemovedMessage(to, name) if message is None else ShippedMessage(message)
            case "limits", (str(queue), str() | None as tenant):
                return ShippedLimits(queue, self._queues.limits_of((queue, tenant)), tenant)
            case "record", RecordKey() as name:
                record = self._records.stored(name)
                return RemovedRecord(name) if record is None else ShippedRecord(record)
        raise AssertionError(f"{thing} is no thing of a feed")

    def put(self, items: Sequence[ShippedItem]) -> None:
        """See `FeedContents.put`."""
        now_s = self._clock()
        for item in items:
            match item:
                case ShippedBlob():
                    self._put_blobs(Post(blobs=((item.sha256, item.payload),)))
                case ShippedRow():
                    self._staged.setdefault(item.key, {})[item.row.version] = item.row
                case ShippedHead():
                    self._restore_head(item.head, item.first_version, now_s)
                case ShippedMessage():
                    self._restore_message(item.message)
                case ShippedLimits():
                    self._queues.limit(item.queue, item.limits, item.tenant)
                    self._feed.note(("limits", (item.queue, item.tenant)))
                case ShippedRecord():
                    self._records.put(item.record)
                case RemovedExecution():
                    self._staged.pop(item.key, None)
                    if item.key in self._executions:
                        self._remove(item.key)
                case RemovedMessage():
                    self._acknowledge(Ack(item.to, item.key))
                    self._set_message_time(item.to)
                case RemovedBlob():
                    self._blobs.pop(item.sha256, None)
                    self._removed.pop(item.sha256, None)
                    self._removed.update({} if item.removed_at_s is None else {item.sha256: item.removed_at_s})
                    self._feed.note(("blob", item.sha256))
                case RemovedRecord():
                    self._records.remove(item.key)
        self._wakes.notify_all()

    def _restore_head(self, head: Head, first_version: int | None, now_s: float) -> None:
        """Restores a head and the rows that it counts. What was held is free, and awake."""
        staged = self._staged.pop(head.key, {})
        execution = self._executions.get(head.key) or self._create(replace(head, holder=None, wake_at_s=None, message_at_s=None))
        rows = {row.version: row for row in execution.rows} | staged
        self._feed.drop(("row", head.key, row.version) for row in execution.rows)
        execution.rows = [rows[version] for version in sorted(rows) if first_version is not None and first_version <= version <= head.version]
        if later := {version: row for version, row in staged.items() if version > head.version}:
            self._staged[head.key] = later
        self._feed.note(*(("row", head.key, row.version) for row in execution.rows))
        wake_at_s = head.wake_at_s if head.holder is None else now_s if head.wake_at_s is None else min(head.wake_at_s, now_s)
        self._change(execution, replace(head, holder=None, wake_at_s=wake_at_s))
        self._set_message_time(head.key)

    def _restore_message(self, message: QueuedMessage) -> None:
        """Restores a message under its own number, unless another message has that."""
        before = self._messages.get(message.to, {}).get(message.key)
        taken = {one.number for box in self._messages.values() for one in box.values() if one is not before}
        if message.number in taken:
            message = replace(message, number=before.number if before is not None and before.number > message.number else self._arrivals + 1)
        self._arrivals = max(self._arrivals, message.number)
        self._acknowledge(Ack(message.to, message.key))
        box = {**self._messages.get(message.to, {}), message.key: message}
        self._messages[message.to] = dict(sorted(box.items(), key=lambda one: one[1].number))
        self._feed.note(("message", message.to, message.key))
        if isinstance(message.to, QueueAddress):
            self._work.join(None, message.to.name, message.due_at_s, message.number, message)
        self._set_message_time(message.to)

    def _set_message_time(self, to: Address) -> None:
        if isinstance(to, Key) and (execution := self._executions.get(to)):
            due_at_s = min((message.due_at_s for message in self._messages.get(to, {}).values()), default=None)
            self._change(execution, replace(execution.head, message_at_s=due_at_s))

    # One change.

    def _commit(self, commit: Commit, now_s: float) -> ChangeAnswer:
        if commit.epoch != self._epoch:
            return Superseded(self._epoch)
        execution, answered = self._executions.get(commit.key), any(key in self._messages.get(commit.key, {}) for key in commit.unless)
        if execution is None and commit.creates and not answered:
            head = Head(commit.key, commit.program, commit.root, commit.version, commit.holder, created_at_s=creation_time(commit, now_s))
            execution = self._create(head)
        elif execution is None or commit.creates or answered or execution.head.version != commit.version:
            return Conflict(execution.head if execution else None)
        if commit.forgets:
            return self._forget(commit, now_s)
        self._put_blobs(commit)
        if commit.compacted is not None:
            self._feed.drop(("row", commit.key, row.version) for row in execution.rows)
            self._feed.note(*((("row", commit.key, commit.version),) if commit.compacted else ()))
            execution.rows = [LogRow(commit.version, commit.compacted)] if commit.compacted else []
        version = commit.version + commit.count
        if commit.count:
            execution.rows.append(LogRow(version, commit.row))
            self._feed.note(("row", commit.key, version))
        created = self._carry_out(commit, self._reach(commit.key), now_s)
        self._set_head(execution, commit, version)
        return Committed(version, now_s, created)

    def _post(self, post: Post, now_s: float) -> ChangeAnswer:
        if post.epoch not in (None, self._epoch):
            return Superseded(self._epoch)
        carried = {name for name, _ in post.blobs}
        if any(not any(name in carried or name in self._blobs for name in names) for send in post.messages for names in send.refers):
            return Conflict(None)
        if (stale := self._records.stale(post.records, now_s)) is not None:
            return stale
        if has_admission(post) and (refused := self._refused(post)) is not None:
            return refused
        self._put_blobs(post)
        self._records.change(post.records, now_s)
        return Committed(0, now_s, self._carry_out(post, self._reach_of_post(post), now_s))

    def _refused(self, post: Post) -> Refused | None:
        """Returns the refusal of a start that its admission does not allow. An execution whose start is on its way to another reach counts as there."""
        entries = (entry for outbox in self._outboxes for entry in outbox if isinstance(entry, OutgoingMessage) and entry.opens is not None)
        living = {entry.to: entry.opens.attributes for entry in entries if entry.opens is not None and isinstance(entry.to, Key)}
        known = living.keys() | self._executions.keys()
        living |= {key: execution.head.attributes for key, execution in self._executions.items() if execution.head.ended_at_s is None}

        def count(tenant: str, admission: StartAdmission) -> int:
            found = sum(key.tenant == tenant and (admission.attribute, admission.value) in attributes for key, attributes in living.items())
            return min(found, admission.max)

        return refused_start(post, known.__contains__, count)

    def _reach_of_post(self, post: Post) -> int:
        """Returns the home of the tenant if the post changes records, else the reach of its first message or ack."""
        if post.records:
            return self._hashed_reach(post.records[0].key.tenant)
        addresses = (*(send.to for send in post.messages), *(ack.to for ack in post.acks))
        return self._reach(addresses[0]) if addresses else 0

    def _carry_out(self, change: Commit | Post, reach: int, now_s: float) -> tuple[Key, ...]:
        """Carries out acks, then messages. Returns the executions that were created."""
        if not change.acks and not change.messages:
            return ()
        unleased = list[OutgoingMessage]()
        for ack in change.acks:
            if self._reach(ack.to) != reach:
                self._outboxes[reach].append(ack)
            elif send := self._acknowledge(ack):
                unleased.append(send)
        created = [self._pass_on(send, reach, now_s) for send in (*unleased, *change.messages)]
        return tuple(opened for opened in created if opened is not None)

    def _put_blobs(self, change: Commit | Post) -> None:
        for name, payload in change.blobs:
            if self._blobs.get(name) != payload or name in self._removed:
                self._feed.note(("blob", name))
            self._blobs[name] = payload
            self._removed.pop(name, None)
        self.blob_removal.carried(blob_names_of(change))

    def _pass_on(self, send: OutgoingMessage, reach: int, now_s: float) -> Key | None:
        """Delivers a message within `reach`, or puts it into the outbox of `reach`. Returns the execution that was created, if any."""
        if self._reach(send.to) == reach:
            return self._deliver(send, now_s)
        self._outboxes[reach].append(send)
        return None

    def _set_head(self, execution: _Execution, commit: Commit, version: int) -> None:
        head = execution.head
        holder, message_at_s = head.holder, head.message_at_s
        released = commit.release and holder == commit.holder
        if released or commit.creates:
            message_at_s = min((message.due_at_s for message in self._messages.get(commit.key, {}).values()), default=None)
        changed = replace(
            head,
            program=commit.program,
            version=version,
            holder=None if released or (commit.release and holder is None) else holder or commit.holder,
            wake_at_s=commit.wake_at_s,
            message_at_s=message_at_s,
            status=commit.status,
            ended_at_s=commit.ended_at_s,
            attributes=head.attributes if commit.attributes is None else commit.attributes,
        )
        self._change(execution, changed)

    # Messages.

    def _deliver(self, send: OutgoingMessage, now_s: float) -> Key | None:
        """Queues a message unless its key is queued already. Returns the execution that was created, if any."""
        opened = None
        if isinstance(send.to, Key) and send.opens is not None and send.to not in self._executions:
            due_at_s = min((message.due_at_s for message in self._messages.get(send.to, {}).values()), default=None)
            program, root, *place, _ = astuple(send.opens)
            self._create(Head(send.to, program, root, 0, None, None, due_at_s, "pending", now_s, None, *place))
            opened = send.to
        box = self._messages.setdefault(send.to, {})
        if send.key not in box:
            self._arrivals += 1
            message = QueuedMessage(self._arrivals, send.to, send.key, send.body, max(send.due_at_s, now_s), 0, send.lane, send.priority)
            box[send.key] = message
            self._feed.note(("message", send.to, send.key))
            if isinstance(send.to, QueueAddress):
                self._tenants.add(send.to.tenant)
                self._work.join(None, send.to.name, message.due_at_s, message.number, message)
            elif execution := self._executions.get(send.to):
                self._bring_forward(execution, message.due_at_s)
        return opened

    def _acknowledge(self, ack: Ack) -> OutgoingMessage | None:
        """Removes or postpones a message. Returns the message to send instead if it was a task that had never been leased."""
        box = self._messages.get(ack.to, {})
        if ack.postpone_to_s is not None:
            self._postpone(box, ack.key, ack.postpone_to_s)
            return None
        message = box.pop(ack.key, None)
        if message is None:
            return None
        self._feed.note(("message", ack.to, ack.key))
        if isinstance(ack.to, QueueAddress):
            self._work.leave(self._leases.pop(message.number, None), ack.to.name, message.due_at_s, message.number)
        if not box:
            del self._messages[ack.to]
        return None if message.deliveries else ack.unleased

    def _postpone(self, box: dict[str, QueuedMessage], key: str, due_at_s: float) -> None:
        if (message := box.get(key)) is None:
            return
        postponed = box[key] = replace(message, due_at_s=due_at_s)
        self._feed.note(("message", message.to, key))
        if isinstance(message.to, QueueAddress):
            self._work.leave(self._leases.pop(message.number, None), message.to.name, message.due_at_s, message.number)
            self._work.join(None, message.to.name, due_at_s, message.number, postponed)
        elif execution := self._executions.get(message.to):
            self._bring_forward(execution, due_at_s)

    def _bring_forward(self, execution: _Execution, due_at_s: float) -> None:
        """Moves `message_at_s` forward to the due time of a message that the holder has not received."""
        message_at_s = execution.head.message_at_s
        if message_at_s is None or due_at_s < message_at_s:
            self._change(execution, replace(execution.head, message_at_s=due_at_s))

    # Holders and leases.

    def _free_orphans(self, count: int, now_s: float) -> bool:
        """Frees up to `count` executions and as many tasks of dead holders. Returns whether these hold more."""
        has_more = False
        executions = work = count
        for holder in sorted({*self._waiting.holders(), *self._work.holders()}):
            if self._is_dead(holder, now_s):
                held = sorted(self._waiting.held(holder), key=lambda one: (ready_time(one.head), one.number))
                leased = sorted(self._work.held(holder), key=lambda one: (one.to[1], one.number))
                has_more = has_more or len(held) > executions or len(leased) > work
                self._free(held[:executions], leased[:work], now_s)
                executions, work = max(executions - len(held), 0), max(work - len(leased), 0)
        return has_more

    def _free(self, executions: Iterable[_Execution], work: Iterable[QueuedMessage], now_s: float) -> None:
        """Frees what a holder held, and makes it ready. What waited for no time comes before what has begun to wait since."""
        for execution in executions:
            head = execution.head
            wake_at_s = min(head.created_at_s if head.wake_at_s is None else head.wake_at_s, now_s)
            self._change(execution, replace(head, holder=None, wake_at_s=wake_at_s))
        for message in work:
            self._lease(message, None)
        self._wakes.notify_all()

    def _in_turns(self, is_work: int, ready: Iterable[Claimable], claim: Claim, now_s: float) -> list[Claimable]:
        """Returns as many as the claim may take: those that have waited longest or, if more are ready and of several tenants, the tenants in turns."""
        ready = iter(ready)
        found = list(islice(ready, claim.limit + 1))
        if len(found) > claim.limit and claim.roots is None and len(self._tenants) > 1:
            found += ready
        if len(found) <= claim.limit or len({_tenant(one) for one in found}) == 1 or claim.roots is not None:
            return found[: claim.limit]
        own: list[int] = [one.number for one in found if _holder(one) == claim.holder][: claim.limit]
        waiting = ((_waiting_since(one), one.number, _tenant(one)) for one in found if _holder(one) != claim.holder)
        turns: list[tuple[float, int, str]] = take_turns(waiting, self._turns[is_work], claim.limit - len(own))
        for tenant in reversed(dict.fromkeys(tenant for _, _, tenant in reversed(turns))):
            self._turn = self._turns[is_work][tenant] = next_lane_turn(self._turn, now_s)
        numbers = {*own, *(number for _, number, _ in turns)}
        return sorted((one for one in found if one.number in numbers), key=lambda one: (_waiting_since(one), one.number))

    def _is_wanted(self, execution: _Execution, claim: Claim) -> bool:
        return (claim.roots is None or execution.head.root in claim.roots) and (claim.tenants is None or execution.head.key.tenant in claim.tenants)

    def _is_dead(self, holder: str, now_s: float) -> bool:
        return self._holders.get(holder, NO_TIME) <= now_s

    def _assign(self, execution: _Execution, holder: str, now_s: float) -> ClaimedExecution:
        due: list[QueuedMessage] = []
        later_s: list[float] = []
        for message in self._messages.get(execution.head.key, {}).values():
            if message.due_at_s <= now_s:
                due.append(message)
            else:
                later_s.append(message.due_at_s)
        self._change(execution, replace(execution.head, holder=holder, wake_at_s=None, message_at_s=min(later_s, default=None)))
        return ClaimedExecution(execution.head, tuple(due))

    def _lease(self, message: QueuedMessage, holder: str | None) -> QueuedMessage:
        """Leases a task to `holder`; with None, frees it."""
        queue = message.to
        assert isinstance(queue, QueueAddress), "only work is leased"
        self._work.leave(self._leases.pop(message.number, None), queue.name, message.due_at_s, message.number)
        if holder is not None:
            message = replace(message, deliveries=message.deliveries + 1)
            self._messages[queue][message.key] = message
            self._feed.note(("message", queue, message.key))
            self._leases[message.number] = holder
        self._work.join(holder, queue.name, message.due_at_s, message.number, message)
        return message

    def _let_go(self, holder: str, now_s: float) -> None:
        """Frees everything that `holder` held before it began anew, and makes it ready."""
        executions, work = self._waiting.held(holder), self._work.held(holder)
        if executions or work:
            self._free(executions, work, now_s)

    # Heads and their places in the waiting lines.

    def _create(self, head: Head) -> _Execution:
        self._created += 1
        execution = self._executions[head.key] = _Execution(self._created, head)
        self._tenants.add(head.key.tenant)
        self._programs.update((head.program,) if program_requirements(head.program) else ())
        if place := line_position(head):
            self._waiting.join(*place, execution.number, execution)
        self._feed.note(("head", head.key))
        return execution

    def _forget(self, commit: Commit, now_s: float) -> ChangeAnswer:
        """Removes an execution with its log and messages."""
        self._remove(commit.key)
        self._feed.note(*(("message", commit.key, name) for name in self._messages.pop(commit.key, {})))
        return Committed(commit.version, now_s)

    def _remove(self, key: Key) -> None:
        execution = self._executions.pop(key)
        if place := line_position(execution.head):
            self._waiting.leave(*place, execution.number)
        self._feed.drop([("head", key), *(("row", key, row.version) for row in execution.rows)])
        self._feed.note(("removed", key))

    def _change(self, execution: _Execution, head: Head) -> None:
        """Sets the head. The execution keeps its place in line if it waits for the same time as before."""
        before, after = line_position(execution.head), line_position(head)
        if head.program != execution.head.program and program_requirements(head.program):
            self._programs.add(head.program)
        execution.head = head
        self._feed.note(("head", head.key))
        if before != after:
            if before:
                self._waiting.leave(*before, execution.number)
            if after:
                self._waiting.join(*after, execution.number, execution)

    def _reach(self, address: Address) -> int:
        return self._hashed_reach("\0".join(address))

    def _hashed_reach(self, text: str) -> int:
        return crc32(text.encode()) % len(self._outboxes) if len(self._outboxes) > 1 else 0

    def _may_wake(self, change: Commit | Post, now_s: float) -> bool:
        if change.messages or any(isinstance(ack.to, QueueAddress) for ack in change.acks):  # a finished task makes room in a queue with limits
            return True
        if isinstance(change, Commit) and change.forgets:
            return True
        if isinstance(change, Commit) and change.release and self._queues.has_limits(self._executions[change.key].head):
            return True
        place = line_position(self._executions[change.key].head) if isinstance(change, Commit) else None
        return place is not None and NO_TIME < place[2] <= now_s

    def _next(self, claim: Claim, now_s: float) -> float | None:
        """Returns the time at which the next execution or task that the claimer could get becomes ready."""
        if claim.roots is None and claim.tenants is None and not self._queues:
            times_s = [self._work.next(claim.queues, None), self._waiting.next(claim.programs, claim.holder)]
        else:
            waiting = self._waiting.waiting(claim.programs, claim.holder)
            wanted = (one for one in waiting if self._is_wanted(one, claim))
            work = (one for one in self._work.waiting(claim.queues, None) if claim.tenants is None or one.to[0] in claim.tenants)
            times_s = [self._queues.next_work(work, now_s), self._queues.next_execution(wanted, claim, now_s)]
        return min((at_s for at_s in times_s if at_s is not None), default=None)


def _tenant(one: _Execution | QueuedMessage) -> str:
    return one.head.key.tenant if isinstance(one, _Execution) else one.to[0]


def _holder(one: _Execution | QueuedMessage) -> str | None:
    return one.head.holder if isinstance(one, _Execution) else None


def _waiting_since(one: _Execution | QueuedMessage) -> float:
    return ready_time(one.head) if isinstance(one, _Execution) else one.due_at_s
