"""Tokens of an OIDC issuer: what is accepted, and all that is not, against an issuer on this machine whose keys are rotated and which fails."""

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from perdure.core.errors import BadValue, Forbidden, IssuerUnavailable, Unauthenticated
from perdure.service.callers import Caller
from perdure.service.issuer_keys import ASKED_EVERY_S, BACK_OFF_MAX_S, FRESH_S, STALE_S, fetched_document
from perdure.service.oidc import LEEWAY_S, GroupGrant, OidcSettings, OidcVerifier
from perdure.testing.conformance import Clock
from tests.service.loopback_issuer import CLIENT_ID, NOW_S, LoopbackIssuer, loopback_issuer

pytestmark = pytest.mark.slow

GRANTS = (GroupGrant("ops", ("operator", "viewer")), GroupGrant("ops", ("viewer",), "acme"), GroupGrant("admins", ("admin",)))


@pytest.fixture
def issuer() -> Iterator[LoopbackIssuer]:
    with loopback_issuer() as issuer:
        yield issuer


@pytest.fixture
def clock() -> Clock:
    return Clock(NOW_S)


@pytest.fixture
async def client() -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient() as client:
        yield client


@pytest.fixture
def verifier(issuer: LoopbackIssuer, client: httpx2.AsyncClient, clock: Clock) -> OidcVerifier:
    return make(issuer, client, clock)


def make(issuer: LoopbackIssuer, client: httpx2.AsyncClient, clock: Clock, **changed: Any) -> OidcVerifier:
    return OidcVerifier(OidcSettings(**{"issuer": issuer.url, "audiences": (CLIENT_ID, "perdure-api"), "grants": GRANTS, **changed}), client, clock, clock)


async def refusal(verifier: OidcVerifier, token: str) -> str:
    with pytest.raises(Unauthenticated) as said:
        await verifier.caller(token)
    assert len(token) < 20 or token not in str(said.value)
    return str(said.value)


@pytest.mark.parametrize("kid", ["rsa", "ec", "ed"])
async def test_a_token_is_the_caller_that_its_groups_make(issuer: LoopbackIssuer, verifier: OidcVerifier, kid: str) -> None:
    caller = await verifier.caller(issuer.token(kid))
    expected = Caller("default", "oidc:ada@example.com", frozenset(("operator", "viewer")), ("ops",), expires_at_s=NOW_S + 300 + LEEWAY_S)
    assert caller == expected


async def test_an_access_token_for_another_audience_of_the_service_is_accepted(issuer: LoopbackIssuer, verifier: OidcVerifier) -> None:
    assert (await verifier.caller(issuer.token(aud=["other", "perdure-api"]))).subject == "oidc:ada@example.com"


async def test_each_tenant_has_its_own_roles_and_others_are_forbidden(issuer: LoopbackIssuer, verifier: OidcVerifier) -> None:
    assert (await verifier.caller(issuer.token(), "acme")).roles == {"viewer"}
    with pytest.raises(Forbidden, match="may not call anything in the tenant other: it needs the role viewer"):
        await verifier.caller(issuer.token(), "other")
    with pytest.raises(Forbidden, match="may not call anything here"):
        await verifier.caller(issuer.token(groups=["guests"]))
    assert (await verifier.caller(issuer.token(groups=["admins", "ops"]))).may("author")


async def test_everybody_may_be_given_a_role(issuer: LoopbackIssuer, client: httpx2.AsyncClient, clock: Clock) -> None:
    verifier = make(issuer, client, clock, grants=(GroupGrant("*", ("viewer",)), *GRANTS))
    assert (await verifier.caller(issuer.token(groups=None))).roles == {"viewer"}
    assert (await verifier.caller(issuer.token())).roles == {"viewer", "operator"}


@pytest.mark.parametrize(
    ("claims", "subject"),
    [
        ({}, "oidc:ada@example.com"),
        ({"email_verified": False}, "oidc:u1"),
        ({"email_verified": None}, "oidc:u1"),
        ({"email_verified": "true"}, "oidc:u1"),
        ({"email": None}, "oidc:u1"),
        ({"email": ["ada@example.com"]}, "oidc:u1"),
    ],
)
async def test_an_address_that_is_not_verified_names_nobody(issuer: LoopbackIssuer, verifier: OidcVerifier, claims: dict[str, Any], subject: str) -> None:
    assert (await verifier.caller(issuer.token(**claims))).subject == subject


