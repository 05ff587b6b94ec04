"""A store that encodes payloads before it stores them and decodes what it reads: it compresses them, encrypts them, or both.

Log rows, message bodies, blobs and values of records are payloads. Everything else stays in the clear, because stores order, match and list by it: tenants,
names of workflows and queues, ids, message keys, lanes, statuses, times, sizes, attributes, and the descriptions of holders.

Each payload is bound to its place: a row to its execution and to the versions before and after it, so that moved, dropped or reordered rows are detected; a
message body to its address and key; a blob to its stored name; the value of a record to its key and version. A payload that does not begin with
`payload_header.ENCODED_MARKER` was written without a codec and is read as it is.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from itertools import chain
from struct import Struct
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from perdure.core import payload_header
from perdure.core.envelopes import Ack, OutgoingMessage, QueuedMessage
from perdure.core.error_text import exception_summary, safe_text
from perdure.core.errors import SealedPayload
from perdure.core.paths import Address, Key
from perdure.core.thread_calls import without_stop_iteration
from perdure.stores.blob_marks import BLOB_REMOVAL, REMOVAL_BATCH, BlobRemoval, BlobTotals
from perdure.stores.blob_store import BLOB_SWEEP
from perdure.stores.change_feed import CHANGE_FEED
from perdure.stores.encryption import NOT_ENCRYPTED, Encrypted
from perdure.stores.month_removal import MONTH_REMOVAL
from perdure.stores.move_mark import MOVE_MARK
from perdure.stores.payload_codec import PayloadCodec, payload_text
from perdure.stores.protocol import (
    ALL_HEADS,
    TRANSACTIONS,
    ChangeAnswer,
    Claim,
    Claimed,
    ClaimedExecution,
    Commit,
    Committed,
    Head,
    HeadFilter,
    HolderStatus,
    LogRow,
    Post,
    QueueLimits,
    QueueStatus,
    Store,
    StoredLog,
    StoreTime,
    Superseded,
    TransactionalStore,
    TransactionGuard,
    TransactionRaised,
    TransactionRefused,
    check_changes,
)
from perdure.stores.records import RecordChange, RecordFilter, RecordKey, StoredRecord
from perdure.stores.secret_vault import VAULT
from perdure.stores.store_parts import STORE_KIND, PartName, StoreParts
from perdure.stores.user_transactions import USER_TRANSACTIONS, JoinsUserTransactions, UserTransactionStore

THREAD_BYTES_MIN = 256 * 1024
"""From this total size on, payloads are encoded and decoded in another thread, so that the event loop is not blocked."""

T = TypeVar("T")
MARK = bytes((payload_header.ENCODED_MARKER,))
WHOLE, ROW, REFUSED = MARK + payload_header.WHOLE_FRAME, MARK + payload_header.ROW_FRAME, MARK + payload_header.REFUSED_FRAME
SPAN = Struct(">QQ")


class PayloadSealer:
    """Frames payloads and binds them to their places, around a codec. It raises every failure of the codec as `SealedPayload`."""

    def __init__(self, codec: PayloadCodec) -> None:
        self._codec = codec
        self._required = isinstance(codec, Encrypted) and codec.required
        self._names = codec.names if isinstance(codec, Encrypted) else _own_name

    def seal_row(self, key: Key, start: int, end: int, row: bytes) -> bytes:
        """Encodes a log row that holds the events of `key` after version `start` up to version `end`."""
        return ROW + SPAN.pack(start, end) + self._encode(row, _payload_identity("row", key, start, end))

    def open_row(self, key: Key, stored: bytes) -> tuple[bytes, tuple[int, int] | None]:
        """Decodes a row. Returns it with the versions that it lies between, or with None if it was written without a codec."""
        if stored[:1] != MARK:
            return self._plain(stored, _payload_identity("row", key)), None
        if stored[:2] != ROW or len(stored) < 2 + SPAN.size:
            raise _altered_error(_payload_identity("row", key))
        start, end = SPAN.unpack_from(stored, 2)
        return self._decode(stored[2 + SPAN.size :], _payload_identity("row", key, start, end)), (start, end)

    def seal_message(self, to: Address, key: str, body: bytes) -> bytes:
        """Encodes the body of a message."""
        return WHOLE + self._encode(body, _payload_identity("mail", to, key))

    def open_message(self, to: Address, key: str, stored: bytes) -> bytes:
        """Decodes what `seal_message` returned."""
        return self._open(stored, _payload_identity("mail", to, key))

    def seal_record(self, key: RecordKey, version: int, value: bytes) -> bytes:
        """Encodes the value that a record has at a version."""
        return WHOLE + self._encode(value, _payload_identity("record", key, version))

    def open_record(self, key: RecordKey, version: int, stored: bytes) -> bytes:
        """Decodes what `seal_record` returned."""
        return self._open(stored, _payload_identity("record", key, version))

    def seal_blob(self, name: str, payload: bytes) -> bytes:
        """Encodes a blob that is stored as `name`."""
        return WHOLE + self._encode(payload, _payload_identity("blob", name))

    def open_blob(self, name: str, stored: bytes) -> bytes:
        """Decodes what `seal_blob` returned. A blob that was written without a codec must have the hash that is its name."""
        about = _payload_identity("blob", name)
        if stored[:1] != MARK and len(name) == 64 and not self._required and sha256(stored).hexdigest() != name:
            raise _altered_error(about)
        return self._open(stored, about)

    def names(self, sha256: str) -> tuple[str, ...]:
        """Returns the names under which a blob may be stored. New blobs get the first."""
        return self._names(sha256)

    def log(self, log: StoredLog, after: int) -> StoredLog:
        """Decodes the rows that were read after version `after`, and checks that they follow each other without a gap up to the head's version."""
        rows: list[LogRow] = []
        expected: int | None = after
        for number, stored in enumerate(log.rows):
            row, span = self.open_row(log.head.key, stored.payload)
            if span is not None:
                start, end = span
                if (start > after if number == 0 else expected not in (start, None)) or (number == len(log.rows) - 1 and end != log.head.version):
                    raise SealedPayload(
                        payload_text(_payload_identity("row", log.head.key, start, end)),
                        "is not where it was written: rows of the log are missing or moved. Restore the database from a backup",
                    )
            expected = None if span is None else span[1]
            rows.append(LogRow(stored.version, row))
        return StoredLog(log.head, tuple(rows))

    def _open(self, stored: bytes, about: bytes) -> bytes:
        if stored[:1] != MARK:
            return self._plain(stored, about)
        if stored[:2] != WHOLE:
            raise _altered_error(about)
        return self._decode(stored[2:], about)

    def _encode(self, raw: bytes, about: bytes) -> bytes:
        return self._made("encode", lambda: self._codec.encode(raw, about), about)

    def _decode(self, stored: bytes, about: bytes) -> bytes:
        return self._made("decode", lambda: self._codec.decode(stored, about), about)

    def _made(self, verb: str, make: Callable[[], bytes], about: bytes) -> bytes:
        """Calls a method of the codec, which is the user's code, and checks what it returns."""
        codec = safe_text(lambda: type(self._codec).__qualname__, "codec")
        try:
            made = make()
        except SealedPayload:
            raise
        except BaseException as error:
            raise _codec_error(about, f"{codec}.{verb} raised {exception_summary(error)}") from error
        if type(made) is not bytes:
            raise _codec_error(about, f"{codec}.{verb} returned {safe_text(lambda: type(made).__name__, 'an object')} in place of bytes")
        return made

    def _plain(self, stored: bytes, about: bytes) -> bytes:
        if self._required:
            raise SealedPayload(payload_text(about), NOT_ENCRYPTED)
        return stored


