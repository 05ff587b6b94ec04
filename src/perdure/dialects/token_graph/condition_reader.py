"""Reads the six types of conditions of token_graph, and the contents that a document refers to by ``cas://sha256:…`` or ``sha256:…``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from perdure.definitions.expr.condition import OF_NOTHING
from perdure.definitions.format.definition_findings import closest_name, joined_pointer
from perdure.definitions.format.document_parser import plain_data_finding
from perdure.dialects.cel_conversion import CelNameResolver, condition_from_cel
from perdure.dialects.cel_tree import CelSyntaxError
from perdure.dialects.foreign_document import (
    NATIVE_OPERATORS,
    OPERATORS_OF_MANY,
    PLAIN_OPERATORS,
    FindingCollector,
    ForeignFields,
    StepNames,
    kind_of_value,
    native_operator,
)
from perdure.dialects.reference_syntax import literal_value, whole_reference

CONTENT_SCHEME = "cas://"


class ReferencedContents:
    """Finds the contents of one document in `held`, by the whole reference or without its scheme."""

    def __init__(self, held: Mapping[str, Any], notes: FindingCollector) -> None:
        self._held, self._notes = held, notes

    def find(self, ref: str, pointer: str, wanted: tuple[type, ...], called: str) -> Any:
        """The content of a reference, of one of the types `wanted`; None if there is none, which is an error in words about what it is `called`."""
        name = ref.removeprefix(CONTENT_SCHEME)
        found = next((self._held[one] for one in (ref, name, CONTENT_SCHEME + name) if one in self._held), None)
        if found is None:
            text = f"there is no content for {ref[:80]!r}; give it by blobs= or --blobs DIR, as a file of that name"
            self._notes.error("unknown_blob", pointer, text)
        elif problem := plain_data_finding(found):
            self._notes.error("bad_blob", pointer, f"the content of {ref[:80]!r} can't be used: {problem.message}")
            return None
        elif not isinstance(found, wanted):
            self._notes.error("bad_blob", pointer, f"the content of {ref[:80]!r} is {kind_of_value(found)}, not {called}; give another one under its name")
            return None
        return found


_SIGNS = {"==": "eq", "=": "eq", "!=": "neq", "ne": "neq", ">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}
CONDITION_OPERATORS = _SIGNS | {"startsWith": "starts_with", "endsWith": "ends_with"}
"""The names that this dialect has for operators, besides the native ones."""

KNOWN_OPERATORS = tuple(sorted({*CONDITION_OPERATORS, *NATIVE_OPERATORS - OPERATORS_OF_MANY}))
MIRRORED_OPERATORS = {"eq": "eq", "neq": "neq", "gt": "lt", "gte": "lte", "lt": "gt", "lte": "gte"}
NEVER_CONDITION = {"expr": "false"}
"""The replacement of a condition that can't be read."""

_SINGULAR = re.compile(r"""\$(?:\.[A-Za-z_][\w-]*|\[\d+\]|\['[^'\\]*'\]|\["[^"\\]*"\])*""")
_KEY = re.compile(r"""\.([A-Za-z_][\w-]*)|\[(\d+)\]|\['([^'\\]*)'\]|\["([^"\\]*)"\]""")
_PATH_KEY = re.compile(r"""\.?([^.\[\]]+)|\[(\d+)\]|\['([^'\\]*)'\]|\["([^"\\]*)"\]""")


