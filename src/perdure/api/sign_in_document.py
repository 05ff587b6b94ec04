"""The routes of the sign-in, as the OpenAPI document has them. See `perdure.api.sign_in`."""

from typing import Any

from perdure.api.problems import MEDIA_TYPE
from perdure.api.server_access import CSRF_HEADER
from perdure.service.sessions import COOKIE

Described = dict[str, Any]

_PROBLEM: Described = {"content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}}
_PAGE: Described = {"text/html": {"schema": {"type": "string"}}}
_SESSION: Described = {
    "type": "object",
    "description": "Who is signed in, until when, the CSRF token, and the tenants that they may go on in.",
    "properties": {
        "subject": {"type": "string"},
        "tenant": {"type": "string"},
        "roles": {"type": "array", "items": {"type": "string"}},
        "groups": {"type": "array", "items": {"type": "string"}},
        "expiresAt": {"type": "string", "format": "date-time"},
        "tenants": {"type": "array", "items": {"type": "string"}},
        "csrf": {"type": "string"},
    },
    "required": ["subject", "tenant", "roles", "groups", "expiresAt", "tenants", "csrf"],
    "additionalProperties": False,
}
_CODES = {400: "bad_request", 401: "unauthenticated", 403: "forbidden", 408: "too_slow", 413: "too_large", 415: "not_json", 503: "store_unavailable"}
_OF_BODIES = (400, 408, 413, 415)
_MOVED: Described = {"303": {"description": "Where the browser goes on.", "headers": {"Location": {"schema": {"type": "string"}}}}}

SESSION_SCHEME: Described = {"type": "apiKey", "in": "cookie", "name": COOKIE}
"""How a browser that has signed in proves it. What changes something needs the CSRF token besides."""


def _route(id: str, summary: str, responses: Described, *, parameters: tuple[Described, ...] = (), body: Described | None = None) -> Described:
    given = {} if body is None else {"requestBody": {"required": True, "content": body}}
    return {"operationId": f"sign_in.{id}", "summary": summary, "tags": ["sign_in"], "parameters": list(parameters), **given, "responses": responses}


def _free(route: Described) -> Described:
    """A route for everybody."""
    return {**route, "security": []}


def _of_session(route: Described) -> Described:
    """A route for a browser that has signed in."""
    return {**route, "security": [{"session": []}]}


def _problems(*statuses: int) -> Described:
    return {str(status): {"description": _CODES[status], **_PROBLEM} for status in sorted(statuses)}


def _fields(name: str, **fields: str) -> Described:
    """A body with the field `name`, and others that may be left out."""
    properties = {field: {"type": "string", "description": said} for field, said in fields.items()}
    schema = {"type": "object", "properties": properties, "required": [name]}
    return {"application/json": {"schema": schema}, "application/x-www-form-urlencoded": {"schema": schema}}


def _answered(description: str) -> Described:
    return {"200": {"description": description, "content": {"application/json": {"schema": _SESSION}}}}


def _pages(*statuses: int) -> Described:
    return {str(status): {"description": "The page, which says why.", "content": _PAGE} for status in statuses}


_CSRF: Described = {
    "name": CSRF_HEADER,
    "in": "header",
    "required": False,
    "description": "The CSRF token of the session, as `GET /api/session` gives it. The form of the page to sign out has it as the field `csrf` instead.",
    "schema": {"type": "string"},
}
_NEXT: Described = {"name": "next", "in": "query", "required": False, "description": "The page to go on to.", "schema": {"type": "string"}}
_BY_KEY = {"key": "A key of the service.", "next": "The page to go on to, of a form."}

PATHS: dict[str, Described] = {
    "/login": {
        "get": _free(_route("page", "The page by which people sign in.", {"200": {"description": "The page.", "content": _PAGE}}, parameters=(_NEXT,))),
        "post": _free(
            _route(
                "by_key",
                "Signs in by a key: opens a session, whose cookie comes with the answer. A form is sent on to a page.",
                {**_answered("The session that was opened."), **_MOVED, **_problems(401, 403, 503, *_OF_BODIES)},
                body=_fields("key", **_BY_KEY),
            )
        ),
    },
    "/logout": {
        "post": _of_session(
            _route("end", "Ends the session.", {"204": {"description": "It is done."}, **_MOVED, **_problems(401, 403, 503, *_OF_BODIES)}, parameters=(_CSRF,))
        ),
    },
    "/api/session": {
        "get": _of_session(_route("session", "The session of the browser.", {**_answered("The session."), **_problems(401, 503)})),
    },
    "/api/session/tenant": {
        "post": _of_session(
            _route(
                "tenant",
                "Goes on in another tenant, in a new session.",
                {**_answered("The session that was opened."), **_problems(401, 403, 503, *_OF_BODIES)},
                parameters=(_CSRF,),
                body=_fields("tenant", tenant="One of the `tenants` of the session."),
            )
        ),
    },
}
"""The routes of a server that lets people sign in."""

ISSUER_PATHS: dict[str, Described] = {
    "/login/oidc": {"get": _free(_route("to_issuer", "Sends the browser to the issuer.", {**_MOVED, **_pages(503)}, parameters=(_NEXT,)))},
    "/login/callback": {
        "get": _free(_route("from_issuer", "Where the issuer sends the browser back to. It opens a session.", {**_MOVED, **_pages(401, 403, 503)}))
    },
}
"""The further ones of a server that has an issuer of OpenID Connect."""
