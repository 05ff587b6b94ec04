"""Conditions: when rows hold, how groups go together, what is missing, what is read, and what is refused."""

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.core.errors import BadExpression, ExpressionFailed
from perdure.definitions.expr.condition import OPERATORS, compile_condition
from tests.definitions.expr.scope import StubScope, of_root, of_step, outcome

SELF = {
    "score": 90,
    "rate": 0.5,
    "ok": True,
    "no": False,
    "zero": 0,
    "name": "Ada",
    "blank": "",
    "none": None,
    "items": [{"amount": 5, "tier": "gold"}, {"amount": 6.5, "tier": "tin"}],
    "empty": [],
    "bare": {},
    "status": "failed",
    "error_code": "TIMEOUT",
}
SCOPE = StubScope(
    {"self": SELF, "input": {"limit": 80, "codes": ["TIMEOUT", "RATE"], "empty": {}}},
    fetch={"n": 3, "items": [1, 2, 3], "name": "Ada"},
    a__b={"score": 1},
    skipped=None,
)


def row(ref: str, **operator: Any) -> dict[str, Any]:
    """A row."""
    return {"ref": ref, **{name.rstrip("_"): right for name, right in operator.items()}}


def holds(condition: Any, missing: Any = "error", dollar: Any = "self") -> bool:
    """Whether it holds in the scope of these tests."""
    return compile_condition(condition, missing, dollar).evaluate(SCOPE)


TRUE = [
    True,
    "@self.ok",
    "@self.empty",
    "@self.bare",
    "@self.score",
    row("@self.name"),
    row("@self.score", eq=90),
    row("@self.score", eq=90.0),
    row("@self.rate", eq=0.5),
    row("@self.ok", eq=True),
    row("@self.ok", neq=1),
    row("@self.zero", neq=False),
    row("@self.empty", neq=False),
    row("@self.none", eq=None),
    row("@self.items[0]", eq={"tier": "gold", "amount": 5.0}),
    row(
        "@self.score",
        gt=80,
    ),
    row("@self.score", gte=90.0),
    row("@self.rate", lt=1),
    row("@self.rate", lte=0.5),
    row("@self.name", gt="Abe"),
    row("@self.score", gt="@input.limit"),
    row("@input.limit", lt="@self.score"),
    row("@self.error_code", in_=["TIMEOUT", "RATE"]),
    row("@self.error_code", in_="@input.codes"),
    row("@self.score", in_=["@input.limit", 90.0]),
    row("@self.name", eq="@fetch.name"),
    row("@fetch.items", contains=2.0),
    row("@self.name", contains="d"),
    row("@self", contains="score"),
    row("@self.name", starts_with="A"),
    row("@self.name", ends_with="da"),
    row("@self.name", ends_with="@{fetch.name}"),
    row("@self.name", matches_re="^A.a$"),
    row("@self.name", matches_re="d"),
    row("@self.name", exists=True),
    row("@self.gone", exists=False),
    row("@nobody.x", exists=False),
    row("@item", exists=False),
    row("@self.none", exists=False),
    row("@self.zero", exists=True),
    row("@self.gone", empty=True),
    row("@self.blank", empty=True),
    row("@self.empty", empty=True),
    row("@self.bare", empty=True),
    row("@self.none", empty=True),
    row("@self.items", empty=False),
    row("@self.zero", empty=False),
    row("@self", matches={"required": ["score"], "properties": {"score": {"type": "integer"}}}),
    row("$.score", eq=90),
    row("$.items[*].amount", sum={"gt": 11}),
    row("$.items[*].amount", sum={"eq": 11.5}),
    row("$.items[*].amount", min={"eq": 5}),
    row("$.items[*].amount", max={"lt": 7}),
    row("$.items[*]", count=2),
    row("$.items[*].gone", count={"eq": 0}),
    row("$.items[*].gone", sum={"eq": 0}),
    row("$.items[*].amount", any={"gt": 6}),
    row("$.items[*].amount", all={"gt": 4}),
    row("$.items[*].gone", all={"gt": 4}),
    row("$.items[*].amount", any={"gt": "@fetch.n"}),
    row("$.items.length()", eq=2),
    row("$.name.length()", eq=3),
    row("$.items[?(@.tier == 'gold')].length()", gt=0),
    row("$.items[?@.tier == 'gold']"),
    row("$.items[*].tier", contains="tin"),
    row("$.error_code", in_=["TIMEOUT", "RATE_LIMIT", "TEMP_ERROR"]),
    row("@fetch.items", count={"gte": 3}),
    row("@fetch.items", all={"matches": {"type": "integer"}}),
    row("@skipped.x", eq=None),
    {"not": row("@skipped")},
    {"not": row("@skipped.n", gt=0)},
    {"not": row("@skipped.n", lte=0)},
    {"all": [True, row("@self.ok"), {"any": [False, {"not": False}]}]},
    {"expr": "self.score >= 80 && fetch.n < 4"},
    {"expr": "steps['a-b'].score == 1"},
]

