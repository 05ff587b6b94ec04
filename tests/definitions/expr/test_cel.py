"""CEL: what is named is what is given, errors are errors with words that help, and no expression takes too much."""

import re
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.core.errors import BadExpression
from perdure.definitions.expr.cel import compile_cel
from perdure.definitions.expr.cel_names import names_in_cel
from perdure.definitions.expr.plain_values import MissingValueError, ValueKindError
from perdure.definitions.expr.references import EXPRESSION_CHARACTERS_MAX
from tests.definitions.expr.scope import StubScope, of_root, of_step, outcome

SCOPE = StubScope(
    {"self": {"score": 90, "half": 0.5, "name": "Ada", "items": [{"n": 1}, {"n": 2}], "none": None, "ok": True}, "loop": {"item": 3}, "input": {}},
    enrich={"revenue": 200_000.5},
    a__b={"score": 1, "output": 5},
    list={"n": 1},
    function={"n": 1},
    var={"n": 2},
    size={"n": 3},
    timestamp={"n": 3},
    skipped=None,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("self.score >= 80.0 && enrich.revenue > 100000", True),
        ("self.score == 90.0", True),
        ("self.score in [1.0, 90.0]", True),
        ("self.ok == true && self.score != true", True),
        ("double(self.score) * self.half == 45.0", True),
        ("self.items.exists(item, item.n > 1)", True),
        ("self.items.map(x, x.n) == [1, 2]", True),
        ("has(self.score) && !has(self.gone)", True),
        ("self.gone == 1 || true", True),
        ("nobody.x == 1 || true", True),
        ("skipped == null", True),
        ("loop.item == 3", True),
        ("list.n == 1 && type(list.n) == int", True),
        ("function.n == 1 && var.n == 2 && size.n == 3 && timestamp.n == size('abc')", True),
        ('steps["a-b"].score == 1', True),
        ('steps["a-b"].output.data.score == 1 && steps["a-b"].score == 1', True),
        ("steps.enrich.output.port == 'success'", True),
        ("self.name.startsWith('A') && self.name.matches('^[A-Z]') && size(self.name) == 3", True),
        ("self.score > 10 ? 'high' : 'low'", "high"),
        ("self.score", 90),
        ("[self.half, 1]", [0.5, 1]),
        ("timestamp('2026-01-02T03:04:05Z') > timestamp('2025-01-01T00:00:00Z')", True),
        ("r'\\d' == '\\\\d' // self.gone", True),
        ("'self.gone' == 'x' || \"\"\"enrich\"\"\" == 'y'", False),
    ],
)
def test_it_has_a_value(text: str, value: Any) -> None:
    found = compile_cel(text).evaluate(SCOPE)
    assert found == value
    assert type(found) is type(value)


def test_only_what_is_named_is_asked_for() -> None:
    scope = StubScope({"self": {"a": 1}}, one=1, other=2)
    assert compile_cel("self.a == 1 && one == 1 && !has(self.b)").holds(scope)
    assert sorted(scope.asked) == ["@self", "one"]


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("self.a.b.size() > 1 && self.c['d'].e", {of_root("self", "a", "b"), of_root("self", "c", "d", "e")}),
        ("items.all(item, item.x > limit.y)", {of_step("items"), of_step("limit", "y")}),
        ("x.exists(y, y.exists(z, z > y)) && y", {of_step("x"), of_step("y")}),
        ("has(fetch.a.b) && fetch.list[0].c", {of_step("fetch", "a", "b"), of_step("fetch", "list")}),
        ("'a.b' == r\"c.d\" + '''e''' && size('x') == 1 // f.g", set()),
        ("type(1) == int && {a.k: b} != {}", {of_step("a", "k"), of_step("b")}),
        ("steps['x y'].output.meta.z && steps.w", {of_step("x y", "meta", "z")._replace(root="steps"), of_step("w")}),
    ],
)
def test_what_is_read_is_known(text: str, reads: Any) -> None:
    assert compile_cel(text).reads == reads


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("self.gone == 1", MissingValueError, "there is no 'gone'"),
        ("nobody.x", MissingValueError, "'nobody' has no result here"),
        ("loop.gone", MissingValueError, "there is no 'gone'"),
        ("steps.nobody.x == 1", MissingValueError, "there is no 'nobody'"),
        ("self.none.x == 1", MissingValueError, "a field is read from a value without fields"),
        ("skipped.x == 1", MissingValueError, "a field is read from a value without fields"),
        ("self.score + self.half > 1.0", ValueKindError, "write double(x) around the int"),
        ("self.score + 1.5 > 1.0", ValueKindError, "write double(x) around the int"),
        ("self.score + 9223372036854775807 > 0", ValueKindError, "integer overflow"),
        ("self.score / 0 > 0", ValueKindError, "divide by zero"),
        ("self.name > 5", ValueKindError, "> does not go with string and int"),
        ("self.none > 5", ValueKindError, "> does not go with null and int; ask for null with == null"),
        ("self.name.matches('(')", ValueKindError, "invalid regular expression"),
        ("[1,2,3,4,5,6,7,8,9,10].all(a, " * 5 + "true" + ")" * 5, ValueKindError, "Iteration budget exceeded"),
    ],
)
def test_an_error_is_an_error(text: str, kind: type[MissingValueError], said: str) -> None:
    with pytest.raises(kind, match=re.escape(said)) as caught:
        compile_cel(text).holds(SCOPE)
    assert type(caught.value) is kind
    assert len(caught.value.what) < 250


