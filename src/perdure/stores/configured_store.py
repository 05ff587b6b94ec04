"""Opens the store that a URL, or else the environment, names, with the codec that the environment configures."""

import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote, urlsplit

from perdure.core.errors import BadValue
from perdure.stores.blob_directory import DirectoryBlobStore
from perdure.stores.blob_store import BlobStore
from perdure.stores.encoded_store import EncodedStore
from perdure.stores.encryption import Encrypted, parse_keys
from perdure.stores.memory import MemoryStore
from perdure.stores.payload_codec import Compressed, PayloadCodec
from perdure.stores.protocol import ReadOnlyStore, Store
from perdure.stores.separate_blobs import SeparateBlobsStore
from perdure.stores.sqlite.read_only_store import ReadOnlySqliteStore
from perdure.stores.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from perdure.stores.postgres.store import PostgresStore

POSTGRES_URL_FORM = "postgresql://user@host/database"
EXPECTED = f"sqlite:///path/to/file.db, {POSTGRES_URL_FORM} or memory:"
EXPECTED_PARTS = f"{EXPECTED}, where characters such as : / ? # @ [ ] in a password are percent-encoded"
DEFAULT_URL = "sqlite:///.perdure/perdure.db"

EXPERIMENTAL_SCHEMES = {
    **dict.fromkeys(("redis", "rediss", "unix"), "Redis"),
    **dict.fromkeys(("valkey", "valkeys"), "Valkey"),
}
"""The schemes of stores that can't be opened by a URL yet: their tables carry no version number, so a later Perdure could not tell what they hold."""


def open_store(url: str | None = None, codec: PayloadCodec | None = None) -> Store:
    """Open the store of a URL; by default of `PERDURE_DB`, else of a file in ``.perdure``.

    A URL is ``sqlite:///relative/path``, ``sqlite:////absolute/path``, ``postgresql://user@host/database`` or ``memory:``.

    The store encodes its payloads with `codec`, or else with what `configured_codec` finds in the environment.

    Raises:
        BadValue: the URL names no store that this Perdure has, or the environment configures an unknown codec.
        MissingExtra: the package that the store needs is not installed.
        StoreError: the file can't be opened.
    """
    codec = configured_codec(codec)
    store = open_plain_store(configured_url(url))
    if (blobs := configured_blobs()) is not None:
        store = SeparateBlobsStore(store, blobs)
    return store if codec is None else EncodedStore(store, codec)


@asynccontextmanager
async def opened_store(db: str | Store | None = None, codec: PayloadCodec | None = None) -> AsyncIterator[Store]:
    """Opens the store of a URL, as `open_store` does, and closes it after the block. A store that is passed in place of a URL stays open."""
    if db is not None and not isinstance(db, str):
        yield db if codec is None else EncodedStore(db, codec)
        return
    store = open_store(db, codec)
    try:
        yield store
    finally:
        await store.close()


def open_plain_store(url: str) -> Store:
    """Open the store of a URL without a codec, so that payloads are seen as they are stored.

    Raises:
        BadValue: the URL names no store that this Perdure has.
        MissingExtra: the package that the store needs is not installed.
        StoreError: the file can't be opened.
    """
    if is_postgres(url):
        return _postgres_store(url)
    parts = _url_parts(url)
    if parts.scheme == "memory":
        return MemoryStore()
    if file := database_file(url):
        return SqliteStore(file)
    shown = shown_url(url)
    if experimental := EXPERIMENTAL_SCHEMES.get(parts.scheme.partition("+")[0]):
        expected = (
            f"a URL that can be opened yet: the store for {experimental} is experimental. Use {POSTGRES_URL_FORM}, which processes of many machines share"
        )
        raise BadValue("database URL", shown, expected)
    raise BadValue("database URL", shown, EXPECTED)


def _url_parts(url: str, what: str = "database URL", expected: str = EXPECTED_PARTS) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:  # such as a bracket in a password
        raise BadValue(what, shown_url(url), expected) from None


def open_store_to_copy(url: str) -> Store:
    """Open the store of a URL to copy it or to copy into it: as `open_plain_store` does, or an experimental one, such as ``redis://host:6379/0``.

    Raises:
        BadValue: the URL names no such store.
        ProgrammingError: the package that the store needs is not installed.
        StoreError: the file can't be opened.
    """
    scheme = _url_parts(url).scheme
    if scheme.partition("+")[0] in EXPERIMENTAL_SCHEMES:
        from perdure.stores.redis import RedisStore

        return RedisStore(url.replace("valkey", "redis", 1) if scheme.startswith("valkey") else url)
    return open_plain_store(url)