FALSE = [
    False,
    "@self.no",
    "@self.zero",
    "@self.blank",
    "@self.none",
    "@skipped",
    "@fetch.gone?",
    row("@self.ok", eq=1),
    row("@self.zero", eq=False),
    row("@self.score", eq="90"),
    row("@self.items", eq=[{"amount": 5, "tier": "gold"}, {"amount": True, "tier": "tin"}]),
    row("@self.score", gt=90),
    row("@self.name", in_=["ada"]),
    row("@self.none", in_=["x"]),
    row("@self.none", contains="x"),
    row("@self.none", starts_with="x"),
    row("@self.none", matches_re="x"),
    row("@self.name", matches_re="^d"),
    row("@self.name", matches_re="(a+)+$b"),
    row("@self.items", contains={"amount": 5}),
    row("@self.gone", exists=True),
    row("@self.ok", matches={"type": "integer"}),
    row("$.items[*].amount", all={"gt": 5}),
    row("$.items[*].gone", any={"gt": 0}),
    row("$.items[?@.tier == 'lead']"),
    row("$.items[*].gone", min={"lt": 5}),
    {"all": [True, False, row("@nobody.x")]},
    {"not": {"any": [row("@self.ok"), row("@nobody.x")]}},
]


@pytest.mark.parametrize("condition", TRUE, ids=str)
def test_it_holds(condition: Any) -> None:
    assert holds(condition) is True


@pytest.mark.parametrize("condition", FALSE, ids=str)
def test_it_does_not_hold(condition: Any) -> None:
    assert holds(condition) is False


@pytest.mark.parametrize(
    ("condition", "where", "said"),
    [
        (row("@fetch.gone"), "", "there is no 'gone' among n, items, name"),
        ({"all": [True, row("@fetch.gone", eq=1)]}, "/all/1", "there is no 'gone'"),
        (row("@nobody.x", neq=1), "", "@nobody has no result here"),
        (row("@self.name", eq="@fetch.gone"), "/eq", "there is no 'gone'"),
        (row("$.gone", eq=1), "", "'$.gone' finds nothing"),
        (row("@fetch.gone", count={"eq": 0}), "", "there is no 'gone'"),
        (row("@self.name", gt=3), "", "compares text with a number"),
        (row("@self.ok", gt=0), "", "compares true or false with a number"),
        (row("@self.items", lt=3), "", "compares a list with a number"),
        (row("@self.score", contains=3), "", "can't contain"),
        (row("@self.name", contains=3), "", "can't contain"),
        (row("@self.name", in_="@self.score"), "", "in asks whether a list has it"),
        (row("@self.score", starts_with="9"), "", "starts_with takes text on both sides"),
        (row("@self.score", matches_re="9"), "", "matches_re takes text on both sides"),
        ({"not": row("@self.name", matches_re="@{input.limit}(")}, "/not", "is not a regular expression"),
        (row("$.items[*].tier", sum={"gt": 1}), "", "sum is made of numbers"),
        (row("@self.score", any={"gt": 1}), "", "any is of many values"),
        (row("$.score.length()", gt=1), "", "asks for the length of 90"),
        ({"expr": "self.gone == 1"}, "/expr", "there is no 'gone'"),
        ({"expr": "self.score"}, "/expr", "is a number, and a condition is true or false"),
        ({"not": {"expr": "self.gone"}}, "/not/expr", "there is no 'gone'"),
    ],
    ids=str,
)
def test_what_fails_is_never_true_or_false(condition: Any, where: str, said: str) -> None:
    with pytest.raises(ExpressionFailed, match=re.escape(said)) as caught:
        holds(condition)
    assert caught.value.where == where
    assert len(str(caught.value)) < 400


