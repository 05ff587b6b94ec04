"""CEL of another dialect: simple comparisons are rows, and what is more has the names of the definition."""

from typing import Any

import pytest

from perdure.core.errors import ExpressionFailed
from perdure.definitions.expr import condition as conditions
from perdure.dialects import cel_tree
from perdure.dialects.foreign_document import FindingCollector, StepNames
from perdure.dialects.token_graph.condition_reader import ReferencedContents, TokenGraphConditionReader


def condition(text: Any) -> tuple[Any, list[str]]:
    """What a condition of seed 004 is read as, and what is wrong with it."""
    notes = FindingCollector(None)
    names = StepNames(notes)
    for name in ("a", "b-c", "error"):
        names.give(name, "")
    made = TokenGraphConditionReader(names, notes, ReferencedContents({}, notes)).read(text, "")
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
        ("output.a / output.b > 0.5", {"expr": "dyn(double(self.a) / double(self.b)) > 0.5"}),
        ("output.a * 2 >= 10", {"expr": "dyn(double(self.a) * 2.0) >= 10"}),
        ("output.n % 2 == 0", {"expr": "self.n % 2 == 0"}),
        ("output.a + '-' + output.b == 'x'", {"expr": "self.a + '-' + self.b == 'x'"}),
        ("output.x > 10 ? output.y == 'high' : false", {"expr": "self.x > 10 ? self.y == 'high' : false"}),
        ("ctx.a.metadata.took > 3", {"ref": "@steps.a.output.meta.took", "gt": 3}),
    ],
)
def test_cel_is_a_row_or_has_its_names_changed_beside_the_text_it_was_made_from(text: str, made: dict[str, Any]) -> None:
    assert condition(text) == (made | {"source": text} if "expr" in made else made, [])


DATA = {
    "a": 4,
    "b": 2.5,
    "n": 6,
    "first": "A",
    "last": "B",
    "both": "AB",
    "items": [{"price": 10}, {"price": 12.5}],
    "tags": ["t"],
    "ok": True,
    "nothing": None,
}
TRUE = (
    "output.a * 2 >= 8",
    "output.a + output.b > 6",
    "output.a + output.b == output.a + 2.5",
    "output.a - 1 == ctx.a.output.x",
    "output.n / output.a == 1.5",
    "output.a * 2 in [4, 8]",
    "output.a + 1 in [5] && output.n % 4 + output.a == 6",
    "(output.a + output.b) * 2 == 13",
    "output.a > 10 ? output.a - 10 > 5 : output.a + 1 == 5",
    "-output.a + 5 == 1",
    "output.items[output.a - 4].price * 2 == 20",
    "output.items.all(i, i.price * 2 > 10)",
    "output.items.map(i, i.price * 2) == [20, 25]",
    "output.items.filter(i, i.price + 1 > 13).size() == 1",
    "size(output.items) * 2 == 4 && size(output.items) / 2 == 1 && size(output.items) < 2.5",
    "(output.ok ? 1 : 0) + 1 == 2 && (output.ok ? output.b * 2 : 0) > 4",
    "output.first + output.last == output.both && output.first + '-' + output.last == 'A-B'",
    "output.tags + ['x'] == ['t', 'x'] && output.tags + output.tags == ['t', 't']",
    "string(output.a + 1) == '5' && int(output.a) + 1 == 5 && 7 / 2 == 3",
    "(output.b - ctx.a.output.x) / ctx.a.output.x < -0.1",
)


@pytest.mark.parametrize("text", TRUE)
def test_arithmetic_takes_ints_doubles_and_texts_as_the_data_has_them(text: str) -> None:
    made, errors = condition(text)
    assert not errors and conditions.compile_condition(made, "false").evaluate(ConditionScope()) is True
    again, errors = condition(made["expr"].replace("self.", "output."))
    assert not errors and conditions.compile_condition(again, "false").evaluate(ConditionScope()) is True


class ConditionScope:
    """What the conditions see."""

    def root(self, name: str) -> Any:
        return {"self": DATA}[name]

    def step(self, id: str) -> Any:
        return {"a": {"x": 3}}[id]

    def envelope(self, id: str) -> Any:
        return {"data": self.step(id)}


def test_messages_quote_what_the_author_wrote() -> None:
    notes = FindingCollector(None)
    TokenGraphConditionReader(StepNames(notes), notes, ReferencedContents({}, notes)).read("output.a * 'x' > 2", "/here")
    (wrong,) = notes.findings
    assert (wrong.pointer, "double" in wrong.message.partition(":")[0]) == ("/here", False) and "\"output.a * 'x' > 2\" is not CEL" in wrong.message
    made, _ = condition("output.nothing * 2 > 2")
    with pytest.raises(ExpressionFailed, match=r"^/expr: 'output.nothing \* 2 > 2': "):
        conditions.compile_condition(made, "false").evaluate(ConditionScope())


@pytest.mark.parametrize("text", ["output.a + 9223372036854775808 > 1", "output.a > 1e999"])
def test_a_number_that_nothing_holds_is_an_error(text: str) -> None:
    assert condition(text) == ({"expr": "false"}, ["bad_expression"])


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
    assert cel_tree.cel_text(cel_tree.parse_cel(text)) == text


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
