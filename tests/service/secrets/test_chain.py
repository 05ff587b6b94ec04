"""The chain: of the environment, files and the store the first that has a secret is meant, each tenant has its own, and what was found is not old."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from perdure.core.errors import SealedSecret
from perdure.runtime.secrets import ByTenant
from perdure.service.secrets import keys
from perdure.service.secrets.chain import CACHED_S, Chain, providers
from perdure.service.secrets.safe import Safe
from perdure.stores.codecs import Compressed
from perdure.stores.coded import CodedStore
from perdure.stores.encryption import Encrypted, new_key, parse_keys
from perdure.stores.memory import MemoryStore
from perdure.stores.sqlite.store import SqliteStore
from perdure.testing.conformance import Clock

pytest.importorskip("cryptography", reason="encryption needs the package cryptography: pip install 'perdure[crypto]'")

KEYS = Encrypted(parse_keys(f"a:{new_key()}"))


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (keys.VARIABLE, keys.FILE_VARIABLE, "PERDURE_SECRETS_PATH"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "perdure.db")
    yield opened
    await opened.close()


async def test_the_environment_goes_before_files_and_these_before_the_store(store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "secrets"
    directory.mkdir()
    safe = Safe(store.vault, KEYS)
    for name in ("A", "B", "C"):
        await safe.put("default", name, f"{name} of the store")
    for name in ("A", "B"):
        (directory / name).write_text(f"{name} of files")
        (directory / name).chmod(0o600)
    monkeypatch.setenv("PERDURE_SECRETS_PATH", str(directory))
    monkeypatch.setenv("PERDURE_SECRET_A", "A of the environment")
    monkeypatch.setenv("PERDURE_SECRET_EMPTY", "")
    chain = providers(store, KEYS)
    assert isinstance(chain, ByTenant)
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
    await Safe(store.vault, KEYS).put("default", "B", "of default")
    await Safe(store.vault, KEYS).put("acme", "C", "of acme")
    chain = providers(store, KEYS)
    assert [chain.of("acme")(name) for name in "ABC"] == [None, None, "of acme"]
    assert [chain.of("default")(name) for name in "ABC"] == ["of the environment", "of default", None] and chain.names("acme") == []


async def test_what_was_found_in_the_store_is_taken_from_memory_for_a_moment_and_what_is_missing_never(store: SqliteStore) -> None:
    clock, safe = Clock(), Safe(store.vault, KEYS)
    find = Chain(safe, None, clock).of("acme")
    assert find("A") is None
    await safe.put("acme", "A", "one")
    assert find("A") == "one"
    await safe.put("acme", "A", "two")
    assert find("A") == "one"
    clock.advance(CACHED_S)
    assert find("A") == "two"
    await safe.remove("acme", "A")
    clock.advance(CACHED_S)
    assert find("A") is None


async def test_it_is_found_in_any_thread_and_where_a_loop_runs(store: SqliteStore) -> None:
    await Safe(store.vault, KEYS).put("acme", "A", "hush")
    assert providers(store, KEYS).of("acme")("A") == "hush"
    assert await asyncio.to_thread(providers(store, KEYS).of("acme"), "A") == "hush"


async def test_a_store_around_another_has_the_secrets_of_that(store: SqliteStore) -> None:
    await Safe(store.vault, KEYS).put("acme", "A", "hush")
    around = CodedStore(store, Compressed())
    assert providers(around, KEYS).of("acme")("A") == "hush"
    assert providers(MemoryStore(), KEYS).of("acme")("A") is None and providers(object()).of("acme")("A") is None


async def test_a_secret_whose_key_is_not_here_is_no_missing_one(store: SqliteStore) -> None:
    await Safe(store.vault, KEYS).put("acme", "A", "hush")
    with pytest.raises(SealedSecret, match="none is given here"):
        providers(store).of("acme")("A")
