"""The interface of every store, and the values that pass through it. `perdure.testing.conformance` holds the tests that each store passes.

Two mechanisms are separate on purpose. *Leases* keep two engines from doing the same work; *versions* keep logs true. A bug in leases costs time only.

The *reach* of a change is the part of the store that it can alter atomically. Every server and file here has one; a memory store may have several.
What a change sends to another reach goes through an outbox, which `Store.relay` delivers.
"""

from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from perdure.core.attribute_filter import AttributeCondition, AttributeOrder
from perdure.core.attributes import IndexedAttributes
from perdure.core.envelopes import Ack, OutgoingMessage, QueuedMessage, StartAdmission
from perdure.core.errors import BadValue, ProgrammingError, StoreUnavailable
from perdure.core.paths import Address, Key, QueueAddress
from perdure.core.program import Toolbox, claimable_programs
from perdure.stores.records import PagePosition, RecordChange, RecordFilter, RecordKey, Stale, StoredRecord, check_records, position_value
from perdure.stores.store_parts import PartName

T = TypeVar("T")


class Head(msgspec.Struct, frozen=True, gc=False):
    """The one mutable row of an execution.

    `version` is the number of the last event ever written, including events that compaction has removed. `program` has no version until the execution
    has started. The execution is awake once the store's time has reached `wake_at_s`, the time that its last commit asked for (None: no time), or
    `message_at_s`, the due time of the earliest message that its holder has not received. An execution in a `queue` is handed over as the limits of the
    queue allow. `attributes`, in order of name, are what it is found by.
    """

    key: Key
    program: str
    root: Key
    version: int = 0
    holder: str | None = None
    wake_at_s: float | None = None
    message_at_s: float | None = None
    status: str = "pending"
    created_at_s: float = 0.0
    ended_at_s: float | None = None
    queue: str = ""
    lane: str = ""
    priority: int = 0
    attributes: IndexedAttributes = ()


class QueueLimits(msgspec.Struct, frozen=True, gc=False):
    """The limits of a queue.

    `concurrency` limits how many executions live holders hold at a time, and separately how many tasks they lease; `per_lane` limits the same for each
    lane (None: no limit). One begins each `interval_s` seconds (0: no limit of rate), and up to `burst` that were not used may begin at once.
    `declared` is the declaration in the code at the time when the limits were last taken from there.
    """

    concurrency: int | None = None
    per_lane: int | None = None
    interval_s: float = 0.0
    burst: int = 1
    declared: str = ""


UNLIMITED = QueueLimits()

ORPHANS_FREED_MIN = 100
"""A claim frees as many executions and tasks of dead holders as it may take, but at least this number of each."""


class QueueStatus(msgspec.Struct, frozen=True, gc=False):
    """The state of a queue: its limits, how many executions and tasks live holders hold, and how many wait.

    It is that of one `tenant`, or (None) of all tenants that have no limits of their own in this queue. `oldest_task_at_s` is when the task became due that has
    waited longest, of those that no holder leases; None if none is due.
    """

    name: str
    limits: QueueLimits
    executions: int = 0
    work: int = 0
    executions_waiting: int = 0
    work_waiting: int = 0
    tenant: str | None = None
    oldest_task_at_s: float | None = None


