"""A store whose payloads are encoded on their way in and decoded on their way out: compressed, encrypted, or both.

Log rows, mail and blobs are payloads. Everything else stays in the clear, since stores order, match and list by it: tenants, names of
workflows and queues, ids, keys of mail, lanes, statuses, times, sizes, and what holders say about themselves.

Each payload is bound to its place: a row to its execution and the versions before and behind it, so that rows which were moved, dropped
or reordered are noticed; mail to its address and key; a blob to the name that it is kept under. Whatever does not begin with
`wire.ENCODED_MARKER` was written without a codec, and is read as it is.
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
from perdure.stores.blob_marks import REMOVAL_BATCH, BlobRemoval, BlobTotals, blob_removal_of
from perdure.stores.encryption import NOT_ENCRYPTED, Encrypted
from perdure.stores.payload_codec import PayloadCodec, payload_text
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
    Superseded,
    TransactionGuard,
    TransactionRaised,
    TransactionRefused,
)
from perdure.stores.user_transactions import UserTransactionStore, expect_user_transactions

THREAD_BYTES_MIN = 256 * 1024
"""From this size on, payloads are encoded and decoded in another thread: the loop has other things to do meanwhile."""

T = TypeVar("T")
MARK = bytes((payload_header.ENCODED_MARKER,))
WHOLE, ROW, REFUSED = MARK + payload_header.WHOLE_FRAME, MARK + payload_header.ROW_FRAME, MARK + payload_header.REFUSED_FRAME
SPAN = Struct(">QQ")


class PayloadSealer:
    """How payloads are framed and bound to their places, around what a codec makes of them. A codec that fails in any way is a `SealedPayload`."""

    def __init__(self, codec: PayloadCodec) -> None:
        self._codec = codec
        self._required = isinstance(codec, Encrypted) and codec.required
        self._names = codec.names if isinstance(codec, Encrypted) else _own_name

    def seal_row(self, key: Key, start: int, end: int, row: bytes) -> bytes:
        """A log row that holds the events of `key` behind version `start` up to version `end`."""
        return ROW + SPAN.pack(start, end) + self._encode(row, _payload_identity("row", key, start, end))

    def open_row(self, key: Key, stored: bytes) -> tuple[bytes, tuple[int, int] | None]:
        """A row, and which versions it stands between; None if it was written without a codec."""
        if stored[:1] != MARK:
            return self._plain(stored, _payload_identity("row", key)), None
        if stored[:2] != ROW or len(stored) < 2 + SPAN.size:
            raise _altered_error(_payload_identity("row", key))
        start, end = SPAN.unpack_from(stored, 2)
        return self._decode(stored[2 + SPAN.size :], _payload_identity("row", key, start, end)), (start, end)

    def seal_message(self, to: Address, key: str, body: bytes) -> bytes:
        """The body of mail."""
        return WHOLE + self._encode(body, _payload_identity("mail", to, key))

    def open_message(self, to: Address, key: str, stored: bytes) -> bytes:
        """What `seal_mail` was given."""
        return self._open(stored, _payload_identity("mail", to, key))

    def seal_blob(self, name: str, payload: bytes) -> bytes:
        """A blob that will be kept as `name`."""
        return WHOLE + self._encode(payload, _payload_identity("blob", name))

    def open_blob(self, name: str, stored: bytes) -> bytes:
        """What `seal_blob` was given. What was written without a codec has to have the hash that it is called by."""
        about = _payload_identity("blob", name)
        if stored[:1] != MARK and len(name) == 64 and not self._required and sha256(stored).hexdigest() != name:
            raise _altered_error(about)
        return self._open(stored, about)

    def names(self, sha256: str) -> tuple[str, ...]:
        """The names that a blob may be kept under; new ones get the first."""
        return self._names(sha256)

    def log(self, log: StoredLog, after: int) -> StoredLog:
        """The rows that were read after version `after`, each in its place: from there on, and without a gap up to the head's version."""
        rows: list[bytes] = []
        expected: int | None = after
        for number, stored in enumerate(log.rows):
            row, span = self.open_row(log.head.key, stored)
            if span is not None:
                start, end = span
                if (start > after if number == 0 else expected not in (start, None)) or (number == len(log.rows) - 1 and end != log.head.version):
                    raise SealedPayload(
                        payload_text(_payload_identity("row", log.head.key, start, end)), "is not where it was written: rows of the log are missing or moved"
                    )
            expected = None if span is None else span[1]
            rows.append(row)
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
        """What a method of the codec returns, which is code of the user."""
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
    """A `Store` that keeps what it is given in `inner`, encoded by `codec`. Closing it closes `inner`.

    It does all of it in the thread that asks if it is `here`: within a transaction of a user nothing is awaited that the connection does not await.
    """

    def __init__(self, inner: Store, codec: PayloadCodec, here: bool = False) -> None:
        self.inner = inner
        self._codec = codec
        self._coding = PayloadSealer(codec)
        self._do = _run_inline if here else _run_in_thread_if_large

    async def commit(self, changes: Sequence[Commit | Post]) -> list[ChangeAnswer]:
        """See `Store.commit`."""
        asked = tuple(changes)
        return await self.inner.commit(await self._do(lambda: [self._sealed(change) for change in asked], chain.from_iterable(map(_payloads, asked))))

    async def claim(self, claim: Claim) -> Claimed:
        """See `Store.claim`. Mail that can't be decoded comes as a refusal, with the reason: others have to go on."""
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
        return log if log is None or not log.rows else await self._do(lambda: self._coding.log(log, after), log.rows)

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

    async def store_time(self) -> StoreTime:
        """See `Store.store_time`."""
        return await self.inner.store_time()

    async def renew(self, holder: str, lease_s: float, about: bytes = b"") -> StoreTime:
        """See `Store.renew`. What holders say about themselves stays in the clear."""
        return await self.inner.renew(holder, lease_s, about)

    async def leases(self) -> list[HolderStatus]:
        """See `Store.leases`."""
        return await self.inner.leases()

    async def limit(self, queue: str, limits: QueueLimits | None) -> None:
        """See `Store.limit`."""
        await self.inner.limit(queue, limits)

    async def queues(self) -> list[QueueStatus]:
        """See `Store.queues`."""
        return await self.inner.queues()

    async def relay(self, limit: int = 100) -> int:
        """See `Store.relay`."""
        return await self.inner.relay(limit)

    async def drop_expired(self, limit: int = 100) -> list[QueuedMessage]:
        """See `Store.drop_expired`. What can't be decoded comes as a refusal, since it is dropped already."""
        return [self._handed(message) for message in await self.inner.drop_expired(limit)]

    async def raise_epoch(self) -> int:
        """See `Store.raise_epoch`."""
        return await self.inner.raise_epoch()

    async def blob(self, sha256: str) -> bytes | None:
        """See `Store.blob`.

        Raises:
            SealedPayload: it can't be decoded here, or is not what was kept under this name.
        """
        names = self._coding.names(sha256)
        for name in names if len(names) == 1 else names * 2:  # it may get another of its names while it is looked for
            if (stored := await self.inner.blob(name)) is not None:
                found = stored
                return await self._do(lambda: self._coding.open_blob(name, found), (found,))  # noqa: B023  # called before the loop goes on
        return None

    async def removed_at(self, sha256: str) -> float | None:
        """See `Store.removed_at`."""
        times_s = [await self.inner.removed_at(name) for name in self._coding.names(sha256)]
        return next((at_s for at_s in times_s if at_s is not None), None)

    @property
    def blob_removal(self) -> BlobRemoval:
        """Removes blobs by the names that they are kept under."""
        return EncodedBlobRemoval(blob_removal_of(self.inner), self._coding)

    def on_wake(self, notify: Callable[[], None]) -> Callable[[], None]:
        """See `Store.on_wake`."""
        return self.inner.on_wake(notify)

    def on_change(self, notify: Callable[[], None]) -> Callable[[], None]:
        """See `Store.on_change`."""
        return self.inner.on_change(notify)

    async def close(self) -> None:
        """See `Store.close`."""
        await self.inner.close()

    async def transact(
        self, guard: TransactionGuard, work: Callable[[Any], Coroutine[Any, Any, Post]]
    ) -> Committed | Superseded | TransactionRefused | TransactionRaised:
        """See `TransactionalStore.transact`."""

        async def sealing(transaction: Any) -> Post:
            post = self._sealed(await work(transaction))
            assert isinstance(post, Post), "it was one"
            return post

        return await self.inner.transact(guard, sealing)  # type: ignore[attr-defined,no-any-return]  # see `perdure.stores.user_transactions.transactional_store_of`

    async def meet(self) -> None:
        """See `JoinsUserTransactions.meet`."""
        await expect_user_transactions(self.inner).meet()

    @asynccontextmanager
    async def join(self, connection: Any) -> AsyncIterator[UserTransactionStore]:
        """See `JoinsUserTransactions.join`."""
        async with expect_user_transactions(self.inner).join(connection) as within:
            yield EncodedStore(within, self._codec, here=True)  # type: ignore[arg-type]  # no more is asked of it than it has

    def _sealed(self, change: Commit | Post) -> Commit | Post:
        sends = tuple(self._sent(send) for send in change.messages)
        blobs = tuple((name := self._coding.names(sha256)[0], self._coding.seal_blob(name, payload)) for sha256, payload in change.blobs)
        acks = tuple(ack if ack.unleased is None else replace(ack, unleased=self._sent(ack.unleased)) for ack in change.acks)
        if isinstance(change, Post):
            return replace(change, messages=sends, acks=acks, blobs=blobs)
        key, version = change.key, change.version
        before = 0 if change.compacted == b"" else version  # then the row stands for all before it, too
        row = self._coding.seal_row(key, before, version + change.count, change.row) if change.count else change.row
        compacted = self._coding.seal_row(key, 0, version, change.compacted) if change.compacted else change.compacted
        return replace(change, row=row, compacted=compacted, messages=sends, acks=acks, blobs=blobs)

    def _sent(self, send: OutgoingMessage) -> OutgoingMessage:
        refers = tuple(self._coding.names(sha256) for (sha256,) in send.refers)
        return replace(send, body=self._coding.seal_message(send.to, send.key, send.body), refers=refers)

    def _handed(self, message: QueuedMessage) -> QueuedMessage:
        try:
            return replace(message, body=self._coding.open_message(message.to, message.key, message.body))
        except SealedPayload as refusal:
            return replace(message, body=REFUSED + str(refusal).encode())