def test_where_missing_is_null_it_is_compared_as_null() -> None:
    assert holds(row("@fetch.gone", eq=None), "null")
    assert holds(row("@fetch.gone", neq=1), "null")
    assert holds(row("@nobody.x", eq="@fetch.gone"), "null")
    assert not holds(row("@fetch.gone", gt=0), "null")
    assert not holds(row("@fetch.gone"), "null")
    assert holds(row("@fetch.gone", count={"eq": 0}), "null")
    assert holds(row("$.gone", eq=None), "null")
    with pytest.raises(ExpressionFailed, match="only inside of each"):
        holds(row("@item.x", eq=None), "null")
    with pytest.raises(ExpressionFailed):
        holds({"expr": "self.gone == null"}, "null")


def test_where_missing_is_false_the_row_does_not_hold_and_somebody_is_told() -> None:
    told: list[tuple[str, str]] = []
    for condition, where in [
        (row("@fetch.gone"), ""),
        (row("@fetch.gone", neq=1), ""),
        (row("@fetch.gone", eq=None), ""),
        (row("@self.none", eq="@fetch.gone"), ""),
        (row("@item.x", eq=None), ""),
        (row("$.gone", neq=1), ""),
        (row("@fetch.gone", count={"eq": 0}), ""),
        ({"expr": "self.gone != 1"}, "/expr"),
        ({"all": [True, row("@nobody.x", neq=1)]}, "/all/1"),
    ]:
        assert compile_condition(condition, "false").evaluate(SCOPE, missed=lambda place, what: told.append((place, what))) is False
        assert told.pop()[0] == where
        assert not told
    assert compile_condition({"not": row("@fetch.gone", eq=1)}, "false").evaluate(SCOPE)
    assert compile_condition(row("@fetch.gone", exists=False), "false").evaluate(SCOPE, missed=lambda place, what: told.append((place, what)))
    assert not told
    with pytest.raises(ExpressionFailed, match="compares text"):
        holds(row("@self.name", gt=1), "false")
    with pytest.raises(ExpressionFailed, match="divi"):
        holds({"expr": "self.score / 0 == 1"}, "false")


def test_a_group_is_evaluated_no_further_than_is_needed() -> None:
    scope = StubScope(a=1, b=0)
    assert compile_condition({"any": ["@a", "@b"]}).evaluate(scope)
    assert not compile_condition({"all": ["@b", "@a"]}).evaluate(scope)
    assert scope.asked == ["a", "b"]


def test_in_a_jsonpath_dollar_is_the_result_or_the_steps() -> None:
    assert holds(row("$.fetch.n", eq=3), dollar="steps")
    assert holds(row("$.fetch.output.data.n", eq=3), dollar="steps")
    assert holds(row("$['a-b'].score", eq=1), dollar="steps")
    assert holds(row("$.skipped.n", eq=None), dollar="steps")
    assert holds(row("$.skipped.output.data.n", eq=None), dollar="steps")
    for path in ("$.nobody.n", "$.fetch.gone"):
        with pytest.raises(ExpressionFailed, match="finds nothing"):
            holds(row(path, eq=None), dollar="steps")
    assert holds(row("$.fetch.items[?@ > $['a-b'].score].length()", eq=2), dollar="steps")
    assert compile_condition(row("$.fetch.output.meta.finish"), dollar="steps").reads == {
        of_step("fetch", "meta", "finish", where="/ref")._replace(root="steps")
    }
    assert compile_condition(row("$.fetch.items[?@ > $.other.n]"), dollar="steps").reads == {
        of_step("fetch", "items", where="/ref"),
        of_step("other", "n", where="/ref"),
    }
    assert compile_condition(row("$.items[?@ > $.n]")).reads == {of_root("self", "items", where="/ref"), of_root("self", "n", where="/ref")}
    for path in ("$", "$.*", "$..n", "$[0]", "$.fetch[?$.*]"):
        with pytest.raises(BadExpression, match="reads all steps at once"):
            compile_condition(row(path), dollar="steps")