class TokenGraphConditionReader:
    """Reads the conditions of one document."""

    def __init__(self, names: StepNames, notes: FindingCollector, contents: ReferencedContents) -> None:
        self._names, self._notes, self._contents = names, notes, contents
        self._meaning = CelNameResolver(self._meant, renamed=(("ctx", "steps"),))
        self._types: dict[str, Callable[[ForeignFields], dict[str, Any]]] = {
            "cel": self._cel,
            "schema_validation": self._schema,
            "jsonpath": self._jsonpath,
            "cross_node_comparison": self._comparison,
            "composite": self._composite,
            "python_sandbox": self._python,
        }

    def read(self, given: Any, pointer: str) -> dict[str, Any]:
        """The condition that one of the document is; text alone is CEL."""
        if isinstance(given, str):
            return self._expression(given, pointer)
        fields = ForeignFields(given, pointer, self._notes)
        type_name = fields.text("type", default="cel" if fields.has("expression") else "")
        if (reader := self._types.get(type_name)) is None:
            text = f"unknown condition type: {type_name[:60] or 'none'}; there are {', '.join(self._types)}"
            self._notes.error("unknown_condition", fields.at("type"), text, closest_name(type_name, self._types))
            return dict(NEVER_CONDITION)
        made = reader(fields)
        fields.ignore("description")
        fields.refuse_left("a condition")
        return made

    def _meant(self, name: str, path: list[str | int]) -> tuple[str, list[str | int]] | None:
        """`output` is the node's own output, and `ctx.NODE.output` that of another."""
        if name == "current":
            return "self", path[1:] if path[:1] == ["output"] else path
        if name == "output":
            return "self", path
        if name != "ctx" or len(path) < 2:
            return None
        called = self._names[str(path[0])]
        match path[1]:
            case "output":
                return called, path[2:]
            case "metadata":
                return "steps", [called, "output", "meta", *path[2:]]
            case _:
                return None

    def _cel(self, fields: ForeignFields) -> dict[str, Any]:
        return self._expression(fields.text("expression"), fields.at("expression"))

    def _expression(self, text: str, pointer: str) -> dict[str, Any]:
        try:
            return condition_from_cel(text, self._meaning)
        except CelSyntaxError as wrong:
            self._notes.error("bad_expression", pointer, f"{text[:60]!r} is not CEL: {wrong}")
            return dict(NEVER_CONDITION)

    def _schema(self, fields: ForeignFields) -> dict[str, Any]:
        schema = fields.any("schema")
        if schema is None:
            schema = self._content(fields, "schema_ref", (dict, bool), "a JSON Schema")
        if not isinstance(schema, dict | bool):
            if schema is not None:
                self._notes.error("wrong_type", fields.at("schema"), "expected a JSON Schema")
            return dict(NEVER_CONDITION)
        matches: dict[str, Any] = {"ref": "@self", "matches": schema}
        return {"not": matches} if fields.flag("invert") else matches

    def _python(self, fields: ForeignFields) -> dict[str, Any]:
        for name, ours in (("timeout_ms", 1000), ("max_memory_mb", 50)):
            if (limit := fields.number(name)) is not None and limit != ours:
                self._notes.warning("other_limit", fields.at(name), f"the limit of conditions in Python is always {ours} here, so this is ignored")
        code = fields.text("code") or self._content(fields, "code_ref", (str,), "a source text")
        return {"python": code} if isinstance(code, str) and code else dict(NEVER_CONDITION)

    def _content(self, fields: ForeignFields, name: str, wanted: tuple[type, ...], called: str) -> Any:
        if not (ref := fields.text(name)):
            self._notes.error("missing_field", fields.at(name), f"the condition needs {called}, in place or by {name}")
            return None
        return self._contents.find(ref, fields.at(name), wanted, called)

    def _jsonpath(self, fields: ForeignFields) -> dict[str, Any]:
        query, operator, value = fields.text("query", "path"), fields.text("operator"), fields.any("value")
        if not query.startswith("$"):
            self._notes.error("bad_expression", fields.at("query"), f"{query[:60]!r} is not a JSONPath, which begins with $")
            return dict(NEVER_CONDITION)
        summed, _, compared = operator.rpartition("_")
        if summed in OPERATORS_OF_MANY and (inner := native_operator(CONDITION_OPERATORS, compared, value)):
            return {"ref": query, summed: {inner: literal_value(value)}}
        if operator in OPERATORS_OF_MANY and isinstance(value, dict):
            return {
                "ref": query,
                operator: {native_operator(CONDITION_OPERATORS, str(name), one) or str(name): literal_value(one) for name, one in value.items()},
            }
        native = native_operator(CONDITION_OPERATORS, operator, value)
        if (operator and not native) or native in OPERATORS_OF_MANY:
            return self._unknown_operator(fields, [*KNOWN_OPERATORS, *(f"{name}_gt" for name in sorted(OPERATORS_OF_MANY))])
        if not native and "value" in fields.value:
            self._notes.error("missing_field", fields.at("operator"), "the comparison has no operator; add one, such as ==")
            return dict(NEVER_CONDITION)
        tested = {native: value if native in PLAIN_OPERATORS else literal_value(value)} if native else {}
        if native in OF_NOTHING:
            tested = {native: value is not False}
        if query.endswith(".length()"):
            return {"ref": query, **(tested or {"gt": 0})}
        if _SINGULAR.fullmatch(query):
            return {"ref": whole_reference("self", _keys(_KEY, query[1:])), **tested}
        return {"ref": query, "any": tested} if tested else {"ref": query}

    def _comparison(self, fields: ForeignFields) -> dict[str, Any]:
        if fields.has("expression"):
            return self._cel(fields)
        left, right = self._side(fields, "left"), self._side(fields, "right")
        operator = native_operator(CONDITION_OPERATORS, fields.text("operator"), right)
        if not operator or operator in OPERATORS_OF_MANY:
            return self._unknown_operator(fields, KNOWN_OPERATORS)
        if isinstance(left, str) and left.startswith("@") and not left.startswith("@@"):
            return {"ref": left, operator: right}
        if operator in MIRRORED_OPERATORS and isinstance(right, str) and right.startswith("@") and not right.startswith("@@"):
            return {"ref": right, MIRRORED_OPERATORS[operator]: left}
        self._notes.error("no_reference", fields.at("left"), "one side of a comparison must be the output of a node: {source, path}")
        return dict(NEVER_CONDITION)

    def _side(self, fields: ForeignFields, name: str) -> Any:
        """One side: the reference to a node's result, or a value."""
        side = fields.inside(name)
        if side is None:
            self._notes.error("missing_field", fields.at(name), "a comparison has two sides, each {source, path} or {value}")
            return None
        source = side.text("source", default="context" if side.has("node") else "current" if side.has("path") else "")
        if not source:
            value = literal_value(side.any("value"))
            side.refuse_left("a side of a comparison")
            return value
        if source not in ("current", "context"):
            self._notes.error("unknown_value", side.at("source"), f"expected 'current' or 'context', found {source[:40]!r}")
        path = _keys(_PATH_KEY, side.text("path", default="output"))
        node = side.text("node")
        if source == "context" and not node:
            self._notes.error("missing_field", side.at("node"), "no node is named; name the node whose output is compared")
        side.refuse_left("a side of a comparison")
        if source == "current" and node:
            self._notes.warning(
                "misplaced", side.at("node"), "this has no effect, because the current node is compared; to compare another node, write source: context"
            )
        called = "self" if source == "current" or not node else self._names[node]
        if path[:1] == ["metadata"] and called != "self":
            return whole_reference("steps", [called, "output", "meta", *path[1:]])
        return whole_reference(called, path[1:] if path[:1] == ["output"] else path)

    def _composite(self, fields: ForeignFields) -> dict[str, Any]:
        operator = fields.text("operator", default="AND").upper()
        inside = [self.read(one, joined_pointer(fields.at("conditions"), index)) for index, one in enumerate(fields.listed("conditions"))]
        if not inside:
            self._notes.error("missing_field", fields.at("conditions"), "a composite condition has conditions")
            return dict(NEVER_CONDITION)
        match operator:
            case "AND" | "OR":
                return {"all" if operator == "AND" else "any": inside}
            case "NOT":
                return {"not": inside[0] if len(inside) == 1 else {"any": inside}}
            case _:
                return self._unknown_operator(fields, ("AND", "OR", "NOT"))

    def _unknown_operator(self, fields: ForeignFields, known: Any) -> dict[str, Any]:
        operator = fields.text("operator")
        near = closest_name(operator, known)
        hint = f"did you mean {near!r}?" if near else f"there are {', '.join(sorted(known))}"
        self._notes.error("unknown_operator", fields.at("operator"), f"{operator[:40]!r} is not an operator; {hint}", near)
        fields.ignore(*fields.value)
        return dict(NEVER_CONDITION)


def _keys(pattern: re.Pattern[str], text: str) -> list[str | int]:
    """The keys that a path is made of; digits in brackets are places in a list."""
    return [int(found[2]) if found[2] is not None else next(group for group in found.groups() if group is not None) for found in pattern.finditer(text)]
