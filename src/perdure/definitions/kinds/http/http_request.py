"""The request of an http step: its config and input, with the body as bytes, and the rules for its response.

The same data gives the same bytes in every attempt, so that a receiver can recognize a repeated request.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
import mimetypes
import re
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import quote, urlencode

from perdure.core.errors import MissingExtra
from perdure.definitions.format.shapes import is_template
from perdure.definitions.format.verb_shapes import HTTP_METHODS
from perdure.definitions.kinds.http.http_errors import RequestError
from perdure.definitions.kinds.http.http_targets import UrlError, parse_target, url_origin

if TYPE_CHECKING:
    from httpx2 import URL


BODY_FIELDS = ("body", "json", "form", "files")
"""The fields that hold the body; at most one of them is allowed."""

_QUOTED = str.maketrans({'"': "%22", "\r": "%0D", "\n": "%0A"})


class RequestBody(NamedTuple):
    """The body as bytes, and its content type; both are None without a body."""

    content: bytes = b""
    type: str = ""


def encode_body(fields: Mapping[str, Any]) -> RequestBody:
    """Encodes the fields of a body.

    Raises:
        RequestError: one of them can't be sent.
    """
    if "files" in fields:
        return _multipart(fields.get("form", {}), fields["files"])
    match fields:
        case {"form": form}:
            return RequestBody(
                urlencode([(name, _utf8(text, "/form").decode()) for name, text in _form(form)]).encode("ascii"), "application/x-www-form-urlencoded"
            )
        case {"json": value}:
            return RequestBody(_json(value, "/json"), "application/json")
        case {"body": str(text)}:
            return RequestBody(_utf8(text, "/body"), "text/plain; charset=utf-8")
        case {"body": {"base64": text, **others}} if not others:
            return RequestBody(_bytes(text, "/body/base64"), "application/octet-stream")
        case {"body": value} if value is not None:
            return RequestBody(_json(value, "/body"), "application/json")
    return RequestBody()


def field_texts(value: Any, where: str) -> Iterator[str]:
    """Returns the values of a field that may be repeated: those of a list, or none for null.

    Raises:
        WrongRequest: it is neither text nor a number nor true or false, nor a list of these.
    """
    match value:
        case None:
            return
        case bool():
            yield "true" if value else "false"
        case str():
            yield value
        case int() | float():
            yield json.dumps(value)
        case list() if not any(isinstance(one, list | Mapping) for one in value):
            for one in value:
                yield from field_texts(one, where)
        case _:
            raise RequestError(where, "it is text, a number, true or false, or a list of these")


def _form(form: Any) -> list[tuple[str, str]]:
    if not isinstance(form, Mapping):
        raise RequestError("/form", "a form is a mapping")
    return [(str(name), text) for name, value in form.items() for text in field_texts(value, f"/form/{name}")]


def _multipart(form: Any, files: Any) -> RequestBody:
    """Fields and files, separated by a boundary that is derived from them and therefore occurs in none of them."""
    if not isinstance(files, Mapping):
        raise RequestError("/files", "files are a mapping")
    parts = [(f'name="{_quoted(name)}"', _utf8(text, f"/form/{name}")) for name, text in _form(form)]
    parts += [_file(str(name), value) for name, value in files.items()]
    raw = [b"Content-Disposition: form-data; %b\r\n\r\n%b" % (_utf8(head, "/files"), content) for head, content in parts]
    line = b"--" + sha256(b"\0".join(raw)).hexdigest().encode("ascii")
    content = b"".join(b"%b\r\n%b\r\n" % (line, part) for part in raw) + line + b"--\r\n"
    return RequestBody(content, f"multipart/form-data; boundary={line[2:].decode('ascii')}")


def _file(name: str, value: Any) -> tuple[str, bytes]:
    where = f"/files/{name}"
    said = value if isinstance(value, Mapping) else {"content": value}
    if "content" not in said or (strange := said.keys() - {"content", "filename", "type"}):
        what = "its content is missing" if "content" not in said else f"a file has content, filename and type, not {', '.join(sorted(map(str, strange)))}"
        raise RequestError(where, what)
    filename = said.get("filename") or name
    kind = said.get("type") or mimetypes.guess_type(str(filename))[0] or "application/octet-stream"
    if not isinstance(filename, str) or not isinstance(kind, str) or not (kind.isascii() and kind.isprintable()):
        raise RequestError(where, "filename and type are text, the type one line of ASCII")
    match said["content"]:
        case str(text):
            content = _utf8(text, where)
        case {"base64": text, **others} if not others:
            content = _bytes(text, f"{where}/content/base64")
        case other:
            content = _json(other, f"{where}/content")
    return f'name="{_quoted(name)}"; filename="{_quoted(filename)}"\r\nContent-Type: {kind}', content


def _quoted(name: str) -> str:
    """A name in the head of a part, as browsers write it."""
    return name.translate(_QUOTED)


def _json(value: Any, where: str) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8")
    except (TypeError, ValueError, RecursionError):
        raise RequestError(where, "it can't be written as JSON") from None


def _utf8(text: str, where: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeError:
        raise RequestError(where, "it has text that can't be encoded in UTF-8") from None


def _bytes(text: Any, where: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True) if isinstance(text, str) else _no_text(where)
    except (binascii.Error, ValueError):
        raise RequestError(where, "it is not base64") from None


def _no_text(where: str) -> bytes:
    raise RequestError(where, "base64 is text")


MAX_BYTES, MAX_BYTES_MOST = 10_000_000, 16_000_000
"""How long the body of an answer may be: unless the step says otherwise, and at most, as the largest value that is kept has 16 MiB."""

REDIRECTS, REDIRECTS_MOST = 5, 20
REPEATABLE = frozenset(("GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"))
"""The idempotent methods (RFC 9110, section 9.2.2)."""

UNCHANGING = frozenset(("GET", "HEAD", "OPTIONS", "TRACE"))
IN_INPUT = frozenset(("url", "headers", "query", *BODY_FIELDS))
"""The fields that the input may add to a config, because they may hold secrets."""

OUR_OWN = frozenset(("host", "content-length", "transfer-encoding", "connection", "keep-alive", "upgrade", "te", "trailer", "expect", "proxy-connection"))
_NO_ENVIRONMENT = "a request has no environment; put what is in `env` into headers or `with`"
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\x20-\x7e\t]*")


@dataclasses.dataclass(frozen=True)
class HttpRequest:
    """A request, and the rules for its response.

    `accept` lists statuses from 400 on that are results (None: all). `secret` is the part of the URL that came from the input, where secrets may be: its
    query, or all but its origin. `secret_body` says the same of the body; `keyed` says whether an idempotency key is sent.
    """

    method: str
    url: URL
    headers: tuple[tuple[str, str], ...]
    content: RequestBody
    secret: Literal["", "query", "url"] = ""
    taken_as: str = ""
    accept: frozenset[int] | None = frozenset()
    redirects: int = REDIRECTS
    max_bytes: int = MAX_BYTES
    keyed: bool = True
    secret_body: bool = False


def build_request(config: Any, given: Any, env: Any = None) -> HttpRequest:
    """The request of a step. `given`, its input, is merged over the config; without a config it is the whole request.

    Headers, query, form and files are merged entry by entry, other fields as a whole.

    Raises:
        RequestError: it is not a valid request.
    """
    if env:
        raise RequestError("", _NO_ENVIRONMENT)
    said = {"url": config} if isinstance(config, str) else {} if config is None else config
    if not isinstance(said, Mapping) or not isinstance(given, Mapping | None):
        raise RequestError("", "http and `with` must be mappings")
    if config is not None and (strange := _strange(given or {})):
        raise RequestError("", strange)
    over: Mapping[str, Any] = given or {}
    fields = dict(said)
    for name, value in over.items():
        before, both = fields.get(name), name in ("headers", "query", "form", "files")
        fields[name] = {**before, **value} if both and isinstance(before, Mapping) and isinstance(value, Mapping) else value
    fields = {name: value for name, value in fields.items() if value is not None or name in ("body", "json")}
    for where, what in _misfits(fields):
        raise RequestError(where, what)
    if "url" in over:
        _check_secret_url(said.get("url"), fields["url"])
    secret: Literal["", "query", "url"] = "url" if "url" in over else "query" if "query" in over else ""
    return dataclasses.replace(_made(fields), secret=secret, secret_body=not over.keys().isdisjoint(("body", "json", "form", "files")))


def _check_secret_url(declared: Any, url: Any) -> None:
    """Checks that a URL that may be a secret is valid and has the origin of the config. The errors reveal nothing of it."""
    try:
        leads_to = url_origin(_url(url))
    except RequestError:
        raise RequestError("/url", "the value in `with` is not a URL that a request may go to") from None
    if declared is not None and leads_to != url_origin(_url(declared)):
        raise RequestError("/url", "the value in `with` leads to another scheme, host or port")


def check_request(config: Any) -> Iterator[tuple[str, str]]:
    """The problems of a config whose references are not resolved yet, as JSON pointers and texts. Values with references are not checked."""
    said = {"url": config} if isinstance(config, str) else config
    if not isinstance(said, Mapping):
        return
    yield from _misfits(said)
    for name, value in said.items():
        if name in FIELD_READERS and not _has_references(value):
            try:
                _ = FIELD_READERS[name](value)
            except RequestError as error:
                yield error.where, error.what
            except MissingExtra:
                continue  # who runs it needs the library, who checks it not


def check_http_step(step: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The problems of a whole step, beyond its config."""
    given = step.get("with")
    if "http" in step and isinstance(given, Mapping) and (strange := _strange(given)):
        yield "", strange
    if step.get("env"):
        yield "", _NO_ENVIRONMENT


