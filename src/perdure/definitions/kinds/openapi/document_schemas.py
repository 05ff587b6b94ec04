"""Schemas of an OpenAPI document as JSON Schemas that stand alone: each with what it refers to, in the words of JSON Schema 2020-12.

OpenAPI 3.0 has words of its own (``nullable``, ``exclusiveMinimum: true``), which are translated; 3.1 is JSON Schema. Words that check nothing are left out.
Cycles of references stay references, so a schema is as large as what it names, once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from perdure.core.errors import BadExpression
from perdure.definitions.expr import json_schema
from perdure.definitions.expr.json_schema import SchemaProblem
from perdure.definitions.format.definition_findings import joined_pointer
from perdure.definitions.kinds.openapi.api_description import OpenapiDocument

Side = Literal["request", "response"]
PARTS_MAX = 100_000
"""The most parts of a schema with all that it refers to."""

SCHEMAS_MAX = 64
"""How many schemas of a document are kept as they were read."""

_ONE = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames", "unevaluatedItems", "unevaluatedProperties")
_LIST = ("allOf", "anyOf", "oneOf", "prefixItems")
_NAMED = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
_KEPT = frozenset(
    (
        *("type", "enum", "const", "title", "description", "default", "format", "required", "dependentRequired", "multipleOf", "uniqueItems", "pattern"),
        *("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains"),
        *("exclusiveMinimum", "exclusiveMaximum"),
    )
)


class SchemaReader:
    """Reads schemas of one document for a request or a response. In a request, what is `readOnly` is not required; in a response, what is `writeOnly`.

    Without `patterns`, texts are not matched: a pattern may need what JSON Schema has and the validator here has not, such as look-ahead.
    """

    def __init__(self, document: OpenapiDocument, side: Side, patterns: bool = True) -> None:
        self._document, self._side, self._patterns = document, side, patterns
        self._names, self._counts = dict[str, str](), dict[str, int]()
        self._waiting = list[tuple[Any, str, str]]()
        self._parts = 0

    def read(self, schema: Any, where: str) -> dict[str, Any]:
        """The schema at a place of the document, with the schemas that it refers to under ``$defs``.

        Raises:
            DocumentRefused: it is not a schema, refers to something outside of the document or that is not there, or is too large.
        """
        found = self._converted(schema, where)
        whole = found if isinstance(found, dict) else {"allOf": [found]}
        definitions = self.definitions()
        return {**whole, "$defs": definitions} if definitions else whole

    def definitions(self) -> dict[str, Any]:
        """The schemas that are referred to by what was read so far, by name."""
        found = dict[str, Any]()
        while self._waiting:
            schema, where, name = self._waiting.pop()
            found[name] = self._converted(schema, where)
        return found

    def part(self, schema: Any, where: str) -> Any:
        """The schema at a place of the document, whose references lead to what `definitions` returns."""
        return self._converted(schema, where)

    def _converted(self, schema: Any, where: str) -> Any:
        self._parts += 1
        if self._parts > PARTS_MAX:
            raise self._document.refusal(where, f"the schema has more than {PARTS_MAX:,} parts with all that it refers to")
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict):
            raise self._document.refusal(where, "a schema is a mapping")
        found = {name: value for name, value in schema.items() if name in _KEPT}
        if not self._patterns:
            found.pop("pattern", None)
        if "$ref" in schema:
            found = {**(found if self._document.version == "3.1" else {}), "$ref": f"#/$defs/{self._named(schema['$ref'], where)}"}
            if self._document.version == "3.0":
                return found
        for name in _ONE:
            if name in schema:
                found[name] = self._converted(schema[name], joined_pointer(where, name))
        for name in _LIST:
            if name in schema:
                parts = self._document.sequence(schema, name, where)
                found[name] = [self._converted(one, joined_pointer(where, name, index)) for index, one in enumerate(parts)]
        for name in _NAMED:
            if name in schema and (name != "patternProperties" or self._patterns):
                inside = self._document.mapping(schema, name, where)
                found[name] = {key: self._converted(one, joined_pointer(where, name, key)) for key, one in inside.items()}
        if is_binary(schema):
            return {name: found[name] for name in ("title", "description") if name in found}
        self._without_one_sided(found, schema, where)
        return self._translated(found, schema) if self._document.version == "3.0" else found

    def _named(self, reference: Any, where: str) -> str:
        """The name under which the target of a reference is a definition of its own."""
        target, place = self._document.target(reference, where)
        if place not in self._names:
            name = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in place.rsplit("/", 1)[-1][:60])
            self._counts[name] = number = self._counts.get(name, 0) + 1
            self._names[place] = name = f"{name or 'schema'}-{number}" if number > 1 or not name else name
            self._waiting.append((target, place, name))
        return self._names[place]

    def _without_one_sided(self, found: dict[str, Any], schema: Mapping[str, Any], where: str) -> None:
        """Requires no property that is for the other side alone."""
        required, word = schema.get("required"), "readOnly" if self._side == "request" else "writeOnly"
        if not isinstance(required, list):
            found.pop("required", None)  # in OpenAPI 2 it was a flag, and some documents still have it
            return
        properties = self._document.mapping(schema, "properties", where)
        found["required"] = [name for name in required if not self._has_word(properties.get(name) if isinstance(name, str) else None, word, where)]

    def _has_word(self, schema: Any, word: str, where: str) -> bool:
        if isinstance(schema, dict) and schema.get(word) is not True and "$ref" in schema:
            schema, _ = self._document.target(schema["$ref"], where)
        return isinstance(schema, dict) and schema.get(word) is True

    def _translated(self, found: dict[str, Any], schema: Mapping[str, Any]) -> Any:
        """A schema of OpenAPI 3.0 in the words of JSON Schema."""
        for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            if isinstance(found.get(exclusive), bool):
                is_exclusive = found.pop(exclusive)
                if is_exclusive and bound in found:
                    found[exclusive] = found.pop(bound)
        if schema.get("nullable") is True:
            if isinstance(found.get("type"), str) and not any(name in found for name in (*_LIST, "not", "const")):
                found["type"] = [found["type"], "null"]
                if isinstance(found.get("enum"), list) and None not in found["enum"]:
                    found["enum"] = [*found["enum"], None]
            else:
                return {"anyOf": [found, {"type": "null"}]}
        return found


def is_binary(schema: Any) -> bool:
    """Whether a schema is of bytes, which no JSON value is."""
    if not isinstance(schema, dict) or schema.get("type") != "string":
        return False
    return schema.get("format") == "binary" or ("contentMediaType" in schema and "contentEncoding" not in schema)


def _schema_of(document: OpenapiDocument, side: Side, schema: Any, where: str, patterns: bool) -> dict[str, Any]:
    """The schema at a place, read once."""
    known, key = document.schemas, (side, where, patterns)
    if key not in known:
        while len(known) >= SCHEMAS_MAX:
            del known[next(iter(known))]
        known[key] = SchemaReader(document, side, patterns).read(schema, where)
    return known[key]


def value_problems(document: OpenapiDocument, side: Side, schema: Any, where: str, value: Any) -> list[SchemaProblem]:
    """The problems of a value according to the schema at a place of a document.

    Raises:
        DocumentRefused: it is not a schema, or leads out of the document.
        BadExpression: it can't be checked here, as it is too large or has words that the validator refuses.
    """
    try:
        return json_schema.find_problems(_schema_of(document, side, schema, where, True), value)
    except BadExpression:
        return json_schema.find_problems(_schema_of(document, side, schema, where, False), value)
