"""The records of access control: keys, sessions, their last use, audit entries, and the directory of credentials.

A *credential* is a key or a session: a public id, and a secret of 256 random bits, of which only the SHA-256 is stored. Its record is in its own tenant, so
that an audit entry is in the same post. A request names a credential by its id alone; the directory, whose records are in a reserved tenant, has the tenant
of each id. It holds nothing secret. A directory entry is written before the credential and never changes its tenant.
"""

import asyncio
import base64
import re
import secrets
import string
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from hmac import compare_digest
from typing import Generic, Literal, NamedTuple, TypeVar

import msgspec

from perdure.core import limits
from perdure.core.attribute_filter import AttributeCondition
from perdure.core.attributes import sortable_bytes
from perdure.core.errors import BadName, BadValue, StoreUnavailable
from perdure.core.record_format import decode_record_value, encode_record_value
from perdure.stores.protocol import Committed, Post, ReadOnlyStore, Store
from perdure.stores.records import PagePosition, RecordChange, RecordFilter, RecordKey, StoredRecord

KEY, KEY_USE, SESSION, AUDIT, CREDENTIAL = "access key", "access key use", "session", "audit entry", "credential"
UNAUDITED_KINDS = frozenset((KEY_USE, CREDENTIAL))
"""Kinds whose changes have no audit entry: the directory, which follows from a change that has one, and the last use."""

CREDENTIAL_TENANT = "perdure:credentials"
"""The reserved tenant of the directory."""

KEPT_S = 90 * 86_400.0
"""How long what has expired or was revoked is still listed."""

CACHE_S = 5.0
"""How long a credential that was read may be used without another read: a revocation takes effect within this time in each process."""
CACHED_MAX = 10_000
CHANGES_MAX = 20
"""How often a change is made again because another one came between its read and its post."""

ID_LENGTH = 8
_ID_CHARACTERS = string.ascii_letters + string.digits
_CREDENTIAL = re.compile(rf"(?P<prefix>pr[ds])_(?P<id>[0-9A-Za-z]{{{ID_LENGTH}}})_[0-9A-Za-z_-]{{43}}")

T = TypeVar("T", bound=msgspec.Struct)
KeyPrefix = Literal["prd", "prs"]
"""The beginning of a key, and of the token of a session."""


# Records


def record_change(
    key: RecordKey, version: int, value: msgspec.Struct | None, attributes: Mapping[str, Sequence[str]] | None = None, expires_at_s: float | None = None
) -> RecordChange:
    """A change of a record that is at `version` to `value`; None removes it."""
    stored = None if value is None else encode_record_value(msgspec.msgpack.encode(value))
    indexed = tuple(sorted({(name, sortable_bytes(one)) for name, texts in (attributes or {}).items() for one in texts}))
    return RecordChange(key, version, stored, indexed, expires_at_s)


def record_value(record: StoredRecord, type: type[T]) -> T:
    """The value of a record."""
    return msgspec.msgpack.decode(decode_record_value(record.value), type=type)


async def post_records(store: Store, *changes: RecordChange) -> bool:
    """Posts changes; returns False if one of the records was at another version, and nothing was changed."""
    (answer,) = await store.commit([Post(records=changes)])
    return isinstance(answer, Committed)


async def change_record(store: Store, key: RecordKey, type: type[T], change: Callable[[T, int], RecordChange | None]) -> T | None:
    """Changes a record from what it is, and returns what it was; None if there is none. `change` is given the value and the version, and may return None.

    Raises:
        StoreUnavailable: others keep changing it.
    """
    for _ in range(CHANGES_MAX):
        record = await store.record(key)
        if record is None:
            return None
        value = record_value(record, type)
        wanted = change(value, record.version)
        if wanted is None or await post_records(store, wanted):
            return value
    raise StoreUnavailable(f"the record {key} was changed by others {CHANGES_MAX} times in a row; repeat the call")


def is_record_key(text: str) -> bool:
    """Whether a text that somebody sends may be the key of a record; if not, there is no such record."""
    try:
        return 0 < len(text.encode()) <= limits.RECORD_KEY_BYTES_MAX and "\0" not in text
    except UnicodeEncodeError:
        return False


async def record_page(
    store: ReadOnlyStore, tenant: str, kind: str, limit: int, after: str | None, where: tuple[AttributeCondition, ...] = ()
) -> tuple[list[StoredRecord], str | None]:
    """A page of records in order of key, behind the key `after`, and the key behind which the next one begins (None: this was the last).

    Raises:
        BadValue: `after` is no such key.
    """
    if after is not None and not is_record_key(after):
        raise BadValue("after", after, "the `next` of the page before")
    position = None if after is None else PagePosition(RecordKey(tenant, kind, after))
    records = await store.records(RecordFilter(tenant, kind, where=where, after=position, limit=limit))
    return records, records[-1].key.key if len(records) == limit else None


def attribute_is(name: str, text: str) -> AttributeCondition:
    """The condition that an attribute of a record has this text."""
    form = sortable_bytes(text)
    return AttributeCondition(name, ((form, form + b"\0"),))


# Credentials


