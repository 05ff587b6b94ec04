"""Operations as tools: for each a name, a description, and the JSON Schema of its parameters, of which `params` of a step are made."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from perdure.core.errors import BadExpression
from perdure.definitions.expr import json_schema
from perdure.definitions.kinds.http.http_request import REPEATABLE
from perdure.definitions.kinds.openapi.api_description import ApiOperation, OpenapiDocument, Parameter, RequestContent
from perdure.definitions.kinds.openapi.document_schemas import SchemaReader
from perdure.definitions.kinds.openapi.operation_request import accepted_names, chosen_type

NAME_CHARACTERS_MAX = 64
"""The longest name of a tool that providers of models take."""

DESCRIPTION_CHARACTERS_MAX = 1_000
SCHEMA_BYTES_MAX = 64 * 1024
"""The largest schema of a tool; of an operation with a larger one, the schema has the names of the parameters alone."""

_NO_LETTERS = re.compile(r"[^A-Za-z0-9_-]+")


class OperationTool(msgspec.Struct, frozen=True):
    """An operation as a tool. `operation` is its method and path; `repeats` says whether an interrupted call may be repeated."""

    name: str
    description: str
    schema: dict[str, Any]
    operation: str
    repeats: bool


def operation_tool(document: OpenapiDocument, named: str) -> OperationTool:
    """The tool of an operation.

    Raises:
        OperationRefused: the document has no such operation.
        DocumentRefused: it is not as OpenAPI says.
    """
    operation = document.operation(named)
    by_method = f"{operation.method} {operation.path}"
    name = _NO_LETTERS.sub("_", operation.id or by_method).strip("_")[:NAME_CHARACTERS_MAX] or "operation"
    about = f"{operation.summary or operation.id} ({by_method})".strip()[:DESCRIPTION_CHARACTERS_MAX]
    return OperationTool(name, about, params_schema(document, operation), by_method, operation.method in REPEATABLE)


def params_schema(document: OpenapiDocument, operation: ApiOperation) -> dict[str, Any]:
    """The JSON Schema of the parameters of an operation: complete if it can be compiled and is not too large, else with the names alone."""
    for patterns in (True, False):
        found = _params_schema(operation, SchemaReader(document, "request", patterns))
        if len(msgspec.json.encode(found)) > SCHEMA_BYTES_MAX:
            break
        try:
            _ = json_schema.compile_schema(found)
        except BadExpression:
            continue
        return found
    return _params_schema(operation, None)


def _params_schema(operation: ApiOperation, reader: SchemaReader | None) -> dict[str, Any]:
    properties, required = dict[str, Any](), list[str]()
    for name, meant in _shortest_names(accepted_names(operation)):
        schema, where = (meant.schema, meant.where) if isinstance(meant, Parameter) else (chosen_type(meant).schema, chosen_type(meant).where)
        found = {} if reader is None or schema is None else reader.part(schema, where)
        about = meant.description[:DESCRIPTION_CHARACTERS_MAX]
        properties[name] = {**found, "description": about} if about and isinstance(found, dict) and "description" not in found else found
        if meant.required:
            required.append(name)
    definitions = {} if reader is None else reader.definitions()
    whole = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return {**whole, "$defs": definitions} if definitions else whole


def _shortest_names(names: dict[str, Parameter | RequestContent]) -> Iterable[tuple[str, Parameter | RequestContent]]:
    """Each parameter under one of the names that it may have: its own, if no other has that."""
    return [(name, meant) for name, meant in names.items() if not isinstance(meant, Parameter) or name == meant.name or names.get(meant.name) is not meant]
