"""Bodies: what is sent, as bytes with their type. The same data gives the same bytes in every try, so that a receiver knows what it has seen."""

from __future__ import annotations

import base64
import binascii
import json
import mimetypes
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any, NamedTuple
from urllib.parse import urlencode

from perdure.steps.http.errors import WrongRequest

BODIES = ("body", "json", "form", "files")
"""The fields that say what is sent."""

_QUOTED = str.maketrans({'"': "%22", "\r": "%0D", "\n": "%0A"})


class Body(NamedTuple):
    """What is sent, and its content type; neither if nothing is."""

    content: bytes = b""
    type: str = ""


def encoded(fields: Mapping[str, Any]) -> Body:
    """What these fields, which go together, send.

    Raises:
        WrongRequest: one of them can't be sent.
    """
    if "files" in fields:
        return _multipart(fields.get("form", {}), fields["files"])
    match fields:
        case {"form": form}:
            return Body(urlencode([(name, _utf8(text, "/form").decode()) for name, text in _form(form)]).encode("ascii"), "application/x-www-form-urlencoded")
        case {"json": value}:
            return Body(_json(value, "/json"), "application/json")
        case {"body": str(text)}:
            return Body(_utf8(text, "/body"), "text/plain; charset=utf-8")
        case {"body": {"base64": text, **others}} if not others:
            return Body(_bytes(text, "/body/base64"), "application/octet-stream")
        case {"body": value} if value is not None:
            return Body(_json(value, "/body"), "application/json")
    return Body()


def texts(value: Any, where: str) -> Iterator[str]:
    """The texts of a field that may be repeated: of a list each, of nothing none.

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
                yield from texts(one, where)
        case _:
            raise WrongRequest(where, "it is text, a number, true or false, or a list of these")


def _form(form: Any) -> list[tuple[str, str]]:
    if not isinstance(form, Mapping):
        raise WrongRequest("/form", "a form is a mapping")
    return [(str(name), text) for name, value in form.items() for text in texts(value, f"/form/{name}")]


def _multipart(form: Any, files: Any) -> Body:
    """Fields and files, with a line between them that follows from them, and so stands in none."""
    if not isinstance(files, Mapping):
        raise WrongRequest("/files", "files are a mapping")
    parts = [(f'name="{_quoted(name)}"', _utf8(text, f"/form/{name}")) for name, text in _form(form)]
    parts += [_file(str(name), value) for name, value in files.items()]
    raw = [b"Content-Disposition: form-data; %b\r\n\r\n%b" % (_utf8(head, "/files"), content) for head, content in parts]
    line = b"--" + sha256(b"\0".join(raw)).hexdigest().encode("ascii")
    content = b"".join(b"%b\r\n%b\r\n" % (line, part) for part in raw) + line + b"--\r\n"
    return Body(content, f"multipart/form-data; boundary={line[2:].decode('ascii')}")


def _file(name: str, value: Any) -> tuple[str, bytes]:
    where = f"/files/{name}"
    said = value if isinstance(value, Mapping) else {"content": value}
    if "content" not in said or (strange := said.keys() - {"content", "filename", "type"}):
        what = "its content is missing" if "content" not in said else f"a file has content, filename and type, not {', '.join(sorted(map(str, strange)))}"
        raise WrongRequest(where, what)
    filename = said.get("filename") or name
    kind = said.get("type") or mimetypes.guess_type(str(filename))[0] or "application/octet-stream"
    if not isinstance(filename, str) or not isinstance(kind, str) or not (kind.isascii() and kind.isprintable()):
        raise WrongRequest(where, "filename and type are text, the type one line of ASCII")
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
        raise WrongRequest(where, "it can't be written as JSON") from None


def _utf8(text: str, where: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeError:
        raise WrongRequest(where, "it has text in it that has no encoding in UTF-8") from None


def _bytes(text: Any, where: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True) if isinstance(text, str) else _no_text(where)
    except (binascii.Error, ValueError):
        raise WrongRequest(where, "it is not base64") from None


def _no_text(where: str) -> bytes:
    raise WrongRequest(where, "base64 is text")