def _strange(given: Mapping[Any, Any]) -> str:
    """Why an input can't accompany a config; empty if it can."""
    found = ", ".join(sorted(map(str, given.keys() - IN_INPUT)))
    return f"{found} can't stand in `with`, only {', '.join(sorted(IN_INPUT))}" if found else ""


def is_repeatable(config: Any) -> bool:
    """Whether the request of a config may be sent again when it is not known how far it came."""
    method = config.get("method", "GET") if isinstance(config, Mapping) else "GET" if isinstance(config, str) else ""
    return isinstance(method, str) and method.upper() in REPEATABLE


def _misfits(fields: Mapping[Any, Any]) -> Iterator[tuple[str, str]]:
    """The problems of a request's fields beyond their values."""
    yield from ((f"/{name}", f"it is no field of a request; it has {', '.join(FIELD_READERS)}") for name in fields if name not in FIELD_READERS)
    bodies = [name for name in BODY_FIELDS if name in fields]
    if len(bodies) > 1 and bodies != ["form", "files"]:
        yield f"/{bodies[-1]}", f"{' and '.join(bodies)} are each what is sent; keep one (a form may have files)"
    if bodies and fields.get("method") in ("TRACE", "trace"):
        yield f"/{bodies[-1]}", "TRACE sends nothing"
    if "url" not in fields:
        yield "", "url is missing: where the request goes"


