"""Absurd's side of the comparison on Postgres: tasks of `ctx.step`, run by its asyncio workers; the schema is installed by `absurdctl`.

A client of Absurd has one connection. So that it is not what limits it, this process has several workers, each a client with its own. They poll for work,
and for results, every 5 ms.
"""

import asyncio
import importlib
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench._side import serve, until

AsyncAbsurd: Any = importlib.import_module("absurd_sdk").AsyncAbsurd
QUEUE = "bench"
WORKERS, TASKS_EACH = 8, 10
POLL_S = 0.005


async def _count(params: dict[str, int], ctx: Any) -> int:
    number = 0

    async def increment() -> int:
        return number + 1

    for _ in range(params["steps"]):
        number = await ctx.step("increment", increment)
    return number


class Absurd:
    """Absurd on the database at `url`."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._workers: list[Any] = []
        self._running: list[asyncio.Task[None]] = []
        self._left, self._last = 0, ""

    async def open(self, clients: bool = False) -> None:
        """Install the schema, and begin workers."""
        for command in (["init"], ["create-queue", QUEUE]):
            installing = await asyncio.create_subprocess_exec(Path(sys.executable).parent / "absurdctl", *command, "-d", self._url, stdout=subprocess.DEVNULL)
            if await installing.wait() != 0:
                raise RuntimeError(f"absurdctl {command[0]} failed; its own words are above")
        for _ in range(WORKERS):
            worker = AsyncAbsurd(self._url, queue_name=QUEUE)
            worker.register_task(name="count")(self._counted)
            self._workers.append(worker)
            self._running.append(asyncio.create_task(worker.start_worker(concurrency=TASKS_EACH, poll_interval=POLL_S)))
        self._client = AsyncAbsurd(self._url, queue_name=QUEUE)

    async def close(self) -> None:
        """End the workers."""
        for worker in self._workers:
            worker.stop_worker()
        await asyncio.gather(*self._running)
        for client in (*self._workers, *([self._client] if self._workers else [])):
            await client.close()

    async def one_by_one(self, name: str, argument: int, times: int) -> list[float]:
        """Run tasks one after the other; the seconds from spawning to result of each."""
        return await self._one_by_one(self._client, argument, times)

    async def together(self, name: str, argument: int, executions: int) -> float:
        """Run tasks all at once; the seconds until all have ended."""
        begun_s = time.perf_counter()
        self._left = executions
        for _ in range(executions):
            await self._client.spawn("count", {"steps": argument}, queue=QUEUE)

        async def all_ended() -> bool:
            return self._left == 0

        await until(all_ended)
        await self._result(self._client, self._last, argument)
        return time.perf_counter() - begun_s

    async def from_client(self, argument: int, times: int) -> list[float]:
        """As a client in another process: the seconds from spawning to result, one after the other."""
        client = AsyncAbsurd(self._url, queue_name=QUEUE)
        taken = await self._one_by_one(client, argument, times)
        await client.close()
        return taken

    async def _counted(self, params: dict[str, int], ctx: Any) -> int:
        number = await _count(params, ctx)
        self._left -= 1
        self._last = ctx.task_id
        return number

    async def _one_by_one(self, client: Any, argument: int, times: int) -> list[float]:
        taken = []
        for _ in range(times):
            begun_s = time.perf_counter()
            spawned = await client.spawn("count", {"steps": argument}, queue=QUEUE)
            await self._result(client, spawned["task_id"], argument)
            taken.append(time.perf_counter() - begun_s)
        return taken

    async def _result(self, client: Any, task_id: str, expected: int) -> None:
        """Wait for the result of a task. `await_task_result` would look 50 ms later for the first time."""
        while True:
            result = await client.fetch_task_result(task_id)
            if result is not None and result.state not in ("pending", "running", "sleeping"):
                break
            await asyncio.sleep(POLL_S)
        if result.result != expected:
            raise RuntimeError(f"a task of {expected} steps ended as {result}")


if __name__ == "__main__":
    serve(Absurd(sys.argv[1]))
