"""Claims about what both clients of a server check before they send anything."""

from collections.abc import Callable

import pytest

from perdure.core.errors import BadValue
from perdure.mcp_server.operation_requests import RequestsToServer
from perdure.remote.http_access import HttpAccess

MADE = pytest.mark.parametrize("made", [HttpAccess, RequestsToServer])


@MADE
@pytest.mark.parametrize("url", ["http://", "https://host?x=1", "http:///path", "http://[", "http://host:port", "http://host:70000"])
def test_a_url_of_no_server_is_refused(made: Callable[..., object], url: str) -> None:
    with pytest.raises(BadValue, match="the URL of a server"):
        made(url)


@MADE
@pytest.mark.parametrize("token", ["prd_ü", "prd_1\n"])
def test_a_token_that_no_header_can_have_is_refused_and_not_shown(made: Callable[..., object], token: str) -> None:
    with pytest.raises(BadValue, match="a key of the server") as refused:
        made("http://host", token)
    assert token not in str(refused.value)
