"""JSON Schema: nothing is fetched, patterns take time in proportion, and what is no schema is refused."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from perdure.core.errors import BadExpression
from perdure.definitions.expr.json_schema import compile_schema, find_problems, schema_problems


def test_a_value_fits_or_it_is_said_where_not() -> None:
    schema = {"type": "object", "required": ["status"], "properties": {"status": {"const": "success"}, "data": {"type": "array", "minItems": 1}}}
    assert compile_schema(schema).is_valid({"status": "success", "data": [1]})
    assert schema_problems(schema, {"status": "failed", "data": []}) == ['at status: "success" was expected', "at data: [] has less than 1 item"]


def test_the_place_of_a_problem_is_a_pointer_whatever_the_names_are() -> None:
    schema = {"properties": {"at: a/b~c: d": {"items": {"type": "integer"}}}}
    (found,) = find_problems(schema, {"at: a/b~c: d": [1, "x"]})
    assert (found.place, found.text) == ("/at: a~1b~0c: d/1", 'at at: a~1b~0c: d/1: "x" is not of type "integer"')
    assert find_problems({"type": "integer"}, "x")[0].place == ""


@pytest.mark.parametrize("elsewhere", ["http://127.0.0.1:9/schema", "https://example.com/schema", "file:///etc/passwd", "other.json", "urn:x:y"])
def test_what_refers_elsewhere_is_refused_and_never_fetched(elsewhere: str, tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_text(json.dumps({"type": "integer"}))
    for address in (elsewhere, (tmp_path / "schema.json").as_uri()):
        with pytest.raises(BadExpression, match=r"not a JSON Schema: Resource .* is not present"):
            compile_schema({"properties": {"a": {"$ref": address}}})


def test_what_it_refers_to_in_itself_is_found() -> None:
    assert not compile_schema({"$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}}).is_valid("x")


@pytest.mark.parametrize(
    "schema", [{"type": "strung"}, {"$ref": "#/gone"}, {"pattern": "("}, {"pattern": "(?=x)"}, {"minimum": "x"}, {"$schema": "http://x/y"}]
)
def test_what_is_none_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(BadExpression, match="not a JSON Schema") as caught:
        compile_schema(schema)
    assert len(str(caught.value)) < 300


def test_patterns_take_time_in_proportion_to_the_text() -> None:
    began_s = time.process_time()
    assert not compile_schema({"pattern": "^(a+)+$"}).is_valid("a" * 100_000 + "b")
    assert time.process_time() - began_s < 1


def test_integers_and_floats_of_one_value_are_the_same_and_booleans_are_no_numbers() -> None:
    assert compile_schema({"const": 1}).is_valid(1.0)
    assert not compile_schema({"const": 1}).is_valid(True)


def test_it_is_compiled_once() -> None:
    assert compile_schema({"type": "integer", "minimum": 1}) is compile_schema({"minimum": 1, "type": "integer"})


def test_a_problem_with_a_long_enum_is_told_in_a_few_words() -> None:
    (told,) = schema_problems({"enum": ["x" * 100 + str(number) for number in range(5_000)]}, "y")
    assert len(told) < 600 and '"y" is not one of' in told


LISTED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
from perdure.definitions.expr.json_schema import schema_problems
enum = [f"value {number:06d}" for number in range(50_000)]
for schema, value in (
    ({"items": {"enum": enum}}, ["no"] * 20_000),
    ({"anyOf": [{"required": [f"field {number}"]} for number in range(500)]}, {"x": "y" * 5_000_000}),
    ({"type": "object", "properties": {"a": {"enum": enum}}}, {"a": "no"}),
):
    print(*schema_problems(schema, value))
"""


@pytest.mark.slow
def test_a_large_value_that_does_not_fit_a_large_schema_takes_little_time_and_memory() -> None:
    """A list of all problems of the first would take some 50 GB."""
    began_s = time.monotonic()
    ran = subprocess.run([sys.executable, "-c", LISTED], capture_output=True, text=True, check=False, timeout=60)
    first, second, third = ran.stdout.splitlines()
    assert first.startswith('at 0: "no" is not one of') and third.startswith('at a: "no" is not one of'), ran.stderr
    assert second == "somewhere: the value does not fit, and is too large or too deep for this schema to say where; check a part of it"
    assert time.monotonic() - began_s < 20.0


def nested(depth: int, leaf: Any = 5) -> Any:
    value = leaf
    for number in range(depth):
        value = {"a": value, "number": number}
    return value


REF = {"$ref": "#/$defs/n"}
LOOPING: dict[str, dict[str, Any]] = {
    "anyOf": {"anyOf": [{"properties": {"a": REF}, "required": ["a"]}, {"properties": {"a": REF}, "minProperties": 1}]},
    "oneOf": {"oneOf": [{"properties": {"a": REF}, "required": ["x"]}, {"properties": {"a": REF}, "required": ["y"]}]},
    "allOf": {"allOf": [{"properties": {"a": REF}}, {"properties": {"a": REF}, "minProperties": 1}]},
    "other definitions": {"anyOf": [{"$ref": "#/$defs/m"}, {"allOf": [{"$ref": "#/$defs/m"}]}]},
    "patterns": {"anyOf": [{"patternProperties": {"^a": REF}}, {"additionalProperties": REF}]},
    "dynamic": {"$dynamicAnchor": "here", "anyOf": [{"properties": {"a": {"$dynamicRef": "#here"}}}, {"properties": {"a": {"$dynamicRef": "#here"}}}]},
}


@pytest.mark.parametrize("name", LOOPING)
def test_a_schema_that_leads_back_to_itself_by_several_ways_takes_no_more_time_at_each_level(name: str) -> None:
    schema = {"$defs": {"n": {"type": "object", **LOOPING[name]}, "m": {"type": "object", "properties": {"a": REF}}}, **REF}
    began_s = time.process_time()
    for depth in (40, 200):
        assert not compile_schema(schema).is_valid(nested(depth))
        (told,) = schema_problems(schema, nested(depth))
        assert told.startswith("at a/a/" if name == "allOf" else "somewhere: the value does not fit, and is too large or too deep for this schema")
    assert schema_problems(schema, nested(2))[0].startswith("at ")
    assert time.process_time() - began_s < 1


def test_a_schema_whose_definitions_double_again_and_again_is_refused() -> None:
    chain: dict[str, Any] = {f"n{number}": {"anyOf": [{"$ref": f"#/$defs/n{number + 1}"}, {"$ref": f"#/$defs/n{number + 1}"}]} for number in range(26)}
    began_s = time.process_time()
    with pytest.raises(BadExpression, match=r"more than 1,000,000 parts. Refer to each definition from fewer places"):
        compile_schema({"$defs": {**chain, "n26": {"type": "string"}}, "$ref": "#/$defs/n0"})
    assert time.process_time() - began_s < 1


def test_of_a_schema_that_leads_back_to_itself_by_one_way_it_is_said_where_a_value_does_not_fit() -> None:
    tree = {"$defs": {"n": {"type": "object", "properties": {"a": {"anyOf": [REF, {"type": "null"}]}, "number": {"type": "integer"}}}}, **REF}
    assert schema_problems(tree, nested(60, "x"))[0].startswith("at a")
    other = {"$defs": {"n": {"type": "object", "properties": {"a": REF, "number": {"type": "integer"}}}}, **REF}
    assert schema_problems(other, nested(60, "x")) == [f'at {"/".join(["a"] * 60)}: "x" is not of type "object"']
