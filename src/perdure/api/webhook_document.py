"""The routes of webhooks, as the OpenAPI document has them. See `perdure.api.webhook_routes`."""

from typing import Any

from perdure.api.problems import MEDIA_TYPE

Described = dict[str, Any]

_PROBLEM: Described = {"content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}}
_DELIVERY: Described = {
    "type": "object",
    "description": "The delivery, and the execution that it has started, now or before (`created` is false).",
    "properties": {
        "delivery": {"type": "string"},
        "workflow": {"type": "string"},
        "executionId": {"type": "string"},
        "created": {"type": "boolean"},
    },
    "required": ["delivery", "workflow", "executionId", "created"],
    "additionalProperties": False,
}
_REFUSED = {
    400: "A header, the body or the query is not what the webhook takes.",
    401: "The signature is not valid, or its time is too far away.",
    404: "There is no active webhook here.",
    405: "The webhook takes another method.",
    408: "The body did not arrive in time.",
    409: "The execution did not complete (with `respond: result`), or its workflow is disabled.",
    413: "The body is too large.",
    415: "The body is compressed.",
    422: "The workflow does not take the input that the payload gives.",
    429: "As many executions as the webhook allows have not ended.",
    503: "The store is not available; send it again.",
}
_TENANT: Described = {"name": "tenant", "in": "path", "required": True, "description": "The tenant.", "schema": {"type": "string"}}
_PATH: Described = {
    "name": "path",
    "in": "path",
    "required": True,
    "description": "The path of the trigger, which may have several segments.",
    "schema": {"type": "string"},
}


def _route(id: str, *parameters: Described) -> Described:
    return {
        "operationId": f"webhooks.{id}",
        "summary": "Receives a webhook, with the method that its trigger has. The signature of the sender is verified, and starts an execution once.",
        "tags": ["webhooks"],
        "security": [],
        "parameters": list(parameters),
        "requestBody": {"required": False, "description": "JSON, a form, text, or anything else.", "content": {"*/*": {}}},
        "responses": {
            "200": {
                "description": "It was accepted before; or, with `respond: result`, the result; or the answer to a ping or a challenge.",
                "content": {"application/json": {"schema": {}}},
            },
            "202": {"description": "It was accepted.", "content": {"application/json": {"schema": _DELIVERY}}},
            **{str(status): {"description": said, **_PROBLEM} for status, said in _REFUSED.items()},
        },
    }


PATHS: dict[str, Described] = {
    "/webhooks/{path}": {"post": _route("receive", _PATH)},
    "/webhooks/~{tenant}/{path}": {"post": _route("receive_of_tenant", _TENANT, _PATH)},
}
"""The routes."""