def _has_references(value: Any) -> bool:
    match value:
        case Mapping():
            return any(map(_has_references, value.values()))
        case list():
            return any(map(_has_references, value))
    return is_template(value)


def _made(fields: Mapping[str, Any]) -> HttpRequest:
    read = {name: FIELD_READERS[name](value) for name, value in fields.items() if name not in BODY_FIELDS}
    url, method = read["url"], read.get("method", "GET")
    if query := urlencode(read.get("query", ()), quote_via=quote):
        own = url.query.decode("ascii")
        url = url.copy_with(query=f"{own}&{query}".removeprefix("&").encode("ascii"))
    return HttpRequest(
        method,
        url,
        read.get("headers", ()),
        encode_body({name: fields[name] for name in BODY_FIELDS if name in fields}),
        taken_as=read.get("as", ""),
        accept=read.get("accept", frozenset()),
        redirects=read.get("redirects", REDIRECTS),
        max_bytes=read.get("max_bytes", MAX_BYTES),
        keyed=read.get("idempotency_key", True) and method not in UNCHANGING,
    )


def _url(value: Any) -> URL:
    if not isinstance(value, str):
        raise RequestError("/url", "a URL is text")
    try:
        return parse_target(value)
    except UrlError as error:
        raise RequestError("/url", str(error)) from None


