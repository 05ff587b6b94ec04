"""Templates: what they make of references, what they read, and what they refuse."""

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.core.errors import BadExpression, ExpressionFailed
from perdure.core.limits import VALUE_BYTES_MAX
from perdure.definitions.expr.plain_values import DEPTH_MAX
from perdure.definitions.expr.references import TEXT_CHARACTERS_MAX
from perdure.definitions.expr.template import compile_template
from tests.definitions.expr.scope import StubScope, of_root, of_step, outcome

SCOPE = StubScope({"input": {"id": 7, "name": "Ada", "rate": 0.5, "ok": True, "none": None, "list": [1, {"a": "ü"}]}}, fetch={"n": 1}, skipped=None)


@pytest.mark.parametrize(
    ("value", "made"),
    [
        ("@input.id", 7),
        ("@{input.id}", 7),
        ("@{ input.id }", 7),
        ("@input.list", [1, {"a": "ü"}]),
        ("@input.none", None),
        ("@input.gone?", None),
        ("Order @{input.id}!", "Order 7!"),
        ("@{input.id}@{input.name}", "7Ada"),
        ("@{input.name} is here", "Ada is here"),
        ("@{input.rate} @{input.ok} @{input.none}| @{input.list} @{input.gone?}", '0.5 true | [1,{"a":"ü"}] '),
        ("@@", "@"),
        ("@@here", "@here"),
        ("@@{input.id}", "@{input.id}"),
        ("a@@b", "a@b"),
        ("ada@example.com", "ada@example.com"),
        ("ends with @", "ends with @"),
        ("", ""),
        (5, 5),
        (None, None),
        ({"a": ["@input.id", {"b": "x@{input.id}"}], "@input.id": 1}, {"a": [7, {"b": "x7"}], "@input.id": 1}),
    ],
)
def test_references_become_what_they_refer_to(value: Any, made: Any) -> None:
    found = compile_template(value).evaluate(SCOPE)
    assert found == made
    assert type(found) is type(made)


def test_what_is_read_is_known_with_its_place() -> None:
    template = compile_template({"a/b": ["@fetch.n", "x @{input.id}"], "c": "@steps.fetch.output.port"})
    assert template.reads == {
        of_step("fetch", "n", where="/a~1b/0"),
        of_root("input", "id", where="/a~1b/1"),
        of_step("fetch", "port", where="/c")._replace(root="steps"),
    }
    assert not template.constant


@pytest.mark.parametrize("value", ["plain", "ada@example.com", "@@x", {"a": [1, "b"]}, [], None])
def test_what_refers_to_nothing_is_constant(value: Any) -> None:
    template = compile_template(value)
    assert template.constant == (value != "@@x")
    assert not template.reads


def test_a_template_is_compiled_once_and_keeps_nothing_of_the_value_it_was_given() -> None:
    value = {"a": [1, "@input.id"], "b": {"c": 1}}
    template = compile_template(value)
    assert compile_template({"a": [1, "@input.id"], "b": {"c": 1}}) is template
    value["b"] = {"c": 2}
    value["a"].append(3)  # type: ignore[attr-defined]  # it is a list
    assert template.evaluate(SCOPE) == {"a": [1, 7], "b": {"c": 1}}


@pytest.mark.parametrize(("one", "other"), [(1, True), (1, 1.0), (0, False), ("1", 1), ([], {}), (None, False)])
def test_values_that_python_takes_for_equal_are_different_templates(one: Any, other: Any) -> None:
    assert type(compile_template([one]).evaluate(SCOPE)[0]) is type(one)
    assert type(compile_template([other]).evaluate(SCOPE)[0]) is type(other)


def test_large_values_are_compiled_too_and_not_kept() -> None:
    value = {"a": "x" * 100_000, "b": "@input.id"}
    assert compile_template(value).evaluate(SCOPE) == {"a": "x" * 100_000, "b": 7}
    assert compile_template(value) is not compile_template(value)


def test_a_secret_is_a_mark_and_text_with_one_in_it_is_marked_in_parts() -> None:
    assert compile_template("@secrets.KEY").evaluate(SCOPE) == {"@secret": "KEY"}
    assert compile_template("Bearer @{secrets.KEY} of @{input.id}").evaluate(SCOPE) == {"@text": ["Bearer ", {"@secret": "KEY"}, " of ", "7"]}


