"""Claims about targets: which texts are URLs that a request may go to."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.definitions.kinds.http.http_targets import UrlError, displayed_url, parse_target, url_origin


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://Example.ORG", "https://example.org"),
        ("http://example.org:80/a?b=c#d", "http://example.org/a?b=c"),
        ("https://müller.example/ä?ö=1", "https://xn--mller-kva.example/%C3%A4?%C3%B6=1"),
        ("https://中国.icom.museum/", "https://xn--fiqs8s.icom.museum/"),
        ("http://127.0.0.1:8000/x", "http://127.0.0.1:8000/x"),
        ("http://[::1]:8000/x", "http://[::1]:8000/x"),
        ("http://a_b.internal/", "http://a_b.internal/"),
    ],
)
def test_a_url_is_written_as_it_is_looked_up(text: str, url: str) -> None:
    assert str(parse_target(text)) == url


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("example.org", "begins with http://"),
        ("/path", "begins with http://"),
        ("ftp://example.org/", "not with ftp:"),
        ("file:///etc/passwd", "not with file:"),
        ("http+unix://%2Frun%2Fdocker.sock/x", "not with http\\+unix:"),
        ("http:///x", "names a host"),
        ("http://", "names a host"),
        ("https://user:password@example.org/", "no user and password"),
        ("https://user@example.org/", "no user and password"),
        ("https://example.org\\@127.0.0.1/", "no user and password"),
        ("https://example.org\\.evil.example/", "letters, digits and hyphens"),
        ("http://2130706433/", "four decimal numbers"),
        ("http://0x7f000001/", "four decimal numbers"),
        ("http://0x7f.0.0.1/", "not a URL|four decimal numbers|letters"),
        ("http://017700000001/", "four decimal numbers"),
        ("http://0177.0.0.1/", "not a URL"),
        ("http://127.1/", "four decimal numbers"),
        ("http://127.0.0.1./", "without the dot"),
        ("http://localhost./", "without the dot"),
        ("http://x.0x7f/", "four decimal numbers"),
        ("http://%31%32%37.0.0.1/", "letters, digits and hyphens|four decimal numbers"),
        ("http://a..b/", "letters, digits and hyphens"),
        ("http://-a.b/", "letters, digits and hyphens"),
        (f"http://{'a' * 64}.b/", "letters, digits and hyphens"),
        ("http://[fe80::1%25eth0]/", "no zone"),
        ("http://[::1/", "not a URL|letters"),
        ("http://x:0/", "1 to 65535"),
        ("http://x:65536/", "1 to 65535"),
        ("http://x:-1/", "1 to 65535|no URL"),
        ("http://x:y/", "not a URL"),
        ("http://x/\r\nHost: y", "not a URL"),
        ("http://x y/", "letters, digits and hyphens"),
        ("http://①②⑦.⓪.⓪.①/", "not a URL|four"),
        ("http://⑯⑨。②⑤④。⑯⑨。②⑤④/", "not a URL|four"),
    ],
)
def test_what_is_no_url_or_has_more_in_it_than_one_should_is_refused(text: str, why: str) -> None:
    with pytest.raises(UrlError, match=why):
        parse_target(text)


@pytest.mark.slow
@settings(deadline=None)
@given(st.text(max_size=40), st.sampled_from(["", "http://", "https://x", "http://[", "//", "http://x:"]))
def test_any_text_is_a_url_or_is_refused(text: str, head: str) -> None:
    try:
        url = parse_target(head + text)
    except UrlError:
        return
    assert url.scheme in ("http", "https") and url.host and not url.userinfo
    assert parse_target(str(url)) == url


@settings(deadline=None)
@given(st.text(max_size=40), st.sampled_from(["", "//", "/", "http:", "?", "https://x@"]))
def test_any_text_that_leads_on_is_a_url_or_is_refused(text: str, head: str) -> None:
    try:
        url = parse_target(head + text, parse_target("https://example.org/a/b?c"))
    except UrlError:
        return
    assert url.scheme in ("http", "https") and url.host and not url.userinfo


def test_an_origin_has_the_port_that_its_scheme_says() -> None:
    assert url_origin(parse_target("https://x.example/a")) == url_origin(parse_target("https://X.example:443/b")) == ("https", "x.example", 443)
    assert (
        url_origin(parse_target("http://x.example/")) != url_origin(parse_target("https://x.example/")) != url_origin(parse_target("https://x.example:8443/"))
    )


def test_texts_for_people_have_nothing_of_what_stands_behind_the_question_mark() -> None:
    assert displayed_url(parse_target("https://x.example/a?token=1")) == "https://x.example/a"
    assert displayed_url(parse_target("https://x.example/secret/path"), whole=False) == "https://x.example/…"
