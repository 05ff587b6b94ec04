"""Rows, paths into them, and the comparison of their values.

A table is a list of mappings; another item becomes ``{value: item}``, and a single mapping is one row.

A path names a value of a row: ``price``, ``address.city``, ``items[0].id``, ``["a.key"].b``. Text without a dot or a bracket is a plain key. Digits are an
index of a list (negative ones count from its end) or a key of a mapping. A value that is missing on the way is null.

Values are ordered by type, then by value: false, true, numbers, text (by code point), lists (by items), mappings (by keys and values). Integers and floats
are compared exactly. Null has no place in the order; the sort says where it goes. Equality is that of JSON: 1 equals 1.0, but not true.
"""

import math
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from perdure.definitions.expr import references
from perdure.definitions.expr.plain_values import short_value_text, shortened
from perdure.definitions.kinds.pipeline.pipeline_limits import LimitMeter, OperationError

Path = tuple[str | int, ...]
Row = dict[str, Any]
Get = Callable[[Row], Any]

SEGMENTS_MAX = references.SEGMENTS_MAX
_SEGMENT = re.compile(
    r"""\[(?P<place>-?[0-9]{1,15})\] | \[(?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>(?:[^'\\]|\\.)*)')\] | (?P<name>[^.\[\]]+)""", re.VERBOSE | re.DOTALL
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


@lru_cache(maxsize=4096)
def parse_path(text: str) -> Path:
    """The path that a text is.

    Raises:
        ValueError: it is none.
    """
    if text and "." not in text and "[" not in text:
        return (text,)
    found: list[str | int] = []
    at = 0
    while (segment := _SEGMENT.match(text, at)) is not None:
        found.append(_key(segment))
        at = segment.end()
        if at == len(text):
            break
        at += text[at] == "."
    if at != len(text) or not found or text.endswith(".") or len(found) > SEGMENTS_MAX:
        raise ValueError(f'{shortened(text)!r} is not a path to a field; write price, address.city, items[0].id, or ["a key"] around a key with a dot')
    return tuple(found)


def _key(segment: re.Match[str]) -> str | int:
    if segment["place"] is not None:
        return int(segment["place"])
    quoted = segment["double"] if segment["double"] is not None else segment["single"]
    if quoted is not None:
        return _ESCAPED.sub(r"\1", quoted)
    name = segment["name"]
    return int(name) if segment.start() and name.isascii() and name.isdigit() and len(name) <= 15 else name


def path_text(found: Path) -> str:
    """The text of a path, such that `path` reads it as that."""
    return ".".join(f"[{key}]" if isinstance(key, int) else key if re.fullmatch(r"[^\W\d]\w*", key) else _quoted(key) for key in found)


def _quoted(key: str) -> str:
    escaped = key.replace("\\", "\\\\").replace('"', '\\"')
    return f'["{escaped}"]'


def self_reference(found: Path) -> str:
    """The path as a reference into ``@self``, which in a condition is the row."""
    return "@self" + "".join(f"[{key}]" if isinstance(key, int) else _quoted(key) for key in found)


def path_name(found: Path) -> str:
    """The name for a value that a path leads to: its last key."""
    return next((key for key in reversed(found) if isinstance(key, str)), str(found[-1]))


def path_getter(found: Path) -> Get:
    """How the value is found in a row; None where there is none."""
    if len(found) == 1 and isinstance(found[0], str):
        key = found[0]
        return lambda row: row.get(key)

    def get(row: Row) -> Any:
        value: Any = row
        for key in found:
            if type(value) is dict:
                value = value.get(key) if key in value or isinstance(key, str) else value.get(str(key))
            elif type(value) is list and type(key) is int and -len(value) <= key < len(value):
                value = value[key]
            else:
                return None
        return value

    return get


def put_at_path(row: Row, found: Path, value: Any) -> None:
    """Sets the value at a path, with mappings on the way. The caller owns the row."""
    for key in found[:-1]:
        inner = row.get(str(key))
        row[str(key)] = row = dict(inner) if isinstance(inner, dict) else {}
    row[str(found[-1])] = value


_BOOLEAN, _NUMBER, _TEXT, _LIST, _MAPPING, _NULL = range(6)
_FALSE, _TRUE = ("", False), ("", True)


def sort_keys(values: Sequence[Any]) -> Sequence[Any]:
    """Values without null among them, as Python can compare them: as they are if all are numbers or all are text."""
    kinds = set(map(type, values))
    return values if kinds <= {int, float} or kinds == {str} else [comparison_key(value) for value in values]


def comparison_key(value: Any) -> tuple[Any, ...]:
    """A key that orders values of any types."""
    match value:
        case None:
            return (_NULL,)
        case bool():
            return (_BOOLEAN, value)
        case int() | float():
            return (_NUMBER, value)
        case str():
            return (_TEXT, value)
        case list():
            return (_LIST, tuple(map(comparison_key, value)))
        case dict():
            return (_MAPPING, tuple((name, comparison_key(value[name])) for name in sorted(value)))
    raise OperationError(f"{short_value_text(value)} is not a JSON value and can't be sorted")


def equality_key(value: Any) -> Any:
    """A hashable key that is equal for equal values only."""
    match value:
        case True:
            return _TRUE
        case False:
            return _FALSE
        case list():
            return (_LIST, tuple(map(equality_key, value)))
        case dict():
            return (_MAPPING, frozenset((name, equality_key(inner)) for name, inner in value.items()))
        case _:
            return value


VALUE = "value"
"""The field that holds an item that is not a mapping."""

_PERHAPS_NOT_FINITE = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]")
"""How a float that is not finite looks in MessagePack. It may be found where there is none (within a number), but is found where there is one."""

