"""Equality, truth and text of plain values, their short form in errors, and the errors that a missing value raises.

Natively, a reference to a missing value is an error; in a dialect it is null, or makes its row of a condition false. Integers equal floats of the same
value; true and false are not numbers.
"""

from typing import Any, Literal

import msgspec

MissingPolicy = Literal["error", "null", "false"]
"""How to treat a missing value: as an error; as null; or as null in values and, in a condition, as a row that is false."""


class MissingValueError(Exception):
    """The value of a reference is missing. This error does not leave the package."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(f"{what}; {hint}")
        self.what, self.hint = what, hint


class RootUnavailableError(MissingValueError):
    """A reference names a root that is not in scope, such as an item outside of an `each`."""


class ValueKindError(MissingValueError):
    """A value has a type that does not fit."""


SHOWN_CHARACTERS_MAX = 60
DEPTH_MAX = 64
"""How many levels deep the lists and mappings of a value may nest."""

_NUMBERS = (int, float)
_encode = msgspec.json.encode


def json_equal(one: Any, other: Any) -> bool:
    """Returns whether two values are the same JSON value."""
    kind, of_other = type(one), type(other)
    if kind is not of_other:
        return kind in _NUMBERS and of_other in _NUMBERS and bool(one == other)
    if kind is dict:
        return len(one) == len(other) and all(key in other and json_equal(value, other[key]) for key, value in one.items())
    if kind is list:
        return len(one) == len(other) and all(map(json_equal, one, other))
    return bool(one == other)


def nests_deeper(value: Any, limit: int) -> bool:
    """Returns whether lists and mappings nest more than `limit` levels deep."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(limit):
        inside = {id(item): item for outer in level for item in (outer.values() if isinstance(outer, dict) else outer) if isinstance(item, dict | list)}
        if not (level := list(inside.values())):
            return False
    return bool(level)


def is_truthy(value: Any) -> bool:
    """Returns false for false, null, 0 and empty text; true for all other values, including an empty list (`empty` tests for those)."""
    kind = type(value)
    if kind is bool:
        return bool(value)
    return value is not None and not (kind in _NUMBERS and value == 0) and not (kind is str and not value)


def text_of_value(value: Any) -> str:
    """Returns the text of a value: text unchanged, nothing for null, JSON for other values."""
    if type(value) is str:
        return value
    return "" if value is None else _encode(value).decode()


def value_kind(value: Any) -> str:
    """Returns the name of a value's type for people."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case dict():
            return "a mapping"
        case _:
            return type(value).__name__


def short_value_text(value: Any) -> str:
    """Describes a value of any size in a few words."""
    match value:
        case list():
            return f"a list of {len(value)}"
        case dict():
            names = ", ".join(str(name)[:20] for name, _ in zip(value, range(4), strict=False))
            return f"a mapping of {shortened(names)}{'…' if len(value) > 4 else ''}" if value else "an empty mapping"
        case str():
            return f"the text {shortened(value)!r}"
        case int() if value.bit_length() > 128:
            return "a number of many digits"
        case bool() | None:
            return text_of_value(value) or "null"
        case _:
            return shortened(str(value))


def shortened(words: str, characters_max: int = SHOWN_CHARACTERS_MAX) -> str:
    """Shortens text to the length that an error may show."""
    return words if len(words) <= characters_max else f"{words[: characters_max - 1]}…"
