"""A store in Redis or Valkey. Each operation is one call of one Lua script, which Redis runs alone and hence atomically.

Arguments and answers of the script are MessagePack, as msgspec encodes the structs of `perdure.stores.protocol`. Lua does not distinguish bytes from text, so
bytes are sent as text and returned after the answer. Redis does not roll back, so the script checks everything before it writes: only a condition that
Redis itself detects before the first write (no memory, a full disk, a replica) can refuse a change. All keys begin with one hash tag, to stay together in
a cluster.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from importlib import import_module
from importlib.resources import files
from operator import itemgetter
from typing import Any, TypeVar
from uuid import uuid4

import msgspec
from msgspec.structs import asdict, replace

from perdure.core.attribute_filter import AttributeCondition
from perdure.core.attributes import IndexedAttributes
from perdure.core.envelopes import Ack, NewExecution, OutgoingMessage, QueuedMessage, StartAdmission
from perdure.core.errors import ProgrammingError, StoreUnavailable
from perdure.core.limits import UNCLAIMED_MESSAGE_S
from perdure.core.paths import Address, Key, QueueAddress
from perdure.stores.blob_marks import BLOB_REMOVAL, REMOVAL_BATCH, BlobTotals
from perdure.stores.change_feed import (
    CHANGE_FEED,
    PAGE_BYTES_MAX,
    SHIPPED_MAX,
    RemovedBlob,
    RemovedExecution,
    RemovedMessage,
    RemovedRecord,
    Shipped,
    ShippedBlob,
    ShippedHead,
    ShippedItem,
    ShippedLimits,
    ShippedMessage,
    ShippedRecord,
    ShippedRow,
    no_feed_error,
)
from perdure.stores.protocol import (
    ALL_HEADS,
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
)
from perdure.stores.records import RecordChange, RecordFilter, RecordKey, Stale, StoredRecord
from perdure.stores.secret_vault import VAULT, SealedValue
from perdure.stores.store_parts import STORE_KIND, PartName, StoreParts

T = TypeVar("T")

PREFIX = "{perdure}:"
CONNECTIONS_MAX = 8
ANSWER_S = 30.0
"""How long to wait for a connection, and for an answer."""

READ_MAX = 1_000
"""How many executions or records one call of the script reads for a list; a list that passes over more takes several calls, and others get their turn."""

VERSION_DIGITS = 16
"""A row of a log is stored behind its version in so many digits."""

FAIRNESS, OPERATIONS, FEED = (files("perdure.stores").joinpath(name).read_text(encoding="utf-8") for name in ("fairness.lua", "redis.lua", "redis_feed.lua"))
SCRIPT = FAIRNESS + OPERATIONS + FEED + "return run()\n"


class _Message(msgspec.Struct):
    """A message as the script encodes it, without its body."""

    number: int
    to: list[str]
    key: str
    due_at_s: float
    deliveries: int
    lane: str
    priority: int


class _Head(Head, frozen=True, gc=False):
    """A head as the script encodes it, with its attributes as hexadecimal digits."""

    attributes: tuple[tuple[str, str], ...] = ()  # type: ignore[assignment]  # hexadecimal digits, which `_head` decodes
    message_at_s: float | None = msgspec.field(default=None, name="mail_at_s")


class _Record(msgspec.Struct):
    """A record as the script encodes it, without its value."""

    key: tuple[str, str, str]
    version: int
    changed_at_s: float
    attributes: list[tuple[str, str]] = []
    expires_at_s: float | None = None


class _Stale(msgspec.Struct):
    key: tuple[str, str, str]
    version: int


class _Admission(msgspec.Struct):
    attribute: str
    value: str
    max: int


class _Refused(msgspec.Struct):
    key: Key
    admission: _Admission
    present: int


class _Assignment(msgspec.Struct):
    head: _Head
    messages: list[_Message]


class _Change(msgspec.Struct):
    version: int = 0
    created: list[Key] = []
    superseded: bool = False
    conflict: bool = False
    head: _Head | None = None
    stale: _Stale | None = None
    refused: _Refused | None = None


class _Item(msgspec.Struct):
    """An item of the change feed as the script encodes it, without its bytes. `kind` says which fields count."""

    kind: str
    name: str = ""
    key: list[str] = []
    version: int | None = None
    at_s: float | None = None
    tenant: str = ""
    head: _Head | None = None
    message: _Message | None = None
    record: _Record | None = None
    limits: QueueLimits | None = None


class _Answer(msgspec.Struct):
    """The answer of the script to any operation."""

    now_s: float
    epoch: int
    wake: bool
    news: bool
    answers: list[_Change] = []
    executions: list[_Assignment] = []
    messages: list[_Message] = []
    next_at_s: float | None = None
    heads: list[_Head] = []
    leases: list[tuple[str, bool, int, int]] = []
    queues: list[QueueStatus] = []
    secrets: list[tuple[str, str, int, float]] = []
    done: bool = False
    queued: list[bool] = []
    marked: BlobTotals = BlobTotals()
    records: list[_Record] = []
    count: int = 0
    names: list[str] = []
    places: list[str] = []
    place: str | None = None
    items: list[_Item] = []
    position: int = 0
    more: bool = False


class RedisStore:
    """A `Store` in the Redis or Valkey server at `url` (``redis://user@host/0``).

    Acknowledged changes are as durable as the server is configured: with ``appendonly yes`` and ``appendfsync always`` they survive a loss of power, with
    ``everysec`` the last second may be lost, and without ``appendonly`` everything since the last snapshot. A replica that takes over may lack the latest
    changes; call `raise_epoch` then. The store belongs to one event loop; `renew` on another uses a connection of its own. Time is the server's,
    unless a test gives a `clock`.

    Raises:
        ProgrammingError: redis is not installed.
    """

    def __init__(self, url: str, clock: Callable[[], float] | None = None) -> None:
        try:
            self._redis: Any = import_module("redis.asyncio")
        except ImportError as missing:
            raise ProgrammingError('RedisStore needs redis; install it: pip install "perdure[redis]"') from missing
        self._errors = (import_module("redis.exceptions").RedisError, OSError)
        self._url, self._clock, self._name = url, clock, uuid4().hex.encode()
        self._listeners: dict[bytes, list[Callable[[], None]]] = {f"{PREFIX}wake".encode(): [], f"{PREFIX}news".encode(): []}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: Any = None
        self._listening: asyncio.Task[None] | None = None
        self._closed = False
        self.vault = RedisVault(self._ask)
        self.blob_removal = RedisBlobRemoval(self._ask)
        self._optional = (
            StoreParts()
            .having(STORE_KIND, "redis")
            .having(VAULT, self.vault)
            .having(BLOB_REMOVAL, self.blob_removal)
            .having(CHANGE_FEED, RedisChangeFeed(self._ask))
        )

    # The methods of `Store`, which documents them.

    async def commit(self, changes: Sequence[Commit | Post]) -> list[ChangeAnswer]:
        check_changes(changes)
        answer, _ = await self._ask("commit", [*map(_change, changes)])
        return [_change_answer(change, answer) for change in answer.answers]

    async def claim(self, claim: Claim) -> Claimed:
        answer, bodies = await self._ask("claim", claim)
        executions = tuple(ClaimedExecution(_head(assignment.head), _messages(assignment.messages, bodies)) for assignment in answer.executions)
        return Claimed(answer.now_s, executions, _messages(answer.messages, bodies), answer.next_at_s)

    async def read(self, key: Key, after: int = 0) -> StoredLog | None:
        answer, rows = await self._ask("read", {"key": key, "after": after})
        return StoredLog(_head(answer.heads[0]), tuple(LogRow(int(row[:VERSION_DIGITS]), row[VERSION_DIGITS:]) for row in rows)) if answer.heads else None

    async def heads(self, which: HeadFilter = ALL_HEADS) -> list[Head]:
        if which.order is None or which.tenant is not None:
            return [head for _, head in await self._listed_heads(which)]
        tenants, _ = await self._ask("tenants")
        found = [placed for tenant in tenants.names for placed in await self._listed_heads(replace(which, tenant=tenant))]
        return [head for _, head in sorted(found, key=itemgetter(0), reverse=which.order.descending)][: which.limit]

    async def _listed_heads(self, which: HeadFilter) -> list[tuple[str, Head]]:
        """Returns heads with their places in the list of an order."""
        after = None if which.after is None else asdict(which.after) | {"value": which.after.value.hex()}
        found: dict[Key, tuple[str, Head]] = {}
        conditions = {"where": _where(which.where), "any_of": [*map(_where, which.any_of)]}
        asked = asdict(which) | conditions | {"after": after, "read_max": READ_MAX, "place": None}
        while True:
            answer, _ = await self._ask("heads", asked | {"limit": which.limit - len(found)})
            places = answer.places or [""] * len(answer.heads)
            found.update((head.key, (place, _head(head))) for place, head in zip(places, answer.heads, strict=True))
            if answer.place is None:
                return [*found.values()]
            asked["place"] = answer.place

    async def messages(self, to: Address) -> list[QueuedMessage]:
        answer, bodies = await self._ask("messages", to)
        return [*_messages(answer.messages, bodies)]

    async def are_queued(self, messages: Sequence[Ack]) -> list[bool]:
        answer, _ = await self._ask("are_queued", messages)
        return answer.queued

    async def record(self, key: RecordKey) -> StoredRecord | None:
        answer, values = await self._ask("record", key)
        return next(_records(answer.records, values), None)

    async def records(self, which: RecordFilter) -> list[StoredRecord]:
        after = None if which.after is None else (which.after.key[2], which.after.value.hex())
        found: dict[RecordKey, StoredRecord] = {}
        asked = asdict(which) | {"where": _where(which.where), "after": after, "read_max": READ_MAX, "place": None}
        while True:
            answer, values = await self._ask("records", asked | {"limit": which.limit - len(found)})
            found.update((record.key, record) for record in _records(answer.records, values))
            if answer.place is None:
                return [*found.values()]
            asked["place"] = answer.place

    async def store_time(self) -> StoreTime:
        answer, _ = await self._ask("moment")
        return StoreTime(answer.now_s, answer.epoch)

    async def renew(self, holder: str, lease_s: float, about: bytes = b"") -> StoreTime:
        answer, _ = await self._ask("renew", {"holder": holder, "lease_s": lease_s, "about": _text(about)})
        return StoreTime(answer.now_s, answer.epoch)

    async def leases(self) -> list[HolderStatus]:
        answer, abouts = await self._ask("leases")
        return sorted((HolderStatus(*lease, about) for lease, about in zip(answer.leases, abouts, strict=True)), key=lambda lease: lease.holder)

    async def limit(self, queue: str, limits: QueueLimits | None, tenant: str | None = None) -> None:
        await self._ask("limit", {"queue": queue, "tenant": tenant or "", "limits": limits})

    async def queues(self) -> list[QueueStatus]:
        answer, _ = await self._ask("queues")
        return sorted(answer.queues, key=lambda queue: (queue.name, queue.tenant or ""))

    async def relay(self, limit: int = 100) -> int:
        return 0  # There is one reach, so nothing ever leaves it.

    async def drop_expired(self, limit: int = 100) -> list[QueuedMessage]:
        answer, bodies = await self._ask("sweep", {"waited_s": UNCLAIMED_MESSAGE_S, "limit": limit})
        return [*_messages(answer.messages, bodies)]

    async def drop_expired_records(self, limit: int = 100) -> int:
        answer, _ = await self._ask("drop_records", limit)
        return answer.count

    async def raise_epoch(self) -> int:
        answer, _ = await self._ask("raise_epoch")
        return answer.epoch

    async def blob(self, sha256: str) -> bytes | None:
        _, found = await self._ask("blob", sha256)
        return next((bytes(payload) for payload in found if payload is not None), None)

    async def removed_at(self, sha256: str) -> float | None:
        answer, _ = await self._ask("removed_at", sha256)
        return answer.next_at_s

    def on_wake(self, notify: Callable[[], None]) -> Callable[[], None]:
        return self._add_listener("wake", notify)

    def on_change(self, notify: Callable[[], None]) -> Callable[[], None]:
        return self._add_listener("news", notify)

    def part(self, name: PartName[T]) -> T | None:
        return self._optional.get(name)

    async def close(self) -> None:
        self._closed = True
        if self._client is not None:
            if self._listening is not None:
                self._listening.cancel()
                await asyncio.wait([self._listening])
            await self._client.aclose()

    # The script, and the connections that it is sent over.

    async def _ask(self, operation: str, asked: object = None) -> tuple[_Answer, Iterator[Any]]:
        clock = "" if self._clock is None else repr(self._clock())
        arguments = (operation, msgspec.msgpack.encode(asked), clock, self._name)
        async with self._connected() as client:
            first, *tail = await client.register_script(SCRIPT)(keys=[PREFIX], args=arguments)
        answer = _decode(first)
        for channel, is_notified in zip(self._listeners, (answer.wake, answer.news), strict=True):
            if is_notified:
                self._notify(channel)
        return answer, iter(tail)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Any]:
        """Yields a client of the running loop; on the loop of the store, it also receives notifications. It never retries, since a call may have succeeded."""
        loop = asyncio.get_running_loop()
        if self._loop is None or self._loop.is_closed():
            self._loop, self._client, self._listening, self._turn = loop, self._new_client(), None, asyncio.Lock()
        if self._closed:
            raise StoreUnavailable("the store has been closed; open a new one")
        try:
            if loop is not self._loop:
                async with self._new_client() as client:
                    yield client
            else:
                if any(self._listeners.values()):
                    await self._start_listening()
                yield self._client
        except self._errors as error:
            raise StoreUnavailable(f"Redis: {error or type(error).__name__}; check that it runs and that the store's URL is right") from error

    def _new_client(self) -> Any:
        never = import_module("redis.asyncio.retry").Retry(import_module("redis.backoff").NoBackoff(), 0)
        settings = {"protocol": 2, "retry": never, "socket_timeout": ANSWER_S, "socket_connect_timeout": ANSWER_S, "max_connections": CONNECTIONS_MAX}
        return self._redis.Redis.from_pool(self._redis.BlockingConnectionPool.from_url(self._url, timeout=None, **settings))

    async def _start_listening(self) -> None:
        """Subscribes to the notifications of other processes, unless the subscription is alive."""
        async with self._turn:
            if self._listening is None or self._listening.done():
                async with AsyncExitStack() as opened:
                    subscription = await opened.enter_async_context(self._client.pubsub())
                    await subscription.subscribe(*self._listeners)
                    for _ in self._listeners:
                        await subscription.get_message(timeout=ANSWER_S)
                    self._listening = asyncio.create_task(self._listen(subscription, opened.pop_all()))

    async def _listen(self, subscription: Any, opened: AsyncExitStack) -> None:
        async with opened:
            with suppress(*self._errors):
                while True:
                    message = await subscription.get_message(timeout=ANSWER_S)
                    if message is not None and message["data"] != self._name:  # This store has notified its own listeners already.
                        self._notify(message["channel"])

    def _add_listener(self, kind: str, notify: Callable[[], None]) -> Callable[[], None]:
        listeners = self._listeners[f"{PREFIX}{kind}".encode()]
        listeners.append(notify)
        return lambda: listeners.remove(notify) if notify in listeners else None

    def _notify(self, channel: bytes) -> None:
        for notify in tuple(self._listeners[channel]):
            notify()


class RedisVault:
    """A `Vault` in Redis. Replaced and removed secrets leave memory at once, and an append-only file when it is rewritten."""

    def __init__(self, ask: Callable[[str, object], Awaitable[tuple[_Answer, Iterator[Any]]]]) -> None:
        self._ask = ask

    async def read(self, tenant: str | None = None, name: str | None = None) -> list[SealedValue]:
        """See `Vault.read`."""
        answer, sealed = await self._ask("secrets", {"tenant": tenant, "name": name})
        rows = zip(answer.secrets, sealed, strict=True)
        return sorted((SealedValue(of, called, version, raw, at_s) for (of, called, version, at_s), raw in rows), key=lambda row: (row.tenant, row.name))

    async def keep(self, tenant: str, name: str, version: int, sealed: bytes) -> bool:
        """See `Vault.keep`."""
        answer, _ = await self._ask("keep_secret", {"place": (tenant, name), "version": version, "sealed": _text(sealed)})
        return answer.done

    async def drop(self, tenant: str, name: str) -> bool:
        """See `Vault.drop`."""
        answer, _ = await self._ask("drop_secret", (tenant, name))
        return answer.done

    async def wipe(self) -> bool:
        """Does nothing: the server erases old values itself."""
        return True


class RedisBlobRemoval:
    """A `BlobRemoval` in Redis."""

    def __init__(self, ask: Callable[[str, object], Awaitable[tuple[_Answer, Iterator[Any]]]]) -> None:
        self._ask = ask

    async def mark(self, sweep: str) -> None:
        """See `BlobRemoval.mark`."""
        await self._ask("mark_blobs", sweep)

    async def keep(self, names: Sequence[str]) -> None:
        """See `BlobRemoval.keep`."""
        await self._ask("keep_blobs", [*names])

    async def marked(self, sweep: str) -> BlobTotals:
        """See `BlobRemoval.marked`."""
        answer, _ = await self._ask("marked_blobs", sweep)
        return answer.marked

    async def remove(self, sweep: str, noted: Sequence[str] | None = None, limit: int = REMOVAL_BATCH) -> BlobTotals:
        """See `BlobRemoval.remove`."""
        answer, _ = await self._ask("remove_blobs", {"sweep": sweep, "noted": None if noted is None else [*noted], "limit": limit})
        return answer.marked

    async def unmark(self, sweep: str) -> None:
        """See `BlobRemoval.unmark`."""
        await self._ask("unmark_blobs", sweep)

    async def note(self, removed: Mapping[str, float]) -> None:
        """See `BlobRemoval.note`."""
        await self._ask("note_blobs", [*removed.items()])

    async def unclaimed(self) -> list[QueuedMessage]:
        """See `BlobRemoval.unclaimed`."""
        answer, bodies = await self._ask("unclaimed", None)
        return [*_messages(answer.messages, bodies)]


class RedisChangeFeed:
    """A `ChangeFeed` in Redis."""

    def __init__(self, ask: Callable[[str, object], Awaitable[tuple[_Answer, Iterator[Any]]]]) -> None:
        self._ask = ask

    async def begin_feed(self) -> None:
        """See `ChangeFeed.begin_feed`."""
        await self._ask("begin_feed", None)

    async def end_feed(self) -> None:
        """See `ChangeFeed.end_feed`."""
        await self._ask("end_feed", None)

    async def shipped(self, after: int, limit: int = SHIPPED_MAX) -> Shipped:
        """See `ChangeFeed.shipped`."""
        answer, payloads = await self._ask("shipped", {"after": after, "limit": limit, "bytes_max": PAGE_BYTES_MAX})
        if not answer.done:
            raise no_feed_error()
        return Shipped(answer.position, tuple(_shipped_item(item, payloads) for item in answer.items), answer.more)

    async def trim_feed(self, until: int) -> None:
        """See `ChangeFeed.trim_feed`."""
        await self._ask("trim_feed", until)

    async def restore(self, items: Sequence[ShippedItem]) -> None:
        """See `ChangeFeed.restore`. The server carries out the call as a whole."""
        await self._ask("restore", [*map(_restored_item, items)])


def _shipped_item(item: _Item, payloads: Iterator[bytes]) -> ShippedItem:
    """Decodes an item; one with bytes gets the next of `payloads`."""
    match item.kind:
        case "blob":
            return ShippedBlob(item.name, next(payloads))
        case "no blob":
            return RemovedBlob(item.name, item.at_s)
        case "row":
            return ShippedRow(Key(*item.key), LogRow(item.version or 0, next(payloads)))
        case "head" if item.head is not None:
            return ShippedHead(_head(item.head), item.version)
        case "no head":
            return RemovedExecution(Key(*item.key))
        case "message" if item.message is not None:
            return ShippedMessage(*_messages([item.message], payloads))
        case "no message":
            return RemovedMessage(_address(item.key), item.name)
        case "record" if item.record is not None:
            return ShippedRecord(*_records([item.record], payloads))
        case "no record":
            return RemovedRecord(RecordKey(*item.key))
        case "limits":
            return ShippedLimits(item.name, item.limits, item.tenant or None)
    raise AssertionError(f"the script has shipped something unknown: {item.kind}")


def _restored_item(item: ShippedItem) -> dict[str, object]:
    """Encodes an item for the script."""
    match item:
        case ShippedBlob(name, payload):
            return {"kind": "blob", "name": name, "bytes": _text(payload)}
        case RemovedBlob(name, at_s):
            return {"kind": "no blob", "name": name, "at_s": at_s}
        case ShippedRow(key, row):
            return {"kind": "row", "key": key, "version": row.version, "bytes": _text(row.payload)}
        case ShippedHead(head, first_version):
            return {"kind": "head", "head": asdict(head) | {"attributes": _in_hex(head.attributes)}, "version": first_version}
        case RemovedExecution(key):
            return {"kind": "no head", "key": key}
        case ShippedMessage(message):
            fields = asdict(message)
            return {"kind": "message", "bytes": _text(fields.pop("body")), "message": fields}
        case RemovedMessage(to, key):
            return {"kind": "no message", "key": to, "name": key}
        case ShippedRecord(record):
            record_fields = asdict(record)
            return {"kind": "record", "bytes": _text(record_fields.pop("value")), "record": record_fields | {"attributes": _in_hex(record.attributes)}}
        case RemovedRecord(key):
            return {"kind": "no record", "key": key}
        case ShippedLimits(queue, limits, tenant):
            return {"kind": "limits", "name": queue, "tenant": tenant or "", "limits": limits}
    raise TypeError(f"{item!r:.80} is not an item of a change feed")


def _change(change: Commit | Post) -> dict[str, object]:
    fields = asdict(change)
    fields["messages"] = [*map(_send, change.messages)]
    fields["acks"] = [asdict(ack) | {"unleased": ack.unleased and _send(ack.unleased)} for ack in change.acks]
    fields["blobs"] = [(name, _text(payload)) for name, payload in change.blobs]
    if isinstance(change, Commit):
        fields["row"], fields["compacted"] = _text(change.row), None if change.compacted is None else _text(change.compacted)
        fields["attributes"] = None if change.attributes is None else _in_hex(change.attributes)
    else:
        fields["records"] = [*map(_record_change, change.records)]
    return fields


def _record_change(change: RecordChange) -> dict[str, object]:
    return asdict(change) | {"value": None if change.value is None else _text(change.value), "attributes": _in_hex(change.attributes)}


def _records(encoded: Iterable[_Record], values: Iterator[bytes]) -> Iterator[StoredRecord]:
    """Decodes records; each gets the next of `values`."""
    for one in encoded:
        attributes = tuple((name, bytes.fromhex(value)) for name, value in one.attributes)
        yield StoredRecord(RecordKey(*one.key), one.version, next(values), attributes, one.changed_at_s, one.expires_at_s)


def _where(conditions: Iterable[AttributeCondition]) -> list[tuple[str, list[tuple[str, str]]]]:
    return [(condition.name, [(low.hex(), high.hex()) for low, high in condition.spans]) for condition in conditions]


def _send(send: OutgoingMessage) -> dict[str, object]:
    return asdict(send) | {"body": _text(send.body), "opens": send.opens and _opening(send.opens)}


def _opening(opens: NewExecution) -> dict[str, object]:
    limit = opens.admission
    return asdict(opens) | {"attributes": _in_hex(opens.attributes) or None, "admission": limit and asdict(limit) | {"value": limit.value.hex()}}


def _in_hex(attributes: IndexedAttributes) -> list[tuple[str, str]]:
    return [(name, value.hex()) for name, value in attributes]


def _head(encoded: _Head) -> Head:
    """Returns the head that the script has encoded."""
    return Head(**asdict(encoded) | {"attributes": tuple((name, bytes.fromhex(value)) for name, value in encoded.attributes)})


def _text(payload: bytes) -> msgspec.Raw:
    """Encodes bytes as MessagePack text, since the library of Redis knows only the types of the old format, which has no bytes."""
    return msgspec.Raw(b"\xdb" + len(payload).to_bytes(4, "big") + payload)


def _change_answer(change: _Change, answer: _Answer) -> ChangeAnswer:
    if change.superseded:
        return Superseded(answer.epoch)
    if change.stale is not None:
        return Stale(RecordKey(*change.stale.key), change.stale.version)
    if (refused := change.refused) is not None:
        admission = StartAdmission(refused.admission.attribute, bytes.fromhex(refused.admission.value), refused.admission.max)
        return Refused(refused.key, admission, refused.present)
    return Conflict(None if change.head is None else _head(change.head)) if change.conflict else Committed(change.version, answer.now_s, tuple(change.created))


def _messages(encoded: Iterable[_Message], bodies: Iterator[bytes]) -> tuple[QueuedMessage, ...]:
    """Decodes messages; each gets the next of `bodies`."""
    return tuple(
        QueuedMessage(message.number, _address(message.to), message.key, next(bodies), message.due_at_s, message.deliveries, message.lane, message.priority)
        for message in encoded
    )


def _address(parts: list[str]) -> Address:
    return Key(*parts) if len(parts) == 3 else QueueAddress(*parts)


_decode = msgspec.msgpack.Decoder(_Answer).decode
