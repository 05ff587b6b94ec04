"""Joining: rows that meet, and those that do not, as nested loops would have them."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.definitions.kinds.pipeline.pipeline_limits import PipelineLimits
from tests.definitions.kinds.pipeline.sample_tables import SCALARS, equal, piped, refused

Rows = list[dict[str, Any]]
LEFT = st.lists(st.fixed_dictionaries({"id": SCALARS, "v": SCALARS}), min_size=1, max_size=6)
RIGHT = st.lists(st.fixed_dictionaries({"key": SCALARS, "v": SCALARS}), min_size=1, max_size=6)


def meet(left: dict[str, Any], right: dict[str, Any]) -> bool:
    return left["id"] is not None and equal(left["id"], right["key"])


def nested(left: Rows, right: Rows, how: str) -> Rows:
    def both(one: dict[str, Any] | None, other: dict[str, Any] | None) -> dict[str, Any]:
        id = one["id"] if one else other["key"] if other else None
        return {"id": id, "v": one["v"] if one else None, "v_right": other["v"] if other else None}

    if how == "anti":
        return [one for one in left if not any(meet(one, other) for other in right)]
    if how == "right":
        return [row for other in right for row in ([both(one, other) for one in left if meet(one, other)] or [both(None, other)])]
    found = []
    for one in left:
        others = [other for other in right if meet(one, other)]
        found += [both(one, other) for other in others] or ([both(one, None)] if how in ("left", "full") else [])
    lonely = [other for other in right if not any(meet(one, other) for one in left)]
    return found + ([both(None, other) for other in lonely] if how == "full" else [])


@pytest.mark.slow
@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "anti"])
@settings(deadline=None)
@given(LEFT, RIGHT)
def test_a_join_is_what_nested_loops_find(how: str, left: Rows, right: Rows) -> None:
    assert piped(left, {"join": {"with": "other", "on": {"id": "key"}, "how": how}}, other=right) == nested(left, right, how)


PEOPLE = [{"id": 1, "name": "Ada", "at": {"city": "Rome"}}, {"id": 2, "name": "Bo", "at": {"city": "Oslo"}}]
CITIES = [{"city": "Rome", "name": "Roma", "year": 1}, {"city": "Rome", "name": "Rome", "year": 2}]


def test_fields_of_both_get_their_suffixes_and_the_right_key_is_left_out() -> None:
    plain = {"with": "cities", "on": {"at.city": "city"}}
    first = {"id": 1, "name": "Ada", "at": {"city": "Rome"}, "name_right": "Roma", "year": 1}
    assert piped(PEOPLE, {"join": plain}, cities=CITIES)[0] == first
    assert list(piped(PEOPLE, {"join": {**plain, "suffixes": ["_a", "_b"]}}, cities=CITIES)[0]) == ["id", "name_a", "at", "name_b", "year"]
    assert list(piped(PEOPLE, {"join": {**plain, "suffix": "_of_city"}}, cities=CITIES)[0]) == ["id", "name", "at", "name_of_city", "year"]


def test_a_row_that_only_the_right_has_brings_its_key_to_the_left_place() -> None:
    rows = piped(PEOPLE[:0], {"join": {"with": CITIES[:1], "on": {"at.city": "city"}, "how": "full"}})
    assert rows == [{"at": {"city": "Rome"}, "name": "Roma", "year": 1}]


def test_of_an_empty_table_no_fields_are_known() -> None:
    assert piped(PEOPLE[:1], {"join": {"with": [], "on": "id", "how": "left"}}) == PEOPLE[:1]
    assert piped([], {"join": {"with": [{"id": 1, "v": 2}], "on": "id", "how": "right"}}) == [{"id": 1, "v": 2}]


def test_several_keys_have_to_meet_together() -> None:
    left = [{"a": 1, "b": 2, "x": "l"}, {"a": 1, "b": None, "x": "null meets nothing"}, {"a": 1, "x": "nor what is missing"}]
    right = [{"a": 1, "b": 2, "y": "r"}, {"a": 1, "b": 3, "y": "no"}, {"a": 1, "b": None, "y": "null"}, {"a": 1}]
    assert piped(left, {"join": {"with": right, "on": ["a", "b"]}}) == [{"a": 1, "b": 2, "x": "l", "y": "r"}]


def test_what_a_join_would_blow_up_to_is_refused_before_it_is_made() -> None:
    same = [{"k": 1}] * 2000
    assert refused(same, {"top_k": 3000}, {"join": {"with": "other", "on": "k"}}, other=same) == (
        "pipeline[1] (join): there are 4,000,000 rows of the join, and at most 1,000,000 are allowed; filter earlier, or raise limits.rows"
    )
    assert len(piped(same[:30], {"join": {"with": "other", "on": "k"}}, other=same[:30], bounds=PipelineLimits(rows=900))) == 900


def test_a_table_that_is_not_there_is_named_with_the_one_that_was_meant() -> None:
    assert "there is no table 'citys' in the input; did you mean 'cities'?" in refused(PEOPLE, {"join": {"with": "citys", "on": "id"}}, cities=CITIES)
    clash = [{"id": 1, "name": "x", "name_right": "y"}]
    assert "two fields would be named 'name_right'" in refused(PEOPLE, {"join": {"with": clash, "on": "id"}})
