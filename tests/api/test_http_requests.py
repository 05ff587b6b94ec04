"""Claims about what is read of the head of a request."""

from perdure.api.http_requests import ApiRequest, headers_of


def test_a_repeated_header_is_one_list() -> None:
    sent = [(b"accept", b"text/html"), (b"x", b"1"), (b"accept", b"application/json"), (b"cookie", b"a=1"), (b"cookie", b"b=2"), (b"accept", b"*/*")]
    assert headers_of({"headers": sent}) == {"accept": "text/html, application/json, */*", "x": "1", "cookie": "a=1; b=2"}


async def test_each_tag_of_a_repeated_header_counts() -> None:
    async def receive() -> dict[str, object]:
        raise AssertionError("nothing is read")

    scope = {"method": "GET", "path": "/", "query_string": b"", "headers": [(b"if-none-match", b'"1"'), (b"if-none-match", b'W/"2"')]}
    assert ApiRequest(scope, receive).header("if-none-match") == '"1", W/"2"'
