"""The OpenAPI 3.1 document of the API, made from the table of operations and the types of their functions."""

from __future__ import annotations

import copy
import importlib.metadata
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from perdure.api import problems
from perdure.api.header_parameters import HEADERS, header_names, with_headers
from perdure.api.json_forms import KEY, FieldForm, Schema, SchemaReference, camel, form_of
from perdure.api.request_arguments import RequestArguments
from perdure.api.sign_in_document import SESSION_SCHEME
from perdure.core.errors import (
    Ambiguous,
    AnswerUnknown,
    BadName,
    Forbidden,
    IdempotencyKeyReused,
    NotFound,
    PerdureError,
    Removed,
    RequestUnderWay,
    StaleRecord,
    StoreUnavailable,
    Unauthenticated,
    Unencodable,
)
from perdure.operations.operation_table import Operation
from perdure.operations.route_aliases import RouteAlias
from perdure.service.change_plans import ChangePlan

PROBLEM: Schema = {
    "type": "object",
    "description": "What went wrong (RFC 9457): the code of the error, a sentence, where it is, and what to do next.",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"type": "string"},
        "where": {"type": "string"},
        "next": {"type": "string"},
        "candidates": {"type": "array", "items": {}},
        "findings": {"type": "array", "items": {}},
    },
    "required": ["type", "title", "status", "detail", "code"],
}
REFERENCE: Schema = {"$ref": "#/components/schemas/Problem"}
NO_PATHS: Mapping[str, Any] = {}
REFUSALS = {400: "bad_request", 404: "not_found", 408: "too_slow", 413: "too_large", 415: "not_json", 422: "bad_value", 429: "too_many_requests"}
"""The statuses of requests that reach no operation, and a code of each."""


def openapi_document(operations: Sequence[Operation], aliases: Sequence[RouteAlias] = (), others: Mapping[str, Any] = NO_PATHS) -> dict[str, Any]:
    """Returns the document of operations, at their own routes and at `aliases`, and of `others`: paths with their descriptions."""
    schemas: dict[str, Schema] = {"Problem": PROBLEM}
    found: dict[str, dict[str, Any]] = {}
    for operation in operations:
        found.setdefault(operation.path, {})[operation.method.lower()] = _described(RequestArguments(operation), operation.name, schemas)
    for number, alias in enumerate(aliases, 1):
        reader = RequestArguments(alias.operation, alias)
        found.setdefault(alias.path, {})[alias.method.lower()] = _described(reader, f"{alias.operation.name}.{number}", schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Perdure",
            "version": importlib.metadata.version("perdure"),
            "description": "Durable workflows: executions, approvals, queues and upkeep.",
        },
        "paths": {**found, **others},
        "components": {"schemas": schemas, "parameters": HEADERS, "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}, "session": SESSION_SCHEME}},
        "security": [{"key": []}, {"session": []}],
    }


def _described(reader: RequestArguments, id: str, schemas: dict[str, Schema]) -> dict[str, Any]:
    operation, alias = reader.operation, reader.alias
    described_by = [operation.description, *(inspect.cleandoc(group.kind.__doc__ or "") for group in reader.groups)]
    summary, _, more = _in_json_names("\n\n".join(described_by), operation).partition("\n\n")
    described: dict[str, Any] = {
        "operationId": id,
        "summary": summary,
        "tags": [operation.name.partition(".")[0]],
        "parameters": [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in reader.in_path],
        "responses": with_headers(operation, reader.method, _responses(operation, schemas, named_by_id="execution" in reader.in_path)),
        "x-perdure-role": operation.role or "any",
    }
    described["parameters"] += [{"$ref": f"#/components/parameters/{name}"} for name in header_names(operation, reader.method)]
    if more:
        described["description"] = more
    given = {} if alias is None else alias.fixed
    fields = [one for field in reader.fields for one in _named(operation, field, schemas) if one[0] not in given]
    if alias is not None and alias.body_as:
        whole = next(schema for name, schema, _ in fields if name == alias.body_as)
        described["requestBody"] = {"required": True, "content": {"application/json": {"schema": whole}}}
    elif reader.method in ("GET", "DELETE"):
        described["parameters"] += [{"name": name, "in": "query", "required": required, "schema": schema} for name, schema, required in fields]
    elif fields:
        body: Schema = {"type": "object", "properties": {name: schema for name, schema, _ in fields}, "additionalProperties": False}
        if required := [name for name, _, needed in fields if needed]:
            body["required"] = required
        described["requestBody"] = {"required": bool(required), "content": {"application/json": {"schema": body}}}
    return described


