"""Masks hide secrets in everything that a step puts out, so that none is stored, sent on or shown.

A secret is hidden where it occurs literally, and in the forms in which programs write it, also nested: escaped in JSON, Python, HTML, a shell or a URL,
in hexadecimal, and in base64 at any alignment, even if it is broken into lines. Of a secret with several lines, each line is hidden. Other
transformations (reversed, hashed, encrypted, cut into pieces, or read as a number) are not recognized. Nothing here raises: what can't be searched is
hidden as a whole.
"""

import base64
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any, AnyStr, NamedTuple

import msgspec
from msgspec.structs import replace

from perdure.core.errors import ErrorInfo
from perdure.core.operations import Failure, Outcome, Success

MASKED = "***"
CHARACTERS_MIN = 4
"""A shorter secret is not hidden: it would match everywhere."""

ENCODED_CHARACTERS_MIN, LINE_CHARACTERS_MIN = 6, 6
"""The least number of characters at which a piece of base64, or a line of a secret, is taken for a part of it."""

BROKEN_CHARACTERS_MIN, ANCHOR_CHARACTERS = 12, 16
"""Base64 of the first length or more is also found where it is broken into lines, as it may stand anywhere in longer base64. Of two consecutive pieces of
the second length, or of half the base64 if that is less, a line break leaves one whole."""

ESCAPED_FACTOR = 8
"""The greatest ratio of the length of a form to that of the secret: each character escaped twice."""

_LINE_BREAKS = r"(?:[\r\n]|\\+[rn])*"
"""A pattern for a line break within base64, plain or escaped."""

SecretFinder = Callable[[str], str | None]
"""Returns the value of a secret by its name, or None. It may block, so it is called in a thread."""


def find_no_secret(_: str) -> None:
    """Finds no secret."""


def is_maskable(value: str) -> bool:
    """Whether a secret is long enough to be hidden."""
    return len(value.strip()) >= CHARACTERS_MIN


class MaskPattern(NamedTuple):
    """A form with many spellings, as a regular expression. It is searched only near one of its `anchors`, which is much faster."""

    anchors: tuple[str, ...]
    expression: str


class Mask:
    """Hides secrets; one that is too short (`is_maskable`) is left out. A mask is false if it has nothing to hide."""

    __slots__ = ("_anchors", "_bytes", "_patterns", "_texts", "margin")

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = {secret for secret in secrets if is_maskable(secret)}
        forms = {form for secret in known for form in _forms(secret)}
        self.margin = ESCAPED_FACTOR * max(map(len, known), default=0)
        self._texts = tuple(form for form in forms if isinstance(form, str))
        self._bytes = tuple(map(_utf8, self._texts))
        self._patterns = tuple(form for form in forms if isinstance(form, MaskPattern))
        self._anchors = tuple(tuple(map(_utf8, pattern.anchors)) for pattern in self._patterns)

    def __bool__(self) -> bool:
        return bool(self._texts)

    def __or__(self, other: "Mask") -> "Mask":
        """Returns a mask that hides the secrets of both."""
        if not self or not other:
            return self or other
        both = Mask()
        both._texts, both._bytes = self._texts + other._texts, self._bytes + other._bytes
        both._patterns, both._anchors = self._patterns + other._patterns, self._anchors + other._anchors
        both.margin = max(self.margin, other.margin)
        return both

    def __repr__(self) -> str:
        return "Mask(...)"

    def text(self, text: str) -> str:
        """Returns a text without the secrets."""
        found = [pattern.expression for pattern in self._patterns if any(anchor in text for anchor in pattern.anchors)]
        return _hidden(text, self._texts, found, MASKED)

    def raw(self, raw: bytes) -> bytes:
        """Returns bytes without the secrets, in UTF-8 as other languages write it."""
        patterns = zip(self._patterns, self._anchors, strict=True)
        found = [_utf8(pattern.expression) for pattern, anchors in patterns if any(anchor in raw for anchor in anchors)]
        return _hidden(raw, self._bytes, found, MASKED.encode())

    def cut(self, head: str, tail: str = "") -> tuple[str, str]:
        """Returns both sides of a cut without the secrets. Each side also loses `margin` characters at the cut, in which a part of a secret may be left."""
        if not self:
            return head, tail
        head, tail = self.text(head), self.text(tail)
        return head[: max(0, len(head) - self.margin)], tail[self.margin :]

    def growing(self, text: str) -> str:
        """Returns a text that goes on without the secrets, and without an end with which a secret may begin. What it returns is a beginning of what it returns
        for a longer text, unless a secret is written with escapes.
        """
        begun = max((_overlap(text, form) for form in self._texts), default=0)
        return self.text(text[: len(text) - begun])

    def data(self, value: Any) -> Any:
        """Returns plain data without the secrets, also in the keys of mappings; two keys that become equal are numbered."""
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
                    hidden[_unused_key(self.data(key), hidden) if isinstance(key, str | bytes) else key] = self.data(item)
                return hidden
            case msgspec.msgpack.Ext():
                return msgspec.msgpack.Ext(value.code, self.raw(bytes(value.data)))
        return value

    def value(self, raw: bytes) -> bytes:
        """Returns an encoded value without the secrets: the same bytes, if it holds none."""
        if not self._is_in(raw):
            return raw
        try:
            value = msgspec.msgpack.decode(raw)
            hidden = self.data(value)
            return raw if hidden == value else msgspec.msgpack.encode(hidden)
        except (msgspec.MsgspecError, ValueError, TypeError, RecursionError):
            return msgspec.msgpack.encode(MASKED)

    def error(self, error: ErrorInfo) -> ErrorInfo:
        """Returns an error without the secrets."""
        data = None if error.data is None else self.value(error.data)
        return ErrorInfo(self.text(error.type), self.text(error.message), self.text(error.traceback), data)

    def outcome(self, outcome: Outcome) -> Outcome:
        """Returns the outcome of an attempt without the secrets. A value that is stored as a blob already is left unchanged."""
        match outcome:
            case Success(value) if isinstance(value, bytes):
                hidden = self.value(value)
                return outcome if hidden is value else replace(outcome, value=hidden)
            case Failure(_, _, error):
                return replace(outcome, error=self.error(error))
        return outcome

    def _is_in(self, raw: bytes) -> bool:
        """Whether a secret may be in an encoded value, which holds text unescaped."""
        return any(form in raw for form in self._bytes) or any(anchor in raw for anchors in self._anchors for anchor in anchors)


