"""The page of a signed link: plain HTML without scripts, on which somebody without an account decides on an approval, once.

    GET  /approvals/link/{token}   shows the question and its form, and never decides
    POST /approvals/link/{token}   decides

Programs that fetch links in advance, such as those that look for viruses in messages, only GET. A decision needs the nonce of the form, which is signed and
bound to the link. The token is a secret: it is in no log or trace, and the headers keep the page out of caches and its address out of the
``Referer`` of other pages.
"""

from collections.abc import Callable, Mapping
from hashlib import sha256
from html import escape
from secrets import token_bytes
from typing import Any
from urllib.parse import parse_qs

import msgspec

from perdure.api.approval_form import form_fields, form_html, read_form
from perdure.api.http_requests import ApiAnswer, ApiRequest
from perdure.api.link_pages import documented_page, link_page, token_of
from perdure.api.problems import Refusal
from perdure.core.error_text import shorten_text
from perdure.core.errors import AlreadyDecided, BadValue, DecisionRefused, HasEnded, LinkRefused, NotFound, PerdureError, StoreUnavailable, Timeout
from perdure.service.approvals import Approval, read_approval
from perdure.service.people.signed_links import ApprovalLink, decide_by_link, expect_eligible, is_vote_known, read_link
from perdure.service.rate_limits import RateLimiter
from perdure.service.signed_texts import bytes_of, text_of
from perdure.service.signing_secrets import is_signed, signature
from perdure.service.store_access import StoreAccess, with_timeout

ROUTE = "/approvals/link/{token}"
"""The route as logs and traces have it."""

NONCE_DOMAIN = b"perdure approval form"
NONCE_S = 3_600.0
"""How long a form may stay open before it has to be loaded again."""

ACCEPTED_S = 5.0
"""How long the page waits for an engine to accept the decision."""

KNOWN_S = 2.0
"""How long the page then takes to find out whether the decision is recorded."""

FIELDS_MAX = 500
DETAILS_CHARACTERS_MAX, ROWS_MAX = 20_000, 50


class ApprovalLinkPage:
    """Answers the requests for pages of links. `access` gives the store, by whose time forms expire."""

    def __init__(self, access: Callable[[], StoreAccess], secret: bytes, limiter: RateLimiter | None = None) -> None:
        self._access, self._secret, self._limiter = access, secret, limiter

    @property
    def documented(self) -> Mapping[str, Any]:
        """The routes, as the OpenAPI document has them."""
        return PATHS

    async def __call__(self, request: ApiRequest) -> ApiAnswer | None:
        """Answers a request; returns None if it is for no such page."""
        token = token_of(request, ("approvals", "link"), self._limiter)
        if token is None:
            return None
        try:
            link = await read_link(self._access(), self._secret, token)
            await self._access().clock.refresh()
            one = await read_approval(self._access(), link.key)
            await expect_eligible(self._access(), link, one)
            if one is None:
                return _message(503, "Not ready yet", "The question has not been prepared yet. Load the page again in a moment.")
            if request.method != "POST":
                return self._form(token, link, one, {})
            return await self._decided(request, token, link, one)
        except PerdureError as error:
            return _refused(error)

    async def _decided(self, request: ApiRequest, token: str, link: ApprovalLink, one: Approval) -> ApiAnswer:
        sent = await _sent(request)
        if not self._is_own_form(token, sent.get("nonce", "")):
            return self._form(token, link, one, sent, "The form was open for too long, or is not from this page. Check it, and send it again.", 403)
        approve = {"approve": True, "reject": False}.get(sent.get("answer", ""))
        if approve is None or link.approve not in (None, approve):
            return self._form(token, link, one, sent, "Choose one of the answers.", 422)
        try:
            value = read_form(form_fields(one.form), sent) if approve else None
            async with with_timeout(ACCEPTED_S, "an engine that takes the decision"):
                await decide_by_link(self._access(), link, approve, value, sent.get("comment", ""))
        except BadValue as error:
            return self._form(token, link, one, sent, f"{error.where.removeprefix('/value').lstrip('/') or 'The form'}: {error}", 422)
        except (Timeout, StoreUnavailable):
            return await self._unaccepted(link, approve)
        said = "approved" if approve else "rejected"
        return _message(200, "Thank you", f"You have {said}: {one.title}")

    async def _unaccepted(self, link: ApprovalLink, approve: bool) -> ApiAnswer:
        """The page after no engine has accepted the decision: whether it is recorded is read from the store."""
        try:
            async with with_timeout(KNOWN_S, "whether the decision is recorded"):
                is_known = await is_vote_known(self._access(), link, approve)
        except (Timeout, StoreUnavailable):
            is_known = False
        if is_known:
            return _message(202, "Your answer is recorded", "It takes effect as soon as the service goes on. You can close this page.")
        return _message(
            503, "Your answer may not have arrived", "The service did not confirm it. Open the link again in a moment: it shows whether you have answered."
        )

    def _form(self, token: str, link: ApprovalLink, one: Approval, sent: Mapping[str, str], error: str = "", status: int = 200) -> ApiAnswer:
        """The page with the question and its form."""
        said = f'<p class="error" role="alert">{escape(shorten_text(error, 2_000))}</p>' if error else ""
        fields = "" if link.approve is False else form_html(form_fields(one.form), sent)
        buttons = [("approve", "Approve")] * (link.approve is not False) + [("reject", "Reject")] * (link.approve is not True)
        body = (
            f"{said}{_details(one)}<p>You answer as <b>{escape(link.by)}</b>.</p>"
            f'<form method="post"><input type="hidden" name="nonce" value="{escape(self._nonce(token))}">{fields}'
            f'<label for="comment">Comment</label><textarea id="comment" name="comment" rows="3">{escape(sent.get("comment", ""))}</textarea>'
            + "".join(f'<button name="answer" value="{value}">{text}</button> ' for value, text in buttons)
            + "</form>"
        )
        return link_page(status, one.title, body)

    def _nonce(self, token: str) -> str:
        said = msgspec.msgpack.encode((token_bytes(16), self._access().clock.now_s() + NONCE_S))
        return f"{text_of(said)}.{text_of(signature(self._secret, NONCE_DOMAIN, said + _hash(token), 'links'))}"

    def _is_own_form(self, token: str, nonce: str) -> bool:
        """Returns whether this service made the nonce for a form of this link, and the form has not expired."""
        shown, _, by = nonce.partition(".")
        try:
            said = bytes_of(shown)
            genuine = is_signed(self._secret, NONCE_DOMAIN, said + _hash(token), bytes_of(by))
            return genuine and msgspec.msgpack.decode(said, type=tuple[bytes, float])[1] > self._access().clock.now_s()
        except (ValueError, msgspec.MsgspecError):
            return False


