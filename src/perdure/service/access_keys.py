"""Keys of the service: each gives its holder roles in one tenant.

The text of a key is ``prd_``, its public id, ``_`` and its secret of 256 random bits in base64. It is shown once, when the key is made. A key can be revoked,
which takes effect at once in the process that does it and in others within `credentials.CACHE_S`, and rotated: then it has two secrets until the older
one expires.

Its last use is approximate: `KeyVerifier.run` writes it in the background, at most once a minute, and a crash loses the last minute of it.
"""

import asyncio
import logging
from collections.abc import Callable
from hmac import compare_digest

import msgspec
from msgspec.structs import replace

from perdure.code.declarations import checked_name
from perdure.core.errors import BadValue, NotFound, StaleRecord, StoreError, Unauthenticated
from perdure.service.access_records import CREDENTIAL_TENANT, CREDENTIALS, KEY_USES, KEYS, AccessKey, KeySecret, LastKeyUse
from perdure.service.callers import PROGRAM, Caller, Role, checked_roles
from perdure.service.credentials import (
    KEPT_S,
    CredentialCache,
    credential_id,
    expire_reservation,
    new_secret_text,
    reserve_credential,
    secret_digest,
)
from perdure.service.record_kinds import KeptValue, expect_revision, is_record_key, post_records
from perdure.service.service_clock import ServiceClock
from perdure.service.wire_types import SecretText, Version
from perdure.stores.protocol import Committed, Post, ReadOnlyStore, Store
from perdure.stores.records import RecordChange

logger = logging.getLogger("perdure.access")

OVERLAP_S = 86_400.0
"""How long the former secret of a rotated key stays valid, unless the call says otherwise."""

USE_INTERVAL_S = 60.0
FLUSHED_AT_ONCE = 100
USE_KEPT_S = 400 * 86_400.0
"""How long a last use is remembered."""

DIRECTORY_PAGE = 100

_ANOTHER = "Ask an admin of the tenant for another one (perdure keys create)"


class KeyDetails(msgspec.Struct, frozen=True, kw_only=True):
    """A key without its secret. `secrets` is how many are valid: two for a while after a rotation, none of a key that is over.

    `used_at_s` is about its last use, to a minute or two (None: none that is known). `revision` counts its changes, of which a use is none.
    """

    id: str
    name: str
    tenant: str
    roles: tuple[Role, ...]
    queues: tuple[str, ...] | None
    created_at_s: float
    created_by: str
    expires_at_s: float | None
    revoked_at_s: float | None
    revoked_by: str
    secrets: int
    revision: Version
    used_at_s: float | None = None


class CreatedKey(msgspec.Struct, frozen=True):
    """A new key, or one with a new secret. Its text is shown this once; nothing has it but the reader of this."""

    key: KeyDetails
    text: SecretText


class KeyPage(msgspec.Struct, frozen=True):
    """A page of keys. The next one begins behind `next` (None: this was the last)."""

    items: list[KeyDetails]
    next: str | None = None


class KeyRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a new key shall be. `queues` limits a worker that uses it to tasks of these queues; it is valid for `valid_s` (None: until it is revoked)."""

    name: str
    roles: tuple[Role, ...]
    queues: tuple[str, ...] | None = None
    valid_s: float | None = None


# Changes


async def create_key(store: Store, tenant: str, request: KeyRequest, by: str) -> CreatedKey:
    """Makes a key in a tenant, durably.

    Raises:
        BadName, BadValue: its name, a role, a queue or its time is not valid.
    """
    _, tenant = checked_name(request.name, "name"), checked_name(tenant, "tenant")
    now_s = (await store.store_time()).now_s
    if request.valid_s is not None and not 0 < request.valid_s < 1e10:
        raise BadValue("valid_s", request.valid_s, "a number of seconds greater than 0, or None for a key without an end")
    if request.queues is not None and not request.queues:
        raise BadValue("queues", request.queues, "the names of one or several queues, or None for all")
    expires_at_s = None if request.valid_s is None else now_s + request.valid_s
    roles, queues = checked_roles(request.roles), None if request.queues is None else tuple(checked_name(one, "queue") for one in request.queues)
    new = await reserve_credential(store, tenant, "prd", None if expires_at_s is None else expires_at_s + KEPT_S)
    key = AccessKey(
        name=request.name,
        roles=roles,
        queues=queues,
        created_at_s=now_s,
        created_by=by,
        expires_at_s=expires_at_s,
        secrets=(KeySecret(secret_digest(new.text)),),
    )
    try:
        await post_records(store, [_change(tenant, new.id, 0, key)])
    except StaleRecord as taken:
        raise BadValue("id of a key", new.id, "free; nothing was made, repeat the call") from taken
    return CreatedKey(key_details(tenant, new.id, key, 1, now_s), new.text)


async def revoke_key(store: Store, tenant: str, id: str, by: str, revision: int | None = None) -> KeyDetails:
    """Revokes a key. Processes refuse it within `CACHE_S`. It stays listed for 90 days. Has no effect on one that is revoked.

    Raises:
        NotFound: the tenant has no such key.
        StaleRecord: it is not at the revision.
    """
    now_s = (await store.store_time()).now_s

    def revoked(key: AccessKey) -> AccessKey:
        return key if key.revoked_at_s is not None else replace(key, revoked_at_s=now_s, revoked_by=by)

    key, version = await _changed(store, tenant, id, revoked, revision)
    await expire_reservation(store, id, _forgotten_at(key))
    return key_details(tenant, id, key, version, now_s)


async def rotate_key(store: Store, tenant: str, id: str, overlap_s: float = OVERLAP_S, revision: int | None = None) -> CreatedKey:
    """Gives a key a new secret. The present one stays valid for `overlap_s`; one that was on its way out since an earlier rotation ends at once. Sessions
    end with the secret that has opened them.

    Raises:
        NotFound: the tenant has no such key.
        StaleRecord: it is not at the revision.
        BadValue: the key was revoked or has expired, or the overlap is not valid.
    """
    if not 0 <= overlap_s < 1e10:
        raise BadValue("overlap", overlap_s, "a number of seconds from 0 on")
    now_s, text = (await store.store_time()).now_s, new_secret_text("prd", id)

    def rotated(key: AccessKey) -> AccessKey:
        if key.revoked_at_s is not None or _is_over(key.expires_at_s, now_s):
            raise BadValue("key", id, "one that can be rotated: it was revoked or has expired. Create another one")
        former = (replace(key.secrets[-1], expires_at_s=now_s + overlap_s),) if overlap_s else ()
        return replace(key, secrets=(*former, KeySecret(secret_digest(text))))

    key, version = await _changed(store, tenant, id, rotated, revision)
    return CreatedKey(key_details(tenant, id, key, version, now_s), text)


async def _changed(store: Store, tenant: str, id: str, change: Callable[[AccessKey], AccessKey], revision: int | None) -> tuple[AccessKey, int]:
    """Changes a key; returns it with its version."""
    after: list[tuple[AccessKey, int]] = []

    def changed(kept: KeptValue[AccessKey]) -> RecordChange | None:
        expect_revision("key", id, revision, kept.version)
        wanted = change(kept.value)
        is_same = wanted == kept.value
        after.append((wanted, kept.version + (not is_same)))
        return None if is_same else _change(tenant, id, kept.version, wanted)

    if await KEYS.update(store, tenant, id, changed) is None:
        raise _unknown_key(tenant, id)
    return after[-1]


def _unknown_key(tenant: str, id: str) -> NotFound:
    return NotFound(id, f"there is no key {id!r} in the tenant {tenant}. perdure keys ls lists the keys")


def _change(tenant: str, id: str, version: int, key: AccessKey) -> RecordChange:
    return KEYS.change(tenant, id, version, key, expires_at_s=_forgotten_at(key))


def _forgotten_at(key: AccessKey) -> float | None:
    ends = [at_s for at_s in (key.expires_at_s, key.revoked_at_s) if at_s is not None]
    return min(ends) + KEPT_S if ends else None


def _is_over(expires_at_s: float | None, now_s: float) -> bool:
    return expires_at_s is not None and expires_at_s <= now_s


# Reads


def key_details(tenant: str, id: str, key: AccessKey, version: int, now_s: float, used_at_s: float | None = None) -> KeyDetails:
    """What is shown of a key."""
    is_over = key.revoked_at_s is not None or _is_over(key.expires_at_s, now_s)
    return KeyDetails(
        id=id,
        name=key.name,
        tenant=tenant,
        roles=tuple(sorted(key.roles)),
        queues=key.queues,
        created_at_s=key.created_at_s,
        created_by=key.created_by,
        expires_at_s=key.expires_at_s,
        revoked_at_s=key.revoked_at_s,
        revoked_by=key.revoked_by,
        secrets=0 if is_over else sum(not _is_over(one.expires_at_s, now_s) for one in key.secrets),
        revision=version,
        used_at_s=used_at_s,
    )


async def read_key(store: ReadOnlyStore, tenant: str, id: str) -> KeyDetails:
    """One key of a tenant, without its secrets.

    Raises:
        NotFound: the tenant has no such key.
    """
    found = await KEYS.read(store, tenant, id) if is_record_key(id) else None
    if found is None:
        raise _unknown_key(tenant, id)
    use = await KEY_USES.read(store, tenant, id)
    return key_details(tenant, id, found.value, found.version, (await store.store_time()).now_s, None if use is None else use.value.used_at_s)


async def key_name(store: ReadOnlyStore, caller: Caller) -> str:
    """Returns the name of the key that a caller has given; empty for callers without a key."""
    id = caller.subject.removeprefix(PROGRAM)
    found = await KEYS.read(store, caller.tenant, id) if caller.subject.startswith(PROGRAM) and is_record_key(id) else None
    return "" if found is None else found.value.name


async def list_keys(store: ReadOnlyStore, tenant: str, limit: int = 100, after: str | None = None) -> KeyPage:
    """Lists the keys of a tenant in order of id, in pages of up to `limit`, without their secrets."""
    now_s = (await store.store_time()).now_s
    found, following = await KEYS.page_behind(store, tenant, limit, after)
    uses = await asyncio.gather(*(KEY_USES.read(store, tenant, one.key) for one in found))
    used = [None if use is None else use.value.used_at_s for use in uses]
    items = [key_details(tenant, one.key, one.value, one.version, now_s, at_s) for one, at_s in zip(found, used, strict=True)]
    return KeyPage(items, following)


async def has_valid_key(store: ReadOnlyStore) -> bool:
    """Is true if any key, of any tenant, can be used at present. It reads the directory until it has found one."""
    now_s, after = (await store.store_time()).now_s, None
    while True:
        entries, after = await CREDENTIALS.page_behind(store, CREDENTIAL_TENANT, DIRECTORY_PAGE, after)
        for kept in await asyncio.gather(*(KEYS.read(store, one.value.tenant, one.key) for one in entries)):
            if kept is not None and key_details("", "", kept.value, kept.version, now_s).secrets:
                return True
        if after is None:
            return False


def _expect_not_over(id: str, key: AccessKey, now_s: float) -> None:
    if key.revoked_at_s is not None:
        raise Unauthenticated(f"the key {id} was revoked. {_ANOTHER}")
    if _is_over(key.expires_at_s, now_s):
        raise Unauthenticated(f"the key {id} has expired. {_ANOTHER}")


def _secret_of(sha256: bytes, key: AccessKey) -> KeySecret | None:
    """The secret of a key with this hash, found in a time that depends on the number of its secrets alone."""
    found = [one for one in key.secrets if compare_digest(sha256, one.sha256)]
    return found[0] if found else None


class KeyVerifier:
    """Tells who sends a key. A request costs no read of the store while the key is cached, and no write ever. Keys expire by `clock`."""

    def __init__(self, store: Store, clock: ServiceClock) -> None:
        self._store, self._clock = store, clock
        self._keys = CredentialCache(store, KEYS, clock)
        self._used: dict[tuple[str, str], float] = {}

    async def caller(self, text: str) -> Caller:
        """The caller whose key this is.

        Raises:
            Unauthenticated: it is no key, it is unknown, or it was revoked or has expired. Only a sender of its secret learns the last two.
            StoreUnavailable: it is not cached, and the store did not answer.
        """
        id = credential_id(text, "prd")
        if id is None:
            raise Unauthenticated(
                "the key is not of the form that perdure keys create prints: prd_, an id of 8 characters, _ and a secret. Send it as it was shown"
            )
        sha256 = secret_digest(text)
        found = await self._keys.find(id, lambda key: _secret_of(sha256, key) is not None)
        secret = None if found is None else _secret_of(sha256, found[1])
        if found is None or secret is None:
            raise Unauthenticated(f"the key is not known here. {_ANOTHER}")
        tenant, key = found
        now_s = self._clock.now_s()
        _expect_not_over(id, key, now_s)
        if _is_over(secret.expires_at_s, now_s):
            raise Unauthenticated(f"the key {id} was rotated, and this is its former secret, which has expired. {_ANOTHER}")
        self._used[tenant, id] = now_s
        ends = [at_s for at_s in (key.expires_at_s, secret.expires_at_s) if at_s is not None]
        return Caller(tenant, f"key:{id}", key.roles, queues=key.queues, expires_at_s=min(ends, default=None))

    async def expect_valid(self, id: str, sha256: bytes) -> None:
        """Checks that a key by which a session was opened may still be used, with the secret of this hash. Sessions of older versions have none.

        Raises:
            Unauthenticated: it was revoked, has expired, or is forgotten.
            StoreUnavailable: it is not cached, and the store did not answer.
        """
        if (found := await self._keys.find(id, lambda key: not sha256 or _secret_of(sha256, key) is not None)) is None:
            raise Unauthenticated(f"the key {id} is not known any more. {_ANOTHER}")
        now_s, key = self._clock.now_s(), found[1]
        _expect_not_over(id, key, now_s)
        if sha256 and ((secret := _secret_of(sha256, key)) is None or _is_over(secret.expires_at_s, now_s)):
            raise Unauthenticated(f"the key {id} was rotated, and the secret that has opened this session has expired. Sign in again")

    def forget(self, id: str) -> None:
        """Has the next request read a key anew, since this process has changed it."""
        self._keys.forget(id)

    async def run(self) -> None:
        """Writes last uses once a minute, until it is cancelled. While the store does not answer, they wait."""
        while True:
            await asyncio.sleep(USE_INTERVAL_S)
            try:
                await self.flush()
            except StoreError as error:
                logger.warning("writing when keys were last used failed: %s. It is repeated in %g s", error, USE_INTERVAL_S)

    async def flush(self) -> None:
        """Writes the last uses that are known here, unless some process has written one of the same key within a minute: that one waits.

        Raises:
            StoreUnavailable: the store did not answer; what was not written waits.
        """
        used = [*self._used.items()]
        for start in range(0, len(used), FLUSHED_AT_ONCE):
            await self._flush(used[start : start + FLUSHED_AT_ONCE])

    async def _flush(self, used: list[tuple[tuple[str, str], float]]) -> None:
        now_s, places = self._clock.now_s(), [place for place, _ in used]
        posts: dict[tuple[str, str], tuple[float, Post]] = {}
        known = await asyncio.gather(*(KEY_USES.read(self._store, *place) for place in places))
        for (place, used_at_s), before in zip(used, known, strict=True):
            if before is None or now_s >= before.changed_at_s + USE_INTERVAL_S:
                version = 0 if before is None else before.version
                change = KEY_USES.change(*place, version, LastKeyUse(used_at_s), expires_at_s=used_at_s + USE_KEPT_S)
                posts[place] = used_at_s, Post(records=(change,))
        answers = await self._store.commit([post for _, post in posts.values()]) if posts else []
        for (place, (used_at_s, _)), answer in zip(posts.items(), answers, strict=True):
            if isinstance(answer, Committed) and self._used.get(place) == used_at_s:
                del self._used[place]
