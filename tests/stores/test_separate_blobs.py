"""Blobs apart from the store: they are put before the commit that names them, and removed by a sweep once nothing names them."""

import asyncio
import os
from pathlib import Path

import pytest

from perdure.core.errors import BadValue, StoreUnavailable
from perdure.stores.blob_directory import PARTIAL, DirectoryBlobStore
from perdure.stores.blob_marks import BlobTotals, blob_removal_of
from perdure.stores.blob_store import BLOB_SWEEP, BlobStore, MemoryBlobStore
from perdure.stores.configured_store import open_read_only_store, open_store
from perdure.stores.encoded_store import EncodedStore
from perdure.stores.memory import MemoryStore
from perdure.stores.payload_codec import Compressed
from perdure.stores.protocol import Commit, Post, Store
from perdure.stores.separate_blobs import STUB, SeparateBlobsStore
from perdure.stores.sqlite.store import SqliteStore
from perdure.testing.conformance import Clock, StoreConformance
from perdure.testing.conformance.store_world import key
from tests.stores.sqlite.killed_process import in_a_child, killed_at

LARGE = b"a large value"


class TestSeparateBlobs(StoreConformance):
    """The suite: a store with its blobs apart is a store."""

    async def make(self, clock: Clock) -> Store:
        return SeparateBlobsStore(MemoryStore(clock), MemoryBlobStore(clock), bytes_min=1, clock=clock)


class TestEncodedSeparateBlobs(StoreConformance):
    """The suite, below a codec."""

    async def make(self, clock: Clock) -> Store:
        return EncodedStore(SeparateBlobsStore(MemoryStore(clock), MemoryBlobStore(clock), bytes_min=1, clock=clock), Compressed())

    async def make_other(self, clock: Clock) -> Store:
        return EncodedStore(MemoryStore(clock), Compressed())


@pytest.fixture(params=["memory", "directory"])
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> BlobStore:
    return MemoryBlobStore() if request.param == "memory" else DirectoryBlobStore(tmp_path / "new" / "blobs")


async def test_a_blob_store_keeps_blobs_by_tenant_and_name(blobs: BlobStore) -> None:
    assert await blobs.get("acme", "a") is None and await blobs.list("acme", "", 10) == [] and await blobs.tenants() == []
    names = ["a", "..", "a/b", ".", "\0", "ab", "abc", "x" * 64]
    for name in names:
        await blobs.put("acme", name, name.encode())
        await blobs.put("acme", name, name.encode())
    await blobs.put("", "a", b"of no tenant")
    assert [await blobs.get("acme", name) for name in names] == [name.encode() for name in names]
    assert await blobs.get("", "a") == b"of no tenant" and await blobs.tenants() == ["", "acme"]
    listed, after = list[str](), ""
    while page := await blobs.list("acme", after, 3):
        listed += [one.sha256 for one in page]
        assert [one.size_bytes for one in page] == [len(one.sha256) for one in page]
        after = page[-1].sha256
    assert listed == sorted(names)
    (kept,) = await blobs.list("", "", 10)
    assert not await blobs.delete("", "a", kept.put_at_s) and not await blobs.delete("", "b", kept.put_at_s + 1)
    assert await blobs.delete("", "a", kept.put_at_s + 1) and await blobs.get("", "a") is None
    assert not await blobs.delete("", "a", kept.put_at_s + 1)


async def test_blobs_in_a_directory_are_their_owners_alone(tmp_path: Path) -> None:
    blobs = DirectoryBlobStore(tmp_path / "blobs")
    await blobs.put("acme", "a" * 64, b"payload")
    found = {path.stat().st_mode & 0o777 for path in (tmp_path / "blobs").rglob("*") if path.is_file()}
    assert found == {0o600} and {path.stat().st_mode & 0o777 for path in (tmp_path / "blobs").rglob("*") if path.is_dir()} == {0o700}


async def test_a_directory_that_cannot_be_used_is_trouble_of_the_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable, match="can't be used"):
        await DirectoryBlobStore(tmp_path / "file").put("acme", "a", b"payload")


