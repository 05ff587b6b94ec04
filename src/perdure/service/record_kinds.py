"""Kinds of records: what a value is, what may be done with it, and typed reads and changes.

A kind is declared once, by the module that owns it, and listed in `perdure.service.known_records`. Its values are msgspec Structs, stored as MessagePack with
the header of `perdure.core.record_format`. A field that a later version adds has a default, so that records which are there already can be read.
"""

import dataclasses
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Generic, TypeVar

import msgspec

from perdure.core import limits
from perdure.core.attribute_filter import AttributeCondition, AttributeOrder
from perdure.core.attributes import AttributeValue, checked_attributes, index_attributes
from perdure.core.envelopes import OutgoingMessage
from perdure.core.errors import BadValue, LogDamaged, StaleRecord, StoreUnavailable
from perdure.core.record_format import decode_record_value, encode_record_value
from perdure.stores.protocol import Committed, Post, ReadOnlyStore, Store
from perdure.stores.records import PagePosition, RecordChange, RecordFilter, RecordKey, Stale, StoredRecord, record_position

V = TypeVar("V", bound=msgspec.Struct)

PAGE = 500
"""How many records one read returns where all are wanted."""


CHANGES_MAX = 20
"""How often a change is made again because another one came between its read and its post."""


class KeptValue(msgspec.Struct, Generic[V], frozen=True):
    """A value as it is stored: `key` is unique in its tenant and kind, and `version` is the one that a change has to expect."""

    key: str
    version: int
    value: V
    changed_at_s: float
    position: PagePosition


