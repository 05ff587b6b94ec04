"""Claims about reading documents: operations and what belongs to them, and refusals of what is not as OpenAPI says, with its place."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.api.openapi_document import openapi_document
from perdure.definitions.kinds.openapi.api_description import DOCUMENT_BYTES_MAX, OpenapiDocument
from perdure.definitions.kinds.openapi.openapi_errors import DocumentRefused, OperationRefused
from perdure.definitions.kinds.openapi.operation_request import param_problems
from perdure.definitions.kinds.openapi.operation_response import accepted_types, response_problems
from perdure.definitions.kinds.openapi.operation_schemas import operation_tool
from perdure.operations.operation_table import OPERATIONS
from perdure.operations.route_aliases import ALIASES
from tests.definitions.kinds.openapi.pet_documents import pets, read, with_operation

TASKS = Path(__file__).parents[4] / "src/perdure/tasks/openapi.json"


def test_an_operation_is_found_by_its_id_and_by_its_method_and_path() -> None:
    document = read(pets())
    assert document.operation("getPet") == document.operation("GET /pets/{id}") == document.operation("get /pets/{id}")
    assert document.operation("PATCH /pets/{id}").label == "PATCH /pets/{id}"
    with pytest.raises(OperationRefused, match=r"has no operation 'listPet'; did you mean 'listPets'?"):
        document.operation("listPet")
    with pytest.raises(OperationRefused, match="has no operation 'xyz'; it has listPets, addPet"):
        document.operation("xyz")


def test_parameters_of_the_path_belong_to_its_operations_unless_they_are_replaced() -> None:
    document = read(pets())
    assert [one.qualified for one in document.operation("getPet").parameters] == ["path.id", "header.X-Trace"]
    assert [one.qualified for one in document.operation("deletePet").parameters] == ["path.id", "header.X-Trace", "query.id"]
    replaced = with_operation({"parameters": [{"name": "a", "in": "query", "required": True}]})
    replaced["paths"]["/x"]["parameters"] = [{"name": "a", "in": "query"}, {"name": "Authorization", "in": "header"}]
    (only,) = read(replaced).operation("GET /x").parameters
    assert only.required and only.style == "form" and only.explode


def test_yaml_is_read_as_json_is() -> None:
    document = OpenapiDocument.read("x", "openapi: 3.1.0\npaths:\n  /a:\n    get:\n      operationId: a\n      responses: {200: {description: ok}}\n")
    assert document.version == "3.1" and document.response(document.operation("a"), 200) is not None


def test_a_response_is_that_of_the_status_of_its_class_or_the_default() -> None:
    operation = {"operationId": "a", "responses": {"404": {"x": 1}, "4XX": {"x": 2}, "default": {"x": 3}}}
    document = read(with_operation(operation))
    found = [document.response(document.operation("a"), status) for status in (404, 409, 500)]
    assert [one and one[0]["x"] for one in found] == [1, 2, 3]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not a mapping"),
        ("[]", "not a mapping"),
        ("{", "can't be read"),
        ("{}", "says no version"),
        ('{"swagger": "2.0"}', "says Swagger 2.0; convert it"),
        ('{"openapi": "3.2.0"}', r"at /openapi: it has to be of OpenAPI 3.0 or 3.1, and says '3.2.0'"),
        ('{"openapi": 3.0}', "says 3.0"),
        (b"\xff", "not UTF-8"),
        ('{"openapi": "3.0.0", "a": ' + "[" * 200 + "]" * 200 + "}", "nested more than 100 deep"),
        ('{"openapi": "3.0.0", "openapi": "3.0.1"}', "occurs twice"),
        ("openapi: &a [*a]", "inside of the value that it names"),
        ("a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b, *b]\nopenapi: !!python/object:os.system x", "can't be read"),
    ],
)
def test_what_is_no_document_is_refused(text: str | bytes, why: str) -> None:
    with pytest.raises(DocumentRefused, match=why):
        OpenapiDocument.read("it", text)


def test_aliases_count_in_full_against_the_bounds() -> None:
    laughs = ["openapi: 3.0.0", "a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    laughs += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(DocumentRefused, match="holds more than 1,000,000 values"):
        OpenapiDocument.read("it", "\n".join(laughs))


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (pets(paths=[]), "at /paths: this has to be a mapping"),
        (pets(paths={"/pets": 5}), "at /paths/~1pets: this has to be a mapping"),
        (with_operation({"operationId": "getPet", "parameters": {}}), "parameters: this has to be a list"),
        (with_operation({"operationId": "getPet", "parameters": [5]}), "parameters/0: this has to be a mapping"),
        (with_operation({"operationId": "getPet", "parameters": [{"in": "query"}]}), "a parameter has a name"),
        (with_operation({"operationId": "getPet", "parameters": [{"name": "x", "in": "body"}]}), "in one of path, query, header, cookie"),
        (with_operation({"operationId": "getPet", "parameters": [{"name": "x", "in": []}]}), "in one of path, query, header, cookie"),
        (with_operation({"operationId": "getPet", "parameters": [{"name": "x", "in": "path", "style": "form"}]}), "styles simple, label, matrix"),
        (with_operation({"operationId": "getPet", "parameters": [{"$ref": "other.json#/x"}]}), "leads out of the document"),
        (with_operation({"operationId": "getPet", "parameters": [{"$ref": "https://evil.example/x"}]}), "leads out of the document"),
        (with_operation({"operationId": "getPet", "parameters": [{"$ref": "file:///etc/passwd"}]}), "leads out of the document"),
        (with_operation({"operationId": "getPet", "parameters": [{"$ref": "#/a"}]}), "leads to nothing"),
        (with_operation({"operationId": "getPet", "parameters": [{"$ref": "#a"}]}), "is not a path such as"),
        (with_operation({"operationId": "getPet", "parameters": [{"$ref": 5}]}), "a \\$ref is text"),
        (with_operation({"operationId": "getPet", "parameters": [{"$ref": "#/a"}]}, a={"$ref": "#/b"}, b={"$ref": "#/a"}), "more than 50 references"),
        (with_operation({"operationId": "getPet", "requestBody": "x"}), "requestBody: this has to be a mapping"),
        (with_operation({"operationId": "getPet", "requestBody": {"content": {"a/b": 1}}}), "content/a~1b: this has to be a mapping"),
        (with_operation({"operationId": "getPet", "servers": {}}), "servers: this has to be a list"),
        (with_operation({"operationId": "getPet", "responses": 5}), "responses: this has to be a mapping"),
    ],
)
def test_what_is_not_as_openapi_says_is_refused_with_its_place(document: Any, why: str) -> None:
    with pytest.raises(DocumentRefused, match=why):
        read(document).operation("getPet")


def test_an_id_of_several_operations_names_none_of_them() -> None:
    document = read({"openapi": "3.0.0", "paths": {"/a": {"get": {"operationId": "x"}}, "/b": {"put": {"operationId": "x"}}}})
    with pytest.raises(OperationRefused, match="several operations of the id x: GET /a and PUT /b; name it by its method and path"):
        document.operation("x")


NAMES = ("get", "parameters", "name", "in", "schema", "$ref", "content", "responses", "200", "type", "items", "properties", "required", "allOf", "default", "x")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.slow
@given(item=JSON, components=JSON, params=JSON)
def test_whatever_a_document_holds_the_only_errors_are_refusals(item: Any, components: Any, params: Any) -> None:
    try:
        document = read({"openapi": "3.0.0", "paths": {"/x": item}, "components": components, "x": components})
        operation = document.operation("GET /x")
        list(param_problems(document, operation, params, is_final=True))
        accepted_types(document, operation)
        list(response_problems(document, operation, {"status": 200, "headers": {"content-type": "application/json"}, "body": params}))
        operation_tool(document, "GET /x")
    except (DocumentRefused, OperationRefused):
        pass


def test_the_documents_of_perdure_itself_are_read() -> None:
    for text in (TASKS.read_text(encoding="utf-8"), json.dumps(openapi_document(OPERATIONS, ALIASES))):
        document = OpenapiDocument.read("it", text)
        for method, path in document._places[1]:
            operation = document.operation(f"{method} {path}")
            assert accepted_types(document, operation) is not None and operation_tool(document, f"{method} {path}").name


@pytest.mark.slow
def test_a_document_of_five_megabytes_is_read_and_a_larger_one_is_not() -> None:
    paths = {f"/p{n}": {"get": {"operationId": f"op{n}", "description": "x" * 200, "responses": {"200": {"description": "ok"}}}} for n in range(15_000)}
    text = json.dumps({"openapi": "3.0.0", "paths": paths})
    assert 4_000_000 < len(text) < DOCUMENT_BYTES_MAX
    began_s = time.process_time()
    assert OpenapiDocument.read("it", text).operation("op14999").path == "/p14999"
    assert time.process_time() - began_s < 10
    with pytest.raises(DocumentRefused, match="larger than 5,000,000 bytes"):
        OpenapiDocument.read("it", text + " " * DOCUMENT_BYTES_MAX)
