"""Verifies who has sent a webhook, on the body as it arrived, and signs requests as senders do. Pure: time and secrets are arguments.

    github            X-Hub-Signature-256: sha256=HEX                       of the body
    stripe            Stripe-Signature: t=SECONDS,v1=HEX[,v1=HEX]           of "SECONDS.body"
    slack             X-Slack-Signature: v0=HEX, X-Slack-Request-Timestamp  of "v0:SECONDS:body"
    standard_webhooks webhook-signature: v1,BASE64 [v1,BASE64]              of "webhook-id.webhook-timestamp.body"
    generic           a header with a prefix, in hex or base64              of the body, or of "SECONDS.body" with a header for the time
    bearer            Authorization: Bearer SECRET
    none

All are HMAC-SHA256 but for the last two. Signatures are compared in constant time, with those of all secrets, several of which there are during a rotation. A
time that was signed has to be near that of the store, so that a request which somebody has recorded can't be sent again later.

The library `standardwebhooks` would verify one of the seven; the standard library does all of them in as few lines.
"""

import base64
import binascii
import hmac
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from perdure.core.errors import BadValue
from perdure.core.header_values import whole_number_of
from perdure.service.triggers.trigger_records import Verification

SECONDS_MAX = 10**11
STANDARD_SECRET_PREFIX = "whsec_"
SIGNATURES_MAX = 32
"""How many signatures of one request are compared. Senders give two while they rotate a secret."""

BEARER_HEADER, BEARER_PREFIX = "authorization", "Bearer "


class SignedRequest(NamedTuple):
    """What is verified: the headers, whose names are in lower case, and the body as it arrived."""

    headers: Mapping[str, str]
    body: bytes

    def header(self, name: str) -> str:
        """A header; empty if there is none."""
        return self.headers.get(name.lower(), "")


class SignatureCheck(NamedTuple):
    """What a verification has found: the number of the secret that has signed, or why the request is refused (empty: it is not)."""

    refused: str = ""
    secret: int | None = None


class _Claim(NamedTuple):
    """What a request claims: its signatures, as bytes or in the form of the header, what is signed, and at which time (None: there is none)."""

    signatures: Sequence[bytes]
    signed: bytes
    at_s: int | None = None


class _Refused(Exception):  # an expected outcome, which only this module sees
    """A request without what its scheme needs."""


def verify(how: Verification, secrets: Sequence[str], request: SignedRequest, now_s: float) -> SignatureCheck:
    """Verifies a request by the values of the secrets, at a time of the store. `now_s` is in seconds since 1970.

    Raises:
        BadValue: a secret is not of the form that its scheme needs.
    """
    if how.scheme == "none":
        return SignatureCheck()
    if how.scheme == "bearer":
        return _check_of_token(how, secrets, request)
    try:
        claim = _claim_of(how, request)
    except _Refused as refused:
        return SignatureCheck(str(refused))
    if claim.at_s is not None and abs(now_s - claim.at_s) > how.tolerance_s:
        return SignatureCheck(f"the signed time differs by {abs(now_s - claim.at_s):.0f} s from that of the server, which is more than {how.tolerance_s:g} s")
    found = None
    for number, secret in enumerate(secrets):
        made = _encoded(how, hmac.digest(_key_of(how, secret), claim.signed, "sha256"))
        for given in claim.signatures[:SIGNATURES_MAX]:
            if hmac.compare_digest(made, given) and found is None:
                found = number
    return SignatureCheck("the signature is not that of this body and secret") if found is None else SignatureCheck(secret=found)


def check_secret(how: Verification, secret: str) -> None:
    """Checks that the value of a secret is of the form that its scheme needs.

    Raises:
        BadValue: it is not.
    """
    _ = _key_of(how, secret)


def _check_of_token(how: Verification, secrets: Sequence[str], request: SignedRequest) -> SignatureCheck:
    given = request.header(how.header or BEARER_HEADER)
    prefix = how.prefix or ("" if how.header else BEARER_PREFIX)
    if given[: len(prefix)].lower() != prefix.lower() or not given:
        return SignatureCheck(f"the header {how.header or BEARER_HEADER} has no token")
    token = given[len(prefix) :].strip().encode("latin-1", "replace")
    found = [number for number, secret in enumerate(secrets) if hmac.compare_digest(secret.encode(), token)]
    return SignatureCheck(secret=found[0]) if found else SignatureCheck("the token is not one of this webhook")


