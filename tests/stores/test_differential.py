"""The SQLite store does what the memory store does, whatever is asked of them: seeded random operations, everything compared after each.

A run goes on until each kind of operation has both done something and found nothing to do, and fails if that takes too long:
so a kind that can't happen any more is noticed. What fails prints its seed.
"""

import random
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from perdure.core.attribute_filter import AttributeCondition, AttributeOrder
from perdure.core.attributes import IndexedAttributes
from perdure.core.envelopes import Ack, NewExecution, OutgoingMessage, QueuedMessage, StartAdmission
from perdure.core.paths import Address, Key, QueueAddress
from perdure.stores.memory import MemoryStore
from perdure.stores.protocol import (
    ChangeAnswer,
    Claim,
    Claimed,
    Commit,
    Committed,
    Conflict,
    Head,
    HeadFilter,
    Post,
    QueueLimits,
    QueueStatus,
    Refused,
    Store,
    head_position,
)
from perdure.stores.records import RecordChange, RecordFilter, RecordKey, Stale, StoredRecord, record_position
from perdure.stores.sqlite.store import SqliteStore
from perdure.testing.conformance import Clock
from tests.sampling import some

NOBODY = Key("acme", "order", "nobody")
"""An execution that is never started, whatever is sent to it."""
QUEUES = [QueueAddress(tenant, name) for tenant in ("acme", "b\0") for name in ("pay", "ship")]
NAMES = ["pay", "ship", "mails\0"]
"""Queues by name. Executions are in any of them, or in none."""
LANES = ["", "a", "b\0", "c"]
HOLDERS = ["one", "two", "three"]
PROGRAMS = ["order", "order@2", "refund"]
STATUSES = ["running", "waiting", "completed", "pending"]
BLOBS = ["a", "b", "c", "d"]
ATTRIBUTES = ["a", "a\0", "b"]
FORMS = [b"b\1", b"n\xc0\0", b"s", b"s\0", b"s1", b"s\xff"]
RECORDS = [RecordKey(tenant, kind, key) for tenant in ("acme", "b") for kind in ("x", "y") for key in ("1", "2", "2/é", "3")]
LEASE_S = 60.0
OPERATIONS_MIN = 400
OPERATIONS_MAX = 8_000

KINDS = (
    *("commit", "commit after an epoch", "create", "batch", "release", "compact", "attributes", "post", "post of an epoch", "open", "ack", "blob"),
    *("claim", "claim again", "claim what the dead held", "claim of a family", "claim due mail", "work", "work again"),
    *("limit", "limit of a tenant", "claim from limits", "work from limits", "held up", "held up by a rate", "in a queue"),
    *("renew", "let go", "death", "epoch", "sweep", "read", "read after", "heads", "where", "any of", "mail", "reopen"),
    *("records", "stale", "record expired", "list of records", "records dropped", "refused", "in order"),
)


