"""Wake-ups between two processes on one Postgres: how long after a commit the other process is woken, and what a notification costs.

    python bench/wakes.py [URL]

Without a URL it runs on a server of its own, from the wheel of the tests. One process commits messages, one every few
milliseconds, and writes down when it began and when each commit was acknowledged; another one notes when its listener was called. Both clocks are this
computer's. The second part commits rows by 16 connections, with ``pg_notify`` in each transaction, with one notification at a time beside them, and without.
"""

import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import asyncpg  # type: ignore[import-untyped]  # it has no types

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from perdure.core.envelopes import NewExecution, OutgoingMessage
from perdure.core.paths import Key
from perdure.stores.postgres.statements import SQL
from perdure.stores.postgres.store import PostgresStore
from perdure.stores.protocol import Post
from tests.stores.servers import postgres

COMMITS, PAUSE_S = 500, 0.02
WRITERS, LENGTH_S = 16, 5.0


async def listen(url: str) -> None:
    """Prints a line when it listens, and the time of each wake-up after that, until its input ends."""
    store = PostgresStore(url)
    woken: list[float] = []
    store.on_wake(lambda: woken.append(time.time()))
    mode = (await store.about()).notifications
    print(mode, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    print(json.dumps(woken), flush=True)
    await store.close()


async def send(url: str) -> list[tuple[float, float]]:
    """Posts messages; returns when each was begun and acknowledged."""
    store, times = PostgresStore(url), []
    await store.store_time()
    for number in range(COMMITS):
        to = Key("default", "bench", f"{number}")
        post = Post(messages=(OutgoingMessage(to, "start", b"start", opens=NewExecution("bench@1", to)),))
        begun_s = time.time()
        await store.commit([post])
        times.append((begun_s, time.time()))
        await asyncio.sleep(PAUSE_S)
    await store.close()
    return times


def latencies(url: str) -> str:
    """Measures wake-ups of another process."""
    with subprocess.Popen([sys.executable, __file__, "listen", url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        mode = other.stdout.readline().strip()
        times = asyncio.run(send(url))
        time.sleep(1)
        woken = json.loads(other.communicate("")[0])
    commit_ms = [(end_s - begun_s) * 1000 for begun_s, end_s in times]
    found = []
    for _, end_s in times:
        found += [(at_s - end_s) * 1000 for at_s in woken if at_s >= end_s - 0.002][:1]
    assert len(found) == COMMITS, f"{len(found)} of {COMMITS} commits were followed by a wake-up"
    return (
        f"{mode}, {COMMITS} commits: commit p50 {quantile(commit_ms, 50):.1f} ms; wake-up after its acknowledgement "
        f"p50 {quantile(found, 50):.1f} ms, p99 {quantile(found, 99):.1f} ms, max {max(found):.1f} ms"
    )


def quantile(values: list[float], percent: int) -> float:
    """Returns a percentile."""
    return statistics.quantiles(values, n=100)[percent - 1]


async def throughput(url: str, notifies: str) -> float:
    """Returns how many rows 16 connections commit in a second; `notifies` is ``within`` each transaction, ``beside`` them, or ``never``."""
    control, schema = await asyncpg.connect(url), "CREATE TABLE IF NOT EXISTS rows (n bigserial, b bytea)"
    await control.execute(f"{schema}; LISTEN perdure_wake")
    committed, until_s, unsent = 0, time.monotonic() + LENGTH_S, asyncio.Event()

    async def write(execute: Callable[..., Awaitable[object]]) -> None:
        nonlocal committed
        within = ", pg_notify('perdure_wake', 'x')" if notifies == "within" else ""
        while time.monotonic() < until_s:
            await execute(f"WITH new AS (INSERT INTO rows (b) VALUES ($1) RETURNING n) SELECT n{within} FROM new", b"x" * 100)
            committed += 1
            unsent.set()

    async def notify(fetch: Callable[..., Awaitable[object]]) -> None:
        while time.monotonic() < until_s:
            await unsent.wait()
            unsent.clear()
            await fetch(SQL.notify_now, ["perdure_wake"], "x")

    opened = [await asyncpg.connect(url) for _ in range(WRITERS + 1)]
    tasks = [asyncio.create_task(write(one.fetch)) for one in opened[1:]]
    beside = asyncio.create_task(notify(opened[0].fetch)) if notifies == "beside" else None
    await asyncio.gather(*tasks)
    unsent.set()
    if beside is not None:
        await beside
    for one in (*opened, control):
        await one.close()
    return committed / LENGTH_S


def report(url: str) -> None:
    """Prints both measurements."""
    print(latencies(url))
    for notifies in ("never", "beside", "within", "never", "beside", "within"):
        print(f"{WRITERS} connections, notification {notifies}: {asyncio.run(throughput(url, notifies)):,.0f} commits/s")


def main() -> None:
    """See the module."""
    match sys.argv[1:]:
        case ["listen", url]:
            asyncio.run(listen(url))
        case [url]:
            report(url)
        case _:
            with postgres(fsync="on", max_connections="40") as server:
                report(server.url)


if __name__ == "__main__":
    main()
