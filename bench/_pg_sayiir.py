"""Sayiir's side of the comparison on Postgres: flows of tasks, checkpointed by its engine in Rust.

One flow is run by `run_durable_workflow`, in this process; many at once by a pool of threads, each in such a call. A flow of another process is submitted by
its client and run by its worker, which polls every 5 ms.
"""

import asyncio
import importlib
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bench._side import LOOK_EVERY_S, serve

sayiir: Any = importlib.import_module("sayiir")
THREADS = 16
POLL_S = 0.005


def increment(number: int) -> int:
    """The smallest task there is."""
    return number + 1


def flow_of(steps: int) -> Any:
    """A flow of tasks, one behind the other."""
    flow = sayiir.Flow(f"count-{steps}")
    for number in range(steps):
        flow = flow.then(increment, name=f"n{number}")
    return flow.build()


class Sayiir:
    """Sayiir on the database at `url`."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._threads = ThreadPoolExecutor(THREADS)
        self._worker: Any = None
        self._backend: Any = None

    async def open(self, clients: bool = False) -> None:
        """Connect, which installs the schema; with `clients`, also begin a worker for flows that other processes submit."""
        self._backend = sayiir.PostgresBackend(self._url, max_connections=THREADS)
        if clients:
            self._worker = sayiir.Worker("bench", self._backend, poll_interval=POLL_S).start([flow_of(1)])

    async def close(self) -> None:
        """End the worker, if there is one."""
        if self._worker is not None:
            self._worker.shutdown()
            self._worker.join()
        self._threads.shutdown()

    async def one_by_one(self, name: str, argument: int, times: int) -> list[float]:
        """Run flows one after the other; the seconds from start to result of each."""
        flow = flow_of(argument)
        return [await asyncio.get_running_loop().run_in_executor(self._threads, self._run, flow, argument) for _ in range(times)]

    async def together(self, name: str, argument: int, executions: int) -> float:
        """Run flows all at once; the seconds until all have ended."""
        flow, loop = flow_of(argument), asyncio.get_running_loop()
        begun_s = time.perf_counter()
        await asyncio.gather(*(loop.run_in_executor(self._threads, self._run, flow, argument) for _ in range(executions)))
        return time.perf_counter() - begun_s

    async def from_client(self, argument: int, times: int) -> list[float]:
        """As a client in another process: the seconds from submission to result, one after the other."""
        client, flow, taken = sayiir.WorkflowClient(sayiir.PostgresBackend(self._url)), flow_of(argument), []
        for _ in range(times):
            begun_s, instance = time.perf_counter(), str(uuid.uuid4())
            client.submit(flow, instance, 0)
            while not (status := client.status(instance)).is_completed():
                if status.is_failed():
                    raise RuntimeError(f"a flow failed: {status.error}")
                await asyncio.sleep(LOOK_EVERY_S)
            taken.append(time.perf_counter() - begun_s)
        return taken

    def _run(self, flow: Any, expected: int) -> float:
        begun_s = time.perf_counter()
        status = sayiir.run_durable_workflow(flow, str(uuid.uuid4()), 0, backend=self._backend)
        if status.output != expected:
            raise RuntimeError(f"a flow of {expected} tasks ended as {status}")
        return time.perf_counter() - begun_s


if __name__ == "__main__":
    serve(Sayiir(sys.argv[1]))
