"""Claims about what editors are told: each kind has a category, a form, an example that is valid, and a step of it; and which references a step may use."""

import pytest

from perdure.core.errors import BadDefinition, NotFound
from perdure.definitions.expr.condition import OPERATORS
from perdure.definitions.format.model import VERBS
from perdure.definitions.kinds.config_checks import read_checked
from perdure.service.kind_list import ListedStepKind, describe_format, list_kinds, references_in_scope

OWN = [one for one in list_kinds().items if one.by == "perdure"]


def test_every_verb_of_the_format_is_listed() -> None:
    assert {one.name for one in VERBS} <= {one.name for one in list_kinds().items}
    assert list_kinds().problems == []


@pytest.mark.parametrize("one", OWN, ids=lambda one: one.name)
def test_a_kind_has_what_a_palette_and_a_form_need_and_its_example_is_valid(one: ListedStepKind) -> None:
    assert one.title and one.summary and one.icon and one.category != "packages" and one.ports and one.form
    assert one.snippet["id"] and (one.name in one.snippet or "task" in one.snippet)
    _ = read_checked(one.example)


def test_the_format_has_a_schema_and_every_operator_in_words() -> None:
    found = describe_format()
    assert "step" in found.schema["$defs"]
    assert [one.name for one in found.operators] == list(OPERATORS)
    assert all(one.title and one.takes for one in found.operators)
    assert [one.name for one in found.operators if one.accepts_missing] == ["exists", "empty"]


LISTED = b"""
perdure: 1
name: order
order: listed
input: {cents: {type: integer}, lines: {type: array}}
vars: {total: 0}
steps:
  - {id: first, http: {url: "https://example.com"}}
  - {id: many, each: {in: "@input.lines", as: line}, set: {total: 1}}
  - {id: last_one, set: {total: 2}}
"""


def names(document: bytes, step: str, field: str = "with") -> list[str]:
    return [one.reference for one in references_in_scope(document, step, field)]


def test_references_are_inputs_variables_earlier_steps_and_names_of_an_each_with_their_schemas() -> None:
    found = {one.reference: one for one in references_in_scope(LISTED, "many", "set")}
    assert found["@input.cents"].schema == {"type": "integer"} and found["@vars.total"].schema == {"type": "integer"}
    assert "@first" in found and found["@first"].root == "step" and "@line" in found
    assert "@last_one" not in found and "@many" not in found
    assert found["@index"].schema == {"type": "integer"}


def test_names_of_an_each_are_not_in_scope_where_it_is_decided_whether_the_step_runs() -> None:
    assert "@line" not in names(LISTED, "many", "when")
    assert "@self" not in names(LISTED, "many") and "@many" in names(LISTED, "last_one")


def test_a_document_that_is_not_valid_has_references_as_long_as_it_parses() -> None:
    assert "@a" in names(b"name: x\nsteps: [{id: a, nothing: 1}, {id: b}]", "b")
    assert names(b'{"steps": [{"id": "a"}]}', "a")
    with pytest.raises(BadDefinition):
        names(b"steps: [", "a")
    with pytest.raises(NotFound, match="no step"):
        names(LISTED, "none")
    with pytest.raises(NotFound):
        names(b"[]", "a")
