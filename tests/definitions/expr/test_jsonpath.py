"""JSONPath: what it finds, how much it may take, and what its regular expressions do."""

import re
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.core.errors import BadExpression
from perdure.definitions.expr.jsonpath import NODES_MAX, compile_jsonpath
from perdure.definitions.expr.plain_values import ValueKindError
from perdure.definitions.expr.references import EXPRESSION_CHARACTERS_MAX
from tests.definitions.expr.scope import outcome

VALUE = {"n": 1, "ok": True, "items": [{"n": 1, "tag": "ab"}, {"n": 2.5, "tag": "b"}, {"n": "3"}], "a b": {"deep": [[1], [2]]}}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$", [VALUE]),
        ("$.items[*].n", [1, 2.5, "3"]),
        ("$.items[?@.n > 1].n", [2.5]),
        ("$.items[?(@.tag == 'b')].n", [2.5]),
        ("$.items[?@.n == 1.0].n", [1]),
        ("$.items[?@.n == true].n", []),
        ("$[?@ == true]", [True]),
        ("$.items[?@.n == $.n].n", [1]),
        ("$['a b']..[0]", [[1], 1, 2]),
        ("$.items[-1].n", ["3"]),
        ("$.items[::-1].n", ["3", 2.5, 1]),
        ("$.items[?length(@.tag) == 2].n", [1]),
        ("$.items[?match(@.tag, '.b')].n", [1]),
        ("$.items[?search(@.tag, 'b')].n", [1, 2.5]),
        ("$.items[?!@.tag].n", ["3"]),
        ("$.gone", []),
        ("$.n.x", []),
    ],
)
def test_it_finds(path: str, found: list[Any]) -> None:
    assert compile_jsonpath(path).find(VALUE) == found


@pytest.mark.parametrize("root", ['{"n": 1}', "[1]", "{", "", None, 5, True])
def test_a_root_that_is_no_mapping_is_what_it_is(root: Any) -> None:
    assert compile_jsonpath("$").find(root) == [root]
    assert compile_jsonpath("$.n").find(root) == compile_jsonpath("$[0]").find(root) == compile_jsonpath("$..*").find(root) == []


def test_what_is_fixed_of_its_paths_is_known() -> None:
    query = compile_jsonpath("$.a.b[0]['c d'][?@.x == $.e.f && count($.g[*].h) > 1].y")
    assert query.starts == (("a", "b", 0, "c d"), ("e", "f"), ("g",))
    assert not query.singular
    assert compile_jsonpath("$.a[0]").singular
    assert compile_jsonpath("$.a.length()").length
    assert not compile_jsonpath("$.length").length


@pytest.mark.parametrize(
    "path", ["", "a", "$.", "$[", "$.a[?", "$.a[?@.x = 1]", "$ ", "$.a | $.b", "$[1e400]", "$[9999999999999999999]", "$.a[?foo(@)]", "$.length().x"]
)
def test_what_is_none_is_refused(path: str) -> None:
    with pytest.raises(BadExpression, match=re.escape("is not a JSONPath")) as caught:
        compile_jsonpath(path, "/ref")
    assert caught.value.where == "/ref"


@pytest.mark.parametrize(
    "path", ["$" + "[?@" * 20_000, "$[?" + "(" * 30_000, "$[?" + "!" * 30_000 + "@", "$" + ".a" * 30_000, "$" + "[" * 60_000, "$['" + "\\" * 60_000]
)
def test_long_paths_are_read_or_refused_in_time(path: str) -> None:
    began_s = time.process_time()
    outcome(lambda: compile_jsonpath(path).find(VALUE))
    assert time.process_time() - began_s < 3
    with pytest.raises(BadExpression, match="characters"):
        compile_jsonpath(path + "x" * EXPRESSION_CHARACTERS_MAX)


@pytest.mark.slow
def test_how_many_it_finds_and_how_far_it_goes_is_bounded() -> None:
    many = {"a": [0] * (NODES_MAX + 1)}
    with pytest.raises(ValueKindError, match="the path finds 40,001 values"):
        compile_jsonpath("$.a[*]").find(many)
    wide = {str(place): {"x": [0] * 10} for place in range(2_000)}
    for path in ("$[?count($..*) > 1]", "$[*,*,*,*,*,*,*,*,*,*][*,*,*,*,*,*,*,*,*,*][*,*,*,*,*,*,*,*,*,*]"):
        began_s = time.process_time()
        with pytest.raises(ValueKindError, match="takes more than 100,000 steps"):
            compile_jsonpath(path).find(wide)
        assert time.process_time() - began_s < 4


def test_regular_expressions_take_time_in_proportion() -> None:
    value = [{"s": "a" * 50_000 + "b"}]
    began_s = time.process_time()
    assert compile_jsonpath("$[?match(@.s, '(a+)+c')]").find(value) == []
    assert compile_jsonpath("$[?search(@.s, '(a|a)*c')]").find(value) == []
    assert compile_jsonpath("$[?search(@.s, '(')]").find(value) == []
    assert time.process_time() - began_s < 1


@pytest.mark.slow
def test_deep_values_are_gone_through() -> None:
    value: Any = 1
    for _ in range(20_000):
        value = [value]
    assert compile_jsonpath("$..[?@ == 1]").find(value) == [1]


@pytest.mark.slow
@settings(deadline=None)
@given(st.text(max_size=30).map(lambda text: f"${text}") | st.text(alphabet="$.@[]?*'\"ab0-:,()&|=<>! ", max_size=30).map(lambda text: f"${text}"))
def test_every_text_is_a_path_or_none(text: str) -> None:
    assert isinstance(outcome(lambda: compile_jsonpath(text).find(VALUE)), list | str)
