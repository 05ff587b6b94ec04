"""Who sends a request to a server: the holder of a key, of an OIDC token, or of the cookie of a session.

Keys and tokens are sent as ``Authorization: Bearer …``, never in a URL. A browser sends the cookie of its session by itself, also for pages of others; so a
request that changes something with a cookie needs the CSRF token of the session as well, and has to come from a page of this server.
"""

from perdure.api.http_requests import ApiRequest
from perdure.api.problems import Refusal
from perdure.core.errors import Forbidden, Unauthenticated
from perdure.core.header_values import authority_of
from perdure.service.access_keys import KeyVerifier
from perdure.service.callers import Caller
from perdure.service.oidc import OidcVerifier
from perdure.service.sessions import COOKIE, SessionVerifier, expect_csrf

CSRF_HEADER, TENANT_HEADER = "x-csrf-token", "x-perdure-tenant"
READING = ("GET", "HEAD", "OPTIONS")
"""Methods that change nothing."""


class ServerAccess:
    """Finds out who sends a request, by a key of the store, a session in it, or a token of the issuer."""

    def __init__(self, keys: KeyVerifier, sessions: SessionVerifier, oidc: OidcVerifier | None = None) -> None:
        self.keys, self.sessions, self.oidc = keys, sessions, oidc

    async def __call__(self, request: ApiRequest) -> Caller:
        """Returns the caller.

        Raises:
            Unauthenticated: there is no valid proof of who they are.
            Forbidden: they have no role in the tenant that the request names.
            Refusal: a page of another origin has sent the cookie.
            StoreUnavailable, IssuerUnavailable: it can't be found out now.
        """
        tenant = request.header(TENANT_HEADER) or None
        caller = await self._caller(request, tenant)
        if tenant is not None and caller.tenant != tenant:
            raise Forbidden(caller.subject, f"anything in the tenant {tenant}", "viewer")
        return caller

    async def _caller(self, request: ApiRequest, tenant: str | None) -> Caller:
        if authorization := request.header("authorization"):
            scheme, _, given = authorization.partition(" ")
            token = given.strip()
            if scheme.lower() != "bearer" or not token:
                raise Unauthenticated("the header Authorization is not of the form that is needed. Send Authorization: Bearer KEY")
            if self.oidc is None or token.startswith("prd_"):
                return await self.keys.caller(token)
            return await self.oidc.caller(token, tenant)
        if token := cookie_of(request, COOKIE):
            caller = await self.sessions.caller(token)
            if request.method not in READING:
                expect_own_page(request)
                expect_csrf(token, request.header(CSRF_HEADER))
            return caller
        raise Unauthenticated("the request does not say who sends it. Send Authorization: Bearer KEY, with a key that perdure keys create has made")


def cookie_of(request: ApiRequest, name: str) -> str:
    """A cookie of a request; empty if there is none."""
    pairs = (one.strip().partition("=") for one in request.header("cookie").split(";"))
    return next((value for found, _, value in pairs if found == name), "")


def expect_own_page(request: ApiRequest) -> None:
    """Checks that the request of a browser comes from a page of this server.

    Raises:
        Refusal: it comes from another, or does not say from which.
    """
    origin = request.header("origin")
    if not origin or authority_of(origin) != request.header("host"):
        said = f"a page of {origin[:200]}" if origin else "a page that does not say where it is from"
        raise Refusal(403, "wrong_origin", f"{said} may not send requests here with the cookie of a session", "use a page of this server, or a key")
