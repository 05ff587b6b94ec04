"""What it takes to look at one execution of many steps from a new process: its summary, its status, its status again, and its steps. The log is written as an
engine writes it for steps one after the other, on a file of SQLite.

    python -m bench.looking [HOW MANY STEPS]
"""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from perdure.core import events as e
from perdure.core import log_format, values
from perdure.core.operations import CallOperation, ReceiveOperation, Success
from perdure.core.paths import Key
from perdure.core.program import program_name
from perdure.stores.protocol import Commit
from perdure.stores.sqlite.store import SqliteStore
from perdure.sync_client import AsyncClient, AsyncHandle

STEPS = 100_000
ROUNDS = 5
AT_ONCE = 1_000
KEY = Key("default", "long", "1")


async def written(url_file: Path, steps: int) -> None:
    """Write an execution that has done so many steps, and waits for a message."""
    store = SqliteStore(url_file)
    epoch = (await store.store_time()).epoch
    call, result = CallOperation("work", values.encode(([7], {}), "args")), Success(values.encode(7, "result"))
    at_s, version = 1.0e9, 0
    rows: list[list[e.Event]] = [[e.StartedEvent(1, at_s), e.OpenedEvent((("work", 1),), call, "engine")]]
    rows += [[e.SettledEvent((("work", number),), result, at_s + number), e.OpenedEvent((("work", number + 1),), call, "engine")] for number in range(1, steps)]
    rows += [[e.SettledEvent((("work", steps),), result, at_s + steps), e.OpenedEvent((("listen", 1),), ReceiveOperation(("go",)))]]
    for first in range(0, len(rows), AT_ONCE):
        changes: list[Commit] = []
        for row in rows[first : first + AT_ONCE]:
            change = Commit(
                key=KEY,
                epoch=epoch,
                holder="",
                version=version,
                program=program_name("long", 1),
                root=KEY,
                creates=version == 0,
                row=log_format.encode_row(row),
                count=len(row),
                status="waiting",
                release=True,
            )
            version += len(row)
            changes.append(change)
        _ = await store.commit(changes)
    await store.close()


async def seconds(url_file: Path) -> list[float]:
    """How long each look takes, of a client that has seen nothing."""
    async with AsyncClient(f"sqlite:///{url_file}") as client:
        handle: AsyncHandle[Any] = await client.get("1", "long")
        looks: list[Callable[[], Awaitable[Any]]] = [handle.summary, handle.status, handle.status, handle.steps]
        taken: list[float] = []
        for look in looks:
            began_s = time.perf_counter()
            _ = await look()
            taken.append(time.perf_counter() - began_s)
        return taken


def main() -> None:
    """Measure and print."""
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else STEPS
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as place:
        file = Path(place) / "bench.db"
        asyncio.run(written(file, steps))
        rounds = [asyncio.run(seconds(file)) for _ in range(ROUNDS)]
    print(f"one execution of {steps:,} steps, median of {ROUNDS} clients; Python {sys.version.split()[0]}")
    for name, its in zip(("summary", "status", "status again", "steps"), zip(*rounds, strict=True), strict=True):
        print(f"  {name:14} {1000 * statistics.median(its):9,.1f} ms")


if __name__ == "__main__":
    main()