def _hash(token: str) -> bytes:
    return sha256(token.encode()).digest()


def _details(one: Approval) -> str:
    """The details of an approval: plain values by name as a list, any other as JSON."""
    if one.details is None:
        return ""
    if isinstance(one.details, dict) and len(one.details) <= ROWS_MAX and all(isinstance(value, str | int | float) for value in one.details.values()):
        rows = (f"<dt>{escape(str(name))}</dt><dd>{escape(shorten_text(str(value), 1_000))}</dd>" for name, value in one.details.items())
        return f"<dl>{''.join(rows)}</dl>"
    text = one.details if isinstance(one.details, str) else msgspec.json.format(msgspec.json.encode(one.details, enc_hook=repr), indent=2).decode()
    return f"<pre>{escape(shorten_text(text, DETAILS_CHARACTERS_MAX))}</pre>"


def _message(status: int, title: str, text: str) -> ApiAnswer:
    return link_page(status, title, f"<p>{escape(text)}</p>")


def _refused(error: PerdureError) -> ApiAnswer:
    """The page that says why nothing can be decided by a link."""
    match error:
        case AlreadyDecided(by=by, approved=approved):
            return _message(410, "Already decided", f"The question was {'approved' if approved else 'rejected'} by {by}. Nothing is left to do.")
        case HasEnded():
            return _message(410, "No longer asked", "The question is not asked any more. Nothing is left to do.")
        case DecisionRefused(why=why):
            return _message(410, "Already answered", f"{why}. The link can be used once.")
        case NotFound():
            return _message(410, "No longer there", "The question is not there any more. Nothing is left to do.")
        case LinkRefused(why=why):
            return _message(403, "This link can't be used", f"{why[:1].upper()}{why[1:]}.")
    raise error


async def _sent(request: ApiRequest) -> dict[str, str]:
    """The fields of a form that a browser sends."""
    if request.header("content-type").partition(";")[0].strip().lower() != "application/x-www-form-urlencoded":
        raise Refusal(415, "no_form", "the body is no form", "send it as the page does")
    try:
        parsed = parse_qs((await request.body()).decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=FIELDS_MAX)
    except ValueError:
        raise Refusal(400, "bad_request", "the body is no form", "send it as the page does") from None
    return {name: texts[0] for name, texts in parsed.items()}


_ANSWERS = {
    "200": "The question with its form, or that the answer was accepted.",
    "202": "The answer is recorded, and takes effect when an engine runs.",
    "403": "The link is not valid, or its person may not decide.",
    "410": "The question is decided, or the link was used.",
    "422": "The form does not fit; the page says where.",
    "503": "The question has not been prepared yet, or the answer may not have arrived.",
}

_PROBLEMS = {
    "400": "The path or the form can't be read.",
    "408": "The form did not arrive in time.",
    "413": "The form is too large.",
    "415": "The body is no form.",
    "429": "This address asks too often.",
}

PATHS: dict[str, Any] = {
    ROUTE: {
        "get": documented_page(
            "approval_links.page",
            "A page on which the person of a signed link decides. It never decides by itself.",
            {status: _ANSWERS[status] for status in ("200", "403", "410", "503")},
            _PROBLEMS,
        ),
        "post": documented_page("approval_links.decide", "Decides as the person of a signed link.", _ANSWERS, _PROBLEMS, takes_form=True, needs_form=True),
    }
}
"""The routes, as the OpenAPI document has them."""
