"""Claims about what is read of a webhook: its payload, what identifies it, and what is shown of it."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from perdure.service.triggers.trigger_records import Verification, WebhookConfig
from perdure.service.triggers.webhook_payloads import (
    FIELDS_MAX,
    MASKED,
    RawWebhook,
    UnreadablePayload,
    body_text,
    challenge_of,
    event_of,
    identity_of,
    read_payload,
    shown_headers,
)

DATA = Path(__file__).parents[4] / "shared/data/webhooks"
JSON = "application/json"
FORM = "application/x-www-form-urlencoded"


def raw(body: bytes = b"", kind: str = JSON, query: str = "", method: str = "POST", **headers: str) -> RawWebhook:
    """A request."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return RawWebhook(method, query, given | ({"content-type": kind} if kind else {}), body)


def config(scheme: Any = "none", **more: Any) -> WebhookConfig:
    """A webhook of a scheme."""
    return WebhookConfig(path="in", verify=Verification(scheme=scheme, secrets=("A",)), **more)


PAYLOADS: dict[str, tuple[RawWebhook, Any]] = {
    "JSON": (raw(b'{"a": {"b": [1]}}'), {"a": {"b": [1]}}),
    "JSON of a kind": (raw(b'{"a": 1}', "application/cloudevents+json; charset=utf-8"), {"a": 1}),
    "a list": (raw(b"[1, 2]"), {"body": [1, 2]}),
    "a number": (raw(b"9007199254740993"), {"body": 9007199254740993}),
    "null": (raw(b"null"), {"body": None}),
    "nothing": (raw(), {}),
    "a query": (raw(b'{"a": 1}', query="x=1&y=&x=%C3%A9"), {"a": 1, "query": {"x": ["1", "é"], "y": ""}}),
    "a query in place of a field": (raw(b'{"query": 1}', query="x=1"), {"query": {"x": "1"}}),
    "a field query": (raw(b'{"query": 1}'), {"query": 1}),
    "a list with a query": (raw(b"[]", query="x"), {"body": [], "query": {"x": ""}}),
    "a query alone": (raw(b"", "", query="x=1"), {"query": {"x": "1"}}),
    "a form": (raw(b"a=1&b=2&b=3&c=%7B%7D", FORM), {"a": "1", "b": ["2", "3"], "c": "{}"}),
    "a form with a payload": (raw(b"payload=%7B%22a%22%3A+1%7D", FORM), {"a": 1}),
    "a form with a payload that is no JSON": (raw(b"payload=text", FORM), {"payload": "text"}),
    "a form with a payload and more": (raw(b"payload=%7B%7D&x=1", FORM), {"payload": "{}", "x": "1"}),
    "text": (raw("naïve".encode(), "text/plain; charset=utf-8"), {"body": "naïve"}),
    "XML": (raw(b"<a/>", "application/soap+xml"), {"body": "<a/>"}),
    "text that is none": (raw(b"\xff", "text/plain"), {"body": "/w==", "encoding": "base64"}),
    "an image": (raw(b"\x89PNG", "image/png"), {"body": base64.b64encode(b"\x89PNG").decode(), "encoding": "base64"}),
    "JSON without a type": (raw(b'{"a": 1}', ""), {"a": 1}),
    "text without a type": (raw(b"a: 1", ""), {"body": "a: 1"}),
    "bytes without a type": (raw(b"\xfe", ""), {"body": "/g==", "encoding": "base64"}),
}


@pytest.mark.parametrize("name", PAYLOADS)
def test_a_payload_is_read_by_its_content_type(name: str) -> None:
    request, expected = PAYLOADS[name]
    assert read_payload(request) == expected