async def test_a_large_blob_is_apart_and_a_small_one_is_not() -> None:
    clock = Clock()
    inner, blobs = MemoryStore(clock), MemoryBlobStore(clock)
    store = SeparateBlobsStore(inner, blobs, bytes_min=len(LARGE), clock=clock)
    await store.commit([Post(blobs=(("large", LARGE), ("small", b"small")))])
    assert (inner._blobs["large"], inner._blobs["small"]) == (STUB, b"small")
    assert await blobs.get("", "large") == LARGE == await store.blob("large") and await store.blob("small") == b"small"


async def test_a_sweep_removes_what_nothing_names_after_the_grace() -> None:
    clock = Clock()
    inner, blobs = MemoryStore(clock), MemoryBlobStore(clock)
    store = SeparateBlobsStore(inner, blobs, bytes_min=1, clock=clock)
    sweep = EncodedStore(store, Compressed()).part(BLOB_SWEEP)
    assert sweep is not None
    await store.commit([Post(blobs=(("kept", LARGE), ("pruned", LARGE)))])
    await blobs.put("acme", "orphan", b"put by a process that was killed")
    await blob_removal_of(store).mark("sweep")
    await blob_removal_of(store).keep(["kept"])
    await blob_removal_of(store).remove("sweep")
    assert await sweep.sweep() == BlobTotals() and await store.blob("pruned") is None
    clock.advance(25 * 3600)
    await store.commit([Post(blobs=(("pruned", LARGE),))])
    assert await sweep.sweep() == BlobTotals(1, 32) and await store.blob("pruned") == await store.blob("kept") == LARGE
    assert await sweep.sweep() == BlobTotals()


async def test_the_environment_names_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_BLOB_STORE", f"file://{tmp_path}/the%20blobs")
    url, payload = f"sqlite:///{tmp_path}/perdure.db", os.urandom(100_000)
    store = open_store(url)
    await store.commit([Post(blobs=(("large", payload),))])
    assert await store.blob("large") == payload
    await store.close()
    assert [path.stat().st_size for path in (tmp_path / "the blobs").rglob("*large")] == [100_000]
    looking = open_read_only_store(url)
    assert await looking.blob("large") == payload
    await looking.close()
    for wrong in ("s3://bucket", "file://[", "file://host/path", "/path"):
        monkeypatch.setenv("PERDURE_BLOB_STORE", wrong)
        with pytest.raises(BadValue, match="PERDURE_BLOB_STORE"):
            open_store(url)


@pytest.mark.slow
def test_killed_between_a_blob_and_its_commit_no_name_is_without_its_blob(tmp_path: Path) -> None:
    file, directory = tmp_path / "perdure.db", tmp_path / "blobs"

    async def write() -> None:
        store = SeparateBlobsStore(SqliteStore(file), DirectoryBlobStore(directory), bytes_min=1)
        epoch = (await store.store_time()).epoch
        for number in range(5):
            of = key(str(number))
            commit = Commit(key=of, epoch=epoch, holder="one", version=0, program="order", root=of, creates=True, blobs=((f"blob {number}", LARGE),))
            await store.commit([commit])
        await store.close()

    async def check() -> None:
        inner = SqliteStore(file)
        store = SeparateBlobsStore(inner, DirectoryBlobStore(directory), bytes_min=1, clock=lambda: 4e9)
        names = [f"blob {number}" for number in range(5)]
        named = [name for name in names if await inner.blob(name) is not None]
        assert [await store.blob(name) for name in named] == [LARGE] * len(named)
        await store.sweep(0)
        assert [await store.blob(name) for name in names] == [LARGE if name in named else None for name in names]
        files = [path.name for path in directory.rglob("*") if path.is_file() and path.name != ".lock"]
        left = [name for name in files if not name.endswith(PARTIAL)]  # a partial file goes with the next blob that is removed beside it
        assert len(left) == len(named), left
        await store.close()

    number = kills = 0
    in_a_child(lambda: asyncio.run(SqliteStore(file).close()), 0)
    while killed_at(number, lambda: asyncio.run(write())):
        in_a_child(lambda: asyncio.run(check()), 0)
        kills, number = kills + 1, number + 7
    assert kills > 5