class Commit(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A decision about one execution, to be made durable.

    It takes effect only if the execution is at `version`, the store is in `epoch`, and no message with a key in `unless` is queued for the execution.

    - `creates`: the commit takes effect only if there is no head. The head is created at `created_at_s`, or now if that is earlier.
    - `row`: one row of the log, which holds `count` events (no row if `count` is 0).
    - `compacted`: replaces all rows before `row` and stands for the events up to `version`. Empty bytes remove these rows, and `row` stands for all events.
    - `forgets`: removes the head, the log, the attributes and the messages. The key may then be used for a new execution.
    - `program`, `status`, `wake_at_s`, `ended_at_s`: written to the head as given.
    - `release`: gives the execution back if `holder` still holds it. As with `creates`, `message_at_s` becomes the due time of the earliest message that is
      left. Without `release`, an execution that has no holder is held by `holder` from then on, so that the death of `holder` is noticed.
    - `news`: notifies listeners that wait for the execution to end or to need attention.
    - `attributes`: replace all attributes, unless None. With `creates`, None means no attributes.
    """

    key: Key
    epoch: int
    holder: str
    version: int
    program: str
    root: Key
    creates: bool = False
    created_at_s: float | None = None
    row: bytes = b""
    count: int = 0
    compacted: bytes | None = None
    status: str = "running"
    wake_at_s: float | None = None
    ended_at_s: float | None = None
    release: bool = False
    news: bool = False
    messages: tuple[OutgoingMessage, ...] = ()
    acks: tuple[Ack, ...] = ()
    blobs: tuple[tuple[str, bytes], ...] = ()
    attributes: IndexedAttributes | None = None
    unless: tuple[str, ...] = ()
    forgets: bool = False


def creation_time(commit: Commit, now_s: float) -> float:
    """The creation time of the execution that `commit` creates in a store where it is `now_s`."""
    return now_s if commit.created_at_s is None else min(commit.created_at_s, now_s)


class Post(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A change from outside any execution: messages, such as a start by a client or the answer of a worker, and records. All take effect, or none.

    Its reach is the home of its records' tenant (all are of one tenant); without records that of its first message, or of its first ack if it has no
    messages. Without an `epoch` it belongs to the present one. A post that acknowledges a task must name the epoch in which the task was leased, so that no
    answer of an earlier epoch takes effect after a recovery.

    Raises:
        ProgrammingError: it acknowledges a task and names no epoch.
    """

    epoch: int | None = None
    messages: tuple[OutgoingMessage, ...] = ()
    acks: tuple[Ack, ...] = ()
    blobs: tuple[tuple[str, bytes], ...] = ()
    records: tuple[RecordChange, ...] = ()

    def __post_init__(self) -> None:
        if self.epoch is None and any(isinstance(ack.to, QueueAddress) for ack in self.acks):
            raise ProgrammingError("a Post that acknowledges a task needs an epoch; pass epoch= of the lease on the task")


class Committed(msgspec.Struct, frozen=True, gc=False):
    """The change is durable. `created` names the executions that its messages created in its own reach; `version` is 0 for a `Post`."""

    version: int
    now_s: float
    created: tuple[Key, ...] = ()


class Conflict(msgspec.Struct, frozen=True, gc=False):
    """The execution was not at the version at which the commit was decided, and nothing was changed.

    `head` is its present head. If the call has several changes, it is the head as it was between two of them, or after the last.
    """

    head: Head | None


class Superseded(msgspec.Struct, frozen=True, gc=False):
    """The change belongs to another epoch than the store, and nothing was changed. `epoch` is that of the store, later unless the store was set back."""

    epoch: int


class Refused(msgspec.Struct, frozen=True, gc=False):
    """The start of `key` was not admitted, since `present` executions are in the way, and nothing of its post was carried out."""

    key: Key
    admission: StartAdmission
    present: int


ChangeAnswer = Committed | Conflict | Superseded | Stale | Refused


def check_changes(changes: Iterable[Commit | Post]) -> None:
    """Checks what every store expects of changes, before it carries out any of them.

    Raises:
        BadValue: a commit carries a start with an admission, or the records of a post are not as `check_records` expects them.
    """
    for change in changes:
        if isinstance(change, Post):
            if change.records:
                check_records(change.records)
        elif change.messages and any(send.opens is not None and send.opens.admission is not None for send in change.messages):
            raise BadValue("admission", change.key, "in a post: children and other starts of an execution are not limited")


def refused_start(post: Post, exists: Callable[[Key], bool], count: Callable[[str, StartAdmission], int]) -> Refused | None:
    """Returns the refusal of the first start of a post that its admission does not allow, None if all are allowed.

    `exists` says whether there is an execution, and `count` how many of a tenant that have not ended an admission counts, up to its maximum. Starts count
    for those behind them in the same post.
    """
    created: dict[Key, IndexedAttributes] = {}
    for send in post.messages:
        key, opens = send.to, send.opens
        if opens is None or not isinstance(key, Key) or key in created or exists(key):
            continue
        if (admission := opens.admission) is not None:
            value = (admission.attribute, admission.value)
            present = count(key.tenant, admission) + sum(other.tenant == key.tenant and value in attributes for other, attributes in created.items())
            if present >= admission.max:
                return Refused(key, admission, min(present, admission.max))
        created[key] = opens.attributes
    return None


def has_admission(post: Post) -> bool:
    """Whether a post carries a start with an admission."""
    return any(send.opens is not None and send.opens.admission is not None for send in post.messages)


class Claim(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A request for executions of certain programs, and for tasks of certain queues, in the name of `holder`.

    With `roots`, only executions of one of these roots are claimed: none, if there are none. With `tenants`, only executions and tasks of these tenants are
    claimed. Of the programs that need capabilities, those are claimed for which one of the `toolboxes` has every capability.
    """

    holder: str
    epoch: int
    programs: frozenset[str] = frozenset()
    queues: frozenset[str] = frozenset()
    limit: int = 100
    roots: frozenset[Key] | None = None
    tenants: frozenset[str] | None = None
    toolboxes: tuple[Toolbox, ...] = ()

    def of(self, known: Iterable[str]) -> "Claim":
        """The same claim with the full names of programs. `known` lists the programs that need capabilities, of all executions in the store.

        A claim for no tenants becomes one for no programs and queues.
        """
        if self.tenants is not None and not self.tenants:
            return msgspec.structs.replace(self, programs=frozenset(), queues=frozenset(), toolboxes=())
        more = claimable_programs(known, self.toolboxes) if self.toolboxes else None
        return msgspec.structs.replace(self, programs=self.programs | more) if more else self


class ClaimedExecution(msgspec.Struct, frozen=True, gc=False):
    """An execution that the claimer holds from now on, with all of its due messages in order of number."""

    head: Head
    messages: tuple[QueuedMessage, ...]


class Claimed(msgspec.Struct, frozen=True, gc=False):
    """The result of a claim: executions, and tasks that are leased until they are acknowledged or their holder dies.

    At `next_at_s` of the store's time the same claim would get more even if nothing changes until then (the death of a holder is a change); None means
    never.
    """

    now_s: float
    executions: tuple[ClaimedExecution, ...] = ()
    work: tuple[QueuedMessage, ...] = ()
    next_at_s: float | None = None


class LogRow(msgspec.Struct, frozen=True, gc=False):
    """One row of a log. `version` is the number of the last event in it; the store does not read its `payload`."""

    version: int
    payload: bytes


class StoredLog(msgspec.Struct, frozen=True, gc=False):
    """The head of an execution, with the log rows that hold events after the requested version, in order of version."""

    head: Head
    rows: tuple[LogRow, ...]

    @property
    def payloads(self) -> tuple[bytes, ...]:
        """The payloads of the rows."""
        return tuple([row.payload for row in self.rows])


class StoreTime(msgspec.Struct, frozen=True, gc=False):
    """The store's time, in seconds since 1970, and its epoch."""

    now_s: float
    epoch: int


class HolderStatus(msgspec.Struct, frozen=True, gc=False):
    """A holder as the store knows it: whether it is alive, how many executions and tasks it holds, and its own description, `about`."""

    holder: str
    alive: bool
    executions: int
    work: int
    about: bytes


class HeadFilter(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Conditions on heads. A head matches if it satisfies all that are given.

    `statuses` and `keys` match any of their members, and every condition of `where` must hold for one value of its attribute. Of `any_of`, unless it is empty,
    one member must hold with all its conditions. `ended` restricts the list to executions that have an end, or have none.

    The list is in order of creation, newest first. With `order`, it has the executions with that attribute, each once: from the least of their least values
    on, or with a descending order from the greatest of their greatest ones; among equals in order of creation, or descending. It continues behind `after`.
    """

    tenant: str | None = None
    workflow: str | None = None
    statuses: frozenset[str] | None = None
    id_prefix: str = ""
    keys: tuple[Key, ...] | None = None
    root: Key | None = None
    created_from_s: float | None = None
    ended: bool | None = None
    order: AttributeOrder | None = None
    after: PagePosition | None = None
    limit: int = 100
    where: tuple[AttributeCondition, ...] = ()
    any_of: tuple[tuple[AttributeCondition, ...], ...] = ()

    def only_key(self) -> Key | None:
        """Returns the one key that this filter names, if it names no other condition than that."""
        keys = self.keys
        return keys[0] if keys is not None and len(keys) == 1 and self.limit > 0 and self == HeadFilter(keys=keys, limit=self.limit) else None

    def alternatives(self) -> "list[HeadFilter]":
        """Returns filters without `any_of`, which together match what this one matches."""
        return [msgspec.structs.replace(self, where=(*self.where, *one), any_of=()) for one in self.any_of] if self.any_of else [self]


ALL_HEADS = HeadFilter()


class NothingClaimed(StoreUnavailable):
    """A claim was surely not made, and will not be: no connection was to be had, for example, or the database had no room. So what the claimer holds is
    known."""


def matches_filter(head: Head, which: HeadFilter) -> bool:
    """Whether a head satisfies every condition of `which`, except `after`, `keys` and `limit`, and has the attribute of its order."""
    return (
        which.tenant in (None, head.key.tenant)
        and which.workflow in (None, head.key.workflow)
        and (which.statuses is None or head.status in which.statuses)
        and head.key.id.startswith(which.id_prefix)
        and which.root in (None, head.root)
        and (which.created_from_s is None or head.created_at_s >= which.created_from_s)
        and which.ended in (None, head.ended_at_s is not None)
        and all(condition.holds(head.attributes) for condition in which.where)
        and (not which.any_of or any(all(condition.holds(head.attributes) for condition in one) for one in which.any_of))
        and (which.order is None or which.order.value_in(head.attributes) is not None)
    )


def head_position(head: Head, order: AttributeOrder | None = None) -> PagePosition:
    """The position behind `head` in a list of this order.

    Raises:
        BadValue: the head lacks the attribute of the order, so that it is in no such list.
    """
    return PagePosition(head.key, head.created_at_s, position_value(head.attributes, order))


class Store(Protocol):
    """Durable storage of logs and messages, changed by atomic commits.

    Any method may raise `StoreUnavailable`. A change that raised it may have happened, or may still happen; repeating the change is safe, because versions
    and message keys make it take effect once. The store's time may be that of a server, which can be set back: only waiting depends on it.
    """

    async def commit(self, changes: Sequence[Commit | Post]) -> list[ChangeAnswer]:
        """Carry out each of `changes` in order, entirely or not at all within its reach, and make them durable together.

        Guarantee: a stale commit yields `Conflict` and one of another epoch `Superseded`. Neither changes anything or affects the other changes of the batch.
        A `Post` with a message that refers to a blob which is not in the store yields `Conflict` without a head, one with a record at another version
        than it expects `Stale` (for the first such record), and one with a start that its admission does not allow `Refused`. They change nothing either. Of
        several reasons the first of these is given.

        Admission: the count is exact, however many starts come at once, and includes every execution of the tenant that has the attribute, admitted or
        not. An execution that is reopened after its end is not checked again. The start of an execution that exists is not refused.

        Idempotence: sending a message whose key is already queued at its address has no effect; neither has acknowledging or postponing one that is gone.
        A post with records that is repeated after it took effect yields `Stale` for what it has changed itself.

        Raises:
            BadValue: the records of a post are not as `check_records` expects them. Then no change of the batch was carried out.

        - Acks are carried out before messages are sent, so one change can acknowledge a key and send it again. What leaves the reach keeps that order.
        - An ack may carry a message that is sent only if the acknowledged task had not been leased.
        - A message that creates an execution creates its head if there is none (status pending), and is delivered in either case.
        - Sending or postponing a message brings `message_at_s` of the head forward to its due time. If it is due on arrival,
          its `due_at_s` is the time of arrival.
        - Blobs that the change carries, or that its messages refer to, lose their mark (see `perdure.stores.blob_marks`).
        """
        ...

    async def claim(self, claim: Claim) -> Claimed:
        """Take up to `limit` executions and `limit` tasks that are ready, those that have waited longest first, and hold them.

        An execution is ready if its program is among `programs`, or needs only capabilities that one toolbox has, and if it is awake and is held by no holder
        or by the claimer. It is returned with *all* its due messages, including those that were handed over before and not acknowledged. `wake_at_s` then
        becomes None and `message_at_s` the due time of the next message; the returned head shows both.

        A task is ready if it is due and is leased by no holder. Executions that have waited equally long are taken in order of creation, tasks
        in order of number. If more is ready than `limit`, of several tenants, the tenants are served in turns, which continue from claim to claim: a tenant
        waits since its last turn or since its first came, whichever is later. What the claimer holds already comes before that, and a claim with a `root`
        has no turns. From a queue with limits, no more is taken than the limits allow beside what live holders hold: by priority, with its lanes
        in turn (see `perdure.stores.fairness`). What the claimer already holds does not count against them.

        What dead holders hold is freed by claims, in pieces: each claim, whatever it asks for, first frees up to `max(limit, ORPHANS_FREED_MIN)` executions
        and as many tasks. Freed executions are awake, since the time that they waited for, or since their creation if they waited for none. While dead
        holders hold more, `next_at_s` is the present. A store with very many tenants may serve the turns of a part of them in one claim and of the next part
        in the next.

        Bound: proportional to `limit`, the numbers of programs, queues and tenants asked for, and the number of holders; independent of how much the store,
        a tenant or a dead holder has.

        A holder is dead if it has never renewed or its lease has run out. A dead claimer gets nothing; neither does one of another epoch.

        Not idempotent: after an error the claimer cannot know what it was given, or will be given. It must release everything (`renew` with 0) and
        continue under another name, except after `NothingClaimed`.

        Raises:
            NothingClaimed: the claim has surely not been made, and will not be.
        """
        ...

    async def read(self, key: Key, after: int = 0) -> StoredLog | None:
        """The head, and the log rows that hold any event after version `after`; None if there is no such execution."""
        ...

    async def heads(self, which: HeadFilter = ALL_HEADS) -> list[Head]:
        """The heads that match `which`, in its order, up to its limit.

        Bounded: it reads an index in the order of the list, from the position on, and stops at the limit. It passes over heads that do not satisfy the
        other conditions, except that `ended=False` is an index of its own, and that a condition which few satisfy has those looked up.
        """
        ...

    async def messages(self, to: Address) -> list[QueuedMessage]:
        """All messages of an address that are not acknowledged, due or not, in order of number. It serves people and tests."""
        ...

    async def are_queued(self, messages: Sequence[Ack]) -> list[bool]:
        """For each of `messages`, whether it is queued: sent, not acknowledged, and not expired.

        A worker uses it to find out whether a task that it holds is still wanted.
        """
        ...

    async def record(self, key: RecordKey) -> StoredRecord | None:
        """The record of this key; None if there is none, or it has expired."""
        ...

    async def records(self, which: RecordFilter) -> list[StoredRecord]:
        """The records that match `which` and have not expired, in its order, up to its limit.

        Bounded: it reads an index in the order of the list, from the position on, and stops at the limit; it passes over records that do not
        satisfy `where`.
        """
        ...

    async def store_time(self) -> StoreTime:
        """The present time and epoch of the store."""
        ...

    async def renew(self, holder: str, lease_s: float, about: bytes = b"") -> StoreTime:
        """Keep `holder` alive for `lease_s` more seconds of the store's time; 0 releases everything that it holds.

        A holder that renews late still holds what no claim has freed. One that had released everything, or whose epoch has ended, starts with nothing: what
        it held before, and no other has taken, is free and awake; a store may leave what is more than `ORPHANS_FREED_MIN` of it to the claims, which free it
        as what the dead hold. `about` is shown to people as given, and is kept while the holder
        lives or until it is replaced.

        Unlike the other methods, this one may be called on the event loop of another thread, even one that ends with the call, so that a
        holder stays alive while its own loop is busy.
        """
        ...

    async def leases(self) -> list[HolderStatus]:
        """The holders that have renewed and not released everything, by name: live ones, and dead ones that still hold something."""
        ...

    async def limit(self, queue: str, limits: QueueLimits | None, tenant: str | None = None) -> None:
        """Set the limits of the queue of this name (None: it has none). What is held stays held.

        Without a `tenant`, they apply to all tenants together. The limits of a tenant apply to this tenant in their place: what it holds does not
        count for the others, and `UNLIMITED` exempts it.
        """
        ...

    async def queues(self) -> list[QueueStatus]:
        """The queues that have limits or hold anything, by name: each for all tenants, followed by the tenants that have limits of their own in it."""
        ...

    async def relay(self, limit: int = 100) -> int:
        """Deliver up to `limit` messages from outboxes to other reaches, at least once and in order; return how many.

        Messages and acks that leave a reach go through its outbox, and are removed from it after delivery. An interruption in between causes a second
        delivery, which has no effect while the key is queued there.
        """
        ...

    async def drop_expired(self, limit: int = 100) -> list[QueuedMessage]:
        """Drop up to `limit` messages that have been due for seven days and whose execution has no head; return them."""
        ...

    async def drop_expired_records(self, limit: int = 100) -> int:
        """Remove up to `limit` records that have expired, the longest expired first, equals in order of key; return how many.

        Until then they only take space.
        """
        ...

    async def raise_epoch(self) -> int:
        """Begin a new epoch in all reaches, and return it. A recovery that may have lost commits must call this.

        All holders are then dead, and changes decided before are refused. Only the order of epochs has a meaning; the first need not be 1.
        """
        ...

    async def blob(self, sha256: str) -> bytes | None:
        """The payload of this name; None if it is not in the store."""
        ...

    async def removed_at(self, sha256: str) -> float | None:
        """When the blob of this name was removed; None if it is in the store, or if its removal was not recorded."""
        ...

    def on_wake(self, notify: Callable[[], None]) -> Callable[[], None]:
        """Call `notify`, from any thread, when a change may have made something ready; return a function that ends this.

        Notifications come from every process that uses the store. Those of other processes begin at the latest with the next awaited call. They only save
        time: any of them may be lost.
        """
        ...

    def on_change(self, notify: Callable[[], None]) -> Callable[[], None]:
        """Call `notify` as `on_wake` does, when a commit with `news` was made."""
        ...

    def part(self, name: PartName[T]) -> T | None:
        """The optional part of this name, such as `TRANSACTIONS` or `CHANGE_FEED`; None if this store does not have it.

        The answer never changes. A store that wraps another has a part only if it says so itself.
        """
        ...

    async def close(self) -> None:
        """Release files, threads and locks. Changes that were acknowledged are already durable."""
        ...


class TransactionGuard(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The right to carry out a transaction: that of the `holder` of the execution `key` or, with `work`, of the lease on that task, in `epoch`.

    `answer` is the key of the message to the execution which shows that the transaction was carried out.
    """

    key: Key
    holder: str
    epoch: int
    answer: str
    work: Ack | None = None


class TransactionRefused(msgspec.Struct, frozen=True, gc=False):
    """The guard does not hold, or holds no longer; nothing was changed. `answered` says that the transaction was carried out before."""

    answered: bool = False


class TransactionRaised(msgspec.Struct, frozen=True, gc=False):
    """The code of the user raised `error`; nothing was changed."""

    error: BaseException


class TransactionalStore(Protocol):
    """The part `TRANSACTIONS` of a store that is a database which users can write to."""

    async def transact(
        self, guard: TransactionGuard, work: Callable[[Any], Coroutine[Any, Any, Post]]
    ) -> Committed | Superseded | TransactionRefused | TransactionRaised:
        """Run `work` with a transaction of the database, and commit the `Post` that it returns together with its writes, or nothing of either.

        The guard is checked in the same transaction. `work` may run again if the transaction could not be committed.
        """
        ...

    async def is_same_database(self, connection: Any) -> bool:
        """Whether a connection of the driver is to the database of this store, in the role of the store if there are roles.

        The connection is idle, of `sqlite3` or asyncpg, and is used for a query.
        """
        ...


TRANSACTIONS: PartName[TransactionalStore] = PartName("transactions")


class ReadOnlyStore(Protocol):
    """The methods of a `Store` that change nothing. Others may write between two calls."""

    async def read(self, key: Key, after: int = 0) -> StoredLog | None:
        """See `Store.read`."""
        ...

    async def heads(self, which: HeadFilter = ALL_HEADS) -> list[Head]:
        """See `Store.heads`."""
        ...

    async def messages(self, to: Address) -> list[QueuedMessage]:
        """See `Store.messages`."""
        ...

    async def record(self, key: RecordKey) -> StoredRecord | None:
        """See `Store.record`."""
        ...

    async def records(self, which: RecordFilter) -> list[StoredRecord]:
        """See `Store.records`."""
        ...

    async def blob(self, sha256: str) -> bytes | None:
        """See `Store.blob`."""
        ...

    async def removed_at(self, sha256: str) -> float | None:
        """See `Store.removed_at`."""
        ...

    async def leases(self) -> list[HolderStatus]:
        """See `Store.leases`."""
        ...

    async def store_time(self) -> StoreTime:
        """See `Store.store_time`."""
        ...

    def part(self, name: PartName[T]) -> T | None:
        """See `Store.part`."""
        ...

    async def close(self) -> None:
        """See `Store.close`."""
        ...


def attributes_from_hex(text: str | None) -> IndexedAttributes:
    """The attributes in a text such as ``name=value,name=value`` of hexadecimal digits, in order of name; None means none.

    A database that cannot nest rows returns the attributes of a head in one column of this form.
    """
    if not text:
        return ()
    pairs = (one.partition("=") for one in text.split(","))
    return tuple(sorted((bytes.fromhex(name).decode(), bytes.fromhex(value)) for name, _, value in pairs))
