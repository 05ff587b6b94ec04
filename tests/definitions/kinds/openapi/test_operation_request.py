"""Claims about requests: every value is checked by the document's schema, and stands where the document says, whatever is in it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.definitions.kinds.http import http_request
from perdure.definitions.kinds.openapi.openapi_errors import DocumentRefused, OperationRefused
from perdure.definitions.kinds.openapi.operation_request import operation_values, param_problems, request_config, server_url
from tests.definitions.kinds.openapi.pet_documents import pets, read, with_operation

PETS = read(pets())


def config(operation: str, **params: Any) -> dict[str, Any]:
    found = PETS.operation(operation)
    return request_config(PETS, found, "https://pets.example/v1/", operation_values(PETS, found, params))


def problems(operation: str, params: Any, is_final: bool = True) -> list[str]:
    return [f"{where} {what}" for where, what in param_problems(PETS, PETS.operation(operation), params, is_final)]


@pytest.mark.parametrize(
    ("params", "query"),
    [
        ({"form": "a b&c=d#e/é"}, "form=a%20b%26c%3Dd%23e%2F%C3%A9"),
        ({"form": [1, True, "x,y"]}, "form=1&form=true&form=x%2Cy"),
        ({"form": {"a&": 1, "b": "c=d"}}, "a%26=1&b=c%3Dd"),
        ({"form": []}, ""),
        ({"form": None}, ""),
        ({"short": [1, "a,b"]}, "short=1,a%2Cb"),
        ({"short": {"a": 1, "b": 2}}, "short=a,1,b,2"),
        ({"piped": [1, 2]}, "piped=1%7C2"),
        ({"spaced": [1, 2]}, "spaced=1%202"),
        ({"deep": {"a": 1, "b": {"c": [2, 3]}}}, "deep%5Ba%5D=1&deep%5Bb%5D%5Bc%5D=2&deep%5Bb%5D%5Bc%5D=3"),
        ({"path": "/a/b?c&d=e#f+g"}, "path=/a/b?c%26d%3De%23f%2Bg"),
        ({"json": {"a": [1, "é"]}}, "json=%7B%22a%22%3A%5B1%2C%22%C3%A9%22%5D%7D"),
        ({"form": 1.5, "query.short": 2}, "form=1.5&short=2"),
    ],
)
def test_query_parameters_are_written_in_their_styles(params: dict[str, Any], query: str) -> None:
    assert config("styles", **params)["url"] == f"https://pets.example/v1/styles{'?' * bool(query)}{query}"


@pytest.mark.parametrize(
    ("style", "explode", "value", "path"),
    [
        ("simple", False, "a/b", "a%2Fb"),
        ("simple", False, ["a", "b,c"], "a,b%2Cc"),
        ("simple", False, {"a": 1, "b": 2}, "a,1,b,2"),
        ("simple", True, {"a": 1, "b": 2}, "a=1,b=2"),
        ("label", False, ["a", "b"], ".a,b"),
        ("label", True, ["a", "b"], ".a.b"),
        ("matrix", False, "x", ";v=x"),
        ("matrix", False, ["a", "b"], ";v=a,b"),
        ("matrix", True, ["a", "b"], ";v=a;v=b"),
        ("matrix", True, {"a": 1}, ";a=1"),
    ],
)
def test_path_parameters_are_written_in_their_styles(style: str, explode: bool, value: Any, path: str) -> None:
    parameter = {"name": "v", "in": "path", "required": True, "style": style, "explode": explode}
    document = read(with_operation({"parameters": [parameter]}, "/a/{v}"))
    operation = document.operation("GET /a/{v}")
    found = request_config(document, operation, "https://x.example", operation_values(document, operation, {"v": value}))
    assert found["url"] == f"https://x.example/a/{path}"


def test_headers_and_cookies_are_written_in_their_styles() -> None:
    found = config("styles", **{"X-List": [1, "a"], "X-Object": {"a": 1, "b": 2}, "session": "a;b c"})["headers"]
    assert found == {"X-List": "1,a", "X-Object": "a=1,b=2", "Cookie": "session=a%3Bb%20c"}


@pytest.mark.parametrize("name", ["..", ".", "", [], "%2e%2e/..", "../../admin", "..\\..", "a/../b", "\u2025", "x\0y"])
def test_no_value_leads_to_another_path(name: Any) -> None:
    if name in ("..", ".", "", []):
        with pytest.raises(OperationRefused, match=r"leads to another path|it is empty"):
            config("getFile", name=name)
        return
    url = http_request.build_request(config("getFile", name=name), None).url
    assert url.raw_path.startswith(b"/v1/files/") and url.raw_path.count(b"/") == 3


@given(st.text(max_size=20))
def test_no_text_adds_a_segment_a_parameter_a_header_or_a_line(text: str) -> None:
    try:
        fields = config("getFile", name=text)
    except OperationRefused:
        assert text in (".", "..", "") or not text.isascii()
    else:
        assert fields["url"].removeprefix("https://pets.example/v1/files/").isascii() and not set(fields["url"][30:]) & set("/?#&\\ \r\n")
    params = {"form": text, "session": text, "X-List": text}
    if not text.isascii() or not text.replace("\t", "").isprintable():
        with pytest.raises(OperationRefused, match=r"one line of ASCII|UTF-8"):
            config("styles", **params)
        return
    fields = config("styles", **params)
    assert fields["url"].count("=") == 1 and "&" not in fields["url"] and ";" not in fields["headers"]["Cookie"]
    assert "\n" not in fields["headers"]["X-List"] and "\r" not in fields["headers"]["X-List"]


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "\u2028", "é", ["a\r\n"], {"a": "\r"}])
def test_a_header_is_one_line_of_ascii(value: Any) -> None:
    with pytest.raises(OperationRefused, match=r"openapi\.params\.X-List: X-List can't be sent in the header: a header is one line of ASCII"):
        config("styles", **{"X-List": value})


@pytest.mark.parametrize(
    ("operation", "params", "why"),
    [
        ("listPets", {}, "/params kind is missing, which listPets (GET /pets) requires in its query: one of cat, dog"),
        ("listPets", {"kind": "bird"}, '/params/kind kind does not fit listPets (GET /pets): at the top: "bird" is not one of '),
        ("listPets", {"kind": "cat", "limit": "5"}, '/params/limit limit does not fit listPets (GET /pets): at the top: "5" is not of type "integer"'),
        ("listPets", {"kind": "cat", "limit": 101}, "is greater than the maximum of 100"),
        ("listPets", {"kind": "cat", "limt": 5}, "/params/limt 'limt' is no parameter of listPets (GET /pets); did you mean 'limit'?"),
        ("listPets", {"kind": "cat", "body": 5}, "'body' is no parameter of listPets (GET /pets); it has kind, limit"),
        ("listPets", {"kind": None}, "null is not one of"),
        ("listPets", [], "/params the parameters are a mapping"),
        ("getPet", {}, "/params id is missing, which getPet (GET /pets/{id}) requires in its path: integer"),
        ("deletePet", {"id": 5}, "id is several parameters of deletePet (DELETE /pets/{id}); name one as path.id or query.id"),
        ("addPet", {}, "body is missing, which addPet (POST /pets) requires: application/json"),
        ("addPet", {"body": {"tag": "x"}}, '"name" is a required property'),
        ("addPet", {"body": {"name": "x", "parent": {"name": 5}}}, 'at parent/name: 5 is not of type "string"'),
        ("login", {"body": {}}, '"user" is a required property'),
    ],
)
def test_what_does_not_fit_is_told_with_the_parameter_and_what_was_expected(operation: str, params: Any, why: str) -> None:
    assert any(why in one for one in problems(operation, params)), problems(operation, params)


def test_what_fits_is_no_problem() -> None:
    assert not problems("deletePet", {"path.id": 5, "query.id": "x"})
    assert not problems("addPet", {"body": {"name": "x", "tag": None, "parent": {"name": "y"}}}), "id is read only, and a tag may be null"
    assert not problems("listPets", {"kind": "cat", "limit": None}), "null is as if it was left out"


def test_references_are_not_checked_before_they_are_values() -> None:
    assert not problems("listPets", {"kind": "@input.kind", "limit": "@{a.b}"}, is_final=False)
    assert not problems("addPet", {"body": {"name": "@input.name"}}, is_final=False) and problems("listPets", {"kind": "@x"})
    assert "limt" in problems("listPets", {"kind": "@input.kind", "limt": "@a"}, is_final=False)[0]


def test_a_required_parameter_that_is_not_given_has_its_default() -> None:
    parameter = {"name": "v", "in": "query", "required": True, "schema": {"type": "string", "default": "1"}}
    document = read(with_operation({"parameters": [parameter, {"name": "w", "in": "query", "schema": {"default": 2}}]}))
    operation = document.operation("GET /x")
    assert request_config(document, operation, "https://x", operation_values(document, operation, {}))["url"] == "https://x/x?v=1"


def test_bodies_are_sent_in_the_content_type_of_the_document() -> None:
    assert config("addPet", body={"name": "x"})["json"] == {"name": "x"}
    patch = config("PATCH /pets/{id}", id=1, body={"tag": None})
    assert patch["json"] == {"tag": None} and patch["headers"]["Content-Type"] == "application/merge-patch+json"
    assert config("login", body={"user": "a", "scopes": ["b", "c"]})["form"] == {"user": "a", "scopes": ["b", "c"]}
    uploaded = config("upload", name="x", body={"title": "t", "file": {"content": "a,b", "filename": "x.csv"}, "more": {"a": 1}})
    assert uploaded["form"] == {"title": "t", "more": '{"a":1}'}
    assert uploaded["files"] == {"file": {"content": "a,b", "filename": "x.csv", "type": "text/csv"}}
    raw = http_request.build_request(config("upload", name="x", body={"file": {"base64": "AAE="}}), None).content
    assert raw.type.startswith("multipart/form-data") and b"\0\1" in raw.content and b"text/csv" in raw.content
    with pytest.raises(OperationRefused, match="file has bytes"):
        config("login", body={"user": "a", "file": {"base64": "AAE="}})
    with pytest.raises(OperationRefused, match="more has bytes"):
        config("upload", name="x", body={"more": [{"base64": "AAE="}]})


SERVER = {
    "url": "https://{region}.x.example:{port}/{base}",
    "variables": {"region": {"default": "eu", "enum": ["eu", "us"]}, "port": {"default": "8443"}, "base": {"default": "v2"}},
}


def url(servers: Any, address: str = "https://docs.example/a/openapi.json", **variables: Any) -> str:
    document = read(with_operation({"servers": servers} if servers is not None else {}))
    return server_url(document, document.operation("GET /x"), address, variables)


def test_a_server_is_the_first_of_the_nearest_with_its_variables() -> None:
    assert url([SERVER, {"url": "x"}]) == "https://eu.x.example:8443/v2"
    assert url([SERVER], region="us", port=443, base="v3") == "https://us.x.example/v3"
    assert url([{"url": "../v2"}]) == "https://docs.example/v2" and url([{"url": "//api.example/x"}]) == "https://api.example/x"
    assert url(None) == url([]) == "https://docs.example/"


@pytest.mark.parametrize(
    ("servers", "variables", "why"),
    [
        ([SERVER], {"region": "evil.example/"}, "region is one of eu, us"),
        ([SERVER], {"base": "a/../.."}, "letters, digits, dots and hyphens"),
        ([SERVER], {"base": ".."}, "letters, digits, dots and hyphens"),
        ([SERVER], {"port": "1@evil.example"}, "letters, digits, dots and hyphens"),
        ([SERVER], {"regoin": "eu"}, "no variable 'regoin'; did you mean 'region'"),
        ([{"url": "https://{x}.example"}], {}, "the server has no variable 'x'"),
        ([{"url": "https://{x}.example", "variables": {"x": {}}}], {}, "x is missing"),
        ([{"url": "ftp://x.example"}], {}, "can't be used"),
        ([{"url": "https://user:password@x.example"}], {}, "no user and password"),
        ([{"url": "https://x.example?a=b"}], {}, "has no query"),
        ([{}], {}, "a server has a url"),
        ([5], {}, "a server has a url"),
    ],
)
def test_a_server_that_is_none_is_refused(servers: Any, variables: dict[str, Any], why: str) -> None:
    with pytest.raises((DocumentRefused, OperationRefused), match=why):
        url(servers, **variables)


def test_a_file_needs_a_server() -> None:
    with pytest.raises(DocumentRefused, match="give the auth profile a `server`, as the document has only a path"):
        url([{"url": "/v1"}], address="")


def test_a_path_with_a_variable_that_is_no_parameter_is_refused() -> None:
    document = read(with_operation({}, "/a/{b}"))
    operation = document.operation("GET /a/{b}")
    with pytest.raises(OperationRefused, match="no path parameter 'b'"):
        request_config(document, operation, "https://x", operation_values(document, operation, {}))


def test_the_same_parameters_give_the_same_bytes() -> None:
    one, two = (http_request.build_request(config("upload", name="x", body={"title": "t", "file": "abc"}), None) for _ in range(2))
    assert one == two and json.dumps(config("styles", form=[1, 2])) == json.dumps(config("styles", form=[1, 2]))
