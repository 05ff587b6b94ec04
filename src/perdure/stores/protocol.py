"""What every store provides. The conformance suite in `perdure.testing.conformance` says the rest, and each store runs it.

Two rails, separate on purpose: *holding* keeps two engines from doing the same work, *versions* keep the log true. A bug
in the first costs time, never truth.

Looking: the part of a store that changes nothing. Whoever asks for no more of it can be shown to change nothing.

Attributes as text: where a database can tell rows but no rows in rows, a head has them in one column, in hexadecimal digits.
"""

from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Protocol

import msgspec

from perdure.core.attribute_filter import AttributeCondition
from perdure.core.attributes import IndexedAttributes
from perdure.core.envelopes import Ack, OutgoingMessage, QueuedMessage
from perdure.core.paths import Address, Key, QueueAddress
from perdure.core.program import Toolbox, claimable_programs


class Head(msgspec.Struct, frozen=True, gc=False):
    """The one mutable row of an execution.

    `version` is the number of the last event ever written, whatever was trimmed; `program` has no version until the
    execution has started. It is awake once the store's time has reached `wake_at_s`, the time that its last commit asked for (None: no
    time), or `mail_at_s`, the due time of the earliest mail that its holder was not handed. In a `queue`, it is handed over as that allows.
    By its `attributes`, in order of name, it is found.
    """

    key: Key
    program: str
    root: Key
    version: int = 0
    holder: str | None = None
    wake_at_s: float | None = None
    mail_at_s: float | None = None
    status: str = "pending"
    created_at_s: float = 0.0
    ended_at_s: float | None = None
    queue: str = ""
    lane: str = ""
    priority: int = 0
    attributes: IndexedAttributes = ()


class QueueLimits(msgspec.Struct, frozen=True, gc=False):
    """What a queue allows: so many executions that are held by the living at a time, and so many pieces of work that are leased; of each
    lane so many (None: any number); one beginning each `interval_s` seconds (0: any number), of which `burst` may be made up for at once.
    `declared` is what the code had said of them when they were last taken from there."""

    concurrency: int | None = None
    per_lane: int | None = None
    interval_s: float = 0.0
    burst: int = 1
    declared: str = ""


UNLIMITED = QueueLimits()


class QueueStatus(msgspec.Struct, frozen=True, gc=False):
    """How a queue stands, over all tenants: its limits, how many executions and pieces of work the living hold, and how many wait to be handed over."""

    name: str
    limits: QueueLimits
    executions: int = 0
    work: int = 0
    executions_waiting: int = 0
    work_waiting: int = 0


