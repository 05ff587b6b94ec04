"""Claims about the signatures of webhooks: what their senders sign is accepted, and nothing else."""

import json
from pathlib import Path
from typing import Any, get_args

import pytest

from perdure.core.errors import BadValue
from perdure.service.triggers.trigger_records import Verification, VerificationScheme
from perdure.service.triggers.webhook_signatures import SignedRequest, Signing, signed_headers, verify

CASES = Path(__file__).parents[4] / "shared/data/vectors/webhook-signatures/cases.json"
FOUND: dict[str, Any] = json.loads(CASES.read_text()) if CASES.exists() else {"vectors": [], "rfc4231_hmac_sha256": []}
TEXT_KEYS = [one for one in FOUND["rfc4231_hmac_sha256"] if bytes.fromhex(one[0]).isascii()]
NOW_S = 1_700_000_000
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
SCHEMES: list[Verification] = [
    *(Verification(scheme=scheme, secrets=("A",)) for scheme in get_args(VerificationScheme) if scheme not in ("none", "generic")),
    Verification(scheme="generic", secrets=("A",), header="X-Signature"),
    Verification(scheme="generic", secrets=("A",), header="X-Sum", prefix="sha256=", encoding="base64", timestamp_header="X-Time"),
    Verification(scheme="bearer", secrets=("A",), header="X-Gitlab-Token"),
]
TIMED = [one for one in SCHEMES if one.scheme in ("stripe", "slack", "standard_webhooks") or one.timestamp_header]


def signed(how: Verification, body: bytes = b'{"a": 1}', secret: str = SECRET, at_s: int = NOW_S) -> SignedRequest:
    """A request as a sender makes it."""
    return SignedRequest({name.lower(): value for name, value in signed_headers(how, secret, Signing(body, at_s, "msg_1")).items()}, body)


def refusal(how: Verification, request: SignedRequest, *secrets: str, now_s: float = NOW_S) -> str:
    """Why a request is refused; empty if it is not."""
    return verify(how, secrets or (SECRET,), request, now_s).refused


def of(scheme: Any) -> Verification:
    """A scheme with a secret."""
    return Verification(scheme=scheme, secrets=("A",))


@pytest.mark.real
@pytest.mark.skipif(not FOUND["vectors"], reason="the vectors are not at hand")
@pytest.mark.parametrize("case", FOUND["vectors"], ids=lambda one: f"{one['scheme']}: {one['src']}")
def test_published_signatures_are_judged_as_their_senders_say(case: dict[str, Any]) -> None:
    how = of(case["scheme"].replace("-", "_"))
    request = SignedRequest(case["headers"], case["body"].encode())
    assert (verify(how, [case["secret"]], request, case.get("now", 0.0)).refused == "") is case["valid"]


@pytest.mark.real
@pytest.mark.skipif(not FOUND["vectors"], reason="the vectors are not at hand")
@pytest.mark.parametrize("case", TEXT_KEYS, ids=lambda one: one[0])
def test_a_generic_signature_is_the_hmac_of_rfc_4231(case: list[str]) -> None:
    key, data, expected = (bytes.fromhex(one) for one in case)
    request = SignedRequest({"x-signature": expected.hex()}, data)
    assert refusal(Verification(scheme="generic", secrets=("A",), header="X-Signature"), request, key.decode()) == ""


def test_the_example_in_the_documentation_of_github_is_accepted() -> None:
    headers = {"x-hub-signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"}
    assert refusal(of("github"), SignedRequest(headers, b"Hello, World!"), "It's a Secret to Everybody") == ""


def test_the_example_in_the_documentation_of_slack_is_accepted() -> None:
    body = (
        b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA"
        b"&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554"
        b"%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
    )
    headers = {"x-slack-request-timestamp": "1531420618", "x-slack-signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"}
    assert refusal(of("slack"), SignedRequest(headers, body), "8f742231b10e8888abcd99yyyzzz85a5", now_s=1531420618) == ""


@pytest.mark.parametrize("how", SCHEMES, ids=lambda one: f"{one.scheme} {one.header}".strip())
def test_what_is_signed_is_accepted_and_nothing_else(how: Verification) -> None:
    request = signed(how)
    assert refusal(how, request) == ""
    assert refusal(how, request, "another") and refusal(how, request._replace(headers={}))
    for name in request.headers:
        assert refusal(how, request._replace(headers={**request.headers, name: ""})), name
        assert refusal(how, request._replace(headers={**request.headers, name: "é\xff" + request.headers[name]})), name
        assert refusal(how, request._replace(headers={**request.headers, name: request.headers[name] + "0"})), name
    if how.scheme != "bearer":
        assert refusal(how, request._replace(body=request.body + b" "))
        assert refusal(how, request._replace(body=b""))


