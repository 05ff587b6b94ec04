"""How soon 1,000 timers that are due at one instant have had their effect, beside 1,000 executions that are ready at one instant.

The timers are measured once while the engine has their executions in memory, and once when it has to read them again. On a file with synchronous=FULL.

    python -m bench.timers [HOW MANY]
"""

import asyncio
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from perdure import Context, workflow
from perdure.runtime.engine import Engine
from perdure.stores.sqlite.store import SqliteStore
from perdure.sync_client import AsyncClient

TIMERS = 1_000
ROUNDS = 3
AHEAD_S = 3.0
"""How long after they are begun the timers are due, and so much more for each, that all of them wait by then."""
AHEAD_EACH_S = 0.004


@workflow
async def at_once(ctx: Context) -> None:
    return None


@workflow
async def timed(ctx: Context, until: datetime) -> None:
    await ctx.sleep_until(until)


async def ready(file: Path, count: int) -> list[float]:
    """The seconds from the start of an engine to the end of each of so many executions that are ready."""
    store = SqliteStore(file)
    async with AsyncClient(store) as client:
        _ = await asyncio.gather(*(client.start(at_once.with_(id=str(number))) for number in range(count)))
        began_s = time.time()
        return await ended(store, client, began_s, 60.0)


async def waiting(file: Path, count: int, idle_s: float) -> list[float]:
    """The seconds from when they are due to the end of each of so many executions, which an engine keeps in memory for `idle_s`."""
    store = SqliteStore(file)
    async with AsyncClient(store) as client:
        due = datetime.now(UTC) + timedelta(seconds=AHEAD_S + count * AHEAD_EACH_S)
        _ = await asyncio.gather(*(client.start(timed.with_(id=str(number)), due) for number in range(count)))
        return await ended(store, client, due.timestamp(), idle_s)


async def ended(store: SqliteStore, client: AsyncClient, since_s: float, idle_s: float) -> list[float]:
    """How long after `since_s` each ended by the log, with an engine that runs until then."""
    engine = Engine(store, [at_once.code, timed.code], idle_s=idle_s)
    running = asyncio.create_task(engine.run())
    while await client.list(status=("pending", "running", "waiting"), limit=1):  # noqa: ASYNC110  # looking seldom costs the engine least
        await asyncio.sleep(0.2)
    engine.stop()
    await running
    found = [one.ended_at_s - since_s for one in await client.list(limit=1_000_000) if one.ended_at_s is not None]
    await store.close()
    return sorted(found)


def main() -> None:
    """Measure and print."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else TIMERS
    print(f"{count:,} executions, median of {ROUNDS} rounds; Python {sys.version.split()[0]}")
    sides = {"ready": None, "timers, in memory": 60.0, "timers, read again": 0.0}
    for name, idle_s in sides.items():
        rounds = list[list[float]]()
        for _ in range(ROUNDS):
            with tempfile.TemporaryDirectory(dir=Path.cwd()) as place:
                file = Path(place) / "bench.db"
                rounds.append(asyncio.run(ready(file, count) if idle_s is None else waiting(file, count, idle_s)))
        first, half, last = (statistics.median(one[at] for one in rounds) for at in (0, count // 2, -1))
        print(f"  {name:20} first {1000 * first:7,.0f} ms  half {1000 * half:7,.0f} ms  all {1000 * last:7,.0f} ms")


if __name__ == "__main__":
    main()
