"""Conditions row by row: the values that were compared, what was not reached, and that the rows say what the condition says."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import ExpressionFailed
from perdure.definitions.expr.condition import compile_condition
from perdure.definitions.expr.condition_rows import ConditionRow, condition_rows
from tests.definitions.expr.test_condition import FALSE, SCOPE, TRUE, row


def rows(condition: Any, missing: Any = "error", python: tuple[bool, ...] = ()) -> tuple[bool | None, list[ConditionRow]]:
    return condition_rows(compile_condition(condition, missing), SCOPE, python)


def test_a_row_has_the_values_on_both_sides() -> None:
    holds, (found,) = rows(row("@self.score", gt="@input.limit"))
    assert holds and found == ConditionRow(where="", source={"ref": "@self.score", "gt": "@input.limit"}, operator="gt", left=90, right=80, holds=True)
    holds, (found,) = rows("@self.blank")
    assert (holds, found.operator, found.left, found.holds) == (False, "", "", False)
    holds, (found,) = rows(row("$.items[*].amount", sum={"gt": 100}))
    assert (holds, found.operator, found.left, found.right) == (False, "sum gt", 11.5, 100)
    holds, (found,) = rows(row("$.items[*].tier", any={"eq": "tin"}))
    assert (holds, found.operator, found.left, found.right) == (True, "any eq", ["gold", "tin"], "tin")


def test_what_a_group_did_not_need_is_not_reached() -> None:
    both = {"all": [row("@self.score", gt=100), row("@self.nowhere", eq=1), {"not": row("@self.ok", eq=True)}]}
    holds, found = rows(both)
    assert holds is False and [(one.where, one.holds, one.problem) for one in found] == [("/all/0", False, ""), ("/all/1", None, ""), ("/all/2/not", None, "")]
    holds, found = rows({"any": [row("@self.score", gt=1), row("@self.score", gt=2)]})
    assert holds is True and [one.holds for one in found] == [True, None]
    assert rows({"not": "@self.ok"})[0] is False


def test_an_expression_has_the_values_that_it_reads() -> None:
    holds, (found,) = rows({"expr": "self.score >= 80 && fetch.n < 3"})
    assert holds is False and found.reads == {"@self.score": 90, "@fetch.n": 3} and found.operator == ""


def test_a_missing_value_is_said() -> None:
    holds, (found,) = rows(row("@self.nowhere", gt=1), "false")
    assert holds is False and found.left is None and "nowhere" in found.problem
    holds, (found,) = rows(row("@self.nowhere", gt=1))
    assert holds is None and found.holds is None and "nowhere" in found.problem
    holds, (found,) = rows(row("@self.name", gt=1))
    assert holds is None and found.left == "Ada" and "compares text with a number" in found.problem


def test_python_is_as_it_was_answered() -> None:
    source = {"python": "def evaluate(output, context):\n    return True"}
    both = {"all": [row("@self.ok", eq=True), source]}
    assert rows(both, python=(False,))[0] is False and rows(both, python=(True,))[0] is True
    holds, found = rows(both)
    assert holds is None and "Python" in found[1].problem


PARTS = st.sampled_from([*TRUE, *FALSE, row("@self.nowhere", eq=1), row("@self.name", gt=1), row("@fetch.gone", exists=True)])
CONDITIONS = st.recursive(
    PARTS,
    lambda inner: st.one_of(
        *[st.builds(lambda name, parts: {name: parts}, st.just(name), st.lists(inner, min_size=1, max_size=4)) for name in ("all", "any")],
        st.builds(lambda one: {"not": one}, inner),
    ),
    max_leaves=12,
)


@given(CONDITIONS, st.sampled_from(["error", "false", "null"]))
def test_the_rows_say_what_the_condition_says(condition: Any, missing: Any) -> None:
    compiled = compile_condition(condition, missing)
    found, parts = condition_rows(compiled, SCOPE)
    try:
        assert found is compiled.evaluate(SCOPE)
    except ExpressionFailed:
        assert found is None and any(one.problem for one in parts)
