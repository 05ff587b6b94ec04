"""Conditions of a definition as those of seed 004: as CEL where that can say it, else by the type that can."""

from __future__ import annotations

import json
from typing import Any

from perdure.core.errors import BadExpression
from perdure.expr.refs import parse
from perdure.programs.format.dialects import cel_tree
from perdure.programs.format.dialects.cel_tree import Name, Tree
from perdure.programs.format.dialects.conditions004 import Conditions as Reader
from perdure.programs.format.dialects.contents import Contents
from perdure.programs.format.dialects.reading import Names, Notes
from perdure.programs.format.dialects.spelling import cel_path, is_reference, plain, unescaped
from perdure.programs.format.finding import joined

SIGNS = {"eq": "==", "neq": "!=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
METHODS = {"contains": "contains", "starts_with": "startsWith", "ends_with": "endsWith"}
SUMMED = ("sum", "count", "min", "max", "any", "all")

Document = dict[str, Any]


class Conditions:
    """Writes the conditions of one definition, whose steps are `ids`."""

    def __init__(self, ids: set[str], notes: Notes) -> None:
        self._ids, self._notes = ids, notes
        apart = Notes(None)
        names = Names(apart)
        for id in ids:
            names.give(id, "")
        self._reader = Reader(names, apart, Contents({}, apart))

    def write(self, condition: Any, pointer: str) -> Document:
        """A condition."""
        if (text := self._cel(condition)) is not None:
            return {"type": "cel", "expression": text}
        match condition:
            case {"all": list(parts)} | {"any": list(parts)}:
                name = next(iter(condition))
                inside = [self.write(part, joined(pointer, name, index)) for index, part in enumerate(parts)]
                return {"type": "composite", "operator": {"all": "AND", "any": "OR"}[name], "conditions": inside}
            case {"not": {"ref": "@self", "matches": schema}}:
                return {"type": "schema_validation", "schema": schema, "invert": True}
            case {"ref": "@self", "matches": schema}:
                return {"type": "schema_validation", "schema": schema}
            case {"not": part}:
                return {"type": "composite", "operator": "NOT", "conditions": [self.write(part, joined(pointer, "not"))]}
            case {"python": source}:
                return {"type": "python_sandbox", "code": source}
            case {"ref": str(ref), **operators}:
                return self._jsonpath(ref, {str(name): value for name, value in operators.items()}, pointer)
        self._notes.error("unsayable", pointer, "seed 004 has no words for this condition")
        return {}

    def _jsonpath(self, ref: str, operators: Document, pointer: str) -> Document:
        query = ref if ref.startswith("$") else self._query(ref)
        if query is None or len(operators) > 1:
            self._notes.error("unsayable", pointer, f"seed 004 has no words for a condition on {ref[:60]!r}")
            return {}
        made: Document = {"type": "jsonpath", "query": query}
        for name, value in operators.items():
            if name in SUMMED and isinstance(value, dict) and len(value) == 1:
                ((compared, right),) = value.items()
                made |= {"operator": SIGNS.get(compared, compared) if name == "any" else f"{name}_{compared}", "value": plain(right)}
            else:
                made |= {"operator": SIGNS.get(name, name), "value": plain(value)}
        return made

    def _query(self, ref: str) -> str | None:
        """A reference to the step's own result as a JSONPath."""
        try:
            found = parse(ref)
        except BadExpression:
            return None
        return "$" + "".join(f"[{key}]" if isinstance(key, int) else f"[{json.dumps(key)}]" for key in found.path) if found.root == "self" else None

    def _cel(self, condition: Any) -> str | None:
        match condition:
            case {"expr": str(), "source": str(source)} if self._reader.read(source, "") == condition:
                return source
            case {"expr": str(text)}:
                return self._renamed(text)
            case {"all": list(parts)} | {"any": list(parts)} if len(condition) == 1:
                texts = [self._cel(part) for part in parts]
                sign = " && " if "all" in condition else " || "
                if any(text is None or "expr" in part for text, part in zip(texts, parts, strict=True)):
                    return None
                grouped = [f"({text})" if "all" in part or "any" in part else str(text) for text, part in zip(texts, parts, strict=True)]
                return sign.join(grouped)
            case {"ref": str(ref), **operators} if len(operators) == 1 and (left := self._chain(ref)):
                ((name, value),) = operators.items()
                return self._row(left, str(name), value)
        return None

    def _row(self, left: str, name: str, value: Any) -> str | None:
        if name in SIGNS and is_reference(value):
            right = self._chain(value)
            return f"{left} {SIGNS[name]} {right}" if right else None
        if name in SIGNS and not isinstance(value, dict | list):
            return f"{left} {SIGNS[name]} {json.dumps(plain(value), ensure_ascii=False)}"
        if name == "in" and isinstance(value, list) and not any(isinstance(item, dict | list) or is_reference(item) for item in value):
            return f"{left} in {json.dumps(plain(value), ensure_ascii=False)}"
        if name in METHODS and isinstance(value, str) and not is_reference(value):
            return f"{left}.{METHODS[name]}({json.dumps(unescaped(value), ensure_ascii=False)})"
        return None

    def _chain(self, ref: str) -> str | None:
        """A reference as CEL of this dialect; None if it has none."""
        try:
            found = parse(ref)
        except BadExpression:
            return None
        match found.root, found.path:
            case "self", path:
                return cel_path("output", path)
            case "step", path:
                return cel_path("ctx", [found.step, "output", *path])
            case "steps", ("data", *path):
                return cel_path("ctx", [found.step, "output", *path])
            case "steps", ("meta", *path):
                return cel_path("ctx", [found.step, "metadata", *path])
        return None

    def _renamed(self, text: str) -> str | None:
        """CEL with the names that this dialect has; None if it has none for one of them."""
        try:
            return cel_tree.written(cel_tree.renamed(cel_tree.parse(text), self._rename))
        except (cel_tree.NotCel, RecursionError):
            return None

    def _rename(self, name: str, path: list[str | int]) -> Tree | None:
        match name, path:
            case "self", _:
                return Name(cel_path("output", path))
            case "steps", [id, "output", "data", *rest]:
                return Name(cel_path("ctx", [id, "output", *rest]))
            case "steps", [id, "output", "meta", *rest]:
                return Name(cel_path("ctx", [id, "metadata", *rest]))
            case "steps", []:
                return Name("ctx")
        return Name(cel_path("ctx", [name, "output", *path])) if name in self._ids else None
