"""Keeps checkpoints as records of a store, each whole or not at all.

There are three kinds of records. A *checkpoint* has all but the values of its channels. A *value* is one version of one channel, which all checkpoints of a
namespace that have the version share. A *write* is what a task wrote behind a checkpoint. One post puts a checkpoint and its new values.

Keys are made of the thread, the namespace and the id of the checkpoint, the last one inverted, so that the newest comes first in a list. What is larger than a
record may be continues in records behind it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from perdure.core.errors import StoreUnavailable
from perdure.core.limits import RECORD_BYTES_MAX
from perdure.core.record_format import decode_record_value, encode_record_value
from perdure.stores.protocol import Committed, Post, Store
from perdure.stores.records import PagePosition, RecordChange, RecordFilter, RecordKey, StoredRecord, record_position

CHECKPOINT, VALUE, WRITE = "langgraph checkpoint", "langgraph value", "langgraph write"
KINDS = (CHECKPOINT, VALUE, WRITE)
"""The kinds of records, in the order in which they are removed: values and writes without a checkpoint are not seen."""

PIECE_BYTES = RECORD_BYTES_MAX // 2
"""How much of a value is in one record. An encrypted record is somewhat larger than what it has."""

PAGE, BATCH = 200, 100
TRIES_MAX = 100
"""How often a change is made again because another one came between its reads and its post."""

Typed = tuple[str, bytes]
"""A serialized value: how it is serialized, and its bytes."""


class Place(NamedTuple):
    """The place of a checkpoint. Without an `id`, that of a namespace."""

    thread: str
    namespace: str
    id: str = ""

    @property
    def prefix(self) -> str:
        """The beginning of the keys of what is here."""
        inner = f"{inverted(self.id)}/" if self.id else ""
        return f"{thread_prefix(self.thread)}{_part(self.namespace)}/{inner}"


class StoredCheckpoint(msgspec.Struct, frozen=True, array_like=True):
    """A checkpoint without the values of its channels."""

    thread: str
    namespace: str
    id: str
    parent: str | None
    run: str
    checkpoint: Typed
    metadata: Typed
    versions: dict[str, str]

    @property
    def place(self) -> Place:
        """Its place."""
        return Place(self.thread, self.namespace, self.id)


class StoredWrite(msgspec.Struct, frozen=True, array_like=True):
    """A value that a task wrote into a channel. Special writes have a negative `index`."""

    task: str
    index: int
    channel: str
    value: Typed
    task_path: str


class _First(msgspec.Struct, frozen=True, array_like=True):
    """The content of a record: the beginning of a value, and how many records behind it have the rest."""

    more: int
    data: bytes


def thread_prefix(thread: str) -> str:
    """The beginning of the keys of a thread."""
    return f"{_part(thread)}/"


def inverted(id: str) -> str:
    """A text that sorts in the opposite order of ids."""
    return bytes(255 - byte for byte in id.encode("utf-8", "surrogatepass")).hex() + "~"


def _part(text: str) -> str:
    return quote(text, safe="", errors="surrogatepass")


def value_key(place: Place, channel: str, version: str) -> str:
    """The key of a version of a channel."""
    return f"{Place(place.thread, place.namespace).prefix}{_part(channel)}/{_part(version)}/"


def write_key(place: Place, task: str, index: int) -> str:
    """The key of a write."""
    return f"{place.prefix}{_part(task)}/{index}/"


class CheckpointRecords:
    """The checkpoints in a store, of one tenant."""

    def __init__(self, store: Store, tenant: str) -> None:
        self._store, self._tenant = store, tenant

    # Reads

    async def latest(self, place: Place) -> StoredCheckpoint | None:
        """The checkpoint of a place; of a namespace the newest."""
        async for found in self.checkpoints(place.prefix):
            return found
        return None

    async def checkpoints(self, prefix: str, before: str | None = None) -> AsyncIterator[StoredCheckpoint]:
        """The checkpoints below a prefix; in a namespace the newest first, and only those with ids less than `before`."""
        after = None if before is None else PagePosition(self._key(CHECKPOINT, f"{prefix}{inverted(before)}0"))
        async for _, data in self._read(CHECKPOINT, prefix, after):
            yield msgspec.msgpack.decode(data, type=StoredCheckpoint)

    async def values(self, one: StoredCheckpoint) -> dict[str, Typed]:
        """The values of the channels of a checkpoint. Channels that are empty there are left out."""
        found = await asyncio.gather(*(self._value(value_key(one.place, *at)) for at in one.versions.items()))
        return {channel: value for channel, value in zip(one.versions, found, strict=True) if value is not None}

    async def _value(self, key: str) -> Typed | None:
        async for _, data in self._read(VALUE, key):
            found: Typed = msgspec.msgpack.decode(data, type=Typed)
            return found
        return None

    async def writes(self, place: Place) -> list[StoredWrite]:
        """The writes behind a checkpoint, in the order in which a run applies them."""
        found = [msgspec.msgpack.decode(data, type=StoredWrite) async for _, data in self._read(WRITE, place.prefix)]
        return sorted(found, key=lambda one: (one.task_path, one.task, one.index))

    async def _read(self, kind: str, prefix: str, after: PagePosition | None = None) -> AsyncIterator[tuple[str, bytes]]:
        """The keys and the whole values below a prefix."""
        key, parts, more = "", list[bytes](), 0
        async for record in self._records(kind, prefix, after):
            payload = decode_record_value(record.value)
            if more:
                parts.append(payload)
                more -= 1
            else:
                first = msgspec.msgpack.decode(payload, type=_First)
                key, parts, more = record.key.key, [first.data], first.more
            if not more:
                yield key, b"".join(parts)

    async def _records(self, kind: str, prefix: str, after: PagePosition | None = None) -> AsyncIterator[StoredRecord]:
        while True:
            found = await self._store.records(RecordFilter(self._tenant, kind, prefix, after=after, limit=PAGE))
            for record in found:
                yield record
            if len(found) < PAGE:
                return
            after = record_position(found[-1])

    # Changes

    async def put(self, one: StoredCheckpoint, values: Mapping[tuple[str, str], Typed]) -> None:
        """Puts a checkpoint, in the place of one that it replaces, and the versions of channels that are not there yet, all in one post."""
        new = {(VALUE, value_key(one.place, *at)): msgspec.msgpack.encode(value) for at, value in values.items()}
        await self._change({(CHECKPOINT, one.place.prefix): msgspec.msgpack.encode(one)}, new)

    async def put_writes(self, place: Place, writes: Sequence[StoredWrite]) -> None:
        """Puts what a task wrote. Special writes replace those of their index, others stay as they were first written."""
        encoded = {(WRITE, write_key(place, one.task, one.index)): (one.index < 0, msgspec.msgpack.encode(one)) for one in writes}
        replacing = {key: data for key, (replaces, data) in encoded.items() if replaces}
        await self._change(replacing, {key: data for key, (replaces, data) in encoded.items() if not replaces})

    async def _change(self, replacing: Mapping[tuple[str, str], bytes], adding: Mapping[tuple[str, str], bytes]) -> None:
        """Writes whole values in one post: each of `replacing`, and of `adding` those whose key is not there.

        Nearly all values are new, so that is expected at first, and what is there is read only if it is not so.
        """
        for number in range(TRIES_MAX):
            changes = list[RecordChange]()
            for (kind, key), data in [*replacing.items(), *adding.items()]:
                present = {record.key.key: record.version async for record in self._records(kind, key)} if number else {}
                if present and (kind, key) in adding:
                    continue
                pieces = _pieces(key, data)
                changes += [RecordChange(self._key(kind, at), present.pop(at, 0), piece) for at, piece in pieces.items()]
                changes += [RecordChange(self._key(kind, at), version, None) for at, version in present.items()]
            if await self._post(changes):
                return
        raise StoreUnavailable(f"a checkpoint was changed by others {TRIES_MAX} times in a row; put it again")

    async def _post(self, changes: Sequence[RecordChange]) -> bool:
        """Posts changes, if there are any; returns False if another change of their records came before, and nothing was changed."""
        if not changes:
            return True
        (answer,) = await self._store.commit([Post(records=tuple(changes))])
        return isinstance(answer, Committed)

    async def remove(self, prefix: str, kinds: Iterable[str] = KINDS, wanted: Callable[[str], bool] = lambda key: True) -> None:
        """Removes all records below a prefix whose keys are `wanted`; of another change that comes between, some may stay.

        The records of one value are removed in one post, so that an interruption leaves no value without its beginning.
        """
        for kind in kinds:
            batch = list[RecordChange]()
            async for record in self._records(kind, prefix):
                if len(batch) >= BATCH and record.key.key.endswith("/"):
                    _ = await self._post(batch)
                    batch.clear()
                if wanted(record.key.key):
                    batch.append(RecordChange(record.key, record.version, None))
            _ = await self._post(batch)

    async def remove_unused_values(self, place: Place) -> None:
        """Removes the versions of channels that no checkpoint of a namespace has. A checkpoint comes with its values, so values are listed first."""
        prefix = Place(place.thread, place.namespace).prefix
        present = {record.key.key async for record in self._records(VALUE, prefix)}
        used = {value_key(one.place, *at) async for one in self.checkpoints(prefix) for at in one.versions.items()}
        await self.remove(prefix, (VALUE,), lambda key: key in present and key[: key.rindex("/") + 1] not in used)

    async def copy(self, source: str, target: str) -> None:
        """Copies a thread: first its values and writes, then its checkpoints."""
        for kind in reversed(KINDS):
            async for key, data in self._read(kind, thread_prefix(source)):
                if kind == CHECKPOINT:
                    data = msgspec.msgpack.encode(msgspec.structs.replace(msgspec.msgpack.decode(data, type=StoredCheckpoint), thread=target))
                await self._change({(kind, thread_prefix(target) + key.removeprefix(thread_prefix(source))): data}, {})

    def _key(self, kind: str, key: str) -> RecordKey:
        return RecordKey(self._tenant, kind, key)


def _pieces(key: str, data: bytes) -> dict[str, bytes]:
    """The records of a value, by their keys."""
    parts = [data[begin : begin + PIECE_BYTES] for begin in range(0, max(len(data), 1), PIECE_BYTES)]
    first = msgspec.msgpack.encode(_First(len(parts) - 1, parts[0]))
    pieces = {key: first, **{f"{key}{number:06}": part for number, part in enumerate(parts[1:], 1)}}
    return {at: encode_record_value(piece) for at, piece in pieces.items()}


def has_values(metadata: Mapping[str, Any], conditions: Mapping[str, Any]) -> bool:
    """Returns whether metadata has all of these values."""
    return all(name in metadata and metadata[name] == value for name, value in conditions.items())