class EncodedStore:
    """A `Store` that stores what it is given in `inner`, encoded by `codec`. Closing it closes `inner`.

    With `here`, it encodes in the calling thread whatever the size: within a transaction of a user, nothing may be awaited but the connection.
    """

    def __init__(self, inner: Store, codec: PayloadCodec, here: bool = False) -> None:
        self.inner = inner
        self._codec = codec
        self._coding = PayloadSealer(codec)
        self._do = _run_inline if here else _run_in_thread_if_large
        self._optional = StoreParts() if here else self._encoded_parts()

    async def commit(self, changes: Sequence[Commit | Post]) -> list[ChangeAnswer]:
        """See `Store.commit`."""
        asked = tuple(changes)
        check_changes(asked)
        return await self.inner.commit(await self._do(lambda: [self.sealed(change) for change in asked], chain.from_iterable(map(_payloads, asked))))

    async def claim(self, claim: Claim) -> Claimed:
        """See `Store.claim`. A body that can't be decoded is replaced by a refusal with the reason, so that the rest of the claim is usable."""
        claimed = await self.inner.claim(claim)
        if not claimed.executions and not claimed.work:
            return claimed

        def opened() -> Claimed:
            executions = tuple(ClaimedExecution(one.head, tuple(map(self._handed, one.messages))) for one in claimed.executions)
            return replace(claimed, executions=executions, work=tuple(map(self._handed, claimed.work)))

        return await self._do(opened, (message.body for message in chain(claimed.work, *(one.messages for one in claimed.executions))))

    async def read(self, key: Key, after: int = 0) -> StoredLog | None:
        """See `Store.read`.

        Raises:
            SealedPayload: a row can't be decoded here, or is not where it was written.
        """
        log = await self.inner.read(key, after)
        return log if log is None or not log.rows else await self._do(lambda: self._coding.log(log, after), log.payloads)

    async def heads(self, which: HeadFilter = ALL_HEADS) -> list[Head]:
        """See `Store.heads`."""
        return await self.inner.heads(which)

    async def messages(self, to: Address) -> list[QueuedMessage]:
        """See `Store.messages`.

        Raises:
            SealedPayload: one can't be decoded here, or is not where it was sent.
        """
        messages = await self.inner.messages(to)
        opened = self._coding.open_message
        return await self._do(lambda: [replace(one, body=opened(one.to, one.key, one.body)) for one in messages], (one.body for one in messages))

    async def are_queued(self, messages: Sequence[Ack]) -> list[bool]:
        """See `Store.are_queued`."""
        return await self.inner.are_queued(messages)

    async def record(self, key: RecordKey) -> StoredRecord | None:
        """See `Store.record`.

        Raises:
            SealedPayload: its value can't be decoded here, or is not what was stored there.
        """
        record = await self.inner.record(key)
        return None if record is None else (await self._opened([record]))[0]

    async def records(self, which: RecordFilter) -> list[StoredRecord]:
        """See `Store.records`.

        Raises:
            SealedPayload: as with `record`, for any of them.
        """
        return await self._opened(await self.inner.records(which))

    async def _opened(self, records: list[StoredRecord]) -> list[StoredRecord]:
        def opened() -> list[StoredRecord]:
            return [replace(one, value=self._coding.open_record(one.key, one.version, one.value)) for one in records]

        return await self._do(opened, (one.value for one in records))

    async def store_time(self) -> StoreTime:
        """See `Store.store_time`."""
        return await self.inner.store_time()

    async def renew(self, holder: str, lease_s: float, about: bytes = b"") -> StoreTime:
        """See `Store.renew`. The descriptions of holders stay in the clear."""
        return await self.inner.renew(holder, lease_s, about)

    async def leases(self) -> list[HolderStatus]:
        """See `Store.leases`."""
        return await self.inner.leases()

    async def limit(self, queue: str, limits: QueueLimits | None, tenant: str | None = None) -> None:
        """See `Store.limit`."""
        await self.inner.limit(queue, limits, tenant)

    async def queues(self) -> list[QueueStatus]:
        """See `Store.queues`."""
        return await self.inner.queues()

    async def relay(self, limit: int = 100) -> int:
        """See `Store.relay`."""
        return await self.inner.relay(limit)

    async def drop_expired(self, limit: int = 100) -> list[QueuedMessage]:
        """See `Store.drop_expired`. A body that can't be decoded is replaced by a refusal, since the message is dropped already."""
        return [self._handed(message) for message in await self.inner.drop_expired(limit)]

    async def drop_expired_records(self, limit: int = 100) -> int:
        """See `Store.drop_expired_records`."""
        return await self.inner.drop_expired_records(limit)

    async def raise_epoch(self) -> int:
        """See `Store.raise_epoch`."""
        return await self.inner.raise_epoch()

    async def blob(self, sha256: str) -> bytes | None:
        """See `Store.blob`.

        Raises:
            SealedPayload: it can't be decoded here, or is not what was stored under this name.
        """
        names = self._coding.names(sha256)
        for name in names if len(names) == 1 else names * 2:  # a rekey may rename the blob between two lookups, so try each name twice
            if (stored := await self.inner.blob(name)) is not None:
                found = stored
                return await self._do(lambda: self._coding.open_blob(name, found), (found,))  # noqa: B023  # called before the next iteration
        return None

    async def removed_at(self, sha256: str) -> float | None:
        """See `Store.removed_at`."""
        times_s = [await self.inner.removed_at(name) for name in self._coding.names(sha256)]
        return next((at_s for at_s in times_s if at_s is not None), None)

    def on_wake(self, notify: Callable[[], None]) -> Callable[[], None]:
        """See `Store.on_wake`."""
        return self.inner.on_wake(notify)

    def on_change(self, notify: Callable[[], None]) -> Callable[[], None]:
        """See `Store.on_change`."""
        return self.inner.on_change(notify)

    def part(self, name: PartName[T]) -> T | None:
        """See `Store.part`. Parts of the inner store are encoded as well. Two are as they are: the vault, whose values are encrypted
        already, and the change feed, which ships payloads as they are stored; restore them under the same keys."""
        return self._optional.get(name)

    async def close(self) -> None:
        """See `Store.close`."""
        await self.inner.close()

    def _encoded_parts(self) -> StoreParts:
        parts = StoreParts()
        handed_on: tuple[PartName[Any], ...] = (STORE_KIND, CHANGE_FEED, VAULT, BLOB_SWEEP, MONTH_REMOVAL, MOVE_MARK)
        for name in handed_on:
            if (part := self.inner.part(name)) is not None:
                parts.having(name, part)
        if (removal := self.inner.part(BLOB_REMOVAL)) is not None:
            parts.having(BLOB_REMOVAL, EncodedBlobRemoval(removal, self._coding))
        if (transactions := self.inner.part(TRANSACTIONS)) is not None:
            parts.having(TRANSACTIONS, EncodedTransactions(transactions, self.sealed))
        if (joins := self.inner.part(USER_TRANSACTIONS)) is not None:
            parts.having(USER_TRANSACTIONS, EncodedUserTransactions(joins, self._codec))
        return parts

    def sealed(self, change: Commit | Post) -> Commit | Post:
        """Encodes the payloads of a change."""
        sends = tuple(self._sent(send) for send in change.messages)
        blobs = tuple((name := self._coding.names(sha256)[0], self._coding.seal_blob(name, payload)) for sha256, payload in change.blobs)
        acks = tuple(ack if ack.unleased is None else replace(ack, unleased=self._sent(ack.unleased)) for ack in change.acks)
        if isinstance(change, Post):
            return replace(change, messages=sends, acks=acks, blobs=blobs, records=tuple(map(self._sealed_record, change.records)))
        key, version = change.key, change.version
        before = 0 if change.compacted == b"" else version  # the row then stands for all earlier events, too
        row = self._coding.seal_row(key, before, version + change.count, change.row) if change.count else change.row
        compacted = self._coding.seal_row(key, 0, version, change.compacted) if change.compacted else change.compacted
        return replace(change, row=row, compacted=compacted, messages=sends, acks=acks, blobs=blobs)

    def _sent(self, send: OutgoingMessage) -> OutgoingMessage:
        refers = tuple(self._coding.names(sha256) for (sha256,) in send.refers)
        return replace(send, body=self._coding.seal_message(send.to, send.key, send.body), refers=refers)

    def _sealed_record(self, change: RecordChange) -> RecordChange:
        if change.value is None:
            return change
        return replace(change, value=self._coding.seal_record(change.key, change.version + 1, change.value))

    def _handed(self, message: QueuedMessage) -> QueuedMessage:
        try:
            return replace(message, body=self._coding.open_message(message.to, message.key, message.body))
        except SealedPayload as refusal:
            return replace(message, body=REFUSED + str(refusal).encode())