class NewCredential(NamedTuple):
    """The text of a new credential, which is shown once, and its public id."""

    id: str
    text: str


class DirectoryEntry(msgspec.Struct, frozen=True):
    """The tenant of a credential."""

    tenant: str


def new_secret_text(prefix: KeyPrefix, id: str) -> str:
    """The text of a credential with a new secret of 256 random bits."""
    return f"{prefix}_{id}_{base64.urlsafe_b64encode(secrets.token_bytes(32)).decode().rstrip('=')}"


def credential_id(text: str, prefix: KeyPrefix) -> str | None:
    """The public id in the text of a credential; None if it is of another form."""
    match = _CREDENTIAL.fullmatch(text)
    return match["id"] if match is not None and match["prefix"] == prefix else None


def secret_digest(text: str) -> bytes:
    """What is stored of a credential: the SHA-256 of its text."""
    return sha256(text.encode()).digest()


def matches_digest(text: str, digests: Sequence[bytes]) -> list[bool]:
    """Whether a credential is the one of each digest, compared in a time that depends on the number of digests alone."""
    given = secret_digest(text)
    return [compare_digest(given, digest) for digest in digests]


async def reserve_credential(store: Store, tenant: str, prefix: KeyPrefix, expires_at_s: float | None) -> NewCredential:
    """Writes the directory entry of a new credential.

    If the process dies before it writes the credential itself, an entry is left that leads nowhere, and takes a hundred bytes.

    Raises:
        BadName: the tenant is the reserved one.
    """
    if tenant == CREDENTIAL_TENANT:
        raise BadName("tenant", tenant, "it is reserved. Use another name")
    for _ in range(CHANGES_MAX):
        id = "".join(secrets.choice(_ID_CHARACTERS) for _ in range(ID_LENGTH))
        if await post_records(store, record_change(directory_key(id), 0, DirectoryEntry(tenant), expires_at_s=expires_at_s)):
            return NewCredential(id, new_secret_text(prefix, id))
    raise StoreUnavailable(f"{CHANGES_MAX} random ids in a row were taken; repeat the call")


async def expire_reservation(store: Store, id: str, expires_at_s: float | None) -> None:
    """Has the directory forget a credential at a time."""
    key = directory_key(id)
    _ = await change_record(store, key, DirectoryEntry, lambda entry, version: record_change(key, version, entry, expires_at_s=expires_at_s))


def directory_key(id: str) -> RecordKey:
    """The key of the directory entry of a credential."""
    return RecordKey(CREDENTIAL_TENANT, CREDENTIAL, id)


class _Cached(NamedTuple, Generic[T]):
    """A credential, its tenant, and until when it may be used, by the clock of the cache."""

    tenant: str
    value: T
    until_s: float


class CredentialCache(Generic[T]):
    """The records of credentials of one kind, found by their ids alone, and kept for `CACHE_S` so that most requests read nothing.

    Requests that need the same credential at once share one read. Ids that are unknown are not kept: they would push out those that are known.
    """

    def __init__(self, store: ReadOnlyStore, kind: str, type: type[T], clock: Callable[[], float] = time.monotonic) -> None:
        self._store, self._kind, self._type, self._clock = store, kind, type, clock
        self._cached: OrderedDict[str, _Cached[T]] = OrderedDict()
        self._reads: dict[str, asyncio.Task[_Cached[T] | None]] = {}

    async def find(self, id: str) -> tuple[str, T] | None:
        """The tenant and the record of a credential, at most `CACHE_S` old; None if there is none."""
        found = self._cached.get(id)
        if found is None or self._clock() >= found.until_s:
            found = await asyncio.shield(self._read_once(id))
        else:
            self._cached.move_to_end(id)
        return None if found is None else (found.tenant, found.value)

    def forget(self, id: str) -> None:
        """Has the next request read a credential anew, since this process has changed it."""
        self._cached.pop(id, None)

    def _read_once(self, id: str) -> "asyncio.Task[_Cached[T] | None]":
        if (reading := self._reads.get(id)) is None:
            reading = self._reads[id] = asyncio.create_task(self._read(id))
            reading.add_done_callback(lambda done: self._ended(id, done))
        return reading

    def _ended(self, id: str, done: "asyncio.Task[_Cached[T] | None]") -> None:
        del self._reads[id]
        if not done.cancelled():
            done.exception()  # whoever waits is given it; if all have gone, asyncio need not complain

    async def _read(self, id: str) -> _Cached[T] | None:
        until_s = self._clock() + CACHE_S  # from before the read, so that no revocation before it is missed for longer
        before = self._cached.pop(id, None)
        tenant = await self._tenant(id) if before is None else before.tenant
        record = None if tenant is None else await self._store.record(RecordKey(tenant, self._kind, id))
        if tenant is None or record is None:
            return None
        found = _Cached(tenant, record_value(record, self._type), until_s)
        self._cached[id] = found
        while len(self._cached) > CACHED_MAX:
            self._cached.popitem(last=False)
        return found

    async def _tenant(self, id: str) -> str | None:
        entry = await self._store.record(directory_key(id))
        return None if entry is None else record_value(entry, DirectoryEntry).tenant
