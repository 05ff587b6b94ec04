"""What a template may come to: so many values and bytes, counted while it expands."""

import time
from typing import Any

import pytest

from perdure.core.errors import ExpressionFailed
from perdure.core.limits import VALUE_BYTES_MAX
from perdure.definitions.expr.template import EXPANDED_VALUES_MAX, check_expansion, compile_template
from tests.definitions.expr.scope import StubScope

LARGE = [list(range(100)) for _ in range(1500)]
LONG = "x" * (VALUE_BYTES_MAX // 4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("value", "said"),
    [
        (["@large"] * 4, "more than 500,000 values"),
        ({"a": {"b": "@large"}, "c": ["@large", "@large", "@{large}"]}, "more than 500,000 values"),
        ({str(n): "@{long}" for n in range(5)}, "more than 16,777,216 bytes"),
        ({str(n): "say @{long}" for n in range(5)}, "longer than 16,777,216 characters"),
        (["@{long}@{long}@{long}@{long}@{long}"], "longer than 16,777,216 characters"),
        (["@{long} " * 8_000], "longer than 16,777,216 characters"),
        (["say @{large}" for _ in range(10_000)], "longer than 16,777,216 characters"),
        (["@large"] * 10_000, "more than 500,000 values"),
        (["@{secrets.TOKEN}@{long}" for _ in range(10_000)], "longer than 16,777,216 characters"),
    ],
)
def test_several_references_come_to_no_more_than_one_value_may_be(value: Any, said: str) -> None:
    template, scope = compile_template(value), StubScope(large=LARGE, long=LONG)
    began_s = time.process_time()
    with pytest.raises(ExpressionFailed, match=said):
        template.evaluate(scope)
    assert time.process_time() - began_s < 10


@pytest.mark.parametrize("value", ["@rows", {"rows": "@rows"}, [["@rows"]], {"a": 1, "b": ["x", "@rows"]}])
def test_one_reference_passes_on_whatever_there_is(value: Any) -> None:
    rows = list(range(EXPANDED_VALUES_MAX * 2))
    made = compile_template(value).evaluate(StubScope(rows=rows))
    while made is not rows:
        assert isinstance(made, dict | list)
        made = list(made.values())[-1] if isinstance(made, dict) else made[-1]


def test_texts_of_the_other_language_are_counted_together() -> None:
    text = "{{ input.text }}{{ input.text }}"
    with pytest.raises(ExpressionFailed, match="longer than 16,777,216 characters"):
        compile_template([text] * 20, expressions="braces").evaluate(StubScope({"input": {"text": "x" * 1_000_000}}))
    with pytest.raises(ExpressionFailed, match="more than 500,000"):
        compile_template(["{{ [input.rows, input.rows] }}"], expressions="braces").evaluate(StubScope({"input": {"rows": list(range(300_000))}}))


@pytest.mark.slow
def test_what_fits_is_returned_as_it_is() -> None:
    value = {"a": [LARGE, {"b": LARGE}], "c": None, "d": 1.5, "e": True}
    assert check_expansion(value) is value
    for over in ([0] * (EXPANDED_VALUES_MAX + 1), {str(n): 0 for n in range(EXPANDED_VALUES_MAX + 1)}, ["x" * VALUE_BYTES_MAX, 1], {"x" * VALUE_BYTES_MAX: 1}):
        with pytest.raises(ExpressionFailed):
            check_expansion(over)


@pytest.mark.slow
def test_a_chain_that_doubles_is_refused_before_it_takes_memory() -> None:
    value: Any = "x"
    for _ in range(60):
        value = [value, value]
    began_s = time.process_time()
    with pytest.raises(ExpressionFailed, match="more than 500,000 values"):
        check_expansion(value)
    assert time.process_time() - began_s < 10
