"""The peers of `definitions.py`, each doing the same in its own words: chains of nodes that return at once, all executions begun at one time.

    .venv-bench/bin/python bench/_graph_peers.py langgraph|prefect EXECUTIONS NODES

The last line is JSON: the seconds that it took, and what it is and keeps.
"""

import asyncio
import json
import operator
import os
import sys
import tempfile
import time
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any, TypedDict


class State(TypedDict):
    """What a node is given, and adds to."""

    x: Annotated[int, operator.add]


async def langgraph(executions: int, nodes: int) -> dict[str, Any]:
    """A compiled graph, with a checkpoint of each superstep in SQLite, written before the next begins (`durability="sync"`)."""
    graph: Any = import_module("langgraph.graph")
    saver: Any = import_module("langgraph.checkpoint.sqlite.aio").AsyncSqliteSaver

    async def work(_: State) -> State:
        return {"x": 1}

    builder = graph.StateGraph(State)
    names = [f"s{number}" for number in range(nodes)]
    for name in names:
        builder.add_node(name, work)
    for source, target in zip([graph.START, *names], [*names, graph.END], strict=True):
        builder.add_edge(source, target)
    with tempfile.TemporaryDirectory() as directory:
        async with saver.from_conn_string(f"{directory}/checkpoints.db") as kept:
            compiled = builder.compile(checkpointer=kept)
            _ = await compiled.ainvoke({"x": 0}, {"configurable": {"thread_id": "warm"}}, durability="sync")
            cursor = await kept.conn.execute("PRAGMA synchronous")
            mode = {0: "OFF", 1: "NORMAL", 2: "FULL"}[(await cursor.fetchone())[0]]
            began_s = time.perf_counter()
            await asyncio.gather(*(compiled.ainvoke({"x": 0}, {"configurable": {"thread_id": str(number)}}, durability="sync") for number in range(executions)))
            took_s = time.perf_counter() - began_s
    about = f"LangGraph {version('langgraph')}, AsyncSqliteSaver, a checkpoint of each superstep, WAL, synchronous={mode}"
    return {"seconds": took_s, "about": about}


async def prefect(executions: int, nodes: int) -> dict[str, Any]:
    """A flow of tasks, with the ephemeral server on SQLite in this process, results persisted."""
    with tempfile.TemporaryDirectory() as directory:
        settings = {"SERVER_ALLOW_EPHEMERAL_MODE": "true", "SERVER_ANALYTICS_ENABLED": "false", "SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120"}
        settings |= {"HOME": directory, "LOGGING_LEVEL": "CRITICAL"}
        os.environ |= {"DO_NOT_TRACK": "1", **{f"PREFECT_{name}": value for name, value in settings.items()}}
        library: Any = import_module("prefect")

        async def increment(x: int) -> int:
            return x + 1

        work: Any = library.task(increment, persist_result=True)

        async def count() -> int:
            x = 0
            for _ in range(nodes):
                x = await work(x)
            return x

        chain: Any = library.flow(count, persist_result=True)
        _ = await chain()
        began_s = time.perf_counter()
        await asyncio.gather(*(chain() for _ in range(executions)))
        took_s = time.perf_counter() - began_s
    return {"seconds": took_s, "about": f"Prefect {version('prefect')}, in process, its own server on SQLite, results persisted to files"}


def main() -> None:
    """Measure one, and say so."""
    name, executions, nodes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    print(json.dumps(asyncio.run({"langgraph": langgraph, "prefect": prefect}[name](executions, nodes))))


if __name__ == "__main__":
    main()
