"""Makes the client of HTTP for requests to a server of Perdure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from perdure.core.errors import BadValue
from perdure.core.header_values import is_http_url
from perdure.definitions.kinds.http.http_client import http_client

if TYPE_CHECKING:
    import httpx2

CONNECT_S = 10.0
"""How long connecting may take."""


def server_client(what: str, url: str, token: str | None, *, headers: Mapping[str, str], answer_s: float, transport: Any = None) -> httpx2.AsyncClient:
    """Returns a client of the server at a URL, with a key as `token`. It follows no redirect. `what` names the URL in errors.

    Raises:
        BadValue: the URL is not one of a server, the token has a character that no key has, or a variable of the environment is not usable.
    """
    import httpx2

    if not is_http_url(url) or (parts := urlsplit(url)).query or parts.fragment:
        raise BadValue(what, url, "the URL of a server, such as https://perdure.example.com")
    if token is not None and not (token.isascii() and token.isprintable()):
        raise BadValue("token", "***", "a key of the server: it has a character that no key has")
    sent = {**headers, **({"authorization": f"Bearer {token}"} if token else {})}
    limit = httpx2.Timeout(answer_s, connect=CONNECT_S)
    return http_client(url, base_url=url.rstrip("/"), headers=sent, timeout=limit, transport=transport, follow_redirects=False)
