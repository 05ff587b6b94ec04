"""The page of a link in an e-mail, on which its person unsubscribes: plain HTML without scripts and without an account, as RFC 8058 has it.

    GET  /unsubscribe/{token}   shows a button, and never unsubscribes by itself
    POST /unsubscribe/{token}   unsubscribes; programs of e-mail send it when somebody presses their button

The token is the proof, so a POST needs nothing else. What it does can be repeated, and undone by the person.
"""

import math
import time
from collections.abc import Callable, Mapping
from html import escape
from typing import Any

from perdure.api.approval_link_page import HEADERS
from perdure.api.http_requests import ApiAnswer, ApiRequest
from perdure.api.problems import MEDIA_TYPE, Refusal
from perdure.api.sign_in_page import html_answer
from perdure.core.errors import LinkRefused
from perdure.service.audit import AuditedBy, audited_access
from perdure.service.callers import SIGNED_IN, Caller
from perdure.service.notifications.unsubscribe_links import UnsubscribeLink, read_unsubscribe_link
from perdure.service.people.person_records import NotificationKind, unsubscribe
from perdure.service.rate_limits import RateLimiter
from perdure.service.store_access import StoreAccess

ROUTE = "/unsubscribe/{token}"
"""The route as logs and traces have it."""

BODY_BYTES_MAX = 10_000

SHOWN_KINDS: Mapping[NotificationKind, str] = {
    "asked": "approvals that wait for you",
    "reminder": "reminders of approvals",
    "escalated": "approvals that others have not decided in time",
    "failure": "executions that fail",
    "needs_attention": "executions that need attention",
    "breaker_open": "triggers that have paused themselves",
    "proposal_filed": "proposals that wait for a review",
    "dead_letter_surge": "many dead letters within a short time",
}


class UnsubscribePage:
    """Answers the requests for pages of links. `access` gives the store."""

    def __init__(self, access: Callable[[], StoreAccess], secret: bytes, limiter: RateLimiter | None = None) -> None:
        self._access, self._secret, self._limiter = access, secret, limiter

    @property
    def documented(self) -> Mapping[str, Any]:
        """The routes, as the OpenAPI document has them."""
        return PATHS

    async def __call__(self, request: ApiRequest) -> ApiAnswer | None:
        """Answers a request; returns None if it is for no such page."""
        if request.segments[:1] != ("unsubscribe",) or len(request.segments) != 2:
            return None
        if request.method not in ("GET", "HEAD", "POST"):
            raise Refusal(405, "method_not_allowed", f"{request.method} is not allowed here", "use GET or POST", ((b"allow", b"GET, HEAD, POST"),))
        if self._limiter is not None and (left_s := self._limiter.take(f"link\0{request.address}", time.monotonic())):
            after = ((b"retry-after", str(math.ceil(left_s)).encode()),)
            raise Refusal(429, "too_many_requests", "this address asks more often than this server allows", f"ask again in {left_s:.2g} s", after)
        try:
            link = read_unsubscribe_link(self._secret, request.segments[1])
        except LinkRefused as refused:
            return html_answer(403, "This link can't be used", f"<p>{escape(refused.why)}.</p>", HEADERS)
        if request.method != "POST":
            form = '<form method="post"><input type="hidden" name="List-Unsubscribe" value="One-Click"><button>Unsubscribe</button></form>'
            return html_answer(200, "Unsubscribe", f"<p>{_shown(link)} will not be sent to <b>{escape(link.person)}</b> any more.</p>{form}", HEADERS)
        _ = await request.body(BODY_BYTES_MAX)
        by = AuditedBy(Caller(link.tenant, f"{SIGNED_IN}{link.person}", frozenset()), "people.unsubscribe", request.address)
        await unsubscribe(audited_access(self._access(), by).store, link.tenant, link.person, link.kinds)
        return html_answer(200, "You have unsubscribed", f"<p>{_shown(link)} are not sent to <b>{escape(link.person)}</b> any more.</p>", HEADERS)


def _shown(link: UnsubscribeLink) -> str:
    return f"Notifications of {escape(', '.join(SHOWN_KINDS[kind] for kind in link.kinds))}"


_PROBLEM: dict[str, Any] = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
_PAGE: dict[str, Any] = {"text/html": {"schema": {"type": "string"}}}
_TOKEN: dict[str, Any] = {"name": "token", "in": "path", "required": True, "schema": {"type": "string"}, "description": "the signed text of the link"}
_PROBLEMS = {
    "400": "The path can't be read.",
    "408": "The body did not arrive in time.",
    "413": "The body is too large.",
    "415": "The body is compressed.",
    "429": "This address asks too often.",
}


def _route(id: str, summary: str, done: str, body: bool) -> dict[str, Any]:
    content = {"application/x-www-form-urlencoded": {"schema": {"type": "object"}}}
    answers = {"200": {"description": done, "content": _PAGE}, "403": {"description": "The link is not valid.", "content": _PAGE}}
    answers |= {status: {"description": said, "content": _PROBLEM} for status, said in _PROBLEMS.items() if body or status in ("400", "429")}
    given = {"requestBody": {"required": False, "content": content}} if body else {}
    return {"operationId": f"unsubscribe.{id}", "summary": summary, "tags": ["people"], "parameters": [_TOKEN], **given, "responses": answers, "security": []}


PATHS: dict[str, Any] = {
    ROUTE: {
        "get": _route("page", "A page with a button to unsubscribe. It never unsubscribes by itself.", "The page.", False),
        "post": _route("unsubscribe", "Unsubscribes the person of a signed link, as RFC 8058 has it.", "They have unsubscribed.", True),
    }
}
"""The routes, as the OpenAPI document has them."""
