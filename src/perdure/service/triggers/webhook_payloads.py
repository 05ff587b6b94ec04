"""Reads a webhook: its payload, made of body and query, what identifies the delivery, and what is shown of its headers. Pure.

    application/json, …+json     the value
    a form                       its fields; a form whose only field is `payload`, as Slack and GitHub send it, is the JSON in that field
    text/…, XML                  {"body": TEXT}
    anything else                {"body": BASE64, "encoding": "base64"}
    without a content type       JSON if it is some, else as text or anything else
    without a body               {}

A query is `payload.query`, with a list for a name that is given several times. A value that is no object, such as a list, is {"body": VALUE}.
"""

import base64
import re
from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode

import msgspec

from perdure.service.triggers.trigger_records import VerificationScheme, WebhookConfig

DEPTH_MAX = 100
"""The most objects and arrays in one another in a payload."""

FIELDS_MAX = 1_000
"""The most fields of a form or a query."""

DELIVERY_HEADERS = ("x-delivery-id", "webhook-id", "idempotency-key", "x-gitlab-event-uuid")
"""Where senders that have no scheme of their own give the id of a delivery, unless the trigger names another header."""

HASH_DIGITS = 32
HEADERS_SHOWN_MAX, HEADER_CHARACTERS_MAX = 64, 500
MASKED = "***"

_DELIVERY_ID = re.compile(r"[\x21-\x7e]{1,200}")
_SECRET_HEADER = re.compile(r"authori[sz]ation|cookie|token|secret|signature|password|passwd|api-?key|credential|session|x-amz-security", re.IGNORECASE)
_TEXT_TYPE = re.compile(r"text/.*|application/(?:.*\+)?xml|application/(?:yaml|x-yaml|javascript|graphql)")


class UnreadablePayload(Exception):  # an expected outcome on its way to the answer
    """A body or query that is not what it says it is: `why`, and `where` in the request."""

    def __init__(self, why: str, where: str) -> None:
        super().__init__(why)
        self.why, self.where = why, where


class RawWebhook(NamedTuple):
    """A request as it arrived. The names of `headers` are in lower case."""

    method: str
    query: str
    headers: Mapping[str, str]
    body: bytes

    def header(self, name: str) -> str:
        """A header; empty if there is none."""
        return self.headers.get(name.lower(), "")


# Payload


def read_payload(raw: RawWebhook) -> Any:
    """The payload of a request.

    Raises:
        UnreadablePayload: the body is not of its content type, or is too deep, or the query can't be read.
    """
    found = _read_body(raw)
    payload = found if isinstance(found, dict) else {"body": found}
    return {**payload, "query": _grouped(_pairs(raw.query, "query"))} if raw.query else payload


def _read_body(raw: RawWebhook) -> Any:
    if not raw.body:
        return {}
    kind = raw.header("content-type").partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        return _read_json(raw.body)
    if kind == "application/x-www-form-urlencoded":
        return _read_form(raw.body)
    if not kind:
        try:
            return _read_json(raw.body)
        except UnreadablePayload:
            pass  # then it is a text, or bytes
    if not kind or _TEXT_TYPE.fullmatch(kind):
        try:
            return {"body": raw.body.decode()}
        except UnicodeDecodeError:
            pass  # a text in an encoding that is not known
    return {"body": base64.b64encode(raw.body).decode(), "encoding": "base64"}


def _read_json(body: bytes) -> Any:
    try:
        found = msgspec.json.decode(body)
        if body.count(b"[") + body.count(b"{") > DEPTH_MAX:
            _expect_flat(found, DEPTH_MAX)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise UnreadablePayload(f"the body is not JSON: {error}", "body") from None
    return found


def _expect_flat(value: Any, levels: int) -> None:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if levels == 0 and isinstance(value, dict | list):
        raise UnreadablePayload(f"the body has more than {DEPTH_MAX} objects and arrays in one another", "body")
    for one in inner:
        if isinstance(one, dict | list):
            _expect_flat(one, levels - 1)


