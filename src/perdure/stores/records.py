"""Records: small versioned documents, each under a tenant, a kind and a key, which a `Post` changes together with messages.

They hold what a service keeps beside executions, such as the catalog and its triggers. Each change names the version that it expects, so of two writers
one receives `Stale`. The records of a tenant are in one reach, its home, and so is a post that changes any.

A value is opaque to a store, which keeps it with the checksum that `perdure.core.record_format` gives it. Attributes stay in the clear, to be compared.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from perdure.core import limits
from perdure.core.attribute_filter import AttributeCondition, AttributeOrder
from perdure.core.attributes import IndexedAttributes
from perdure.core.errors import BadValue
from perdure.core.paths import Key


class RecordKey(NamedTuple):
    """Identifies a record: `key` is unique per tenant and kind (such as ``trigger``). None of the three is empty or contains NUL."""

    tenant: str
    kind: str
    key: str


class PagePosition(msgspec.Struct, frozen=True, gc=False):
    """The place in a list behind which its next page begins, made by `head_position` or `record_position` of the last item of a page.

    Opaque to callers. It stays valid if that item changes or is removed: the next page then begins behind the place where the item was.
    """

    key: Key | RecordKey
    created_at_s: float = 0.0
    value: bytes = b""


class RecordChange(msgspec.Struct, frozen=True, gc=False):
    """A change of one record, which takes effect only if the record is at `version` (0: there is none).

    The record then has the version after it, or is removed if `value` is None. Without a record, a removal at version 0 changes nothing; it makes sure
    that there is none. A record that was removed, or has expired, begins again at version 1. `attributes` are in order of name, then of value, without
    repeats. From `expires_at_s` of the store's time on, the record counts as absent.
    """

    key: RecordKey
    version: int
    value: bytes | None
    attributes: IndexedAttributes = ()
    expires_at_s: float | None = None


class StoredRecord(msgspec.Struct, frozen=True, gc=False):
    """A record as it is. `version` counts the changes since it was created, and `changed_at_s` is the time of the last one."""

    key: RecordKey
    version: int
    value: bytes
    attributes: IndexedAttributes
    changed_at_s: float
    expires_at_s: float | None


class Stale(msgspec.Struct, frozen=True, gc=False):
    """A record was not at the version that a post expected but at `version` (0: there is none), and nothing of the post was carried out."""

    key: RecordKey
    version: int


class RecordFilter(msgspec.Struct, frozen=True, gc=False):
    """Conditions on the records of one tenant and kind: a beginning of their keys, and conditions on attributes, all of which must hold.

    The list is in order of key (by code points), or of an attribute and then of key, both descending if the order is. It continues behind `after`.
    """

    tenant: str
    kind: str
    prefix: str = ""
    where: tuple[AttributeCondition, ...] = ()
    order: AttributeOrder | None = None
    after: PagePosition | None = None
    limit: int = 100


def record_position(record: StoredRecord, order: AttributeOrder | None = None) -> PagePosition:
    """The position behind `record` in a list of this order.

    Raises:
        BadValue: the record lacks the attribute of the order, so that it is in no such list.
    """
    return PagePosition(record.key, value=position_value(record.attributes, order))


def position_value(attributes: IndexedAttributes, order: AttributeOrder | None) -> bytes:
    """The value at which an item is in a list of this order; empty if the list is not ordered by an attribute.

    Raises:
        BadValue: the item lacks the attribute.
    """
    if order is None:
        return b""
    if (value := order.value_in(attributes)) is None:
        raise BadValue("after", order.name, f"an item of the list, which has the attribute {order.name!r}")
    return value


def has_expired(expires_at_s: float | None, now_s: float) -> bool:
    """Whether a record counts as absent."""
    return expires_at_s is not None and expires_at_s <= now_s


def check_records(changes: Sequence[RecordChange]) -> None:
    """Checks what every store expects of the records of one post.

    Raises:
        BadValue: they are of several tenants, one is changed twice, or a key, value or number of attributes is out of bounds.
    """
    if len({change.key.tenant for change in changes}) > 1:
        raise BadValue("records of a post", [change.key.tenant for change in changes], "records of one tenant; post those of each tenant by themselves")
    if len({change.key for change in changes}) < len(changes):
        raise BadValue("records of a post", [change.key for change in changes], "one change of each record")
    for change in changes:
        for part in change.key:
            if not part or "\0" in part or _utf8_bytes(part) > limits.RECORD_KEY_BYTES_MAX:
                raise BadValue("record key", change.key, f"texts of 1 to {limits.RECORD_KEY_BYTES_MAX:,} bytes in UTF-8 without NUL")
        if change.value is not None and len(change.value) > limits.RECORD_BYTES_MAX:
            raise BadValue(f"record {change.key}", f"{len(change.value):,} bytes", f"at most {limits.RECORD_BYTES_MAX:,}; keep larger data in a blob")
        if len(change.attributes) > limits.RECORD_ATTRIBUTES_MAX:
            raise BadValue(f"record {change.key}", f"{len(change.attributes)} attributes", f"at most {limits.RECORD_ATTRIBUTES_MAX}")
        if any(one >= other for one, other in zip(change.attributes, change.attributes[1:], strict=False)):
            raise BadValue(f"attributes of record {change.key}", change.attributes, "in order of name, then of value, without repeats")


def _utf8_bytes(text: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return limits.RECORD_KEY_BYTES_MAX + 1