@dataclasses.dataclass(frozen=True)
class RecordKind(Generic[V]):
    """A kind of records. `name` is also what messages call one of them, such as ``definition``.

    `audited`: a change of one by a caller has an entry in the audit (see `AuditedStore`). `expires`: a record may have an end, at which it is removed; a kind
    without it refuses one. Copies of a store and what is shipped have all records of all kinds; exports are of executions, and have none.
    """

    name: str
    value: type[V]
    audited: bool = True
    expires: bool = False

    def key(self, tenant: str, key: str) -> RecordKey:
        """The key of a record of this kind."""
        return RecordKey(tenant, self.name, key)

    async def read(self, store: ReadOnlyStore, tenant: str, key: str) -> KeptValue[V] | None:
        """The record of a key; None if there is none.

        Raises:
            LogDamaged, LogVersionUnsupported, SealedPayload: it can't be read.
        """
        found = await store.record(self.key(tenant, key))
        return None if found is None else self.decode(found)

    async def page(
        self,
        store: ReadOnlyStore,
        tenant: str,
        prefix: str = "",
        *,
        where: tuple[AttributeCondition, ...] = (),
        order: AttributeOrder | None = None,
        after: PagePosition | None = None,
        limit: int = PAGE,
    ) -> list[KeptValue[V]]:
        """Up to `limit` records whose keys begin with `prefix` and that match `where`, in order of key or in `order`, behind `after`.

        Raises:
            LogDamaged, LogVersionUnsupported, SealedPayload: one can't be read.
        """
        found = await store.records(RecordFilter(tenant, self.name, prefix, where, order, after, limit))
        return [self.decode(record, order) for record in found]

    async def all(
        self, store: ReadOnlyStore, tenant: str, prefix: str = "", where: tuple[AttributeCondition, ...] = (), after: PagePosition | None = None
    ) -> AsyncIterator[KeptValue[V]]:
        """Yields all records whose keys begin with `prefix` and that match `where`, in order of key, behind `after`. It reads them in pages.

        Raises:
            LogDamaged, LogVersionUnsupported, SealedPayload: one can't be read.
        """
        while True:
            found = await self.page(store, tenant, prefix, where=where, after=after)
            for one in found:
                yield one
            if len(found) < PAGE:
                return
            after = found[-1].position

    async def page_behind(
        self, store: ReadOnlyStore, tenant: str, limit: int, after: str | None, where: tuple[AttributeCondition, ...] = ()
    ) -> tuple[list[KeptValue[V]], str | None]:
        """A page of records in order of key, behind the key `after`, and the key behind which the next one begins (None: this was the last).

        Raises:
            BadValue: `after` is no such key.
            LogDamaged, LogVersionUnsupported, SealedPayload: one can't be read.
        """
        if after is not None and not is_record_key(after):
            raise BadValue("after", after, "the `next` of the page before")
        found = await self.page(store, tenant, where=where, after=None if after is None else PagePosition(self.key(tenant, after)), limit=limit)
        return found, found[-1].key if len(found) == limit else None

    async def update(self, store: Store, tenant: str, key: str, change: Callable[[KeptValue[V]], RecordChange | None]) -> V | None:
        """Changes a record from what it is, and returns what it was; None if there is none. `change` may return None, which changes nothing.

        Raises:
            StoreUnavailable: others keep changing it.
            LogDamaged, LogVersionUnsupported, SealedPayload: it can't be read.
        """
        for _ in range(CHANGES_MAX):
            if not is_record_key(key) or (kept := await self.read(store, tenant, key)) is None:
                return None
            if (wanted := change(kept)) is None:
                return kept.value
            with suppress(StaleRecord):
                await post_records(store, [wanted])
                return kept.value
        raise StoreUnavailable(f"the {self.name} {key!r} was changed by others {CHANGES_MAX} times in a row; repeat the call")

    def decode(self, record: StoredRecord, order: AttributeOrder | None = None) -> KeptValue[V]:
        """The value of a stored record of this kind, and its position in a list of this order.

        Raises:
            LogDamaged, LogVersionUnsupported, SealedPayload: it can't be read.
        """
        try:
            value = msgspec.msgpack.decode(decode_record_value(record.value), type=self.value)
        except (msgspec.DecodeError, LogDamaged) as error:
            raise LogDamaged(f"the {self.name} {record.key.key!r} can't be read: {error}") from error
        return KeptValue(record.key.key, record.version, value, record.changed_at_s, record_position(record, order))

    def change(
        self,
        tenant: str,
        key: str,
        version: int,
        value: V | None,
        attributes: Mapping[str, AttributeValue | Sequence[AttributeValue]] | None = None,
        *,
        expires_at_s: float | None = None,
    ) -> RecordChange:
        """The change of a record that is at `version` (0: there is none) to `value`; None removes it. It takes effect by `post_records`.

        Raises:
            BadName, BadValue: an attribute is not valid, or the kind has no ends.
        """
        if expires_at_s is not None and not self.expires:
            raise BadValue("expires_at_s", expires_at_s, f"given for a kind that expires; one of {self.name} stays until it is removed")
        stored = None if value is None else encode_record_value(msgspec.msgpack.encode(value))
        indexed = index_attributes(checked_attributes(attributes)) if attributes else ()
        return RecordChange(self.key(tenant, key), version, stored, indexed, expires_at_s)


def is_record_key(text: str) -> bool:
    """Is true if a text that somebody sends may be the key of a record; if not, there is no such record."""
    try:
        return 0 < len(text.encode()) <= limits.RECORD_KEY_BYTES_MAX and "\0" not in text
    except UnicodeEncodeError:
        return False


def expect_revision(what: str, key: str, revision: int | None, version: int) -> None:
    """Checks that what is changed is at the revision that its author has seen (None: any). `what` it is, is in the message, such as ``definition``.

    Raises:
        StaleRecord: it is not.
    """
    if revision is not None and revision != version:
        raise StaleRecord(what, key, revision, version)


async def post_records(store: Store, changes: Sequence[RecordChange], messages: Sequence[OutgoingMessage] = ()) -> None:
    """Carries out changes of records together with `messages`, or nothing.

    Raises:
        StaleRecord: a record was changed since it was read, and nothing was changed.
        BadValue: the changes are of several tenants, or one is too large.
    """
    (answer,) = await store.commit([Post(messages=tuple(messages), records=tuple(changes))])
    match answer:
        case Committed():
            return
        case Stale(key, version):
            expected = next(change.version for change in changes if change.key == key)
            raise StaleRecord(key.kind, key.key, expected, version)
    raise StoreUnavailable(f"the store did not carry out a change of records and answered {type(answer).__name__}. Repeat the change")