UNREADABLE = {
    "no JSON": raw(b"{"),
    "JSON in another encoding": raw('{"a": "é"}'.encode("latin-1")),
    "deep JSON": raw(b"[" * 200 + b"]" * 200),
    "very deep JSON": raw(b"[" * 100_000),
    "deep objects": raw(b'{"a":' * 101 + b"1" + b"}" * 101),
    "a form of bytes": raw(b"a=\xff", FORM),
    "a form that is not UTF-8": raw(b"a=%ff", FORM),
    "a form with many fields": raw(b"&".join([b"a=1"] * (FIELDS_MAX + 1)), FORM),
    "a query that is not UTF-8": raw(b"{}", query="a=%ff"),
    "a query with many fields": raw(b"{}", query="&".join(["a=1"] * (FIELDS_MAX + 1))),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_is_not_what_it_says_is_unreadable(name: str) -> None:
    with pytest.raises(UnreadablePayload) as refused:
        _ = read_payload(UNREADABLE[name])
    assert refused.value.where == ("query" if "query" in name else "body")


IDENTITIES: dict[str, tuple[WebhookConfig, RawWebhook, str]] = {
    "GitHub": (config("github"), raw(b"{}", x_github_delivery="72d3162e"), "72d3162e"),
    "Stripe": (config("stripe"), raw(b'{"id": "evt_1"}'), "evt_1"),
    "Slack": (config("slack"), raw(b'{"event_id": "Ev1"}'), "Ev1"),
    "Standard Webhooks": (config("standard_webhooks"), raw(b"{}", webhook_id="msg_1"), "msg_1"),
    "a delivery id": (config("generic"), raw(b"{}", x_delivery_id="d1"), "d1"),
    "an idempotency key": (config("none"), raw(b"{}", idempotency_key="k1"), "k1"),
    "a header of the trigger": (config("github", delivery_header="X-Own"), raw(b"{}", x_own="o1", x_github_delivery="g"), "o1"),
}


@pytest.mark.parametrize("name", IDENTITIES)
def test_a_delivery_has_the_id_that_its_sender_gives_it(name: str) -> None:
    about, request, expected = IDENTITIES[name]
    assert identity_of(about, request, read_payload(request)) == (expected, False)


@pytest.mark.parametrize("given", ["é", "a b", "x" * 201, "a\tb"])
def test_an_id_that_does_not_fit_is_hashed(given: str) -> None:
    request = raw(b"{}", x_delivery_id=given)
    found = identity_of(config(), request, {})
    assert found.id.startswith("sha256:") and not found.is_hash
    assert found == identity_of(config(), raw(b"other", x_delivery_id=given), {})


def test_without_an_id_the_request_itself_identifies_the_delivery() -> None:
    def hashed(request: RawWebhook, about: WebhookConfig = config("stripe")) -> str:  # noqa: B008  # a frozen value
        found = identity_of(about, request, read_payload(request))
        assert found.is_hash
        return found.id

    first = hashed(raw(b'{"a": 1}', query="x=1&y=2"))
    assert first == hashed(raw(b'{"a": 1}', query="y=2&x=1", user_agent="other"))
    others = [raw(b'{"a":1}', query="x=1&y=2"), raw(b'{"a": 1}', query="x=1"), raw(b'{"a": 1}', query="x=1&y=2", method="PUT")]
    assert len({first, *map(hashed, others)}) == 4
    for empty in (b'{"id": ""}', b'{"id": 7}', b'{"id": null}', b"[]"):
        assert len(hashed(raw(empty))) == 32


def test_the_event_is_what_its_sender_calls_it() -> None:
    assert event_of(raw(x_github_event="push"), {"type": "other"}) == "push"
    assert event_of(raw(), {"type": "event_callback", "event": {"type": "app_mention"}}) == "app_mention"
    assert event_of(raw(), {"type": "invoice.paid"}) == "invoice.paid"
    unnamed: list[Any] = [{}, [], None, {"type": 1}, {"event": "x"}]
    assert [event_of(raw(), one) for one in unnamed] == [""] * 5


def test_a_challenge_is_one_of_slack_alone() -> None:
    assert challenge_of({"type": "url_verification", "challenge": "c"}) == "c"
    others: list[Any] = [{}, [], {"type": "url_verification"}, {"type": "url_verification", "challenge": 1}, {"challenge": "c"}]
    assert [challenge_of(one) for one in others] == [None] * 5


@pytest.mark.parametrize(
    "name",
    ["authorization", "cookie", "x-hub-signature-256", "stripe-signature", "x-gitlab-token", "x-api-key", "proxy-authorization", "x-client-secret", "x-own"],
)
def test_a_header_that_may_hold_a_secret_is_masked(name: str) -> None:
    about = WebhookConfig(path="in", verify=Verification(scheme="generic", secrets=("A",), header="X-Own"))
    assert shown_headers(about, {name: "s3cret", "x-github-event": "push"}) == {name: MASKED, "x-github-event": "push"}


def test_headers_are_shown_within_bounds() -> None:
    shown = shown_headers(config(), {f"x-{number}": "y" * 10_000 for number in range(1_000)})
    assert len(json.dumps(shown)) < 64 * 600


def test_a_body_is_shown_as_text_if_it_is_some() -> None:
    assert (body_text("é".encode()), body_text(b"\xff")) == ("é", None)


@pytest.mark.real
@pytest.mark.skipif(not DATA.exists(), reason="the payloads are not at hand")
@pytest.mark.parametrize("file", sorted(DATA.glob("*/*.json")), ids=lambda one: f"{one.parent.name}: {one.stem}")
def test_real_payloads_are_read_as_they_are_and_have_an_identity(file: Path) -> None:
    given = json.loads(file.read_bytes())
    request = raw(file.read_bytes(), x_github_delivery="g1")
    assert read_payload(request) == given
    assert read_payload(raw(b"payload=" + _quoted(file.read_bytes()), FORM)) == given
    found = identity_of(config(file.parent.name), request, given)
    expected = {"github": "g1", "stripe": given.get("id"), "slack": given.get("event_id")}[file.parent.name]
    assert found.id == expected if expected else found.is_hash  # the samples of Slack have an empty id


def _quoted(text: bytes) -> bytes:
    from urllib.parse import quote_plus

    return quote_plus(text).encode()
