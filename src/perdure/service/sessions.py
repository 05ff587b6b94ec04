"""Sessions of browsers: a person signs in once, by a key or by OIDC, and the browser then sends a cookie for 12 hours.

The cookie has a token of 256 random bits, of which only the SHA-256 is stored. A session is revoked as a key is, within `credentials.CACHE_S`. One that a
key has opened ends with the key, and with the secret of the key that was given. Roles by OIDC are those at the time of sign-in: a change of groups takes
effect with the next session.

What a page sends to change something also carries a CSRF token, which follows from the session's token and is not stored.
"""

import base64
import hmac
from collections.abc import Callable, Mapping
from hashlib import sha256

import msgspec
from msgspec.structs import replace

from perdure.core.attribute_filter import attribute_conditions
from perdure.core.errors import Forbidden, NotFound, StaleRecord, StoreUnavailable, Unauthenticated
from perdure.service.access_keys import KeyVerifier
from perdure.service.access_records import SESSIONS, Session
from perdure.service.callers import Caller, Role
from perdure.service.credentials import CredentialCache, credential_id, expire_reservation, reserve_credential, secret_digest
from perdure.service.record_kinds import post_records
from perdure.service.service_clock import ServiceClock
from perdure.stores.protocol import ReadOnlyStore, Store

SESSION_S = 12 * 3600.0
COOKIE = "__Host-perdure-session"
"""The name of the cookie. Browsers take one with this beginning only over TLS, and from no other host of the domain."""
AGENT_CHARACTERS_MAX = 200

_AGAIN = "Sign in again"


class SessionDetails(msgspec.Struct, frozen=True, kw_only=True):
    """A session without its token: who signed in when, from which network address and with which browser."""

    id: str
    subject: str
    roles: tuple[Role, ...]
    created_at_s: float
    expires_at_s: float
    address: str
    agent: str


class SessionPage(msgspec.Struct, frozen=True):
    """A page of sessions. The next one begins behind `next` (None: this was the last)."""

    items: list[SessionDetails]
    next: str | None = None


class OpenedSession(msgspec.Struct, frozen=True):
    """A new session, which ends after `valid_s`. `token` belongs into the cookie alone, and `csrf` into the page."""

    id: str
    token: str
    csrf: str
    expires_at_s: float
    valid_s: float


# Changes


async def open_session(
    store: Store, caller: Caller, address: str = "", agent: str = "", elsewhere: Mapping[str, frozenset[Role]] | None = None, key: str = ""
) -> OpenedSession:
    """Opens a session for a caller who has just proved who they are, by `key` if it is not empty; it ends after 12 hours, or with their key.

    The end of an OIDC token does not end it: the token only proved who they were at sign-in.
    """
    now_s = (await store.store_time()).now_s
    key_ends_s = caller.expires_at_s if caller.subject.startswith("key:") and caller.expires_at_s is not None else float("inf")
    others = {tenant: roles for tenant, roles in (elsewhere or {}).items() if tenant != caller.tenant}
    session = Session(
        subject=caller.subject,
        roles=caller.roles,
        groups=caller.groups,
        queues=caller.queues,
        created_at_s=now_s,
        expires_at_s=min(now_s + SESSION_S, key_ends_s),
        sha256=b"",
        address=address,
        agent=agent[:AGENT_CHARACTERS_MAX],
        elsewhere=others,
        key_sha256=secret_digest(key) if key else b"",
    )
    return await _opened(store, caller.tenant, session, now_s)


async def switch_tenant(store_of: Callable[[Caller], Store], sessions: "SessionVerifier", present: str, tenant: str) -> OpenedSession:
    """Opens a session in another tenant in place of the one with the token `present`, and closes that. Its end stays the same.

    `store_of` gives the store through which things are changed on behalf of a caller, so that each tenant has an audit entry of its own session.

    Raises:
        Unauthenticated: there is no such session.
        Forbidden: the person has no role in the tenant.
    """
    found = await sessions.session(present)
    if tenant not in found.session.elsewhere:
        raise Forbidden(found.session.subject, f"anything in the tenant {tenant}", "viewer")
    elsewhere = {**found.session.elsewhere, found.tenant: found.session.roles}
    switched = FoundSession("", tenant, replace(found.session, roles=elsewhere.pop(tenant), elsewhere=elsewhere))
    opened = await _opened(store_of(switched.caller), tenant, switched.session, sessions.clock.now_s())
    await revoke_session(store_of(found.caller), found.tenant, found.id)
    sessions.forget(found.id)
    return opened


async def revoke_session(store: Store, tenant: str, id: str) -> None:
    """Ends a session. Processes refuse it within `CACHE_S`.

    Raises:
        NotFound: the tenant has no such session, or it has ended.
    """
    if await SESSIONS.update(store, tenant, id, lambda kept: SESSIONS.change(tenant, id, kept.version, None)) is None:
        raise NotFound(id, f"there is no session {id!r} in the tenant {tenant}, or it has ended")
    await expire_reservation(store, id, (await store.store_time()).now_s)


