r"""Paths: which value of a row is meant. ``price``, ``address.city``, ``items[0].id``, ``["a.key"].b``.

Text without a dot or a bracket is a key as it stands, whatever else is in it. Digits are a place in a list, negative ones from its end, or the key of a
mapping that is written so. What is missing anywhere on the way is null.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from perdure.expr import refs
from perdure.expr.values import cut

Path = tuple[str | int, ...]
Row = dict[str, Any]
Get = Callable[[Row], Any]

SEGMENTS_MAX = refs.SEGMENTS_MAX
_SEGMENT = re.compile(
    r"""\[(?P<place>-?[0-9]{1,15})\] | \[(?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>(?:[^'\\]|\\.)*)')\] | (?P<name>[^.\[\]]+)""", re.VERBOSE | re.DOTALL
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


@lru_cache(maxsize=4096)
def path(text: str) -> Path:
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
        raise ValueError(f'{cut(text)!r} is no path to a field; write price, address.city, items[0].id, or ["a key"] around a key with a dot')
    return tuple(found)


def _key(segment: re.Match[str]) -> str | int:
    if segment["place"] is not None:
        return int(segment["place"])
    quoted = segment["double"] if segment["double"] is not None else segment["single"]
    if quoted is not None:
        return _ESCAPED.sub(r"\1", quoted)
    name = segment["name"]
    return int(name) if segment.start() and name.isascii() and name.isdigit() and len(name) <= 15 else name


def written(found: Path) -> str:
    """The text of a path, such that `path` reads it as that."""
    return ".".join(f"[{key}]" if isinstance(key, int) else key if re.fullmatch(r"[^\W\d]\w*", key) else _quoted(key) for key in found)


def _quoted(key: str) -> str:
    escaped = key.replace("\\", "\\\\").replace('"', '\\"')
    return f'["{escaped}"]'


def reference(found: Path) -> str:
    """The path as a reference into ``@self``, which in a condition is the row."""
    return "@self" + "".join(f"[{key}]" if isinstance(key, int) else _quoted(key) for key in found)


def name(found: Path) -> str:
    """What a value is called that was found by a path: by its last key."""
    return next((key for key in reversed(found) if isinstance(key, str)), str(found[-1]))


def getter(found: Path) -> Get:
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


def put(row: Row, found: Path, value: Any) -> None:
    """Put a value where a path leads, with mappings on the way; the row is nobody else's."""
    for key in found[:-1]:
        inner = row.get(str(key))
        row[str(key)] = row = dict(inner) if isinstance(inner, dict) else {}
    row[str(found[-1])] = value
