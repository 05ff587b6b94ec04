"""The page of a link in an e-mail, on which its person unsubscribes: plain HTML without scripts and without an account, as RFC 8058 has it.

    GET  /unsubscribe/{token}   shows a button, and never unsubscribes by itself
    POST /unsubscribe/{token}   unsubscribes; programs of e-mail send it when somebody presses their button

The token is the proof, so a POST needs nothing else. What it does can be repeated, and undone by the person.
"""

from collections.abc import Callable, Mapping
from html import escape
from typing import Any

from perdure.api.http_requests import ApiAnswer, ApiRequest
from perdure.api.link_pages import documented_page, link_page, token_of
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
        token = token_of(request, ("unsubscribe",), self._limiter)
        if token is None:
            return None
        try:
            link = read_unsubscribe_link(self._secret, token)
        except LinkRefused as refused:
            return link_page(403, "This link can't be used", f"<p>{escape(refused.why)}.</p>")
        if request.method != "POST":
            form = '<form method="post"><input type="hidden" name="List-Unsubscribe" value="One-Click"><button>Unsubscribe</button></form>'
            return link_page(200, "Unsubscribe", f"<p>{_shown(link)} will not be sent to <b>{escape(link.person)}</b> any more.</p>{form}")
        _ = await request.body(BODY_BYTES_MAX)
        by = AuditedBy(Caller(link.tenant, f"{SIGNED_IN}{link.person}", frozenset()), "people.unsubscribe", request.address)
        await unsubscribe(audited_access(self._access(), by).store, link.tenant, link.person, link.kinds)
        return link_page(200, "You have unsubscribed", f"<p>{_shown(link)} are not sent to <b>{escape(link.person)}</b> any more.</p>")


def _shown(link: UnsubscribeLink) -> str:
    return f"Notifications of {escape(', '.join(SHOWN_KINDS[kind] for kind in link.kinds))}"


_PROBLEMS = {
    "400": "The path can't be read.",
    "408": "The body did not arrive in time.",
    "413": "The body is too large.",
    "415": "The body is compressed.",
    "429": "This address asks too often.",
}


PATHS: dict[str, Any] = {
    ROUTE: {
        "get": documented_page(
            "unsubscribe.page",
            "A page with a button to unsubscribe. It never unsubscribes by itself.",
            {"200": "The page.", "403": "The link is not valid."},
            _PROBLEMS,
        ),
        "post": documented_page(
            "unsubscribe.unsubscribe",
            "Unsubscribes the person of a signed link, as RFC 8058 has it.",
            {"200": "They have unsubscribed.", "403": "The link is not valid."},
            _PROBLEMS,
            takes_form=True,
        ),
    }
}
"""The routes, as the OpenAPI document has them."""