class Commit(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A decision about one execution, to be made durable.

    Takes effect only if the execution is at `version` and the store in `epoch`; with `creates`, only if there is no head
    at all, and the head says that it was created at `created_at_s`, or now if that is earlier. `row` is one log
    row holding `count` events (none when `count` is 0); `compacted`, if given, replaces all rows before it, and stands for the events up to `version`; an empty
    one leaves none of them, and `row` stands for all. With `forgets`, nothing is left at all: neither the head nor the log, attributes or mail, and an
    execution may be created anew under this key.
    The head gets `program`, `status`, `wake_at_s` and `ended_at_s` as given. `release` gives the
    execution back if `holder` holds it still; `mail_at_s` is then the due time of the earliest mail left, as it is with `creates`. Without
    `release`, what nobody holds is held by `holder` from then on, so that its death is noticed. With `news`, who waits for the execution
    to end or to need somebody is rung. `attributes`, unless None, are all that it has from then on; with `creates`, None means that it has none.
    It takes effect `unless` mail to the execution is there that has one of these keys.
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
    """When the execution was created that `commit` creates in a store where it is `now_s`."""
    return now_s if commit.created_at_s is None else min(commit.created_at_s, now_s)


class Post(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Mail from outside any execution: a client's start or message, a worker's answer. All of it, or nothing.

    Its reach is that of its first send, or without sends of its first ack.
    """

    epoch: int | None = None
    messages: tuple[OutgoingMessage, ...] = ()
    acks: tuple[Ack, ...] = ()
    blobs: tuple[tuple[str, bytes], ...] = ()


class Committed(msgspec.Struct, frozen=True, gc=False):
    """The change is durable. `created` names the executions that its sends opened in its own reach; `version` is 0 for a `Post`."""

    version: int
    now_s: float
    created: tuple[Key, ...] = ()


class Conflict(msgspec.Struct, frozen=True, gc=False):
    """The execution was not at the version that the commit was decided at; nothing was changed. `head` is what it is now."""

    head: Head | None


class Superseded(msgspec.Struct, frozen=True, gc=False):
    """The store is in a later epoch than the change was made in (or in an earlier one: it was set back); nothing was changed."""

    epoch: int


ChangeAnswer = Committed | Conflict | Superseded


class Claim(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What a holder is ready to take on: executions of these programs (and of this root only, if given), work of these queues.

    Of programs that need capabilities, it takes those for which one of its `toolboxes` has all that they need.

    `queues` are names, whatever the tenant, unless `tenants` are given: then work of these alone.
    """

    holder: str
    epoch: int
    programs: frozenset[str] = frozenset()
    queues: frozenset[str] = frozenset()
    limit: int = 100
    root: Key | None = None
    tenants: frozenset[str] | None = None
    toolboxes: tuple[Toolbox, ...] = ()

    def of(self, known: Iterable[str]) -> "Claim":
        """The same claim by the full names of programs. `known` are those that need capabilities, of all executions there are."""
        more = claimable_programs(known, self.toolboxes) if self.toolboxes else None
        return msgspec.structs.replace(self, programs=self.programs | more) if more else self

    @property
    def addresses(self) -> list[QueueAddress] | None:
        """The queues of the tenants that are given; None, if none are."""
        return None if self.tenants is None else [QueueAddress(tenant, name) for tenant in sorted(self.tenants) for name in sorted(self.queues)]


class ClaimedExecution(msgspec.Struct, frozen=True, gc=False):
    """An execution that the claimer holds from now on, with all of its due mail in order of number."""

    head: Head
    mail: tuple[QueuedMessage, ...]


class Claimed(msgspec.Struct, frozen=True, gc=False):
    """What a claim got: executions, and work leased until acknowledged or until its holder dies.

    At `next_at_s` of the store's time the same claim would get more, though nothing changed meanwhile (the death of a holder is a change);
    None: it never would. A claim for some tenants alone may be told a time at which it gets nothing.
    """

    now_s: float
    executions: tuple[ClaimedExecution, ...] = ()
    work: tuple[QueuedMessage, ...] = ()
    next_at_s: float | None = None


class StoredLog(msgspec.Struct, frozen=True, gc=False):
    """An execution's head, with the rows that hold events after the version asked for."""

    head: Head
    rows: tuple[bytes, ...]


class StoreTime(msgspec.Struct, frozen=True, gc=False):
    """The store's time, in seconds since 1970, and its epoch."""

    now_s: float
    epoch: int


class HolderStatus(msgspec.Struct, frozen=True, gc=False):
    """What the store knows of a holder: whether it lives, how many executions and pieces of work it holds, and what it said `about` itself."""

    holder: str
    alive: bool
    executions: int
    work: int
    about: bytes


class HeadFilter(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Which heads are meant: those that fit all that is given. `statuses` and `keys` fit any of theirs; `older_than` continues a list behind its last head.
    Each condition of `where` holds for their attributes."""

    tenant: str | None = None
    workflow: str | None = None
    statuses: frozenset[str] | None = None
    id_prefix: str = ""
    keys: tuple[Key, ...] | None = None
    root: Key | None = None
    created_from_s: float | None = None
    older_than: Key | None = None
    limit: int = 100
    where: tuple[AttributeCondition, ...] = ()


ALL_HEADS = HeadFilter()


def matches_filter(head: Head, which: HeadFilter) -> bool:
    """Whether a head fits all that is given; its place in a list aside."""
    return (
        which.tenant in (None, head.key.tenant)
        and which.workflow in (None, head.key.workflow)
        and (which.statuses is None or head.status in which.statuses)
        and head.key.id.startswith(which.id_prefix)
        and which.root in (None, head.root)
        and (which.created_from_s is None or head.created_at_s >= which.created_from_s)
        and all(condition.holds(head.attributes) for condition in which.where)
    )


class Store(Protocol):
    """Logs and mail, changed by one atomic commit.

    Any method may raise `StoreUnavailable`; a change whose caller was told so may have happened, or may happen yet. The store's time may
    be a server's, which can be set back: nothing rests on it but waiting.
    """

    async def commit(self, changes: Sequence[Commit | Post]) -> list[ChangeAnswer]:
        """Carry out each of `changes` entirely or not at all within its reach, in their order, and make them durable together.

        Sending a message whose key is already in the mail of its address does nothing; acknowledging or postponing one that is gone does nothing.
        What is postponed brings `mail_at_s` of the head it belongs to forward to its new due time, as a send does.
        What an ack has to send if nobody had leased the work goes with it. Acks come before sends, so a key may be acknowledged and sent anew in one
        change; those that leave the reach follow in that order.
        Mail that is due when it arrives gets the time of its arrival as its `due_at_s`.
        A send that opens makes a head where there is none (status pending), and is delivered either way. A send brings `mail_at_s` of the
        head it goes to forward to its due time. A stale commit comes back as `Conflict`, one of another epoch as `Superseded`; neither changes
        anything, nor touches its neighbours in the batch. A `Post` without an epoch is of the present one; one with a send that refers to a blob which
        is not there comes back as `Conflict` without a head.
        What it carries, and what its sends refer to, loses its mark (see `perdure.stores.blob_marks`).
        """
        ...

    async def claim(self, claim: Claim) -> Claimed:
        """Take what is ready, up to `limit` executions and `limit` pieces of work, longest waiting first, and hold it.

        An execution is ready when its program is among `programs`, or one that needs capabilities and is among those of a toolbox, which has them
        all, and it is awake and held by nobody or by the claimer, or
        its holder is dead (awake or not; with no time to wake at it comes first). Each comes with *all* its due mail, also what was
        handed over before and not acknowledged; then `wake_at_s` becomes None and `mail_at_s` the due time of the next mail, and `head`
        is as it is after that. Work is ready when due and leased by nobody or by a dead holder. What has waited equally long comes in
        order of creation, work in order of number. Someone who has not renewed, or whose lease has run out, is dead; a dead claimer
        gets nothing, nor does one of another epoch. Of a queue that has limits no more is handed over than they leave room for, counting what the living
        hold: by priority, its lanes in turns (see `perdure.stores.fairness`); what the claimer holds already takes no room.

        Who can't know what a failed claim gave it, or gives it yet, has to let go (`renew` with
        0) and begin anew under another name.
        """
        ...

    async def read(self, key: Key, after: int = 0) -> StoredLog | None:
        """The head and the log rows that hold any event after version `after`; None if there is no such execution."""
        ...

    async def heads(self, which: HeadFilter = ALL_HEADS) -> list[Head]:
        """The heads that are meant, newest first, up to their limit."""
        ...

    async def messages(self, to: Address) -> list[QueuedMessage]:
        """All mail of an address that is not acknowledged, due or not, in order of number: for people and for tests."""
        ...

    async def are_queued(self, mail: Sequence[Ack]) -> list[bool]:
        """Of each of these, whether it is in the mail: sent, and neither acknowledged nor swept. For who holds work, and asks whether it is still wanted."""
        ...

    async def store_time(self) -> StoreTime:
        """What time it is, and in which epoch."""
        ...

    async def renew(self, holder: str, lease_s: float, about: bytes = b"") -> StoreTime:
        """Keep `holder` alive for `lease_s` more seconds of the store's time; 0 lets everything it holds go at once.

        One that renews late still holds what nobody took. One that had let go, or whose epoch has ended, begins with nothing: what it held before
        and nobody took is free, and awake. `about` is shown to people as given, and kept while the holder lives, until something else is given. Unlike
        everything else, this may be called on the event loop of another thread, also one that ends with the call, so that a holder lives
        while its own loop is busy.
        """
        ...

    async def leases(self) -> list[HolderStatus]:
        """The holders that have renewed and not let go, by name: those alive, and the dead ones that hold something still."""
        ...

    async def limit(self, queue: str, limits: QueueLimits | None) -> None:
        """Give the queue of this name, of all tenants, these limits from now on (None: it has none any more). What is held stays held."""
        ...

    async def queues(self) -> list[QueueStatus]:
        """The queues that have limits or hold anything, by name."""
        ...

    async def relay(self, limit: int = 100) -> int:
        """Carry up to `limit` messages from outboxes to the reaches they go to, at least once and in order; return how many.

        Whatever leaves a reach goes through its outbox, acks too. It arrives, and is then removed: what is interrupted in between arrives again,
        and is dropped if its key is in the mail there.
        """
        ...

    async def drop_expired(self, limit: int = 100) -> list[QueuedMessage]:
        """Drop up to `limit` messages that have waited seven days, since they were due, for an execution that has no head; return them."""
        ...

    async def raise_epoch(self) -> int:
        """Begin a new epoch, as a recovery must that may have lost commits: all holders are dead, what was decided before is refused.

        Nothing but the order of its number means anything; the first need not be 1. It has begun in all reaches when this returns.
        """
        ...

    async def blob(self, sha256: str) -> bytes | None:
        """The payload of this name, if it is kept."""
        ...

    async def removed_at(self, sha256: str) -> float | None:
        """When the blob of this name was removed, if it was, and that was noted; None, if it is there."""
        ...

    def on_wake(self, ring: Callable[[], None]) -> Callable[[], None]:
        """Call `ring` (from any thread) when a change may have made something ready; return what ends that.

        Rings come from every process that uses the store, from those others at the latest from the next call on that is awaited. One may be lost: they
        only save time.
        """
        ...

    def on_change(self, ring: Callable[[], None]) -> Callable[[], None]:
        """As `on_wake`, when a commit with `news` was made."""
        ...

    async def close(self) -> None:
        """Let go of files, threads and locks. What was acknowledged is durable already."""
        ...


class TransactionGuard(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Who may carry out a transaction: the `holder` of the execution `key` or, with `work`, of the lease on that, in `epoch`. `answer` is the key of the
    mail to the execution with which the transaction is known to have been carried out."""

    key: Key
    holder: str
    epoch: int
    answer: str
    work: Ack | None = None


class TransactionRefused(msgspec.Struct, frozen=True, gc=False):
    """Who asked may not, or not any more; `answered`, it was carried out before. Nothing was changed."""

    answered: bool = False


class TransactionRaised(msgspec.Struct, frozen=True, gc=False):
    """The user's code raised this; nothing was changed."""

    error: BaseException


class TransactionalStore(Protocol):
    """What a store can do besides, if it is a database that users can write to."""

    async def transact(
        self, guard: TransactionGuard, work: Callable[[Any], Coroutine[Any, Any, Post]]
    ) -> Committed | Superseded | TransactionRefused | TransactionRaised:
        """Run `work` with a transaction of the database, and carry out the `Post` that it returns together with what it wrote; all of it, or nothing.

        That the guard holds is checked in the same transaction. `work` may be run again if the transaction could not be committed.
        """
        ...


class ReadOnlyStore(Protocol):
    """What is there. Each method is that of a `Store`; who asks twice may find that others have written in between."""

    async def read(self, key: Key, after: int = 0) -> StoredLog | None:
        """See `Store.read`."""
        ...

    async def heads(self, which: HeadFilter = ALL_HEADS) -> list[Head]:
        """See `Store.heads`."""
        ...

    async def messages(self, to: Address) -> list[QueuedMessage]:
        """See `Store.messages`."""
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

    async def close(self) -> None:
        """See `Store.close`."""
        ...


def attributes_from_hex(told: str | None) -> IndexedAttributes:
    """The attributes in ``name=value,name=value``, in order of name; None says that there are none."""
    pairs = (one.partition("=") for one in told.split(",")) if told else ()
    return tuple(sorted((bytes.fromhex(name).decode(), bytes.fromhex(value)) for name, _, value in pairs))