def test_what_a_condition_reads_is_known_with_its_places() -> None:
    condition = compile_condition({"all": [row("@self.x", eq=["@fetch.n"]), {"expr": "a.b.c > steps['d-e'].f && steps.g.output.meta.h == input.i"}, "@k.l"]})
    assert condition.reads == {
        of_root("self", "x", where="/all/0/ref"),
        of_step("fetch", "n", where="/all/0/eq/0"),
        of_step("a", "b", "c", where="/all/1/expr"),
        of_step("d-e", "f", where="/all/1/expr"),
        of_step("g", "meta", "h", where="/all/1/expr")._replace(root="steps"),
        of_root("input", "i", where="/all/1/expr"),
        of_step("k", "l", where="/all/2"),
    }


def test_what_python_says_is_given_to_it() -> None:
    source = "def evaluate(output, context):\n    return output > 1"
    condition = compile_condition({"any": [{"python": source}, {"all": ["@self.ok", {"python": f"{source} "}]}]})
    assert condition.python == (source, f"{source} ")
    assert condition.reads == {of_root("self", "ok", where="/any/1/all/0")}
    assert condition.evaluate(SCOPE, (False, True))
    assert condition.evaluate(SCOPE, (True, False))
    assert not condition.evaluate(SCOPE, (False, False))
    with pytest.raises(ExpressionFailed, match="2 parts in Python, and 1 answers"):
        condition.evaluate(SCOPE, (True,))


@pytest.mark.parametrize(
    ("condition", "where", "said"),
    [
        (5, "", "5 is not a condition"),
        (None, "", "null is not a condition"),
        ([], "", "a list of 0 is not a condition"),
        ({}, "", "an empty condition is not valid"),
        ({"all": []}, "/all", "list of at least one condition"),
        ({"all": [True], "any": [True]}, "", "a condition with 'all', 'any' is not valid"),
        ({"eq": 1}, "", "row with ref and one operator"),
        ({"not": {"any": [{"nope": 1}]}}, "/not/any/0", "'nope'"),
        (row("@a", gt=1, lt=2), "", "a row has one operator, found 'gt' and 'lt'. Write a row for each, under all: […]"),
        (row("@a", equals=1), "/equals", "'equals' is not an operator. Use one of all, any, contains"),
        (row("a.b"), "/ref", "ref holds the text 'a.b'"),
        ({"ref": 5}, "/ref", "ref holds 5"),
        (row("@a..b"), "/ref", "after the dot"),
        ("status", "", "ref holds the text 'status'"),
        (row("$.a["), "/ref", "is not a JSONPath"),
        (row("@a", eq="@b..c"), "/eq", "after the dot"),
        (row("@a", in_=5), "/in", "in takes a list"),
        (row("@a", in_="abc"), "/in", "in takes a list"),
        (row("@a", gt=None), "/gt", "gt compares with a number or text"),
        (row("@a", gt=True), "/gt", "gt compares with a number or text"),
        (row("@a", starts_with=5), "/starts_with", "starts_with takes text"),
        (row("@a", matches_re="("), "/matches_re", "is not a regular expression: missing )"),
        (row("@a", matches_re="(?=x)"), "/matches_re", "RE2 has no backreferences and no look-around"),
        (row("@a", exists="yes"), "/exists", "exists is true or false"),
        (row("@a", exists="@b"), "/exists", "exists is true or false, not a reference"),
        (row("@a", matches={"type": "strung"}), "/matches", "not a JSON Schema"),
        (row("@a", matches={"$ref": "https://example.com/x"}), "/matches", "not a JSON Schema"),
        (row("@a", matches=5), "/matches", "matches holds 5"),
        (row("@a", sum=5), "/sum", "sum holds 5"),
        (row("@a", sum={"gt": 1, "lt": 2}), "/sum", "one comparison"),
        (row("@a", count={"sum": {"gt": 1}}), "/count", "one comparison"),
        (row("@a", any={"nope": 1}), "/any", "one comparison"),
        (row("@secrets.KEY"), "/ref", "reads a secret"),
        (row("@a", eq="@secrets.KEY"), "/eq", "reads a secret"),
        ({"expr": "secrets.KEY == 'x'"}, "/expr", "reads a secret (character 1)"),
        ({"expr": "self."}, "/expr", "is not CEL"),
        ({"expr": 5}, "/expr", "expr holds 5"),
        ({"python": "x = 1"}, "/python", "the Python defines no evaluate"),
        ({"python": "import os\ndef evaluate(output, context): return True"}, "/python", "imports something (line 1)"),
        ({"python": "def evaluate(output): return True"}, "/python", "can't be called with two arguments"),
        ({"python": "def evaluate(output, context) return True"}, "/python", "the Python can't be parsed: expected ':' (line 1)"),
        ({"python": ""}, "/python", "python holds the text ''"),
    ],
    ids=str,
)
def test_what_is_no_condition_is_refused_with_its_place_and_what_to_write(condition: Any, where: str, said: str) -> None:
    with pytest.raises(BadExpression, match=re.escape(said)) as caught:
        compile_condition({"all": [condition]})
    assert caught.value.where == f"/all/0{where}"
    assert len(str(caught.value)) < 450