def codec_of(store: Store) -> PayloadCodec | None:
    """The codec of what a store keeps; None if it is kept as it is."""
    return store._codec if isinstance(store, EncodedStore) else None


class EncodedTransactions:
    """A `TransactionalStore` whose posts are encoded by `seal`."""

    def __init__(self, inner: TransactionalStore, seal: Callable[[Commit | Post], Commit | Post]) -> None:
        self._inner, self._seal = inner, seal

    async def transact(
        self, guard: TransactionGuard, work: Callable[[Any], Coroutine[Any, Any, Post]]
    ) -> Committed | Superseded | TransactionRefused | TransactionRaised:
        """See `TransactionalStore.transact`."""

        async def sealing(transaction: Any) -> Post:
            post = self._seal(await work(transaction))
            assert isinstance(post, Post), "sealing keeps the type"
            return post

        return await self._inner.transact(guard, sealing)

    async def is_same_database(self, connection: Any) -> bool:
        """See `TransactionalStore.is_same_database`."""
        return await self._inner.is_same_database(connection)


class EncodedUserTransactions:
    """A `JoinsUserTransactions` whose stores encode by `codec`."""

    def __init__(self, inner: JoinsUserTransactions, codec: PayloadCodec) -> None:
        self._inner, self._codec = inner, codec

    async def meet(self) -> None:
        """See `JoinsUserTransactions.meet`."""
        await self._inner.meet()

    @asynccontextmanager
    async def join(self, connection: Any) -> AsyncIterator[UserTransactionStore]:
        """See `JoinsUserTransactions.join`."""
        async with self._inner.join(connection) as within:
            yield EncodedStore(within, self._codec, here=True)  # type: ignore[arg-type]  # only its methods are called