def is_postgres(url: str) -> bool:
    """Whether a URL names a Postgres database."""
    return url.partition("://")[0].lower() in ("postgres", "postgresql")


def _postgres_store(url: str, *, read_only: bool = False) -> "PostgresStore":
    from perdure.stores.postgres.store import PostgresStore

    return PostgresStore(url, read_only=read_only)


def shown_url(url: str) -> str:
    """The URL without its passwords, however it is written."""
    url = re.sub(r"(?i)([?&](?:password|sslpassword|perdure_direct_url)=)[^&]*", r"\1***", url)
    return re.sub(r"(?s)(?<=://)([^/:@]*):.*@", r"\1:***@", url)


def configured_blobs() -> BlobStore | None:
    """The blob store that `PERDURE_BLOB_STORE` names, such as ``file:///path``; None if large values stay in the store.

    Raises:
        BadValue: it names no blob store that this Perdure has.
    """
    url = os.environ.get("PERDURE_BLOB_STORE", "")
    if not url:
        return None
    expected = "file:///path/to/directory"
    parts = _url_parts(url, "PERDURE_BLOB_STORE", expected)
    if parts.scheme != "file" or parts.netloc or not parts.path.startswith("/") or parts.query or parts.fragment:
        raise BadValue("PERDURE_BLOB_STORE", url, expected)
    return DirectoryBlobStore(unquote(parts.path))


def configured_codec(codec: PayloadCodec | None = None) -> PayloadCodec | None:
    """The given codec, or else the one that the environment configures; None if payloads are stored as they are.

    `PERDURE_ENCRYPTION_KEYS` lists keys as ``id:key,id:key``; the first encrypts, all decrypt. With `PERDURE_ENCRYPTION_REQUIRED` set to 1, payloads
    that are not encrypted are refused. `PERDURE_COMPRESS` is 1 for zlib, or names a method.

    Raises:
        BadValue: a variable has an unknown value, or needs a package that is not installed.
    """
    if codec is not None:
        return codec
    method, keys, required = (os.environ.get(name, "") for name in ("PERDURE_COMPRESS", "PERDURE_ENCRYPTION_KEYS", "PERDURE_ENCRYPTION_REQUIRED"))
    if required not in ("", "0", "1"):
        raise BadValue("PERDURE_ENCRYPTION_REQUIRED", required, "0 or 1")
    match method:
        case "" | "0":
            compressed = None
        case "1" | "zlib":
            compressed = Compressed()
        case "zstd":
            compressed = Compressed(method="zstd")
        case _:
            raise BadValue("PERDURE_COMPRESS", method, "0, 1, zlib or zstd")
    if keys.strip():
        return Encrypted(parse_keys(keys), compressed, required=required == "1")
    if required == "1":
        raise BadValue("PERDURE_ENCRYPTION_KEYS", "", "there, as PERDURE_ENCRYPTION_REQUIRED wants; perdure db key new makes a key")
    return compressed


def open_read_only_store(url: str | None = None) -> ReadOnlyStore:
    """Open the store of a URL for reading only, as `open_store` does for writing. A missing file or missing tables are not created.

    Raises:
        BadValue: the URL names no store that this Perdure has.
        StoreError: the file can't be read.
    """
    chosen = configured_url(url)
    store: ReadOnlyStore
    if is_postgres(chosen):
        store = _postgres_store(chosen, read_only=True)
    elif file := database_file(chosen):
        store = ReadOnlySqliteStore(file)
    else:
        return open_store(url)
    codec = configured_codec()
    if (blobs := configured_blobs()) is not None:
        store = SeparateBlobsStore(store, blobs)  # type: ignore[arg-type]  # it is only read, and reading is all that this asks for
    return store if codec is None else EncodedStore(store, codec)  # type: ignore[arg-type]  # as above


def configured_url(url: str | None = None) -> str:
    """The given URL, or else `PERDURE_DB`, or else a file in ``.perdure``. It may contain a password."""
    return url or os.environ.get("PERDURE_DB") or DEFAULT_URL


def database_file(url: str) -> Path | None:
    """The database file that a URL names; None if it names none, as that of Postgres.

    Raises:
        BadValue: the URL can't be parsed, or uses SQLite's name for a database in memory, which would be a file here.
    """
    parts = _url_parts(url)
    file = unquote(parts.path[1:])
    if file.rpartition("/")[2] == ":memory:":
        raise BadValue("database URL", url, "a file's name; a store in memory is memory:, without sqlite")
    named = url[:10].lower() == "sqlite:///" and file and "\0" not in file and not parts.query and not parts.fragment
    return Path(file).absolute() if named else None
