"""What a claim costs on Postgres among a million parked executions, beside one-row commits of the same server in the same run.

    python bench/postgres_claims.py [--parked N] [--starts N] [--claims N]

The server is one of the wheel, on this machine, over a socket, with fsync and `synchronous_commit = on`. A claim hands over 100 of the executions that wait for
their start; with a renewal and a one-row commit by turns, so that whatever else the machine does hits all. A claim of executions without limits does not wait
for the disk; one of tasks does.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import quantiles
from typing import Any

import asyncpg  # type: ignore[import-untyped]  # it has no types

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from perdure.stores.postgres.store import PostgresStore
from perdure.stores.protocol import Claim, QueueLimits
from tests.stores.postgres_rows import PROGRAM, add_heads, add_messages
from tests.stores.servers import postgres

LIMIT = 100
SETTINGS: dict[str, Any] = {"fsync": "on", "shared_buffers": "512MB", "max_wal_size": "4GB"}


async def timed(call: Callable[[], Awaitable[object]], times_s: list[float]) -> None:
    """Await a call, and note how long it took."""
    begun_s = time.perf_counter()
    await call()
    times_s.append(time.perf_counter() - begun_s)


async def filled(url: str, parked: int, starts: int) -> None:
    """Fills the database: parked executions, half of which sleep; starts that are due, of 100 tenants; tasks; and starts in a queue with limits."""
    connection = await asyncpg.connect(url)
    due_at_s = time.time() - 1_000
    await add_heads(connection, "parked ", parked, wake_at_s=due_at_s + 1e7)
    await add_heads(connection, "start ", starts, tenants=100, version=0, message_at_s=due_at_s)
    await add_messages(connection, "start ", starts, due_at_s, tenants=100)
    await add_messages(connection, "task ", starts, due_at_s, tenants=100, queue="pay")
    number = await connection.fetchval("SELECT number FROM perdure.queues")
    await add_heads(connection, "queued ", starts, version=0, message_at_s=due_at_s, queue="slow", limited=number)
    await connection.execute("VACUUM ANALYZE")
    await connection.execute("CREATE TABLE limit_of_server (number bigserial PRIMARY KEY, row text)")
    await connection.close()


async def measure(url: str, parked: int, starts: int, claims: int) -> dict[str, list[float]]:
    """Fills the database, and returns how long calls took, in seconds."""
    store = PostgresStore(url)
    await store.renew("one", 3_600)
    await store.limit("slow", QueueLimits(1_000_000))
    await filled(url, parked, starts)
    bare = await asyncpg.connect(url)
    programs, queues = frozenset((PROGRAM,)), frozenset(("pay",))
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "a one-row commit": lambda: bare.execute("INSERT INTO limit_of_server (row) VALUES (repeat('x', 140))"),
        "a claim of 100 tasks": lambda: store.claim(Claim(holder="one", epoch=1, queues=queues, limit=LIMIT)),
        "a claim that gets nothing": lambda: store.claim(Claim(holder="one", epoch=1, programs=frozenset(("unknown",)), limit=LIMIT)),
        "a renewal": lambda: store.renew("one", 3_600),
    }
    times_s: dict[str, list[float]] = {}
    await measure_by_turns(
        calls | {"a claim of 100, one queue of several limited": lambda: store.claim(Claim(holder="one", epoch=1, programs=programs))}, claims, times_s
    )
    connection = await asyncpg.connect(url)
    await connection.execute("UPDATE perdure.heads SET wake_at_s = NULL, mail_at_s = NULL WHERE limited > 0 AND holder IS NULL")
    await connection.execute("VACUUM")
    await connection.close()
    await store.limit("slow", None)
    await measure_by_turns(
        {"a one-row commit": calls["a one-row commit"], "a claim of 100": lambda: store.claim(Claim(holder="one", epoch=1, programs=programs))}, claims, times_s
    )
    await bare.close()
    await store.close()
    return times_s


async def measure_by_turns(calls: dict[str, Callable[[], Awaitable[object]]], rounds: int, times_s: dict[str, list[float]]) -> None:
    """Makes the calls by turns. The first few of each are not counted: they make the plans."""
    for name, call in calls.items():
        for _ in range(3):
            await call()
        times_s.setdefault(name, [])
    for _ in range(rounds):
        for name, call in calls.items():
            await timed(call, times_s[name])


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description="Measure claims on Postgres.")
    parser.add_argument("--parked", type=int, default=1_000_000)
    parser.add_argument("--starts", type=int, default=100_000)
    parser.add_argument("--claims", type=int, default=200)
    given = parser.parse_args()
    with postgres(**SETTINGS) as server:
        times_s = asyncio.run(measure(server.url, given.parked, given.starts, given.claims))
    print(f"Postgres {server.version}, synchronous_commit=on; {given.parked:,} parked executions, {given.starts:,} waiting starts of 100 tenants")
    for name, its in times_s.items():
        cuts = quantiles(its, n=100)
        print(f"{name:45} p50 {1e3 * cuts[49]:7.2f} ms   p99 {1e3 * cuts[98]:7.2f} ms   of {len(its)}")


if __name__ == "__main__":
    main()
