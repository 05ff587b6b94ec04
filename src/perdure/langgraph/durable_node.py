"""A node of a graph that is a workflow: `durable_node` runs it once for each task that LangGraph has in a checkpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, cast

from langchain_core.runnables import Runnable, RunnableLambda
from langgraph.runtime import Runtime, get_runtime

from perdure.app import App
from perdure.core.errors import WrongVerb
from perdure.workflow_function import Workflow


def durable_node(
    app: App, workflow: Workflow[..., Mapping[str, Any]], arguments: Callable[[Any], tuple[Any, ...]] = lambda state: (state,)
) -> Runnable[Any, Mapping[str, Any]]:
    """Returns a node that runs `workflow` in `app` and gives its result to the graph: ``builder.add_node("ship", durable_node(app, ship))``.

    The workflow gets the state of the graph, or what `arguments` takes from it, and returns an update of the state, both as plain data of its type hints.
    The id of its execution is made of the thread and the task of the graph. After a crash LangGraph runs the node of an unfinished task again: it finds
    the execution, which continues where it was or has ended already. A failed execution fails the node, also when the graph is invoked again, until it is
    retried (``perdure retry``).

    A task is known after a crash if its checkpoint was durable: invoke the graph with ``durability="sync"``.

    The graph needs a checkpointer; without one, each invocation is a new task. In a sync graph, `app` is opened in the background if it is not open.

    Raises:
        WrongVerb: the node was called outside of a graph with a checkpointer.
        ExecutionFailed, DeadlineExceeded, ExecutionCancelled, NeedsAttention: the execution has ended, or parked, without a result.
    """

    def run(state: Any) -> Mapping[str, Any]:
        named = workflow.with_(id=_id_of_task(workflow))
        return app.background().run(named, *arguments(state))

    async def run_on_loop(state: Any) -> Mapping[str, Any]:
        named = workflow.with_(id=_id_of_task(workflow))
        if (opened := app._opened_here) is not None and opened.thread is not None:
            return await asyncio.to_thread(app.background().run, named, *arguments(state))
        return await app.run(named, *arguments(state))

    return RunnableLambda(run, afunc=run_on_loop, name=workflow.code.name)


def _id_of_task(workflow: Workflow[..., Any]) -> str:
    runtime = cast("Runtime[Any] | None", get_runtime())  # None outside of a graph, which its type does not say
    info = None if runtime is None else runtime.execution_info
    if info is None or info.thread_id is None:
        raise WrongVerb(f"the durable node {workflow.code.name} was called without a thread", "compile the graph with a checkpointer, and name a thread_id")
    return f"{info.thread_id}/{info.task_id}"
