"""Shared parts of the pages of signed links: their headers, the form of their requests, and their description in the OpenAPI document.

The token of a link is a secret. The headers therefore keep the page out of caches, and its address out of the ``Referer`` of other pages.
"""

import math
import time
from collections.abc import Mapping
from typing import Any

from perdure.api.http_requests import ApiAnswer, ApiRequest
from perdure.api.problems import MEDIA_TYPE, Refusal, not_allowed
from perdure.api.sign_in_page import html_answer
from perdure.service.rate_limits import RateLimiter

HEADERS = ((b"referrer-policy", b"no-referrer"), (b"cache-control", b"no-store"), (b"x-robots-tag", b"noindex"), (b"x-content-type-options", b"nosniff"))


def link_page(status: int, title: str, body: str) -> ApiAnswer:
    """A page of a link, with a body in HTML."""
    return html_answer(status, title, body, HEADERS)


def token_of(request: ApiRequest, path: tuple[str, ...], limiter: RateLimiter | None) -> str | None:
    """Returns the token behind the `path` of a page; None if a request is for another one.

    Raises:
        Refusal: the page has no such method, or the address of the request asks too often.
    """
    *begin, token = request.segments or ("",)
    if tuple(begin) != path:
        return None
    if request.method not in ("GET", "HEAD", "POST"):
        raise not_allowed(request.method, ("GET", "POST"))
    if limiter is not None and (left_s := limiter.take(f"link\0{request.address}", time.monotonic())):
        after = ((b"retry-after", str(math.ceil(left_s)).encode()),)
        raise Refusal(429, "too_many_requests", "this address asks more often than this server allows", f"ask again in {left_s:.2g} s", after)
    return token


_PAGE: dict[str, Any] = {"text/html": {"schema": {"type": "string"}}}
_TOKEN: dict[str, Any] = {"name": "token", "in": "path", "required": True, "schema": {"type": "string"}, "description": "the signed text of the link"}
_PROBLEM: dict[str, Any] = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
_FORM: dict[str, Any] = {"application/x-www-form-urlencoded": {"schema": {"type": "object"}}}


def documented_page(
    id: str, summary: str, pages: Mapping[str, str], problems: Mapping[str, str], *, takes_form: bool = False, needs_form: bool = False
) -> dict[str, Any]:
    """A route as the OpenAPI document has it: the statuses of its pages and of its problems, and whether it takes a form, or needs one."""
    answers = {status: {"description": said, "content": _PAGE} for status, said in pages.items()}
    answers |= {status: {"description": said, "content": _PROBLEM} for status, said in problems.items() if takes_form or status in ("400", "429")}
    given = {"requestBody": {"required": needs_form, "content": _FORM}} if takes_form else {}
    tag = "approvals" if id.startswith("approval") else "people"
    return {"operationId": id, "summary": summary, "tags": [tag], "parameters": [_TOKEN], **given, "responses": answers, "security": []}
