"""An audited store: any store, each call of which is carried out at once, and each change checked against what was there before.

It knows nothing but the protocol, so that every backend can be put to it. What the protocol leaves open is the same here on
each, so that one seed is one world: numbers of mail have no gaps, and it rings as often as the store in memory.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import inf
from typing import TypeVar

from msgspec.structs import replace

from perdure.core.attributes import index_attributes
from perdure.core.envelopes import Ack, OutgoingMessage, QueuedMessage
from perdure.core.failure_causes import failure_attributes
from perdure.core.paths import Address, Key, QueueAddress
from perdure.stores.blob_marks import BLOB_REMOVAL
from perdure.stores.protocol import (
    ALL_HEADS,
    ChangeAnswer,
    Claim,
    Claimed,
    ClaimedExecution,
    Commit,
    Committed,
    Head,
    HeadFilter,
    HolderStatus,
    Post,
    QueueLimits,
    QueueStatus,
    Store,
    StoredLog,
    StoreTime,
)
from perdure.stores.records import RecordChange, RecordFilter, RecordKey, StoredRecord, has_expired
from perdure.stores.secret_vault import VAULT
from perdure.stores.store_parts import PartName
from perdure.testing.immediate_calls import AtOnce
from tests.proof.auditor import Auditor
from tests.proof.program_interpreter import ProgramWorld
from tests.proof.program_nodes import Behaviour, Json
from tests.proof.queue_audit import Handed, Leases

EVERYTHING = HeadFilter(limit=sys.maxsize)

T = TypeVar("T")

Box = dict[str, QueuedMessage]
"""The mail of one address, by key."""


class AuditedStore:
    """A `Store`: `inner`, whose time `clock` tells, as seen by `auditor`. Its calls are carried out by `at_once`.

    `interrupts` says whether a relay ends behind the next arrival, which will arrive again.
    """

    def __init__(self, auditor: Auditor, inner: Store, clock: Callable[[], float], at_once: AtOnce) -> None:
        self.auditor = auditor
        self.inner = inner
        self.at_once = at_once
        self.interrupts: Callable[[], bool] = lambda: False
        self._clock = clock
        self._epoch: int = at_once(inner.store_time()).epoch
        self._lives_until_s: dict[str, float] = {}
        self._addresses: dict[Address, None] = {}
        self._numbers: dict[int, int] = {}
        self._rings: list[Callable[[], None]] = []
        self._rang = False
        self.lines = Leases(auditor.complain, lambda holder: not self.is_dead(holder))
        inner.on_wake(self._has_notified)

    def becomes(self, inner: Store) -> None:
        """From now on this is the store, opened anew where the other was; who does not live by it is dead."""
        if inner is not self.inner:
            self.inner = inner
            inner.on_wake(self._has_notified)
        leases: list[HolderStatus] = self.at_once(inner.leases())
        living = {lease.holder for lease in leases if lease.alive}
        self._lives_until_s = {holder: until_s for holder, until_s in self._lives_until_s.items() if holder in living}

    # what can be seen of it

    def ran(self, world: str, effect: str) -> None:
        """An effect happens in the world, now."""
        self.auditor.ran(world, effect, self.head, self.is_dead, self.lines)

    def is_dead(self, holder: str) -> bool:
        """Whether a holder's lease has run out, or was given back."""
        return self._lives_until_s.get(holder, -inf) <= self._clock()

    def log(self, key: Key, after: int = 0) -> StoredLog | None:
        """What `read` says, at once."""
        found: StoredLog | None = self.at_once(self.inner.read(key, after))
        return found

    def head(self, key: Key) -> Head | None:
        """The head of an execution, at once."""
        found = self.log(key, sys.maxsize)
        return None if found is None else found.head

    def heads_now(self) -> list[Head]:
        """The heads of all executions, the earliest created first, at once."""
        found: list[Head] = self.at_once(self.inner.heads(EVERYTHING))
        return found[::-1]

    @property
    def addresses(self) -> list[Address]:
        """All addresses that anything was ever sent to."""
        return [*self._addresses]

    @property
    def keys(self) -> list[Key]:
        """All executions, the earliest created first, at once."""
        return [head.key for head in self.heads_now()]

    def rows(self, key: Key) -> list[bytes]:
        """The log of an execution, at once."""
        found = self.log(key)
        return [] if found is None else list(found.payloads)

    def payload(self, sha256: str) -> bytes | None:
        """What `blob` says, at once."""
        found: bytes | None = self.at_once(self.inner.blob(sha256))
        return found

    @property
    def left(self) -> list[str]:
        """The mail that has not been dealt with, and what waits to be carried over."""
        mail = [f"{to}: {key}" for to in self._addresses for key in self._box(to)]
        return mail + [f"in an outbox: {entry.to}: {entry.key}" for outbox in self.outboxes for entry in outbox]

    @property
    def outboxes(self) -> Sequence[Sequence[OutgoingMessage | Ack]]:
        """What waits to be carried to another reach, for each reach; a store that has one reach has nothing."""
        found: Sequence[Sequence[OutgoingMessage | Ack]] = getattr(self.inner, "_outboxes", ())
        return found

    # a store

    async def commit(self, changes: Sequence[Commit | Post]) -> list[ChangeAnswer]:
        """See `Store.commit`."""
        answers = [self._change(change) for change in changes]
        if any(self._may_wake(change, answer) for change, answer in zip(changes, answers, strict=True)):
            self._ring()
        return answers

    async def claim(self, claim: Claim) -> Claimed:
        """See `Store.claim`."""
        dead, before = self.is_dead(claim.holder), {head.key: head for head in self.heads_now()}
        claimed: Claimed = self.at_once(self.inner.claim(claim))
        may = claim.epoch == self._epoch and not dead
        self.auditor.expect(may or not claimed.executions, lambda: f"{claim.holder} claimed, dead or in epoch {claim.epoch}")
        assigned = tuple(ClaimedExecution(one.head, tuple(map(self._numbered, one.messages))) for one in claimed.executions)
        for assignment in assigned:
            self._assigned(assignment, before[assignment.head.key].holder, claim.holder)
        work = tuple(map(self._numbered, claimed.work))
        self.auditor.expect(may or not work, lambda: f"{claim.holder} leased work, dead or in epoch {claim.epoch}")
        handed = [_begun(head) for one in assigned if (head := before[one.head.key]).holder != claim.holder]
        handed += self.lines.leased(work, claim.holder)
        self.lines.check(handed, self.heads_now(), {to.name: self._box(to).values() for to in self._addresses if isinstance(to, QueueAddress)}, self._clock())
        return replace(claimed, executions=assigned, work=work)

    async def read(self, key: Key, after: int = 0) -> StoredLog | None:
        """See `Store.read`."""
        return self.log(key, after)

    async def heads(self, which: HeadFilter = ALL_HEADS) -> list[Head]:
        """See `Store.heads`."""
        found: list[Head] = self.at_once(self.inner.heads(which))
        return found

    async def messages(self, to: Address) -> list[QueuedMessage]:
        """See `Store.messages`."""
        return list(self._box(to).values())

    async def are_queued(self, messages: Sequence[Ack]) -> list[bool]:
        """See `Store.are_queued`."""
        return [one.key in self._box(one.to) for one in messages]

    async def record(self, key: RecordKey) -> StoredRecord | None:
        """See `Store.record`."""
        found: StoredRecord | None = self.at_once(self.inner.record(key))
        return found

    async def records(self, which: RecordFilter) -> list[StoredRecord]:
        """See `Store.records`."""
        found: list[StoredRecord] = self.at_once(self.inner.records(which))
        return found

    async def store_time(self) -> StoreTime:
        """See `Store.store_time`."""
        found: StoreTime = self.at_once(self.inner.store_time())
        return found

    async def renew(self, holder: str, lease_s: float, about: bytes = b"") -> StoreTime:
        """See `Store.renew`."""
        returns = lease_s > 0 and holder not in self._lives_until_s and any(head.holder == holder for head in self.heads_now())
        was_dead = self.is_dead(holder)
        moment: StoreTime = self.at_once(self.inner.renew(holder, lease_s, about))
        if lease_s <= 0 or holder not in self._lives_until_s:
            self.lines.end(holder)
        elif was_dead:
            self.lines.revive(holder)
        if lease_s > 0:
            self._lives_until_s[holder] = moment.now_s + lease_s
        else:
            self._lives_until_s.pop(holder, None)
        if returns or lease_s <= 0:
            self._ring()
        return moment

    async def leases(self) -> list[HolderStatus]:
        """See `Store.leases`."""
        found: list[HolderStatus] = self.at_once(self.inner.leases())
        return found

    async def relay(self, limit: int = 100) -> int:
        """See `Store.relay`."""
        if not self.outboxes:
            carried: int = self.at_once(self.inner.relay(limit))
            return carried
        carried = 0
        for origin, outbox in enumerate(self.outboxes):
            while outbox and carried < limit:
                self.arrive(origin)
                carried += 1
                if self.interrupts():
                    break
                self.forget(origin)
        return carried

    async def limit(self, queue: str, limits: QueueLimits | None, tenant: str | None = None) -> None:
        """See `Store.limit`. No program limits a tenant alone."""
        assert tenant is None, "the audit counts all tenants together"
        self.at_once(self.inner.limit(queue, limits))
        self.lines.limit(queue, limits)
        self._ring()

    async def queues(self) -> list[QueueStatus]:
        """See `Store.queues`."""
        found: list[QueueStatus] = self.at_once(self.inner.queues())
        return found

    async def drop_expired(self, limit: int = 100) -> list[QueuedMessage]:
        """See `Store.drop_expired`."""
        swept: list[QueuedMessage] = self.at_once(self.inner.drop_expired(limit))
        self.auditor.acknowledged.update(mail.number for mail in swept)
        return swept

    async def drop_expired_records(self, limit: int = 100) -> int:
        """See `Store.drop_expired_records`."""
        dropped: int = self.at_once(self.inner.drop_expired_records(limit))
        return dropped

    async def raise_epoch(self) -> int:
        """See `Store.raise_epoch`."""
        self._epoch = self.at_once(self.inner.raise_epoch())
        self._lives_until_s.clear()
        self.lines.end()
        self._ring()
        return self._epoch

    async def blob(self, sha256: str) -> bytes | None:
        """See `Store.blob`."""
        return self.payload(sha256)

    async def removed_at(self, sha256: str) -> float | None:
        """See `Store.removed_at`."""
        found: float | None = self.at_once(self.inner.removed_at(sha256))
        return found

    def on_wake(self, notify: Callable[[], None]) -> Callable[[], None]:
        """See `Store.on_wake`."""
        self._rings.append(notify)
        return lambda: self._rings.remove(notify) if notify in self._rings else None

    def on_change(self, notify: Callable[[], None]) -> Callable[[], None]:
        """See `Store.on_news`."""
        return self.inner.on_change(notify)

    def part(self, name: PartName[T]) -> T | None:
        """See `Store.part`. Changes that are made by a part are not audited, so only those parts are handed on that change no log and no message."""
        return self.inner.part(name) if name in (VAULT, BLOB_REMOVAL) else None

    async def close(self) -> None:
        """See `Store.close`."""
        self.at_once(self.inner.close())

    # between the reaches of a store that has several

    def arrive(self, origin: int) -> None:
        """Let the first entry of the outbox of reach `origin` arrive."""
        entry = self.outboxes[origin][0]
        self.lines.stray([entry] if isinstance(entry, OutgoingMessage) else [])
        with self._mailing(_acked([entry]) if isinstance(entry, Ack) else [entry]):
            self.inner.arrive(entry)  # type: ignore[attr-defined]  # what has outboxes has it
        if isinstance(entry, OutgoingMessage):
            self._ring()

    def forget(self, origin: int) -> None:
        """Remove the first entry of the outbox of reach `origin`."""
        self.inner.forget(origin)  # type: ignore[attr-defined]  # what has outboxes has it

    # what is checked

    def _change(self, change: Commit | Post) -> ChangeAnswer:
        heads = {key: self.head(key) for key in _concerned(change)}
        waiting, records = sum(map(len, self.outboxes)), self._records_of(change)
        self._rang = False
        self.lines.stray(change.messages if isinstance(change, Post) else ())
        with self._mailing([*_acked(change.acks), *change.messages]) as mail:
            answer: ChangeAnswer = self.at_once(self.inner.commit([change]))[0]
        if not isinstance(answer, Committed):
            self.auditor.counts[type(answer).__name__] += 1
            same = all(self._box(to) == box for to, box in mail.items()) and sum(map(len, self.outboxes)) == waiting
            same = same and all(self.head(key) == head for key, head in heads.items()) and self._records_of(change) == records
            self.auditor.expect(same, lambda: f"{change}: a refused change changed something")
            return answer
        if isinstance(change, Post):
            due = all(self._is_as_changed(record) for record in change.records)
            self.auditor.expect(due, lambda: f"{change}: a record is not as it was changed")
        done = [to for to, box in mail.items() if isinstance(to, QueueAddress) and box.keys() - self._box(to).keys()]
        self.auditor.expect(self._rang or not done, lambda: f"work of {done} is done, which makes room, and nobody was rung")
        woken = [key for key, head in heads.items() if not _is_awake(head, answer.now_s) and _is_awake(self.head(key), answer.now_s)]
        self.auditor.expect(self._rang or not woken, lambda: f"{woken} became ready, and nobody was rung")
        if isinstance(change, Commit):
            self._committed(change, heads[change.key], answer)
        return answer

    def _records_of(self, change: Commit | Post) -> list[StoredRecord | None]:
        """The records that a change is about, at once."""
        return [self.at_once(self.inner.record(one.key)) for one in (change.records if isinstance(change, Post) else ())]

    def _is_as_changed(self, change: RecordChange) -> bool:
        now_s = self._clock()
        record: StoredRecord | None = self.at_once(self.inner.record(change.key))
        if change.value is None or has_expired(change.expires_at_s, now_s):
            return record is None
        return record == StoredRecord(change.key, change.version + 1, change.value, change.attributes, now_s, change.expires_at_s)

    def _committed(self, commit: Commit, before: Head | None, answer: Committed) -> None:
        self.auditor.expect(commit.epoch == self._epoch, lambda: f"{commit.key}: a commit of epoch {commit.epoch} in epoch {self._epoch}")
        self.auditor.expect(not commit.creates or commit.count > 0, lambda: f"{commit.key}: it was created with an empty log")
        self.auditor.committed(commit, before, answer.version)
        head, shadow = self.head(commit.key), self.auditor.known[commit.key].shadow
        same = head is None or shadow.started is None or head.attributes == (*failure_attributes(shadow), *index_attributes(shadow.attributes))
        self.auditor.expect(same, lambda: f"{commit.key}: it is found by {head and head.attributes}, and has {shadow.attributes} by the log")
        if commit.release and before is not None and before.holder == commit.holder:
            self._released(commit)

    @contextmanager
    def _mailing(self, entries: Sequence[OutgoingMessage | Ack]) -> Iterator[dict[Address, Box]]:
        """Hold the mail of these addresses, as it is before, against what it is afterwards."""
        before = {entry.to: self._box(entry.to) for entry in entries}
        self._addresses.update(dict.fromkeys(before))
        yield before
        self._number([mail for to in before for mail in self._found(to) if mail.number not in self._numbers])
        acked = {(entry.to, entry.key) for entry in entries if isinstance(entry, Ack)}
        postponed = {(entry.to, entry.key) for entry in entries if isinstance(entry, Ack) and entry.postpone_to_s is not None}
        for to, box in before.items():
            left = self._box(to)
            for key, mail in box.items():
                if key in left and (to, key) in postponed:
                    continue
                if left.get(key) != mail:
                    self.auditor.acknowledged.add(mail.number)
                    self.lines.over(mail.number)
                    self.auditor.expect((to, key) in acked, lambda: f"{to}: {key} was delivered over itself, or is lost")  # noqa: B023  # called at once

    def _released(self, commit: Commit) -> None:
        head = self.head(commit.key)
        if head is None:
            return
        self.auditor.expect(head.holder is None, lambda: f"{commit.key}: it was let go, and {head.holder} holds it")
        mail = [mail.due_at_s for mail in self._box(commit.key).values()]
        self.auditor.expect(
            head.message_at_s == min(mail, default=None), lambda: f"{commit.key}: nobody holds it, and its mail is due at {mail}, not {head.message_at_s}"
        )
        mine = [pending.path for pending in self.auditor.known[commit.key].shadow.opened.performing() if pending.by == commit.holder]
        self.auditor.expect(not mine, lambda: f"{commit.key}: {commit.holder} let it go while performing {mine}")

    def _assigned(self, assignment: ClaimedExecution, before: str | None, holder: str) -> None:
        key = assignment.head.key
        free = before is None or before == holder or self.is_dead(before)
        self.auditor.expect(free, lambda: f"{key} was taken from {before}, who is alive")
        numbers = [mail.number for mail in assignment.messages]
        self.auditor.expect(numbers == sorted(set(numbers)), lambda: f"{key}: mail in the order {numbers}")
        self.auditor.expect(not self.auditor.acknowledged & set(numbers), lambda: f"{key}: mail of {numbers} was acknowledged before")
        if key in self.auditor.known and before != holder:
            self.auditor.known[key].handed = (holder, assignment.messages)

    # mail, by the numbers that it has here

    def _box(self, to: Address) -> Box:
        return {mail.key: self._numbered(mail) for mail in self._found(to)}

    def _found(self, to: Address) -> list[QueuedMessage]:
        found: list[QueuedMessage] = self.at_once(self.inner.messages(to))
        return found

    def _numbered(self, mail: QueuedMessage) -> QueuedMessage:
        return replace(mail, number=self._numbers[mail.number])

    def _number(self, arrived: list[QueuedMessage]) -> None:
        last = next(reversed(self._numbers), 0)
        for mail in sorted(arrived, key=lambda mail: mail.number):
            self.auditor.expect(mail.number > last, lambda: f"{mail.to}: {mail.key} has number {mail.number}, behind {last}")  # noqa: B023  # called at once
            self._numbers[mail.number] = len(self._numbers) + 1

    # rings

    def _has_notified(self) -> None:
        self._rang = True

    def _ring(self) -> None:
        for ring in tuple(self._rings):
            ring()

    def _may_wake(self, change: Commit | Post, answer: ChangeAnswer) -> bool:
        if not isinstance(answer, Committed):
            return False
        if change.messages or any(isinstance(ack.to, QueueAddress) for ack in change.acks):
            return True
        head = self.head(change.key) if isinstance(change, Commit) else None
        makes_room = isinstance(change, Commit) and change.release and head is not None and self.lines.is_limited(head.queue)
        return makes_room or _is_awake(head, answer.now_s)


def _concerned(change: Commit | Post) -> set[Key]:
    """The executions that a change may make ready."""
    keys = {send.to for send in change.messages if isinstance(send.to, Key)}
    return keys | {change.key} if isinstance(change, Commit) else keys


def _is_awake(head: Head | None, now_s: float) -> bool:
    return head is not None and any(at_s is not None and at_s <= now_s for at_s in (head.wake_at_s, head.message_at_s))


def _begun(head: Head) -> Handed:
    """What a claim has handed over, by the head before it."""
    return Handed(head.queue, "executions", head.lane, head.version == 0)


class AuditedWorld(ProgramWorld):
    """A world whose every effect is told to the auditor."""

    def __init__(self, store: AuditedStore, name: str) -> None:
        super().__init__()
        self.name = name
        self._store = store

    def begin(self, effect: str, behaviour: Behaviour) -> Json:
        """See `World.begin`."""
        self._store.ran(self.name, effect)
        return super().begin(effect, behaviour)


def _acked(acks: Sequence[Ack]) -> list[OutgoingMessage | Ack]:
    """Acks, and what they may send."""
    return [entry for ack in acks for entry in (ack, ack.unleased) if entry is not None]
