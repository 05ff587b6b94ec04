"""Tables: sorting, choosing and cutting rows, held against what is plainly right."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.definitions.kinds.pipeline.sample_tables import NUMBERS, compared, in_order, piped, refused, rows_of

Rows = list[dict[str, Any]]
FRUIT = [{"name": "fig", "price": 3}, {"name": "kiwi", "price": 1.5}, {"name": "plum"}, {"name": "pear", "price": 3, "at": {"row": [7, 8]}}]


def names(rows: Rows) -> list[str]:
    return [row["name"] for row in rows]


@pytest.mark.slow
@settings(deadline=None)
@given(rows_of(), st.booleans())
def test_rows_of_any_kinds_are_sorted_stably_with_nulls_last(rows: Rows, down: bool) -> None:
    assert piped(rows, {"table_sort": {"field": "a", "order": "desc" if down else "asc"}}) == in_order(rows, "a", down)


@pytest.mark.slow
@settings(deadline=None)
@given(rows_of())
def test_several_fields_sort_as_the_last_first_and_then_the_others(rows: Rows) -> None:
    assert piped(rows, {"table_sort": ["a", "-b"]}) == in_order(in_order(rows, "b", down=True), "a")


def test_nulls_come_first_where_that_is_said_and_integers_beside_floats_are_compared_exactly() -> None:
    assert names(piped(FRUIT, {"table_sort": {"by": [{"field": "price", "nulls": "first"}, "name"]}})) == ["plum", "kiwi", "fig", "pear"]
    near = [{"n": 2**53 + 1}, {"n": float(2**53)}, {"n": 2**53 - 1}]
    assert piped(near, {"table_sort": "n"}) == [near[2], near[1], near[0]]


@pytest.mark.slow
@settings(deadline=None)
@given(rows_of(), st.integers(0, 14), st.booleans())
def test_the_top_k_are_the_first_k_of_the_sorted(rows: Rows, k: int, up: bool) -> None:
    assert piped(rows, {"top_k": k}) == rows[:k]
    assert piped(rows, {"top_k": {"k": k, "field": "b", "order": "asc" if up else "desc"}}) == in_order(rows, "b", not up)[:k]


def test_few_of_many_are_those_that_sorting_all_would_give() -> None:
    many = [{"n": number * 7919 % 100, "at": number} for number in range(3000)] + [{"n": None}, {}]
    for order in ("asc", "desc"):
        right = sorted(many[:3000], key=lambda row: row["n"] or 0, reverse=order == "desc")[:40]
        assert piped(many, {"top_k": {"k": 40, "field": "n", "order": order}}) == right


@pytest.mark.slow
@settings(deadline=None)
@given(rows_of(st.one_of(st.none(), NUMBERS)), st.sampled_from(["eq", "neq", "gt", "gte", "lt", "lte"]), NUMBERS)
def test_a_filter_keeps_the_rows_for_which_its_row_holds(rows: Rows, operator: str, right: float) -> None:
    def holds(value: Any) -> bool:
        if value is None:
            return operator == "neq"
        sign = compared(value, right)
        return {"eq": sign == 0, "neq": sign != 0, "gt": sign > 0, "gte": sign >= 0, "lt": sign < 0, "lte": sign <= 0}[operator]

    wanted = [row for row in rows if holds(row.get("a"))]
    assert piped(rows, {"table_filter": {"field": "a", operator: right}}) == wanted
    assert piped(rows, {"table_filter": {"ref": "@self.a", operator: right}}) == wanted


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ({"field": "price", "op": ">=", "value": 3}, ["fig", "pear"]),
        ({"condition": {"field": "price", "lt": 3}}, ["kiwi"]),
        ({"field": "price", "exists": False}, ["plum"]),
        ({"field": "price", "op": "exists"}, ["fig", "kiwi", "pear"]),
        ({"field": "price", "eq": None}, ["plum"]),
        ({"field": "name", "in": ["fig", "plum"]}, ["fig", "plum"]),
        ({"field": "name", "matches_re": "^p"}, ["plum", "pear"]),
        ({"field": "at.row[1]", "eq": 8}, ["pear"]),
        ({"field": "name", "gt_field": "other"}, []),
        ({"ref": "@self.price", "eq": "@self.price"}, ["fig", "kiwi", "plum", "pear"]),
        ({"field": "price", "op": "=", "value": "@self.price"}, ["fig", "kiwi", "plum", "pear"]),
        ({"any": [{"field": "price", "gt": 2}, {"not": "price"}]}, ["fig", "plum", "pear"]),
        ({"all": ["@self.price", {"field": "name", "contains": "i"}]}, ["fig", "kiwi"]),
        ({"ref": "$.at.row[*]", "sum": {"gt": 14}}, ["pear"]),
        ({"field": "at.row", "any": {"eq": 7}}, ["pear"]),
        ({"expr": "has(self.price) && price > 2"}, ["fig", "pear"]),
        ({"field": "at", "matches": {"required": ["row"], "type": "object"}}, ["pear"]),
    ],
)
def test_conditions_are_written_in_many_ways(condition: Any, kept: list[str]) -> None:
    assert names(piped(FRUIT, {"table_filter": {"condition": condition, "on_error": "skip"} if "expr" in condition else condition})) == kept


def test_what_is_compared_with_is_data_and_an_at_in_it_is_one() -> None:
    rows = [{"who": "@ada", "to": "me@{x}"}, {"who": "@@ada", "to": "@"}]
    assert piped(rows, {"table_filter": {"field": "who", "eq": "@ada"}}) == rows[:1]
    assert piped(rows, {"table_filter": {"field": "to", "in": ["me@{x}", "nobody"]}}) == rows[:1]


def test_text_beside_a_number_is_an_error_of_its_row_or_skips_it() -> None:
    mixed = [{"n": 1}, {"n": "two"}]
    assert refused(mixed, {"table_filter": {"field": "n", "gt": 0}}).startswith("pipeline[0] (table_filter): row 1: ")
    assert piped(mixed, {"table_filter": {"condition": {"field": "n", "gt": 0}, "on_error": "skip"}}) == mixed[:1]


@pytest.mark.slow
@settings(deadline=None)
@given(rows_of())
def test_a_selection_has_the_fields_asked_for_in_their_order_and_nothing_else(rows: Rows) -> None:
    selected = piped(rows, {"table_select": {"x": "b", "y": {"field": "a", "default": 0}, "inner": "c.x"}})
    for row, found in zip(rows, selected, strict=True):
        assert list(found) == ["x", "y", "inner"] and found["x"] == row.get("b")
        assert found["y"] == (0 if row.get("a") is None else row["a"])
        assert found["inner"] == (row["c"].get("x") if isinstance(row.get("c"), dict) else None)


def test_fields_are_selected_by_lists_and_renamed_beside_them() -> None:
    assert piped(FRUIT[3:], {"step": "table_select", "fields": ["name", {"field": "at.row[-1]", "as": "last"}]}) == [{"name": "pear", "last": 8}]
    assert piped([{"a.b": 1, "a": {"b": 2}}], {"table_select": {"fields": {"dotted": '["a.b"]', "inner": "a.b"}}}) == [{"dotted": 1, "inner": 2}]
    assert "two fields would be called 'b'" in refused([], {"table_select": ["a.b", "b"]})


def test_nothing_that_is_given_is_changed() -> None:
    rows = [{"a": {"b": [1]}}, {"a": None}]
    other = [{"a": None, "z": 1}]
    before = repr((rows, other))
    ops = [
        {"table_sort": "-a"},
        {"join": {"with": "other", "on": "a", "how": "full"}},
        {"regex_extract": {"field": "z", "pattern": "(.)", "as": "a", "on_error": "null"}},
    ]
    _ = piped(rows, *ops, other=other)
    assert repr((rows, other)) == before
