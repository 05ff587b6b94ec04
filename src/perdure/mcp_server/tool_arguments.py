"""The arguments of tools: their JSON Schemas, made from the parameters of operations, and the reading of what a model gives.

A model that gives JSON in a text, or a number or a boolean as text, is understood where the schema allows no text. A null stands for an argument that is left
out. The types of values are checked here; what the values mean is checked by the operation.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from typing import Any, get_args

import msgspec

from perdure.api.json_forms import KEY, FieldForm, Schema, SchemaReference
from perdure.api.request_arguments import RequestArguments
from perdure.mcp_server.operation_requests import RequestRefused
from perdure.service.wire_types import JsonDocument

TEXT: Schema = {"type": "string"}
DOCUMENT: Schema = {"type": ["object", "string"]}
"""A document, or its text: models write the latter, and findings in it have its lines."""

NOTHING_MORE: Mapping[str, Schema] = {}
WAIT_S_MAX = 50.0
"""The longest time that one call waits. Clients often give up after 60 s."""


def refused_argument(name: str, message: str, next: str = "Correct the argument, and call again.") -> RequestRefused:
    """The refusal of a call for the sake of one argument."""
    return RequestRefused({"status": 422, "code": "bad_value", "detail": f"/{name}: {message}", "where": f"/{name}", "next": next})


def operation_schemas(reader: RequestArguments) -> dict[str, tuple[Schema, bool]]:
    """Returns the schemas of the arguments of an operation by name, each with whether it must be given. Of a key, the id alone must be.

    The schemas may refer to ``#/$defs``; see `object_schema`.
    """
    documents = {one.name for one in reader.operation.parameters if JsonDocument in (one.type, *get_args(one.type))}
    found: dict[str, tuple[Schema, bool]] = {}
    for name in reader.in_path:
        found[name] = (TEXT, not (name == "workflow" and reader.takes_key))
    for field in reader.fields:
        if field.name == "key" and field.form is KEY:
            found |= {"workflow": (TEXT, not reader.operation.is_workflow_optional), "id": (TEXT, False)}
        else:
            found[field.json_name] = (DOCUMENT if field.name in documents else _with_default(field), field.default is msgspec.NODEFAULT)
    return found


def _with_default(field: FieldForm) -> Schema:
    is_shown = isinstance(field.default, bool | int | float) or (isinstance(field.default, str) and field.default)
    return {**field.form.schema, "default": field.default} if is_shown and not isinstance(field.form.schema, SchemaReference) else field.form.schema


def object_schema(properties: Mapping[str, Schema], required: Iterable[str], about: Mapping[str, Schema] = NOTHING_MORE) -> Schema:
    """Returns the schema of an object of these properties, with the schemas of structs under ``$defs``, and with what is added `about` some of them."""
    defs: dict[str, Schema] = {}
    shown = {name: {**_resolved(schema, defs), **about.get(name, {})} for name, schema in properties.items()}
    found: Schema = {"type": "object", "properties": shown, "additionalProperties": False}
    needed = list(required)
    return found | ({"required": needed} if needed else {}) | ({"$defs": defs} if defs else {})


def _resolved(schema: Any, defs: dict[str, Schema]) -> Any:
    if isinstance(schema, SchemaReference):
        name = schema.kind.__name__
        if name not in defs:
            defs[name] = {}
            defs[name] = _resolved(schema.schema(), defs)
        return {"$ref": f"#/$defs/{name}"}
    if isinstance(schema, dict):
        return {name: _resolved(one, defs) for name, one in schema.items()}
    return [_resolved(one, defs) for one in schema] if isinstance(schema, list) else schema


def read_arguments(schema: Schema, given: Mapping[str, Any]) -> dict[str, Any]:
    """Reads what a model gives for an object schema.

    Raises:
        RequestRefused: an argument is missing or unknown, or its value is of another type.
    """
    properties: Mapping[str, Schema] = schema["properties"]
    for name in given:
        if name not in properties:
            likely = difflib.get_close_matches(name, properties, 1)
            meant = f"; {likely[0]} is" if likely else ""
            raise refused_argument(name[:200], f"there is no such argument{meant}. The arguments are {', '.join(properties) or 'none'}")
    required = schema.get("required", ())
    read = {name: _understood(value, properties[name]) for name, value in given.items() if value is not None or name in required}
    for name in required:
        if name not in read:
            raise refused_argument(name, "it is missing, and must be given")
    for name, value in read.items():
        _check_type(name, value, properties[name])
    return read


TYPES: Mapping[str, str] = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "object": "an object",
    "array": "a list",
    "null": "null",
}


def _check_type(name: str, value: Any, schema: Schema) -> None:
    if (kinds := schema.get("type")) is None:
        return  # it may be anything, or the operation checks it
    allowed = [kinds] if isinstance(kinds, str) else list(kinds)
    kind = _kind_of(value)
    if kind not in allowed and not (kind == "integer" and "number" in allowed):
        raise refused_argument(name, f"it is {TYPES[kind]}, and must be {' or '.join(TYPES[one] for one in allowed)}")


def _understood(value: Any, schema: Schema) -> Any:
    """Returns a text as the value that it is the JSON of, where the schema takes such a value and no text."""
    kinds = schema.get("type", "object" if "$ref" in schema else None)
    if not isinstance(value, str) or kinds is None or "enum" in schema:
        return value
    allowed = {kinds} if isinstance(kinds, str) else set(kinds)
    if "string" in allowed:
        return value
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return found if _kind_of(found) in allowed or (_kind_of(found) == "integer" and "number" in allowed) else value


def _kind_of(value: Any) -> str:
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case dict():
            return "object"
        case list():
            return "array"
        case None:
            return "null"
    return "string"


def seconds_of(name: str, value: float | None, otherwise: float) -> float:
    """Returns for how long a call waits.

    Raises:
        RequestRefused: it is not from 0 to `WAIT_S_MAX`.
    """
    if value is None:
        return otherwise
    if not 0 <= value <= WAIT_S_MAX:
        raise refused_argument(name, f"it is a number of seconds from 0 to {WAIT_S_MAX:g}; for longer, call wait_for_execution again")
    return float(value)


def count_of(name: str, value: int | None, otherwise: int, most: int) -> int:
    """Returns a whole number of up to `most`.

    Raises:
        RequestRefused: it is less than 0, or more.
    """
    if value is None:
        return otherwise
    if not 0 <= value <= most:
        raise refused_argument(name, f"it is a whole number from 0 to {most:,}")
    return value
