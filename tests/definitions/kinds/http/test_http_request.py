"""Claims about what is wanted: any config is a request, or it is said clearly why it is none."""

import base64
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.definitions.kinds.http.http_errors import RequestError
from perdure.definitions.kinds.http.http_request import FIELD_READERS, build_request, check_request, is_repeatable
from perdure.dialects import definition_reader

URL = "https://x.example/a"


@pytest.mark.parametrize(
    ("fields", "type", "content"),
    [
        ({"body": "ä"}, "text/plain; charset=utf-8", "ä".encode()),
        ({"body": {"base64": base64.b64encode(b"\0\xff").decode()}}, "application/octet-stream", b"\0\xff"),
        ({"body": {"a": [1, None, "ä"]}}, "application/json", '{"a":[1,null,"ä"]}'.encode()),
        ({"body": [1]}, "application/json", b"[1]"),
        ({"body": None}, "", b""),
        ({"json": "text"}, "application/json", b'"text"'),
        ({"json": None}, "application/json", b"null"),
        ({"json": {"base64": "AA=="}}, "application/json", b'{"base64":"AA=="}'),
        ({"form": {"a": 1, "b": ["x y", True], "c": None}}, "application/x-www-form-urlencoded", b"a=1&b=x+y&b=true"),
        ({}, "", b""),
    ],
)
def test_what_is_sent_has_the_type_of_its_field(fields: Any, type: str, content: bytes) -> None:
    assert build_request({"url": URL, **fields}, None).content == (content, type)


def test_files_are_sent_with_the_fields_of_the_form_and_are_the_same_bytes_each_time() -> None:
    files = {"cv": {"content": {"base64": "AP8="}, "filename": 'a"b.pdf'}, "note": "text\r\n", "data": {"content": {"a": 1}, "type": "application/json"}}
    fields = {"url": URL, "method": "POST", "form": {"name": "Ada"}, "files": files}
    content, kind = build_request(fields, None).content
    line = kind.removeprefix("multipart/form-data; boundary=")
    parts = [part.removesuffix("\r\n") for part in content.decode("latin-1").split(f"--{line}")][1:-1]
    assert parts == [
        '\r\nContent-Disposition: form-data; name="name"\r\n\r\nAda',
        '\r\nContent-Disposition: form-data; name="cv"; filename="a%22b.pdf"\r\nContent-Type: application/pdf\r\n\r\n\0\xff',
        '\r\nContent-Disposition: form-data; name="note"; filename="note"\r\nContent-Type: application/octet-stream\r\n\r\ntext\r\n',
        '\r\nContent-Disposition: form-data; name="data"; filename="data"\r\nContent-Type: application/json\r\n\r\n{"a":1}',
    ]
    assert content.endswith(f"--{line}--\r\n".encode()) and build_request(fields, None).content == (content, kind)


def test_a_query_is_added_to_what_the_url_has() -> None:
    query = {"a": ["x y", 2], "b": True, "c": None, "ä": "&="}
    assert str(build_request({"url": f"{URL}?z=1#here", "query": query}, None).url) == f"{URL}?z=1&a=x%20y&a=2&b=true&%C3%A4=%26%3D"
    assert str(build_request({"url": URL, "query": {}}, None).url) == URL


def test_input_is_laid_over_the_config_one_header_and_field_at_a_time() -> None:
    config = {"url": URL, "method": "POST", "headers": {"A": "1", "B": "2"}, "form": {"user": "ada", "password": "?"}}
    found = build_request(config, {"headers": {"B": "3"}, "form": {"password": "hush"}})
    assert found.headers == (("A", "1"), ("B", "3")) and found.content.content == b"user=ada&password=hush"
    assert build_request({"url": URL, "json": {"a": 1}}, {"json": {"b": 2}}).content.content == b'{"b":2}'


def test_a_url_in_the_input_is_not_shown_and_leads_to_whom_the_config_says() -> None:
    found = build_request({"url": "https://hooks.example"}, {"url": "https://hooks.example/T/SECRET"})
    assert str(found.url).endswith("/T/SECRET") and found.secret == "url"
    for elsewhere in ("https://evil.example/T", "http://hooks.example/T", "https://hooks.example:444/"):
        with pytest.raises(RequestError, match="another scheme, host or port") as refused:
            build_request({"url": "https://hooks.example"}, {"url": elsewhere})
        assert elsewhere not in str(refused.value)