class Twins:
    """Both stores, their clock, and what kinds of operations have done something (True) and nothing (False)."""

    def __init__(self, seed: int, file: Path) -> None:
        self.random = random.Random(seed)
        self.clock = Clock()
        self.file = file
        self.memory = MemoryStore(self.clock)
        self.sqlite: Store = SqliteStore(file, self.clock, synchronous="OFF")
        self.until_s: dict[str, float] = {}
        self.epoch = 1
        self.blob_names: set[str] = set()
        self.limits: dict[str, QueueLimits] = {}
        self.seen: set[tuple[str, bool]] = set()
        self.numbers: dict[int, int] = {}
        self.newcomers = 0
        self.keys = [Key(tenant, "order", id) for tenant in ("acme", "b\0") for id in ("1", "2", "/")]

    @property
    def addresses(self) -> list[Address]:
        """Where mail may go."""
        return [*self.keys, NOBODY, *QUEUES]

    @property
    def missing(self) -> str:
        """The kinds of operations that have not yet been seen to do something, or nothing."""
        lacking = {
            said: [kind for kind in KINDS if (kind, outcome) not in self.seen]
            for said, outcome in (("never did anything", True), ("never found nothing", False))
        }
        return "; ".join(f"{said}: {', '.join(kinds)}" for said, kinds in lacking.items() if kinds)

    def note(self, kind: str, outcome: object) -> None:
        """An operation of this kind did something, or nothing."""
        assert kind in KINDS
        self.seen.add((kind, bool(outcome)))

    async def both(self, ask: Callable[[Store], Awaitable[Any]]) -> Any:
        """Ask both, who must answer the same."""
        expected, answer = await ask(self.memory), await ask(self.sqlite)
        assert unnumbered(answer) == unnumbered(expected)
        for mine, other in zip(messages_in(expected), messages_in(answer), strict=True):
            assert self.numbers.setdefault(mine.number, other.number) == other.number
        return expected

    async def head(self, key: Key) -> Head | None:
        """The head that both have."""
        log = await self.both(lambda store: store.read(key))
        return log.head if log else None

    async def compare(self) -> None:
        """All that can be seen of both is the same."""
        await self.both(lambda store: store.heads(HeadFilter(limit=10_000)))
        for key in self.keys:
            await self.both(partial(read, key=key))
        for to in self.addresses:
            await self.both(partial(queued_messages, to=to))
        await self.all_records()
        for name in BLOBS:
            await self.both(partial(blob, name=name))
        await self.both(queues)

    async def all_records(self) -> list[StoredRecord]:
        """The records that both have."""
        kinds = sorted({(key.tenant, key.kind) for key in RECORDS})
        return [one for tenant, kind in kinds for one in await self.both(partial(list_of_records, which=RecordFilter(tenant, kind)))]

    def compare_numbers(self) -> None:
        """Mail has arrived in the same order, though a store may leave out numbers."""
        assert [self.numbers[number] for number in sorted(self.numbers)] == sorted(set(self.numbers.values()))

    # What is asked for, at random.

    async def change(self) -> None:
        changes = [await self.some_commit() if self.random.random() < 0.6 else await self.some_post() for _ in range(self.random.choice([1, 1, 1, 2, 4]))]
        before = {change.key: await self.head(change.key) for change in changes if isinstance(change, Commit)}
        messages = await self.all_messages()
        answers = await self.both(partial(answers_to, changes=changes))
        if len(changes) > 1:
            self.note("batch", all(isinstance(answer, Committed) for answer in answers))
            return
        (change,), (answer,) = changes, answers
        done = isinstance(answer, Committed)
        if done:
            self.blob_names.update(name for name, _ in change.blobs)
        if change.acks:
            self.note("ack", done and any((ack.to, ack.key) in messages for ack in change.acks))
        if any(send.opens for send in change.messages):
            self.note("open", done and answer.created)
        if isinstance(change, Post):
            if change.epoch is not None:
                self.note("post of an epoch", done)
            if any(send.opens and send.opens.admission for send in change.messages):
                self.note("refused", isinstance(answer, Refused))
            if change.records:
                self.note("records", done)
                self.note("stale", isinstance(answer, Stale))
            self.note("post", done and any((send.to, send.key) not in messages for send in change.messages))
            return
        self.note("create" if change.creates else "commit", done)
        if self.epoch > 1:
            self.note("commit after an epoch", done)
        if change.compacted is not None:
            self.note("compact", done)
        if change.attributes is not None:
            self.note("attributes", done)
        if change.release and not change.creates and (head := before[change.key]):
            self.note("release", done and head.holder == change.holder)

    async def some_commit(self) -> Commit:
        chance, key = self.random.random, self.random.choice(self.keys)
        head = await self.head(key)
        return Commit(
            key=key,
            epoch=self.some_epoch() or self.epoch,
            holder=head.holder if head and head.holder and chance() < 0.7 else self.random.choice(HOLDERS),
            version=head.version if head and chance() < 0.8 else self.random.randrange(5),
            program=self.random.choice(PROGRAMS),
            root=self.random.choice(self.keys),
            creates=chance() < (0.1 if head else 0.4),
            row=self.random.randbytes(self.random.randrange(20)),
            count=self.random.choice([0, 1, 1, 3]),
            compacted=self.random.randbytes(5) if chance() < 0.1 else None,
            status=self.random.choice(STATUSES),
            wake_at_s=self.some_time() if chance() < 0.4 else None,
            ended_at_s=self.clock.now_s if chance() < 0.1 else None,
            release=chance() < 0.5,
            messages=self.some_sends(),
            acks=self.some_acks(),
            blobs=self.some_blobs(),
            attributes=self.some_attributes() if chance() < 0.3 else None,
        )

    def some_attributes(self) -> IndexedAttributes:
        return self.some_values()

    async def some_post(self) -> Post:
        acks = self.some_acks()
        needs_epoch = any(isinstance(ack.to, QueueAddress) for ack in acks)
        epoch = self.some_epoch() if needs_epoch or self.random.random() < 0.5 else None
        tenant = self.random.choice(["acme", "b"])
        keys = self.random.sample([key for key in RECORDS if key.tenant == tenant], self.random.choice([0, 0, 1, 1, 3]))
        changes = tuple([await self.some_record(key) for key in keys])
        return Post(epoch=epoch, messages=self.some_sends(admits=True), acks=acks, blobs=self.some_blobs(), records=changes)

    async def some_record(self, key: RecordKey) -> RecordChange:
        """A change at the present version of a record, or now and then at another."""
        record: StoredRecord | None = await self.both(lambda store: store.record(key))
        version = (record.version if record else 0) if self.random.random() < 0.9 else self.random.randrange(3)
        value = None if self.random.random() < 0.2 else self.random.randbytes(4)
        return RecordChange(key, version, value, self.some_values(), self.some_time() if self.random.random() < 0.3 else None)

    def some_values(self) -> IndexedAttributes:
        """Attributes, some of which have several values."""
        return tuple(sorted({(self.random.choice(ATTRIBUTES), self.random.choice(FORMS)) for _ in range(self.random.randrange(4))}))

    def some_sends(self, admits: bool = False) -> tuple[OutgoingMessage, ...]:
        return tuple(self.some_send(admits) for _ in range(self.random.choice([0, 0, 1, 1, 3])))

    def some_admission(self) -> StartAdmission | None:
        return StartAdmission(self.random.choice(ATTRIBUTES), self.random.choice(FORMS), self.random.choice([0, 1, 2])) if self.random.random() < 0.5 else None

    def some_send(self, admits: bool = False) -> OutgoingMessage:
        to = self.random.choice(self.addresses)
        lane, priority = self.random.choice(LANES), self.random.choice([0, 0, 0, 5, -1])
        place = (self.random.choice(NAMES), lane, priority) if self.random.random() < 0.8 else ("", "", 0)
        attributes = self.some_attributes() if self.random.random() < 0.5 else ()
        opening = NewExecution(self.random.choice(PROGRAMS), self.random.choice(self.keys), *place, attributes, self.some_admission() if admits else None)
        opens = opening if self.random.random() < 0.4 and to != NOBODY else None
        due_at_s = self.some_time() if self.random.random() < 0.4 else 0.0
        return OutgoingMessage(
            to, self.random.choice("abc\0"), self.random.randbytes(3), due_at_s, opens, *((lane, priority) if isinstance(to, QueueAddress) else ())
        )

    def some_acks(self) -> tuple[Ack, ...]:
        return tuple(Ack(self.random.choice(self.addresses), self.random.choice("abc\0")) for _ in range(self.random.choice([0, 0, 0, 1, 4])))

    def some_blobs(self) -> tuple[tuple[str, bytes], ...]:
        return ((name := self.random.choice(BLOBS), name.encode()),) if self.random.random() < 0.03 else ()

    def some_epoch(self) -> int:
        return self.random.choice([self.epoch - 1, self.epoch + 1]) if self.random.random() < 0.08 else self.epoch

    def some_time(self) -> float:
        return self.clock.now_s + self.random.choice([-10, 0, 1, 5, 5, 20, 100.5])

    async def claim(self) -> None:
        chance, holder = self.random.random, self.random.choice(HOLDERS)
        claim = Claim(
            holder=holder,
            epoch=self.some_epoch(),
            programs=frozenset(self.random.sample(PROGRAMS, self.random.choice([0, 1, 2, 3, 3, 3]))),
            queues=frozenset(self.random.sample([*NAMES, "none"], self.random.randrange(5))),
            limit=self.random.choice([0, 1, 1, 2, 10, 10]),
            roots=frozenset(self.random.sample(self.keys, self.random.randrange(4))) if chance() < 0.2 else None,
        )
        holders = {head.key: head.holder for head in await self.memory.heads(HeadFilter(limit=10_000))}
        before_it: list[QueueStatus] = await self.memory.queues()
        claimed: Claimed = await self.both(lambda store: store.claim(claim))
        self.note_limits(claim, claimed, before_it)
        self.note("claim" if claim.roots is None else "claim of a family", claimed.executions)
        self.note("work", claimed.work)
        for assignment in claimed.executions:
            before = holders[assignment.head.key]
            self.note("claim again", before == holder)
            self.note("claim what the dead held", before not in (None, holder))
            self.note("claim due mail", assignment.messages)
        for message in claimed.work:
            self.note("work again", message.deliveries > 1)

    def note_limits(self, claim: Claim, claimed: Claimed, before: list[QueueStatus]) -> None:
        """What limits have done to a claim."""
        new = [one.head.queue for one in claimed.executions if one.head.queue in self.limits]
        self.note("claim from limits", new)
        self.note("work from limits", any(isinstance(message.to, QueueAddress) and message.to.name in self.limits for message in claimed.work))
        full = [one for one in before if one.limits.concurrency is not None and one.executions_waiting > one.limits.concurrency - one.executions]
        self.note("held up", full and claim.limit > len(claimed.executions))
        rates = {limits.interval_s for limits in self.limits.values()} - {0.0}
        self.note("held up by a rate", rates and claimed.next_at_s is not None and (claimed.next_at_s - claimed.now_s) % 1 not in (0.0, 0.5))

    async def limit(self) -> None:
        name, chance = self.random.choice(NAMES), self.random.random
        some = QueueLimits(
            concurrency=self.random.choice([None, 0, 1, 2, 3]),
            per_lane=self.random.choice([None, None, 1, 2]),
            interval_s=self.random.choice([0.0, 0.0, 0.3, 7.3, 30.1]),
            burst=self.random.choice([1, 1, 2, 4]),
        )
        limits = some if chance() < 0.7 else None
        if chance() < 0.3:
            tenant = self.random.choice(["acme", "b\0"])
            self.note("limit of a tenant", limits)
            await self.both(lambda store: store.limit(name, limits, tenant))
            return
        self.note("limit", name in self.limits)
        await self.both(lambda store: store.limit(name, limits))
        if limits is None:
            self.limits.pop(name, None)
        else:
            self.limits[name] = limits

    async def renew(self) -> None:
        holder = self.random.choice(HOLDERS)
        self.note("renew", self.lives(holder))
        moment = await self.both(lambda store: store.renew(holder, LEASE_S))
        assert moment.epoch == self.epoch
        self.until_s[holder] = self.clock.now_s + LEASE_S

    async def let_go(self) -> None:
        holder = self.random.choice(HOLDERS)
        held = [head for head in await self.memory.heads(HeadFilter(limit=10_000)) if head.holder == holder]
        self.note("let go", held and self.lives(holder))
        await self.both(lambda store: store.renew(holder, 0))
        self.until_s.pop(holder, None)

    async def turn_to_another(self) -> None:
        """From now on an execution that does not exist yet takes the place of another, whose program nobody knows any more."""
        self.newcomers += 1
        place = self.random.randrange(len(self.keys))
        if head := await self.head(self.keys[place]):
            retired = Commit(key=head.key, epoch=self.epoch, holder="nobody", version=head.version, program="retired", root=head.root)
            await self.both(lambda store: store.commit([retired]))
        self.keys[place] = Key("acme", "order", f"newcomer {self.newcomers}")

    async def pass_time(self) -> None:
        living, records = set(filter(self.lives, HOLDERS)), await self.all_records()
        self.clock.advance(8 * 86_400 if self.random.random() < 0.05 else self.random.choice([0.5, 1, 5, 10, 40]))
        self.note("death", not all(map(self.lives, living)))
        self.note("record expired", len(await self.all_records()) < len(records))

    async def raise_epoch(self) -> None:
        self.note("epoch", any(map(self.lives, HOLDERS)))
        self.epoch = await self.sqlite.raise_epoch()
        await self.memory.raise_epoch()
        self.memory._epoch = self.epoch  # each numbers its epochs in its own way
        self.until_s.clear()

    async def reopen(self) -> None:
        """Close the file and open it again: to the other store, all holders let go."""
        self.note("reopen", any(map(self.lives, HOLDERS)))
        await self.sqlite.close()
        self.sqlite = SqliteStore(self.file, self.clock, synchronous="OFF")
        for holder in HOLDERS:
            await self.memory.renew(holder, 0)
        self.until_s.clear()

    async def look(self) -> None:
        key, after, to = self.random.choice(self.keys), self.random.randrange(8), self.random.choice(self.addresses)
        tenant, statuses = self.random.choice([None, "acme", "b\0", "c"]), self.random.choice([None, *(frozenset({one}) for one in STATUSES)])
        name, limit = self.random.choice([*BLOBS, "never kept"]), self.random.randrange(4)
        self.note("read", log := await self.both(lambda store: store.read(key, after)))
        self.note("read after", log and log.payloads)
        self.note("in a queue", log and log.head.queue)
        self.note("heads", await self.both(lambda store: store.heads(HeadFilter(tenant=tenant, statuses=statuses, limit=limit))))
        where = tuple(self.some_condition() for _ in range(self.random.choice([1, 1, 2])))
        self.note("where", await self.both(lambda store: store.heads(HeadFilter(tenant=tenant, statuses=statuses, where=where, limit=limit))))
        any_of = tuple((self.some_condition(),) * self.random.choice([1, 1, 2]) for _ in range(self.random.choice([1, 2, 3])))
        either = HeadFilter(tenant=tenant, statuses=statuses, where=where[1:], any_of=any_of, limit=limit)
        self.note("any of", await self.both(lambda store: store.heads(either)))
        await self.look_in_order(replace(either, limit=limit + 1, any_of=self.random.choice([(), any_of])))
        self.note("mail", await self.both(lambda store: store.messages(to)))
        self.note("blob", await self.both(lambda store: store.blob(name)))
        await self.look_for_records(limit)
        assert await self.both(lambda store: store.relay(limit)) == 0

    async def look_in_order(self, some: HeadFilter) -> None:
        order = AttributeOrder(self.random.choice(ATTRIBUTES), self.random.random() < 0.5)
        which = replace(some, order=order, ended=self.random.choice([None, False, True]))
        found = await self.both(lambda store: store.heads(which))
        if found:
            behind = replace(which, after=head_position(found[0], order))
            assert (await self.both(lambda store: store.heads(behind)))[: len(found) - 1] == found[1:]
        self.note("in order", found)

    async def look_for_records(self, limit: int) -> None:
        order = self.random.choice([None, AttributeOrder("a"), AttributeOrder("b", descending=True)])
        where = (self.some_condition(),) if self.random.random() < 0.5 else ()
        which = RecordFilter(self.random.choice(["acme", "b"]), self.random.choice("xy"), self.random.choice(["", "2"]), where, order, limit=limit + 1)
        found = await self.both(lambda store: store.records(which))
        if found:
            behind = replace(which, after=record_position(found[0], order))
            assert (await self.both(lambda store: store.records(behind)))[:limit] == found[1:]
        self.note("list of records", found)

    def some_condition(self) -> AttributeCondition:
        low, high = sorted(self.random.choices(FORMS, k=2))
        spans = self.random.choice([((b"", b"\xff"),), ((low, high),), ((low, low + b"\0"),), ((b"", low), (high, b"\xff"))])
        return AttributeCondition(self.random.choice([*ATTRIBUTES, "c"]), spans)

    async def sweep(self) -> None:
        limit = self.random.choice([0, 1, 100])
        self.note("sweep", await self.both(lambda store: store.drop_expired(limit)))

    async def drop_records(self) -> None:
        limit = self.random.choice([0, 1, 100])
        self.note("records dropped", await self.both(lambda store: store.drop_expired_records(limit)))

    def lives(self, holder: str) -> bool:
        """Whether the lease of `holder` has not run out."""
        return self.until_s.get(holder, 0.0) > self.clock.now_s

    async def all_messages(self) -> set[tuple[Address, str]]:
        """Who has mail of which keys."""
        return {(to, message.key) for to in self.addresses for message in await self.memory.messages(to)}