@pytest.mark.parametrize("how", SCHEMES, ids=lambda one: f"{one.scheme} {one.header}".strip())
def test_of_several_secrets_the_one_that_has_signed_is_told(how: Verification) -> None:
    other = "whsec_" + "c2VjcmV0" * 4
    assert verify(how, [other, SECRET], signed(how), NOW_S).secret == 1
    assert verify(how, [other, SECRET], signed(how, secret=other), NOW_S).secret == 0


@pytest.mark.parametrize("how", TIMED, ids=lambda one: one.scheme)
@pytest.mark.parametrize(("away_s", "accepted"), [(0, True), (300, True), (-300, True), (301, False), (-301, False), (10**9, False)])
def test_a_signed_time_has_to_be_near_that_of_the_server(how: Verification, away_s: int, accepted: bool) -> None:
    assert (refusal(how, signed(how), now_s=NOW_S + away_s) == "") is accepted


@pytest.mark.parametrize("how", TIMED, ids=lambda one: one.scheme)
def test_another_time_than_the_signed_one_is_refused(how: Verification) -> None:
    request, later = signed(how), signed(how, at_s=NOW_S + 60)
    timestamps = {name: value for name, value in later.headers.items() if str(NOW_S + 60) in value}
    if how.scheme == "stripe":
        timestamps = {"stripe-signature": request.headers["stripe-signature"].replace(str(NOW_S), str(NOW_S + 60))}
    assert refusal(how, request._replace(headers={**request.headers, **timestamps}))


@pytest.mark.parametrize("time", ["", "now", "1e9", "-1", "0x10", "²", f"0{NOW_S}", f"+{NOW_S}", f"{NOW_S}.0", f"{NOW_S}" * 30, "NaN"])
def test_a_time_in_another_form_is_refused(time: str) -> None:
    slack, stripe = signed(of("slack")), signed(of("stripe"))
    assert refusal(of("slack"), slack._replace(headers={**slack.headers, "x-slack-request-timestamp": time}))
    of_stripe = stripe.headers["stripe-signature"].replace(str(NOW_S), time)
    assert refusal(of("stripe"), stripe._replace(headers={"stripe-signature": of_stripe}))


def test_one_of_several_signatures_is_enough() -> None:
    stripe, standard = signed(of("stripe")), signed(of("standard_webhooks"))
    several = stripe.headers["stripe-signature"].replace("v1=", f"v1={'0' * 64},v0=abc,v1=")
    assert refusal(of("stripe"), stripe._replace(headers={"stripe-signature": several})) == ""
    others = f"v2,abc v1,AAAA {standard.headers['webhook-signature']}"
    assert refusal(of("standard_webhooks"), standard._replace(headers={**standard.headers, "webhook-signature": others})) == ""


def test_a_signature_of_an_older_version_alone_is_refused() -> None:
    stripe = signed(of("stripe"))
    assert refusal(of("stripe"), stripe._replace(headers={"stripe-signature": stripe.headers["stripe-signature"].replace("v1=", "v0=")}))


def test_many_signatures_in_one_request_cost_no_more_than_a_few() -> None:
    stripe = signed(of("stripe"))
    flood = f"t={NOW_S}," + ",".join(f"v1={number:064}" for number in range(40)) + "," + stripe.headers["stripe-signature"].partition(",")[2]
    assert refusal(of("stripe"), stripe._replace(headers={"stripe-signature": flood}))


def test_a_secret_of_standard_webhooks_that_is_not_base64_is_the_mistake_of_the_operator() -> None:
    with pytest.raises(BadValue, match="base64"):
        verify(of("standard_webhooks"), ["not base64!"], signed(of("standard_webhooks")), NOW_S)


def test_a_token_has_a_prefix_in_upper_or_lower_case() -> None:
    assert refusal(of("bearer"), SignedRequest({"authorization": f"bearer {SECRET}"}, b"")) == ""
    assert refusal(of("bearer"), SignedRequest({"authorization": SECRET}, b""))


def test_without_a_scheme_any_sender_is_accepted() -> None:
    assert verify(Verification(scheme="none"), [], SignedRequest({}, b"x"), 0.0).refused == ""
    assert signed_headers(Verification(scheme="none"), "", Signing(b"x", 0, "1")) == {}