@pytest.mark.parametrize("config", [{"url": "https://hooks.example"}, None])
@pytest.mark.parametrize("url", ["hush", "hush:hush", "http://hush:port", "http://hush@x.example", 5, "http://HUSH."])
def test_of_a_url_in_the_input_that_is_none_nothing_is_shown(config: Any, url: Any) -> None:
    with pytest.raises(RequestError, match="not a URL that a request may go to") as refused:
        build_request(config, {"url": url})
    assert "hush" not in str(refused.value).lower()


def test_without_a_config_the_input_is_all_there_is() -> None:
    found = build_request(None, {"url": URL, "method": "delete", "accept": "any"})
    assert (found.method, found.accept, str(found.url), found.secret) == ("DELETE", None, URL, "url")


@pytest.mark.parametrize("name", ["method", "accept", "as", "redirects", "max_bytes", "idempotency_key"])
def test_beside_a_config_the_input_does_not_change_what_may_be_done_twice(name: str) -> None:
    with pytest.raises(RequestError, match="can't stand in `with`"):
        build_request({"url": URL}, {name: "POST"})


WRONG = [
    ({}, "", "url is missing"),
    ({"url": "x"}, "/url", "http://"),
    ({"url": 5}, "/url", "text"),
    ({"url": URL, "method": "CONNECT"}, "/method", "GET, HEAD"),
    ({"url": URL, "method": "Ge t"}, "/method", "GET, HEAD"),
    ({"url": URL, "methud": "GET"}, "/methud", "no field"),
    ({"url": URL, "body": "x", "json": 1}, "/json", "body and json"),
    ({"url": URL, "form": {}, "json": 1}, "/form", "json and form"),
    ({"url": URL, "body": "x", "files": {}}, "/files", "body and files"),
    ({"url": URL, "method": "TRACE", "body": "x"}, "/body", "TRACE sends nothing"),
    ({"url": URL, "body": {"base64": "?"}}, "/body/base64", "not base64"),
    ({"url": URL, "body": {"base64": 5}}, "/body/base64", "is text"),
    ({"url": URL, "json": float("nan")}, "/json", "JSON"),
    ({"url": URL, "form": {"a": {"b": 1}}}, "/form/a", "text, a number"),
    ({"url": URL, "form": []}, "/form", "mapping"),
    ({"url": URL, "files": {"a": {"filename": "x"}}}, "/files/a", "content is missing"),
    ({"url": URL, "files": {"a": {"content": "x", "type": "a\r\nb: c"}}}, "/files/a", "one line"),
    ({"url": URL, "files": {"a": {"content": "x", "mode": 5}}}, "/files/a", "mode"),
    ({"url": URL, "query": {"a": [[1]]}}, "/query/a", "text, a number"),
    ({"url": URL, "headers": []}, "/headers", "mapping"),
    ({"url": URL, "headers": {"a b": "c"}}, "/headers", "letters"),
    ({"url": URL, "headers": {"A": "x\r\nB: y"}}, "/headers/A", "one line"),
    ({"url": URL, "headers": {"A": "ä"}}, "/headers/A", "ASCII"),
    ({"url": URL, "headers": {"Host": "y"}}, "/headers/Host", "follows from the request"),
    ({"url": URL, "headers": {"content-length": 5}}, "/headers/content-length", "follows from the request"),
    ({"url": URL, "as": "yaml"}, "/as", "json, text, csv, lines, xml, base64"),
    ({"url": URL, "accept": "all"}, "/accept", "any, or a list"),
    ({"url": URL, "accept": [200]}, "/accept", "any, or a list"),
    ({"url": URL, "accept": ["404"]}, "/accept", "any, or a list"),
    ({"url": URL, "redirects": -1}, "/redirects", "from 0 to 20"),
    ({"url": URL, "redirects": True}, "/redirects", "from 0 to 20"),
    ({"url": URL, "redirects": 21}, "/redirects", "from 0 to 20"),
    ({"url": URL, "max_bytes": 0}, "/max_bytes", "from 1 to 16,000,000"),
    ({"url": URL, "max_bytes": 16_000_001}, "/max_bytes", "from 1 to 16,000,000"),
    ({"url": URL, "idempotency_key": 1}, "/idempotency_key", "true, false"),
]


