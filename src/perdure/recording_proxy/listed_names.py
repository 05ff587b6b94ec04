"""The names under which the tools of several servers are listed, and their schemas, in which a reference may stand for any value."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from perdure.recording.step_names import plain_tool_name

NAME_CHARACTERS_MAX = 64
"""The longest name that all clients and providers take."""

REFERENCE = {"type": "string", "pattern": "^@", "description": "a reference to an earlier result or to the input, such as @get_user_1.id"}

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")
_OF_ANY_TEXT = frozenset(("type", "description", "title", "default", "examples"))
_BELOW = ("properties", "$defs", "definitions", "patternProperties")


def listed_names(tools: Iterable[str], taken: Iterable[str] = ()) -> dict[str, str]:
    """Returns the tools by their names in the list: as their servers name them or, where that is taken, with the name of the server before it."""
    known = list(tools)
    counts = Counter(_safe(plain_tool_name(one)) for one in known)
    found: dict[str, str] = dict.fromkeys(taken, "")
    for one in known:
        plain, server = _safe(plain_tool_name(one)), one.partition(".")[0]
        name = plain if counts[plain] == 1 and plain not in found else _safe(f"{server}_{plain}")
        number = 2
        while name in found:
            name = f"{name[: NAME_CHARACTERS_MAX - 4]}_{number}"
            number += 1
        found[name] = one
    return {name: one for name, one in found.items() if one}


def _safe(name: str) -> str:
    return _NOT_IN_NAMES.sub("_", name)[:NAME_CHARACTERS_MAX]


def with_references(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the schema of arguments in which each value may also be a reference. What it requires stays as it is."""
    found = dict(schema)
    for place in _BELOW:
        if isinstance(inner := found.get(place), Mapping):
            found[place] = {name: _or_reference(one) for name, one in inner.items()}
    return {"type": "object", **found}


def _or_reference(schema: Any) -> Any:
    if not isinstance(schema, Mapping) or (schema.get("type") == "string" and schema.keys() <= _OF_ANY_TEXT):
        return schema
    inner = dict(schema)
    for place in _BELOW:
        if isinstance(below := inner.get(place), Mapping):
            inner[place] = {name: _or_reference(one) for name, one in below.items()}
    for place in ("items", "additionalProperties"):
        if isinstance(inner.get(place), Mapping):
            inner[place] = _or_reference(inner[place])
    said = {name: inner[name] for name in ("title", "description", "default") if name in inner}
    return {**said, "anyOf": [{name: value for name, value in inner.items() if name not in said}, REFERENCE]}
