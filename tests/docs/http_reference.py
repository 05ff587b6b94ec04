"""The reference of the HTTP API, made from the OpenAPI document, which is made from the table of operations."""

from collections.abc import Iterator
from typing import Any

from perdure.api.header_parameters import HEADERS
from perdure.api.openapi_document import openapi_document
from perdure.api.sign_in_document import ISSUER_PATHS, PATHS
from perdure.operations.operation_table import OPERATIONS, Operation
from perdure.operations.route_aliases import ALIASES

HEADER = "<!-- Written by `python -m tests.docs.reference` from the table of operations: change that, or the docstrings of its functions. -->"

GROUPS = {
    "executions": "Executions",
    "runs": "Runs, as systems know them that dispatch them to a runner",
    "kinds": "Kinds of steps",
    "catalog": "Workflows: definitions and their versions",
    "proposals": "Proposals of changes of definitions",
    "recordings": "Recordings of tool calls",
    "triggers": "Triggers: schedules, webhooks, events",
    "deliveries": "Deliveries of webhooks",
    "events": "Events that programs post",
    "approvals": "Approvals, and completions of external steps",
    "people": "People",
    "notifications": "Notifications",
    "dead_letters": "Dead letters",
    "queues": "Queues, engines and workers",
    "upkeep": "Upkeep",
    "access": "Access: keys, sessions and the audit",
    "secrets": "Secrets",
    "system": "The system",
}
"""The heading of each module of operations."""

SIGN_IN = {**PATHS, **ISSUER_PATHS}

COMMON = (400, 401, 403, 404, 408, 413, 415, 422, 429, 503)
"""The statuses that almost every operation has; the page says them once."""

INTRODUCTION = """
# The HTTP API

Every operation, with the role that it needs. [The guide](../guides/http.md) has what holds for all of them: addresses, names, times, pages, streams, errors.
A server describes itself at `GET /openapi.json` (OpenAPI 3.1).

Any operation may also answer 400, 401, 403, 404, 408, 413, 415, 422, 429 or 503 with a [problem](https://www.rfc-editor.org/rfc/rfc9457); the list of one names
the codes that are its own. `?` behind a name: it may be left out. `null` behind a type: it may be null. *Repeatable*: sent again with the same arguments, it
has the same effect once, and does not fail.
"""


def http_page() -> str:
    """Returns the page of all operations."""
    document = openapi_document(OPERATIONS, ALIASES, SIGN_IN)
    parts = [HEADER, INTRODUCTION, *_headers()]
    grouped = {heading: [one for one in OPERATIONS if one.name.partition(".")[0] == group] for group, heading in GROUPS.items()}
    if forgotten := {one.name for one in OPERATIONS} - {one.name for found in grouped.values() for one in found}:
        raise AssertionError(f"give these a heading in GROUPS of tests/docs/http_reference.py: {sorted(forgotten)}")
    for heading, operations in grouped.items():
        parts.append(f"## {heading}\n")
        for operation in operations:
            parts.extend(_operation(operation, document["paths"][operation.path][operation.method.lower()]))
    parts.append("## Sign-in of browsers\n")
    parts.append("A server with `perdure serve` has these. `session`: with the cookie of a session. See [the guide](../guides/serve.md).\n")
    parts.extend(_sign_in_table(document["paths"]))
    parts.append("## Other routes\n")
    parts.append("Clients of other systems find these operations at their routes too. `execution` is the id of an execution, of whatever workflow.\n")
    parts.extend(_alias_table())
    parts.append("## Objects\n")
    for name, schema in sorted(document["components"]["schemas"].items()):
        parts.append(f"### {name}\n")
        parts.append(f"{schema['description']}\n" if schema.get("description") else "")
        parts.extend(_table(_fields(schema)))
    return "\n".join(part for part in parts if part).rstrip() + "\n"


def _headers() -> Iterator[str]:
    rows = ["| header | |", "| --- | --- |"]
    rows += [f"| `{one['name']}`{' of a start' if name == 'StartKey' else ''} | {one['description']} |" for name, one in HEADERS.items()]
    rows.append("| `ETag` of an answer | The version of what it has. |")
    rows.append("| `Idempotent-Replayed` of an answer | It is that of an earlier request with the same `Idempotency-Key`. |")
    rows.append("| `Retry-After` of an answer | After how many seconds to ask again. |")
    yield "\n".join(rows) + "\n"


