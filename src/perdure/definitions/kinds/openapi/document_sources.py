"""Where OpenAPI documents come from: a URL, fetched by the guarded network of the kind `http`, or a file below the directory that a deployment allows.

A document is parsed once for each content: it is kept by the SHA-256 of its place and its text, up to `KEPT_BYTES_MAX` of text. A URL is asked again `FRESH_S`
after its last answer, with the ETag that it gave. What was fetched under the permissions of one deployment is not used under others.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from perdure.core.errors import NotAllowed
from perdure.definitions.kinds.deployment import Deployment
from perdure.definitions.kinds.file import confined_directory
from perdure.definitions.kinds.file.file_kind import HOW_TO_ALLOW
from perdure.definitions.kinds.http import http_request
from perdure.definitions.kinds.http.http_errors import ResponseRefused
from perdure.definitions.kinds.openapi.api_description import DOCUMENT_BYTES_MAX, OpenapiDocument
from perdure.definitions.kinds.openapi.openapi_errors import DocumentRefused

FRESH_S = 300.0
"""How long the document of a URL is used before the URL is asked again."""

KEPT_BYTES_MAX = 32_000_000
"""How much text of documents stays parsed in a process; the documents that were used least recently are dropped."""

ADDRESSES_MAX = 1_000


class SourcedDocument(NamedTuple):
    """A document, and the address that relative URLs of its servers begin with (empty: it is a file)."""

    document: OpenapiDocument
    address: str


class FetchedAddress(NamedTuple):
    """What a URL has answered: the key of the document, its address after redirects, its ETag, and until when it is used, by the monotonic clock."""

    key: str
    address: str
    etag: str
    until_s: float


class DocumentCache:
    """The documents of a process by their content, and what URLs have answered."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._documents = OrderedDict[str, tuple[OpenapiDocument, int]]()
        self._addresses = OrderedDict[tuple[Any, str], FetchedAddress]()

    def parsed(self, name: str, raw: bytes) -> tuple[str, OpenapiDocument]:
        """The document of these bytes, which messages call `name`, and its key.

        Raises:
            DocumentRefused: it can't be read.
        """
        key = sha256(name.encode("utf-8", "replace") + b"\0" + raw).hexdigest()
        with self._lock:
            if (known := self.document(key)) is not None:
                return key, known
        found = OpenapiDocument.read(name, raw)
        with self._lock:
            self._documents[key] = (found, len(raw))
            while len(self._documents) > 1 and sum(size for _, size in self._documents.values()) > KEPT_BYTES_MAX:
                self._documents.popitem(last=False)
        return key, found

    def document(self, key: str) -> OpenapiDocument | None:
        """The document of a key, if it is still kept."""
        if key not in self._documents:
            return None
        self._documents.move_to_end(key)
        return self._documents[key][0]

    def address(self, allowed: Any, url: str) -> FetchedAddress | None:
        """What a URL has answered under these permissions, if its document is still kept."""
        found = self._addresses.get((allowed, url))
        return found if found is not None and found.key in self._documents else None

    def answered(self, allowed: Any, url: str, fetched: FetchedAddress) -> None:
        """Keeps what a URL has answered."""
        self._addresses[allowed, url] = fetched
        self._addresses.move_to_end((allowed, url))
        while len(self._addresses) > ADDRESSES_MAX:
            self._addresses.popitem(last=False)


CACHE = DocumentCache()
"""The documents of this process."""

_fetches: WeakValueDictionary[tuple[Any, Any, str], asyncio.Lock] = WeakValueDictionary()
"""The locks of URLs that are being fetched, so that steps that begin together fetch a document once."""


async def load_document(source: Mapping[str, Any], deployment: Deployment, key: str, limit_s: float) -> SourcedDocument:
    """The document that a config names by `url` or `file`. `key` is the idempotency key of the step, `limit_s` bounds the request.

    Raises:
        DocumentRefused: it can't be read.
        NotAllowed, FileMissing, FileRefused: of a file.
        RequestError, AddressRefused, NoResponse, ResponseRefused, StatusRefused, StatusTransient: of a URL, as a step `http` would fail.
    """
    if "file" in source:
        return await asyncio.to_thread(read_file, str(source["file"]), deployment)
    url = str(source["url"])
    lock = _fetches.setdefault((asyncio.get_running_loop(), deployment.allowed.http, url), asyncio.Lock())
    async with lock:
        known = CACHE.address(deployment.allowed.http, url)
        if known is None or known.until_s < time.monotonic():
            known = await _fetched(url, known, deployment, key, limit_s)
        document = CACHE.document(known.key)
    if document is None:
        raise DocumentRefused(url, "", "it was dropped while it was read, as others were read meanwhile; retry the execution")
    return SourcedDocument(document, known.address)


def known_document(source: Mapping[str, Any], deployment: Deployment) -> OpenapiDocument | None:
    """The document that a config names, if it is a file that can be read here or was fetched before. Fetches nothing.

    Raises:
        DocumentRefused, FileRefused: the file can't be a document.
    """
    if "file" in source:
        try:
            return read_file(str(source["file"]), deployment).document
        except (NotAllowed, confined_directory.FileMissing, OSError):  # it may be there where the step runs
            return None
    known = CACHE.address(deployment.allowed.http, str(source.get("url")))
    return None if known is None else CACHE.document(known.key)


def read_file(path: str, deployment: Deployment) -> SourcedDocument:
    """The document in a file below the directory that the deployment allows. Blocks.

    Raises:
        NotAllowed: the deployment allows no directory.
        FileMissing, FileRefused: there is no such file, or it is too large.
        DocumentRefused: it can't be read.
    """
    root = deployment.allowed.file
    if root is None:
        raise NotAllowed("file", "definitions may use no files unless the engine allows a directory", HOW_TO_ALLOW)
    raw = confined_directory.read_file(Path(root), path, DOCUMENT_BYTES_MAX)
    return SourcedDocument(CACHE.parsed(path, raw)[1], "")


async def _fetched(url: str, known: FetchedAddress | None, deployment: Deployment, key: str, limit_s: float) -> FetchedAddress:
    from perdure.definitions.kinds.http import guarded_network, http_exchange  # here, as they take a library that is optional

    headers = {"Accept": "application/json, application/yaml, */*;q=0.5", **({"If-None-Match": known.etag} if known is not None and known.etag else {})}
    request = http_request.build_request({"url": url, "headers": headers, "as": "text", "max_bytes": DOCUMENT_BYTES_MAX}, None)
    try:
        pool = await guarded_network.guarded_connections(deployment.allowed.http)
        answer = await http_exchange.HttpExchange(pool, request, key).result(limit_s)
    except ResponseRefused as error:
        raise DocumentRefused(url, "", f"it can't be fetched: {str(error).partition(';')[0]}") from None
    until_s, etag = time.monotonic() + FRESH_S, str(answer["headers"].get("etag", ""))
    if answer["status"] == 304 and known is not None:
        found = known._replace(until_s=until_s)
    else:
        content, _ = await asyncio.to_thread(CACHE.parsed, url.partition("?")[0], str(answer["body"] or "").encode())
        found = FetchedAddress(content, answer["url"], etag if etag.isascii() and etag.isprintable() else "", until_s)
    CACHE.answered(deployment.allowed.http, url, found)
    return found
