"""Composites: pipelines that were used twice are found by words and called by name, and each use counts once, whatever dies."""

import sqlite3
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from click.testing import CliRunner

from perdure import AsyncClient, Client, Definition, ExecutionFailed
from perdure.cli.command_list import root
from perdure.core.operations import COMPOSITE_WORKFLOW
from perdure.core.paths import Key
from perdure.definitions.kinds.deployment import NOTHING_MORE, Deployment
from perdure.definitions.kinds.pipeline import PipelineFailed
from perdure.definitions.kinds.pipeline.composites import Composite, composite_tool, get_composite, run_composite, search_composites
from perdure.stores.configured_store import open_store
from perdure.testing import World
from perdure.testing.immediate_calls import run_immediately

T = TypeVar("T")
ROWS = [{"price": price} for price in (3, 1, 5, 2)]
BEST = [{"table_filter": {"ref": "@self.price", "gt": "@input.least"}}, {"table_sort": "-price"}, {"top_k": 2}]


def definition(ops: Any, name: str = "it", deployment: Deployment = NOTHING_MORE, given: Any = {}) -> Definition:  # noqa: B006  # it is only read
    document = {"perdure": 1, "name": name, "input": {"least": {"default": 1}}, "steps": [{"id": "a", "pipeline": ops, "with": {"rows": ROWS}, **given}]}
    return Definition.of(document, deployment=deployment)


def now(coroutine: Coroutine[Any, Any, T]) -> T:
    found: T = run_immediately(coroutine)
    return found


def found(world: World, query: str = "", limit: int = 10) -> list[Composite]:
    return now(search_composites(world.machine.store, query, limit))


def test_from_the_second_use_on_a_pipeline_is_a_composite_that_is_called_by_its_name(world: World) -> None:
    it = definition(BEST)
    assert world.run(it) == [{"price": 5}, {"price": 3}] and found(world) == []
    world.run(it, least=4)
    (composite,) = found(world, "sort price")
    assert composite.name.startswith("filter_price_sort_price_top_2_") and composite.uses == 2 and composite.inputs == ("rows", "least")
    assert composite.description == "Keeps rows by price; sorts by price; takes the first 2"
    use = definition({"use": composite.name}, "use", given={"with": {"rows": ROWS, "least": 2}})
    assert world.run(use) == [{"price": 5}, {"price": 3}]
    assert found(world)[0].uses == 3


def test_other_spellings_and_other_definitions_use_the_same_and_other_constants_do_not(world: World) -> None:
    world.run(definition(BEST))
    seeds = [{"step": "table_filter", "field": "price", "op": ">", "value": "@input.least"}, {"step": "table_sort", "by": "-price"}, {"step": "top_k", "k": 2}]
    world.run(definition([{"table_filter": {"field": "price", "gt": "@input.least"}}, *seeds[1:]], "other"))
    world.run(definition([*BEST[:2], {"top_k": 3}], "third"))
    (composite,) = found(world)
    assert composite.uses == 2


@pytest.mark.slow
def test_what_counts_the_uses_is_not_among_the_executions_that_are_listed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/perdure.db"
    it = definition(BEST)
    for _ in range(2):
        it.with_(db=url).run()
    with Client(url) as client:
        assert [(one.key.workflow, one.status) for one in client.list()] == [("it", "completed")] * 2
        assert client.list(status="pending") == [] and COMPOSITE_WORKFLOW in [one.key.workflow for one in client.list(internal=True)]
    shown = CliRunner().invoke(root, ["--db", url, "ls"])
    assert shown.exit_code == 0 and COMPOSITE_WORKFLOW not in shown.output and shown.output.count("completed") == 2
    assert COMPOSITE_WORKFLOW in CliRunner().invoke(root, ["--db", url, "ls", "--all"]).output


@pytest.mark.slow
@pytest.mark.perdure(crash_at="every", crashes_max=60)
def test_each_use_counts_once_whatever_dies_when(world: World) -> None:
    it = definition(BEST)
    for id in ("one", "two"):
        world.run(it.with_(id=id))
    (composite,) = found(world)
    assert composite.uses == 2


@pytest.mark.perdure(always_suspend=True)
def test_an_execution_that_leaves_memory_counts_no_more_and_no_less(world: World) -> None:
    it = definition(BEST)
    for _ in range(3):
        world.run(it)
    assert [one.uses for one in found(world)] == [3]


def test_a_step_that_fails_is_no_use_and_neither_is_one_that_asks_not_to_be_counted(world: World) -> None:
    failing = definition([{"parse_date": "price"}], given={"retry": {"max": 2, "wait": "1s"}})
    for _ in range(2):
        with pytest.raises(ExecutionFailed):
            world.run(failing)
    quiet = definition({"ops": BEST, "counted": False}, "quiet")
    for _ in range(2):
        world.run(quiet)
    assert found(world) == []
    assert [run.key.workflow for run in world.runs].count(COMPOSITE_WORKFLOW) == 1


