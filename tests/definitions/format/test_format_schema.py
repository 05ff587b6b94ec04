"""The published JSON Schema: it takes what the validator takes, and refuses what a schema can refuse."""

from typing import Any

import jsonschema_rs
import pytest

from perdure.definitions.format import model
from perdure.definitions.format.document_parser import parse_document
from perdure.definitions.format.format_schema import format_schema
from perdure.definitions.format.validator import definition_findings
from perdure.dialects.definition_reader import read_definition
from tests.definitions.format.examples import EXAMPLES

VALIDATOR = jsonschema_rs.validator_for(format_schema())


def test_it_is_a_schema_of_draft_2020_12() -> None:
    jsonschema_rs.meta.validate(format_schema())
    assert format_schema()["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_fit_as_written_and_in_canonical_form(name: str) -> None:
    for document in (parse_document(EXAMPLES[name]).document, read_definition(EXAMPLES[name]).canonical):
        assert [error.message for error in VALIDATOR.iter_errors(document)] == []


@pytest.mark.parametrize(
    "step",
    [
        {},
        {"tool": "A", "ts": "b"},
        {"tool": ""},
        {"tol": "A"},
        {"tool": "A", "then": []},
        {"if": True},
        {"tool": "A", "timeout": "ten"},
        {"tool": "A", "timeout": -1},
        {"tool": "A", "repeat": {"max": 3}},
        {"tool": "A", "each": {"as": "x"}},
        {"tool": "A", "each": {"in": [], "on_error": "go_on"}},
        {"tool": "A", "when": {"ref": "@a", "gt": 1, "lt": 2}},
        {"tool": "A", "when": {"any": []}},
        {"tool": "A", "when": 5},
        {"tool": "A", "join": 0},
        {"tool": "A", "retry": {"tries": 3}},
        {"approve": {"details": "x"}},
        {"race": []},
        {"do": [{"tool": "A", "wait": True}]},
        {"id": "a b", "tool": "A"},
        {"call": "w@two"},
    ],
)
def test_what_a_schema_can_refuse_both_refuse(step: dict[str, Any]) -> None:
    document = {"perdure": 1, "name": "a", "steps": [step]}
    assert not VALIDATOR.is_valid(document)
    assert any(finding.severity == "error" for finding in definition_findings(document))


def test_everything_in_the_model_is_described() -> None:
    found = format_schema()
    assert set(found["properties"]) == {field.name for field in model.DOCUMENT.fields}
    assert set(found["$defs"]["step"]["properties"]) == set(model.step_fields())
    assert all(described.get("description") for described in found["$defs"]["step"]["properties"].values())
