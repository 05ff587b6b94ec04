"""The code flow with PKCE against an issuer on this machine: what is sent, what is taken back, and what is refused."""

from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest
from msgspec.structs import replace

from perdure.core.errors import BadValue, IssuerUnavailable, Unauthenticated
from perdure.service.issuer_keys import OidcEndpoints
from perdure.service.oidc import GroupGrant, OidcSettings, OidcVerifier, caller_in, granted_roles
from perdure.service.oidc_sign_in import (
    ATTEMPT_S,
    SignInAttempt,
    attempt_text,
    authorization_url,
    begin_sign_in,
    callback_code,
    exchange_code,
    parse_attempt,
)
from perdure.testing.conformance import Clock
from tests.service.loopback_issuer import CLIENT_ID, CLIENT_SECRET, NOW_S, REDIRECT_URI, LoopbackIssuer, loopback_issuer

pytestmark = pytest.mark.slow


@pytest.fixture
def issuer() -> Iterator[LoopbackIssuer]:
    with loopback_issuer() as issuer:
        yield issuer


@pytest.fixture
async def client() -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient() as client:
        yield client


@pytest.fixture
def verifier(issuer: LoopbackIssuer, client: httpx2.AsyncClient) -> OidcVerifier:
    grants = (GroupGrant("ops", ("operator",)), GroupGrant("ops", ("viewer",), "acme"))
    settings = OidcSettings(issuer=issuer.url, audiences=(CLIENT_ID,), client_id=CLIENT_ID, grants=grants)
    return OidcVerifier(settings, client, Clock(NOW_S), Clock(NOW_S))


async def signed_in(client: httpx2.AsyncClient, verifier: OidcVerifier, attempt: SignInAttempt) -> str:
    """What the browser does: it goes to the issuer, and comes back with a code."""
    sent = await client.get(authorization_url(verifier.settings, await verifier.issuer.endpoints(), attempt))
    assert sent.status_code == 302
    return callback_code(verifier.settings, attempt, dict(parse_qsl(urlsplit(sent.headers["location"]).query)), NOW_S)


@pytest.mark.parametrize("secret", [CLIENT_SECRET, ""])
async def test_a_person_signs_in(client: httpx2.AsyncClient, verifier: OidcVerifier, secret: str) -> None:
    attempt = parse_attempt(attempt_text(begin_sign_in(REDIRECT_URI, NOW_S, "/executions?status=failed")))
    code = await signed_in(client, verifier, attempt)
    token = await exchange_code(client, verifier.settings, await verifier.issuer.endpoints(), attempt, code, client_secret=secret)
    identity = await verifier.identity(token, attempt.nonce)
    assert caller_in(verifier.settings, identity).subject == "oidc:ada@example.com" and attempt.return_to == "/executions?status=failed"
    assert granted_roles(verifier.settings, identity.groups) == {"default": {"operator"}, "acme": {"viewer"}}


async def test_a_code_is_taken_once_and_from_the_browser_that_asked_for_it(client: httpx2.AsyncClient, verifier: OidcVerifier) -> None:
    attempt, endpoints = begin_sign_in(REDIRECT_URI, NOW_S), await verifier.issuer.endpoints()
    stolen = await signed_in(client, verifier, attempt)
    with pytest.raises(Unauthenticated, match=r"invalid_grant: the code is not valid\. Begin to sign in again"):
        await exchange_code(client, verifier.settings, endpoints, begin_sign_in(REDIRECT_URI, NOW_S), stolen)
    code = await signed_in(client, verifier, attempt)
    await exchange_code(client, verifier.settings, endpoints, attempt, code)
    with pytest.raises(Unauthenticated, match="invalid_grant"):
        await exchange_code(client, verifier.settings, endpoints, attempt, code)


async def test_a_client_with_a_wrong_secret_is_refused(client: httpx2.AsyncClient, verifier: OidcVerifier) -> None:
    attempt = begin_sign_in(REDIRECT_URI, NOW_S)
    code = await signed_in(client, verifier, attempt)
    with pytest.raises(Unauthenticated, match="invalid_client"):
        await exchange_code(client, verifier.settings, await verifier.issuer.endpoints(), attempt, code, client_secret="wrong")