def _in_json_names(text: str, operation: Operation) -> str:
    """Returns a description as Markdown, a line for each paragraph, with parameters and fields by their names in JSON."""
    names = {one.name for one in operation.parameters} | {field.name for field in RequestArguments(operation).fields}
    text = re.sub(r"`+([^`]+)`+", lambda found: f"`{camel(found[1]) if found[1] in names else found[1]}`", text)
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def _named(operation: Operation, field: FieldForm, schemas: dict[str, Schema]) -> list[tuple[str, Schema, bool]]:
    if field.name == "key" and field.form is KEY:
        return [("workflow", {"type": "string"}, not operation.is_workflow_optional), ("id", {"type": "string", "description": "default: a random one"}, False)]
    return [(field.json_name, _resolved(field.form.schema, schemas), field.default is msgspec.NODEFAULT)]


def _responses(operation: Operation, schemas: dict[str, Schema], *, named_by_id: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    schema = _resolved(form_of(operation.result).schema, schemas) if operation.result is not type(None) else {}
    if operation.is_stream:
        pages = {"type": "object", "properties": {"items": {"type": "array", "items": schema}, "next": {"type": "integer"}}, "required": ["items", "next"]}
        content: dict[str, Any] = {"application/json": {"schema": pages}, "text/event-stream": {"schema": {"type": "string"}}}
        found["200"] = {"description": "What there is; as `text/event-stream`, also what comes.", "content": content}
    elif operation.result in (None, type(None)):
        found["204"] = {"description": "It is done."}
    elif operation.result is bytes:
        found["200"] = {"description": "The file.", "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}
    else:
        whole = schema if "$ref" in schema or schema.get("type") == "object" else _wrapped(schema)
        found["200"] = {"description": "The result.", "content": {"application/json": {"schema": whole}}}
        if "created" in getattr(operation.result, "__struct_fields__", ()):
            found["201"] = {**found["200"], "description": "It was created."}
    if operation.has_plan:
        plan = {"application/json": {"schema": _resolved(form_of(ChangePlan).schema, schemas)}}
        found["200"] = {"description": "With `dryRun`, what it would do.", "content": plan} if "200" not in found else _either(found["200"], plan)
    by_status: dict[int, list[str]] = {status: [code] for status, code in REFUSALS.items()}
    removed = (Removed,) if NotFound in operation.errors else ()  # the head of an execution may outlive its log
    for status, kind in _further(operation):
        by_status.setdefault(status, []).append(_code(kind))
    if operation.version_field is not None and operation.method == "GET":
        found["304"] = {"description": "The client has this version (`If-None-Match`)."}
    by_id = (NotFound, Ambiguous) if named_by_id else ()
    for kind in (*operation.errors, *removed, *by_id, Unauthenticated, Forbidden, StoreUnavailable):
        by_status.setdefault(problems.status_of(kind), []).append(_code(kind))
    for status, codes in sorted(by_status.items()):
        found[str(status)] = {"description": ", ".join(dict.fromkeys(codes)), "content": {problems.MEDIA_TYPE: {"schema": REFERENCE}}}
    return found


def _further(operation: Operation) -> Iterator[tuple[int, type[PerdureError]]]:
    """Yields the errors that the headers and arguments of a request may lead to before it reaches the operation, with their statuses."""
    yield 422, BadName
    if operation.method != "GET":
        yield 422, Unencodable
    is_keyed = operation.takes_idempotency_key and operation.method == "POST"
    if is_keyed:
        yield from ((409, RequestUnderWay), (409, AnswerUnknown))
    if is_keyed or operation.is_start:
        yield 422, IdempotencyKeyReused
    if operation.expects_version:
        yield 412, StaleRecord


def _either(described: dict[str, Any], plan: dict[str, Any]) -> dict[str, Any]:
    both = [described["content"]["application/json"]["schema"], plan["application/json"]["schema"]]
    return {"description": "The result; with `dryRun`, what it would do.", "content": {"application/json": {"schema": {"anyOf": both}}}}


def _code(kind: type[PerdureError]) -> str:
    return kind.code


def _wrapped(schema: Schema) -> Schema:
    name = "items" if schema.get("type") == "array" else "value"
    return {"type": "object", "properties": {name: schema}, "required": [name]}


def _resolved(schema: Any, schemas: dict[str, Schema]) -> Any:
    """Returns a schema as plain data, and adds the schemas of structs in it to `schemas`."""
    if isinstance(schema, SchemaReference):
        if schema.kind.__name__ not in schemas:
            schemas[schema.kind.__name__] = {}
            schemas[schema.kind.__name__] = _resolved(schema.schema(), schemas)
        return dict(schema)
    if isinstance(schema, dict):
        return {name: _resolved(one, schemas) for name, one in schema.items()}
    if isinstance(schema, list):
        return [_resolved(one, schemas) for one in schema]
    return copy.copy(schema)
