"""What a limited queue costs: executions through one with few and with many lanes, beside the same ones without a queue, by turns in the same run.

All are started before the engine is, so each claim has everything to choose from. Everything is on a file with synchronous=FULL.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from perdure import Context, Queue, step, workflow
from perdure.runtime.engine import Engine
from perdure.stores.sqlite.store import SqliteStore
from perdure.sync_client import AsyncClient

EXECUTIONS = 1_000
AT_ONCE = 100
ROUNDS = 5
LANES = (1, 100, EXECUTIONS)

narrow = Queue("narrow", concurrency=AT_ONCE, per_key="customer")


@step
async def work(customer: int) -> int:
    return customer


@workflow
async def free(ctx: Context, customer: int) -> int:
    return await ctx.step(work, customer)


@workflow(queue=narrow)
async def queued(ctx: Context, customer: int) -> int:
    return await ctx.step(work, customer)


async def seconds(file: Path, workflow: Any, lanes: int) -> float:
    """From the start of an engine until all have ended."""
    store = SqliteStore(file)
    async with AsyncClient(store) as client:
        handles = await asyncio.gather(*(client.start(workflow.with_(id=str(number)), number % lanes) for number in range(EXECUTIONS)))
        engine = Engine(store, [workflow.code])
        began_s = time.perf_counter()
        running = asyncio.create_task(engine.run())
        await asyncio.gather(*(handle.result() for handle in handles))
        took_s = time.perf_counter() - began_s
        engine.stop()
        await running
    await store.close()
    return took_s


def main() -> None:
    """Measure and print."""
    print(f"{EXECUTIONS:,} executions of one step, {AT_ONCE} at a time at most, median of {ROUNDS} rounds by turns; Python {sys.version.split()[0]}")
    sides: dict[str, tuple[Any, int]] = {"no queue": (free, 1), **{f"a queue of {lanes:,} lanes": (queued, lanes) for lanes in LANES}}
    times_s: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(ROUNDS + 1):
        for name, (what, lanes) in sides.items():
            with tempfile.TemporaryDirectory(dir=Path.cwd()) as place:
                took_s = asyncio.run(seconds(Path(place) / "bench.db", what, lanes))
            times_s[name] += [took_s] if number else []  # the first round is not counted
    for name, its in times_s.items():
        ratio = statistics.median(one / plain for one, plain in zip(its, times_s["no queue"], strict=True))
        print(f"  {name:24} {EXECUTIONS / statistics.median(its):8,.0f} executions/s  {ratio:6.2f}× the time without one")


if __name__ == "__main__":
    main()