async def test_claims_may_be_inside_of_others(issuer: LoopbackIssuer, client: httpx2.AsyncClient, clock: Clock) -> None:
    verifier = make(issuer, client, clock, groups_claim="realm_access.roles", subject_claim="preferred_username")
    token = issuer.token(groups=None, realm_access={"roles": ["ops", 7]}, preferred_username="ada")
    assert ((await verifier.caller(token)).subject, (await verifier.caller(token)).groups) == ("oidc:ada", ("ops",))
    assert await refusal_of_forbidden(verifier, issuer.token(groups=None, realm_access="ops")) == "oidc:u1"


async def refusal_of_forbidden(verifier: OidcVerifier, token: str) -> str:
    with pytest.raises(Forbidden) as said:
        await verifier.caller(token)
    return said.value.subject


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"aud": "another"}, "is for another service"),
        ({"aud": None}, "MissingRequiredClaimError"),
        ({"iss": "https://evil.example.com"}, "is of another issuer"),
        ({"iss": None}, "MissingRequiredClaimError"),
        ({"exp": NOW_S - LEEWAY_S}, "has expired"),
        ({"exp": None}, "MissingRequiredClaimError"),
        ({"exp": "tomorrow"}, "has no time as `exp`"),
        ({"exp": True}, "has no time as `exp`"),
        ({"nbf": NOW_S + LEEWAY_S + 1}, "is not valid yet"),
        ({"iat": NOW_S + LEEWAY_S + 1}, "is not valid yet"),
        ({"sub": None}, "MissingRequiredClaimError"),
        ({"sub": "a\nb", "email": None}, "names nobody"),
    ],
)
async def test_a_token_with_other_claims_is_refused(issuer: LoopbackIssuer, verifier: OidcVerifier, claims: dict[str, Any], why: str) -> None:
    assert why in await refusal(verifier, issuer.token(**claims))


async def test_clocks_may_be_a_minute_apart(issuer: LoopbackIssuer, verifier: OidcVerifier) -> None:
    apart: list[dict[str, Any]] = [{"exp": NOW_S - LEEWAY_S + 1}, {"nbf": NOW_S + LEEWAY_S}, {"iat": NOW_S + LEEWAY_S}]
    for claims in apart:
        assert (await verifier.caller(issuer.token(**claims))).tenant == "default"


async def test_a_token_that_nobody_signed_is_refused(issuer: LoopbackIssuer, verifier: OidcVerifier) -> None:
    for name in ("none", "None", "NONE"):
        header = base64.urlsafe_b64encode(json.dumps({"alg": name, "typ": "JWT", "kid": "rsa"}).encode()).decode().rstrip("=")
        body, signature = issuer.token().split(".")[1:]
        for end in ("", signature):
            assert f"is signed by {name!r}" in await refusal(verifier, f"{header}.{body}.{end}")
    assert issuer.requests == []


async def test_a_token_that_was_made_with_the_public_key_as_secret_is_refused(issuer: LoopbackIssuer, verifier: OidcVerifier) -> None:
    def part(raw: bytes) -> str:
        return base64.urlsafe_b64encode(raw).decode().rstrip("=")

    for secret in (issuer.public_pem("rsa"), json.dumps(issuer._jwk("rsa")).encode()):
        for algorithm in ("HS256", "RS256"):
            signed = f"{part(json.dumps({'alg': algorithm, 'kid': 'rsa'}).encode())}.{part(json.dumps(issuer.claims()).encode())}"
            token = f"{signed}.{part(hmac.digest(secret, signed.encode(), hashlib.sha256))}"
            assert ("is signed by 'HS256'" if algorithm == "HS256" else "can't be verified") in await refusal(verifier, token)


async def test_a_symmetric_key_of_the_issuer_is_passed_over(issuer: LoopbackIssuer, verifier: OidcVerifier) -> None:
    secret = "a shared secret that is long enough for HMAC"
    issuer.more_keys = [{"kty": "oct", "kid": "shared", "k": base64.urlsafe_b64encode(secret.encode()).decode()}, {"kty": "new", "kid": "x"}, {}]
    assert "is signed by 'HS256'" in await refusal(verifier, jwt.encode(issuer.claims(), secret, "HS256", {"kid": "shared"}))
    assert (await verifier.caller(issuer.token())).tenant == "default"


