"""Values that are what an expression comes to: where they are taken for that, what they read, and that steps and dialects are renamed and told of them."""

from typing import Any

import pytest

from perdure.core.errors import BadExpression, ExpressionFailed
from perdure.definitions.expr import cel, template
from perdure.definitions.format.canonical_form import canonical_document
from perdure.definitions.format.definition_edits import with_renamed_steps
from perdure.definitions.format.validator import definition_findings
from perdure.dialects.token_graph.document_writer import from_definition
from tests.definitions.expr.scope import StubScope

SCOPE = StubScope({"vars": {"n": 4}}, fetch={"count": 3})


def computed(value: Any) -> Any:
    return template.compile_template(value, expressions="cel").evaluate(SCOPE)


def test_a_mapping_of_an_expression_alone_is_what_that_comes_to() -> None:
    assert computed({"a": [{"expr": "vars.n + fetch.count"}], "b": {"expr": "1", "more": 2}, "c": {"expr": "@vars.n"}, "d": {"expr": 5}}) == {
        "a": [7],
        "b": {"expr": "1", "more": 2},
        "c": {"expr": 4},
        "d": {"expr": 5},
    }
    assert template.compile_template({"expr": "1 + 1"}).evaluate(SCOPE) == {"expr": "1 + 1"}


def test_what_it_reads_is_known_with_its_place() -> None:
    reads = template.compile_template({"a": [{"expr": "fetch.count"}]}, expressions="cel").reads
    assert [(read.step, read.path, read.where) for read in reads] == [("fetch", ("count",), "/a/0/expr")]


@pytest.mark.parametrize("text", ["b'x'", "timestamp('2026-01-01T00:00:00Z')", "{1: 2}", "double('NaN')", "fetch.none", "1 / 0"])
def test_what_can_t_be_kept_or_found_fails(text: str) -> None:
    with pytest.raises(ExpressionFailed):
        computed({"expr": text})


def test_what_it_makes_is_bounded() -> None:
    with pytest.raises(BadExpression, match="again and again"):
        cel.compile_cel("[1]" + ".transformList(i, x, [x, x, x])" * 12)


def document(**step: Any) -> dict[str, Any]:
    return {"perdure": 1, "name": "it", "steps": [{"id": "fetch", "set": {"count": 1}}, {"id": "b", **step}]}


@pytest.mark.parametrize(
    ("step", "codes"),
    [
        ({"return": {"expr": "fetch.count + 1"}}, []),
        ({"return": {"expr": "fecth.count + 1"}}, ["unknown_reference"]),
        ({"return": {"expr": "1 +"}}, ["bad_expression"]),
        ({"set": {"expr": "1 + 1"}}, ["misplaced"]),
        ({"tool": "SAY", "env": {"expr": "1"}}, ["misplaced"]),
        ({"pipeline": [{"table_filter": {"condition": {"expr": "price > 10"}}}], "with": "@fetch"}, []),
    ],
)
def test_expressions_are_checked_where_values_stand(step: dict[str, Any], codes: list[str]) -> None:
    assert [one.code for one in definition_findings(document(**step)) if one.severity == "error"] == codes


def test_steps_are_renamed_in_them_and_not_in_those_of_kinds() -> None:
    made = with_renamed_steps(document(**{"return": [{"expr": "fetch.count + 1"}]}), {"fetch": "got"})
    assert made["steps"][1]["return"] == [{"expr": "got.count + 1"}]
    ops = [{"table_filter": {"condition": {"expr": "fetch > 10"}}}]
    assert with_renamed_steps(document(pipeline=ops), {"fetch": "got"})["steps"][1]["pipeline"] == ops


def test_a_dialect_has_no_words_for_them() -> None:
    found = from_definition(
        canonical_document({"perdure": 1, "name": "it", "order": "ports", "steps": [{"id": "a", "tool": "SAY", "with": {"x": {"expr": "1 + 1"}}}]})
    )
    assert found.document is None
    assert "cannot compute values" in found.findings[0].message
