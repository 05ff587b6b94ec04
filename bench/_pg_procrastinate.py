"""Procrastinate's side of the comparison on Postgres. It is a queue of tasks and has no steps, so each step is a job.

Steps one after the other are jobs of which each defers the next; executions at once are as many jobs as they have steps, deferred in one batch. Its worker
listens for notifications, and also polls: a notification that comes while it looks for a job is lost, and by default the job would wait for 5 s then.
"""

import asyncio
import importlib
import sys
import time
from typing import Any

from bench._side import serve

procrastinate: Any = importlib.import_module("procrastinate")
CONCURRENCY = 20
POLL_S = 0.02


class Procrastinate:
    """Procrastinate on the database at `url`."""

    def __init__(self, url: str) -> None:
        self._app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url, min_size=4, max_size=CONCURRENCY + 4))
        self._job: Any = self._app.task(name="increment")(self._increment)
        self._left, self._ended = 0, asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    async def open(self, clients: bool = False) -> None:
        """Install the schema, and begin a worker."""
        await self._app.open_async()
        await self._app.schema_manager.apply_schema_async()
        worker = self._app.run_worker_async(concurrency=CONCURRENCY, fetch_job_polling_interval=POLL_S, install_signal_handlers=False)
        self._running = asyncio.create_task(worker)

    async def close(self) -> None:
        """End the worker."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
            await self._app.close_async()

    async def one_by_one(self, name: str, argument: int, times: int) -> list[float]:
        """Run chains of jobs one after the other; the seconds from deferring the first job to the end of the last."""
        taken = []
        for _ in range(times):
            begun_s = time.perf_counter()
            self._left, self._ended = 1, asyncio.Event()
            await self._job.defer_async(after=argument - 1)
            await self._ended.wait()
            taken.append(time.perf_counter() - begun_s)
        return taken

    async def together(self, name: str, argument: int, executions: int) -> float:
        """Run as many jobs as all executions have steps; the seconds until all have ended."""
        begun_s = time.perf_counter()
        self._left, self._ended = executions * argument, asyncio.Event()
        await self._job.batch_defer_async(*({"after": 0} for _ in range(executions * argument)))
        await self._ended.wait()
        return time.perf_counter() - begun_s

    async def _increment(self, after: int) -> None:
        if after:
            await self._job.defer_async(after=after - 1)
            return
        self._left -= 1
        if self._left == 0:
            self._ended.set()


if __name__ == "__main__":
    serve(Procrastinate(sys.argv[1]))
