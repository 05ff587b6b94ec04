"""The response of an operation, compared with what the document says of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from perdure.core.errors import BadExpression
from perdure.definitions.kinds.openapi.api_description import ApiOperation, MediaType, OpenapiDocument
from perdure.definitions.kinds.openapi.document_schemas import value_problems
from perdure.definitions.kinds.openapi.openapi_errors import DocumentRefused
from perdure.definitions.kinds.openapi.operation_request import is_json_type, plain_type

PROBLEMS_MAX = 5
"""How many problems of a body are named."""


def accepted_types(document: OpenapiDocument, operation: ApiOperation) -> str:
    """The header Accept: the content types of the responses that the document has, in its order; empty if it has none."""
    found = dict[str, None]()
    for key in operation.responses:
        status = int(key) if key.isdecimal() else int(f"{key[:1]}00") if key[:1].isdecimal() else 200
        said = document.response(operation, status) if status < 400 else None
        if said is not None:
            found |= dict.fromkeys(one.name for one in document.media_types(*said) if one.name.isascii() and one.name.isprintable())
    return ", ".join(found)


def response_problems(document: OpenapiDocument, operation: ApiOperation, answer: Mapping[str, Any]) -> Iterator[str]:
    """What in a response is not as the document says: its status, its content type, or its body."""
    status, kind = answer["status"], plain_type(str(answer["headers"].get("content-type", "")))
    try:
        said = document.response(operation, status)
        if said is None:
            if operation.responses:
                yield f"the document names no response of the status {status} for {operation.label}"
            return
        types = list(document.media_types(*said))
        if not types or operation.method == "HEAD" or status in (204, 304):
            return
        media = _media_type(types, kind)
        if media is None:
            yield f"the response of the status {status} is {kind or 'of no type'}, and the document has {', '.join(one.name for one in types)}"
        elif media.schema is not None and is_json_type(kind):
            found = value_problems(document, "response", media.schema, media.where, answer["body"])
            yield from (f"the body does not fit {operation.label}: {one.text}" for one in found[:PROBLEMS_MAX])
    except (DocumentRefused, BadExpression) as error:
        yield f"the response of {operation.label} can't be checked: {error}"


def _media_type(types: list[MediaType], kind: str) -> MediaType | None:
    """The content type of the document that a response has: by its name, by its range, or by ``*/*``."""
    for wanted in (kind, f"{kind.partition('/')[0]}/*", "*/*"):
        for one in types:
            if plain_type(one.name) == wanted:
                return one
    return None
