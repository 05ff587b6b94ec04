"""The peer's program: DBOS Transact on its SQLite backend or on Postgres, doing what the other side does, in the same words.

Equal durability: DBOS leaves `synchronous` at SQLite's default, which is FULL; `about` reads it from a connection of its own engine.
Its default journal is a rollback journal. It is given a file in WAL mode instead, which it keeps, and with which it is faster; `--journal
delete` measures its default. Where it polls for what another process asks, it is let poll as often as is fastest. The rest are its
defaults: other pool sizes, fewer threads and no pre-ping were tried, and made no difference beyond the noise.
"""

import argparse
import asyncio
import gc
import importlib
import sqlite3
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.metadata import version
from typing import Any

from bench._side import rss_bytes, serve, until

DBOS: Any = importlib.import_module("dbos").DBOS
DBOSClient: Any = importlib.import_module("dbos").DBOSClient
QUEUE = "bench"
POLL_S = 0.005
MONTH_S = 30 * 24 * 3600.0

Flow = Callable[[int], Awaitable[int]]

held: list[int] = []
times_s: list[float] = []
begun_s: list[float] = []
holding = False


async def _increment(number: int) -> int:
    return number + 1


def _increment_in_thread(number: int) -> int:
    return number + 1


async def _hold(number: int) -> int:
    held.append(number)
    if holding:
        await asyncio.Event().wait()
    times_s.append(time.monotonic())
    return number + 1


increment: Flow = DBOS.step(name="increment")(_increment)
increment_in_thread: Callable[[int], int] = DBOS.step(name="increment_in_thread")(_increment_in_thread)
hold: Flow = DBOS.step(name="hold")(_hold)


async def _count(steps: int) -> int:
    number = 0
    for _ in range(steps):
        number = await increment(number)
    return number


def _count_in_threads(steps: int) -> int:
    number = 0
    for _ in range(steps):
        number = increment_in_thread(number)
    return number


async def _mapped(branches: int) -> int:
    return sum(await asyncio.gather(*(increment(number) for number in range(branches))))


async def _held_up(steps: int) -> int:
    begun_s.append(time.monotonic())
    number = await _count(steps)
    number = await hold(number)
    return number + await _count(steps)


async def _parked(_: int) -> int:
    await DBOS.sleep_async(MONTH_S)
    return 0


FLOWS = {name: DBOS.workflow(name=name)(fn) for name, fn in {"count": _count, "mapped": _mapped, "held_up": _held_up, "parked": _parked}.items()}
count_in_threads: Callable[[int], int] = DBOS.workflow(name="count_in_threads")(_count_in_threads)


class Peer:
    """DBOS on the database at `url`."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._caller = ThreadPoolExecutor(1)
        self._launched = False

    async def open(self, clients: bool = False) -> float:
        """Launch, with a queue for `clients` if there are to be any; return the seconds that it took."""
        begun = time.perf_counter()
        DBOS(config={"name": "bench", "system_database_url": self._url, "log_level": "ERROR"})
        gc.freeze()
        gc.set_threshold(50_000, 20, 50)  # as the other side
        DBOS.launch()
        if clients:
            await DBOS.register_queue_async(QUEUE, polling_interval_sec=POLL_S)
        self._launched = True
        return time.perf_counter() - begun

    async def close(self) -> None:
        """End what was launched."""
        self._caller.shutdown()
        if self._launched:
            DBOS.destroy()

    async def about(self) -> dict[str, Any]:
        """What it is, and what its own connections say of durability."""
        engine = importlib.import_module("dbos._dbos")._get_dbos_instance()._sys_db.engine
        with engine.connect() as connection:
            found = {name: connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("journal_mode", "synchronous")}
        return {"version": version("dbos"), **found}

    async def memory(self) -> int:
        """The memory of this process, in bytes."""
        return rss_bytes()

    async def one_by_one(self, name: str, argument: int, times: int) -> list[float]:
        """Run executions one after the other; the seconds from start to result of each."""
        taken = []
        for _ in range(times):
            begun = time.perf_counter()
            if name == "count_in_threads":
                await self._called(partial(count_in_threads, argument))
            else:
                await FLOWS[name](argument)
            taken.append(time.perf_counter() - begun)
        return taken

    async def together(self, name: str, argument: int, executions: int) -> float:
        """Run executions all at once; the seconds until all have ended."""
        begun = time.perf_counter()
        if name == "count_in_threads":
            await self._called(partial(_all_in_threads, argument, executions))
        else:
            handles = [await DBOS.start_workflow_async(FLOWS[name], argument) for _ in range(executions)]
            await asyncio.gather(*(handle.get_result() for handle in handles))
        return time.perf_counter() - begun

    async def from_client(self, argument: int, times: int) -> list[float]:
        """As a client in a process of its own: the seconds from start to result, one after the other."""
        client, taken = DBOSClient(system_database_url=self._url), []
        for _ in range(times):
            begun = time.perf_counter()
            handle = await client.enqueue_async({"queue_name": QUEUE, "workflow_name": "count"}, argument)
            await handle.get_result(polling_interval_sec=POLL_S)
            taken.append(time.perf_counter() - begun)
        client.destroy()
        return taken

    async def hold(self, executions: int, steps: int) -> None:
        """Start executions, and return when each waits in its step for ever."""
        global holding
        holding = True
        for _ in range(executions):
            await DBOS.start_workflow_async(FLOWS["held_up"], steps)

        async def all_held() -> bool:
            return len(held) == executions

        await until(all_held)

    async def recovered(self, executions: int) -> tuple[float, float]:
        """When the first of the steps that were held ran, and when all executions had ended, on the monotonic clock."""

        async def all_ended() -> bool:
            return len(times_s) >= executions and len(await DBOS.list_workflows_async(status="SUCCESS", load_output=False)) == executions

        await until(all_ended)
        return times_s[0], time.monotonic()

    async def replayed(self, steps: int) -> float:
        """The steps per second that were replayed of an execution that was held after so many, and taken over."""

        async def is_replayed() -> bool:
            return bool(times_s)

        await until(is_replayed)
        return steps / (times_s[0] - begun_s[0])

    async def park(self, executions: int) -> float:
        """Start executions that sleep for a month; the seconds until all are started."""
        begun = time.perf_counter()
        for _ in range(executions):
            await DBOS.start_workflow_async(FLOWS["parked"], 0)
        await asyncio.sleep(1.0)
        return time.perf_counter() - begun - 1.0

    async def _called(self, call: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._caller, call)


def _all_in_threads(argument: int, executions: int) -> None:
    handles = [DBOS.start_workflow(count_in_threads, argument) for _ in range(executions)]
    for handle in handles:
        handle.get_result()


def sqlite_url(path: str, journal: str) -> str:
    """The URL of a file, which has this journal from now on."""
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA journal_mode = {journal}")
    connection.close()
    return f"sqlite:///{path}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("place", help="the path of a file, or the URL of a database in Postgres")
    parser.add_argument("--journal", default="WAL", choices=["WAL", "DELETE"])
    given = parser.parse_args()
    serve(Peer(given.place if "://" in given.place else sqlite_url(given.place, given.journal)))
