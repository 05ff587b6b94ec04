"""Masks: what hides secrets in whatever a step gives out, so that none is kept, sent on or shown.

A secret is hidden wherever it stands as it is, and in the forms that programs write it in: escaped in JSON, Python, HTML or a shell, in an
address, in hexadecimal, in base64 at any alignment and though it is broken into lines; of one with several lines, each line. What was made of
it otherwise (reversed, hashed, encrypted, cut into pieces, or read as a number) is not known again. Nothing here fails: what can't be searched is
hidden as a whole.
"""

import base64
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any, AnyStr
from urllib.parse import quote, quote_plus

import msgspec
from msgspec.structs import replace

from perdure.core.errors import ErrorInfo
from perdure.core.ops import Err, Ok, Outcome

HIDDEN = "***"
CHARACTERS_MIN = 4
"""A shorter secret is not hidden: it would be found in everything."""

ENCODED_CHARACTERS_MIN, LINE_CHARACTERS_MIN = 6, 6
"""From how many characters on a piece of base64, or a line of a secret, is taken for a part of it."""

BROKEN_CHARACTERS_MIN, ANCHOR_CHARACTERS = 60, 16
"""From which length on base64 may be broken into lines, and of how many characters are the two pieces in a row of which one is then whole."""

BETWEEN = r"(?:[\r\n]|\\r|\\n)*"
"""What stands between two characters of base64 that is broken into lines, in a text or in one that is escaped."""

Find = Callable[[str], str | None]
"""The value of a secret, by its name; None if there is none. It may block, so it is called in a thread."""


def nothing(_: str) -> None:
    """Finds no secret."""


def maskable(value: str) -> bool:
    """Whether a secret is long enough to be hidden."""
    return len(value.strip()) >= CHARACTERS_MIN


class Mask:
    """Hides these secrets; one that is not `maskable` is left out. False, if there is nothing to hide."""

    __slots__ = ("_broken", "_bytes", "_texts")

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = {secret for secret in secrets if maskable(secret)}
        forms = {form for secret in known for form in _forms(secret)}
        self._texts = tuple(sorted(forms, key=len, reverse=True))
        self._bytes = tuple(map(_utf8, self._texts))
        self._broken = tuple(core for secret in known for core in _base64(_utf8(secret)) if len(core) >= BROKEN_CHARACTERS_MIN)

    def __bool__(self) -> bool:
        return bool(self._texts)

    def __repr__(self) -> str:
        return "Mask(...)"

    def text(self, text: str) -> str:
        """A text without them."""
        for core in self._broken:
            if any(anchor in text for anchor in _anchors(core)):
                text = re.sub(BETWEEN.join(map(re.escape, core)), HIDDEN, text)
        return _hidden(text, self._texts, HIDDEN)

    def raw(self, raw: bytes) -> bytes:
        """Bytes without them, in UTF-8 as other languages write it."""
        for core in self._broken:
            if any(anchor.encode() in raw for anchor in _anchors(core)):
                raw = re.sub(BETWEEN.join(map(re.escape, core)).encode(), HIDDEN.encode(), raw)
        return _hidden(raw, self._bytes, HIDDEN.encode())

    def data(self, value: Any) -> Any:
        """Plain data without them, also in the names of mappings; two names that become one are told apart by a number."""
        match value:
            case str():
                return self.text(value)
            case bytes():
                return self.raw(value)
            case list():
                return [self.data(item) for item in value]
            case dict():
                hidden: dict[Any, Any] = {}
                for key, item in value.items():
                    hidden[_other(self.data(key), hidden) if isinstance(key, str | bytes) else key] = self.data(item)
                return hidden
            case msgspec.msgpack.Ext():
                return msgspec.msgpack.Ext(value.code, self.raw(bytes(value.data)))
        return value

    def value(self, raw: bytes) -> bytes:
        """An encoded value without them: the same bytes, if there are none in it."""
        if not self._is_in(raw):
            return raw
        try:
            value = msgspec.msgpack.decode(raw)
            hidden = self.data(value)
            return raw if hidden == value else msgspec.msgpack.encode(hidden)
        except (msgspec.MsgspecError, ValueError, TypeError, RecursionError):
            return msgspec.msgpack.encode(HIDDEN)

    def error(self, error: ErrorInfo) -> ErrorInfo:
        """An error without them."""
        data = None if error.data is None else self.value(error.data)
        return ErrorInfo(self.text(error.type), self.text(error.message), self.text(error.traceback), data)

    def outcome(self, outcome: Outcome) -> Outcome:
        """What came of a try, without them. A value that is kept elsewhere already is left as it is."""
        match outcome:
            case Ok(value) if isinstance(value, bytes):
                hidden = self.value(value)
                return outcome if hidden is value else replace(outcome, value=hidden)
            case Err(_, error):
                return replace(outcome, error=self.error(error))
        return outcome

    def _is_in(self, raw: bytes) -> bool:
        """Whether one of them may be in an encoded value; text stands in it as it is."""
        return any(form in raw for form in self._bytes) or any(anchor.encode() in raw for core in self._broken for anchor in _anchors(core))


