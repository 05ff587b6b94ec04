"""Sign-in of browsers: a key, or OpenID Connect, opens a session, whose cookie the browser sends from then on.

    GET  /login                a page with a form; it says who is signed in
    POST /login                signs in by a key, from the form or as JSON
    GET  /login/oidc           sends the browser to the issuer
    GET  /login/callback       where the issuer sends it back to
    POST /logout               ends the session
    GET  /api/session          who is signed in, the CSRF token, and the tenants that they may go on in
    POST /api/session/tenant   goes on in another tenant

A key is in the body of a request and never in a URL. What changes something comes from a page of this server, with the CSRF token of the session.
"""

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs, quote

import msgspec

from perdure.api import sign_in_document, sign_in_page
from perdure.api.http_requests import ApiAnswer, ApiRequest
from perdure.api.json_bodies import json_body
from perdure.api.json_forms import write_time
from perdure.api.problems import Refusal, not_allowed, status_of
from perdure.api.server_access import CSRF_HEADER, ServerAccess, cookie_of, expect_own_page
from perdure.core.errors import Forbidden, IssuerUnavailable, Unauthenticated
from perdure.service import oidc_sign_in
from perdure.service.audit import AuditedBy, AuditedStore
from perdure.service.callers import Caller, Role
from perdure.service.oidc import OidcVerifier, caller_in, granted_roles
from perdure.service.sessions import (
    COOKIE,
    FoundSession,
    OpenedSession,
    csrf_token,
    ended_cookie,
    expect_csrf,
    open_session,
    revoke_session,
    session_cookie,
    switch_tenant,
)
from perdure.stores.protocol import Store

if TYPE_CHECKING:
    import httpx2

ATTEMPT_COOKIE = "__Host-perdure-sign-in"
RETURN_TO_BYTES_MAX = 2_000
"""The longest path that a browser comes back to from the issuer: it is in a cookie, and browsers drop one of more than 4,096 bytes."""
LOGIN = "/login"
"""The page of the sign-in, which says who is signed in."""

Respond = Callable[[ApiRequest], Awaitable[ApiAnswer]]


class OidcSignIn(NamedTuple):
    """The means to sign people in at an issuer: the verifier of its tokens, a client for requests to it, and the secret of this client there, if it has one."""

    verifier: OidcVerifier
    client: "httpx2.AsyncClient"
    client_secret: str = ""


