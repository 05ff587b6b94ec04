"""The values in arguments that may have come from somewhere, indexed by what they look like where they came from.

The search is driven by these: arguments are small and results are large, so results are only walked once, and each of their values is looked up here. A value
of an argument is looked up as it is, in other spellings, and as part of a text: the parts of up to 15 characters between the bounds of words, and longer ones
by their last 16 characters (many texts begin alike, such as addresses of one site; few end alike).
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, Literal, NamedTuple

import msgspec

from perdure.definitions.expr.references import SEGMENTS_MAX, TEXT_CHARACTERS_MAX, ValuePath
from perdure.recording.literal_calls import LiteralCall
from perdure.recording.value_spellings import NUMBER, WrittenTime, amount_texts, amounts_of, date_texts, number_of_text, number_texts, times_of, utc_text

ANCHOR_CHARACTERS = 16
PARTS_MAX = 100_000
"""The most parts of texts that are looked up in one search."""

PARTS_OF_TEXT_MAX = 20_000
TARGETS_MAX = 50_000
"""The most values of arguments that are looked up in one search."""

STRUCTURE_BYTES_MAX = 1_000_000

Span = tuple[int, int]


class Target(NamedTuple):
    """A value in the arguments of a call, by its number."""

    call: int
    path: ValuePath
    value: Any


class Wanted(NamedTuple):
    """Where a value that is found would be used: in the whole of a target or, with a `span`, in a part of its text.

    With `is_amount`, the value is an amount of money that is wanted in cents, or the other way round.
    """

    target: int
    span: Span | None = None
    is_respelt: bool = False
    is_amount: bool = False
    time: WrittenTime | None = None


Table = Literal["texts", "numbers", "flags", "anchors", "days", "structures"]


class TargetIndex:
    """Targets, and what is wanted of results.

    `texts`, `numbers` and `flags` are wanted as they are; each has what wants it. `anchors` has the ends of longer parts of texts, with the whole text and the
    position in it at which they end. `days` has the days of dates and times, `structures` the bytes of lists and mappings by their shape. `wants` has for
    each target what was entered for it. With `is_partial`, there was more than is looked up.
    """

    def __init__(self, calls: Sequence[LiteralCall]) -> None:
        self.targets: list[Target] = []
        self.wants: list[list[tuple[Table, Any, Wanted]]] = []
        self.texts: dict[str, list[Wanted]] = {}
        self.numbers: dict[int | float, list[Wanted]] = {}
        self.flags: dict[bool, list[Wanted]] = {}
        self.anchors: dict[str, dict[tuple[str, int], None]] = {}
        self.days: dict[str, list[Wanted]] = {}
        self.structures: dict[tuple[Any, ...], dict[bytes, list[Wanted]]] = {}
        self.is_partial = False
        self._parts = 0
        for number, call in enumerate(calls):
            given = call.references.keys()
            around = {one[:depth] for one in given for depth in range(1, len(one))}
            for path, value in leaves_and_structures(dict(call.arguments)):
                if given and (path in around or any(path[:depth] in given for depth in range(1, len(path) + 1))):
                    continue
                if len(self.targets) >= TARGETS_MAX:
                    self.is_partial = True
                    return
                self._add(Target(number, path, value))

    def marks(self) -> set[str]:
        """Returns the last 16 characters, in lower case, of all texts that are wanted, also as they are where a blank or the end of a line is behind them."""
        marks = {text[-ANCHOR_CHARACTERS:] for text in self.texts} | self.anchors.keys()
        behind = [f"{mark}{blank}"[-ANCHOR_CHARACTERS:] for mark in marks for blank in " \n"]
        marks.update(behind)
        return marks

    def _add(self, target: Target) -> None:
        wanted = Wanted(len(self.targets))
        self.targets.append(target)
        self.wants.append([])
        match target.value:
            case bool():
                self._want("flags", target.value, wanted)
            case int() | float():
                self._add_number(target.value, wanted)
            case str():
                self._add_text(target.value, wanted)
            case _:
                self._add_structure(target.value, wanted)

    def _want(self, table: Literal["texts", "numbers", "flags", "days"], key: Any, wanted: Wanted) -> None:
        entries: dict[Any, list[Wanted]] = getattr(self, table)
        if table == "texts":
            key = folded(key)
        if (known := entries.get(key)) is None:
            entries[key] = [wanted]
        else:
            known.append(wanted)
        self.wants[wanted.target].append((table, key, wanted))

    def _add_number(self, number: float, wanted: Wanted) -> None:
        self._want("numbers", number, wanted)
        self._add_number_spellings(number, "", wanted._replace(is_respelt=True))
        self._add_times(number, wanted)

    def _add_text(self, text: str, wanted: Wanted) -> None:
        self._want("texts", text, wanted)
        self._add_number_text(text, wanted)
        self._add_times(text, wanted)
        if len(text) <= TEXT_CHARACTERS_MAX:
            self._add_parts(text, wanted)

    def _add_number_text(self, text: str, wanted: Wanted) -> None:
        if (number := number_of_text(text)) is None:
            return
        respelt = wanted._replace(is_respelt=True)
        self._want("numbers", number, respelt)
        self._add_number_spellings(number, text, respelt)

    def _add_number_spellings(self, number: float, text: str, respelt: Wanted) -> None:
        """Adds the other texts that are written for a number; and for one that may be an amount of money, the amount in cents, or of cents."""
        for other in dict.fromkeys(number_texts(number)):
            if other != text:
                self._want("texts", other, respelt)
        for amount in amounts_of(number):
            in_other_unit = respelt._replace(is_amount=True)
            self._want("numbers", amount, in_other_unit)
            for other in dict.fromkeys(amount_texts(amount)):
                self._want("texts", other, in_other_unit)

    def _add_times(self, value: Any, wanted: Wanted) -> None:
        for time in times_of(value):
            respelt = wanted._replace(is_respelt=True, time=time)
            for distance in (0,) if time.at_ms is None else (-1, 0, 1):
                try:
                    day = time.day + timedelta(days=distance)
                except OverflowError:
                    continue
                self._want("days", day.isoformat(), respelt)
            for text in date_texts(time.day) if time.at_ms is None else (utc_text(time.at_ms),):
                if text != value:
                    self._want("texts", text, respelt)
            for number in () if time.at_ms is None else (time.at_ms, time.at_ms // 1000):
                if number != value:
                    self._want("numbers", number, respelt)

    def _add_parts(self, text: str, wanted: Wanted) -> None:
        """Adds the parts of a text that begin and end with words."""
        starts, ends = _bounds(text)
        before, first = self._parts, 0
        for end in ends:
            first = bisect_right(starts, end - ANCHOR_CHARACTERS, first)
            for start in starts[first : bisect_left(starts, end, first)]:
                if (start, end) != (0, len(text)):
                    self._add_part(text[start:end], Wanted(wanted.target, (start, end)))
            if end >= ANCHOR_CHARACTERS:
                self._add_anchor(text, end, wanted)
            if self._parts > PARTS_MAX or self._parts - before > PARTS_OF_TEXT_MAX:
                self.is_partial = True
                break
        self._add_written(text, wanted)

    def _add_part(self, part: str, wanted: Wanted) -> None:
        self._parts += 1
        self._want("texts", part, wanted)
        if part.isdecimal() and part.isascii() and str(int(part)) == part:
            self._want("numbers", int(part), wanted)

    def _add_anchor(self, text: str, end: int, wanted: Wanted) -> None:
        self._parts += 1
        key = (text, end)
        self.anchors.setdefault(text[end - ANCHOR_CHARACTERS : end].lower(), {})[key] = None
        self.wants[wanted.target].append(("anchors", key, wanted))

    def _add_written(self, text: str, wanted: Wanted) -> None:
        """Adds the numbers and dates that are written in a text."""
        for found in _NUMBER_IN_TEXT.finditer(text):
            part = found[0]
            if not part.isdecimal() and (number := number_of_text(part)) is not None and found.span() != (0, len(text)):
                is_plain = part == (repr(number) if isinstance(number, float) else str(number))
                in_text = wanted._replace(span=found.span(), is_respelt=not is_plain)
                self._want("numbers", number, in_text)
                for amount in amounts_of(number):
                    self._want("numbers", amount, in_text._replace(is_respelt=True, is_amount=True))
        for found in _DATE_IN_TEXT.finditer(text):
            if found.span() != (0, len(text)):
                self._add_times(found[0], wanted._replace(span=found.span()))

    def _add_structure(self, value: Any, wanted: Wanted) -> None:
        if (packed := packed_structure(value)) is not None:
            self.structures.setdefault(structure_shape(value), {}).setdefault(packed, []).append(wanted)
            self.wants[wanted.target].append(("structures", packed, wanted))


_WORD = re.compile(r"[^\W_]+")
_CHUNK = re.compile(r"""[^\s"'`()\[\]{}<>,;]+""")
_NUMBER_IN_TEXT = re.compile(rf"(?<![\w.,/-]){NUMBER}(?![\w/-]|[.,]\d)", re.ASCII)
_DATE_IN_TEXT = re.compile(
    r"(?<![\w/.-])(?:\d{4}-\d\d-\d\d|\d{1,2}[/.]\d{1,2}[/.]\d{4}|[A-Z][a-z]{2,8}\.? \d{1,2}(?:st|nd|rd|th)?,? \d{4}|\d{1,2} [A-Z][a-z]{2,8} \d{4})(?![\w/-])",
    re.ASCII,
)