_PERHAPS_WIDE = re.compile(rb"[\xcf\xd3]")
"""How integers of more than 32 bits begin there."""


def table_rows(value: Any, what: str) -> list[Row]:
    """The rows that a value is.

    Raises:
        Wrong: it is none.
    """
    match value:
        case list():
            return value if all(type(item) is dict for item in value) else [item if type(item) is dict else {VALUE: item} for item in value]
        case dict():
            return [value]
    raise OperationError(f"{what} are {short_value_text(value)}; rows are a list of mappings")


def packed_rows(value: Any, what: str, pace: LimitMeter) -> bytes:
    """Plain data as MessagePack, up to a size.

    Raises:
        OperationError: it is too large, or holds NaN, infinity or an integer of more than 64 bits.
    """
    try:
        raw = msgspec.msgpack.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise OperationError(f"{what} contain something that is not plain data: {error}") from None
    if _PERHAPS_NOT_FINITE.search(raw) is not None and _is_not_finite(value):
        raise OperationError(f"{what} contain NaN or infinity, which JSON does not have; use null")
    if len(raw) > pace.bounds.bytes:
        raise OperationError(f"{what} take {len(raw):,} bytes, and at most {pace.bounds.bytes:,} are allowed; select fewer fields, or raise limits.bytes")
    return raw


def _is_not_finite(value: Any) -> bool:
    match value:
        case float():
            return not math.isfinite(value)
        case list() | tuple():
            return any(map(_is_not_finite, value))
        case dict():
            return any(map(_is_not_finite, value.values()))
        case _:
            return False


def is_wide(value: Any, raw: bytes) -> bool:
    """Whether the data (with its MessagePack) holds an integer of more than 53 bits, which no float can represent."""
    return _PERHAPS_WIDE.search(raw) is not None and _is_wide(value)


def _is_wide(value: Any) -> bool:
    match value:
        case bool():
            return False
        case int():
            return not -(2**53) <= value <= 2**53
        case list():
            return any(map(_is_wide, value))
        case dict():
            return any(map(_is_wide, value.values()))
        case _:
            return False