@pytest.mark.parametrize(("config", "where", "what"), WRONG)
def test_what_is_wrong_is_told_when_it_is_checked_and_when_it_is_sent(config: Any, where: str, what: str) -> None:
    found = list(check_request(config))
    assert [one for one, _ in found] == [where] and what in found[0][1]
    with pytest.raises(RequestError, match=what.replace("(", r"\(")) as refused:
        build_request(config, None)
    assert refused.value.where == where


def test_of_what_has_references_nothing_is_said_before_they_are_resolved() -> None:
    config = {"url": "@input.url", "method": "@{input.how}", "headers": {"A": "Bearer @{secrets.A}"}, "body": {"base64": "@a.body.base64"}}
    assert list(check_request(config)) == [] and list(check_request("@input.url")) == [] and list(check_request(5)) == []
    assert [where for where, _ in check_request({**config, "redirects": -1, "json": 1})] == ["/json", "/redirects"]


def test_no_environment_is_sent() -> None:
    with pytest.raises(RequestError, match="no environment"):
        build_request({"url": URL}, None, {"A": "b"})


@pytest.mark.parametrize(
    ("config", "may"),
    [({"url": URL}, True), (URL, True), *(({"url": URL, "method": name}, True) for name in ("HEAD", "OPTIONS", "TRACE", "PUT", "delete")),
     ({"url": URL, "method": "POST"}, False), ({"url": URL, "method": "patch"}, False), ({"url": URL, "method": 5}, False), (None, False)],
)  # fmt: skip
def test_what_is_done_twice_is_done_once_by_the_methods_that_say_so(config: Any, may: bool) -> None:
    assert is_repeatable(config) is may


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from([URL, "POST", "any", "json"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["base64", "content", "type", "a"]) | st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.dictionaries(st.sampled_from([*FIELD_READERS, "other"]), PLAIN, max_size=5)
ANY = PLAIN | FIELDS | FIELDS.map(lambda fields: {**fields, "url": URL})


@pytest.mark.slow
@settings(deadline=None)
@given(ANY, ANY, st.none() | PLAIN)
def test_any_config_is_a_request_or_a_clear_error(config: Any, given: Any, env: Any) -> None:
    for _, what in check_request(config):
        assert what
    assert is_repeatable(config) in (True, False)
    try:
        found = build_request(config, given, env)
    except RequestError:
        return
    assert found.url.host and found.method.isupper() and isinstance(found.content.content, bytes)
    assert all(f"{name}{value}".isascii() and "\r" not in value and "\n" not in value for name, value in found.headers)


@pytest.mark.parametrize(
    ("http", "canonical"),
    [
        ({"url": URL, "method": "GET"}, {"url": URL, "method": "GET"}),
        ({"url": URL, "accept": 404, "redirects": 5, "max_bytes": 10_000_000, "idempotency_key": True}, {"url": URL, "accept": [404]}),
        ({"url": URL, "accept": "any", "redirects": 0}, {"url": URL, "accept": "any", "redirects": 0}),
        ({"url": URL, "files": {"a": "x", "b": {"content": "x"}}}, {"url": URL, "files": {"a": {"content": "x"}, "b": {"content": "x"}}}),
        (URL, {"url": URL}),
    ],
)  # fmt: skip
def test_the_canonical_form_is_the_same_request(http: Any, canonical: Any) -> None:
    read = definition_reader.read_definition({"perdure": 1, "name": "it", "steps": [{"id": "a", "http": http}]}, "")
    assert read.canonical["steps"] == [{"id": "a", "http": canonical}]
    assert build_request(canonical, None) == build_request(http, None)


@pytest.mark.parametrize(
    "http",
    [{"url": URL, "methud": "GET"}, {"url": URL, "method": "FETCH"}, {"url": URL, "query": {"a": "@secrets.A"}}, {"url": URL, "max_bytes": -1}, {"body": "x"}],
)
def test_a_definition_with_another_field_is_refused(http: Any) -> None:
    with pytest.raises(Exception, match=r"steps\[0\] \(a\)|steps\[0\]\.http"):
        definition_reader.read_definition({"perdure": 1, "name": "it", "steps": [{"id": "a", "http": http}]}, "")
