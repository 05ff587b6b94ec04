"""The conditions of seed 001: true, false, ``{variable, equals}`` and its like, a name, or an expression such as ``result.exit_code == 0``."""

from __future__ import annotations

import re
from typing import Any

from perdure.programs.format.dialects.cel_conditions import Meaning, condition
from perdure.programs.format.dialects.cel_tree import NotCel
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
    "lessThan": "lt",
    "less_than": "lt",
    "lessThanOrEqual": "lte",
    "startsWith": "starts_with",
    "endsWith": "ends_with",
    "matches": "matches_re",
} | {word: word for word in ("eq", "neq", "gt", "gte", "lt", "lte", "in", "contains", "exists", "empty", "starts_with", "ends_with")}
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
        for name, group in GROUPS.items():
            if fields.has(name):
                inside = [self.read(one, joined(fields.at(name), index)) for index, one in enumerate(fields.listed(name))]
                fields.left((*GROUPS, "not"))
                return {group: inside} if inside else True
        if fields.has("not"):
            inside = self.read(fields.any("not"), fields.at("not"))
            fields.left((*GROUPS, "not"))
            return not inside if isinstance(inside, bool) else {"not": inside}
        if not (variable := fields.text("variable", "name")):
            self._notes.error("missing_field", fields.at("variable"), "a condition looks at a variable: {variable, equals}")
            return False
        ref = self._ref(variable, fields.at("variable"))
        rows = []
        for name in [name for name in fields.value if name in OPERATORS]:
            value = fields.value[name]
            fields.ignore(name)
            rows.append({"ref": ref, OPERATORS[name]: value if OPERATORS[name] in ("exists", "empty") else self._variables.value(value, fields.at(name))})
        fields.left(OPERATORS)
        return {"all": rows} if len(rows) > 1 else rows[0] if rows else {"ref": ref}
