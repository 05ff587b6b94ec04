"""A blob store in a directory of files: one directory for each tenant, within it one for each two first characters of a name.

A file is written under another name, flushed to the disk and renamed, so a crash leaves a whole blob or a partial file that is never read. A lock on the
directory, shared by those that put and exclusive to one that deletes, keeps a blob that is put again from being deleted.
"""

import asyncio
import fcntl
import os
import secrets
from collections.abc import Iterator, MutableSequence, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote, unquote

from perdure.core.errors import StoreUnavailable
from perdure.stores.blob_store import KeptBlob

FILE_MODE, DIRECTORY_MODE = 0o600, 0o700
PARTIAL = ".partial"


class DirectoryBlobStore:
    """A `BlobStore` in the directory `path`, which is created when it is first needed. Processes of one host may share it."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path).absolute()

    async def put(self, tenant: str, sha256: str, payload: bytes) -> None:
        """See `BlobStore.put`."""
        await asyncio.to_thread(self._put, tenant, sha256, payload)

    async def get(self, tenant: str, sha256: str) -> bytes | None:
        """See `BlobStore.get`."""
        return await asyncio.to_thread(self._get, tenant, sha256)

    async def list(self, tenant: str, after: str, limit: int) -> Sequence[KeptBlob]:
        """See `BlobStore.list`."""
        return await asyncio.to_thread(self._list, tenant, after, limit)

    async def tenants(self) -> Sequence[str]:
        """See `BlobStore.tenants`."""
        with _translated_errors(self._path):
            return sorted(_name_of(one.name) for one in self._path.iterdir() if one.is_dir()) if self._path.exists() else []

    async def delete(self, tenant: str, sha256: str, put_before_s: float) -> bool:
        """See `BlobStore.delete`."""
        return await asyncio.to_thread(self._delete, tenant, sha256, put_before_s)

    def _put(self, tenant: str, sha256: str, payload: bytes) -> None:
        file = self._file(tenant, sha256)
        with _translated_errors(self._path):
            _make_directories(file.parent)
            with self._locked(fcntl.LOCK_SH):
                try:
                    os.utime(file)
                except FileNotFoundError:
                    _write_durably(file, payload)

    def _get(self, tenant: str, sha256: str) -> bytes | None:
        with _translated_errors(self._path):
            try:
                return self._file(tenant, sha256).read_bytes()
            except FileNotFoundError:
                return None

    def _list(self, tenant: str, after: str, limit: int) -> Sequence[KeptBlob]:
        with _translated_errors(self._path):
            found: MutableSequence[KeptBlob] = []
            of_tenant = self._path / _file_name(tenant)
            for shard in sorted(of_tenant.iterdir()) if of_tenant.exists() else []:
                names = sorted(name for one in shard.iterdir() if not one.name.endswith(PARTIAL) and (name := _name_of(one.name)) > after)
                for name in names:
                    with suppress(FileNotFoundError):
                        status = (shard / _file_name(name)).stat()
                        found.append(KeptBlob(name, status.st_size, status.st_mtime))
                    if len(found) >= limit:
                        return found
            return found

    def _delete(self, tenant: str, sha256: str, put_before_s: float) -> bool:
        file = self._file(tenant, sha256)
        with _translated_errors(self._path):
            if not file.exists():
                return False
            with self._locked(fcntl.LOCK_EX):
                if not file.exists() or file.stat().st_mtime >= put_before_s:
                    return False
                file.unlink()
            for partial in file.parent.glob(f"*{PARTIAL}"):  # what a killed process has left
                with suppress(FileNotFoundError):
                    if partial.stat().st_mtime < put_before_s:
                        partial.unlink()
            return True

    @contextmanager
    def _locked(self, kind: int) -> Iterator[None]:
        descriptor = os.open(self._path / ".lock", os.O_RDWR | os.O_CREAT, FILE_MODE)
        try:
            fcntl.flock(descriptor, kind)
            yield
        finally:
            os.close(descriptor)

    def _file(self, tenant: str, sha256: str) -> Path:
        return self._path / _file_name(tenant) / _file_name(sha256[:2]) / _file_name(sha256)


def _file_name(name: str) -> str:
    """Returns a name as a file can have it: it does not begin with a dot, and is not empty."""
    return "=" + quote(name, safe="")


def _name_of(file_name: str) -> str:
    return unquote(file_name[1:])


def _make_directories(directory: Path) -> None:
    missing = [one for one in (directory, *directory.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
        _sync(one.parent)


def _write_durably(file: Path, payload: bytes) -> None:
    partial = file.with_name(f".{secrets.token_hex(8)}{PARTIAL}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
    try:
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(payload)
            opened.flush()
            os.fsync(opened.fileno())
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)
    _sync(file.parent)


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _translated_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreUnavailable(f"the blobs in {path} can't be used: {error}. Check that the directory is there, may be written, and has room") from error
