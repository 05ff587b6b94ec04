"""What plain values are to expressions: equal, true, text; and how little of them an error shows.

JSON's integers are integers here and equal to floats of the same value; true and false are no numbers.
"""

from typing import Any

import msgspec

SHOWN_CHARACTERS_MAX = 60
_NUMBERS = (int, float)
_encode = msgspec.json.encode


def equal(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON value."""
    kind, of_other = type(one), type(other)
    if kind is not of_other:
        return kind in _NUMBERS and of_other in _NUMBERS and bool(one == other)
    if kind is dict:
        return len(one) == len(other) and all(key in other and equal(value, other[key]) for key, value in one.items())
    if kind is list:
        return len(one) == len(other) and all(map(equal, one, other))
    return bool(one == other)


def truthy(value: Any) -> bool:
    """False of false, null, 0 and empty text; true of all else, of an empty list too (`empty` asks that)."""
    kind = type(value)
    if kind is bool:
        return bool(value)
    return value is not None and not (kind in _NUMBERS and value == 0) and not (kind is str and not value)


def text(value: Any) -> str:
    """What stands in text for a value: text as it is, nothing for null, JSON of all else."""
    if type(value) is str:
        return value
    return "" if value is None else _encode(value).decode()


def kind(value: Any) -> str:
    """What people call a value's kind."""
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


def shown(value: Any) -> str:
    """A value in a few words, however large it is."""
    match value:
        case list():
            return f"a list of {len(value)}"
        case dict():
            names = ", ".join(str(name)[:20] for name, _ in zip(value, range(4), strict=False))
            return f"a mapping of {cut(names)}{'…' if len(value) > 4 else ''}" if value else "an empty mapping"
        case str():
            return f"the text {cut(value)!r}"
        case int() if value.bit_length() > 128:
            return "a number of many digits"
        case bool() | None:
            return text(value) or "null"
        case _:
            return cut(str(value))


def cut(words: str, characters_max: int = SHOWN_CHARACTERS_MAX) -> str:
    """Text, shortened to what an error may show."""
    return words if len(words) <= characters_max else f"{words[: characters_max - 1]}…"