class EncodedBlobRemoval:
    """A `BlobRemoval` by hashes. Each blob may be stored under one of several names."""

    def __init__(self, inner: BlobRemoval, coding: PayloadSealer) -> None:
        self._inner, self._coding = inner, coding

    async def mark(self, sweep: str) -> None:
        """See `BlobRemoval.mark`."""
        await self._inner.mark(sweep)

    async def keep(self, names: Sequence[str]) -> None:
        """See `BlobRemoval.keep`."""
        await self._inner.keep(self._names(names))

    async def marked(self, sweep: str) -> BlobTotals:
        """See `BlobRemoval.marked`."""
        return await self._inner.marked(sweep)

    async def remove(self, sweep: str, noted: Sequence[str] | None = None, limit: int = REMOVAL_BATCH) -> BlobTotals:
        """See `BlobRemoval.remove`."""
        return await self._inner.remove(sweep, None if noted is None else self._names(noted), limit)

    async def unmark(self, sweep: str) -> None:
        """See `BlobRemoval.unmark`."""
        await self._inner.unmark(sweep)

    async def note(self, removed: Mapping[str, float]) -> None:
        """See `BlobRemoval.note`."""
        await self._inner.note({self._coding.names(sha256)[0]: at_s for sha256, at_s in removed.items()})

    async def unclaimed(self) -> list[QueuedMessage]:
        """See `BlobRemoval.unclaimed`."""
        return [replace(one, body=self._coding.open_message(one.to, one.key, one.body)) for one in await self._inner.unclaimed()]

    def _names(self, hashes: Sequence[str]) -> list[str]:
        return [name for sha256 in hashes for name in self._coding.names(sha256)]