async def test_a_key_is_used_with_its_own_algorithm_only(issuer: LoopbackIssuer, verifier: OidcVerifier) -> None:
    assert "is signed by no key" in await refusal(verifier, jwt.encode(issuer.claims(), issuer.keys["ec"][1], "ES256", {"kid": "rsa"}))
    assert "is signed by 'RS512'" in await refusal(verifier, jwt.encode(issuer.claims(), issuer.keys["rsa"][1], "RS512", {"kid": "rsa"}))


async def test_a_key_for_encryption_and_one_that_is_too_small_sign_nothing(issuer: LoopbackIssuer, verifier: OidcVerifier) -> None:
    small = rsa.generate_private_key(65537, 1024)
    issuer.keys["small"] = ("RS256", small)
    issuer.more_keys = [issuer._jwk("small"), {**issuer._jwk("rsa-next"), "use": "enc"}]
    with pytest.warns(jwt.InsecureKeyLengthWarning):
        token = jwt.encode(issuer.claims(), small, "RS256", {"kid": "small"})
    assert "can't be verified" in await refusal(verifier, token)
    assert "is signed by no key" in await refusal(verifier, issuer.token("rsa-next"))


async def test_a_changed_token_and_one_of_another_key_are_refused(issuer: LoopbackIssuer, verifier: OidcVerifier) -> None:
    header, _, signature = issuer.token().split(".")
    body = issuer.token(groups=["admins"]).split(".")[1]
    assert "can't be verified (InvalidSignatureError)" in await refusal(verifier, f"{header}.{body}.{signature}")
    assert "InvalidSignatureError" in await refusal(verifier, jwt.encode(issuer.claims(), issuer.keys["rsa-next"][1], "RS256", {"kid": "rsa"}))


@pytest.mark.parametrize("token", ["", "a.b", "a.b.c", "é.é.é", "prd_AbC123xy", "." * 100, "e30.e30.", "bnVsbA.e30.e30", "W10.W10.W10"])
async def test_what_is_no_token_is_refused(issuer: LoopbackIssuer, verifier: OidcVerifier, token: str) -> None:
    said = await refusal(verifier, token)
    assert "is not a JSON Web Token" in said or "is signed by 'None'" in said
    assert issuer.requests == []