@pytest.mark.parametrize("text", ["self.score", "self.name", "self.none", "[true]", "self.items"])
def test_what_is_neither_true_nor_false_is_no_condition(text: str) -> None:
    with pytest.raises(ValueKindError, match="a condition is true or false"):
        compile_cel(text).holds(SCOPE)


@pytest.mark.parametrize(
    ("text", "at", "said"),
    [
        ("self.", 6, "is not CEL"),
        ("", 1, "is not CEL"),
        ("self.a +\n  (b", 14, "is not CEL"),
        ("nope(self.a)", 5, "undeclared reference to 'nope'"),
        ("1 + 1.5 > 1.0", 3, "write double(x) around the int"),
        ("1.5 < 2", 5, "write double(x) around the int"),
        ("a.filter(x, y, true)", 0, "is not CEL"),
        ("steps.size() > 1", 0, "reads all steps at once"),
        ("steps[self.x].y", 0, "reads all steps at once"),
        ("x == secrets.KEY", 6, "reads a secret (character 6)"),
        ("(" * 1000 + "1" + ")" * 1000, 0, "it is nested too deeply"),
        ("1" + " + 1" * 100, 0, "nest"),
        ("\ud800", 0, "lone surrogate"),
        ("a" * (EXPRESSION_CHARACTERS_MAX + 1), 0, "characters"),
    ],
)
def test_what_is_none_is_refused_with_its_place(text: str, at: int, said: str) -> None:
    with pytest.raises(BadExpression, match=re.escape(said)) as caught:
        compile_cel(text, "/expr")
    assert caught.value.where == "/expr"
    assert at in (0, caught.value.at)
    assert len(str(caught.value)) < 350


def test_it_is_compiled_once() -> None:
    assert compile_cel("self.once == 1") is compile_cel("self.once == 1")


@pytest.mark.parametrize(
    "text",
    [
        "['a']" + ".map(x, x + x)" * 20 + ".size() > 1",
        "[[1]]" + ".map(x, [x, x])" * 20 + ".size() > 1",
        "[1, 2, 3].map(x, '" + "a" * 7_000 + "'" + " + 'b'" * 9 + ").size() > 1",
    ],
)
def test_what_would_grow_without_end_is_refused(text: str) -> None:
    with pytest.raises(BadExpression, match="ompute this in a step"):
        compile_cel(text)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "larger"),
    [
        ("l.all(x, self.b == self.c)", [1] * 20_000),
        ("l.all(x, !(0 in self.b))", [1] * 20_000),
        ("l.all(x, size(self.b + 'y') > 0)", "x" * 200_000),
        ("self.b.all(x, self.b.all(y, x == y))", [[1] * 100] * 200),
        (" && ".join(["self.b == self.c"] * 100), [1] * 1_000_000),
    ],
)
def test_what_would_take_too_long_for_what_it_is_given_fails_at_once(text: str, larger: Any) -> None:
    began_s = time.process_time()
    with pytest.raises(ValueKindError, match="too large for that"):
        compile_cel(text).holds(StubScope({"self": {"b": larger, "c": larger}}, l=list(range(9_999))))
    assert time.process_time() - began_s < 3


def test_what_is_given_may_be_large_where_it_is_looked_at_once() -> None:
    large = {"n": 1, "items": [{"n": number, "name": "x" * 20} for number in range(2_000)]}
    assert compile_cel("self.items.all(item, item.n >= 0 && item.name.size() == 20)").holds(StubScope({"self": large}))
    assert compile_cel("self.items.exists(item, item.n == input.n)").holds(StubScope({"self": large, "input": {"n": 1999, "much": ["x"] * 1_000_000}}))


def test_how_work_may_grow_is_read_from_the_text() -> None:
    assert names_in_cel("a.map(x, x + x).map(y, y + y + y)").growth == 6
    assert names_in_cel("a.map(x, x.all(y, y > x.least))").crosses
    assert not names_in_cel("a.all(x, x > 1) && b.all(y, y > 1)").crosses
    assert [use.turns for use in names_in_cel("a.all(x, x > b) && c").uses] == [False, True, False]
    assert (names_in_cel("a + b > 1 && c.all(x, x + 1 > 2)").sums, names_in_cel("a + b > 1 && c.all(x, x + 1 > 2)").turning_sums) == (2, 1)


CHARACTERS = "self.x enrich()[]{}'\"\\+-*/%<>=!&|?:,.019truefalse\n`"


@settings(deadline=None)
@given(st.text(max_size=40) | st.text(alphabet=CHARACTERS, max_size=40))
def test_every_text_is_an_expression_or_none_and_every_expression_has_a_value_or_fails(text: str) -> None:
    outcome(lambda: compile_cel(text).evaluate(SCOPE))
