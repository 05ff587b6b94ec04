"""The conditions of seed 001: true, false, ``{variable, equals}`` and its like, a name, or an expression such as ``result.exit_code == 0``."""

from __future__ import annotations

import re
from typing import Any

from perdure.programs.format.dialects.cel_conditions import Meaning, condition
from perdure.programs.format.dialects.cel_tree import NotCel
from perdure.programs.format.dialects.operators import NATIVE, OF_MANY, PLAIN, meant, refuse_unknown
from perdure.programs.format.dialects.reading import Fields, Notes, kind
from perdure.programs.format.dialects.variables001 import Variables
from perdure.programs.format.finding import joined

OPERATORS = {
    "equals": "eq",
    "notEquals": "neq",
    "not_equals": "neq",
    "greaterThan": "gt",
    "greater_than": "gt",
    "greaterThanOrEqual": "gte",
    "greater_than_or_equal": "gte",
    "lessThan": "lt",
    "less_than": "lt",
    "lessThanOrEqual": "lte",
    "less_than_or_equal": "lte",
    "startsWith": "starts_with",
    "endsWith": "ends_with",
    "isEmpty": "empty",
    "is_empty": "empty",
}
"""The names that this dialect has for operators, besides the native ones."""

GROUPS = {"all": "all", "and": "all", "any": "any", "or": "any"}

_NAME = re.compile(r"(!?)\s*(?:\{\{\s*([\w.\[\]'\"-]+)\s*\}\}|([\w.\[\]'\"-]+))")


class Conditions:
    """Reads the conditions of one document."""

    def __init__(self, variables: Variables, notes: Notes) -> None:
        self._variables, self._notes = variables, notes

    def read(self, given: Any, pointer: str) -> Any:
        """The condition that one of the document is."""
        match given:
            case bool():
                return given
            case str():
                return self._text(given, pointer)
            case dict():
                return self._mapping(Fields(given, pointer, self._notes))
            case _:
                self._notes.error("wrong_type", pointer, f"expected true, false, {{variable, equals}} or an expression, found {kind(given)}")
                return False

    def _text(self, text: str, pointer: str) -> Any:
        if text.strip() in ("true", "false"):
            return text.strip() == "true"
        if found := _NAME.fullmatch(text.strip()):
            row = {"ref": self._ref(found[2] or found[3], pointer)}
            return {"not": row} if found[1] else row
        try:
            return condition(text, Meaning(lambda name, path: self._variables.meant(name, path, pointer)[:2], optional=True))
        except NotCel as wrong:
            self._notes.error("bad_expression", pointer, f"{text[:60]!r} is no condition: {wrong}; write {{variable, equals}}")
            return False

    def _ref(self, text: str, pointer: str) -> str:
        """What is missing is null in a condition."""
        return self._variables.items(text, pointer).removesuffix("?") + "?"

    def _mapping(self, fields: Fields) -> Any:
        for name in ("not", *GROUPS):
            if fields.has(name) and not fields.has("variable", "name"):
                return self._group(fields, name)
        if not (variable := fields.text("variable", "name")):
            self._notes.error("missing_field", fields.at("variable"), "a condition looks at a variable: {variable, equals}")
            return False
        ref = self._ref(variable, fields.at("variable"))
        rows = [row for name, value in fields.value.items() if (row := self._row(ref, name, value, fields.at(name)))]
        refuse_unknown(fields, {*OPERATORS, *NATIVE}, ("variable", "name"))
        return {"all": rows} if len(rows) > 1 else rows[0] if rows else {"ref": ref}

    def _group(self, fields: Fields, name: str) -> Any:
        for other in fields.value:
            if other != name:
                self._notes.error("unknown_operator", fields.at(other), f"beside {name!r} stands nothing else; put {other[:40]!r} into it")
        if name == "not":
            inside = self.read(fields.any(name), fields.at(name))
            return not inside if isinstance(inside, bool) else {"not": inside}
        parts = [self.read(one, joined(fields.at(name), index)) for index, one in enumerate(fields.listed(name))]
        return {GROUPS[name]: parts} if parts else True

    def _row(self, ref: str, name: str, value: Any, pointer: str) -> dict[str, Any]:
        """One comparison; empty if the name is that of no operator."""
        operator = meant(OPERATORS, name, value)
        if operator in OF_MANY and isinstance(value, dict):
            inside = {meant(OPERATORS, str(one), right) or str(one): self._variables.value(right, joined(pointer, str(one))) for one, right in value.items()}
            return {"ref": ref, operator: inside}
        return {"ref": ref, operator: value if operator in PLAIN else self._variables.value(value, pointer)} if operator else {}