def _read_form(body: bytes) -> Any:
    try:
        fields = _grouped(_pairs(body.decode("ascii"), "body"))
    except UnicodeDecodeError:
        raise UnreadablePayload("the body is no form: it has other characters than a form is written in", "body") from None
    if fields.keys() == {"payload"} and isinstance(fields["payload"], str):
        try:
            return _read_json(fields["payload"].encode())
        except UnreadablePayload:
            return fields
    return fields


def _pairs(text: str, where: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=FIELDS_MAX)
    except UnicodeDecodeError:
        raise UnreadablePayload(f"the {where} is not UTF-8", where) from None
    except ValueError:
        raise UnreadablePayload(f"the {where} has more than {FIELDS_MAX:,} fields", where) from None


def _grouped(pairs: list[tuple[str, str]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name not in found:
            found[name] = value
        elif isinstance(found[name], list):
            found[name].append(value)
        else:
            found[name] = [found[name], value]
    return found


# Identity


class DeliveryIdentity(NamedTuple):
    """What identifies a delivery: the `id` that its sender gave it, or, `is_hash`, the hash of method, query and body."""

    id: str
    is_hash: bool = False


def identity_of(config: WebhookConfig, raw: RawWebhook, payload: Any) -> DeliveryIdentity:
    """What identifies a delivery among those of its trigger. A repetition by the sender has the same."""
    if given := _given_id(config, raw, payload):
        return DeliveryIdentity(given if _DELIVERY_ID.fullmatch(given) else f"sha256:{sha256(given.encode()).hexdigest()}")
    query = urlencode(sorted(parse_qsl(raw.query, keep_blank_values=True)))
    return DeliveryIdentity(sha256(b"\n".join((raw.method.encode(), query.encode(), raw.body))).hexdigest()[:HASH_DIGITS], is_hash=True)


def _given_id(config: WebhookConfig, raw: RawWebhook, payload: Any) -> str:
    fields = payload if isinstance(payload, dict) else {}
    scheme: VerificationScheme = "none" if config.verify is None else config.verify.scheme
    if config.delivery_header:
        return raw.header(config.delivery_header)
    match scheme:
        case "github":
            return raw.header("x-github-delivery")
        case "stripe":
            found = fields.get("id")
        case "slack":
            found = fields.get("event_id")
        case "standard_webhooks":
            return raw.header("webhook-id")
        case _:
            return next((value for name in DELIVERY_HEADERS if (value := raw.header(name))), "")
    return found if isinstance(found, str) else ""


def event_of(raw: RawWebhook, payload: Any) -> str:
    """What has happened, as its sender names it: in a header of GitHub or GitLab, or as the `type` of an event. Empty if it is not named."""
    for name in ("x-github-event", "x-gitlab-event", "x-event-type", "ce-type"):
        if value := raw.header(name):
            return value[:200]
    inner = payload.get("event") if isinstance(payload, dict) else None
    for one in (inner, payload):
        if isinstance(one, dict) and isinstance(one.get("type"), str):
            return str(one["type"])[:200]
    return ""


def challenge_of(payload: Any) -> str | None:
    """What Slack wants to have answered when it verifies an address; None if this is something else."""
    if isinstance(payload, dict) and payload.get("type") == "url_verification" and isinstance(payload.get("challenge"), str):
        return str(payload["challenge"])
    return None


# Shown


def shown_headers(config: WebhookConfig, headers: Mapping[str, str]) -> dict[str, str]:
    """The headers as people may see them: those that may hold a secret or a signature are masked, and long ones are cut."""
    own = {config.verify.header.lower()} if config.verify is not None and config.verify.header else set[str]()
    shown = sorted(headers.items())[:HEADERS_SHOWN_MAX]
    return {name: MASKED if name in own or _may_be_secret(name) else value[:HEADER_CHARACTERS_MAX] for name, value in shown}


@lru_cache(1_000)
def _may_be_secret(name: str) -> bool:
    return len(name) > HEADER_CHARACTERS_MAX or _SECRET_HEADER.search(name) is not None


def body_text(body: bytes) -> str | None:
    """A body as text; None if it is none."""
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None
