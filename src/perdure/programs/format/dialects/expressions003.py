"""References and rows of a definition as expressions of seed 003: ``@fetch.id`` as ``{{ steps.fetch.output.data.id }}``, ``{ref, gt: 0}`` as ``… > 0``."""

from __future__ import annotations

import json
import re
from typing import Any

from perdure.core.errors import BadExpression
from perdure.expr.braces_meaning import ROOTS
from perdure.expr.refs import Ref, parse
from perdure.expr.template import merged, parts_of

_NAME = re.compile(r"[A-Za-z_$][\w$]*", re.ASCII)
_SIGNS = {"eq": "==", "neq": "!=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<=", "in": "in"}
_FILTERS = {"contains": "includes", "starts_with": "startsWith", "ends_with": "endsWith", "matches_re": "matches"}


class Unsaid(Exception):
    """Seed 003 has no words for it."""


def text(value: str) -> str:
    """A text of a template, as this dialect has it.

    Raises:
        Unsaid: it refers to what this dialect does not know.
    """
    if "{{" in value or "@" not in value:
        return value
    try:
        parts = [parse(value)] if value[0] == "@" and value[1:2] not in ("@", "{") else merged(parts_of(value, ""))
    except BadExpression as error:
        raise Unsaid(error.what) from None
    return "".join(part if isinstance(part, str) else f"{{{{{reference(part)}}}}}" for part in parts)


def reference(ref: Ref) -> str:
    """What a reference refers to, as an expression.

    Raises:
        Unsaid: this dialect does not know it.
    """
    match ref.root:
        case "step":
            return _spelt("steps", (ref.step, "output", "data", *ref.path))
        case "steps":
            return _spelt("steps", (ref.step, "output", *ref.path))
        case "vars" if ref.path and isinstance(ref.path[0], str) and _NAME.fullmatch(ref.path[0]) and ref.path[0] not in ROOTS:
            return _spelt(ref.path[0], ref.path[1:])
        case "last":
            return _spelt("lastOutput", ref.path)
        case "item" | "index":
            return _spelt("loop", (ref.root, *ref.path))
        case "input" | "loop" | "secrets":
            return _spelt(ref.root, ref.path)
    raise Unsaid(f"@{ref.written} has no counterpart")


def _spelt(name: str, path: tuple[str | int, ...]) -> str:
    if any(isinstance(key, int) and key < 0 for key in path):
        raise Unsaid("places are not counted from the end")
    return name + "".join(f".{key}" if isinstance(key, str) and _NAME.fullmatch(key) else f"[{json.dumps(key, ensure_ascii=False)}]" for key in path)


def condition(value: Any) -> str:
    """A condition of a definition, as an expression.

    Raises:
        Unsaid: this dialect can't say it.
    """
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _row({"ref": value})
        case {"braces": str(expression)}:
            return expression
        case {"all": list(inner)} if inner:
            return " && ".join(f"({condition(one)})" for one in inner)
        case {"any": list(inner)} if inner:
            return " || ".join(f"({condition(one)})" for one in inner)
        case {"not": inner}:
            return f"!({condition(inner)})"
        case {"ref": str()}:
            return _row(value)
        case _:
            raise Unsaid("this condition has no counterpart")


def _row(row: dict[str, Any]) -> str:
    try:
        left = reference(parse(row["ref"])) if row["ref"].startswith("@") else ""
    except BadExpression as error:
        raise Unsaid(error.what) from None
    if not left:
        raise Unsaid("JSONPath has no counterpart")
    match [name for name in row if name != "ref"]:
        case []:
            return left
        case [name] if name in _SIGNS:
            return f"{left} {_SIGNS[name]} {literal(row[name])}"
        case [name] if name in _FILTERS:
            return f"({left}|{_FILTERS[name]}({literal(row[name])}))"
        case ["exists"]:
            return f"{left} {'!=' if row['exists'] else '=='} null"
        case ["empty"]:
            return f"{'!' if row['empty'] else ''}({left}|length)"
    raise Unsaid("this row has no counterpart")


def literal(value: Any) -> str:
    """A value as an expression; text in it may refer."""
    match value:
        case str() if "{{" in value:
            raise Unsaid("text with {{ in it can't stand in an expression")
        case str() if "@" in value:
            said = text(value)
            return said[2:-2] if said.startswith("{{") and said.find("}}") == len(said) - 2 and said.count("{{") == 1 else _quoted(said)
        case str():
            return _quoted(value)
        case list():
            return f"[{', '.join(map(literal, value))}]"
        case dict():
            return f"{{{', '.join(f'{_quoted(key)}: {literal(item)}' for key, item in value.items())}}}"
        case _:
            return json.dumps(value)


def _quoted(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)