class EncodedBlobRemoval:
    """A `BlobRemoval` by hashes, each of which may be kept under several names."""

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
    """Do it in another thread if there is much to do."""
    return await asyncio.to_thread(without_stop_iteration(do)) if sum(map(len, payloads)) >= THREAD_BYTES_MIN else do()


async def _run_inline(do: Callable[[], T], _: Iterable[bytes]) -> T:
    return do()


def _payloads(change: Commit | Post) -> Iterable[bytes]:
    yield from (send.body for send in change.messages)
    yield from (payload for _, payload in change.blobs)
    if isinstance(change, Commit):
        yield change.row
        yield change.compacted or b""


def _payload_identity(*place: object) -> bytes:
    """What a payload is and where it belongs: no two places are the same bytes."""
    return _encode(place)


def _codec_error(about: bytes, why: str) -> SealedPayload:
    return SealedPayload(
        payload_text(about), f"could not be coded: {why}. Mend the codec; what is stored has not changed, and the work is tried again by itself"
    )


def _altered_error(about: bytes) -> SealedPayload:
    return SealedPayload(payload_text(about), "was changed since it was written; restore the database from a backup")


def _own_name(sha256: str) -> tuple[str, ...]:
    return (sha256,)


_encode = msgspec.json.Encoder().encode
