"""The chain: of the environment, files and the store the first that has a secret is meant, each tenant has its own, and what was found is not old."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from perdure.core.errors import SealedSecret
from perdure.runtime.call_secrets import TenantSecrets
from perdure.service.secrets import vault_client
from perdure.service.secrets.secret_resolver import CACHE_S, SecretResolver, secret_resolver_for
from perdure.service.secrets.vault_client import VaultClient
from perdure.stores.encoded_store import EncodedStore
from perdure.stores.encryption import Encrypted, new_key, parse_keys
from perdure.stores.memory import MemoryStore
from perdure.stores.payload_codec import Compressed
from perdure.stores.sqlite.read_only_store import ReadOnlySqliteStore
from perdure.stores.sqlite.store import SqliteStore
from perdure.testing.conformance import Clock

pytest.importorskip("cryptography", reason="encryption needs the package cryptography: pip install 'perdure[crypto]'")

KEYS = Encrypted(parse_keys(f"a:{new_key()}"))


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (vault_client.KEYS_VARIABLE, vault_client.KEYS_FILE_VARIABLE, "PERDURE_SECRETS_PATH"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "perdure.db")
    yield opened
    await opened.close()


@pytest.mark.usefixtures("clean_secrets")
async def test_the_environment_goes_before_files_and_these_before_the_store(store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "secrets"
    directory.mkdir()
    safe = VaultClient(store.vault, KEYS)
    for name in ("A", "B", "C"):
        await safe.put("default", name, f"{name} of the store")
    for name in ("A", "B"):
        (directory / name).write_text(f"{name} of files")
        (directory / name).chmod(0o600)
    monkeypatch.setenv("PERDURE_SECRETS_PATH", str(directory))
    monkeypatch.setenv("PERDURE_SECRET_A", "A of the environment")
    monkeypatch.setenv("PERDURE_SECRET_EMPTY", "")
    chain = secret_resolver_for(store, KEYS)
    assert isinstance(chain, TenantSecrets)
    find = chain.of("default")
    assert [find(name) for name in ("A", "B", "C", "D", "EMPTY", "../A", "")] == [
        "A of the environment",
        "B of files",
        "C of the store",
        None,
        None,
        None,
        None,
    ]
    assert [chain.places("default", name) for name in ("A", "B", "C", "D")] == [["environment", "file", "store"], ["file", "store"], ["store"], []]
    assert chain.names("default") == [("A", "environment"), ("A", "file"), ("B", "file")]


async def test_another_tenant_is_given_its_own_alone(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_SECRET_A", "of the environment")
    await VaultClient(store.vault, KEYS).put("default", "B", "of default")
    await VaultClient(store.vault, KEYS).put("acme", "C", "of acme")
    chain = secret_resolver_for(store, KEYS)
    assert [chain.of("acme")(name) for name in "ABC"] == [None, None, "of acme"]
    assert [chain.of("default")(name) for name in "ABC"] == ["of the environment", "of default", None] and chain.names("acme") == []


async def test_what_was_found_in_the_store_is_taken_from_memory_for_a_moment_and_what_is_missing_never(store: SqliteStore) -> None:
    clock, safe = Clock(), VaultClient(store.vault, KEYS)
    find = SecretResolver(safe, None, clock).of("acme")
    assert find("A") is None
    await safe.put("acme", "A", "one")
    assert find("A") == "one"
    await safe.put("acme", "A", "two")
    assert find("A") == "one"
    clock.advance(CACHE_S)
    assert find("A") == "two"
    await safe.remove("acme", "A")
    clock.advance(CACHE_S)
    assert find("A") is None


async def test_it_is_found_in_any_thread_and_where_a_loop_runs(store: SqliteStore) -> None:
    await VaultClient(store.vault, KEYS).put("acme", "A", "hush")
    assert secret_resolver_for(store, KEYS).of("acme")("A") == "hush"
    assert await asyncio.to_thread(secret_resolver_for(store, KEYS).of("acme"), "A") == "hush"


async def test_a_store_around_another_has_the_secrets_of_that(store: SqliteStore) -> None:
    await VaultClient(store.vault, KEYS).put("acme", "A", "hush")
    around = EncodedStore(store, Compressed())
    assert secret_resolver_for(around, KEYS).of("acme")("A") == "hush"
    assert secret_resolver_for(MemoryStore(), KEYS).of("acme")("A") is None
    assert secret_resolver_for(ReadOnlySqliteStore(store._file.path)).of("acme")("A") is None, "a store that is only read has no vault"


async def test_a_secret_whose_key_is_not_here_is_no_missing_one(store: SqliteStore) -> None:
    await VaultClient(store.vault, KEYS).put("acme", "A", "hush")
    with pytest.raises(SealedSecret, match="this process has no keys"):
        secret_resolver_for(store).of("acme")("A")
