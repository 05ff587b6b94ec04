"""Shaping: pipelines that do the same have one name, whatever they are done to."""

from typing import Any

import pytest

from perdure.definitions.kinds.pipeline.composites import pipeline_shape


def name_of(*ops: Any) -> str:
    found = pipeline_shape(ops)
    assert found is not None
    return found.name


BEST = ({"table_filter": {"field": "price", "gt": 10}}, {"table_sort": {"field": "price"}}, {"top_k": 3})


def test_a_shape_has_a_name_a_sentence_and_inputs() -> None:
    found = pipeline_shape(BEST)
    assert found is not None
    assert found.name.startswith("filter_price_sort_price_top_3_") and len(found.name.rsplit("_", 1)[1]) == 12
    assert found.description == "Keeps rows by price; sorts by price; takes the first 3"
    assert found.inputs == ("rows",)
    assert found.pipeline == [{"table_filter": {"condition": {"field": "price", "gt": 10}}}, {"table_sort": {"field": "price"}}, {"top_k": {"k": 3}}]


def test_spelling_and_defaults_make_no_difference_and_constants_do() -> None:
    other = ({"step": "table_filter", "ref": "@self.price", "gt": 10}, {"step": "table_sort", "field": "price", "order": "asc"}, {"step": "top_k", "k": 3})
    assert name_of(*other) == name_of(*BEST)
    assert name_of(*BEST[:2], {"top_k": 4}) != name_of(*BEST)
    assert name_of(*BEST[:2]) != name_of(*BEST)


def test_references_become_inputs_and_rows_that_stand_there_a_table() -> None:
    found = pipeline_shape(
        [
            {
                "table_filter": {
                    "all": [{"field": "price", "gt": "@fetch.range.min"}, {"field": "at", "eq": "@input.min"}, {"field": "x", "eq": "a@@b @{fetch.range.min}"}]
                }
            },
            {"join": {"with": [{"id": 1}], "on": "id"}},
            {"join": {"with": "@fetch.people", "on": "id"}},
            {"join": {"with": "cities", "on": "city"}},
        ]
    )
    assert found is not None
    assert found.inputs == ("rows", "table", "people", "cities", "min", "min_2") and found.tables == ("table", "people", "cities")
    assert [one["field"] for one in found.pipeline[0]["table_filter"]["condition"]["all"]] == ["price", "at", "x"]
    assert [one.get("gt", one.get("eq")) for one in found.pipeline[0]["table_filter"]["condition"]["all"]] == [
        "@input.min",
        "@input.min_2",
        "a@@b @{input.min}",
    ]
    assert found.pipeline[1] == {"join": {"with": "table", "on": "id"}}
    assert name_of({"join": {"with": [{"id": 1}], "on": "id"}}) == name_of({"join": {"with": [{"id": 2}, {"id": 3}], "on": "id"}})


def test_what_is_resolved_has_no_references_and_an_at_in_it_stays_one() -> None:
    found = pipeline_shape([{"table_filter": {"field": "who", "eq": "@ada"}}], resolved=True)
    assert found is not None and found.inputs == ("rows",)
    assert found.pipeline == [{"table_filter": {"condition": {"field": "who", "eq": "@@ada"}}}]


@pytest.mark.parametrize("ops", [[], ["x"], [{"nothing": 1}]])
def test_what_is_no_pipeline_has_no_shape(ops: Any) -> None:
    assert pipeline_shape(ops) is None


def test_a_pipeline_that_asks_for_its_rows_takes_none() -> None:
    found = pipeline_shape([{"step": "http_request", "url": "api.flights.example/search", "params": {"origin": "NYC"}}, {"top_k": 1}])
    assert found is not None and found.inputs == () and found.name.startswith("get_api_flights_example_top_1_")
    beside = pipeline_shape([{"http_request": {"url": "@input.url", "into": "fares"}}, {"join": {"with": "fares", "on": "id"}}])
    assert beside is not None and beside.inputs == ("rows", "url")
