"""The safe: what is kept can be read with its key alone, only as what it was kept as, and comes under another key while all goes on."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from perdure.core.errors import BadValue, SealedSecret
from perdure.service.secrets import vault_client
from perdure.service.secrets.vault_client import VALUE_BYTES_MAX, RotationResult, VaultClient
from perdure.stores.encryption import Encrypted, new_key, parse_keys
from perdure.stores.secret_vault import MemoryVault
from perdure.stores.sqlite.store import SqliteStore

pytest.importorskip("cryptography", reason="encryption needs the package cryptography: pip install 'perdure[crypto]'")

CANARY = "canary-of-the-safe-ü"
OLD, NEW, FALSE = (f"{id}:{new_key()}" for id in ("old", "new", "old"))


def encrypted(*entries: str) -> Encrypted:
    return Encrypted(parse_keys(",".join(entries)))


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "perdure.db")
    yield opened
    await opened.close()


async def test_what_is_kept_is_read_again_and_no_byte_of_it_is_in_the_file(store: SqliteStore, tmp_path: Path) -> None:
    safe = VaultClient(store.vault, encrypted(OLD))
    assert await safe.get("acme", "TOKEN") is None
    assert await safe.put("acme", "TOKEN", CANARY) == 1 and await safe.put("acme", "TOKEN", f"{CANARY}-2") == 2
    assert await safe.get("acme", "TOKEN") == f"{CANARY}-2" and await safe.get("other", "TOKEN") is None
    assert [(one.name, one.version, one.key_id) for one in await safe.listed("acme")] == [("TOKEN", 2, "old")] and await safe.listed("other") == []
    written = b"".join(file.read_bytes() for file in sorted(tmp_path.rglob("*")) if file.is_file())  # noqa: ASYNC240  # the store is at rest
    assert b"TOKEN" in written and b"canary" not in written
    assert await safe.remove("acme", "TOKEN") and not await safe.remove("acme", "TOKEN") and await safe.get("acme", "TOKEN") is None


@pytest.mark.parametrize("with_keys", [encrypted(NEW), encrypted(NEW, FALSE), None])
async def test_without_its_key_a_secret_can_t_be_read_and_the_error_names_the_key(store: SqliteStore, with_keys: Encrypted | None) -> None:
    await VaultClient(store.vault, encrypted(OLD)).put("acme", "TOKEN", CANARY)
    with pytest.raises(SealedSecret, match=r"the secret TOKEN .*'old'") as raised:
        await VaultClient(store.vault, with_keys).get("acme", "TOKEN")
    assert (raised.value.name, raised.value.key_id) == ("TOKEN", "old") and CANARY not in str(raised.value)


@pytest.mark.parametrize("place", range(0, 60, 7))
async def test_a_changed_byte_is_noticed(place: int) -> None:
    vault = MemoryVault(lambda: 0.0)
    safe = VaultClient(vault, encrypted(OLD))
    await safe.put("acme", "TOKEN", CANARY)
    (row,) = await vault.read()
    sealed = bytearray(row.sealed)
    sealed[place % len(sealed)] ^= 1
    await vault.drop("acme", "TOKEN")
    assert await vault.keep("acme", "TOKEN", 1, bytes(sealed))
    with pytest.raises(SealedSecret, match="the secret TOKEN"):
        await safe.get("acme", "TOKEN")


@pytest.mark.parametrize("elsewhere", [("other", "TOKEN", 1), ("acme", "OTHER", 1), ("acme", "TOKEN", 2)])
async def test_what_is_moved_to_another_tenant_name_or_version_is_refused(elsewhere: tuple[str, str, int]) -> None:
    vault = MemoryVault(lambda: 0.0)
    safe = VaultClient(vault, encrypted(OLD))
    await safe.put("acme", "TOKEN", CANARY)
    (row,) = await vault.read()
    assert await vault.keep(*elsewhere, row.sealed)
    with pytest.raises(SealedSecret, match="was changed since it was stored"):
        await safe.get(*elsewhere[:2])


async def test_rotating_brings_all_tenants_under_the_newest_key_and_the_old_ones_may_go(store: SqliteStore) -> None:
    before = VaultClient(store.vault, encrypted(OLD))
    for tenant in ("acme", "other"):
        await before.put(tenant, "TOKEN", f"{CANARY} of {tenant}")
    during = VaultClient(store.vault, encrypted(NEW, OLD))
    assert await during.get("acme", "TOKEN") == f"{CANARY} of acme"
    await during.put("acme", "FRESH", CANARY)
    assert await during.rotate() == RotationResult(2, ()) and await during.rotate() == RotationResult(0, ())
    after = VaultClient(store.vault, encrypted(NEW))
    assert [await after.get(tenant, "TOKEN") for tenant in ("acme", "other")] == [f"{CANARY} of acme", f"{CANARY} of other"]
    assert {one.key_id for one in await after.listed("acme")} == {"new"}


async def test_what_rotating_can_t_read_stays_as_it_is_and_is_named(store: SqliteStore) -> None:
    await VaultClient(store.vault, encrypted(OLD)).put("acme", "TOKEN", CANARY)
    done, (why,) = await VaultClient(store.vault, encrypted(NEW)).rotate()
    assert done == 0 and "of the tenant acme, the secret TOKEN" in why
    assert await VaultClient(store.vault, encrypted(OLD)).get("acme", "TOKEN") == CANARY


async def test_what_is_written_while_it_is_rotated_is_left_as_it_is_written() -> None:
    class Racing(MemoryVault):
        async def keep(self, tenant: str, name: str, version: int, sealed: bytes) -> bool:
            if version == 2 and not raced:
                raced.append(True)
                assert await VaultClient(self, encrypted(OLD)).put(tenant, name, "written meanwhile") == 2
            return await super().keep(tenant, name, version, sealed)

    raced: list[bool] = []
    vault = Racing(lambda: 0.0)
    await VaultClient(vault, encrypted(OLD)).put("acme", "TOKEN", CANARY)
    assert await VaultClient(vault, encrypted(NEW, OLD)).rotate() == RotationResult(0, ())
    assert await VaultClient(vault, encrypted(OLD)).get("acme", "TOKEN") == "written meanwhile"


@pytest.mark.parametrize(("name", "value"), [("TOKEN", ""), ("TOKEN", "x" * (VALUE_BYTES_MAX + 1)), ("../TOKEN", "x"), ("", "x"), ("a b", "x"), (".x", "x")])
async def test_what_is_no_name_or_no_value_is_refused(name: str, value: str) -> None:
    with pytest.raises(BadValue):
        await VaultClient(MemoryVault(lambda: 0.0), encrypted(OLD)).put("acme", name, value)


async def test_without_keys_nothing_is_kept_and_it_is_said_how_to_make_one() -> None:
    safe = VaultClient(MemoryVault(lambda: 0.0), None)
    with pytest.raises(BadValue, match="perdure db key new"):
        await safe.put("acme", "TOKEN", CANARY)
    assert await safe.get("acme", "TOKEN") is None and await safe.listed("acme") == []


def test_keys_are_those_of_a_file_of_the_environment_or_of_the_file_that_it_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (vault_client.KEYS_VARIABLE, vault_client.KEYS_FILE_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    assert vault_client.secret_keys() is None
    file = tmp_path / "keys"
    file.write_text(f"# the newest\n{NEW}\n\n{OLD}\n")
    monkeypatch.setenv(vault_client.KEYS_FILE_VARIABLE, str(file))
    found = vault_client.secret_keys()
    assert found is not None and found.ids == ("new", "old")
    monkeypatch.setenv(vault_client.KEYS_VARIABLE, OLD)
    named, given = vault_client.secret_keys(), vault_client.secret_keys(file)
    assert named is not None and named.ids == ("old",) and given is not None and given.ids == ("new", "old")
    monkeypatch.setenv(vault_client.KEYS_VARIABLE, secret := new_key())
    with pytest.raises(BadValue, match="PERDURE_SECRETS_KEY: 'entry 1' is not id:key") as raised:
        vault_client.secret_keys()
    assert secret not in str(raised.value)
    with pytest.raises(BadValue, match="one that can be read"):
        vault_client.secret_keys(tmp_path / "nowhere")
