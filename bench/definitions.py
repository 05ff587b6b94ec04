"""What walking a definition costs, in durable nodes a second on a file with synchronous=FULL, beside LangGraph with its SQLite saver and Prefect in process.

    python bench/definitions.py [--quick]

Each side does the same: chains of nodes that return at once, many executions at a time. What each keeps is said beside it. The peers are measured in
the same run if `.venv-bench` has them (`make bench` makes it).
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from perdure import Definition
from perdure.core import log_format, values
from perdure.core.execution import Execution
from perdure.core.paths import Key
from perdure.core.replay import replay_program
from perdure.runtime.blob_loader import run_with_blobs
from perdure.runtime.engine import Engine
from perdure.runtime.local_engine import local_engine, run_to_end
from perdure.runtime.workflow_programs import program_of

ROUNDS = 3
NODES = 10
FLOOR, GOAL = 3_000, 5_000
REBUILD_S = 0.5
PEER = Path(".venv-bench/bin/python")


async def work(**given: Any) -> int:
    """A node's work: none."""
    return len(given)


def document(steps: list[dict[str, Any]], order: str = "listed", **more: Any) -> Definition:
    """A definition of these steps."""
    return Definition.of({"perdure": 1, "name": "measured", "order": order, "steps": steps, **more}, tools={"work": work})


def chain(nodes: int) -> Definition:
    """One behind the other, each reading the one before."""
    given: list[dict[str, Any]] = [{"with": {"x": "@input.x"}}, *({"with": {"x": f"@s{number}"}} for number in range(nodes - 1))]
    return document([{"id": f"s{number}", "tool": "work", **given[number]} for number in range(nodes)], "refs", input={"x": {"type": "integer"}})


def layered(nodes: int, width: int = 20) -> Definition:
    """Layers of nodes, each led to by two of the layer before."""
    layers = nodes // width
    steps: list[dict[str, Any]] = [{"id": "begin", "tool": "work", "next": [f"n0_{place}" for place in range(width)]}]
    for layer in range(layers):
        for place in range(width):
            ways = [f"n{layer + 1}_{place}", f"n{layer + 1}_{(place + 1) % width}"] if layer < layers - 1 else ["end"]
            steps.append({"id": f"n{layer}_{place}", "tool": "work", "next": ways})
    return document([*steps, {"id": "end", "tool": "work"}], "ports")


def fan(nodes: int) -> Definition:
    """One that leads to all others at once, and one that waits for all."""
    middle = [{"id": f"m{number}", "tool": "work", "next": "end"} for number in range(nodes)]
    return document([{"id": "begin", "tool": "work", "next": [one["id"] for one in middle]}, *middle, {"id": "end", "tool": "work"}], "ports")


def each(items: int) -> Definition:
    """One step for each of a list, a hundred at a time."""
    every = {"in": "@input.items", "concurrency": 100, "max": items}
    return document([{"id": "every", "each": every, "tool": "work", "with": {"x": "@item"}}], input={"items": {"type": "array"}})


async def seconds(definition: Definition, executions: int, given: dict[str, Any]) -> tuple[float, float]:
    """How long so many executions take, all begun at once, and how long the first takes to be rebuilt from its log."""
    raw = values.encode(((), given), "the input")
    with tempfile.TemporaryDirectory() as directory:
        async with local_engine([definition.graph], f"sqlite:///{directory}/bench.db") as engine:
            keys = [Key("default", definition.graph.name, str(number)) for number in range(executions)]
            began_s = time.perf_counter()
            await asyncio.gather(*(run_to_end(engine, key, raw) for key in keys))
            took_s = time.perf_counter() - began_s
            return took_s, await rebuilt_s(engine, definition, keys[0])


async def rebuilt_s(engine: Engine, definition: Definition, key: Key) -> float:
    """How long a log takes to become a walk again."""
    found = await engine.store.read(key)
    assert found is not None
    began_s = time.perf_counter()
    events = log_format.decode_rows(found.payloads)
    instance = program_of(definition.graph, key)
    _ = await run_with_blobs(engine.payloads, replay_program(Execution(key), events, instance, awake=True))
    instance.close()
    return time.perf_counter() - began_s


def measured(definition: Definition, executions: int, given: dict[str, Any]) -> tuple[float, float]:
    """The medians of a few rounds."""
    rounds = [asyncio.run(seconds(definition, executions, given)) for _ in range(ROUNDS)]
    return statistics.median(took_s for took_s, _ in rounds), statistics.median(again_s for _, again_s in rounds)


def peer(name: str, executions: int) -> dict[str, Any] | None:
    """What a peer needs for the same, and what it keeps; None if it is not there."""
    if not PEER.exists():
        return None
    ended = subprocess.run([str(PEER), "bench/_graph_peers.py", name, str(executions), str(NODES)], capture_output=True, text=True, timeout=600, check=False)
    if ended.returncode:
        print(f"{name}: not measured: {ended.stderr.strip().splitlines()[-1] if ended.stderr.strip() else 'no reason given'}")
        return None
    told: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return told


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work")
    quick = parser.parse_args().quick
    executions, many = (100, 1_000) if quick else (1_000, 10_000)
    print(f"durable nodes a second, synchronous=FULL, median of {ROUNDS}; Python {sys.version.split()[0]}")
    took_s, _ = measured(chain(NODES), executions, {"x": 1})
    ours = executions * NODES / took_s
    held = f"{ours / FLOOR:.2f} of the floor of {FLOOR:,}, {ours / GOAL:.2f} of the goal of {GOAL:,}"
    print(f"{executions:,} executions of {NODES} nodes at a time: {ours:,.0f} nodes/s: {held}")
    for name, few in (("langgraph", executions // 10), ("prefect", executions // 50)):
        told = peer(name, few)
        if told is not None:
            theirs = few * NODES / told["seconds"]
            print(f"  {told['about']}: {theirs:,.0f} nodes/s ({few:,} executions): ours {ours / theirs:.1f} times that")
    per_node = {nodes: measured(chain(nodes), 1, {"x": 1})[0] / nodes * 1e6 for nodes in (100, 1_000, many)}
    flat = ", ".join(f"{nodes:,}: {micros:.0f} µs" for nodes, micros in per_node.items())
    print(f"a chain, for each node of one execution: {flat}; the longest {per_node[many] / per_node[1_000]:.2f} times that of 1,000")
    for what, definition, count, given in (
        (f"a layered graph of {many:,} nodes", layered(many), many, {}),
        ("a fan-out to 1,000 and a join", fan(1_000), 1_000, {}),
        (f"each over {many:,}", each(many), many, {"items": list(range(many))}),
    ):
        took_s, again_s = measured(definition, 1, dict(given))
        bound = f", {again_s / REBUILD_S:.2f} of the bound of {REBUILD_S} s" if count == many else ""
        print(f"{what}: {count / took_s:,.0f} nodes/s, {took_s / count * 1e6:.0f} µs a node; rebuilt from its log in {again_s:.2f} s{bound}")


if __name__ == "__main__":
    main()