class SignIn:
    """Answers the requests of the sign-in. `clock` is the time of day, by which an attempt to sign in at the issuer ends. `after` is the path that follows a
    sign-in, unless the browser came from another.
    """

    def __init__(
        self, store: Store, server: ServerAccess, oidc: OidcSignIn | None = None, clock: Callable[[], float] = time.time, *, after: str = LOGIN
    ) -> None:
        self._store, self._server, self._oidc, self._clock, self._after = store, server, oidc, clock, after
        self._routes: dict[tuple[str, ...], dict[str, Respond]] = {
            ("login",): {"GET": self._page, "POST": self._by_key},
            ("logout",): {"POST": self._end},
            ("api", "session"): {"GET": self._session},
            ("api", "session", "tenant"): {"POST": self._switch},
        }
        if oidc is not None and oidc.verifier.settings.client_id:
            self._routes |= {("login", "oidc"): {"GET": self._shown(self._to_issuer)}, ("login", "callback"): {"GET": self._shown(self._from_issuer)}}

    @property
    def ways(self) -> tuple[str, ...]:
        """The ways to sign in: by a key, and at the issuer if there is one."""
        return ("key", "oidc") if ("login", "oidc") in self._routes else ("key",)

    @property
    def documented(self) -> dict[str, Any]:
        """The routes, as the OpenAPI document has them."""
        return {**sign_in_document.PATHS, **(sign_in_document.ISSUER_PATHS if "oidc" in self.ways else {})}

    async def __call__(self, request: ApiRequest) -> ApiAnswer | None:
        """Answers a request; returns None if it is none of the sign-in."""
        if (methods := self._routes.get(request.segments)) is None:
            return None
        if (respond := methods.get("GET" if request.method == "HEAD" else request.method)) is None:
            raise not_allowed(request.method, methods)
        return await respond(request)

    def _next_of(self, request: ApiRequest) -> str:
        return self._own_path(next(iter(request.query.get("next", ())), ""))

    def _own_path(self, text: str) -> str:
        """A path of this service; the default one in place of what leads elsewhere."""
        return text if oidc_sign_in.is_own_path(text) else self._after

    # By a key

    async def _page(self, request: ApiRequest) -> ApiAnswer:
        if token := cookie_of(request, COOKIE):
            try:
                found = await self._server.sessions.session(token)
            except Unauthenticated:
                pass  # the form is for those whose session has ended
            else:
                caller = found.caller
                return sign_in_page.signed_in_page(request.root, caller, csrf_token(token), has_console=self._after == "/")
        return self._form(request, self._next_of(request))

    def _form(self, request: ApiRequest, next: str, error: str = "", status: int = 200) -> ApiAnswer:
        ended = ((b"set-cookie", _attempt_cookie("").encode()),) if error else ()
        return sign_in_page.sign_in_page(request.root, next, has_issuer="oidc" in self.ways, error=error, status=status, headers=ended)

    async def _by_key(self, request: ApiRequest) -> ApiAnswer:
        if request.header("origin"):  # a program has none
            expect_own_page(request)
        given = await _fields(request)
        key = given.get("key", "").strip()
        try:
            caller = await self._server.keys.caller(key)
        except Unauthenticated as error:
            if _is_form(request):
                return self._form(request, self._own_path(given.get("next", "")), str(error), 401)
            raise
        opened = await self._opened(request, caller, key=key)
        if _is_form(request):
            return _redirect(request, self._own_path(given.get("next", "")), session_cookie(opened))
        return await self._new_session(opened)

    async def _opened(self, request: ApiRequest, caller: Caller, elsewhere: Mapping[str, frozenset[Role]] | None = None, key: str = "") -> OpenedSession:
        store = AuditedStore(self._store, AuditedBy(caller, "session.open", request.address))
        return await open_session(store, caller, request.address, request.header("user-agent"), elsewhere, key)

    # By the issuer

    async def _to_issuer(self, request: ApiRequest) -> ApiAnswer:
        assert self._oidc is not None, "the route is there with an issuer alone"
        settings = self._oidc.verifier.settings
        next = self._next_of(request)
        return_to = next if len(next.encode()) <= RETURN_TO_BYTES_MAX else self._after
        attempt = oidc_sign_in.begin_sign_in(f"{request.origin}{request.root}/login/callback", self._clock(), return_to)
        endpoints = await self._oidc.verifier.issuer.endpoints()
        url = oidc_sign_in.authorization_url(settings, endpoints, attempt)
        return ApiAnswer(303, headers=((b"location", url.encode()), (b"set-cookie", _attempt_cookie(oidc_sign_in.attempt_text(attempt)).encode())))

    def _shown(self, respond: Respond) -> Respond:
        """Returns what shows the page with an error in place of problem details, since a browser was sent there."""

        async def shown(request: ApiRequest) -> ApiAnswer:
            try:
                return await respond(request)
            except (Unauthenticated, Forbidden, IssuerUnavailable) as error:
                return self._form(request, self._after, str(error), status_of(type(error)))

        return shown

    async def _from_issuer(self, request: ApiRequest) -> ApiAnswer:
        assert self._oidc is not None, "the route is there with an issuer alone"
        verifier, client, secret = self._oidc
        attempt = oidc_sign_in.parse_attempt(cookie_of(request, ATTEMPT_COOKIE))
        query = {name: texts[0] for name, texts in request.query.items()}
        code = oidc_sign_in.callback_code(verifier.settings, attempt, query, self._clock())
        endpoints = await verifier.issuer.endpoints()
        token = await oidc_sign_in.exchange_code(client, verifier.settings, endpoints, attempt, code, client_secret=secret)
        identity = await verifier.identity(token, attempt.nonce)
        caller = caller_in(verifier.settings, identity)
        opened = await self._opened(request, caller, granted_roles(verifier.settings, identity.groups))
        return _redirect(request, self._own_path(attempt.return_to), session_cookie(opened), _attempt_cookie(""))

    # Signed in

    async def _present(self, request: ApiRequest, csrf: str = "") -> tuple[str, FoundSession]:
        token = cookie_of(request, COOKIE)
        found = await self._server.sessions.session(token)
        if request.method == "POST":
            expect_own_page(request)
            expect_csrf(token, request.header(CSRF_HEADER) or csrf)
        return token, found

    async def _session(self, request: ApiRequest) -> ApiAnswer:
        token, found = await self._present(request)
        return _session_answer(found, token)

    async def _switch(self, request: ApiRequest) -> ApiAnswer:
        token, _ = await self._present(request)
        tenant = (await _fields(request)).get("tenant", "")
        opened = await switch_tenant(
            lambda caller: AuditedStore(self._store, AuditedBy(caller, "session.switch", request.address)), self._server.sessions, token, tenant
        )
        return await self._new_session(opened)

    async def _new_session(self, opened: OpenedSession) -> ApiAnswer:
        found = await self._server.sessions.session(opened.token)
        return _session_answer(found, opened.token, session_cookie(opened))

    async def _end(self, request: ApiRequest) -> ApiAnswer:
        given = await _fields(request)
        _, found = await self._present(request, given.get("csrf", ""))
        store = AuditedStore(self._store, AuditedBy(found.caller, "session.end", request.address))
        await revoke_session(store, found.tenant, found.id)
        self._server.sessions.forget(found.id)
        if _is_form(request):
            return _redirect(request, LOGIN, ended_cookie())
        return ApiAnswer(204, headers=((b"set-cookie", ended_cookie().encode()),))


