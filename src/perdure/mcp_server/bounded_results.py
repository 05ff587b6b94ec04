"""Shortens results so that a model can read them, and says of each cut where it is and how to read on.

A result of up to `RESULT_CHARACTERS_MAX` characters of JSON is as it is. Of a longer one, long texts and long lists are cut, the limits being lowered until it
fits. A place is a JSON pointer into the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from perdure.core.error_text import valid_utf8

RESULT_CHARACTERS_MAX = 20_000
"""The longest result that a tool returns, as JSON: about 5,000 tokens."""

PART_CHARACTERS_MAX = 16_000
"""The longest part of a text that `read_part` returns."""

LIMITS = ((4_000, 100), (1_500, 50), (500, 20), (200, 10), (80, 5), (40, 2), (20, 1))
"""The limits that are tried one after the other: the characters of each text, and the entries of each list or object."""

CUTS_SHOWN_MAX = 10
WHOLE = frozenset(("next", "id", "workflow", "slug", "hash"))
"""The names of texts that are never cut, since they are arguments of further calls."""


class Cut(NamedTuple):
    """A place at which something was left out: how much is shown, of how much, and of what."""

    pointer: str
    shown: int
    whole: int
    what: str


class BoundedResult(NamedTuple):
    """A result that is short enough, and where it was cut."""

    value: Any
    cuts: tuple[Cut, ...]


def json_text(value: Any) -> str:
    """Returns a value as JSON, in one line."""
    return msgspec.json.encode(value).decode()


def bounded(value: Any, characters_max: int = RESULT_CHARACTERS_MAX) -> BoundedResult:
    """Returns a result whose JSON has at most so many characters."""
    if len(json_text(value)) <= characters_max:
        return BoundedResult(value, ())
    for characters, entries in LIMITS:
        cuts = list[Cut]()
        found = _cut(value, "", characters, entries, cuts)
        if len(json_text(found)) <= characters_max:
            return BoundedResult(found, tuple(cuts))
    text = json_text(value)
    return BoundedResult({"beginning": valid_utf8(text[: characters_max // 2])}, (Cut("", characters_max // 2, len(text), "characters"),))


def cut_sentences(cuts: tuple[Cut, ...], tool: str) -> Iterator[str]:
    """Yields a sentence for each cut, with what to call to read on; `tool` is the one that reads the same."""
    for cut in cuts[:CUTS_SHOWN_MAX]:
        what = f"{cut.shown:,} of {cut.whole:,} {cut.what} at {cut.pointer or 'the top'}"
        if cut.pointer == "/items":
            yield f"Shown are {what}. Call {tool} again with limit: {cut.shown}, and then with the `next` of that page."
        else:
            yield f'Shown are {what}. The rest: read_part {{"tool": "{tool}", "pointer": "{cut.pointer}", "offset": {cut.shown}, ...}}.'
    if len(cuts) > CUTS_SHOWN_MAX:
        yield f"{len(cuts) - CUTS_SHOWN_MAX} more places were cut."


def part_of(value: Any, pointer: str, offset: int) -> dict[str, Any]:
    """Returns the part of a result at a JSON pointer, from an offset on: characters of a text, entries of a list or object.

    Raises:
        LookupError: there is nothing at the pointer; the error says what is there up to it.
    """
    found = value_at(value, pointer)
    match found:
        case str():
            end = min(len(found), offset + PART_CHARACTERS_MAX)
            return {"part": valid_utf8(found[offset:end]), "offset": offset, "end": end, "length": len(found), "isWhole": end == len(found)}
        case list():
            shown = _fitting(found[offset:])
            return {"part": shown, "offset": offset, "end": offset + len(shown), "length": len(found), "isWhole": offset + len(shown) == len(found)}
        case dict():
            fields = dict(_fitting(list(found.items())[offset:]))
            return {"part": fields, "offset": offset, "end": offset + len(fields), "length": len(found), "isWhole": offset + len(fields) == len(found)}
    return {"part": found, "isWhole": True}


def value_at(value: Any, pointer: str) -> Any:
    """Returns what is at a JSON pointer.

    Raises:
        LookupError: there is nothing.
    """
    at = ""
    for part in pointer.split("/")[1:] if pointer else ():
        name = part.replace("~1", "/").replace("~0", "~")
        match value:
            case dict() if name in value:
                value = value[name]
            case list() if name.isdecimal() and int(name) < len(value):
                value = value[int(name)]
            case dict():
                raise LookupError(f"there is no {name} at {at or 'the top'}; there are {', '.join(map(str, list(value)[:50])) or 'no names'}")
            case list():
                raise LookupError(f"there is no entry {name} at {at or 'the top'}; there are {len(value):,}, from 0")
            case _:
                raise LookupError(f"at {at or 'the top'} is neither an object nor a list, so there is no {name} in it")
        at += f"/{part}"
    return value


def _cut(value: Any, pointer: str, characters: int, entries: int, cuts: list[Cut]) -> Any:
    match value:
        case str() if len(value) > characters:
            cuts.append(Cut(pointer, characters, len(value), "characters"))
            return valid_utf8(value[:characters]) + "…"
        case list():
            if len(value) > entries:
                cuts.append(Cut(pointer, entries, len(value), "entries"))
            return [_cut(one, f"{pointer}/{number}", characters, entries, cuts) for number, one in enumerate(value[:entries])]
        case dict():
            kept = max(entries, 20) if pointer.count("/") < 2 else entries  # the fields of the result itself, and of what it lists, say what it is
            if len(value) > kept:
                cuts.append(Cut(pointer, kept, len(value), "entries"))
            shown = list(value.items())[:kept]
            is_whole = {name: isinstance(one, str) and name in WHOLE and len(one) < LIMITS[0][0] for name, one in shown}
            return {name: one if is_whole[name] else _cut(one, f"{pointer}/{_escaped(name)}", characters, entries, cuts) for name, one in shown}
    return value


def _escaped(name: Any) -> str:
    return str(name).replace("~", "~0").replace("/", "~1")


def _fitting(entries: list[Any]) -> list[Any]:
    """Returns the first entries, as many as fit; a first one that does not fit is cut."""
    shown, characters = list[Any](), 0
    for entry in entries:
        characters += len(json_text(entry)) + 1
        if characters > PART_CHARACTERS_MAX:
            break
        shown.append(entry)
    if not shown and entries:
        first = entries[0]
        shown.append((first[0], bounded(first[1], PART_CHARACTERS_MAX).value) if isinstance(first, tuple) else bounded(first, PART_CHARACTERS_MAX).value)
    return shown
