"""Forms: what a kind is told, as inputs that somebody fills in."""

import pytest

from perdure.definitions.kinds.kind_descriptions import FormInput, schema_inputs
from perdure.definitions.kinds.kind_registry import OWN_KINDS
from tests.docs.kinds import shown

SHOWN = shown()


@pytest.mark.parametrize("name", SHOWN)
def test_each_kind_has_a_form_whose_inputs_are_named_and_told_of(name: str) -> None:
    form = SHOWN[name].form
    assert form and all(one.name for one in form)
    assert len(form) == 1 or all(one.help for one in form)


def test_a_form_of_requests_says_by_what_each_is_asked_for() -> None:
    form = {one.name: one for one in SHOWN["http"].form}
    assert form["url"] == FormInput("url", "text", form["url"].help, required=True, references=True)
    assert (
        form["as"].choices == ("json", "text", "csv", "lines", "xml", "base64") and form["redirects"].default == 5 and form["idempotency_key"].means == "flag"
    )
    (header,) = form["headers"].of
    assert form["headers"].means == "mapping" and header.secrets and not form["query"].of[0].secrets


@pytest.mark.parametrize(("name", "source"), [("bash", "command"), ("ts", "ts"), ("python", "python")])
def test_a_source_text_is_asked_for_as_such_and_has_no_references(name: str, source: str) -> None:
    assert name in OWN_KINDS
    (found,) = [one for one in SHOWN[name].form if one.means == "source"]
    assert found.name == source and not found.references


def test_the_form_of_a_kind_that_a_package_brings_is_that_of_its_schema() -> None:
    properties = {
        "unit": {"enum": ["C", "F"], "default": "C", "description": "of the temperature"},
        "days": {"type": "integer", "minimum": 1},
        "places": {"type": "array", "items": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}},
        "odd": {},
    }
    unit, days, places, odd = schema_inputs({"type": "object", "properties": properties, "required": ["days"]})
    assert (unit.means, unit.choices, unit.default, unit.help) == ("choice", ("C", "F"), "C", "of the temperature")
    assert (days.means, days.required, days.least) == ("number", True, 1)
    assert places.means == "list" and places.of[0].means == "group" and places.of[0].of[0] == FormInput("city", "text", required=True, references=True)
    assert odd.means == "value"


@pytest.mark.parametrize("schema", [{}, {"type": "string"}, {"enum": [1]}])
def test_what_is_no_object_has_no_form(schema: dict[str, object]) -> None:
    assert schema_inputs(schema) == ()
