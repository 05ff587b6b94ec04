"""Starts and messages that wait in a table of a user's own database, until a relay posts them to the store.

They are written in the user's transaction, so they exist if and only if it commits. Each row holds one message with its key, and the key of the execution; a
row that is posted twice therefore takes effect once, and a relay may die at any instant.

The body of a row has the header of stored payloads (a version and a checksum), and is encoded by the codec of the store before it leaves this process.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any, NamedTuple

import msgspec

from perdure.core.envelopes import NewExecution, OutgoingMessage
from perdure.core.errors import LogDamaged, ProgrammingError
from perdure.core.paths import Key
from perdure.core.payload_header import with_header, without_header
from perdure.stores.payload_codec import PayloadCodec
from perdure.stores.protocol import ALL_HEADS, ChangeAnswer, Commit, Committed, Head, HeadFilter, Post, StoreTime, check_changes

OUTBOX_FORMAT = 1
"""The version of the form of a row's body. A relay leaves rows of later versions to relays that know them."""

ROWS_PER_BATCH = 100

ENCODED_ROW = b"an outbox row of "


class OutboxRow(NamedTuple):
    """A row of an outbox. Rows are posted in the order of their numbers."""

    number: int
    target: str
    body: bytes


class OutboxBatch(NamedTuple):
    """Rows that are being posted, and for those that never can be, by number, why."""

    rows: Sequence[OutboxRow]
    failed: dict[int, str]

    @property
    def posted(self) -> list[int]:
        """The numbers of the rows that have not failed."""
        return [row.number for row in self.rows if row.number not in self.failed]


class Outbox(ABC):
    """A table in a database of the user's, for starts and messages that are part of a transaction there: ``App([order], outbox=...)``.

    With it, ``connection=`` takes a connection to that database. An engine of the App posts the rows to the store of the App once the transaction has
    committed, each once, and removes them.
    """

    def __init__(self) -> None:
        self._wakes: list[Callable[[], None]] = []

    @abstractmethod
    async def put(self, connection: Any, target: str, body: bytes) -> None:
        """Inserts a row in the transaction that is open on `connection`, and lets `notify` be called after its commit.

        With a connection that does not belong to an event loop, nothing is awaited.

        Raises:
            BadValue: it is not a connection of this kind, or it commits by itself.
        """

    @abstractmethod
    def batch(self, thread: Executor) -> AbstractAsyncContextManager[OutboxBatch]:
        """Yields the first rows that have not failed, up to `ROWS_PER_BATCH`, locked against other relays where the database can do that.

        When the block ends, its rows are removed, except that those which failed keep the reason. If it raises, all stay as they were. Sync calls of the
        database are made in `thread`, which has one thread only. Errors of the database are raised as its driver raises them.
        """

    def notify(self) -> None:
        """Tells the relays in this process that there may be new rows. It may be called from any thread."""
        for wake in tuple(self._wakes):
            wake()

    @contextmanager
    def listening(self, wake: Callable[[], None]) -> Iterator[None]:
        """Calls `wake` at each `notify`, until the end of the block."""
        self._wakes.append(wake)
        try:
            yield
        finally:
            self._wakes.remove(wake)


class OutboxPost(msgspec.Struct, frozen=True, omit_defaults=True):
    """The post of a row: a message to an execution, and the blobs that it refers to."""

    key: Key
    message_key: str
    body: bytes
    due_at_s: float = 0.0
    opens: NewExecution | None = None
    blobs: tuple[tuple[str, bytes], ...] = ()

    @property
    def post(self) -> Post:
        """The same, for a store."""
        return Post(messages=(OutgoingMessage(self.key, self.message_key, self.body, self.due_at_s, self.opens),), blobs=self.blobs)


_ENCODER, _DECODER = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(OutboxPost)


def encode_body(post: OutboxPost, codec: PayloadCodec | None) -> bytes:
    """Returns the body of the row for a post."""
    raw = _ENCODER.encode(post)
    return with_header(OUTBOX_FORMAT, raw if codec is None else codec.encode(raw, ENCODED_ROW + str(post.key).encode()))


def decode_row(row: OutboxRow, codec: PayloadCodec | None) -> Post:
    """Returns the post of a row.

    Raises:
        LogDamaged, LogVersionUnsupported: it was changed since it was written, or written in another version.
        SealedPayload: the codec can't decode it.
    """
    raw = without_header(bytes(row.body), OUTBOX_FORMAT, OUTBOX_FORMAT)[1]
    try:
        return _DECODER.decode(raw if codec is None else codec.decode(raw, ENCODED_ROW + row.target.encode())).post
    except msgspec.MsgspecError as error:
        raise LogDamaged(f"an outbox row can't be read: {error}") from error


def _outbox_post(change: Commit | Post) -> OutboxPost:
    if isinstance(change, Post) and not change.acks and not change.records and change.epoch is None and len(change.messages) == 1:
        send = change.messages[0]
        if isinstance(send.to, Key) and not send.refers:
            return OutboxPost(send.to, send.key, send.body, send.due_at_s, send.opens, change.blobs)
    raise ProgrammingError("an outbox takes posts of one message to an execution only; commit anything else to the store")


class OutboxTransactions:
    """Joins transactions of users on the database of an outbox, as `JoinsUserTransactions` does on that of a store. `codec` is that of the store."""

    def __init__(self, outbox: Outbox, codec: PayloadCodec | None, clock: Callable[[], float] = time.time) -> None:
        self.outbox, self.codec, self.clock = outbox, codec, clock

    async def meet(self) -> None:
        """See `JoinsUserTransactions.meet`. There is nothing to read."""

    @asynccontextmanager
    async def join(self, connection: Any) -> AsyncIterator["OutboxTransaction"]:
        """See `JoinsUserTransactions.join`. The connection is looked at when something is put into the outbox."""
        yield OutboxTransaction(self, connection)


class OutboxTransaction:
    """The part of a store that takes posts, within a transaction of a user's database, which does not know what the store has."""

    def __init__(self, transactions: OutboxTransactions, connection: Any) -> None:
        self._outbox, self._codec, self._clock = transactions.outbox, transactions.codec, transactions.clock
        self._connection = connection

    async def commit(self, changes: Sequence[Commit | Post]) -> list[ChangeAnswer]:
        """Puts each post into the outbox. Every start counts as one that creates an execution, because that is decided later.

        Raises:
            ProgrammingError: a change is not a post of one message to an execution.
        """
        check_changes(changes)
        for post in map(_outbox_post, changes):
            await self._outbox.put(self._connection, str(post.key), encode_body(post, self._codec))
        return [Committed(0, self._clock(), tuple(send.to for send in change.messages if isinstance(send.to, Key) and send.opens)) for change in changes]

    async def heads(self, which: HeadFilter = ALL_HEADS) -> list[Head]:
        """None: whether an execution exists is decided when the row is posted."""
        return []

    async def store_time(self) -> StoreTime:
        """The time of this computer."""
        return StoreTime(self._clock(), 0)
