"""CEL of another dialect: simple comparisons are rows, and what is more has the names of the definition."""

from typing import Any

import pytest

from perdure.programs.format.dialects import cel_tree
from perdure.programs.format.dialects.conditions004 import Conditions
from perdure.programs.format.dialects.reading import Names, Notes


def condition(text: Any) -> tuple[Any, list[str]]:
    """What a condition of seed 004 is read as, and what is wrong with it."""
    notes = Notes(None)
    names = Names(notes)
    for name in ("a", "b-c", "error"):
        names.give(name, "")
    made = Conditions(names, notes, {}).read(text, "")
    return made, [one.code for one in notes.findings if one.severity == "error"]


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("output.x == 'y'", {"ref": "@self.x", "eq": "y"}),
        ("80 <= output.score", {"ref": "@self.score", "gte": 80}),
        ("output.x != null", {"ref": "@self.x", "neq": None}),
        ("output.x > -1.5", {"ref": "@self.x", "gt": -1.5}),
        ("output['x y'][0] == \"@z\"", {"ref": '@self["x y"][0]', "eq": "@@z"}),
        ("output.x in ['a', 'b']", {"ref": "@self.x", "in": ["a", "b"]}),
        ("output.name.startsWith('a')", {"ref": "@self.name", "starts_with": "a"}),
        ("output.x == ctx.a.output.y", {"ref": "@self.x", "eq": "@a.y"}),
        ("ctx['b-c'].output.y == 1", {"ref": "@b-c.y", "eq": 1}),
        ("ctx.error.output.y == 1", {"ref": "@error_.y", "eq": 1}),
        (
            "output.a == 1 && (output.b == 2 || output.c == 3)",
            {"all": [{"ref": "@self.a", "eq": 1}, {"any": [{"ref": "@self.b", "eq": 2}, {"ref": "@self.c", "eq": 3}]}]},
        ),
        ("!(output.x == 1)", {"ref": "@self.x", "neq": 1}),
        ("!output.x", {"expr": "!self.x"}),
        ("output.x", {"expr": "self.x"}),
        ("size(output.items) > 0", {"expr": "size(self.items) > 0"}),
        ("has(ctx.a.output.y)", {"expr": "has(a.y)"}),
        ("ctx['b-c'].output.y.all(i, i.z > 0)", {"expr": 'steps["b-c"].output.data.y.all(i, i.z > 0)'}),
        ("output.all.exists(output, output == 'x')", {"expr": "self.all.exists(output, output == 'x')"}),
        ("output.a / output.b > 0.5", {"expr": "double(self.a) / double(self.b) > 0.5"}),
        ("output.a * 2 >= 10", {"expr": "double(self.a) * 2.0 >= 10"}),
        ("output.n % 2 == 0", {"expr": "self.n % 2 == 0"}),
        ("output.a + '-' + output.b == 'x'", {"expr": "self.a + '-' + self.b == 'x'"}),
        ("output.x > 10 ? output.y == 'high' : false", {"expr": "self.x > 10 ? self.y == 'high' : false"}),
        ("ctx.a.metadata.took > 3", {"ref": "@steps.a.output.meta.took", "gt": 3}),
    ],
)
def test_cel_is_a_row_or_has_its_names_changed(text: str, made: dict[str, Any]) -> None:
    assert condition(text) == (made, [])


@pytest.mark.parametrize("text", ["", "output.x ==", "a b", "(output.x", "output.x = 1", "'open", "#", "output..x", "!" * 5000 + "x", "(" * 3000])
def test_what_is_no_cel_is_an_error(text: str) -> None:
    assert condition(text) == ({"expr": "false"}, ["bad_expression"])


@pytest.mark.parametrize(
    "text",
    [
        "a.b[0]['c'].d(1, 2) + -x * (y - 3) / 4 % 5",
        "[1, 2.5, 'x', true, null, {'a': 1}]",
        "x ? y : z ? 1 : 2",
        'r"raw\\d" + b"bytes" == 0x1F',
        "!(a && b || !c)",
        ".5 + 1e3",
    ],
)
def test_a_tree_is_written_as_it_was_read(text: str) -> None:
    assert cel_tree.written(cel_tree.parse(text)) == text


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ({"type": "jsonpath", "query": "$.a.b", "operator": ">", "value": 1}, {"ref": "@self.a.b", "gt": 1}),
        ({"type": "jsonpath", "query": "$['a b'][0]", "operator": "in", "value": ["x"]}, {"ref": '@self["a b"][0]', "in": ["x"]}),
        ({"type": "jsonpath", "query": "$.a"}, {"ref": "@self.a"}),
        ({"type": "jsonpath", "query": "$.a", "operator": "exists"}, {"ref": "@self.a", "exists": True}),
        ({"type": "jsonpath", "query": "$.a[*].b", "operator": "==", "value": 1}, {"ref": "$.a[*].b", "any": {"eq": 1}}),
        ({"type": "jsonpath", "query": "$.a[*].b", "operator": "count_gte", "value": 2}, {"ref": "$.a[*].b", "count": {"gte": 2}}),
        ({"type": "jsonpath", "query": "$.errors.length()", "operator": "<", "value": 3}, {"ref": "$.errors.length()", "lt": 3}),
        ({"type": "schema_validation", "schema": {"type": "object"}, "invert": True}, {"not": {"ref": "@self", "matches": {"type": "object"}}}),
        (
            {"type": "cross_node_comparison", "left": {"value": 5}, "operator": "<", "right": {"source": "context", "node": "a", "path": "output.x"}},
            {"ref": "@a.x", "gt": 5},
        ),
        ({"type": "composite", "operator": "NOT", "conditions": ["output.x == 1"]}, {"not": {"ref": "@self.x", "eq": 1}}),
        ({"type": "python_sandbox", "code": "def evaluate(output, context):\n    return True"}, {"python": "def evaluate(output, context):\n    return True"}),
    ],
)
def test_the_other_types_are_rows_and_groups(given: dict[str, Any], made: dict[str, Any]) -> None:
    assert condition(given) == (made, [])


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"type": "regex"}, "unknown_condition"),
        ({}, "unknown_condition"),
        (5, "wrong_type"),
        ({"type": "jsonpath", "query": "a.b", "operator": ">", "value": 1}, "bad_expression"),
        ({"type": "jsonpath", "query": "$.a", "operator": "~", "value": 1}, "unknown_operator"),
        ({"type": "composite", "operator": "XOR", "conditions": ["true"]}, "unknown_operator"),
        ({"type": "composite", "operator": "AND", "conditions": []}, "missing_field"),
        ({"type": "schema_validation", "schema_ref": "cas://nobody"}, "unknown_blob"),
        ({"type": "python_sandbox", "code_ref": "cas://nobody"}, "unknown_blob"),
        ({"type": "cross_node_comparison", "left": {"value": 1}, "operator": "==", "right": {"value": 1}}, "no_reference"),
        ({"type": "cross_node_comparison", "left": {"source": "moon", "path": "output.x"}, "operator": "==", "right": {"value": 1}}, "unknown_value"),
    ],
)
def test_what_can_not_be_read_is_an_error(given: Any, code: str) -> None:
    assert code in condition(given)[1]
