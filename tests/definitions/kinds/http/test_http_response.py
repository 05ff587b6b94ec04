"""Claims about answers: bodies by their types, and what does not keep to them."""

import codecs
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.core import values
from perdure.definitions.kinds.http.http_errors import ResponseRefused
from perdure.definitions.kinds.http.http_response import EXCERPT_MAX, body_excerpt, decode_body, response_headers

JSON = "application/json"


@pytest.mark.parametrize(
    ("raw", "type", "data"),
    [
        (b'{"a": [1, 2.5, null]}', JSON, {"a": [1, 2.5, None]}),
        (b'{"a": 1}', "application/problem+json; charset=utf-8", {"a": 1}),
        (codecs.BOM_UTF8 + b"[1]", JSON, [1]),
        ('["ä"]'.encode("utf-16"), "application/json; charset=utf-16", ["ä"]),
        ('["ä"]'.encode("latin-1"), "application/json; charset=iso-8859-1", ["ä"]),
        (b"null", JSON, None),
        (b"", JSON, None),
        (b"", "text/plain", None),
        (b"{broken", JSON, "{broken"),
        (b"[NaN]", JSON, "[NaN]"),
        (b"[" * 100_000, JSON, "[" * 100_000),
        (b"[123456789012345678901234567890]", JSON, "[123456789012345678901234567890]"),
        (b"[12345678901234567890]", JSON, [12345678901234567890]),
        (b"[1e400]", JSON, "[1e400]"),
        (rb'["\ud800"]', JSON, r'["\ud800"]'),
        (b'{"a": 1}', "text/plain", '{"a": 1}'),
        ("ä".encode(), "", "ä"),
        (b"\xe4", "text/plain; charset=latin1", "ä"),
        (b"\x93x\x94", 'text/html; charset="windows-1252"', "“x”"),
        (b"\xe4", "text/plain; charset=no-such", {"base64": "5A=="}),
        (b"x", "text/plain; charset=rot13", "x"),
        (b"\\x41", "text/plain; charset=unicode_escape", "\\x41"),
        (b"\xff\xfe\0", "application/octet-stream", {"base64": "//4A"}),
        (b"\xff", JSON, {"base64": "/w=="}),
    ],
)
def test_a_body_is_what_its_type_says_or_else_text_or_else_bytes(raw: bytes, type: str, data: Any) -> None:
    assert decode_body(raw, type, "", False) == data


@pytest.mark.parametrize(
    ("raw", "type", "wanted", "data"),
    [
        (b"[1]", "text/plain", "json", [1]),
        (b"[1]", JSON, "text", "[1]"),
        (b"[1]", JSON, "base64", {"base64": "WzFd"}),
        (b"", "", "text", ""),
        (b"", "", "base64", {"base64": ""}),
    ],
)
def test_a_body_is_taken_as_it_is_wanted(raw: bytes, type: str, wanted: str, data: Any) -> None:
    assert decode_body(raw, type, wanted, False) == data


@pytest.mark.parametrize(
    ("raw", "type", "wanted", "why"),
    [
        (b"<html>no", "text/html", "json", "not JSON: .*: <html>no"),
        (b"", JSON, "json", "not JSON"),
        (b"[123456789012345678901234567890]", JSON, "json", "64 bits; take it as text"),
        (b"\xff", "text/plain", "text", "not text in utf-8; take it as base64"),
    ],
)
def test_what_is_not_what_was_wanted_is_an_error(raw: bytes, type: str, wanted: str, why: str) -> None:
    with pytest.raises(ResponseRefused, match=why):
        decode_body(raw, type, wanted, False)


def test_an_answer_that_has_no_body_is_null_though_json_was_wanted() -> None:
    assert decode_body(b"", "", "json", True) is None


def test_headers_are_joined_but_for_cookies() -> None:
    raw = [(b"Vary", b"a"), (b"VARY", b"b"), (b"Set-Cookie", b"x=1, 2"), (b"set-cookie", b"y=2"), (b"X", "ä".encode()), (b"Y", b"\xe4")]
    assert response_headers(raw) == {"vary": "a, b", "set-cookie": ["x=1, 2", "y=2"], "x": "ä", "y": "ä"}


def test_an_excerpt_is_one_short_line_of_text() -> None:
    assert body_excerpt(b"  a\r\n\tb\x07 c ", "text/plain") == "a b c"
    assert body_excerpt(("ä" * 1000).encode()[:999], "") == "ä" * EXCERPT_MAX + "…"
    assert body_excerpt(b"\x89PNG\0\0", "image/png") == "" and body_excerpt(b"a\0b", "text/plain") == ""


TYPES = st.text(max_size=12) | st.sampled_from(
    [JSON, "text/plain", "text/html; charset=utf-16", "a/b; charset=idna", 'text/plain; charset="', "x; charset*=a'b"]
)


@pytest.mark.slow
@settings(deadline=None)
@given(st.binary(max_size=40) | st.text(max_size=20).map(lambda text: text.encode("utf-8", "replace")), TYPES, st.sampled_from(["", "json", "text", "base64"]))
def test_any_body_is_data_that_can_be_kept_or_a_clear_error(raw: bytes, type: str, wanted: str) -> None:
    try:
        found = decode_body(raw, type, wanted, False)
    except ResponseRefused:
        return
    assert values.encode(found, "it")