def test_a_condition_is_compiled_once() -> None:
    one = compile_condition(row("@a", eq=1))
    assert compile_condition(row("@a", eq=1)) is one
    assert compile_condition(row("@a", eq=1.0)) is not one
    assert compile_condition(row("@a", eq=1), "null") is not one
    assert compile_condition(row("@a", eq=1), dollar="steps") is not one


def test_how_deep_groups_nest_and_values_are_compared_is_bounded() -> None:
    deep: Any = True
    for _ in range(70):
        deep = {"not": deep}
    with pytest.raises(BadExpression, match="levels deep"):
        compile_condition(deep)
    one: Any = 0
    for _ in range(3_000):
        one = [one]
    other: Any = 0
    for _ in range(3_000):
        other = [other]
    with pytest.raises(ExpressionFailed, match="nests too deep"):
        compile_condition(row("@a", eq="@b")).evaluate(StubScope(a=one, b=other))


texts = st.text(max_size=20) | st.sampled_from(["@self.score", "@fetch.n", "$.items[*].amount", "$..*", "@gone.x?", "(", "self.score > 1", "@@", "1 + "])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["type", "gt", "eq", "required"]) | st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
rows = st.builds(
    lambda ref, operators: {"ref": ref, **operators},
    texts,
    st.dictionaries(
        st.sampled_from([*OPERATORS, "matches", "sum", "min", "count", "any", "all"]), values | st.builds(lambda right: {"gt": right}, values), max_size=1
    ),
)
conditions = st.recursive(
    rows | values | st.builds(lambda text: {"expr": text}, texts),
    lambda inner: (
        st.builds(lambda name, parts: {name: parts}, st.sampled_from(["all", "any"]), st.lists(inner, max_size=3)) | st.builds(lambda one: {"not": one}, inner)
    ),
    max_leaves=4,
)


@pytest.mark.slow
@settings(deadline=None)
@given(conditions, st.sampled_from(["error", "null", "false"]), st.sampled_from(["self", "steps"]))
def test_every_value_is_a_condition_or_none_and_every_condition_is_true_or_false_or_fails(condition: Any, missing: Any, dollar: Any) -> None:
    assert outcome(lambda: compile_condition(condition, missing, dollar).evaluate(SCOPE)) in (True, False, "refused")