async def list_of_records(store: Store, which: RecordFilter) -> object:
    return await store.records(which)


async def read(store: Store, key: Key) -> object:
    return await store.read(key)


async def queued_messages(store: Store, to: Address) -> object:
    return await store.messages(to)


async def blob(store: Store, name: str) -> object:
    return await store.blob(name)


async def queues(store: Store) -> object:
    return await store.queues()


def messages_in(answer: object) -> list[QueuedMessage]:
    """All mail in an answer of a store."""
    match answer:
        case Claimed():
            return [*(message for assignment in answer.executions for message in assignment.messages), *answer.work]
        case list():
            return [message for message in answer if isinstance(message, QueuedMessage)]
        case _:
            return []


def unnumbered(answer: object) -> object:
    """The answer, with all of its mail numbered 0. A time that has come is now."""
    match answer:
        case QueuedMessage():
            return replace(answer, number=0)
        case Claimed():
            executions = [replace(assignment, messages=tuple(map(unnumbered, assignment.messages))) for assignment in answer.executions]
            next_at_s = None if answer.next_at_s is None else max(answer.next_at_s, answer.now_s)
            return replace(answer, executions=tuple(executions), work=tuple(map(unnumbered, answer.work)), next_at_s=next_at_s)
        case list():
            return list(map(unnumbered, answer))
        case _:
            return answer


