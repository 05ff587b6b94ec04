"""Operations: how they may be written, and what is said of what is none."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.definitions.kinds.pipeline import PipelineFailed, pipeline_runner
from perdure.definitions.kinds.pipeline.pipeline_kind import check_pipeline
from perdure.definitions.kinds.pipeline.pipeline_runner import OPERATIONS
from tests.definitions.kinds.pipeline.sample_tables import piped, refused

ROWS = [{"a": 2, "b": "x1"}, {"a": 1, "b": "y2"}, {"a": None}]
ELEVEN = [
    "http_request",
    "table_sort",
    "table_filter",
    "table_select",
    "top_k",
    "groupby",
    "join",
    "jq_transform",
    "regex_extract",
    "parse_csv",
    "parse_date",
]


def test_there_are_eleven_primitives() -> None:
    assert list(OPERATIONS) == ELEVEN


@pytest.mark.parametrize(
    "ways",
    [
        [{"table_sort": "a"}, {"table_sort": ["a"]}, {"table_sort": {"field": "a"}}, {"step": "table_sort", "field": "a", "order": "asc"}],
        [{"top_k": 2}, {"top_k": {"k": 2}}, {"step": "top_k", "k": 2}],
        [
            {"table_filter": {"field": "a", "gt": 1}},
            {"step": "table_filter", "field": "a", "op": ">", "value": 1},
            {"step": "table_filter", "condition": {"field": "a", "gt": 1}},
        ],
        [{"groupby": "a"}, {"step": "groupby", "by": "a"}, {"groupby": {"by": ["a"], "aggregates": {"count": "count"}}}],
        [{"table_select": ["a"]}, {"table_select": {"a": "a"}}, {"step": "table_select", "fields": [{"field": "a"}]}],
    ],
)
def test_an_operation_is_written_in_several_ways_that_mean_the_same(ways: list[Any]) -> None:
    first, *others = [piped(ROWS, way) for way in ways]
    assert others == [first] * len(others)


@pytest.mark.parametrize(
    ("op", "why"),
    [
        ({"tabel_sort": "a"}, "pipeline[1] (?): 'tabel_sort' is not an operation; did you mean 'table_sort'?"),
        ({"step": "topk", "k": 1}, "pipeline[1] (?): 'topk' is not an operation; did you mean 'top_k'?"),
        ({"table_sort": {"field": "a", "ordre": "asc"}}, "pipeline[1] (table_sort): 'ordre' is not a field of it; did you mean 'order'?"),
        ({"table_sort": {"field": "a", "order": "up"}}, "pipeline[1] (table_sort): order is one of asc, desc, not the text 'up'"),
        ({"table_sort": {}}, "pipeline[1] (table_sort): it takes 'field' or 'by', and one of them alone"),
        ({"top_k": -1}, "pipeline[1] (top_k): k is a whole number from 0, not -1"),
        ({"top_k": {}}, "pipeline[1] (top_k): 'k' is missing: a whole number from 0"),
        ({"table_filter": {"field": "a", "grater": 1}}, "'grater' is not an operator"),
        ({"table_filter": {"field": "a", "gt": 1, "lt": 3}}, "a row has one operator, found 'gt' and 'lt'"),
        ({"table_filter": {"ref": "@fetch.a", "gt": 1}}, "'@fetch.a' is not a field of the row; write @self.price, or field: price"),
        ({"table_filter": {"python": "def evaluate(o, c): ..."}}, "a pipeline has only conditions in rows and CEL"),
        ({"table_filter": {"expr": "a >"}}, "pipeline[1] (table_filter): "),
        ({"table_sort": "a..b"}, "'a..b' is not a path to a field"),
        ({"regex_extract": {"field": "b", "pattern": "(", "as": "x"}}, "'(' is not a regular expression: missing )"),
        ({"regex_extract": {"field": "b", "pattern": "."}}, "'as' is missing"),
        ({"join": "other"}, "pipeline[1] (?): join takes a mapping of arguments, not the text 'other'"),
        ({"join": {"with": "other"}}, "pipeline[1] (join): 'on' is missing: a field, a list of fields, or {left field: right field}"),
        (
            {"groupby": {"by": "a", "aggregates": {"x": {"sun": "a"}}}},
            "'sun' is none of count, sum, avg, min, max, first, last, list, count_distinct; did you mean 'sum'?",
        ),
        ({"groupby": {"by": "a", "aggregates": {"a": "count"}}}, "'a' is the name of a field that rows are grouped by"),
        ({"http_request": {"url": "https://x.example", "method": "FETCH"}}, "pipeline[1] (http_request): a method is one of"),
        ({"jq_transform": {}}, "pipeline[1] (jq_transform): 'program' is missing"),
        ({"a": 1, "b": 2}, "pipeline[1] (?): an operation has one name; found 'a', 'b'; or write step: NAME beside them"),
        ("table_sort", "pipeline[1] (?): an operation is a mapping such as {table_sort: price}"),
    ],
)
def test_what_is_no_operation_is_named_by_its_number_with_what_to_do(op: Any, why: str) -> None:
    assert why in refused(ROWS, {"top_k": 3}, op)


def test_references_fit_everywhere_until_they_are_resolved() -> None:
    ops = [
        {"table_filter": {"all": [{"field": "@input.field", "gt": "@input.least"}, {"ref": "@self.a", "in": "@input.list"}, "@input.condition"]}},
        {"table_sort": {"field": "@input.field", "order": "@input.order"}},
        {"top_k": "@input.k"},
        {"join": {"with": "@fetch.rows", "on": "@input.key"}},
        {"regex_extract": {"field": "b", "pattern": "@input.pattern", "as": "x"}},
        {"table_select": "@input.fields"},
        {"groupby": {"by": "@input.by", "aggregates": "@input.aggregates"}},
        {"http_request": {"url": "https://@{input.host}/x", "headers": {"authorization": "@secrets.TOKEN"}}},
        {"parse_date": {"field": "d", "timezone": "@input.zone", "format": "@input.format"}},
        "@input.operation",
    ]
    assert list(check_pipeline(ops)) == []
    assert [where for where, _ in check_pipeline([*ops, {"top_k": "three"}, {"jq_transform": "@secrets.X"}])] == ["/11/jq_transform", "/10/top_k/k"]


@pytest.mark.parametrize(
    ("config", "where", "what"),
    [
        ({"op": []}, "/op", "'op' is not a field of it; did you mean 'ops'?"),
        ({"ops": [{"top_k": 1}], "use": "x"}, "", "behind 'use'"),
        ({"ops": [{"top_k": 1}], "limits": {"rows": 10**9}}, "/limits", "limits.rows is a whole number of up to 10,000,000"),
        ({"ops": [{"top_k": 1}], "limits": {"wall": "2d"}}, "/limits", "limits.wall is a duration of up to 3,600"),
        ({"ops": [{"top_k": 1}], "limits": {"row": 1}}, "/limits", "limits has no 'row'"),
        ({"ops": [{"top": 1}]}, "/ops/0", "'top' is not an operation"),
        ([], "", "a list of 1 to 100 operations"),
    ],
)
def test_a_config_is_checked_before_anything_runs(config: Any, where: str, what: str) -> None:
    found = list(check_pipeline(config))
    assert any(pointer == where and what in said for pointer, said in found)


JSON = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-5, 2**63), st.floats(allow_nan=False, allow_infinity=False), st.text(alphabet="ab.[]\"'@-%(1", max_size=5)
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(alphabet="ab@", max_size=3), inner, max_size=3)),
    max_leaves=6,
)
DEFAULTS = {name for operation in OPERATIONS.values() for name in (operation.short or "with", *operation.defaults)}
WORDS = sorted({*DEFAULTS, "field", "on", "pattern", "as", "formats", "gt", "any"})
ARGUMENTS = st.dictionaries(st.sampled_from(WORDS), st.one_of(JSON, st.sampled_from(["a", "b", "asc", "null", "inner", "@self.a", "count"])), max_size=4)
OPS = st.one_of(
    st.tuples(st.sampled_from([one for one in ELEVEN if one not in ("http_request", "jq_transform")]), st.one_of(ARGUMENTS, JSON)).map(
        lambda pair: {pair[0]: pair[1]}
    ),
    st.tuples(st.sampled_from(ELEVEN[1:7]), ARGUMENTS).map(lambda pair: {"step": pair[0], **pair[1]}),
    JSON,
)


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(OPS, max_size=3))
def test_whatever_stands_in_a_pipeline_it_gives_rows_or_a_clear_error_and_checking_gives_only_findings(ops: list[Any]) -> None:
    said = list(check_pipeline(ops))
    assert all(what and (where == "" or where.startswith("/")) for where, what in said)
    try:
        rows = piped(ROWS, *ops)
    except PipelineFailed as failed:
        told = str(failed)
        assert told.startswith("pipeline") and "Traceback" not in told
    else:
        assert all(isinstance(row, dict) for row in rows)
        assert said == [] or "@" in repr(ops)


@settings(deadline=None)
@given(JSON)
def test_any_config_is_checked_to_findings(config: Any) -> None:
    assert all(isinstance(what, str) for _, what in check_pipeline(config))
    _ = pipeline_runner.with_fields(config)
