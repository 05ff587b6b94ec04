"""Credentials: keys and sessions, each a public id and a secret of 256 random bits, of which only the SHA-256 is stored.

A directory entry is written before the credential, and never changes its tenant (see `perdure.service.access_records`).
"""

import asyncio
import base64
import re
import secrets
import string
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from typing import Generic, Literal, NamedTuple, TypeVar

import msgspec

from perdure.core.errors import BadName, StaleRecord, StoreUnavailable
from perdure.service.access_records import CREDENTIAL_TENANT, CREDENTIALS, DirectoryEntry
from perdure.service.record_kinds import RecordKind, post_records
from perdure.service.service_clock import ServiceClock
from perdure.stores.protocol import ReadOnlyStore, Store

KEPT_S = 90 * 86_400.0
"""How long what has expired or was revoked is still listed."""

CACHE_S = 5.0
"""How long a credential that was read may be used without another read: a revocation takes effect within this time in other processes."""
CACHED_MAX = 10_000
IDS_TRIED = 20
"""How many random ids are tried for a new credential."""

ID_LENGTH = 8
_ID_CHARACTERS = string.ascii_letters + string.digits
_CREDENTIAL = re.compile(rf"(?P<prefix>pr[ds])_(?P<id>[0-9A-Za-z]{{{ID_LENGTH}}})_[0-9A-Za-z_-]{{43}}")

T = TypeVar("T", bound=msgspec.Struct)
KeyPrefix = Literal["prd", "prs"]
"""The beginning of a key, and of the token of a session."""


class NewCredential(NamedTuple):
    """The text of a new credential, which is shown once, and its public id."""

    id: str
    text: str


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


async def reserve_credential(store: Store, tenant: str, prefix: KeyPrefix, expires_at_s: float | None) -> NewCredential:
    """Writes the directory entry of a new credential.

    If the process dies before it writes the credential itself, an entry is left that leads nowhere, and takes a hundred bytes.

    Raises:
        BadName: the tenant is the reserved one.
    """
    if tenant == CREDENTIAL_TENANT:
        raise BadName("tenant", tenant, "it is reserved. Use another name")
    for _ in range(IDS_TRIED):
        id = "".join(secrets.choice(_ID_CHARACTERS) for _ in range(ID_LENGTH))
        with suppress(StaleRecord):
            await post_records(store, [CREDENTIALS.change(CREDENTIAL_TENANT, id, 0, DirectoryEntry(tenant), expires_at_s=expires_at_s)])
            return NewCredential(id, new_secret_text(prefix, id))
    raise StoreUnavailable(f"{IDS_TRIED} random ids in a row were taken; repeat the call")


async def expire_reservation(store: Store, id: str, expires_at_s: float | None) -> None:
    """Has the directory forget a credential at a time."""
    _ = await CREDENTIALS.update(
        store, CREDENTIAL_TENANT, id, lambda kept: CREDENTIALS.change(CREDENTIAL_TENANT, id, kept.version, kept.value, expires_at_s=expires_at_s)
    )


class _Cached(NamedTuple, Generic[T]):
    """A credential, its tenant, and until when it may be used, by the monotonic clock."""

    tenant: str
    value: T
    until_s: float


class CredentialCache(Generic[T]):
    """The records of credentials of one kind, found by their ids alone, and kept for `CACHE_S` so that most requests read nothing.

    Requests that need the same credential at once share one read. Ids that are unknown are not kept: they would push out those that are known. `clock` is
    refreshed with the reads, so that its time is known when a credential is.
    """

    def __init__(self, store: ReadOnlyStore, kind: RecordKind[T], clock: ServiceClock) -> None:
        self._store, self._kind, self._clock = store, kind, clock
        self._cached: OrderedDict[str, _Cached[T]] = OrderedDict()
        self._reads: dict[str, asyncio.Task[_Cached[T] | None]] = {}

    async def find(self, id: str, is_right: Callable[[T], bool] = lambda _: True) -> tuple[str, T] | None:
        """The tenant and the record of a credential, at most `CACHE_S` old; None if there is none. One that is not right is read anew: it may have changed."""
        found = self._cached.get(id)
        if found is None or self._clock.monotonic() >= found.until_s or not is_right(found.value):
            found = await asyncio.shield(self._read_once(id))
        else:
            self._cached.move_to_end(id)
        return None if found is None else (found.tenant, found.value)

    def forget(self, id: str) -> None:
        """Has the next request read a credential anew, since this process has changed it."""
        self._cached.pop(id, None)
        self._reads.pop(id, None)  # one that is under way may have read what was before

    def _read_once(self, id: str) -> "asyncio.Task[_Cached[T] | None]":
        if (reading := self._reads.get(id)) is None:
            reading = self._reads[id] = asyncio.create_task(self._read(id))
            reading.add_done_callback(lambda done: self._ended(id, done))
        return reading

    def _ended(self, id: str, done: "asyncio.Task[_Cached[T] | None]") -> None:
        if self._reads.get(id) is done:
            del self._reads[id]
        if not done.cancelled():
            done.exception()  # those that wait are given it; if all have gone, asyncio need not complain

    async def _read(self, id: str) -> _Cached[T] | None:
        until_s = self._clock.monotonic() + CACHE_S  # from before the read, so that no revocation before it is missed for longer
        before = self._cached.get(id)
        tenant = await self._tenant(id) if before is None else before.tenant
        if tenant is not None:
            await self._clock.refresh()
        record = None if tenant is None else await self._kind.read(self._store, tenant, id)
        is_newest = self._reads.get(id) is asyncio.current_task()
        if tenant is None or record is None:
            self._cached.pop(id, None)
            return None
        found = _Cached(tenant, record.value, until_s)
        if is_newest:
            self._cached[id] = found
            self._cached.move_to_end(id)
        while len(self._cached) > CACHED_MAX:
            self._cached.popitem(last=False)
        return found

    async def _tenant(self, id: str) -> str | None:
        entry = await CREDENTIALS.read(self._store, CREDENTIAL_TENANT, id)
        return None if entry is None else entry.value.tenant