CHANCES: dict[Callable[[Twins], Awaitable[None]], float] = {
    Twins.change: 50,
    Twins.claim: 25,
    Twins.limit: 4,
    Twins.renew: 15,
    Twins.look: 5,
    Twins.pass_time: 10,
    Twins.turn_to_another: 4,
    Twins.let_go: 2,
    Twins.sweep: 2,
    Twins.drop_records: 2,
    Twins.raise_epoch: 1.2,
    Twins.reopen: 1.2,
}


async def answers_to(store: Store, changes: Sequence[Commit | Post]) -> list[ChangeAnswer]:
    """The answers without what a store is free to choose: a conflict among several changes may have the head before or after those behind it."""
    answers = await store.commit(changes)
    return [Conflict(None) if isinstance(answer, Conflict) and len(changes) > 1 else answer for answer in answers]


async def compare_stores(seed: int, file: Path, operations_min: int, operations_max: int = OPERATIONS_MAX) -> None:
    """Do at least so many operations, and all kinds of them."""
    twins = Twins(seed, file)
    chooser = random.Random(seed)
    done: list[str] = []
    try:
        while len(done) < operations_min or twins.missing:
            assert len(done) < operations_max, f"in {len(done)} operations these {twins.missing}"
            (operation,) = chooser.choices([*CHANCES], [*CHANCES.values()])
            done.append(operation.__name__)
            await operation(twins)
            await twins.compare()
        twins.compare_numbers()
    except BaseException as error:
        error.add_note(f"seed {seed}, operation {len(done)}, the last of {done[-5:]}")
        raise
    finally:
        await twins.sqlite.close()


@pytest.mark.slow
@pytest.mark.parametrize("seed", some(range(4), 1))
async def test_sqlite_does_what_memory_does(seed: int, tmp_path: Path) -> None:
    await compare_stores(seed, tmp_path / "perdure.db", OPERATIONS_MIN)


@pytest.mark.prove
@pytest.mark.parametrize("seed", range(100, 150))
async def test_sqlite_does_what_memory_does_for_long(seed: int, tmp_path: Path) -> None:
    await compare_stores(seed, tmp_path / "perdure.db", 4_000)


@pytest.mark.slow
async def test_a_kind_of_operation_that_never_happens_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CHANCES, Twins.sweep, 0)
    with pytest.raises(AssertionError, match=r"in 150 operations these never did anything: .*sweep.*; never found nothing: .*sweep") as noticed:
        await compare_stores(0, tmp_path / "perdure.db", 10, operations_max=150)
    assert noticed.value.__notes__[0].startswith("seed 0, operation ")
