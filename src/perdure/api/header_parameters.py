"""The headers of requests and answers as the OpenAPI document names them: which operation takes and gives which."""

from collections.abc import Iterator
from typing import Any

from perdure.operations.operation_table import Operation

Schema = dict[str, Any]

HEADERS: dict[str, Schema] = {
    "IdempotencyKey": {
        "name": "Idempotency-Key",
        "in": "header",
        "description": "Sent again with the same key and body within 24 hours, the request is given the answer of the first, and has no further effect.",
        "schema": {"type": "string"},
    },
    "StartKey": {
        "name": "Idempotency-Key",
        "in": "header",
        "description": "The id of the execution, if the body has none: sent again, the request finds the execution of the first.",
        "schema": {"type": "string"},
    },
    "IfMatch": {
        "name": "If-Match",
        "in": "header",
        "description": "The `ETag` of what is changed: the change is made only while it is still that, else the answer is 412.",
        "schema": {"type": "string"},
    },
    "IfNoneMatch": {
        "name": "If-None-Match",
        "in": "header",
        "description": "The `ETag` of what the client has: the answer is 304 while it is still that.",
        "schema": {"type": "string"},
    },
    "LastEventId": {
        "name": "Last-Event-ID",
        "in": "header",
        "description": "The id of the last event that was read: the stream goes on after it. It counts in place of `after`.",
        "schema": {"type": "string"},
    },
}
"""The headers of requests, by their names among the components of the document."""

REPLAYED: Schema = {"description": "`true` if the request was repeated, and this is the answer of the first.", "schema": {"type": "string"}}
ETAG: Schema = {"description": "The version.", "schema": {"type": "string"}}
RETRY_AFTER: Schema = {"description": "After how many seconds to ask again.", "schema": {"type": "integer"}}


def header_names(operation: Operation, method: str) -> Iterator[str]:
    """Yields the names of the components that are headers of a request for an operation."""
    if operation.is_start:
        yield "StartKey"
    elif operation.takes_idempotency_key and method == "POST":
        yield "IdempotencyKey"
    if operation.expects_version:
        yield "IfMatch"
    if method == "GET" and operation.version_field is not None:
        yield "IfNoneMatch"
    if operation.is_stream:
        yield "LastEventId"


def with_headers(operation: Operation, method: str, responses: dict[str, Any]) -> dict[str, Any]:
    """Returns the answers of an operation with their headers."""
    is_keyed = operation.takes_idempotency_key and method == "POST"
    found: dict[str, Any] = {}
    for status, described in responses.items():
        headers: dict[str, Schema] = {}
        if status < "300" or status == "304":
            headers |= {"ETag": ETAG} if operation.version_field is not None else {}
            headers |= {"Idempotent-Replayed": REPLAYED} if is_keyed else {}
        elif status in ("429", "503"):
            headers |= {"Retry-After": RETRY_AFTER}
        found[status] = {**described, "headers": headers} if headers else described
    return found
