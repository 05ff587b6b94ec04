"""Grouping: what becomes of groups is what is plainly right, and sums are exact."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.definitions.kinds.pipeline.pipeline_limits import PipelineLimits
from tests.definitions.kinds.pipeline.sample_tables import NUMBERS, compared, equal, piped, refused, rows_of

Rows = list[dict[str, Any]]


@pytest.mark.slow
@settings(deadline=None)
@given(rows_of())
def test_groups_have_what_is_made_of_their_rows_in_the_order_in_which_they_were_seen(rows: Rows) -> None:
    made = {"rows": "count", "bs": {"list": "b"}, "n": {"count": "b"}, "first": {"first": "b"}, "last": {"last": "b"}}
    made |= {"least": {"min": "b"}, "most": {"max": "b"}, "kinds": {"count_distinct": "b"}}
    groups: list[tuple[Any, Rows]] = []
    for row in rows:
        for key, members in groups:
            if equal(key, row.get("a")):
                members.append(row)
                break
        else:
            groups.append((row.get("a"), [row]))
    found = piped(rows, {"groupby": {"by": "a", "aggregates": made}})
    assert [row["a"] for row in found] == [key for key, _ in groups]
    for row, (_, members) in zip(found, groups, strict=True):
        values = [one.get("b") for one in members]
        known = [value for value in values if value is not None]
        assert (row["rows"], row["bs"], row["n"], row["first"], row["last"]) == (len(values), values, len(known), values[0], values[-1])
        assert row["kinds"] == sum(not any(equal(value, other) for other in known[:place]) for place, value in enumerate(known))
        assert all(compared(row["least"], value) <= 0 <= compared(row["most"], value) for value in known)
        assert known or (row["least"] is None and row["most"] is None)


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(NUMBERS, max_size=20), st.randoms())
def test_sums_are_exact_and_the_same_in_any_order(values: list[float], random: Any) -> None:
    total = sum(map(Fraction, values), Fraction(0))
    if all(type(value) is int for value in values) and not -(2**63) <= total < 2**64:
        assert "more than 64 bits" in refused([{"n": value} for value in values], {"groupby": {"by": [], "aggregates": {"sum": {"sum": "n"}}}})
        return
    for _ in range(2):
        (row,) = piped([{"n": value} for value in values], {"groupby": {"by": [], "aggregates": {"sum": {"sum": "n"}, "avg": {"avg": "n"}}}})
        whole = all(type(value) is int for value in values)
        assert row["sum"] == (int(total) if whole else float(total)) and type(row["sum"]) is (int if whole else float)
        assert row["avg"] == (float(total) / len(values) if not whole else int(total) / len(values) if values else None)
        random.shuffle(values)


def test_a_group_of_several_fields_keeps_them_apart_and_may_name_them() -> None:
    rows = [{"a": 1, "b": {"c": "x"}}, {"a": True, "b": {"c": "x"}}, {"a": 1.0, "b": {"c": "x"}}, {"a": None}, {}]
    assert piped(rows, {"step": "groupby", "by": ["a", {"field": "b.c", "as": "inner"}]}) == [
        {"a": 1, "inner": "x", "count": 2},
        {"a": True, "inner": "x", "count": 1},
        {"a": None, "inner": None, "count": 2},
    ]


@pytest.mark.parametrize(("on_error", "total"), [("null", 3), ("skip", 2)])
def test_what_is_no_number_fails_counts_as_nothing_or_leaves_its_row_out(on_error: str, total: int) -> None:
    rows = [{"n": 1}, {"n": "2"}, {"n": 2}]
    aggregates = {"sum": {"sum": "n"}, "rows": "count"}
    assert "row 1: 'sum' is made of numbers, and here it finds the text '2'" in refused(rows, {"groupby": {"by": [], "aggregates": aggregates}})
    assert piped(rows, {"groupby": {"by": [], "aggregates": aggregates, "on_error": on_error}}) == [{"sum": 3, "rows": total}]


def test_of_no_rows_one_group_is_left_where_nothing_is_grouped_by_and_else_none() -> None:
    assert piped([], {"groupby": {"aggregates": {"n": "count", "s": {"sum": "x"}, "a": {"avg": "x"}}}}) == [{"n": 0, "s": 0, "a": None}]
    assert piped([], {"groupby": "x"}) == []


def test_too_many_groups_are_refused_before_they_are_made() -> None:
    rows = [{"n": number} for number in range(6)]
    assert refused(rows, {"top_k": 6}, {"groupby": "n"}, bounds=PipelineLimits(groups=5)) == (
        "pipeline[1] (groupby): there are more than 5 groups; group by something coarser, or raise limits.groups"
    )
