"""Reads and writes the ``{{ }}`` expressions of port_graph, and records the names that a document uses for later warnings.

Writing turns ``@fetch.id`` into ``{{ steps.fetch.output.data.id }}`` and ``{ref, gt: 0}`` into ``… > 0``.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from perdure.core.errors import BadExpression
from perdure.definitions.expr import braces
from perdure.definitions.expr.braces import BRACES_ROOTS
from perdure.definitions.expr.references import Reference, parse_reference
from perdure.definitions.expr.template import merge_texts, text_parts
from perdure.definitions.format.definition_findings import joined_pointer
from perdure.dialects.foreign_document import FindingCollector, StepNames
from perdure.dialects.reference_syntax import escape_template


class BraceNameUse(NamedTuple):
    """A name in an expression: in which step, where, and the path behind the name."""

    step: str
    pointer: str
    name: str
    path: tuple[str | int, ...]


class BraceExpressionReader:
    """Reads values and conditions. `names` are what the steps are called; `seen` is all that the expressions name."""

    def __init__(self, notes: FindingCollector) -> None:
        self._notes = notes
        self.names = StepNames(notes)
        self.seen: list[BraceNameUse] = []

    def value(self, value: Any, pointer: str, step: str) -> Any:
        """A value with ``{{ }}`` in it, as a definition has it; where there is no step, nothing may be in it."""
        match value:
            case str() if "{{" in value and not step:
                self._notes.error("template_in_variable", pointer, "variables are set before the first step, so {{ }} is not evaluated here; use set_variables")
                return None
            case str() if "{{" in value:
                return self._text(value, pointer, step)
            case str():
                return escape_template(value)
            case list():
                return [self.value(item, joined_pointer(pointer, index), step) for index, item in enumerate(value)]
            case dict():
                for key in value:
                    if "{{" in str(key):
                        self._notes.warning("template_in_key", joined_pointer(pointer, str(key)), "{{ }} is not evaluated in the names of fields")
                return {str(key): self.value(item, joined_pointer(pointer, str(key)), step) for key, item in value.items()}
            case _:
                return value

    def condition(self, value: str, pointer: str, step: str) -> dict[str, Any]:
        """A condition, as a definition has it."""
        try:
            expression = braces.compile_braces_condition(value)
        except BadExpression as error:
            self._notes.error("bad_expression", pointer, f"{error.what}; {error.hint}")
            return {"braces": "false"}
        self._note(expression, pointer, step)
        return {"braces": braces.rename_braces_steps(value, self._otherwise(expression), whole=True)}

    def _text(self, value: str, pointer: str, step: str) -> str | None:
        try:
            expression = braces.compile_braces_text(value)
        except BadExpression as error:
            self._notes.error("bad_expression", pointer, f"{error.what}; {error.hint}")
            return None
        self._note(expression, pointer, step)
        return braces.rename_braces_steps(value, self._otherwise(expression))

    def _otherwise(self, expression: braces.BracesExpression) -> dict[str, str]:
        """The steps in an expression that have another id in the definition."""
        steps = {str(path[0]) for name, path in expression.names if name == "steps" and path}
        return {original: self.names[original] for original in steps if self.names[original] != original}

    def _note(self, expression: braces.BracesExpression, pointer: str, step: str) -> None:
        self.seen.extend(BraceNameUse(step, pointer, name, path) for name, path in expression.names)


_BRACES_NAME = re.compile(r"[A-Za-z_$][\w$]*", re.ASCII)
_SIGNS = {"eq": "==", "neq": "!=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<=", "in": "in"}
_OPERATOR_FILTERS = {"contains": "includes", "starts_with": "startsWith", "ends_with": "endsWith", "matches_re": "matches"}


class InexpressibleError(Exception):
    """port_graph can not express a value."""


def write_text(value: str) -> str:
    """A text of a template, as this dialect has it.

    Raises:
        Unsaid: it refers to what this dialect does not know.
    """
    if "{{" in value or "@" not in value:
        return value
    try:
        parts = [parse_reference(value)] if value[0] == "@" and value[1:2] not in ("@", "{") else merge_texts(text_parts(value, ""))
    except BadExpression as error:
        raise InexpressibleError(error.what) from None
    return "".join(part if isinstance(part, str) else f"{{{{{write_reference_braces(part)}}}}}" for part in parts)


def write_reference_braces(ref: Reference) -> str:
    """Converts a reference to an expression.

    Raises:
        Unsaid: this dialect does not know it.
    """
    match ref.root:
        case "step":
            return _spelt("steps", (ref.step, "output", "data", *ref.path))
        case "steps":
            return _spelt("steps", (ref.step, "output", *ref.path))
        case "vars" if ref.path and isinstance(ref.path[0], str) and _BRACES_NAME.fullmatch(ref.path[0]) and ref.path[0] not in BRACES_ROOTS:
            return _spelt(ref.path[0], ref.path[1:])
        case "last":
            return _spelt("lastOutput", ref.path)
        case "item" | "index":
            return _spelt("loop", (ref.root, *ref.path))
        case "input" | "loop" | "secrets":
            return _spelt(ref.root, ref.path)
    raise InexpressibleError(f"@{ref.written} has no counterpart")


def _spelt(name: str, path: tuple[str | int, ...]) -> str:
    if any(isinstance(key, int) and key < 0 for key in path):
        raise InexpressibleError("places are not counted from the end")
    return name + "".join(f".{key}" if isinstance(key, str) and _BRACES_NAME.fullmatch(key) else f"[{json.dumps(key, ensure_ascii=False)}]" for key in path)


def write_condition(value: Any) -> str:
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
            return " && ".join(f"({write_condition(one)})" for one in inner)
        case {"any": list(inner)} if inner:
            return " || ".join(f"({write_condition(one)})" for one in inner)
        case {"not": inner}:
            return f"!({write_condition(inner)})"
        case {"ref": str()}:
            return _row(value)
        case _:
            raise InexpressibleError("this condition has no counterpart")


def _row(row: dict[str, Any]) -> str:
    try:
        left = write_reference_braces(parse_reference(row["ref"])) if row["ref"].startswith("@") else ""
    except BadExpression as error:
        raise InexpressibleError(error.what) from None
    if not left:
        raise InexpressibleError("JSONPath has no counterpart")
    match [name for name in row if name != "ref"]:
        case []:
            return left
        case [name] if name in _SIGNS:
            return f"{left} {_SIGNS[name]} {write_literal(row[name])}"
        case [name] if name in _OPERATOR_FILTERS:
            return f"({left}|{_OPERATOR_FILTERS[name]}({write_literal(row[name])}))"
        case ["exists"]:
            return f"{left} {'!=' if row['exists'] else '=='} null"
        case ["empty"]:
            return f"{'!' if row['empty'] else ''}({left}|length)"
    raise InexpressibleError("this row has no counterpart")


def write_literal(value: Any) -> str:
    """A value as an expression; text in it may refer."""
    match value:
        case str() if "{{" in value:
            raise InexpressibleError("text with {{ in it can't stand in an expression")
        case str() if "@" in value:
            said = write_text(value)
            return said[2:-2] if said.startswith("{{") and said.find("}}") == len(said) - 2 and said.count("{{") == 1 else _quoted(said)
        case str():
            return _quoted(value)
        case list():
            return f"[{', '.join(map(write_literal, value))}]"
        case dict():
            return f"{{{', '.join(f'{_quoted(key)}: {write_literal(item)}' for key, item in value.items())}}}"
        case _:
            return json.dumps(value)


def _quoted(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)
