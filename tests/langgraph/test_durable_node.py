"""A node that is a workflow runs once for each task of its graph, however often LangGraph runs the node."""

import asyncio
from pathlib import Path
from typing import Any, TypedDict

import pytest

pytest.importorskip("langgraph.graph", reason="langgraph is not installed")

from langgraph.graph import END, START, StateGraph

from perdure import App, Context, ExecutionFailed, Fatal, WrongVerb, step, workflow
from perdure.langgraph import Checkpointer, durable_node

THREAD: Any = {"configurable": {"thread_id": "t"}}
calls: list[int] = []


class Sum(TypedDict):
    total: int


@step
async def double(number: int) -> int:
    calls.append(number)
    if number == 13:
        raise Fatal("13 is refused")
    return 2 * number


@workflow
async def doubled(ctx: Context, state: Sum) -> Sum:
    return {"total": await ctx.step(double, state["total"])}


@workflow
async def doubled_number(ctx: Context, number: int) -> Sum:
    return {"total": await ctx.step(double, number)}


@pytest.fixture(autouse=True)
def fresh() -> None:
    calls.clear()


@pytest.fixture
def app(tmp_path: Path) -> App:
    return App([doubled, doubled_number], db=f"sqlite:///{tmp_path}/graphs.db")


def graph_of(app: App, node: Any, fails: list[str]) -> Any:
    """A graph of this node and one that fails as long as something is in `fails`."""

    def check(state: Sum) -> Sum:
        if fails:
            raise RuntimeError(fails.pop())
        return state

    builder = StateGraph(Sum)
    builder.add_node("double", node)
    builder.add_node("check", check)
    builder.add_edge(START, "double")
    builder.add_edge("double", "check")
    builder.add_edge("check", END)
    return builder.compile(checkpointer=Checkpointer(app))


def test_each_invocation_runs_it_once(app: App) -> None:
    with app:
        graph = graph_of(app, durable_node(app, doubled), [])
        assert [graph.invoke({"total": number}, THREAD)["total"] for number in (1, 1, 2)] == [2, 2, 4]
    assert calls == [1, 1, 2], "a task for each invocation"


def test_arguments_are_taken_from_the_state(app: App) -> None:
    with app:
        assert graph_of(app, durable_node(app, doubled_number, lambda state: (state["total"] + 1,)), []).invoke({"total": 1}, THREAD) == {"total": 4}


async def test_a_task_that_runs_again_finds_what_has_ended(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    async with app:
        graph = graph_of(app, durable_node(app, doubled), [])
        put_writes = Checkpointer.aput_writes

        async def die(self: Checkpointer, *args: Any, **options: Any) -> None:
            raise RuntimeError("planted: the process dies before what the node has written is put")

        monkeypatch.setattr(Checkpointer, "aput_writes", die)
        with pytest.raises(RuntimeError, match="planted"):
            await graph.ainvoke({"total": 3}, THREAD, durability="sync")
        monkeypatch.setattr(Checkpointer, "aput_writes", put_writes)
        assert await graph.ainvoke(None, THREAD) == {"total": 6}
        assert calls == [3]


async def test_a_sync_app_serves_an_async_graph(app: App) -> None:
    face = await asyncio.to_thread(app.__enter__)
    try:
        assert face is not None
        assert await graph_of(app, durable_node(app, doubled), []).ainvoke({"total": 3}, THREAD) == {"total": 6}
    finally:
        await asyncio.to_thread(app.__exit__, None, None, None)


def test_a_failure_fails_the_node_until_it_is_retried(app: App) -> None:
    with app:
        graph = graph_of(app, durable_node(app, doubled), [])
        for _ in range(2):
            with pytest.raises(ExecutionFailed, match="13 is refused"):
                graph.invoke({"total": 13} if not calls else None, THREAD)
    assert calls == [13]


def test_without_a_thread_it_is_refused(app: App) -> None:
    builder = StateGraph(Sum)
    builder.add_node("double", durable_node(app, doubled))
    builder.add_edge(START, "double")
    with app, pytest.raises(WrongVerb, match="without a thread"):
        builder.compile().invoke({"total": 1})


def test_outside_of_a_graph_it_is_refused_and_opens_nothing(app: App) -> None:
    with pytest.raises(WrongVerb, match="without a thread"):
        durable_node(app, doubled).invoke({"total": 1})
    assert app._opened_here is None