async def test_an_id_token_of_another_sign_in_is_refused(issuer: LoopbackIssuer, verifier: OidcVerifier) -> None:
    for nonce in ("other", None):
        with pytest.raises(Unauthenticated, match="belongs to another sign-in"):
            await verifier.identity(issuer.token(nonce=nonce), "mine")


SETTINGS = OidcSettings(issuer="https://id.example.com", audiences=(CLIENT_ID,), client_id=CLIENT_ID, grants=(GroupGrant("ops", ("viewer",)),))
ENDPOINTS = OidcEndpoints(SETTINGS.issuer, "https://id.example.com/jwks", "https://id.example.com/authorize?tenant=1", "https://id.example.com/token")


def test_each_attempt_has_secrets_of_its_own_and_sends_only_the_hash_of_the_verifier() -> None:
    one, other = begin_sign_in(REDIRECT_URI, 0.0), begin_sign_in(REDIRECT_URI, 0.0)
    assert len({one.state, one.nonce, one.verifier, other.state, other.nonce, other.verifier}) == 6
    url = authorization_url(SETTINGS, ENDPOINTS, one)
    asked = dict(parse_qsl(urlsplit(url).query))
    assert one.verifier not in url and asked["code_challenge_method"] == "S256" and len(asked["code_challenge"]) == 43
    assert (asked["tenant"], asked["state"], asked["nonce"], asked["redirect_uri"]) == ("1", one.state, one.nonce, REDIRECT_URI)


@pytest.mark.parametrize(
    ("query", "later_s", "why"),
    [
        ({"state": "other"}, 0, "another page or browser"),
        ({"state": "é"}, 0, "another page or browser"),
        ({"state": None}, 0, "another page or browser"),
        ({"iss": "https://evil.example.com"}, 0, "another issuer"),
        ({}, ATTEMPT_S, "took longer than 10 minutes"),
        ({"code": None}, 0, "no code"),
        ({"code": ""}, 0, "no code"),
        ({"error": "access_denied", "error_description": "no\x1b[31m"}, 0, r"access_denied: no\?\[31m"),
    ],
)
def test_what_does_not_come_from_this_sign_in_is_refused(query: dict[str, Any], later_s: float, why: str) -> None:
    attempt = begin_sign_in(REDIRECT_URI, 0.0)
    given = {"state": attempt.state, "code": "c", **query}
    with pytest.raises(Unauthenticated, match=why):
        callback_code(SETTINGS, attempt, {name: value for name, value in given.items() if value is not None}, later_s)
    assert callback_code(SETTINGS, attempt, {"state": attempt.state, "code": "c", "iss": SETTINGS.issuer}, ATTEMPT_S - 1) == "c"


@pytest.mark.parametrize("path", ["https://evil.example.com/", "//evil.example.com", "/\\evil.example.com", "", "executions", "/a\r\nSet-Cookie: x"])
def test_a_sign_in_returns_to_this_service_only(path: str) -> None:
    with pytest.raises(BadValue, match="return_to"):
        begin_sign_in(REDIRECT_URI, 0.0, path)


@pytest.mark.parametrize("text", ["", "x", "e30", "*", "é"])
def test_a_browser_that_has_not_begun_is_refused(text: str) -> None:
    with pytest.raises(Unauthenticated, match="has not begun to sign in"):
        parse_attempt(text)


async def test_what_can_not_be_asked_for_is_said(client: httpx2.AsyncClient) -> None:
    attempt = begin_sign_in(REDIRECT_URI, 0.0)
    with pytest.raises(BadValue, match="client_id"):
        authorization_url(replace(SETTINGS, client_id=""), ENDPOINTS, attempt)
    with pytest.raises(BadValue, match="client_id"):
        authorization_url(SETTINGS, replace(ENDPOINTS, authorization=""), attempt)
    with pytest.raises(IssuerUnavailable, match="no token endpoint"):
        await exchange_code(client, SETTINGS, replace(ENDPOINTS, token="http://id.example.com/token"), attempt, "c")


async def test_an_issuer_that_fails_is_said_to_fail(client: httpx2.AsyncClient, issuer: LoopbackIssuer, verifier: OidcVerifier) -> None:
    attempt = begin_sign_in(REDIRECT_URI, NOW_S)
    code = await signed_in(client, verifier, attempt)
    issuer.status = 500
    with pytest.raises(IssuerUnavailable, match="HTTP 500"):
        await exchange_code(client, verifier.settings, await verifier.issuer.endpoints(), attempt, code)