def test_a_deployment_that_counts_nothing_opens_nothing(world: World) -> None:
    it = definition(BEST, deployment=Deployment(counts_pipelines=False))
    run = world.start(it)
    assert run.result() and [step.path for step in run.steps()] == ["a"]
    assert [one.key.workflow for one in world.runs] == ["it"]


def test_each_item_of_an_each_is_a_use(world: World) -> None:
    world.run(definition([{"top_k": 1}], given={"each": {"in": [1, 2, 3]}}))
    assert [one.uses for one in found(world)] == [3]


@pytest.mark.slow
def test_words_are_looked_for_in_names_and_descriptions_and_more_of_them_come_first(world: World) -> None:
    for name, ops in (("a", BEST), ("b", [{"table_sort": "city"}]), ("c", [{"groupby": "city"}, {"table_sort": "count"}])):
        for _ in range(3 if name == "b" else 2):
            world.run(definition(ops, name))

    def names(query: str, limit: int = 10) -> list[str]:
        return [one.name.rsplit("_", 1)[0] for one in found(world, query, limit)]

    assert names("") == ["sort_city", "by_city_sort_count", "filter_price_sort_price_top_2"]
    assert names("City sort!") == ["sort_city", "by_city_sort_count", "filter_price_sort_price_top_2"]
    assert names("group cities") == ["by_city_sort_count"] and names("price comparison") == ["filter_price_sort_price_top_2"]
    assert names("sort", 1) == ["sort_city"] and names("nothing") == []
    with pytest.raises(ValueError, match="limit"):
        _ = found(world, "x", 0)


def test_a_composite_is_a_tool(world: World) -> None:
    for _ in range(2):
        world.run(definition(BEST))
    (composite,) = found(world)
    step = {"id": "b", "tool": composite.name, "with": {"rows": ROWS, "least": 3}}
    it = Definition.of({"perdure": 1, "name": "tools", "steps": [step]}, tools=[composite_tool(composite)])
    assert world.run(it) == [{"price": 5}]


def test_what_is_missing_is_said_and_other_tenants_have_their_own(world: World) -> None:
    for _ in range(2):
        world.run(definition(BEST))
    (composite,) = found(world)
    store = world.machine.store
    with pytest.raises(PipelineFailed, match=r"takes rows, least; least is missing in its input"):
        _ = now(run_composite(store, composite.name, {"rows": ROWS}))
    with pytest.raises(PipelineFailed, match="there is no composite 'nothing'"):
        _ = now(run_composite(store, "nothing", {}))
    assert now(get_composite(store, composite.name, "other")) is None and now(search_composites(store, "", 10, "other")) == []
    with pytest.raises(ExecutionFailed, match="there is no composite 'nothing'"):
        world.run(definition({"use": "nothing"}, "use"))


def test_one_that_is_cancelled_is_forgotten(world: World) -> None:
    for _ in range(2):
        world.run(definition(BEST))
    (composite,) = found(world)
    world.run_of(Key("default", COMPOSITE_WORKFLOW, composite.name)).cancel()
    assert found(world) == []


@pytest.mark.slow
async def test_a_use_is_found_as_soon_as_it_is_durable_though_no_engine_has_looked_at_it(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/perdure.db"
    it = definition(BEST)
    for _ in range(2):
        assert await it.with_(db=url).arun() == [{"price": 5}, {"price": 3}]
    store = open_store(url)
    try:
        (composite,) = await search_composites(store, "price")
        assert composite.uses == 2
        assert await run_composite(store, composite.name, {"rows": ROWS, "least": 4}) == [{"price": 5}]
        async with AsyncClient(store) as client:
            assert {one.key.workflow for one in await client.list()} == {"it"}
    finally:
        await store.close()
    with sqlite3.connect(tmp_path / "perdure.db") as connection:
        assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
    connection.close()


def test_what_counts_uses_is_listed_only_for_who_asks_for_it(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/p.db"
    steps = [{"id": "a", "pipeline": [{"top_k": 1}], "with": {"rows": [{"n": 1}]}}]
    _ = Definition.of({"perdure": 1, "name": "it", "steps": steps}).with_(db=url).run()
    with Client(url) as client:
        assert [one.key.workflow for one in client.list()] == ["it"] == [client.find("@latest").workflow]
        assert [one.key.workflow for one in client.list(limit=1)] == ["it"]
        assert [one.key.workflow for one in client.list(workflow=COMPOSITE_WORKFLOW)] == [COMPOSITE_WORKFLOW]