async def test_a_token_with_a_deep_header_is_refused(issuer: LoopbackIssuer, verifier: OidcVerifier, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = base64.urlsafe_b64encode(b"[" * 12_000).decode()
    assert "is not a JSON Web Token" in await refusal(verifier, f"{deep}.e30.e30")

    def read(token: str) -> None:  # as PyJWT before 2.14 does
        raise RecursionError

    monkeypatch.setattr(jwt, "get_unverified_header", read)
    assert "is not a JSON Web Token" in await refusal(verifier, f"{deep}.e30.e30")


async def test_a_token_that_is_too_long_is_not_even_read(issuer: LoopbackIssuer, verifier: OidcVerifier) -> None:
    assert "more than 16,384 characters" in await refusal(verifier, issuer.token(groups=["g" * 20_000]))
    assert issuer.requests == []


async def test_keys_are_fetched_once_for_many_tokens(issuer: LoopbackIssuer, verifier: OidcVerifier) -> None:
    await asyncio.gather(*(verifier.caller(issuer.token(kid)) for kid in ("rsa", "ec", "ed") * 5))
    assert issuer.requests == ["/.well-known/openid-configuration", "/jwks"]


async def test_a_key_that_is_unknown_and_then_published_is_found_after_a_while(issuer: LoopbackIssuer, verifier: OidcVerifier, clock: Clock) -> None:
    assert (await verifier.caller(issuer.token())).tenant == "default"
    for _ in range(5):
        assert "is signed by no key" in await refusal(verifier, issuer.token("rsa-next"))
    assert issuer.requests.count("/jwks") == 1  # tokens can't make it ask more often
    issuer.published.append("rsa-next")
    clock.advance(ASKED_EVERY_S)
    assert (await verifier.caller(issuer.token("rsa-next"))).tenant == "default"
    assert issuer.requests.count("/jwks") == 2


async def test_a_key_that_was_withdrawn_is_refused_soon(issuer: LoopbackIssuer, verifier: OidcVerifier, clock: Clock) -> None:
    await verifier.caller(issuer.token(exp=NOW_S + 10_000))
    issuer.published = ["rsa-next"]
    clock.advance(FRESH_S)
    assert (await verifier.caller(issuer.token(exp=NOW_S + 10_000))).tenant == "default"  # the keys are fetched meanwhile
    await verifier.caller(issuer.token("rsa-next", exp=NOW_S + 10_000))
    assert "is signed by no key" in await refusal(verifier, issuer.token(exp=NOW_S + 10_000))


async def test_a_token_without_the_name_of_its_key_is_of_the_only_one(issuer: LoopbackIssuer, verifier: OidcVerifier, clock: Clock) -> None:
    nameless = jwt.encode(issuer.claims(), issuer.keys["rsa"][1], "RS256")
    assert (await verifier.caller(nameless)).tenant == "default"
    issuer.published.append("rsa-next")
    clock.advance(ASKED_EVERY_S)
    await verifier.caller(issuer.token("rsa-next"))
    assert "is signed by no key" in await refusal(verifier, nameless)


async def test_while_the_issuer_is_away_known_keys_serve_for_a_day(issuer: LoopbackIssuer, verifier: OidcVerifier, clock: Clock) -> None:
    late = NOW_S + 10 * STALE_S
    await verifier.caller(issuer.token(exp=late))
    issuer.status = 503
    clock.advance(STALE_S - 1)
    assert (await verifier.caller(issuer.token(exp=late))).tenant == "default"
    clock.advance(BACK_OFF_MAX_S)
    with pytest.raises(IssuerUnavailable, match="HTTP 503"):
        await verifier.caller(issuer.token(exp=late))
    issuer.status = 200
    clock.advance(BACK_OFF_MAX_S)
    assert (await verifier.caller(issuer.token(exp=late))).tenant == "default"


async def test_an_issuer_that_fails_is_asked_less_and_less_often(issuer: LoopbackIssuer, verifier: OidcVerifier, clock: Clock) -> None:
    issuer.status = 500
    for _ in range(600):
        with pytest.raises(IssuerUnavailable, match="HTTP 500"):
            await verifier.caller(issuer.token())
        clock.advance(1)
    assert 10 <= len(issuer.requests) <= 16  # after 2, 4, 8, 16, 32 s, and then each minute


async def test_an_issuer_that_cannot_be_reached_is_said_to_be_so(client: httpx2.AsyncClient, clock: Clock) -> None:
    with loopback_issuer() as gone:
        token = gone.token()
    with pytest.raises(IssuerUnavailable, match="Repeat the request later"):
        await make(gone, client, clock).caller(token)


async def test_a_document_of_another_issuer_is_refused(issuer: LoopbackIssuer, verifier: OidcVerifier) -> None:
    issuer.issuer_name = "https://id.example.com"
    with pytest.raises(IssuerUnavailable, match=r"calls itself https://id\.example\.com"):
        await verifier.caller(issuer.token())


@pytest.mark.parametrize("url", ["http://id.example.com/jwks", "https://id.example.com:port/jwks", "https://[/", "", "file:///etc/passwd"])
async def test_keys_are_fetched_over_tls_only_and_from_a_url(client: httpx2.AsyncClient, url: str) -> None:
    with pytest.raises(IssuerUnavailable):
        await fetched_document(client, url, dict)


async def test_an_issuer_without_a_key_that_fits_is_said_to_be_so(issuer: LoopbackIssuer, verifier: OidcVerifier) -> None:
    issuer.published, issuer.more_keys = [], [{"kty": "oct", "k": "c2VjcmV0", "kid": "rsa"}]
    with pytest.raises(IssuerUnavailable, match="none of its keys is for RS256, ES256, EdDSA"):
        await verifier.caller(issuer.token())


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"issuer": "http://id.example.com"}, "https URL"),
        ({"issuer": "id.example.com"}, "https URL"),
        ({"issuer": "file:///etc/passwd"}, "https URL"),
        ({"audiences": ()}, "tokens for others would do"),
        ({"audiences": ("",)}, "tokens for others would do"),
        ({"client_id": "another"}, "audience of ID tokens"),
        ({"grants": ()}, "at least one group"),
    ],
)
def test_settings_that_would_let_others_in_are_refused(changed: dict[str, Any], why: str) -> None:
    with pytest.raises(BadValue, match=why):
        OidcSettings(**{"issuer": "https://id.example.com", "audiences": (CLIENT_ID,), "grants": GRANTS, **changed})


def test_a_grant_of_no_role_is_refused() -> None:
    with pytest.raises(BadValue, match="viewer, operator"):
        GroupGrant("ops", ("root",))  # type: ignore[arg-type]  # wrong on purpose
