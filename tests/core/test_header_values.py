"""Claims about what headers say: a value of another form is none, and no error."""

import pytest

from perdure.core.header_values import authority_of, body_charset, body_encoding, host_of, is_loopback, may_use_proxy, whole_number_of


def test_only_hosts_that_no_other_machine_reaches_are_loopback() -> None:
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.9.9.9", "::1", "[::1]")))
    assert not any(map(is_loopback, ("", "0.0.0.0", "::", "example.org", "10.0.0.1", "127.0.0.1.example.org", "localhost.example.org")))


@pytest.mark.parametrize("text", ["", "-1", "+1", "1.0", " 1", "²", "١", "1e3", "9" * 5_000, "101"])
def test_what_is_no_whole_number_up_to_the_most_is_none(text: str) -> None:
    assert whole_number_of(text, 100) is None


def test_a_whole_number_is_read() -> None:
    assert [whole_number_of(text, 100) for text in ("0", "7", "100", "000", "0000000007")] == [0, 7, 100, 0, 7]


def test_a_body_is_encoded_unless_its_encoding_is_none() -> None:
    assert [body_encoding(text) for text in ("", " Identity ", "GZIP", "gzip, br")] == ["", "", "gzip", "gzip, br"]


def test_the_host_of_a_header_has_no_port_and_a_broken_one_is_none() -> None:
    assert [host_of(text) for text in ("localhost:80", "[::1]:80", "Example.org")] == ["localhost", "::1", "example.org"]
    assert [host_of(text) for text in ("", "[", "[::1", "[x]")] == [""] * 4
    assert (authority_of("http://example.org:80"), authority_of("http://["), authority_of("null")) == ("example.org:80", "", "")


def test_requests_to_this_machine_go_through_no_proxy_unless_they_are_encrypted() -> None:
    assert [may_use_proxy(url) for url in ("http://127.0.0.1:7788", "http://localhost/a", "http://[::1]:7788")] == [False] * 3
    assert [may_use_proxy(url) for url in ("https://localhost", "http://example.org", "http://10.0.0.1:80", "http://[bad")] == [True] * 4


@pytest.mark.parametrize(
    ("text", "charset"),
    [
        ("", ""),
        ("application/json", ""),
        ("application/json; a=b;", ""),
        ("application/json; charset=utf-8", ""),
        ('application/json;CHARSET = "UTF8"', ""),
        ("application/json; charset=", ""),
        ("charset=latin-1", ""),
        ("application/json; charset=Latin-1", "latin-1"),
        ('application/json; a=b; Charset="utf-16"', "utf-16"),
    ],
)
def test_a_body_has_another_charset_than_utf_8_or_none(text: str, charset: str) -> None:
    assert body_charset(text) == charset