def _bounds(text: str) -> tuple[list[int], list[int]]:
    """Returns where parts of a text may begin, and where they may end: at the bounds of words, and next to white space, quotes and brackets."""
    words = [found.span() for found in _WORD.finditer(text)]
    starts = {start for start, _ in words} | {found.start() for found in _CHUNK.finditer(text)}
    ends = {end for _, end in words} | {found.end() for found in _CHUNK.finditer(text)}
    return sorted(starts), sorted(ends)


def leaves_and_structures(value: Any) -> Iterator[tuple[ValuePath, Any]]:
    """Yields the values inside a value that say something, each with its path, as deep as references reach: not null, and nothing that is empty."""
    waiting: list[tuple[ValuePath, Any]] = [((), value)]
    while waiting:
        path, one = waiting.pop()
        match one:
            case dict() if len(path) < SEGMENTS_MAX:
                waiting.extend(((*path, key), inner) for key, inner in reversed([*one.items()]) if isinstance(key, str))
            case list() if len(path) < SEGMENTS_MAX:
                waiting.extend(((*path, place), inner) for place, inner in reversed([*enumerate(one)]))
            case str() if one:
                yield path, one
            case bool():
                yield path, one
            case int() if one.bit_length() <= 64:
                yield path, one
            case float() if one - one == 0:
                yield path, one
        if path and one and isinstance(one, list | dict):
            yield path, one


def folded(text: str) -> str:
    """Returns a text without white space at its ends, in lower case: what two spellings of one text have in common."""
    return text.strip().lower()


def structure_shape(value: Any) -> tuple[Any, ...]:
    """Returns what two equal lists or mappings have in common at first sight."""
    if isinstance(value, dict):
        return ("mapping", len(value), next(iter(value), None)) if len(value) == 1 else ("mapping", len(value))
    return ("list", len(value))


def packed_structure(value: Any) -> bytes | None:
    """Returns bytes that are the same for equal lists and mappings; None if it is too large, or no plain data."""
    try:
        packed = msgspec.json.encode(value, order="sorted")
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None
    return packed if len(packed) <= STRUCTURE_BYTES_MAX else None