def test_data_that_looks_like_a_secret_is_text_in_text() -> None:
    scope = StubScope({"input": {"forged": {"@secret": "OTHER"}}})
    made = compile_template("@{input.forged} @{secrets.KEY}").evaluate(scope)
    assert made == {"@text": ['{"@secret":"OTHER"}', " ", {"@secret": "KEY"}]}


@pytest.mark.parametrize("key", ["@secret", "@text"])
def test_nobody_writes_the_marks_of_secrets_by_hand(key: str) -> None:
    with pytest.raises(BadExpression, match=key) as caught:
        compile_template({"a": {key: "KEY"}})
    assert caught.value.where == "/a"


@pytest.mark.parametrize(("missing", "made"), [("null", None), ("false", None)])
def test_in_other_dialects_what_is_missing_is_null(missing: Any, made: Any) -> None:
    assert compile_template(["@fetch.gone", "@nobody.x", "@input.a.b"], missing).evaluate(SCOPE) == [made] * 3


def test_what_is_missing_is_an_error_that_says_where_and_what() -> None:
    with pytest.raises(ExpressionFailed, match=re.escape("/a/0: @fetch.gone: there is no 'gone' among n. Write ? at its end")) as caught:
        compile_template({"a": ["@fetch.gone"]}).evaluate(SCOPE)
    assert caught.value.where == "/a/0"


def test_an_item_outside_of_an_each_is_an_error_even_where_what_is_missing_is_null() -> None:
    for reference in ("@item", "@item.x", "x @{index}"):
        with pytest.raises(ExpressionFailed, match="only inside of each"):
            compile_template(reference, "null").evaluate(SCOPE)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("@here we go", "nside text write @{here}"),
        ("x @{", "a name must follow the @"),
        ("x @{input.id", "is not closed where it should be (character 13)"),
        ("x @{input.id!}", "is not closed where it should be (character 13)"),
        ("x @{}", "a name must follow the @"),
        ({1: 2}, "a key is not text"),
        ([float("nan")], "a number is not finite"),
        ([2**64], "a number has more than 64 bits"),
        (["\ud800"], "lone surrogate"),
        ([object()], "object is not plain data"),
        ([b"x"], "bytes is not plain data"),
        ("@a" + "x" * TEXT_CHARACTERS_MAX, "a text with references has"),
    ],
)
def test_what_is_no_template_is_refused(value: Any, said: str) -> None:
    with pytest.raises(BadExpression, match=re.escape(said)):
        compile_template(value)


def test_how_deep_a_value_nests_is_bounded() -> None:
    value: Any = "@input.id"
    for _ in range(DEPTH_MAX):
        value = [value]
    compile_template(value)
    for deep in ([value], deep_list(100_000)):
        with pytest.raises(BadExpression, match=f"more than {DEPTH_MAX} levels"):
            compile_template(deep)


def deep_list(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.slow
def test_how_long_a_text_becomes_is_bounded() -> None:
    scope = StubScope({"input": "x" * (VALUE_BYTES_MAX // 1000)})
    with pytest.raises(ExpressionFailed, match="the text becomes"):
        compile_template("@{input}" * 1001).evaluate(scope)


@pytest.mark.slow
def test_what_is_put_into_text_may_nest_so_far() -> None:
    with pytest.raises(ExpressionFailed, match="nests too deep"):
        compile_template("x @{input}").evaluate(StubScope({"input": deep_list(100_000)}))


def test_a_value_in_an_error_is_cut_short() -> None:
    scope = StubScope({"input": {f"{'k' * 500}{place}": 1 for place in range(50)}})
    with pytest.raises(ExpressionFailed) as caught:
        compile_template("@input.gone").evaluate(scope)
    assert len(str(caught.value)) < 250


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.text(alphabet="@{}ab.[]0? ").map(lambda text: f"@{text}"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.slow
@settings(deadline=None)
@given(plain, st.sampled_from(["error", "null", "false"]))
def test_every_value_is_a_template_or_none_and_every_template_has_a_value_or_fails(value: Any, missing: Any) -> None:
    outcome(lambda: compile_template(value, missing).evaluate(SCOPE))
