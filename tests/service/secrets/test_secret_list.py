"""Claims about lists of secrets and their changes: names and places are shown, and a value never comes back."""

import os

import msgspec
import pytest

from perdure.core.errors import BadValue, NotFound
from perdure.operations import on_secrets
from perdure.service.audit import AuditedBy, AuditFilter, audited_access, list_entries
from perdure.service.callers import LOCAL
from perdure.service.secrets.secret_resolver import secret_resolver_for
from perdure.service.store_access import StoreAccess
from perdure.stores.encryption import new_key
from perdure.stores.memory import MemoryStore

pytestmark = pytest.mark.usefixtures("clean_secrets")

pytest.importorskip("cryptography", reason="encryption needs the package cryptography: pip install 'perdure[crypto]'")

VALUE = "canary-of-the-list"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("PERDURE_SECRET")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PERDURE_SECRETS_KEY", f"first:{new_key()}")


async def test_a_secret_is_saved_listed_and_removed_and_its_value_never_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_SECRET_FROM_OUTSIDE", VALUE)
    access = StoreAccess(MemoryStore())
    saved = await on_secrets.save(access, "default", "TOKEN", VALUE)
    assert (saved.name, saved.version, saved.is_masked) == ("TOKEN", 1, True)
    assert (await on_secrets.save(access, "default", "TOKEN", f"{VALUE}-2")).version == 2
    found = await on_secrets.names(access, "default")
    assert [(one.name, one.place, one.version, one.key_id) for one in found] == [("FROM_OUTSIDE", "environment", None, None), ("TOKEN", "store", 2, "first")]
    assert VALUE.encode() not in msgspec.json.encode(found)
    assert await on_secrets.names(access, "acme") == []
    assert secret_resolver_for(access.store).of("default")("TOKEN") == f"{VALUE}-2"
    await on_secrets.remove(access, "default", "TOKEN")
    with pytest.raises(NotFound):
        await on_secrets.remove(access, "default", "TOKEN")


async def test_a_change_of_a_secret_has_an_entry_in_the_audit_without_its_value() -> None:
    access = StoreAccess(MemoryStore())
    _ = await on_secrets.save(audited_access(access, AuditedBy(LOCAL, "secrets.save")), "default", "TOKEN", VALUE)
    page = await list_entries(access.store, "default", AuditFilter(operation="secrets.save"))
    assert [(one.kind, one.key, one.change) for one in page.items[0].entry.targets] == [("secret", "TOKEN", "set")]
    assert VALUE.encode() not in msgspec.json.encode(page)


@pytest.mark.parametrize(("name", "value"), [("no name", VALUE), ("TOKEN", ""), ("TOKEN", "x" * 65_537)])
async def test_what_is_no_secret_is_refused(name: str, value: str) -> None:
    with pytest.raises(BadValue):
        await on_secrets.save(StoreAccess(MemoryStore()), "default", name, value)


async def test_without_a_key_nothing_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PERDURE_SECRETS_KEY")
    access = StoreAccess(MemoryStore())
    with pytest.raises(BadValue, match="PERDURE_SECRETS_KEY"):
        await on_secrets.save(access, "default", "TOKEN", VALUE)
    assert await on_secrets.names(access, "default") == []
