"""Reads the bodies of requests: an object of JSON in UTF-8, each of whose names is given once, or nothing."""

import asyncio
from typing import Any

import msgspec

from perdure.api.http_requests import ApiRequest
from perdure.api.problems import Refusal
from perdure.core.header_values import body_charset
from perdure.core.json_names import repeated_name
from perdure.definitions.expr.plain_values import nests_deeper

JSON_DEPTH_MAX = 100
"""The most objects and arrays in one another in a body."""

JSON_TYPES = ("application/json", "application/cloudevents+json")

THREAD_BYTES_MIN = 256 * 1024
"""Larger bodies are read in a thread, so that other requests are answered meanwhile."""


async def json_body(request: ApiRequest, whole: str = "") -> dict[str, Any]:
    """Reads the body of a request. Of one that is the field `whole`, it may be anything.

    Raises:
        Refusal: it is something else, too large or too deep, or does not arrive.
    """
    raw = await request.body()
    if not raw:
        return {}
    content_type = request.header("content-type")
    kind = content_type.partition(";")[0].strip().lower()
    if kind not in JSON_TYPES:
        raise Refusal(415, "not_json", f"the content type of the body is {kind or 'missing'}", "send Content-Type: application/json", where="content-type")
    if charset := body_charset(content_type):
        raise Refusal(415, "not_json", f"the charset of the body is {charset[:100]}", "send JSON in UTF-8", where="content-type")
    found = json_value(raw) if len(raw) < THREAD_BYTES_MIN else await asyncio.to_thread(json_value, raw)
    if whole:
        return {whole: found}
    if not isinstance(found, dict):
        raise Refusal(400, "bad_request", f"the body is {type(found).__name__}, and not an object", "send a JSON object, such as {}", where="body")
    return found


def json_value(raw: bytes) -> Any:
    """Returns a value of JSON.

    Raises:
        Refusal: it is none, is too deep, or an object in it has a name twice.
    """
    try:
        found = msgspec.json.decode(raw)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise Refusal(400, "bad_request", f"the body is not JSON: {error}", "send a JSON object in UTF-8", where="body") from None
    if raw.count(b"[") + raw.count(b"{") > JSON_DEPTH_MAX and nests_deeper(found, JSON_DEPTH_MAX):
        message = f"the body has more than {JSON_DEPTH_MAX} objects and arrays in one another"
        raise Refusal(400, "bad_request", message, "send a flatter form, or deep data as a text of JSON", where="body")
    try:
        name = repeated_name(raw, found)
    except RecursionError:
        raise Refusal(400, "bad_request", "the body is too deep", "send a flatter form, or deep data as a text of JSON", where="body") from None
    if name is not None:
        raise Refusal(400, "bad_request", f"an object of the body has the name {name[:100]!r} twice", "give each name once", where="body")
    return found
