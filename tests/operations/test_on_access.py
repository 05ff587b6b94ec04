"""The operations on access, through an audited store as a service calls them; what they return can travel."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from perdure.core.errors import BadValue, NotFound
from perdure.operations import on_access
from perdure.service.access_keys import CreatedKey, KeyPage, KeyRequest
from perdure.service.audit import AuditedBy, AuditFilter, AuditPage, audited_access
from perdure.service.callers import Caller, CallerDetails
from perdure.service.sessions import SessionPage, open_session
from perdure.service.store_access import StoreAccess
from perdure.stores.memory import MemoryStore
from perdure.testing.conformance import Clock

ADA = Caller("acme", "oidc:ada@example.com", frozenset(("admin",)), ("ops",), ("mails",), 2e9)
EVE = Caller("other", "oidc:eve@example.com", frozenset(("admin",)))


@pytest.fixture
async def access() -> AsyncIterator[StoreAccess]:
    access = StoreAccess(MemoryStore(Clock()))
    yield access
    await access.aclose()


def audited(access: StoreAccess, operation: str, caller: Caller = ADA) -> StoreAccess:
    return audited_access(access, AuditedBy(caller, f"access.{operation}", "192.0.2.7"))


def travelled(value: Any, type: Any) -> Any:
    """A value as it arrives over a network."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(value), type=type)


async def test_a_key_is_made_listed_rotated_and_revoked_in_the_tenant_of_the_caller(access: StoreAccess) -> None:
    made = await on_access.create_key(audited(access, "create_key"), ADA, KeyRequest(name="ci", roles=("viewer",)))
    assert (made.key.tenant, made.key.created_by) == ("acme", ADA.subject) and travelled(made, CreatedKey) == made
    page = await on_access.list_keys(access, "acme")
    assert [one.id for one in page.items] == [made.key.id] and travelled(page, KeyPage) == page
    assert made.text not in str(page) and "sha256" not in str(page)
    rotated = await on_access.rotate_key(audited(access, "rotate_key"), "acme", made.key.id, 60)
    assert rotated.text != made.text
    revoked = await on_access.revoke_key(audited(access, "revoke_key"), ADA, made.key.id)
    assert (revoked.revoked_by, revoked.secrets) == (ADA.subject, 0)
    found = await on_access.list_audit(access, "acme", AuditFilter(subject=ADA.subject))
    assert sorted(one.entry.operation for one in found.items) == ["access.create_key", "access.revoke_key", "access.rotate_key"]
    assert {one.entry.address for one in found.items} == {"192.0.2.7"} and travelled(found, AuditPage) == found


async def test_what_another_tenant_has_does_not_exist(access: StoreAccess) -> None:
    made = await on_access.create_key(access, ADA, KeyRequest(name="ci", roles=("viewer",)))
    opened = await open_session(access.store, ADA)
    for call in (
        lambda: on_access.revoke_key(access, EVE, made.key.id),
        lambda: on_access.rotate_key(access, "other", made.key.id),
        lambda: on_access.revoke_session(access, "other", opened.id),
    ):
        with pytest.raises(NotFound):
            await call()
    assert (await on_access.list_keys(access, "other")).items == [] == (await on_access.list_sessions(access, "other")).items
    assert len((await on_access.list_keys(access, "acme")).items) == 1


async def test_sessions_are_listed_and_revoked(access: StoreAccess) -> None:
    opened = await open_session(access.store, ADA)
    page = await on_access.list_sessions(access, "acme", ADA.subject)
    assert [one.id for one in page.items] == [opened.id] and travelled(page, SessionPage) == page and opened.token not in str(page)
    await on_access.revoke_session(audited(access, "revoke_session"), "acme", opened.id)
    with pytest.raises(NotFound, match="or it has ended"):
        await on_access.revoke_session(access, "acme", opened.id)
    assert [one.entry.targets[0].change for one in (await on_access.list_audit(access, "acme", AuditFilter())).items] == ["removed"]


async def test_a_caller_learns_who_they_are(access: StoreAccess) -> None:
    found = await on_access.whoami(access, ADA)
    assert (found.tenant_name, found.subject, found.roles, found.expires_at_s) == ("acme", ADA.subject, ("admin",), 2e9)
    assert travelled(found, CallerDetails) == found


async def test_a_page_of_nothing_is_refused(access: StoreAccess) -> None:
    for call in (
        lambda: on_access.list_keys(access, "acme", 0),
        lambda: on_access.list_audit(access, "acme", AuditFilter(), 0),
        lambda: on_access.list_sessions(access, "acme", limit=0),
    ):
        with pytest.raises(BadValue, match="limit"):
            await call()


@pytest.mark.parametrize("after", ["", "a\0b", "\udc00", "x" * 2000])
async def test_a_position_that_no_page_gave_is_refused(access: StoreAccess, after: str) -> None:
    for call in (
        lambda: on_access.list_keys(access, "acme", 10, after),
        lambda: on_access.list_audit(access, "acme", AuditFilter(), 10, after),
        lambda: on_access.list_sessions(access, "acme", None, 10, after),
    ):
        with pytest.raises(BadValue, match="`next` of the page before"):
            await call()
    for revoke in (lambda: on_access.revoke_key(access, ADA, after), lambda: on_access.revoke_session(access, "acme", after)):
        with pytest.raises(NotFound):
            await revoke()
