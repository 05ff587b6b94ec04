"""The response of a request as data: its body by content type, its headers by lower-case name."""

from __future__ import annotations

import base64
import codecs
import re
from collections.abc import Callable, Iterable
from email.message import Message
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from perdure.core import values
from perdure.core.errors import ProgrammingError
from perdure.definitions.kinds import text_formats
from perdure.definitions.kinds.http.http_errors import ResponseRefused

EXCERPT_MAX = 300
"""How many characters of the body of an error response are in the message."""

CHARSETS = re.compile(
    r"utf-8|ascii|utf-(?:16|32)(?:-[bl]e)?|iso8859-\d+|cp125\d|cp932|cp949|cp950|gbk|gb2312|gb18030|big5(?:hkscs)?|shift_jis|euc_(?:jp|kr)|iso2022_jp|koi8-[ru]|mac-roman|tis-620"
)
"""The codecs of Python that are charsets of text; others compress or convert."""

_JSON = re.compile(r"(?:application|text)/(?:[\w.+-]+\+)?json")
_WIDE = re.compile(rb"\d{19}")
_UNPRINTED = re.compile(r"[\x00-\x1f\x7f-\x9f\s]+")


class ContentType(NamedTuple):
    """A content type: whether it is JSON, and its charset as the name of a Python codec."""

    is_json: bool
    charset: str


@lru_cache(maxsize=256)
def parse_content_type(header: str) -> ContentType:
    """Parses a Content-Type header; the charset is UTF-8 unless it names a known one."""
    message = Message()
    message["content-type"] = _UNPRINTED.sub(" ", header)
    try:
        name = codecs.lookup(str(message.get_param("charset") or "utf-8")).name
    except (LookupError, ValueError):
        name = ""
    return ContentType(bool(header and _JSON.fullmatch(message.get_content_type())), name if CHARSETS.fullmatch(name) else "utf-8")


def response_headers(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, Any]:
    """Returns headers by lower-case name; repeated ones are joined, except set-cookie, which is a list because its values contain commas."""
    found = dict[str, Any]()
    for name, value in raw:
        key, text = name.decode("ascii", "replace").lower(), _text_of_header(value)
        if key == "set-cookie":
            found.setdefault(key, []).append(text)
        else:
            found[key] = f"{found[key]}, {text}" if key in found else text
    return found


def decode_body(raw: bytes, type_header: str, taken_as: str, bodiless: bool) -> Any:
    """The body as data: in the format that is asked for; else JSON if its type says so and it parses, text if it decodes, or ``{"base64": ...}``.

    An empty body is None, or empty text or base64 if that is asked for.

    Raises:
        ResponseRefused: it is not of the format that is asked for.
    """
    kind = parse_content_type(type_header)
    if taken_as == "base64":
        return _base64(raw)
    if not raw and (bodiless or not taken_as):
        return "" if taken_as == "text" else None
    if taken_as == "json" or (not taken_as and kind.is_json):
        found, why = _json(raw, kind.charset)
        if not why:
            return found
        if taken_as:
            raise ResponseRefused(f"its body is not JSON: {why}" + (f": {cut}" if (cut := body_excerpt(raw, type_header)) else ""))
    if taken_as == "xml":
        return _content(text_formats.xml_data, raw, taken_as)
    text = _text(raw, kind.charset)
    if text is None and taken_as:
        raise ResponseRefused(f"its body is not text in {kind.charset}; take it as base64")
    if text is not None and taken_as in _CONTENTS:
        return _content(_CONTENTS[taken_as], text, taken_as)
    return _base64(raw) if text is None else text


_CONTENTS: dict[str, Callable[[str], Any]] = {"csv": text_formats.csv_rows, "lines": text_formats.text_lines}


def _content(reads: Callable[[Any], Any], given: bytes | str, taken_as: str) -> Any:
    try:
        return reads(given)
    except text_formats.ContentError as error:
        raise ResponseRefused(f"its body is not {taken_as}: {error}") from None


def body_excerpt(raw: bytes, type_header: str) -> str:
    """The beginning of a body, if it is text, on one line."""
    text = _text(raw, parse_content_type(type_header).charset, final=False)
    line = "" if text is None or "\0" in text else _UNPRINTED.sub(" ", text[: 4 * EXCERPT_MAX]).strip()
    return line if len(line) <= EXCERPT_MAX else f"{line[:EXCERPT_MAX]}…"


def _json(raw: bytes, charset: str) -> tuple[Any, str]:
    """The value of JSON text, or the reason why it can't be kept."""
    text = raw.removeprefix(codecs.BOM_UTF8)
    if charset not in ("utf-8", "ascii"):
        decoded = _text(raw, charset)
        text = b"" if decoded is None else decoded.encode("utf-8", "replace")
    try:
        found = msgspec.json.decode(text)
        if _WIDE.search(text):
            _ = values.encode(found, "the answer")
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        return None, str(error)
    except ProgrammingError:
        return None, "it has a number of more than 64 bits; take it as text"
    return found, ""


def _text(raw: bytes, charset: str, final: bool = True) -> str | None:
    """Decodes bytes as text; None if they are not text. Unless they are `final`, the last character may be incomplete."""
    try:
        return codecs.getincrementaldecoder(charset)().decode(raw, final)
    except UnicodeError:
        return None


def _base64(raw: bytes) -> dict[str, str]:
    return {"base64": base64.b64encode(raw).decode("ascii")}


def _text_of_header(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeError:
        return value.decode("latin-1")
