"""Serves the web console: the files that its build has put into the package, and its page at the address of each of its views.

    GET  /, /executions…, /workflows…, …   the page, for what accepts HTML; the page itself reads the address
    GET  /assets/{name}                    scripts and styles, whose names have a hash of their content
    GET  /icon.svg, /LICENSES.txt          further files of the build

All files are read once, when the process starts (2 MB in some hundredths of a second), so it serves the page that belongs to its code, also while another
version is installed over it. Only names that were found then are answered.
"""

import asyncio
import gzip
import re
import secrets
from collections.abc import Iterable, Mapping
from functools import cache, cached_property
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from perdure.api.entity_tags import is_known
from perdure.api.http_requests import ApiAnswer, ApiRequest, Headers
from perdure.api.openapi_document import NO_PATHS
from perdure.api.sign_in_page import html_answer

FOLDER = Path(__file__).with_name("console")
"""Where the build puts the files."""

VIEWS = frozenset(("", "executions", "workflows", "approvals", "triggers", "dead-letters", "proposals", "recordings", "system"))
"""The first segments of the addresses of views."""

BASE = '<base href="/">'
"""An element of the built page. An answer replaces it by one with the path below which the page is served."""

INDEX = "index.html"
ASSETS = "assets/"
HASHED, CHECKED = b"public, max-age=31536000, immutable", b"no-cache"
"""How long browsers keep a file: for ever if its name has a hash of its content; otherwise they ask each time."""

COMPRESSED_BYTES_MIN = 1_000
MEDIA_TYPES: Mapping[str, str] = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".woff2": "font/woff2",
}
COMPRESSIBLE = frozenset((".css", ".html", ".js", ".json", ".svg", ".txt"))

_REFUSED = re.compile(r"q=0(\.0*)?")
"""The weight of an encoding that a client does not take."""

FILE_POLICY = b"default-src 'none'; script-src 'self'; connect-src 'self'; worker-src 'self'; frame-ancestors 'none'"
"""The content security policy of files. The script of a web worker has its own policy, and not that of the page that starts it."""


class ConsoleFile:
    """A file of the console, with its media type."""

    def __init__(self, name: str, content: bytes) -> None:
        suffix = Path(name).suffix
        self.content, self.media_type = content, MEDIA_TYPES.get(suffix, "application/octet-stream")
        self.cache_control = HASHED if name.startswith(ASSETS) else CHECKED
        self.is_compressible = suffix in COMPRESSIBLE and len(content) >= COMPRESSED_BYTES_MIN
        self._hash = sha256(content).hexdigest()[:32].encode()

    @cached_property
    def compressed(self) -> bytes:
        """The content as gzip."""
        return gzip.compress(self.content, 9, mtime=0)

    async def answer(self, request: ApiRequest) -> ApiAnswer:
        """Answers with the file, compressed where the client takes that; with 304 if it has the file."""
        is_compressed = self.is_compressible and accepts_gzip(request.header("accept-encoding"))
        tag = b'"' + self._hash + (b"-gzip" if is_compressed else b"") + b'"'
        headers: Headers = ((b"etag", tag), (b"cache-control", self.cache_control), (b"content-security-policy", FILE_POLICY))
        headers = (*headers, (b"vary", b"accept-encoding")) if self.is_compressible else headers
        if is_known(request, headers):
            return ApiAnswer(304, headers=headers)
        if not is_compressed:
            return ApiAnswer(200, self.content, self.media_type, headers)
        body = await asyncio.to_thread(lambda: self.compressed)  # a large one takes some hundredths of a second, once
        return ApiAnswer(200, body, self.media_type, (*headers, (b"content-encoding", b"gzip")))


class ConsolePages:
    """Answers requests for the console. `sign_in` are the ways to sign in that the page offers: ``key``, ``oidc``, or ``token`` (that of `perdure dev`)."""

    def __init__(self, sign_in: Iterable[str] = (), folder: Path = FOLDER) -> None:
        self._sign_in, self._files = " ".join(sign_in), console_files(folder)

    @property
    def is_built(self) -> bool:
        """Is true if the folder has a built page."""
        return INDEX in self._files

    @property
    def documented(self) -> Mapping[str, Any]:
        """The console is no part of the API, so the OpenAPI document has none of its routes."""
        return NO_PATHS

    async def __call__(self, request: ApiRequest) -> ApiAnswer | None:
        """Answers a request; returns None if it is not for the console."""
        if request.method not in ("GET", "HEAD"):
            return None
        name = "/".join(request.segments)
        if name != INDEX and (file := self._files.get(name)) is not None:
            return await file.answer(request)
        if request.segments[0] not in VIEWS or "text/html" not in request.header("accept"):
            return None
        return self._page(request.root) if self.is_built else _missing_page(request.root)

    def _page(self, root: str) -> ApiAnswer:
        """The page, with the path below which it is served. It has no tag: its nonce, which is in a header too, is for one answer alone."""
        nonce = secrets.token_urlsafe(16)
        told = (
            f'<base href="{escape(quote(root))}/">\n    <meta name="csp-nonce" content="{nonce}">\n    <meta name="sign-in" content="{escape(self._sign_in)}">'
        )
        body = self._files[INDEX].content.replace(BASE.encode(), told.encode(), 1)
        headers = ((b"cache-control", CHECKED), (b"content-security-policy", page_policy(nonce).encode()))
        return ApiAnswer(200, body, MEDIA_TYPES[".html"], headers)


@cache
def console_files(folder: Path) -> Mapping[str, ConsoleFile]:
    """Reads the files of a build, by their paths below its folder; none if nothing was built there."""
    found = sorted(file for file in folder.rglob("*") if file.is_file()) if (folder / INDEX).is_file() else []
    named = ((file.relative_to(folder).as_posix(), file) for file in found)
    return {name: ConsoleFile(name, file.read_bytes()) for name, file in named}


def page_policy(nonce: str) -> str:
    """Returns the content security policy of the page: it loads files of this server alone, and applies those inline styles that have the nonce."""
    return (
        f"default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; img-src 'self' data:; font-src 'self'; connect-src 'self'; "
        "worker-src 'self'; frame-ancestors 'none'; form-action 'self'; base-uri 'self'"
    )


def accepts_gzip(header: str) -> bool:
    """Returns whether the header ``Accept-Encoding`` of a request allows an answer compressed by gzip."""
    weights = {name.strip(): weight.replace(" ", "") for name, _, weight in (part.partition(";") for part in header.lower().split(","))}
    return _REFUSED.fullmatch(weights.get("gzip", "q=0")) is None


def _missing_page(root: str) -> ApiAnswer:
    body = (
        "<p>This installation has no built files of the console. A wheel of Perdure always has them; in a checkout, run <code>make console</code> and start "
        "this server again.</p><p>Everything else works: the HTTP API "
        f'(<a href="{escape(root)}/openapi.json">its document</a>), <a href="{escape(root)}/login">the sign-in</a> and the command <code>perdure</code>.</p>'
    )
    return html_answer(404, "The console is not built", body, ((b"cache-control", b"no-store"),))
