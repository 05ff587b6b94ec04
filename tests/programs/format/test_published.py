"""The published JSON Schema: it takes what the validator takes, and refuses what a schema can refuse."""

from typing import Any

import jsonschema_rs
import pytest

from perdure.programs.format import model
from perdure.programs.format.check import checked
from perdure.programs.format.parse import parsed
from perdure.programs.format.published import published
from perdure.programs.format.reading import read
from tests.programs.format.examples import EXAMPLES

VALIDATOR = jsonschema_rs.validator_for(published())


def test_it_is_a_schema_of_draft_2020_12() -> None:
    jsonschema_rs.meta.validate(published())
    assert published()["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_fit_as_written_and_in_canonical_form(name: str) -> None:
    for document in (parsed(EXAMPLES[name]).document, read(EXAMPLES[name]).canonical):
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
    assert any(finding.severity == "error" for finding in checked(document))


def test_everything_in_the_model_is_described() -> None:
    found = published()
    assert set(found["properties"]) == {field.name for field in model.DOCUMENT.fields}
    assert set(found["$defs"]["step"]["properties"]) == set(model.step_fields())
    assert all(described.get("description") for described in found["$defs"]["step"]["properties"].values())