def _session_answer(found: FoundSession, token: str, *cookies: str) -> ApiAnswer:
    caller = found.caller
    said = {
        "subject": caller.subject,
        "tenant": caller.tenant,
        "roles": sorted(caller.roles),
        "groups": list(caller.groups),
        "expiresAt": write_time(found.session.expires_at_s),
        "tenants": sorted({caller.tenant, *found.session.elsewhere}),
        "csrf": csrf_token(token),
    }
    return ApiAnswer(200, msgspec.json.encode(said), headers=tuple((b"set-cookie", one.encode()) for one in cookies))


def _redirect(request: ApiRequest, path: str, *cookies: str) -> ApiAnswer:
    return ApiAnswer(303, headers=((b"location", _encoded(f"{request.root}{path}")), *((b"set-cookie", one.encode()) for one in cookies)))


def _encoded(url: str) -> bytes:
    """A URL as a header has it: what no URL may have is in percent, and what is in percent stays so."""
    return quote(url, safe="/?#[]@!$&'()*+,;=:%").encode()


def _attempt_cookie(text: str) -> str:
    """The value of ``Set-Cookie`` with an attempt to sign in, or without one any more."""
    return f"{ATTEMPT_COOKIE}={text}; Path=/; Max-Age={int(oidc_sign_in.ATTEMPT_S) if text else 0}; HttpOnly; Secure; SameSite=Lax"


def _is_form(request: ApiRequest) -> bool:
    return request.header("content-type").partition(";")[0].strip().lower() == "application/x-www-form-urlencoded"


async def _fields(request: ApiRequest) -> dict[str, str]:
    """Returns the fields of a form, or of a JSON object, that are text."""
    if not _is_form(request):
        return {name: value for name, value in (await json_body(request)).items() if isinstance(value, str)}
    try:
        return {name: texts[0] for name, texts in parse_qs((await request.body()).decode("ascii"), errors="strict").items()}
    except ValueError:
        raise Refusal(400, "bad_request", "the body is no form", "send it as the page does") from None
