"""Sessions of browsers: 12 hours, listed, revoked, ended with the key that opened them; their token is stored as a hash."""

import base64
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from perdure.core.errors import Forbidden, NotFound, Unauthenticated
from perdure.service.access_keys import KeyRequest, KeyVerifier, create_key, revoke_key, rotate_key
from perdure.service.access_records import AUDIT_ENTRIES, CREDENTIAL_TENANT, CREDENTIALS, SESSIONS
from perdure.service.audit import AuditedBy, AuditedStore, AuditFilter, list_entries
from perdure.service.callers import Caller
from perdure.service.credentials import CACHE_S
from perdure.service.service_clock import ServiceClock
from perdure.service.sessions import (
    SESSION_S,
    OpenedSession,
    SessionVerifier,
    csrf_token,
    ended_cookie,
    expect_csrf,
    list_sessions,
    open_session,
    revoke_session,
    session_cookie,
    switch_tenant,
)
from perdure.service.store_access import StoreAccess
from perdure.stores.memory import MemoryStore
from perdure.stores.protocol import Store
from perdure.stores.records import RecordFilter
from perdure.testing.conformance import Clock
from tests.service.access_stores import STORES, CountedStore, opened_store
from tests.service.test_access_keys import bytes_below, secret_forms

ADA = Caller("acme", "oidc:ada@example.com", frozenset(("viewer", "approver")), ("ops",), expires_at_s=1_000_000_300.0)
BOB = Caller("acme", "oidc:bob@example.com", frozenset(("viewer",)))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=STORES)
async def store(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> AsyncIterator[Store]:
    async with opened_store(request.param, tmp_path, clock) as store:
        yield store


def sessions(store: Store, clock: Clock, keys: KeyVerifier | None = None) -> SessionVerifier:
    return SessionVerifier(store, ServiceClock(store, clock), keys)


async def test_a_session_is_the_person_who_signed_in_until_12_hours_later(store: Store, clock: Clock) -> None:
    opened, found = await open_session(store, ADA, "192.0.2.7", "Firefox"), sessions(store, clock)
    caller = await found.caller(opened.token)
    assert caller == Caller("acme", "oidc:ada@example.com", ADA.roles, ("ops",), expires_at_s=clock.now_s + SESSION_S)
    clock.advance(SESSION_S - 1)
    assert (await found.caller(opened.token)).subject == ADA.subject
    clock.advance(1)
    with pytest.raises(Unauthenticated, match="Sign in again"):
        await found.caller(opened.token)
    assert (await list_sessions(store, "acme")).items == [] and await store.drop_expired_records() == 2


async def test_a_session_that_is_cached_ends_at_its_time(store: Store, clock: Clock) -> None:
    opened, found = await open_session(store, ADA), sessions(store, clock)
    clock.advance(SESSION_S - 1)
    await found.caller(opened.token)
    clock.advance(1)
    with pytest.raises(Unauthenticated, match="has ended after its time"):
        await found.caller(opened.token)


@pytest.mark.parametrize("token", ["", "prs_", f"prd_AbC123xy_{'a' * 43}", f"prs_AbC123xy_{'a' * 43}"])
async def test_an_unknown_token_is_refused(store: Store, clock: Clock, token: str) -> None:
    await open_session(store, ADA)
    with pytest.raises(Unauthenticated, match="is not known"):
        await sessions(store, clock).caller(token)


async def test_a_wrong_secret_is_refused(store: Store, clock: Clock) -> None:
    one, other = await open_session(store, ADA), await open_session(store, BOB)
    with pytest.raises(Unauthenticated, match="is not known"):
        await sessions(store, clock).caller(one.token[:13] + other.token[13:])


async def test_a_key_is_no_session_and_a_session_no_key(store: Store, clock: Clock) -> None:
    key, opened = await create_key(store, "acme", KeyRequest(name="a", roles=("viewer",)), "local"), await open_session(store, ADA)
    with pytest.raises(Unauthenticated):
        await sessions(store, clock).caller(key.text.replace("prd_", "prs_"))
    with pytest.raises(Unauthenticated):
        await KeyVerifier(store, ServiceClock(store, clock)).caller(opened.token.replace("prs_", "prd_"))


async def test_a_revoked_session_is_refused_within_the_time_of_the_cache(store: Store, clock: Clock) -> None:
    opened, found = await open_session(store, ADA), sessions(store, clock)
    await found.caller(opened.token)
    await revoke_session(store, "acme", opened.id)
    assert (await found.caller(opened.token)).subject == ADA.subject
    clock.advance(CACHE_S)
    with pytest.raises(Unauthenticated, match="was ended"):
        await found.caller(opened.token)
    assert await store.records(RecordFilter(CREDENTIAL_TENANT, CREDENTIALS.name)) == []
    for tenant, id in (("acme", opened.id), ("other", opened.id), ("acme", ""), ("acme", "a\0")):
        with pytest.raises(NotFound, match="no session"):
            await revoke_session(store, tenant, id)


@pytest.mark.parametrize("ahead_s", [-86_400, 86_400])
async def test_a_session_ends_by_the_time_of_the_store_wherever_the_clock_of_the_process_is(store: Store, clock: Clock, ahead_s: float) -> None:
    clock.now_s = time.time() - ahead_s
    opened = await open_session(store, ADA)
    assert f"Max-Age={SESSION_S:.0f};" in session_cookie(opened)
    assert (await StoreAccess(store).sessions.caller(opened.token)).subject == ADA.subject
    clock.advance(SESSION_S)
    with pytest.raises(Unauthenticated):
        await StoreAccess(store).sessions.caller(opened.token)


async def test_a_session_ends_with_the_key_that_opened_it(store: Store, clock: Clock) -> None:
    key = await create_key(store, "acme", KeyRequest(name="a", roles=("viewer",), queues=("mails",), valid_s=3600), "local")
    keys = KeyVerifier(store, ServiceClock(store, clock))
    opened = await open_session(store, await keys.caller(key.text))
    assert opened.expires_at_s == clock.now_s + 3600
    assert (await sessions(store, clock, keys).caller(opened.token)).queues == ("mails",)
    await revoke_key(store, "acme", key.key.id, "local")
    keys.forget(key.key.id)
    with pytest.raises(Unauthenticated, match=f"the key {key.key.id} was revoked"):
        await sessions(store, clock, keys).caller(opened.token)


async def test_a_session_ends_with_the_secret_that_opened_it(store: Store, clock: Clock) -> None:
    first = await create_key(store, "acme", KeyRequest(name="ci", roles=("viewer",)), "local")
    keys = KeyVerifier(store, ServiceClock(store, clock))
    by_key, found = await keys.caller(first.text), sessions(store, clock, keys)
    old, of_an_older_version = await open_session(store, by_key, key=first.text), await open_session(store, by_key)
    second = await rotate_key(store, "acme", first.key.id, overlap_s=60)
    new = await open_session(store, by_key, key=second.text)
    for opened in (old, new, of_an_older_version):
        assert (await found.caller(opened.token)).subject == by_key.subject
    clock.advance(60)
    with pytest.raises(Unauthenticated, match="was rotated"):
        await found.caller(old.token)
    third = await rotate_key(store, "acme", first.key.id, overlap_s=0)
    keys.forget(first.key.id)
    with pytest.raises(Unauthenticated, match="was rotated"):
        await found.caller(new.token)
    for still in (of_an_older_version, await open_session(store, by_key, key=third.text)):
        assert (await found.caller(still.token)).subject == by_key.subject


async def test_a_request_reads_nothing_while_the_session_is_cached(clock: Clock) -> None:
    counted = CountedStore(MemoryStore(clock))
    opened = await open_session(counted.inner, ADA)
    found = SessionVerifier(counted, ServiceClock(counted, clock))  # type: ignore[arg-type]  # it hands on what it does not count
    for _ in range(50):
        await found.caller(opened.token)
    assert counted.reads == 2 and counted.posts == []


async def test_sessions_are_listed_by_tenant_and_by_person(store: Store, clock: Clock) -> None:
    opened = [await open_session(store, caller, "192.0.2.7", "Firefox" * 100) for caller in (ADA, BOB, ADA)]
    await open_session(store, Caller("other", "oidc:eve", frozenset(("viewer",))))
    first = await list_sessions(store, "acme", limit=2)
    rest = await list_sessions(store, "acme", limit=2, after=first.next)
    assert [one.id for one in (*first.items, *rest.items)] == sorted(one.id for one in opened) and rest.next is None
    (bobs,) = (await list_sessions(store, "acme", BOB.subject)).items
    assert (bobs.id, bobs.subject, bobs.address, bobs.agent, bobs.created_at_s) == (
        opened[1].id,
        BOB.subject,
        "192.0.2.7",
        ("Firefox" * 100)[:200],
        clock.now_s,
    )


async def test_switching_the_tenant_replaces_the_session_and_prolongs_nothing(store: Store, clock: Clock) -> None:
    opened, found = await open_session(store, ADA, elsewhere={"acme": frozenset(("admin",)), "beta": frozenset(("admin",))}), sessions(store, clock)
    clock.advance(60)

    def audited(caller: Caller) -> Store:
        return AuditedStore(store, AuditedBy(caller, "sessions.switch"))

    there = await switch_tenant(audited, found, opened.token, "beta")
    caller = await found.caller(there.token)
    assert (caller.tenant, [*caller.roles], there.expires_at_s) == ("beta", ["admin"], opened.expires_at_s)
    with pytest.raises(Unauthenticated):
        await found.caller(opened.token)
    back = await switch_tenant(audited, found, there.token, "acme")
    assert (await found.caller(back.token)).roles == ADA.roles
    with pytest.raises(Forbidden, match="anything in the tenant gamma"):
        await switch_tenant(audited, found, back.token, "gamma")
    for tenant in ("acme", "beta"):
        entries = [one.entry for one in (await list_entries(store, tenant, AuditFilter())).items]
        assert sorted(one.targets[0].change for one in entries) == ["created", "removed"]


def test_a_csrf_token_belongs_to_one_session_and_does_not_tell_its_token() -> None:
    one, other = f"prs_AbC123xy_{'a' * 43}", f"prs_AbC123xy_{'a' * 42}b"
    expect_csrf(one, csrf_token(one))
    assert one not in csrf_token(one) and csrf_token(one) not in one and len(base64.urlsafe_b64decode(csrf_token(one) + "=")) == 32
    for wrong in (csrf_token(other), "", csrf_token(one)[:-1], one, "é", "\udcff"):
        with pytest.raises(Unauthenticated, match="CSRF"):
            expect_csrf(one, wrong)


def test_the_cookie_is_for_this_host_over_tls_and_for_no_script() -> None:
    value = session_cookie(OpenedSession("AbC123xy", "prs_AbC123xy_x", "c", 1000.5, 600.5))
    assert value == "__Host-perdure-session=prs_AbC123xy_x; Path=/; Max-Age=600; HttpOnly; Secure; SameSite=Lax"
    assert ended_cookie() == "__Host-perdure-session=; Path=/; Max-Age=0; HttpOnly; Secure; SameSite=Lax"


@pytest.mark.parametrize("kind", STORES)
async def test_no_token_of_a_session_is_in_any_stored_byte(kind: str, tmp_path: Path, clock: Clock) -> None:
    async with opened_store(kind, tmp_path, clock) as store:
        audited = AuditedStore(store, AuditedBy(ADA, "sessions.open"))
        opened = [await open_session(audited, ADA) for _ in range(2)]
        await sessions(store, clock).caller(opened[0].token)
        await revoke_session(audited, "acme", opened[1].id)
        needles = [form for one in opened for form in (*secret_forms(one.token), one.csrf.encode())]
        places = [("acme", SESSIONS.name), ("acme", AUDIT_ENTRIES.name), (CREDENTIAL_TENANT, CREDENTIALS.name)]
        stored = [one.value for place in places for one in await store.records(RecordFilter(*place))]
        written = [bytes_below(tmp_path), *stored]
        assert len(stored) == 5 and not [needle for needle in needles for value in written if needle in value]
        assert kind != "sqlite" or opened[0].id.encode() in written[0]
