"""The kind `http`: its declaration, and the function that performs a step."""

from __future__ import annotations

from typing import Any

from perdure.code.step_environment import step_info
from perdure.core.errors import MissingExtra
from perdure.definitions.format.format_schema import schema_of_shape
from perdure.definitions.format.verb_shapes import HTTP_SHAPE
from perdure.definitions.graph.step_kind import Kind, Limit
from perdure.definitions.kinds.deployment import Deployment
from perdure.definitions.kinds.http import http_request
from perdure.definitions.kinds.http.http_targets import ReachableAddresses

TIMEOUT_S = 30.0
"""The default timeout of an attempt."""

OUTPUT = {
    "type": "object",
    "properties": {
        "status": {"type": "integer"},
        "headers": {"type": "object", "description": "by names in lower case; set-cookie is a list"},
        "body": {"description": "JSON, text, {base64: …}, or null if there is none"},
        "url": {"type": "string", "description": "where the answer came from, after redirects"},
        "redirects": {"type": "integer"},
    },
    "required": ["status", "headers", "body", "url", "redirects"],
}
CONFIG = {"anyOf": [schema_of_shape(HTTP_SHAPE), {"type": "null", "description": "of a task: all of it stands in its input"}]}
INPUT = {
    "type": ["object", "null"],
    "properties": {name: {} for name in sorted(http_request.IN_INPUT)},
    "description": "laid over what stands behind http, for what has secrets in it; a url there has to have the origin of the one behind http",
}
LIMITS = (
    Limit("time of an attempt", "30 s", None, "it is tried again if it may be, else it fails; `timeout` of the step says another"),
    Limit("body of the answer, unpacked", "10,000,000 bytes", "16,000,000 bytes", "the step fails"),
    Limit("headers of the answer", "100 KiB", None, "it is as if there was no answer"),
    Limit("redirects", "5", "20", "the step fails"),
    Limit("Retry-After", "3600 s", None, "it is tried again after this time"),
    Limit("connections of an engine", "256", None, "further requests wait"),
)
IDEMPOTENCY = (
    "GET, HEAD, OPTIONS, TRACE, PUT and DELETE are sent again after an interruption; POST and PATCH only if the step says `idempotent: true`. What changes "
    "something has the step's key as Idempotency-Key, the same in every attempt, unless it has one of its own or `idempotency_key: false`. Without a key, POST "
    "and PATCH are not sent again either when an answer was lost or was a 500, 502 or 504."
)
EXAMPLE = """
perdure: 1
name: charge
input: {order: {type: string}, cents: {type: integer}, shop: {type: string, default: "https://shop.example"}}
steps:
  - id: order
    http: {url: "@{input.shop}/orders", query: {id: "@input.order"}, accept: [404]}
  - id: unknown
    when: {ref: "@order.status", eq: 404}
    return: {charged: false}
  - id: charge
    http:
      url: "@{input.shop}/charges"
      method: POST
      headers: {Authorization: "Bearer @{secrets.SHOP_TOKEN}"}
      json: {order: "@order.body.id", cents: "@input.cents"}
    retry: {max: 5}
    timeout: 10s
output: {charged: true, id: "@charge.body.id"}
"""


def http_kind(deployment: Deployment) -> Kind:
    """The kind `http` of a deployment.

    Raises:
        BadValue: the allowed hosts are invalid.
    """
    allowed = deployment.allowed.http
    _ = ReachableAddresses.of(allowed)

    async def run(config: Any = None, input: Any = None, env: Any = None) -> dict[str, Any]:
        try:
            from perdure.definitions.kinds.http import guarded_network, http_exchange  # here, as they take a library that is optional
        except ImportError:
            raise MissingExtra("a step of the kind http", "httpx2", "http") from None
        request, info = http_request.build_request(config, input, env), step_info()
        return await http_exchange.HttpExchange(await guarded_network.guarded_connections(allowed), request, info.key).result(attempt_limit_s(info.timeout_s))

    return Kind(
        "http",
        run,
        title="HTTP request",
        summary="Sends a request, and has its answer as data. Private addresses are out of reach unless the deployment allows them.",
        icon="globe",
        config=CONFIG,
        input=INPUT,
        output=OUTPUT,
        limits=LIMITS,
        idempotent=http_request.is_repeatable,
        idempotency=IDEMPOTENCY,
        check=http_request.check_request,
        check_step=http_request.check_http_step,
        extra="http",
        example=EXAMPLE,
    )


def attempt_limit_s(timeout_s: float | None) -> float:
    """The time limit of an attempt: slightly less than its timeout, so that the step itself can report whether a retry is safe."""
    return TIMEOUT_S if timeout_s is None else max(timeout_s - 0.5, timeout_s * 0.9)
