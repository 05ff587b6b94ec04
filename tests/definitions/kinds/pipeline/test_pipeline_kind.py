"""The kind in definitions: what its steps are given and give, what is checked of them, and what of them is done again."""

from typing import Any

import pytest

from perdure import BadDefinition, Definition, ExecutionFailed
from perdure.definitions.kinds.deployment import NOTHING_MORE
from perdure.definitions.kinds.pipeline.pipeline_kind import idempotent, pipeline_kind
from perdure.testing import World

ROWS = [{"price": price, "city": city} for price, city in ((3, "Rome"), (1, "Oslo"), (5, "Rome"), (2, "Bern"))]


def piped(world: World, config: Any, given: Any, **more: Any) -> Any:
    step = {"id": "a", "pipeline": config, "with": given, "retry": {"max": 1}, **more}
    document = {"perdure": 1, "name": f"it {len(world.runs)}", "input": {"least": {"default": 2}, "rows": {"default": ROWS}}, "steps": [step]}
    return world.run(Definition.of(document))


def test_a_pipeline_as_the_seed_writes_it_runs_as_it_stands(world: World) -> None:
    ops = [{"step": "table_filter", "condition": {"field": "price", "op": ">=", "value": 2}}, {"step": "table_sort", "field": "price", "order": "asc"}]
    assert piped(world, [*ops, {"step": "top_k", "k": 2}], {"rows": ROWS}) == [ROWS[3], ROWS[0]]
    assert piped(world, [{"step": "groupby", "by": "city"}], {"rows": ROWS})[0] == {"city": "Rome", "count": 2}


def test_references_are_resolved_and_those_to_the_row_are_of_the_row(world: World) -> None:
    condition = {"all": [{"ref": "@self.price", "gt": "@input.least"}, {"ref": "@self.city", "neq": "@self.price"}]}
    assert piped(world, [{"table_filter": condition}, {"top_k": "@input.least"}], {"rows": "@input.rows"}) == [ROWS[0], ROWS[2]]


def test_what_data_says_of_the_row_is_data(world: World) -> None:
    rows = [{"said": "@self.own", "own": "x"}, {"said": "x", "own": "x"}]
    step = {"id": "a", "pipeline": [{"table_filter": {"field": "said", "eq": "@input.said"}}], "with": rows}
    document = {"perdure": 1, "name": "it", "input": {"said": {}}, "steps": [step]}
    with pytest.raises(BadDefinition):
        _ = Definition.of(document)  # where it stands in the definition itself, it is a reference
    assert (
        world.run(
            Definition.of({**document, "steps": [{**step, "with": {"rows": "@input.rows"}}], "input": {"said": {}, "rows": {}}}), said="@self.own", rows=rows
        )
        == rows[:1]
    )


def test_rows_are_given_alone_or_with_tables_beside_them(world: World) -> None:
    assert piped(world, [{"top_k": 1}], "@input.rows") == ROWS[:1]
    join = {"join": {"with": "cities", "on": {"city": "name"}, "how": "anti"}}
    assert piped(world, {"ops": [join], "limits": {"rows": 10, "wall": "5s"}}, {"rows": ROWS, "cities": [{"name": "Rome"}]}) == [ROWS[1], ROWS[3]]


def test_a_pipeline_that_fails_fails_the_step_for_good_with_its_operation(world: World) -> None:
    with pytest.raises(ExecutionFailed, match=r"pipeline\[1\] \(parse_date\): row 0: "):
        piped(world, [{"top_k": 1}, {"parse_date": "city"}], {"rows": ROWS}, retry={"max": 5})
    with pytest.raises(ExecutionFailed, match=r"there are 4 rows, and at most 3 are allowed"):
        piped(world, {"ops": [{"top_k": 1}], "limits": {"rows": 3}}, {"rows": ROWS})
    with pytest.raises(ExecutionFailed, match=r"it has no rows"):
        piped(world, [{"top_k": 1}], {"row": ROWS})


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ([{"tabel_sort": "price"}], "steps[0] (a): pipeline.0: 'tabel_sort' is not an operation; did you mean 'table_sort'?"),
        ([{"top_k": "@inptu.k"}], "did you mean '@input'"),
        ([{"jq_transform": "@secrets.TOKEN"}], "secrets stand only in the headers of http_request"),
        ({"op": []}, "'op' is not a field of it; did you mean 'ops'?"),
        ([{"regex_extract": {"field": "x", "pattern": "(", "as": "y"}}], "is not a regular expression"),
    ],
)
def test_what_is_wrong_with_it_is_found_before_anything_runs(config: Any, why: str) -> None:
    with pytest.raises(BadDefinition) as bad:
        Definition.of({"perdure": 1, "name": "it", "input": {"k": {}}, "steps": [{"id": "a", "pipeline": config}]})
    assert why in str(bad.value)


def test_a_secret_may_stand_in_the_headers_of_a_request() -> None:
    ask = {"http_request": {"url": "https://x.example", "headers": {"Authorization": "Bearer @{secrets.TOKEN}"}}}
    _ = Definition.of({"perdure": 1, "name": "it", "steps": [{"id": "a", "pipeline": [ask]}]})


@pytest.mark.parametrize(
    ("config", "again"),
    [
        ([{"top_k": 1}], True),
        ([{"http_request": "https://x.example"}, {"step": "http_request", "url": "https://x.example", "method": "put", "into": "y"}], True),
        ([{"top_k": 1}, {"step": "http_request", "url": "https://x.example", "method": "post"}], False),
        ({"ops": [{"http_request": {"url": "https://x.example", "method": "PATCH"}}]}, False),
        ({"use": "x"}, False),
    ],
)
def test_a_pipeline_is_done_again_unless_it_may_have_changed_something(config: Any, again: bool) -> None:
    assert idempotent(config) is again and pipeline_kind(NOTHING_MORE).may_repeat(config) is again