async def _opened(store: Store, tenant: str, session: Session, now_s: float) -> OpenedSession:
    new = await reserve_credential(store, tenant, "prs", session.expires_at_s)
    stored = replace(session, sha256=secret_digest(new.text))
    change = SESSIONS.change(tenant, new.id, 0, stored, {"subject": session.subject}, expires_at_s=session.expires_at_s)
    try:
        await post_records(store, [change])
    except StaleRecord as taken:
        raise StoreUnavailable(f"the random id {new.id} of a session was taken; repeat the call") from taken
    return OpenedSession(new.id, new.text, csrf_token(new.text), session.expires_at_s, session.expires_at_s - now_s)


# Reads


async def list_sessions(store: ReadOnlyStore, tenant: str, subject: str | None = None, limit: int = 100, after: str | None = None) -> SessionPage:
    """Lists the sessions of a tenant that have not ended, of all people or of one, in pages of up to `limit`.

    Raises:
        BadValue: `after` is not the `next` of a page.
    """
    where = attribute_conditions(None if subject is None else {"subject": subject})
    found, following = await SESSIONS.page_behind(store, tenant, limit, after, where)
    return SessionPage([_details(one.key, one.value) for one in found], following)


def _details(id: str, session: Session) -> SessionDetails:
    return SessionDetails(
        id=id,
        subject=session.subject,
        roles=tuple(sorted(session.roles)),
        created_at_s=session.created_at_s,
        expires_at_s=session.expires_at_s,
        address=session.address,
        agent=session.agent,
    )


class FoundSession(msgspec.Struct, frozen=True):
    """A session that a token has proved."""

    id: str
    tenant: str
    session: Session

    @property
    def caller(self) -> Caller:
        """Who sends the requests of the session."""
        one = self.session
        return Caller(self.tenant, one.subject, one.roles, one.groups, one.queues, one.expires_at_s)


class SessionVerifier:
    """Tells who sends a cookie. A request costs no read of the store while the session is cached. Sessions expire by `clock`.

    With `keys`, a session that a key has opened ends when that key is revoked, or loses the secret by a rotation.
    """

    def __init__(self, store: ReadOnlyStore, clock: ServiceClock, keys: KeyVerifier | None = None) -> None:
        self.clock, self._keys = clock, keys
        self._sessions = CredentialCache(store, SESSIONS, clock)

    async def session(self, token: str) -> FoundSession:
        """The session of a token.

        Raises:
            Unauthenticated: there is none, or it has ended or was revoked.
            StoreUnavailable: it is not cached, and the store did not answer.
        """
        id = credential_id(token, "prs")
        found = None if id is None else await self._sessions.find(id)
        if id is None or found is None or not hmac.compare_digest(secret_digest(token), found[1].sha256):
            raise Unauthenticated(f"the session is not known, or was ended. {_AGAIN}")
        tenant, session = found
        if self.clock.now_s() >= session.expires_at_s:
            raise Unauthenticated(f"the session has ended after its time. {_AGAIN}")
        if self._keys is not None and session.subject.startswith("key:"):
            await self._keys.expect_valid(session.subject.removeprefix("key:"), session.key_sha256)
        return FoundSession(id, tenant, session)

    async def caller(self, token: str) -> Caller:
        """The caller whose session this is. Raises what `session` does."""
        return (await self.session(token)).caller

    def forget(self, id: str) -> None:
        """Has the next request read a session anew, since this process has changed it."""
        self._sessions.forget(id)


# What browsers are given


def csrf_token(token: str) -> str:
    """The CSRF token of a session: who has it does not have the session's own."""
    return base64.urlsafe_b64encode(hmac.digest(token.encode(), b"perdure csrf token", sha256)).decode().rstrip("=")


def expect_csrf(token: str, given: str) -> None:
    """Checks what a request that changes something has sent with the cookie.

    Raises:
        Unauthenticated: it is missing, or belongs to another session.
    """
    if not hmac.compare_digest(csrf_token(token).encode(), given.encode("utf-8", "surrogateescape")):
        raise Unauthenticated("the CSRF token is missing, or belongs to another session. Reload the page")


def session_cookie(opened: OpenedSession) -> str:
    """The value of ``Set-Cookie`` for a new session: no script reads it, and other sites do not send it with what changes something."""
    return f"{COOKIE}={opened.token}; Path=/; Max-Age={max(int(opened.valid_s), 0)}; HttpOnly; Secure; SameSite=Lax"


def ended_cookie() -> str:
    """The value of ``Set-Cookie`` that removes the cookie."""
    return f"{COOKIE}=; Path=/; Max-Age=0; HttpOnly; Secure; SameSite=Lax"
