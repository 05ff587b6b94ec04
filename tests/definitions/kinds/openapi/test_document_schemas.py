"""Claims about schemas of documents: they stand alone, mean what OpenAPI means, and none is too much for the checker."""

import time
from typing import Any

import pytest

from perdure.core.errors import BadExpression
from perdure.definitions.kinds.openapi.document_schemas import PARTS_MAX, Side, value_problems
from perdure.definitions.kinds.openapi.openapi_errors import DocumentRefused
from perdure.definitions.kinds.openapi.operation_request import param_problems
from perdure.definitions.kinds.openapi.operation_schemas import operation_tool
from tests.definitions.kinds.openapi.pet_documents import PET, pets, read, with_operation


def fits(schema: Any, value: Any, side: Side = "request", version: str = "3.0.0", **schemas: Any) -> bool:
    document = read({"openapi": version, "components": {"schemas": schemas}})
    return not value_problems(document, side, schema, "/here", value)


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "string", "nullable": True}, None, 5),
        ({"type": "string", "enum": ["a"], "nullable": True}, None, "b"),
        ({"allOf": [{"type": "string"}], "nullable": True}, None, 5),
        ({"type": "number", "minimum": 1, "exclusiveMinimum": True}, 1.5, 1),
        ({"type": "number", "maximum": 1, "exclusiveMaximum": False}, 1, 2),
        ({"type": "object", "properties": {"pattern": {"type": "string"}, "$ref": {}, "nullable": {"type": "integer"}}}, {"nullable": 1}, {"pattern": 5}),
        ({"type": "string", "pattern": "^(?!x)"}, "y", 5),
        ({"type": "string", "example": {"$ref": "nowhere.json"}, "required": True}, "y", 5),
        ({"not": {"type": "string"}}, 5, "x"),
        ({"type": "array", "items": {"$ref": "#/components/schemas/Pet"}}, [{"name": "a"}], [{}]),
        ({"$ref": "#/components/schemas/Pet/properties/name"}, "a", 5),
    ],
)
def test_a_schema_of_3_0_means_what_openapi_says(schema: Any, good: Any, bad: Any) -> None:
    assert fits(schema, good, Pet=PET) and not fits(schema, bad, Pet=PET)


def test_a_schema_of_3_1_is_json_schema() -> None:
    assert fits({"type": ["string", "null"], "exclusiveMinimum": 5}, None, version="3.1.0")
    named = {"$ref": "#/components/schemas/A", "maxLength": 1}
    assert not fits(named, "ab", version="3.1.0", A={"type": "string"}) and fits(named, "a", version="3.1.0", A={"type": "string"})
    assert fits(True, 5, version="3.1.0") and not fits(False, 5, version="3.1.0")


def test_what_is_for_the_other_side_alone_is_not_required() -> None:
    schema = {"type": "object", "required": ["id", "key"], "properties": {"id": {"readOnly": True}, "key": {"$ref": "#/components/schemas/K"}}}
    assert fits(schema, {"key": 1}, K={"writeOnly": True}) and not fits(schema, {"id": 1}, K={"writeOnly": True})
    assert fits(schema, {"id": 1}, "response", K={"writeOnly": True}) and not fits(schema, {"key": 1}, "response", K={"writeOnly": True})


def test_cycles_of_references_are_followed_as_far_as_the_value_goes() -> None:
    one, two = (
        {"properties": {"next": {"$ref": "#/components/schemas/B"}}},
        {"properties": {"next": {"$ref": "#/components/schemas/A"}, "n": {"type": "integer"}}},
    )
    assert fits({"$ref": "#/components/schemas/A"}, {"next": {"next": {"next": {"n": 1}}}}, A=one, B=two)
    assert not fits({"$ref": "#/components/schemas/A"}, {"next": {"next": {"next": {"n": "x"}}}}, A=one, B=two)


@pytest.mark.parametrize("reference", ["other.json", "https://evil.example/x.json#/a", "file:///etc/passwd", "#/nowhere", "#anchor", 5, None, ["#"]])
def test_a_reference_that_leads_out_of_the_document_is_refused(reference: Any) -> None:
    with pytest.raises(DocumentRefused):
        fits({"properties": {"a": {"$ref": reference}}}, {})


@pytest.mark.parametrize("schema", [5, "x", [], {"properties": []}, {"allOf": {}}, {"items": 5}])
def test_what_is_no_schema_is_refused(schema: Any) -> None:
    with pytest.raises((DocumentRefused, BadExpression)):
        fits(schema, {})


def test_references_that_multiply_do_not_take_the_checker_away() -> None:
    schemas: dict[str, Any] = {f"L{n}": {"allOf": [{"$ref": f"#/components/schemas/L{n + 1}"}] * 10} for n in range(30)} | {"L30": {"type": "string"}}
    began_s = time.process_time()
    with pytest.raises(BadExpression, match="more than"):
        fits({"$ref": "#/components/schemas/L0"}, 5, **schemas)
    assert time.process_time() - began_s < 5
    document = read(with_operation({"operationId": "x", "parameters": [{"name": "a", "in": "query", "schema": {"$ref": "#/components/schemas/L0"}}]},
                                   components={"schemas": schemas}))  # fmt: skip
    assert not list(param_problems(document, document.operation("x"), {"a": 5}, is_final=True)), "the server checks what can't be checked here"
    assert operation_tool(document, "x").schema["properties"] == {"a": {}}


@pytest.mark.slow
def test_a_schema_of_too_many_parts_is_refused() -> None:
    schemas: dict[str, Any] = {f"S{n}": {"properties": {str(m): {} for m in range(100)}} for n in range(PARTS_MAX // 100 + 10)}
    with pytest.raises(DocumentRefused, match="has more than 100,000 parts"):
        fits({"allOf": [{"$ref": f"#/components/schemas/{name}"} for name in schemas]}, 5, **schemas)


def test_a_tool_has_the_schema_of_its_parameters() -> None:
    tool = operation_tool(read(pets()), "addPet")
    assert (tool.name, tool.description, tool.operation, tool.repeats) == ("addPet", "addPet (POST /pets)", "POST /pets", False)
    assert tool.schema["required"] == ["body"] and tool.schema["properties"]["body"] == {"$ref": "#/$defs/Pet"} and set(tool.schema["$defs"]) == {"Pet"}
    tool = operation_tool(read(pets()), "PATCH /pets/{id}")
    assert tool.name == "PATCH_pets_id" and list(tool.schema["properties"]) == ["id", "X-Trace", "body"]
    assert list(operation_tool(read(pets()), "deletePet").schema["properties"]) == ["path.id", "query.id", "X-Trace"]