def _hidden(within: AnyStr, forms: Iterable[AnyStr], hidden: AnyStr) -> AnyStr:
    """`within`, where each piece that forms cover is `hidden`: of forms that overlap, nothing of either is left."""
    spans = sorted(span for form in forms for span in _spans(within, form))
    if not spans:
        return within
    pieces: list[tuple[int, int]] = [spans[0]]
    for start, end in spans[1:]:
        if start < pieces[-1][1]:
            pieces[-1] = (pieces[-1][0], max(end, pieces[-1][1]))
        else:
            pieces.append((start, end))
    kept = [within[end:start] for (_, end), (start, _) in pairwise([(0, 0), *pieces, (len(within), 0)])]
    return hidden.join(kept)


def _spans(within: AnyStr, form: AnyStr) -> Iterator[tuple[int, int]]:
    """Where a form stands; of places that overlap, the whole."""
    start = end = -1
    at = within.find(form)
    while at >= 0:
        if at >= end:
            if end >= 0:
                yield start, end
            start = at
        end = at + len(form)
        at = within.find(form, at + 1)
    if end >= 0:
        yield start, end


def _other(key: Any, taken: dict[Any, Any]) -> Any:
    number, unlike = 1, key
    while unlike in taken:
        number += 1
        unlike = f"{key} ({number})" if isinstance(key, str) else key + b" (%d)" % number
    return unlike


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _forms(secret: str) -> Iterator[str]:
    """All forms of a secret, of its lines too."""
    yield from _written(secret)
    stripped = secret.strip()
    yield from _written(stripped)
    for form in _base64(_utf8(secret)):
        yield from _in_transit(form)
    for raw in (_utf8(secret), _utf8(stripped)):
        for whole in (base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode()):
            yield from (whole, whole.rstrip("="))
        yield from (raw.hex(), raw.hex().upper())
    if len(lines := stripped.splitlines()) > 1:
        for line in map(str.strip, lines):
            if len(line) >= LINE_CHARACTERS_MIN and not line.startswith("-----"):  # the frame of a PEM file is no secret
                yield from _written(line)


def _written(text: str) -> Iterator[str]:
    """A text as it is, and as JSON, Python, HTML, addresses and shells have it."""
    yield text
    for escaped in (_in_json(text), _in_ascii(text)):
        yield from (escaped, escaped.replace("/", "\\/"), _in_json(escaped))
    yield from (repr(text)[1:-1], ascii(text)[1:-1], repr(_utf8(text))[2:-1])
    for addressed in (quote(text, safe="", errors="surrogatepass"), quote(text, errors="surrogatepass"), quote_plus(text, errors="surrogatepass")):
        yield from (addressed, re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), addressed))
    marked = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    yield from (marked, marked.replace('"', "&quot;").replace("'", "&#x27;"), marked.replace('"', "&#34;").replace("'", "&#39;"))
    yield from (text.replace("'", "'\"'\"'"), text.replace("'", "'\\''"), re.sub(r"([^\w@%+=:,./-])", r"\\\1", text))


def _in_transit(form: str) -> Iterator[str]:
    """Base64 as it is, and as JSON and addresses have it."""
    yield from (form, form.replace("/", "\\/"), quote(form, safe=""))


def _in_json(text: str) -> str:
    return msgspec.json.encode(text.encode("utf-8", "replace").decode()).decode()[1:-1]


def _in_ascii(text: str) -> str:
    """As JSON has it where everything else than ASCII is escaped."""
    units = re.sub(r"[^\x00-\x7f]", lambda found: "".join(f"\\u{unit:04x}" for unit in _utf16(found[0])), _in_json(text))
    return units.replace("\x7f", "\\u007f")


def _utf16(character: str) -> list[int]:
    raw = character.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(raw[at : at + 2]) for at in range(0, len(raw), 2)]


def _base64(raw: bytes) -> Iterator[str]:
    """What base64 makes of some bytes wherever they stand among others: the characters that come of them alone, at each of the three alignments."""
    for before, first in ((0, 0), (1, 2), (2, 3)):
        core = base64.b64encode(b"\0" * before + raw).decode()[first : 8 * (before + len(raw)) // 6]
        if len(core) >= ENCODED_CHARACTERS_MIN:
            yield core
            if (urlsafe := core.translate(_URLSAFE)) != core:
                yield urlsafe


def _anchors(core: str) -> tuple[str, str]:
    """Two pieces in a row, of which at most one is broken if lines are not very short."""
    return core[:ANCHOR_CHARACTERS], core[ANCHOR_CHARACTERS : 2 * ANCHOR_CHARACTERS]


_URLSAFE = str.maketrans("+/", "-_")

NO_MASK = Mask()
"""Hides nothing."""