def _claim_of(how: Verification, request: SignedRequest) -> _Claim:
    match how.scheme:
        case "github":
            return _Claim([_after_prefix(request, "x-hub-signature-256", "sha256=")], request.body)
        case "stripe":
            fields = [one.strip().partition("=")[::2] for one in _given(request, "stripe-signature").split(",")]
            at_s = _seconds(next((value for name, value in fields if name == "t"), ""), "stripe-signature")
            return _Claim([value.encode("latin-1") for name, value in fields if name == "v1"], b"%d." % at_s + request.body, at_s)
        case "slack":
            at_s = _seconds(_given(request, "x-slack-request-timestamp"), "x-slack-request-timestamp")
            return _Claim([_after_prefix(request, "x-slack-signature", "v0=")], b"v0:%d:" % at_s + request.body, at_s)
        case "standard_webhooks":
            at_s = _seconds(_given(request, "webhook-timestamp"), "webhook-timestamp")
            versions = [one.partition(",")[::2] for one in _given(request, "webhook-signature").split(" ")]
            signed = b"%b.%d." % (_given(request, "webhook-id").encode("latin-1"), at_s) + request.body
            return _Claim([value.encode("latin-1") for version, value in versions if version == "v1"], signed, at_s)
    given = _after_prefix(request, how.header, how.prefix)
    if not how.timestamp_header:
        return _Claim([given], request.body)
    at_s = _seconds(_given(request, how.timestamp_header), how.timestamp_header)
    return _Claim([given], b"%d." % at_s + request.body, at_s)


def _given(request: SignedRequest, name: str) -> str:
    if not (value := request.header(name).strip()):
        raise _Refused(f"the header {name} is missing")
    return value


def _after_prefix(request: SignedRequest, name: str, prefix: str) -> bytes:
    value = _given(request, name)
    if not value.startswith(prefix):
        raise _Refused(f"the header {name} does not begin with {prefix}")
    return value[len(prefix) :].encode("latin-1", "replace")


def _seconds(text: str, name: str) -> int:
    """The time in a header. It is signed as it is written, so one that is written in another way, such as with zeros in front, is not taken."""
    at_s = whole_number_of(text, SECONDS_MAX)
    if at_s is None or str(at_s) != text:
        raise _Refused(f"the header {name} has no time in whole seconds")
    return at_s


def _encoded(how: Verification, digest: bytes) -> bytes:
    is_base64 = how.scheme == "standard_webhooks" or (how.scheme == "generic" and how.encoding == "base64")
    return base64.b64encode(digest) if is_base64 else digest.hex().encode()


def _key_of(how: Verification, secret: str) -> bytes:
    if how.scheme != "standard_webhooks":
        return secret.encode()
    text = secret.removeprefix(STANDARD_SECRET_PREFIX)
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (ValueError, binascii.Error):
        raise BadValue("the secret", "a text", f"base64, with or without {STANDARD_SECRET_PREFIX} in front, as Standard Webhooks has it") from None


# As senders do


class Signing(NamedTuple):
    """What a sender signs: the body, the time in seconds since 1970, and the id of the delivery, which one scheme signs as well."""

    body: bytes
    at_s: int
    id: str


def signed_headers(how: Verification, secret: str, one: Signing) -> dict[str, str]:
    """The headers by which `verify` accepts a request with this body.

    Raises:
        BadValue: the secret is not of the form that its scheme needs.
    """

    def signature(*before: bytes) -> str:
        return _encoded(how, hmac.digest(_key_of(how, secret), b"".join((*before, one.body)), "sha256")).decode()

    at = str(one.at_s)
    match how.scheme:
        case "github":
            return {"X-Hub-Signature-256": f"sha256={signature()}"}
        case "stripe":
            return {"Stripe-Signature": f"t={at},v1={signature(at.encode(), b'.')}"}
        case "slack":
            return {"X-Slack-Request-Timestamp": at, "X-Slack-Signature": f"v0={signature(b'v0:', at.encode(), b':')}"}
        case "standard_webhooks":
            made = signature(one.id.encode(), b".", at.encode(), b".")
            return {"webhook-id": one.id, "webhook-timestamp": at, "webhook-signature": f"v1,{made}"}
        case "generic" if how.timestamp_header:
            return {how.timestamp_header: at, how.header: f"{how.prefix}{signature(at.encode(), b'.')}"}
        case "generic":
            return {how.header: f"{how.prefix}{signature()}"}
        case "bearer":
            return {how.header or "Authorization": f"{how.prefix or ('' if how.header else BEARER_PREFIX)}{secret}"}
    return {}
