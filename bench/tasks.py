"""What it costs to have tasks done over HTTP, one at a time and 100 at once, beside a worker in this process, by turns in the same run.

Each execution is one step in a queue. Everything is on a file with synchronous=FULL; the worker over HTTP is a process of its own.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from perdure import Context, step, workflow
from perdure.runtime.engine import Engine
from perdure.runtime.task_broker import TaskBroker
from perdure.runtime.worker import Worker
from perdure.stores.sqlite.store import SqliteStore
from perdure.sync_client import AsyncClient
from perdure.tasks.http_endpoint import TaskEndpoint
from perdure.tasks.worker_tokens import WorkerAccess

EXECUTIONS = 200
ROUNDS = 3
WORKER = Path(__file__).with_name("_tasks_worker.py")

Does = Callable[[SqliteStore], AbstractAsyncContextManager[None]]


@step(queue="bench")
async def work() -> int:
    return 1


@workflow
async def one_task(ctx: Context) -> int:
    return await ctx.step(work)


def in_process(limit: int) -> Does:
    """A worker in this process."""

    @asynccontextmanager
    async def does(store: SqliteStore) -> AsyncIterator[None]:
        worker = Worker(store, [work], queues=["bench"], limit=limit)
        running = asyncio.create_task(worker.run())
        yield
        worker.stop()
        await running

    return does


def over_http(at_once: int) -> Does:
    """A worker in another process, which leases and completes so many at once."""

    @asynccontextmanager
    async def does(store: SqliteStore) -> AsyncIterator[None]:
        endpoint = TaskEndpoint(TaskBroker(store, ["bench"]), WorkerAccess({}), "127.0.0.1", 0)
        running = asyncio.create_task(endpoint.run())
        await endpoint.ready()
        host, port = endpoint.address.removeprefix("http://").split(":")
        pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(sys.executable, str(WORKER), host, port, str(at_once), stdout=pipe, stderr=nothing)
        assert process.stdout is not None
        await process.stdout.readline()
        yield
        process.kill()
        await process.wait()
        endpoint.stop()
        await running

    return does


async def seconds(file: Path, does: Does) -> float:
    """From the start of the executions until all have ended."""
    store = SqliteStore(file)
    engine = Engine(store, [one_task.code])
    running = asyncio.create_task(engine.run())
    async with AsyncClient(store) as client, does(store):
        began_s = time.perf_counter()
        handles = await asyncio.gather(*(client.start(one_task.with_(id=str(number))) for number in range(EXECUTIONS)))
        await asyncio.gather(*(handle.result() for handle in handles))
        took_s = time.perf_counter() - began_s
        engine.stop()
        await running
    await store.close()
    return took_s


def main() -> None:
    """Measure and print."""
    print(f"{EXECUTIONS:,} executions of one task, median of {ROUNDS} rounds by turns; Python {sys.version.split()[0]}")
    sides = {
        "a worker in the process, one at a time": in_process(1),
        "over HTTP, one at a time": over_http(1),
        "a worker in the process, 100 at once": in_process(100),
        "over HTTP, 100 at once": over_http(100),
    }
    times_s: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(ROUNDS + 1):
        for name, does in sides.items():
            with tempfile.TemporaryDirectory(dir=Path.cwd()) as place:
                took_s = asyncio.run(seconds(Path(place) / "bench.db", does))
            times_s[name] += [took_s] if number else []  # the first round is not counted
    names = [*sides]
    for place_of, name in enumerate(names):
        beside = names[place_of - place_of % 2]
        ratio = statistics.median(one / other for one, other in zip(times_s[name], times_s[beside], strict=True))
        print(f"  {name:40} {EXECUTIONS / statistics.median(times_s[name]):7,.0f} tasks/s  {ratio:5.2f}× the time in the process")


if __name__ == "__main__":
    main()