def _sign_in_table(paths: dict[str, Any]) -> Iterator[str]:
    rows = ["| route | needs | fields | answers | |", "| --- | --- | --- | --- | --- |"]
    for path in SIGN_IN:
        for method, one in paths[path].items():
            schema = one.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            fields = [f"`{name}`{'' if required else '?'}" for name, _, required in _fields(schema)]
            fields += [f"`{given['name']}`{'' if given['required'] else '?'}" for given in one["parameters"]]
            needs, answers = ("session" if one["security"] else ""), ", ".join(one["responses"])
            rows.append(f"| {method.upper()} {path} | {needs} | {', '.join(fields)} | {answers} | {one['summary']} |")
    yield "\n".join(rows) + "\n"


def _alias_table() -> Iterator[str]:
    rows = ["| route | operation | differs in |", "| --- | --- | --- |"]
    for one in ALIASES:
        fields = [f"`{theirs}` is `{name}`" for theirs, name in one.names.items()]
        fields += [f"the body is `{one.body_as}`"] if one.body_as else []
        rows.append(f"| {one.method} {one.path} | `{one.operation.name}` | {', '.join(fields)} |")
    yield "\n".join(rows) + "\n"


def _operation(operation: Operation, described: dict[str, Any]) -> Iterator[str]:
    yield f"### {operation.method} {operation.path}\n"
    traits = [f"`{operation.name}`", f"role: {operation.role or 'any'}"]
    traits += ["repeatable"] if operation.is_repeatable and operation.method != "GET" else []
    traits += ["for all tenants: the key has to be of the tenant `default`"] if operation.is_store_wide else []
    traits += ["also for keys that are limited to queues"] if operation.for_workers else []
    yield f"{', '.join(traits)}\n"
    yield f"{described['summary']}\n"
    if more := described.get("description"):
        yield f"{more}\n"
    given = [(one["name"], one["schema"], one["required"]) for one in described["parameters"] if one.get("in") == "query"]
    body = described.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    yield from _table(given or [*_fields(body)])
    if headers := [f"`{HEADERS[one['$ref'].rpartition('/')[2]]['name']}`" for one in described["parameters"] if "$ref" in one]:
        yield f"Headers: {', '.join(headers)}.\n"
    yield f"Answers {'; '.join(_answers(described['responses']))}.\n"


def _answers(responses: dict[str, Any]) -> Iterator[str]:
    for status, answer in responses.items():
        if int(status) < 300:
            kinds = [_type(one["schema"]) for media, one in answer.get("content", {}).items() if media == "application/json"]
            streams = " (or a stream of server-sent events)" if "text/event-stream" in answer.get("content", {}) else ""
            yield f"**{status}**{f' {kinds[0]}' if kinds else ''}{streams}"
        elif int(status) not in COMMON or (status == "429" and answer["description"] != "too_many_requests"):
            yield f"{status} {answer['description']}"


def _fields(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], bool]]:
    required = schema.get("required", ())
    for name, one in schema.get("properties", {}).items():
        yield name, one, name in required


def _table(fields: Any) -> Iterator[str]:
    rows = [f"| `{name}`{'' if required else '?'} | {_type(schema)} | {schema.get('description', '')} |" for name, schema, required in fields]
    if rows:
        yield "\n".join(("| field | type | |", "|---|---|---|", *rows)) + "\n"


def _type(schema: dict[str, Any]) -> str:
    """Returns a type in a few words, with a link to that of an object."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if alternatives := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(dict.fromkeys(_type(one) for one in alternatives))
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    kinds = schema.get("type", "any JSON")
    names = [kinds] if isinstance(kinds, str) else kinds
    return " or ".join(_named(name, schema) for name in names)


def _named(name: str, schema: dict[str, Any]) -> str:
    match name, schema.get("format"):
        case "string", "date-time":
            return "time"
        case "string", _:
            return "text"
        case "array", _:
            return f"array of {_type(schema['items'])}" if schema.get("items") else "array"
        case "object", _ if properties := schema.get("properties"):
            return "{" + ", ".join(f"`{one}`: {_type(its)}" for one, its in properties.items()) + "}"
        case _:
            return name
