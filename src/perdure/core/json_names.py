"""Finds a name that an object of JSON has twice: of two readers, one takes the first value and the other the last."""

import json
from typing import Any


def repeated_name(raw: bytes, value: Any) -> str | None:
    """Returns a name that is twice in one object of the JSON text `raw`; None if there is none. `value` is what has been decoded from it.

    Raises:
        RecursionError: the text is too deep.
    """
    if not isinstance(value, dict | list) or raw.count(b":") == _names_in(value):  # each name has a colon; so has text, and a name that was given before
        return None
    found: list[str] = []

    def check(pairs: list[tuple[str, Any]]) -> None:
        names = set[str]()
        for name, _ in pairs:
            if name in names and not found:
                found.append(name)
            names.add(name)

    json.loads(raw, object_pairs_hook=check, parse_int=len, parse_float=len)
    return found[0] if found else None


def _names_in(value: dict[str, Any] | list[Any]) -> int:
    count, inner = (len(value), value.values()) if isinstance(value, dict) else (0, value)
    for one in inner:
        if isinstance(one, dict | list):
            count += _names_in(one)
    return count
