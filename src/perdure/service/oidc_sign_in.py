"""Sign-in of a browser by OIDC: the authorization code flow with PKCE, in three steps that keep no state here.

1. `begin_sign_in` draws the secrets of one attempt, which the browser keeps in a cookie of ten minutes, and `authorization_url` says where it is sent.
2. The issuer sends it back with a code, or with an error: `callback_code`.
3. `exchange_code` gives the code and the verifier to the issuer for an ID token, which `OidcVerifier.identity` verifies with the nonce of the attempt.
"""

import base64
import hmac
import secrets
from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING
from urllib.parse import quote_plus, urlencode

import msgspec

from perdure.core.error_text import exception_summary
from perdure.core.errors import BadValue, IssuerUnavailable, Unauthenticated
from perdure.service.issuer_keys import TIMEOUT_S, OidcEndpoints, is_safe_url, read_answer
from perdure.service.oidc import OidcSettings

if TYPE_CHECKING:
    import httpx2

ATTEMPT_S = 600.0
"""How long a person may take at the issuer."""
_AGAIN = "Begin to sign in again"


class SignInAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt to sign in. Only the browser that made it has its secrets; `return_to` is the page that it then goes on to."""

    state: str
    nonce: str
    verifier: str
    redirect_uri: str
    return_to: str
    expires_at_s: float


class _TokenAnswer(msgspec.Struct, frozen=True):
    id_token: str


class _TokenRefusal(msgspec.Struct, frozen=True):
    error: str = "no reason"
    error_description: str = ""


def begin_sign_in(redirect_uri: str, now_s: float, return_to: str = "/") -> SignInAttempt:
    """Draws the secrets of a new attempt. `redirect_uri` is where the issuer sends the browser back to, and `return_to` a path of this service.

    Raises:
        BadValue: `return_to` leads elsewhere.
    """
    if not is_own_path(return_to):
        raise BadValue("return_to", return_to, "a path of this service, such as /executions")
    state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
    return SignInAttempt(state=state, nonce=nonce, verifier=verifier, redirect_uri=redirect_uri, return_to=return_to, expires_at_s=now_s + ATTEMPT_S)


def is_own_path(text: str) -> bool:
    """Whether a text is a path of this service, and does not lead a browser elsewhere."""
    return text.startswith("/") and text[1:2] not in ("/", "\\") and text.isprintable()


def attempt_text(attempt: SignInAttempt) -> str:
    """An attempt as the value of a cookie."""
    return base64.urlsafe_b64encode(msgspec.msgpack.encode(attempt)).decode().rstrip("=")


def parse_attempt(text: str) -> SignInAttempt:
    """Returns the attempt in a cookie.

    Raises:
        Unauthenticated: there is none.
    """
    try:
        return msgspec.msgpack.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=SignInAttempt)
    except (ValueError, msgspec.MsgspecError):
        raise Unauthenticated(f"this browser has not begun to sign in, or refuses cookies. {_AGAIN}") from None


def authorization_url(settings: OidcSettings, endpoints: OidcEndpoints, attempt: SignInAttempt) -> str:
    """The URL of the issuer that the browser is sent to.

    Raises:
        BadValue: there is no `client_id`, or the issuer has no page to sign in at.
    """
    if not settings.client_id or not is_safe_url(endpoints.authorization):
        raise BadValue(
            "client_id", settings.client_id, "set, and the issuer one with an authorization endpoint; programs send their own tokens without sign-in"
        )
    challenge = base64.urlsafe_b64encode(sha256(attempt.verifier.encode()).digest()).decode().rstrip("=")
    asked = {
        "response_type": "code",
        "client_id": settings.client_id,
        "redirect_uri": attempt.redirect_uri,
        "scope": " ".join(settings.scopes),
        "state": attempt.state,
        "nonce": attempt.nonce,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }
    return f"{endpoints.authorization}{'&' if '?' in endpoints.authorization else '?'}{urlencode(asked)}"


def callback_code(settings: OidcSettings, attempt: SignInAttempt, query: Mapping[str, str], now_s: float) -> str:
    """The code with which the issuer has sent the browser back.

    Raises:
        Unauthenticated: it belongs to another attempt or another issuer, came too late, or the issuer refused.
    """
    if not hmac.compare_digest(attempt.state.encode(), query.get("state", "").encode("utf-8", "surrogateescape")):
        raise Unauthenticated(f"the sign-in belongs to another page or browser. {_AGAIN}")
    if query.get("iss", settings.issuer) != settings.issuer:
        raise Unauthenticated(f"the sign-in was answered by another issuer than {settings.issuer}. {_AGAIN}")
    if now_s >= attempt.expires_at_s:
        raise Unauthenticated(f"the sign-in took longer than {ATTEMPT_S / 60:g} minutes. {_AGAIN}")
    if "error" in query or not query.get("code"):
        raise Unauthenticated(f"the issuer refused the sign-in: {_shown(query.get('error', 'no code'), query.get('error_description', ''))}. {_AGAIN}")
    return query["code"]


async def exchange_code(
    client: "httpx2.AsyncClient", settings: OidcSettings, endpoints: OidcEndpoints, attempt: SignInAttempt, code: str, *, client_secret: str = ""
) -> str:
    """The ID token for a code. A client with a secret proves itself by it, one without by PKCE alone.

    Raises:
        Unauthenticated: the issuer does not take the code.
        IssuerUnavailable: it did not answer, or not as the protocol says.
    """
    import httpx2

    if not is_safe_url(endpoints.token):
        raise IssuerUnavailable(settings.issuer, "it has no token endpoint")
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": attempt.redirect_uri, "code_verifier": attempt.verifier}
    headers = {"accept": "application/json"}
    if client_secret:  # each part is encoded for a form first (RFC 6749, 2.3.1)
        pair = f"{quote_plus(settings.client_id)}:{quote_plus(client_secret)}"
        headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    else:
        form["client_id"] = settings.client_id
    try:
        response = await client.post(endpoints.token, data=form, headers=headers, timeout=TIMEOUT_S)
    except httpx2.HTTPError as error:
        raise IssuerUnavailable(endpoints.token, exception_summary(error)) from error
    if response.status_code in (400, 401):
        raise Unauthenticated(f"the issuer refused the sign-in: {_refusal_text(response.content)}. {_AGAIN}")
    return read_answer(response, endpoints.token, _TokenAnswer).id_token


def _refusal_text(body: bytes) -> str:
    try:
        refusal = msgspec.json.decode(body, type=_TokenRefusal)
    except msgspec.MsgspecError:
        return "without a reason"
    return _shown(refusal.error, refusal.error_description)


def _shown(error: str, description: str) -> str:
    """What an issuer, or whoever sent the browser, gives as reason, in short and without control characters."""
    text = f"{error}: {description}" if description else error
    return "".join(one if one.isprintable() else "?" for one in text[:200])