def _overlap(text: str, form: str) -> int:
    """How many characters at the end of `text` are the beginning of `form`, and not all of it."""
    return next((count for count in range(min(len(form) - 1, len(text)), 0, -1) if text.endswith(form[:count])), 0)


def _hidden(within: AnyStr, forms: Iterable[AnyStr], expressions: Iterable[AnyStr], hidden: AnyStr) -> AnyStr:
    """Returns `within` with `hidden` in place of each piece that forms cover. Forms that overlap are hidden together."""
    spans = [span for form in forms for span in _spans(within, form)]
    spans += [found.span() for expression in expressions for found in re.finditer(expression, within)]
    if not spans:
        return within
    spans.sort()
    pieces: list[tuple[int, int]] = [spans[0]]
    for start, end in spans[1:]:
        if start < pieces[-1][1]:
            pieces[-1] = (pieces[-1][0], max(end, pieces[-1][1]))
        else:
            pieces.append((start, end))
    kept = [within[end:start] for (_, end), (start, _) in pairwise([(0, 0), *pieces, (len(within), 0)])]
    return hidden.join(kept)


def _spans(within: AnyStr, form: AnyStr) -> Iterator[tuple[int, int]]:
    """Yields the spans of a form; overlapping spans are merged."""
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


def _unused_key(key: Any, taken: dict[Any, Any]) -> Any:
    number, unlike = 1, key
    while unlike in taken:
        number += 1
        unlike = f"{key} ({number})" if isinstance(key, str) else key + b" (%d)" % number
    return unlike


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _forms(secret: str) -> Iterator[str | MaskPattern]:
    """Yields all forms of a secret, and of its lines."""
    stripped = secret.strip()
    for text in {secret, stripped}:
        yield from _written(text)
        raw = _utf8(text)
        yield from (raw.hex(), raw.hex().upper())
        for whole in (base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode()):
            yield from (whole, whole.rstrip("="))
    for core in _base64(_utf8(secret)):
        yield from _written(core)
        if len(core) >= BROKEN_CHARACTERS_MIN:
            size = min(ANCHOR_CHARACTERS, len(core) // 2)
            anchors = core[:size], core[size : 2 * size]
            yield MaskPattern(anchors, (_NOT_BEHIND_SLASHES if core[0] in "+/" else "") + _LINE_BREAKS.join(map(_loosely, core)))
    if len(lines := stripped.splitlines()) > 1:
        for line in map(str.strip, lines):
            if len(line) >= LINE_CHARACTERS_MIN and not line.startswith("-----"):  # the header and footer of a PEM file are not secret
                yield from _written(line)


def _written(text: str) -> Iterator[str | MaskPattern]:
    """Yields a text unescaped, and a pattern of its escaped forms if any of its characters is ever escaped."""
    yield text
    if not _NEVER_ESCAPED.fullmatch(text):
        anchor = max(_NEVER_ESCAPED.findall(text), key=len, default="")
        pieces = [*_PIECES.findall(text)]
        rows = [len(piece) > 1 or piece in _ROW for piece in pieces]
        made = [_loosely(piece, number > 0 and rows[number - 1], 0 < number < len(pieces) - 1) for number, piece in enumerate(pieces)]
        first = "" if _NEVER_ESCAPED.fullmatch(pieces[0]) else _NOT_BEHIND_SLASHES
        yield MaskPattern((anchor,), first + "".join(made))


@lru_cache(maxsize=1024)
def _loosely(piece: str, is_behind: bool = False, is_inside: bool = True) -> str:
    r"""Returns a pattern of one character, or a run of quotes and backslashes, in all its escaped forms, nested ones included: ``\"``, ``\\\"``, ``%2522``.

    If the piece `is_behind` such a run, the run may have consumed its backslashes. Shells write one quote as several, so a run `is_inside` has any length.
    """
    if not piece.strip("\\"):
        return f"{_SLASH}{{{len(piece)},}}+"
    if len(piece) > 1 or piece in _ROW:
        return f"(?:{_SLASH}|{_plainly(_QUOTE)}|{_plainly(_DOUBLE)})++" if is_inside else "".join(f"{_SLASH}*+{_plainly(one)}" for one in piece if one != "\\")
    if _NEVER_ESCAPED.fullmatch(piece):
        return re.escape(piece)
    code, raw, units = ord(piece), _utf8(piece), piece.encode("utf-16-be", "surrogatepass").hex()
    slashes = f"{_SLASH}*+" if is_behind else f"{_SLASH}++"
    ways = [f"{_SLASH}*+{_plainly(piece)}", *(f"{slashes}{letter}" for letter in _LETTERS.get(piece, ""))]
    ways += ["".join(f"{slashes}u(?i:{units[at : at + 4]})" for at in range(0, len(units), 4)), f"{slashes}U(?i:{code:08x})"]
    ways += ["".join(f"{slashes}x(?i:{byte:02x})" for byte in raw)] + [f"{slashes}x(?i:{code:02x})"] * (code < 256)
    return f"(?:{'|'.join(ways)})"


def _plainly(piece: str) -> str:
    """Returns a pattern of one character without backslashes: literally, percent-encoded, and as an HTML entity."""
    code, addressed = ord(piece), "".join(f"%(?:25)*(?i:{byte:02x})" for byte in _utf8(piece))
    named = "|".join((*_ENTITIES.get(piece, ()), f"#0*{code}", f"#[xX]0*(?i:{code:x})"))
    return f"(?:{re.escape(piece)}|{addressed}{'|[+]' if piece == ' ' else ''}|&(?:amp;)*(?:{named});)"


_QUOTE, _DOUBLE = "'", '"'
_ROW = frozenset(("\\", _QUOTE, _DOUBLE))
_PIECES = re.compile(r"""[\\'"]+|[^\\'"]""")
_NEVER_ESCAPED = re.compile(r"[A-Za-z0-9_.~-]+")
_LETTERS = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f", "\v": "v", "\a": "a", "\0": "0"}
_ENTITIES = {"&": ("amp",), "<": ("lt",), ">": ("gt",), _DOUBLE: ("quot",), _QUOTE: ("apos",), "\\": ("bsol",)}
_SLASH = _plainly("\\")
_NOT_BEHIND_SLASHES = r"(?<!\\)(?<!%5C)(?<!%5c)(?<!%255C)(?<!%255c)"
"""A pattern that keeps a match from beginning at each backslash of a long run, which would take quadratic time."""


def _base64(raw: bytes) -> Iterator[str]:
    """Yields the base64 of some bytes inside of others: the characters that depend on them alone, at each of the three alignments."""
    for before, first in ((0, 0), (1, 2), (2, 3)):
        core = base64.b64encode(b"\0" * before + raw).decode()[first : 8 * (before + len(raw)) // 6]
        if len(core) >= ENCODED_CHARACTERS_MIN:
            yield core
            if (urlsafe := core.translate(_URLSAFE)) != core:
                yield urlsafe


_URLSAFE = str.maketrans("+/", "-_")

NO_MASK = Mask()
"""A mask that hides nothing."""