async def _run_in_thread_if_large(do: Callable[[], T], payloads: Iterable[bytes]) -> T:
    """Runs `do` in another thread if the payloads are large."""
    return await asyncio.to_thread(without_stop_iteration(do)) if sum(map(len, payloads)) >= THREAD_BYTES_MIN else do()


async def _run_inline(do: Callable[[], T], _: Iterable[bytes]) -> T:
    return do()


def _payloads(change: Commit | Post) -> Iterable[bytes]:
    yield from (send.body for send in change.messages)
    yield from (payload for _, payload in change.blobs)
    if isinstance(change, Commit):
        yield change.row
        yield change.compacted or b""
    else:
        yield from (record.value or b"" for record in change.records)


def _payload_identity(*place: object) -> bytes:
    """Encodes what a payload is and where it belongs. No two places have the same encoding."""
    return _encode(place)


def _codec_error(about: bytes, why: str) -> SealedPayload:
    return SealedPayload(
        payload_text(about), f"could not be coded: {why}. Correct the codec; what is stored has not changed, and Perdure attempts the work again by itself"
    )


def _altered_error(about: bytes) -> SealedPayload:
    return SealedPayload(payload_text(about), "was changed since it was written. Restore the database from a backup")


def _own_name(sha256: str) -> tuple[str, ...]:
    return (sha256,)


_encode = msgspec.json.Encoder().encode