def _method(value: Any) -> str:
    if not isinstance(value, str) or value.upper() not in HTTP_METHODS.split("|"):
        raise RequestError("/method", f"a method is one of {HTTP_METHODS.replace('|', ', ')}")
    return value.upper()


def _headers(value: Any) -> tuple[tuple[str, str], ...]:
    """The headers, in order, one that has several values several times."""
    if not isinstance(value, Mapping):
        raise RequestError("/headers", "headers are a mapping")
    found = list[tuple[str, str]]()
    for name, one in value.items():
        where = f"/headers/{name}"
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            raise RequestError("/headers", "the name of a header has letters, digits and hyphens")
        if name.lower() in OUR_OWN:
            raise RequestError(where, "it follows from the request and can't be set")
        for text in field_texts(one, where):
            if not _VALUE.fullmatch(text):
                raise RequestError(where, "a header is one line of ASCII; encode other characters")
            found.append((name, text.strip(" \t")))
    return tuple(found)


def _query(value: Any) -> list[tuple[str, str]]:
    if not isinstance(value, Mapping):
        raise RequestError("/query", "a query is a mapping")
    found = [(str(name), text) for name, one in value.items() for text in field_texts(one, f"/query/{name}")]
    try:
        _ = urlencode(found)
    except UnicodeError:
        raise RequestError("/query", "it has text that can't be encoded in UTF-8") from None
    return found


def _accept(value: Any) -> frozenset[int] | None:
    statuses = value if isinstance(value, list | tuple) else [value]
    if value == "any":
        return None
    if not all(_is_whole(one) and 400 <= one <= 599 for one in statuses):
        raise RequestError("/accept", "any, or a list of statuses such as 404")
    return frozenset(map(int, statuses))


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value // 1


def _whole(name: str, least: int, most: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if not _is_whole(value) or not least <= value <= most:
            raise RequestError(f"/{name}", f"a whole number from {least:,} to {most:,}")
        return int(value)

    return read


def _one_of(name: str, *values: Any) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if not any(value is one or (value == one and type(value) is type(one)) for one in values):
            raise RequestError(f"/{name}", f"one of {', '.join(map(str, values)).lower()}")
        return value

    return read


FIELD_READERS: dict[str, Callable[[Any], Any]] = {
    "url": _url,
    "method": _method,
    "headers": _headers,
    "query": _query,
    "body": lambda value: encode_body({"body": value}),
    "json": lambda value: encode_body({"json": value}),
    "form": lambda value: encode_body({"form": value}),
    "files": lambda value: encode_body({"files": value}),
    "as": _one_of("as", "json", "text", "csv", "lines", "xml", "base64"),
    "accept": _accept,
    "redirects": _whole("redirects", 0, REDIRECTS_MOST),
    "max_bytes": _whole("max_bytes", 1, MAX_BYTES_MOST),
    "idempotency_key": _one_of("idempotency_key", True, False),
}
"""By field, the function that reads its value or raises `RequestError`."""
